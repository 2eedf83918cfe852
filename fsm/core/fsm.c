/* The state machine's life and the application of entries. See fsm.h.
 *
 * Flow     an entry is mixed into the state's hash and decoded; each command is validated, its
 *          request id is looked for, its handler is called, and what it moved is checked. Its
 *          outcome goes into the hash too, so members that decide differently find out even where
 *          the states are alike.
 */
#include "fsm/fsm.h"

#include <malloc.h>

#include "fsm/core/decode.h"
#include "fsm/core/registry.h"
#include "fsm/core/request_fields.h"
#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "fsm/level.h"

enum { FIELDS_LEVEL = 2 }; /* from which the prints of a request's fields are kept */

/* Heads of lists lie on the heap, since fsm_swap() moves the struct and a list holds the address of
 * its head. */
struct fsm *fsm_new(void)
{
    struct fsm *fsm = check_calloc(1, sizeof(*fsm));

    fsm_policy_defaults(&fsm->policy);
    fsm->blocks = check_calloc(1, sizeof(*fsm->blocks));
    fsm_pool_init(&fsm->allocations, sizeof(struct allocation), fsm->blocks);
    fsm_pool_init(&fsm->nodes, sizeof(struct node), fsm->blocks);
    fsm_pool_init(&fsm->targets, sizeof(struct target), fsm->blocks);
    fsm_pool_init(&fsm->bases, sizeof(struct basis), fsm->blocks);
    fsm->collectable = check_alloc(sizeof(*fsm->collectable));
    list_init(fsm->collectable);
    fsm->snapshots = check_alloc(sizeof(*fsm->snapshots));
    list_init(fsm->snapshots);
    fsm->undeleted = check_calloc(FSM_UNDELETED_MAX, sizeof(*fsm->undeleted));
    fsm->drills = fsm_drills_new();
    fsm->next_event_sequence = 1;
    fsm_audit_open(fsm);
    return fsm;
}

/* By the ways that records leave in a cluster that runs, so that every reference is given back and
 * the counts of texts can be checked at the end. */
static void fsm_free_allocations(struct fsm *fsm)
{
    for (uint32_t slot = 0; slot < fsm->allocations.slot_end; slot++) {
        struct allocation *allocation = allocation_edit(fsm, allocation_find_slot(fsm, slot));
        struct checkpoint *active;

        if (allocation == NULL)
            continue;
        active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));
        if (active != NULL) { /* only terminal ones can be freed */
            fsm_checkpoint_forget(fsm, active);
            active->view.state = CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_UNSPECIFIED;
        }
        fsm_allocation_release(fsm, allocation);
        fsm_allocation_remove(fsm, allocation);
    }
}

/* Nodes and targets go after all records that name them. */
static void fsm_free_names(struct fsm *fsm)
{
    for (uint32_t slot = 0; slot < fsm->nodes.slot_end; slot++) {
        const struct node *node = node_find_slot(fsm, slot);

        if (node != NULL)
            fsm_node_release_texts(fsm, &node->view);
    }
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++) {
        const struct target *target = target_find_slot(fsm, slot);

        if (target != NULL)
            fsm_target_release_texts(fsm, &target->view);
    }
}

/* Records are freed before the records that they refer to: first jobs and their checkpoints, then
 * nodes and targets, at last the interned texts. The CHECKs find a reference that some path forgot
 * to give back. */
void fsm_free(struct fsm *fsm)
{
    if (fsm == NULL)
        return;
    fsm_snapshots_leave(fsm);
    fsm_free_allocations(fsm);
    fsm_undeleted_close(fsm);
    fsm_free_names(fsm);
    for (uint32_t i = 0; i < fsm->tenant_count; i++) {
        fsm_intern_release(fsm, fsm->tenants[i]->id);
        free(fsm->tenants[i]);
    }
    fsm_past_requests_free(fsm);
    fsm_events_free(fsm);
    fsm_audit_close(fsm);
    fsm_revoked_free(fsm);
    for (size_t i = 0; i < fsm->member_count; i++)
        fsm_message_free(&fsm->members[i]->base);
    for (size_t i = 0; i < fsm->queue_count; i++) {
        fsm_intern_release(fsm, fsm->queues[i].vcluster);
        fsm_message_free(&fsm->queues[i].report->base);
    }
    fsm_bases_free(fsm);
    if (fsm->learned != NULL)
        fsm_message_free(&fsm->learned->base);
    for (size_t i = 0; i < FSM_PREEMPTIONS_MAX; i++)
        fsm_preemption_free(fsm, fsm->preemptions[i]);
    fsm_timer_set(&fsm->timers, &fsm->drills->timer, 0);
    fsm_drills_free(fsm->drills);
    CHECK(fsm->intern_map.count == 0); /* every reference was given back */
    CHECK(fsm->intern_alone_count == 0);
    for (size_t i = 0; i < ARRAY_COUNT(fsm->running_by_class); i++)
        fsm_bitmap_free(&fsm->running_by_class[i]);
    fsm_bitmap_free(&fsm->changed_allocations);
    fsm_bitmap_free(&fsm->changed_nodes.queued);
    free(fsm->changed_nodes.next);
    fsm_map_free(&fsm->allocation_map);
    fsm_map_free(&fsm->node_map);
    fsm_map_free(&fsm->intern_map);
    fsm_map_free(&fsm->past_request_map);
    fsm_map_free(&fsm->basis_map);
    fsm_pool_free(&fsm->allocations);
    fsm_pool_free(&fsm->nodes);
    fsm_pool_free(&fsm->targets);
    fsm_pool_free(&fsm->bases);
    fsm_timers_free(&fsm->timers);
    fsm_pause_free(fsm->pause);
    fsm_arena_free(&fsm->arena);
    fsm_blocks_free(fsm->blocks);
    free(fsm->blocks);
    free(fsm->checkpoints);
    free(fsm->collectable);
    free(fsm->snapshots);
    free(fsm);
}

/* The victims are two kilobytes, and are only read up to their count. */
static void outcome_start(struct fsm_outcome *outcome, uint64_t index)
{
    memset(outcome, 0, offsetof(struct fsm_outcome, victims));
    outcome->index = index;
}

/* Status, ids and victims; the numbers of a refusal's text are left out. */
static void outcome_hash(struct fsm *fsm, const struct fsm_outcome *outcome)
{
    uint64_t hash = fsm->state_hash;

    hash = fsm_hash_mix(hash, (uint64_t)outcome->status << 1 | outcome->repeated);
    hash = fsm_hash_mix(hash, outcome->checkpoint_id);
    hash = fsm_hash_mix(hash, outcome->preemption_id);
    for (uint32_t i = 0; i < outcome->victim_count; i++)
        hash = fsm_hash_mix(hash, fsm_hash_text(outcome->victims[i].allocation_id));
    fsm->state_hash = hash;
}

/* The field that differs, where both are the same command and its prints were kept. */
static bool differing_field(const struct past_request *past, const struct decoded *decoded,
                            char ret_name[REQUEST_FIELD_NAME_BYTES])
{
    struct request_fields first, second;

    CHECK(past->command == (uint32_t)decoded->command->body_case);
    if (past->field_count == 0)
        return false;
    first.count = past->field_count;
    memcpy(first.prints, past_request_prints(past),
           (size_t)past->field_count * REQUEST_FIELD_BYTES);
    fsm_request_fields(decoded->packed, decoded->packed_bytes, past->command, &second);
    return fsm_request_fields_differ(&first, &second, past->command, ret_name);
}

/* Both commands by name. The contents of the first are not kept, only prints of its fields. */
static void name_reuse(const struct past_request *past, uint32_t number,
                       const struct decoded *decoded, struct fsm_outcome *outcome)
{
    char field[REQUEST_FIELD_NAME_BYTES];
    bool same = past->command == number;
    bool named = same && differing_field(past, decoded, field);
    const char *words[] = {fsm_command_info(past->command)->name,
                           same ? ", and this is another" : ", and this is ",
                           named  ? ": "
                           : same ? ", with other fields"
                                  : fsm_command_info(number)->name,
                           named ? field : "", named ? " differs" : ""};
    char text[FSM_FOUND_BYTES] = "";
    size_t used = 0;

    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        size_t length = fsm_min(strlen(words[i]), sizeof(text) - 1 - used);

        memcpy(text + used, words[i], length);
        used += length;
    }
    fsm_outcome_found(outcome, text);
    outcome->current = 0;
}

/* A known request id: the first outcome again, or a refusal when it names another request. */
static bool apply_repeat(struct fsm *fsm, const struct decoded *decoded, uint32_t number,
                         struct fsm_outcome *outcome)
{
    const struct past_request *past = fsm_past_request_find(fsm, &decoded->request);

    if (past == NULL)
        return false;
    if (past->command != number || past->content_hash != decoded->request.content_hash)
        outcome->status = FSM_REQUEST_ID_REUSED;
    else
        fsm_past_request_outcome(past, outcome);
    if (!outcome->repeated)
        name_reuse(past, number, decoded, outcome);
    return true;
}

/* The table of request ids is asked for room first: a command whose outcome could not be remembered
 * would be done twice by a retry. */
static void apply_fresh(struct fsm *fsm, const struct decoded *decoded,
                        const struct fsm_command_info *info, struct fsm_outcome *outcome)
{
    const struct audit_view *was;
    bool remember = decoded->request.id[0] != '\0';
    struct request request = decoded->request;
    struct request_fields fields;

    if (remember && fsm_level(fsm) >= FIELDS_LEVEL) {
        fsm_request_fields(decoded->packed, decoded->packed_bytes, info->number, &fields);
        request.fields = &fields;
    }
    if (remember) {
        outcome->status = fsm_past_request_make_room(fsm, outcome);
        if (outcome->status != FSM_OK)
            return;
    }
    if (!fsm->initialised && !info->before_init)
        outcome->status = FSM_NOT_INITIALISED;
    else if (fsm->passive_since_ms != 0 && !info->while_passive)
        outcome->status = FSM_PASSIVE;
    else if (!info->while_paused && fsm_pause(fsm) != NULL)
        outcome->status = fsm_pause_refusal(fsm, outcome);
    else {
        was = fsm_audit_begin(fsm, decoded->command, info);
        outcome->status = info->apply(fsm, decoded->command, outcome);
        if (was != NULL && outcome->status == FSM_OK)
            fsm_audit_end(fsm, decoded->command,
                          &(struct fsm_packed_command){decoded->packed, decoded->packed_bytes}, was,
                          outcome);
    }
    if (remember)
        fsm_past_request_add(fsm, &request, (uint8_t)info->number, fsm->now_ms, outcome);
}

/* The clock moves before the handler judges: a deadline that the command's own stamp has passed has
 * passed for it. Request ids expire by this clock and by commands alone, so on every member at the
 * same one. */
static void apply_command(struct fsm *fsm, const struct decoded *decoded,
                          struct fsm_outcome *outcome)
{
    const fsm_command *command = decoded->command;
    const struct fsm_command_info *info;

    outcome_start(outcome, fsm->index);
    outcome->status = fsm_validate_packed(command, decoded->packed_bytes, outcome);
    if (outcome->status != FSM_OK) {
        fsm_note_newer(fsm, command, outcome->status);
        return; /* not proposed by this version's leader, yet decided alike by all */
    }
    fsm_note_newer(fsm, command, FSM_OK);
    info = fsm_command_info((uint32_t)command->body_case);
    fsm->now_ms = fsm_max(fsm->now_ms, command->now_ms);
    fsm->command_count++;
    fsm_past_requests_expire(fsm);
    fsm->caller = command->caller;
    fsm->command_name = info->name;
    fsm->command_request_id = command->request_id;
    if (decoded->request.id[0] == '\0' || !apply_repeat(fsm, decoded, info->number, outcome))
        apply_fresh(fsm, decoded, info, outcome);
    fsm->caller = NULL;
    fsm->command_name = NULL;
    fsm->command_request_id = NULL;
    fsm_moved_check(fsm);
}

void fsm_apply_entry(struct fsm *fsm, const struct fsm_entry *entry, fsm_outcome_fn *on_outcome,
                     void *context)
{
    struct decoded *commands = NULL;
    size_t count = 0;
    struct fsm_outcome outcome;

    CHECK(fsm != NULL);
    CHECK(entry->index > fsm->index);
    CHECK(entry->bytes != NULL || entry->length == 0);
    fsm->index = entry->index;
    fsm->term = entry->term;
    fsm->state_hash =
        fsm_hash_bytes(fsm_hash_mix(fsm->state_hash, entry->index), entry->bytes, entry->length);
    if (!fsm_decode_entry(fsm, entry->bytes, entry->length, &commands, &count)) {
        fsm->malformed_entries++;
        count = 0;
    }
    fsm_look_first(fsm, commands, count);
    for (size_t i = 0; i < count; i++) {
        if (i % FSM_LOOK_COMMANDS == 0)
            fsm_look_ahead(fsm, commands, count, i);
        apply_command(fsm, &commands[i], &outcome);
        outcome_hash(fsm, &outcome);
        if (on_outcome != NULL)
            on_outcome(context, i, &outcome);
    }
    fsm_audit_settle(fsm);
    fsm_tables_check(fsm);
    fsm_arena_reset(&fsm->arena);
}
