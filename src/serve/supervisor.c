/* One datagram, and a timer. See supervisor.h. */
#include "src/serve/supervisor.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/log.h"

void supervisor_notify(const char *message)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = path == NULL ? 0 : strlen(path);
    int fd;

    if (length == 0 || length >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') /* an abstract socket */
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (sendto(fd, message, strlen(message), MSG_NOSIGNAL | MSG_DONTWAIT,
               (const struct sockaddr *)&address,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
        log_debug("notify_failed", "text=\"%s\"", strerror(errno));
    close(fd);
}

bool supervisor_keeps_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    char own[64];
    struct stat found;

    if (stream == NULL || fstat(STDERR_FILENO, &found) != 0)
        return false;
    snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)found.st_dev, (uintmax_t)found.st_ino);
    return strcmp(stream, own) == 0;
}

/* How long this process may be silent; 0: as long as it likes. */
static uint64_t watchdog_ms(void)
{
    const char *period_us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

    if (period_us == NULL || (pid != NULL && strtoll(pid, NULL, 10) != getpid()))
        return 0;
    return strtoull(period_us, NULL, 10) / 1000;
}

static void feed_watchdog(uv_timer_t *timer)
{
    (void)timer;
    supervisor_notify("WATCHDOG=1");
}

void supervisor_watch(uv_loop_t *loop, uv_timer_t *timer)
{
    uint64_t period_ms = watchdog_ms() / 2;

    CHECK(uv_timer_init(loop, timer) == 0);
    if (period_ms > 0)
        CHECK(uv_timer_start(timer, feed_watchdog, 0, period_ms) == 0);
}

void supervisor_unwatch(uv_timer_t *timer)
{
    uv_close((uv_handle_t *)timer, NULL);
}
