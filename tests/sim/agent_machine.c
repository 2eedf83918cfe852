/* A simulated compute node: power, processes, the agent's life. See agent_machine.h. */
#include "tests/sim/agent_machine.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/daemon/session.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/restart_points.h"
#include "src/ask/region.h"
#include "src/base/check.h"

#define STATE_FOLDER "/var/lib/ckpt-agent"

enum { PID_FIRST = 100, PID_LAST = 600 }; /* few, so that they come again */

/* ---- processes ---- */

struct machine_process *agent_machine_find(const struct agent_machine *machine, pid_t pid)
{
    for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++)
        if (machine->processes[i] != NULL && machine->processes[i]->pid == pid)
            return machine->processes[i];
    return NULL;
}

/* As the kernel's: no number that is a process or a group. */
static pid_t free_pid(struct agent_machine *machine)
{
    bool taken;

    do {
        machine->last_pid = machine->last_pid >= PID_LAST ? PID_FIRST : machine->last_pid + 1;
        taken = false;
        for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++) {
            const struct machine_process *process = machine->processes[i];
            taken = taken || (process != NULL && (process->pid == machine->last_pid ||
                                                  process->group == machine->last_pid));
        }
    } while (taken);
    return machine->last_pid;
}

struct machine_process *agent_machine_spawn(struct agent_machine *machine, pid_t group,
                                            const struct machine_program *program)
{
    struct machine_process *process = check_calloc(1, sizeof(*process));
    size_t slot = 0;

    CHECK(machine->powered);
    while (slot < MACHINE_PROCESSES_MAX && machine->processes[slot] != NULL)
        slot++;
    CHECK(slot < MACHINE_PROCESSES_MAX);
    process->pid = free_pid(machine);
    process->group = group == 0 ? process->pid : group;
    process->start_ticks = sim_now_us(machine->sim);
    process->living = process->kept = true;
    process->program = *program;
    machine->processes[slot] = process;
    return process;
}

static void process_free(struct agent_machine *machine, struct machine_process *process)
{
    for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++)
        if (machine->processes[i] == process)
            machine->processes[i] = NULL;
    free(process);
}

void agent_machine_end(struct agent_machine *machine, struct machine_process *process,
                       int wait_status)
{
    struct machine_program program = process->program;

    CHECK(process->living);
    process->living = false;
    process->frozen = false;
    process->wait_status = wait_status;
    agent_machine_tell_pid(machine, process->pid);
    if (!process->kept)
        process_free(machine, process);
    program.ended(program.data, wait_status);
}

void agent_machine_reap(struct agent_machine *machine, struct machine_process *process)
{
    process->kept = false;
    if (!process->living)
        process_free(machine, process);
}

static bool signal_kills(const struct machine_process *process, int signal)
{
    uint64_t bit = UINT64_C(1) << (signal - 1);

    if (signal == SIGKILL)
        return true;
    return signal != SIGCONT && (process->caught & bit) == 0 && (process->ignored & bit) == 0;
}

static void process_signal(struct agent_machine *machine, struct machine_process *process,
                           int signal)
{
    if (process->frozen) {
        process->killed = process->killed || signal == SIGKILL;
    } else if (process->stopped && signal != SIGKILL) {
        process->pending |= UINT64_C(1) << (signal - 1);
    } else if (signal_kills(process, signal)) {
        agent_machine_end(machine, process, signal);
    } else if ((process->caught & UINT64_C(1) << (signal - 1)) != 0) {
        process->program.signalled(process->program.data, signal);
    }
}

void agent_machine_thaw(struct agent_machine *machine, struct machine_process *process)
{
    process->frozen = false;
    if (process->killed)
        agent_machine_end(machine, process, SIGKILL);
}

void agent_machine_stop(struct agent_machine *machine, struct machine_process *process,
                        bool stopped)
{
    uint64_t pending = process->pending;
    pid_t pid = process->pid;

    if (process->stopped == stopped || process->frozen)
        return;
    process->stopped = stopped;
    process->pending = 0;
    if (process->program.stopped != NULL)
        process->program.stopped(process->program.data, stopped);
    for (int signal = 1; signal < 64 && !stopped && process != NULL && process->living; signal++) {
        if ((pending >> (signal - 1) & 1) != 0)
            process_signal(machine, process, signal);
        process = agent_machine_find(machine, pid);
    }
}

bool agent_machine_kill(struct agent_machine *machine, pid_t pid, int signal)
{
    struct machine_process *process = agent_machine_find(machine, pid);

    if (process == NULL)
        return false;
    if (process->living)
        process_signal(machine, process, signal);
    return true;
}

bool agent_machine_kill_group(struct agent_machine *machine, pid_t group, int signal)
{
    pid_t pids[MACHINE_PROCESSES_MAX];
    size_t count = 0;

    for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++)
        if (machine->processes[i] != NULL && machine->processes[i]->group == group)
            pids[count++] = machine->processes[i]->pid;
    for (size_t i = 0; i < count; i++)
        agent_machine_kill(machine, pids[i], signal);
    return count > 0;
}

/* ---- power ---- */

void agent_machine_boot(struct agent_machine *machine)
{
    CHECK(!machine->powered);
    machine->powered = true;
    machine->boots++;
    snprintf(machine->boot_id, sizeof(machine->boot_id), "boot-%u", machine->boots);
}

void agent_machine_power_off(struct agent_machine *machine)
{
    agent_machine_bury_agent(machine);
    for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++) {
        struct machine_process *process = machine->processes[i];
        struct machine_program program;
        if (process == NULL)
            continue;
        program = process->program;
        machine->processes[i] = NULL;
        if (process->living)
            program.ended(program.data, -1);
        free(process);
    }
    agent_files_remove(machine->files, AGENT_MEMORY_FOLDER);
    agent_files_remove(machine->files, ASK_REGION_FOLDER);
    machine->powered = false;
}

/* ---- the agent ---- */

static int agent_open(struct agent_machine *machine, struct err *err)
{
    struct agent *agent = &machine->agent;
    const struct agent_machine_config *config = &machine->config;
    struct network_ops network;
    struct ledger *ledger;

    sim_node_network(machine->sim, config->agent_node, &network);
    if (ledger_open(&machine->disk, STATE_FOLDER, machine->name, machine->boot_id, &ledger, err) !=
        0)
        return -1;
    machine->running = true; /* what its disk does from here on is its end, not its start's */
    machine->agent_starts++;
    agent_init(agent, &machine->loop.uv, &machine->clock, &machine->ops, machine->name,
               machine->boot_id, ledger);
    agent->copies_max_bytes = config->copies_max_bytes;
    agent->memory_path = AGENT_MEMORY_FOLDER;
    agent->memory_max_bytes = config->memory_max_bytes;
    agent->domain = machine->domain;
    agent->node_probe = machine->node_probe;
    if (machine->groups)
        snprintf(agent->cgroups.jobs, sizeof(agent->cgroups.jobs), AGENT_JOBS_FOLDER);
    CHECK(restart_points_new(agent, config->brokers, &agent->restart_points, err) == 0);
    CHECK(session_new(agent, config->brokers, config->heartbeat_ms, &agent->session, err) == 0);
    agent_resume(agent);
    CHECK(app_ranks_new(agent, &network, machine->ranks_socket, &machine->app_ranks, err) == 0);
    CHECK(app_server_new(agent, machine->socket, &machine->app_server, err) == 0);
    return 0;
}

int agent_machine_start_agent(struct agent_machine *machine, struct err *err)
{
    unsigned before = sim_enter(machine->sim, machine->config.agent_node);
    int result;

    CHECK(machine->powered && !machine->running);
    machine->dying = false;
    sim_loop_init(&machine->loop, machine->sim, machine->config.agent_node);
    sim_node_clock(machine->sim, machine->config.agent_node, &machine->clock);
    sim_node_disk(machine->sim, machine->config.agent_node, &machine->real_disk);
    agent_machine_fill_disk(machine);
    agent_machine_fill_ops(machine);
    result = agent_open(machine, err);
    sim_leave(machine->sim, before);
    return result;
}

static void server_freed(void *data)
{
    (void)data;
}

void agent_machine_bury_agent(struct agent_machine *machine)
{
    struct agent *agent = &machine->agent;
    unsigned before;

    if (!machine->running)
        return;
    before = sim_enter(machine->sim, machine->config.agent_node);
    machine->dying = true; /* what follows frees memory, and has no effect */
    sim_mute(machine->sim, machine->config.agent_node);
    session_free(agent->session);
    agent->session = NULL;
    agent_close(agent);
    app_server_free(machine->app_server, server_freed, NULL);
    app_ranks_free(machine->app_ranks);
    restart_points_free(agent->restart_points);
    ledger_close(agent->ledger);
    sim_worker_crash(machine->sim, machine->config.agent_node);
    agent_machine_close_ops(machine);
    machine->running = false;
    sim_leave(machine->sim, before);
}

void agent_machine_die_at(struct agent_machine *machine, uint64_t operations, bool after)
{
    machine->disk_operations_left = operations;
    machine->die_after = after;
}

/* ---- life ---- */

struct agent_machine *agent_machine_new(struct sim *sim, struct agent_store *store,
                                        const struct agent_machine_config *config,
                                        const struct agent_machine_events *events)
{
    struct agent_machine *machine = check_calloc(1, sizeof(*machine));

    machine->sim = sim;
    machine->events = *events;
    machine->config = *config;
    machine->domain = "";
    snprintf(machine->name, sizeof(machine->name), "%s", config->name);
    snprintf(machine->socket, sizeof(machine->socket), "/run/%s.sock", machine->name);
    snprintf(machine->address, sizeof(machine->address), "unix:%s", machine->socket);
    snprintf(machine->ranks_socket, sizeof(machine->ranks_socket), "%s" AGENT_RANKS_SUFFIX,
             machine->socket);
    machine->last_pid = PID_FIRST;
    machine->groups = config->agent_node % 2 == 0; /* every second node */
    machine->files = agent_files_new(agent_machine_tell_folder, machine);
    list_init(&machine->pid_watches);
    list_init(&machine->folder_watches);
    list_init(&machine->cleanups);
    list_init(&machine->looks);
    list_init(&machine->path_opens);
    list_init(&machine->rank_looks);
    list_init(&machine->process_looks);
    list_init(&machine->stills);
    CHECK(agent_files_make_folder(machine->files, "/work") == 0);
    sim_loop_init(&machine->applications_loop, sim, config->applications_node);
    machine->store = store;
    agent_store_mount(store, config->agent_node, machine->files);
    return machine;
}

void agent_machine_free(struct agent_machine *machine)
{
    agent_machine_bury_agent(machine);
    if (machine->powered)
        agent_machine_power_off(machine);
    agent_files_free(machine->files);
    free(machine);
}
