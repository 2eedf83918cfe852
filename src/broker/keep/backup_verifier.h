/* Restores a backup in memory now and then, in a process of its own: `ckptd --verify-backup FILE`.
 *
 * Flow     backup_schedule.c, after it has written a file and when the last good verification is
 *          backups.verify_interval ago, calls backup_verifier_start(). done() comes once per start.
 * Shapes   one at a time. The process is this program as it runs, so a file is judged by the build
 *          that would restore it. It ends with the daemon's own group, or at the deadline.
 * Errors   done() with the last line that the process said, or why there was none.
 */
#ifndef CKPT_BROKER_BACKUP_VERIFIER_H
#define CKPT_BROKER_BACKUP_VERIFIER_H

#include <stdbool.h>
#include <uv.h>

struct backup_verifier;

enum { BACKUP_VERIFIER_DEADLINE_MS = 1800000, BACKUP_VERIFIER_TEXT_BYTES = 256 };

/* failure NULL: the file restores. */
typedef void backup_verifier_done_fn(void *data, const char *failure);

struct backup_verifier *backup_verifier_new(uv_loop_t *loop, backup_verifier_done_fn *done,
                                            void *data);
/* NULL allowed. A process that runs is killed, and done() does not come. */
void backup_verifier_free(struct backup_verifier *verify);
/* False: one runs. */
bool backup_verifier_start(struct backup_verifier *verify, const char *path);

#endif
