/* One simulated cluster under one rule.
 *
 * The engine knows what happens, rules.c when to write; a rule sees the jobs through the functions
 * below and acts through engine_begin_write() alone. So every rule pays the same price for the same
 * events.
 *
 * Flow     engine_run() walks through time: events of the world, ends of writes, of restarts and of
 *          walltimes in their order; at every cycle it calls rule_decide(), which begins writes
 *          with engine_begin_write().
 *          At one instant: ends of writes, then timers, then events of the world.
 *
 *              AWAY ──► DOWN ──► COMPUTING ──► WRITING ──► QUIESCED ──► COMPUTING
 *              any but AWAY ── failure, end of its walltime, move ──► DOWN
 *              any but AWAY ── its nodes are wanted ──► AWAY
 *
 * Shapes   one struct sim_job per job of the world. Progress is counted lazily: engine_settle()
 *          brings it up to now. All memory of a run is taken by engine_run() and freed by it.
 * Units    seconds of progress and of time; GPU-seconds in the account.
 * Errors   none; the account must balance: held = useful + lost + pause + restart, which is CHECKed
 *          at the end.
 */
#ifndef CKPT_WHATIF_ENGINE_H
#define CKPT_WHATIF_ENGINE_H

#include "src/eval/learn.h"
#include "src/eval/model.h"
#include "src/eval/pace.h"
#include "src/whatif/fleet.h"
#include "src/whatif/storage.h"
#include "src/whatif/world.h"

/* COMPUTING makes progress; WRITING does too, but for the stall; QUIESCED stands still after a
 * write; DOWN restarts after a failure; AWAY holds no nodes. */
enum sim_phase { SIM_COMPUTING, SIM_WRITING, SIM_QUIESCED, SIM_DOWN, SIM_AWAY };
/* More alarms of one job at a time than eight are not kept. */
enum { SIM_ALARMS_MAX = 8, SIM_QUEUES_MAX = WHATIF_QUEUES_MAX };

/* An alarm on one of a job's nodes. */
struct sim_alarm {
    double since_s;
    uint32_t id, node;
    bool over; /* too long ago to announce anything; its factor fades still */
};

/* One job as it is at at_s. Progress is seconds of computing since its first start. */
struct sim_job {
    enum sim_phase phase;
    double at_s; /* progress is counted up to here */
    double progress_s;
    double saved_s;       /* progress in the last complete checkpoint */
    double snapshot_s;    /* in the one being written */
    double until_s;       /* of DOWN and AWAY */
    double write_began_s; /* of WRITING */
    double due_since_s; /* a rule's own: since when it waits for bandwidth; negative: it does not */
    double walltime_end_s;      /* infinite without a walltime */
    uint32_t allocation;        /* how many it has had: each has a walltime of its own */
    bool walltime_asked;        /* the checkpoint of this allocation's last safe slot was written */
    bool left;                  /* for good */
    bool yields;                /* gives its nodes away when the write is done */
    bool moves;                 /* moves off its alarmed nodes then */
    double told_s;              /* when a demand was announced; negative: none is expected */
    double yield_asked_s;       /* of `yields`: when the demand came */
    double yield_urgency;       /* ... and what a GPU-second of waiting costs the claimant */
    struct eval_history writes; /* durations of its writes, as the model learns them */
    struct eval_success success;
    double stall; /* share of the write; negative: not measured */
    uint32_t alarm_count;
    struct sim_alarm alarms[SIM_ALARMS_MAX];
};

/* Of one job and rule: what does not change during a run. */
struct sim_constants {
    double write_s;  /* alone */
    double stall_s;  /* that a checkpoint makes it stand still */
    double period_s; /* of progress between two checkpoints; infinite: none. Not the model's */
};

/* One run: a world, a rule, and what has become of the jobs so far. */
struct sim {
    const struct world *world;
    enum whatif_rule rule;
    struct whatif_account *account;
    double now_s;
    size_t next_event; /* of the world's events */
    double *timers_s;  /* by job: its next end of a restart, an absence, a walltime, of itself */
    double timer_s;    /* the earliest */
    bool timer_stale;  /* timer_s is to be found again */
    struct sim_job *jobs;
    bool busy[SIM_QUEUES_MAX]; /* by queue */
    struct storage storage;
    bool *dodged;       /* by alarm: its failure strikes a node that nobody uses */
    double spares;      /* healthy nodes that wait; repaired ones come back bit by bit */
    struct fleet fleet; /* the model's, when it learns */
    /* the rule's */
    struct sim_constants *constants;
    struct eval_policy policy; /* the model's three, as the broker's evaluator has them */
    struct eval_view view;
    struct eval_result result;
    size_t candidate_count;
    struct eval_candidate *candidates; /* worth it, and not admitted yet */
    double *losses_s;                  /* the oracle's: of job j from loss_first[j] on, sorted */
    size_t *loss_first;
};

/* The whole run, from second 0 to the world's end: a function of its arguments. The account is the
 * caller's and overwritten. The world is only read, so that runs of several rules may share it,
 * also at a time. */
void engine_run(const struct world *world, enum whatif_rule rule,
                struct whatif_account *ret_account);

/* ---- for rules ---- */

/* Brings the job's progress up to now; the others read fields that this settles. */
void engine_settle(struct sim *sim, size_t job);
/* Progress that a failure now would take away: the work at stake, in seconds. Needs no settling. */
double engine_age_s(const struct sim *sim, size_t job);
double engine_write_s(const struct sim *sim, size_t job); /* alone, at its own limit */
/* Reading its checkpoint back at a restart, which nobody else slows down. */
double engine_read_s(const struct sim *sim, size_t job);
/* As fsm_group(): of one preemption class, by whether its queue is busy. */
uint32_t engine_group(const struct sim *sim, size_t job);
/* The job must be COMPUTING; bandwidth is shared from now on. What it has computed up to now is
 * what the checkpoint will hold, when the write completes. */
void engine_begin_write(struct sim *sim, size_t job);

/* ---- what rules.c has for the engine ---- */

/* Before and after the run: what the rule keeps is made and freed. */
void rule_open(struct sim *sim);
void rule_close(struct sim *sim);
/* At every cycle: begins what is due, or lines it up for bandwidth. */
void rule_decide(struct sim *sim);
/* Bandwidth became free between two cycles. */
void rule_grant(struct sim *sim);
/* A demand for the job's nodes, which leaves time to write: write first, or give them away at
 * once? */
bool rule_writes_before_yielding(const struct sim *sim, size_t job, double urgency);

#endif
