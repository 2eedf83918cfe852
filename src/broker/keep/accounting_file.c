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

/* What a file holds. */
struct contents {
    uint64_t record_count, last_sequence;
    off_t whole_bytes; /* up to the end of the last line */
};

static int set_errno(struct err *err, const char *what, const char *name)
{
    int code = errno;
    bool full = code == ENOSPC || code == EDQUOT;

    return err_set(err, full ? ERR_FULL : ERR_IO, "%s %s: %s", what, name, strerror(code));
}

static void note_line(const char *line, struct contents *contents)
{
    const size_t length = sizeof(ACCOUNTING_SEQUENCE) - 1;
    uint64_t sequence;

    contents->record_count++;
    if (strncmp(line, ACCOUNTING_SEQUENCE, length) != 0)
        return;
    sequence = strtoull(line + length, NULL, 10);
    if (sequence > contents->last_sequence)
        contents->last_sequence = sequence;
}

/* Takes the descriptor. What is behind the last line feed is no line. */
static int read_contents(int fd, const char *name, struct contents *ret_contents, struct err *err)
{
    FILE *file = fdopen(fd, "re");
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    int result = 0;

    *ret_contents = (struct contents){0};
    if (file == NULL) {
        set_errno(err, "open", name);
        close(fd);
        return -1;
    }
    while ((length = getline(&line, &capacity, file)) > 0 && line[length - 1] == '\n') {
        note_line(line, ret_contents);
        ret_contents->whole_bytes += length;
    }
    if (ferror(file))
        result = set_errno(err, "read", name);
    free(line);
    fclose(file);
    return result;
}

/* Of one that is not there: nothing. */
static int look_into(const struct accounting_file *file, const char *name,
                     struct contents *ret_contents, struct err *err)
{
    int fd = openat(file->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    *ret_contents = (struct contents){0};
    if (fd >= 0)
        return read_contents(fd, name, ret_contents, err);
    return errno == ENOENT ? 0 : set_errno(err, "open", name);
}

static int open_newest(const struct accounting_file *file, struct err *err)
{
    int fd = openat(file->folder, names[0], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                    0640);

    return fd >= 0 ? fd : set_errno(err, "open", names[0]);
}

static int cut_newest(const struct accounting_file *file, off_t length, struct err *err)
{
    int fd = open_newest(file, err), result = 0;

    if (fd < 0)
        return -1;
    if (ftruncate(fd, length) != 0)
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

    *ret_file = (struct accounting_file){.folder = -1};
    if (open_folder(folder, ret_file, err) != 0 ||
        look_into(ret_file, names[0], &contents, err) != 0 ||
        cut_newest(ret_file, contents.whole_bytes, err) != 0)
        return -1;
    ret_file->record_count = contents.record_count;
    ret_file->last_sequence = contents.last_sequence;
    for (size_t i = 1; i < ARRAY_COUNT(names) && ret_file->last_sequence == 0; i++) {
        if (look_into(ret_file, names[i], &contents, err) != 0)
            return -1;
        ret_file->last_sequence = contents.last_sequence;
    }
    return 0;
}

void accounting_file_close(struct accounting_file *file)
{
    if (file->folder >= 0)
        close(file->folder);
    file->folder = -1;
}

/* Each takes the name of the one before it; what had the last one is gone by that. */
static int turn_over(struct accounting_file *file, struct err *err)
{
    struct contents oldest;

    if (look_into(file, names[ACCOUNTING_OLDER_FILES], &oldest, err) != 0)
        return -1;
    for (size_t i = ACCOUNTING_OLDER_FILES; i > 0; i--) {
        if (renameat(file->folder, names[i - 1], file->folder, names[i]) != 0 && errno != ENOENT)
            return set_errno(err, "rename", names[i - 1]);
        if (i == ACCOUNTING_OLDER_FILES)
            file->removed_count += oldest.record_count;
    }
    file->record_count = 0;
    return 0;
}

static int write_all(int fd, const uint8_t *bytes, size_t length, struct err *err)
{
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

int accounting_file_append(struct accounting_file *file, const struct accounting_lines *lines,
                           struct err *err)
{
    struct stat before;
    int fd, result;

    CHECK(file->folder >= 0 && lines->record_count <= ACCOUNTING_BATCH_RECORDS);
    if (file->record_count + lines->record_count > ACCOUNTING_FILE_RECORDS &&
        turn_over(file, err) != 0)
        return -1;
    fd = open_newest(file, err);
    if (fd < 0)
        return -1;
    result = fstat(fd, &before) == 0 ? write_all(fd, lines->bytes, lines->length, err)
                                     : set_errno(err, "look at", names[0]);
    if (result == 0) {
        file->record_count += lines->record_count;
        file->last_sequence = lines->last_sequence;
    } else {
        (void)!ftruncate(fd, before.st_size); /* else the next start cuts what is unfinished */
    }
    close(fd);
    return result;
}
