/* What a daemon has in memory stays there: the keys of its certificate and of object stores.
 *
 * Flow     privacy_begin() comes first in main(), before any file is read.
 * Shapes   from then on the kernel writes no core of the process, whatever core_pattern and the
 *          limit of cores say, and none but root's processes trace it or read its memory, also
 *          those of the daemon's own user. Programs that it starts begin anew in this: a worker is
 *          closed to its user when it has become that one (src/dest/s3/README.md).
 * Errors   none: what every kernel of Linux can. What a failed CHECK has to tell is in its line and
 *          in the lines of the log before it.
 * Absent   madvise(MADV_DONTDUMP) of single pages: libcrypto makes copies of keys that nobody
 *          knows the places of.
 */
#ifndef CKPT_SERVE_PRIVACY_H
#define CKPT_SERVE_PRIVACY_H

void privacy_begin(void);

#endif
