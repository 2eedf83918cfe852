/* put: a folder becomes a shard, all or nothing. See s3.h.
 *
 * Flow     s3_put -> put_cut (a chunk is a part, and the store takes so many) -> put_reuse (is it
 *          there already?) -> send_files -> source_check (nobody has written there meanwhile) ->
 *          put_seal (the folder's list, then MANIFEST) -> put_remove_others. A kill at any moment
 *          leaves folders without MANIFEST, and uploads; the next put of the same source goes on
 *          with them. That of another one removes the folders; uploads below a folder without
 *          objects go by abandon and collect.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/posix/transfer.h"
#include "src/dest/s3/receive.h"
#include "src/dest/s3/removal.h"
#include "src/dest/s3/s3.h"
#include "src/dest/s3/send.h"
#include "src/dest/s3/upload.h"
#include "src/dest/source.h"

struct put {
    const struct destination_place *place;
    const char *label;
    struct shard_at at;
    const struct destination_how *how;
    struct client *client;
    int source;
    bool read_back_failed;
    bool spoiled; /* our own folder has a MANIFEST or copies, or will, and is not as it should be */
    struct send_result sent;
    struct manifest manifest;
    struct previous previous;
    struct buf text, folders;
};

/* The host's run tells two files of the same stamp apart that lie on two machines. */
static void add_boot(struct sha256 *sha256)
{
    char id[64];
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (file == NULL)
        return;
    sha256_update(sha256, id, fread(id, 1, sizeof(id), file));
    fclose(file);
}

/* Named after the source: a file that is written gets another stamp, and so another folder. Beside
 * a spoiled one, a new one: what lies there would be taken for sent. */
static void name_folder(struct put *put)
{
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];
    struct sha256 sha256;
    uint64_t salt = 0;

    sha256_init(&sha256);
    sha256_start(&sha256);
    add_boot(&sha256);
    if (put->spoiled) {
        CHECK(getrandom(&salt, sizeof(salt), 0) == (ssize_t)sizeof(salt));
        sha256_update(&sha256, &salt, sizeof(salt));
    }
    for (size_t i = 0; i < put->manifest.count; i++) {
        const struct manifest_entry *entry = &put->manifest.entries[i];
        const uint64_t numbers[] = {entry->is_directory, entry->mode, entry->size_bytes,
                                    entry->stamp, entry->chunk_bytes};

        sha256_update(&sha256, entry->path, strlen(entry->path) + 1);
        sha256_update(&sha256, numbers, sizeof(numbers));
    }
    for (size_t i = 0; i < put->manifest.link_count; i++) {
        sha256_update(&sha256, put->manifest.links[i].path,
                      strlen(put->manifest.links[i].path) + 1);
        sha256_update(&sha256, put->manifest.links[i].to, strlen(put->manifest.links[i].to) + 1);
    }
    sha256_finish(&sha256, digest);
    sha256_close(&sha256);
    snprintf(put->at.folder, sizeof(put->at.folder), "%s-%.16s/",
             put->place->mark == NULL ? SHARD_NO_MARK : put->place->mark,
             sha256_format(digest, hex));
}

/* Where the store is asked how many parts it takes: a folder with the cluster's mark, as all have,
 * that is no source's. */
static int question_key(const struct put *put, char ret_key[OBJECT_KEY_MAX_BYTES + 1],
                        struct err *err)
{
    struct shard_at at = put->at;

    snprintf(at.folder, sizeof(at.folder), "%s-%016d/",
             put->place->mark == NULL ? SHARD_NO_MARK : put->place->mark, 0);
    return shard_key(&at, MANIFEST_NAME, ret_key, err);
}

/* Chunks stay 16 MiB unless a file has over 1,000 of them: then the store is asked. */
static int put_cut(struct put *put, struct err *err)
{
    char key[OBJECT_KEY_MAX_BYTES + 1];
    const struct upload_place place = {put->at.part.bucket, key};
    size_t parts_max;

    if (question_key(put, key, err) != 0 ||
        upload_parts_max(put->client, &place, &put->manifest, &parts_max, err) != 0)
        return -1;
    return upload_cut(&put->manifest, parts_max, err);
}

/* ---- is it there? ---- */

/* Sizes are those that were listed: each read takes exactly so many bytes, and a file that
 * became longer has another stamp. */
static int put_encode(struct put *put, struct err *err)
{
    if (manifest_finish(&put->manifest, err) != 0)
        return -1;
    buf_clear(&put->text);
    manifest_encode(&put->manifest, &put->text);
    if (put->text.length > MANIFEST_MAX_BYTES)
        return err_set(err, ERR_UNFIT, "%s: the manifest is over %d bytes", put->label,
                       MANIFEST_MAX_BYTES);
    return 0;
}

static size_t hash_count(const struct manifest_entry *entry)
{
    return entry->is_directory ? 0 : entry->chunk_count > 0 ? entry->chunk_count : 1;
}

static bool is_hashed(const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->count; i++)
        if (manifest->entries[i].known_hashes < hash_count(&manifest->entries[i]))
            return false;
    return true;
}

/* By all threads: nothing is sent meanwhile. */
static int hash_source(struct put *put)
{
    const struct transfer transfer = {.purpose = TRANSFER_TAKE,
                                      .manifest = &put->manifest,
                                      .from = {put->source, put->label},
                                      .to = {-1, NULL}};
    struct pool pool;
    int result;

    pool_init(&pool, put->how->threads, 0);
    result = transfer_run(&transfer, &pool, NULL);
    pool_close(&pool);
    for (size_t i = 0; result == 0 && i < put->manifest.count; i++)
        put->manifest.entries[i].known_hashes = hash_count(&put->manifest.entries[i]);
    return result;
}

/* A manifest of the same files and sizes is worth reading the source for. */
static bool same_files(struct put *put, const struct buf *text)
{
    struct manifest manifest;
    bool same;

    if (manifest_parse(text->bytes, text->length, &manifest, NULL) != 0)
        return false;
    same = manifest_compare(&manifest, &put->manifest, NULL) == 0 &&
           (is_hashed(&put->manifest) || hash_source(put) == 0) &&
           manifest_same_contents(&manifest, &put->manifest);
    manifest_close(&manifest);
    if (!same)
        return false;
    buf_clear(&put->text); /* as it is there: how often it was copied is known to it alone */
    buf_append(&put->text, text->bytes, text->length);
    return true;
}

/* The very same bytes, and they verify. */
static bool same_shard(struct put *put)
{
    char hex[SHA256_HEX_BYTES];
    uint8_t digest[SHA256_BYTES];
    struct destination_place place = *put->place;
    struct shard_found found;
    bool same;

    sha256_of(put->text.bytes, put->text.length, digest);
    place.manifest_sha256 = sha256_format(digest, hex);
    same = shard_find(put->client, &place, &found, NULL) == 0 &&
           receive_files(&(struct receive_request){.client = put->client,
                                                   .at = &found.at,
                                                   .manifest = &found.manifest,
                                                   .threads = put->how->threads},
                         NULL) == 0;
    if (same)
        put->at = found.at;
    shard_found_close(&found);
    return same;
}

/* A worker that was killed between the MANIFEST and its report is asked again: its shard stands,
 * and nothing is sent twice. Any folder will do, also one of another node, when the bytes are
 * the same. */
static int put_reuse(struct put *put, bool *ret_reused, struct err *err)
{
    char key[OBJECT_KEY_MAX_BYTES + 1];
    struct shard_at one = put->at;
    struct buf text = {0};
    int result = 0;

    for (size_t at = 0; at < put->folders.length && !*ret_reused; at += SHARD_FOLDER_BYTES) {
        struct err why = {0};

        memcpy(one.folder, put->folders.bytes + at, SHARD_FOLDER_BYTES);
        result = shard_key(&one, MANIFEST_NAME, key, err);
        if (result != 0)
            break;
        if (object_get(put->client, put->at.part.bucket, key, &text, &why) == 0) {
            *ret_reused = same_files(put, &text) && same_shard(put);
            if (!*ret_reused && strcmp(one.folder, put->at.folder) == 0)
                put->spoiled = true;
        } else if (why.code != ERR_NOT_FOUND) {
            result = err_set(err, why.code, "%s", why.text);
            break;
        }
    }
    buf_close(&text);
    return result;
}

/* ---- sealing ---- */

/* What the store gives back is what a restart will get. What a killed put had brought there was
 * only hashed from the source now, so all of it is read; what it differs in is removed, or each
 * later put would find it again. */
static int put_read_back(struct put *put, struct err *err)
{
    struct sample sample = {.policy = put->how->read_back};
    const struct receive_request request = {.client = put->client,
                                            .at = &put->at,
                                            .manifest = &put->manifest,
                                            .sample = &sample,
                                            .threads = put->how->threads};
    char key[OBJECT_KEY_MAX_BYTES + 1];

    if (put->sent.resumed)
        sample.policy = SAMPLE_ALWAYS;
    if (sample.policy == SAMPLE_NEVER)
        return 0;
    sample_draw(&sample, &put->manifest);
    if (receive_files(&request, err) == 0)
        return 0;
    put->read_back_failed = err->code == ERR_CORRUPT;
    if (put->read_back_failed && shard_key(&put->at, "", key, NULL) == 0)
        (void)remove_below(put->client,
                           &(struct removal_below){.bucket = put->at.part.bucket,
                                                   .prefix = key,
                                                   .first = MANIFEST_NAME},
                           NULL, NULL);
    return -1;
}

/* A folder without MANIFEST that holds other objects than it should: a store that lost some. */
static int put_seal(struct put *put, struct err *err)
{
    char key[OBJECT_KEY_MAX_BYTES + 1];
    struct manifest there;
    bool has_manifest;
    int result;

    if (put_encode(put, err) != 0 || shard_key(&put->at, MANIFEST_NAME, key, err) != 0 ||
        shard_list(put->client, &put->at, &there, &has_manifest, err) != 0)
        return -1;
    result = shard_compare(&put->manifest, &there, err);
    manifest_close(&there);
    if (result != 0)
        return err_wrap(err, "what was written to s3://%s/%s%s", put->at.part.bucket,
                        put->at.part.key, put->at.folder);
    if (put_read_back(put, err) != 0)
        return err_wrap(err, "reading back");
    return object_put_once(put->client, put->at.part.bucket, key, &put->text, err);
}

/* Shards of earlier attempts, and what killed puts left. The shard stands: what cannot be removed
 * now goes with the checkpoint. */
static void put_remove_others(struct put *put)
{
    char key[OBJECT_KEY_MAX_BYTES + 1];
    struct removal_below below = {
        .bucket = put->at.part.bucket, .prefix = key, .first = MANIFEST_NAME};
    struct shard_at other = put->at;

    for (size_t at = 0; at < put->folders.length; at += SHARD_FOLDER_BYTES) {
        memcpy(other.folder, put->folders.bytes + at, SHARD_FOLDER_BYTES);
        if (strcmp(other.folder, put->at.folder) != 0 && shard_key(&other, "", key, NULL) == 0)
            (void)remove_below(put->client, &below, NULL, NULL);
    }
    /* Tries whose answer was lost. Uploads of other folders may be of a writer that is at work. */
    if (shard_key(&put->at, "", key, NULL) == 0)
        (void)remove_uploads(put->client, &below, NULL);
    if (upload_must_ask(&put->manifest) && question_key(put, key, NULL) == 0)
        (void)remove_uploads(put->client, &below, NULL);
}

/* ---- put ---- */

/* ERR_CORRUPT of what the store has copied: its bytes there are not what they were. */
static int put_write(struct put *put, struct err *err)
{
    const struct send_request request = {.client = put->client,
                                         .at = &put->at,
                                         .source = put->source,
                                         .label = put->label,
                                         .previous = &put->previous};
    struct err why = {0};
    int result = send_files(&request, &put->manifest, &put->sent, &why);

    /* also after a failure: bytes that have changed since they were hashed are refused by the
     * store, which is not to blame */
    if (source_check(put->source, put->label, &put->manifest, err) != 0)
        return -1;
    if (result != 0)
        return err_set(err, why.code, "%s", why.text);
    return put_seal(put, err);
}

/* All of it is sent, into another folder: a copy may be carried out late, over what is sent now. */
static int put_write_anew(struct put *put, struct err *err)
{
    previous_close(&put->previous);
    for (size_t i = 0; i < put->manifest.count; i++)
        put->manifest.entries[i].generation = 0;
    put->spoiled = true;
    name_folder(put);
    return put_write(put, err);
}

/* Before a byte is sent. The folder's name has its full length in any case. */
static int check_keys(struct put *put, struct err *err)
{
    char key[OBJECT_KEY_MAX_BYTES + 1];

    for (size_t i = 0; i < put->manifest.count; i++)
        if (!put->manifest.entries[i].is_directory &&
            shard_key(&put->at, put->manifest.entries[i].path, key, err) != 0)
            return -1;
    return 0;
}

/* The store is asked before the source is read: an outage is said before anything about the
 * source, and costs no reading. */
static int put_run(struct put *put, bool *ret_reused, struct err *err)
{
    struct err why = {0};
    int result;

    if (shard_folders(put->client, &put->at.part, &put->folders, err) != 0 ||
        shard_check_marks(put->place, &put->folders, err) != 0)
        return -1;
    put->source = source_open(put->label, &put->manifest, err);
    if (put->source < 0)
        return -1;
    if (put_cut(put, err) != 0)
        return -1;
    name_folder(put);
    if (check_keys(put, err) != 0 || put_reuse(put, ret_reused, err) != 0)
        return -1;
    if (*ret_reused)
        return source_check(put->source, put->label, &put->manifest, err);
    if (put->spoiled)
        name_folder(put);
    previous_open(&put->previous, put->client, &put->at.part, put->how->generations_max);
    result = put_write(put, &why);
    if (result != 0 && (put->read_back_failed || put->sent.late_copy) && put->previous.is_there)
        result = put_write_anew(put, &why);
    if (result != 0)
        return err_set(err, why.code, "%s", why.text);
    put_remove_others(put);
    return 0;
}

/* What verify and restore will be asked for. */
static void put_summarize(const struct put *put, struct destination_summary *ret_summary)
{
    uint8_t digest[SHA256_BYTES];

    sha256_of(put->text.bytes, put->text.length, digest);
    sha256_format(digest, ret_summary->manifest_sha256);
    ret_summary->size_bytes = put->manifest.size_bytes;
    ret_summary->file_count = put->manifest.file_count;
}

/* The grant holds for what is sent and for what is read back alike; what is hashed again on the
 * way to a second try is not counted. */
int s3_put(const struct destination_place *place, const char *source,
           const struct destination_how *how, struct destination_summary *ret_summary,
           struct err *err)
{
    const struct client_how client_how = {how->rate_bytes_per_s, S3_PATIENCE_MS};
    struct put put = {.place = place, .how = how, .label = source, .source = -1};
    bool reused = false;
    int result;

    if (location_of_part(place, &put.at.part, err) != 0)
        return -1;
    put.client = client_open(&client_how, err);
    if (put.client == NULL)
        return -1;
    result = put_run(&put, &reused, err);
    if (result == 0) {
        *ret_summary =
            (struct destination_summary){.reused = reused, .saved_bytes = put.sent.saved_bytes};
        put_summarize(&put, ret_summary);
        if (place->manifest_text != NULL)
            buf_append(place->manifest_text, put.text.bytes, put.text.length);
    }
    if (put.source >= 0)
        close(put.source);
    previous_close(&put.previous);
    manifest_close(&put.manifest);
    buf_close(&put.text);
    buf_close(&put.folders);
    client_close(put.client);
    return result;
}
