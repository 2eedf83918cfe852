/* The subject of each command of a client. A new one gets a row here. */
#include "fsm/audit/audit.h"

/* The command's body, its member, the kind, and the id in the body. */
#define SUBJECTS(X)                                                                                \
    X(REGISTER_ALLOCATION, register_allocation, JOB, spec->allocation_id)                          \
    X(UPDATE_ALLOCATION, update_allocation, JOB, allocation_id)                                    \
    X(END_ALLOCATION, end_allocation, JOB, allocation_id)                                          \
    X(REPORT_QUEUE, report_queue, QUEUE, vcluster)                                                 \
    X(REQUEST_CHECKPOINT, request_checkpoint, JOB, allocation_id)                                  \
    X(REQUEST_MIGRATION, request_migration, JOB, allocation_id)                                    \
    X(RESTART_ALLOCATION, restart_allocation, JOB, allocation_id)                                  \
    X(PUT_TARGET, put_target, TARGET, spec->target_id)                                             \
    X(DRAIN_TARGET, drain_target, TARGET, target_id)                                               \
    X(REMOVE_TARGET, remove_target, TARGET, target_id)                                             \
    X(DRAIN_NODE, drain_node, NODE, node_id)                                                       \
    X(REMOVE_NODE, remove_node, NODE, node_id)                                                     \
    X(NODE_OFF, node_off, NODE, node_id)                                                           \
    X(PUT_TENANT, put_tenant, TENANT, spec->tenant)

/* ... and those about a checkpoint. */
#define CHECKPOINT_SUBJECTS(X)                                                                     \
    X(CANCEL_CHECKPOINT, cancel_checkpoint)                                                        \
    X(PIN_CHECKPOINT, pin_checkpoint)

struct audit_subject audit_subject_of(const fsm_command *command)
{
    struct audit_subject subject = {AUDIT_NOTHING, NULL, 0};

    CHECK(command != NULL);
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_SET_POLICY)
        subject.kind = AUDIT_POLICY;
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_ADOPT_CLUSTER)
        subject.kind = AUDIT_CLUSTER;
#define X(body, member, of_kind, of_id)                                                            \
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_##body)                                 \
        subject = (struct audit_subject){AUDIT_##of_kind, command->member->of_id, 0};
    SUBJECTS(X)
#undef X
#define X(body, member)                                                                            \
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_##body)                                 \
        subject = (struct audit_subject){AUDIT_CHECKPOINT, NULL, command->member->checkpoint_id};
    CHECKPOINT_SUBJECTS(X)
#undef X
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_REVOKE_CERTIFICATE)
        subject = (struct audit_subject){AUDIT_CERTIFICATE, command->revoke_certificate->serial, 0};
    CHECK(subject.id == NULL || subject.checkpoint_id == 0);
    return subject;
}
