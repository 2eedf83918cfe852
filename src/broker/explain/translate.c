/* Views of the replicated state as messages of the API. See translate.h. */
#include "src/broker/explain/translate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/begin.h"
#include "fsm/ends.h"
#include "fsm/restart.h"
#include "src/base/check.h"

enum { SCRATCH_BLOCK_BYTES = 16384, PATH_MAX_BYTES = 4096, MINUTE_MS = 60000, PPM = 1000000 };

/* Memory of one answer: taken in pieces, freed at once. */
struct scratch_block {
    struct scratch_block *next;
    size_t used;
    size_t size;
    _Alignas(16) uint8_t bytes[];
};

void *scratch_take(struct scratch *scratch, size_t count, size_t size)
{
    struct scratch_block *block = scratch->blocks;
    size_t wanted;
    void *place;

    CHECK(!__builtin_mul_overflow(count, size, &wanted));
    wanted = (wanted + 15) & ~(size_t)15;
    if (block == NULL || block->size - block->used < wanted) {
        size_t room = wanted > SCRATCH_BLOCK_BYTES ? wanted : SCRATCH_BLOCK_BYTES;
        block = check_alloc(sizeof(*block) + room);
        block->used = 0;
        block->size = room;
        block->next = scratch->blocks;
        scratch->blocks = block;
    }
    place = block->bytes + block->used;
    block->used += wanted;
    return memset(place, 0, wanted);
}

char *scratch_printf(struct scratch *scratch, const char *format, ...)
{
    va_list arguments;
    char *text;
    int length;

    va_start(arguments, format);
    length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    CHECK(length >= 0);
    text = scratch_take(scratch, (size_t)length + 1, 1);
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

void scratch_free(struct scratch *scratch)
{
    while (scratch->blocks != NULL) {
        struct scratch_block *block = scratch->blocks;
        scratch->blocks = block->next;
        free(block);
    }
}

char *translate_text(const char *text)
{
    return (char *)(uintptr_t)(text == NULL ? "" : text);
}

const char *translate_weight(struct fsm_weight weight, char text[WEIGHT_TEXT_BYTES])
{
    if (weight.nodes > 0)
        snprintf(text, WEIGHT_TEXT_BYTES, "%u node%s x %u", weight.nodes,
                 weight.nodes == 1 ? "" : "s", weight.gpus / weight.nodes);
    else
        snprintf(text, WEIGHT_TEXT_BYTES, "%u GPU%s", weight.gpus, weight.gpus == 1 ? "" : "s");
    return text;
}

static char *node_home(const struct fsm *fsm, uint32_t node_slot)
{
    const struct fsm_node *node = fsm_node_find_slot(fsm, node_slot);

    return translate_text(node == NULL ? "" : node->home_vcluster);
}

static void translate_nodes(const struct fsm *fsm, const struct fsm_allocation *allocation,
                            struct scratch *scratch, Ckpt__V1__AllocationSpec *spec)
{
    Ckpt__V1__NodeShare *shares =
        scratch_take(scratch, allocation->node_count, sizeof(Ckpt__V1__NodeShare));

    spec->n_nodes = allocation->node_count;
    spec->nodes = scratch_take(scratch, allocation->node_count, sizeof(Ckpt__V1__NodeShare *));
    for (uint32_t i = 0; i < allocation->node_count; i++) {
        ckpt__v1__node_share__init(&shares[i]);
        shares[i].node_id = translate_text(fsm_node_name(fsm, allocation->nodes[i].node_slot));
        RECORD_COPY(FSM_SHARE_SPEC, &allocation->nodes[i], &shares[i]);
        shares[i].home_vcluster = node_home(fsm, allocation->nodes[i].node_slot);
        spec->nodes[i] = &shares[i];
    }
}

static Ckpt__V1__AllocationSpec *translate_spec(const struct fsm *fsm,
                                                const struct fsm_allocation *allocation,
                                                struct scratch *scratch)
{
    Ckpt__V1__AllocationSpec *spec = scratch_take(scratch, 1, sizeof(*spec));

    fsm_spec_to_message(allocation, spec);
    spec->target_id = translate_text(fsm_target_name(fsm, allocation->target_slot));
    translate_nodes(fsm, allocation, scratch, spec);
    return spec;
}

static void translate_runs(const struct fsm_allocation *allocation, struct scratch *scratch,
                           Ckpt__V1__Allocation *ret_allocation)
{
    ret_allocation->n_node_runs = allocation->node_count;
    ret_allocation->node_runs =
        scratch_take(scratch, allocation->node_count, sizeof(ret_allocation->node_runs[0]));
    for (uint32_t i = 0; i < allocation->node_count; i++)
        ret_allocation->node_runs[i] = allocation->nodes[i].run;
}

/* The nodes that a scale-down is about to take away. */
static void translate_leaving(const struct fsm *fsm, const struct fsm_allocation *allocation,
                              struct scratch *scratch, Ckpt__V1__Allocation *ret_allocation)
{
    if (allocation->next_count == 0)
        return;
    ret_allocation->leaving_node_ids =
        scratch_take(scratch, allocation->node_count, sizeof(ret_allocation->leaving_node_ids[0]));
    for (uint32_t i = 0; i < allocation->node_count; i++) {
        uint32_t slot = allocation->nodes[i].node_slot;
        bool stays = false;

        for (uint32_t j = 0; j < allocation->next_count && !stays; j++)
            stays = allocation->next[j].node_slot == slot;
        if (!stays)
            ret_allocation->leaving_node_ids[ret_allocation->n_leaving_node_ids++] =
                translate_text(fsm_node_name(fsm, slot));
    }
}

static Ckpt__V1__Learned *translate_learned(const struct fsm_allocation *allocation,
                                            struct scratch *scratch)
{
    const struct fsm_learned *from = &allocation->learned;
    Ckpt__V1__Learned *learned = scratch_take(scratch, 1, sizeof(*learned));

    ckpt__v1__learned__init(learned);
    learned->count = from->count;
    learned->write_ms = from->write_mean_us / 1000;
    learned->write_deviation_ms = from->write_deviation_us / 1000;
    learned->size_bytes = from->count > 0 ? allocation->size_estimate_bytes : 0;
    learned->size_deviation_bytes = from->size_deviation_bytes;
    learned->success_ppm = fsm_success_ppm(from);
    learned->stall_ppm = from->stall_ppm;
    learned->stall_measured = from->stall_measured;
    return learned;
}

/* Where its last complete checkpoint lies, and where the next one goes. */
static void translate_targets(const struct fsm *fsm, const struct fsm_allocation *allocation,
                              Ckpt__V1__Allocation *ret_allocation)
{
    const struct fsm_checkpoint *last = fsm_checkpoint_find(fsm, allocation->last_complete_id);
    const struct fsm_target *next = fsm_destination(fsm, allocation);

    if (last != NULL)
        ret_allocation->last_target_id = translate_text(fsm_target_name(fsm, last->target_slot));
    ret_allocation->next_target_id = translate_text(next == NULL ? "" : next->id);
}

static Ckpt__V1__Restoring *translate_restoring(const struct fsm *fsm,
                                                const struct fsm_allocation *allocation,
                                                struct scratch *scratch)
{
    Ckpt__V1__Restoring *restoring;
    struct fsm_reads reads;
    struct fsm_discard discard;

    fsm_reads(fsm, allocation, &reads);
    if (reads.target == NULL)
        return NULL;
    restoring = scratch_take(scratch, 1, sizeof(*restoring));
    ckpt__v1__restoring__init(restoring);
    restoring->target_id = translate_text(reads.target->id);
    restoring->reading_parts = reads.reading;
    restoring->waiting_parts = reads.waiting;
    restoring->place = reads.place;
    restoring->line = reads.line;
    fsm_begin_discards(fsm, allocation, &discard);
    restoring->discarded_ms = discard.discarded_ms;
    restoring->discard_at_ms = discard.at_ms;
    return restoring;
}

Ckpt__V1__ReleaseCheck *translate_release_check(const struct fsm *fsm,
                                                const struct fsm_allocation *allocation,
                                                struct scratch *scratch)
{
    const struct fsm_verification *held = fsm_release_held(fsm, allocation->slot);
    Ckpt__V1__ReleaseCheck *check;

    if (held == NULL)
        return NULL;
    check = scratch_take(scratch, 1, sizeof(*check));
    ckpt__v1__release_check__init(check);
    check->checkpoint_id = held->checkpoint_id;
    check->node_id = translate_text(fsm_node_name(fsm, held->node_slot));
    check->part = held->part;
    check->parts = fsm_checkpoint_find(fsm, held->checkpoint_id)->shard_count;
    check->until_ms = held->deadline_ms;
    return check;
}

void translate_allocation(const struct fsm *fsm, const struct fsm_allocation *allocation,
                          struct scratch *scratch, Ckpt__V1__Allocation *ret_allocation)
{
    const struct fsm_checkpoint *point;
    const struct fsm_node *silent = fsm_allocation_silent(fsm, allocation);
    const struct fsm_node *unended = fsm_allocation_unended(fsm, allocation);
    const struct fsm_node *never = fsm_allocation_never_heard(fsm, allocation);
    struct fsm_weight weight = fsm_allocation_weight(fsm, allocation);
    struct fsm_account account;

    fsm_allocation_to_message(allocation, ret_allocation);
    ret_allocation->spec = translate_spec(fsm, allocation, scratch);
    translate_runs(allocation, scratch, ret_allocation);
    ret_allocation->active_checkpoint_id = allocation->active_checkpoint_id;
    ret_allocation->last_complete_checkpoint_id = allocation->last_complete_id;
    ret_allocation->last_complete_snapshot_at_ms = allocation->last_complete_snapshot_ms;
    ret_allocation->checkpoint_count = allocation->complete_count;
    fsm_allocation_account(fsm, allocation, 0, &account);
    ret_allocation->lost_gpu_ms = fsm_account_repeated(&account);
    ret_allocation->learned = translate_learned(allocation, scratch);
    ret_allocation->preemption_id = allocation->preemption_id;
    ret_allocation->stop_way = fsm_victim_stop_way(fsm, allocation);
    ret_allocation->weight_gpus = weight.gpus;
    ret_allocation->weighed_by =
        scratch_printf(scratch, "%s", translate_weight(weight, (char[WEIGHT_TEXT_BYTES]){""}));
    if (silent != NULL) {
        ret_allocation->silent_node_id = translate_text(silent->id);
        ret_allocation->silent_since_ms = fsm_node_silent_since_ms(silent);
    }
    if (unended != NULL)
        ret_allocation->unended_node_id = translate_text(unended->id);
    if (never != NULL)
        ret_allocation->never_heard_node_id = translate_text(never->id);
    ret_allocation->min_interval_ms = allocation->sensitive
                                          ? fsm_policy(fsm)->sensitive_min_interval_ms
                                          : fsm_policy(fsm)->min_interval_ms;
    ret_allocation->requeues_used = fsm_restart_requeues_used(fsm, allocation);
    ret_allocation->excluded_until_ms = fsm_restart_excluded_until_ms(allocation);
    if (!fsm_restart_awaited(fsm, allocation))
        ret_allocation->restart_at_ms = 0; /* its mode changed since, or another job continues it */
    ret_allocation->restart_checkpoint_id = allocation->restart_id;
    point = fsm_restart_point(fsm, allocation->id, 0);
    ret_allocation->next_restart_checkpoint_id = point == NULL ? 0 : point->id;
    translate_targets(fsm, allocation, ret_allocation);
    ret_allocation->restoring = translate_restoring(fsm, allocation, scratch);
    ret_allocation->release_check = translate_release_check(fsm, allocation, scratch);
    translate_leaving(fsm, allocation, scratch, ret_allocation);
}

static void translate_places(const struct fsm *fsm, const struct fsm_shard *shard,
                             struct scratch *scratch, Ckpt__V1__ShardInfo *ret_info)
{
    Ckpt__V1__ShardPlace *places = scratch_take(scratch, FSM_SHARD_PLACES_MAX, sizeof(*places));

    ret_info->places = scratch_take(scratch, FSM_SHARD_PLACES_MAX, sizeof(*ret_info->places));
    for (uint32_t i = 0; i < shard->place_count; i++) {
        uint32_t slot = (uint32_t)shard->places[i];

        ckpt__v1__shard_place__init(&places[i]);
        if (shard->places[i] >> 32 == FSM_PLACE_NODE)
            places[i].node_id = translate_text(fsm_node_name(fsm, slot));
        else
            places[i].target_id = translate_text(fsm_target_at(fsm, slot)->id);
        ret_info->places[i] = &places[i];
    }
    ret_info->n_places = shard->place_count;
}

/* In the order of the state, which is that of the allocation's nodes at the time of the
 * checkpoint. */
size_t translate_shards(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint,
                        struct scratch *scratch, Ckpt__V1__ShardInfo ***ret_shards)
{
    Ckpt__V1__ShardInfo *infos =
        scratch_take(scratch, checkpoint->shard_count, sizeof(Ckpt__V1__ShardInfo));

    *ret_shards = scratch_take(scratch, checkpoint->shard_count, sizeof(Ckpt__V1__ShardInfo *));
    for (uint32_t i = 0; i < checkpoint->shard_count; i++) {
        const struct fsm_shard *shard = &checkpoint->shards[i];

        ckpt__v1__shard_info__init(&infos[i]);
        infos[i].node_id = translate_text(fsm_node_name(fsm, shard->node_slot));
        infos[i].started = shard->started;
        infos[i].verified = shard->verified;
        infos[i].size_bytes = shard->size_bytes;
        infos[i].written_bytes = shard->written_bytes;
        infos[i].staging = shard->staging;
        infos[i].part = i;
        infos[i].ranks = shard->ranks;
        translate_places(fsm, shard, scratch, &infos[i]);
        if (shard->verified) {
            infos[i].manifest_sha256 =
                scratch_take(scratch, 2 * sizeof(shard->manifest_sha256) + 1, 1);
            for (size_t b = 0; b < sizeof(shard->manifest_sha256); b++)
                snprintf(infos[i].manifest_sha256 + 2 * b, 3, "%02x", shard->manifest_sha256[b]);
        }
        (*ret_shards)[i] = &infos[i];
    }
    return checkpoint->shard_count;
}

char *translate_checkpoint_path(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint,
                                struct scratch *scratch)
{
    char path[PATH_MAX_BYTES];

    /* A path that does not fit is impossible by the limits of its parts. */
    CHECK(fsm_checkpoint_path(fsm, checkpoint, path, sizeof(path)) > 0);
    return scratch_printf(scratch, "%s", path);
}

char *translate_checkpoints_path(const struct fsm *fsm, const struct fsm_allocation *allocation,
                                 const struct fsm_target *target, struct scratch *scratch)
{
    char path[PATH_MAX_BYTES];

    CHECK(fsm_checkpoints_path(fsm, allocation, target, path, sizeof(path)) > 0); /* likewise */
    return scratch_printf(scratch, "%s", path);
}

void translate_checkpoint(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint,
                          struct scratch *scratch, Ckpt__V1__Checkpoint *ret_checkpoint)
{
    const struct fsm_allocation *allocation = fsm_allocation_at(fsm, checkpoint->allocation_slot);
    const struct fsm_target *target = fsm_target_find_slot(fsm, checkpoint->target_slot);

    fsm_checkpoint_to_message(checkpoint, ret_checkpoint);
    if (target != NULL)
        ret_checkpoint->target_prefix = translate_text(target->prefix);
    ret_checkpoint->snapshot_at_ms = checkpoint->snapshot_at_ms;
    ret_checkpoint->allocation_id = translate_text(allocation->id);
    ret_checkpoint->target_id = translate_text(fsm_target_name(fsm, checkpoint->target_slot));
    ret_checkpoint->path = translate_checkpoint_path(fsm, checkpoint, scratch);
    ret_checkpoint->machine = translate_text(checkpoint->machine);
    ret_checkpoint->os = translate_text(checkpoint->os);
    if (checkpoint->told_write_ms != 0)
        ret_checkpoint->told_end_at_ms = checkpoint->snapshot_at_ms + checkpoint->told_write_ms;
    ret_checkpoint->n_shards = translate_shards(fsm, checkpoint, scratch, &ret_checkpoint->shards);
}

/* As the state has it: what the leader's probes found is added by the caller. */
void translate_target(const struct fsm_target *target, struct scratch *scratch,
                      Ckpt__V1__TargetStatus *ret_target)
{
    ckpt__v1__target_status__init(ret_target);
    ret_target->spec = scratch_take(scratch, 1, sizeof(*ret_target->spec));
    fsm_target_spec_to_message(target, ret_target->spec);
    RECORD_COPY(FSM_TARGET_STATUS, target, ret_target);
    ret_target->granted_bytes_per_s = target->granted_bytes_per_s;
    ret_target->budget_bytes_per_s = target->budget_bytes_per_s;
    ret_target->paused_count = target->paused_count;
    ret_target->restores_reading = target->reading_count;
    ret_target->restores_waiting = target->waiting_count;
    ret_target->restores_line = target->line_count;
    ret_target->read_granted_bytes_per_s = target->read_granted_bytes_per_s;
    ret_target->parts_writing = target->writing_count;
}

const char *translate_role(const struct consensus_status *status)
{
    if (status->member_role == CONSENSUS_LEARNER)
        return "learner";
    if (status->founding[0] != '\0')
        return "founding";
    switch (status->role) {
    case CONSENSUS_FOLLOWER:
        return "follower";
    case CONSENSUS_CANDIDATE:
        return "candidate";
    case CONSENSUS_LEADER:
        return "leader";
    }
    CHECK_UNREACHABLE("role");
}

/* A node that was drained at level 1 is DRAINING, and told as drained once nothing runs there. */
const char *translate_node_state(const struct fsm_node *node)
{
    switch (node->state) {
    case CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY:
        return "ready";
    case CKPT__LOG__V1__NODE_STATE__NODE_STATE_DEGRADED:
        return "degraded";
    case CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN:
        return "down";
    case CKPT__LOG__V1__NODE_STATE__NODE_STATE_DRAINING:
        return node->allocation_count == 0 ? "drained" : "draining";
    case CKPT__LOG__V1__NODE_STATE__NODE_STATE_AGENT_LOST:
        return "agent_lost";
    case CKPT__LOG__V1__NODE_STATE__NODE_STATE_DRAINED:
        return "drained";
    case CKPT__LOG__V1__NODE_STATE__NODE_STATE_DISABLED:
        return "disabled";
    case CKPT__LOG__V1__NODE_STATE__NODE_STATE_UNSPECIFIED:
    case _CKPT__LOG__V1__NODE_STATE_IS_INT_SIZE:
        break;
    }
    return "unknown";
}

uint32_t translate_checkpoint_efficiency(const Ckpt__V1__Policy *policy,
                                         const struct fsm_allocation *allocation)
{
    uint64_t rate = allocation->write_bytes_per_s != 0 ? allocation->write_bytes_per_s
                                                       : policy->default_write_bytes_per_s;
    uint64_t ms = allocation->write_estimate_ms;
    uint64_t told_ms = fsm_told_write_ms(policy, allocation);

    if (allocation->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE)
        return 0;
    if (ms == 0 && rate > 0 && allocation->node_count > 0)
        ms = (uint64_t)((unsigned __int128)allocation->size_estimate_bytes * 1000 / rate /
                        allocation->node_count);
    if (told_ms > ms)
        ms = told_ms;
    if (ms > UINT64_MAX / PPM / 2)
        return 0;
    return (uint32_t)((uint64_t)PPM * MINUTE_MS / (MINUTE_MS + ms));
}

void translate_part(const struct fsm *fsm, const struct fsm_part *part, uint64_t now_ms,
                    Ckpt__V1__AllocationPart *message)
{
    const struct fsm_allocation *allocation = part->allocation;
    uint64_t end_ms = allocation->started_at_ms + allocation->walltime_ms;

    ckpt__v1__allocation_part__init(message);
    message->allocation_id = translate_text(allocation->id);
    if (allocation->walltime_ms != 0 && end_ms > now_ms)
        message->remaining_ms = end_ms - now_ms;
    message->grace_ms = allocation->grace_ms > 0 ? allocation->grace_ms : fsm_policy(fsm)->grace_ms;
    message->walltime_ms = allocation->walltime_ms;
    message->run = part->run;
    message->part = part->place;
    message->parts = allocation->node_count;
    message->restart_checkpoint_id = fsm_begin_id(fsm, allocation);
    message->begin = part->begin;
    message->joined = part->joined;
    message->restored = part->restored;
    message->read = part->read;
    message->read_bytes_per_s = part->read_bytes_per_s;
}
