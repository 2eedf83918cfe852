/* The list of revoked certificates, for agents. See dispatcher_internal.h. */
#include "src/base/check.h"
#include "src/broker/dispatch/dispatcher_internal.h"
#include "src/broker/explain/translate.h"

bool dispatcher_revoked_for(const struct fsm *fsm, const Ckpt__V1__AgentHeartbeat *heartbeat,
                            struct dispatcher_revoked *ret_message)
{
    Ckpt__V1__RevokedSerials *list = &ret_message->list;
    const struct fsm_revoked *revoked;

    if (!heartbeat->takes_revoked || heartbeat->revoked_hash == fsm_revoked_hash(fsm))
        return false;
    ckpt__v1__revoked_serials__init(list);
    list->hash = fsm_revoked_hash(fsm);
    list->serials = ret_message->serials;
    while ((revoked = fsm_revoked_at(fsm, list->n_serials)) != NULL)
        list->serials[list->n_serials++] = translate_text(revoked->serial);
    CHECK(list->n_serials <= FSM_REVOKED_MAX);
    ckpt__v1__agent_down__init(&ret_message->down);
    ret_message->down.body_case = CKPT__V1__AGENT_DOWN__BODY_REVOKED;
    ret_message->down.revoked = list;
    return true;
}
