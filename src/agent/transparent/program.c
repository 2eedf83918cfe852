/* Programs of others that save applications. See program.h. */
#include "src/agent/transparent/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/text.h"

#define ADMINISTRATORS ":/usr/local/sbin:/usr/sbin:/sbin"

enum { LOOK_MS = 20 };

static bool is_program(const char *path)
{
    struct stat stat_of;

    return stat(path, &stat_of) == 0 && S_ISREG(stat_of.st_mode) && access(path, X_OK) == 0;
}

int program_find(const char *name, char *ret_path, size_t size)
{
    const char *path = getenv("PATH");
    size_t length = strlen(path == NULL ? "" : path) + sizeof(ADMINISTRATORS);
    char *folders = check_alloc(length), *rest = folders, *folder;
    bool found = false;

    CHECK(name[0] != '\0' && strchr(name, '/') == NULL);
    snprintf(folders, length, "%s%s", path == NULL ? "" : path, ADMINISTRATORS);
    while (!found && (folder = strsep(&rest, ":")) != NULL)
        found = folder[0] == '/' && snprintf(ret_path, size, "%s/%s", folder, name) < (int)size &&
                is_program(ret_path);
    free(folders);
    return found ? 0 : -1;
}

static uint64_t monotonic_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

__attribute__((noreturn)) static void become(const char *const *line, int output)
{
    char *words[32];
    size_t count = 0;

    while (line[count] != NULL && count < ARRAY_COUNT(words) - 1) {
        words[count] = check_strdup(line[count]);
        count++;
    }
    words[count] = NULL;
    (void)setpgid(0, 0);
    (void)dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    (void)dup2(output, STDOUT_FILENO);
    (void)dup2(output, STDERR_FILENO);
    execv(words[0], words);
    _exit(127);
}

/* Until its end, or the limit. A daemon that it leaves may hold the output open. */
static bool drain_output(int fd, pid_t pid, uint64_t limit_ms, char *output, size_t size,
                         int *ret_wait_status)
{
    const uint64_t until_ms = monotonic_ms() + limit_ms;
    size_t used = 0;
    bool ended = false;

    while (!ended && monotonic_ms() < until_ms) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        char spare[256];
        ssize_t got;

        if (poll(&waiting, 1, LOOK_MS) > 0 && (waiting.revents & POLLIN) == 0)
            (void)poll(NULL, 0, LOOK_MS);
        ended = waitpid(pid, ret_wait_status, WNOHANG) == pid;
        while ((got = read(fd, used + 1 < size ? output + used : spare,
                           used + 1 < size ? size - 1 - used : sizeof(spare))) > 0)
            used += used + 1 < size ? (size_t)got : 0;
    }
    output[used] = '\0';
    return ended;
}

int program_run(const char *const *line, uint64_t limit_ms, char *ret_output, size_t size,
                int *ret_wait_status, struct err *err)
{
    int ends[2];
    pid_t pid;
    bool ended;

    CHECK(size > 0 && line[0] != NULL);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return err_set(err, ERR_IO, "a pipe for %s cannot be made: %s", line[0], strerror(errno));
    pid = _Fork(); /* libuv's handlers would close numbers that are others' by now */
    if (pid == 0)
        become(line, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return err_set(err, ERR_IO, "%s cannot be started: %s", line[0], strerror(errno));
    }
    ended = drain_output(ends[0], pid, limit_ms, ret_output, size, ret_wait_status);
    close(ends[0]);
    if (ended)
        return 0;
    (void)kill(-pid, SIGKILL);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, ret_wait_status, 0);
    return err_set(err, ERR_TIMEOUT, "%s went on for %u ms and was ended", line[0],
                   (unsigned)limit_ms);
}

void program_version(const char *text, char *ret_version, size_t size)
{
    (void)text_copy(ret_version, size, text + strcspn(text, "0123456789"));
    ret_version[strspn(ret_version, "0123456789.")] = '\0';
}
