/* See audit_file.h. */
#include "src/broker/keep/audit_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fsm/audit.h"
#include "src/base/bytes.h"
#include "src/base/check.h"

enum { WINDOW_BYTES = 1 << 20 };
#define SIGNATURE_NEW "signature.new" /* until it has its name */
_Static_assert(WINDOW_BYTES > FSM_AUDIT_LENGTH_BYTES + FSM_AUDIT_LINK_MAX_BYTES, "one fits");

static int set_errno(struct err *err, const char *what, const char *name)
{
    int code = errno;
    bool full = code == ENOSPC || code == EDQUOT;

    return err_set(err, full ? ERR_FULL : ERR_IO, "%s %s: %s", what, name, strerror(code));
}

static void name_file(uint64_t epoch, uint64_t first, char name[AUDIT_FILE_NAME_BYTES])
{
    snprintf(name, AUDIT_FILE_NAME_BYTES, "audit-%08" PRIu64 "-%020" PRIu64 ".audit", epoch, first);
}

/* ---- opening ---- */

/* Names have a fixed width: the last in their order is the newest. */
static int find_newest(struct audit_file *file, struct err *err)
{
    int fd = dup(file->folder);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    uint64_t epoch, first;

    if (entries == NULL)
        return set_errno(err, "list", "the folder of the audit trail");
    while ((entry = readdir(entries)) != NULL) {
        char name[AUDIT_FILE_NAME_BYTES];

        if (sscanf(entry->d_name, "audit-%" SCNu64 "-%" SCNu64 ".audit", &epoch, &first) != 2)
            continue;
        name_file(epoch, first, name);
        if (strcmp(name, entry->d_name) != 0 || strcmp(name, file->name) <= 0)
            continue;
        snprintf(file->name, sizeof(file->name), "%s", name);
        file->epoch = epoch;
        file->first = first;
        file->sequence = first - 1;
    }
    closedir(entries);
    return 0;
}

/* Whole links at the begin of the bytes. False: there is something else. */
static bool pass_links(struct audit_file *file, const uint8_t *bytes, size_t length,
                       size_t *ret_passed)
{
    size_t at = 0, last = 0;

    while (length - at >= FSM_AUDIT_LENGTH_BYTES) {
        size_t link = bytes_get(bytes + at, FSM_AUDIT_LENGTH_BYTES);
        struct fsm_audit_place place;

        if (link > FSM_AUDIT_LINK_MAX_BYTES)
            return false;
        if (link > length - at - FSM_AUDIT_LENGTH_BYTES)
            break;
        if (!fsm_audit_place(bytes + at + FSM_AUDIT_LENGTH_BYTES, link, &place))
            return false;
        file->sequence = place.last;
        at += FSM_AUDIT_LENGTH_BYTES + link;
        last = link;
    }
    if (last > 0)
        blake2b(bytes + at - last, last, file->hash);
    *ret_passed = at;
    return true;
}

/* The last link, and what a kill left behind it, which is cut off. */
static int read_end(struct audit_file *file, int fd, struct err *err)
{
    uint8_t *window = check_alloc(WINDOW_BYTES);
    size_t passed = 1;
    ssize_t length = 0;

    file->size = 0;
    while (passed > 0 && (length = pread(fd, window, WINDOW_BYTES, file->size)) > 0) {
        if (!pass_links(file, window, (size_t)length, &passed)) {
            free(window);
            return err_set(err, ERR_CORRUPT,
                           "%s holds no link of the trail at byte %lld: move it away", file->name,
                           (long long)file->size);
        }
        file->size += (off_t)passed;
    }
    free(window);
    if (length < 0)
        return set_errno(err, "read", file->name);
    return length == 0 || ftruncate(fd, file->size) == 0 ? 0 : set_errno(err, "cut", file->name);
}

int audit_file_open(const char *folder, struct audit_file *ret_file, struct err *err)
{
    int fd, result;

    *ret_file = (struct audit_file){.folder = -1};
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return set_errno(err, "make", folder);
    ret_file->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ret_file->folder < 0)
        return set_errno(err, "open", folder);
    if (find_newest(ret_file, err) != 0 || ret_file->name[0] == '\0')
        return ret_file->name[0] == '\0' ? 0 : -1;
    fd = openat(ret_file->folder, ret_file->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return set_errno(err, "open", ret_file->name);
    result = read_end(ret_file, fd, err);
    close(fd);
    return result;
}

void audit_file_close(struct audit_file *file)
{
    if (file->folder >= 0)
        close(file->folder);
    file->folder = -1;
}

/* ---- writing ---- */

static int write_all(int fd, off_t at, const void *bytes, size_t length, const char *name,
                     struct err *err)
{
    const uint8_t *next = bytes;

    while (length > 0) {
        ssize_t written = pwrite(fd, next, length, at);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return set_errno(err, "write", name);
        next += written;
        at += written;
        length -= (size_t)written;
    }
    return fdatasync(fd) == 0 ? 0 : set_errno(err, "sync", name);
}

/* A new name is on the disk before anything is told to lie under it. */
static int begin_file(struct audit_file *file, const struct audit_batch *batch, struct err *err)
{
    int fd;

    name_file(batch->epoch, batch->first, file->name);
    fd = openat(file->folder, file->name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return set_errno(err, "make", file->name);
    close(fd);
    if (fsync(file->folder) != 0)
        return set_errno(err, "sync", "the folder of the audit trail");
    file->epoch = batch->epoch;
    file->first = batch->first;
    file->size = 0;
    return 0;
}

int audit_file_append(struct audit_file *file, const struct audit_batch *batch, struct err *err)
{
    int fd, result;

    CHECK(file->folder >= 0 && batch->first <= batch->last);
    if ((file->name[0] == '\0' || file->epoch != batch->epoch || file->size >= AUDIT_FILE_BYTES) &&
        begin_file(file, batch, err) != 0)
        return -1;
    fd = openat(file->folder, file->name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return set_errno(err, "open", file->name);
    result = ftruncate(fd, file->size) != 0
                 ? set_errno(err, "cut", file->name)
                 : write_all(fd, file->size, batch->bytes, batch->length, file->name, err);
    if (result == 0) {
        /* nobody reads it soon: its pages serve the next batch, which takes less than new ones */
        (void)posix_fadvise(fd, file->size, (off_t)batch->length, POSIX_FADV_DONTNEED);
        file->size += (off_t)batch->length;
        file->sequence = batch->last;
        memcpy(file->hash, batch->hash, sizeof(file->hash));
    } else {
        (void)!ftruncate(fd, file->size); /* the next batch does it again */
    }
    close(fd);
    return result;
}

/* ---- signing ---- */

static int replace_signature(const struct audit_file *file, const char *json, size_t length,
                             struct err *err)
{
    char name[AUDIT_FILE_NAME_BYTES + sizeof(SIGNED_HEAD_SUFFIX)];
    int fd = openat(file->folder, SIGNATURE_NEW,
                    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int result;

    if (fd < 0)
        return set_errno(err, "make", SIGNATURE_NEW);
    result = write_all(fd, 0, json, length, SIGNATURE_NEW, err);
    close(fd);
    snprintf(name, sizeof(name), "%s" SIGNED_HEAD_SUFFIX, file->name);
    if (result == 0 && renameat(file->folder, SIGNATURE_NEW, file->folder, name) != 0)
        return set_errno(err, "rename to", name);
    return result;
}

int audit_file_sign(const struct audit_file *file, const struct signed_head *like,
                    const struct sign_key *key, struct err *err)
{
    char json[SIGNED_HEAD_TEXT_BYTES];
    struct signed_head head = *like;

    CHECK(file->folder >= 0 && file->size > 0 && file->sequence >= file->first);
    head.epoch = file->epoch;
    head.first = file->first;
    head.last = file->sequence;
    blake2b_text(file->hash, head.hash);
    signed_head_sign(&head, key);
    return replace_signature(file, json, signed_head_json(&head, json), err);
}
