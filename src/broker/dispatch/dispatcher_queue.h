/* The order of those that wait for bandwidth, as the leader's last look left it: for people.
 *
 * Flow     each look at the waiting checkpoints ends with queue_note(); lists of checkpoints and
 *          targets ask queue_find() and queue_target(). Nothing is decided by it: the next look
 *          begins anew.
 * Shapes   one per dispatcher, at most as many places as a look takes.
 * Units    bytes, bytes per second; positions and waves from 1.
 * Source   waves as in src/eval/pace.h: a wave is full when three quarters of the budget, or the
 *          places where they are limited, are taken by those in front.
 * When     queue_note() after each look of the leader, queue_clear() when leadership ends or nobody
 *          waits. What it says is as old as the last look.
 */
#ifndef CKPT_BROKER_DISPATCHER_QUEUE_H
#define CKPT_BROKER_DISPATCHER_QUEUE_H

#include "fsm/limits.h"
#include "src/broker/dispatch/dispatcher_grants.h"

/* One that waits. */
struct queue_place {
    uint64_t checkpoint_id;
    uint32_t target;         /* its slot */
    uint32_t position, wave; /* at its target */
    uint64_t bytes_ahead;    /* of those in front that wait too */
    /* at which the target takes them: its budget, or what the parts that may be written at a time
     * can bring, as fast as this one's nodes */
    uint64_t bytes_per_s;
};

/* All that wait for one target; zeros: nobody does. */
struct queue_target {
    uint32_t waiting_count;
    uint32_t wave_count;         /* in which they would be granted one after the other */
    double price_gpu_s_per_byte; /* the best index of those that wait; 0: none */
};

/* The last look. Begins as zeros; queue_close() gives its memory back. */
struct grant_queue {
    struct queue_place *places; /* by id once sorted */
    size_t count, capacity;
    bool sorted;                                    /* queue_find() sorts when it is asked first */
    struct queue_target targets[FSM_TARGETS_MAX];   /* by slot */
    uint64_t injected_bytes_per_s[FSM_TARGETS_MAX]; /* by those of the last wave */
    uint64_t bytes[FSM_TARGETS_MAX];                /* likewise */
    uint64_t parts[FSM_TARGETS_MAX];                /* likewise */
};

/* Nobody waits. */
void queue_clear(struct grant_queue *queue);
/* The candidates in their order; those with a grant (in the same order) wait no more. */
void queue_note(struct grant_queue *queue, const struct grant_candidate *candidates, size_t count,
                const struct grant *grants, size_t granted, const struct grant_target *targets);
/* NULL: it does not wait, or came after the last look. */
const struct queue_place *queue_find(struct grant_queue *queue, uint64_t checkpoint_id);
void queue_close(struct grant_queue *queue);

#endif
