/* Children that a daemon has not started. See reaper.h. */
#include "src/serve/reaper.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/check.h"

enum { REAPER_AGAIN_MS = 200, REAPER_FIRST_PID = 1 };

struct asked {
    pid_t pid;
    bool own;
};

static void look_at_handle(uv_handle_t *handle, void *data)
{
    struct asked *asked = data;

    if (uv_handle_get_type(handle) == UV_PROCESS &&
        uv_process_get_pid((const uv_process_t *)handle) == asked->pid)
        asked->own = true;
}

/* Libuv waits for its own. */
static bool is_own(const struct reaper *reaper, pid_t pid)
{
    struct asked asked = {pid, reaper->own(pid)};

    if (!asked.own)
        uv_walk(reaper->signal.loop, look_at_handle, &asked);
    return asked.own;
}

static void look_again(uv_timer_t *timer)
{
    (void)reaper_look(timer->data);
}

size_t reaper_look(struct reaper *reaper)
{
    size_t count = 0;
    siginfo_t child;

    CHECK(reaper->watches);
    for (;;) {
        child.si_pid = 0;
        if (waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) != 0 || child.si_pid == 0)
            return count;
        if (is_own(reaper, child.si_pid)) { /* it hides those behind it for a moment */
            uv_timer_start(&reaper->again, look_again, REAPER_AGAIN_MS, 0);
            return count;
        }
        count += waitpid(child.si_pid, NULL, WNOHANG) == child.si_pid;
    }
}

static void child_ended(uv_signal_t *signal, int number)
{
    (void)number;
    (void)reaper_look(signal->data);
}

void reaper_watch(uv_loop_t *loop, struct reaper *reaper, bool (*own)(pid_t pid))
{
    CHECK(own != NULL);
    reaper->own = own;
    reaper->watches = getpid() == REAPER_FIRST_PID;
    if (!reaper->watches)
        return;
    CHECK(uv_signal_init(loop, &reaper->signal) == 0);
    CHECK(uv_timer_init(loop, &reaper->again) == 0);
    reaper->signal.data = reaper->again.data = reaper;
    CHECK(uv_signal_start(&reaper->signal, child_ended, SIGCHLD) == 0);
    (void)reaper_look(reaper); /* those of before */
}

void reaper_unwatch(struct reaper *reaper)
{
    if (!reaper->watches)
        return;
    reaper->watches = false;
    uv_close((uv_handle_t *)&reaper->signal, NULL);
    uv_close((uv_handle_t *)&reaper->again, NULL);
}
