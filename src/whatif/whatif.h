/* Compares rules: simulates a cluster of jobs under failures, alarms, demands, walltimes, shared
 * bandwidth and outages, and lets rules decide when to checkpoint. Our rule is src/eval itself: the
 * functions that the broker calls.
 *
 * Flow     a scenario and a seed, or a trace file -> whatif_run() for each rule on the same events
 *          -> accounts; whatif_table() and whatif_svg() print them.
 *          A caller's turn:
 *
 *              whatif_scenario_init(&scenario), or _named(name, &scenario);
 *              whatif_scenario_set(&scenario, "days=30", &err);
 *              for each rule: whatif_run(&run, &row.account, &err);
 *              whatif_table(stdout, rows, count);
 *
 * Shapes   a run owns everything it needs; nothing is shared between runs, so the result is a
 *          function of its arguments.
 * Units    seconds, GPU-seconds, bytes. Waste = 1 - useful / held GPU time.
 * Errors   whatif_run() fails for a trace that cannot be read and for a scenario out of range,
 *          naming both. Nothing else can fail: running out of memory ends the program.
 * Threads  functions share nothing, so runs may go on in parallel.
 * Absent   queueing of new jobs: the jobs of a scenario run for its whole length.
 * Source   src/eval/README.md; the scenarios' numbers are in src/whatif/README.md.
 */
#ifndef CKPT_WHATIF_WHATIF_H
#define CKPT_WHATIF_WHATIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "src/base/err.h"

/* The rules, in the order of tables and plots: X(NAME, "name as typed", "what it is"). */
#define WHATIF_RULES(X)                                                                            \
    X(MODEL, "model", "this broker's rule")                                                        \
    X(YOUNG_DALY, "young-daly", "Young/Daly, told the true mean hazard")                           \
    X(YOUNG_DALY_PACED, "young-daly-paced", "the same + last safe slot + FIFO pacing")             \
    X(HOURLY, "every-1h", "every hour of progress")                                                \
    X(SIX_HOURLY, "every-6h", "every six hours of progress")                                       \
    X(NONE, "none", "no checkpoints")                                                              \
    X(ORACLE, "oracle", "knows every loss; storage for itself")

enum whatif_rule {
#define X(name, text, help) WHATIF_##name,
    WHATIF_RULES(X)
#undef X
        WHATIF_RULE_COUNT
};
/* Static texts; "unknown": the value is no rule. */
const char *whatif_rule_name(enum whatif_rule rule);
const char *whatif_rule_help(enum whatif_rule rule);

/* Numbers of a scenario: name, unit as in `--set name=value`, default, lowest, highest. 0 switches
 * a number off where its unit says so. */
#define WHATIF_NUMBERS(X)                                                                          \
    X(jobs, "jobs", 500, 1, 100000)                                                                \
    X(trace_nodes, "nodes of a trace; 0: its highest number and one", 0, 0, 1e6)                   \
    X(days, "days; of a trace: at most", 60, 0.01, 20000)                                          \
    X(cycle_s, "s between decisions", 30, 1, 3600)                                                 \
    X(gpus_per_node, "GPUs", 8, 1, 64)                                                             \
    X(bytes_per_gpu, "bytes", 80e9, 1, 1e13)                                                       \
    X(fill_min, "of the memory, least", 0.3, 0, 1)                                                 \
    X(fill_max, "of the memory, most", 1, 0, 1)                                                    \
    X(node_bytes_per_s, "bytes/s a node can write", 1.5625e9, 1, 1e13)                             \
    X(bandwidth_bytes_per_s, "bytes/s for checkpoints of all jobs; 0: unlimited", 0, 0, 1e15)      \
    X(stall_fraction, "of the write during which the job stands still", 1, 0, 1)                   \
    X(quiesce_s, "s that the job stands still beside the write", 0, 0, 3600)                       \
    X(min_interval_s, "s of progress between two checkpoints of the model, at least", 300, 0, 1e8) \
    X(max_interval_s, "s of progress until the model writes while it is unsure; 0: never", 21600,  \
      0, 1e8)                                                                                      \
    X(near_completion_s, "s before a walltime within which only its slot is used", 300, 0, 1e6)    \
    X(grace_s, "s from a walltime to the kill", 30, 0, 1e6)                                        \
    X(policy_quiesce_s, "s beside the write that the model expects until it measured", 2, 0, 3600) \
    X(policy_bytes_per_s, "bytes/s a node is believed to write until measured; 0: what it can",    \
      2e9, 0, 1e13)                                                                                \
    X(down_s, "s from a failure to the restart", 300, 0, 1e6)                                      \
    X(restart_s, "s of a restart beside reading", 180, 0, 1e6)                                     \
    X(failures_per_1000_node_days, "failures", 6.5, 0, 1e6)                                        \
    X(weibull_shape, "of the time between a node's failures; 1: exponential", 1, 0.2, 5)           \
    X(learn, "1: the model learns as the broker does; 0: it is told what is true", 1, 0, 1)        \
    X(assumed_factor, "how many times the true hazard it is told", 1, 1e-3, 1e3)                   \
    X(prior_per_1000_node_days, "failures that learning begins with", 2.34, 1e-3, 1e6)             \
    X(hazard_forget_s, "s, time constant with which failures and alarms are forgotten", 2592000,   \
      60, 1e12)                                                                                    \
    X(demand_forget_s, "s, time constant with which demands are forgotten", 21600, 60, 1e12)       \
    X(prior_recall, "recall of alarms that learning begins with", 0, 0, 0.999999)                  \
    X(prior_precision, "precision of alarms that learning begins with", 0.6, 0.01, 1)              \
    X(prior_lead_s, "s, lead of alarms that learning begins with", 2700, 1, 1e6)                   \
    X(alarm_factor, "by which an alarm raises its node's hazard beside", 20, 1, 1e6)               \
    X(alarm_half_life_s, "s in which that fades by half", 21600, 1, 1e7)                           \
    X(recall, "share of failures that an alarm announces", 0, 0, 1)                                \
    X(precision, "share of alarms that a failure follows", 1, 0.01, 1)                             \
    X(lead_s, "s, mean, from alarm to failure", 2700, 1, 1e6)                                      \
    X(demand_per_hour, "demands for a job's nodes per hour while its queue is busy", 0, 0, 1000)   \
    X(busy_share, "of the time that a queue is busy; demands come only then", 0.125, 0, 1)         \
    X(busy_s, "s, mean length of a busy time", 14400, 60, 1e7)                                     \
    X(kill_share, "of demands that leave no time to write", 0.3, 0, 1)                             \
    X(away_s, "s that nodes are gone after a demand", 3600, 0, 1e6)                                \
    X(urgency, "cost to the claimant per GPU-second of waiting, mean", 0, 0, 1000)                 \
    X(yield_how, "0: by payoffs; 1: always write first; 2: never", 0, 0, 2)                        \
    X(announce_share, "of demands that the scheduler tells of before", 0, 0, 1)                    \
    X(announce_precision, "share of what it tells that comes true", 0.5, 0.01, 1)                  \
    X(announce_lead_s, "s, mean, from being told to the demand", 900, 1, 1e6)                      \
    X(heed, "1: the model weighs what it is told; 0: it does not", 1, 0, 1)                        \
    X(walltime_min_s, "s", 0, 0, 1e8)                                                              \
    X(walltime_max_s, "s; 0: no walltimes", 0, 0, 1e8)                                             \
    X(outage_every_s, "s, mean, between outages of the storage; 0: none", 0, 0, 1e9)               \
    X(outage_s, "s, mean length of one", 3600, 1, 1e7)                                             \
    X(migrate, "1: jobs may move off nodes that announce a failure", 0, 0, 1)                      \
    X(spares, "healthy nodes that wait", 16, 0, 1e6)                                               \
    X(repair_s, "s until a node that was moved off is a spare", 86400, 0, 1e8)

/* The numbers of WHATIF_NUMBERS by their names, in the units of the table. */
struct whatif_scenario {
#define X(name, unit, usual, low, high) double name;
    WHATIF_NUMBERS(X)
#undef X
};

/* One row of WHATIF_NUMBERS, for help and for checks. */
struct whatif_number {
    const char *name, *unit;
    double usual, low, high; /* the default, and the bounds */
};
/* false: no more. */
bool whatif_number_at(size_t i, struct whatif_number *ret_number);

/* All numbers at their defaults: the scenario "exponential". */
void whatif_scenario_init(struct whatif_scenario *ret_scenario);
/* "name=value"; names and limits of WHATIF_NUMBERS. The value is a number in the unit of the table.
 * A time, bytes or a share may have a unit of its own ("5m", "200GB/s", "30%"). -1 with ERR_INVALID
 * for an unknown name or a value out of range, and nothing is changed. */
int whatif_scenario_set(struct whatif_scenario *scenario, const char *assignment, struct err *err);
/* Named scenarios: exponential, weibull, alarms, preemption, walltime, contention, saturated,
 * outages, everything. NULL name ends the list; whatif_scenario_named() is false for others. */
const char *whatif_scenario_name(size_t i);
bool whatif_scenario_named(const char *name, struct whatif_scenario *ret_scenario);

/* The GPU time of one run by its use, and the count of events. held = useful + lost + pause +
 * restart. */
struct whatif_account {
    double held_gpu_s;         /* jobs held nodes, computing or not */
    double useful_gpu_s;       /* progress that was not lost in the end */
    double lost_failure_gpu_s; /* work done again */
    /* the mean loss of these intervals over all instants of failures, at the mean hazard */
    double expected_failure_gpu_s;
    double lost_kill_gpu_s;     /* at demands without time to write, or without a checkpoint */
    double lost_walltime_gpu_s; /* at ends of walltimes */
    double pause_gpu_s;         /* standing still while writing */
    double restart_gpu_s;       /* down and restarting */
    double bytes_written;       /* of complete checkpoints */
    uint64_t checkpoints;       /* complete ones */
    uint64_t abandoned;         /* interrupted writes */
    /* counts of events; `dodged` are failures of nodes that a job had left before */
    uint64_t failures, kills, yields, walltimes, migrations, dodged;
    double yield_wait_s; /* sum over yields, demand to free nodes */
    double yield_wait_max_s;
    double claim_cost_gpu_s; /* lost by the waiting of claimants */
};
/* 1 - useful / held, 0 to 1; 0 when nothing was held. */
double whatif_waste(const struct whatif_account *account);

/* The history of a real cluster: its jobs and their events, in any order. */
enum whatif_happening {
    WHATIF_FAILURE, /* of one of the job's nodes, or of the job by itself */
    WHATIF_KILL,    /* stopped by others without time to write */
    WHATIF_YIELD,   /* stopped by others, who waited for a checkpoint */
    WHATIF_STORAGE_DOWN,
    WHATIF_STORAGE_UP,
    WHATIF_QUEUE_BUSY, /* of queue `job`: more waits than half of what runs, or jobs wait by name */
    WHATIF_QUEUE_CALM,
    WHATIF_HAPPENING_COUNT
};
enum { WHATIF_QUEUES_MAX = 64 }; /* vClusters of one history */
#define WHATIF_NEVER_S 1e18      /* an instant that does not come */
/* A job of a history; its nodes are known by their number only. */
struct whatif_history_job {
    double from_s, to_s; /* the time in which it held its nodes; WHATIF_NEVER_S: it still does */
    uint32_t nodes;
    double gpus;
    double size_bytes;  /* of one checkpoint */
    double bytes_per_s; /* of all its nodes together */
    uint32_t queue;     /* below WHATIF_QUEUES_MAX */
};
/* `job` is an index of jobs, a queue's number, or unused, by the kind of event. */
struct whatif_history_event {
    double at_s;
    enum whatif_happening what;
    uint32_t job;
};
/* The maker owns the arrays; whatif_history_close() frees those of a parsed history. */
struct whatif_history {
    double seconds;   /* the length of the window; instants are counted from its beginning */
    uint64_t from_ms; /* the instant of 0 s, since the Unix epoch; 0: not known */
    size_t job_count;
    const struct whatif_history_job *jobs;
    size_t event_count;
    const struct whatif_history_event *events;
};

/* Sets the scenario's rate of demands while queues are busy, and the share of demands that kill,
 * from a history: the knowledge of a learner at the end of the window. */
void whatif_history_rates(const struct whatif_history *history, struct whatif_scenario *scenario);

/* The numbers that a cluster's policy or its history sets. */
#define WHATIF_HISTORY_NUMBERS(X)                                                                  \
    X(cycle_s)                                                                                     \
    X(stall_fraction)                                                                              \
    X(restart_s)                                                                                   \
    X(quiesce_s)                                                                                   \
    X(policy_quiesce_s)                                                                            \
    X(policy_bytes_per_s)                                                                          \
    X(min_interval_s)                                                                              \
    X(max_interval_s)                                                                              \
    X(near_completion_s)                                                                           \
    X(grace_s)                                                                                     \
    X(prior_per_1000_node_days)                                                                    \
    X(hazard_forget_s)                                                                             \
    X(demand_forget_s)                                                                             \
    X(learn)                                                                                       \
    X(demand_per_hour)                                                                             \
    X(kill_share)

/* A history as a file, to be replayed elsewhere (README.md, "Histories"). It has the scenario's
 * numbers that a cluster's policy sets. parse and load: 0 and a history to be closed; 1: the file
 * is no history (by its first line); -1: it is a damaged one. */
void whatif_history_write(FILE *out, const struct whatif_scenario *scenario,
                          const struct whatif_history *history);
int whatif_history_parse(FILE *in, const char *name, struct whatif_scenario *scenario,
                         struct whatif_history *ret_history, struct err *err);
int whatif_history_load(const char *path, struct whatif_scenario *scenario,
                        struct whatif_history *ret_history, struct err *err);
/* Frees the arrays of a parsed history; never arrays that a maker filled. */
void whatif_history_close(struct whatif_history *history);

/* The run to simulate; everything is borrowed until whatif_run() returns. */
struct whatif_run {
    const struct whatif_scenario *scenario;
    const char *trace;                    /* path; NULL: failures are generated */
    const struct whatif_history *history; /* NULL: none; else jobs and events come from it alone */
    uint64_t seed;
    enum whatif_rule rule;
};
/* Simulates one rule on one world; takes milliseconds to minutes, by jobs and days. 0 and the
 * account; or -1 with ERR_INVALID for a wrong scenario, trace or history, ERR_IO for a trace that
 * cannot be read. */
int whatif_run(const struct whatif_run *run, struct whatif_account *ret_account, struct err *err);

/* The bound of all rules, for the scenarios of contention: the least possible pause + lost work of
 * these jobs under shared bandwidth, as a part of held GPU time (the Karush-Kuhn-Tucker point with
 * constant hazards). */
int whatif_shared_bound(const struct whatif_run *run, double *ret_waste, struct err *err);

/* One row per rule: checkpoints, GPU-hours by cause, storage, yield latency, waste. */
struct whatif_row {
    enum whatif_rule rule;
    struct whatif_account account;
};
/* Two lines of head, then a line per row, in the order given; for people. */
void whatif_table(FILE *out, const struct whatif_row *rows, size_t count);
/* Bars of waste by rule, stacked by cause, over an axis. A bar several times as long as the others
 * is cut, so that the others can be compared. */
enum { WHATIF_NOTES_MAX = 6, WHATIF_NOTE_BYTES = 320 };
struct whatif_plot {
    const char *what;                                /* the title, in words */
    char notes[WHATIF_NOTES_MAX][WHATIF_NOTE_BYTES]; /* assumptions, a line each */
    size_t note_count;
    const struct whatif_row *rows;
    size_t count; /* 1 to WHATIF_RULE_COUNT */
};
/* Fills the notes: the seed, the numbers that every reader asks for, and numbers that differ from
 * their defaults. */
void whatif_plot_assume(struct whatif_plot *plot, const struct whatif_run *run);
/* Writes one SVG document, with the notes below the bars; the caller checks the stream for
 * errors. */
void whatif_svg(FILE *out, const struct whatif_plot *plot);

#endif
