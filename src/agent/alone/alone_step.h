/* The orders of one job that has no cluster (ckpt-run --standalone), in the place of a leader's.
 * They say which run may be here, when it is asked for a checkpoint, from which one it begins, and
 * which ones go. Pure.
 *
 * Flow     alone_begin(), alone_know() for each checkpoint that lies there. Then alone_take() for
 *          each report of the agent and alone_turn() when alone_due_ms() has come; after each of
 *          them the order set of alone_orders() is the agent's new one. alone_point() answers from
 *          where the application begins.
 *
 *   WAITING --the period is over, or somebody asks--> ASKED --verified--> WAITING
 *      ^                                                |
 *      |<-----------the third attempt failed------------|--failed--> PAUSED --time--> ASKED
 *
 * Shapes   one job of one part, one checkpoint at a time, ALONE_CHECKPOINTS_MAX that are known.
 *          Orders are derived from this state, as everywhere, and nothing here is stored. The
 *          folder has all that must survive: the checkpoints themselves, and which of them were
 *          found damaged. An epoch is one life of the agent, so that ids only grow. The one
 *          that the application began from stays while it runs, beside those that are kept: the
 *          newer ones may be damaged, which their MANIFESTs do not tell.
 * Units    milliseconds of a monotonic clock; taken_ms is wall time.
 * Source   S4-007.
 */
#ifndef CKPT_AGENT_ALONE_STEP_H
#define CKPT_AGENT_ALONE_STEP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/v1/agent.pb-c.h"
#include "ckpt/v1/broker.pb-c.h"
#include "src/base/id.h"

enum {
    ALONE_CHECKPOINTS_MAX = 1024,
    ALONE_KEEP_MAX = 100,
    ALONE_REMOVALS_MAX = 8, /* at once */
    ALONE_ATTEMPTS_MAX = 3,
    ALONE_PAUSE_MS = 10000,    /* before the second attempt; twice that before the third */
    ALONE_ANSWER_MS = 3600000, /* an application has so long to save, or a period if that is more */
    ALONE_GRACE_MS = 30000,
    ALONE_SHA256_BYTES = 65,
    ALONE_PATH_BYTES = PATH_MAX + 64
};

/* Below the folder that the user names, as a target of a cluster has it: ALLOCATION/checkpoints. */
#define ALONE_PLACE "standalone/checkpoints"
/* The one node of the one job. */
#define ALONE_NODE "standalone"

struct alone_settings {
    const char *allocation_id;
    const char *folder; /* the user's, absolute */
    uint64_t every_ms;
    uint32_t keep;         /* from 1 to ALONE_KEEP_MAX */
    uint64_t cluster_mark; /* src/dest/mark.h */
};

struct alone_checkpoint {
    uint64_t id;
    uint64_t taken_ms;
    uint64_t size_bytes;
    char manifest_sha256[ALONE_SHA256_BYTES];
    char label[LABEL_MAX_BYTES + 1]; /* "": its ranks told none */
    bool damaged;
    bool given_up;     /* damaged: its last attempt failed, and what that has left goes */
    uint32_t removals; /* failed ones */
    bool rests;        /* no other removal before the next checkpoint */
};

enum alone_phase { ALONE_WAITING, ALONE_ASKED, ALONE_PAUSED };

/* The checkpoint that is under way; id 0: WAITING. */
struct alone_attempt {
    uint64_t id;
    uint32_t number;
    uint64_t asked_ms; /* the first attempt */
    bool extended;
    bool meets; /* its ranks agree on a step */
    Ckpt__V1__BarrierPhase barrier;
    uint64_t agreed_step;
    uint64_t deferred_ms;
};

struct alone {
    struct alone_settings settings;
    uint64_t epoch, checkpoints_made, runs_made; /* of this epoch */
    uint64_t run;
    bool running;        /* an application of the run */
    bool over;           /* the run: the next one begins when a start is asked for */
    uint64_t began_from; /* running: this checkpoint; 0: from scratch */
    enum alone_phase phase;
    uint64_t due_ms; /* WAITING while it runs: the next checkpoint; PAUSED: the next attempt */
    struct alone_attempt attempt;
    uint64_t index; /* of the order set: each change gives the next one */
    size_t count;
    struct alone_checkpoint checkpoints[ALONE_CHECKPOINTS_MAX]; /* by rising id */
};

/* The run that the agent's journal has not ended (0: none), and whether something of it runs. */
struct alone_found {
    uint64_t run;
    bool running;
    uint64_t began_from;
};

void alone_begin(struct alone *alone, const struct alone_settings *settings, uint64_t epoch,
                 const struct alone_found *found, uint64_t now_ms);
/* One that lies there, whole as far as its MANIFEST tells. An attempt that was
 * given up goes out of memory first, then the oldest. */
void alone_know(struct alone *alone, const struct alone_checkpoint *checkpoint);

/* The agent's fact; wall_ms: at this moment. The checkpoint whose note is to be written: it is
 * complete, or was found to be damaged. NULL: none. */
const struct alone_checkpoint *alone_take(struct alone *alone, const Ckpt__V1__AgentReport *report,
                                          uint64_t now_ms, uint64_t wall_ms);
/* UINT64_MAX: nothing is due. */
uint64_t alone_due_ms(const struct alone *alone);
void alone_turn(struct alone *alone, uint64_t now_ms);
/* Somebody asks for a checkpoint now. 0: none runs, or *ret_active is under way. */
uint64_t alone_ask(struct alone *alone, uint64_t now_ms, uint64_t *ret_active);

/* The newest from which the application can begin; NULL: none. */
const struct alone_checkpoint *alone_newest(const struct alone *alone);
const char *alone_path(const struct alone *alone, uint64_t id, char path[ALONE_PATH_BYTES]);

/* Messages with all that they point to; valid until the next call with the same. */
struct alone_messages {
    Ckpt__V1__OrderSet set;
    Ckpt__V1__Order orders[1 + ALONE_REMOVALS_MAX], *order_pointers[1 + ALONE_REMOVALS_MAX];
    char paths[1 + ALONE_REMOVALS_MAX][ALONE_PATH_BYTES];
    Ckpt__V1__AllocationPart part, *part_pointer;
    Ckpt__V1__RestartPoint point;
    Ckpt__V1__BeginWithout without;
    Ckpt__V1__ShardInfo shard, *shard_pointer;
    char *node_pointer;
    uint64_t run;
    char all_path[ALONE_PATH_BYTES];
};
void alone_orders(const struct alone *alone, struct alone_messages *ret_messages);
/* Somebody wants to start: what was over begins anew, and the order set has changed then. Where all
 * checkpoints are damaged the point says so, and ckpt-run does not begin from scratch by itself. */
void alone_point(struct alone *alone, struct alone_messages *ret_messages);

#endif
