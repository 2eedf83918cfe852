/* Uploads in parts below one folder of the store, of which a killed put may have begun some.
 *
 * Flow     upload_parts_max() and upload_cut() before anything of a manifest is hashed;
 *          uploads_list() once; of each file upload_new(), upload_begin(), its parts by who sends
 *          them, upload_complete(). One that fails is left there for the next put.
 * Shapes   a part is a chunk. A file of more chunks than the store takes parts is cut into larger
 *          ones: over 156 GiB on Amazon and Ceph, which take 10,000, over 15.6 GiB on Swift as it
 *          is installed, which takes 1,000. All parts but the last are of one size, which is what
 *          lets a part that is found there be taken for ours by its number and size; the folder's
 *          name tells other sizes apart.
 * Errors   those of answer.h; ERR_REFUSED for a file that is too large for the store.
 */
#ifndef CKPT_DEST_S3_UPLOAD_H
#define CKPT_DEST_S3_UPLOAD_H

#include "src/base/list.h"
#include "src/dest/manifest.h"
#include "src/dest/s3/object.h"

/* A key where no object is ever written: an upload is begun there, and aborted. */
struct upload_place {
    const char *bucket, *key;
};

struct uploads {
    struct client *client;
    const char *bucket;
    struct list open; /* of upload.node, until they are freed */
    struct buf old;   /* key, id, key, id ... each with its terminator */
};

struct upload {
    struct list node;
    struct uploads *of;
    struct manifest_entry *entry;
    char key[OBJECT_KEY_MAX_BYTES + 1];
    char id[OBJECT_UPLOAD_ID_BYTES]; /* "": not begun */
    char (*etags)[CALL_ETAG_BYTES];  /* "": not there yet */
    size_t left;                     /* parts that are to be sent or on their way */
    bool is_reading;                 /* parts of it are still to be read */
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

/* Whether a file of the manifest has more chunks, of the usual size, than all stores take parts. */
bool upload_must_ask(const struct manifest *manifest);
/* How many parts the store takes of one object; 1,000, which all take, where it need not be asked.
 * It is asked by a part with the last number that S3 has, in an upload of its own at the place,
 * which is aborted. */
int upload_parts_max(struct client *client, const struct upload_place *place,
                     const struct manifest *manifest, size_t *ret_parts_max, struct err *err);
/* Gives each file the smallest chunks, 16 MiB doubled as often as needed, of which it has no more
 * than so many. ERR_REFUSED names one that is too large for that. */
int upload_cut(struct manifest *manifest, size_t parts_max, struct err *err);
struct upload *upload_new(struct uploads *uploads, struct manifest_entry *entry, const char *key);
void upload_free(struct upload *upload);
/* One that a killed put began goes on, with the parts that are there; else there is a new one. */
int upload_begin(struct upload *upload, struct err *err);
/* The part is there. */
void upload_part_done(struct upload *upload, size_t part, const char *etag);
/* All of them are. */
int upload_complete(struct upload *upload, struct err *err);

#endif
