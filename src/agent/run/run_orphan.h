/* An application that has neither this program nor a keeper as its parent: nobody will know how it
 * ends, and that it has ended is looked for.
 *
 * Flow     run_orphan_watch() once, when its keeper is lost; ended() comes once, from the loop.
 */
#ifndef CKPT_AGENT_RUN_ORPHAN_H
#define CKPT_AGENT_RUN_ORPHAN_H

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

void run_orphan_watch(uv_loop_t *loop, pid_t pid, uint64_t start_ticks, void (*ended)(void));

#endif
