/* The files of one folder read and hashed, and written to another, by the threads of a pool.
 *
 * Flow     what is to be done is planned first: a chunk of a large file is an item, and so is a
 *          batch of small files. Reading, hashing, writing and flushing then overlap, and each byte
 *          is read and hashed once. When transfer_run() returns with success, every file that was
 *          written is durable, by an fsync(2) of its own, or, for many files where the file system
 *          tells of all failures that way (tree_settles()), by one syncfs(2). What others wrote
 *          (in_place) has an fsync(2) each: a syncfs tells only of what failed since its folder was
 *          opened, or what nobody was told of yet.
 * Shapes   a large file is open from its first chunk to its last, so that no failure of a write is
 *          missed; at most one more than there are threads are open at a time.
 * Errors   TRANSFER_TAKE: source.h's; TRANSFER_CHECK: ERR_CORRUPT names the bytes that differ;
 *          fault.h for the rest. After a failure what was written is to be removed.
 *          What may be taken over (earlier.h) or compressed is read into memory and hashed first:
 *          16 MiB a thread, and as much again for what is compressed.
 * Absent   folders: they are made before, and made durable after.
 */
#ifndef CKPT_DEST_TRANSFER_H
#define CKPT_DEST_TRANSFER_H

#include "src/dest/manifest.h"
#include "src/dest/pool.h"
#include "src/dest/posix/earlier.h"
#include "src/dest/sample.h"
#include "src/dest/spots.h"

enum transfer_purpose {
    TRANSFER_TAKE, /* an application's folder: a file that changed is refused, hashes are noted */
    TRANSFER_CHECK /* a shard's, or what came from one: hashes are compared with those noted */
};

struct transfer_side {
    int folder;        /* open; its owner's. -1 of `to`: bytes are only read */
    const char *label; /* how errors name it */
};

struct transfer {
    enum transfer_purpose purpose;
    struct manifest *manifest;
    struct transfer_side from;
    struct transfer_side to;
    const struct sample *sample; /* NULL: every chunk */
    /* TRANSFER_TAKE: places of large files are noted there; TRANSFER_CHECK: of the chunks whose
     * places it knows these are read, and the sample is for all others. NULL: none. */
    struct spots *spots;
    bool with_modes; /* files get the modes of the manifest */
    /* TRANSFER_TAKE without a `to`: the files of `from` are made durable as well, and are written
     * out before they are hashed, so that what is stored through a mapping later leaves a stamp */
    bool in_place;
    /* TRANSFER_TAKE with a `to`: what is the same there is taken over; NULL: everything is written.
     * Generations are noted in the manifest. */
    const struct earlier *earlier;
    /* TRANSFER_TAKE with a `to`: files are stored compressed where that pays, which the manifest
     * then says. */
    bool compresses;
    uint64_t *saved_bytes; /* NULL, or where bytes that were not written are added up */
};

/* What callers do with it:
 *
 *     put        TAKE from the application's folder, `to` the hidden one
 *     publish    TAKE in place: the hidden folder itself, as its application has written it
 *     reuse      TAKE without `to`: only the hashes, to be compared with a shard that is there
 *     read back  CHECK from the hidden folder without `to`, by the places that were noted and the
 *                policy's sample
 *     verify     CHECK from the shard without `to`
 *     restore    CHECK from the shard, `to` the hidden folder beside the target, with_modes
 *
 * The manifest is written to by TAKE only; no entry is added or moved. */
int transfer_run(const struct transfer *transfer, struct pool *pool, struct err *err);

#endif
