/* Duty of the leader: finds out whether the storage targets can be written, and proposes changes of
 * their availability.
 *
 * Flow     every storage_watch.interval_ms one `ckpt-worker probe` per POSIX target; its outcome
 *          goes through hysteresis (failures_down failures in a row, successes_up successes in a
 *          row); a verdict that differs from the replicated state becomes a TargetAvailability
 *          command.
 * Shapes   one probe per target at a time. A probe that hangs in the kernel counts as a failure
 *          every interval and is not repeated until no worker of this process is left hanging.
 * Units    milliseconds.
 * Errors   a probe that cannot be started counts as a failure; the text is kept for Status.
 * Absent   targets of kind S3 (never probed: their availability stays as replicated); bandwidth
 *          measurement.
 * Source   S1-060, S1-062, S1-073, S1-074, F-011.
 */
#ifndef CKPT_BROKER_STORAGE_WATCH_H
#define CKPT_BROKER_STORAGE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct broker;
struct storage_watch;

struct storage_watch *storage_watch_new(struct broker *broker);
void storage_watch_free(struct storage_watch *watch);

/* What the last probe by this member came to; false: none yet. The text lives until the next probe
 * ends. */
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
