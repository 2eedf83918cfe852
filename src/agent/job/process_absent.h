/* The part of process.h that speaks while nothing of the job runs: a start that is awaited, one that failed, and an end that is told late.
 *
 * Flow     process_restart_await() when another start was told; process_restart_poll() by the timer; process_woken_absent() when ckpt-run says
 *          that it has left its note.
 */
#ifndef CKPT_AGENT_PROCESS_ABSENT_H
#define CKPT_AGENT_PROCESS_ABSENT_H

#include <stdbool.h>

struct allocation;
struct end_note;

/* Of the life that is known here: as it was told, or, for "", as it lies in the work folder. */
bool process_note_find(const struct allocation *allocation, const char *told,
                       struct end_note *ret_note);
void process_restart_await(struct allocation *allocation);
void process_restart_poll(struct allocation *allocation);
void process_woken_absent(struct allocation *allocation, const char *told);

#endif
