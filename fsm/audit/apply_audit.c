/* The leader's commands about the audit trail. See fsm/audit.h. */
#include "fsm/audit/audit.h"

/* Calls that did not come to a command: denied ones, and those about members. */
enum fsm_status fsm_apply_audit_calls(struct fsm *fsm, const fsm_command *command,
                                      struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__AuditCalls *calls = command->audit_calls;

    CHECK(outcome != NULL);
    for (size_t i = 0; i < calls->n_calls; i++) {
        const Ckpt__Log__V1__AuditCall *call = calls->calls[i];
        struct audit_text subject;

        audit_text_start(&subject);
        if (call->spoofed_node_id[0] != '\0') {
            audit_text_add(&subject, "node ");
            audit_text_add(&subject, call->spoofed_node_id);
        }
        audit_add(fsm, &(struct audit_entry){
                           .kind = call->denied ? CKPT__LOG__V1__AUDIT_KIND__AUDIT_KIND_DENIED
                                                : CKPT__LOG__V1__AUDIT_KIND__AUDIT_KIND_CALL,
                           .caller = call->caller,
                           .command = fsm->command_name,
                           .subject = subject.text,
                           .asked = call->asked,
                           .count = call->count});
        if (call->spoofed_node_id[0] == '\0')
            continue;
        fsm->caller = call->caller; /* the event's */
        fsm_event_emit(fsm,
                       &(struct fsm_event){.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_SPOOFED_NODE,
                                           .subject = call->spoofed_node_id,
                                           .number = call->count});
        fsm->caller = NULL;
    }
    return FSM_OK;
}

/* Idempotent: a leader that comes later says it again. */
enum fsm_status fsm_apply_audit_shipped(struct fsm *fsm, const fsm_command *command,
                                        struct fsm_outcome *outcome)
{
    uint64_t sequence = command->audit_shipped->sequence;

    CHECK(outcome != NULL);
    if (sequence > fsm->audit->sequence) {
        outcome->current = sequence;
        outcome->limit = fsm->audit->sequence;
        return FSM_INVALID_ARGUMENT;
    }
    audit_ship(fsm, sequence);
    return FSM_OK;
}
