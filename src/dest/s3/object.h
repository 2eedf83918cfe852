/* What is asked of a store, each as one function: lists, uploads in parts, objects.
 *
 * Flow     all of them step the client until they are done; what else was started goes on
 *          meanwhile.
 * Shapes   keys are decoded. Texts that a callback gets are good during it.
 * Errors   answer.h; -1 from a callback ends a list with the callback's own error.
 */
#ifndef CKPT_DEST_S3_OBJECT_H
#define CKPT_DEST_S3_OBJECT_H

#include "src/dest/s3/call.h"

enum {
    OBJECT_KEY_MAX_BYTES = 1024,
    OBJECT_UPLOAD_ID_BYTES = 512,
    OBJECT_PARTS_MAX = 10000,
    /* How long a store may be silent while it puts an object together or removes one: it may copy
     * all its parts then, or remove them one after the other. */
    OBJECT_LONG_MS = 120000
};

/* An object; or, of a list with a delimiter, a folder: its key ends in a slash. */
struct object_listed {
    const char *key;
    uint64_t size_bytes;
    const char *modified; /* 2026-11-23T20:00:00.000Z */
    bool is_folder;
};
typedef int object_listed_fn(void *data, const struct object_listed *listed, struct err *err);

/* Which objects a list names, in the order of their keys. */
struct object_below {
    const char *bucket, *prefix;
    bool folders; /* those directly below the prefix instead of all objects */
    /* only keys behind this one, in the order of bytes; NULL: all */
    const char *after;
};
/* Goes through all pages; fn may not start calls of the same client that it waits for. */
int object_list(struct client *client, const struct object_below *below, object_listed_fn *fn,
                void *data, struct err *err);

/* The buckets of the account whose keys are used, in whatever order. */
typedef int object_bucket_fn(void *data, const char *bucket, struct err *err);
int object_list_buckets(struct client *client, object_bucket_fn *fn, void *data, struct err *err);

/* Appends the uploads in parts that were neither completed nor aborted: key, id, key, id ... each
 * with its terminator, in the order of keys; of one key those that began first come first. */
int object_list_uploads(struct client *client, const char *bucket, const char *prefix,
                        struct buf *uploads, struct err *err);
/* Likewise, as keys alone, each with the time when its upload began instead of its last change. */
int object_list_begun(struct client *client, const char *bucket, const char *prefix,
                      object_listed_fn *fn, void *data, struct err *err);
/* A part of an upload that the store has, with the ETag that the upload's end has to name. */
struct object_part {
    unsigned number; /* from 1 on */
    uint64_t size_bytes;
    const char *etag;
};
typedef void object_part_fn(void *data, const struct object_part *part);
/* The parts that are there, in the order of their numbers. ERR_NOT_FOUND: there is no such
 * upload any more. */
struct object_upload {
    const char *bucket, *key, *id;
};
int object_list_parts(struct client *client, const struct object_upload *upload, object_part_fn *fn,
                      void *data, struct err *err);
/* A try whose answer was lost leaves an upload that nobody knows of; whoever removes what lies
 * below a prefix finds it in the list of uploads. */
int object_create_upload(struct client *client, const char *bucket, const char *key,
                         char ret_upload_id[OBJECT_UPLOAD_ID_BYTES], struct err *err);
/* One whose outcome the answer does not tell is looked for: it is there when the object has its
 * size. */
struct object_whole {
    const char *upload_id;
    char (*etags)[CALL_ETAG_BYTES];
    size_t part_count;
    uint64_t size_bytes;
};
int object_complete_upload(struct client *client, const char *bucket, const char *key,
                           const struct object_whole *whole, struct err *err);
/* One that has gone is success. */
int object_abort_upload(struct client *client, const char *bucket, const char *key,
                        const char *upload_id, struct err *err);
/* "partNumber=N&uploadId=..." */
void object_part_query(struct buf *query, unsigned number, const char *upload_id);

/* ERR_NOT_FOUND. ret_size_bytes may be NULL. */
/* Whether it is there, and how long it is, without its bytes. */
int object_head(struct client *client, const char *bucket, const char *key,
                uint64_t *ret_size_bytes, struct err *err);
/* The whole of it into the buffer. */
/* For what is small, as manifests are: up to CALL_ANSWER_MAX_BYTES. Files are read in ranges
 * (shards.h). */
int object_get(struct client *client, const char *bucket, const char *key, struct buf *ret_bytes,
               struct err *err);
/* Bytes that are written once and by whomever with the same contents: where the store knows
 * If-None-Match, nothing that lies there is replaced. */
/* ERR_REFUSED when something else lies there: a key of ours that somebody else has written. */
int object_put_once(struct client *client, const char *bucket, const char *key,
                    const struct buf *bytes, struct err *err);
/* One that is not there is success for most stores, and ERR_NOT_FOUND for some. */
int object_delete(struct client *client, const char *bucket, const char *key, struct err *err);

#endif
