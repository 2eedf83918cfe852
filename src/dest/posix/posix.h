/* Checkpoints on a mounted file system (NFS, VAST, Lustre, local). Every call here may block for ever and belongs into a
 * ckpt-worker process, never into a daemon.
 *
 * Flow     put      list the source; copy and hash into {path}/.{node}.tmp.{random}/, fsync each file; read everything
 *                   back; write MANIFEST; fsync folders bottom-up; rename to {path}/{node}; fsync {path}. A shard that
 *                   has its name is complete.
 *          verify   MANIFEST against its own hash, the folder's listing against MANIFEST, every file against its hash.
 *          restore  the same checks while copying into a temporary folder beside the target, then rename.
 *          collect  rename the checkpoint's folder away, remove it, then its parents that became empty.
 * Shapes   {prefix}/{tenant}/{project}/{allocation}/checkpoints/{checkpoint}/{node}/ with MANIFEST inside. Whose the folders
 *          are: place.h.
 * Units    bytes; bytes per second for the rate, 0 is unlimited.
 * Errors   ERR_UNAVAILABLE  the prefix is missing (an unmounted file system is never written under)
 *          ERR_NOT_FOUND    no such shard or source
 *          ERR_CORRUPT      a shard differs from its manifest
 *          ERR_EMPTY        the source holds no bytes
 *          ERR_REFUSED      a path outside the prefix, a symbolic link, a device
 *          ERR_FULL, ERR_IO no space; everything else
 * Absent   S3; parallel streams; resuming a half-copied shard (a retry copies again: after a failed fsync nothing old may
 *          be trusted).
 */
#ifndef CKPT_DEST_POSIX_H
#define CKPT_DEST_POSIX_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/err.h"
#include "src/dest/sha256.h"

struct posix_place {
    const char *
        prefix; /* absolute, must exist. NULL: `path` itself is trusted (verify, restore, abandon only) */
    const char *path; /* of the checkpoint, below prefix */
    const char *node; /* the shard's name; an id that does not begin with '.' */
    const char
        *manifest_sha256; /* verify, restore: the recorded hash of MANIFEST; NULL: any valid one */
};

struct posix_summary {
    uint64_t size_bytes;
    uint64_t file_count;
    char manifest_sha256[SHA256_HEX_BYTES]; /* what `sha256sum MANIFEST` prints */
    bool
        reused; /* put: the same shard was there; restore: the target already holds the same files */
};

/* An existing shard with the same contents that verifies is success; any other one is replaced. */
int posix_put(const struct posix_place *place, const char *source, uint64_t rate_bytes_per_s,
              struct posix_summary *ret_summary, struct err *err);
int posix_verify(const struct posix_place *place, struct posix_summary *ret_summary,
                 struct err *err);
/* The parent of `to` must exist; `to` must be absent, empty, or hold exactly these files. */
int posix_restore(const struct posix_place *place, const char *to,
                  struct posix_summary *ret_summary, struct err *err);
/* Removes what killed puts of this node left. A finished shard stays. */
int posix_abandon(const struct posix_place *place, struct err *err);
/* Removes the whole checkpoint; one that is not there is success. */
int posix_collect(const char *prefix, const char *path, bool *ret_removed, struct err *err);
/* Can a file be created, written, synced, renamed and removed directly below prefix? */
int posix_probe(const char *prefix, struct err *err);

#endif
