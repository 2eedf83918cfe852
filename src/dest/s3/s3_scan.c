/* scan: which checkpoints lie below a prefix. See s3.h.
 *
 * Flow     the keys of the whole prefix, in the order of bytes, as lists tell them: those of one
 *          checkpoint follow each other, and are told together when another key comes. Of `s3://`,
 *          where each tenant has a bucket, the buckets of the account, one after the other.
 * Shapes   a checkpoint is ours when the folders of its shards have the mark, and nothing else is
 *          in it. Times of a store are in UTC and have one form.
 *          A page ends when the sink has enough, or after KEYS_PER_PAGE keys of whatever kind: who
 *          waits for it has a deadline. `next` is a key, or behind all of a checkpoint's.
 * Errors   a bucket that the keys may not list is counted as denied.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* False: the sink has enough. */
static bool tell_checkpoint(struct walk *walk)
{
    struct destination_found found = {
        .path = walk->path, .owner = "", .size_bytes = walk->size_bytes};
    time_t now = time(NULL);
    bool goes_on;

    if (walk->path[0] == '\0')
        return true;
    walk->scanned->looked++;
    walk->scanned->foreign += walk->foreign;
    found.age_s = walk->newest < now ? (uint64_t)(now - walk->newest) : 0;
    goes_on = walk->foreign || found.age_s < walk->scan->min_age_s ||
              walk->sink->found(walk->sink->data, &found);
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

/* Keys come in order, so that a checkpoint is whole when another key comes. One that is below no
 * checkpoint is none of ours. */
static int note_key(void *data, const struct object_listed *listed, struct err *err)
{
    struct walk *walk = data;
    char relative[RELATIVE_BYTES];
    const char *levels[LEVELS], *shard;
    size_t length;
    time_t modified;

    snprintf(relative, sizeof(relative), "%s%s%s", walk->by_tenant ? walk->bucket : "",
             walk->by_tenant ? "/" : "", listed->key + walk->prefix_length);
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
    shard = levels[LEVEL_SHARD];
    if (shard == NULL || !shard_is_folder(shard) ||
        strncmp(shard, walk->scan->mark, strlen(walk->scan->mark)) != 0)
        walk->foreign = true;
    walk->size_bytes += listed->size_bytes;
    modified = time_of(listed->modified);
    if (modified > walk->newest)
        walk->newest = modified;
    return 0;
}

/* The keys of one bucket that begin so, behind that one; after may be NULL. */
static int list_bucket(struct walk *walk, const char *prefix, const char *after, struct err *err)
{
    char first[RELATIVE_BYTES + OBJECT_KEY_MAX_BYTES];
    struct err why = {0};

    walk->prefix_length = strlen(prefix);
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
    (void)tell_checkpoint(walk);
    return 0;
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
