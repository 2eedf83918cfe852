/* An application that is nobody's child. See run_orphan.h. */
#include "src/agent/run/run_orphan.h"

#include "src/agent/node/proc.h"
#include "src/base/check.h"

enum { LOOK_MS = 500 };

static struct {
    uv_timer_t timer;
    pid_t pid;
    uint64_t start_ticks;
    void (*ended)(void);
} orphan;

static void orphan_look(uv_timer_t *timer)
{
    struct proc_stat stat;

    if (proc_read_stat(orphan.pid, &stat) == 0 && stat.start_ticks == orphan.start_ticks &&
        proc_living(&stat))
        return;
    uv_timer_stop(timer);
    orphan.ended();
}

void run_orphan_watch(uv_loop_t *loop, pid_t pid, uint64_t start_ticks, void (*ended)(void))
{
    CHECK(pid > 1);
    CHECK(orphan.pid == 0);
    orphan.pid = pid;
    orphan.start_ticks = start_ticks;
    orphan.ended = ended;
    CHECK(uv_timer_init(loop, &orphan.timer) == 0);
    uv_timer_start(&orphan.timer, orphan_look, LOOK_MS, LOOK_MS);
}
