/* PauseCluster, and what Status says of a cluster that does nothing by itself. See fsm/pause.h. */
#include "src/broker/api/service_pause.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fsm/passive.h"
#include "fsm/pause.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/broker/api/methods.h"
#include "src/broker/broker.h"
#include "src/broker/explain/translate.h"
#include "src/tls/identity.h"

enum fsm_status pause_fill(const ProtobufCMessage *message, Ckpt__Log__V1__Command *command,
                           union method_body *body, struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__PauseClusterRequest *asked = (const void *)message;

    (void)ret_outcome;
    ckpt__log__v1__pause_cluster__init(&body->pause.message);
    body->pause.message.by = asked->by;
    body->pause.message.reason = asked->reason;
    body->pause.message.duration_ms = asked->duration_ms;
    body->pause.message.resume = asked->resume;
    command->pause_cluster = &body->pause.message;
    return FSM_OK;
}

/* A certificate's name comes first, since the rest is the caller's own word. */
void pause_sign(const struct rpc_peer *peer, union method_body *body)
{
    struct method_pause *pause = &body->pause;
    const char *said = pause->message.by;
    struct tls_identity identity;
    const bool known = peer->tls && tls_identity_parse(peer->identity, strlen(peer->identity),
                                                       &identity, NULL) == 0;

    CHECK(said != NULL);
    if (strlen(said) >= sizeof(pause->by)) /* the state refuses it, with the length */
        return;
    if (known)
        snprintf(pause->by, sizeof(pause->by), "%.64s%s%.62s", identity.name,
                 said[0] == '\0' ? "" : ", ", said);
    else
        text_copy(pause->by, sizeof(pause->by), said[0] != '\0' ? said : peer->address);
    pause->message.by = pause->by;
}

/* "; it ends in 3600 s" */
static char *end_text(const struct fsm_pause *pause, uint64_t now_ms, struct scratch *scratch)
{
    if (pause->until_ms == 0)
        return scratch_printf(scratch, "until somebody ends it");
    return scratch_printf(scratch, "for %" PRIu64 " s more",
                          pause->until_ms > now_ms ? (pause->until_ms - now_ms) / 1000 : 0);
}

/* With the count of checkpoints under way: maintenance begins when there is none. */
static char *pause_warning(const struct fsm_pause *pause, uint64_t now_ms, struct scratch *scratch,
                           const Ckpt__V1__StatusReply *reply)
{
    return scratch_printf(
        scratch,
        "PAUSED by %s since %" PRIu64 " s, %s: %s; no checkpoint is asked for, nothing is "
        "restarted, moved or removed, %" PRIu64 " checkpoints under way end as they would have: "
        "ckptctl cluster resume",
        pause->by, now_ms > pause->since_ms ? (now_ms - pause->since_ms) / 1000 : 0,
        end_text(pause, now_ms, scratch), pause->reason, reply->active_checkpoint_count);
}

/* A passive one comes first: the one that was backed up may run on. */
char *pause_status(const struct broker *broker, struct scratch *scratch,
                   Ckpt__V1__StatusReply *reply)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    const struct fsm_pause *pause = fsm_pause(fsm);
    uint64_t now_ms = replica_state_ms(broker->replica);

    reply->passive_since_ms = fsm_passive_since_ms(fsm);
    if (pause != NULL) {
        reply->pause = scratch_take(scratch, 1, sizeof(*reply->pause));
        fsm_pause_to_message(pause, reply->pause);
    }
    if (reply->passive_since_ms != 0)
        return scratch_printf(scratch,
                              "PASSIVE: this cluster began from a backup (%" PRIu64
                              " s old); it gives no orders, and writes and removes nothing at "
                              "targets: ckptctl cluster adopt, when nobody else uses them",
                              (now_ms - reply->passive_since_ms) / 1000);
    return pause == NULL ? NULL : pause_warning(pause, now_ms, scratch, reply);
}
