/* Removes what lies below a prefix of a bucket: objects, and uploads in parts.
 *
 * Flow     all is listed first and removed afterwards, many at a time.
 * Shapes   prefixes are decoded; with a slash at their end, or what only begins alike goes too.
 * Errors   can be asked for again after any failure.
 */
#ifndef CKPT_DEST_S3_REMOVAL_H
#define CKPT_DEST_S3_REMOVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/err.h"

struct client;

/* The objects and uploads that are to go. Texts are the caller's. */
struct removal_below {
    const char *bucket, *prefix;
    const char *first; /* objects of this name go before all others */
    /* The cluster whose it must be: an object of a shard with another one's mark is ERR_MISMATCH,
     * and nothing goes; uploads with another one's stay. NULL: whosever it is goes. Sixteen zeros
     * are nobody's. */
    const char *mark;
    bool of_part; /* the prefix is that of a part; else that of a checkpoint */
};
/* What was listed; it has gone when the removal succeeded. Parts of uploads count with their
 * bytes. */
struct removed {
    uint64_t object_count, upload_count, size_bytes;
    uint64_t with_bytes; /* objects and uploads that are not empty */
};
/* Uploads go last. ret_removed may be NULL. */
int remove_below(struct client *client, const struct removal_below *below,
                 struct removed *ret_removed, struct err *err);
/* The uploads alone. Nothing was completed yet where there is an upload only, so that no object
 * tells of it. */
int remove_uploads(struct client *client, const struct removal_below *below, struct err *err);

#endif
