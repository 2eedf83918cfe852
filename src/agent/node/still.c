/* A whole job is made to stand still, to go on, or is signalled. See still.h. */
#include "src/agent/node/still.h"

#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/agent/node/ranks.h"
#include "src/base/check.h"
#include "src/base/text.h"

/* A group's wait in one round; between two; while ranks end */
enum { STILL_GROUP_MS = 20, STILL_PAUSE_MAX_MS = 64, STILL_END_PAUSE_MS = 200 };

/* A process that a round found stopped, or that was told to end. */
struct stopped {
    pid_t pid;
    uint64_t start_ticks;
};

struct job_still {
    uv_work_t work;
    uv_timer_t timer;
    struct job_identity job;
    enum still_way way; /* of the round; the pool's thread reads it */
    enum still_way next_way;
    bool changed; /* the next round begins what is next */
    uint64_t begun_us;
    /* of the round, and of the one before */
    bool by_cgroup; /* the group does it: its processes are not looked at */
    bool finished;
    struct stopped *stopped; /* by pid */
    size_t stopped_count;
    struct still_result result;
    still_done_fn *done; /* NULL: not wanted any more */
    void *data;
};

/* ---- one process ---- */

static void signal_process(const struct job_process *process, int signal)
{
    (void)proc_signal(process->stat.pid, process->stat.start_ticks, signal);
}

/* It waits, in the kernel and whatever signal comes, until the child with which it shares its
 * memory runs a program; and that child is stopped. */
static bool waits_for_stopped_child(const struct job_processes *table,
                                    const struct job_process *process)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct proc_stat *child = &table->items[i].stat;
        if (child->parent == process->stat.pid && child->state == 'T' &&
            syscall(SYS_kcmp, process->stat.pid, child->pid, KCMP_VM, 0, 0) == 0)
            return true;
    }
    return false;
}

static bool state_is_stopped(const struct job_processes *table, const struct job_process *process,
                             char state)
{
    if (state == 'D')
        return waits_for_stopped_child(table, process);
    return state == 'T' || state == 't' || state == 'Z' || state == 'X';
}

/* The first thread may be stopped, or have ended, while another one still writes. */
static bool process_is_stopped(const struct job_processes *table, const struct job_process *process)
{
    char path[64];
    DIR *folder;
    struct dirent *entry;
    bool stopped = state_is_stopped(table, process, process->stat.state);

    if (!stopped || process->stat.threads == 1)
        return stopped;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)process->stat.pid);
    folder = opendir(path);
    while (folder != NULL && stopped && (entry = readdir(folder)) != NULL) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        struct proc_stat stat;
        int result = thread <= 0 ? -1 : proc_read_thread(process->stat.pid, thread, &stat);
        stopped = result < 0 || (result == 0 && state_is_stopped(table, process, stat.state));
    }
    if (folder != NULL)
        closedir(folder);
    return stopped;
}

/* ---- one round, off the loop ---- */

/* Whom the round is about: what its group does not reach. A group lets go whom it froze, and not
 * whom a signal has stopped before: a command that saved the job from outside, as echkpnt -s. */
static bool is_aimed(const struct job_still *still, const struct job_process *process)
{
    const bool stopped = still->way == STILL_THAW && process->stat.state == 'T';

    return process->belongs &&
           !(still->by_cgroup && process->in_cgroup && still->way != STILL_KILL && !stopped);
}

/* -1, 0, 1: parents before their children; the main process is the eldest. */
static int compare_age(const void *a, const void *b)
{
    const struct job_process *left = *(const struct job_process *const *)a,
                             *right = *(const struct job_process *const *)b;

    if (left->stat.start_ticks != right->stat.start_ticks)
        return left->stat.start_ticks < right->stat.start_ticks ? -1 : 1;
    return (left->stat.pid > right->stat.pid) - (left->stat.pid < right->stat.pid);
}

/* The processes of the round, by age; the caller frees them. */
static const struct job_process **aim_processes(struct job_still *still,
                                                const struct job_processes *table)
{
    const struct job_process **aimed = check_calloc(table->count + 1, sizeof(*aimed));
    size_t count = 0;

    for (size_t i = 0; i < table->count; i++)
        if (is_aimed(still, &table->items[i]))
            aimed[count++] = &table->items[i];
    qsort(aimed, count, sizeof(*aimed), compare_age);
    still->result.count = count;
    return aimed;
}

static void name_stuck(struct job_still *still, const struct job_process *process)
{
    still->finished = false;
    if (still->result.stuck != 0)
        return; /* one is enough */
    still->result.stuck = process->stat.pid;
    memcpy(still->result.stuck_name, process->stat.name, sizeof(still->result.stuck_name));
}

static bool was_stopped(const struct job_still *still, const struct job_process *process)
{
    for (size_t low = 0, high = still->stopped_count; low < high;) {
        size_t middle = low + (high - low) / 2;
        const struct stopped *stopped = &still->stopped[middle];
        if (stopped->pid == process->stat.pid)
            return stopped->start_ticks == process->stat.start_ticks;
        if (stopped->pid < process->stat.pid)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* Who is stopped is let go again, or killed, also when its parents have ended meanwhile. */
static void freeze_processes(struct job_still *still, const struct job_processes *table)
{
    const struct job_process **aimed = aim_processes(still, table);
    struct stopped *stopped = check_calloc(table->count + 1, sizeof(*stopped));
    size_t count = 0;

    for (size_t i = 0; i < still->result.count; i++)
        if (!process_is_stopped(table, aimed[i]))
            signal_process(aimed[i], SIGSTOP);
    for (size_t i = 0; i < table->count; i++) { /* by pid, for the next round */
        const struct job_process *process = &table->items[i];
        if (!is_aimed(still, process))
            continue;
        if (!process_is_stopped(table, process)) {
            name_stuck(still, process);
            continue;
        }
        stopped[count++] = (struct stopped){process->stat.pid, process->stat.start_ticks};
        still->finished = still->finished && was_stopped(still, process);
    }
    job_processes_know(table, &still->job);
    free(aimed);
    free(still->stopped);
    still->stopped = stopped;
    still->stopped_count = count;
}

/* To all of them: a stop that a process has not come to yet is taken back by it as well. */
static void thaw_processes(struct job_still *still, const struct job_processes *table)
{
    const struct job_process **aimed = aim_processes(still, table);

    for (size_t i = still->result.count; i-- > 0;) {
        bool stopped = aimed[i]->stat.state == 'T';
        if (still->result.rounds == 1 || stopped)
            signal_process(aimed[i], SIGCONT);
        if (stopped)
            name_stuck(still, aimed[i]);
    }
    still->finished = still->finished && still->result.rounds > 1;
    free(aimed);
}

static void kill_processes(struct job_still *still, const struct job_processes *table)
{
    const struct job_process **aimed = aim_processes(still, table);

    for (size_t i = 0; i < still->result.count; i++) {
        signal_process(aimed[i], SIGKILL);
        name_stuck(still, aimed[i]);
    }
    free(aimed);
}

/* Marks who is above a rank and none itself: launchers and wrapper scripts. Whether there are ranks
 * at all. */
static bool mark_launchers(const struct job_processes *table, const struct ranks_seen *seen,
                           bool *launchers)
{
    bool any = false;

    for (size_t i = 0; i < seen->count; i++) {
        const struct job_process *rank = job_processes_find(table, seen->items[i].pid);
        size_t steps = 0;
        if (seen->items[i].launcher || rank == NULL)
            continue;
        any = true;
        for (int at = rank->parent; at != PROCESS_NO_PARENT && ++steps <= table->count;
             at = table->items[at].parent)
            launchers[at] = true;
    }
    for (size_t i = 0; i < seen->count; i++) {
        const struct job_process *rank = job_processes_find(table, seen->items[i].pid);
        if (!seen->items[i].launcher && rank != NULL)
            launchers[rank - table->items] = false;
    }
    return any;
}

/* It was stopped by its user, perhaps: the signal alone would wait. */
static void end_process(const struct job_process *process)
{
    signal_process(process, SIGTERM);
    signal_process(process, SIGCONT);
}

/* It ends by itself with its program, and would end that: told together, neither could save. */
static bool serves_living(const struct job_processes *table, const struct job_process *process)
{
    return ranks_serves_one(process) && process->parent != PROCESS_NO_PARENT &&
           table->items[process->parent].belongs &&
           proc_living(&table->items[process->parent].stat);
}

static void end_processes(struct job_still *still, const struct job_processes *table)
{
    struct ranks_seen *seen = check_calloc(1, sizeof(*seen));
    struct stopped *told = check_calloc(table->count + 1, sizeof(*told));
    bool *launchers = check_calloc(table->count + 1, sizeof(*launchers));
    struct job_identity job = still->job;
    size_t count = 0;
    bool ranks;

    job.asks_started = false; /* whoever is asked, launchers end after their ranks */
    ranks_find(table, &job, SIGTERM, seen);
    ranks = mark_launchers(table, seen, launchers);
    still->result.count = 0;
    for (size_t i = 0; i < table->count; i++) { /* by pid, for the next round */
        const struct job_process *process = &table->items[i];
        bool known = was_stopped(still, process);
        if (!process->belongs)
            continue;
        still->result.count++;
        if (!known && serves_living(table, process)) {
            still->finished = false;
            continue;
        }
        if (!known && ranks && (launchers[i] || still->result.rounds > 1)) {
            still->finished = still->finished && !launchers[i];
            continue;
        }
        if (!known)
            end_process(process);
        told[count++] = (struct stopped){process->stat.pid, process->stat.start_ticks};
    }
    free(seen);
    free(launchers);
    free(still->stopped);
    still->stopped = told;
    still->stopped_count = count;
}

/* A process of a group that does not freeze: one that waits in the kernel. */
static void name_unfrozen(struct job_still *still, const struct job_processes *table)
{
    still->finished = false;
    for (size_t i = 0; i < table->count; i++)
        if (table->items[i].in_cgroup && table->items[i].stat.state == 'D')
            name_stuck(still, &table->items[i]);
    for (size_t i = 0; i < table->count; i++)
        if (table->items[i].in_cgroup)
            name_stuck(still, &table->items[i]);
}

/* A group that cannot be written to is none: its processes are signalled like others. */
static bool turn_cgroup(struct job_still *still)
{
    const char *folder = still->job.cgroup;

    still->by_cgroup = false;
    if (folder[0] == '\0')
        return true;
    if (still->way == STILL_KILL)
        still->by_cgroup = cgroup_kill(folder, NULL) == 0;
    if (still->way == STILL_KILL || still->way == STILL_END)
        return true;
    still->by_cgroup = cgroup_freeze(folder, still->way == STILL_FREEZE, NULL) == 0;
    return !still->by_cgroup || cgroup_wait(folder, still->way == STILL_FREEZE, STILL_GROUP_MS);
}

static void work_round(uv_work_t *work)
{
    struct job_still *still = work->data;
    struct job_processes table;
    bool turned = turn_cgroup(still);

    job_processes_init(&table);
    job_processes_look(&table, &still->job, PROCESS_ANEW);
    still->finished = !table.unread;
    still->result.stuck = 0;
    still->result.stuck_name[0] = '\0';
    still->result.rounds++;
    if (still->way == STILL_FREEZE)
        freeze_processes(still, &table);
    else if (still->way == STILL_THAW)
        thaw_processes(still, &table);
    else if (still->way == STILL_END)
        end_processes(still, &table);
    else
        kill_processes(still, &table);
    if (!turned)
        name_unfrozen(still, &table);
    job_processes_close(&table);
}

/* ---- on the loop ---- */

static void on_closed(uv_handle_t *handle)
{
    struct job_still *still = handle->data;

    free(still->stopped);
    free(still);
}

static void still_end(struct job_still *still)
{
    still->result.whole = still->finished;
    still->result.by_cgroup = still->by_cgroup;
    still->result.job = &still->job;
    still->result.took_us = uv_hrtime() / 1000 - still->begun_us;
    if (still->done != NULL)
        still->done(still->data, &still->result);
    uv_close((uv_handle_t *)&still->timer, on_closed);
}

static void work_rounded(uv_work_t *work, int status);

static void still_round(struct job_still *still)
{
    if (still->changed) {
        still->changed = false;
        still->way = still->next_way;
        still->begun_us = uv_hrtime() / 1000;
        still->stopped_count = 0;
        still->result = (struct still_result){.whole = false};
    }
    CHECK(uv_queue_work(still->timer.loop, &still->work, work_round, work_rounded) == 0);
}

static void on_timer(uv_timer_t *timer)
{
    still_round(timer->data);
}

static void work_rounded(uv_work_t *work, int status)
{
    struct job_still *still = work->data;
    const uint32_t rounds = still->result.rounds;
    const bool ends = still->way == STILL_END;
    uint64_t pause_ms = rounds > 6 ? STILL_PAUSE_MAX_MS : UINT64_C(1) << rounds >> 1;
    bool late = !ends && uv_hrtime() / 1000 - still->begun_us > (uint64_t)STILL_LIMIT_MS * 1000;

    (void)status;
    if (still->changed)
        still_round(still);
    else if (still->finished || late ||
             (still->done == NULL && (ends || still->way == STILL_FREEZE)))
        still_end(still);
    else
        CHECK(uv_timer_start(&still->timer, on_timer, ends ? STILL_END_PAUSE_MS : pause_ms, 0) ==
              0);
}

static void take_way(struct job_still *still, enum still_way way)
{
    CHECK(way <= STILL_KILL);
    still->next_way = way;
    still->changed = true;
}

const char *still_way_name(enum still_way way)
{
    static const char *const names[] = {STILL_WAYS(TEXT_OF_NAME)};

    CHECK(way < STILL_WAY_COUNT);
    return names[way];
}

struct job_still *still_start(uv_loop_t *loop, const struct job_identity *job, enum still_way way,
                              still_done_fn *done, void *data)
{
    struct job_still *still = check_calloc(1, sizeof(*still));

    CHECK(done != NULL);
    still->work.data = still;
    still->job = *job;
    still->done = done;
    still->data = data;
    CHECK(uv_timer_init(loop, &still->timer) == 0);
    still->timer.data = still;
    take_way(still, way);
    still_round(still);
    return still;
}

void still_change(struct job_still *still, enum still_way way)
{
    CHECK(still->done != NULL);
    take_way(still, way);
}

void still_detach(struct job_still *still)
{
    if (still != NULL)
        still->done = NULL;
}
