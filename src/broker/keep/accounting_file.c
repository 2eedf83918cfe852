/* See accounting_file.h. */
#include "src/broker/keep/accounting_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"

_Static_assert(ACCOUNTING_OLDER_FILES *(ACCOUNTING_FILE_RECORDS - ACCOUNTING_BATCH_RECORDS) >=
                   ACCOUNTING_KEPT_RECORDS,
               "a file is given up that is not full when a batch has no room in it");

static const char *const names[] = {"accounting.jsonl", "accounting.jsonl.1", "accounting.jsonl.2"};
_Static_assert(ARRAY_COUNT(names) == ACCOUNTING_OLDER_FILES + 1, "the newest and the older ones");

static int set_errno(struct err *err, const char *what, const char *name)
{
    int code = errno;
    bool full = code == ENOSPC || code == EDQUOT;

    return err_set(err, full ? ERR_FULL : ERR_IO, "%s %s: %s", what, name, strerror(code));
}

/* ---- reading ---- */

/* What a file holds. */
struct contents {
    uint64_t record_count;
    struct accounting_place last;
    off_t whole_bytes; /* up to the end of the last line */
    off_t torn_bytes;  /* behind it */
};

/* Any text: what is no record of ours counts as a line, and is passed over. */
static void note_line(const char *line, struct contents *contents)
{
    unsigned long long epoch, sequence;

    contents->record_count++;
    if (sscanf(line, ACCOUNTING_PLACE, &epoch, &sequence) != 2 || sequence > INT64_MAX ||
        epoch < contents->last.epoch ||
        (epoch == contents->last.epoch && sequence < contents->last.sequence))
        return;
    contents->last = (struct accounting_place){epoch, sequence};
}

/* Lines are cut out of a buffer that never grows, however long they are. */
static int read_contents(int fd, const char *name, struct contents *contents, struct err *err)
{
    char line[128], bytes[1 << 14];
    size_t length = 0;
    ssize_t got;

    while ((got = read(fd, bytes, sizeof(bytes))) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return set_errno(err, "read", name);
        for (ssize_t i = 0; i < got; i++) {
            contents->torn_bytes++;
            if (bytes[i] != '\n') {
                if (length + 1 < sizeof(line))
                    line[length++] = bytes[i];
                continue;
            }
            line[length] = '\0';
            length = 0;
            note_line(line, contents);
            contents->whole_bytes += contents->torn_bytes;
            contents->torn_bytes = 0;
        }
    }
    return 0;
}

/* Of one that is not there: nothing. A pipe would hold whoever opens it. */
static int look_into(const struct accounting_file *file, const char *name,
                     struct contents *ret_contents, struct err *err)
{
    int fd = openat(file->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), result;
    struct stat status;

    *ret_contents = (struct contents){0};
    if (fd < 0)
        return errno == ENOENT ? 0 : set_errno(err, "open", name);
    if (fstat(fd, &status) != 0)
        result = set_errno(err, "look at", name);
    else if (!S_ISREG(status.st_mode))
        result = err_set(err, ERR_CORRUPT, "%s is no file: move it away", name);
    else
        result = read_contents(fd, name, ret_contents, err);
    close(fd);
    return result;
}

static int open_newest(const struct accounting_file *file, struct err *err)
{
    int fd = openat(file->folder, names[0],
                    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640);

    return fd >= 0 ? fd : set_errno(err, "open", names[0]);
}

/* An unfinished line goes, unless it is longer than any of ours could be. */
static int cut_torn(const struct accounting_file *file, const struct contents *contents,
                    struct err *err)
{
    int fd, result = 0;

    if (contents->torn_bytes > ACCOUNTING_LINE_BYTES)
        return err_set(err, ERR_CORRUPT, "%s ends with %lld bytes that are no line: move it away",
                       names[0], (long long)contents->torn_bytes);
    fd = open_newest(file, err);
    if (fd < 0)
        return -1;
    if (contents->torn_bytes > 0 && ftruncate(fd, contents->whole_bytes) != 0)
        result = set_errno(err, "cut", names[0]);
    close(fd);
    return result;
}

static int open_folder(const char *folder, struct accounting_file *file, struct err *err)
{
    if (mkdir(folder, 0750) != 0 && errno != EEXIST)
        return set_errno(err, "make", folder);
    file->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return file->folder >= 0 ? 0 : set_errno(err, "open", folder);
}

int accounting_file_open(const char *folder, struct accounting_file *ret_file, struct err *err)
{
    struct contents contents;

    *ret_file = (struct accounting_file){.folder = -1, .cut_to = -1};
    if (open_folder(folder, ret_file, err) != 0 ||
        look_into(ret_file, names[0], &contents, err) != 0 ||
        cut_torn(ret_file, &contents, err) != 0)
        return -1;
    ret_file->record_count = contents.record_count;
    ret_file->last = contents.last;
    for (size_t i = 1; i < ARRAY_COUNT(names) && ret_file->last.epoch == 0; i++) {
        if (look_into(ret_file, names[i], &contents, err) != 0)
            return -1;
        ret_file->last = contents.last;
    }
    return 0;
}

void accounting_file_close(struct accounting_file *file)
{
    if (file->folder >= 0)
        close(file->folder);
    file->folder = -1;
}

/* ---- writing ---- */

/* Each takes the name of the one before it; what had the last one is gone by that. */
static int turn_over(struct accounting_file *file, struct err *err)
{
    struct contents oldest;

    if (look_into(file, names[ACCOUNTING_OLDER_FILES], &oldest, err) != 0)
        return -1;
    for (size_t i = ACCOUNTING_OLDER_FILES; i > 0; i--) {
        if (renameat(file->folder, names[i - 1], file->folder, names[i]) == 0) {
            file->removed_count += i == ACCOUNTING_OLDER_FILES ? oldest.record_count : 0;
        } else if (errno != ENOENT) {
            return set_errno(err, "rename", names[i - 1]);
        }
    }
    file->record_count = 0;
    return 0;
}

/* Room is taken first, where the file system can: a full disk then takes nothing, and who follows
 * the file sees no line that is taken back. */
static int write_all(int fd, off_t at, const struct accounting_lines *lines, struct err *err)
{
    const uint8_t *bytes = lines->bytes;
    size_t length = lines->length;

    if (fallocate(fd, FALLOC_FL_KEEP_SIZE, at, (off_t)length) != 0 && errno != EOPNOTSUPP &&
        errno != ENOSYS)
        return set_errno(err, "take room for", names[0]);
    while (length > 0) {
        ssize_t written = write(fd, bytes, length);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return set_errno(err, "write", names[0]);
        bytes += written;
        length -= (size_t)written;
    }
    return fdatasync(fd) == 0 ? 0 : set_errno(err, "sync", names[0]);
}

/* What a batch that failed has left. A file that was exchanged meanwhile is shorter. */
static int cut_failed(struct accounting_file *file, int fd, off_t *size, struct err *err)
{
    if (file->cut_to >= 0 && *size > file->cut_to) {
        if (ftruncate(fd, file->cut_to) != 0)
            return set_errno(err, "cut", names[0]);
        *size = file->cut_to;
    }
    file->cut_to = -1;
    return 0;
}

static int append_lines(struct accounting_file *file, int fd, const struct accounting_lines *lines,
                        struct err *err)
{
    struct stat status;
    struct err ignored;
    off_t size;

    if (fstat(fd, &status) != 0)
        return set_errno(err, "look at", names[0]);
    if (!S_ISREG(status.st_mode))
        return err_set(err, ERR_CORRUPT, "%s is no file: move it away", names[0]);
    size = status.st_size;
    if (cut_failed(file, fd, &size, err) != 0)
        return -1;
    if (write_all(fd, size, lines, err) == 0)
        return 0;
    file->cut_to = size;
    if (fstat(fd, &status) == 0)
        (void)cut_failed(file, fd, &status.st_size, &ignored);
    return -1;
}

int accounting_file_append(struct accounting_file *file, const struct accounting_lines *lines,
                           struct err *err)
{
    int fd, result;

    CHECK(file->folder >= 0 && lines->record_count <= ACCOUNTING_BATCH_RECORDS);
    if (file->record_count + lines->record_count > ACCOUNTING_FILE_RECORDS && file->cut_to < 0 &&
        turn_over(file, err) != 0)
        return -1;
    fd = open_newest(file, err);
    if (fd < 0)
        return -1;
    result = append_lines(file, fd, lines, err);
    if (result == 0)
        file->record_count += lines->record_count;
    close(fd);
    return result;
}
