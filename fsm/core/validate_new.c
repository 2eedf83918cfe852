/* Values that an earlier build took, so that its log and snapshots may have them, and that no new
 * command may have. Apply does not ask. And two commands, of which it does ask. */
#include "fsm/core/state.h"

/* A folder of that name would be hidden, or an option for a program that is given it. */
static enum fsm_status check_folder(const char *field, const char *name,
                                    struct fsm_outcome *outcome)
{
    CHECK(name != NULL);
    if (outcome->status != FSM_OK || (name[0] != '-' && name[0] != '.'))
        return outcome->status;
    outcome->subject = field;
    outcome->current = strlen(name);
    outcome->status = FSM_INVALID_FOLDER;
    return outcome->status;
}

/* 0 leaves it to somebody else. */
static enum fsm_status check_kept(uint32_t keep_complete, struct fsm_outcome *outcome)
{
    if (outcome->status != FSM_OK || keep_complete == 0 ||
        (keep_complete >= FSM_COMPLETE_KEPT_MIN && keep_complete <= FSM_COMPLETE_KEPT_MAX))
        return outcome->status;
    outcome->subject = "keep_complete";
    outcome->current = keep_complete;
    outcome->limit =
        keep_complete < FSM_COMPLETE_KEPT_MIN ? FSM_COMPLETE_KEPT_MIN : FSM_COMPLETE_KEPT_MAX;
    outcome->status = FSM_INVALID_ARGUMENT;
    return outcome->status;
}

/* Of one whose id has no text no snapshot can be read. */
static enum fsm_status check_orphans(const Ckpt__Log__V1__RemoveOrphans *named,
                                     struct fsm_outcome *outcome)
{
    CHECK(outcome->status == FSM_OK);
    for (size_t i = 0; i < named->n_orphans && outcome->status == FSM_OK; i++) {
        if (checkpoint_id_valid(named->orphans[i]->checkpoint_id))
            continue;
        outcome->subject = "checkpoint_id";
        outcome->current = named->orphans[i]->checkpoint_id;
        outcome->status = FSM_INVALID_ARGUMENT;
    }
    return outcome->status;
}

enum fsm_status fsm_validate_new(const fsm_command *command, struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__Policy *policy = NULL;

    CHECK(ret_outcome->status == FSM_OK);
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_REGISTER_ALLOCATION) {
        const Ckpt__V1__AllocationSpec *spec = command->register_allocation->spec;

        check_folder("tenant", spec->tenant, ret_outcome);
        check_folder("project", spec->project, ret_outcome);
        return check_kept(spec->keep_complete, ret_outcome);
    }
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_PUT_TENANT) {
        check_folder("tenant", command->put_tenant->spec->tenant, ret_outcome);
        return check_kept(command->put_tenant->spec->keep_complete, ret_outcome);
    }
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_REMOVE_ORPHANS)
        return check_orphans(command->remove_orphans, ret_outcome);
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_SET_POLICY)
        policy = command->set_policy->policy;
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_CLUSTER_INIT)
        policy = command->cluster_init->policy;
    return policy == NULL ? FSM_OK : check_kept(policy->keep_complete, ret_outcome);
}

enum fsm_status fsm_validate_revoke(const fsm_command *command, struct fsm_outcome *outcome)
{
    CHECK(outcome->status == FSM_OK);
    if (!fsm_serial_valid(command->revoke_certificate->serial)) {
        fsm_outcome_found(outcome, command->revoke_certificate->serial);
        outcome->status = FSM_INVALID_SERIAL;
        return outcome->status;
    }
    return fsm_check_detail(command->revoke_certificate->note, outcome);
}

enum fsm_status fsm_validate_audit_calls(const fsm_command *command, struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__AuditCalls *calls = command->audit_calls;

    CHECK(outcome->status == FSM_OK);
    outcome->current = calls->n_calls;
    outcome->limit = FSM_AUDIT_CALLS_MAX;
    if (calls->n_calls < 1 || calls->n_calls > FSM_AUDIT_CALLS_MAX)
        outcome->status = FSM_INVALID_ARGUMENT;
    for (size_t i = 0; i < calls->n_calls && outcome->status == FSM_OK; i++)
        if (calls->calls[i]->caller == NULL)
            outcome->status = FSM_INVALID_ARGUMENT;
    if (outcome->status == FSM_OK)
        outcome->current = outcome->limit = 0;
    return outcome->status;
}
