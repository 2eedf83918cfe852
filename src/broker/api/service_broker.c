/* The methods of BrokerService: what schedulers call. See methods.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/begin.h"
#include "fsm/ends.h"
#include "fsm/hang.h"
#include "fsm/level.h"
#include "fsm/restart.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/broker/api/access.h"
#include "src/broker/api/measures.h"
#include "src/broker/api/methods.h"
#include "src/broker/decide/restarter.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/explain/explain.h"

enum { RESTART_WAITS_SHOWN = 256 };

/* ---- reads ---- */

/* An earlier failure has a cause as well, and an end for other reasons has none. */
static bool failed_by_cause(const struct fsm_allocation *allocation)
{
    return allocation->cause_node_id[0] != '\0' &&
           (allocation->reason == CKPT__V1__REASON__REASON_APPLICATION_EXITED ||
            allocation->reason == CKPT__V1__REASON__REASON_NODE_DOWN);
}

static const char *what_text(enum fsm_status status, uint64_t current, uint64_t limit,
                             char text[ANSWER_TEXT_BYTES])
{
    struct fsm_outcome outcome;

    memset(&outcome, 0, offsetof(struct fsm_outcome, victims));
    outcome.status = status;
    outcome.current = current;
    outcome.limit = limit;
    return fsm_outcome_what(&outcome, text, ANSWER_TEXT_BYTES);
}

/* The leader knows who waits for its restart; the state does not. */
static void fill_restart(const struct broker *broker, const struct fsm_allocation *allocation,
                         struct scratch *scratch, Ckpt__V1__Allocation *reply)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    struct restarter_wait waits[RESTART_WAITS_SHOWN];
    struct restarter_refusal refusal;
    Ckpt__V1__RestartWait *items;
    char text[ANSWER_TEXT_BYTES];

    if (reply->restart_at_ms == 0)
        return;
    if (restarter_refused(broker->restarter, allocation, &refusal)) {
        reply->restart_refused_at_ms = refusal.at_ms;
        reply->restart_refused =
            scratch_printf(scratch, "%s: %s, %s", refusal.choice, fsm_status_name(refusal.status),
                           what_text(refusal.status, refusal.current, refusal.limit, text));
    }
    reply->restart_needed = fsm_restart_nodes(fsm, allocation).fewest;
    if (reply->excluded_until_ms <= replica_state_ms(broker->replica))
        reply->excluded_until_ms = 0;
    reply->n_restart_waits =
        restarter_waits(broker->restarter, allocation, waits, RESTART_WAITS_SHOWN);
    items = scratch_take(scratch, reply->n_restart_waits, sizeof(*items));
    reply->restart_waits =
        scratch_take(scratch, reply->n_restart_waits, sizeof(*reply->restart_waits));
    for (size_t i = 0; i < reply->n_restart_waits; i++) {
        ckpt__v1__restart_wait__init(&items[i]);
        items[i].node_id = text_message(fsm_node_name(fsm, waits[i].node_slot));
        if (waits[i].status != FSM_OK)
            items[i].refusal = scratch_printf(
                scratch, "%s", what_text(waits[i].status, i + 1, reply->n_restart_waits, text));
        reply->restart_waits[i] = &items[i];
    }
}

/* One allocation, as the state has it. */
static void get_allocation(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__GetAllocationRequest *asked = (const void *)request->message;
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    const struct fsm_allocation *allocation = fsm_allocation_find(fsm, asked->allocation_id);
    Ckpt__V1__Allocation reply;

    if (allocation == NULL) {
        request_refuse(request, FSM_ALLOCATION_NOT_FOUND, 0, 0);
        return;
    }
    translate_allocation(fsm, allocation, scratch, &reply);
    fill_restart(request->broker, allocation, scratch, &reply);
    if (measures_hidden(request, allocation))
        measures_clear_job(&reply);
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    answer_reply(request->call, &reply.base);
}

static bool holds_node(const struct fsm_allocation *allocation, uint32_t node_slot)
{
    for (uint32_t i = 0; i < allocation->node_count; i++)
        if (allocation->nodes[i].node_slot == node_slot)
            return true;
    return false;
}

/* Whether the request's filters take the allocation. node: of them; NULL: any. */
static bool allocation_listed(const Ckpt__V1__ListAllocationsRequest *asked,
                              const struct fsm_node *node, const struct fsm_allocation *allocation)
{
    bool ended = allocation->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED ||
                 allocation->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED;

    if (asked->tenant[0] != '\0' && strcmp(asked->tenant, allocation->tenant) != 0)
        return false;
    if (asked->owner[0] != '\0' && strcmp(asked->owner, allocation->owner) != 0)
        return false;
    if (node != NULL && !holds_node(allocation, node->slot))
        return false;
    if (asked->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_UNSPECIFIED &&
        asked->state != allocation->state)
        return false;
    return !(asked->unended && ended);
}

/* By slots: an allocation that comes or goes between two pages moves no other one. */
static void list_allocations(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__ListAllocationsRequest *asked = (const void *)request->message;
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    const uint32_t slots = fsm_allocation_slots(fsm);
    const uint64_t age_ms = request_data_age_ms(request);
    const struct fsm_node *node = fsm_node_find(fsm, asked->node_id);
    Ckpt__V1__ListAllocationsReply reply = CKPT__V1__LIST_ALLOCATIONS_REPLY__INIT;
    size_t bytes = 0;
    uint32_t size;
    uint32_t slot;
    uint32_t scanned = 0;

    if (!request_page_size(request, asked->page_size, &size) ||
        !request_slot_token(request, asked->page_token, &slot))
        return;
    if (asked->node_id[0] != '\0' && node == NULL) {
        request_refuse(request, FSM_NODE_NOT_FOUND, 0, 0);
        return;
    }
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    reply.feature_level = fsm_level(fsm);
    reply.allocations = scratch_take(scratch, size, sizeof(reply.allocations[0]));
    for (; slot < slots && reply.n_allocations < size && scanned < METHOD_SCAN_MAX &&
           bytes < METHOD_PAGE_BYTES;
         slot++, scanned++) {
        const struct fsm_allocation *allocation = fsm_allocation_find_slot(fsm, slot);
        Ckpt__V1__Allocation *item;

        if (allocation == NULL || !allocation_listed(asked, node, allocation))
            continue;
        item = scratch_take(scratch, 1, sizeof(*item));
        translate_allocation(fsm, allocation, scratch, item);
        item->applied_index = reply.applied_index;
        item->data_age_ms = age_ms;
        if (measures_hidden(request, allocation))
            measures_clear_job(item);
        bytes += ckpt__v1__allocation__get_packed_size(item);
        reply.allocations[reply.n_allocations++] = item;
    }
    if (slot < slots)
        reply.next_page_token = scratch_printf(scratch, "%" PRIu32, slot);
    answer_reply(request->call, &reply.base);
}

/* By ids, which only grow: a page goes on where the last one ended. */
static const struct fsm_checkpoint *next_checkpoint(const struct fsm *fsm,
                                                    const struct fsm_allocation *allocation,
                                                    uint64_t after)
{
    return allocation == NULL ? fsm_checkpoint_next(fsm, after)
                              : fsm_checkpoint_next_of(fsm, allocation->slot, after);
}

static void fill_checkpoint(const struct request *request, const struct fsm_checkpoint *checkpoint,
                            struct scratch *scratch, Ckpt__V1__Checkpoint *ret_item)
{
    const struct fsm *fsm = replica_fsm(request->broker->replica);

    translate_checkpoint(fsm, checkpoint, scratch, ret_item);
    dispatcher_fill_place(request->broker->dispatcher, ret_item);
    if (measures_hidden(request, fsm_allocation_find_slot(fsm, checkpoint->allocation_slot)))
        measures_clear_checkpoint(ret_item);
}

/* Checkpoints in the order of their ids, of one allocation or, with NULL, of all. */
static void list_page_of_checkpoints(const struct request *request,
                                     const struct fsm_allocation *allocation, uint32_t size,
                                     struct scratch *scratch, Ckpt__V1__ListCheckpointsReply *reply)
{
    const Ckpt__V1__ListCheckpointsRequest *asked = (const void *)request->message;
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    const struct fsm_checkpoint *checkpoint =
        next_checkpoint(fsm, allocation, asked->after_checkpoint_id);
    size_t bytes = 0;

    reply->checkpoints = scratch_take(scratch, size, sizeof(reply->checkpoints[0]));
    for (uint32_t scanned = 0; checkpoint != NULL; scanned++) {
        if (reply->n_checkpoints == size || scanned == METHOD_SCAN_MAX ||
            bytes >= METHOD_PAGE_BYTES)
            return;
        if (asked->state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_UNSPECIFIED ||
            asked->state == checkpoint->state) {
            Ckpt__V1__Checkpoint *item = scratch_take(scratch, 1, sizeof(*item));
            fill_checkpoint(request, checkpoint, scratch, item);
            bytes += ckpt__v1__checkpoint__get_packed_size(item);
            reply->checkpoints[reply->n_checkpoints++] = item;
        }
        reply->next_after_checkpoint_id = checkpoint->id;
        checkpoint = next_checkpoint(fsm, allocation, checkpoint->id);
    }
    reply->next_after_checkpoint_id = 0;
}

static void list_checkpoints(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__ListCheckpointsRequest *asked = (const void *)request->message;
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    const struct fsm_allocation *allocation = NULL;
    Ckpt__V1__ListCheckpointsReply reply = CKPT__V1__LIST_CHECKPOINTS_REPLY__INIT;
    Ckpt__V1__Checkpoint one;
    Ckpt__V1__Checkpoint *places[] = {&one};
    uint32_t size;

    if (!request_page_size(request, asked->page_size, &size))
        return;
    if (asked->allocation_id[0] != '\0') {
        allocation = fsm_allocation_find(fsm, asked->allocation_id);
        if (allocation == NULL) {
            request_refuse(request, FSM_ALLOCATION_NOT_FOUND, 0, 0);
            return;
        }
    }
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    reply.undeleted_count = undeleted_count(fsm, asked->allocation_id);
    if (asked->checkpoint_id != 0) {
        const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, asked->checkpoint_id);
        if (checkpoint == NULL) {
            request_refuse(request, FSM_CHECKPOINT_NOT_FOUND, 0, 0);
            return;
        }
        fill_checkpoint(request, checkpoint, scratch, &one);
        reply.n_checkpoints = 1;
        reply.checkpoints = places;
    } else {
        list_page_of_checkpoints(request, allocation, size, scratch, &reply);
    }
    answer_reply(request->call, &reply.base);
}

/* Nodes and the run of each, so that ckpt-run knows whether it is meant. */
static void fill_node_ids(const struct fsm *fsm, const struct fsm_allocation *allocation,
                          struct scratch *scratch, Ckpt__V1__RestartPoint *reply)
{
    reply->node_ids = scratch_take(scratch, allocation->node_count, sizeof(reply->node_ids[0]));
    reply->runs = scratch_take(scratch, allocation->node_count, sizeof(reply->runs[0]));
    for (uint32_t i = 0; i < allocation->node_count; i++) {
        reply->node_ids[i] = translate_text(fsm_node_name(fsm, allocation->nodes[i].node_slot));
        reply->runs[i] = allocation->nodes[i].run;
    }
    reply->n_node_ids = reply->n_runs = allocation->node_count;
}

/* Who names no node of the job is told what is of all parts. False: it names none. */
static bool asked_part(const struct fsm *fsm, const struct fsm_allocation *allocation,
                       const char *node_id, struct fsm_part *ret_part)
{
    const struct fsm_node *node = fsm_node_find(fsm, node_id);

    if (node != NULL && fsm_part_on(fsm, allocation, node->slot, ret_part))
        return true;
    *ret_part = (struct fsm_part){.allocation = allocation};
    return false;
}

/* What is waited for, so that whoever waits can be told. */
static void fill_waits(const struct fsm *fsm, const struct fsm_allocation *allocation,
                       Ckpt__V1__RestartPoint *reply)
{
    struct fsm_reads reads;
    struct fsm_discard discard;

    fsm_reads(fsm, allocation, &reads);
    reply->read_place = reads.place;
    reply->read_line = reads.line;
    fsm_begin_discards(fsm, allocation, &discard);
    reply->discarded_ms = discard.discarded_ms;
    reply->discard_at_ms = discard.at_ms;
    reply->max_discarded_ms = fsm_policy(fsm)->max_discarded_ms;
}

/* So that a node can find out, before it starts an application, whether that may write there. */
static void fill_next(const struct fsm *fsm, const struct fsm_allocation *allocation,
                      struct scratch *scratch, Ckpt__V1__RestartPoint *reply)
{
    const struct fsm_target *target = fsm_destination(fsm, allocation);

    if (allocation->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE || target == NULL)
        return;
    reply->checkpoints_path = translate_checkpoints_path(fsm, allocation, target, scratch);
    reply->checkpoints_prefix = translate_text(target->prefix);
}

/* So that people are told which of their work is repeated, and why. */
static void fill_without(const struct fsm *fsm, const struct fsm_part *asking,
                         struct scratch *scratch, Ckpt__V1__RestartPoint *reply)
{
    struct fsm_begin_without without;

    if (asking->run == 0 || asking->joined)
        return;
    fsm_begin_without(fsm, asking->allocation, &without);
    reply->without = scratch_take(scratch, 1, sizeof(*reply->without));
    ckpt__v1__begin_without__init(reply->without);
    reply->without->cause = without.cause;
    reply->without->checkpoint_id = without.checkpoint_id;
    reply->without->repeated_ms = without.repeated_ms;
}

static void fill_silent(const struct request *request, const struct fsm_allocation *allocation,
                        Ckpt__V1__RestartPoint *reply)
{
    const struct fsm_node *silent =
        fsm_allocation_silent(replica_fsm(request->broker->replica), allocation);
    uint64_t now_ms = replica_state_ms(request->broker->replica), since_ms;

    if (silent == NULL)
        return;
    since_ms = fsm_node_silent_since_ms(silent);
    reply->silent_node_id = translate_text(silent->id);
    reply->silent_for_ms = now_ms > since_ms ? now_ms - since_ms : 0;
}

/* Whether the broker restarts it by itself, with what, and why it stopped. */
static void fill_next_restart(const struct request *request,
                              const struct fsm_allocation *allocation,
                              Ckpt__V1__RestartPoint *reply)
{
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    uint64_t now_ms = replica_state_ms(request->broker->replica);
    uint64_t until_ms = fsm_restart_excluded_until_ms(allocation);

    reply->restarts = fsm_restart_awaited(fsm, allocation);
    reply->comes_back = fsm_restart_is_auto(fsm, allocation);
    reply->restart_wait_ms = fsm_policy(fsm)->restart_wait_ms;
    reply->requeues_used = fsm_restart_requeues_used(fsm, allocation);
    if (reply->restarts)
        reply->restart_needed = fsm_restart_nodes(fsm, allocation).fewest;
    if (!failed_by_cause(allocation))
        return;
    reply->cause_node_id = translate_text(allocation->cause_node_id);
    reply->cause_wait_status = allocation->cause_wait_status;
    reply->excluded_for_ms = until_ms > now_ms ? until_ms - now_ms : 0;
}

/* What a job, or the node's part of it, needs to start again: which complete checkpoint, and where
 * it lies. */
static void get_restart_point(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__GetRestartPointRequest *asked = (const void *)request->message;
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    const struct fsm_allocation *allocation = fsm_allocation_find(fsm, asked->allocation_id);
    const struct fsm_checkpoint *checkpoint;
    Ckpt__V1__RestartPoint reply = CKPT__V1__RESTART_POINT__INIT;
    Ckpt__V1__AllocationPart part;
    struct fsm_part asking;
    struct fsm_summary summary;
    bool told;

    if (allocation == NULL || fsm_passive_since_ms(fsm) != 0) {
        request_refuse(request, allocation == NULL ? FSM_ALLOCATION_NOT_FOUND : FSM_PASSIVE, 0, 0);
        return;
    }
    /* a node that waits to be a spare hears what it waits for, and not where files of others lie */
    told = asked_part(fsm, allocation, asked->node_id, &asking) ||
           !access_is_kind(rpc_call_peer(request->call), TLS_AGENT);
    translate_part(fsm, &asking, replica_state_ms(request->broker->replica), &part);
    reply.part = &part;
    fsm_get_summary(fsm, &summary);
    reply.epoch = summary.epoch;
    reply.index = summary.applied_index;
    reply.allocation_state = allocation->state;
    reply.owner = translate_text(allocation->owner);
    reply.owner_rule = fsm_policy(fsm)->owner_rule;
    reply.user = asking.user;
    reply.restore = allocation->restore;
    reply.profile = translate_text(allocation->profile);
    reply.attributes = translate_text(allocation->attributes);
    reply.profile_named = allocation->profile_named;
    reply.transparent = fsm_policy(fsm)->transparent == CKPT__V1__TRANSPARENT__TRANSPARENT_YES;
    (void)fsm_begin_restored_as(fsm, allocation, &reply.restored_as, &reply.restored_part);
    fill_node_ids(fsm, allocation, scratch, &reply);
    fill_waits(fsm, allocation, &reply);
    if (told)
        fill_next(fsm, allocation, scratch, &reply);
    fill_without(fsm, &asking, scratch, &reply);
    fill_silent(request, allocation, &reply);
    fill_next_restart(request, allocation, &reply);
    checkpoint = asked->node_id[0] == '\0' ? fsm_begin_point(fsm, allocation)
                                           : fsm_begin_of_part(fsm, allocation);
    if (checkpoint != NULL && told) {
        const struct fsm_target *target = fsm_target_at(fsm, checkpoint->target_slot);
        CHECK(checkpoint->state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE);
        reply.checkpoint_id = checkpoint->id;
        reply.path = translate_checkpoint_path(fsm, checkpoint, scratch);
        reply.target_id = translate_text(target == NULL ? "" : target->id);
        reply.target_prefix = translate_text(target == NULL ? "" : target->prefix);
        reply.n_shards = translate_shards(fsm, checkpoint, scratch, &reply.shards);
        reply.snapshot_at_ms = checkpoint->snapshot_at_ms;
        reply.label = translate_text(checkpoint->label);
        if (asking.run != 0)
            reply.own_shard = fsm_begin_shard(fsm, &asking, checkpoint);
    }
    answer_reply(request->call, &reply.base);
}

static void send_explanation(void *context, const Ckpt__V1__ExplainReply *reply)
{
    struct request *request = context;
    Ckpt__V1__ExplainReply aged = *reply;

    aged.data_age_ms = request_data_age_ms(request);
    answer_reply(request->call, &aged.base);
}

/* A job that is not evaluated yet may wait to read what it begins from. */
static const char *explain_state(const struct fsm *fsm, const struct fsm_allocation *allocation,
                                 char text[EXPLAIN_TEXT_BYTES])
{
    struct fsm_reads reads;
    const struct fsm_node *silent, *unended;

    if (allocation == NULL)
        return "";
    if (fsm_hung(allocation))
        return allocation->hang_text;
    silent = fsm_allocation_silent(fsm, allocation);
    unended = fsm_allocation_unended(fsm, allocation);
    fsm_reads(fsm, allocation, &reads);
    if (silent != NULL)
        snprintf(text, EXPLAIN_TEXT_BYTES,
                 "%s (its node %.64s is only silent: it may run on there; ckptctl job shows since "
                 "when, and the next step)",
                 fsm_allocation_state_name(allocation->state), silent->id);
    else if (unended != NULL)
        snprintf(text, EXPLAIN_TEXT_BYTES,
                 "%s (its node %.64s has not said yet that its last run has ended there)",
                 fsm_allocation_state_name(allocation->state), unended->id);
    else if (reads.waiting > 0 && reads.place > 0)
        snprintf(text, EXPLAIN_TEXT_BYTES,
                 "%s (%u of %u in the line to read its checkpoint at target %.64s)",
                 fsm_allocation_state_name(allocation->state), reads.place, reads.line,
                 reads.target->id);
    else if (reads.reading > 0)
        snprintf(text, EXPLAIN_TEXT_BYTES, "%s (it reads its checkpoint at target %.64s)",
                 fsm_allocation_state_name(allocation->state), reads.target->id);
    else
        return fsm_allocation_state_name(allocation->state);
    return text;
}

/* A refusal of a stale read says how old the state is from which it is answered. */
static void explain_answer(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__ExplainRequest *asked = (const void *)request->message;
    uint64_t oldest_ms;
    char text[EXPLAIN_TEXT_BYTES], aged[EXPLAIN_TEXT_BYTES + REQUEST_AGE_BYTES],
        age[REQUEST_AGE_BYTES];
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    enum explain_found found;
    char state[EXPLAIN_TEXT_BYTES];

    (void)scratch;
    if (measures_hidden(request, fsm_allocation_find(fsm, asked->allocation_id))) {
        request_refuse(request, FSM_MEASURES_HIDDEN, 0, 0);
        return;
    }
    found = explain_request(request->broker, asked, send_explanation, request, &oldest_ms);
    if (found == EXPLAIN_FOUND)
        return;
    if (found == EXPLAIN_NO_JOB) {
        request_refuse(request, FSM_ALLOCATION_NOT_FOUND, 0, 0);
        return;
    }
    request_age(request, age);
    snprintf(
        aged, sizeof(aged), "%s%s%s%s",
        explain_refusal(found, asked,
                        explain_state(fsm, fsm_allocation_find(fsm, asked->allocation_id), state),
                        oldest_ms, text, sizeof(text)),
        age[0] == '\0' ? "" : " (", age, age[0] == '\0' ? "" : ")");
    rpc_call_finish(request->call, found == EXPLAIN_FUTURE ? RPC_INVALID_ARGUMENT : RPC_NOT_FOUND,
                    aged);
}

/* What a caller that lost its answer asks for. */
static void get_request(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__GetRequestRequest *asked = (const void *)request->message;
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    Ckpt__V1__RequestOutcome reply = CKPT__V1__REQUEST_OUTCOME__INIT;
    const ProtobufCFieldDescriptor *command;
    struct fsm_request found;
    char *text;

    if (!id_valid(asked->request_id)) {
        request_refuse_id(request, "request_id", asked->request_id);
        return;
    }
    if (!fsm_request_find(fsm, asked->request_id, &found)) {
        request_refuse(request, FSM_REQUEST_NOT_FOUND, 0, 0);
        return;
    }
    command =
        protobuf_c_message_descriptor_get_field(&ckpt__log__v1__command__descriptor, found.command);
    CHECK(command != NULL);
    reply.request_id = asked->request_id;
    reply.command = (char *)(uintptr_t)command->name;
    reply.status = found.outcome.status;
    reply.status_name = (char *)(uintptr_t)fsm_status_name(found.outcome.status);
    if (found.outcome.status != FSM_OK) {
        text = scratch_take(scratch, 1, ANSWER_TEXT_BYTES);
        reply.text = fsm_outcome_text(&found.outcome, text, ANSWER_TEXT_BYTES);
    }
    reply.at_ms = found.at_ms;
    reply.index = found.outcome.index;
    reply.checkpoint_id = found.outcome.checkpoint_id;
    reply.preemption_id = found.outcome.preemption_id;
    audit_fill_outcome(fsm, scratch, &reply);
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    answer_reply(request->call, &reply.base);
}

/* ---- RestartAllocation ---- */

static const Ckpt__V1__Event *event_at(const struct fsm *fsm, uint64_t sequence)
{
    bool gap;

    return sequence == 0 ? NULL : fsm_event_after(fsm, sequence - 1, &gap);
}

/* The state is as it is right after the command, so the last events are the command's own: the job
 * is STARTING, and before that it may have given up a checkpoint. */
static void fill_discard(const struct fsm *fsm, const struct fsm_outcome *outcome,
                         Ckpt__V1__Discard *discard)
{
    const Ckpt__V1__Event *event, *moved = NULL;
    const struct fsm_allocation *job;
    struct fsm_discard later;
    struct fsm_summary summary;
    uint64_t sequence;

    fsm_get_summary(fsm, &summary);
    for (sequence = summary.next_event_sequence - 1; moved == NULL; sequence--) {
        event = event_at(fsm, sequence);
        if (event == NULL || event->index != outcome->index)
            return;
        if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_STATE &&
            event->new_state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING)
            moved = event;
    }
    event = event_at(fsm, sequence);
    if (event != NULL && event->index == outcome->index &&
        event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_DISCARDED &&
        strcmp(event->allocation_id, moved->allocation_id) == 0) {
        discard->begun = true;
        discard->target_id = event->subject;
        discard->discarded_ms = event->number;
        return;
    }
    job = fsm_allocation_find(fsm, moved->allocation_id);
    CHECK(job != NULL);
    fsm_begin_discards(fsm, job, &later);
    if (later.discarded_ms == 0)
        return;
    discard->target_id = translate_text(
        fsm_target_at(fsm, fsm_checkpoint_find(fsm, job->restart_id)->target_slot)->id);
    discard->discarded_ms = later.discarded_ms;
    discard->discard_at_ms = later.at_ms;
}

static void restart_reply(struct request *request, const struct fsm_outcome *outcome)
{
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    Ckpt__V1__Discard discard = CKPT__V1__DISCARD__INIT;

    reply.index = outcome->index;
    reply.checkpoint_id = outcome->checkpoint_id;
    reply.repeated = outcome->repeated;
    if (!outcome->repeated)
        fill_discard(replica_fsm(request->broker->replica), outcome, &discard);
    if (discard.discarded_ms > 0)
        reply.discard = &discard;
    answer_reply(request->call, &reply.base);
}

/* ---- what begins a job elsewhere waits for the end of its last run ---- */

static bool restart_waits(const struct fsm *fsm, const ProtobufCMessage *message)
{
    return fsm_restart_ends_soon(fsm, (const void *)message);
}

static bool register_waits(const struct fsm *fsm, const ProtobufCMessage *message)
{
    const Ckpt__V1__RegisterAllocationRequest *request = (const void *)message;

    return request->spec != NULL && fsm_continue_ends_soon(fsm, request->spec);
}

/* ---- the table ---- */

#define MUTATION(method, may, message, body, ...)                                                  \
    METHOD_ROW("BrokerService", method, may, METHOD_MUTATION, message,                             \
               .body_case = CKPT__LOG__V1__COMMAND__BODY_##body, __VA_ARGS__)
#define READ(method, may, message, function, ...)                                                  \
    METHOD_ROW("BrokerService", method, may, METHOD_READ, message, .answer = function, __VA_ARGS__)
#define OWN(...) .own = OWN_FIELDS(__VA_ARGS__)

/* clang-format off */
const struct method service_broker_methods[] = {
    MUTATION("RegisterAllocation", ROLE_CLIENT, register_allocation_request, REGISTER_ALLOCATION,
             .waits = register_waits, .scope = SCOPE_SPEC),
    MUTATION("RegisterOwnAllocation", ROLE_AGENT, register_allocation_request, REGISTER_ALLOCATION,
             .allowed = access_own_allocation, .waits = register_waits),
    MUTATION("UpdateAllocation", ROLE_CLIENT, update_allocation_request, UPDATE_ALLOCATION,
             .scope = SCOPE_JOB),
    MUTATION("EndAllocation", ROLE_CLIENT | ROLE_OWNER, end_allocation_request, END_ALLOCATION,
             OWN("request_id", "allocation_id"), .scope = SCOPE_JOB),
    MUTATION("ReportQueue", ROLE_CLIENT, report_queue_request, REPORT_QUEUE),
    MUTATION("RequestCheckpoint", ROLE_CLIENT | ROLE_OWNER, request_checkpoint_request,
             REQUEST_CHECKPOINT, OWN("request_id", "allocation_id"), .scope = SCOPE_JOB),
    MUTATION("CancelCheckpoint", ROLE_CLIENT, cancel_checkpoint_request, CANCEL_CHECKPOINT,
             .scope = SCOPE_JOB),
    MUTATION("RequestMigration", ROLE_CLIENT | ROLE_OWNER, request_migration_request,
             REQUEST_MIGRATION, OWN("request_id", "allocation_id"), .scope = SCOPE_JOB),
    MUTATION("RestartAllocation", ROLE_CLIENT | ROLE_OWNER, restart_allocation_request,
             RESTART_ALLOCATION, .reply = restart_reply, .waits = restart_waits,
             OWN("request_id", "allocation_id", "from_scratch"), .scope = SCOPE_JOB),
    MUTATION("RequestPreemption", ROLE_CLIENT, request_preemption_request, REQUEST_PREEMPTION,
             .reply = preemption_reply),
    READ("GetAllocation", ROLE_READER | ROLE_OWNER, get_allocation_request, get_allocation,
         OWN("allocation_id", "stale"), .scope = SCOPE_JOB),
    READ("ListAllocations", ROLE_READER | ROLE_OWNER, list_allocations_request, list_allocations,
         OWN("tenant", "state", "page_size", "page_token", "stale", "unended", "node_id", "owner"),
         .scope = SCOPE_TENANT),
    READ("ListCheckpoints", ROLE_READER | ROLE_OWNER, list_checkpoints_request, list_checkpoints,
         OWN("allocation_id", "state", "checkpoint_id", "page_size", "after_checkpoint_id",
             "stale"), .scope = SCOPE_JOB),
    READ("ListUndeleted", ROLE_READER, list_undeleted_request, undeleted_answer,
         .scope = SCOPE_JOB),
    READ("GetRestartPoint", ROLE_AGENT | ROLE_READER, get_restart_point_request, get_restart_point,
         .allowed = access_restart_point, .scope = SCOPE_JOB),
    READ("Explain", ROLE_READER | ROLE_OWNER, explain_request, explain_answer,
         OWN("allocation_id", "at_ms", "checkpoint_id", "stale"), .scope = SCOPE_JOB),
    READ("ListPreemptions", ROLE_READER, list_preemptions_request, preemptions_answer),
    READ("GetPlacementHints", ROLE_READER, get_placement_hints_request, placement_hints_answer),
    READ("GetRequest", ROLE_READER, get_request_request, get_request),
};
/* clang-format on */
const size_t service_broker_method_count = ARRAY_COUNT(service_broker_methods);
