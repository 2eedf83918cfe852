/* Whole jobs of a simulated machine: who of one is a rank, and its standing still. See
 * agent_machine.h and src/agent/node/machine.h.
 *
 * Shapes   its processes are the main process's group, those that have the job in their environment
 *          and, where the machine has control groups, those in the job's. A process that hangs in
 *          the kernel does not stop, so that the whole does not. What is under way dies with the
 *          agent, a thaw and a kill do not.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/agent_machine.h"

enum {
    LOOK_DELAY_US = 10000,
    SLOW_LOOK_US = 2000000,
    UNREAD_IN = 40, /* one look in so many cannot read all */
    STILL_LIMIT_US = STILL_LIMIT_MS * 1000
};

bool agent_machine_belongs(const struct machine_process *process, const struct job_identity *job)
{
    return process != NULL && process->living &&
           (process->group == job->group || process->origin_ticks == job->stragglers.start_ticks ||
            (job->cgroup[0] != '\0' && process->cgroup_ticks == job->stragglers.start_ticks));
}

static uint64_t delay_us(struct agent_machine *machine)
{
    return 1 +
           sim_random(machine->sim, sim_chance(machine->sim, 32) ? SLOW_LOOK_US : LOOK_DELAY_US);
}

/* ---- ranks ---- */

struct ranks_look {
    struct list node;
    struct agent_machine *machine;
    struct job_identity job;
    int signal;
    struct sim_event *event;
    ranks_done_fn *done;
    void *data;
};

static int rank_order(const void *a, const void *b)
{
    const struct rank_seen *left = a, *right = b;

    return left->launcher != right->launcher
               ? left->launcher - right->launcher
               : (left->number > right->number) - (left->number < right->number);
}

static void rank_fill(const struct machine_process *process, struct rank_seen *ret_seen)
{
    *ret_seen =
        (struct rank_seen){.number = process->rank == 0 ? 0 : process->rank - 1,
                           .local = process->rank == 0 ? RANK_NONE : (int32_t)process->rank - 1,
                           .local_count = process->ranks,
                           .all_count = process->ranks_all,
                           .pid = process->pid,
                           .start_ticks = process->start_ticks,
                           .catches_usr1 = (process->caught >> (SIGUSR1 - 1) & 1) != 0,
                           .catches_usr2 = (process->caught >> (SIGUSR2 - 1) & 1) != 0,
                           .launcher = process->rank == 0};
    snprintf(ret_seen->name, sizeof(ret_seen->name), "%s", process->program.name);
}

/* Its main process has started all others: where it catches the signal it alone hears it. */
static void find_hearers(const struct ranks_look *look, struct ranks_seen *seen)
{
    const struct agent_machine *machine = look->machine;
    const uint64_t bit = look->signal == 0 ? 0 : UINT64_C(1) << (look->signal - 1);

    for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++) {
        const struct machine_process *process = machine->processes[i];
        if (!agent_machine_belongs(process, &look->job) || (process->caught & bit) == 0)
            continue;
        if (process->pid == look->job.group)
            seen->hearer_count = 0;
        seen->hearers[seen->hearer_count++] =
            (struct process_id){process->pid, process->start_ticks};
        if (process->pid == look->job.group)
            break;
    }
    seen->catches = seen->hearer_count > 0 ? PROC_CATCHES : PROC_NONE_CATCHES;
}

static void ranks_fire(void *data)
{
    struct ranks_look *look = data;
    struct agent_machine *machine = look->machine;
    struct ranks_seen *seen = check_calloc(1, sizeof(*seen));

    for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++) {
        const struct machine_process *process = machine->processes[i];
        if (agent_machine_belongs(process, &look->job) && (process->rank > 0 || process->launcher))
            rank_fill(process, &seen->items[seen->count++]);
    }
    qsort(seen->items, seen->count, sizeof(seen->items[0]), rank_order);
    seen->asks_group = look->job.asks_group;
    if (seen->asks_group)
        seen->catches =
            machine_group_catches(&machine->ops, look->job.group, look->signal, &seen->group);
    else
        find_hearers(look, seen);
    if (machine->unread && sim_chance(machine->sim, UNREAD_IN))
        snprintf(seen->why, sizeof(seen->why), "a process cannot be read just now");
    list_remove(&look->node);
    look->done(look->data, seen);
    free(seen);
    free(look);
}

static struct ranks_look *ranks_look_own(void *context, const struct job_identity *job, int signal,
                                         ranks_done_fn *done, void *data)
{
    struct agent_machine *machine = context;
    struct ranks_look *look = check_calloc(1, sizeof(*look));

    /* nothing here has a rank's number beside the rank, so the signal counts for the group alone */
    look->machine = machine;
    look->job = (struct job_identity){.stragglers = {.start_ticks = job->stragglers.start_ticks},
                                      .group = job->group,
                                      .asks_group = job->asks_group};
    look->signal = signal;
    look->done = done;
    look->data = data;
    list_push_back(&machine->rank_looks, &look->node);
    look->event =
        sim_schedule(machine->sim, machine->config.agent_node, delay_us(machine), ranks_fire, look);
    return look;
}

static void ranks_detach_own(struct ranks_look *look)
{
    if (look == NULL)
        return;
    sim_cancel(look->machine->sim, look->event);
    list_remove(&look->node);
    free(look);
}

struct job_process_look {
    struct list node;
    struct agent_machine *machine;
    struct job_identity job;
    pid_t pid;
    struct sim_event *event;
    process_done_fn *done;
    void *data;
};

static void process_look_fire(void *data)
{
    struct job_process_look look = *(struct job_process_look *)data;
    const struct machine_process *process = agent_machine_find(look.machine, look.pid);
    bool lives = process != NULL && process->living;
    enum process_verdict verdict = !lives                                      ? VERDICT_ENDED
                                   : agent_machine_belongs(process, &look.job) ? VERDICT_BELONGS
                                                                               : VERDICT_STRANGER;

    list_remove(&((struct job_process_look *)data)->node);
    free(data);
    if (look.machine->unread && sim_chance(look.machine->sim, UNREAD_IN))
        verdict = VERDICT_UNREAD;
    look.done(look.data, verdict, lives ? process->start_ticks : 0);
}

static struct job_process_look *job_process_look_own(void *context, const struct job_identity *job,
                                                     pid_t pid, process_done_fn *done, void *data)
{
    struct agent_machine *machine = context;
    struct job_process_look *look = check_calloc(1, sizeof(*look));

    *look = (struct job_process_look){
        .machine = machine, .job = *job, .pid = pid, .done = done, .data = data};
    list_push_back(&machine->process_looks, &look->node);
    look->event = sim_schedule(machine->sim, machine->config.agent_node, delay_us(machine),
                               process_look_fire, look);
    return look;
}

static void job_process_detach_own(struct job_process_look *look)
{
    if (look == NULL)
        return;
    sim_cancel(look->machine->sim, look->event);
    list_remove(&look->node);
    free(look);
}

static int process_signal_own(void *context, pid_t pid, uint64_t start_ticks, int signal,
                              struct err *err)
{
    struct agent_machine *machine = context;
    const struct machine_process *process = agent_machine_find(machine, pid);

    if (process == NULL || !process->living || process->start_ticks != start_ticks)
        return err_set(err, ERR_NOT_FOUND, "signal %d to process %d: no such process", signal,
                       (int)pid);
    if (machine->dying)
        return 0;
    if (machine->events.signals_one != NULL)
        machine->events.signals_one(machine->events.data, machine, process, signal);
    agent_machine_kill(machine, pid, signal);
    return 0;
}

/* ---- standing still ---- */

struct job_still {
    struct list node;
    struct agent_machine *machine;
    struct job_identity job;
    enum still_way way;
    bool told; /* all but the launchers to end */
    uint64_t begun_us;
    struct sim_event *event;
    still_done_fn *done; /* NULL: not wanted any more */
    void *data;
};

static void still_free(struct job_still *still)
{
    list_remove(&still->node);
    free(still);
}

/* Launchers are told to end when no rank lives any more, all others once. True: it is one that was
 * not. */
static bool still_tell(const struct job_still *still, struct machine_process *process, bool ranks)
{
    const pid_t pid = process->pid;

    if (ranks && process->launcher)
        return true;
    if (still->told && !process->launcher)
        return false;
    agent_machine_kill(still->machine, pid, SIGTERM);
    process = agent_machine_find(still->machine, pid);
    if (process != NULL)
        agent_machine_stop(still->machine, process, false);
    return false;
}

static bool rank_lives(const struct job_still *still)
{
    for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++)
        if (agent_machine_belongs(still->machine->processes[i], &still->job) &&
            still->machine->processes[i]->rank > 0)
            return true;
    return false;
}

/* True: there is more to be done. */
static bool still_process(const struct job_still *still, pid_t pid, bool ranks)
{
    struct machine_process *process = agent_machine_find(still->machine, pid);

    if (process == NULL || !process->living)
        return false;
    if (still->way == STILL_END)
        return still_tell(still, process, ranks);
    if (still->way == STILL_KILL)
        agent_machine_kill(still->machine, pid, SIGKILL);
    else
        agent_machine_stop(still->machine, process, still->way == STILL_FREEZE);
    process = agent_machine_find(still->machine, pid);
    if (process == NULL || !process->living)
        return false;
    return still->way == STILL_KILL ||
           (still->way == STILL_FREEZE && (!process->stopped || process->frozen));
}

/* Who belongs to it and is not as it should be. */
static const struct machine_process *still_round(const struct job_still *still, size_t *ret_count)
{
    struct agent_machine *machine = still->machine;
    const bool ranks = still->way == STILL_END && rank_lives(still);
    pid_t pids[MACHINE_PROCESSES_MAX];
    const struct machine_process *stuck = NULL;
    size_t count = 0;

    for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++)
        if (agent_machine_belongs(machine->processes[i], &still->job))
            pids[count++] = machine->processes[i]->pid;
    for (size_t i = 0; i < count; i++)
        if (still_process(still, pids[i], ranks))
            stuck = agent_machine_find(machine, pids[i]);
    *ret_count = count;
    return stuck;
}

static void still_begin(struct job_still *still);

static void still_fire(void *data)
{
    struct job_still *still = data;
    struct agent_machine *machine = still->machine;
    struct still_result result = {
        .rounds = 1, .job = &still->job, .took_us = sim_now_us(machine->sim) - still->begun_us};
    const struct machine_process *stuck;

    if ((still->way == STILL_KILL || (still->way == STILL_END && !still->told)) &&
        machine->events.signals != NULL)
        machine->events.signals(machine->events.data, machine, still->job.group,
                                still->way == STILL_KILL ? SIGKILL : SIGTERM);
    stuck = still_round(still, &result.count);
    still->told = still->way == STILL_END;
    if (stuck != NULL && (still->way == STILL_END || result.took_us < STILL_LIMIT_US)) {
        still_begin(still);
        return;
    }
    result.whole = stuck == NULL;
    result.stuck = stuck == NULL ? 0 : stuck->pid;
    if (stuck != NULL)
        snprintf(result.stuck_name, sizeof(result.stuck_name), "%s", stuck->program.name);
    if (still->done != NULL)
        still->done(still->data, &result);
    still_free(still);
}

static void still_begin(struct job_still *still)
{
    still->event = sim_schedule(still->machine->sim, still->machine->config.agent_node,
                                delay_us(still->machine), still_fire, still);
}

bool agent_machine_ends(const struct agent_machine *machine, pid_t group)
{
    for (const struct list *at = machine->stills.next; at != &machine->stills; at = at->next) {
        const struct job_still *still = LIST_ITEM_CONST(at, struct job_still, node);

        if (still->job.group == group && (still->way == STILL_END || still->way == STILL_KILL))
            return true;
    }
    return false;
}

static struct job_still *job_still_own(void *context, const struct job_identity *job,
                                       enum still_way way, still_done_fn *done, void *data)
{
    struct agent_machine *machine = context;
    struct job_still *still;

    if (machine->dying)
        return NULL;
    still = check_calloc(1, sizeof(*still));
    *still = (struct job_still){.machine = machine,
                                .job = *job,
                                .way = way,
                                .begun_us = sim_now_us(machine->sim),
                                .done = done,
                                .data = data};
    list_push_back(&machine->stills, &still->node);
    still_begin(still);
    return still;
}

static void job_still_change_own(struct job_still *still, enum still_way way)
{
    still->way = way;
    still->told = false;
    still->begun_us = sim_now_us(still->machine->sim);
}

static void job_still_detach_own(struct job_still *still)
{
    if (still == NULL)
        return;
    still->done = NULL;
    if (still->way == STILL_THAW || still->way == STILL_KILL)
        return;
    sim_cancel(still->machine->sim, still->event);
    still_free(still);
}

/* ---- control groups ---- */

static int job_place_own(void *context, const struct cgroups *cgroups, struct job_identity *job,
                         struct err *err)
{
    struct agent_machine *machine = context;
    struct machine_process *process = agent_machine_find(machine, job->group);
    char run[CHECKPOINT_ID_TEXT_BYTES];

    if (process == NULL || !process->living)
        return err_set(err, ERR_NOT_FOUND, "process %d is gone", (int)job->group);
    CHECK(strcmp(cgroups->jobs, AGENT_JOBS_FOLDER) == 0);
    snprintf(job->cgroup, sizeof(job->cgroup), AGENT_JOBS_FOLDER "/%s.%s",
             job->stragglers.allocation_id, checkpoint_id_format(job->stragglers.run, run));
    if (!machine->dying)
        process->cgroup_ticks = process->start_ticks;
    return 0;
}

static void job_find_own(void *context, struct job_identity *job)
{
    struct agent_machine *machine = context;
    const struct machine_process *process = agent_machine_find(machine, job->group);
    char run[CHECKPOINT_ID_TEXT_BYTES];

    job->cgroup[0] = '\0';
    if (process != NULL && process->cgroup_ticks != 0)
        snprintf(job->cgroup, sizeof(job->cgroup), AGENT_JOBS_FOLDER "/%s.%s",
                 job->stragglers.allocation_id, checkpoint_id_format(job->stragglers.run, run));
}

static void job_leave_own(void *context, const char *cgroup)
{
    (void)context;
    CHECK(cgroup[0] != '\0');
}

void agent_machine_fill_jobs(struct machine_ops *ops)
{
    ops->ranks_look = ranks_look_own;
    ops->ranks_detach = ranks_detach_own;
    ops->job_process_look = job_process_look_own;
    ops->process_detach = job_process_detach_own;
    ops->process_signal = process_signal_own;
    ops->job_still = job_still_own;
    ops->job_still_change = job_still_change_own;
    ops->job_still_detach = job_still_detach_own;
    ops->job_place = job_place_own;
    ops->job_find = job_find_own;
    ops->job_leave = job_leave_own;
}

void agent_machine_close_jobs(struct agent_machine *machine)
{
    CHECK(list_empty(&machine->rank_looks) && list_empty(&machine->process_looks));
    while (!list_empty(&machine->stills)) {
        struct job_still *still = LIST_ITEM(machine->stills.next, struct job_still, node);
        sim_cancel(machine->sim, still->event);
        still_free(still);
    }
}
