/* Folders walked by descriptor. See tree.h; listing is tree_list.c, making durable tree_sync.c. */
#include "src/dest/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/fault.h"
#include "src/dest/pace.h"
#include "src/dest/wipe.h"

/* Reading a large folder on NFS while it is emptied may skip entries: they are found in another
 * pass. */
enum { TREE_REMOVE_PASSES = 8 };

/* One component. Linux answers ENOTDIR for a symbolic link where a folder is wanted; callers are
 * told ELOOP. */
static int open_component(int base, const char *name, int flags, mode_t mode)
{
    struct stat status;
    int fd = openat(base, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);

    if (fd < 0 && errno == ENOTDIR) {
        errno = fstatat(base, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode)
                    ? ELOOP
                    : ENOTDIR;
    }
    return fd;
}

/* The caller's next line reads errno. */
static int close_keeping_errno(int fd, int result)
{
    int number = errno;

    close(fd); /* a descriptor for walking: nothing was written through it */
    errno = number;
    return result;
}

/* The whole way in one call (Linux 5.6). ENOSYS: an older kernel; EPERM: perhaps a filter of system
 * calls that does not know this one. */
static int open_at_once(int base, const char *relative, int flags, mode_t mode)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                           .mode = (flags & O_CREAT) != 0 ? mode : 0,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};

    return (int)syscall(SYS_openat2, base, *relative == '\0' ? "." : relative, &how, sizeof(how));
}

static int open_by_component(int base, const char *relative, int flags, mode_t mode)
{
    char name[MANIFEST_NAME_MAX_BYTES + 1];
    int at = openat(base, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (*relative == '\0')
        return at < 0 ? -1 : close_keeping_errno(at, openat(at, ".", flags | O_CLOEXEC, mode));
    while (at >= 0) {
        size_t length = strcspn(relative, "/");
        bool last = relative[length] == '\0';
        if (length > MANIFEST_NAME_MAX_BYTES) {
            errno = ENAMETOOLONG;
            return close_keeping_errno(at, -1);
        }
        memcpy(name, relative, length);
        name[length] = '\0';
        at = close_keeping_errno(
            at, open_component(at, name, last ? flags : O_PATH | O_DIRECTORY, mode));
        if (last)
            return at;
        relative += length + 1;
    }
    return -1;
}

int tree_open_beneath(int base, const char *relative, int flags, mode_t mode)
{
    int fd = open_at_once(base, relative, flags, mode);

    return fd >= 0 || (errno != ENOSYS && errno != EPERM)
               ? fd
               : open_by_component(base, relative, flags, mode);
}

int tree_open_file(int base, const char *relative, const char *label, struct err *err)
{
    char path[MANIFEST_PATH_MAX_BYTES];
    struct stat status;
    int fd = tree_open_beneath(base, relative, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);

    snprintf(path, sizeof(path), "%s/%s", label, relative);
    if (fd < 0)
        return fault_set(err, "open", path);
    if (fstat(fd, &status) != 0) {
        fault_set(err, "fstat", path);
        return close_keeping_errno(fd, -1);
    }
    if (!S_ISREG(status.st_mode)) {
        err_set(err, ERR_REFUSED, "%s is not a regular file", path);
        return close_keeping_errno(fd, -1);
    }
    return fd;
}

/* The umask is the process's, which has one thread. */
int tree_mkdir(int parent, const char *name, mode_t mode)
{
    mode_t mask = umask(0);
    int result = mkdirat(parent, name, mode);

    umask(mask); /* leaves errno */
    return result;
}

int tree_mkdir_own(int parent, const char *name)
{
    struct stat status;

    if (fstat(parent, &status) != 0)
        return -1;
    return tree_mkdir(parent, name, (status.st_mode & S_ISGID) != 0 ? 0770 : 0700);
}

static int make_link(int base, const struct manifest_link *link, struct err *err)
{
    char folder[MANIFEST_PATH_MAX_BYTES];
    const char *slash = strrchr(link->path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - link->path);
    int fd, result;

    memcpy(folder, link->path, length);
    folder[length] = '\0';
    fd = tree_open_beneath(base, folder, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fault_set(err, "open the folder of", link->path);
    result = symlinkat(link->to, fd, slash == NULL ? link->path : slash + 1);
    if (result != 0)
        fault_set(err, "make the link", link->path);
    close(fd);
    return result;
}

int tree_make_links(int base, const struct manifest *manifest, struct err *err)
{
    for (size_t i = 0; i < manifest->link_count; i++)
        if (make_link(base, &manifest->links[i], err) != 0)
            return -1;
    return 0;
}

bool tree_is_empty(int fd)
{
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = again < 0 ? NULL : fdopendir(again);
    const struct dirent *entry;
    bool empty = directory != NULL;

    while (empty && (entry = readdir(directory)) != NULL)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (directory != NULL)
        closedir(directory);
    else if (again >= 0)
        close(again);
    return empty;
}

int tree_make_folder(int base, const char *relative, struct err *err)
{
    const char *slash = strrchr(relative, '/');
    char parent[MANIFEST_PATH_MAX_BYTES];
    int fd, result;

    snprintf(parent, sizeof(parent), "%.*s", slash == NULL ? 0 : (int)(slash - relative), relative);
    fd = tree_open_beneath(base, parent, O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return fault_set(err, "open folder", parent);
    result = tree_mkdir_own(fd, slash == NULL ? relative : slash + 1);
    if (result != 0)
        fault_set(err, "mkdir", relative);
    return close_keeping_errno(fd, result);
}

static struct tree_removed *counted; /* a worker removes one tree, in one thread */

void tree_count_removed(struct tree_removed *removed)
{
    counted = removed;
}

static uint64_t removal_until_us; /* 0: no bound */

void tree_bound_removal(uint64_t most_us)
{
    removal_until_us = most_us == 0 ? 0 : pace_clock_us() + most_us;
}

static int check_bound(const char *name, struct err *err)
{
    if (removal_until_us == 0 || pace_clock_us() < removal_until_us)
        return 0;
    return err_set(err, ERR_BUSY, "removing %s takes too long; the rest goes later", name);
}

static bool wiping;

void tree_wipe(bool wipe)
{
    wiping = wipe;
}

bool tree_wipes(void)
{
    return wiping;
}

/* A name of a file is about to go; with its last one its bytes do. */
static struct tree_removed count_of(int parent, const char *name)
{
    struct stat status;

    if (counted == NULL || fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        S_ISDIR(status.st_mode))
        return (struct tree_removed){0};
    return (struct tree_removed){
        .files = 1,
        .bytes = S_ISREG(status.st_mode) && status.st_nlink == 1 ? (uint64_t)status.st_size : 0};
}

static void add_removed(const struct tree_removed *gone)
{
    if (counted == NULL)
        return;
    counted->files += gone->files;
    counted->bytes += gone->bytes;
    counted->wiped += gone->wiped;
    counted->unwiped += gone->unwiped;
}

/* A file or an empty folder goes at once; of a full folder the caller is told. unlinkat() is asked
 * first, without a look at what it is: between a look and the removal it might become something
 * else. */
static int remove_entry(int parent, const char *name, bool in_folder, bool *ret_is_directory,
                        struct err *err)
{
    struct tree_removed gone = count_of(parent, name);
    struct wipe_result wipe = {0};

    if (wiping && wipe_file(parent, name, in_folder, &wipe, err) != 0)
        return -1;
    if (wipe.removed || unlinkat(parent, name, 0) == 0) {
        gone.wiped = wipe.wiped;
        gone.unwiped = wipe.unwiped;
        add_removed(&gone);
        return 0;
    }
    if (errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM) /* EPERM: what POSIX says for a folder */
        return fault_set(err, "unlink", name);
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    *ret_is_directory = errno == ENOTEMPTY || errno == EEXIST;
    if (*ret_is_directory)
        return 0;
    errno = errno == ENOTDIR ? EPERM : errno; /* a file after all: what unlink said */
    return fault_set(err, "remove", name);
}

static int remove_contents(int parent, const char *name, unsigned depth, struct err *err);

/* Depth is bounded by remove_contents(); each level has one descriptor open. */
static int remove_one(int parent, const char *name, unsigned depth, struct err *err)
{
    bool full_directory = false;

    if (remove_entry(parent, name, depth > 0, &full_directory, err) != 0)
        return -1;
    if (!full_directory)
        return 0;
    for (int i = 0; i < TREE_REMOVE_PASSES; i++) {
        if (remove_contents(parent, name, depth, err) != 0)
            return -1;
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (errno != ENOTEMPTY && errno != EEXIST)
            break;
    }
    return fault_set(err, "rmdir", name);
}

/* Its owner may have made it unwritable; of a folder of somebody else's, what follows tells. What
 * its group may do stays so, since what a killed removal leaves is for others to remove. */
static void open_to_owner(int parent, const char *name)
{
    struct stat status;

    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        (status.st_mode & S_IRWXU) == S_IRWXU)
        return;
    if (fchmodat(parent, name, (status.st_mode & 07777) | S_IRWXU, AT_SYMLINK_NOFOLLOW) != 0)
        errno = 0; /* what follows fails with the same cause */
}

static int remove_contents(int parent, const char *name, unsigned depth, struct err *err)
{
    const struct dirent *entry;
    DIR *directory;
    int result = 0, fd;

    open_to_owner(parent, name);
    fd = open_component(parent, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return errno == ENOENT ? 0 : fault_set(err, "open folder", name);
    if (depth > 2 * MANIFEST_DEPTH_MAX) {
        close_keeping_errno(fd, 0);
        return err_set(err, ERR_REFUSED, "%s is too deep to be a checkpoint; remove it by hand",
                       name);
    }
    directory = fdopendir(fd);
    CHECK(directory != NULL);
    for (errno = 0; (entry = readdir(directory)) != NULL; errno = 0) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strcmp(entry->d_name, MANIFEST_NAME) != 0 &&
            remove_one(fd, entry->d_name, depth + 1, err) != 0)
            result = -1; /* the space of the others is worth having */
        if (check_bound(name, err) != 0) {
            result = -1;
            break;
        }
    }
    if (result == 0 && errno != 0)
        result = fault_set(err, "read folder", name);
    if (result == 0)
        result = remove_one(fd, MANIFEST_NAME, depth + 1, err);
    closedir(directory);
    return result;
}

int tree_remove(int parent, const char *name, struct err *err)
{
    CHECK(strchr(name, '/') == NULL && strcmp(name, "..") != 0 && strcmp(name, ".") != 0);
    return remove_one(parent, name, 0, err);
}

int tree_temporary_name(const char *name, const char *kind, char ret_name[TREE_TEMPORARY_BYTES],
                        struct err *err)
{
    uint64_t random;
    int length;

    CHECK(getrandom(&random, sizeof(random), 0) == (ssize_t)sizeof(random));
    length = snprintf(ret_name, TREE_TEMPORARY_BYTES, ".%s.%s.%016llx", name, kind,
                      (unsigned long long)random);
    if (length < 0 || length >= TREE_TEMPORARY_BYTES)
        return err_set(err, ERR_INVALID, "the name \"%s\" is too long, use at most 200 bytes",
                       name);
    return 0;
}

/* The digits are matched to the end, so that part "a" never takes the leftovers of a part "a.tmp.b"
 * for its own. */
bool tree_is_temporary(const char *entry, const char *name, const char *kind)
{
    char prefix[TREE_TEMPORARY_BYTES];
    int length = snprintf(prefix, sizeof(prefix), ".%s.%s.", name, kind);

    return length > 0 && length < TREE_TEMPORARY_BYTES &&
           strncmp(entry, prefix, (size_t)length) == 0 &&
           strlen(entry + length) == TREE_TEMPORARY_DIGITS &&
           strspn(entry + length, "0123456789abcdef") == TREE_TEMPORARY_DIGITS;
}

static bool is_any_temporary(const char *entry, const char *name, const char *const *kinds)
{
    for (; *kinds != NULL; kinds++) {
        if (tree_is_temporary(entry, name, *kinds))
            return true;
    }
    return false;
}

int tree_remove_temporaries(int parent, const char *name, const char *kind, struct err *err)
{
    const char *const kinds[] = {kind, NULL};

    return tree_remove_all_temporaries(parent, name, kinds, err);
}

int tree_remove_all_temporaries(int parent, const char *name, const char *const *kinds,
                                struct err *err)
{
    const struct dirent *entry;
    DIR *directory;
    int result = 0;
    int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return fault_set(err, "open folder of", name);
    directory = fdopendir(fd);
    CHECK(directory != NULL);
    for (errno = 0; result == 0 && (entry = readdir(directory)) != NULL; errno = 0) {
        if (is_any_temporary(entry->d_name, name, kinds) &&
            tree_remove(parent, entry->d_name, err) != 0)
            result = err_wrap(err, "what is left of it, %s", entry->d_name);
    }
    if (result == 0 && errno != 0)
        result = fault_set(err, "read folder of", name);
    closedir(directory);
    return result;
}
