/* The life of a node: the table of allowed moves, and the only function that moves it at level 2.
 *
 *   UNKNOWN ──its agent is heard──► READY ◄──heard── DEGRADED
 *      │                             │ │ ──silent for 30 s──► │
 *      │                             │ └──────────┬───────────┘
 *      │                             │            │ silent for 90 s: what ran there counts as lost
 *      │                             │            ├─► AGENT_LOST ──a second witness──► DOWN
 *      │                             │            └── with a second witness ──────────► DOWN
 *      └────────────┬────────────────┘                     │                            │
 *                   │ an operator                          │  heard: back to what an    │
 *                   ├── drain ───► DRAINING ─► DRAINED     │  operator wants of it, and │
 *                   └── disable ─► DISABLED                ▼  what ran there is ended   ▼
 *                                                    READY, DRAINING, DRAINED or DISABLED
 *
 * Flow     two facts make the state: what is heard of the node (its contact: UNKNOWN, READY,
 *          DEGRADED, AGENT_LOST, DOWN), and what an operator wants of it (wanted). A node that is
 *          gone keeps what is wanted, and returns to it. `undrain` ends a drain and a disabling.
 *          Each move is an event: NODE_DRAINED where it becomes DRAINED, else NODE_STATE.
 * Absent   consequences for jobs (apply_node.c). At level 1 the states are those of its release.
 */
#include "fsm/node_life.h"
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/level.h"

/* A row of moves is a set of states, one bit each. */
#define NODE(name) CKPT__LOG__V1__NODE_STATE__NODE_STATE_##name
#define N(name)    (1u << NODE(name))

enum {
    NODE_SERVED = N(UNSPECIFIED) | N(READY) | N(DEGRADED),
    NODE_WITHHELD = N(DRAINING) | N(DRAINED) | N(DISABLED),
    NODE_GONE = N(AGENT_LOST) | N(DOWN)
};

static const uint32_t node_moves[FSM_STATES_NODE] = {
    [NODE(UNSPECIFIED)] = N(READY) | N(DEGRADED) | NODE_WITHHELD | NODE_GONE,
    [NODE(READY)] = N(DEGRADED) | NODE_WITHHELD | NODE_GONE,
    [NODE(DEGRADED)] = N(READY) | NODE_WITHHELD | NODE_GONE,
    [NODE(DRAINING)] = NODE_SERVED | N(DRAINED) | N(DISABLED) | NODE_GONE,
    [NODE(DRAINED)] = NODE_SERVED | N(DRAINING) | N(DISABLED) | NODE_GONE,
    [NODE(DISABLED)] = NODE_SERVED | N(DRAINING) | N(DRAINED) | NODE_GONE,
    [NODE(AGENT_LOST)] = N(READY) | NODE_WITHHELD | N(DOWN),
    [NODE(DOWN)] = N(READY) | NODE_WITHHELD,
};

bool fsm_node_move_allowed(Ckpt__Log__V1__NodeState from, Ckpt__Log__V1__NodeState to)
{
    return (unsigned)from < FSM_STATES_NODE && (unsigned)to < FSM_STATES_NODE &&
           (node_moves[from] >> to & 1) != 0;
}

static Ckpt__Log__V1__NodeState node_state_for(const struct fsm_node *view,
                                               Ckpt__Log__V1__NodeState contact)
{
    CHECK(view->id != NULL);
    if (NODE_GONE >> contact & 1)
        return contact;
    switch (view->wanted) {
    case CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_DRAIN:
        return view->allocation_count == 0 ? NODE(DRAINED) : NODE(DRAINING);
    case CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_DISABLE:
        return NODE(DISABLED);
    case CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_UNSPECIFIED:
    case _CKPT__LOG__V1__NODE_WANTED_IS_INT_SIZE:
        break;
    }
    return contact;
}

void fsm_node_live(struct fsm *fsm, struct node *node, Ckpt__Log__V1__NodeState contact)
{
    Ckpt__Log__V1__NodeState state = node_state_for(&node->view, contact);
    const struct fsm_event event = {.kind = state == NODE(DRAINED)
                                                ? CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_DRAINED
                                                : CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_STATE,
                                    .old_state = node->view.state,
                                    .new_state = state,
                                    .subject = node->view.id};

    CHECK(fsm_level(fsm) >= 2);
    if (node->view.state == state)
        return;
    CHECK(fsm_node_move_allowed(node->view.state, state));
    node->view.state = state;
    node->view.state_since_ms = fsm->now_ms;
    fsm_moved(fsm, FSM_RECORD_NODE, node->view.slot);
    fsm_event_emit(fsm, &event);
}

void fsm_node_adopt(struct fsm *fsm, struct node *node)
{
    CHECK(node->view.id != NULL);
    if (fsm_level(fsm) < 2)
        return;
    node->view.wanted = fsm_node_wanted(&node->view);
    fsm_node_live(fsm, node, fsm_node_contact(&node->view));
}

/* L-002: a draining node is drained when its last job has given it back. */
void fsm_node_emptied(struct fsm *fsm, const struct node *node)
{
    CHECK(node->view.id != NULL);
    if (fsm_level(fsm) >= 2 && node->view.allocation_count == 0 &&
        node->view.state == NODE(DRAINING))
        fsm_node_adopt(fsm, node_edit(fsm, node));
}
