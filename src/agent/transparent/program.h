/* Programs of others that save applications, and how a short one is run.
 *
 * Errors   program_find: -1, there is none. program_run: -1 with err, when it could not be run or
 *          went on for too long.
 */
#ifndef CKPT_AGENT_PROGRAM_H
#define CKPT_AGENT_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"

/* By PATH, else in the folders for administrators, which users' PATH often leaves out. */
int program_find(const char *name, char *ret_path, size_t size);
/* Runs it with both outputs in `ret_output`, as much as fits; one that goes on for longer than
 * `limit_ms` is killed. Not for one that holds processes of others. */
int program_run(const char *const *line, uint64_t limit_ms, char *ret_output, size_t size,
                int *ret_wait_status, struct err *err);
/* The first number with points in a text; "": there is none. */
void program_version(const char *text, char *ret_version, size_t size);

#endif
