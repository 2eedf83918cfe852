/* The files of a shard out of the store, each byte compared with its hash before it is used.
 *
 * Flow     receive_files() asks for chunk after chunk, in ranges that go side by side where one is
 *          large: RECEIVE_CHUNKS_MAX at a time, and of large ones as many as RECEIVE_BYTES_MAX
 *          holds, RECEIVE_CHUNKS_MIN at least. What has come is hashed, written and made durable by
 *          threads (crew.h), so that the network is served meanwhile.
 * Shapes   of each file: `begin` before its first chunk, `chunk` for each in any order, `end` after
 *          the last. begin runs on the caller's thread, the others on any: two chunks of one file
 *          may be at work at a time, its end never beside one.
 * Errors   ERR_CORRUPT names the first file that is not what the manifest says, asked for twice;
 *          those of answer.h, and of the functions. After a failure files may have begun that do
 *          not end.
 */
#ifndef CKPT_DEST_S3_RECEIVE_H
#define CKPT_DEST_S3_RECEIVE_H

#include "src/dest/s3/shards.h"
#include "src/dest/sample.h"

/* Enough to hide the way to a store and back. */
enum {
    RECEIVE_CHUNKS_MAX = 8,
    RECEIVE_CHUNKS_MIN = 4,
    RECEIVE_RANGES_MAX = 8, /* of a chunk */
    RECEIVE_BYTES_MAX = RECEIVE_CHUNKS_MAX * MANIFEST_CHUNK_BYTES
};

struct receive_chunk {
    const struct manifest_entry *entry;
    size_t chunk;   /* its number in the file */
    uint8_t *bytes; /* with room behind them for the rest of a block */
    size_t length;
};

/* What is done with the bytes. NULL: they are compared, and that is all. */
struct receive_ops {
    int (*begin)(void *data, const struct manifest_entry *entry, struct err *err);
    int (*chunk)(void *data, const struct receive_chunk *chunk, struct err *err);
    int (*end)(void *data, const struct manifest_entry *entry, struct err *err);
};

struct receive_request {
    struct client *client;
    const struct shard_at *at;
    const struct manifest *manifest;
    const struct sample *sample; /* NULL: every chunk */
    unsigned threads;            /* as destination_how has it */
    const struct receive_ops *ops;
    void *data; /* of ops */
};

int receive_files(const struct receive_request *request, struct err *err);

#endif
