/* Destinations of the simulated world: shards, and what can happen to them. See agent_store.h; the
 * verbs are in agent_verbs.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/agent_store_internal.h"

struct agent_store *agent_store_new(agent_store_written_fn *written, agent_store_read_fn *read,
                                    void *data)
{
    struct agent_store *store = check_calloc(1, sizeof(*store));

    store->written = written;
    store->read = read;
    store->data = data;
    return store;
}

void agent_store_free(struct agent_store *store)
{
    for (size_t i = 0; i < store->shard_count; i++)
        store_content_close(&store->shards[i].content);
    for (size_t i = 0; i < store->spoiled_count; i++)
        free(store->spoiled[i]);
    free(store->spoiled);
    free(store->shards);
    free(store);
}

void agent_store_mount(struct agent_store *store, unsigned node, struct agent_files *files)
{
    store->mounts[node] = files;
}

/* ---- contents ---- */

void store_content_close(struct store_content *content)
{
    for (size_t i = 0; i < content->count; i++) {
        free(content->files[i].name);
        buf_close(&content->files[i].bytes);
    }
    free(content->files);
    *content = (struct store_content){0};
}

struct store_file *store_content_add(struct store_content *content, const char *name)
{
    struct store_file *file;

    content->files = check_realloc(content->files, content->count + 1, sizeof(*content->files));
    file = &content->files[content->count++];
    file->name = check_strdup(name);
    buf_init(&file->bytes);
    file->pending = false;
    return file;
}

uint64_t store_content_size(const struct store_content *content)
{
    uint64_t size = 0;

    for (size_t i = 0; i < content->count; i++)
        size += content->files[i].bytes.length;
    return size;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return (hash ^ length) * UINT64_C(0x9e3779b97f4a7c15);
}

static int file_order(const void *a, const void *b)
{
    return strcmp(((const struct store_file *)a)->name, ((const struct store_file *)b)->name);
}

void store_content_manifest(struct store_content *content,
                            char manifest[AGENT_STORE_MANIFEST_BYTES])
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    qsort(content->files, content->count, sizeof(*content->files), file_order);
    for (size_t i = 0; i < content->count; i++) {
        hash = mix(hash, content->files[i].name, strlen(content->files[i].name));
        hash = mix(hash, content->files[i].bytes.bytes, content->files[i].bytes.length);
    }
    snprintf(manifest, AGENT_STORE_MANIFEST_BYTES,
             "%016" PRIx64 "%016" PRIx64 "%016" PRIx64 "%016" PRIx64, hash, hash * 3, hash * 5,
             hash * 7);
}

/* ---- shards ---- */

struct store_shard *store_shard_find(struct agent_store *store, const char *path, const char *part,
                                     bool temporary)
{
    for (size_t i = 0; i < store->shard_count; i++) {
        struct store_shard *shard = &store->shards[i];
        if (shard->temporary == temporary && strcmp(shard->path, path) == 0 &&
            strcmp(shard->part, part) == 0)
            return shard;
    }
    return NULL;
}

struct store_shard *store_shard_add(struct agent_store *store, const char *path, const char *part,
                                    bool temporary)
{
    struct store_shard *shard;

    store->shards = check_realloc(store->shards, store->shard_count + 1, sizeof(*store->shards));
    shard = &store->shards[store->shard_count++];
    *shard = (struct store_shard){.temporary = temporary};
    snprintf(shard->path, sizeof(shard->path), "%s", path);
    snprintf(shard->part, sizeof(shard->part), "%s", part);
    return shard;
}

const char *store_staged_path(const struct store_shard *shard, char text[STORE_STAGED_BYTES])
{
    CHECK(shard->staged[0] != '\0');
    snprintf(text, STORE_STAGED_BYTES, "%s/%s", shard->path, shard->staged);
    return text;
}

void store_shard_drop(struct agent_store *store, struct store_shard *shard)
{
    char folder[STORE_STAGED_BYTES];

    if (shard->temporary && shard->staged[0] != '\0' && store->mounts[shard->node] != NULL)
        agent_files_remove(store->mounts[shard->node], store_staged_path(shard, folder));
    store_content_close(&shard->content);
    *shard = store->shards[--store->shard_count];
}

void agent_store_publish(struct agent_store *store, const char *path, const char *part,
                         const struct agent_store_file *files, size_t count,
                         char ret_manifest[AGENT_STORE_MANIFEST_BYTES])
{
    struct store_shard *shard = store_shard_find(store, path, part, false);

    if (shard != NULL)
        store_shard_drop(store, shard);
    shard = store_shard_add(store, path, part, false);
    for (size_t i = 0; i < count; i++) {
        struct store_file *file = store_content_add(&shard->content, files[i].name);
        buf_append(&file->bytes, files[i].text, strlen(files[i].text));
    }
    store_content_manifest(&shard->content, shard->manifest);
    memcpy(ret_manifest, shard->manifest, AGENT_STORE_MANIFEST_BYTES);
}

bool agent_store_shard(const struct agent_store *store, size_t i, const char **ret_path,
                       const char **ret_part, bool *ret_damaged)
{
    for (size_t at = 0; at < store->shard_count; at++) {
        const struct store_shard *shard = &store->shards[at];
        if (shard->temporary || i-- > 0)
            continue;
        *ret_path = shard->path;
        *ret_part = shard->part;
        *ret_damaged = shard->damaged;
        return true;
    }
    return false;
}

bool agent_store_verifies(const struct agent_store *store, const char *path, const char *part,
                          const char *manifest)
{
    for (size_t i = 0; i < store->shard_count; i++) {
        const struct store_shard *shard = &store->shards[i];
        if (!shard->temporary && strcmp(shard->path, path) == 0 && strcmp(shard->part, part) == 0)
            return !shard->damaged && (manifest == NULL || strcmp(shard->manifest, manifest) == 0);
    }
    return false;
}

const struct buf *agent_store_file(const struct agent_store *store, const char *path, bool folder)
{
    char name[2 * STORE_PATH_BYTES];
    size_t length = strlen(path);

    for (size_t i = 0; i < store->shard_count; i++) {
        const struct store_shard *shard = &store->shards[i];
        for (size_t k = 0; k < shard->content.count && !shard->temporary && !shard->damaged; k++) {
            snprintf(name, sizeof(name), "%s/%s/%s", shard->path, shard->part,
                     shard->content.files[k].name);
            if (strncmp(name, path, length) == 0 && name[length] == (folder ? '/' : '\0'))
                return &shard->content.files[k].bytes;
        }
    }
    return NULL;
}

static void spoil(struct agent_store *store, const char *path)
{
    store->spoiled =
        check_realloc(store->spoiled, store->spoiled_count + 1, sizeof(*store->spoiled));
    store->spoiled[store->spoiled_count++] = check_strdup(path);
}

bool agent_store_spoiled(const struct agent_store *store, const char *path_end)
{
    size_t length = strlen(path_end);

    for (size_t i = 0; i < store->spoiled_count; i++) {
        size_t whole = strlen(store->spoiled[i]);
        if (whole >= length && strcmp(store->spoiled[i] + whole - length, path_end) == 0)
            return true;
    }
    return false;
}

bool agent_store_spoiled_of(const struct agent_store *store, const char *allocation_id)
{
    char part[STORE_PATH_BYTES];

    snprintf(part, sizeof(part), "/%s/checkpoints/", allocation_id);
    for (size_t i = 0; i < store->spoiled_count; i++)
        if (strstr(store->spoiled[i], part) != NULL)
            return true;
    return false;
}

bool agent_store_lose(struct agent_store *store, const char *path, const char *part)
{
    struct store_shard *shard = store_shard_find(store, path, part, false);

    if (shard == NULL)
        return false;
    store->counters.lost++;
    spoil(store, path);
    store_shard_drop(store, shard);
    return true;
}

bool agent_store_remove(struct agent_store *store, const char *path)
{
    bool removed = false;

    for (size_t i = store->shard_count; i-- > 0;) {
        if (strcmp(store->shards[i].path, path) != 0)
            continue;
        removed = removed || !store->shards[i].temporary;
        store_shard_drop(store, &store->shards[i]);
    }
    return removed;
}

bool agent_store_damage(struct agent_store *store, const char *path, const char *part)
{
    struct store_shard *shard = store_shard_find(store, path, part, false);

    if (shard == NULL || shard->damaged)
        return false;
    store->counters.damaged++;
    spoil(store, path);
    shard->damaged = true;
    return true;
}

bool agent_store_spoil_copy(struct agent_store *store, unsigned node, bool lose)
{
    struct agent_files *files = store->mounts[node];
    const struct agent_file *file;

    for (size_t i = 0; files != NULL && (file = agent_files_below(files, "/work", i)) != NULL;
         i++) {
        char path[STORE_PATH_BYTES];

        if (strstr(file->path, "/copies/") == NULL)
            continue;
        snprintf(path, sizeof(path), "%s", file->path);
        if (lose)
            agent_files_remove(files, path);
        else
            CHECK(agent_files_write(files, path, "spoiled", 7) == 0);
        store->counters.copies_spoiled++;
        return true;
    }
    return false;
}

const struct agent_store_counters *agent_store_counters(const struct agent_store *store)
{
    return &store->counters;
}
