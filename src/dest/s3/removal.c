/* What lies below a prefix goes. See removal.h. */
#include "src/dest/s3/removal.h"

#include <stdio.h>
#include <string.h>

#include "src/dest/mark.h"
#include "src/dest/s3/shards.h"

enum { RUNNING_MAX = 16 };

/* Keys one after the other, each with its terminator. */
struct removal {
    struct client *client;
    const struct removal_below *below;
    struct buf first_keys, keys;
    struct removed removed;
    size_t running;
    struct err *err;
    bool failed;
};

static const char *name_of(const char *key)
{
    const char *slash = strrchr(key, '/');

    return slash == NULL ? key : slash + 1;
}

/* The mark in the name of its shard's folder, when that is another cluster's; NULL: it is not. */
static const char *foreign_mark(const struct removal_below *below, const char *key)
{
    const char *shard = key + strlen(below->prefix);

    if (below->mark == NULL)
        return NULL;
    if (!below->of_part)
        shard = strchr(shard, '/');
    shard += shard != NULL && !below->of_part;
    return shard != NULL && shard_is_folder(shard) &&
                   strncmp(shard, below->mark, MARK_BYTES - 1) != 0 &&
                   strncmp(shard, SHARD_NO_MARK, MARK_BYTES - 1) != 0
               ? shard
               : NULL;
}

static int refuse_foreign(const struct removal_below *below, const char *shard, struct err *err)
{
    char mark[MARK_BYTES], path[OBJECT_KEY_MAX_BYTES + 80];

    memcpy(mark, shard, MARK_BYTES - 1);
    mark[MARK_BYTES - 1] = '\0';
    snprintf(path, sizeof(path), "s3://%s/%s", below->bucket, below->prefix);
    return mark_refuse(below->mark, mark, NULL, path, err);
}

static int note_object(void *data, const struct object_listed *listed, struct err *err)
{
    struct removal *removal = data;
    bool is_first = strcmp(name_of(listed->key), removal->below->first) == 0;
    const char *foreign = foreign_mark(removal->below, listed->key);

    if (foreign != NULL)
        return refuse_foreign(removal->below, foreign, err);
    buf_append(is_first ? &removal->first_keys : &removal->keys, listed->key,
               strlen(listed->key) + 1);
    removal->removed.object_count++;
    removal->removed.size_bytes += listed->size_bytes;
    removal->removed.with_bytes += listed->size_bytes > 0;
    return 0;
}

/* One that has gone meanwhile is as good; the first other failure counts, and no further removal
 * is begun after it. */
static void removal_done(void *data, struct call *call)
{
    struct removal *removal = data;
    const struct call_result *result = call_result(call);

    removal->running--;
    if (result->outcome != 0 && result->err.code != ERR_NOT_FOUND && !removal->failed) {
        removal->failed = true;
        if (removal->err != NULL)
            *removal->err = result->err;
    }
    call_free(call);
}

/* What is to go is listed first and removed afterwards: a list that goes on while its objects
 * vanish may leave some out. The store's own removal of many keys in one request is not used:
 * the keys would lie in a body, which the one who signs does not see and could not hold to what
 * this task may remove. */
static int remove_keys(struct removal *removal, const struct buf *keys)
{
    for (size_t at = 0; at < keys->length && !removal->failed;) {
        const char *key = (const char *)keys->bytes + at;

        call_start(
            call_new(removal->client, &(struct call_request){.method = "DELETE",
                                                             .bucket = removal->below->bucket,
                                                             .key = key,
                                                             .stall_ms = OBJECT_LONG_MS}),
            removal_done, removal);
        removal->running++;
        at += strlen(key) + 1;
        while (removal->running >= RUNNING_MAX)
            client_step(removal->client);
    }
    while (removal->running > 0)
        client_step(removal->client);
    return removal->failed ? -1 : 0;
}

static void count_part(void *data, const struct object_part *part)
{
    uint64_t *size_bytes = data;

    *size_bytes += part->size_bytes;
}

/* One that has gone meanwhile is not counted. Where keys may not list parts, their bytes are not
 * told, and they go all the same. */
static int abort_upload(struct removal *removal, const char *key, const char *upload_id,
                        struct err *err)
{
    const struct object_upload upload = {removal->below->bucket, key, upload_id};
    struct err why = {0};
    uint64_t size_bytes = 0;

    bool gone = object_list_parts(removal->client, &upload, count_part, &size_bytes, &why) != 0 &&
                why.code == ERR_NOT_FOUND;

    if (object_abort_upload(removal->client, removal->below->bucket, key, upload_id, err) != 0)
        return -1;
    if (gone)
        return 0;
    removal->removed.upload_count++;
    removal->removed.size_bytes += size_bytes;
    removal->removed.with_bytes += size_bytes > 0;
    return 0;
}

/* Parts of an upload take space and are in no list of objects. They go after the objects, so
 * that a put which is still at work comes to its end with an error, and not with a shard that
 * was begun to be removed. */
static int abort_uploads(struct removal *removal, struct err *err)
{
    const struct removal_below *below = removal->below;

    buf_clear(&removal->keys);
    if (object_list_uploads(removal->client, below->bucket, below->prefix, &removal->keys, err) !=
        0)
        return -1;
    for (size_t at = 0; at < removal->keys.length;) {
        const char *key = (const char *)removal->keys.bytes + at;
        const char *upload_id = key + strlen(key) + 1;

        if (foreign_mark(below, key) == NULL && abort_upload(removal, key, upload_id, err) != 0)
            return -1;
        at += strlen(key) + strlen(upload_id) + 2;
    }
    return 0;
}

/* The manifests go first: a removal that is killed half way leaves nothing that looks like a
 * shard, and whatever is left is found by the next one by the same prefix. */
int remove_below(struct client *client, const struct removal_below *below,
                 struct removed *ret_removed, struct err *err)
{
    struct removal removal = {.client = client, .below = below, .err = err};
    int result =
        object_list(client, &(struct object_below){below->bucket, below->prefix, false, NULL},
                    note_object, &removal, err);

    if (result == 0 && (remove_keys(&removal, &removal.first_keys) != 0 ||
                        remove_keys(&removal, &removal.keys) != 0))
        result = -1;
    if (result == 0)
        result = abort_uploads(&removal, err);
    if (ret_removed != NULL)
        *ret_removed = removal.removed;
    buf_close(&removal.first_keys);
    buf_close(&removal.keys);
    return result;
}

int remove_uploads(struct client *client, const struct removal_below *below, struct err *err)
{
    struct removal removal = {.client = client, .below = below, .err = err};
    int result = abort_uploads(&removal, err);

    buf_close(&removal.keys);
    return result;
}
