/* The memory that a simulated application shares with its agent (src/app/ckptshm.h), as one that
 * calls itself rank 0: what ckpt-run does to make it, and what the application reads and writes.
 *
 * Shapes   a file of the machine's; gone with its power.
 */
#ifndef CKPT_TESTS_SIM_APPLICATION_REGION_H
#define CKPT_TESTS_SIM_APPLICATION_REGION_H

#include "tests/sim/application_files.h"

/* path "": none is wanted. */
void application_region_make(struct agent_machine *machine, const char *path);
/* Takes its slot. */
void application_region_open(struct agent_machine *machine, const char *path);
/* The request word and what it asks for; 0: nothing is requested. */
uint32_t application_region_asked(struct agent_machine *machine, const char *path,
                                  struct application_request *ret_request);
/* Says done for that word, and clears the request if it still is that one. */
void application_region_done(struct agent_machine *machine, const char *path, uint32_t word,
                             const struct application_done *done);
/* Only says done, for that word. */
void application_region_stale(struct agent_machine *machine, const char *path, uint32_t word);

#endif
