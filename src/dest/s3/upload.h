/* Uploads in parts below one folder of the store, of which a killed put may have begun some.
 *
 * Flow     uploads_list() once; of each file uploads_ask_parts(), upload_new(), upload_begin(), its
 *          parts by who sends them, upload_complete(). One that fails is left there for the next
 *          put.
 * Shapes   a part is a chunk; of a file with more chunks than the store takes parts as many as are
 *          needed: over 156 GiB of Amazon and Ceph, which take 10,000, over 15.6 GiB of Swift as it
 *          is installed, which takes 1,000. All parts but the last are of one size, which is what
 *          lets a part that is found there be taken for ours by its number and size.
 * Errors   those of answer.h.
 */
#ifndef CKPT_DEST_S3_UPLOAD_H
#define CKPT_DEST_S3_UPLOAD_H

#include "src/base/list.h"
#include "src/dest/manifest.h"
#include "src/dest/s3/object.h"

struct uploads {
    struct client *client;
    const char *bucket;
    struct list open; /* of upload.node, until they are freed */
    struct buf old;   /* key, id, key, id ... each with its terminator */
    size_t parts_max; /* of one upload; 0: the store was not asked */
};

struct upload {
    struct list node;
    struct uploads *of;
    struct manifest_entry *entry;
    char key[OBJECT_KEY_MAX_BYTES + 1];
    char id[OBJECT_UPLOAD_ID_BYTES]; /* "": not begun */
    char (*etags)[CALL_ETAG_BYTES];  /* "": not there yet */
    size_t part_count, left;         /* left: to be sent or on their way */
    uint64_t part_bytes;
    bool is_reading;    /* parts of it are still to be read */
    bool cut_otherwise; /* the store has a part that is none of ours */
    /* of send.c: what is taken over from the previous shard */
    size_t same;      /* parts from the first on that are as there, and so were held back */
    size_t copying;   /* copies of them that are on their way */
    bool copy_failed; /* one of them */
};

/* What there is below the prefix already. Always to be closed; what is open is freed then. */
int uploads_list(struct uploads *uploads, const char *prefix, struct err *err);
void uploads_close(struct uploads *uploads);
/* Whether a killed put has begun one of this key. */
bool uploads_has(const struct uploads *uploads, const char *key);

/* How many parts the store takes, where a file of so many chunks needs to know it: it is asked
 * once, by a part with the last number that S3 has, in an upload of its own, which is aborted. Its
 * key is below that of the file, where no file can be: one that stays is taken for nobody's. */
int uploads_ask_parts(struct uploads *uploads, const char *key, size_t chunk_count,
                      struct err *err);
struct upload *upload_new(struct uploads *uploads, struct manifest_entry *entry, const char *key);
void upload_free(struct upload *upload);
/* One that a killed put began goes on, with the parts that are there; else, and where that one was
 * cut into other parts, there is a new one. */
int upload_begin(struct upload *upload, struct err *err);
/* Of a part, counted from 0 on. */
uint64_t upload_part_bytes(const struct upload *upload, size_t part);
/* The part is there. */
void upload_part_done(struct upload *upload, size_t part, const char *etag);
/* All of them are. */
int upload_complete(struct upload *upload, struct err *err);

#endif
