/* Two agents that say that they are the same node.
 *
 * Flow     each hello that meets an attached stream of its node is judged. The same agent, by its
 *          boot and the instant of its start, comes back over a new connection: it takes the place.
 *          Any other one is refused while the first one is heard.
 *          To let it in would end the jobs of the first one's boot, and the two would take the node
 *          from each other for ever.
 * Shapes   the last refusal is kept for Status. An agent that died without a word (a power cut) is
 *          silent for a heartbeat and a half soon, and the next one of its node is let in.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/broker/dispatch/dispatcher_internal.h"
#include "src/broker/explain/translate.h"
#include "src/broker/health/nodes.h"

enum { TWIN_HEARTBEATS_PER_DEGRADED = 2 }; /* a heartbeat and a half of three */

static bool same_agent(const struct dispatcher_agent *a, const struct dispatcher_agent *b)
{
    return a->started_ms == b->started_ms && strcmp(a->boot_id, b->boot_id) == 0;
}

static bool is_heard(const struct broker *broker, uint32_t slot)
{
    const Ckpt__V1__Policy *policy = fsm_policy(replica_fsm(broker->replica));

    return nodes_heartbeat_age_ms(broker->nodes, slot) <
           policy->node_degraded_after_ms / TWIN_HEARTBEATS_PER_DEGRADED;
}

/* Once a minute for each pair: the refused one asks again every second. */
static void twin_note(struct dispatcher *dispatcher, const char *node_id,
                      const struct dispatcher_agent *first, const struct dispatcher_agent *other)
{
    struct dispatcher_twin *twin = &dispatcher->twin;
    uint64_t now_ms = broker_monotonic_ms(dispatcher->broker);
    bool known = strcmp(twin->node_id, node_id) == 0 && twin->at_ms != 0 &&
                 now_ms - twin->logged_ms < DISPATCHER_TWIN_AGAIN_MS;

    dispatcher->broker->counters.agent_twins_total++;
    if (!known) {
        twin->logged_ms = now_ms;
        log_warning("agent_twin",
                    "node=%s address=%s refused=%s text=\"two agents have the same name: stop one, "
                    "or start it with the --name of its own node\"",
                    node_id, first->address, other->address);
    }
    twin->at_ms = now_ms;
    text_copy(twin->node_id, sizeof(twin->node_id), node_id);
    text_copy(twin->first, sizeof(twin->first), first->address);
    text_copy(twin->refused, sizeof(twin->refused), other->address);
}

bool dispatcher_twin_refused(struct dispatcher *dispatcher, const struct fsm_node *node,
                             const struct dispatcher_agent *attached,
                             const struct dispatcher_agent *agent, char *text, size_t size)
{
    CHECK(node != NULL && attached != NULL);
    if (same_agent(attached, agent) || !is_heard(dispatcher->broker, node->slot))
        return false;
    twin_note(dispatcher, node->id, attached, agent);
    snprintf(text, size, "%s: the agent at %s is node %s and is heard, so the one at %s is not; %s",
             fsm_status_name(FSM_NODE_TAKEN), attached->address, node->id, agent->address,
             fsm_status_next(FSM_NODE_TAKEN));
    return true;
}

char *dispatcher_twin_warning(const struct dispatcher *dispatcher, struct scratch *scratch)
{
    const struct dispatcher_twin *twin;

    if (dispatcher == NULL || !dispatcher->serving || dispatcher->twin.at_ms == 0)
        return NULL;
    twin = &dispatcher->twin;
    if (broker_monotonic_ms(dispatcher->broker) - twin->at_ms > DISPATCHER_TWIN_AGAIN_MS)
        return NULL;
    return scratch_printf(
        scratch,
        "node %s has two agents, at %s and at %s: the second one is refused; stop "
        "one, or start it with the --name of its own node",
        twin->node_id, twin->first, twin->refused);
}
