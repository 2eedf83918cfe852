/* stage and publish: an application writes into the hidden folder at the destination itself, which
 * then becomes the shard. See posix.h.
 *
 * Flow     posix_stage -> the application writes -> posix_publish: direct_list (what is there?) ->
 *          direct_hash (each file once, and durable) -> put_seal -> put_publish -> looked at once
 *          more, by the kernel's clock of changes, since descriptors outlive a rename.
 * Shapes   the folder is called .{part}.tmp.{its inode number}: so it is found again under the
 *          part's name by a publish whose predecessor was killed after the rename, and no other
 *          attempt's shard is ever taken for it. What removes leftovers of puts removes it.
 * Errors   beside put's: ERR_UNFIT for a file with a second name, through which it could be
 *          changed after it was published.
 * Absent   taking over what has not changed: it is written already. Modes: files keep those that
 *          their application gave them, behind folders that only the job's user enters.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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

enum { SWEEP_MS = 8000 }; /* of the half minute that an agent gives to stage */

/* ---- stage ---- */

/* A name of its own until its number is known. */
static int make_folder(int folder, const char *part, const char *label,
                       char ret_name[DESTINATION_NAME_BYTES], struct err *err)
{
    char made[TREE_TEMPORARY_BYTES];
    struct stat status;

    if (tree_temporary_name(part, "tmp", made, err) != 0)
        return -1;
    if (tree_mkdir_own(folder, made) != 0)
        return fault_set(err, "mkdir in the folder of", label);
    if (fstatat(folder, made, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return fault_set(err, "stat the folder of", label);
    if (snprintf(ret_name, DESTINATION_NAME_BYTES, ".%s.tmp.%016" PRIx64, part,
                 (uint64_t)status.st_ino) >= DESTINATION_NAME_BYTES)
        return err_set(err, ERR_INVALID, "the name \"%s\" is too long, use at most 128 bytes",
                       part);
    if (renameat(folder, made, folder, ret_name) != 0)
        return fault_set(err, "rename the folder of", label);
    return 0;
}

/* An application waits to be asked, and what a killed attempt left may be a million files: the rest
 * of it goes with the next one, with abandon, or with the checkpoint. What is to be overwritten
 * goes with the latter two alone, since one large file may take longer than there is. */
static int sweep_a_while(int folder, const struct destination_place *place, struct err *err)
{
    struct neighbours neighbours;
    struct err why = {0};
    int result;

    if (tree_wipes())
        return 0;
    tree_bound_removal(SWEEP_MS * UINT64_C(1000));
    result = put_sweep(folder, place->part, &why);
    neighbours_open(&neighbours, folder, place->path);
    put_sweep_others(&neighbours, place->part);
    neighbours_close(&neighbours);
    tree_bound_removal(0);
    return result == 0 || why.code == ERR_BUSY ? 0 : err_set(err, why.code, "%s", why.text);
}

int posix_stage(const struct destination_place *place, char ret_name[DESTINATION_NAME_BYTES],
                struct err *err)
{
    int folder, result;

    if (place_check_part(place->part, err) != 0)
        return -1;
    folder = place_create(place, err);
    if (folder < 0)
        return -1;
    result = place_mark(folder, place, err);
    if (result == 0)
        result = sweep_a_while(folder, place, err);
    if (result == 0)
        result = make_folder(folder, place->part, place->path, ret_name, err);
    if (result != 0)
        (void)tree_remove_temporaries(folder, place->part, "tmp", NULL);
    close(folder);
    return result;
}

/* ---- publish ---- */

/* False: it is not one that posix_stage() gave for this part. */
static bool staged_inode(const char *part, const char *name, uint64_t *ret_inode)
{
    char prefix[TREE_TEMPORARY_BYTES];
    int length = snprintf(prefix, sizeof(prefix), ".%s.tmp.", part);

    CHECK(length > 0 && length < TREE_TEMPORARY_BYTES);
    if (strncmp(name, prefix, (size_t)length) != 0 ||
        strlen(name + length) != TREE_TEMPORARY_DIGITS ||
        strspn(name + length, "0123456789abcdef") != TREE_TEMPORARY_DIGITS)
        return false;
    *ret_inode = strtoull(name + length, NULL, 16);
    return true;
}

/* Of a publish that was killed before its rename: a whole one. Any other file of that name is the
 * application's, and is refused with the listing. */
static void remove_own_manifest(const struct put *put)
{
    struct manifest manifest;
    struct buf text;

    buf_init(&text);
    manifest_init(&manifest);
    if (shard_read_manifest(put->temporary, put->label, &text, &manifest, NULL) == 0)
        (void)unlinkat(put->temporary, MANIFEST_NAME, 0);
    manifest_close(&manifest);
    buf_close(&text);
}

static int check_names(const struct put *put, struct err *err)
{
    for (size_t i = 0; i < put->manifest.count; i++) {
        const struct manifest_entry *entry = &put->manifest.entries[i];
        struct stat status;
        int fd, result;

        if (entry->is_directory)
            continue;
        fd = tree_open_beneath(put->temporary, entry->path, O_PATH, 0);
        result = fd < 0 ? -1 : fstat(fd, &status);
        if (fd >= 0)
            close(fd);
        if (result == 0 && status.st_nlink > 1)
            return err_set(err, ERR_UNFIT,
                           "%s has %lu names, and what is written through another one would "
                           "change the checkpoint: let the application copy the file, or use "
                           "staging local",
                           entry->path, (unsigned long)status.st_nlink);
    }
    return 0; /* what has gone is found by who opens it */
}

static int direct_list(struct put *put, struct err *err)
{
    remove_own_manifest(put);
    if (tree_remove_temporaries(put->folder, put->part, "new", err) != 0)
        return -1;
    if (source_list(put->temporary, put->source_label, &put->manifest, err) != 0)
        return -1;
    return check_names(put, err);
}

/* Its application may have any of these open for as long as it runs: a link would have what it
 * writes then in two checkpoints. */
static void forbid_links(struct put *put)
{
    for (size_t i = 0; i < put->manifest.count; i++) {
        struct manifest_entry *entry = &put->manifest.entries[i];
        entry->generation = entry->is_directory ? 0 : MANIFEST_GENERATION_MAX;
    }
}

static int direct_hash(struct put *put, struct err *err)
{
    const struct transfer transfer = {.purpose = TRANSFER_TAKE,
                                      .manifest = &put->manifest,
                                      .from = {put->temporary, put->source_label},
                                      .to = {-1, ""},
                                      .spots = put_draw_spots(put),
                                      .in_place = true};

    if (transfer_run(&transfer, &put->pool, err) != 0)
        return -1;
    forbid_links(put);
    return source_check(put->temporary, put->source_label, &put->manifest, err);
}

/* It has its name, and is not what its MANIFEST says: it loses it again. */
static int take_back(const struct put *put, const struct err *why, struct err *err)
{
    struct err local = {0};

    if (renameat(put->folder, put->part, put->folder, put->temporary_name) != 0 ||
        tree_sync(put->folder, put->label, &local) != 0)
        return err_set(err, ERR_IO, "%s; and it could not be taken back: %s", why->text,
                       strerror(errno));
    (void)tree_remove(put->folder, put->temporary_name, NULL); /* the next put removes it */
    return err_set(err, why->code, "%s", why->text);
}

/* A file that does not read as it was hashed may have been written meanwhile: then storage is not
 * to blame. */
static int seal_staged(struct put *put, struct err *err)
{
    if (put_seal(put, err) == 0)
        return 0;
    if (put->read_back_failed)
        (void)source_check(put->temporary, put->source_label, &put->manifest, err);
    return -1;
}

static int publish_staged(struct put *put, struct err *err)
{
    struct err why = {0};

    if (direct_list(put, err) != 0 || direct_hash(put, err) != 0 || seal_staged(put, err) != 0 ||
        put_publish(put, err) != 0)
        return -1;
    if (source_check_shard(put->temporary, put->source_label, &put->manifest, &why) == 0)
        return 0;
    return take_back(put, &why, err);
}

/* By one that was killed before it could tell: whether something was written after the rename is
 * known only by reading all of it. */
static int publish_again(struct put *put, struct err *err)
{
    struct err why = {0};

    if (shard_read_manifest(put->temporary, put->label, &put->text, &put->manifest, &why) == 0 &&
        shard_check_listing(put->temporary, put->label, true, &put->manifest, &why) == 0 &&
        shard_check_files(&(struct transfer_side){put->temporary, put->label}, &put->manifest, NULL,
                          &put->pool, &why) == 0)
        return tree_sync(put->folder, put->label, err);
    return why.code == ERR_CORRUPT ? take_back(put, &why, err)
                                   : err_set(err, why.code, "%s", why.text);
}

static int publish_run(struct put *put, const struct destination_place *place, uint64_t inode,
                       struct err *err)
{
    struct stat status;

    put->folder = place_open(place, err);
    if (put->folder < 0 || place_check_mark(put->folder, place, err) != 0)
        return -1;
    put->temporary = tree_open_beneath(put->folder, put->temporary_name, O_RDONLY | O_DIRECTORY, 0);
    if (put->temporary >= 0)
        return publish_staged(put, err);
    if (errno != ENOENT)
        return fault_set(err, "open", put->temporary_name);
    put->temporary = shard_open(put->folder, put->part, put->label, NULL);
    if (put->temporary >= 0 && fstat(put->temporary, &status) == 0 &&
        (uint64_t)status.st_ino == inode)
        return publish_again(put, err);
    return err_set(err, ERR_NOT_FOUND,
                   "%s/%s is gone, into which the application was to write: it was removed, as "
                   "of an attempt that was given up",
                   place->path, put->temporary_name);
}

int posix_publish(const struct destination_place *place, const char *name,
                  const struct destination_how *how, struct destination_summary *ret_summary,
                  struct err *err)
{
    char label[MANIFEST_PATH_MAX_BYTES];
    uint64_t inode;
    struct put put;
    int prefix, result;

    if (place_check_part(place->part, err) != 0)
        return -1;
    if (!staged_inode(place->part, name, &inode))
        return err_set(err, ERR_INVALID, "\"%.200s\" is not a folder that stage has made for %s",
                       name, place->part);
    prefix = place_open_prefix(place->prefix, err);
    if (prefix < 0)
        return -1;
    close(prefix);
    snprintf(label, sizeof(label), "%s/%s", place->path, name);
    put_init(&put, place, label, how);
    memcpy(put.temporary_name, name, strlen(name) + 1);
    put.in_place = true;
    result = publish_run(&put, place, inode, err);
    if (result == 0)
        shard_summarize(&put.manifest, &put.text, ret_summary);
    put_close(&put);
    return result;
}
