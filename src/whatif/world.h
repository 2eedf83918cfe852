/* What happens to a cluster whatever the rule: its jobs, and failures, alarms, demands, regimes and
 * outages in order of time.
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
    double from_s, to_s; /* when it holds its nodes */
    uint32_t nodes;
    uint32_t first_node;
    uint32_t queue;
    double gpus;
    double size_bytes;
    double injection_bytes_per_s;
};

/* Made once, read by any number of runs; world_free() ends it. */
struct world {
    struct whatif_scenario scenario;
    uint64_t seed;
    double end_s;
    double node_failures_per_s; /* true mean, of one node */
    uint32_t node_count;
    uint32_t alarm_count;
    size_t job_count;
    struct world_job *jobs;
    uint32_t *job_of_node; /* UINT32_MAX: none */
    size_t event_count, event_capacity;
    struct world_event *events;
};

/* Everything drawn from the seed: the same arguments give the same world, bit for bit. */
void world_generate(struct world *world, const struct whatif_scenario *scenario, uint64_t seed);
/* Failures from the file, all else from the scenario; jobs fill the trace's nodes. */
int world_read_trace(struct world *world, const struct whatif_scenario *scenario, uint64_t seed,
                     const char *path, struct err *err);
/* Jobs and events as they were; -1 when they contradict each other. */
int world_from_history(struct world *world, const struct whatif_scenario *scenario, uint64_t seed,
                       const struct whatif_history *history, struct err *err);
void world_free(struct world *world);

/* Walltime of a job's n-th allocation; infinite without. */
double world_walltime_s(const struct world *world, size_t job, uint32_t allocation);
/* Mean rate at which demands come to a job, and the share of them that kill. */
double world_mean_demand_per_s(const struct whatif_scenario *scenario);

/* Of generate.c, for trace.c and history.c. */
void world_init(struct world *world, const struct whatif_scenario *scenario, uint64_t seed);
void world_index_nodes(struct world *world);
void world_draw_jobs(struct world *world, uint32_t nodes_max);
void world_add(struct world *world, const struct world_event *event);
void world_sort(struct world *world);
void world_add_surroundings(struct world *world);

#endif
