/* collect, abandon and probe: what goes, and whether the store takes writes. See s3.h. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "src/base/check.h"
#include "src/dest/s3/removal.h"
#include "src/dest/s3/s3.h"
#include "src/dest/s3/shards.h"
#include "src/dest/tree.h"

enum { PROBE_BYTES = 4096, PROBE_STALE_S = 600, PROBE_NAME_BYTES = 17 };

/* A checkpoint that is not there is success: collecting may be asked for again, and one of which
 * nothing was ever written has nothing to be removed. The buckets stay. Where the store keeps the
 * bytes is its own matter, so that nothing can be overwritten, which is told. */
int s3_collect(const struct destination_place *place, struct destination_removed *ret_removed,
               struct err *err)
{
    const struct client_how how = {.patience_ms = S3_SHORT_PATIENCE_MS};
    char key[OBJECT_KEY_MAX_BYTES + 1];
    struct removed removed = {0};
    struct location location;
    struct client *client;
    int result;

    if (location_of_path(place->prefix, place->path, &location, err) != 0)
        return -1;
    client = client_open(&how, err);
    if (client == NULL)
        return -1;
    snprintf(key, sizeof(key), "%s/", location.key);
    result = remove_below(
        client,
        &(struct removal_below){
            .bucket = location.bucket, .prefix = key, .first = MANIFEST_NAME, .mark = place->mark},
        &removed, err);
    *ret_removed =
        (struct destination_removed){.removed = removed.object_count + removed.upload_count > 0,
                                     .bytes = removed.size_bytes,
                                     .files = removed.object_count + removed.upload_count,
                                     .unwiped = tree_wipes() ? removed.with_bytes : 0};
    client_close(client);
    return result;
}

/* ---- abandon ---- */

/* A folder with a MANIFEST is a finished shard. */
static int abandon_folder(struct client *client, const struct shard_at *at, struct err *err)
{
    char key[OBJECT_KEY_MAX_BYTES + 1];
    struct err why = {0};

    if (shard_key(at, MANIFEST_NAME, key, err) != 0)
        return -1;
    if (object_head(client, at->part.bucket, key, NULL, &why) == 0)
        return 0;
    if (why.code != ERR_NOT_FOUND)
        return err_set(err, why.code, "%s", why.text);
    key[strlen(key) - strlen(MANIFEST_NAME)] = '\0';
    return remove_below(
        client,
        &(struct removal_below){.bucket = at->part.bucket, .prefix = key, .first = MANIFEST_NAME},
        NULL, err);
}

int s3_abandon(const struct destination_place *place, struct err *err)
{
    const struct client_how how = {.patience_ms = S3_SHORT_PATIENCE_MS};
    struct shard_at one = {0};
    struct buf folders = {0};
    struct client *client;
    int result;

    if (location_of_part(place, &one.part, err) != 0)
        return -1;
    client = client_open(&how, err);
    if (client == NULL)
        return -1;
    result = shard_folders(client, &one.part, &folders, err);
    if (result == 0)
        result = shard_check_marks(place, &folders, err);
    for (size_t at = 0; result == 0 && at < folders.length; at += SHARD_FOLDER_BYTES) {
        memcpy(one.folder, folders.bytes + at, SHARD_FOLDER_BYTES);
        result = abandon_folder(client, &one, err);
    }
    if (result == 0)
        result = remove_uploads(client,
                                &(struct removal_below){.bucket = one.part.bucket,
                                                        .prefix = one.part.key,
                                                        .mark = place->mark,
                                                        .of_part = true},
                                err);
    buf_close(&folders);
    client_close(client);
    return result;
}

/* ---- probe ---- */

struct litter {
    char before[32]; /* what was changed earlier is old */
    struct buf keys;
};

/* Times of a store are in UTC and have one form, so that they are compared as texts. */
static int note_litter(void *data, const struct object_listed *listed, struct err *err)
{
    struct litter *litter = data;

    (void)err;
    if (listed->modified[0] != '\0' && strcmp(listed->modified, litter->before) < 0)
        buf_append(&litter->keys, listed->key, strlen(listed->key) + 1);
    return 0;
}

/* Writes that the store carried out after their probe had been given up. */
static int probe_sweep(struct client *client, const char *bucket, const char *folder,
                       struct err *err)
{
    struct litter litter = {"", {0}};
    time_t before = time(NULL) - PROBE_STALE_S;
    struct tm parts;
    int result;

    CHECK(gmtime_r(&before, &parts) != NULL);
    strftime(litter.before, sizeof(litter.before), "%Y-%m-%dT%H:%M:%S", &parts);
    result = object_list(client, &(struct object_below){bucket, folder, false, NULL}, note_litter,
                         &litter, err);
    for (size_t at = 0; result == 0 && at < litter.keys.length;
         at += strlen((const char *)litter.keys.bytes + at) + 1)
        result = object_delete(client, bucket, (const char *)litter.keys.bytes + at, err);
    buf_close(&litter.keys);
    return result;
}

/* Nobody else's probe has this name, and no later one of the own: what is read back is what was
 * written just now. */
static void random_name(char ret_name[PROBE_NAME_BYTES])
{
    unsigned long long number = 0;

    CHECK(getrandom(&number, sizeof(number), 0) == (ssize_t)sizeof(number));
    snprintf(ret_name, PROBE_NAME_BYTES, "%016llx", number);
}

/* What a checkpoint needs of the store, on a small scale: writing, reading what was written,
 * listing and removing. A store that is full or read-only, and keys that may not write, fail
 * here. */
static int probe_write(struct client *client, const struct location *location, struct err *err)
{
    char folder[OBJECT_KEY_MAX_BYTES + 16], key[OBJECT_KEY_MAX_BYTES + 48];
    char name[PROBE_NAME_BYTES];
    struct buf bytes = {0}, read = {0};
    int result;

    random_name(name);
    snprintf(folder, sizeof(folder), "%s%s.probe/", location->key,
             location->key[0] == '\0' ? "" : "/");
    snprintf(key, sizeof(key), "%s%s", folder, name);
    while (bytes.length < PROBE_BYTES)
        buf_append(&bytes, name, PROBE_NAME_BYTES - 1);
    result = object_put_once(client, location->bucket, key, &bytes, err);
    if (result == 0)
        result = object_get(client, location->bucket, key, &read, err);
    if (result == 0 &&
        (read.length != bytes.length || memcmp(read.bytes, bytes.bytes, bytes.length) != 0))
        result = err_set(err, ERR_IO, "s3://%s/%s gives back other bytes than were written",
                         location->bucket, key);
    if (result == 0)
        result = object_delete(client, location->bucket, key, err);
    if (result == 0)
        result = probe_sweep(client, location->bucket, folder, err);
    buf_close(&bytes);
    buf_close(&read);
    return result;
}

/* One try: the next probe is the next try. */
int s3_probe(const char *prefix, struct err *err)
{
    const struct client_how how = {.patience_ms = 0};
    struct location location;
    struct client *client;
    struct call *call;
    int result;

    if (location_parse(prefix, &location, err) != 0)
        return err_wrap(err, "the prefix \"%.200s\"", prefix);
    client = client_open(&how, err);
    if (client == NULL)
        return -1;
    if (location.bucket[0] != '\0') {
        result = probe_write(client, &location, err);
    } else {
        call = call_new(client, &(struct call_request){.method = "GET", .bucket = "", .key = ""});
        result = call_run(client, call, err);
        call_free(call);
    }
    client_close(client);
    return result;
}
