/* Duty of the leader: finds out whether the storage targets can be written, and proposes changes of
 * their availability.
 *
 * Flow     every storage_watch.interval_ms one `ckpt-worker probe` per target; its outcome
 *          goes through hysteresis (failures_down failures in a row, successes_up successes in a
 *          row); a verdict that differs from the replicated state becomes a TargetAvailability
 *          command. What the target's storage system says of itself (headroom.h) is evidence of its
 *          own beside the probes': either declares it down, and all that speak must agree that it
 *          is up. One that falls silent is no evidence.
 * Shapes   one probe per target at a time. A probe that hangs in the kernel counts as a failure
 *          every interval and is not repeated until no worker of this process is left hanging.
 * Units    milliseconds.
 * Errors   a probe that cannot be started counts as a failure; the text is kept for Status.
 * Source   S1-060, S1-061, S1-062, S1-073, S1-074, F-011.
 */
#ifndef CKPT_BROKER_STORAGE_WATCH_H
#define CKPT_BROKER_STORAGE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct broker;
struct storage_watch;

/* On every member, after broker->replica; it rests until this member leads, and needs broker->loop
 * for its workers. Freed after the replica was closed. */
struct storage_watch *storage_watch_new(struct broker *broker);
void storage_watch_free(struct storage_watch *watch);

/* What the target's storage system says: trouble "": it is well. untold: it says nothing any more.
 * Slots of no target and a NULL watch are allowed. */
void storage_watch_told(struct storage_watch *watch, uint32_t slot, const char *trouble);
void storage_watch_untold(struct storage_watch *watch, uint32_t slot);
/* Proposes what the target's storage system leaves for checkpoints; 0: not measured any more.
 * false: not now, as another change of it is under way. */
bool storage_watch_measured(struct storage_watch *watch, uint32_t slot, uint64_t bytes_per_s);

/* What the last probe by this member came to, or what the storage system says is wrong; false:
 * neither yet. The text lives until the next one. */
bool storage_watch_last_probe(const struct storage_watch *watch, const char *target_id,
                              const char **ret_detail, uint64_t *ret_duration_ms);

/* Hysteresis, the pure part. Evidence starts over with each leader; the state stays as replicated
 * until there is a verdict. */
struct hysteresis {
    uint64_t failures;  /* in a row */
    uint64_t successes; /* in a row */
};
enum hysteresis_verdict { HYSTERESIS_KEEP, HYSTERESIS_DOWN, HYSTERESIS_UP };
/* Takes one sample. The verdict repeats with every further sample for as long as `available`
 * contradicts the evidence. */
enum hysteresis_verdict hysteresis_sample(struct hysteresis *hysteresis, bool success,
                                          bool available, uint64_t failures_down,
                                          uint64_t successes_up);

#endif
