/* The texts of a record that its command alone tells: what was asked for, and of whom or what. They
 * are made when the record is read; of a long command, which no record holds, when it is added. See
 * audit.h. */
#include "fsm/audit/audit.h"

/* Every body is a pointer to a message (service.c relies on it as well). */
const ProtobufCMessage *audit_body_of(const fsm_command *command)
{
    CHECK(command->register_allocation != NULL);
    CHECK(command->register_allocation->base.descriptor != NULL);
    return &command->register_allocation->base;
}

void audit_subject_text(const struct audit_subject *subject, uint64_t preemption_id,
                        struct audit_text *text)
{
    static const char *const words[] = {
        [AUDIT_NOTHING] = "",        [AUDIT_POLICY] = "policy",
        [AUDIT_JOB] = "job ",        [AUDIT_CHECKPOINT] = "checkpoint ",
        [AUDIT_NODE] = "node ",      [AUDIT_TARGET] = "target ",
        [AUDIT_TENANT] = "tenant ",  [AUDIT_QUEUE] = "queue ",
        [AUDIT_CLUSTER] = "cluster", [AUDIT_CERTIFICATE] = "certificate "};

    CHECK(subject->kind < ARRAY_COUNT(words));
    audit_text_start(text);
    audit_text_add(text, words[subject->kind]);
    if (subject->kind == AUDIT_CHECKPOINT)
        audit_text_checkpoint(text, subject->checkpoint_id);
    else if (subject->id != NULL)
        audit_text_add(text, subject->id);
    else if (preemption_id != 0) {
        audit_text_add(text, "preemption ");
        audit_text_number(text, preemption_id);
    }
}

/* Checkpoints that a command names in a list. */
static void add_list(struct audit_text *text, const fsm_command *command)
{
    const uint64_t *ids = NULL;
    size_t count = 0;

    CHECK(command != NULL);
    if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_EXPIRE_CHECKPOINTS) {
        ids = command->expire_checkpoints->checkpoint_ids;
        count = command->expire_checkpoints->n_checkpoint_ids;
    } else if (command->body_case == CKPT__LOG__V1__COMMAND__BODY_VERIFY_CHECKPOINTS) {
        ids = command->verify_checkpoints->checkpoint_ids;
        count = command->verify_checkpoints->n_checkpoint_ids;
    }
    CHECK(ids != NULL || count == 0);
    for (size_t i = 0; i < count; i++) {
        audit_text_name(text, "checkpoint");
        audit_text_checkpoint(text, ids[i]);
    }
}

void audit_asked_text(const fsm_command *command, struct audit_text *text)
{
    CHECK(command != NULL);
    audit_text_start(text);
    audit_view_asked(audit_body_of(command), text);
    add_list(text, command);
}

/* A comparison with nothing would tell of each default as well. */
void audit_new_text(const fsm_command *command, struct audit_text *text)
{
    const ProtobufCMessage *body = audit_body_of(command), *spec = body;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(body->descriptor, "spec");
    const Ckpt__V1__AllocationSpec *job;

    audit_text_start(text);
    if (field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE)
        spec = *(const ProtobufCMessage *const *)(const void *)((const char *)body + field->offset);
    if (spec != NULL)
        audit_view_asked(spec, text);
    if (spec == NULL || command->body_case != CKPT__LOG__V1__COMMAND__BODY_REGISTER_ALLOCATION)
        return;
    CHECK(spec->descriptor == &ckpt__v1__allocation_spec__descriptor);
    job = (const Ckpt__V1__AllocationSpec *)(const void *)spec;
    audit_text_name(text, "nodes");
    for (size_t i = 0; i < job->n_nodes; i++) {
        audit_text_add(text, i == 0 ? "" : " ");
        audit_text_add(text, job->nodes[i]->node_id);
    }
}
