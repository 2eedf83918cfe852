/* RevokeCertificate and ListRevoked (fsm/revoked.h). See methods.h. */
#include "fsm/revoked.h"
#include "src/broker/api/methods.h"

enum fsm_status revoked_fill(const ProtobufCMessage *message, Ckpt__Log__V1__Command *command,
                             union method_body *body, struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__RevokeCertificateRequest *asked = (const void *)message;

    (void)ret_outcome;
    ckpt__log__v1__revoke_certificate__init(&body->revoke_certificate);
    body->revoke_certificate.serial = asked->serial;
    body->revoke_certificate.note = asked->note;
    command->revoke_certificate = &body->revoke_certificate;
    return FSM_OK;
}

void revoked_answer(struct request *request, struct scratch *scratch)
{
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    Ckpt__V1__ListRevokedReply reply = CKPT__V1__LIST_REVOKED_REPLY__INIT;
    const struct fsm_revoked *revoked;

    reply.revoked = scratch_take(scratch, FSM_REVOKED_MAX, sizeof(reply.revoked[0]));
    while ((revoked = fsm_revoked_at(fsm, reply.n_revoked)) != NULL) {
        Ckpt__V1__RevokedCertificate *item = scratch_take(scratch, 1, sizeof(*item));

        ckpt__v1__revoked_certificate__init(item);
        item->serial = translate_text(revoked->serial);
        item->note = translate_text(revoked->note);
        item->at_ms = revoked->at_ms;
        reply.revoked[reply.n_revoked++] = item;
    }
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    answer_reply(request->call, &reply.base);
}
