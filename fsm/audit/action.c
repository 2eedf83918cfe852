/* Records of all that is done with a sensitive job and its checkpoints, whoever began it: with the
 * entry that brings it about, and so before an order follows from it (I31). See fsm/audit.h. */
#include "fsm/audit/audit.h"
#include "fsm/core/registry.h"
#include "fsm/level.h"

static void add_action(struct fsm *fsm, const struct audit_text *subject,
                       const struct audit_text *was, const struct audit_text *is)
{
    CHECK(fsm->command_name != NULL);
    audit_add(fsm, &(struct audit_entry){.kind = CKPT__LOG__V1__AUDIT_KIND__AUDIT_KIND_ACTION,
                                         .caller = fsm->caller,
                                         .command = fsm->command_name,
                                         .request_id = fsm->command_request_id,
                                         .subject = subject->text,
                                         .was = was->text,
                                         .is = is->text});
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
    struct audit_text subject, was, is;
    char word[FSM_WORD_BYTES];

    CHECK(allocation->view.id != NULL);
    if (!is_audited(fsm, allocation))
        return;
    audit_text_start(&subject);
    audit_text_add(&subject, "checkpoint ");
    audit_text_checkpoint(&subject, view->id);
    audit_text_add(&subject, " of job ");
    audit_text_add(&subject, allocation->view.id);
    audit_text_start(&was);
    audit_text_name(&was, "state");
    audit_text_add(&was, old_state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_UNSPECIFIED
                             ? "none"
                             : fsm_checkpoint_state_name(old_state));
    audit_text_start(&is);
    audit_text_name(&is, "state");
    audit_text_add(&is, fsm_checkpoint_state_name(view->state));
    audit_text_name(&is, "reason");
    audit_text_add(&is, fsm_reason_word(view->reason, word));
    audit_text_name(&is, "target");
    audit_text_add(&is, target_at(fsm, view->target_slot)->view.id);
    audit_text_name(&is, "attempt");
    audit_text_number(&is, view->attempt);
    audit_text_name(&is, "size_bytes");
    audit_text_number(&is, view->size_bytes);
    audit_text_name(&is, "nodes");
    for (uint32_t i = 0; i < view->shard_count; i++) {
        audit_text_add(&is, i == 0 ? "" : " ");
        audit_text_add(&is, node_at(fsm, view->shards[i].node_slot)->view.id);
    }
    add_action(fsm, &subject, &was, &is);
}

void fsm_audit_job(struct fsm *fsm, const struct allocation *allocation,
                   Ckpt__V1__AllocationState old_state)
{
    struct audit_text subject, was, is;
    char word[FSM_WORD_BYTES];

    CHECK(allocation->view.id != NULL);
    if (!is_audited(fsm, allocation))
        return;
    audit_text_start(&subject);
    audit_text_add(&subject, "job ");
    audit_text_add(&subject, allocation->view.id);
    audit_text_start(&was);
    audit_text_name(&was, "state");
    audit_text_add(&was, old_state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_UNSPECIFIED
                             ? "none"
                             : fsm_allocation_state_name(old_state));
    audit_text_start(&is);
    audit_text_name(&is, "state");
    audit_text_add(&is, fsm_allocation_state_name(allocation->view.state));
    audit_text_name(&is, "reason");
    audit_text_add(&is, fsm_reason_word(allocation->view.reason, word));
    add_action(fsm, &subject, &was, &is);
}
