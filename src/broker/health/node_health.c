/* How healthy each node is, as this member knows it. See node_health.h. Evidence of a node is one
 * struct health (src/telemetry/health.h); this file finds the node that a sample belongs to, drains
 * nodes, and answers the evaluator. A flag per record (unwell) keeps what most nodes cost to one
 * comparison. */
#include "src/broker/health/node_health.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/node_life.h"
#include "fsm/pause.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/broker.h"
#include "src/broker/explain/translate.h"

#define HOUR_US UINT64_C(3600000000)

enum {
    AGENT = 0, /* its number as a source */
    NEAR_LIMIT_MILLI_CELSIUS = 10000
};

struct record {
    uint64_t made; /* of the node that all this is of; 0: unused */
    bool unwell;   /* factor above 1 or an alarm, as of the last sample or look */
    bool draining; /* a proposal is under way */
    uint64_t boot; /* hash of the boot id that its agent told last; 0: none yet */
    struct health health;
};

struct node_health {
    struct broker *broker;
    struct health_policy policy;
    struct eval_alarm_rates configured, alarms; /* the latter: as learned */
    bool drain;
    uint64_t drain_max_per_hour;
    uint64_t fresh_us[HEALTH_SOURCES_MAX]; /* 0: no such source */
    struct record *records;
    uint32_t count;
    uint32_t unwell_count;
    uint64_t hour_began_us, hour_drains;
    uint64_t drains_total, held_total;
    bool held; /* the last look held one back: said once */
};

/* A drain that was proposed and has no outcome yet. */
struct drain {
    struct node_health *health;
    uint32_t slot;
    uint64_t made; /* of the node: it may have been removed since */
};

static uint64_t now_us(const struct node_health *health)
{
    const struct clock_ops *clock = &health->broker->clock;

    return clock->monotonic_us(clock->context);
}

/* ---- settings ---- */

/* The defaults are those of src/telemetry/health.h, in the units of the configuration. */
void node_health_config_default(struct node_health_config *ret_config)
{
    struct health_policy policy;

    health_policy_default(&policy);
    *ret_config =
        (struct node_health_config){.half_life_ms = policy.half_life_ms,
                                    .alarm_lead_ms = policy.alarm_lead_ms,
                                    .factor_max_milli = (uint64_t)(policy.factor_max * 1e3),
                                    .alarm_precision_ppm = (uint32_t)(policy.alarm_precision * 1e6),
                                    .drain_max_per_hour = 4};
    for (int signal = 0; signal < TELEMETRY_SIGNAL_COUNT; signal++)
        ret_config->factor_milli[signal] = (uint64_t)(policy.factor[signal] * 1e3);
}

/* What was learned of alarms begins anew with the configuration's numbers: they may be of another
 * kind of sources. */
void node_health_configure(struct node_health *health, const struct node_health_config *config)
{
    health->policy.half_life_ms = config->half_life_ms;
    health->policy.factor_max = (double)config->factor_max_milli / 1e3;
    health->policy.alarm_precision = config->alarm_precision_ppm / 1e6;
    health->policy.alarm_lead_ms = config->alarm_lead_ms;
    for (int signal = 0; signal < TELEMETRY_SIGNAL_COUNT; signal++)
        health->policy.factor[signal] = (double)config->factor_milli[signal] / 1e3;
    health->configured = (struct eval_alarm_rates){.recall = config->alarm_recall_ppm / 1e6,
                                                   .precision = config->alarm_precision_ppm / 1e6,
                                                   .lead_s = (double)config->alarm_lead_ms / 1e3};
    health->alarms = health->configured;
    health->drain = config->drain;
    health->drain_max_per_hour = config->drain_max_per_hour;
}

void node_health_set_source(struct node_health *health, unsigned source, uint64_t fresh_ms)
{
    CHECK(source < HEALTH_SOURCES_MAX);
    health->fresh_us[source] = fresh_ms * 1000;
    for (uint32_t slot = 0; fresh_ms == 0 && slot < health->count; slot++)
        health_forget_source(&health->records[slot].health, source);
}

/* ---- records ---- */

/* The slot is another node's from now on. A drain that is on its way is kept: its answer still
 * comes. */
static void record_begin(struct node_health *health, struct record *record, uint64_t made)
{
    bool draining = record->draining;

    if (record->unwell)
        health->unwell_count--;
    health_close(&record->health);
    *record = (struct record){.made = made, .draining = draining};
}

/* The record of the slot's node; what was known of another node in that slot, which was removed, is
 * forgotten. NULL: no such node. */
static struct record *record_of(struct node_health *health, uint32_t slot)
{
    const struct fsm_node *node = fsm_node_find_slot(replica_fsm(health->broker->replica), slot);

    if (node == NULL)
        return NULL;
    if (slot >= health->count) {
        uint32_t count = slot + 1 < 64 ? 64 : slot + 1 + slot / 2;

        health->records = check_realloc(health->records, count, sizeof(*health->records));
        memset(health->records + health->count, 0,
               (count - health->count) * sizeof(*health->records));
        health->count = count;
    }
    if (health->records[slot].made != node->made)
        record_begin(health, &health->records[slot], node->made);
    return &health->records[slot];
}

/* NULL: nothing is known of the node that has the slot now. */
static const struct record *record_at(const struct node_health *health, uint32_t slot)
{
    const struct fsm_node *node;

    if (health == NULL || slot >= health->count || health->records[slot].made == 0)
        return NULL;
    node = fsm_node_find_slot(replica_fsm(health->broker->replica), slot);
    return node != NULL && node->made == health->records[slot].made ? &health->records[slot] : NULL;
}

/* Kept up to date where evidence is taken, so that rows of well nodes cost one look. */
static void judge_node(struct node_health *health, struct record *record, uint64_t at_us)
{
    struct health_alarm alarms[TELEMETRY_SIGNAL_COUNT];
    bool unwell = health_factor(&record->health, &health->policy, at_us) > 1 ||
                  health_alarms(&record->health, &health->policy, at_us, alarms) > 0;

    if (unwell == record->unwell)
        return;
    record->unwell = unwell;
    health->unwell_count += unwell ? 1 : (uint32_t)-1;
}

/* The record is of the slot's present node. The first boot id that this member sees is no boot: the
 * node may have been up for months. */
static void notice_boot(struct node_health *health, uint32_t slot)
{
    const struct fsm_node *node = fsm_node_find_slot(replica_fsm(health->broker->replica), slot);
    struct record *record = &health->records[slot];
    uint64_t boot;

    CHECK(node != NULL && node->made == record->made);
    if (node->boot_id[0] == '\0')
        return;
    boot = samples_hash(SAMPLES_HASH, node->boot_id, strlen(node->boot_id));
    if (boot == record->boot)
        return;
    if (record->boot != 0) {
        health_booted(&record->health, now_us(health));
        judge_node(health, record, now_us(health));
    }
    record->boot = boot;
}

/* What agents said was said to another leader; what sources said was heard by this member all
 * along. */
void node_health_begin(struct node_health *health)
{
    const struct fsm *fsm = replica_fsm(health->broker->replica);

    for (uint32_t slot = 0; slot < health->count; slot++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, slot);
        struct record *record = record_of(health, slot);

        if (record == NULL)
            continue;
        health_forget_source(&record->health, AGENT);
        if (fsm_node_refusal(node) != FSM_OK)
            health_drained(&record->health);
    }
}

/* ---- evidence ---- */

void node_health_sample(struct node_health *health, uint32_t node_slot, unsigned source,
                        const struct telemetry_sample *sample)
{
    struct record *record = record_of(health, node_slot);
    uint64_t at_us = now_us(health);

    if (record == NULL)
        return;
    health_take(&record->health, &health->policy, source, sample, at_us);
    judge_node(health, record, at_us);
}

void node_health_heard(struct node_health *health, uint32_t node_slot, unsigned source,
                       uint64_t poll_us)
{
    struct record *record = record_of(health, node_slot);

    if (record == NULL)
        return;
    notice_boot(health, node_slot);
    health_heard(&record->health, source, poll_us, now_us(health));
    judge_node(health, record, now_us(health));
}

/* How near to its limit: the limit of the agent, or the general ones when it tells none. */
static double thermal_level(const Ckpt__V1__AgentHeartbeat *heartbeat)
{
    double limit = heartbeat->temperature_limit_milli_celsius;
    struct samples_limits limits = {NAN, NAN, NAN};

    if (limit > 0)
        limits =
            (struct samples_limits){(limit - NEAR_LIMIT_MILLI_CELSIUS) / 1e3, limit / 1e3, NAN};
    return samples_thermal_level(heartbeat->temperature_milli_celsius / 1e3, &limits);
}

/* A count of the agent as a sample of source 0. */
static void take_count(struct node_health *health, uint32_t slot, enum telemetry_signal signal,
                       uint64_t count)
{
    struct telemetry_sample sample = {
        .signal = signal, .subject = SAMPLES_NO_SUBJECT, .value = (double)count};

    node_health_sample(health, slot, AGENT, &sample);
}

/* What the agent saw before this leader heard of it. */
static void remember_signal(struct node_health *health, struct record *record,
                            enum telemetry_signal signal, uint64_t ago_ms)
{
    if (ago_ms == 0 || ago_ms > health->policy.half_life_ms * 8)
        return;
    health_remember(&record->health, &health->policy, AGENT, signal, ago_ms * 1000, now_us(health));
    judge_node(health, record, now_us(health));
}

/* Counts say something only beside earlier ones. So the first heartbeat that this leader hears
 * tells since when they rise. */
void node_health_heartbeat(struct node_health *health, uint32_t node_slot,
                           const Ckpt__V1__AgentHeartbeat *heartbeat)
{
    struct record *record = record_of(health, node_slot);
    struct telemetry_sample thermal = {.signal = TELEMETRY_THERMAL, .subject = SAMPLES_NO_SUBJECT};

    if (record == NULL)
        return;
    notice_boot(health, node_slot);
    if (heartbeat->ecc_measured) {
        if (record->health.heard_us[AGENT] == 0) {
            remember_signal(health, record, TELEMETRY_ECC_CORRECTABLE,
                            heartbeat->ecc_correctable_risen_ms);
            remember_signal(health, record, TELEMETRY_ECC_UNCORRECTABLE,
                            heartbeat->ecc_uncorrectable_risen_ms);
        }
        take_count(health, node_slot, TELEMETRY_ECC_CORRECTABLE, heartbeat->ecc_correctable_count);
        take_count(health, node_slot, TELEMETRY_ECC_UNCORRECTABLE,
                   heartbeat->ecc_uncorrectable_count);
    }
    if (heartbeat->temperature_milli_celsius > 0) {
        thermal.value = thermal_level(heartbeat);
        node_health_sample(health, node_slot, AGENT, &thermal);
    }
    if (heartbeat->ecc_measured || heartbeat->temperature_milli_celsius > 0)
        node_health_heard(health, node_slot, AGENT, now_us(health));
}

/* ---- draining ---- */

/* The node may have been removed meanwhile, and its slot be another's. */
static void on_drained(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct drain *drain = data;
    struct node_health *health = drain->health;
    struct record *record = &health->records[drain->slot];

    record->draining = false;
    if (failed == NULL && outcome->status == FSM_OK) {
        if (record->made == drain->made)
            health_drained(&record->health);
        health->drains_total++;
    } else { /* a later look tries again, and this one costs nothing of the hour's */
        log_warning("drain_failed", "slot=%u text=\"%s\"", drain->slot,
                    failed != NULL ? failed->text : fsm_status_name(outcome->status));
        health->hour_drains -= health->hour_drains > 0;
    }
    free(drain);
}

/* A source gone mad must not empty the cluster: the limit is per hour, counted from the first drain
 * of it. */
static bool may_drain(struct node_health *health, uint64_t at_us)
{
    if (at_us - health->hour_began_us > HOUR_US || health->hour_began_us == 0) {
        health->hour_began_us = at_us;
        health->hour_drains = 0;
        health->held = false;
    }
    return health->hour_drains < health->drain_max_per_hour;
}

/* Urgent: everything on the node is checkpointed at once. */
static void propose_drain(struct node_health *health, const struct fsm_node *node,
                          const struct health_alarm *alarm, uint64_t at_us)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__DrainNode body = CKPT__LOG__V1__DRAIN_NODE__INIT;
    struct drain *drain = check_alloc(sizeof(*drain));
    char request_id[64];

    *drain = (struct drain){.health = health, .slot = node->slot, .made = node->made};
    snprintf(request_id, sizeof(request_id), "telemetry-%u-%" PRIu64 "-%" PRIu64, node->slot,
             broker_wall_ms(health->broker), at_us);
    log_warning("node_alarm",
                "node=%s signal=%s source=%u age_ms=%" PRIu64 " text=\"draining it, everything on "
                "it is checkpointed now\"",
                node->id, telemetry_signal_name(alarm->signal), alarm->source,
                alarm->since_us / 1000);
    health->hour_drains++;
    health->records[node->slot].draining = true;
    body.node_id = translate_text(node->id);
    body.urgent = true;
    command.request_id = request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_DRAIN_NODE;
    command.drain_node = &body;
    replica_propose(health->broker->replica, &command, on_drained, drain);
}

/* Nothing on it can be checkpointed while its agent is silent, and a drain ends where a node goes
 * down. Most of these boot: what their BMCs show then is the boot's, as soon as the agent tells. */
static bool agent_silent(const struct fsm_node *node)
{
    return node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN ||
           node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DEGRADED;
}

/* A drain that is held back is logged once and goes on being counted as one. */
static void drain_if_due(struct node_health *health, uint32_t slot, uint64_t at_us)
{
    const struct fsm_node *node = fsm_node_find_slot(replica_fsm(health->broker->replica), slot);
    struct record *record = &health->records[slot];
    struct health_alarm alarm;

    if (node == NULL || record->draining || agent_silent(node) ||
        fsm_pause(replica_fsm(health->broker->replica)) != NULL ||
        !health_drain(&record->health, &health->policy, health->fresh_us, at_us, &alarm))
        return;
    if (may_drain(health, at_us)) {
        propose_drain(health, node, &alarm, at_us);
        return;
    }
    health->held_total += !health->held;
    if (!health->held)
        log_warning("drain_held",
                    "node=%s signal=%s limit=%" PRIu64
                    " text=\"so many nodes were drained within an hour: check the source; drain by "
                    "hand with ckptctl node drain --urgent, or raise health.drain_max_per_hour\"",
                    node->id, telemetry_signal_name(alarm.signal), health->drain_max_per_hour);
    health->held = true;
}

/* Only nodes that are unwell are looked at: evidence of the others was judged when it came. */
void node_health_look(struct node_health *health)
{
    uint64_t at_us = now_us(health);

    for (uint32_t slot = 0; health->unwell_count > 0 && slot < health->count; slot++) {
        if (!health->records[slot].unwell)
            continue;
        if (record_at(health, slot) == NULL) { /* its node was removed */
            record_begin(health, &health->records[slot], 0);
            continue;
        }
        notice_boot(health, slot);
        judge_node(health, &health->records[slot], at_us);
        if (health->drain)
            drain_if_due(health, slot, at_us);
    }
}

/* ---- for the evaluator ---- */

/* The evidence fades with time, so that the factor is computed when it is asked for. */
double node_health_factor(const struct node_health *health, uint32_t node_slot)
{
    const struct record *record = record_at(health, node_slot);

    return record == NULL || !record->unwell
               ? 1
               : health_factor(&record->health, &health->policy, now_us(health));
}

bool node_health_is_off(const struct node_health *health, uint32_t node_slot)
{
    const struct record *record = record_at(health, node_slot);
    const struct health_signal *power;

    if (record == NULL || !record->unwell)
        return false;
    power = &record->health.signals[TELEMETRY_POWER];
    CHECK(power->source < HEALTH_SOURCES_MAX);
    return power->alarm && power->seen_us != 0 &&
           now_us(health) - power->seen_us <= health->fresh_us[power->source];
}

/* True also when nobody is unwell, but hard signals announce some failures: then a watched node
 * without a signal is less likely to fail than others. */
bool node_health_any(const struct node_health *health)
{
    return health != NULL && (health->unwell_count > 0 || health->alarms.recall > 0);
}

/* The strongest alarm counts: several signals of one node announce the same failure. */
static double alarm_hazard(const struct node_health *health, const struct record *record,
                           double horizon_s, uint64_t at_us)
{
    struct health_alarm alarms[TELEMETRY_SIGNAL_COUNT];
    size_t count = health_alarms(&record->health, &health->policy, at_us, alarms);
    double hazard = 0;

    for (size_t i = 0; i < count; i++) {
        struct eval_alarm alarm = {.precision = health->alarms.precision,
                                   .lead_s = health->alarms.lead_s,
                                   .since_s = (double)alarms[i].since_us / 1e6};

        hazard = fmax(hazard, eval_alarm_hazard(&alarm, horizon_s));
    }
    return hazard;
}

/* An asked source, not the agent, speaks of the node: hard signals of its would be seen. */
static bool is_watched(const struct node_health *health, const struct record *record,
                       uint64_t at_us)
{
    for (unsigned source = AGENT + 1; source < HEALTH_SOURCES_MAX; source++) {
        uint64_t heard_us = record->health.heard_us[source];

        if (heard_us != 0 && at_us - heard_us <= health->fresh_us[source])
            return true;
    }
    return false;
}

/* An announced failure that leaves time for a write is not what a job must fear: its share is taken
 * out of the factor of a watched node. */
struct node_hazard node_health_hazard(const struct node_health *health, uint32_t node_slot,
                                      double horizon_s, double write_s)
{
    const struct record *record = record_at(health, node_slot);
    struct node_hazard hazard = {.factor = 1};
    uint64_t at_us;

    if (record == NULL || (!record->unwell && !(health->alarms.recall > 0)))
        return hazard;
    at_us = now_us(health);
    if (record->unwell) {
        hazard.unwell = true;
        hazard.factor = health_factor(&record->health, &health->policy, at_us);
        hazard.alarm_h = alarm_hazard(health, record, horizon_s, at_us);
    }
    if (health->alarms.recall > 0 && is_watched(health, record, at_us))
        hazard.factor *= 1 - health->alarms.recall * exp(-write_s / health->alarms.lead_s);
    return hazard;
}

enum node_health_kind node_health_kind(const struct node_health *health, uint32_t node_slot)
{
    const struct record *record = health != NULL ? record_at(health, node_slot) : NULL;

    if (record == NULL)
        return NODE_HEALTH_WELL;
    if (record->unwell)
        return NODE_HEALTH_UNWELL;
    return health->alarms.recall > 0 && is_watched(health, record, now_us(health))
               ? NODE_HEALTH_WATCHED
               : NODE_HEALTH_WELL;
}

double node_health_recall(const struct node_health *health)
{
    return health->alarms.recall;
}

double node_health_alarm_lead_s(const struct node_health *health)
{
    return health->alarms.lead_s;
}

void node_health_alarm_prior(const struct node_health *health, struct eval_alarm_rates *ret_prior)
{
    *ret_prior = health->configured;
}

void node_health_set_alarms(struct node_health *health, const struct eval_alarm_rates *rates)
{
    health->alarms = *rates;
}

bool node_health_alarm(const struct node_health *health, uint32_t node_slot, double *ret_age_s)
{
    const struct record *record = record_at(health, node_slot);
    struct health_alarm alarms[TELEMETRY_SIGNAL_COUNT];
    uint64_t oldest_us = 0;
    size_t count;

    if (record == NULL || !record->unwell)
        return false;
    count = health_alarms(&record->health, &health->policy, now_us(health), alarms);
    for (size_t i = 0; i < count; i++)
        oldest_us = alarms[i].since_us > oldest_us ? alarms[i].since_us : oldest_us;
    *ret_age_s = (double)oldest_us / 1e6;
    return count > 0;
}

bool node_health_watched(const struct node_health *health, uint32_t node_slot)
{
    const struct record *record = record_at(health, node_slot);

    return record != NULL && is_watched(health, record, now_us(health));
}

/* The failure that was announced has come. It may be a boot that nobody saw coming. */
void node_health_failed(struct node_health *health, uint32_t node_slot)
{
    if (health == NULL || record_at(health, node_slot) == NULL)
        return;
    notice_boot(health, node_slot);
    health_failed(&health->records[node_slot].health, &health->policy, now_us(health));
    judge_node(health, &health->records[node_slot], now_us(health));
}

/* ---- for people ---- */

/* BLIND: never heard. STALE: not heard for longer than the source's words are fresh. */
enum node_health_sight node_health_sight(const struct node_health *health, uint32_t node_slot,
                                         unsigned source, uint64_t *ret_age_ms)
{
    const struct record *record = record_at(health, node_slot);
    uint64_t heard_us = record != NULL ? record->health.heard_us[source] : 0;
    uint64_t age_us = heard_us == 0 ? 0 : now_us(health) - heard_us;

    *ret_age_ms = heard_us == 0 ? UINT64_MAX : age_us / 1000;
    if (heard_us == 0)
        return NODE_HEALTH_BLIND;
    return age_us > health->fresh_us[source] ? NODE_HEALTH_STALE : NODE_HEALTH_FRESH;
}

uint64_t node_health_age_ms(const struct node_health *health, uint32_t node_slot)
{
    uint64_t youngest_ms = UINT64_MAX, age_ms;

    for (unsigned source = 0; health != NULL && source < HEALTH_SOURCES_MAX; source++) {
        if (node_health_sight(health, node_slot, source, &age_ms) == NODE_HEALTH_FRESH &&
            age_ms < youngest_ms)
            youngest_ms = age_ms;
    }
    return youngest_ms;
}

/* In the order of enum telemetry_signal, with the alarm of the signal where it has one. */
size_t node_health_signals(const struct node_health *health, uint32_t node_slot,
                           struct node_health_signal *ret_signals)
{
    const struct record *record = record_at(health, node_slot);
    struct health_alarm alarms[TELEMETRY_SIGNAL_COUNT];
    size_t count = 0, alarm_count, next = 0;
    uint64_t at_us;

    if (record == NULL || !record->unwell)
        return 0;
    at_us = now_us(health);
    alarm_count = health_alarms(&record->health, &health->policy, at_us, alarms);
    for (int i = 0; i < TELEMETRY_SIGNAL_COUNT; i++) {
        struct node_health_signal signal = {.signal = (enum telemetry_signal)i};

        signal.factor =
            health_signal_factor(&record->health, &health->policy, signal.signal, at_us);
        if (next < alarm_count && alarms[next].signal == signal.signal) {
            signal.alarm = true;
            signal.alarm_age_ms = alarms[next++].since_us / 1000;
        }
        if (signal.factor > 1 || signal.alarm)
            ret_signals[count++] = signal;
    }
    return count;
}

/* For metrics: looks at every record once. */
void node_health_count(const struct node_health *health, struct node_health_counts *ret_counts)
{
    struct health_alarm alarms[TELEMETRY_SIGNAL_COUNT];
    uint64_t at_us = now_us(health);

    *ret_counts = (struct node_health_counts){.drains_total = health->drains_total,
                                              .drains_held_total = health->held_total};
    for (uint32_t slot = 0; slot < health->count; slot++) {
        const struct health *of = &health->records[slot].health;

        ret_counts->dropped_total += of->dropped;
        if (!health->records[slot].unwell)
            continue;
        ret_counts->unwell += health_factor(of, &health->policy, at_us) > 1;
        ret_counts->alarms += health_alarms(of, &health->policy, at_us, alarms) > 0;
    }
}

/* ---- life ---- */

struct node_health *node_health_new(struct broker *broker)
{
    struct node_health *health = check_calloc(1, sizeof(*health));
    struct node_health_config config;

    health->broker = broker;
    node_health_config_default(&config);
    node_health_configure(health, &config);
    return health;
}

void node_health_free(struct node_health *health)
{
    if (health == NULL)
        return;
    for (uint32_t slot = 0; slot < health->count; slot++)
        health_close(&health->records[slot].health);
    free(health->records);
    free(health);
}
