/* Shared by the agent_checks*.c files. See agent_checks.h. */
#ifndef CKPT_TESTS_SIM_AGENT_CHECKS_INTERNAL_H
#define CKPT_TESTS_SIM_AGENT_CHECKS_INTERNAL_H

#include "tests/sim/agent_asked.h"
#include "tests/sim/agent_checks.h"
#include "tests/sim/agent_times.h"
#include "tests/sim/world_internal.h"

enum { RANKS_KEPT_MAX = 4096, RANK_BUCKETS = 256 };

/* One allocation on one node, for ever. */
struct rank {
    struct rank *next; /* of its bucket */
    unsigned agent;
    char allocation_id[ID_MAX_BYTES + 1];
    struct application *living; /* NULL: none */
    pid_t group;                /* of the last run; 0: none, or its number is another's by now */
    uint64_t group_start_ticks;
    bool told;               /* SIGTERM, this run */
    uint64_t ordered_run;    /* the highest that was to end; 0: none was */
    uint64_t began_sequence; /* of the report that it begins, which comes before; 0: none has */
    uint64_t stray_us; /* since when it is known to live where it should not; 0: it does not */
    uint64_t from_id;  /* the checkpoint that the run began from */
    uint64_t complete_floor; /* the newest COMPLETE one when its ckpt-run asked for a run */
    uint64_t verified_id;    /* the newest whose shard was reported verified */
    uint64_t verified_floor; /* ... when its ckpt-run asked for a run */
    uint64_t passed_id;      /* that floor, when it began from an older one; 0: it did not */
    /* of the agent's walltime */
    uint64_t start_ticks, deadline_us, walltime_ms;
    uint64_t over_us; /* since when its end is past, and known: it may be over when it is told */
    uint64_t deadline_sets; /* of orders that it has taken, when looked at */
    uint64_t deadline_run;
    /* the last run whose end was known, and that end on the simulator's clock */
    uint64_t end_run, end_us;
    unsigned end_boots; /* of the machine, when it was */
    /* of the end of its process */
    uint64_t stop_ticks, kill_at_us; /* which; and the end of its grace */
    uint64_t kill_by_us;   /* that, on the simulator's clock; 0: it is not being stopped */
    uint64_t kill_seen_us; /* when that was seen last */
    struct attempt_times times;
};

struct seen_agent {
    struct fence fence, orders;
    uint64_t starts;              /* of the agent whose orders those are */
    uint64_t order_sets;          /* that it has taken */
    uint64_t set_index, set_runs; /* of the last one, also before its agent began again */
    uint64_t sequence;
    unsigned removals; /* of its node, since which the state and the agent count alike */
    uint64_t awake_us; /* the end of the last time that it was stopped, or down */
    uint64_t looked_us;
    bool down; /* when last looked at */
};

struct agent_checks {
    struct world *world;
    struct agent_store *store;
    struct application_checks applications;
    struct rank *ranks[RANKS_KEPT_MAX];
    size_t rank_count;
    struct rank *buckets[RANK_BUCKETS]; /* by agent and allocation */
    struct agent_asked *asked;
    struct seen_agent agents[WORLD_AGENTS_MAX];
    struct agent_checks_counters counters;
    char unsettled[ID_MAX_BYTES + 96];
};

unsigned checks_agent(const struct agent_machine *machine);
struct rank *checks_rank(struct agent_checks *checks, unsigned agent, const char *allocation_id);

/* agent_checks_starts.c */
/* Its part is one that the job has, in this run. */
bool checks_of_job(const struct agent_checks *checks, const struct application *application);
void checks_attaches(void *data, struct agent_machine *machine, const char *allocation_id);
void checks_started(void *data, struct application *application, uint64_t checkpoint_id);

#endif
