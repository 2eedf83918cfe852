/* Where output to files goes on. See run_output.h. */
#include "src/agent/run/run_output.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void go_to_end(int fd)
{
    struct stat stat;
    int flags = fcntl(fd, F_GETFL);

    if (flags >= 0 && (flags & O_APPEND) == 0 && (flags & O_ACCMODE) != O_RDONLY &&
        fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode))
        (void)lseek(fd, 0, SEEK_END);
}

void run_output_continue(void)
{
    go_to_end(STDOUT_FILENO);
    go_to_end(STDERR_FILENO);
}

/* ---- the same line once more ---- */

/* The application's own descriptor, which shares its offset; -1: it is not to be had. */
static int take_descriptor(pid_t pid, int fd)
{
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    int taken = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, fd, 0);

    if (process >= 0)
        close(process);
    return taken;
}

static bool is_same(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/* It would leave a hole of zeros before what it writes next. */
static bool was_emptied(pid_t pid, int fd)
{
    struct stat ours, theirs;
    int taken = take_descriptor(pid, fd);
    bool emptied;

    emptied = taken >= 0 && fstat(fd, &ours) == 0 && fstat(taken, &theirs) == 0 &&
              S_ISREG(theirs.st_mode) && is_same(&ours, &theirs) &&
              lseek(taken, 0, SEEK_CUR) > theirs.st_size;
    if (emptied)
        go_to_end(taken);
    if (taken >= 0)
        close(taken);
    return emptied;
}

const char *run_output_meet(pid_t pid)
{
    const bool out = was_emptied(pid, STDOUT_FILENO);
    const bool errors = was_emptied(pid, STDERR_FILENO);

    if (out)
        return "output";
    return errors ? "errors" : NULL;
}

static bool same_file(void)
{
    struct stat one, other;

    return fstat(STDOUT_FILENO, &one) == 0 && fstat(STDERR_FILENO, &other) == 0 &&
           is_same(&one, &other);
}

/* The application, which writes to the other descriptor, goes on behind the line. */
void run_output_line(const char *line)
{
    go_to_end(STDERR_FILENO);
    fputs(line, stderr);
    fflush(stderr);
    if (same_file())
        go_to_end(STDOUT_FILENO);
}
