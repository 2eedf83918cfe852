/* Lines about the audit trail: who is behind a line (by=NAME), and the leader's two commands. */
#ifndef CKPT_TESTS_FSM_SCRIPT_AUDIT_H
#define CKPT_TESTS_FSM_SCRIPT_AUDIT_H

#include "fsm/audit.h"
#include "tests/unit/fsm/script_reports.h"

/* by=NAME: the line comes from this caller. */
static inline void script_caller(struct script *script, Ckpt__Log__V1__Command *command,
                                 Ckpt__Log__V1__Caller *caller)
{
    const char *by = script_value(script, "by", NULL);

    ckpt__log__v1__caller__init(caller);
    if (by == NULL)
        return;
    caller->identity = script_text(by);
    caller->address = script_text("10.0.0.7:4711");
    caller->method = script_text("BrokerService/Test");
    command->caller = caller;
}

/* audit_calls denied|taken count=N what=TEXT by=NAME */
static inline enum fsm_status script_audit_calls(struct script *script,
                                                 Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__AuditCalls calls = CKPT__LOG__V1__AUDIT_CALLS__INIT;
    Ckpt__Log__V1__AuditCall call = CKPT__LOG__V1__AUDIT_CALL__INIT, *pointers[] = {&call};

    call.caller = command->caller;
    command->caller = NULL;
    call.denied = script_flag(script, "denied");
    call.count = script_number(script, "count", 0);
    call.asked = script_text(script_value(script, "what", ""));
    calls.n_calls = 1;
    calls.calls = pointers;
    SCRIPT_BODY(AUDIT_CALLS, audit_calls, &calls);
    return script_apply(script, command);
}

/* audit_shipped N, or all */
static inline enum fsm_status script_audit_shipped(struct script *script,
                                                   Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__AuditShipped shipped = CKPT__LOG__V1__AUDIT_SHIPPED__INIT;
    struct fsm_audit audit;

    fsm_get_audit(script->fsm, &audit);
    shipped.sequence = strcmp(script_word(script, 1), "all") == 0
                           ? audit.sequence
                           : strtoull(script_word(script, 1), NULL, 10);
    SCRIPT_BODY(AUDIT_SHIPPED, audit_shipped, &shipped);
    return script_apply(script, command);
}

/* revoke SERIAL note=TEXT */
static inline enum fsm_status script_revoke(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__RevokeCertificate revoke = CKPT__LOG__V1__REVOKE_CERTIFICATE__INIT;

    revoke.serial = script_text(script_word(script, 1));
    revoke.note = script_text(script_value(script, "note", ""));
    SCRIPT_BODY(REVOKE_CERTIFICATE, revoke_certificate, &revoke);
    return script_apply(script, command);
}

#endif
