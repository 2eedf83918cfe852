/* The part's newest shard in another checkpoint of the allocation: what has not changed since is
 * copied by the store, and not sent again. What earlier.h is for file systems.
 *
 * Flow     put looks for it before it sends; send.c asks previous_find() for each file, compares
 *          what it hashes by previous_has(), and starts copies made by previous_copy(): of whole
 *          files (CopyObject, which some stores do without moving a byte), or of parts of a file
 *          that has changed (UploadPartCopy).
 * Shapes   each shard stays whole in itself, as its objects are its own. A store may let copies
 *          share their bytes (Ceph does), so that damage hits all of them: `generation` in the
 *          manifest counts how often a file was copied, and at a limit it is sent anew. What was
 *          copied is read back as what was sent is.
 * Units    ranges are bytes of the file there.
 * Errors   none: what cannot be copied is sent.
 */
#ifndef CKPT_DEST_S3_PREVIOUS_H
#define CKPT_DEST_S3_PREVIOUS_H

#include "src/dest/s3/shards.h"

/* What is smaller is sent: to copy it costs a store more than to take it again. */
enum { PREVIOUS_MIN_BYTES = 64 << 10 };

struct previous {
    bool is_there;
    struct shard_at at;
    struct manifest manifest;
    unsigned generations_max; /* files that were copied so often are sent again */
};

/* own: the part that is to be written; its neighbours are looked at. Always to be closed. */
void previous_open(struct previous *previous, struct client *client, const struct location *own,
                   unsigned generations_max);
/* Nothing is found there any more. */
void previous_close(struct previous *previous);
/* The file of this name there, when it may be copied; else NULL. */
const struct manifest_entry *previous_find(const struct previous *previous,
                                           const struct manifest_entry *entry);
/* Whether this chunk is there, at the same place. */
bool previous_has(const struct manifest_entry *file, const struct manifest_entry *entry,
                  size_t chunk);

/* Of a file there; length 0: all of it. */
struct previous_range {
    const char *path;
    uint64_t offset, length;
};
/* A PUT without a body that has the store copy that range to request's bucket, key and query. */
struct call *previous_copy(const struct previous *previous, struct client *client,
                           const struct previous_range *range, const struct call_request *request);

#endif
