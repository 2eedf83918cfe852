/* The stream of a backup from a member into an open file.
 *
 * Flow     a loop of its own: asks the leader (or, when an old state is fine, any member); a stream
 *          that breaks is begun again at the next member, from the file's beginning. The digest
 *          that the member sends is compared with what was received.
 * Errors   printed; the exit code is returned. What was written by then is worth nothing.
 */
#ifndef CKPT_CLI_BACKUP_FETCH_H
#define CKPT_CLI_BACKUP_FETCH_H

#include "src/cli/cli.h"

enum { BACKUP_FETCH_STALL_MS = 60000 }; /* without a byte */

/* fd is positioned at its beginning and is not synced. */
enum cli_exit backup_fetch(struct cli *cli, bool stale, int fd, const char *path);

#endif
