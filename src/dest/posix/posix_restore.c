/* verify and restore: a shard is read only after its manifest is proven, and used only after every
 * byte is. See posix.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/dest/fault.h"
#include "src/dest/posix/place.h"
#include "src/dest/posix/shard.h"
#include "src/dest/tree.h"

/* A shard whose manifest is proven and whose listing fits it. */
struct opened {
    char label[MANIFEST_PATH_MAX_BYTES];
    int shard;
    struct buf text;
    struct manifest manifest;
    struct destination_summary summary;
};

static void opened_close(struct opened *opened)
{
    if (opened->shard >= 0)
        close(opened->shard);
    buf_close(&opened->text);
    manifest_close(&opened->manifest);
}

/* Everything but the files' contents is checked here. */
static int opened_check(struct opened *opened, const struct destination_place *place,
                        struct err *err)
{
    if (shard_read_manifest(opened->shard, opened->label, &opened->text, &opened->manifest, err) !=
        0)
        return -1;
    shard_summarize(&opened->manifest, &opened->text, &opened->summary);
    if (place->manifest_sha256 != NULL &&
        strcmp(place->manifest_sha256, opened->summary.manifest_sha256) != 0)
        return err_set(err, ERR_CORRUPT, "%s: the manifest's SHA-256 is %s, recorded was %.64s",
                       opened->label, opened->summary.manifest_sha256, place->manifest_sha256);
    return shard_check_listing(opened->shard, opened->label, true, &opened->manifest, err);
}

/* Who hears NOT_FOUND gives the checkpoint up: where nothing lies at all it is tried again. */
static int open_checkpoint(const struct destination_place *place, struct err *err)
{
    struct err why = {0};
    int folder = place_open(place, &why);

    if (folder >= 0)
        return folder;
    if (why.code == ERR_NOT_FOUND && place_is_bare(place))
        return err_set(
            err, ERR_UNAVAILABLE,
            "nothing on the way to %s is below the prefix %s; mount the file system that "
            "belongs there",
            place->path, place->prefix);
    return err_set(err, why.code, "%s", why.text);
}

static int opened_init(struct opened *opened, const struct destination_place *place,
                       struct err *err)
{
    int folder;

    memset(opened, 0, sizeof(*opened));
    opened->shard = -1;
    if (place_check_part(place->part, err) != 0)
        return -1;
    snprintf(opened->label, sizeof(opened->label), "%s/%s", place->path, place->part);
    folder = open_checkpoint(place, err);
    if (folder < 0)
        return -1;
    opened->shard = shard_open(folder, place->part, opened->label, err);
    close(folder);
    if (opened->shard < 0)
        return -1;
    if (opened_check(opened, place, err) != 0) {
        opened_close(opened);
        return -1;
    }
    return 0;
}

int posix_verify(const struct destination_place *place, const struct destination_how *how,
                 struct destination_summary *ret_summary, struct err *err)
{
    struct opened opened;
    struct copier copier;
    int result;

    if (opened_init(&opened, place, err) != 0)
        return -1;
    copier_init(&copier, how->rate_bytes_per_s);
    result = shard_check_files(opened.shard, opened.label, &opened.manifest, &copier, err);
    copier_close(&copier);
    if (result == 0)
        *ret_summary = opened.summary;
    opened_close(&opened);
    return result;
}

/* ---- restore ---- */

/* Where a restore goes: a name in a folder that is there. */
struct target {
    const char *to;
    char name[MANIFEST_NAME_MAX_BYTES + 1];
    char temporary_name[TREE_TEMPORARY_BYTES];
    int parent;
    int temporary;
};

/* Only the last component is made here: the folder above it is the caller's to have. */
static int target_open(struct target *target, const char *to, struct err *err)
{
    char parent[MANIFEST_PATH_MAX_BYTES];
    size_t length = strlen(to), name_at;

    memset(target, 0, sizeof(*target));
    target->to = to;
    target->parent = target->temporary = -1;
    while (length > 1 && to[length - 1] == '/')
        length--;
    for (name_at = length; name_at > 0 && to[name_at - 1] != '/'; name_at--)
        continue;
    if (to[0] != '/' || length >= sizeof(parent) || length == name_at ||
        length - name_at >= sizeof(target->name))
        return err_set(err, ERR_INVALID, "the target \"%s\" is not an absolute path of a folder",
                       to);
    memcpy(target->name, to + name_at, length - name_at);
    if (strcmp(target->name, ".") == 0 || strcmp(target->name, "..") == 0)
        return err_set(err, ERR_INVALID, "the target \"%s\" does not end in a name", to);
    memcpy(parent, to, name_at);
    parent[name_at] = '\0';
    target->parent = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return target->parent >= 0 ? 0 : fault_set(err, "open the parent of the target", parent);
}

static void target_close(struct target *target)
{
    if (target->temporary >= 0)
        close(target->temporary);
    if (target->parent >= 0)
        close(target->parent);
}

/* 1: the target already holds exactly these files; 0: it is free; -1: it holds something else. */
static int target_state(const struct target *target, const struct manifest *manifest,
                        struct copier *copier, struct err *err)
{
    struct manifest found;
    bool empty, same;
    int fd = tree_open_beneath(target->parent, target->name, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0)
        return errno == ENOENT ? 0 : fault_set(err, "open target", target->to);
    if (tree_list(fd, target->to, false, &found, err) != 0) {
        close(fd);
        return -1;
    }
    empty = found.count == 0;
    same = !empty && manifest_compare(manifest, &found, NULL) == 0 &&
           shard_check_files(fd, target->to, manifest, copier, NULL) == 0;
    manifest_close(&found);
    close(fd);
    if (!empty && !same)
        return err_set(err, ERR_REFUSED,
                       "the target %s exists and holds something else; remove it first",
                       target->to);
    return same;
}

/* Compared while it is copied: what storage gives now may differ from what it gave a check
 * before. */
static int restore_file(const struct opened *opened, const struct target *target,
                        const struct manifest_entry *entry, struct copier *copier, struct err *err)
{
    int to = -1;
    int from = tree_open_file(opened->shard, entry->path, opened->label, err);

    if (from < 0)
        return -1;
    to = tree_open_beneath(target->temporary, entry->path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (to < 0) {
        fault_set(err, "create", entry->path);
        goto fail;
    }
    if (shard_read_file(copier, (struct copy_end){from, entry->path},
                        (struct copy_end){to, target->to}, entry, err) != 0) {
        err_wrap(err, "%s", opened->label);
        goto fail;
    }
    if (fchmod(to, entry->mode) != 0 || fsync(to) != 0) {
        fault_set(err, "finish", entry->path);
        goto fail;
    }
    close(from);
    return close(to) == 0 ? 0 : fault_set(err, "close", entry->path);
fail:
    if (to >= 0)
        close(to);
    close(from);
    return -1;
}

/* Modes last and bottom-up: a folder may end up without the right to enter it. */
static int restore_finish_folders(const struct target *target, const struct manifest *manifest,
                                  struct err *err)
{
    for (size_t i = manifest->count; i-- > 0;) {
        const struct manifest_entry *entry = &manifest->entries[i];
        int fd, result;
        if (!entry->is_directory)
            continue;
        fd = tree_open_beneath(target->temporary, entry->path, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0)
            return fault_set(err, "open folder", entry->path);
        result = fchmod(fd, entry->mode) == 0 ? tree_sync(fd, entry->path, err)
                                              : fault_set(err, "chmod", entry->path);
        close(fd);
        if (result != 0)
            return -1;
    }
    return tree_sync(target->temporary, target->to, err);
}

/* The target has its name only when all its files are there and durable; until then they lie in a
 * hidden folder beside it. */
static int restore_contents(const struct opened *opened, struct target *target,
                            struct copier *copier, struct err *err)
{
    if (tree_temporary_name(target->name, "tmp", target->temporary_name, err) != 0)
        return -1;
    if (mkdirat(target->parent, target->temporary_name, 0700) != 0)
        return fault_set(err, "mkdir beside", target->to);
    target->temporary =
        tree_open_beneath(target->parent, target->temporary_name, O_RDONLY | O_DIRECTORY, 0);
    if (target->temporary < 0)
        return fault_set(err, "open", target->temporary_name);
    for (size_t i = 0; i < opened->manifest.count; i++) {
        const struct manifest_entry *entry = &opened->manifest.entries[i];
        if (entry->is_directory ? tree_make_folder(target->temporary, entry->path, err)
                                : restore_file(opened, target, entry, copier, err))
            return -1;
    }
    if (restore_finish_folders(target, &opened->manifest, err) != 0)
        return -1;
    if (renameat(target->parent, target->temporary_name, target->parent, target->name) != 0)
        return fault_set(err, "rename to", target->to);
    return tree_sync(target->parent, target->to, err);
}

/* What a killed restore left goes first. A target that holds the same files already is success
 * without a copy: a restore may be asked for again. */
static int restore_run(struct opened *opened, struct target *target, struct copier *copier,
                       struct err *err)
{
    int state;

    if (tree_remove_temporaries(target->parent, target->name, "tmp", err) != 0)
        return -1;
    state = target_state(target, &opened->manifest, copier, err);
    opened->summary.reused = state == 1;
    if (state != 0)
        return state < 0 ? -1 : 0;
    if (restore_contents(opened, target, copier, err) == 0)
        return 0;
    (void)tree_remove_temporaries(target->parent, target->name, "tmp",
                                  NULL); /* the first error counts */
    return -1;
}

/* The shard was there and whole in its listing: what is missing now is the target, which belongs to
 * the job, and says nothing of the checkpoint. */
static int restore_failed(const struct err *why, struct err *err)
{
    if (why->code != ERR_NOT_FOUND)
        return err_set(err, why->code, "%s", why->text);
    return err_set(err, ERR_UNAVAILABLE, "the target went away: %s", why->text);
}

int posix_restore(const struct destination_place *place, const char *to,
                  const struct destination_how *how, struct destination_summary *ret_summary,
                  struct err *err)
{
    struct opened opened;
    struct target target;
    struct copier copier;
    struct err why = {0};
    int result;

    if (opened_init(&opened, place, err) != 0)
        return -1;
    copier_init(&copier, how->rate_bytes_per_s);
    result = target_open(&target, to, &why);
    if (result == 0)
        result = restore_run(&opened, &target, &copier, &why);
    if (result == 0)
        *ret_summary = opened.summary;
    else
        restore_failed(&why, err);
    target_close(&target);
    copier_close(&copier);
    opened_close(&opened);
    return result;
}
