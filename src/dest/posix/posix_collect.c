/* collect: removing a whole checkpoint. See posix.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/dest/fault.h"
#include "src/dest/posix/place.h"
#include "src/dest/tree.h"

enum { COLLECT_PARENTS = 2 };

/* ---- collect ---- */

/* Splits in place: relative keeps the parent, the last component is returned. */
static const char *split_last(char *relative)
{
    char *slash = strrchr(relative, '/');

    if (slash == NULL)
        return NULL;
    *slash = '\0';
    return slash + 1;
}

/* One without any mark is of before there were marks, or was written by hand: the record of it
 * counts. */
static int check_checkpoint(int parent, const char *name, const struct destination_place *place,
                            struct err *err)
{
    int fd, result;

    if (place->mark == NULL)
        return 0;
    fd = tree_open_beneath(parent, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fault_set(err, "open", name);
    result = place_check_mark(fd, place, err);
    close(fd);
    return result;
}

/* First away from its name in one step: a removal that is killed half way leaves nothing that looks
 * like a checkpoint. */
static int remove_checkpoint(int parent, const char *name, const struct destination_place *place,
                             struct destination_removed *ret_removed, struct err *err)
{
    struct tree_removed removed = {0};
    char gone_name[TREE_TEMPORARY_BYTES];
    struct stat status;
    int result;

    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        if (!S_ISDIR(status.st_mode))
            return err_set(err, ERR_REFUSED,
                           "%s is not a folder (a symbolic link is never followed); look at it and "
                           "remove it by hand",
                           name);
        if (check_checkpoint(parent, name, place, err) != 0 ||
            tree_temporary_name(name, "gone", gone_name, err) != 0)
            return -1;
        if (renameat(parent, name, parent, gone_name) == 0)
            ret_removed->removed = true;
        else if (errno != ENOENT)
            return fault_set(err, "move away", name);
    } else if (errno != ENOENT) {
        return fault_set(err, "stat", name);
    }
    tree_count_removed(&removed);
    result = tree_remove_temporaries(parent, name, "gone", err);
    tree_count_removed(NULL);
    ret_removed->removed |= removed.files > 0;
    ret_removed->bytes = removed.bytes;
    ret_removed->files = removed.files;
    ret_removed->wiped = removed.wiped;
    ret_removed->unwiped = removed.unwiped;
    if (result != 0)
        return -1;
    return tree_sync(parent, "the folder of the checkpoint", err);
}

/* {allocation}/checkpoints and {allocation} once they are empty. Best effort: they hold no data. */
static void remove_empty_parents(int prefix, char *relative)
{
    bool going_on = true;

    for (int i = 0; going_on && i < COLLECT_PARENTS; i++) {
        const char *name = split_last(relative);
        int parent, result;
        if (name == NULL)
            return;
        parent = tree_open_beneath(prefix, relative, O_RDONLY | O_DIRECTORY, 0);
        result = parent < 0 ? -1 : unlinkat(parent, name, AT_REMOVEDIR);
        going_on =
            result == 0 || errno == ENOENT; /* gone: a collect before this one was killed here */
        if (parent >= 0)
            close(parent);
    }
}

/* It is gone: a collect before this one was killed before it could be told. Or its file system is
 * not mounted: then not even the tenant's folder is there, which no collect takes away; but for a
 * tenant that has never written anything either. */
static int nothing_there(const char *prefix, const char *path, struct err *err)
{
    if (!place_is_bare(&(struct destination_place){.prefix = prefix, .path = path}))
        return 0;
    return err_set(err, ERR_NOT_FOUND,
                   "nothing on the way to it is below the prefix %s; mount the file system that "
                   "belongs there",
                   prefix);
}

int posix_collect(const struct destination_place *place, struct destination_removed *ret_removed,
                  struct err *err)
{
    const char *prefix = place->prefix, *path = place->path;
    char relative[MANIFEST_PATH_MAX_BYTES];
    const char *name;
    struct destination_removed removed = {0};
    int prefix_fd, parent, result;

    if (place_relative(prefix, path, relative, err) != 0)
        return -1;
    prefix_fd = place_open_prefix(prefix, err);
    if (prefix_fd < 0)
        return -1;
    name = split_last(relative);
    if (name == NULL) {
        close(prefix_fd);
        return err_set(
            err, ERR_REFUSED,
            "%s lies directly below the prefix: that is a tenant's folder, not a checkpoint", path);
    }
    parent = tree_open_beneath(prefix_fd, relative, O_RDONLY | O_DIRECTORY, 0);
    if (parent < 0) {
        result = errno == ENOENT ? nothing_there(prefix, path, err)
                                 : fault_set(err, "open the folder of", path);
    } else {
        result = remove_checkpoint(parent, name, place, &removed, err);
        close(parent);
    }
    if (result == 0)
        remove_empty_parents(prefix_fd, relative);
    close(prefix_fd);
    if (result != 0)
        return err_wrap(err, "removing %s", path);
    *ret_removed = removed;
    return 0;
}

void posix_tidy(const char *prefix, const char *path)
{
    char relative[MANIFEST_PATH_MAX_BYTES];
    int prefix_fd;

    if (place_relative(prefix, path, relative, NULL) != 0 || split_last(relative) == NULL)
        return;
    prefix_fd = place_open_prefix(prefix, NULL);
    if (prefix_fd < 0)
        return;
    remove_empty_parents(prefix_fd, relative);
    close(prefix_fd);
}

/* That of {allocation}, which root gave to the job's user: place.h. */
int posix_owner(const char *prefix, const char *path, uid_t *ret_uid, struct err *err)
{
    char relative[MANIFEST_PATH_MAX_BYTES];
    struct stat status;
    int prefix_fd, fd, result;

    if (place_relative(prefix, path, relative, err) != 0)
        return -1;
    for (int i = 0; i < COLLECT_PARENTS; i++)
        if (split_last(relative) == NULL)
            return err_set(err, ERR_REFUSED, "%s is too short to be a checkpoint's folder", path);
    prefix_fd = place_open_prefix(prefix, err);
    if (prefix_fd < 0)
        return -1;
    fd = tree_open_beneath(prefix_fd, relative, O_PATH | O_DIRECTORY, 0);
    close(prefix_fd);
    if (fd < 0)
        return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "there is no %s/%s", prefix, relative)
                               : fault_set(err, "look for the owner of", relative);
    result = fstat(fd, &status);
    close(fd);
    if (result != 0)
        return fault_set(err, "look for the owner of", relative);
    *ret_uid = status.st_uid;
    return 0;
}
