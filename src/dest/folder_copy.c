/* A folder copied by its user. See folder_copy.h. */
#include "src/dest/folder_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/dest/posix/shard.h"
#include "src/dest/tree.h"

enum { STEP_BYTES = 1 << 20 };

/* ---- what is there ---- */

static int folder_failed(const char *folder, struct err *err)
{
    return err_set(err, errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO,
                   "%s: %s; name a folder that you may read", folder, strerror(errno));
}

static bool has_manifest(int fd)
{
    return faccessat(fd, MANIFEST_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_packed(const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->count; i++)
        if (manifest->entries[i].frame_ends != NULL)
            return true;
    return false;
}

/* Compared with its MANIFEST, byte by byte; modes are as its program gave them. */
static int compare_shard(int fd, const char *folder, struct manifest *manifest,
                         struct manifest *listed, struct err *err)
{
    struct pool pool;
    int result;

    if (is_packed(manifest))
        return err_set(err, ERR_REFUSED, "it holds packed files");
    if (shard_check_listing(fd, folder, true, manifest, err) != 0)
        return -1;
    pool_init(&pool, 0, 0);
    result = shard_check_files(&(struct transfer_side){fd, folder}, manifest, NULL, &pool, err);
    pool_close(&pool);
    if (result != 0 || tree_list(fd, folder, true, listed, err) != 0)
        return -1;
    for (size_t i = 0; i < listed->count && i < manifest->count; i++)
        listed->entries[i].mode = manifest->entries[i].mode;
    return 0;
}

/* A shard as it lies at a destination. The reader of packed files is `get`. */
static int list_shard(int fd, const char *folder, struct manifest *ret_listed, struct err *err)
{
    struct manifest manifest;
    struct buf text;
    struct err why = {0};
    int result;

    manifest_init(&manifest);
    buf_init(&text);
    result = shard_read_manifest(fd, folder, &text, &manifest, &why);
    if (result == 0)
        result = compare_shard(fd, folder, &manifest, ret_listed, &why);
    manifest_close(&manifest);
    buf_close(&text);
    return result == 0 ? 0
                       : err_set(err, ERR_REFUSED,
                                 "%s has a MANIFEST: it is a checkpoint as it lies at a "
                                 "destination, and cannot be taken from there: %.200s; ckpt-run "
                                 "get CHECKPOINT DIR brings one as its program wrote it",
                                 folder, why.text);
}

static int list_folder(int fd, const char *folder, struct manifest *ret_listed, struct err *err)
{
    return has_manifest(fd) ? list_shard(fd, folder, ret_listed, err)
                            : tree_list(fd, folder, false, ret_listed, err);
}

/* The open folder and what it holds, or -1. */
static int folder_open(const char *folder, struct manifest *ret_listed, struct err *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return folder_failed(folder, err);
    if (list_folder(fd, folder, ret_listed, err) == 0) {
        if (ret_listed->size_bytes > 0)
            return fd;
        manifest_close(ret_listed);
        err_set(err, ERR_EMPTY,
                "%s holds no bytes; name the folder that has the checkpoint's files", folder);
    }
    close(fd);
    return -1;
}

/* A file that its user may not read would be found when the checkpoint is asked for, too late. */
static int check_readable(int fd, const char *folder, const struct manifest *listed,
                          struct err *err)
{
    for (size_t i = 0; i < listed->count; i++)
        if (faccessat(fd, listed->entries[i].path, R_OK, AT_EACCESS) != 0)
            return err_set(err, ERR_UNFIT, "%s/%s: %s; you import what you may read", folder,
                           listed->entries[i].path, strerror(errno));
    return 0;
}

int folder_copy_look(const char *folder, struct folder_sum *ret_sum, struct err *err)
{
    struct manifest listed;
    int fd = folder_open(folder, &listed, err), result;

    if (fd < 0)
        return -1;
    result = check_readable(fd, folder, &listed, err);
    if (result == 0)
        *ret_sum = (struct folder_sum){listed.size_bytes, listed.file_count};
    manifest_close(&listed);
    close(fd);
    return result;
}

/* ---- files ---- */

/* Within the kernel where it can be, which may share the blocks; else by a buffer. */
static int copy_bytes(int from, int to, off_t at, off_t end)
{
    off_t read_at = at, write_at = at;
    ssize_t moved = 1;
    uint8_t *buffer;

    while (at < end && moved > 0) {
        moved = copy_file_range(from, &read_at, to, &write_at, (size_t)(end - at), 0);
        at += moved > 0 ? moved : 0;
    }
    if (at == end)
        return 0;
    buffer = check_calloc(1, STEP_BYTES);
    for (moved = 1; at < end && moved > 0; at += moved > 0 ? moved : 0) {
        size_t length = end - at < STEP_BYTES ? (size_t)(end - at) : STEP_BYTES;

        moved = pread(from, buffer, length, at);
        if (moved > 0)
            moved = pwrite(to, buffer, (size_t)moved, at);
    }
    free(buffer);
    if (moved == 0)
        errno = EIO; /* it became shorter, or the disk takes nothing */
    return at == end ? 0 : -1;
}

/* Holes stay holes. */
static int copy_data(int from, int to, off_t size)
{
    off_t hole = 0, data;

    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    if (ftruncate(to, size) != 0)
        return -1;
    while (hole < size && (data = lseek(from, hole, SEEK_DATA)) >= 0 && data < size) {
        hole = lseek(from, data, SEEK_HOLE);
        if (hole < 0 || hole > size)
            hole = size;
        if (copy_bytes(from, to, data, hole) != 0)
            return -1;
    }
    return 0;
}

static int copy_file_to(int base, const struct manifest_entry *entry, const char *folder, int to,
                        struct err *err)
{
    int from = tree_open_file(base, entry->path, folder, err), file, failed = 0;

    if (from < 0)
        return -1;
    file = tree_open_beneath(to, entry->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || copy_data(from, file, (off_t)entry->size_bytes) != 0 ||
        fchmod(file, entry->mode) != 0)
        failed = errno;
    if (file >= 0 && close(file) != 0 && failed == 0)
        failed = errno;
    close(from);
    return failed == 0
               ? 0
               : err_set(err, ERR_IO, "copying %s/%s: %s", folder, entry->path, strerror(failed));
}

/* ---- the folder ---- */

static int copy_entries(int base, const struct manifest *listed, const char *folder, int to,
                        struct err *err)
{
    for (size_t i = 0; i < listed->count; i++) {
        const struct manifest_entry *entry = &listed->entries[i];

        if (entry->is_directory ? tree_make_folder(to, entry->path, err) != 0
                                : copy_file_to(base, entry, folder, to, err) != 0)
            return -1;
    }
    if (tree_make_links(to, listed, err) != 0)
        return -1;
    for (size_t i = listed->count; i > 0; i--) /* a mode may forbid to write into a folder */
        if (listed->entries[i - 1].is_directory &&
            fchmodat(to, listed->entries[i - 1].path, listed->entries[i - 1].mode, 0) != 0)
            return err_set(err, ERR_IO, "chmod %s: %s", listed->entries[i - 1].path,
                           strerror(errno));
    return 0;
}

/* Half of one state and half of another is no checkpoint. */
static int check_unchanged(int base, const struct manifest *listed, const char *folder,
                           struct err *err)
{
    struct manifest now;
    size_t same = 0;

    if (tree_list(base, folder, has_manifest(base), &now, err) != 0)
        return -1;
    while (same < listed->count && same < now.count &&
           strcmp(listed->entries[same].path, now.entries[same].path) == 0 &&
           listed->entries[same].stamp == now.entries[same].stamp)
        same++;
    if (same < listed->count || same < now.count)
        err_set(err, ERR_CORRUPT,
                "%s/%s changed while it was imported; import it when nobody writes there", folder,
                same < listed->count ? listed->entries[same].path : now.entries[same].path);
    same = same == listed->count && same == now.count;
    manifest_close(&now);
    return same ? 0 : -1;
}

int folder_copy(const char *folder, const char *to, struct folder_sum *ret_sum, struct err *err)
{
    struct manifest listed;
    int base = folder_open(folder, &listed, err), target, result = -1;

    if (base < 0)
        return -1;
    target = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (target < 0)
        err_set(err, ERR_IO, "%s: %s", to, strerror(errno));
    else
        result = copy_entries(base, &listed, folder, target, err);
    if (result == 0)
        result = check_unchanged(base, &listed, folder, err);
    if (result == 0)
        *ret_sum = (struct folder_sum){listed.size_bytes, listed.file_count};
    if (target >= 0)
        close(target);
    manifest_close(&listed);
    close(base);
    return result;
}
