/* Destinations of the simulated world with the content of each shard: what the shipping agents'
 * workers read and write.
 *
 * Flow     agent_store_new(); agent_store_mount() tells whose local files a node's workers see;
 *          agent_store_begin() and agent_store_end() are the two ends of a piece of work
 *          (sim_worker.h) that runs a verb of ckpt-worker. The rules are those of src/dest: a shard
 *          appears whole or not at all, a restore verifies, a put is idempotent by content.
 * Shapes   one store per world, shared by all nodes. A put that is killed in between leaves a
 *          temporary shard.
 * Faults   a shard is lost or damaged here; whether the destination can be reached is the world's.
 * Absent   sizes and rates.
 */
#ifndef CKPT_TESTS_SIM_AGENT_STORE_H
#define CKPT_TESTS_SIM_AGENT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/agent_files.h"
#include "tests/sim/sim_worker.h"

enum { AGENT_STORE_MANIFEST_BYTES = 65, AGENT_FREE_BYTES = 1 << 20 };

struct agent_store;

/* A put of the source has published its shard, or found it there already. */
typedef void agent_store_written_fn(void *data, unsigned node, const char *source);

/* This part of the checkpoint in this folder was restored, or verified for who reads it there. */
typedef void agent_store_read_fn(void *data, const char *path, const char *part);

struct agent_store *agent_store_new(agent_store_written_fn *written, agent_store_read_fn *read,
                                    void *data);
void agent_store_free(struct agent_store *store);
/* NULL: nobody's any more. */
void agent_store_mount(struct agent_store *store, unsigned node, struct agent_files *files);

/* The destination was reachable at the beginning, and at the end. verb: prepare, put, stage,
 * publish, verify, restore, abandon or collect. */
void agent_store_begin(struct agent_store *store, const struct sim_work *work);
/* away: it was not, and the verb is one that may do without. */
void agent_store_end(struct agent_store *store, const struct sim_work *work, bool away,
                     struct sim_work_end *ret_end);

struct agent_store_file {
    char name[32];
    char text[512];
};
/* A shard of an agent that has no files here. */
void agent_store_publish(struct agent_store *store, const char *path, const char *part,
                         const struct agent_store_file *files, size_t count,
                         char ret_manifest[AGENT_STORE_MANIFEST_BYTES]);

/* All of the checkpoint's folder goes. False: there was no whole shard. */
bool agent_store_remove(struct agent_store *store, const char *path);
/* A published shard of the checkpoint's folder is gone, or is not what its manifest says. False:
 * there is none. */
bool agent_store_lose(struct agent_store *store, const char *path, const char *part);
bool agent_store_damage(struct agent_store *store, const char *path, const char *part);
/* A copy that the node keeps is lost, or is not what it was. False: it keeps none. */
bool agent_store_spoil_copy(struct agent_store *store, unsigned node, bool lose);
/* Was a shard, once published, lost or damaged in a folder whose path ends so? */
bool agent_store_spoiled(const struct agent_store *store, const char *path_end);
/* ... of any checkpoint of the allocation? */
bool agent_store_spoiled_of(const struct agent_store *store, const char *allocation_id);
/* The i-th published shard; false: no more. */
bool agent_store_shard(const struct agent_store *store, size_t i, const char **ret_path,
                       const char **ret_part, bool *ret_damaged);
/* The shard is there, whole, and has this manifest (NULL: any). */
bool agent_store_verifies(const struct agent_store *store, const char *path, const char *part,
                          const char *manifest);

/* A file of a published shard that is there and whole, by its whole path; NULL: there is none.
 * folder: any file below it. */
const struct buf *agent_store_file(const struct agent_store *store, const char *path, bool folder);

struct agent_store_counters {
    uint64_t puts, published, reused, restores, verifies, collects, abandons, failed, lost, damaged;
    uint64_t copies_kept, copies_used, copies_passed, copies_spoiled;
    uint64_t prepared;
};
const struct agent_store_counters *agent_store_counters(const struct agent_store *store);

#endif
