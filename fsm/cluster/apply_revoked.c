/* A certificate is revoked. See fsm/revoked.h. */
#include "fsm/core/registry.h"
#include "fsm/revoked.h"

enum fsm_status fsm_apply_revoke_certificate(struct fsm *fsm, const fsm_command *command,
                                             struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__RevokeCertificate *asked = command->revoke_certificate;
    const struct fsm_revoked like = {asked->serial, asked->note, fsm->now_ms};
    const struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_REVOKED,
                                    .subject = asked->serial};

    CHECK(outcome->status == FSM_OK);
    if (fsm_revoked_add(fsm, &like)) {
        fsm_event_emit(fsm, &event);
        return FSM_OK;
    }
    if (fsm_is_revoked(fsm, asked->serial))
        return FSM_OK;
    outcome->current = FSM_REVOKED_MAX;
    outcome->limit = FSM_REVOKED_MAX;
    return FSM_REVOKED_FULL;
}
