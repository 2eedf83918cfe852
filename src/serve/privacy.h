/* Keeps a daemon's memory private: it holds the keys of the daemon's certificate and of object
 * stores.
 *
 * Flow     privacy_begin() comes first in main(), before any file is read.
 * Shapes   from then on the kernel writes no core of the process, for any core_pattern and limit of
 *          cores. Only root's processes can trace it or read its memory; other processes of the
 *          daemon's own user cannot. Programs that it starts are not
 *          covered: a worker is closed to its user from the change of user on
 *          (src/dest/s3/README.md).
 * Errors   none: every kernel of Linux can do this. A failed CHECK leaves its line and the lines of
 *          the log before it, but no core.
 * Absent   madvise(MADV_DONTDUMP) of single pages: libcrypto copies keys to unknown places.
 */
#ifndef CKPT_SERVE_PRIVACY_H
#define CKPT_SERVE_PRIVACY_H

void privacy_begin(void);

#endif
