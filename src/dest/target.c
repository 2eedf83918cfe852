/* A restore that becomes visible as a whole. See target.h. */
#include "src/dest/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/dest/fault.h"
#include "src/dest/holes.h"

/* Only the last component is made here: the folder above it is the caller's to have. */
int target_open(struct target *target, const char *to, struct err *err)
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
    if (target->parent < 0)
        return fault_set(err, "open the parent of the target", parent);
    return tree_remove_temporaries(target->parent, target->name, "tmp", err);
}

void target_close(struct target *target)
{
    if (target->temporary >= 0)
        close(target->temporary);
    if (target->parent >= 0)
        close(target->parent);
    target->temporary = target->parent = -1;
}

int target_taken(const struct target *target, struct err *err)
{
    return err_set(err, ERR_REFUSED,
                   "the target %s exists and holds something else; remove it first", target->to);
}

int target_look(const struct target *target, const struct manifest *manifest, struct err *err)
{
    struct manifest found;
    bool empty, same;
    int fd = tree_open_beneath(target->parent, target->name, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0)
        return errno == ENOENT ? TARGET_FREE : fault_set(err, "open target", target->to);
    if (tree_list(fd, target->to, false, &found, err) != 0) {
        close(fd);
        return TARGET_FAILED;
    }
    empty = found.count + found.link_count == 0;
    same = !empty && manifest_compare(manifest, &found, NULL) == 0;
    manifest_close(&found);
    if (same)
        return fd;
    close(fd);
    return empty ? TARGET_FREE : target_taken(target, err);
}

int target_begin(struct target *target, const struct manifest *manifest, struct err *err)
{
    if (tree_temporary_name(target->name, "tmp", target->temporary_name, err) != 0)
        return -1;
    if (mkdirat(target->parent, target->temporary_name, 0700) != 0)
        return fault_set(err, "mkdir beside", target->to);
    target->temporary =
        tree_open_beneath(target->parent, target->temporary_name, O_RDONLY | O_DIRECTORY, 0);
    if (target->temporary < 0)
        return fault_set(err, "open", target->temporary_name);
    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_entry *entry = &manifest->entries[i];
        if (entry->is_directory && tree_make_folder(target->temporary, entry->path, err) != 0)
            return -1;
    }
    return tree_make_links(target->temporary, manifest, err);
}

int target_create(const struct target *target, const struct manifest_entry *entry, struct err *err)
{
    int fd = tree_open_beneath(target->temporary, entry->path, O_WRONLY | O_CREAT | O_EXCL, 0600);

    if (fd < 0)
        return fault_set(err, "create", entry->path);
    /* its room is taken first, as writes that make a file longer come one after another */
    if (entry->chunk_count > 0 && tree_bypasses(target->temporary) &&
        fallocate(fd, 0, 0, (off_t)entry->size_bytes) == 0)
        (void)fcntl(fd, F_SETFL, O_WRONLY | O_DIRECT);
    return fd;
}

int target_finish(int fd, const struct manifest_entry *entry, struct err *err)
{
    /* the last block was written whole */
    if (((entry->chunk_count > 0 || entry->size_bytes >= HOLE_BYTES) &&
         ftruncate(fd, (off_t)entry->size_bytes) != 0) ||
        fchmod(fd, entry->mode) != 0 || fsync(fd) != 0) {
        fault_set(err, "finish", entry->path);
        close(fd);
        return -1;
    }
    return close(fd) == 0 ? 0 : fault_set(err, "close", entry->path);
}

int target_publish(struct target *target, const struct manifest *manifest, struct err *err)
{
    if (tree_sync_folders(target->temporary, target->to, manifest, TREE_SYNC_WITH_MODES, err) != 0)
        return -1;
    if (renameat(target->parent, target->temporary_name, target->parent, target->name) != 0)
        return fault_set(err, "rename to", target->to);
    return tree_sync(target->parent, target->to, err);
}

void target_drop(struct target *target)
{
    (void)tree_remove_temporaries(target->parent, target->name, "tmp", NULL); /* the first counts */
}

int target_failed(const struct err *why, struct err *err)
{
    /* only writing finds no space, and nothing is written to the destination */
    if (why->code == ERR_FULL || why->code == ERR_QUOTA)
        return err_set(err, ERR_NO_ROOM, "there is no room for what is restored: %s", why->text);
    if (why->code != ERR_NOT_FOUND)
        return err_set(err, why->code, "%s", why->text);
    return err_set(err, ERR_UNAVAILABLE, "the target went away: %s", why->text);
}
