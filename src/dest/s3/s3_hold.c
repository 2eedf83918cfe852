/* hold: whether this cluster still has the target. See s3.h and ../mark.h.
 *
 * Flow     the notes of the cluster's mark are listed: one request, few keys. One of a later epoch
 *          refuses, and is read for what it says. Where the task takes the target, a note of its
 *          epoch is written when there is none.
 * Shapes   {prefix}/.cluster.{mark}.{epoch, 20 digits}: each epoch has a key of its own, so that a
 *          write that a store carries out late takes nothing back. With a prefix of s3:// it lies
 *          in the tenant's bucket, and a task without a path has none.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/dest/s3/location.h"
#include "src/dest/s3/s3.h"

enum { EPOCH_DIGITS = 20, HOLD_KEY_BYTES = OBJECT_KEY_MAX_BYTES + 80 };

/* The keys that were listed. */
struct notes {
    size_t length; /* of the beginning of all keys */
    uint64_t epoch;
};

static int note_key(void *data, const struct object_listed *listed, struct err *err)
{
    struct notes *notes = data;
    const char *digits = listed->key + notes->length;
    uint64_t epoch;

    (void)err;
    if (strlen(listed->key) != notes->length + EPOCH_DIGITS ||
        strspn(digits, "0123456789") != EPOCH_DIGITS)
        return 0;
    epoch = strtoull(digits, NULL, 10);
    if (epoch > notes->epoch)
        notes->epoch = epoch;
    return 0;
}

/* Its key says all that counts; the rest is for people. */
static int refuse_lower(struct client *client, const struct destination_hold *hold,
                        const char *bucket, const char *key, const struct notes *notes,
                        struct err *err)
{
    char where[HOLD_KEY_BYTES + 160];
    struct mark_note note = {.epoch = 0};
    struct buf text = {0};

    if (object_get(client, bucket, key, &text, NULL) == 0)
        mark_note_read((const char *)text.bytes, text.length, &note);
    buf_close(&text);
    note.epoch = notes->epoch;
    snprintf(where, sizeof(where), "s3://%s/%s", bucket, key);
    return mark_check(hold->claim, &note, where, err);
}

/* Keys that may not write here are no failure, nor is a store that is full. */
static void write_note(struct client *client, const struct destination_hold *hold,
                       const char *bucket, const char *key)
{
    struct buf text = {0};

    mark_note_write(hold->claim, hold->cluster_id, &text);
    (void)object_put_once(client, bucket, key, &text, NULL);
    buf_close(&text);
}

static int hold_at(struct client *client, const struct destination_hold *hold, const char *bucket,
                   const char *folder, struct err *err)
{
    char first[HOLD_KEY_BYTES], key[HOLD_KEY_BYTES + EPOCH_DIGITS];
    struct notes notes = {.epoch = 0};

    notes.length = (size_t)snprintf(first, sizeof(first), "%s%s" MARK_NAME "%s.", folder,
                                    folder[0] == '\0' ? "" : "/", hold->claim->mark);
    CHECK(notes.length < sizeof(first));
    if (object_list(client, &(struct object_below){bucket, first, false, NULL}, note_key, &notes,
                    err) != 0)
        return -1;
    snprintf(key, sizeof(key), "%s%020" PRIu64, first,
             notes.epoch > hold->claim->epoch ? notes.epoch : hold->claim->epoch);
    if (notes.epoch > hold->claim->epoch)
        return refuse_lower(client, hold, bucket, key, &notes, err);
    if (hold->takes && notes.epoch < hold->claim->epoch)
        write_note(client, hold, bucket, key);
    return 0;
}

int s3_hold(const struct destination_hold *hold, struct err *err)
{
    /* of a probe one try: the next probe is the next try */
    const struct client_how how = {.patience_ms = hold->path == NULL ? 0 : S3_SHORT_PATIENCE_MS};
    struct location prefix, path = {.bucket = ""};
    const struct location *at = &prefix;
    struct client *client;
    int result;

    if (location_parse(hold->prefix, &prefix, err) != 0)
        return err_wrap(err, "the prefix \"%.200s\"", hold->prefix);
    if (prefix.bucket[0] == '\0') {
        if (hold->path == NULL)
            return 0;
        if (location_of_path(hold->prefix, hold->path, &path, err) != 0)
            return -1;
        path.key[0] = '\0';
        at = &path;
    }
    client = client_open(&how, err);
    if (client == NULL)
        return -1;
    result = hold_at(client, hold, at->bucket, at->key, err);
    client_close(client);
    return result;
}
