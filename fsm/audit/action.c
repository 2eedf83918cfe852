/* Records of all that is done with a sensitive job and its checkpoints, whoever began it: with the
 * entry that brings it about, and so before an order follows from it (I31). See fsm/audit.h. */
#include "fsm/audit/audit.h"
#include "fsm/core/registry.h"
#include "fsm/level.h"

/* A move from one state to another. */
struct move {
    struct audit_text subject, was, is;
};

static void begin_move(struct move *move, const char *was, const char *is, Ckpt__V1__Reason reason)
{
    char word[FSM_WORD_BYTES];

    CHECK(was != NULL && is != NULL);
    audit_text_start(&move->subject);
    audit_text_start(&move->was);
    audit_text_name(&move->was, "state");
    audit_text_add(&move->was, was);
    audit_text_start(&move->is);
    audit_text_name(&move->is, "state");
    audit_text_add(&move->is, is);
    audit_text_name(&move->is, "reason");
    audit_text_add(&move->is, fsm_reason_word(reason, word));
}

static void add_move(struct fsm *fsm, const struct move *move)
{
    CHECK(fsm->command_name != NULL);
    audit_add(fsm, &(struct audit_entry){.kind = CKPT__LOG__V1__AUDIT_KIND__AUDIT_KIND_ACTION,
                                         .caller = fsm->caller,
                                         .command = fsm->command_name,
                                         .request_id = fsm->command_request_id,
                                         .subject = move->subject.text,
                                         .was = move->was.text,
                                         .is = move->is.text});
}

static bool is_audited(const struct fsm *fsm, const struct allocation *allocation)
{
    return allocation->view.sensitive && fsm_level(fsm) >= AUDIT_LEVEL && fsm->command_name != NULL;
}

void fsm_audit_checkpoint(struct fsm *fsm, const struct checkpoint *checkpoint,
                          Ckpt__V1__CheckpointState old_state)
{
    const struct fsm_checkpoint *view = &checkpoint->view;
    const struct allocation *allocation = allocation_at(fsm, view->allocation_slot);
    struct move move;

    CHECK(allocation->view.id != NULL);
    if (!is_audited(fsm, allocation))
        return;
    begin_move(&move,
               old_state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_UNSPECIFIED
                   ? "none"
                   : fsm_checkpoint_state_name(old_state),
               fsm_checkpoint_state_name(view->state), view->reason);
    audit_text_add(&move.subject, "checkpoint ");
    audit_text_checkpoint(&move.subject, view->id);
    audit_text_add(&move.subject, " of job ");
    audit_text_add(&move.subject, allocation->view.id);
    audit_text_name(&move.is, "target");
    audit_text_add(&move.is, target_at(fsm, view->target_slot)->view.id);
    audit_text_name(&move.is, "attempt");
    audit_text_number(&move.is, view->attempt);
    audit_text_name(&move.is, "size_bytes");
    audit_text_number(&move.is, view->size_bytes);
    audit_text_name(&move.is, "nodes");
    for (uint32_t i = 0; i < view->shard_count; i++) {
        audit_text_add(&move.is, i == 0 ? "" : " ");
        audit_text_add(&move.is, node_at(fsm, view->shards[i].node_slot)->view.id);
    }
    add_move(fsm, &move);
}

void fsm_audit_job(struct fsm *fsm, const struct allocation *allocation,
                   Ckpt__V1__AllocationState old_state)
{
    struct move move;

    CHECK(allocation->view.id != NULL);
    if (!is_audited(fsm, allocation))
        return;
    begin_move(&move,
               old_state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_UNSPECIFIED
                   ? "none"
                   : fsm_allocation_state_name(old_state),
               fsm_allocation_state_name(allocation->view.state), allocation->view.reason);
    audit_text_add(&move.subject, "job ");
    audit_text_add(&move.subject, allocation->view.id);
    add_move(fsm, &move);
}
