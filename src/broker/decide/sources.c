/* See sources.h. */
#include "src/broker/decide/sources.h"

#include <stdio.h>
#include <string.h>

#include "fsm/fsm.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/broker/health/node_health.h"
#include "src/broker/health/nodes.h"

static const struct {
    const char *number;
    enum source source;
} listed[] = {
    {"size_bytes", SOURCE_OWN},
    {"write_quantile_s", SOURCE_OWN},
    {"success_probability", SOURCE_OUTCOMES},
    {"stall_factor", SOURCE_OWN},
    {"bandwidth_bytes_per_s", SOURCE_TARGET},
    {"usd_per_gb_month", SOURCE_TARGET},
    {"hazard_factor", SOURCE_AGENTS},
    {"alarm_h", SOURCE_SENSORS},
    {"kill_per_s", SOURCE_FLEET},
    {"yield_probability", SOURCE_FLEET},
    {"lambda_node_per_s", SOURCE_FLEET},
    {"waiting_gain_gpu_s", SOURCE_QUEUE},
    {"pressure", SOURCE_QUEUE},
    {"backlog_urgency", SOURCE_QUEUE},
};

const char *source_name(enum source source)
{
    static const char *const names[] = {
#define X(name, text) text,
        SOURCES(X)
#undef X
    };

    CHECK(source < SOURCE_COUNT);
    return names[source];
}

const char *source_prior(enum source source)
{
    switch (source) {
    case SOURCE_OWN:
        return "none yet: as registered";
    case SOURCE_OUTCOMES:
        return "none yet: as most do";
    case SOURCE_AGENTS:
        return "blind: not all heard of yet";
    case SOURCE_QUEUE:
        return "none that is fresh";
    case SOURCE_FLEET:
        return "nothing yet: the policy's prior";
    case SOURCE_SENSORS:
        return "none";
    case SOURCE_STATE:
    case SOURCE_TARGET:
    case SOURCE_COUNT:
        break;
    }
    return "unknown";
}

enum source source_of(const char *number)
{
    for (size_t i = 0; i < ARRAY_COUNT(listed); i++)
        if (strcmp(listed[i].number, number) == 0)
            return listed[i].source;
    return SOURCE_STATE;
}

static uint32_t between_ms(uint64_t from_ms, uint64_t to_ms)
{
    uint64_t age_ms = to_ms > from_ms ? to_ms - from_ms : 0;

    return age_ms < SOURCE_NOTHING ? (uint32_t)age_ms : SOURCE_NOTHING - 1;
}

/* The newest one that was complete by then; NULL: none. */
static const struct fsm_checkpoint *own_checkpoint(const struct fsm *fsm,
                                                   const struct fsm_allocation *allocation,
                                                   uint64_t at_ms)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_next_of(fsm, allocation->slot, 0);
    const struct fsm_checkpoint *newest = NULL;

    for (; checkpoint != NULL;
         checkpoint = fsm_checkpoint_next_of(fsm, allocation->slot, checkpoint->id))
        if (checkpoint->completed_at_ms != 0 && checkpoint->completed_at_ms <= at_ms)
            newest = checkpoint;
    return newest;
}

static uint32_t own_age(const struct fsm *fsm, const struct fsm_allocation *allocation,
                        uint64_t at_ms)
{
    const struct fsm_checkpoint *checkpoint = own_checkpoint(fsm, allocation, at_ms);

    return checkpoint != NULL ? between_ms(checkpoint->completed_at_ms, at_ms) : SOURCE_NOTHING;
}

static uint32_t outcomes_age(const struct fsm_allocation *allocation, uint64_t at_ms)
{
    return allocation->last_attempt_end_ms != 0 ? between_ms(allocation->last_attempt_end_ms, at_ms)
                                                : SOURCE_NOTHING;
}

/* Of the node whose last heartbeat is the longest ago. */
static uint32_t agents_age(const struct nodes *nodes, const struct fsm_allocation *allocation,
                           uint32_t *ret_node_slot)
{
    uint64_t oldest_ms = 0;

    *ret_node_slot = allocation->node_count > 0 ? allocation->nodes[0].node_slot : UINT32_MAX;
    if (nodes == NULL)
        return SOURCE_NOTHING;
    for (uint32_t i = 0; i < allocation->node_count; i++) {
        uint64_t age_ms = nodes_heartbeat_age_ms(nodes, allocation->nodes[i].node_slot);

        if (age_ms <= oldest_ms)
            continue;
        oldest_ms = age_ms;
        *ret_node_slot = allocation->nodes[i].node_slot;
    }
    return oldest_ms == UINT64_MAX ? SOURCE_NOTHING : between_ms(0, oldest_ms);
}

/* Nodes that nobody speaks of are well as far as anybody knows: the others' ages count. */
static uint32_t sensors_age(const struct nodes *nodes, const struct fsm_allocation *allocation)
{
    const struct node_health *health = nodes_health(nodes);
    uint64_t oldest_ms = UINT64_MAX;

    for (uint32_t i = 0; i < allocation->node_count; i++) {
        uint64_t age_ms = node_health_age_ms(health, allocation->nodes[i].node_slot);

        if (age_ms != UINT64_MAX && (oldest_ms == UINT64_MAX || age_ms > oldest_ms))
            oldest_ms = age_ms;
    }
    return oldest_ms == UINT64_MAX ? SOURCE_NOTHING : between_ms(0, oldest_ms);
}

/* Of the oldest report that counts. */
static uint32_t queue_age(const struct fsm *fsm, uint64_t at_ms, struct fsm_queue *ret_oldest)
{
    uint32_t oldest_ms = SOURCE_NOTHING;

    for (size_t i = 0; i < fsm_queue_count(fsm); i++) {
        struct fsm_queue queue;
        uint32_t age_ms;

        fsm_queue_at(fsm, i, &queue);
        age_ms = between_ms(queue.reported_at_ms, at_ms);
        if (queue.reported_at_ms > at_ms || age_ms > fsm_policy(fsm)->queue_max_age_ms ||
            (oldest_ms != SOURCE_NOTHING && age_ms <= oldest_ms))
            continue;
        oldest_ms = age_ms;
        *ret_oldest = queue;
    }
    return oldest_ms;
}

const char *sources_subject(const struct fsm *fsm, const struct nodes *nodes,
                            const struct fsm_allocation *allocation, uint64_t at_ms,
                            enum source source, char text[SOURCE_SUBJECT_BYTES])
{
    const size_t size = SOURCE_SUBJECT_BYTES;
    const struct fsm_checkpoint *checkpoint;
    const struct fsm_target *target;
    const struct fsm_node *node;
    struct fsm_queue queue;
    char id[CHECKPOINT_ID_TEXT_BYTES];
    uint32_t node_slot;

    text[0] = '\0';
    if (source == SOURCE_OWN) {
        checkpoint = own_checkpoint(fsm, allocation, at_ms);
        if (checkpoint != NULL)
            snprintf(text, size, "checkpoint %s", checkpoint_id_format(checkpoint->id, id));
    } else if (source == SOURCE_AGENTS) {
        agents_age(nodes, allocation, &node_slot);
        node = node_slot == UINT32_MAX ? NULL : fsm_node_find_slot(fsm, node_slot);
        if (node != NULL)
            snprintf(text, size, "node %s", node->id);
    } else if (source == SOURCE_QUEUE && queue_age(fsm, at_ms, &queue) != SOURCE_NOTHING) {
        snprintf(text, size, "vcluster %s", queue.vcluster);
    } else if (source == SOURCE_TARGET) {
        target = fsm_destination(fsm, allocation);
        if (target != NULL)
            snprintf(text, size, "%s%s", target->id,
                     target->measured_bytes_per_s > 0 ? ", measured by its storage system" : "");
    }
    return text;
}

/* Of whether it can be written, or of what is measured. */
static uint64_t last_change_ms(const struct fsm_target *target)
{
    return target->measured_at_ms > target->since_ms ? target->measured_at_ms : target->since_ms;
}

void sources_age(const struct fsm *fsm, const struct nodes *nodes,
                 const struct fsm_allocation *allocation, uint64_t at_ms,
                 uint32_t ret_age_ms[SOURCE_COUNT])
{
    const struct fsm_target *target = fsm_destination(fsm, allocation);
    const Ckpt__Log__V1__SetLearned *learned = fsm_learned(fsm);
    struct fsm_queue queue;
    uint32_t node_slot;

    ret_age_ms[SOURCE_STATE] = 0;
    ret_age_ms[SOURCE_OWN] = own_age(fsm, allocation, at_ms);
    ret_age_ms[SOURCE_AGENTS] = agents_age(nodes, allocation, &node_slot);
    ret_age_ms[SOURCE_QUEUE] = queue_age(fsm, at_ms, &queue);
    ret_age_ms[SOURCE_TARGET] =
        target != NULL ? between_ms(last_change_ms(target), at_ms) : SOURCE_NOTHING;
    ret_age_ms[SOURCE_FLEET] = learned != NULL ? between_ms(learned->at_ms, at_ms) : SOURCE_NOTHING;
    ret_age_ms[SOURCE_SENSORS] = sensors_age(nodes, allocation);
    ret_age_ms[SOURCE_OUTCOMES] = outcomes_age(allocation, at_ms);
}
