/* How long ckpt-run stays for the cluster to restart its allocation.
 *
 * Flow     run_comeback_ask() when the run of the allocation has ended: the agent answers whether
 *          the cluster restarts it. run_comeback_told() with that answer, for so long as it says.
 *          run_comeback_stop() when a run begins. over() when none has begun in time,
 *          which is said.
 *          run_comeback_leave() when none could begin any more: who ended first is asked, and
 *          over() comes when nobody says so.
 * States   NONE ─ ask ─► ASKED ─ told ─► TOLD; NONE again by stop. A ckpt-run that was started
 *          before the restart goes from NONE to TOLD. NONE ─ finished ─► FINISHED when the part has
 *          ended with status 0 and others of its allocation run on: one that fails takes it along
 *          into the restart. It has no time limit but for an agent that is away. NONE ─ leave ─►
 *          LEAVES.
 * Units    milliseconds.
 * Source   V-001, S3-047.
 */
#ifndef CKPT_AGENT_RUN_COMEBACK_H
#define CKPT_AGENT_RUN_COMEBACK_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "ckpt/v1/app.pb-c.h"

enum {
    COMEBACK_ANSWER_MS = 600000, /* while nobody says whether the cluster restarts the allocation */
    COMEBACK_FAILED_MS = 5000,   /* the same, of an application that ended by itself */
    COMEBACK_AWAY_MS = 60000,    /* for the agent, of a part that has finished */
    COMEBACK_BATCH_MS = 120000   /* within a scheduler's job, whose nodes are held meanwhile */
};

/* endless (--stay): over() never comes. */
void run_comeback_open(uv_loop_t *loop, bool endless, void (*over)(void));
void run_comeback_ask(bool by_cluster); /* it had ended the run */
void run_comeback_leave(void);
bool run_comeback_leaves(void); /* LEAVES */
/* True: so it is kept, from now on; only in this state is_finished(). */
bool run_comeback_finished(void);
bool run_comeback_is_finished(void);
/* In that state: the agent is away, or is there. */
void run_comeback_reaches(bool reached);
/* Only the first answer counts: the wait does not begin anew with each. */
void run_comeback_told(uint64_t restart_wait_ms);
/* The cluster's word of what ended first and took the others along, as of waitpid(2); 0: none. */
void run_comeback_cause(uint32_t wait_status);
/* The status to leave with when no run follows: that one, else the own. */
int run_comeback_status(int own_wait_status);
/* The agent's answer: a run begins, and whether its part is kept when that has finished; run 0: it
 * has begun before. */
void run_comeback_stop(uint64_t run, bool may_finish);
/* The run has ended while it waits; no run follows, and why: where all is done, nothing is said. */
void run_comeback_say_over(const char *reason);
void run_comeback_say_why(const char *why, bool failed);
/* Any state but NONE. */
bool run_comeback_wanted(void);
/* For a hello; endless: --stay. */
Ckpt__V1__AttachWait run_comeback_word(bool endless);

#endif
