/* Writes a backup now and then to backups.directory, and keeps the newest ones.
 *
 * Flow     the leader: BACKUP_SCHEDULE_FIRST_MS after it began to lead (or one interval, when that
 *          is shorter), then every interval: backup_take() makes a file beside the log, a worker
 *          process copies it to the directory, reads it back and removes the oldest. A failure is
 *          tried again after a quarter of the interval, at most BACKUP_SCHEDULE_RETRY_MS.
 * Shapes   one at a time. Only the leader writes: one series in a shared directory, and no load on
 *          the others; in local directories each host holds what was written while its member led.
 * Units    milliseconds, bytes.
 * Errors   a warning in log and status, ckpt_backups_total{result="failed"}, and the age of the
 *          last good one grows. Nothing else waits for it: a full or hung directory costs the
 *          cluster nothing.
 */
#ifndef CKPT_BROKER_BACKUP_SCHEDULE_H
#define CKPT_BROKER_BACKUP_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct broker;
struct backup_schedule;

enum {
    BACKUP_SCHEDULE_FIRST_MS = 60000,
    BACKUP_SCHEDULE_RETRY_MS = 300000,
    BACKUP_SCHEDULE_DEADLINE_MS = 1800000, /* of the worker */
};

/* NULL when no directory is configured. Needs broker->disk, broker->metrics and the replica. Freed
 * after the replica was closed; a worker may outlive it. */
struct backup_schedule *backup_schedule_new(struct broker *broker);
void backup_schedule_free(struct backup_schedule *schedule);
/* Restores the last backup in memory, in a process of its own (backup_verifier.h). Where this
 * leader has written none yet, it writes one first. done() comes once, failure NULL: it restores.
 * False: none is configured, this member does not lead, or one is asked for already. schedule NULL
 * allowed. */
typedef void backup_restored_fn(void *data, const char *failure);
bool backup_schedule_restore(struct backup_schedule *schedule, backup_restored_fn *done,
                             void *data);
/* Why the last one failed, NULL when it did not; ret_since_ms: wall clock of the last good one of
 * this member, 0: none. */
const char *backup_schedule_failure(const struct backup_schedule *schedule, uint64_t *ret_since_ms);

#endif
