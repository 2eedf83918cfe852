/* The application's standard input at each start by one ckpt-run. See run_input.h. */
#include "src/agent/run/run_input.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "src/agent/run/run_output.h"
#include "src/agent/run/run_say.h"
#include "src/base/check.h"

enum input_kind {
    INPUT_FILE,     /* has an offset */
    INPUT_SAME,     /* gives each reader the same */
    INPUT_TERMINAL, /* a person sees what becomes of it */
    INPUT_PIPE,     /* without a name: only who has it can write to it */
    INPUT_SOCKET,
    INPUT_OTHER
};

/* A stream as it can be seen without reading of it. */
struct input_sight {
    int waiting_bytes; /* -1: it does not tell */
    bool ended;        /* nobody can write to it any more */
};

static struct input {
    enum input_kind kind;
    int kept;     /* the description that ckpt-run was given */
    int access;   /* how it was opened */
    off_t first;  /* FILE: offset of the first start */
    off_t shared; /* FILE, restarted: offset of the kept description then */
    bool started; /* once at least */
    bool refused; /* another start, which was said */
    bool own;     /* FILE: the application reads by another description than the kept one */
    struct input_sight was; /* at the first start; of streams */
} input;

static enum input_kind kind_of(int fd)
{
    struct statfs system;
    struct stat stat;

    if (isatty(fd))
        return INPUT_TERMINAL;
    if (fstat(fd, &stat) != 0)
        return INPUT_OTHER;
    if (S_ISREG(stat.st_mode) || S_ISBLK(stat.st_mode) || S_ISDIR(stat.st_mode))
        return lseek(fd, 0, SEEK_CUR) >= 0 ? INPUT_FILE : INPUT_OTHER;
    if (S_ISCHR(stat.st_mode) && major(stat.st_rdev) == 1) /* of memory: null, zero, random, ... */
        return INPUT_SAME;
    if (S_ISSOCK(stat.st_mode))
        return INPUT_SOCKET;
    if (S_ISFIFO(stat.st_mode) && fstatfs(fd, &system) == 0 && system.f_type == PIPEFS_MAGIC)
        return INPUT_PIPE;
    return INPUT_OTHER;
}

static const char *kind_name(void)
{
    switch (input.kind) {
    case INPUT_PIPE:
        return "a pipe";
    case INPUT_SOCKET:
        return "a socket";
    case INPUT_FILE:
    case INPUT_SAME:
    case INPUT_TERMINAL:
    case INPUT_OTHER:
        break;
    }
    return "a device or a named pipe";
}

static bool is_stream(void)
{
    return input.kind == INPUT_PIPE || input.kind == INPUT_SOCKET || input.kind == INPUT_OTHER;
}

void run_input_open(void)
{
    int flags = fcntl(STDIN_FILENO, F_GETFL);

    input = (struct input){.kind = kind_of(STDIN_FILENO),
                           .kept = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1),
                           .access = flags & O_ACCMODE};
    CHECK(flags >= 0 && input.kept >= 0);
    if (input.kind == INPUT_FILE)
        input.first = lseek(STDIN_FILENO, 0, SEEK_CUR);
}

/* ---- streams ---- */

static struct input_sight look_at(int fd)
{
    struct input_sight sight = {.waiting_bytes = -1};
    struct pollfd poll_of = {.fd = fd, .events = POLLRDHUP};

    sight.ended = poll(&poll_of, 1, 0) == 1 && (poll_of.revents & (POLLHUP | POLLRDHUP)) != 0;
    if (ioctl(fd, FIONREAD, &sight.waiting_bytes) != 0)
        sight.waiting_bytes = -1;
    return sight;
}

/* Where nobody can write any more, what is in it only becomes less, and each read makes it so. */
static bool nothing_read(void)
{
    struct input_sight now = look_at(input.kept);

    return input.kind != INPUT_OTHER && input.was.ended && now.waiting_bytes >= 0 &&
           now.waiting_bytes == input.was.waiting_bytes;
}

/* ---- starts ---- */

/* A user who may not open it again, as after a change of user, has the first description moved:
 * then a shell that shares it sees that. */
static void begin_file_again(void)
{
    char path[64];
    int fd;

    if (!input.own)
        input.shared = lseek(input.kept, 0, SEEK_CUR);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", input.kept);
    fd = open(path, input.access | O_CLOEXEC);
    input.own = fd >= 0;
    if (fd < 0)
        fd = fcntl(input.kept, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    CHECK(fd >= 0 && lseek(fd, input.first, SEEK_SET) == input.first);
    CHECK(dup2(fd, STDIN_FILENO) == STDIN_FILENO);
    close(fd);
}

void run_input_prepare(bool may_restart)
{
    if (input.started && input.kind == INPUT_FILE)
        begin_file_again();
    else if (input.started && input.kind == INPUT_TERMINAL)
        run_say("standard input is a terminal: what was typed before is not typed again");
    else if (!input.started && is_stream() && may_restart) {
        input.was = look_at(input.kept);
        if (!input.was.ended || input.was.waiting_bytes != 0)
            run_say("standard input is %s: once something was read of it, this job is not started "
                    "again by itself; a file (< FILE) is given to it anew at each start, and "
                    "< /dev/null says that it needs no input",
                    kind_name());
    }
    if (input.started)
        run_output_continue();
    input.started = true;
}

bool run_input_again(void)
{
    if (!input.started || !is_stream() || nothing_read())
        return true;
    if (input.refused)
        return false;
    input.refused = true;
    run_say_error("not started again: standard input is %s, and the application may have read of "
                  "it: another start would find the rest alone, and pass for one that did all the "
                  "work; give the input as a file (< FILE), or < /dev/null when there is none",
                  kind_name());
    return false;
}

/* The next reader of the file goes on behind this job, unless somebody has moved meanwhile. */
void run_input_close(void)
{
    off_t last;

    if (!input.own)
        return;
    last = lseek(STDIN_FILENO, 0, SEEK_CUR);
    if (last >= 0 && lseek(input.kept, 0, SEEK_CUR) == input.shared)
        (void)lseek(input.kept, last, SEEK_SET);
}
