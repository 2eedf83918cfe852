/* One process per folder: an exclusive lock on an open file.
 *
 * Flow     at start, before the loop runs; the lock ends with the last copy of the descriptor.
 * Errors   -1 with errno EWOULDBLOCK: another process holds it.
 */
#ifndef CKPT_BASE_LOCKFILE_H
#define CKPT_BASE_LOCKFILE_H

/* Waits up to a second: a daemon that is killed while it starts a worker leaves a child that holds
 * a copy of the lock until its exec. */
int lockfile_take(int fd);

#endif
