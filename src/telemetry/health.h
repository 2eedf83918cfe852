/* The health of one node, from all sources: a multiplier of its hazard that decays, and alarms.
 *
 * Flow     health_take() for each sample -> evidence -> factor and alarm of its signal;
 *          health_heard() after each poll -> what is up in enough of them is confirmed.
 *          health_factor() is the product over the signals. health_alarms() lists the signals that
 *          announce a failure. health_drain() says once per episode that the node should be
 *          emptied. health_booted() when the node has booted.
 * Shapes   one struct per node; one series per (source, part), at most HEALTH_SERIES_MAX; samples
 *          without a series are counted. Pure: the caller brings the time.
 * Units    microseconds of a monotonic clock, milliseconds in the policy; factors are plain
 *          multipliers, 1 = well; precision 0..1.
 * Errors   none: samples were checked by samples_add().
 *
 * A COUNTER is evidence when it rises. Counts from before the first sample of a part say nothing. A
 * counter that falls has begun anew, so its value is the rise. From per_hour counts in the last
 * hour on (a decaying sum) the policy's factor holds. The factor stays up until the counts are
 * below half of per_hour, and halves every half_life_ms after the last evidence. A LEVEL holds as
 * long as its source says so. It rises at once and falls after HEALTH_FALL_SAMPLES lower samples in
 * a row. A level of a silent source decays like the rest, and after a half-life it no longer holds
 * up lower levels of other sources. Level 1 counts HEALTH_WARNING_FACTOR, levels 2 and 3 the
 * signal's factor. An EVENT is evidence when a new one is seen; its kind decides how much
 * (health_xid()). A source gives the kind of the last event, or the recent count of each kind: such
 * a count falls as time passes, and its series goes away at 0. A hard signal raises an alarm with
 * the policy's precision and lead. The alarm ends HEALTH_ALARM_LEADS leads after the last evidence,
 * or when its level is well again. The episode ends only HEALTH_ALARM_LEADS leads after the last
 * evidence, so a signal that flaps asks for one drain. A signal that was up at this process's first
 * look raises the factor and the alarm, but never asks for a drain: nobody saw it happen.
 *
 * The factor rises with the first sample: it costs a checkpoint at most. An alarm moves jobs and
 * empties nodes, so it counts only once a source has told of it in HEALTH_CONFIRM_POLLS polls, the
 * one that raised it and the next ones. In each of them a LEVEL has to be up: a poll that says less
 * begins the count again. A COUNTER or an EVENT has happened, and its source need only go on
 * speaking. A boot shows what no failure follows (links that train, power that is off, counts that
 * begin), so an alarm that began less than HEALTH_BOOT_US before or after one is the boot's. Of a
 * COUNTER or an EVENT that is no alarm, then or later. A LEVEL counts when those HEALTH_BOOT_US
 * after the boot are over, if it still holds and was told in enough polls after the boot. An alarm
 * that is older than that goes on: it announced the boot.
 *
 * Source   S1-012, S1-022, S1-051, T-001; src/eval/model.h for the effect of an alarm.
 */
#ifndef CKPT_TELEMETRY_HEALTH_H
#define CKPT_TELEMETRY_HEALTH_H

#include "src/telemetry/samples.h"

enum {
    HEALTH_SOURCES_MAX = 16, /* the agent is source 0 */
    HEALTH_SERIES_MAX = 512,
    HEALTH_FALL_SAMPLES = 2,
    HEALTH_ALARM_LEADS = 6,
    HEALTH_CONFIRM_POLLS = 3
};
#define HEALTH_BOOT_US        UINT64_C(600000000)
#define HEALTH_WARNING_FACTOR 3.0
#define HEALTH_WELL_BELOW     1.01 /* a decayed factor below it is 1 */

/* The configuration, the same for all nodes. */
struct health_policy {
    uint64_t half_life_ms;
    double factor_max;                     /* of the product */
    double factor[TELEMETRY_SIGNAL_COUNT]; /* of each signal at full evidence, 1 or more */
    double alarm_precision;                /* share of alarms that are followed by a failure */
    uint64_t alarm_lead_ms;                /* mean, from alarm to failure */
};
/* The factors of TELEMETRY_SIGNALS, half-life 6 h, at most 300 together, precision 0.6, lead 45
 * min. */
void health_policy_default(struct health_policy *ret_policy);

/* The state of one signal, over all its parts. */
struct health_signal {
    double factor; /* as of seen_us; 0: never raised */
    uint64_t seen_us;
    double counted; /* decaying with a half-life of an hour, as of counted_us */
    uint64_t counted_us;
    uint8_t level;        /* highest of the parts */
    bool raised;          /* COUNTER: it was above its rate, and is not yet below half of it */
    bool alarm;           /* evidence as of alarm_us; confirmed: it counts */
    bool confirmed;       /* told in HEALTH_CONFIRM_POLLS polls of one source */
    bool drain_due;       /* the rise was seen, and no drain was asked for yet */
    bool episode;         /* a drain was asked for; ends when evidence_us is long ago */
    uint8_t source;       /* of the last evidence */
    uint64_t began_us;    /* the alarm's first evidence */
    uint64_t alarm_us;    /* the beginning of s, the alarm's age */
    uint64_t evidence_us; /* of a hard signal */
    /* a bit per source. LEVEL: it was up, or lower, since the source was heard last. COUNTER and
     * EVENT: up: the source has told of this alarm */
    uint16_t up, low;
    uint8_t told[HEALTH_SOURCES_MAX]; /* in how many polls; at most HEALTH_CONFIRM_POLLS */
};

/* The last sample of one part from one source. */
struct health_series {
    uint64_t key; /* signal, source, part and code, hashed */
    /* the last sample's; of a LEVEL the highest from which it has not fallen yet */
    double value;
    uint8_t falls;    /* LEVEL: lower samples in a row */
    uint32_t poll;    /* the source's poll in which it was seen last */
    uint64_t seen_us; /* when */
};

/* A node. Readers use the functions below; the fields are health.c's. */
struct health {
    struct health_signal signals[TELEMETRY_SIGNAL_COUNT];
    uint64_t heard_us[HEALTH_SOURCES_MAX]; /* 0: never */
    uint64_t poll_us[HEALTH_SOURCES_MAX];  /* the poll in which it was heard */
    uint32_t polls[HEALTH_SOURCES_MAX];    /* in how many polls it was heard */
    uint64_t booted_us;                    /* the node's last boot that was seen; 0: none */
    struct health_series *series;
    uint32_t series_count, series_capacity;
    uint64_t dropped; /* samples without room */
};

void health_init(struct health *health);
void health_close(struct health *health); /* the struct is as after health_init() */
/* Takes one sample about this node, in the source's order. A sample without room for its series is
 * dropped and counted. Costs a walk over the node's series. */
void health_take(struct health *health, const struct health_policy *policy, unsigned source,
                 const struct telemetry_sample *sample, uint64_t now_us);
/* An agent tells a new leader that it saw the signal rise so long ago. It is taken as if seen
 * then, but its polls are counted from now on. */
void health_remember(struct health *health, const struct health_policy *policy, unsigned source,
                     enum telemetry_signal signal, uint64_t ago_us, uint64_t now_us);
/* The source spoke of this node, in the poll that began then. Called after the samples of a
 * document. A poll is counted once, with the first of its documents; what the other ones tell is
 * counted with the next poll. */
void health_heard(struct health *health, unsigned source, uint64_t poll_us, uint64_t now_us);
/* The node has booted. */
void health_booted(struct health *health, uint64_t now_us);
/* Another source has this number now: its first samples count as those of a source that was never
 * heard, and its polls confirm nothing that the old one told. */
void health_forget_source(struct health *health, unsigned source);

/* The factor of one signal now, decayed; 1: the signal says nothing. */
double health_signal_factor(const struct health *health, const struct health_policy *policy,
                            enum telemetry_signal signal, uint64_t now_us);
/* >= 1, at most the policy's factor_max. */
double health_factor(const struct health *health, const struct health_policy *policy,
                     uint64_t now_us);

/* An announced failure; src/eval weighs it by precision, lead and age. */
struct health_alarm {
    enum telemetry_signal signal;
    unsigned source;   /* of the last evidence */
    uint64_t since_us; /* how long ago */
};
/* Writes the present alarms that count, at most TELEMETRY_SIGNAL_COUNT, and returns how many. */
size_t health_alarms(const struct health *health, const struct health_policy *policy,
                     uint64_t now_us, struct health_alarm *ret_alarms);
/* True: the node should be emptied because of *ret_alarm. The alarm's source spoke at most fresh_us
 * ago. */
bool health_drain(const struct health *health, const struct health_policy *policy,
                  const uint64_t fresh_us[HEALTH_SOURCES_MAX], uint64_t now_us,
                  struct health_alarm *ret_alarm);
/* The node has failed, as its signals announced; from now on the model counts by the node's age
 * since its failure. A signal that rises anew counts again. A level whose alarm counted and that
 * holds on raises no new one. */
void health_failed(struct health *health, const struct health_policy *policy, uint64_t now_us);
/* The drain was asked for, or is not needed: all present alarms are one episode, those that are not
 * confirmed as well. */
void health_drained(struct health *health);

/* The meaning of NVIDIA's XIDs for the hardware. APPLICATION: none, since the application caused
 * it. SUSPECT: some, and every unknown number. HARD: the hardware is about to fail, or has
 * failed. */
enum health_xid_class { HEALTH_XID_APPLICATION, HEALTH_XID_SUSPECT, HEALTH_XID_HARD };
enum health_xid_class health_xid(uint32_t xid);

#endif
