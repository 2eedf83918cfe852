/* Where output to files goes on. See run_output.h. */
#include "src/agent/run/run_output.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
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

static bool same_file(void)
{
    struct stat one, other;

    return fstat(STDOUT_FILENO, &one) == 0 && fstat(STDERR_FILENO, &other) == 0 &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
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
