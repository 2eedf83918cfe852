/* What the files of the dispatcher share: dispatcher.c (grants, life), dispatcher_session.c (streams), dispatcher_orders.c. */
#ifndef CKPT_BROKER_DISPATCHER_INTERNAL_H
#define CKPT_BROKER_DISPATCHER_INTERNAL_H

#include "ckpt/v1/agent.pb-c.h"
#include "src/base/buf.h"
#include "src/base/id.h"
#include "src/broker/broker.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/dispatch/dispatcher_queue.h"

struct session;

enum { DISPATCHER_RUNNING_MAX = 1024 };

/* dispatcher_running.c: the allocations whose applications run on a node, as its agent says. */
struct running_item {
    char id[ID_MAX_BYTES + 1];
    uint64_t life;   /* 0: not known */
    uint64_t report; /* as of which it runs; 0: not said */
};
struct running_set {
    struct running_item *items;
    size_t count, capacity;
    uint64_t
        report; /* the last one that was made before the agent said all that runs; 0: not said */
};
struct running_orphan {
    const struct fsm_allocation *allocation;
    uint64_t life; /* what is of it or of an earlier one must end */
};

struct dispatcher {
    struct broker *broker;
    struct replica_observer observer;
    struct nodes *nodes;
    bool serving;
    struct clock_timer *grant_timer;
    bool grant_scheduled;
    bool grant_in_flight;
    uint64_t grant_look_us; /* how long the last look took: the next one waits ten times as long */
    uint64_t *grant_ids;    /* GRANTS_LOOK_MAX, reused */
    bool grant_looking;     /* in steps: */
    struct fsm_grantable_scan grant_scan;
    struct fsm_waiting *grant_best; /* GRANTS_LOOK_MAX */
    uint64_t grant_spent_us;
    struct grant_queue queue; /* who waits, as the last look left it */
    struct list sessions;
    size_t attached_count;
    struct session **by_slot; /* the attached stream of each node, NULL: none */
    uint64_t *hello_by_slot;  /* number of the node's newest hello, 0: none */
    uint32_t slot_count;
    uint64_t hellos;
};

/* dispatcher_session.c */
void dispatcher_sessions_serve(struct dispatcher *dispatcher); /* adds the method */
void dispatcher_sessions_changed(
    struct dispatcher *dispatcher); /* sends order sets where they changed */
void dispatcher_sessions_end(struct dispatcher *dispatcher); /* NOT_LEADER to all */
void dispatcher_sessions_close(struct dispatcher *dispatcher);

/* Both tell whether the orders may be others now. `report`: running_set's. */
bool running_take_all(struct running_set *set, uint64_t report,
                      Ckpt__V1__RunningAllocation *const *items, size_t count);
bool running_take_report(struct running_set *set, const Ckpt__V1__AgentReport *report);
void running_close(struct running_set *set);
/* Those that must not run on the node; room for DISPATCHER_RUNNING_MAX. */
size_t running_orphans(const struct running_set *set, const struct fsm *fsm, uint32_t node_slot,
                       struct running_orphan *ret_orphans);
/* Those whose start the state waits for and has no report of any more; nothing while one of the node's may be on its way. Right
 * after running_take_all(). Room for FSM_RUNNING_PER_COMMAND_MAX. */
size_t running_awaited(const struct running_set *set, const struct fsm *fsm, uint32_t node_slot,
                       const struct running_item **ret_items);

/* dispatcher_orders.c: what the node must do now, as the message of the stream. Replaces what is in ret_bytes. */
void dispatcher_pack_orders(const struct dispatcher *dispatcher, uint32_t node_slot,
                            const struct running_set *running, struct buf *ret_bytes);

#endif
