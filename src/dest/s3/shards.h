/* The shards of a part: folders below {path}/{part}/, of which one is the checkpoint's.
 *
 * Flow     A put that was given up may still be carried out by the store, much later. So no key is
 *          ever written with two different contents: each source has a folder of its own, named
 *          after what it is (source_folder() of s3_put.c), with its files and, last, its MANIFEST.
 *          A shard is looked for by its manifest's hash, never by its folder.
 * Shapes   {path}/{part}/{16 hex}-{16 hex}/MANIFEST and {path}/{part}/{16 hex}-{16 hex}/{file}
 * Errors   ERR_NOT_FOUND  there is none; ERR_CORRUPT  one that is not what its manifest says
 */
#ifndef CKPT_DEST_S3_SHARDS_H
#define CKPT_DEST_S3_SHARDS_H

#include "src/dest/manifest.h"
#include "src/dest/s3/location.h"

/* The mark of the cluster, a dash, and sixteen digits of the source's fingerprint: two sources of
 * one part that share them would have to be met by chance among 2^64. The mark is in the name, so
 * that also what a store writes late, when all else was removed, tells whose it is. Sixteen zeros
 * stand for no cluster. */
enum { SHARD_FOLDER_BYTES = 35 }; /* with its slash and terminator */
#define SHARD_NO_MARK "0000000000000000"

/* A folder of files. */
struct shard_at {
    struct location part;            /* its key ends in a slash */
    char folder[SHARD_FOLDER_BYTES]; /* below that, with a slash at its end */
};

/* A shard whose manifest is proven and whose listing fits it. */
struct shard_found {
    struct shard_at at;
    struct buf text;
    struct manifest manifest;
    struct destination_summary summary;
};

/* The one with the recorded hash; without a record the first that is whole. Closed also after a
 * failure. */
int shard_find(struct client *client, const struct destination_place *place,
               struct shard_found *found, struct err *err);
/* Gives back the text and the manifest. */
void shard_found_close(struct shard_found *found);

/* What lies in a folder as a manifest without hashes and folders; has_manifest: MANIFEST is there.
 * The caller closes it. */
int shard_list(struct client *client, const struct shard_at *at, struct manifest *ret_found,
               bool *ret_has_manifest, struct err *err);
/* Files and sizes; ERR_CORRUPT names the first that differs. */
/* Folders of the manifest are passed over, as there are none in a store: they are made again by
 * restore. */
int shard_compare(const struct manifest *expected, const struct manifest *found, struct err *err);

/* The folders' names, each SHARD_FOLDER_BYTES long. */
/* Those that have no MANIFEST yet, or never will, are among them. */
int shard_folders(struct client *client, const struct location *part, struct buf *ret_folders,
                  struct err *err);
/* ERR_MISMATCH when one of them has another mark than place->mark; zeros are nobody's. */
int shard_check_marks(const struct destination_place *place, const struct buf *folders,
                      struct err *err);
/* Whether the text begins with the name of such a folder and its slash. */
bool shard_is_folder(const char *name);
/* The key of a file in the folder; "" is the folder itself. ERR_UNFIT when it is too long for a
 * key, or no text. */
int shard_key(const struct shard_at *at, const char *file, char ret_key[OBJECT_KEY_MAX_BYTES + 1],
              struct err *err);

#endif
