/* Removes what lies below a prefix of a bucket: objects, and uploads in parts.
 *
 * Flow     all is listed first and removed afterwards, many at a time.
 * Shapes   prefixes are decoded; with a slash at their end, or what only begins alike goes too.
 * Errors   can be asked for again after any failure.
 */
#ifndef CKPT_DEST_S3_REMOVAL_H
#define CKPT_DEST_S3_REMOVAL_H

#include <stdint.h>

#include "src/base/err.h"

struct client;

/* What was listed; it has gone when the removal succeeded. Parts of uploads count with their
 * bytes. */
struct removed {
    uint64_t object_count, upload_count, size_bytes;
    uint64_t with_bytes; /* objects and uploads that are not empty */
};
/* Objects named `first` go before all others, uploads last. ret_removed may be NULL. */
int remove_below(struct client *client, const char *bucket, const char *prefix, const char *first,
                 struct removed *ret_removed, struct err *err);
/* The uploads alone. Nothing was completed yet where there is an upload only, so that no object
 * tells of it. */
int remove_uploads(struct client *client, const char *bucket, const char *prefix, struct err *err);

#endif
