/* put: a folder becomes a shard, all or nothing. See posix.h.
 *
 * Flow     posix_put -> put_reuse (is it there already?) -> earlier_open (what may be taken over?)
 *          -> put_copy -> source_check (nobody has written there meanwhile) -> put_seal (read back,
 *          MANIFEST, fsync) -> put_publish. Where reading back fails and something was taken over,
 *          all of it once more without (put_write_anew). A
 *          kill at any moment leaves at most folders that begin with a dot; the next put of the
 *          part removes them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/fault.h"
#include "src/dest/posix/place.h"
#include "src/dest/posix/put.h"
#include "src/dest/posix/shard.h"
#include "src/dest/source.h"

void put_init(struct put *put, const struct destination_place *place, const char *source,
              const struct destination_how *how)
{
    memset(put, 0, sizeof(*put));
    put->part = place->part;
    put->source_label = source;
    snprintf(put->label, sizeof(put->label), "%s/%s", place->path, place->part);
    put->source = put->folder = put->temporary = -1;
    pool_init(&put->pool, how->threads, how->rate_bytes_per_s);
    put->sample.policy = how->read_back;
    put->generations_max = how->generations_max;
    put->compresses = how->compresses;
    put->earlier.folder = put->neighbours.folder = -1;
    manifest_init(&put->manifest);
    buf_init(&put->text);
}

static void close_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

void put_close(struct put *put)
{
    close_open(put->source);
    close_open(put->folder);
    close_open(put->temporary);
    pool_close(&put->pool);
    spots_close(&put->spots);
    earlier_close(&put->earlier);
    neighbours_close(&put->neighbours);
    manifest_close(&put->manifest);
    buf_close(&put->text);
}

/* The source is the application's: it is looked at as a whole before a byte is written. */
static int put_list_source(struct put *put, struct err *err)
{
    put->source = source_open(put->source_label, &put->manifest, err);
    return put->source >= 0 ? 0 : -1;
}

struct spots *put_draw_spots(struct put *put)
{
    spots_close(&put->spots);
    if (put->sample.policy != SAMPLE_SAMPLED)
        return NULL;
    spots_draw(&put->spots, &put->manifest);
    return &put->spots;
}

/* Hashes of all files are noted in the manifest; `to` -1: nothing is written. */
static int take_source(struct put *put, int to, struct err *err)
{
    const struct transfer transfer = {.purpose = TRANSFER_TAKE,
                                      .manifest = &put->manifest,
                                      .from = {put->source, put->source_label},
                                      .to = {to, put->label},
                                      .spots = to < 0 ? NULL : put_draw_spots(put),
                                      .earlier = to < 0 ? NULL : &put->earlier,
                                      .compresses = to >= 0 && put->compresses,
                                      .saved_bytes = &put->saved_bytes};

    return transfer_run(&transfer, &put->pool, err);
}

/* Does the existing shard hold the very same bytes, and do they verify? */
static bool put_same_as(struct put *put, int shard)
{
    struct buf text;
    struct manifest manifest;
    bool same = false;

    buf_init(&text);
    manifest_init(&manifest);
    same = shard_read_manifest(shard, put->label, &text, &manifest, NULL) == 0 &&
           manifest_compare(&manifest, &put->manifest, NULL) == 0 &&
           take_source(put, -1, NULL) == 0 && manifest_same_contents(&manifest, &put->manifest) &&
           shard_check_listing(shard, put->label, true, &manifest, NULL) == 0 &&
           shard_check_files(&(struct transfer_side){shard, put->label}, &manifest, NULL,
                             &put->pool, NULL) == 0;
    if (same) {
        buf_append(&put->text, text.bytes, text.length);
        put->saved_bytes = manifest.size_bytes;
    }
    manifest_close(&manifest);
    buf_close(&text);
    return same;
}

static bool put_reuse(struct put *put)
{
    int shard = shard_open(put->folder, put->part, put->label, NULL);
    bool same = shard >= 0 && put_same_as(put, shard);

    close_open(shard);
    return same;
}

/* All of it goes into a hidden folder, which a kill leaves to the next put of the part. */
static int put_copy(struct put *put, struct err *err)
{
    if (tree_temporary_name(put->part, "tmp", put->temporary_name, err) != 0)
        return -1;
    if (tree_mkdir_own(put->folder, put->temporary_name) != 0)
        return fault_set(err, "mkdir in the folder of", put->label);
    put->temporary = tree_open_beneath(put->folder, put->temporary_name, O_RDONLY | O_DIRECTORY, 0);
    if (put->temporary < 0)
        return fault_set(err, "open", put->temporary_name);
    for (size_t i = 0; i < put->manifest.count; i++) {
        const struct manifest_entry *entry = &put->manifest.entries[i];
        if (entry->is_directory && tree_make_folder(put->temporary, entry->path, err) != 0)
            return -1;
    }
    if (tree_make_links(put->temporary, &put->manifest, err) != 0)
        return -1;
    return take_source(put, put->temporary, err);
}

static int write_text(const struct put *put, int folder, const char *name, struct err *err)
{
    int fd = tree_open_beneath(folder, name, O_WRONLY | O_CREAT | O_EXCL, 0600);

    if (fd < 0)
        return fault_set(err, "create the manifest of", put->label);
    if (copy_append((struct copy_end){fd, put->label}, put->text.bytes, put->text.length, err) !=
        0) {
        err_wrap(err, "the manifest");
        goto fail;
    }
    if (fsync(fd) != 0) {
        fault_set(err, "fsync the manifest of", put->label);
        goto fail;
    }
    return close(fd) == 0 ? 0 : fault_set(err, "close the manifest of", put->label);
fail:
    close(fd);
    return -1;
}

/* Last, when every file is durable and was read back: a folder with a MANIFEST is a whole one. In
 * an application's own folder it appears as a whole, by a rename, so that a file of that name which
 * is none can only be the application's. */
static int write_manifest(const struct put *put, struct err *err)
{
    char name[TREE_TEMPORARY_BYTES];
    int result;

    if (!put->in_place)
        return write_text(put, put->temporary, MANIFEST_NAME, err);
    if (tree_temporary_name(put->part, "new", name, err) != 0)
        return -1;
    result = write_text(put, put->folder, name, err);
    if (result == 0 && renameat(put->folder, name, put->temporary, MANIFEST_NAME) != 0)
        result = fault_set(err, "rename the manifest of", put->label);
    if (result != 0)
        (void)unlinkat(put->folder, name, 0); /* else the next put does */
    return result;
}

static int read_back(struct put *put, struct err *err)
{
    const struct transfer transfer = {.purpose = TRANSFER_CHECK,
                                      .manifest = &put->manifest,
                                      .from = {put->temporary, put->label},
                                      .to = {-1, ""},
                                      .sample = &put->sample,
                                      .spots = put->spots.files == NULL ? NULL : &put->spots};

    sample_draw(&put->sample, &put->manifest);
    return transfer_run(&transfer, &put->pool, err);
}

/* Read back before it is published: what storage gives back is what a restart will get. */
int put_seal(struct put *put, struct err *err)
{
    if (read_back(put, err) != 0) {
        put->read_back_failed = true;
        return err_wrap(err, "reading back");
    }
    manifest_encode(&put->manifest, &put->text);
    if (put->text.length > MANIFEST_MAX_BYTES)
        return err_set(err, ERR_UNFIT, "%s: the manifest is over %d bytes", put->source_label,
                       MANIFEST_MAX_BYTES);
    if (write_manifest(put, err) != 0)
        return -1;
    return tree_sync_folders(put->temporary, put->label, &put->manifest,
                             put->in_place ? TREE_SYNC_OTHERS : TREE_SYNC_OWN, err);
}

/* An older shard under the name (another attempt, or damaged) is moved away first; a kill in
 * between leaves none, which is what the record says too: the checkpoint is not complete while a
 * put runs. */
int put_publish(struct put *put, struct err *err)
{
    char old_name[TREE_TEMPORARY_BYTES];
    bool replaced = false;

    if (tree_temporary_name(put->part, "old", old_name, err) != 0)
        return -1;
    if (renameat(put->folder, put->temporary_name, put->folder, put->part) != 0) {
        if (errno != ENOTEMPTY && errno != EEXIST)
            return fault_set(err, "rename to", put->label);
        if (renameat(put->folder, put->part, put->folder, old_name) != 0)
            return fault_set(err, "move away the old", put->label);
        replaced = true;
        if (renameat(put->folder, put->temporary_name, put->folder, put->part) != 0)
            return fault_set(err, "rename to", put->label);
    }
    if (tree_sync(put->folder, put->label, err) != 0)
        return -1;
    if (replaced)
        (void)tree_remove(put->folder, old_name,
                          NULL); /* the shard is published; the next put or collect removes it */
    return 0;
}

int put_sweep(int folder, const char *part, struct err *err)
{
    static const char *const kinds[] = {"tmp", "new", "old", NULL};

    return tree_remove_all_temporaries(folder, part, kinds, err);
}

void put_sweep_others(const struct neighbours *neighbours, const char *part)
{
    for (size_t i = 0; i < neighbours->count; i++) {
        int other = openat(neighbours->folder, neighbours->names[i],
                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (other < 0)
            continue;
        (void)put_sweep(other, part, NULL);
        close(other);
    }
}

/* What a failure leaves is removed; its error counts. */
static int put_write(struct put *put, struct err *err)
{
    if (put_copy(put, err) == 0 &&
        source_check(put->source, put->source_label, &put->manifest, err) == 0 &&
        put_seal(put, err) == 0 && put_publish(put, err) == 0)
        return 0;
    (void)tree_remove_temporaries(put->folder, put->part, "tmp", NULL);
    return -1;
}

/* Without what was taken over: storage has damaged it since, or does not read it now. */
static int put_write_anew(struct put *put, struct err *err)
{
    earlier_close(&put->earlier);
    put->saved_bytes = 0;
    manifest_drop_frames(&put->manifest);
    for (size_t i = 0; i < put->manifest.count; i++)
        put->manifest.entries[i].generation = 0;
    close_open(put->temporary);
    put->temporary = -1;
    buf_clear(&put->text);
    return put_write(put, err);
}

/* A shard that is there already counts only if the source did not change while it was compared with
 * it. A put that was killed, or failed, right after its rename left a name that may not be
 * durable. */
static int put_keep(struct put *put, struct err *err)
{
    return tree_sync(put->folder, put->label, err) == 0
               ? source_check(put->source, put->source_label, &put->manifest, err)
               : -1;
}

/* In an open folder of the checkpoint. */
static int put_into(struct put *put, struct place_pending *pending, bool *ret_reused,
                    struct err *err)
{
    struct err why = {0};

    *ret_reused = put_reuse(put);
    if (*ret_reused)
        return put_keep(put, err);
    earlier_open(&put->earlier, &put->neighbours, put->part, put->generations_max);
    if (!put->earlier.found && place_settle(pending, err) != 0)
        return -1;
    if (put_write(put, &why) == 0)
        return 0;
    if (put->read_back_failed && put->saved_bytes > 0)
        return put_write_anew(put, err);
    return err_set(err, why.code, "%s", why.text);
}

static int put_run(struct put *put, const struct destination_place *place, bool *ret_reused,
                   struct err *err)
{
    struct place_pending pending = {.count = 0};
    int result = -1;

    if (put_list_source(put, err) != 0)
        return -1;
    put->folder = place_create_pending(place, &pending, err);
    if (put->folder >= 0 && place_mark(put->folder, place, err) == 0 &&
        put_sweep(put->folder, put->part, err) == 0) {
        neighbours_open(&put->neighbours, put->folder, place->path);
        put_sweep_others(&put->neighbours, put->part);
        result = put_into(put, &pending, ret_reused, err);
    }
    place_forget(&pending);
    return result;
}

int posix_put(const struct destination_place *place, const char *source,
              const struct destination_how *how, struct destination_summary *ret_summary,
              struct err *err)
{
    struct put put;
    bool reused = false;
    int prefix, result;

    if (place_check_part(place->part, err) != 0)
        return -1;
    prefix = place_open_prefix(place->prefix,
                               err); /* an outage is said before anything about the source */
    if (prefix < 0)
        return -1;
    close(prefix);
    put_init(&put, place, source, how);
    result = put_run(&put, place, &reused, err);
    if (result == 0) {
        shard_summarize(&put.manifest, &put.text, ret_summary);
        ret_summary->reused = reused;
        ret_summary->saved_bytes = put.saved_bytes;
        if (place->manifest_text != NULL)
            buf_append(place->manifest_text, put.text.bytes, put.text.length);
    }
    put_close(&put);
    return result;
}

int posix_abandon(const struct destination_place *place, struct err *err)
{
    struct err local = {0};
    int folder, result;

    if (place_check_part(place->part, err) != 0)
        return -1;
    folder = place_open(place, &local);
    if (folder < 0)
        return local.code == ERR_NOT_FOUND ? 0 : err_set(err, local.code, "%s", local.text);
    result = place_check_mark(folder, place, err);
    if (result == 0)
        result = put_sweep(folder, place->part, err);
    close(folder);
    return result;
}
