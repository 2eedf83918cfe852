/* A simulated compute node: its processes, its local files, and the agent's shipping logic on top.
 *
 * Flow     agent_machine_new() -> agent_machine_boot() -> agent_machine_start_agent(); the agent is
 *          crashed and started again while applications live on; agent_machine_power_off() ends
 *          everything but the disk.
 * Shapes   two nodes of the world: the agent's and the applications' (ckpt-run among them), so that
 *          one outlives the other. Processes are numbered like the kernel's: a pid, a group, the
 *          tick of its start. The journal is on the world's disk of the agent's node.
 * Faults   a crash of the agent at any disk operation of its journal, before or after its effect,
 *          with what the disk then keeps; loss of power; processes that hang in the kernel; pids
 *          that are used again.
 * Units    start ticks are the world's microseconds.
 */
#ifndef CKPT_TESTS_SIM_AGENT_MACHINE_H
#define CKPT_TESTS_SIM_AGENT_MACHINE_H

#include "src/agent/app/app_ranks.h"
#include "src/agent/app/app_server.h"
#include "src/agent/daemon/agent.h"
#include "src/agent/daemon/config.h"
#include "tests/sim/agent_files.h"
#include "tests/sim/agent_store.h"
#include "tests/sim/sim_uv.h"

enum { MACHINE_PROCESSES_MAX = 160, MACHINE_USER = 0, MACHINE_NAME_BYTES = 32 };

struct agent_machine;

/* What runs as a process. All callbacks come from the loop. */
struct machine_program {
    void *data;
    const char *name;
    /* A caught signal is delivered. */
    void (*signalled)(void *data, int signal);
    /* It is dead, by itself or by a signal; do not touch the process any more. */
    void (*ended)(void *data, int wait_status);
    /* A word of memory that it may wait on was changed. NULL: it waits on none. */
    void (*woken)(void *data);
    /* It is stopped, or goes on. NULL: it has nothing to stop. */
    void (*stopped)(void *data, bool stopped);
};

struct machine_process {
    pid_t pid;
    pid_t group;
    uint64_t start_ticks;
    /* of the application that started it: its environment says which; 0: none */
    uint64_t origin_ticks;
    /* Likewise, in whose control group it was born; 0: in none */
    uint64_t cgroup_ticks;
    unsigned rank;      /* its number and 1, in its environment; 0: it has none */
    unsigned ranks;     /* ... and how many there are on the node; 0: not told */
    unsigned ranks_all; /* ... and of this launcher; without these nobody misses one that is gone */
    bool living;        /* else a zombie */
    bool kept;          /* its parent lives and has not reaped it */
    bool frozen;        /* hangs in the kernel: signals have no effect yet */
    bool killed;        /* ... SIGKILL is one of them */
    bool stopped;       /* by SIGSTOP: only SIGKILL and what continues it have an effect */
    uint64_t pending;   /* signals that wait for that, as bits */
    bool launcher;
    bool saves; /* it is a command that saves an application */
    uint64_t caught, ignored;
    int wait_status;
    struct machine_program program;
};

struct agent_machine_config {
    const char *name; /* the node's */
    unsigned agent_node;
    unsigned applications_node;
    const char *brokers;
    uint64_t heartbeat_ms;
    uint64_t copies_max_bytes; /* as of the agent's local_copies; 0: none are kept */
    uint64_t memory_max_bytes; /* for checkpoints, below AGENT_MEMORY_FOLDER */
};

struct agent_machine_events {
    void *data;
    /* From the loop, after the event in which its program ended by itself: bury it, sim_crash(),
     * start it again. */
    void (*died)(void *data, struct agent_machine *machine);
    /* The agent signals a process group. NULL: nobody wants to know. */
    void (*signals)(void *data, struct agent_machine *machine, pid_t group, int signal);
    /* ... or one process. */
    void (*signals_one)(void *data, struct agent_machine *machine,
                        const struct machine_process *process, int signal);
};

struct agent_machine {
    struct sim *sim;
    struct agent_machine_config config;
    const char *domain;     /* of the agent that is started next */
    const char *node_probe; /* likewise */
    char name[MACHINE_NAME_BYTES];
    char boot_id[MACHINE_NAME_BYTES];
    char socket[MACHINE_NAME_BYTES + 16];       /* a path */
    char address[MACHINE_NAME_BYTES + 24];      /* unix:path */
    char ranks_socket[MACHINE_NAME_BYTES + 24]; /* a path */
    bool powered;
    unsigned boots;
    uint64_t agent_starts;
    bool groups; /* jobs get control groups */
    bool unread; /* at times a look at processes does not see all of them */
    struct agent_files *files;
    const struct agent_store *store; /* what its programs read of the destinations */
    struct machine_process *processes[MACHINE_PROCESSES_MAX];
    pid_t last_pid;
    struct list pid_watches, folder_watches, cleanups, looks, path_opens, rank_looks, process_looks,
        stills;
    struct sim_loop applications_loop;
    /* the agent */
    bool running;
    /* Its program ends within this event, because of its disk: nothing that it does from here on
     * has an effect. */
    bool dying;
    uint64_t disk_operations_left; /* until it dies so; 0: never */
    bool die_after;                /* the effect of the last operation, not before it */
    uint64_t slow_most_us;         /* that a sync of its journal takes; 0: none does */
    struct sim_loop loop;
    struct clock_ops clock;
    struct disk_ops disk;      /* what the journal gets */
    struct disk_ops real_disk; /* the world's */
    struct machine_ops ops;
    struct agent agent;
    struct app_server *app_server;
    struct app_ranks *app_ranks;
    struct agent_machine_events events;
};

struct agent_machine *agent_machine_new(struct sim *sim, struct agent_store *store,
                                        const struct agent_machine_config *config,
                                        const struct agent_machine_events *events);
void agent_machine_free(struct agent_machine *machine);

/* ---- power ---- */
void agent_machine_boot(struct agent_machine *machine);
/* Everything that runs is gone at once; ended() of each program is told with -1. */
void agent_machine_power_off(struct agent_machine *machine);

/* ---- the agent ---- */
/* -1: it refused to start (its journal, or its disk died). */
int agent_machine_start_agent(struct agent_machine *machine, struct err *err);
/* Frees its memory without any effect; sim_crash() of its node is the caller's. Nothing when it
 * does not run. */
void agent_machine_bury_agent(struct agent_machine *machine);
/* The agent dies at its n-th disk operation from now on. */
void agent_machine_die_at(struct agent_machine *machine, uint64_t operations, bool after);

/* ---- processes ---- */
struct machine_process *agent_machine_spawn(struct agent_machine *machine, pid_t group,
                                            const struct machine_program *program);
struct machine_process *agent_machine_find(const struct agent_machine *machine, pid_t pid);
/* By itself, or by a signal that it does not catch. */
void agent_machine_end(struct agent_machine *machine, struct machine_process *process,
                       int wait_status);
/* As kill(2); false: no such living process or group. */
bool agent_machine_kill(struct agent_machine *machine, pid_t pid, int signal);
bool agent_machine_kill_group(struct agent_machine *machine, pid_t group, int signal);
/* The parent has taken the wait status, or is dead itself. */
void agent_machine_reap(struct agent_machine *machine, struct machine_process *process);
/* Out of the kernel: what was sent has its effect. */
void agent_machine_thaw(struct agent_machine *machine, struct machine_process *process);

/* Stops, or goes on: what was sent meanwhile has its effect. */
void agent_machine_stop(struct agent_machine *machine, struct machine_process *process,
                        bool stopped);

/* ---- agent_machine_jobs.c ---- */
#define AGENT_MEMORY_FOLDER "/memory"
#define AGENT_JOBS_FOLDER   "/sys/fs/cgroup/agent/jobs"
/* As far as the agent can tell. */
bool agent_machine_belongs(const struct machine_process *process, const struct job_identity *job);
/* A job of that group is being told to end, or killed: all of its processes are looked for. */
bool agent_machine_ends(const struct agent_machine *machine, pid_t group);
void agent_machine_fill_jobs(struct machine_ops *ops);
void agent_machine_close_jobs(struct agent_machine *machine);
/* ---- agent_machine_region.c ---- */
void agent_machine_fill_region(struct machine_ops *ops);
/* ---- agent_machine_ops.c ---- */
void agent_machine_fill_ops(struct agent_machine *machine);
/* What a crash leaves of it. */
void agent_machine_close_ops(struct agent_machine *machine);
/* The process has ended, the path has changed: to who watches it. */
void agent_machine_tell_pid(struct agent_machine *machine, pid_t pid);
void agent_machine_tell_folder(void *data, const char *path);
/* agent_machine_disk.c */
void agent_machine_fill_disk(struct agent_machine *machine);

#endif
