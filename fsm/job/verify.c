/* Complete checkpoints that are read again: storage may have damaged what it once took.
 *
 * Flow     the leader looks at what is due (src/broker/keep/scrubber.c), and says what came of it.
 *          What a control node may not read is given to a node, part by part: its agent finds the
 *          part in its order set, and reports. A node other than the one that wrote the part is
 *          taken first, since that one may have it in memory; then the writer. Who cannot read it,
 *          has no time any more or is lost gives it to the next one.
 *          With the last part the checkpoint is whole. One that is damaged is marked as a restart
 *          marks it: nothing begins from it any more, and its job is worth another one at once.
 * Shapes   at most FSM_VERIFICATIONS_PER_NODE_MAX at a node, which is READY when it gets one and
 *          loses it when it goes down. A checkpoint that expires, is damaged or goes is not read
 *          any more.
 */
#include <stdio.h>

#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/node_life.h"

#define KIND(name)   CKPT__V1__REPORT_KIND__REPORT_KIND_##name
#define RESULT(name) CKPT__V1__VERIFY_RESULT__VERIFY_RESULT_##name

enum { VERIFY_AGAIN_MS = 3600000 }; /* of one that nobody could read */

/* Only who asked is told that it is whole: of the schedule a counter says enough. */
static void verify_tell(struct fsm *fsm, const struct checkpoint *checkpoint,
                        Ckpt__V1__VerifyResult result, const char *detail)
{
    const struct fsm_event event = {
        .kind = CKPT__V1__EVENT_KIND__EVENT_KIND_VERIFIED,
        .allocation_id = allocation_at(fsm, checkpoint->view.allocation_slot)->view.id,
        .checkpoint_id = checkpoint->view.id,
        .new_state = result,
        .subject = detail[0] == '\0' ? NULL : detail,
        .number = checkpoint->view.size_bytes};

    CHECK(checkpoint->view.id != 0);
    if (checkpoint->verify_asked_at_ms != 0)
        fsm_event_emit(fsm, &event);
}

/* The instant counts from now: the next reading by the schedule is an interval away. */
static void verify_whole(struct fsm *fsm, struct checkpoint *checkpoint)
{
    CHECK(fsm_checkpoint_restorable(checkpoint));
    checkpoint->view.verified_at_ms = fsm->now_ms;
    checkpoint->verify_tried_at_ms = 0;
    fsm->verified_total++;
    verify_tell(fsm, checkpoint, RESULT(WHOLE), "");
    fsm_verify_end(fsm, checkpoint);
    fsm_moved(fsm, FSM_RECORD_CHECKPOINT, checkpoint->view.id);
}

/* It says nothing of the data, which may be whole: the schedule comes back to it in an hour. */
static void verify_unreadable(struct fsm *fsm, struct checkpoint *checkpoint, const char *detail)
{
    CHECK(fsm_checkpoint_restorable(checkpoint));
    checkpoint->verify_tried_at_ms = fsm->now_ms;
    fsm->unreadable_total++;
    verify_tell(fsm, checkpoint, RESULT(UNREADABLE), detail);
    fsm_verify_end(fsm, checkpoint);
    fsm_moved(fsm, FSM_RECORD_CHECKPOINT, checkpoint->view.id);
}

static bool verify_waits(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    return fsm_begin_by_copies(fsm, allocation_at(fsm, checkpoint->view.allocation_slot),
                               checkpoint);
}

/* The event of the mark tells everybody. A run that is about to begin from whole copies on its
 * nodes is not ended for what lies at the target: it is read again, and told, when the run has
 * begun. */
static void verify_damaged(struct fsm *fsm, struct checkpoint *checkpoint, const char *detail)
{
    const struct verification *verification = checkpoint->verification;

    CHECK(fsm_checkpoint_restorable(checkpoint));
    if ((verification == NULL || !verification->view.holds) && verify_waits(fsm, checkpoint)) {
        fsm_verify_end(fsm, checkpoint);
        fsm_verify_ask(fsm, checkpoint);
        return;
    }
    fsm->detail = detail[0] == '\0' ? NULL : detail;
    fsm_begin_found_damaged(
        fsm, allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot)),
        checkpoint);
    fsm->detail = NULL;
}

/* Its bytes are right, and whoever knows its application says that they are of no use to it. Copies
 * on nodes are of no use either. */
enum fsm_status fsm_verify_reject(struct fsm *fsm, uint64_t checkpoint_id)
{
    struct checkpoint *checkpoint = checkpoint_edit(fsm, checkpoint_find(fsm, checkpoint_id));

    CHECK(fsm->detail == NULL);
    if (checkpoint == NULL)
        return FSM_CHECKPOINT_NOT_FOUND;
    if (checkpoint->view.damaged)
        return FSM_OK;
    if (!fsm_checkpoint_restorable(checkpoint))
        return FSM_NOT_KEPT;
    fsm->detail = "rejected: its application cannot begin from it";
    fsm_begin_found_damaged(
        fsm, allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot)),
        checkpoint);
    fsm->detail = NULL;
    return FSM_OK;
}

/* All parts that are to be read before its nodes go were. */
static void verify_next_held(struct fsm *fsm, struct checkpoint *checkpoint)
{
    const struct fsm_verification before = checkpoint->verification->view;
    uint32_t next = before.part + fsm_release_step(fsm, checkpoint);

    CHECK(before.holds);
    fsm_verify_take(fsm, checkpoint);
    if (next >= checkpoint->view.shard_count)
        fsm_release_passed(fsm, checkpoint, NULL);
    else if (!fsm_verify_hold(fsm, checkpoint, next, 0, before.deadline_ms))
        fsm_release_passed(fsm, checkpoint, "no other node is there to read it");
}

/* The part that nobody has read so far, by another node. */
static void verify_next_reader(struct fsm *fsm, struct checkpoint *checkpoint, const char *detail)
{
    const struct fsm_verification before = checkpoint->verification->view;
    uint32_t part = before.part;
    uint32_t tries = before.tries + 1;

    CHECK(fsm_checkpoint_restorable(checkpoint));
    fsm_verify_take(fsm, checkpoint);
    if (before.holds) {
        if (!fsm_verify_hold(fsm, checkpoint, part, tries, before.deadline_ms))
            fsm_release_passed(fsm, checkpoint, detail);
    } else if (!fsm_verify_give(fsm, checkpoint, part, tries))
        verify_unreadable(fsm, checkpoint, detail);
}

/* ---- what is heard ---- */

/* For such a node the destination is mounted: what it does not find there has gone. */
static bool verify_wrote(const struct checkpoint *checkpoint, const struct node *node)
{
    return fsm_checkpoint_shard(checkpoint, 0, node->view.slot) != NULL;
}

/* Late ones, of another node's or an earlier order, change nothing. */
enum fsm_status fsm_verify_reported(struct fsm *fsm, struct checkpoint *checkpoint,
                                    const struct report_verify *report)
{
    const struct verification *verification = checkpoint->verification;
    char detail[FSM_DETAIL_BYTES];
    uint32_t part;

    CHECK(report->detail != NULL);
    if (verification == NULL || verification->view.node_slot != report->node->view.slot ||
        verification->view.part != report->message->part ||
        checkpoint->verify_orders != report->message->attempt)
        return FSM_OK;
    part = verification->view.part;
    snprintf(detail, sizeof(detail), "part %u, read by %.64s: %.110s", part, report->node->view.id,
             report->detail);
    if (report->message->kind == KIND(VERIFY_DAMAGED) ||
        (report->message->kind == KIND(VERIFY_MISSING) && verify_wrote(checkpoint, report->node))) {
        verify_damaged(fsm, checkpoint, detail);
    } else if (report->message->kind != KIND(VERIFIED)) {
        verify_next_reader(fsm, checkpoint, detail);
    } else if (verification->view.holds) {
        verify_next_held(fsm, checkpoint);
    } else if (part + 1 == checkpoint->view.shard_count) {
        verify_whole(fsm, checkpoint);
    } else {
        fsm_verify_take(fsm, checkpoint);
        if (!fsm_verify_give(fsm, checkpoint, part + 1, 0))
            verify_unreadable(fsm, checkpoint, "no node is there to read it");
    }
    return FSM_OK;
}

void fsm_verify_due_now(struct fsm *fsm, struct verification *verification)
{
    struct checkpoint *checkpoint =
        checkpoint_edit(fsm, checkpoint_at(fsm, verification->view.checkpoint_id));

    CHECK(checkpoint->verification == verification);
    verify_next_reader(fsm, checkpoint, "its node did not say in time what it read");
}

/* A node that has only booted anew finds its orders as they were. */
void fsm_verify_node_lost(struct fsm *fsm, struct node *node)
{
    if (!fsm_node_gone(&node->view))
        return;
    while (!list_empty(&node->verifications)) {
        const struct verification *verification =
            (struct verification *)(void *)((char *)node->verifications.next -
                                            offsetof(struct verification, in_node));

        verify_next_reader(
            fsm, checkpoint_edit(fsm, checkpoint_at(fsm, verification->view.checkpoint_id)),
            "its node was lost");
    }
}

/* outcome: current taken of limit named. */
enum fsm_status fsm_apply_verify(struct fsm *fsm, const fsm_command *command,
                                 struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__VerifyCheckpoints *named = command->verify_checkpoints;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_VERIFY_CHECKPOINTS);
    outcome->limit = named->n_checkpoint_ids;
    for (size_t i = 0; i < named->n_checkpoint_ids; i++) {
        struct checkpoint *checkpoint =
            checkpoint_edit(fsm, checkpoint_find(fsm, named->checkpoint_ids[i]));

        if (checkpoint == NULL || !fsm_checkpoint_restorable(checkpoint))
            continue;
        fsm_verify_ask(fsm, checkpoint);
        outcome->current++;
    }
    return FSM_OK;
}

/* What a control node found. What a node reads by now is that one's. */
static void verified_apply(struct fsm *fsm, struct checkpoint *checkpoint,
                           const Ckpt__Log__V1__CheckpointVerified *item)
{
    CHECK(checkpoint->verification == NULL);
    switch (item->result) {
    case RESULT(WHOLE):
        verify_whole(fsm, checkpoint);
        return;
    case RESULT(DAMAGED):
        verify_damaged(fsm, checkpoint, item->detail);
        return;
    case RESULT(ELSEWHERE):
        if (!fsm_verify_give(fsm, checkpoint, 0, 0))
            verify_unreadable(fsm, checkpoint, "no node is there to read it");
        return;
    default:
        verify_unreadable(fsm, checkpoint, item->detail);
        return;
    }
}

/* outcome: current taken of limit named. */
enum fsm_status fsm_apply_verified(struct fsm *fsm, const fsm_command *command,
                                   struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__CheckpointsVerified *named = command->checkpoints_verified;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_CHECKPOINTS_VERIFIED);
    outcome->limit = named->n_items;
    for (size_t i = 0; i < named->n_items; i++) {
        struct checkpoint *checkpoint =
            checkpoint_edit(fsm, checkpoint_find(fsm, named->items[i]->checkpoint_id));

        if (checkpoint == NULL || !fsm_checkpoint_restorable(checkpoint) ||
            checkpoint->verification != NULL)
            continue;
        verified_apply(fsm, checkpoint, named->items[i]);
        outcome->current++;
    }
    return FSM_OK;
}

/* ---- questions ---- */

static bool verify_is_due(const struct fsm *fsm, const struct checkpoint *checkpoint,
                          uint64_t at_ms)
{
    const struct allocation *job = allocation_at(fsm, checkpoint->view.allocation_slot);
    uint64_t since_ms = fsm_max(checkpoint->view.completed_at_ms, checkpoint->view.verified_at_ms);
    uint64_t again_ms = VERIFY_AGAIN_MS;

    if (fsm->policy.scrub_interval_ms != 0)
        again_ms = fsm_min(again_ms, fsm->policy.scrub_interval_ms);
    if (!fsm_checkpoint_restorable(checkpoint) || checkpoint->verification != NULL ||
        verify_waits(fsm, checkpoint) ||
        !target_at(fsm, checkpoint->view.target_slot)->view.available ||
        (checkpoint->verify_tried_at_ms != 0 &&
         fsm_add(checkpoint->verify_tried_at_ms, again_ms) > at_ms))
        return false;
    if (checkpoint->verify_asked_at_ms != 0)
        return true;
    return fsm->policy.scrub_interval_ms != 0 &&
           job->view.last_complete_id == checkpoint->view.id && fsm_allocation_restartable(job) &&
           fsm_add(since_ms, fsm->policy.scrub_interval_ms) <= at_ms;
}

/* Expired and damaged ones are passed over as quickly as others: the walk is over all records, in
 * slices, so that nothing has to be kept sorted by an instant that a policy may move. */
size_t fsm_verify_due(const struct fsm *fsm, uint64_t at_ms, size_t visits, uint64_t *after,
                      uint64_t *ret_ids, size_t max)
{
    size_t count = 0;

    CHECK(after != NULL && ret_ids != NULL);
    for (size_t i = 0; i < visits && count < max; i++) {
        const struct checkpoint *checkpoint = fsm_registry_next(fsm, *after);

        if (checkpoint == NULL) {
            *after = 0;
            return count;
        }
        *after = checkpoint->view.id;
        if (verify_is_due(fsm, checkpoint, fsm_max(at_ms, fsm->now_ms)))
            ret_ids[count++] = checkpoint->view.id;
    }
    return count;
}
