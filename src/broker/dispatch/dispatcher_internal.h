/* What the files of the dispatcher share: dispatcher.c (grants, life), dispatcher_session.c
 * (streams), dispatcher_orders.c. */
#ifndef CKPT_BROKER_DISPATCHER_INTERNAL_H
#define CKPT_BROKER_DISPATCHER_INTERNAL_H

#include "ckpt/v1/agent.pb-c.h"
#include "fsm/revoked.h"
#include "src/base/buf.h"
#include "src/base/id.h"
#include "src/broker/broker.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/dispatch/dispatcher_queue.h"

struct session;

enum { DISPATCHER_TEXT_BYTES = 129 }; /* of each text of a hello, with its end */

/* The agent that a stream is of: a process, by the boot of its node and its start. */
struct dispatcher_agent {
    const char *boot_id, *address;
    uint64_t started_ms; /* of its own clock; 0: not said */
};

/* The last agent that was refused because another one has its node. */
enum { DISPATCHER_TWIN_AGAIN_MS = 60000 };
struct dispatcher_twin {
    uint64_t at_ms, logged_ms; /* monotonic; 0: none yet */
    char node_id[DISPATCHER_TEXT_BYTES], first[64], refused[64];
};

/* Made on every member, at work on the leader alone: `serving`. */
struct dispatcher {
    struct broker *broker;
    struct replica_observer observer;
    bool serving;
    struct clock_timer *grant_timer; /* the next step of a look, or the next look */
    bool grant_scheduled;            /* the timer runs */
    bool grant_in_flight;            /* a GrantBatch is on its way: no look until its outcome */
    uint64_t grant_look_us; /* how long the last look took: the next one waits ten times as long */
    uint64_t *grant_ids;    /* GRANTS_LOOK_MAX, reused */
    bool grant_looking;     /* in steps: */
    struct fsm_grantable_scan grant_scan; /* how far this look is */
    struct fsm_waiting *grant_best;       /* GRANTS_LOOK_MAX */
    uint64_t grant_spent_us;              /* by this look's steps so far */
    struct grant_queue queue;             /* who waits, as the last look left it */
    struct list sessions;
    size_t attached_count;
    struct session **by_slot; /* the attached stream of each node, NULL: none */
    uint64_t *hello_by_slot;  /* number of the node's newest hello, 0: none */
    uint32_t slot_count;
    uint64_t hellos;
    struct dispatcher_twin twin;
};

/* dispatcher_hello.c. ERR_INVALID: a field of it is wrong, by name. */
int dispatcher_hello_check(const Ckpt__V1__AgentHello *hello, struct err *err);
/* The certificate is another node's: logged, and the text for its agent. */
void dispatcher_refusal(const struct rpc_peer *peer, const char *node_id, char *text, size_t size);
void dispatcher_note_fence(struct broker *broker, const Ckpt__V1__AgentHello *hello);

/* dispatcher_revoked.c. False: the agent has the state's list of revoked certificates, or takes
 * none. The message's texts are the state's. */
struct dispatcher_revoked {
    Ckpt__V1__AgentDown down;
    Ckpt__V1__RevokedSerials list;
    char *serials[FSM_REVOKED_MAX];
};
bool dispatcher_revoked_for(const struct fsm *fsm, const Ckpt__V1__AgentHeartbeat *heartbeat,
                            struct dispatcher_revoked *ret_message);

/* dispatcher_twins.c. The node has an attached stream; true: `agent` is another one than it is of,
 * and the text says so. */
bool dispatcher_twin_refused(struct dispatcher *dispatcher, const struct fsm_node *node,
                             const struct dispatcher_agent *attached,
                             const struct dispatcher_agent *agent, char *text, size_t size);

/* dispatcher_session.c */
void dispatcher_sessions_serve(struct dispatcher *dispatcher); /* adds the method */
void dispatcher_sessions_changed(
    struct dispatcher *dispatcher); /* sends order sets where they changed */
void dispatcher_sessions_end(struct dispatcher *dispatcher); /* NOT_LEADER to all */
void dispatcher_sessions_close(struct dispatcher *dispatcher);

/* dispatcher_orders.c: what the node must do now and what may run there, as the message of the
 * stream: of the applied state alone. Replaces what is in ret_bytes. */
void dispatcher_pack_orders(const struct dispatcher *dispatcher, uint32_t node_slot,
                            struct buf *ret_bytes);
/* Runs on the node, by its heartbeat, of which the state still awaits the start: parts has
 * room for FSM_RUNNING_PER_COMMAND_MAX; their texts are the heartbeat's. */
size_t dispatcher_awaited(const struct fsm *fsm, uint32_t node_slot,
                          const Ckpt__V1__AgentHeartbeat *heartbeat,
                          Ckpt__Log__V1__RunningPart *parts);

#endif
