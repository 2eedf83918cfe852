/* Nodes of a stopped job where its processes may run on, and nobody knows.
 *
 * Flow     a part of which the state does not know that it has ended (unended.c) keeps a run from
 *          being begun elsewhere: it would be a second copy. Its node is silent (NODE_SILENT), or
 *          it is heard and has not said so yet (RUN_NOT_ENDED). The second takes moments where its
 *          agent is well, and the leader lets such a request wait (src/broker/api/hold.h). So does
 *          a part that has left the job (departed.c).
 * Errors   a node for which no agent ever spoke is no reason to refuse: nobody would ever answer.
 *          Nor is one whose machine is off by a second witness.
 */
#include "fsm/core/registry.h"
#include "fsm/ends.h"
#include "fsm/job/job.h"
#include "fsm/level.h"
#include "fsm/node_life.h"

/* Of nodes that were down when the level rose nothing else is known. */
uint64_t fsm_node_silent_since_ms(const struct fsm_node *view)
{
    CHECK(view->id != NULL);
    if (view->silent_since_ms != 0)
        return view->silent_since_ms;
    return fsm_node_gone(view) ? fsm_max(view->state_since_ms, 1) : 0;
}

static uint32_t places_of(const struct allocation *allocation)
{
    CHECK(allocation->departed_count <= FSM_DEPARTED_MAX);
    return allocation->view.node_count + allocation->departed_count;
}

const struct node *fsm_unended_node(const struct fsm *fsm, const struct allocation *allocation,
                                    uint32_t place)
{
    const struct fsm_allocation *view = &allocation->view;

    CHECK(place < places_of(allocation));
    return node_at(fsm, place < view->node_count
                            ? view->nodes[place].node_slot
                            : allocation->departed[place - view->node_count]->node_slot);
}

static const struct fsm_node *node_of_place(const struct fsm *fsm,
                                            const struct allocation *allocation, uint32_t place)
{
    return &fsm_unended_node(fsm, allocation, place)->view;
}

/* Level 1 knows of no such part. */
static bool may_run_on(const struct fsm *fsm, const struct allocation *allocation, uint32_t place)
{
    CHECK(place < places_of(allocation));
    return fsm_level(fsm) >= 2 && !allocation->assigned &&
           (place >= allocation->view.node_count ||
            fsm_part_unended(&allocation->assignments[place])) &&
           node_of_place(fsm, allocation, place)->off_at_ms == 0;
}

uint32_t fsm_unended_place(const struct fsm *fsm, const struct allocation *allocation,
                           uint32_t from)
{
    CHECK(allocation->view.id != NULL);
    for (uint32_t i = from; !allocation->assigned && i < places_of(allocation); i++) {
        const struct fsm_node *node = node_of_place(fsm, allocation, i);

        if (may_run_on(fsm, allocation, i) &&
            (node->boot_id[0] != '\0' || fsm_node_silent_since_ms(node) != 0))
            return i;
    }
    return UINT32_MAX;
}

enum fsm_status fsm_unended_refusal(const struct fsm *fsm, const struct allocation *allocation,
                                    uint32_t place, struct fsm_outcome *outcome)
{
    const struct fsm_node *node = node_of_place(fsm, allocation, place);
    uint64_t silent_ms = fsm_node_silent_since_ms(node);

    CHECK(outcome != NULL);
    outcome->subject = node->id;
    outcome->limit = 0;
    outcome->current =
        fsm_since(fsm, silent_ms != 0 ? silent_ms : allocation->view.state_since_ms) / 1000;
    return silent_ms != 0 ? FSM_NODE_SILENT : FSM_RUN_NOT_ENDED;
}

const struct fsm_node *fsm_allocation_silent(const struct fsm *fsm,
                                             const struct fsm_allocation *view)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);
    uint32_t place = fsm_unended_place(fsm, allocation, 0);

    CHECK(view->id != NULL);
    for (; place != UINT32_MAX; place = fsm_unended_place(fsm, allocation, place + 1))
        if (fsm_node_silent_since_ms(node_of_place(fsm, allocation, place)) != 0)
            return node_of_place(fsm, allocation, place);
    return NULL;
}

const struct fsm_node *fsm_allocation_unended(const struct fsm *fsm,
                                              const struct fsm_allocation *view)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);
    uint32_t place = fsm_unended_place(fsm, allocation, 0);

    CHECK(view->id != NULL);
    return place == UINT32_MAX ? NULL : node_of_place(fsm, allocation, place);
}

const struct fsm_node *fsm_allocation_never_heard(const struct fsm *fsm,
                                                  const struct fsm_allocation *view)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);

    CHECK(view->id != NULL);
    for (uint32_t place = 0; place < places_of(allocation); place++) {
        const struct fsm_node *node = node_of_place(fsm, allocation, place);

        if (may_run_on(fsm, allocation, place) && node->boot_id[0] == '\0' &&
            fsm_node_silent_since_ms(node) == 0)
            return node;
    }
    return NULL;
}

uint32_t fsm_allocation_places(const struct fsm *fsm, const struct fsm_allocation *view)
{
    CHECK(view->id != NULL);
    return places_of(allocation_at(fsm, view->slot));
}

struct fsm_place fsm_allocation_place(const struct fsm *fsm, const struct fsm_allocation *view,
                                      uint32_t place)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);

    CHECK(view->id != NULL);
    CHECK(place < places_of(allocation));
    if (place < view->node_count)
        return (struct fsm_place){view->nodes[place].run, view->nodes[place].node_slot};
    return (struct fsm_place){allocation->departed[place - view->node_count]->run,
                              allocation->departed[place - view->node_count]->node_slot};
}

bool fsm_part_unheard(const struct fsm *fsm, const struct fsm_allocation *view, uint32_t place)
{
    CHECK(view->id != NULL);
    return may_run_on(fsm, allocation_at(fsm, view->slot), place);
}

/* ---- requests that a moment may make right ---- */

/* The named ones are none of the nodes on which its last run may go on. Else the first such place
 * whose node is heard is told by *ret_soon; where one is silent, no moment helps. */
struct unended_look {
    const struct fsm *fsm;
    const struct allocation *allocation;
    size_t count;
    Ckpt__V1__NodeShare *const *nodes; /* of the request */
};

static bool look_finds_soon(const struct unended_look *look)
{
    uint32_t place = fsm_unended_place(look->fsm, look->allocation, 0);
    bool soon = false;

    CHECK(look->allocation->view.id != NULL);
    for (; place != UINT32_MAX; place = fsm_unended_place(look->fsm, look->allocation, place + 1)) {
        const struct fsm_node *node = node_of_place(look->fsm, look->allocation, place);
        size_t i = 0;

        while (i < look->count && strcmp(look->nodes[i]->node_id, node->id) != 0)
            i++;
        if (i < look->count)
            continue;
        if (fsm_node_silent_since_ms(node) != 0)
            return false;
        soon = true;
    }
    return soon;
}

bool fsm_restart_ends_soon(const struct fsm *fsm, const Ckpt__V1__RestartAllocationRequest *request)
{
    const struct allocation *allocation = allocation_find(fsm, request->allocation_id);
    const struct unended_look look = {fsm, allocation, request->n_nodes, request->nodes};

    /* without names it is its old nodes, or of these as many as are there: RULES.md */
    return allocation != NULL &&
           (request->n_nodes > 0 || allocation->view.reactive_min_nodes > 0) &&
           look_finds_soon(&look);
}

bool fsm_continue_ends_soon(const struct fsm *fsm, const Ckpt__V1__AllocationSpec *spec)
{
    const struct allocation *old =
        spec->continues[0] == '\0' ? NULL : allocation_find(fsm, spec->continues);
    const struct unended_look look = {fsm, old, spec->n_nodes, spec->nodes};

    return old != NULL && look_finds_soon(&look);
}
