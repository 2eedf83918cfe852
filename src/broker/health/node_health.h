/* How healthy each node is, as this member knows it: from its agent's heartbeats and from the
 * sources of telemetry.
 *
 * Flow     nodes.c hands heartbeats over, telemetry.c samples; both become evidence
 *          (src/telemetry/health.h). The evaluator asks for a job's hazard_factor and alarm_h once
 *          per row. nodes.c lets it look around every second: what is well again is forgotten, and
 *          where health.drain is on, a node with a fresh alarm is drained, everything on it
 *          checkpointed first. Nobody drains one whose agent is silent. A boot is a change of the
 *          boot id in the state: alarms of it do not count (health.h).
 * Shapes   one record per node slot; HEALTH_SOURCES_MAX sources, the agent is source 0. Every
 *          member keeps it: a new leader knows what the sources told it before, and when it saw
 *          nodes boot; what only agents say begins anew, but they tell since when their counts
 *          rise. A member that has just started knows of no boot.
 * Units    milliseconds, microseconds of the monotonic clock; the factor is a plain multiplier, 1 =
 *          well.
 * Errors   a drain that cannot be proposed is proposed by a later look. At most
 *          health.drain_max_per_hour nodes are drained: a source that gone mad must not empty the
 *          cluster.
 * Absent   replicated state: decisions carry integers, and nobody recomputes them from health.
 * Source   S1-012, S1-022, S1-051, T-001; src/eval/README.md for what the numbers do.
 */
#ifndef CKPT_BROKER_NODE_HEALTH_H
#define CKPT_BROKER_NODE_HEALTH_H

#include "ckpt/v1/agent.pb-c.h"
#include "fsm/fsm.h"
#include "src/eval/learn.h"
#include "src/eval/model.h"
#include "src/telemetry/health.h"

struct broker;
struct node_health;

/* From the configuration. */
struct node_health_config {
    uint64_t half_life_ms, alarm_lead_ms;
    uint64_t factor_max_milli;
    /* what is learned of hard signals begins with it; recall: the share of failures that they
     * announce */
    uint32_t alarm_precision_ppm, alarm_recall_ppm;
    uint64_t factor_milli[TELEMETRY_SIGNAL_COUNT];
    bool drain;
    uint64_t drain_max_per_hour;
    uint64_t follower_slowdown; /* followers ask sources so many times more rarely */
};
void node_health_config_default(struct node_health_config *ret_config);

/* Made and freed by nodes.c, on every member, before any source is asked. */
struct node_health *node_health_new(struct broker *broker);
void node_health_free(struct node_health *health);
/* broker->config's unless it was called. */
void node_health_configure(struct node_health *health, const struct node_health_config *config);
/* A source that is fresh says that the node's power is off. NULL: false. */
bool node_health_is_off(const struct node_health *health, uint32_t node_slot);
/* A source that is asked: what it says is fresh for so long. fresh_ms 0: there is no such source;
 * what was heard from it before is forgotten. */
void node_health_set_source(struct node_health *health, unsigned source, uint64_t fresh_ms);
/* Leadership begins: agents are heard anew. */
void node_health_begin(struct node_health *health);

/* An agent's heartbeat, from nodes.c: errors of memory and temperature, as far as the agent
 * measures them. */
void node_health_heartbeat(struct node_health *health, uint32_t node_slot,
                           const Ckpt__V1__AgentHeartbeat *heartbeat);
/* One sample of a source about a node. Samples of a document may come in several turns of the
 * loop. */
void node_health_sample(struct node_health *health, uint32_t node_slot, unsigned source,
                        const struct telemetry_sample *sample);
/* After all samples of one document, of the poll that began then. */
void node_health_heard(struct node_health *health, uint32_t node_slot, unsigned source,
                       uint64_t poll_us);

/* Leader only, every second or so. */
void node_health_look(struct node_health *health);

/* >= 1. NULL: 1. */
double node_health_factor(const struct node_health *health, uint32_t node_slot);
/* false, also for NULL: every node's factor is 1 and its alarm_h 0. */
bool node_health_any(const struct node_health *health);
/* What the node adds to its jobs' hazard: its factor, without the share of failures that hard
 * signals announce early enough for a write of write_s seconds, and its alarms over the horizon.
 * Several signals of one node announce the same failure: the strongest counts. */
struct node_hazard {
    double factor;
    double alarm_h;
    bool unwell; /* there is a reason to checkpoint beside the calendar */
};
struct node_hazard node_health_hazard(const struct node_health *health, uint32_t node_slot,
                                      double horizon_s, double write_s);

/* What its hazard depends on beside the arguments: nothing; that it is watched; the time as
 * well. */
enum node_health_kind { NODE_HEALTH_WELL, NODE_HEALTH_WATCHED, NODE_HEALTH_UNWELL };
enum node_health_kind node_health_kind(const struct node_health *health, uint32_t node_slot);
/* Share of failures that hard signals announce. */
double node_health_recall(const struct node_health *health);
/* Mean time from a hard signal to its failure. */
double node_health_alarm_lead_s(const struct node_health *health);
/* What alarms are like: as configured, and as the leader learned it (learner.h), which counts from
 * then on. */
void node_health_alarm_prior(const struct node_health *health, struct eval_alarm_rates *ret_prior);
void node_health_set_alarms(struct node_health *health, const struct eval_alarm_rates *rates);
/* The oldest alarm of the node that counts; false: none. NULL: none. */
bool node_health_alarm(const struct node_health *health, uint32_t node_slot, double *ret_age_s);
/* An asked source, not the agent, speaks of the node: hard signals of its would be seen. */
bool node_health_watched(const struct node_health *health, uint32_t node_slot);
/* What was announced has come: its signals announce nothing more. */
void node_health_failed(struct node_health *health, uint32_t node_slot);

enum node_health_sight { NODE_HEALTH_BLIND, NODE_HEALTH_STALE, NODE_HEALTH_FRESH };
enum node_health_sight node_health_sight(const struct node_health *health, uint32_t node_slot,
                                         unsigned source, uint64_t *ret_age_ms);
/* Since the node's health was heard of last by any source that is fresh; UINT64_MAX: by none. */
uint64_t node_health_age_ms(const struct node_health *health, uint32_t node_slot);
struct node_health_signal {
    enum telemetry_signal signal;
    double factor;
    bool alarm; /* one that counts */
    uint64_t alarm_age_ms;
};
/* Those that say something; at most TELEMETRY_SIGNAL_COUNT. */
size_t node_health_signals(const struct node_health *health, uint32_t node_slot,
                           struct node_health_signal *ret_signals);

struct node_health_counts {
    uint32_t unwell; /* nodes whose factor is above 1 */
    uint32_t alarms; /* nodes with one */
    uint64_t drains_total;
    uint64_t drains_held_total; /* over drain_max_per_hour */
    uint64_t dropped_total;     /* samples without room */
};
void node_health_count(const struct node_health *health, struct node_health_counts *ret_counts);

#endif
