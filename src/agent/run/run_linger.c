/* The moment between the end of the application and the note of it. See run_linger.h. */
#include "src/agent/run/run_linger.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/node/proc.h"
#include "src/agent/run/run_say.h"
#include "src/base/check.h"

enum { LOOK_MS = 20, CHILDREN_BYTES = 4096, CHILDREN_MAX = 256, NAMED_MAX = 3, NAMES_BYTES = 320 };

struct child {
    pid_t pid;
    struct proc_stat stat;
};

static struct {
    uv_timer_t timer;
    pid_t keeper;
    int wait_status;
    uint64_t until_ms;
    void (*done)(int wait_status); /* NULL: it does not wait */
    struct child before[CHILDREN_MAX];
    size_t before_count;
} linger;

/* As many as the text has room for. */
static size_t read_children(struct child ret_children[CHILDREN_MAX])
{
    char path[64], text[CHILDREN_BYTES] = "", *at = text, *end;
    size_t count = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    for (long pid = strtol(at, &end, 10); end != at && count < CHILDREN_MAX;
         pid = strtol(at, &end, 10)) {
        struct child *child = &ret_children[count];

        at = end;
        child->pid = (pid_t)pid;
        count += proc_read_stat(child->pid, &child->stat) == 0 && proc_living(&child->stat);
    }
    return count;
}

/* A shell that has become ckpt-run (`work & exec ckpt-run ...`) left it its children. */
static bool was_before(const struct child *child)
{
    for (size_t i = 0; i < linger.before_count; i++)
        if (linger.before[i].pid == child->pid &&
            linger.before[i].stat.start_ticks == child->stat.start_ticks)
            return true;
    return false;
}

/* How many live, and the first of them by name. */
static size_t find_left(char ret_names[NAMES_BYTES])
{
    static struct child children[CHILDREN_MAX];
    size_t length = read_children(children), count = 0, used = 0;

    ret_names[0] = '\0';
    for (size_t i = 0; i < length; i++) {
        if (children[i].pid == linger.keeper || was_before(&children[i]))
            continue;
        if (count++ < NAMED_MAX)
            used += (size_t)snprintf(ret_names + used, NAMES_BYTES - used, "%s%s (pid %d)",
                                     count == 1 ? "" : ", ", children[i].stat.name,
                                     (int)children[i].pid);
    }
    return count;
}

static void finish_linger(size_t left, const char *names)
{
    void (*done)(int wait_status) = linger.done;

    CHECK(done != NULL);
    linger.done = NULL;
    uv_timer_stop(&linger.timer);
    if (left > 0 && linger.wait_status == 0)
        run_say("the application has ended with status 0, which says that the work is done; what "
                "it has left running is killed: %s%s. A program that goes on by itself is to be "
                "waited for (wait, setsid --wait)",
                names, left > NAMED_MAX ? ", ..." : "");
    done(linger.wait_status);
}

static void look_again(uv_timer_t *timer)
{
    char names[NAMES_BYTES];
    size_t left = find_left(names);

    if (left == 0 || uv_now(timer->loop) >= linger.until_ms)
        finish_linger(left, names);
    else
        uv_timer_start(timer, look_again, LOOK_MS, 0);
}

void run_linger_open(uv_loop_t *loop)
{
    CHECK(uv_timer_init(loop, &linger.timer) == 0);
    linger.before_count = read_children(linger.before);
}

void run_linger_begin(pid_t keeper, int wait_status, void (*done)(int wait_status))
{
    CHECK(linger.done == NULL);
    linger.keeper = keeper;
    linger.wait_status = wait_status;
    linger.done = done;
    uv_update_time(linger.timer.loop);
    /* A signal took it in the middle: nothing that it left is at its end, and may stand still. */
    linger.until_ms = uv_now(linger.timer.loop) + (WIFSIGNALED(wait_status) ? 0 : LINGER_MS);
    look_again(&linger.timer);
}

bool run_linger_hurry(void)
{
    char names[NAMES_BYTES];

    if (linger.done == NULL)
        return false;
    finish_linger(find_left(names), names);
    return true;
}
