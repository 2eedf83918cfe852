/* The kind s3: checkpoints in an object store. Every call here may block for long and belongs
 * into a ckpt-worker process, never into a daemon.
 *
 * Flow     put      list the source; the folder is named after what was listed, so that a second
 *                   put of the same source goes on where the first one was killed: objects and
 *                   parts of uploads that are there are read and hashed here, and not sent
 *                   again. Files up to a chunk are one PUT, larger ones an upload in parts, a
 *                   part being a chunk; each is signed with its hash, which the store checks.
 *                   What the previous checkpoint holds as well is copied by the store.
 *                   Then: list the source again, list the folder, PUT MANIFEST, remove the
 *                   part's other folders.
 *          verify   MANIFEST against the recorded hash, the folder's listing against MANIFEST,
 *                   every chunk against its hash.
 *          restore  the same while writing into a temporary folder beside the target, then rename.
 *          collect  remove every MANIFEST, then all else below the checkpoint, then its uploads.
 *          abandon  remove the part's folders without MANIFEST, and its uploads.
 *          probe    PUT, GET and DELETE below {prefix}/.probe/; with a prefix of s3:// alone: the
 *                   list of buckets, as there is none to write into.
 * Shapes   {prefix}/{tenant}/{project}/{allocation}/checkpoints/{checkpoint}/{part}/{16 hex}/: see
 *          shards.h and location.h. What the functions take and promise: destination.h.
 * Absent   buckets are never made; object lock, versions, encryption and classes are the bucket's.
 */
#ifndef CKPT_DEST_S3_S3_H
#define CKPT_DEST_S3_S3_H

#include "src/dest/destination.h"

/* As ckpt-worker-s3 lists it. */
extern const struct destination_ops destination_s3;

/* The row's functions; destination.h says what each promises. */
int s3_put(const struct destination_place *place, const char *source,
           const struct destination_how *how, struct destination_summary *ret_summary,
           struct err *err);
int s3_verify(const struct destination_place *place, const struct destination_how *how,
              struct destination_summary *ret_summary, struct err *err);
int s3_restore(const struct destination_place *place, const char *to,
               const struct destination_how *how, struct destination_summary *ret_summary,
               struct err *err);
/* Works without a prefix, too, as verify and restore do. */
int s3_abandon(const struct destination_place *place, struct err *err);
int s3_collect(const struct destination_place *place, struct destination_removed *ret_removed,
               struct err *err);
/* By a list of the notes' keys; see s3_hold.c. */
int s3_hold(const struct destination_hold *hold, struct err *err);
/* Whether checkpoints could be written now; see Flow. */
int s3_probe(const char *prefix, struct err *err);
/* By lists alone. Uploads that were never completed are not in them. */
int s3_scan(const struct destination_scan *scan, const struct destination_sink *sink,
            struct destination_scanned *ret_scanned, struct err *err);

/* How long a store may be away while a shard is moved: milliseconds. */
enum { S3_PATIENCE_MS = 60000, S3_SHORT_PATIENCE_MS = 10000 };

#endif
