/* A node of processes that a test makes up, as the table of processes reads it.
 *
 * Flow     world_fork(), world_exit() and so on; world_look() is a job's look through the table,
 *          world_whole() the same picture from reading everything: what the table must not differ
 *          from.
 * Shapes   one world. Numbers rise to WORLD_PID_MAX and begin anew at 300, as the kernel's do.
 */
#ifndef TESTS_UNIT_AGENT_PROCESS_WORLD_H
#define TESTS_UNIT_AGENT_PROCESS_WORLD_H

#include <unistd.h>

#include "src/agent/node/process_table.h"
#include "src/base/check.h"
#include "tests/support/test.h"

enum {
    WORLD_MAX = 1024,
    WORLD_PID_MAX = 32768,
    WORLD_USER = 1000,
    WORLD_BEGIN_TICKS = 1000000,
    SECOND = 100
};

struct world_process {
    pid_t pid; /* 0: none */
    pid_t parent, group, session;
    uid_t uid;
    uint64_t start_ticks, image, folder;
    bool executed;
    bool unborn; /* it has its number, and has not appeared yet */
    bool unread; /* not to be read just now */
    char environment[256];
};

static struct {
    struct world_process items[WORLD_MAX];
    size_t count;
    struct proc_forks forks;
    uint64_t now_ticks;
    uint64_t folders; /* given so far */
    uint64_t images;
    /* counts of the table's reads */
    unsigned reads, lists_all, lists_part, groups;
} world;

static struct process_table *processes;

/* ---- what happens in it ---- */

static struct world_process *world_find(pid_t pid)
{
    for (size_t i = 0; i < world.count; i++)
        if (world.items[i].pid == pid && pid != 0)
            return &world.items[i];
    return NULL;
}

static void world_appear(struct world_process *process)
{
    process->unborn = false;
    world.forks.count++;
    world.forks.tasks++;
}

static struct world_process *world_put(pid_t pid, pid_t parent)
{
    const struct world_process *from = world_find(parent);
    struct world_process *process = NULL;

    assert_null(world_find(pid));
    for (size_t i = 0; i < world.count && process == NULL; i++)
        if (world.items[i].pid == 0)
            process = &world.items[i];
    if (process == NULL) {
        assert_true(world.count < WORLD_MAX);
        process = &world.items[world.count++];
    }
    *process = from == NULL ? (struct world_process){.group = pid, .session = pid} : *from;
    process->pid = pid;
    process->parent = parent;
    process->start_ticks = world.now_ticks;
    process->folder = ++world.folders;
    process->executed = false;
    process->unborn = true;
    process->unread = false;
    return process;
}

/* Never the number of the test itself, which no look counts among a job's processes. */
static pid_t world_next_pid(void)
{
    do
        world.forks.last = world.forks.last + 1 >= WORLD_PID_MAX ? 300 : world.forks.last + 1;
    while (world_find(world.forks.last) != NULL || world.forks.last == getpid());
    return world.forks.last;
}

/* Processes and threads up to that number have been started, and have ended. */
static void world_skip(pid_t last)
{
    world.forks.count += (uint64_t)(last - world.forks.last + WORLD_PID_MAX) % WORLD_PID_MAX;
    world.forks.last = last;
}

static pid_t world_fork(pid_t parent)
{
    struct world_process *process = world_put(world_next_pid(), parent);

    world_appear(process);
    return process->pid;
}

static void world_execute(pid_t pid, const char *environment)
{
    struct world_process *process = world_find(pid);

    process->image = ++world.images;
    process->executed = true;
    snprintf(process->environment, sizeof(process->environment), "%s", environment);
}

static pid_t world_start(pid_t parent, const char *environment)
{
    const pid_t pid = world_fork(parent);

    world_execute(pid, environment);
    return pid;
}

static void world_exit(pid_t pid)
{
    for (size_t i = 0; i < world.count; i++)
        if (world.items[i].parent == pid)
            world.items[i].parent = 1;
    world_find(pid)->pid = 0;
    world.forks.tasks--;
}

/* In a session of its own. */
static pid_t world_stranger(uid_t uid)
{
    const pid_t pid = world_start(1, "PATH=/bin HOME=/");
    struct world_process *process = world_find(pid);

    process->group = process->session = pid;
    process->uid = uid;
    return pid;
}

static void world_wait(uint64_t ticks)
{
    world.now_ticks += ticks;
}

/* ---- as it is read ---- */

static int world_forks(void *context, struct proc_forks *ret_forks)
{
    (void)context;
    *ret_forks = world.forks;
    ret_forks->pid_max = WORLD_PID_MAX;
    return 0;
}

static int world_list(void *context, struct proc_span span, proc_listed_fn *each, void *data)
{
    pid_t at = span.after;
    const bool all = span.until == 0;

    (void)context;
    *(all ? &world.lists_all : &world.lists_part) += 1;
    for (;;) {
        const struct world_process *next = NULL;
        for (size_t i = 0; i < world.count; i++) {
            const struct world_process *process = &world.items[i];
            if (process->pid > at && !process->unborn && (next == NULL || process->pid < next->pid))
                next = process;
        }
        if (next == NULL || (!all && next->pid > span.until))
            return 0;
        at = next->pid;
        each(data, next->pid, next->folder);
    }
}

static const struct world_process *world_read(pid_t pid, int *ret_result)
{
    const struct world_process *process = world_find(pid);

    world.reads++;
    *ret_result = process == NULL || process->unborn ? -1 : process->unread ? 1 : 0;
    return process;
}

static int world_stat(void *context, pid_t pid, struct proc_stat *ret_stat)
{
    int result;
    const struct world_process *process = world_read(pid, &result);

    (void)context;
    if (result == 0)
        *ret_stat = (struct proc_stat){.pid = pid,
                                       .name = "process",
                                       .state = 'S',
                                       .parent = process->parent,
                                       .group = process->group,
                                       .session = process->session,
                                       .threads = 1,
                                       .start_ticks = process->start_ticks,
                                       .executed = process->executed,
                                       .image = process->image};
    return result;
}

static int world_status(void *context, pid_t pid, struct proc_status *ret_status)
{
    int result;
    const struct world_process *process = world_read(pid, &result);

    (void)context;
    if (result == 0)
        *ret_status = (struct proc_status){.uid = process->uid};
    return result;
}

static char *world_bytes(void *context, pid_t pid, const char *file, size_t max, size_t *ret_bytes,
                         int *ret_result)
{
    const struct world_process *process = world_read(pid, ret_result);
    char *bytes;

    (void)context, (void)max;
    assert_string_equal(file, "environ");
    *ret_bytes = 0;
    if (*ret_result != 0 || process->environment[0] == '\0')
        return NULL;
    *ret_bytes = strlen(process->environment) + 1;
    bytes = check_strdup(process->environment);
    for (size_t i = 0; i < *ret_bytes; i++)
        if (bytes[i] == ' ')
            bytes[i] = '\0';
    return bytes;
}

static pid_t world_group(void *context, pid_t pid)
{
    const struct world_process *process = world_find(pid);

    (void)context;
    world.groups++;
    return process == NULL ? -1 : process->group;
}

static uint64_t world_now_ticks(void *context)
{
    (void)context;
    return world.now_ticks;
}

static const struct proc_source world_source = {.forks = world_forks,
                                                .list = world_list,
                                                .stat = world_stat,
                                                .status = world_status,
                                                .bytes = world_bytes,
                                                .group = world_group,
                                                .now_ticks = world_now_ticks};

/* ---- who is a job's ---- */

#define WORLD_OF(name) "CKPT_ALLOCATION_ID=" name " CKPT_DIR=/w/" name " CKPT_RUN=1-42 PATH=/bin"

/* Its main process is started here, by a shell in a session of its own. */
static void world_job(struct job_identity *job, const char *name, const char *environment)
{
    const pid_t shell = world_stranger(WORLD_USER);

    *job = (struct job_identity){.stragglers = {.uid = WORLD_USER, .start_ticks = world.now_ticks}};
    snprintf(job->stragglers.allocation_id, sizeof(job->stragglers.allocation_id), "%s", name);
    snprintf(job->stragglers.work_dir, sizeof(job->stragglers.work_dir), "/w/%s", name);
    job->stragglers.run = run_make(1, 42);
    job->group = world_start(shell, environment);
    world_find(job->group)->group = job->group;
}

/* "101 102!": processes by number, those that are lost without descent or knowledge marked. */
static void name_processes(const struct job_processes *table, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < table->count; i++)
        if (table->items[i].belongs)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%d%s", used == 0 ? "" : " ",
                                 (int)table->items[i].stat.pid, table->items[i].stray ? "!" : "");
}

static char world_looked[8192], world_wholly[8192];
static bool world_unread;

static const char *world_look(const struct job_identity *job, enum process_look look)
{
    struct job_processes table;

    world.reads = world.lists_all = world.lists_part = world.groups = 0;
    job_processes_init(&table);
    job_processes_look_in(&table, job, processes, look);
    name_processes(&table, world_looked, sizeof(world_looked));
    world_unread = table.unread;
    job_processes_close(&table);
    return world_looked;
}

static const char *world_whole(const struct job_identity *job)
{
    struct job_processes table;
    pid_t inside[64];
    size_t inside_count = job->cgroup[0] == '\0' ? 0 : cgroup_pids(job->cgroup, inside, 64);

    job_processes_init(&table);
    for (size_t i = 0; i < world.count; i++) {
        const struct world_process *lives = &world.items[i];
        struct job_process process = {.known = true, .parent = PROCESS_NO_PARENT};
        int result;

        if (lives->pid <= 1 || lives->unborn)
            continue;
        process.uid = lives->uid;
        assert_int_equal(world_stat(NULL, lives->pid, &process.stat), 0);
        for (size_t k = 0; k < inside_count; k++)
            process.in_cgroup = process.in_cgroup || inside[k] == lives->pid;
        process.environment =
            world_bytes(NULL, lives->pid, "environ", SIZE_MAX, &process.environment_bytes, &result);
        job_processes_add(&table, &process);
    }
    job_processes_settle(&table, job);
    name_processes(&table, world_wholly, sizeof(world_wholly));
    job_processes_close(&table);
    return world_wholly;
}

static int world_open(void **state)
{
    (void)state;
    memset(&world, 0, sizeof(world));
    world.now_ticks = WORLD_BEGIN_TICKS;
    world.forks = (struct proc_forks){.count = 5000, .tasks = 1, .last = 1000};
    world_put(1, 0)->unborn = false;
    world.items[0].executed = true;
    processes = process_table_new(&world_source);
    return 0;
}

static int world_close(void **state)
{
    (void)state;
    process_table_free(processes);
    return 0;
}

#endif
