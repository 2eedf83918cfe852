/* A daemon that dies, falls asleep or loses its network with a line of its own log. Preloaded by
 * last_words.py.
 *
 * Flow     $LAST_WORDS is a file's path. While it is there, it has the fate, `dies`, `sleeps` or
 *          `cut`, the moment, `before` or `after`, and a text, with blanks between them. With the
 *          first line on stderr that has the text, the file is removed, and the fate befalls the
 *          process: at once, before what the line tells of is journalled and done; or after all
 *          that, when its loop would wait for the next event. SIGKILL; SIGSTOP; or all its
 *          connections over IP end, and none can be made while the file PATH.cut is there.
 * Absent   io_uring: the loop waits by epoll.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum { DESCRIPTORS_MAX = 1024 };

static char fate[8]; /* what is to befall it after the line; "": nothing */

static void cut_path(char *path, size_t size)
{
    const char *order = getenv("LAST_WORDS");

    snprintf(path, size, "%s.cut", order == NULL ? "" : order);
}

static bool over_ip(const struct sockaddr *address)
{
    return address->sa_family == AF_INET || address->sa_family == AF_INET6;
}

static void cut(void)
{
    char path[4096];
    int fd;

    cut_path(path, sizeof(path));
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    for (fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        struct sockaddr_storage address = {0};
        socklen_t length = sizeof(address);

        if (getsockname(fd, (struct sockaddr *)&address, &length) == 0 &&
            over_ip((struct sockaddr *)&address))
            shutdown(fd, SHUT_RDWR);
    }
}

static void befall(void)
{
    char now[sizeof(fate)];

    memcpy(now, fate, sizeof(now));
    fate[0] = '\0';
    if (strcmp(now, "dies") == 0)
        kill(getpid(), SIGKILL);
    else if (strcmp(now, "sleeps") == 0)
        kill(getpid(), SIGSTOP);
    else if (strcmp(now, "cut") == 0)
        cut();
}

static void hear(const char *line, size_t length)
{
    const char *path = getenv("LAST_WORDS");
    char order[256], heard[sizeof(fate)], moment[8];
    ssize_t size;
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC), text = 0;

    if (fd < 0)
        return;
    size = read(fd, order, sizeof(order) - 1);
    close(fd);
    order[size < 0 ? 0 : size] = '\0';
    if (sscanf(order, "%7s %7s%n", heard, moment, &text) != 2 || order[text] != ' ' ||
        memmem(line, length, &order[text + 1], strlen(&order[text + 1])) == NULL ||
        unlink(path) != 0)
        return;
    memcpy(fate, heard, sizeof(fate));
    if (strcmp(moment, "before") == 0)
        befall();
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    ssize_t written = REAL(write)(fd, bytes, length);

    if (fd == STDERR_FILENO)
        hear(bytes, length);
    return written;
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    char path[4096];

    cut_path(path, sizeof(path));
    if (over_ip(address) && access(path, F_OK) == 0) {
        errno = ENETUNREACH;
        return -1;
    }
    return REAL(connect)(fd, address, length);
}

int epoll_wait(int fd, struct epoll_event *events, int count, int timeout_ms)
{
    befall();
    return REAL(epoll_wait)(fd, events, count, timeout_ms);
}

int epoll_pwait(int fd, struct epoll_event *events, int count, int timeout_ms,
                const sigset_t *signals)
{
    befall();
    return REAL(epoll_pwait)(fd, events, count, timeout_ms, signals);
}
