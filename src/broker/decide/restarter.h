/* Duty of the leader: starts stopped jobs again, on nodes where a ckpt-run of the job waits.
 *
 * Flow     Agents say in each heartbeat for which jobs somebody waits on their node.
 *          restarter_heard() keeps that. A look finds the jobs that the broker restarts
 *          (fsm/restart.h) and for which enough nodes wait, chooses among these, and proposes one
 *          RestartChoice for each. The state judges it anew.
 * Choice   First come the job's own nodes, where its copies are the nearest, then spares; among
 *          each kind first the nodes with healthy hardware, then those of its checkpoint's domain.
 *          A node that was the cause of the job's last two failures is excluded for two minutes,
 *          and comes last of all after that. A job that was moved takes one node at least that it
 *          did not have.
 *          A spare does not take the place of an own node that is there and may still come, before
 *          RESTARTER_SETTLE_MS have passed since the job stopped. Nor does a job that could go on
 *          with fewer nodes come back smaller before that.
 * Twice    A node of the job is left out only when the state knows that its part there has ended
 *          (fsm/job/unended.c). A scheduler may end a job while it runs.
 * Absent   A ckpt-run may go between its word and the choice. When a chosen node has said for
 *          RESTARTER_ABSENT_MS that none of the job is there, the choice is taken back: the others
 *          would wait for it for ever.
 * Shapes   Waits are a node's whole list, level-triggered: a job that the last one lacks is waited
 *          for no more. They go with the node's stream. No state: a new leader hears everything
 *          with the first heartbeats.
 * Units    milliseconds of the state's clock.
 * Errors   a proposal that is refused or lost is made again by a later look.
 * Source   V-001, V-002, S1-022, S3-047.
 */
#ifndef CKPT_BROKER_RESTARTER_H
#define CKPT_BROKER_RESTARTER_H

#include <stddef.h>
#include <stdint.h>

#include "ckpt/v1/agent.pb-c.h"
#include "fsm/fsm.h"

struct broker;
struct restarter;

enum {
    RESTARTER_LOOK_MS = 250,
    RESTARTER_SETTLE_MS = 2000,
    RESTARTER_ABSENT_MS = 20000,
    RESTARTER_REFUSED_MS = 2000,  /* before a refused choice is made again */
    RESTARTER_BY_HAND_MS = 60000, /* ... of a job that has nothing to begin from: it waits for a
                                     person, as RULES say */
    RESTARTER_REFUSED_MAX = 256,  /* remembered */
    RESTARTER_CALLERS_MAX = 1024, /* of one node; more are not heard */
    RESTARTER_IN_FLIGHT_MAX = 64  /* proposals of one look */
};

/* On every member, after broker->replica; it rests until this member leads. */
struct restarter *restarter_new(struct broker *broker);
void restarter_free(struct restarter *restarter);

/* The node's list, which takes the place of the one before. NULL allowed: nobody restarts. */
void restarter_heard(struct restarter *restarter, uint32_t node_slot,
                     const Ckpt__V1__AgentHeartbeat *heartbeat);
/* Its stream has ended: nothing is known of who waits there. */
void restarter_unheard(struct restarter *restarter, uint32_t node_slot);
/* Nodes where a ckpt-run waits for the job, as this leader knows, and whether each may take it; of
 * NULL none. Returns how many are in waits, which has room for size. */
struct restarter_wait {
    uint32_t node_slot;
    enum fsm_status status; /* OK: it may */
};
size_t restarter_waits(const struct restarter *restarter, const struct fsm_allocation *allocation,
                       struct restarter_wait *waits, size_t size);
/* The last choice for the stopped job that the state refused; false: none, as this leader knows.
 * The text lives until the next proposal. */
struct restarter_refusal {
    uint64_t at_ms;
    uint64_t current, limit; /* of the status */
    enum fsm_status status;
    const char *choice;
};
bool restarter_refused(const struct restarter *restarter, const struct fsm_allocation *allocation,
                       struct restarter_refusal *ret_refusal);

#endif
