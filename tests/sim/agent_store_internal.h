/* Shared by agent_store.c and agent_verbs.c. */
#ifndef CKPT_TESTS_SIM_AGENT_STORE_INTERNAL_H
#define CKPT_TESTS_SIM_AGENT_STORE_INTERNAL_H

#include "src/base/buf.h"
#include "src/base/id.h"
#include "tests/sim/agent_store.h"

enum { STORE_PATH_BYTES = 512, STORE_STAGED_BYTES = 2 * STORE_PATH_BYTES };

struct store_file {
    char *name; /* relative to the shard */
    struct buf bytes;
    bool pending; /* a put has listed it and not copied it yet */
};

struct store_content {
    struct store_file *files;
    size_t count;
};

struct store_shard {
    char path[STORE_PATH_BYTES]; /* the checkpoint's folder */
    char part[ID_MAX_BYTES + 1];
    bool temporary;  /* of a put at work, or killed */
    const void *put; /* temporary: which put's */
    /* Of a shard that its application writes in place: the folder's name, which it keeps when it is
     * published; until then its files are the node's, below path/staged. "": of a put. */
    char staged[ID_MAX_BYTES + 32];
    unsigned node;
    bool damaged;
    char manifest[AGENT_STORE_MANIFEST_BYTES];
    struct store_content content;
};

struct agent_store {
    agent_store_written_fn *written;
    agent_store_read_fn *read;
    void *data; /* of both */
    struct agent_files *mounts[SIM_NODES_MAX];
    struct store_shard *shards;
    size_t shard_count;
    char **spoiled; /* paths */
    size_t spoiled_count;
    uint64_t staged_count;
    struct agent_store_counters counters;
};

void store_content_close(struct store_content *content);
struct store_file *store_content_add(struct store_content *content, const char *name);
uint64_t store_content_size(const struct store_content *content);
void store_content_manifest(struct store_content *content,
                            char manifest[AGENT_STORE_MANIFEST_BYTES]);

struct store_shard *store_shard_find(struct agent_store *store, const char *path, const char *part,
                                     bool temporary);
struct store_shard *store_shard_add(struct agent_store *store, const char *path, const char *part,
                                    bool temporary);
/* Of one that is staged. */
const char *store_staged_path(const struct store_shard *shard, char text[STORE_STAGED_BYTES]);
/* The folder that its application writes into goes with it. */
void store_shard_drop(struct agent_store *store, struct store_shard *shard);

#endif
