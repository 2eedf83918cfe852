/* What has not changed is taken over. See earlier.h. */
#include "src/dest/posix/earlier.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "src/dest/posix/shard.h"
#include "src/dest/tree.h"

/* ---- which one ---- */

/* When the part of this checkpoint was finished; false: there is none. */
static bool finished_at(int checkpoints, const char *checkpoint, const char *part,
                        struct timespec *ret_at)
{
    char path[3 * (MANIFEST_NAME_MAX_BYTES + 1)];
    struct stat status;
    int fd;

    snprintf(path, sizeof(path), "%s/%s/" MANIFEST_NAME, checkpoint, part);
    fd = tree_open_beneath(checkpoints, path, O_PATH, 0);
    if (fd < 0)
        return false;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(fd);
        return false;
    }
    close(fd);
    *ret_at = status.st_mtim;
    return true;
}

static bool is_later(const struct timespec *one, const struct timespec *other)
{
    return one->tv_sec != other->tv_sec ? one->tv_sec > other->tv_sec
                                        : one->tv_nsec > other->tv_nsec;
}

/* The checkpoint itself has no part of this name, or one that is being replaced. */
static bool find_newest(DIR *checkpoints, ino_t own, const char *part,
                        char ret_name[MANIFEST_NAME_MAX_BYTES + 1])
{
    struct timespec newest = {0}, at;
    const struct dirent *entry;
    bool found = false;

    while ((entry = readdir(checkpoints)) != NULL) {
        if (entry->d_name[0] == '.' || entry->d_ino == own ||
            !finished_at(dirfd(checkpoints), entry->d_name, part, &at) ||
            (found && !is_later(&at, &newest)))
            continue;
        snprintf(ret_name, MANIFEST_NAME_MAX_BYTES + 1, "%s", entry->d_name);
        newest = at;
        found = true;
    }
    return found;
}

/* The newest is the likeliest to be like what is written now: by the time its MANIFEST was written,
 * since names of checkpoints of another incarnation of the cluster do not compare. */
static int open_newest(int checkpoint, const char *part)
{
    char name[MANIFEST_NAME_MAX_BYTES + 1], path[2 * (MANIFEST_NAME_MAX_BYTES + 1)];
    struct stat own;
    int shard = -1;
    int fd = openat(checkpoint, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *checkpoints = fd < 0 ? NULL : fdopendir(fd);

    if (checkpoints == NULL) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (fstat(checkpoint, &own) == 0 && find_newest(checkpoints, own.st_ino, part, name)) {
        snprintf(path, sizeof(path), "%s/%s", name, part);
        shard = tree_open_beneath(dirfd(checkpoints), path, O_RDONLY | O_DIRECTORY, 0);
    }
    closedir(checkpoints);
    return shard;
}

/* A shard whose MANIFEST does not prove itself is none; its files are looked at when they are
 * wanted. */
void earlier_open(struct earlier *earlier, int checkpoint, const char *part,
                  unsigned generations_max)
{
    struct stat status;
    struct buf text;

    earlier->folder = -1;
    earlier->generations_max = generations_max;
    manifest_init(&earlier->manifest);
    if (generations_max == 0)
        return;
    earlier->folder = open_newest(checkpoint, part);
    if (earlier->folder < 0)
        return;
    buf_init(&text);
    if (shard_read_manifest(earlier->folder, part, &text, &earlier->manifest, NULL) != 0 ||
        fstatat(earlier->folder, MANIFEST_NAME, &status, AT_SYMLINK_NOFOLLOW) != 0)
        earlier_close(earlier);
    else
        earlier->finished_at = status.st_mtim;
    buf_close(&text);
}

void earlier_close(struct earlier *earlier)
{
    if (earlier->folder >= 0)
        close(earlier->folder);
    earlier->folder = -1;
    manifest_close(&earlier->manifest);
}

const struct manifest_entry *earlier_find(const struct earlier *earlier,
                                          const struct manifest_entry *entry)
{
    const struct manifest_entry *file;

    if (earlier == NULL || earlier->folder < 0 || entry->size_bytes == 0)
        return NULL;
    file = manifest_find(&earlier->manifest, entry->path);
    return file != NULL && !file->is_directory && file->chunk_bytes == entry->chunk_bytes &&
                   file->generation < earlier->generations_max
               ? file
               : NULL;
}

/* ---- whole files ---- */

static int open_parent(int base, const char *path, const char **ret_name)
{
    char parent[MANIFEST_PATH_MAX_BYTES];
    const char *slash = strrchr(path, '/');

    snprintf(parent, sizeof(parent), "%.*s", slash == NULL ? 0 : (int)(slash - path), path);
    *ret_name = slash == NULL ? path : slash + 1;
    return tree_open_beneath(base, parent, O_PATH | O_DIRECTORY, 0);
}

/* As far as can be told without reading it. */
static bool is_as_written(const struct earlier *earlier, const struct stat *status,
                          uint64_t size_bytes)
{
    return S_ISREG(status->st_mode) && (uint64_t)status->st_size == size_bytes &&
           !is_later(&status->st_mtim, &earlier->finished_at);
}

/* Looked at under its new name, which nobody else changes. */
static bool is_the_file(const struct earlier *earlier, int folder, const char *name,
                        uint64_t size_bytes)
{
    struct stat status;

    return fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           is_as_written(earlier, &status, size_bytes);
}

int earlier_link(const struct earlier *earlier, const struct manifest_entry *file, int to)
{
    char stored[MANIFEST_PATH_MAX_BYTES];
    const char *name, *path = manifest_stored_path(file, stored);
    int result = -1;
    int from_parent = open_parent(earlier->folder, path, &name);
    int to_parent = from_parent < 0 ? -1 : open_parent(to, path, &name);

    if (to_parent >= 0 && linkat(from_parent, name, to_parent, name, 0) == 0) {
        if (is_the_file(earlier, to_parent, name, manifest_stored_bytes(file)))
            result = 0;
        else
            (void)unlinkat(to_parent, name, 0); /* else writing it finds it there, and fails */
    }
    if (from_parent >= 0)
        close(from_parent);
    if (to_parent >= 0)
        close(to_parent);
    return result;
}

/* ---- chunks ---- */

int earlier_open_file(const struct earlier *earlier, const struct manifest_entry *file)
{
    int fd = file->frame_ends != NULL ? -1 /* its chunks lie elsewhere in it */
                                      : tree_open_file(earlier->folder, file->path, "", NULL);
    struct stat status;

    if (fd < 0 || (fstat(fd, &status) == 0 && is_as_written(earlier, &status, file->size_bytes)))
        return fd;
    close(fd);
    return -1;
}

/* Its server copies without sending; the kernel's own way elsewhere would read from storage what
 * the source still has in memory. */
static bool copies_on_server(int to)
{
    struct statfs status;

    return fstatfs(to, &status) == 0 && (unsigned long)status.f_type == NFS_SUPER_MAGIC;
}

int earlier_clone(int from, int to, struct copy_range range)
{
    struct file_clone_range clone = {.src_fd = from,
                                     .src_offset = range.offset,
                                     .src_length = range.length,
                                     .dest_offset = range.offset};
    off_t from_at = (off_t)range.offset, to_at = from_at;

    if (ioctl(to, FICLONERANGE, &clone) == 0)
        return 0;
    if (!copies_on_server(to))
        return -1;
    while (range.length > 0) {
        ssize_t copied = copy_file_range(from, &from_at, to, &to_at, (size_t)range.length, 0);
        if (copied < 0 && errno == EINTR)
            continue;
        if (copied <= 0)
            return -1;
        range.length -= (uint64_t)copied;
    }
    return 0;
}
