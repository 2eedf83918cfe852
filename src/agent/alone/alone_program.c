/* The note of the program that was started last. See alone_program.h. */
#include "src/agent/alone/alone_program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/node/proc.h"
#include "src/base/check.h"

enum { HOST_BYTES = 65, PATH_BYTES = PATH_MAX + 32, NOTE_BYTES = 8192, NOTE_STEP_BYTES = 1024 };
_Static_assert(NOTE_BYTES % NOTE_STEP_BYTES == 0 && NOTE_BYTES > PATH_MAX + HOST_BYTES + 512,
               "a note of the longest work folder fits");

struct note {
    struct alone_program program;
    char host[HOST_BYTES];
};

static const char *note_path(const char *folder, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%.*s/" ALONE_PROGRAM, PATH_MAX - 1, folder);
    return path;
}

/* ---- the text ---- */

static struct note note_of(const struct alone_program *program)
{
    struct note note = {.program = *program};

    (void)gethostname(note.host, sizeof(note.host) - 1);
    return note;
}

/* The first four lines are those of the releases before. Its length. */
static size_t note_format(const struct note *note, char text[NOTE_BYTES])
{
    int length = snprintf(text, NOTE_BYTES, "pid=%d\nstart=%" PRIu64 "\nhost=%s\nwork=%s\n",
                          (int)note->program.pid, note->program.start_ticks, note->host,
                          note->program.work_dir);

    CHECK(length > 0 && length < NOTE_BYTES);
    return (size_t)length;
}

static bool note_parse(const char *text, struct note *ret_note)
{
    struct alone_program *program = &ret_note->program;
    int pid = 0, work = 0, length;

    if (sscanf(text, "pid=%d\nstart=%" SCNu64 "\nhost=%64[^\n]\nwork=%n", &pid,
               &program->start_ticks, ret_note->host, &work) != 3 ||
        pid <= 1 || work == 0)
        return false;
    program->pid = pid;
    length = (int)strcspn(text + work, "\n");
    snprintf(program->work_dir, PATH_MAX, "%.*s", length, text + work);
    return true;
}

/* ---- the file ---- */

static int note_refuse(const char *folder, size_t bytes, int failure, struct err *err)
{
    char path[PATH_BYTES];

    CHECK(failure != 0);
    return err_set(err, ERR_IO,
                   "%.300s: %s; nothing is started without this note of what runs (%zu bytes): "
                   "make room there, or name another folder with --dir",
                   note_path(folder, path), strerror(failure), bytes);
}

static int fill_with(int fd, const char *text, size_t length, off_t at)
{
    const ssize_t written = pwrite(fd, text, length, at);

    if (written < 0)
        return errno;
    return written == (ssize_t)length ? 0 : ENOSPC;
}

/* Its name too: a file that was just made has none on the disk. */
static int sync_both(int fd, const char *folder)
{
    int failure = fsync(fd) == 0 ? 0 : errno;
    int parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (parent < 0)
        return failure != 0 ? failure : errno;
    if (failure == 0 && fsync(parent) != 0 && errno != EINVAL)
        failure = errno;
    close(parent);
    return failure;
}

/* Open, and at least that long; empty lines are behind what it says. -1: *ret_failure. */
static int note_open(const char *folder, size_t bytes, int *ret_failure)
{
    char path[PATH_BYTES], empty[NOTE_BYTES];
    struct stat status;
    int failure = 0;
    int fd =
        open(note_path(folder, path), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

    CHECK(bytes > 0 && bytes <= NOTE_BYTES);
    if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        *ret_failure = fd < 0 ? errno : EINVAL;
        if (fd >= 0)
            close(fd);
        return -1;
    }
    memset(empty, '\n', sizeof(empty));
    if ((size_t)status.st_size < bytes)
        failure = fill_with(fd, empty, bytes - (size_t)status.st_size, status.st_size);
    if (failure == 0 && (size_t)status.st_size < bytes)
        failure = sync_both(fd, folder);
    if (failure == 0)
        return fd;
    close(fd);
    *ret_failure = failure;
    return -1;
}

/* The length for any process of this work folder. */
static size_t note_room(const char *work_dir)
{
    struct alone_program longest = {.pid = INT_MAX, .start_ticks = UINT64_MAX};
    char text[NOTE_BYTES];
    struct note note;
    size_t bytes;

    snprintf(longest.work_dir, sizeof(longest.work_dir), "%s", work_dir);
    note = note_of(&longest);
    bytes = note_format(&note, text);
    return (bytes + NOTE_STEP_BYTES - 1) / NOTE_STEP_BYTES * NOTE_STEP_BYTES;
}

int alone_program_reserve(const char *folder, const char *work_dir, struct err *err)
{
    const size_t room = note_room(work_dir);
    int failure, fd = note_open(folder, room, &failure);

    if (fd < 0)
        return note_refuse(folder, room, failure, err);
    close(fd);
    return 0;
}

int alone_program_write(const char *folder, const struct alone_program *program, struct err *err)
{
    const struct note note = note_of(program);
    const size_t room = note_room(program->work_dir);
    char text[NOTE_BYTES];
    int failure, fd = note_open(folder, room, &failure);

    CHECK(program->pid > 1);
    if (fd < 0)
        return note_refuse(folder, room, failure, err);
    memset(text, '\n', sizeof(text));
    text[note_format(&note, text)] = '\n'; /* in the place of its end */
    failure = fill_with(fd, text, room, 0);
    if (failure == 0 && fsync(fd) != 0)
        failure = errno;
    if (close(fd) != 0 && failure == 0)
        failure = errno;
    return failure == 0 ? 0 : note_refuse(folder, room, failure, err);
}

static bool note_read(const char *folder, struct note *ret_note)
{
    char path[PATH_BYTES], text[NOTE_BYTES];
    int fd = open(note_path(folder, path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = '\0';
    return note_parse(text, ret_note);
}

bool alone_program_lives(const char *folder, struct alone_program *ret_program)
{
    struct note note = {0};
    struct proc_stat stat;
    char own[HOST_BYTES] = "";

    (void)gethostname(own, sizeof(own) - 1);
    if (!note_read(folder, &note) || strcmp(note.host, own) != 0 ||
        proc_read_stat(note.program.pid, &stat) != 0 ||
        stat.start_ticks != note.program.start_ticks || !proc_living(&stat))
        return false;
    *ret_program = note.program;
    return true;
}
