/* What happens to a cluster whatever the rule: its jobs, and failures, alarms, demands, regimes and
 * outages in order of time.
 *
 * A world is made before the first rule runs and is the same for all of them: what a rule does
 * cannot change when a node fails or a demand comes, only what that costs.
 *
 * Flow     world_generate() from a scenario and a seed, or world_read_trace() from a file of
 *          failures; then any number of simulations read it.
 * Shapes   nodes 0 .. node_count-1; job j holds nodes first_node .. first_node + nodes - 1 for the
 *          whole time. Events are sorted.
 * Units    seconds since the beginning; bytes; bytes per second; events per second.
 * Errors   a trace that cannot be read names the file, the line and what is wrong with it.
 * Absent   placement: a spare takes over a failed node under the same number.
 */
#ifndef CKPT_WHATIF_WORLD_H
#define CKPT_WHATIF_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"
#include "src/whatif/whatif.h"

enum event_kind {
    EVENT_FAILURE,      /* of a node: what its job has not saved is lost */
    EVENT_ALARM,        /* on a node; true or false */
    EVENT_DEMAND,       /* the scheduler wants a job's nodes */
    EVENT_ANNOUNCEMENT, /* that a demand for a job may come */
    EVENT_REGIME,       /* a queue becomes busy (on) or calm */
    EVENT_OUTAGE        /* storage goes (on) or comes back */
};

/* One thing that happens; fields that its kind does not name are 0. */
struct world_event {
    double at_s;
    enum event_kind kind;
    uint32_t job; /* of a regime: the queue */
    uint32_t node;
    uint32_t alarm; /* of an alarm, and of the failure that it announces; 0: none */
    bool on;        /* of a demand: no time to write, killed */
    double urgency; /* of a demand: what a GPU-second of waiting costs the claimant */
};

/* A job as the scheduler placed it. */
struct world_job {
    double from_s, to_s; /* when it holds its nodes; to_s is infinite in generated worlds */
    uint32_t nodes;
    uint32_t first_node;
    uint32_t queue; /* its vCluster's: demands come while that is busy */
    double gpus;
    double size_bytes;            /* of one checkpoint */
    double injection_bytes_per_s; /* what all its nodes together can write */
};

/* Made once, read by any number of runs; world_free() ends it. */
struct world {
    struct whatif_scenario scenario; /* copied */
    uint64_t seed;
    double end_s;               /* what happens from then on is not in it */
    double node_failures_per_s; /* true mean, of one node */
    uint32_t node_count;
    uint32_t alarm_count; /* alarms are numbered from 1 */
    size_t job_count;
    struct world_job *jobs;
    uint32_t *job_of_node; /* UINT32_MAX: none */
    size_t event_count, event_capacity;
    struct world_event *events;
};

/* Everything drawn from the seed: the same arguments give the same world, bit for bit. */
void world_generate(struct world *world, const struct whatif_scenario *scenario, uint64_t seed);
/* Failures from the file, all else from the scenario; jobs fill the trace's nodes. The file is
 * text: "node,start_day,..." as its first line, then one failure per line, nodes below a million.
 * It ends the world at its last failure, or earlier where the scenario has fewer days. -1 with err,
 * and no world to be freed. */
int world_read_trace(struct world *world, const struct whatif_scenario *scenario, uint64_t seed,
                     const char *path, struct err *err);
/* Jobs and events as they were; -1 when they contradict each other, with the job or the event that
 * does, and no world to be freed. Each job gets nodes of its own numbers, since a history knows
 * only how many. */
int world_from_history(struct world *world, const struct whatif_scenario *scenario, uint64_t seed,
                       const struct whatif_history *history, struct err *err);
void world_free(struct world *world);

/* Walltime of a job's n-th allocation; infinite without. */
double world_walltime_s(const struct world *world, size_t job, uint32_t allocation);
/* Mean rate at which demands come to a job, and the share of them that kill. */
double world_mean_demand_per_s(const struct whatif_scenario *scenario);

/* Of generate.c, for trace.c and history.c: the steps of which a world is made, in this order. */

/* Without jobs and events. */
void world_init(struct world *world, const struct whatif_scenario *scenario, uint64_t seed);
/* Which job holds which node, once the jobs are there. */
void world_index_nodes(struct world *world);
/* As many jobs as the scenario says, or as fit on nodes_max when it is not 0; indexes their
 * nodes. */
void world_draw_jobs(struct world *world, uint32_t nodes_max);
/* Appends a copy; world_sort() puts all in order, by kind, job and node where times are equal, so
 * that the order does not depend on who drew first. */
void world_add(struct world *world, const struct world_event *event);
void world_sort(struct world *world);
/* Alarms for the failures that are there, demands with their busy times, outages; sorts. */
void world_add_surroundings(struct world *world);

#endif
