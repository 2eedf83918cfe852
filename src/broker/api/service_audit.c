/* ListAudit, and what other replies tell of the audit trail (fsm/audit.h). See methods.h. */
#include <string.h>

#include "ckpt/log/v1/snapshot.pb-c.h"
#include "fsm/audit.h"
#include "src/base/check.h"
#include "src/broker/api/methods.h"
#include "src/broker/keep/audit_key.h"

static Ckpt__V1__AuditStatus *head_of(const struct broker *broker, struct scratch *scratch)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    Ckpt__V1__AuditStatus *head = scratch_take(scratch, 1, sizeof(*head));
    struct fsm_audit audit;

    fsm_get_audit(fsm, &audit);
    ckpt__v1__audit_status__init(head);
    head->sequence = audit.sequence;
    head->oldest = audit.oldest;
    head->hash = blake2b_text(audit.hash, scratch_take(scratch, 1, BLAKE2B_TEXT_BYTES));
    head->shipped = audit.shipped;
    head->lost = audit.lost;
    if (broker->audit_key != NULL)
        head->key_id = translate_text(sign_key_id(broker->audit_key));
    return head;
}

char *audit_status(const struct broker *broker, struct scratch *scratch,
                   Ckpt__V1__StatusReply *reply)
{
    if (fsm_level(replica_fsm(broker->replica)) < 2)
        return NULL;
    reply->audit = head_of(broker, scratch);
    return !audit_key_wanted(broker)
               ? NULL
               : scratch_printf(scratch,
                                "the audit trail of %s is not signed, so that whoever can write "
                                "its files can write another history: give it a key (audit: {key: "
                                "PATH}; RUNBOOK, Who changed what)",
                                broker->config->self->name);
}

/* Whoever keeps the reply can prove it later, without the cluster. */
static Ckpt__V1__AuditSignature *signature_of(const struct broker *broker, struct scratch *scratch)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    Ckpt__V1__AuditSignature *signature;
    struct signed_head *head = scratch_take(scratch, 1, sizeof(*head));
    struct fsm_summary summary;
    struct fsm_audit audit;

    fsm_get_audit(fsm, &audit);
    fsm_get_summary(fsm, &summary);
    if (!audit_key_sign(broker, &audit, summary.epoch, head))
        return NULL;
    signature = scratch_take(scratch, 1, sizeof(*signature));
    ckpt__v1__audit_signature__init(signature);
    signature->cluster_id = head->cluster;
    signature->member = head->member;
    signature->key_id = head->key_id;
    signature->epoch = head->epoch;
    signature->first = head->first;
    signature->last = head->last;
    signature->hash = head->hash;
    signature->at_ms = head->at_ms;
    signature->signature = head->signature;
    return signature;
}

/* The links of a page, by their number and by their bytes. */
static void add_links(const struct fsm *fsm, uint64_t after, uint32_t size, struct scratch *scratch,
                      Ckpt__V1__ListAuditReply *reply)
{
    uint64_t at = fsm_audit_link_of(fsm, after + 1);
    struct fsm_audit_link link;
    size_t bytes = 0;

    reply->links = scratch_take(scratch, size, sizeof(reply->links[0]));
    for (; at != 0 && fsm_audit_link(fsm, at, &link); at++) {
        bytes += link.length;
        if (reply->n_links == size || (reply->n_links > 0 && bytes > METHOD_PAGE_BYTES)) {
            reply->next_after_sequence = link.first - 1;
            return;
        }
        /* only read */
        reply->links[reply->n_links++] =
            (ProtobufCBinaryData){link.length, (uint8_t *)(uintptr_t)link.bytes};
    }
}

void audit_answer(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__ListAuditRequest *asked = (const void *)request->message;
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    Ckpt__V1__ListAuditReply reply = CKPT__V1__LIST_AUDIT_REPLY__INIT;
    uint32_t size;

    if (!request_page_size(request, asked->page_size, &size))
        return;
    if (asked->after_sequence >= UINT64_MAX / 2) {
        request_refuse(request, FSM_INVALID_ARGUMENT, asked->after_sequence, UINT64_MAX / 2 - 1);
        return;
    }
    reply.head = head_of(request->broker, scratch);
    if (asked->after_sequence == 0) /* the pages behind it are of this one's head */
        reply.head->signature = signature_of(request->broker, scratch);
    add_links(fsm, asked->after_sequence, size, scratch, &reply);
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    answer_reply(request->call, &reply.base);
}

/* Of a command, or NULL: the record has none, or is another request's. */
static Ckpt__Log__V1__Command *command_of(const Ckpt__Log__V1__AuditRecord *record)
{
    return record->command.len == 0
               ? NULL
               : ckpt__log__v1__command__unpack(NULL, record->command.len, record->command.data);
}

/* True: the record is of this request. */
static bool fill_caller(const Ckpt__Log__V1__AuditRecord *record, struct scratch *scratch,
                        Ckpt__V1__RequestOutcome *outcome)
{
    Ckpt__Log__V1__Command *command = command_of(record);
    const char *id = command != NULL ? command->request_id : record->request_id;
    bool is_it = strcmp(id, outcome->request_id) == 0;

    if (is_it && command != NULL && command->caller != NULL) {
        outcome->caller = scratch_printf(scratch, "%s", command->caller->identity);
        outcome->address = scratch_printf(scratch, "%s", command->caller->address);
    } else if (is_it && command == NULL) {
        outcome->caller = scratch_printf(scratch, "%s", record->identity);
        outcome->address = scratch_printf(scratch, "%s", record->address);
    }
    if (command != NULL)
        ckpt__log__v1__command__free_unpacked(command, NULL);
    return is_it;
}

/* The change of this request among the records of its log entry. */
void audit_fill_outcome(const struct fsm *fsm, struct scratch *scratch,
                        Ckpt__V1__RequestOutcome *outcome)
{
    uint64_t at = fsm_audit_link_from_index(fsm, outcome->index);
    bool is_found = false;
    struct fsm_audit_link link;

    CHECK(outcome->request_id != NULL && outcome->request_id[0] != '\0');
    for (; !is_found && at != 0 && fsm_audit_link(fsm, at, &link) && link.index == outcome->index;
         at++) {
        Ckpt__Log__V1__AuditLink *message =
            ckpt__log__v1__audit_link__unpack(NULL, link.length, link.bytes);

        CHECK(message != NULL);
        for (size_t i = 0; !is_found && i < message->n_records; i++)
            is_found = fill_caller(message->records[i], scratch, outcome);
        ckpt__log__v1__audit_link__free_unpacked(message, NULL);
    }
}
