/* Reports of node agents: each taken once, in order, whatever was duplicated, delayed or replayed
 * (F-022, F-023, I22).
 *
 * Flow     the node's next report number is last + 1. A smaller one was taken already
 *          (STALE_REPORT, acknowledged all the same), a larger one shows a gap (STALE_REPORT, not
 *          taken: the agent sends the missing ones first). A report that is taken uses up its
 *          number even when it is about nothing that exists any more, or of an earlier run of the
 *          part (EARLIER_RUN). That one began there after its node had counted as empty is heard
 *          all the same: it is ended before the node is given back. A report is lost with an
 *          agent's journal, or by a restore from a backup: of a start tells then what runs on the
 *          node (NodeRunning), when that was said after the last report that was taken and before
 *          any other.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#include <stdio.h>

#define KIND(name)   CKPT__V1__REPORT_KIND__REPORT_KIND_##name
#define REASON(name) CKPT__V1__REASON__REASON_##name
#define ENDS(name)   CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name

enum { SHA256_BYTES = 32, SHA256_HEX = 64 };

/* A report and what it is about, found once: each of these is NULL where there is none. */
struct report {
    const Ckpt__V1__AgentReport *message;
    struct node *node;
    struct allocation *allocation;
    struct assignment *part;
    struct checkpoint *checkpoint;
    struct fsm_shard *shard;
};

static int report_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Agents may send anything: a text that is no sum fails the attempt, not the program. */
static bool report_sha256(const char *text, uint8_t ret_bytes[SHA256_BYTES])
{
    if (strlen(text) != SHA256_HEX)
        return false;
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        int high = report_hex(text[2 * i]);
        int low = report_hex(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        ret_bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* An agent that lost its memory was asked once more, and what the application wrote then lies where
 * the first shard did. */
static void report_verified_again(struct fsm *fsm, const struct report *report)
{
    uint8_t sha256[SHA256_BYTES];

    CHECK(report->node != NULL);
    if (report->message->size_bytes != report->shard->size_bytes ||
        strcmp(report->message->label, report->checkpoint->view.label) != 0 ||
        !report_sha256(report->message->manifest_sha256, sha256) ||
        memcmp(sha256, report->shard->manifest_sha256, SHA256_BYTES) != 0)
        fsm_checkpoint_attempt_failed(fsm, report->checkpoint, REASON(VERIFY_FAILED));
}

/* NULL: none is. */
static const struct fsm_shard *report_first_verified(const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++)
        if (checkpoint->shards[i].verified)
            return &checkpoint->shards[i];
    return NULL;
}

static const char *report_label_text(const char *label)
{
    return label[0] == '\0' ? "no step" : label;
}

/* Parts that saved different steps are no checkpoint, and what saved none cannot be compared with
 * what did. The first verified shard's is that of all. Both are told, so that whoever wrote the
 * application can see how far they are apart. */
static bool report_label_fits(struct fsm *fsm, const struct report *report)
{
    struct checkpoint *checkpoint = report->checkpoint;
    const char *label = report->message->label;
    const struct fsm_shard *other;
    char detail[FSM_DETAIL_BYTES];

    CHECK(!report->shard->verified);
    if (strcmp(label, checkpoint->view.label) == 0)
        return true;
    other = report_first_verified(checkpoint);
    if (other == NULL) {
        fsm_intern_set(fsm, &checkpoint->view.label, label);
        return true;
    }
    snprintf(detail, sizeof(detail), "part %td says %s, part %td (%s) says %s",
             other - checkpoint->shards, report_label_text(checkpoint->view.label),
             report->shard - checkpoint->shards, report->node->view.id, report_label_text(label));
    fsm->detail = detail;
    fsm_checkpoint_attempt_failed(fsm, checkpoint, REASON(STEP_MISMATCH));
    fsm->detail = NULL;
    return false;
}

/* Agents may send anything here too: without the word of a rank nothing is complete, and a label is
 * a short plain word. */
static bool report_shard_valid(const Ckpt__V1__AgentReport *message,
                               uint8_t ret_sha256[SHA256_BYTES])
{
    return message->size_bytes <= FSM_NODE_BYTES_MAX && message->ranks > 0 &&
           (message->label[0] == '\0' || label_valid(message->label)) &&
           report_sha256(message->manifest_sha256, ret_sha256);
}

/* An agent that knows nothing of staging says nothing, and has done what all of them can: so has
 * one that names what is not known here, as far as can be told. */
static Ckpt__V1__Staging report_staging(const Ckpt__V1__AgentReport *message)
{
    CHECK(message->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED);
    return message->staging == CKPT__V1__STAGING__STAGING_DIRECT ||
                   message->staging == CKPT__V1__STAGING__STAGING_MEMORY
               ? message->staging
               : CKPT__V1__STAGING__STAGING_LOCAL;
}

static void report_all_verified(struct fsm *fsm, struct checkpoint *checkpoint)
{
    char detail[FSM_DETAIL_BYTES];

    CHECK(fsm_checkpoint_writes(checkpoint));
    if (fsm_ranks_whole(checkpoint, detail)) {
        fsm_checkpoint_complete(fsm, checkpoint);
        return;
    }
    fsm->detail = detail;
    fsm_checkpoint_attempt_failed(fsm, checkpoint, REASON(RANKS_MISSING));
    fsm->detail = NULL;
}

/* The report of a shard also says that the application was asked, should the report of that be
 * lost. An empty checkpoint is a failure that no second attempt cures: the application wrote
 * nothing. Sizes beyond the limit would overflow the sums. */
static void report_verified(struct fsm *fsm, const struct report *report)
{
    struct checkpoint *checkpoint = report->checkpoint;
    struct fsm_shard *shard = report->shard;
    uint64_t size_bytes = report->message->size_bytes;

    CHECK(report->node != NULL);
    if (shard->verified) {
        report_verified_again(fsm, report);
        return;
    }
    fsm_checkpoint_started(fsm, checkpoint, shard, report->message->snapshot_age_ms);
    if (report->message->saved_before_ms != 0)
        fsm_checkpoint_saved_before(fsm, checkpoint, report->message->snapshot_age_ms,
                                    report->message->saved_before_ms);
    if (size_bytes == 0) { /* S5-007 */
        fsm_checkpoint_attempt_failed(fsm, checkpoint, REASON(EMPTY_CHECKPOINT));
        return;
    }
    if (!report_shard_valid(report->message, shard->manifest_sha256)) {
        fsm_checkpoint_attempt_failed(fsm, checkpoint, REASON(VERIFY_FAILED));
        return;
    }
    if (!report_label_fits(fsm, report))
        return;
    shard->verified = true;
    shard->rank_print = report->message->rank_print;
    fsm_copies_verified(checkpoint, shard);
    shard->ranks_all = report->message->ranks_all;
    shard->ranks = (uint32_t)fsm_min(report->message->ranks, FSM_RANKS_PER_NODE_MAX);
    shard->size_bytes = size_bytes;
    /* what is planned with is the whole size: another checkpoint may have nothing to take over */
    shard->written_bytes = fsm_min(report->message->written_bytes, size_bytes);
    shard->staging = report_staging(report->message);
    shard->write_ms = fsm_min(report->message->write_ms, FSM_DURATION_MAX_MS);
    shard->stall_ms = fsm_min(report->message->stall_ms, FSM_DURATION_MAX_MS);
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++)
        if (!checkpoint->shards[i].verified) {
            fsm_barrier_review(fsm, checkpoint);
            return;
        }
    report_all_verified(fsm, checkpoint);
}

/* The agent's words go with whatever state follows, by fsm->detail, for as long as this report is
 * applied. */
static void report_failed(struct fsm *fsm, const struct report *report)
{
    char detail[FSM_DETAIL_BYTES];

    CHECK(report->node != NULL);
    fsm_report_detail(report->message->detail, detail);
    fsm->detail = detail[0] == '\0' ? NULL : detail;
    if (report->message->reason == REASON(CHECKPOINT_TIMEOUT))
        fsm_checkpoint_timed_out(fsm, report->checkpoint, true);
    else
        fsm_checkpoint_attempt_failed(fsm, report->checkpoint, report->message->reason);
    fsm->detail = NULL;
}

/* The count tells without a walk whether the application has finished everywhere. */
static void report_mark_exited(const struct report *report, bool exited)
{
    CHECK(report->node != NULL);
    if (report->part->exited == exited)
        return;
    report->part->exited = exited;
    if (exited)
        report->allocation->exited_count++;
    else
        report->allocation->exited_count--;
}

/* ckpt-run starts it again in place: the work since the last checkpoint is lost, the attempt that
 * was under way too. */
static void report_restarting_alone(struct fsm *fsm, const struct report *report)
{
    struct fsm_allocation *view = &report->allocation->view;
    struct checkpoint *active =
        checkpoint_edit(fsm, checkpoint_find_active(fsm, report->allocation));

    CHECK(report->node != NULL);
    view->restart_count++;
    fsm_account_part_died(fsm, report->allocation);
    fsm_allocation_part_starting(fsm, report->allocation, report->part, true);
    view->last_complete_snapshot_ms = fsm_max(view->last_complete_snapshot_ms, fsm->now_ms);
    if (active != NULL && fsm_checkpoint_writes(active))
        fsm_checkpoint_attempt_failed(fsm, active, REASON(APPLICATION_EXITED));
}

/* One part of several may not go back to a checkpoint while the others go on: what they would write
 * together next would be of two histories. All stop, this part by its order too, and start again
 * from one checkpoint. */
static void report_restarting(struct fsm *fsm, const struct report *report)
{
    struct allocation *allocation = report->allocation;

    CHECK(report->node != NULL);
    if (allocation->view.node_count == 1)
        report_restarting_alone(fsm, report);
    else
        fsm_terminate_begin(fsm, allocation, fsm_plan_again(fsm, allocation));
}

/* Status 0 and no wish to start again: the application says that it is done. */
static bool report_finished(const struct report *report)
{
    CHECK(report->node != NULL);
    return report->message->kind == KIND(APPLICATION_EXITED) && report->message->exit_status == 0 &&
           report->message->will_restart == 0;
}

/* Its ckpt-run went with it, as when a node loses all its processes: nobody saw how it ended, and
 * the policy for lost nodes holds. */
static bool report_end_unseen(const struct fsm *fsm, const struct report *report)
{
    CHECK(report->node != NULL);
    return fsm_level(fsm) >= 2 &&
           report->message->end == CKPT__V1__APPLICATION_END__APPLICATION_END_UNSEEN;
}

/* An end that somebody asked for is no failure, and no policy brings it back. */
static bool report_end_asked(const struct fsm *fsm, const struct report *report)
{
    CHECK(report->node != NULL);
    return fsm_level(fsm) >= 2 &&
           report->message->end == CKPT__V1__APPLICATION_END__APPLICATION_END_ASKED;
}

static struct fsm_plan report_plan_exit(const struct fsm *fsm, const struct report *report)
{
    struct fsm_plan plan = fsm_plan_failure(fsm, report->allocation, REASON(APPLICATION_EXITED),
                                            report_end_unseen(fsm, report));

    CHECK(!report->allocation->view.terminating);
    if (report_end_asked(fsm, report))
        plan.state = ENDS(FAILED);
    return plan;
}

/* Its peers, which end with it, may have been heard first: the stop that they began as a failure is
 * what somebody asked for. */
static void report_learn_end(const struct fsm *fsm, const struct report *report)
{
    struct allocation *allocation = report->allocation;

    CHECK(allocation != NULL);
    if (allocation->view.terminating && allocation->plan_reason == REASON(APPLICATION_EXITED) &&
        report_end_asked(fsm, report))
        allocation->plan_state = ENDS(FAILED);
}

/* In this order: a stop takes any end for its own; a restart in place is none; an end with an error
 * ends the whole job; an end with status 0 waits for the other parts. Deaths are counted only where
 * nobody had asked for them. */
static void report_exited(struct fsm *fsm, const struct report *report)
{
    struct allocation *allocation = report->allocation;

    report_mark_exited(report, report_finished(report));
    report_learn_end(fsm, report);
    fsm_cause_told(fsm, allocation, report->node, report->message);
    if (!allocation->view.terminating && !report->part->exited) {
        allocation->view.death_count += allocation->view.death_count < UINT32_MAX;
        fsm_cause_exited(fsm, allocation, report->node, (uint32_t)report->message->exit_status);
    }
    if (allocation->view.terminating)
        fsm_terminate_part(fsm, allocation, report->part);
    else if (report->message->will_restart != 0)
        report_restarting(fsm, report);
    else if (!report->part->exited)
        fsm_terminate_without(fsm, allocation, report->part, report_plan_exit(fsm, report));
    else if (fsm_terminate_finished(allocation)) /* F-021 */
        fsm_allocation_end(fsm, allocation, ENDS(COMPLETED), REASON(NONE));
}

/* Its job had ended without its node's word, which says now whether it runs. A start that is told
 * so late is of a run that the node is still to end. */
static void report_unended(struct fsm *fsm, const struct report *report)
{
    const Ckpt__V1__AgentReport *message = report->message;

    CHECK(report->part != NULL);
    if (fsm_level(fsm) < 2)
        return;
    if (message->kind == KIND(APPLICATION_STARTED))
        fsm_unended_lives(fsm, report->allocation, report->part);
    else if (fsm_report_ends(message))
        fsm_unended_ended(fsm, report->allocation, report->part);
}

/* It was stopped without its node's word, which says now that there was nothing left to stop. */
static void report_finished_late(struct fsm *fsm, const struct report *report)
{
    struct allocation *allocation = report->allocation;

    CHECK(report->node != NULL);
    if (!report_finished(report) ||
        !fsm_allocation_move_allowed(allocation->view.state, ENDS(COMPLETED)))
        return;
    report_mark_exited(report, true);
    fsm_unended_told(fsm, report->part);
    if (fsm_terminate_finished(allocation))
        fsm_allocation_end(fsm, allocation, ENDS(COMPLETED), REASON(NONE));
}

/* I45: the parts of a run begin from the one checkpoint that was chosen for all. */
static bool report_began_apart(const struct report *report)
{
    const struct fsm_allocation *view = &report->allocation->view;

    CHECK(report->node != NULL);
    return view->node_count > 1 && !report->part->joined &&
           report->message->restored_checkpoint_id != view->restart_id;
}

/* While it was starting it computed nothing: the work that is not saved is that much less. */
static void report_began_to_run(const struct fsm *fsm, const struct report *report,
                                uint64_t starting_since_ms)
{
    struct fsm_allocation *view = &report->allocation->view;
    uint64_t starting_ms = fsm_since(fsm, starting_since_ms);

    CHECK(report->node != NULL);
    starting_ms -= fsm_min(starting_ms, report->message->snapshot_age_ms);
    view->last_complete_snapshot_ms =
        fsm_min(fsm->now_ms, fsm_add(view->last_complete_snapshot_ms, starting_ms));
    if (view->resumed_at_ms != 0) /* only now it makes progress again */
        view->resumed_at_ms = fsm->now_ms;
}

/* The very first start of a job restarted nothing, lost nothing and is no event. Any other one puts
 * the work at stake back to zero, and protects a preempted job from now on. */
static void report_application_started(struct fsm *fsm, const struct report *report)
{
    struct fsm_allocation *view = &report->allocation->view;
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_RESTARTED,
                              .allocation_id = view->id,
                              .checkpoint_id = report->message->restored_checkpoint_id,
                              .subject = report->node->view.id,
                              .number = view->restart_count};
    bool first = view->restart_count == 0 && report->message->restored_checkpoint_id == 0;
    bool starting = view->state == ENDS(STARTING);
    uint64_t starting_since_ms = view->state_since_ms;

    CHECK(report->node != NULL);
    report_mark_exited(report, false);
    fsm_terminate_again(fsm, report->allocation, report->part);
    fsm_account_part_started(fsm, report->allocation, report->part,
                             report->message->restored_checkpoint_id);
    fsm_allocation_part_starting(fsm, report->allocation, report->part, false);
    if (first && starting && view->state == ENDS(RUNNING))
        report_began_to_run(fsm, report, starting_since_ms);
    if (first)
        return;
    view->last_complete_snapshot_ms = fsm_max(view->last_complete_snapshot_ms, fsm->now_ms);
    if (view->resumed_at_ms != 0)
        view->resumed_at_ms = fsm->now_ms;
    fsm_event_emit(fsm, &event);
}

/* What began apart is ended after its start was booked, so that the account knows what it held. */
static void report_began(struct fsm *fsm, const struct report *report)
{
    struct allocation *allocation = report->allocation;
    bool apart = report_began_apart(report);

    CHECK(report->node != NULL);
    if (fsm_level(fsm) >= 2)
        report->part->user = report->message->user;
    report_application_started(fsm, report);
    fsm_begin_restored(fsm, allocation, report->part, report->message->restored_checkpoint_id,
                       CKPT__V1__RESTORE_MODE__RESTORE_MODE_UNSPECIFIED);
    if (apart && !allocation->view.terminating)
        fsm_terminate_begin(fsm, allocation,
                            fsm_plan_failure(fsm, allocation, REASON(MIXED_RESTART), true));
}

/* The agent acts by itself when the walltime ends, since no leader may be there at that instant. */
static void report_walltime_killed(struct fsm *fsm, const struct report *report)
{
    struct fsm_plan plan = {REASON(WALLTIME_EXCEEDED), ENDS(FAILED), REASON(WALLTIME_EXCEEDED)};

    CHECK(report->node != NULL);
    fsm_terminate_without(fsm, report->allocation, report->part, plan);
}

/* S1-040. Agents may send anything here too. The slowest part is the checkpoint's; what the job
 * said in an earlier attempt counts no more. */
static void report_told(struct fsm *fsm, const struct report *report)
{
    struct fsm_checkpoint *view = &report->checkpoint->view;
    uint64_t told_ms = report->message->told_write_ms;

    CHECK(report->message->kind == KIND(STARTED));
    if (told_ms == 0 || told_ms > FSM_TOLD_WRITE_MAX_MS || told_ms <= view->told_write_ms)
        return;
    view->told_write_ms = told_ms;
    allocation_edit(fsm, allocation_at(fsm, view->allocation_slot))->view.told_write_ms = told_ms;
}

static void report_started(struct fsm *fsm, const struct report *report)
{
    CHECK(report->node != NULL);
    report_told(fsm, report);
    if (report->shard->started && report->message->told_write_ms != 0)
        return; /* said once more, for that alone */
    fsm_checkpoint_started(fsm, report->checkpoint, report->shard,
                           report->message->snapshot_age_ms);
    fsm_barrier_started(fsm, report->checkpoint, report->shard, report->message->barrier);
}

static void report_deferred(struct fsm *fsm, const struct report *report)
{
    CHECK(report->message->kind == KIND(DEFERRED));
    CHECK(report->shard != NULL);
    fsm_checkpoint_defer(fsm, report->checkpoint, report->message->deferral_ms);
    if (fsm_checkpoint_writes(report->checkpoint))
        fsm_barrier_deferred(fsm, report->checkpoint, report->shard);
}

/* Of the checkpoint's job on the node: a node has few jobs, a job may have thousands of nodes. 0:
 * it has left. */
static uint32_t report_place(const struct report *report)
{
    const struct list *parts = &report->node->assignments;

    CHECK(report->checkpoint != NULL);
    for (const struct list *at = parts->next; at != parts; at = at->next) {
        const struct assignment *part = LIST_ITEM_CONST(at, struct assignment, in_node);

        if (part->allocation->view.slot == report->checkpoint->view.allocation_slot)
            return part->share;
    }
    return 0;
}

/* Kinds about a checkpoint. Late ones (an older attempt, a final state, paused) are taken and
 * change nothing. */
static enum fsm_status report_checkpoint(struct fsm *fsm, struct report *report)
{
    const struct checkpoint *checkpoint = report->checkpoint;

    CHECK(report->node != NULL);
    if (checkpoint == NULL)
        return FSM_CHECKPOINT_NOT_FOUND;
    report->shard = fsm_checkpoint_shard(checkpoint, report_place(report), report->node->view.slot);
    if (report->shard == NULL)
        return FSM_NODE_NOT_ASSIGNED;
    if (checkpoint->view.home[0] != '\0')
        return FSM_OK; /* what it cost is of the job that wrote it, whose account is closed */
    if (report->message->attempt != checkpoint->view.attempt) {
        fsm->duplicate_reports++;
        return FSM_OK;
    }
    if (report->message->kind == KIND(STOPPED_WRITING))
        report->shard->stopped_writing = true;
    fsm_account_paused(fsm, report->checkpoint, report->message->stall_ms);
    if (!fsm_checkpoint_writes(checkpoint))
        return FSM_OK;
    if (report->message->kind == KIND(STARTED))
        report_started(fsm, report);
    else if (report->message->kind == KIND(SHARD_VERIFIED))
        report_verified(fsm, report);
    else if (report->message->kind == KIND(CHECKPOINT_FAILED))
        report_failed(fsm, report);
    else if (report->message->kind == KIND(RESPONSIVE))
        fsm_checkpoint_responsive(fsm, report->checkpoint, report->shard,
                                  report->message->stall_ms);
    else if (report->message->kind == KIND(DEFERRED))
        report_deferred(fsm, report);
    else if (report->message->kind == KIND(BARRIER))
        fsm_barrier_reported(fsm, report->checkpoint, report->shard, report->message->step);
    return FSM_OK;
}

/* What is to end and whose ckpt-run has not heard so. */
static bool report_begins_again(const struct report *report)
{
    CHECK(report->node != NULL);
    return (report->allocation->view.terminating || report->part->leaving) &&
           report->message->kind == KIND(APPLICATION_EXITED) && report->message->will_restart != 0;
}

/* Kinds about what an application is to begin from; it does not run yet. */
static void report_beginning(struct fsm *fsm, const struct report *report)
{
    uint64_t checkpoint_id = report->message->restored_checkpoint_id;
    char detail[FSM_DETAIL_BYTES];

    CHECK(report->part != NULL);
    if (report->message->kind == KIND(RESTORED)) {
        fsm_begin_restored(fsm, report->allocation, report->part, checkpoint_id,
                           report->message->restore);
    } else if (report->message->kind == KIND(READ_WANTED)) {
        fsm_read_wanted(fsm, report->allocation, report->part, checkpoint_id);
    } else if (report->message->kind == KIND(READ_ENDED)) {
        fsm_read_ended(fsm, report->allocation, report->part);
    } else {
        fsm_report_detail(report->message->detail, detail);
        fsm->detail = detail[0] == '\0' ? NULL : detail;
        fsm_begin_damaged(fsm, report->allocation, checkpoint_id);
        fsm->detail = NULL;
    }
}

static bool report_about_beginning(Ckpt__V1__ReportKind kind)
{
    return kind == KIND(RESTORED) || kind == KIND(RESTART_DAMAGED) || kind == KIND(READ_WANTED) ||
           kind == KIND(READ_ENDED);
}

/* A part that is leaving is done with whatever its application comes to: the others go on. Any
 * report but a start is the part's own word, for which a stop need not wait any longer. */
static enum fsm_status report_application(struct fsm *fsm, struct report *report)
{
    CHECK(report->node != NULL);
    if (report->allocation == NULL)
        return FSM_ALLOCATION_NOT_FOUND;
    report->part = fsm_allocation_part(report->allocation, report->node->view.slot);
    if (report->part == NULL)
        return fsm_departed_reported(fsm, report->allocation, report->node, report->message);
    if (!fsm_allocation_runs(report->allocation)) {
        report_unended(fsm, report);
        report_finished_late(fsm, report);
        return FSM_OK; /* F-022: the final state wins */
    }
    if (report_about_beginning(report->message->kind)) {
        report_beginning(fsm, report);
        return FSM_OK;
    }
    if (report_begins_again(report)) /* its order stands until nothing runs there */
        return FSM_OK;
    if (report->message->kind != KIND(APPLICATION_STARTED))
        report->part->away = false; /* by its own word now */
    if (report->part->leaving && report->message->kind != KIND(APPLICATION_STARTED))
        fsm_scale_part(fsm, report->allocation, report->part);
    else if (report->message->kind == KIND(APPLICATION_EXITED))
        report_exited(fsm, report);
    else if (report->message->kind == KIND(APPLICATION_STARTED))
        report_began(fsm, report);
    else if (report->message->kind == KIND(WALLTIME_KILLED))
        report_walltime_killed(fsm, report);
    else if (report->allocation->view.terminating) {
        report_learn_end(fsm, report);
        fsm_terminate_part(fsm, report->allocation, report->part);
    }
    return FSM_OK;
}

/* Ended and started again while the node was away, which then tells all of the run before: that is
 * not about this one. Of a later one it counts: this state was restored. */
static bool report_of_earlier_run(const struct report *report, struct fsm_outcome *outcome)
{
    const struct assignment *part =
        report->allocation == NULL
            ? NULL
            : fsm_allocation_part(report->allocation, report->node->view.slot);

    CHECK(report->node != NULL);
    if (part == NULL || report->message->run >= report->allocation->view.nodes[part->share].run)
        return false;
    outcome->current = report->message->run;
    outcome->limit = report->allocation->view.nodes[part->share].run;
    return true;
}

/* The kinds that name a checkpoint and an attempt; all others are about the application. */
static bool report_about_checkpoint(Ckpt__V1__ReportKind kind)
{
    return kind == KIND(STARTED) || kind == KIND(SHARD_VERIFIED) ||
           kind == KIND(CHECKPOINT_FAILED) || kind == KIND(RESPONSIVE) ||
           kind == KIND(STOPPED_WRITING) || kind == KIND(DEFERRED) || kind == KIND(BARRIER);
}

/* Of a folder that is not known any more, that is another node's by now, or of an earlier attempt,
 * a failure says nothing. What was removed is so whoever had the order: the folder of an expired
 * checkpoint is of no use to anybody. */
static enum fsm_status report_removal(struct fsm *fsm, const struct report *report)
{
    const Ckpt__V1__AgentReport *message = report->message;
    struct undeleted *undeleted = fsm_undeleted_edit(fsm, message->checkpoint_id);
    char reason[FSM_UNDELETED_REASON_BYTES];

    CHECK(report->node != NULL);
    if (undeleted == NULL) /* told already, or it is not expired: nobody was asked to */
        return FSM_CHECKPOINT_NOT_FOUND;
    if (message->kind == KIND(COLLECTED))
        return fsm_retention_collected(fsm, message->checkpoint_id, message->size_bytes);
    if (!undeleted->view.given || undeleted->view.node_slot != report->node->view.slot ||
        message->attempt != undeleted->view.attempts + 1)
        return FSM_OK;
    snprintf(reason, sizeof(reason), "%.50s: %.200s", report->node->view.id, message->detail);
    fsm_removal_take(fsm, undeleted);
    fsm_undeleted_failed(fsm, message->checkpoint_id, reason, false);
    return FSM_OK;
}

static bool report_about_verification(Ckpt__V1__ReportKind kind)
{
    return kind == KIND(VERIFIED) || kind == KIND(VERIFY_DAMAGED) || kind == KIND(VERIFY_MISSING) ||
           kind == KIND(VERIFY_FAILED);
}

static enum fsm_status report_verification(struct fsm *fsm, const struct report *report)
{
    char detail[FSM_DETAIL_BYTES];

    CHECK(report->node != NULL);
    if (report->checkpoint == NULL)
        return FSM_CHECKPOINT_NOT_FOUND;
    fsm_report_detail(report->message->detail, detail);
    return fsm_verify_reported(fsm, report->checkpoint,
                               &(struct report_verify){report->message, report->node, detail});
}

static bool report_about_copy(Ckpt__V1__ReportKind kind)
{
    return kind == KIND(COPY_KEPT) || kind == KIND(COPY_DROPPED);
}

/* Of a copy on the node, whatever runs there by now. What it is of is the files: of an attempt that
 * was not the last they are others. */
static enum fsm_status report_copy(struct fsm *fsm, const struct report *report)
{
    uint8_t sha256[SHA256_BYTES];
    char detail[FSM_DETAIL_BYTES];
    uint32_t part = report->message->part;

    CHECK(report->node != NULL);
    if (report->checkpoint == NULL || part >= report->checkpoint->view.shard_count)
        return FSM_CHECKPOINT_NOT_FOUND;
    if (report->message->kind == KIND(COPY_DROPPED)) {
        fsm_report_detail(report->message->detail, detail);
        fsm->detail = detail[0] == '\0' ? NULL : detail;
        fsm_copies_dropped(fsm, report->checkpoint, part, report->node);
        fsm->detail = NULL;
    } else if (report_sha256(report->message->manifest_sha256, sha256) &&
               memcmp(sha256, report->checkpoint->shards[part].manifest_sha256, SHA256_BYTES) ==
                   0) {
        fsm_copies_kept(fsm, report->checkpoint, part, report->node);
    } else {
        fsm_node_changed(fsm, report->node);
    }
    return FSM_OK;
}

/* The number is taken before anything is looked at: a report about something that is gone must not
 * block all later ones of its node, since the agent keeps it until it is acknowledged. */
enum fsm_status fsm_apply_node_report(struct fsm *fsm, const fsm_command *command,
                                      struct fsm_outcome *outcome)
{
    const Ckpt__V1__AgentReport *message = command->node_report->report;
    struct report report = {.message = message,
                            .node = node_edit(fsm, node_find(fsm, command->node_report->node_id))};
    enum fsm_status status;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT);
    CHECK(outcome != NULL);
    if (report.node == NULL) {
        fsm->rejected_reports++;
        return FSM_NODE_NOT_FOUND;
    }
    outcome->current = message->sequence;
    outcome->limit = report.node->view.last_report_sequence + 1;
    if (message->sequence != outcome->limit) {
        fsm->duplicate_reports += message->sequence < outcome->limit;
        return FSM_STALE_REPORT;
    }
    report.node->view.last_report_sequence = message->sequence;
    if (message->kind == KIND(COLLECTED) || message->kind == KIND(COLLECT_FAILED)) {
        outcome->checkpoint_id = message->checkpoint_id;
        return report_removal(fsm, &report);
    }
    report.allocation = allocation_edit(fsm, allocation_find(fsm, message->allocation_id));
    report.checkpoint = checkpoint_edit(fsm, checkpoint_find(fsm, message->checkpoint_id));
    outcome->checkpoint_id = message->checkpoint_id;
    if (report_about_copy(message->kind) || report_about_verification(message->kind)) {
        status = report_about_copy(message->kind) ? report_copy(fsm, &report)
                                                  : report_verification(fsm, &report);
        fsm->rejected_reports += status != FSM_OK;
        return status;
    }
    if (report_of_earlier_run(&report, outcome)) {
        if (message->kind == KIND(APPLICATION_STARTED)) /* whatever run it is of, it lives there */
            fsm_terminate_again(fsm, report.allocation,
                                fsm_allocation_part(report.allocation, report.node->view.slot));
        fsm->earlier_run_reports++;
        return FSM_EARLIER_RUN;
    }
    status = report_about_checkpoint(message->kind) ? report_checkpoint(fsm, &report)
                                                    : report_application(fsm, &report);
    fsm->rejected_reports += status != FSM_OK;
    return status;
}

/* From which checkpoint, and when, is not known: what it could lose is what it could have lost
 * before. */
static void report_runs(struct fsm *fsm, struct node *node, const Ckpt__Log__V1__RunningPart *item)
{
    struct allocation *allocation = allocation_edit(fsm, allocation_find(fsm, item->allocation_id));

    CHECK(node->view.id != NULL);
    if (allocation == NULL || !fsm_part_awaits(&allocation->view, node->view.slot, item->run))
        return;
    fsm_allocation_part_starting(fsm, allocation, fsm_allocation_part(allocation, node->view.slot),
                                 false);
    if (allocation->view.resumed_at_ms != 0)
        allocation->view.resumed_at_ms = fsm->now_ms;
}

/* What runs was said beside the number of the last report. Another number now means that a report
 * came in between, which knows better; another boot means that what was said is gone. */
enum fsm_status fsm_apply_node_running(struct fsm *fsm, const fsm_command *command,
                                       struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__NodeRunning *seen = command->node_running;
    struct node *node = node_edit(fsm, node_find(fsm, seen->node_id));

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_NODE_RUNNING);
    CHECK(outcome != NULL);
    if (node == NULL)
        return FSM_NODE_NOT_FOUND;
    outcome->current = seen->report_sequence;
    outcome->limit = node->view.last_report_sequence;
    if (outcome->current != outcome->limit || strcmp(seen->boot_id, node->view.boot_id) != 0)
        return FSM_STALE_REPORT;
    for (size_t i = 0; i < seen->n_running; i++)
        report_runs(fsm, node, seen->running[i]);
    return FSM_OK;
}
