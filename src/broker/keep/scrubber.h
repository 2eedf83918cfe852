/* Duty of the leader: has complete checkpoints read again before somebody needs one.
 *
 * Flow     every SCRUBBER_INTERVAL_MS fsm_verify_due() of a slice of the checkpoints ->
 *          `ckpt-worker verify` for one part after the other -> CheckpointsVerified. What this
 *          member may not read, or has not mounted, the state gives to a node (fsm/job/verify.c).
 * Shapes   one worker at a time, at the policy's scrub_bytes_per_s; at most SCRUBBER_BATCH_MAX
 *          checkpoints per look, and no look while nodes read SCRUBBER_GIVEN_MAX. A target that
 *          this member cannot read is left to the nodes for SCRUBBER_REFUSED_MS.
 * Errors   a worker that passes its deadline, or cannot be killed, says nothing of the data: the
 *          checkpoint is tried again in an hour. Reading twice is harmless, so a leader that dies
 *          in between costs nothing.
 * Units    milliseconds of the monotonic clock.
 */
#ifndef CKPT_BROKER_SCRUBBER_H
#define CKPT_BROKER_SCRUBBER_H

#include "fsm/limits.h"

struct broker;
struct scrubber;

enum {
    SCRUBBER_INTERVAL_MS = 1000,
    SCRUBBER_VISITS = 16384, /* records per look: about a millisecond */
    SCRUBBER_BATCH_MAX = 16,
    SCRUBBER_GIVEN_MAX = 16,
    SCRUBBER_REFUSED_MS = 3600000
};

/* On every member, after broker->replica; it rests until this member leads, and needs broker->loop
 * for its workers. Freed after the replica was closed; a worker may outlive it. */
struct scrubber *scrubber_new(struct broker *broker);
void scrubber_free(struct scrubber *scrubber);

#endif
