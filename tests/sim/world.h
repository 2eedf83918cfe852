/* One run of the simulator: members, compute nodes and schedulers of a whole cluster, the faults
 * that befall them, and the checks.
 *
 * Flow     world_options_draw() from the seed → world_new() → world_run(): chaos for a while, then
 *          heal, then converge → world_free(). After every event the checkers look; a violation
 *          prints what does not hold and the line that repeats the run, and aborts it.
 * Shapes   nodes of the simulation: members first, then compute nodes, then schedulers. One world
 *          per process at a time. A job is an allocation as its scheduler sees it; its application
 *          runs on every node of `nodes`.
 * Seam     what runs on a compute node is a struct world_agent_ops: agent_model.c (small, and
 *          misbehaving) or the shipping agent.
 * Units    microseconds of the world's time unless the name says otherwise.
 */
#ifndef CKPT_TESTS_SIM_WORLD_H
#define CKPT_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "fsm/fsm.h"
#include "src/rpc/client.h"
#include "src/rpc/server.h"
#include "tests/sim/application_ways.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_uv.h"
#include "tests/sim/sim_worker.h"

enum {
    WORLD_MEMBERS_MAX = 9,
    WORLD_AGENTS_MAX = 8,
    WORLD_SCHEDULERS_MAX = 4,
    WORLD_AGENT_NODE = WORLD_MEMBERS_MAX, /* the first compute node's number in the simulation */
    WORLD_SCHEDULER_NODE = WORLD_AGENT_NODE + WORLD_AGENTS_MAX,
    WORLD_JOBS_MAX = 256,
    WORLD_RANKS_MAX = 4, /* of a job on one node */
    WORLD_TARGETS_MAX = 2,
    WORLD_PATH_BYTES = 512,
    WORLD_DEFERRAL_MAX_MS = 2000 /* the policy's, where applications defer */
};

struct world;
struct world_member;

/* Drawn from the seed, printed with a violation; every one can be set on the command line. */
struct world_options {
    uint64_t seed;
    unsigned replicas;
    unsigned agents, schedulers, targets;
    /* so many of the agents are the shipping ones, the others the model */
    unsigned shipping_agents;
    unsigned seconds; /* of chaos; healing comes on top */
    unsigned operations_per_s;
    uint64_t snapshot_entries;
    /* commands per second on average that go to whoever thinks that it leads, in bursts */
    unsigned bursts;
    unsigned burst_bytes;      /* of the largest of them */
    unsigned slow_in, slow_ms; /* one message in so many takes up to so long; 0: none */
    /* Faults: how many of each kind per minute, all nodes together. 0: none. */
    unsigned crashes, disk_deaths, disk_errors, partitions, one_way, resets, pauses, clock_steps;
    unsigned slow_disks, full_disks, rots, old_copies, storage_flaps, agent_crashes, transfers;
    unsigned wipes; /* a member's disk is replaced and begun anew under the old id */
    /* a leader is overtaken by another, and that one by the first (world_overtake.c) */
    unsigned overtakes;
    unsigned membership; /* changes of membership; with one replica between 1 and 3 voters */
    unsigned mistakes;   /* of a hundred of them so many must be refused */
    /* of a hundred elections so many are followed by a fault of the new leader within its first
     * moments */
    unsigned elected;
    /* of a hundred updates and restarts so many change the nodes; walltimes and strategies change
     * too */
    unsigned scaling;
    unsigned named; /* of a hundred preemptions so many name a victim; 0: none is repeated either */
    unsigned epochs;         /* a new epoch begins, as after a restore or a recovery */
    unsigned operator_calls; /* of OperatorService and reads, per minute */
    /* one heartbeat of a model agent in so many tells of failing hardware; 0: none */
    unsigned alarms;
    /* one attempt on a model agent in so many is put off by its application; 0: none */
    unsigned deferrals;
    /* nodes keep what their jobs wrote: 1: of all, more: at most so many bytes; 0: nothing */
    unsigned copies;
    /* of a hundred deaths of members so many leave what the system has cached */
    unsigned kept_caches;
    unsigned lost_syncs;         /* a sync fails, and what it should have written counts as clean */
    unsigned read_errors, fills; /* a read fails, half of them at a start; a disk fills up */
    unsigned lost_files;         /* a file beside log and snapshots is damaged, or any file gone */
    unsigned callers;            /* of a hundred jobs so many are asked by a call */
    unsigned regions;            /* ... and of the others, in shared memory */
    unsigned lookers;            /* ... and of the others, look for the question by themselves */
    unsigned commands;           /* ... and of the others, are saved by a command */
    unsigned ranks;          /* of a hundred jobs so many have ranks that agree on what they save */
    unsigned restores;       /* of a hundred jobs so many restore all parts, or the path */
    unsigned spoils;         /* of a hundred parts that were restored so many have others spoiled */
    unsigned readers;        /* parts that read from a target at a time; 0: any number */
    unsigned direct;         /* jobs in a hundred that write at the destination itself */
    unsigned memory;         /* ... and of the others, in their node's memory */
    unsigned cluster_pauses; /* the whole cluster is paused, so often in a minute */
    unsigned drills;         /* so often in a minute somebody begins one */
    unsigned drill_trial;    /* at the end one of this DrillKind; 0: none */
    unsigned quotas;         /* of a hundred changes of targets so many limit the tenant instead */
    /* of a hundred folders that were removed so many are written once more, late */
    unsigned late_writes;
    /* of a hundred registrations so many continue a job that has stopped, where there is one */
    unsigned continues;
    unsigned discards; /* seconds of work that a job repeats for an outage; 0: none */
    /* of a hundred moments of a rank in a barrier so many have the leader, or the rank's agent,
     * fail */
    unsigned barriers;
    unsigned hung; /* of a thousand steps that a rank says so many are the last: its job hangs */
    unsigned comes_back;   /* of a hundred jobs so many are restarted by the broker */
    unsigned restart_wait; /* seconds that a ckpt-run stays for that; 0: the policy's default */
    /* of 5,000 tries of a node's address so many begin a cut that lasts; 0: nobody is probed */
    unsigned witness;
    unsigned domains;     /* of a hundred hellos so many name a domain; 0: no target has one */
    unsigned agent_disks; /* the disk of an agent's journal fails, fills up or takes seconds */
    unsigned flips;       /* a bit of one member's state flips in its memory */
    /* of telemetry and of queue reports one in so many is no sensible number; 0: none */
    unsigned odd_values;
    unsigned preferred;   /* the member that shall lead; 0: any */
    bool streams;         /* somebody watches the events and takes backups */
    unsigned silence;     /* seconds without any member, before all heals */
    bool absent;          /* after healing a minority stays away until there is a leader */
    bool older;           /* at the end a follower gets an older copy of its folder back */
    bool hang, straggler; /* at the end the leader's process is stopped, its disk gets slow */
    /* at the end one leads whose application does not get ready, and whose hand-overs get lost */
    bool unready;
    bool drift;      /* clocks run up to 1 % wrong */
    bool unruly;     /* messages between members get lost, doubled, swapped */
    unsigned unsafe; /* 0, or the number of the safety rule that is switched off */
    bool verbose;
};

enum world_storage_state {
    WORLD_STORAGE_UP,
    WORLD_STORAGE_DOWN,    /* every access fails at once */
    WORLD_STORAGE_HANGING, /* accesses never end */
    WORLD_STORAGE_SLOW     /* they take many times longer */
};
struct world_target {
    char id[32];
    char prefix[64];
    enum world_storage_state state;
    uint64_t since_us; /* when it became so */
    bool told;         /* its storage system says how it is, whatever it does */
};

struct world_job {
    char id[64];
    uint32_t node_mask;  /* of compute nodes, as its scheduler knows */
    uint64_t node_index; /* of the state in which these were its nodes */
    bool scaled;         /* others were asked for, or were its own before */
    uint32_t preemption_class;
    bool sensitive;
    const struct application_way *way; /* how its applications are asked */
    enum world_labels labels;
    unsigned ranks;                 /* on each of its nodes; 0: it has none */
    bool ranks_in_group;            /* they are in their launcher's group */
    bool ranks_with_streams;        /* they are told by their agents, and tell them */
    const struct world_job *before; /* the one that it continues; NULL: none */
    const struct world_job *first;  /* with whose computation it goes on; NULL: with its own */
    bool elastic;                   /* it restores all parts, or reads them where they lie */
    bool borrowed;                  /* its nodes, of "lender" */
    bool anew;                      /* it was asked to begin from scratch, or may have been */
    bool comes_back;                /* the broker restarts it: it is AUTO */
    bool runs;                      /* as its scheduler knows */
    bool ended;                     /* a scheduler has asked for its end: that is at once */
    bool forced;                    /* ... for other nodes at once, or may have */
    uint64_t finished_us;           /* when one of its parts ended by itself with status 0, last */
    uint64_t walltime_min_ms;       /* of all that were asked for; 0: none was */
};

/* What runs on compute nodes. Processes belong to the implementation; `agent` counts from 0. */
struct world_agent_ops {
    const char *name;
    /* The agent's process starts, also after a crash: it finds what it had made durable. */
    void *(*start)(struct world *world, unsigned agent);
    /* The process is gone at once: free its memory, write nothing, answer nobody. sim_crash()
     * follows. Applications go on. */
    void (*crash)(struct world *world, unsigned agent, void *process);
    /* An application of the job starts, or ends by itself, on this node. process is NULL while the
     * agent is down: the implementation tells the agent when it is back, as ckpt-run does. */
    void (*job_started)(struct world *world, unsigned agent, void *process,
                        const struct world_job *job);
    void (*job_exited)(struct world *world, unsigned agent, void *process,
                       const struct world_job *job, int exit_status);
    /* Chaos is over: behave from now on. */
    void (*calm)(struct world *world, unsigned agent, void *process);
    /* Checks of its own; called after every event of this node. NULL: none. */
    void (*check)(struct world *world, unsigned agent, void *process);
    /* End of the world: frees what outlives processes. */
    void (*close)(struct world *world, unsigned agent);
};
extern const struct world_agent_ops world_agent_model;

struct world *world_new(const struct world_options *options);
void world_options_draw(uint64_t seed, unsigned replicas, struct world_options *ret_options);
void world_run(struct world *world);
void world_free(struct world *world);

/* ---- for agents ---- */

struct sim *world_sim(struct world *world);
const struct world_options *world_options(const struct world *world);
/* Members' API addresses, comma separated, for rpc_follow_new(). */
const char *world_endpoints(const struct world *world);
/* Kept by the world for the process of a compute node's or scheduler's agent; renewed by a
 * crash. */
/* The process of the node ends by itself, or is killed; of kept_caches its machine goes on, else
 * the power is cut. */
void world_process_crash(struct world *world, unsigned node);
uv_loop_t *world_loop(struct world *world, unsigned node);
const char *world_agent_name(unsigned agent); /* "node-0" */
int world_agent_number(const char *node_id);  /* -1: none */
struct world_target *world_target_of_path(struct world *world, const char *path);

/* Facts that only the nodes know, for the checkers. Each is told at the moment it happens.
 * An application was asked for (checkpoint, attempt): I20, I22, I25. (epoch, term) are the
 * order's. */
void world_asked(struct world *world, unsigned agent, const char *allocation_id,
                 uint64_t checkpoint_id, uint32_t attempt, uint64_t epoch, uint64_t term);
/* The shard is whole at the destination; only then may it be reported verified: I27. */
void world_shard_written(struct world *world, unsigned agent, const char *allocation_id,
                         uint64_t checkpoint_id, uint32_t attempt);
/* The application was told to end, or was killed, by the agent: I30, I39. */
void world_terminated(struct world *world, unsigned agent, const char *allocation_id);
/* Orders that an agent has taken: I20, I39. */
void world_ordered(struct world *world, unsigned agent, const Ckpt__V1__OrderSet *orders);
/* On each node, from 1. */
unsigned world_ranks_of(const struct world_job *job);
/* Of so many of its job on this node. */
struct world_rank {
    unsigned agent, number, ranks;
};
/* It is done with its part of the attempt, of the step that it calls so: I44. */
void world_rank_said(struct world *world, const struct world_rank *rank, uint64_t checkpoint_id,
                     uint32_t attempt, const char *label);
/* It is at a moment of its barrier. step: that it was told to save at; 0: it says for the first
 * time where it is: I44. */
void world_rank_meets(struct world *world, const struct world_rank *rank, uint64_t checkpoint_id,
                      uint32_t attempt, uint64_t step);
/* A rank asks for the attempt to be put off. */
void world_rank_put_off(struct world *world, uint64_t checkpoint_id, uint32_t attempt);
/* A checkpoint's folder was removed at the destination: I28. */
void world_collected(struct world *world, const char *path);
/* The folder cannot be removed now. */
bool world_keeps(struct world *world, const char *path, bool agent);

/* What is told now is no sensible number: one of those (I38). */
bool odd_draw(struct world *world);
uint64_t odd_number(struct sim *sim);
/* Usual reports of queues stay below; odd ones say 0, 1 or more. */
enum { QUEUE_GPU_MS_MAX = 1000000000 };

/* ---- violations ---- */

__attribute__((noreturn, format(printf, 3, 4))) void world_violation(struct world *world,
                                                                     const char *invariant,
                                                                     const char *format, ...);

#endif
