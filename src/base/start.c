/* How a program begins. See start.h. */
#include "src/base/start.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "src/base/check.h"

static void read_signals(struct start_signals *found)
{
    struct sigaction action;

    CHECK(sigprocmask(SIG_BLOCK, NULL, &found->blocked) == 0);
    sigemptyset(&found->ignored);
    for (int number = 1; number < NSIG; number++) {
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            sigaddset(&found->ignored, number);
    }
}

static void open_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        CHECK(fcntl(fd, F_GETFD) >= 0 || open("/dev/null", O_RDWR) == fd);
}

void start_program(struct start_signals *ret_found)
{
    sigset_t none;

    if (ret_found != NULL)
        read_signals(ret_found);
    sigemptyset(&none);
    signal(SIGCHLD, SIG_DFL);
    CHECK(sigprocmask(SIG_SETMASK, &none, NULL) == 0);
    open_standard_streams();
}

void start_forget(void)
{
    struct sigaction action;

    for (int number = 1; number < NSIG; number++) {
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            signal(number, SIG_DFL);
    }
}

void start_restore(const struct start_signals *found, const sigset_t *open)
{
    sigset_t blocked = found->blocked;

    for (int number = 1; number < NSIG; number++) {
        bool ignored = sigismember(&found->ignored, number) == 1 && sigismember(open, number) != 1;

        signal(number, ignored ? SIG_IGN : SIG_DFL); /* refused for some: no matter */
        if (sigismember(open, number) == 1)
            sigdelset(&blocked, number);
    }
    CHECK(sigprocmask(SIG_SETMASK, &blocked, NULL) == 0);
}
