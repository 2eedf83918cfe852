/* scan: which checkpoints lie below a prefix. See s3.h.
 *
 * Flow     the keys of the whole prefix, in the order of bytes, as lists tell them: those of one
 *          checkpoint follow each other, and are told together when another key comes. Of `s3://`,
 *          where each tenant has a bucket, the buckets of the account, one after the other.
 *          Behind the keys of a bucket come the uploads in parts that were begun there: a
 *          checkpoint of which nothing else is there, since its node died, is told by them. Their
 *          keys have the mark as well.
 * Shapes   a checkpoint is ours when the folders of its shards have the mark, and nothing else is
 *          in it. Times of a store are in UTC and have one form.
 *          A page ends when the sink has enough, or after KEYS_PER_PAGE keys of whatever kind: who
 *          waits for it has a deadline. `next` is a key, or behind all of a checkpoint's; of
 *          uploads, of which there are few, so that all are listed for each page, it has ~/ before
 *          what is below the bucket or the prefix. What their parts hold is not added up.
 * Errors   a bucket that the keys may not list is counted as denied.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/dest/line.h"
#include "src/dest/names.h"
#include "src/dest/s3/s3.h"
#include "src/dest/s3/shards.h"

/* The folders of a key below the prefix, and where each begins. */
enum { LEVEL_CHECKPOINTS = 3, LEVEL_CHECKPOINT = 4, LEVEL_SHARD = 6, LEVELS = 7 };
enum {
    KEYS_PER_PAGE = 100000,
    RELATIVE_BYTES = LOCATION_BUCKET_BYTES + OBJECT_KEY_MAX_BYTES + 2,
};

#define BEHIND_OBJECTS "~/" /* no key of ours begins so */

/* A checkpoint of which an upload was begun. */
struct begun {
    char *path;
    time_t newest;
    bool foreign;
};

struct walk {
    const struct destination_scan *scan;
    const struct destination_sink *sink;
    struct destination_scanned *scanned;
    struct client *client;
    const char *bucket;
    bool by_tenant;            /* the bucket's name is the first of a path */
    size_t prefix_length;      /* of the keys, which is not of their paths */
    uint64_t key_count;        /* of this page */
    char path[RELATIVE_BYTES]; /* of the checkpoint that is being read; "": none */
    uint64_t size_bytes;
    time_t newest;
    bool foreign;
    char behind[RELATIVE_BYTES]; /* what was read before this key; "": what no page can name */
    const char *uploads_after;   /* only those behind it; NULL: all */
    struct buf begun;            /* struct begun, in the order of paths */
};

/* One that cannot be read counts as now: what it is of is left alone. */
static time_t time_of(const char *modified)
{
    struct tm parts = {0};

    return strptime(modified, "%Y-%m-%dT%H:%M:%S", &parts) == NULL ? time(NULL) : timegm(&parts);
}

static void end_page(struct walk *walk)
{
    walk->scanned->more = true;
    snprintf(walk->scanned->next, sizeof(walk->scanned->next), "%s", walk->behind);
}

/* One that is whole. False: the sink has enough. */
static bool tell_one(struct walk *walk, const struct begun *one, uint64_t size_bytes)
{
    struct destination_found found = {.path = one->path, .owner = "", .size_bytes = size_bytes};
    time_t now = time(NULL);

    walk->scanned->looked++;
    walk->scanned->foreign += one->foreign;
    found.age_s = one->newest < now ? (uint64_t)(now - one->newest) : 0;
    return one->foreign || found.age_s < walk->scan->min_age_s ||
           walk->sink->found(walk->sink->data, &found);
}

static bool tell_checkpoint(struct walk *walk)
{
    const struct begun one = {walk->path, walk->newest, walk->foreign};
    bool goes_on;

    if (walk->path[0] == '\0')
        return true;
    goes_on = tell_one(walk, &one, walk->size_bytes);
    walk->path[0] = '\0';
    if (!goes_on)
        end_page(walk);
    return goes_on;
}

/* Where the levels of a key begin. False: it is not below a checkpoint's folder. */
static bool split_key(const char *key, const char *levels[LEVELS])
{
    char id[CHECKPOINT_ID_TEXT_BYTES];
    uint64_t number;
    size_t length;

    for (unsigned i = 0; i < LEVELS; i++) {
        levels[i] = key;
        if (key == NULL)
            continue;
        length = strcspn(key, "/");
        key = key[length] == '/' ? key + length + 1 : NULL;
    }
    if (levels[LEVEL_CHECKPOINT] == NULL || levels[LEVEL_CHECKPOINT + 1] == NULL ||
        strncmp(levels[LEVEL_CHECKPOINTS], "checkpoints/", 12) != 0)
        return false;
    length = strcspn(levels[LEVEL_CHECKPOINT], "/");
    if (length >= sizeof(id))
        return false;
    memcpy(id, levels[LEVEL_CHECKPOINT], length);
    id[length] = '\0';
    return checkpoint_id_parse(id, &number) == 0;
}

/* What was read before this key is whole. False: the page ends here. */
static bool end_before(struct walk *walk)
{
    if (!tell_checkpoint(walk))
        return false;
    if (walk->key_count < KEYS_PER_PAGE || walk->behind[0] == '\0')
        return true;
    end_page(walk);
    return false;
}

/* Behind all of a checkpoint's keys: a '0' is what follows a slash. */
static void begin_checkpoint(struct walk *walk, const char *relative, size_t length)
{
    snprintf(walk->path, sizeof(walk->path), "%.*s", (int)length, relative);
    snprintf(walk->behind, sizeof(walk->behind), "%.*s0", (int)length, relative);
    walk->size_bytes = 0;
    walk->newest = 0;
    walk->foreign = false;
}

/* Below the prefix, and, where each tenant has a bucket, behind that one's name. */
static void name_key(const struct walk *walk, const char *key, char ret_relative[RELATIVE_BYTES])
{
    snprintf(ret_relative, RELATIVE_BYTES, "%s%s%s", walk->by_tenant ? walk->bucket : "",
             walk->by_tenant ? "/" : "", key + walk->prefix_length);
}

static bool has_mark(const struct walk *walk, const char *shard)
{
    return shard != NULL && shard_is_folder(shard) &&
           strncmp(shard, walk->scan->mark, strlen(walk->scan->mark)) == 0;
}

/* Keys come in order, so that a checkpoint is whole when another key comes. One that is below no
 * checkpoint is none of ours. */
static int note_key(void *data, const struct object_listed *listed, struct err *err)
{
    struct walk *walk = data;
    char relative[RELATIVE_BYTES];
    const char *levels[LEVELS];
    size_t length;
    time_t modified;

    name_key(walk, listed->key, relative);
    if (!split_key(relative, levels)) {
        if (!end_before(walk))
            return err_set(err, ERR_FULL, "the page is full");
        walk->key_count++;
        snprintf(walk->behind, sizeof(walk->behind), "%s", line_is_word(relative) ? relative : "");
        return 0;
    }
    length = (size_t)(levels[LEVEL_CHECKPOINT + 1] - 1 - relative);
    if (strncmp(walk->path, relative, length) != 0 || walk->path[length] != '\0') {
        if (!end_before(walk))
            return err_set(err, ERR_FULL, "the page is full");
        begin_checkpoint(walk, relative, length);
    }
    walk->key_count++;
    if (!has_mark(walk, levels[LEVEL_SHARD]))
        walk->foreign = true;
    walk->size_bytes += listed->size_bytes;
    modified = time_of(listed->modified);
    if (modified > walk->newest)
        walk->newest = modified;
    return 0;
}

/* ---- uploads without objects ---- */

/* In the order of keys, like objects. */
static int note_upload(void *data, const struct object_listed *listed, struct err *err)
{
    struct walk *walk = data;
    char relative[RELATIVE_BYTES];
    const char *levels[LEVELS];
    struct begun *last;
    size_t length;
    time_t begun;

    (void)err;
    name_key(walk, listed->key, relative);
    if (!split_key(relative, levels) ||
        (walk->uploads_after != NULL &&
         strcmp(listed->key + walk->prefix_length, walk->uploads_after) < 0))
        return 0;
    length = (size_t)(levels[LEVEL_CHECKPOINT + 1] - 1 - relative);
    last = walk->begun.length == 0
               ? NULL
               : (struct begun *)(void *)(walk->begun.bytes + walk->begun.length - sizeof(*last));
    if (last == NULL || strncmp(last->path, relative, length) != 0 || last->path[length] != '\0') {
        struct begun one = {.path = check_strdup(relative)};

        one.path[length] = '\0';
        buf_append(&walk->begun, &one, sizeof(one));
        last = (struct begun *)(void *)(walk->begun.bytes + walk->begun.length - sizeof(*last));
    }
    begun = time_of(listed->modified);
    if (begun > last->newest)
        last->newest = begun;
    last->foreign |= !has_mark(walk, levels[LEVEL_SHARD]);
    return 0;
}

static int note_any(void *data, const struct object_listed *listed, struct err *err)
{
    (void)listed;
    *(bool *)data = true;
    return err_set(err, ERR_FULL, "one is enough");
}

/* What has objects was told by them. */
static int has_objects(struct walk *walk, const char *prefix, const struct begun *one,
                       bool *ret_any, struct err *err)
{
    const char *path = one->path + (walk->by_tenant ? strlen(walk->bucket) + 1 : 0);
    char key[RELATIVE_BYTES + OBJECT_KEY_MAX_BYTES];
    struct err why = {0};

    *ret_any = false;
    snprintf(key, sizeof(key), "%s%s/", prefix, path);
    if (object_list(walk->client, &(struct object_below){.bucket = walk->bucket, .prefix = key},
                    note_any, ret_any, &why) == 0 ||
        *ret_any)
        return 0;
    return err_set(err, why.code, "%s", why.text);
}

/* Behind all of its keys, as begin_checkpoint() has it. */
static void end_page_of_uploads(struct walk *walk, const struct begun *one)
{
    size_t bucket = walk->by_tenant ? strlen(walk->bucket) + 1 : 0;

    walk->scanned->more = true;
    snprintf(walk->scanned->next, sizeof(walk->scanned->next), "%.*s" BEHIND_OBJECTS "%s0",
             (int)bucket, one->path, one->path + bucket);
}

/* Their list is read to its end before objects are asked for: both are the client's. */
static int list_begun(struct walk *walk, const char *prefix, struct err *err)
{
    int result = object_list_begun(walk->client, walk->bucket, prefix, note_upload, walk, err);
    bool any, goes_on = true;

    for (size_t at = 0; at < walk->begun.length; at += sizeof(struct begun)) {
        struct begun *one = (struct begun *)(void *)(walk->begun.bytes + at);

        if (result == 0 && goes_on) {
            result = has_objects(walk, prefix, one, &any, err);
            goes_on = result != 0 || any || tell_one(walk, one, 0);
            if (!goes_on)
                end_page_of_uploads(walk, one);
        }
        free(one->path);
    }
    buf_close(&walk->begun);
    return result;
}

/* ---- one bucket ---- */

/* Its keys that begin so, behind that one; after may be NULL. */
static int list_bucket(struct walk *walk, const char *prefix, const char *after, struct err *err)
{
    char first[RELATIVE_BYTES + OBJECT_KEY_MAX_BYTES];
    struct err why = {0};

    walk->prefix_length = strlen(prefix);
    walk->uploads_after = NULL;
    if (after != NULL && strncmp(after, BEHIND_OBJECTS, strlen(BEHIND_OBJECTS)) == 0) {
        walk->uploads_after = after + strlen(BEHIND_OBJECTS);
        return list_begun(walk, prefix, err);
    }
    if (after != NULL &&
        snprintf(first, sizeof(first), "%s%s", prefix, after) > OBJECT_KEY_MAX_BYTES)
        return err_set(err, ERR_INVALID, "--after is too long for a key");
    if (object_list(walk->client,
                    &(struct object_below){.bucket = walk->bucket,
                                           .prefix = prefix,
                                           .after = after == NULL ? NULL : first},
                    note_key, walk, &why) != 0) {
        walk->path[0] = '\0'; /* its other keys are unknown, and one of them may make it foreign */
        return walk->scanned->more ? 0 : err_set(err, why.code, "%s", why.text);
    }
    return tell_checkpoint(walk) ? list_begun(walk, prefix, err) : 0;
}

/* ---- a bucket for each tenant ---- */

static int note_bucket(void *data, const char *bucket, struct err *err)
{
    (void)err;
    if (id_valid(bucket) && strlen(bucket) < LOCATION_BUCKET_BYTES)
        names_add(data, bucket);
    return 0;
}

/* Behind `after`, whose first name is a bucket's. */
static int list_tenant(struct walk *walk, const char *bucket, struct err *err)
{
    const char *after = walk->scan->after;
    size_t length = after == NULL ? 0 : strcspn(after, "/");
    char own[LOCATION_BUCKET_BYTES];
    struct err why = {0};
    int order = -1;

    if (length >= sizeof(own) || (after != NULL && after[length] == '\0'))
        return err_set(err, ERR_INVALID, "--after \"%.200s\" begins with no bucket", after);
    if (after != NULL) {
        memcpy(own, after, length);
        own[length] = '\0';
        order = strcmp(own, bucket);
    }
    if (order > 0)
        return 0;
    walk->bucket = bucket;
    if (list_bucket(walk, "", order == 0 ? after + length + 1 : NULL, &why) == 0)
        return 0;
    if (why.code != ERR_AUTH)
        return err_set(err, why.code, "%s", why.text);
    if (walk->scanned->denied++ == 0)
        walk->scanned->denied_error = why;
    return 0;
}

static int list_tenants(struct walk *walk, struct err *err)
{
    struct names names = {0};
    int result = object_list_buckets(walk->client, note_bucket, &names, err);

    walk->by_tenant = true;
    names_sort(&names);
    for (size_t i = 0; i < names.count && result == 0 && !walk->scanned->more; i++)
        result = list_tenant(walk, names.items[i], err);
    names_free(&names);
    return result;
}

int s3_scan(const struct destination_scan *scan, const struct destination_sink *sink,
            struct destination_scanned *ret_scanned, struct err *err)
{
    const struct client_how how = {.patience_ms = S3_SHORT_PATIENCE_MS};
    struct destination_scanned scanned = {0};
    struct walk walk = {.scan = scan, .sink = sink, .scanned = &scanned};
    char prefix[OBJECT_KEY_MAX_BYTES + 2];
    struct location location;
    int result;

    if (location_parse(scan->prefix, &location, err) != 0)
        return err_wrap(err, "the prefix \"%.200s\"", scan->prefix);
    walk.client = client_open(&how, err);
    if (walk.client == NULL)
        return -1;
    if (location.bucket[0] == '\0') {
        result = list_tenants(&walk, err);
    } else {
        snprintf(prefix, sizeof(prefix), "%s%s", location.key, location.key[0] == '\0' ? "" : "/");
        walk.bucket = location.bucket;
        result = list_bucket(&walk, prefix, scan->after, err);
    }
    client_close(walk.client);
    if (result == 0)
        *ret_scanned = scanned;
    return result;
}
