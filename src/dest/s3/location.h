/* From (prefix, path, part) to bucket and key.
 *
 * Shapes   s3://                 the tenant's name is the bucket: s3://{tenant}/{project}/...
 *          s3://bucket           the tenants are the first folders of a bucket
 *          s3://bucket/a/b       they are below a/b
 *          Folders of a location are of [A-Za-z0-9._-], as ids are, so that nothing in it is ever
 *          encoded; a bucket has the form that all stores take: 3 to 63 of [a-z0-9.-].
 * Errors   ERR_INVALID for a location that has no such form; ERR_REFUSED for a path that is not
 *          below its prefix.
 */
#ifndef CKPT_DEST_S3_LOCATION_H
#define CKPT_DEST_S3_LOCATION_H

#include "src/dest/destination.h"
#include "src/dest/s3/object.h"

enum { LOCATION_BUCKET_BYTES = 64 };

/* A bucket and what lies in it. Both are as they were given: nothing is decoded or made shorter,
 * so that two spellings are two locations. */
struct location {
    char bucket[LOCATION_BUCKET_BYTES]; /* "": only "s3://" was given */
    char key[OBJECT_KEY_MAX_BYTES];     /* without a slash at its end; "": the bucket itself */
};

/* Of a prefix. */
int location_parse(const char *text, struct location *ret_location, struct err *err);
/* The checkpoint's. */
/* prefix NULL: the path is trusted, as for restores by hand. A path that is a bucket alone is
 * refused: nothing of ours is ever a whole bucket. */
int location_of_path(const char *prefix, const char *path, struct location *ret_location,
                     struct err *err);
/* The folder of a part's shards, its key with a slash at its end. */
int location_of_part(const struct destination_place *place, struct location *ret_location,
                     struct err *err);

#endif
