/* Backups of the replicated state: taking one, streaming it to an operator, writing one now and
 * then.
 *
 * Flow     backup_take(): (a linearizable read first, when wanted) -> header and state as it is
 *          then are written to a file of the data folder (raft/snap/export.h) -> taken() with the
 *          file, which the taker reads and closes. OperatorService/Backup streams it. The schedule
 *          hands it to a worker process, which copies it to backups.directory.
 * Shapes   the file holds one consistent state: the one at an applied index, between two entries.
 *          At most BACKUP_CALLS_MAX streams at a time.
 * Units    milliseconds, bytes.
 * Errors   the disk has no room (ERR_FULL), not the leader when linearizable (ERR_UNAVAILABLE), no
 *          state yet (ERR_EMPTY).
 * Absent   the format (src/backup/backup.h), restoring (offline.h).
 */
#ifndef CKPT_BROKER_BACKUP_H
#define CKPT_BROKER_BACKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/err.h"

struct broker;
struct backup;
struct backup_take;
struct export_call;

enum {
    BACKUP_CALLS_MAX = 4,
    BACKUP_FAILURE_LOG_MS = 10000,  /* between two lines about failures */
    BACKUP_PIECE_BYTES = 256 << 10, /* of one message */
    BACKUP_ROOM_BYTES = 32 << 20,   /* free on the data folder's disk beside twice the last one */
};

/* call: NULL with err. It is the caller's, to be closed by export_close(). */
typedef void backup_taken_fn(void *context, struct export_call *call, uint64_t size_bytes,
                             const struct err *err);
/* Never calls taken() before it returns. */
struct backup_take *backup_take(struct broker *broker, bool linearizable, backup_taken_fn *taken,
                                void *context);
/* Instead of taken(), which is not called any more. Allowed until taken() was called. */
void backup_take_cancel(struct backup_take *take); /* instead of taken() */

/* OperatorService/Backup, on every member: needs broker->rpc and broker->disk. Freed after the
 * server is freed, when no call is left. */
struct backup *backup_new(struct broker *broker);
void backup_free(struct backup *backup);

#endif
