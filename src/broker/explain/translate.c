/* Views of the replicated state as messages of the API. See translate.h. */
#include "src/broker/explain/translate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

enum { SCRATCH_BLOCK_BYTES = 16384, PATH_MAX_BYTES = 4096, MINUTE_MS = 60000, PPM = 1000000 };

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

static char *node_home(const struct fsm *fsm, uint32_t node_slot)
{
    const struct fsm_node *node = fsm_node_at(fsm, node_slot);

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
        shares[i].gpu_count = allocation->nodes[i].gpu_count;
        shares[i].gpu_memory_used_bytes = allocation->nodes[i].gpu_memory_used_bytes;
        shares[i].borrowed = allocation->nodes[i].borrowed;
        shares[i].home_vcluster = node_home(fsm, allocation->nodes[i].node_slot);
        spec->nodes[i] = &shares[i];
    }
}

static Ckpt__V1__AllocationSpec *translate_spec(const struct fsm *fsm,
                                                const struct fsm_allocation *allocation,
                                                struct scratch *scratch)
{
    Ckpt__V1__AllocationSpec *spec = scratch_take(scratch, 1, sizeof(*spec));

    ckpt__v1__allocation_spec__init(spec);
    spec->allocation_id = translate_text(allocation->id);
    spec->tenant = translate_text(allocation->tenant);
    spec->project = translate_text(allocation->project);
    spec->vcluster = translate_text(allocation->vcluster);
    spec->owner = translate_text(allocation->owner);
    spec->profile = translate_text(allocation->profile);
    spec->target_id = translate_text(fsm_target_name(fsm, allocation->target_slot));
    spec->preemption_class = allocation->preemption_class;
    spec->sensitive = allocation->sensitive;
    spec->strategy = allocation->strategy;
    spec->requeue_policy = allocation->requeue_policy;
    spec->vcluster_kind = allocation->vcluster_kind;
    spec->max_requeue = allocation->max_requeue;
    spec->reactive_min_nodes = allocation->reactive_min_nodes;
    spec->reactive_max_nodes = allocation->reactive_max_nodes;
    spec->submitted_at_ms = allocation->submitted_at_ms;
    spec->started_at_ms = allocation->started_at_ms;
    spec->walltime_ms = allocation->walltime_ms;
    spec->grace_ms = allocation->grace_ms;
    spec->period_ms = allocation->period_ms;
    spec->checkpoint_timeout_ms = allocation->checkpoint_timeout_ms;
    spec->write_bytes_per_s = allocation->write_bytes_per_s;
    translate_nodes(fsm, allocation, scratch, spec);
    return spec;
}

static void translate_lives(const struct fsm_allocation *allocation, struct scratch *scratch,
                            Ckpt__V1__Allocation *ret_allocation)
{
    ret_allocation->n_node_lives = allocation->node_count;
    ret_allocation->node_lives =
        scratch_take(scratch, allocation->node_count, sizeof(ret_allocation->node_lives[0]));
    for (uint32_t i = 0; i < allocation->node_count; i++)
        ret_allocation->node_lives[i] = allocation->nodes[i].life;
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

void translate_allocation(const struct fsm *fsm, const struct fsm_allocation *allocation,
                          struct scratch *scratch, Ckpt__V1__Allocation *ret_allocation)
{
    struct fsm_account account;

    ckpt__v1__allocation__init(ret_allocation);
    ret_allocation->spec = translate_spec(fsm, allocation, scratch);
    translate_lives(allocation, scratch, ret_allocation);
    ret_allocation->state = allocation->state;
    ret_allocation->reason = allocation->reason;
    ret_allocation->state_since_ms = allocation->state_since_ms;
    ret_allocation->registered_index = allocation->registered_index;
    ret_allocation->active_checkpoint_id = allocation->active_checkpoint_id;
    ret_allocation->last_complete_checkpoint_id = allocation->last_complete_id;
    ret_allocation->last_complete_snapshot_at_ms = allocation->last_complete_snapshot_ms;
    ret_allocation->checkpoint_count = allocation->complete_count;
    ret_allocation->requeue_count = allocation->requeue_count;
    ret_allocation->preempted_count = allocation->preempted_count;
    ret_allocation->non_preemptible = allocation->non_preemptible;
    fsm_allocation_account(fsm, allocation, 0, &account);
    ret_allocation->lost_gpu_ms = fsm_account_repeated(&account);
    ret_allocation->size_estimate_bytes = allocation->size_estimate_bytes;
    ret_allocation->write_estimate_ms = allocation->write_estimate_ms;
    ret_allocation->restart_count = allocation->restart_count;
    ret_allocation->learned = translate_learned(allocation, scratch);
    ret_allocation->preemption_id = allocation->preemption_id;
    translate_leaving(fsm, allocation, scratch, ret_allocation);
}

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

void translate_checkpoint(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint,
                          struct scratch *scratch, Ckpt__V1__Checkpoint *ret_checkpoint)
{
    const struct fsm_allocation *allocation = fsm_allocation_at(fsm, checkpoint->allocation_slot);

    ckpt__v1__checkpoint__init(ret_checkpoint);
    ret_checkpoint->checkpoint_id = checkpoint->id;
    ret_checkpoint->allocation_id = translate_text(allocation == NULL ? "" : allocation->id);
    ret_checkpoint->state = checkpoint->state;
    ret_checkpoint->purpose = checkpoint->purpose;
    ret_checkpoint->after = checkpoint->after;
    ret_checkpoint->reason = checkpoint->reason;
    ret_checkpoint->detail = translate_text(checkpoint->detail);
    ret_checkpoint->attempt = checkpoint->attempt;
    ret_checkpoint->target_id = translate_text(fsm_target_name(fsm, checkpoint->target_slot));
    ret_checkpoint->created_at_ms = checkpoint->created_at_ms;
    ret_checkpoint->dispatched_at_ms = checkpoint->dispatched_at_ms;
    ret_checkpoint->completed_at_ms = checkpoint->completed_at_ms;
    ret_checkpoint->deadline_ms = checkpoint->deadline_ms;
    ret_checkpoint->state_since_ms = checkpoint->state_since_ms;
    ret_checkpoint->size_bytes = checkpoint->size_bytes;
    ret_checkpoint->granted_bytes_per_s = checkpoint->granted_bytes_per_s;
    ret_checkpoint->paused_count = checkpoint->paused_count;
    ret_checkpoint->resumed_count = checkpoint->resumed_count;
    ret_checkpoint->extended = checkpoint->extended;
    ret_checkpoint->deferred_ms = checkpoint->deferred_ms;
    ret_checkpoint->recompute_saved_gpu_ms = checkpoint->recompute_saved_gpu_ms;
    ret_checkpoint->terms = (Ckpt__V1__DecisionTerms *)(uintptr_t)checkpoint->terms;
    ret_checkpoint->path = translate_checkpoint_path(fsm, checkpoint, scratch);
    ret_checkpoint->n_shards = translate_shards(fsm, checkpoint, scratch, &ret_checkpoint->shards);
}

void translate_target(const struct fsm_target *target, struct scratch *scratch,
                      Ckpt__V1__TargetStatus *ret_target)
{
    Ckpt__V1__TargetSpec *spec = scratch_take(scratch, 1, sizeof(*spec));

    ckpt__v1__target_spec__init(spec);
    spec->target_id = translate_text(target->id);
    spec->kind = target->kind;
    spec->prefix = translate_text(target->prefix);
    spec->domain = translate_text(target->domain);
    spec->write_bytes_per_s = target->write_bytes_per_s;
    spec->staging_share_ppm = target->staging_share_ppm;
    spec->cost_micro_usd_per_gb_month = target->cost_micro_usd_per_gb_month;
    spec->is_default = target->is_default;
    ckpt__v1__target_status__init(ret_target);
    ret_target->spec = spec;
    ret_target->available = target->available;
    ret_target->since_ms = target->since_ms;
    ret_target->reason = target->reason;
    ret_target->granted_bytes_per_s = target->granted_bytes_per_s;
    ret_target->budget_bytes_per_s = target->budget_bytes_per_s;
    ret_target->paused_count = target->paused_count;
    ret_target->measured_bytes_per_s = target->measured_bytes_per_s;
    ret_target->measured_at_ms = target->measured_at_ms;
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

    if (allocation->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE)
        return 0;
    if (ms == 0 && rate > 0 && allocation->node_count > 0)
        ms = (uint64_t)((unsigned __int128)allocation->size_estimate_bytes * 1000 / rate /
                        allocation->node_count);
    if (ms > UINT64_MAX / PPM / 2)
        return 0;
    return (uint32_t)((uint64_t)PPM * MINUTE_MS / (MINUTE_MS + ms));
}

void translate_part(const struct fsm *fsm, const struct fsm_allocation *allocation, uint64_t now_ms,
                    Ckpt__V1__AllocationPart *message)
{
    uint64_t end_ms = allocation->started_at_ms + allocation->walltime_ms;

    ckpt__v1__allocation_part__init(message);
    message->allocation_id = translate_text(allocation->id);
    if (allocation->walltime_ms != 0 && end_ms > now_ms)
        message->remaining_ms = end_ms - now_ms;
    message->grace_ms = allocation->grace_ms > 0 ? allocation->grace_ms : fsm_policy(fsm)->grace_ms;
    message->walltime_ms = allocation->walltime_ms;
}
