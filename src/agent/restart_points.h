/* Where an application starts from: asks the leader for the newest complete checkpoint and brings its shard here, verified.
 *
 * Flow     restore_start() -> BrokerService/GetRestartPoint (repeated until a leader answers) -> worker `verify` for the other nodes'
 *          shards -> worker `restore` -> done(); a shard that does not verify or is not there falls back to the checkpoint before
 *          it, on every node of the job alike.
 * Shapes   one restore per attached ckpt-run; restore_cancel() when it goes away. One channel pair for all restores.
 * Errors   no leader, storage away: tried again for as long as ckpt-run waits, never "from scratch". (Whoever asked for that, and
 *          may, goes without an answer after a few seconds, in a life that is not known.) An allocation that the broker
 *          does not know, that has ended or that is not of this node is told by `error`, after a few seconds of patience.
 *          Of a job of more than 16 nodes each reads its own shard only, and none falls back: that is told by `error` too.
 * Source   I27, S1-091.
 */
#ifndef CKPT_AGENT_RESTART_POINTS_H
#define CKPT_AGENT_RESTART_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/agent/agent.h"

enum { ATTACH_NOTICE_BYTES = 512 };

struct restart_points;
struct restore;

struct restore_result {
    uint64_t checkpoint_id; /* 0: there is none, start from scratch */
    const char *folder;     /* "" then */
    const char *notice;     /* which newer checkpoint was passed over, and why; "": none */
    const char *error;      /* "": none */
};
typedef void restore_done_fn(void *data, const struct restore_result *result);

/* Texts are copied. */
struct restore_ask {
    const char *allocation_id;
    const char *work_dir;
    struct machine_user user;
    bool from_scratch; /* nothing is brought */
    bool alone;        /* ... and a broker that does not answer is not waited for */
    /* For which life it would be started, by the state of that epoch; 0: a broker that does not know lives. The deadline is of its
     * walltime, now; NULL: none, or not known. Comes with each answer of a broker, so perhaps again. The restore must not be
     * cancelled from within. */
    void (*told)(void *data, uint64_t epoch, uint64_t life,
                 const Ckpt__V1__AllocationDeadline *deadline);
    restore_done_fn *done;
    void *data;
};

int restart_points_new(struct agent *agent, const char *brokers, struct restart_points **ret_points,
                       struct err *err);
void restart_points_free(struct restart_points *points);

struct restore *restore_start(struct restart_points *points, const struct restore_ask *ask);
void restore_cancel(struct restore *restore); /* NULL allowed; done does not come any more */

#endif
