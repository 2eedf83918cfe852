/* From fsm_orders_for_node() and fsm_parts_on_node() to the OrderSet that an agent gets.
 *
 * Flow     orders of one node and the parts that may run there, of the applied state alone ->
 *          AgentDown -> bytes.
 * Shapes   messages live during one call; texts are the state's or part of one block per call.
 * Source   agent.proto; invariant I20: only applied state is looked at, so every order's entry is
 *          committed.
 */
#include <stdlib.h>

#include "ckpt/v1/agent.pb-c.h"
#include "fsm/orphans.h"
#include "src/base/check.h"
#include "src/broker/dispatch/dispatcher_internal.h"
#include "src/broker/explain/translate.h"
#include "src/dest/mark.h"
#include "src/dest/sha256.h"

enum {
    ORDERS_PATH_BYTES = 2048,
    ORDERS_PARTS_MAX = 1024,
    ORDERS_COLLECT_MS = 600000 /* of one folder, as a control node has */
};

/* The messages of one set, each array with an array of pointers beside it, as protobuf-c wants
 * them. */
struct order_messages {
    size_t order_count, part_count;
    Ckpt__V1__Order *orders;
    Ckpt__V1__Order **order_pointers;
    char (*paths)[ORDERS_PATH_BYTES];
    Ckpt__V1__AllocationPart *parts;
    Ckpt__V1__AllocationPart **part_pointers;
    size_t copy_count;
    Ckpt__V1__KeptCopy *copies;
    Ckpt__V1__KeptCopy **copy_pointers;
};

static uint64_t cluster_mark(const struct fsm *fsm)
{
    struct fsm_summary summary;

    fsm_get_summary(fsm, &summary);
    return mark_of(summary.cluster_id);
}

/* The grant of a checkpoint is shared equally by its shards. */
static void fill_checkpoint(const struct fsm *fsm, const struct fsm_order *order,
                            Ckpt__V1__Order *message, char path[ORDERS_PATH_BYTES])
{
    const struct fsm_checkpoint *checkpoint = order->checkpoint;
    const struct fsm_target *target = fsm_target_at(fsm, checkpoint->target_slot);

    CHECK(checkpoint->shard_count > 0);
    CHECK(fsm_checkpoint_path(fsm, checkpoint, path, ORDERS_PATH_BYTES) > 0);
    message->kind = CKPT__V1__ORDER_KIND__ORDER_KIND_CHECKPOINT;
    message->checkpoint_id = checkpoint->id;
    message->attempt = checkpoint->attempt;
    message->target_prefix = translate_text(target->prefix);
    message->path = path;
    message->after = checkpoint->after;
    message->part = order->part;
    message->barrier = checkpoint->barrier;
    message->agreed_step = checkpoint->agreed_step;
    message->extended = checkpoint->extended;
    message->read_back = target->read_back;
    message->generations = fsm_newest_damaged(fsm, order->allocation) ? 0 : target->generations;
    message->compression = target->compression;
    message->staging = order->allocation->staging != CKPT__V1__STAGING__STAGING_UNSPECIFIED
                           ? order->allocation->staging
                           : target->staging;
    message->cluster_mark = cluster_mark(fsm);
    message->wipe = order->allocation->sensitive;
    message->granted_bytes_per_s = checkpoint->granted_bytes_per_s / checkpoint->shard_count;
    if (checkpoint->granted_bytes_per_s > 0 && message->granted_bytes_per_s == 0)
        message->granted_bytes_per_s = 1; /* 0 would mean no limit */
}

static void fill_order(const struct fsm *fsm, const struct fsm_order *order,
                       Ckpt__V1__Order *message, char path[ORDERS_PATH_BYTES])
{
    ckpt__v1__order__init(message);
    message->allocation_id = translate_text(order->allocation->id);
    message->profile = translate_text(order->allocation->profile);
    message->timeout_ms = order->timeout_ms;
    message->max_deferral_ms = order->max_deferral_ms;
    message->deferred_ms = order->deferred_ms;
    message->grace_ms = order->grace_ms;
    message->reason = order->reason;
    message->run = order->run;
    switch (order->kind) {
    case FSM_ORDER_CHECKPOINT:
        fill_checkpoint(fsm, order, message, path);
        return;
    case FSM_ORDER_TERMINATE:
        message->kind = CKPT__V1__ORDER_KIND__ORDER_KIND_TERMINATE;
        return;
    }
    CHECK_UNREACHABLE("order kind");
}

/* The attempt tells an order that comes again from one that was carried out. */
static void fill_removal(const struct fsm *fsm, const struct fsm_undeleted *removal,
                         Ckpt__V1__Order *message, char path[ORDERS_PATH_BYTES])
{
    CHECK(fsm_undeleted_path(fsm, removal, path, ORDERS_PATH_BYTES) > 0);
    ckpt__v1__order__init(message);
    message->kind = CKPT__V1__ORDER_KIND__ORDER_KIND_COLLECT;
    message->allocation_id = translate_text(removal->allocation_id);
    message->checkpoint_id = removal->checkpoint_id;
    message->attempt = removal->attempts + 1;
    message->target_prefix = translate_text(fsm_target_at(fsm, removal->target_slot)->prefix);
    message->path = path;
    message->owner = translate_text(removal->owner);
    message->wipe = removal->sensitive;
    message->timeout_ms = ORDERS_COLLECT_MS;
}

/* Of one part; the manifest's text lies behind the path's. */
static void fill_verification(const struct fsm *fsm, const struct fsm_verification *verification,
                              Ckpt__V1__Order *message, char path[ORDERS_PATH_BYTES])
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, verification->checkpoint_id);
    const struct fsm_allocation *job = fsm_allocation_at(fsm, checkpoint->allocation_slot);
    size_t length =
        fsm_checkpoint_path(fsm, checkpoint, path, ORDERS_PATH_BYTES - SHA256_HEX_BYTES);

    CHECK(length > 0);
    ckpt__v1__order__init(message);
    message->kind = CKPT__V1__ORDER_KIND__ORDER_KIND_VERIFY;
    message->allocation_id = translate_text(job->id);
    message->checkpoint_id = checkpoint->id;
    message->attempt = fsm_verify_attempt(fsm, verification);
    message->target_prefix = translate_text(fsm_target_at(fsm, checkpoint->target_slot)->prefix);
    message->path = path;
    message->owner = translate_text(job->owner);
    message->part = verification->part;
    message->manifest_sha256 =
        sha256_format(checkpoint->shards[verification->part].manifest_sha256, path + length + 1);
    message->read_back = CKPT__V1__READ_BACK__READ_BACK_ALWAYS;
    message->timeout_ms = fsm_verify_part_ms(fsm, checkpoint, verification->part);
    message->granted_bytes_per_s = fsm_policy(fsm)->scrub_bytes_per_s;
    if (!verification->holds)
        return;
    message->read_back = fsm_release_read_back(fsm_target_at(fsm, checkpoint->target_slot));
    message->timeout_ms = verification->deadline_ms - verification->given_at_ms;
    message->granted_bytes_per_s = 0;
}

static void fill_scan(const struct fsm *fsm, const struct fsm_scan *scan, Ckpt__V1__Order *message)
{
    ckpt__v1__order__init(message);
    message->kind = CKPT__V1__ORDER_KIND__ORDER_KIND_SCAN;
    message->attempt = scan->attempt;
    message->target_prefix = translate_text(fsm_target_at(fsm, scan->target_slot)->prefix);
    message->cluster_mark = cluster_mark(fsm);
    message->min_age_ms = fsm_policy(fsm)->orphan_age_ms;
    message->timeout_ms = ORDERS_COLLECT_MS;
}

/* One call counts, the next one fills. More orders than FSM_ORDERS_PER_NODE_MAX are not sent: the
 * rest follows when these are done. */
static void fill_orders(const struct fsm *fsm, uint32_t node_slot, struct order_messages *messages)
{
    const struct fsm_undeleted *removals[FSM_REMOVALS_PER_NODE_MAX];
    size_t removal_count =
        fsm_removals_on_node(fsm, node_slot, removals, FSM_REMOVALS_PER_NODE_MAX);
    const struct fsm_verification *verifications[FSM_VERIFICATIONS_PER_NODE_MAX];
    size_t verification_count =
        fsm_verifications_on_node(fsm, node_slot, verifications, FSM_VERIFICATIONS_PER_NODE_MAX);
    struct fsm_scan scans[FSM_TARGETS_MAX];
    size_t scan_count = fsm_scans_on_node(fsm, node_slot, scans, FSM_TARGETS_MAX);
    size_t job_count = fsm_orders_for_node(fsm, node_slot, NULL, 0);
    size_t other_count = removal_count + verification_count + scan_count;
    struct fsm_order *orders;
    size_t count;

    CHECK(removal_count <= FSM_REMOVALS_PER_NODE_MAX);
    CHECK(verification_count <= FSM_VERIFICATIONS_PER_NODE_MAX);
    if (job_count > FSM_ORDERS_PER_NODE_MAX - other_count)
        job_count = FSM_ORDERS_PER_NODE_MAX - other_count;
    orders = check_calloc(job_count, sizeof(*orders));
    fsm_orders_for_node(fsm, node_slot, orders, job_count);
    count = job_count + other_count;
    messages->order_count = count;
    messages->orders = check_calloc(count, sizeof(*messages->orders));
    messages->order_pointers = check_calloc(count, sizeof(Ckpt__V1__Order *));
    messages->paths = check_calloc(count, sizeof(*messages->paths));
    for (size_t i = 0; i < count; i++) {
        if (i < job_count)
            fill_order(fsm, &orders[i], &messages->orders[i], messages->paths[i]);
        else if (i < job_count + removal_count)
            fill_removal(fsm, removals[i - job_count], &messages->orders[i], messages->paths[i]);
        else if (i < job_count + removal_count + verification_count)
            fill_verification(fsm, verifications[i - job_count - removal_count],
                              &messages->orders[i], messages->paths[i]);
        else
            fill_scan(fsm, &scans[i - job_count - removal_count - verification_count],
                      &messages->orders[i]);
        messages->order_pointers[i] = &messages->orders[i];
    }
    free(orders);
}

/* False: there are more than a set holds, and it names none of those that are left out. */
static bool fill_parts(const struct fsm *fsm, uint32_t node_slot, uint64_t now_ms,
                       struct order_messages *messages)
{
    struct fsm_part parts[ORDERS_PARTS_MAX];
    size_t count = fsm_parts_on_node(fsm, node_slot, parts, ORDERS_PARTS_MAX);
    bool all = count <= ORDERS_PARTS_MAX;

    messages->part_count = all ? count : ORDERS_PARTS_MAX;
    messages->parts = check_calloc(messages->part_count, sizeof(*messages->parts));
    messages->part_pointers =
        check_calloc(messages->part_count, sizeof(Ckpt__V1__AllocationPart *));
    for (size_t i = 0; i < messages->part_count; i++) {
        translate_part(fsm, &parts[i], now_ms, &messages->parts[i]);
        messages->part_pointers[i] = &messages->parts[i];
    }
    return all;
}

static void fill_copies(const struct fsm *fsm, uint32_t node_slot, struct order_messages *messages)
{
    size_t count = fsm_copies_on_node(fsm, node_slot, NULL, 0);
    struct fsm_copy *copies = check_calloc(count, sizeof(*copies));

    fsm_copies_on_node(fsm, node_slot, copies, count);
    messages->copy_count = count;
    messages->copies = check_calloc(count, sizeof(*messages->copies));
    messages->copy_pointers = check_calloc(count, sizeof(Ckpt__V1__KeptCopy *));
    for (size_t i = 0; i < count; i++) {
        ckpt__v1__kept_copy__init(&messages->copies[i]);
        messages->copies[i].allocation_id = translate_text(copies[i].allocation_id);
        messages->copies[i].checkpoint_id = copies[i].checkpoint_id;
        messages->copies[i].part = copies[i].part;
        messages->copy_pointers[i] = &messages->copies[i];
    }
    free(copies);
}

static void free_messages(struct order_messages *messages)
{
    free(messages->orders);
    free(messages->order_pointers);
    free(messages->paths);
    free(messages->parts);
    free(messages->part_pointers);
    free(messages->copies);
    free(messages->copy_pointers);
}

/* `runs_until` tells up to which run the set judges: a run that began later is not meant when it
 * is not named. A set that could not hold all parts judges none (0), so that the agent ends nothing
 * for it. */
void dispatcher_pack_orders(const struct dispatcher *dispatcher, uint32_t node_slot,
                            struct buf *ret_bytes)
{
    const struct fsm *fsm = replica_fsm(dispatcher->broker->replica);
    uint64_t now_ms = replica_state_ms(dispatcher->broker->replica);
    Ckpt__V1__AgentDown down = CKPT__V1__AGENT_DOWN__INIT;
    Ckpt__V1__OrderSet set = CKPT__V1__ORDER_SET__INIT;
    struct order_messages messages = {0};
    struct consensus_status status;
    struct fsm_summary summary;

    fsm_get_summary(fsm, &summary);
    replica_get_status(dispatcher->broker->replica, &status);
    fill_orders(fsm, node_slot, &messages);
    set.epoch = summary.epoch;
    set.term = status.term;
    set.index = summary.applied_index;
    set.n_orders = messages.order_count;
    set.orders = messages.order_pointers;
    if (fill_parts(fsm, node_slot, now_ms, &messages))
        set.runs_until = run_make(summary.epoch, summary.command_count);
    set.n_parts = messages.part_count;
    set.parts = messages.part_pointers;
    fill_copies(fsm, node_slot, &messages);
    set.n_copies = messages.copy_count;
    set.copies = messages.copy_pointers;
    down.body_case = CKPT__V1__AGENT_DOWN__BODY_ORDERS;
    down.orders = &set;
    buf_clear(ret_bytes);
    ckpt__v1__agent_down__pack(&down,
                               buf_extend(ret_bytes, ckpt__v1__agent_down__get_packed_size(&down)));
    free_messages(&messages);
}

size_t dispatcher_awaited(const struct fsm *fsm, uint32_t node_slot,
                          const Ckpt__V1__AgentHeartbeat *heartbeat,
                          Ckpt__Log__V1__RunningPart *parts)
{
    size_t count = 0;

    for (size_t i = 0; i < heartbeat->n_running && count < FSM_RUNNING_PER_COMMAND_MAX; i++) {
        const Ckpt__V1__RunningAllocation *item = heartbeat->running[i];
        const struct fsm_allocation *allocation = fsm_allocation_find(fsm, item->allocation_id);

        if (allocation == NULL || !fsm_part_awaits(allocation, node_slot, item->run))
            continue;
        ckpt__log__v1__running_part__init(&parts[count]);
        parts[count].allocation_id = item->allocation_id;
        parts[count].run = item->run;
        count++;
    }
    return count;
}
