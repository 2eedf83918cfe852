/* Duty of the leader: finds running jobs of which no rank steps any more, and those that step
 * again.
 *
 * Flow     Agents say in each heartbeat for how long no rank of a job has stepped on their node,
 *          the gap between its steps, and the ranks that are behind there. hangs_heard() keeps
 *          that. A look puts the words of all nodes of a job together and proposes a Hang with the
 *          evidence (fsm/hang.h). The state judges it anew.
 * Judged   A job hangs when each of its nodes that could step is heard, and all that say steps have
 *          been quiet for as long as fsm_hang_limit_ms() says of the longest gap. One node that
 *          does not say steps hides nothing, one that is not heard hides everything.
 * Time     counts from this leader's first heartbeat of the node's stream: no more quiet is
 *          believed than was seen. So an election, and a stream that broke, begin it anew.
 * Shapes   words are a node's whole list, level-triggered, and go with the node's stream. No state.
 * Units    milliseconds of the state's clock; quiet times are the agents'.
 * Errors   a proposal that is refused or lost is made again by a later look.
 * Source   V-030.
 */
#ifndef CKPT_BROKER_HANGS_H
#define CKPT_BROKER_HANGS_H

#include <stdint.h>

#include "ckpt/v1/agent.pb-c.h"

struct broker;
struct hangs;

enum {
    HANGS_LOOK_MS = 1000,
    HANGS_AGAIN_MS = 3000, /* after a look that has proposed something */
    HANGS_IN_FLIGHT_MAX = 64,
    HANGS_BEHIND_MAX = 8, /* of a node; more are not heard */
    HANGS_SLACK_MS = 1000 /* a step so long after the last one is another one */
};

/* On every member, after broker->replica; it rests until this member leads. */
struct hangs *hangs_new(struct broker *broker);
void hangs_free(struct hangs *hangs);

/* The node's list, which takes the place of the one before. NULL allowed: nobody looks. */
void hangs_heard(struct hangs *hangs, uint32_t node_slot,
                 const Ckpt__V1__AgentHeartbeat *heartbeat);
/* Its stream has ended: nothing is known of what steps there. */
void hangs_unheard(struct hangs *hangs, uint32_t node_slot);

#endif
