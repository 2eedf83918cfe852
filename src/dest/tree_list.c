/* What lies below a folder, as a manifest without hashes. See tree.h.
 *
 * Flow     the growing list is its own queue: each folder that was appended is read in its turn,
 *          then everything is sorted.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/fault.h"
#include "src/dest/tree.h"

struct listing {
    int base;
    const char *label;
    bool in_shard;
    struct manifest found;
};

/* FNV-1a of which file it is, its size and both of its times: two stamps are compared, and nothing
 * else is done with them. */
uint64_t tree_stamp(const struct stat *status)
{
    const uint64_t values[] = {(uint64_t)status->st_dev,          (uint64_t)status->st_ino,
                               (uint64_t)status->st_size,         (uint64_t)status->st_mtim.tv_sec,
                               (uint64_t)status->st_mtim.tv_nsec, (uint64_t)status->st_ctim.tv_sec,
                               (uint64_t)status->st_ctim.tv_nsec};
    uint64_t stamp = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < ARRAY_COUNT(values); i++)
        for (unsigned shift = 0; shift < 64; shift += 8)
            stamp = (stamp ^ (values[i] >> shift & 0xff)) * UINT64_C(1099511628211);
    return stamp;
}

static void note_change(struct manifest *found, const struct stat *status)
{
    int64_t changed_us =
        (int64_t)status->st_ctim.tv_sec * 1000000 + (int64_t)status->st_ctim.tv_nsec / 1000;

    if (changed_us > found->changed_us)
        found->changed_us = changed_us;
}

static int join_path(char ret_path[MANIFEST_PATH_MAX_BYTES], const char *folder, const char *name,
                     struct err *err)
{
    int length = snprintf(ret_path, MANIFEST_PATH_MAX_BYTES, "%s%s%s", folder,
                          *folder == '\0' ? "" : "/", name);

    if (length < 0 || length >= MANIFEST_PATH_MAX_BYTES)
        return err_set(err, ERR_REFUSED, "%s/%s: the path is over 4095 bytes", folder, name);
    return 0;
}

static const char *kind_name(mode_t mode)
{
    if (S_ISFIFO(mode))
        return "FIFO";
    return S_ISSOCK(mode) ? "socket" : "device";
}

/* Whether it may be kept is asked when all is listed. */
static int list_link(struct listing *listing, int folder, const char *path, const char *name,
                     struct err *err)
{
    char to[MANIFEST_PATH_MAX_BYTES];
    ssize_t length = readlinkat(folder, name, to, sizeof(to));

    if (length < 0)
        return fault_set(err, "read the link", path);
    if (length == sizeof(to))
        return err_set(err, ERR_REFUSED, "%s/%s is a symbolic link with a text over 4095 bytes",
                       listing->label, path);
    to[length] = '\0';
    manifest_add_link(&listing->found, path, to);
    return 0;
}

/* What would not come back from a checkpoint as it was must not be in one: sockets, devices. */
static int list_entry(struct listing *listing, int folder, const char *path, const char *name,
                      struct err *err)
{
    struct stat status;
    struct manifest_entry *entry;

    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return fault_set(err, "stat", path);
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode) && !S_ISLNK(status.st_mode))
        return err_set(err, listing->in_shard ? ERR_CORRUPT : ERR_REFUSED,
                       "%s/%s is a %s: a checkpoint holds regular files, folders and relative "
                       "symbolic links within it only",
                       listing->label, path, kind_name(status.st_mode));
    if (listing->found.count + listing->found.link_count == MANIFEST_ENTRIES_MAX)
        return err_set(err, ERR_REFUSED, "%s holds more than %d files, folders and links",
                       listing->label, MANIFEST_ENTRIES_MAX);
    if (listing->found.names_bytes > MANIFEST_MAX_BYTES)
        return err_set(err, ERR_REFUSED, "the names below %s take over %d bytes", listing->label,
                       MANIFEST_MAX_BYTES);
    if (S_ISLNK(status.st_mode))
        return list_link(listing, folder, path, name, err);
    entry = manifest_add(&listing->found, path, S_ISDIR(status.st_mode));
    entry->mode = status.st_mode & 0777;
    entry->size_bytes = entry->is_directory ? 0 : (uint64_t)status.st_size;
    entry->stamp = tree_stamp(&status);
    note_change(&listing->found, &status);
    return 0;
}

static int list_stream(struct listing *listing, DIR *directory, const char *folder, struct err *err)
{
    char path[MANIFEST_PATH_MAX_BYTES];
    const struct dirent *entry;

    for (errno = 0; (entry = readdir(directory)) != NULL; errno = 0) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (listing->in_shard && *folder == '\0' && strcmp(entry->d_name, MANIFEST_NAME) == 0)
            continue;
        if (join_path(path, folder, entry->d_name, err) != 0 ||
            list_entry(listing, dirfd(directory), path, entry->d_name, err) != 0)
            return -1;
    }
    return errno == 0 ? 0 : fault_set(err, "read folder", listing->label);
}

static int list_folder(struct listing *listing, const char *folder, struct err *err)
{
    int fd = tree_open_beneath(listing->base, folder, O_RDONLY | O_DIRECTORY, 0);
    DIR *directory;
    int result;

    if (fd < 0)
        return fault_set(err, "open folder", *folder == '\0' ? listing->label : folder);
    directory = fdopendir(fd);
    CHECK(directory != NULL);
    result = list_stream(listing, directory, folder, err);
    closedir(directory);
    return result;
}

int tree_list(int base, const char *label, bool in_shard, struct manifest *ret_manifest,
              struct err *err)
{
    struct listing listing = {.base = base, .label = label, .in_shard = in_shard};
    char folder[MANIFEST_PATH_MAX_BYTES];

    manifest_init(&listing.found);
    if (list_folder(&listing, "", err) != 0)
        goto fail;
    for (size_t i = 0; i < listing.found.count; i++) {
        if (!listing.found.entries[i].is_directory)
            continue;
        /* copied: the entries move while the list grows */
        snprintf(folder, sizeof(folder), "%s", listing.found.entries[i].path);
        if (list_folder(&listing, folder, err) != 0)
            goto fail;
    }
    if (manifest_finish(&listing.found, err) != 0) {
        if (in_shard && err != NULL)
            err->code = ERR_CORRUPT;
        goto fail;
    }
    *ret_manifest = listing.found;
    return 0;
fail:
    manifest_close(&listing.found);
    return -1;
}
