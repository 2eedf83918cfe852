/* Golden scenarios of the state machine: tests/golden/NAME.txt holds commands ("> ...") and what
 * each came to, exactly.
 *
 * Flow     each file is replayed on a fresh state machine; the transcript must equal the file.
 *          --update rewrites the files; the diff is then reviewed. Lines with "#" are comments.
 *          Invariants are verified after each command.
 * Shapes   besides commands (tests/unit/fsm/script.h): show jobs | accounts | losses | checkpoints | grantable | collectable | verifiable | deadline | target NAME |
 *          orders NODE | parts JOB | restart JOB, and `snapshot`: the state is read back from one.
 */
#include "fsm/begin.h"
#include "tests/golden/transcript.h"
#include "tests/unit/fsm/script.h"

enum { IDS_MAX = 64 };

static const char *id_text(uint64_t id, char text[CHECKPOINT_ID_TEXT_BYTES])
{
    return id == 0 ? "-" : checkpoint_id_format(id, text);
}

static void say_event(struct transcript *out, const Ckpt__V1__Event *event)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    say(out, "  [%" PRIu64 "] ", event->sequence);
    switch (event->kind) {
    case CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_REGISTERED:
    case CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_STATE:
        say(out, "job %s %s -> %s", event->allocation_id,
            fsm_allocation_state_name((Ckpt__V1__AllocationState)event->old_state),
            fsm_allocation_state_name((Ckpt__V1__AllocationState)event->new_state));
        break;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE:
        say(out, "checkpoint %s of %s %s -> %s attempt %" PRIu64, id_text(event->checkpoint_id, id),
            event->allocation_id,
            fsm_checkpoint_state_name((Ckpt__V1__CheckpointState)event->old_state),
            fsm_checkpoint_state_name((Ckpt__V1__CheckpointState)event->new_state), event->number);
        break;
    default:
        say(out, "%s job=%s subject=%s new=%u number=%" PRIu64,
            protobuf_c_enum_descriptor_get_value(&ckpt__v1__event_kind__descriptor,
                                                 (int)event->kind)
                    ->name +
                strlen("EVENT_KIND_"),
            event->allocation_id, event->subject, event->new_state, event->number);
    }
    if (event->reason != CKPT__V1__REASON__REASON_NONE)
        say(out, " (%s)", fsm_reason_word(event->reason, (char[FSM_WORD_BYTES]){0}));
    say(out, "\n");
}

static void say_outcome(struct transcript *out, const struct fsm_outcome *outcome)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    say(out, "  = %s", fsm_status_name(outcome->status));
    if (outcome->repeated)
        say(out, " repeated");
    if (outcome->checkpoint_id != 0)
        say(out, " checkpoint=%s", id_text(outcome->checkpoint_id, id));
    if (outcome->preemption_id != 0)
        say(out, " preemption=%" PRIu64, outcome->preemption_id);
    if (outcome->current != 0 || outcome->limit != 0)
        say(out, " current=%" PRIu64 " limit=%" PRIu64, outcome->current, outcome->limit);
    for (uint32_t i = 0; i < outcome->victim_count; i++)
        say(out, " victim=%s/%s", outcome->victims[i].allocation_id,
            id_text(outcome->victims[i].checkpoint_id, id));
    say(out, "\n");
}

static void say_events(struct transcript *out, struct script *script)
{
    const Ckpt__V1__Event *event;
    bool gap;

    while ((event = fsm_event_after(script->fsm, script->event_sequence, &gap)) != NULL) {
        say_event(out, event);
        script->event_sequence = event->sequence;
    }
}

static void show_jobs(struct transcript *out, const struct fsm *fsm)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    for (uint32_t slot = 0; slot < fsm_allocation_slots(fsm); slot++) {
        const struct fsm_allocation *job = fsm_allocation_find_slot(fsm, slot);
        struct fsm_account account;

        if (job == NULL)
            continue;
        fsm_allocation_account(fsm, job, 0, &account);
        say(out, "  job %s %s reason=%s nodes=%u active=%s", job->id,
            fsm_allocation_state_name(job->state),
            fsm_reason_word(job->reason, (char[FSM_WORD_BYTES]){0}), job->node_count,
            id_text(job->active_checkpoint_id, id));
        say(out, " last=%s", id_text(job->last_complete_id, id));
        say(out, " previous=%s complete=%" PRIu64, id_text(job->previous_complete_id, id),
            job->complete_count);
        say(out, " lost_gpu_ms=%" PRIu64 " requeued=%u preempted=%u restarts=%u%s%s\n",
            fsm_account_repeated(&account), job->requeue_count, job->preempted_count,
            job->restart_count, job->terminating ? " terminating" : "",
            job->unresponsive ? " unresponsive" : "");
        if (job->hung_since_ms != 0)
            say(out, "    hung: %s\n", job->hang_text);
        if (job->continued_by[0] != '\0')
            say(out, "    continued by %s\n", job->continued_by);
    }
}

static void say_account(struct transcript *out, const char *what, const char *name,
                        const struct fsm_account *account)
{
    say(out, "  %s %s held=%" PRIu64 " useful=%" PRIu64 " pending=%" PRIu64, what, name,
        account->held_gpu_ms, account->useful_gpu_ms, account->pending_gpu_ms);
    for (int cause = 0; cause < FSM_LOSS_COUNT; cause++)
        if (account->lost_gpu_ms[cause] != 0)
            say(out, " %s=%" PRIu64, fsm_loss_name((enum fsm_loss)cause),
                account->lost_gpu_ms[cause]);
    say(out, "\n");
}

static void show_accounts(struct transcript *out, const struct fsm *fsm)
{
    struct fsm_account account;
    const char *tenant;

    for (uint32_t slot = 0; slot < fsm_allocation_slots(fsm); slot++) {
        const struct fsm_allocation *job = fsm_allocation_find_slot(fsm, slot);

        if (job == NULL)
            continue;
        fsm_allocation_account(fsm, job, 0, &account);
        say_account(out, "job", job->id, &account);
    }
    for (uint32_t i = 0; (tenant = fsm_tenant_account(fsm, i, 0, &account)) != NULL; i++)
        say_account(out, "tenant", tenant, &account);
}

static const char *deferred_text(const struct fsm_checkpoint *checkpoint, char text[64])
{
    text[0] = '\0';
    if (checkpoint->deferred_ms > 0)
        snprintf(text, 64, " deferred=%" PRIu64, checkpoint->deferred_ms);
    return text;
}

/* Whose it is by now, and where it lies. */
static void say_home(struct transcript *out, const struct fsm *fsm,
                     const struct fsm_checkpoint *checkpoint)
{
    char path[FSM_PREFIX_MAX_BYTES + 600];

    if (checkpoint->home[0] == '\0')
        return;
    fsm_checkpoint_path(fsm, checkpoint, path, sizeof(path));
    say(out, "    of %s, at %s\n", fsm_allocation_at(fsm, checkpoint->allocation_slot)->id, path);
}

/* What its ranks said, where they did. */
static void say_ranks(struct transcript *out, const struct fsm_checkpoint *checkpoint)
{
    char word[FSM_WORD_BYTES];

    if (checkpoint->label[0] != '\0')
        say(out, " label=%s", checkpoint->label);
    if (checkpoint->barrier != CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_NONE)
        say(out, " barrier=%s",
            fsm_enum_word(&ckpt__v1__barrier_phase__descriptor, (int)checkpoint->barrier, word));
    if (checkpoint->agreed_step != 0)
        say(out, " agreed=%" PRIu64, checkpoint->agreed_step);
    if (checkpoint->damaged)
        say(out, " damaged");
    if (checkpoint->detail[0] != '\0')
        say(out, " detail=%s", checkpoint->detail);
    say(out, "\n");
}

static void show_checkpoints(struct transcript *out, const struct fsm *fsm)
{
    const struct fsm_checkpoint *at = NULL;
    char deferred[64];
    char id[CHECKPOINT_ID_TEXT_BYTES];

    while ((at = fsm_checkpoint_next(fsm, at == NULL ? 0 : at->id)) != NULL) {
        say(out,
            "  checkpoint %s %s purpose=%s attempt=%u paused=%u resumed=%u deadline=%" PRIu64
            " size=%" PRIu64 " recompute=%" PRIu64 "%s%s",
            id_text(at->id, id), fsm_checkpoint_state_name(at->state),
            fsm_purpose_word(at->purpose, (char[FSM_WORD_BYTES]){0}), at->attempt, at->paused_count,
            at->resumed_count, at->deadline_ms, at->size_bytes, at->recompute_saved_gpu_ms,
            at->extended ? " extended" : "", deferred_text(at, deferred));
        say_ranks(out, at);
        say_home(out, fsm, at);
    }
}

static size_t show_removals(struct transcript *out, const struct fsm *fsm,
                            const struct fsm_node *node)
{
    const struct fsm_undeleted *removals[FSM_REMOVALS_PER_NODE_MAX];
    size_t count = node == NULL
                       ? 0
                       : fsm_removals_on_node(fsm, node->slot, removals, FSM_REMOVALS_PER_NODE_MAX);
    char path[FSM_PREFIX_MAX_BYTES + 600];

    for (size_t i = 0; i < count; i++) {
        fsm_undeleted_path(fsm, removals[i], path, sizeof(path));
        say(out, "  order collect attempt=%u owner=%s path=%s\n", removals[i]->attempts + 1,
            removals[i]->owner, path);
    }
    return count;
}

static size_t show_verifications(struct transcript *out, const struct fsm *fsm,
                                 const struct fsm_node *node)
{
    const struct fsm_verification *reads[FSM_VERIFICATIONS_PER_NODE_MAX];
    size_t count = node == NULL ? 0
                                : fsm_verifications_on_node(fsm, node->slot, reads,
                                                            FSM_VERIFICATIONS_PER_NODE_MAX);
    char id[CHECKPOINT_ID_TEXT_BYTES];

    for (size_t i = 0; i < count; i++)
        say(out, "  order verify %s attempt=%u part=%u\n", id_text(reads[i]->checkpoint_id, id),
            fsm_verify_attempt(fsm, reads[i]), reads[i]->part);
    return count;
}

static void show_orders(struct transcript *out, const struct fsm *fsm, const char *name)
{
    const struct fsm_node *node = fsm_node_find(fsm, name);
    struct fsm_order orders[IDS_MAX];
    size_t count = node == NULL ? 0 : fsm_orders_for_node(fsm, node->slot, orders, IDS_MAX);
    char id[CHECKPOINT_ID_TEXT_BYTES];
    char path[FSM_PREFIX_MAX_BYTES + 600];

    for (size_t i = 0; i < count; i++) {
        if (orders[i].kind == FSM_ORDER_TERMINATE) {
            say(out, "  order terminate %s grace=%" PRIu64 " (%s)\n", orders[i].allocation->id,
                orders[i].grace_ms, fsm_reason_word(orders[i].reason, (char[FSM_WORD_BYTES]){0}));
            continue;
        }
        fsm_checkpoint_path(fsm, orders[i].checkpoint, path, sizeof(path));
        say(out, "  order checkpoint %s attempt=%u timeout=%" PRIu64 " path=%s",
            id_text(orders[i].checkpoint->id, id), orders[i].checkpoint->attempt,
            orders[i].timeout_ms, path);
        if (orders[i].checkpoint->shard_count > 1)
            say(out, " part=%u", orders[i].part);
        say(out, "\n");
    }
    count += show_removals(out, fsm, node);
    count += show_verifications(out, fsm, node);
    if (count == 0)
        say(out, "  no orders\n");
}

/* What it may read of its target; of one that restores nothing that says nothing. */
static void show_read(struct transcript *out, const struct fsm *fsm, const struct fsm_part *part)
{
    char word[FSM_WORD_BYTES];
    struct fsm_reads reads;

    fsm_reads(fsm, part->allocation, &reads);
    if (reads.target == NULL) {
        say(out, "\n");
        return;
    }
    say(out, " read=%s", fsm_enum_word(&ckpt__v1__read_state__descriptor, (int)part->read, word));
    if (part->read == CKPT__V1__READ_STATE__READ_STATE_WAITS)
        say(out, " place=%u of %u", reads.place, reads.line);
    say(out, " rate=%" PRIu64 "\n", part->read_bytes_per_s);
}

/* Each with what it needs to begin. */
static void show_parts(struct transcript *out, const struct fsm *fsm, const char *name)
{
    const struct fsm_allocation *job = fsm_allocation_find(fsm, name);
    char id[CHECKPOINT_ID_TEXT_BYTES], word[FSM_WORD_BYTES];

    for (uint32_t i = 0; job != NULL && i < job->node_count; i++) {
        struct fsm_part part;

        if (!fsm_part_on(fsm, job, job->nodes[i].node_slot, &part))
            continue;
        say(out, "  part %u on %s from %s %s%s%s", part.place,
            fsm_node_name(fsm, job->nodes[i].node_slot), id_text(job->restart_id, id),
            fsm_enum_word(&ckpt__v1__begin_state__descriptor, (int)part.begin, word),
            part.restored ? " restored" : "", part.joined ? " joined" : "");
        show_read(out, fsm, &part);
    }
}

static void show_ids(struct transcript *out, const uint64_t *ids, size_t count)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    say(out, " ");
    for (size_t i = 0; i < count; i++)
        say(out, " %s", id_text(ids[i], id));
    say(out, "%s\n", count == 0 ? " none" : "");
}

static void show_learned(struct transcript *out, const struct fsm *fsm)
{
    for (uint32_t slot = 0; slot < fsm_allocation_slots(fsm); slot++) {
        const struct fsm_allocation *job = fsm_allocation_find_slot(fsm, slot);

        if (job == NULL)
            continue;
        say(out,
            "  job %s learned from %u: write=%" PRIu64 "us +-%" PRIu64 " size=%" PRIu64
            " +-%" PRIu64,
            job->id, job->learned.count, job->learned.write_mean_us,
            job->learned.write_deviation_us, job->size_estimate_bytes,
            job->learned.size_deviation_bytes);
        say(out, " success=%uppm stall=%uppm%s\n", fsm_success_ppm(&job->learned),
            job->learned.stall_ppm, job->learned.stall_measured ? "" : " (not measured)");
    }
}

static void show_losses(struct transcript *out, const struct fsm *fsm)
{
    const Ckpt__Log__V1__SetLearned *learned = fsm_learned(fsm);
    struct fsm_losses losses;

    fsm_get_losses(fsm, &losses);
    say(out, "  node failures by age");
    for (int i = 0; i < FSM_AGE_BINS; i++)
        say(out, " %" PRIu64, losses.node_failures[i]);
    if (learned != NULL)
        say(out, ", learned at %" PRIu64 " in term %" PRIu64 ": %" PRIu64, learned->at_ms,
            learned->term, learned->hazard[0]);
    say(out, "\n");
}

static void show_preemptions(struct transcript *out, const struct fsm *fsm)
{
    const struct fsm_preemption *at = NULL;
    char id[CHECKPOINT_ID_TEXT_BYTES];

    while ((at = fsm_preemption_next(fsm, at == NULL ? 0 : at->id)) != NULL) {
        say(out, "  preemption %" PRIu64 " %s class=%u cost=%" PRIu64 " deadline=%" PRIu64, at->id,
            protobuf_c_enum_descriptor_get_value(&ckpt__v1__preemption_state__descriptor,
                                                 (int)at->state)
                    ->name +
                strlen("PREEMPTION_STATE_"),
            at->acting_class, at->cost_gpu_ms, at->deadline_ms);
        say(out, " escalations=%u\n", at->escalations);
        for (uint32_t i = 0; i < at->victim_count; i++)
            say(out, "    %s %s checkpoint=%s nodes=%u gpus=%u\n", at->victims[i].allocation_id,
                protobuf_c_enum_descriptor_get_value(&ckpt__v1__victim_state__descriptor,
                                                     (int)at->victims[i].state)
                        ->name +
                    strlen("VICTIM_STATE_"),
                id_text(at->victims[i].checkpoint_id, id), at->victims[i].node_count,
                at->victims[i].gpu_count);
    }
}

static void show_undeleted(struct transcript *out, const struct fsm *fsm)
{
    const struct fsm_undeleted *at;
    struct fsm_undeleted_sum sum;
    char id[CHECKPOINT_ID_TEXT_BYTES];
    char path[1024];

    for (uint32_t place = 0; (at = fsm_undeleted_next(fsm, place)) != NULL; place = at->place + 1) {
        (void)fsm_undeleted_path(fsm, at, path, sizeof(path));
        say(out, "  %s of %s %s since=%" PRIu64 " attempts=%u due=%" PRIu64 " reason=%s %s\n",
            checkpoint_id_format(at->checkpoint_id, id), at->allocation_id,
            at->listed ? "listed" : "apart", at->since_ms, at->attempts, fsm_undeleted_due_ms(at),
            at->reason, path);
        if (at->given)
            say(out, "    %s removes it since %" PRIu64 "\n", fsm_node_name(fsm, at->node_slot),
                at->given_at_ms);
    }
    fsm_undeleted_sum(fsm, &sum);
    say(out, "  tried=%" PRIu64 " forgotten=%" PRIu64 "\n", sum.count, sum.forgotten);
}

static void show(struct transcript *out, struct script *script)
{
    const char *what = script_word(script, 1);
    const struct fsm *fsm = script->fsm;
    uint64_t ids[IDS_MAX];

    if (strcmp(what, "jobs") == 0) {
        show_jobs(out, fsm);
    } else if (strcmp(what, "learned") == 0) {
        show_learned(out, fsm);
    } else if (strcmp(what, "accounts") == 0) {
        show_accounts(out, fsm);
    } else if (strcmp(what, "losses") == 0) {
        show_losses(out, fsm);
    } else if (strcmp(what, "checkpoints") == 0) {
        show_checkpoints(out, fsm);
    } else if (strcmp(what, "preemptions") == 0) {
        show_preemptions(out, fsm);
    } else if (strcmp(what, "orders") == 0) {
        show_orders(out, fsm, script_word(script, 2));
    } else if (strcmp(what, "parts") == 0) {
        show_parts(out, fsm, script_word(script, 2));
    } else if (strcmp(what, "grantable") == 0) {
        show_ids(out, ids, fsm_grantable(fsm, ids, IDS_MAX));
    } else if (strcmp(what, "collectable") == 0) {
        show_ids(out, ids, fsm_collectable(fsm, 0, ids, FSM_COLLECTABLE_MAX));
    } else if (strcmp(what, "verifiable") == 0) {
        uint64_t after = 0;

        show_ids(out, ids, fsm_verify_due(fsm, 0, IDS_MAX, &after, ids, IDS_MAX));
    } else if (strcmp(what, "undeleted") == 0) {
        show_undeleted(out, fsm);
    } else if (strcmp(what, "restart") == 0) {
        const struct fsm_checkpoint *point = fsm_restart_point(fsm, script_word(script, 2), 0);

        ids[0] = point == NULL ? 0 : point->id;
        show_ids(out, ids, point != NULL);
    } else if (strcmp(what, "deadline") == 0) {
        uint64_t deadline_ms = fsm_next_deadline_ms(fsm);

        say(out, deadline_ms == UINT64_MAX ? "  none\n" : "  %" PRIu64 "\n", deadline_ms);
    } else if (strcmp(what, "target") == 0) {
        const struct fsm_target *target = fsm_target_find(fsm, script_word(script, 2));

        say(out, "  target %s %s granted=%" PRIu64 " budget=%" PRIu64 " paused=%u", target->id,
            target->available ? "up" : "down", target->granted_bytes_per_s,
            target->budget_bytes_per_s, target->paused_count);
        if (target->measured_bytes_per_s > 0)
            say(out, " measured=%" PRIu64 " at=%" PRIu64, target->measured_bytes_per_s,
                target->measured_at_ms);
        say(out, "\n");
    } else {
        script_die(script, "cannot show that");
    }
}

static void snapshot(struct transcript *out, struct script *script)
{
    struct script_bytes bytes = {NULL, 0, 0, 0};
    struct fsm_summary before;
    struct fsm_summary after;
    char text[256] = "";

    fsm_get_summary(script->fsm, &before);
    fsm_snapshot_write(script->fsm, script_write, &bytes);
    fsm_free(script->fsm);
    script->fsm = fsm_new();
    if (fsm_snapshot_read(script->fsm, script_read, &bytes, text, sizeof(text)) != 0)
        script_die(script, text);
    fsm_get_summary(script->fsm, &after);
    say(out, "  restored, hash %s\n", before.state_hash == after.state_hash ? "equal" : "DIFFERS");
    free(bytes.bytes);
}

struct golden_fsm {
    struct transcript *out;
    struct script script;
};

static void play_line(void *context, char *line)
{
    struct golden_fsm *golden = context;
    struct transcript *out = golden->out;
    struct script *script = &golden->script;

    script->line = line;
    script_split(script, line);
    if (strcmp(script_word(script, 0), "show") == 0) {
        show(out, script);
    } else if (strcmp(script_word(script, 0), "snapshot") == 0) {
        snapshot(out, script);
    } else if (strcmp(script_word(script, 0), "backup") == 0) { /* ... and restored */
        snapshot(out, script);
        fsm_begin_passive(script->fsm);
    } else {
        memset(&script->outcome, 0, sizeof(script->outcome));
        script_run(script, "%s", line);
        if (strncmp(line, "at ", 3) != 0 && strncmp(line, "after ", 6) != 0)
            say_outcome(out, &script->outcome);
        say_events(out, script);
    }
}

static void play(struct transcript *out, const char *source)
{
    struct golden_fsm golden = {.out = out};

    script_open(&golden.script);
    play_lines(out, source, play_line, &golden);
    script_close(&golden.script);
}

int main(int argc, char **argv)
{
    return transcripts_main("tests/golden", play, argc, argv);
}
