/* probe and prepare: finding out whether a folder takes writes, the target's own or a job's, which
 * is made first. See posix.h.
 *
 * Errors   of prepare, beside those of destination.h: whoever may not write is told whose the
 *          folder is and with which mode, since a person has to see to that.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/dest/fault.h"
#include "src/dest/posix/place.h"
#include "src/dest/tree.h"

enum { PROBE_BYTES = 4096, PROBE_STALE_S = 600, PREPARE_TRIES = 3 };

/* ---- the write ---- */

/* A full disk may take a part of a page: that is no write either. */
static int probe_write(int fd, const char *prefix, struct err *err)
{
    static const uint8_t bytes[PROBE_BYTES] = "ckpt write probe\n";
    ssize_t written = write(fd, bytes, sizeof(bytes));

    if (written != (ssize_t)sizeof(bytes)) {
        errno = written < 0 ? errno : ENOSPC;
        return fault_set(err, "write probe in", prefix);
    }
    return fsync(fd) == 0 ? 0 : fault_set(err, "fsync probe in", prefix);
}

static bool is_probe(const char *name)
{
    return strncmp(name, ".probe.tmp.", 11) == 0 || strncmp(name, ".probe.done.", 12) == 0 ||
           (strncmp(name, MARK_NAME, sizeof(MARK_NAME) - 1) == 0 && strstr(name, ".tmp.") != NULL);
}

/* Litter of killed probes, and of notes that were being written. Ages are by the destination's own
 * clock, so that probes of other members are left alone. */
static void probe_clean(int prefix, const struct stat *own)
{
    int fd = openat(prefix, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    struct stat status;

    if (directory == NULL)
        return;
    while ((entry = readdir(directory)) != NULL) {
        if (is_probe(entry->d_name) &&
            fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode) && status.st_mtime + PROBE_STALE_S < own->st_mtime)
            (void)unlinkat(fd, entry->d_name, 0); /* litter, not a fault of the destination */
    }
    closedir(directory);
}

static int probe_file(int prefix_fd, const char *prefix, const char *name, struct stat *ret_status,
                      struct err *err)
{
    int fd = openat(prefix_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int result;

    if (fd < 0)
        return fault_set(err, "create probe in", prefix);
    result = probe_write(fd, prefix, err);
    if (result == 0 && fstat(fd, ret_status) != 0)
        result = fault_set(err, "fstat probe in", prefix);
    if (close(fd) != 0 && result == 0)
        result = fault_set(err, "close probe in", prefix);
    return result;
}

/* The calls that a put needs, once each: create, write, fsync, rename, fsync of the folder,
 * unlink. */
static int probe_run(int prefix_fd, const char *prefix, struct err *err)
{
    char first[TREE_TEMPORARY_BYTES], second[TREE_TEMPORARY_BYTES];
    struct stat status;

    if (tree_temporary_name("probe", "tmp", first, err) != 0 ||
        tree_temporary_name("probe", "done", second, err) != 0)
        return -1;
    if (probe_file(prefix_fd, prefix, first, &status, err) != 0)
        goto fail;
    if (renameat(prefix_fd, first, prefix_fd, second) != 0) {
        fault_set(err, "rename probe in", prefix);
        goto fail;
    }
    if (tree_sync(prefix_fd, prefix, err) != 0)
        goto fail;
    if (unlinkat(prefix_fd, second, 0) != 0) {
        fault_set(err, "unlink probe in", prefix);
        goto fail;
    }
    probe_clean(prefix_fd, &status);
    return 0;
fail:
    (void)unlinkat(prefix_fd, first, 0); /* either may exist; the first error counts */
    (void)unlinkat(prefix_fd, second, 0);
    return -1;
}

int posix_probe(const char *prefix, struct err *err)
{
    int result;
    int fd = place_open_prefix(prefix, err);

    if (fd < 0)
        return -1;
    result = probe_run(fd, prefix, err);
    close(fd);
    return result;
}

/* ---- prepare ---- */

/* The lowest folder on the way that can be seen is the one that keeps the user out. */
static int explain_denied(const struct destination_place *place, const struct err *why,
                          struct err *err)
{
    char path[MANIFEST_PATH_MAX_BYTES];
    struct stat status;
    char *slash;

    snprintf(path, sizeof(path), "%s", place->path);
    while (lstat(path, &status) != 0) {
        slash = strrchr(path, '/');
        if (slash == NULL || slash == path)
            return err_set(err, why->code, "%s", why->text);
        *slash = '\0';
    }
    return err_set(err, why->code,
                   "%s belongs to user %u, mode %04o, and user %u may not write there: %s", path,
                   (unsigned)status.st_uid, (unsigned)(status.st_mode & 07777), (unsigned)geteuid(),
                   why->text);
}

/* A collect of the job's last checkpoint may remove the folder while it is looked at. */
int posix_prepare(const struct destination_place *place, struct err *err)
{
    struct err why = {0};
    int result = -1;

    for (int i = 0; i < PREPARE_TRIES && result != 0; i++) {
        int fd = place_create(place, &why);

        if (fd >= 0) {
            result = probe_run(fd, place->path, &why);
            close(fd);
        }
        if (result != 0 && why.code != ERR_NOT_FOUND)
            break;
    }
    if (result == 0)
        return 0;
    return why.code == ERR_AUTH ? explain_denied(place, &why, err)
                                : err_set(err, why.code, "%s", why.text);
}
