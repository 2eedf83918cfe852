/* Finding and reading shards. See shards.h.
 *
 * Flow     shard_find -> shard_folders -> for each try_folder (is it the recorded manifest?) ->
 *          take_manifest -> check_listing.
 */
#include "src/dest/s3/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

/* Text of UTF-8, as keys are by definition: a store would refuse other bytes, or change them. */
static bool is_utf8(const char *text)
{
    const uint8_t *c = (const uint8_t *)text;

    while (*c != '\0') {
        unsigned more = *c < 0x80                 ? 0
                        : *c >= 0xC2 && *c < 0xE0 ? 1
                        : *c >= 0xE0 && *c < 0xF0 ? 2
                                                  : 3;

        if (*c >= 0x80 && (*c < 0xC2 || *c > 0xF4))
            return false;
        if ((*c == 0xE0 && c[1] < 0xA0) || (*c == 0xED && c[1] > 0x9F) ||
            (*c == 0xF0 && c[1] < 0x90) || (*c == 0xF4 && c[1] > 0x8F))
            return false;
        for (c++; more > 0; more--, c++) {
            if ((*c & 0xC0) != 0x80)
                return false;
        }
    }
    return true;
}

int shard_key(const struct shard_at *at, const char *file, char ret_key[OBJECT_KEY_MAX_BYTES + 1],
              struct err *err)
{
    int length =
        snprintf(ret_key, OBJECT_KEY_MAX_BYTES + 1, "%s%s%s", at->part.key, at->folder, file);

    if (length > OBJECT_KEY_MAX_BYTES)
        return err_set(err, ERR_UNFIT,
                       "the key of \"%.100s\" has %d bytes, a store takes %d at most; let the "
                       "application use shorter names",
                       file, length, OBJECT_KEY_MAX_BYTES);
    if (!is_utf8(file))
        return err_set(err, ERR_UNFIT, "the name of \"%.100s\" is no UTF-8, as keys have to be",
                       file);
    return 0;
}

/* ---- lists ---- */

struct folder_list {
    const struct location *part;
    struct buf *folders;
};

/* Other things below a part are none of ours, and are left alone by all but collect. */
bool shard_is_folder(const char *name)
{
    static const char digits[] = "0123456789abcdef";

    return strspn(name, digits) == 16 && name[16] == '-' && strspn(name + 17, digits) == 16 &&
           name[33] == '/';
}

static int note_folder(void *data, const struct object_listed *listed, struct err *err)
{
    struct folder_list *list = data;
    size_t length = strlen(list->part->key);

    (void)err;
    if (listed->is_folder && strncmp(listed->key, list->part->key, length) == 0 &&
        strlen(listed->key + length) == SHARD_FOLDER_BYTES - 1 &&
        shard_is_folder(listed->key + length))
        buf_append(list->folders, listed->key + length, SHARD_FOLDER_BYTES);
    return 0;
}

int shard_folders(struct client *client, const struct location *part, struct buf *ret_folders,
                  struct err *err)
{
    struct folder_list list = {part, ret_folders};

    buf_clear(ret_folders);
    return object_list(client, &(struct object_below){part->bucket, part->key, true, NULL},
                       note_folder, &list, err);
}

int shard_check_marks(const struct destination_place *place, const struct buf *folders,
                      struct err *err)
{
    char mark[MARK_BYTES];

    for (size_t at = 0; place->mark != NULL && at < folders->length; at += SHARD_FOLDER_BYTES) {
        memcpy(mark, folders->bytes + at, MARK_BYTES - 1);
        mark[MARK_BYTES - 1] = '\0';
        if (strcmp(mark, place->mark) != 0 && strcmp(mark, SHARD_NO_MARK) != 0)
            return mark_refuse(place->mark, mark, NULL, place->path, err);
    }
    return 0;
}

struct file_list {
    size_t prefix_length;
    struct manifest *found;
    bool has_manifest;
};

/* The store's order is that of bytes, as is the manifest's. */
static int note_file(void *data, const struct object_listed *listed, struct err *err)
{
    struct file_list *list = data;
    const char *name = listed->key + list->prefix_length;

    if (strcmp(name, MANIFEST_NAME) == 0) {
        list->has_manifest = true;
        return 0;
    }
    if (list->found->count >= MANIFEST_ENTRIES_MAX)
        return err_set(err, ERR_CORRUPT, "there are more than %d files", MANIFEST_ENTRIES_MAX);
    manifest_add(list->found, name, false)->size_bytes = listed->size_bytes;
    return 0;
}

int shard_list(struct client *client, const struct shard_at *at, struct manifest *ret_found,
               bool *ret_has_manifest, struct err *err)
{
    char key[OBJECT_KEY_MAX_BYTES + 1];
    struct file_list list = {.found = ret_found};

    manifest_init(ret_found);
    if (shard_key(at, "", key, err) != 0)
        return -1;
    list.prefix_length = strlen(key);
    if (object_list(client, &(struct object_below){at->part.bucket, key, false, NULL}, note_file,
                    &list, err) != 0) {
        manifest_close(ret_found);
        return -1;
    }
    *ret_has_manifest = list.has_manifest;
    return 0;
}

static size_t next_file(const struct manifest *manifest, size_t i)
{
    while (i < manifest->count && manifest->entries[i].is_directory)
        i++;
    return i;
}

/* Folders are no objects. Both are in the order of bytes. */
int shard_compare(const struct manifest *expected, const struct manifest *found, struct err *err)
{
    size_t one = next_file(expected, 0), other = 0;

    for (; one < expected->count || other < found->count;
         one = next_file(expected, one + 1), other++) {
        const struct manifest_entry *is = other < found->count ? &found->entries[other] : NULL;
        const struct manifest_entry *was = one < expected->count ? &expected->entries[one] : NULL;
        int order = was == NULL ? 1 : is == NULL ? -1 : strcmp(was->path, is->path);

        if (order < 0)
            return err_set(err, ERR_CORRUPT, "\"%s\" is missing", was->path);
        if (order > 0)
            return err_set(err, ERR_CORRUPT, "\"%s\" is there but not in the manifest", is->path);
        if (was->size_bytes != is->size_bytes)
            return err_set(err, ERR_CORRUPT, "\"%s\" has %llu bytes, the manifest says %llu",
                           is->path, (unsigned long long)is->size_bytes,
                           (unsigned long long)was->size_bytes);
    }
    return 0;
}

/* ---- finding one ---- */

/* Its own hash is checked before anything in it is believed. */
static int take_manifest(struct shard_found *found, const char *label, struct err *err)
{
    uint8_t digest[SHA256_BYTES];

    sha256_of(found->text.bytes, found->text.length, digest);
    sha256_format(digest, found->summary.manifest_sha256);
    if (manifest_parse(found->text.bytes, found->text.length, &found->manifest, err) != 0)
        return err_wrap(err, "%s", label);
    found->summary.size_bytes = found->manifest.size_bytes;
    found->summary.file_count = found->manifest.file_count;
    return 0;
}

static bool holds_by_itself(const struct buf *text)
{
    struct manifest manifest;

    if (manifest_parse(text->bytes, text->length, &manifest, NULL) != 0)
        return false;
    manifest_close(&manifest);
    return true;
}

/* 1: this folder is the shard; 0: another one may be, else err; -1: err. A manifest that is not the
 * recorded one, and does not fit its own hash, may have been damaged on its way here: the store is
 * asked once more. */
static int try_folder(struct client *client, const struct destination_place *place,
                      struct shard_found *found, struct err *err)
{
    char key[OBJECT_KEY_MAX_BYTES + 1], hex[SHA256_HEX_BYTES];
    uint8_t digest[SHA256_BYTES];
    struct err why = {0};

    if (shard_key(&found->at, MANIFEST_NAME, key, err) != 0)
        return -1;
    for (int tries = 0; tries < 2; tries++) {
        if (object_get(client, found->at.part.bucket, key, &found->text, &why) != 0)
            return why.code == ERR_NOT_FOUND ? 0 : err_set(err, why.code, "%s", why.text);
        sha256_of(found->text.bytes, found->text.length, digest);
        sha256_format(digest, hex);
        if (place->manifest_sha256 == NULL || strcmp(hex, place->manifest_sha256) == 0)
            return 1;
        if (holds_by_itself(&found->text))
            break;
    }
    err_set(err, ERR_CORRUPT, "%s/%s: the manifest's SHA-256 is %s, recorded was %.64s",
            place->path, place->part, hex, place->manifest_sha256);
    return 0;
}

/* What is missing, of another size or too much is told before a byte is read. */
static int check_listing(struct client *client, struct shard_found *found, struct err *err)
{
    struct manifest listed;
    bool has_manifest;
    int result;

    if (shard_list(client, &found->at, &listed, &has_manifest, err) != 0)
        return -1;
    result = shard_compare(&found->manifest, &listed, err);
    manifest_close(&listed);
    return result;
}

/* Without a recorded hash the first that is whole in its listing will do. */
static int find_among(struct client *client, const struct destination_place *place,
                      const struct buf *folders, struct shard_found *found, struct err *err)
{
    struct err why = {0};

    err_set(&why, folders->length == 0 ? ERR_NOT_FOUND : ERR_CORRUPT,
            folders->length == 0 ? "%s/%s: there is no such shard"
                                 : "%s/%s: the shard has no manifest",
            place->path, place->part);
    for (size_t at = 0; at < folders->length; at += SHARD_FOLDER_BYTES) {
        int is_it;

        memcpy(found->at.folder, folders->bytes + at, SHARD_FOLDER_BYTES);
        is_it = try_folder(client, place, found, &why);
        if (is_it < 0)
            break;
        if (is_it == 0)
            continue;
        if (take_manifest(found, place->path, &why) == 0 && check_listing(client, found, &why) == 0)
            return 0;
        manifest_close(&found->manifest);
        if (place->manifest_sha256 != NULL || why.code != ERR_CORRUPT)
            break;
    }
    return err_set(err, why.code, "%s", why.text);
}

int shard_find(struct client *client, const struct destination_place *place,
               struct shard_found *found, struct err *err)
{
    struct buf folders = {0};
    int result = -1;

    memset(found, 0, sizeof(*found));
    if (location_of_part(place, &found->at.part, err) == 0 &&
        shard_folders(client, &found->at.part, &folders, err) == 0)
        result = find_among(client, place, &folders, found, err);
    buf_close(&folders);
    return result;
}

void shard_found_close(struct shard_found *found)
{
    buf_close(&found->text);
    manifest_close(&found->manifest);
}
