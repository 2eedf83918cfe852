/* Learns the model's inputs from failures, write times, sizes, completions and pauses. Pure
 * functions over small states that the caller keeps.
 *
 * Flow     the owner of a state notes events (eval_*_note) and passed time (eval_hazard_advance),
 *          and asks the state when it fills a row of struct eval_view.
 * Shapes   every state is a flat struct of numbers. eval_hazard_save() and _load() make integers of
 *          the hazard, so that it survives a failover in the log. The other states are a mean and a
 *          deviation; their owner rounds them.
 * Units    seconds; failures per second of one node; fractions 0..1.
 * Errors   values that are NaN, negative or absurd (1e30 and more) are skipped. Divisions by zero
 *          have an answer: without any exposure the prior, without any history EVAL_UNKNOWN's
 *          factor on the expectation.
 * Absent   Weibull fits: the bins of node age hold any shape, and need no iteration.
 * Source   Gamma-Poisson updating with forgetting; Young and Daly need the rate only. At the
 *          quantile of the write time the expected loss of being too late equals the loss of being
 *          early by a second: z = sqrt(2 ln(0.4 A/s)).
 */
#ifndef CKPT_EVAL_LEARN_H
#define CKPT_EVAL_LEARN_H

#include <stdbool.h>
#include <stdint.h>

/* ---- hazard of a node ---- */

/* Age = time since the node's last failure, or since it was first seen. Bins end at 1 h, 4 h, 1 d,
 * 4 d, 16 d, 64 d. */
enum { EVAL_AGE_BINS = 7, EVAL_HAZARD_WORDS = 2 + 2 * EVAL_AGE_BINS };

struct eval_hazard_prior {
    double failures_per_s; /* of one node */
    double weight;         /* in failures: so many observed ones outweigh the prior */
    double forget_s;       /* the fleet's rate forgets with this time constant; 0: never */
    double bin_weight;     /* likewise for the bins' multipliers; more where bins are alike */
};

struct eval_hazard {
    struct eval_hazard_prior prior;
    double failures; /* without forgotten ones */
    double node_s;   /* exposure, likewise */
    double bin_failures[EVAL_AGE_BINS];
    double bin_expected[EVAL_AGE_BINS]; /* failures expected by the fleet's rate alone */
};

void eval_hazard_init(struct eval_hazard *hazard, const struct eval_hazard_prior *prior);
int eval_hazard_bin(double node_age_s);
/* When a node of this age enters the next bin; infinite in the last. */
double eval_hazard_bin_end_s(int bin);
/* `seconds` passed with so many nodes in each bin. */
void eval_hazard_advance(struct eval_hazard *hazard, const double nodes[EVAL_AGE_BINS],
                         double seconds);
void eval_hazard_note_failure(struct eval_hazard *hazard, double node_age_s);
/* The rate of a node of average age, and the factor on it for a node of this bin. */
double eval_hazard_fleet_per_s(const struct eval_hazard *hazard);
double eval_hazard_bin_factor(const struct eval_hazard *hazard, int bin);
/* The certainty of the fleet's rate, 0..1: the believed rate over the highest rate that the seen
 * failures allow (95 %). The prior is no observation and adds no certainty: 0 before any
 * exposure. */
double eval_hazard_certainty(const struct eval_hazard *hazard);
/* Saves in millionths, saturating, without the prior: that is policy. False: a word is negative,
 * and the state is untouched. */
void eval_hazard_save(const struct eval_hazard *hazard, int64_t ret_words[EVAL_HAZARD_WORDS]);
bool eval_hazard_load(struct eval_hazard *hazard, const int64_t words[EVAL_HAZARD_WORDS]);

/* A health multiplier fades to 1 with this half-life after the signal was last seen. Impossible
 * inputs give 1. */
double eval_multiplier_decayed(double multiplier, double since_s, double half_life_s);

/* ---- events of a job or a queue, at a rate that changes: kills, demands to yield ---- */

struct eval_rate {
    double events;
    double seconds;
};
/* Prior: so many events in so many seconds; forget_s > 0. */
void eval_rate_advance(struct eval_rate *rate, const struct eval_rate *prior, double exposed_s,
                       double forget_s);
void eval_rate_note(struct eval_rate *rate);
double eval_rate_per_s(const struct eval_rate *rate); /* 0 without any exposure */
/* The probability of at least one event at this rate within the horizon: p_y, when nobody names the
 * job. */
double eval_rate_probability(double events_per_s, double horizon_s);

/* ---- alarms: hard signals of nodes that announce a failure, or seem to ---- */

/* The quality of alarms. */
struct eval_alarm_rates {
    double recall;    /* share of failures with an alarm before, 0..1 */
    double precision; /* share of alarms with a failure after, 0..1 */
    double lead_s;    /* mean, from alarm to failure */
};

/* The outcomes of alarms, without forgotten ones. */
struct eval_alarms {
    double followed; /* by a failure */
    double lead_sum_s;
    double unfollowed;
    double unannounced; /* failures without an alarm, of watched nodes */
};
enum { EVAL_ALARM_WORDS = 4 };
void eval_alarms_advance(struct eval_alarms *alarms, double seconds, double forget_s);
void eval_alarms_note_followed(struct eval_alarms *alarms, double lead_s);
void eval_alarms_note_unfollowed(struct eval_alarms *alarms);
void eval_alarms_note_unannounced(struct eval_alarms *alarms);
/* An alarm of one node, from its rise until its outcome is known. All zero: none. */
struct eval_episode {
    bool on;
    double began_s;
};
/* The state of the node at a look. */
struct eval_sight {
    double now_s;
    bool alarm;
    double alarm_age_s;
    bool failed;  /* since the last look */
    bool watched; /* its alarms would be seen */
    bool emptied; /* drained: nobody will know whether it would have failed */
};
void eval_episode_see(struct eval_episode *episode, const struct eval_sight *sight,
                      struct eval_alarms *alarms);
/* The learned rates, with the prior at the weight of ten outcomes. */
void eval_alarms_rates(const struct eval_alarms *alarms, const struct eval_alarm_rates *prior,
                       struct eval_alarm_rates *ret_rates);
/* As eval_hazard_save(). */
void eval_alarms_save(const struct eval_alarms *alarms, int64_t ret_words[EVAL_ALARM_WORDS]);
bool eval_alarms_load(struct eval_alarms *alarms, const int64_t words[EVAL_ALARM_WORDS]);

/* ---- write times and sizes of a job's own completed checkpoints ---- */

struct eval_history {
    double mean;
    double deviation; /* standard, of one observation from the mean before it */
    double count;
};
void eval_history_note(struct eval_history *history, double observed);
/* The quantile of the write time that the walltime slot keeps free, when a late checkpoint loses
 * `at_risk_s` seconds of work. expected_s: from size and bandwidth, for a job without history. */
double eval_write_quantile_s(const struct eval_history *history, double expected_s,
                             double at_risk_s);
/* Predicted over actual; 1 without history. */
double eval_history_ratio(const struct eval_history *history, double predicted);

/* ---- does a checkpoint complete, and how much of its write stops the job ---- */

struct eval_success {
    double done;
    double failed;
};
void eval_success_note(struct eval_success *success, bool completed);
double eval_success_probability(const struct eval_success *success); /* 0.98 without history */
/* Moving mean of stopped / write; *fraction < 0: not measured yet. */
void eval_stall_note(double *fraction, double stopped_s, double write_s);

/* ---- from that to the model's inputs ---- */

/* Bytes per second from asking until the last shard was verified, at most the target's budget. */
double eval_measured_bandwidth(double size_bytes, double write_mean_s, double budget_bytes_per_s);
/* Before anything was measured, by the application's own word of how long it writes: the word can
 * only lengthen the write, and not beyond limit_s, after which it is given up. A word that is no
 * number above 0 changes nothing. */
double eval_told_bandwidth(double size_bytes, double told_s, double limit_s,
                           double usable_bytes_per_s);
/* The factor on the write time at less bandwidth than past checkpoints had; 1 at least. */
double eval_write_stretch(double write_mean_s, double size_bytes, double bandwidth_bytes_per_s);
/* The factor with which stall_fraction * factor * write_s + quiesce_s equals the measured
 * stopped_s. */
double eval_stall_factor(double stall_fraction, double quiesce_s, double stopped_s, double write_s);
/* Rounds to ten bits: a learned rate moves a little all the time, and the inputs should stay the
 * same until it says something new. */
double eval_steady(double rate);
/* The cost of being late grows with a job's age, so the quantile would move a little all the time.
 * The quantile is therefore taken at the middle of the age's step, an eighth of an octave, within 6
 * % of the age. All ages below a second are one step. */
struct eval_step {
    double begin_s, end_s;
};
struct eval_step eval_step_of(double seconds);
double eval_stepped(double seconds);

#endif
