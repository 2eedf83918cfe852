/* The note of the program that was started last. See alone_program.h. */
#include "src/agent/alone/alone_program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/alone/alone_place.h"
#include "src/agent/node/proc.h"
#include "src/base/check.h"

enum { PATH_BYTES = PATH_MAX + 32, NOTE_BYTES = 8192, NOTE_STEP_BYTES = 1024 };
_Static_assert(NOTE_BYTES % NOTE_STEP_BYTES == 0 &&
                   NOTE_BYTES > PATH_MAX + ALONE_HOST_BYTES + ALONE_PLACE_BYTES + 512,
               "a note of the longest work folder fits");

struct note {
    struct alone_program program;
    struct alone_place place;
};

static const char *note_path(const char *folder, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%.*s/" ALONE_PROGRAM, PATH_MAX - 1, folder);
    return path;
}

/* ---- the lock ---- */

int alone_program_hold(const char *folder)
{
    char path[PATH_BYTES];
    int fd = open(note_path(folder, path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Where the file system knows no such lock, nothing is known. */
static bool note_is_held(const char *folder)
{
    char path[PATH_BYTES];
    int fd = open(note_path(folder, path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool held = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0;

    if (fd >= 0)
        close(fd);
    return held;
}

/* ---- the text ---- */

static struct note note_of(const struct alone_program *program)
{
    struct note note = {.program = *program};

    alone_place_own(&note.place);
    return note;
}

/* The first four lines are those of the releases before. Its length. */
static size_t note_format(const struct note *note, char text[NOTE_BYTES])
{
    char place[ALONE_PLACE_BYTES];
    int length;

    alone_place_format(&note->place, place);
    length = snprintf(text, NOTE_BYTES, "pid=%d\nstart=%" PRIu64 "\nhost=%s\nwork=%s\n%s",
                      (int)note->program.pid, note->program.start_ticks, note->place.host,
                      note->program.work_dir, place);
    CHECK(length > 0 && length < NOTE_BYTES);
    return (size_t)length;
}

static bool note_parse(const char *text, struct note *ret_note)
{
    struct alone_program *program = &ret_note->program;
    int pid = 0, work = 0;
    size_t length;

    if (sscanf(text, "pid=%d\nstart=%" SCNu64 "\nhost=%64[^\n]\nwork=%n", &pid,
               &program->start_ticks, ret_note->place.host, &work) != 3 ||
        pid <= 1 || work == 0)
        return false;
    text += work;
    length = strcspn(text, "\n");
    program->pid = pid;
    snprintf(program->work_dir, PATH_MAX, "%.*s", (int)length, text);
    text += length + (text[length] == '\n');
    alone_place_parse(text, &ret_note->place);
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

static enum alone_program_state note_judge(const char *folder, const struct note *note)
{
    struct alone_place own;
    struct proc_stat stat;

    alone_place_own(&own);
    switch (alone_place_distance(&note->place, &own)) {
    case ALONE_ELSEWHERE:
        return ALONE_PROGRAM_GONE;
    case ALONE_UNSEEN:
        return note_is_held(folder) ? ALONE_PROGRAM_UNSEEN : ALONE_PROGRAM_GONE;
    case ALONE_HERE:
        break;
    }
    if (proc_read_stat(note->program.pid, &stat) != 0 ||
        stat.start_ticks != note->program.start_ticks || !proc_living(&stat))
        return ALONE_PROGRAM_GONE;
    return ALONE_PROGRAM_LIVES;
}

enum alone_program_state alone_program_look(const char *folder, struct alone_program *ret_program)
{
    struct note note = {0};
    enum alone_program_state state;

    if (!note_read(folder, &note))
        return ALONE_PROGRAM_GONE;
    state = note_judge(folder, &note);
    if (state != ALONE_PROGRAM_GONE)
        *ret_program = note.program;
    return state;
}

/* Its room stays. Nothing hangs on whether the disk has it: after the boot of a machine a note is
 * of nobody. */
void alone_program_clear(const char *folder)
{
    char path[PATH_BYTES], empty[NOTE_BYTES];
    struct alone_place own;
    struct note note = {0};
    size_t room;
    int fd;

    alone_place_own(&own);
    if (!note_read(folder, &note) || alone_place_distance(&note.place, &own) != ALONE_HERE ||
        note_judge(folder, &note) != ALONE_PROGRAM_GONE)
        return;
    room = note_room(note.program.work_dir);
    memset(empty, '\n', sizeof(empty));
    fd = open(note_path(folder, path), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    (void)fill_with(fd, empty, room, 0);
    close(fd);
}
