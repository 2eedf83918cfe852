/* A checkpoint that ckpt-run asks the cluster for, since the program has saved by itself: as
 * `ckpt-run hint` does.
 *
 * Flow     wish_begin() with each such save; wish_step() now and then, until the save has gone to a
 *          question: wish_end(). wish_ended() takes the end of the process that asks.
 * Shapes   one at a time. A process of its own asks, so that who waits for a program goes on. While
 *          no agent or no leader answers, it asks again, each time later, up to WISH_AGAIN_MAX_MS.
 * Errors   a refusal is said once for each save.
 */
#ifndef CKPT_AGENT_RUN_WISH_H
#define CKPT_AGENT_RUN_WISH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { WISH_AGAIN_MS = 500, WISH_AGAIN_MAX_MS = 10000 };

void wish_begin(void);
void wish_end(void);
bool wish_wanted(void);
/* now_ms: monotonic. */
void wish_step(uint64_t now_ms);
/* False: the process is none that asks. */
bool wish_ended(pid_t pid, int wait_status, uint64_t now_ms);

#endif
