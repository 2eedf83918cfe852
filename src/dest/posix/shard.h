/* One shard: a folder with files and their MANIFEST. Put, verify and restore share this. */
#ifndef CKPT_DEST_SHARD_H
#define CKPT_DEST_SHARD_H

#include "src/dest/manifest.h"
#include "src/dest/posix/posix.h"
#include "src/dest/posix/transfer.h"

/* label, below: the path of the shard as errors name it; shard: its open folder. */

/* Opens folder/name; ERR_NOT_FOUND when there is none. The caller closes it. */
int shard_open(int folder, const char *name, const char *label, struct err *err);
/* Reads and parses the MANIFEST; both results are the caller's, who initialises and closes them.
 * ERR_CORRUPT also when there is no MANIFEST: the shard was never finished. */
int shard_read_manifest(int shard, const char *label, struct buf *ret_text,
                        struct manifest *ret_manifest, struct err *err);
/* Hashes the files and compares, all of their chunks or those of a sample (NULL: all); ERR_CORRUPT
 * names bytes that differ. The page cache is asked to forget them first, so that storage is read.
 * Hashed are the bytes that storage gave at that moment: the next reading may be given
 * others. */
int shard_check_files(const struct transfer_side *shard, struct manifest *manifest,
                      const struct sample *sample, struct pool *pool, struct err *err);
/* The folder holds exactly what the manifest lists, by paths, kinds and sizes. in_shard as in
 * tree_list(). */
int shard_check_listing(int shard, const char *label, bool in_shard,
                        const struct manifest *manifest, struct err *err);
/* The facts that callers are told of a shard; text is its MANIFEST. `reused` is false for the
 * caller to set. */
void shard_summarize(const struct manifest *manifest, const struct buf *text,
                     struct destination_summary *ret_summary);

#endif
