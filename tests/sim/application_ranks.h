/* The ranks of a simulated application that has several on its node: processes that its launcher,
 * the application's own process, has started, each with a part of the state, its own answer to a
 * request, and its own end.
 *
 * Flow     application_ranks_start() when the program begins; application_ranks_catch() once they
 *          have their handlers, or come to the loop in which they speak to their agent
 *          (application_line.h); each answers by its own sentinel, `done.NUMBER`. One that dies is
 *          told to the application, whose launcher ends the others a little later.
 * Shapes   they outlive a launcher that is killed, until somebody kills them; what they are kept in
 *          goes with the last of them. Files are "state.NUMBER" and "again.NUMBER".
 */
#ifndef CKPT_TESTS_SIM_APPLICATION_RANKS_H
#define CKPT_TESTS_SIM_APPLICATION_RANKS_H

#include "tests/sim/application.h"

struct application_ranks;

struct application_ranks *application_ranks_new(struct application *application,
                                                const struct application_setup *setup,
                                                const struct clock_ops *clock);
void application_ranks_start(struct application_ranks *ranks,
                             const struct application_point *point);
void application_ranks_catch(struct application_ranks *ranks);
/* What is in hand is given up. */
void application_ranks_calm(struct application_ranks *ranks);
/* One of them computes. */
bool application_ranks_move(const struct application_ranks *ranks);
/* That one is asked on a stream. */
bool application_ranks_told(const struct application_ranks *ranks, unsigned rank);
/* Those that live end. */
void application_ranks_end(struct application_ranks *ranks, int wait_status);
/* The launcher is dead. NULL allowed. */
void application_ranks_leave(struct application_ranks *ranks);

#endif
