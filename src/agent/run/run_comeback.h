/* How long ckpt-run stays for the cluster to restart its allocation.
 *
 * Flow     run_comeback_ask() when the run of the allocation has ended: the agent answers whether
 *          the cluster restarts it. run_comeback_told() with that answer, for so long as it says.
 *          run_comeback_stop() when a run begins. over() when none has begun in time,
 *          which is said.
 * States   NONE ─ ask ─► ASKED ─ told ─► TOLD; NONE again by stop. A ckpt-run that was started
 *          before the restart goes from NONE to TOLD.
 * Units    milliseconds.
 * Source   V-001, S3-047.
 */
#ifndef CKPT_AGENT_RUN_COMEBACK_H
#define CKPT_AGENT_RUN_COMEBACK_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum {
    COMEBACK_ANSWER_MS = 600000, /* while nobody says whether the cluster restarts the allocation */
    COMEBACK_FAILED_MS = 5000,   /* the same, of an application that ended by itself */
    COMEBACK_BATCH_MS = 120000   /* within a scheduler's job, whose nodes are held meanwhile */
};

/* endless (--stay): over() never comes. */
void run_comeback_open(uv_loop_t *loop, bool endless, void (*over)(void));
void run_comeback_ask(bool by_cluster); /* it had ended the run */
/* Only the first answer counts: the wait does not begin anew with each. */
void run_comeback_told(uint64_t restart_wait_ms);
/* The cluster's word of what ended first and took the others along, as of waitpid(2); 0: none. */
void run_comeback_cause(uint32_t wait_status);
/* The status to leave with when no run follows: that one, else the own. */
int run_comeback_status(int own_wait_status);
void run_comeback_stop(void);
/* ASKED or TOLD. */
bool run_comeback_wanted(void);

#endif
