/* What has not changed is taken over. See earlier.h. */
#include "src/dest/posix/earlier.h"

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

static bool is_finished(int checkpoints, const char *checkpoint, const char *part)
{
    char path[3 * (MANIFEST_NAME_MAX_BYTES + 1)];
    struct stat status;
    int fd;
    bool finished;

    snprintf(path, sizeof(path), "%s/%s/" MANIFEST_NAME, checkpoint, part);
    fd = tree_open_beneath(checkpoints, path, O_PATH, 0);
    if (fd < 0)
        return false;
    finished = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    close(fd);
    return finished;
}

static bool is_later(const struct timespec *one, const struct timespec *other)
{
    return one->tv_sec != other->tv_sec ? one->tv_sec > other->tv_sec
                                        : one->tv_nsec > other->tv_nsec;
}

/* The first neighbour that has the part: a checkpoint before it is likelier to be like what is
 * written now than one behind it, and the next one the likeliest. */
static int open_next(const struct neighbours *neighbours, const char *part)
{
    char path[2 * (MANIFEST_NAME_MAX_BYTES + 1)];

    for (size_t i = 0; i < neighbours->count; i++) {
        if (!is_finished(neighbours->folder, neighbours->names[i], part))
            continue;
        snprintf(path, sizeof(path), "%s/%s", neighbours->names[i], part);
        return tree_open_beneath(neighbours->folder, path, O_RDONLY | O_DIRECTORY, 0);
    }
    return -1;
}

/* A shard whose MANIFEST does not prove itself is none; its files are looked at when they are
 * wanted. */
void earlier_open(struct earlier *earlier, const struct neighbours *neighbours, const char *part,
                  unsigned generations_max)
{
    struct stat status;
    struct buf text;

    earlier->generations_max = generations_max;
    manifest_init(&earlier->manifest);
    earlier->folder = open_next(neighbours, part);
    earlier->found = earlier->folder >= 0;
    if (generations_max == 0)
        earlier_close(earlier);
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

/* A removal that found no other name overwrites the file (src/dest/wipe.h), and takes its name away
 * before it looks: while the name is there, the link was made in time. */
static bool has_both_names(int from_parent, int to_parent, const char *name)
{
    struct stat from, to;

    return fstatat(from_parent, name, &from, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(to_parent, name, &to, AT_SYMLINK_NOFOLLOW) == 0 && from.st_dev == to.st_dev &&
           from.st_ino == to.st_ino;
}

int earlier_link(const struct earlier *earlier, const struct manifest_entry *file, int to)
{
    char stored[MANIFEST_PATH_MAX_BYTES];
    const char *name, *path = manifest_stored_path(file, stored);
    int result = -1;
    int from_parent = open_parent(earlier->folder, path, &name);
    int to_parent = from_parent < 0 ? -1 : open_parent(to, path, &name);

    if (to_parent >= 0 && linkat(from_parent, name, to_parent, name, 0) == 0) {
        if (has_both_names(from_parent, to_parent, name) &&
            is_the_file(earlier, to_parent, name, manifest_stored_bytes(file)))
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
