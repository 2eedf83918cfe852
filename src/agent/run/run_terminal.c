/* The terminal that ckpt-run and its application share. See run_terminal.h.
 *
 *   FREE --stopped, ckpt-run has the foreground--> LENT --stopped by a key, ended--> FREE
 *    '---stopped, it has not--> WAITING --it has--> LENT; --continued by others, ended--> FREE
 */
#include "src/agent/run/run_terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "src/agent/run/run_say.h"
#include "src/base/check.h"

enum { LOOK_AGAIN_MS = 200, STOPPED_NOTICE_MS = 5000, EXIT_INTERRUPTED = 130, EXIT_QUIT = 131 };

enum terminal_state {
    TERMINAL_FREE,
    TERMINAL_LENT,   /* the application's group has the foreground */
    TERMINAL_WAITING /* the application is stopped until it can have it, or others continue it */
};

static struct {
    int fd; /* -1: there is none */
    enum terminal_state state;
    pid_t group; /* of the application; 0: none runs */
    bool has_modes;
    struct termios modes; /* when it was lent */
    bool suspends;        /* on SIGTSTP */
    uv_signal_t suspend;
    uv_timer_t look;        /* WAITING */
    int stop_signal;        /* WAITING */
    uint64_t stopped_at_ms; /* WAITING; 0: that was said */
} terminal = {.fd = -1};

static void watch_suspend(void);

/* ---- the foreground ---- */

static bool lend_foreground(void)
{
    if (terminal.fd < 0 || tcgetpgrp(terminal.fd) != getpgrp())
        return false;
    terminal.has_modes = tcgetattr(terminal.fd, &terminal.modes) == 0;
    if (tcsetpgrp(terminal.fd, terminal.group) != 0)
        return false;
    terminal.state = TERMINAL_LENT;
    return true;
}

/* Not from whoever else has got it meanwhile. A group of the application's own that was in it may
 * have ended. False: it is another's now. */
static bool take_foreground(void)
{
    pid_t now;

    CHECK(terminal.state == TERMINAL_LENT);
    terminal.state = TERMINAL_FREE;
    now = tcgetpgrp(terminal.fd);
    if (now <= 0 || (now != terminal.group && (kill(-now, 0) == 0 || errno != ESRCH)))
        return false;
    return tcsetpgrp(terminal.fd, getpgrp()) == 0;
}

/* ---- stopped ---- */

static void go_on(void)
{
    kill(-terminal.group, SIGCONT);
}

static const char *stop_cause(int signal)
{
    if (signal == SIGTTIN)
        return "it reads from the terminal, in whose background this job is";
    if (signal == SIGTTOU)
        return "it sets or writes to the terminal, in whose background this job is";
    return "it got the signal that Ctrl-Z sends";
}

static void say_stopped(void)
{
    terminal.stopped_at_ms = 0;
    run_say("the application (pid %d) is stopped and computes nothing: %s; %s", (int)terminal.group,
            stop_cause(terminal.stop_signal),
            terminal.stop_signal == SIGTSTP
                ? "kill -CONT lets it go on"
                : "bring this job to the foreground (fg), or start it with < /dev/null");
}

static void look_again(uv_timer_t *timer)
{
    CHECK(terminal.state == TERMINAL_WAITING);
    if (terminal.stop_signal != SIGTSTP && lend_foreground()) {
        uv_timer_stop(timer);
        go_on();
    } else if (terminal.stopped_at_ms != 0 &&
               uv_now(timer->loop) - terminal.stopped_at_ms >= STOPPED_NOTICE_MS) {
        say_stopped();
    }
}

static void wait_for_foreground(int signal)
{
    uv_update_time(terminal.look.loop);
    terminal.state = TERMINAL_WAITING;
    terminal.stop_signal = signal;
    terminal.stopped_at_ms = uv_now(terminal.look.loop);
    uv_timer_start(&terminal.look, look_again, LOOK_AGAIN_MS, LOOK_AGAIN_MS);
}

static void wait_no_more(void)
{
    CHECK(terminal.state == TERMINAL_WAITING);
    uv_timer_stop(&terminal.look);
    terminal.state = TERMINAL_FREE;
}

/* This program stops as by the default action, and goes on behind the call when it is continued: at
 * once where no shell is there to do that, since such a group is not stopped. others: the rest of
 * the group is to stop as well, as the key has only reached the application. */
static void stop_here(bool others)
{
    if (terminal.suspends)
        uv_signal_stop(&terminal.suspend);
    if (others)
        kill(0, SIGTSTP);
    else
        raise(SIGTSTP);
    watch_suspend();
}

/* Typed while the application has the terminal. */
static void suspend_both(void)
{
    take_foreground();
    stop_here(true);
    (void)lend_foreground(); /* not for `bg` */
    go_on();
}

/* Typed while ckpt-run has the terminal. */
static void take_suspend(uv_signal_t *handle, int number)
{
    (void)handle;
    (void)number;
    if (terminal.group != 0)
        kill(-terminal.group, SIGTSTP);
    stop_here(false);
    if (terminal.group != 0)
        go_on();
}

static void watch_suspend(void)
{
    if (terminal.suspends)
        CHECK(uv_signal_start(&terminal.suspend, take_suspend, SIGTSTP) == 0);
}

void run_terminal_changed(int wait_status)
{
    int signal = WIFSTOPPED(wait_status) ? WSTOPSIG(wait_status) : 0;

    if (terminal.state == TERMINAL_WAITING)
        wait_no_more();
    if (signal != SIGTSTP && signal != SIGTTIN && signal != SIGTTOU)
        return;
    if (terminal.state == TERMINAL_LENT && signal == SIGTSTP) {
        suspend_both();
        return;
    }
    if (terminal.state == TERMINAL_LENT)
        (void)take_foreground(); /* a group of the application's own had it */
    if (signal != SIGTSTP && lend_foreground())
        go_on();
    else
        wait_for_foreground(signal);
}

/* ---- life ---- */

void run_terminal_open(uv_loop_t *loop, const struct start_signals *found)
{
    signal(SIGTTOU, SIG_IGN);
    terminal.fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    terminal.suspends = sigismember(&found->ignored, SIGTSTP) == 0;
    CHECK(uv_timer_init(loop, &terminal.look) == 0);
    CHECK(uv_signal_init(loop, &terminal.suspend) == 0);
    watch_suspend();
}

void run_terminal_begin(pid_t group)
{
    terminal.group = group;
}

void run_terminal_told(void)
{
    if (terminal.state == TERMINAL_WAITING)
        go_on();
}

static bool ended_by_keys(int wait_status)
{
    if (WIFSIGNALED(wait_status))
        return WTERMSIG(wait_status) == SIGINT || WTERMSIG(wait_status) == SIGQUIT ||
               WTERMSIG(wait_status) == SIGHUP; /* the terminal was closed */
    return WEXITSTATUS(wait_status) == EXIT_INTERRUPTED || WEXITSTATUS(wait_status) == EXIT_QUIT;
}

/* One that was killed had no time to set the terminal as it was. */
bool run_terminal_end(int wait_status)
{
    bool lent = terminal.state == TERMINAL_LENT;

    if (terminal.state == TERMINAL_WAITING)
        wait_no_more();
    if (lent && take_foreground() && terminal.has_modes && WIFSIGNALED(wait_status))
        (void)tcsetattr(terminal.fd, TCSADRAIN, &terminal.modes);
    terminal.group = 0;
    return lent && ended_by_keys(wait_status);
}
