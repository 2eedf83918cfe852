/* A node's own copy of what its job wrote: the work folder's files, moved aside with their MANIFEST
 * once they are verified at the destination. It has the form of a shard of the kind posix, so that
 * a restore reads it as one.
 *
 * Flow     put leaves the MANIFEST in a file (--manifest-to); retain_copy() moves the files and it
 *          to {folder}/{part}; restore reads that first (--copy), and the destination only when the
 *          copy is not exactly what the MANIFEST with the recorded hash says.
 * Shapes   a copy appears by one rename, so it is whole or not there; it belongs to the job's user,
 *          as all that is done here is done as that user.
 * Errors   ERR_FULL: less than keep_free_bytes would be left for the next checkpoint;
 *          ERR_NOT_FOUND: neither source nor copy is there.
 * Absent   fsync: what a power cut damages does not have the MANIFEST's hashes, and is not
 *          restored. Copies on other file systems than the work folder's: a move is free, a copy
 *          would cost as much as the checkpoint.
 */
#ifndef CKPT_DEST_RETAIN_H
#define CKPT_DEST_RETAIN_H

#include <stdint.h>

#include "src/base/err.h"

struct retain_request {
    const char *source;   /* folder of the files */
    const char *manifest; /* file beside it, that put left */
    const char *folder;   /* of the copy; made with the one above it */
    const char *part;     /* the copy's name in it */
    uint64_t keep_free_bytes;
};

/* Moves the files and their MANIFEST to {folder}/{part}, as the user that this process is. May be
 * killed at any system call and run again: what is there already is success, and a MANIFEST that
 * was moved before is found inside the source. 0; or -1 with err: then the source may have its
 * MANIFEST inside, and is to be removed with it. */
int retain_copy(const struct retain_request *request, struct err *err);
/* What a user without privileges may still write in the folder's file system. */
int retain_free_bytes(const char *folder, uint64_t *ret_bytes, struct err *err);
/* Into a new file of mode 0600 in the place of `path`: a link that lies there is removed, not
 * followed. Nothing is left of it after a failure. */
int retain_write(const char *path, const void *bytes, size_t length, struct err *err);

#endif
