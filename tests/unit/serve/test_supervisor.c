/* What a supervisor hears, on a socket as systemd's. */
#include "src/serve/supervisor.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/test.h"

static int open_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    char name[64];
    int length = snprintf(name, sizeof(name), "@ckpt-test-supervisor-%d", (int)getpid());

    memcpy(address.sun_path, name, (size_t)length);
    address.sun_path[0] = '\0';
    assert_int_equal(bind(fd, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length)),
                     0);
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

static bool hears(int fd, const char *expected)
{
    char text[128];
    ssize_t length = recv(fd, text, sizeof(text) - 1, 0);

    text[length < 0 ? 0 : length] = '\0';
    return strcmp(text, expected) == 0;
}

/* Whether the watchdog is fed three times while the loop runs, for `ms` at most. */
static bool fed_within(int fd, uint64_t ms)
{
    uint64_t end_ns = uv_hrtime() + ms * 1000000;
    uv_timer_t timer;
    uv_loop_t loop;
    int count = 0;

    assert_int_equal(uv_loop_init(&loop), 0);
    supervisor_watch(&loop, &timer);
    while (uv_hrtime() < end_ns && count < 3) {
        uv_run(&loop, UV_RUN_NOWAIT);
        count += hears(fd, "WATCHDOG=1");
    }
    supervisor_unwatch(&timer);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    return count == 3;
}

static void messages_reach_the_supervisor_and_nobody_without_one(void **state)
{
    int fd = open_socket();

    (void)state;
    supervisor_notify("READY=1\nSTATUS=follower");
    assert_true(hears(fd, "READY=1\nSTATUS=follower"));
    unsetenv("NOTIFY_SOCKET");
    supervisor_notify("READY=1");
    assert_true(hears(fd, ""));
    setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
    supervisor_notify("READY=1"); /* nobody minds */
    close(fd);
}

static void the_watchdog_is_fed_by_a_loop_that_runs(void **state)
{
    int fd = open_socket();
    char pid[32];

    (void)state;
    unsetenv("WATCHDOG_USEC");
    assert_false(fed_within(fd, 100));
    setenv("WATCHDOG_USEC", "40000", 1);
    assert_true(fed_within(fd, 20000));
    setenv("WATCHDOG_PID", "1", 1); /* another process' */
    assert_false(fed_within(fd, 100));
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    assert_true(fed_within(fd, 20000));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_reach_the_supervisor_and_nobody_without_one),
        cmocka_unit_test(the_watchdog_is_fed_by_a_loop_that_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
