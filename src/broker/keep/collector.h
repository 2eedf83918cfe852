/* Duty of the leader: removes the folders of checkpoints that retention or failure made
 * superfluous.
 *
 * Flow     every COLLECTOR_INTERVAL_MS fsm_collectable() -> `ckpt-worker collect` for one folder
 *          after the other -> CheckpointsCollected, which says what was removed and what could
 *          not be. Removing a folder twice is harmless, so a leader that dies in between costs
 *          nothing.
 * Shapes   one worker at a time; at most COLLECTOR_BATCH_MAX ids per look.
 * Errors   a folder that this member may not remove, or that it does not mount, is given to a node
 *          by the state (fsm/job/removal.c). One that cannot be removed is kept with its reason,
 *          and given to a later look behind others (fsm/job/undeleted.c). A target that holds a
 *          worker up to its deadline is passed over for the rest of the look, and until a worker
 *          that cannot be killed is gone; ids of unavailable targets wait.
 * Source   D-004, I28, I29.
 * Units    milliseconds of the monotonic clock.
 */
#ifndef CKPT_BROKER_COLLECTOR_H
#define CKPT_BROKER_COLLECTOR_H

#include <stddef.h>

#include "fsm/limits.h"

struct broker;
struct collector;

enum {
    COLLECTOR_INTERVAL_MS = 10000,
    COLLECTOR_DEADLINE_MS = 600000,
    COLLECTOR_BATCH_MAX = FSM_COLLECTABLE_MAX
};

/* On every member, after broker->replica; it rests until this member leads, and needs broker->loop
 * for its workers. Freed after the replica was closed; a worker may outlive it. */
struct collector *collector_new(struct broker *broker);
void collector_free(struct collector *collector);

#endif
