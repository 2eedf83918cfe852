/* One simulated cluster under one rule.
 *
 * Flow     engine_run() walks through time: events of the world, ends of writes, of restarts and of
 *          walltimes in their order; at every cycle it calls rule_decide(), which begins writes
 *          with engine_begin_write().
 * Shapes   one struct sim_job per job of the world. Progress is counted lazily: engine_settle()
 *          brings it up to now.
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
    double saved_s;    /* progress in the last complete checkpoint */
    double snapshot_s; /* in the one being written */
    double until_s;    /* of DOWN and AWAY */
    double write_began_s;
    double due_since_s; /* a rule's own: since when it waits for bandwidth; negative: it does not */
    double walltime_end_s;
    uint32_t allocation;
    bool walltime_asked;
    bool left;     /* for good */
    bool yields;   /* gives its nodes away when the write is done */
    bool moves;    /* moves off its alarmed nodes then */
    double told_s; /* when a demand was announced; negative: none is expected */
    double yield_asked_s;
    double yield_urgency;
    struct eval_history writes;
    struct eval_success success;
    double stall; /* share of the write; negative: not measured */
    uint32_t alarm_count;
    struct sim_alarm alarms[SIM_ALARMS_MAX];
};

/* Of one job and rule. */
struct sim_constants {
    double write_s;
    double stall_s;
    double period_s;
};

/* One run: a world, a rule, and what has become of the jobs so far. */
struct sim {
    const struct world *world;
    enum whatif_rule rule;
    struct whatif_account *account;
    double now_s;
    size_t next_event;
    double *timers_s; /* by job: its next end of a restart, an absence, a walltime, of itself */
    double timer_s;   /* the earliest */
    bool timer_stale;
    struct sim_job *jobs;
    bool busy[SIM_QUEUES_MAX];
    struct storage storage;
    bool *dodged; /* by alarm: its failure strikes a node that nobody uses */
    double spares;
    struct fleet fleet; /* the model's, when it learns */
    /* the rule's */
    struct sim_constants *constants;
    struct eval_policy policy;
    struct eval_view view;
    struct eval_result result;
    size_t candidate_count;
    struct eval_candidate *candidates; /* worth it, and not admitted yet */
    double *losses_s;                  /* the oracle's: of job j from loss_first[j] on, sorted */
    size_t *loss_first;
};

/* The whole run, from second 0 to the world's end. The account is the caller's and overwritten. */
void engine_run(const struct world *world, enum whatif_rule rule,
                struct whatif_account *ret_account);

/* ---- for rules ---- */

/* Brings the job's progress up to now; the others read fields that this settles. */
void engine_settle(struct sim *sim, size_t job);
/* Progress that a failure now would take away. */
double engine_age_s(const struct sim *sim, size_t job);
double engine_write_s(const struct sim *sim, size_t job); /* alone, at its own limit */
double engine_read_s(const struct sim *sim, size_t job);
/* As fsm_group(): of one preemption class, by whether its queue is busy. */
uint32_t engine_group(const struct sim *sim, size_t job);
/* The job must be COMPUTING; bandwidth is shared from now on. */
void engine_begin_write(struct sim *sim, size_t job);

/* ---- what rules.c has for the engine ---- */

/* Before and after the run: what the rule keeps is made and freed. */
void rule_open(struct sim *sim);
void rule_close(struct sim *sim);
/* At every cycle: begins what is due, or lines it up for bandwidth. */
void rule_decide(struct sim *sim);
/* Bandwidth became free between two cycles. */
void rule_grant(struct sim *sim);
/* A demand for the job's nodes: write first? */
bool rule_writes_before_yielding(const struct sim *sim, size_t job, double urgency);

#endif
