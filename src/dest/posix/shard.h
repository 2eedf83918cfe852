/* One shard: a folder with files and their MANIFEST. What put, verify and restore share. */
#ifndef CKPT_DEST_SHARD_H
#define CKPT_DEST_SHARD_H

#include "src/dest/copy.h"
#include "src/dest/manifest.h"
#include "src/dest/posix/posix.h"

/* label, below: the path of the shard as errors name it; shard: its open folder. */

/* Opens folder/name; ERR_NOT_FOUND when there is none. The caller closes it. */
int shard_open(int folder, const char *name, const char *label, struct err *err);
/* Reads and parses the MANIFEST; both results are the caller's, who initialises and closes them.
 * ERR_CORRUPT also when there is no MANIFEST: the shard was never finished. */
int shard_read_manifest(int shard, const char *label, struct buf *ret_text,
                        struct manifest *ret_manifest, struct err *err);
/* Reads one file of the manifest, chunk by chunk, writes what it reads to `to` (to.fd -1: nowhere),
 * and compares sizes and hashes: ERR_CORRUPT names the first chunk that differs. */
int shard_read_file(struct copier *copier, struct copy_end from, struct copy_end to,
                    const struct manifest_entry *entry, struct err *err);
/* Hashes every file and compares, in the manifest's order; ERR_CORRUPT names the first that
 * differs. The page cache is asked to forget the files first, so that storage is read. */
int shard_check_files(int shard, const char *label, const struct manifest *manifest,
                      struct copier *copier, struct err *err);
/* The folder holds exactly what the manifest lists, by paths, kinds and sizes. in_shard as in
 * tree_list(). */
int shard_check_listing(int shard, const char *label, bool in_shard,
                        const struct manifest *manifest, struct err *err);
/* fsync of every folder, bottom-up, the shard itself last. */
int shard_sync_folders(int shard, const char *label, const struct manifest *manifest,
                       struct err *err);
/* What callers are told of a shard; text is its MANIFEST. `reused` is false for the caller to
 * set. */
void shard_summarize(const struct manifest *manifest, const struct buf *text,
                     struct destination_summary *ret_summary);

#endif
