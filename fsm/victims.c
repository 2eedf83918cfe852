/* Who gives nodes up for whom: candidates and the set to take (P-003, P-015, P-016, P-050); victim_rules.c has the rules for one.
 *
 * Flow     search_add_*() lists who may be a victim and how many nodes of use each would free; search_choose() finds a set that covers
 *          the need: first with what elastic jobs can spare, then with elastic jobs stopped.
 * Choice   the lowest highest class first (P-003), then the fewest victims (P-050), then greedily the cheapest that still lets the
 *          others cover the need (P-015); a set whose cost is not below the stated value is passed over. No set: nothing changes (P-016).
 * Shapes   at most FSM_VICTIM_CANDIDATES_MAX candidates are looked at, at most `max` are taken.
 * Units    costs are GPU-milliseconds. Nodes "of use" are those that help the one who waits.
 */
#include "fsm/state.h"

#define ENDS(name)   CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define REASON(name) CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_##name

struct candidate {
    const struct allocation *allocation;
    uint64_t cost;
    uint32_t amount; /* nodes or GPUs of use, by what is being covered */
    uint32_t node_count, gpu_count;
    uint8_t class;
    bool shrinks;
    bool chosen;
};

struct search {
    const struct fsm *fsm;
    const struct victim_search *asked;
    uint8_t *useful;         /* by node slot; NULL: every node is of use */
    struct candidate *items; /* the cheapest first */
    uint32_t *by_size;       /* indexes, the largest amount first */
    uint32_t *eligible;      /* of by_size, those up to the class that is tried */
    size_t count, eligible_count;
    enum fsm_status refusal; /* of the last one that may not be a victim */
    uint64_t refusal_current, refusal_limit;
    bool elastic_stop;        /* an elastic job may be stopped for more than it can spare */
    bool spared;              /* some gave less than they have */
    bool storage_unavailable; /* some were left out for that alone */
    uint64_t dear_gpu_ms;     /* the cheapest set that costs too much; UINT64_MAX: none */
};

static bool share_useful(const struct search *search, const struct fsm_node_share *share)
{
    return fsm_node_serves(search->fsm, share->node_slot) &&
           (search->useful == NULL || search->useful[share->node_slot] != 0) &&
           (search->asked->reason != REASON(RECLAIM) || share->borrowed);
}

/* a scale-down that is under way gives exactly what is wanted. */
static bool victim_leaves_already(const struct search *search, const struct fsm_allocation *view)
{
    for (uint32_t i = 0; i < view->next_count; i++)
        if (share_useful(search, &view->next[i]))
            return false;
    return true;
}

/* P-005: how many of its nodes an elastic job may give back and go on; 0: it must stop. */
static uint32_t victim_spares(const struct search *search, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;

    if (search->asked->reason != REASON(RECLAIM))
        return 0;
    if (view->next_count > 0)
        return victim_leaves_already(search, view) ? view->node_count : 0;
    if (view->reactive_min_nodes == 0 || view->node_count <= view->reactive_min_nodes ||
        view->state != ENDS(RUNNING) || !fsm_victim_can_checkpoint(search->fsm, allocation))
        return 0;
    return view->node_count - view->reactive_min_nodes;
}

/* It stops only where no set is found with what elastic ones can spare. */
static bool victim_shrinks(const struct search *search, const struct allocation *allocation,
                           uint32_t useful_count, uint32_t spares)
{
    uint32_t wanted = useful_count;

    if (allocation->view.next_count > 0 || !search->elastic_stop)
        return spares > 0;
    if (search->asked->nodes > 0 && search->asked->gpus == 0 && search->asked->nodes < wanted)
        wanted = search->asked->nodes;
    return spares >= wanted;
}

/* The nodes of use, and of a job that shrinks no more than it spares. Returns how many; slots NULL: only counted. */
static uint32_t victim_useful(const struct search *search, const struct allocation *allocation,
                              uint32_t most, uint32_t *ret_slots, uint32_t *ret_gpus)
{
    const struct fsm_allocation *view = &allocation->view;
    uint32_t count = 0;

    *ret_gpus = 0;
    for (uint32_t i = 0; i < view->node_count && count < most; i++) {
        if (!share_useful(search, &view->nodes[i]))
            continue;
        if (ret_slots != NULL)
            ret_slots[count] = view->nodes[i].node_slot;
        *ret_gpus += view->nodes[i].gpu_count;
        count++;
    }
    return count;
}

static bool was_tried(const struct search *search, const struct allocation *allocation)
{
    const struct preemption *preemption = search->asked->goes_on;

    for (uint32_t i = 0; preemption != NULL && i < preemption->view.victim_count; i++)
        if (strcmp(preemption->view.victims[i].allocation_id, allocation->view.id) == 0)
            return true;
    return false;
}

static void search_add(struct search *search, const struct allocation *allocation)
{
    struct candidate *candidate = &search->items[search->count];
    const struct fsm_allocation *view = &allocation->view;
    uint32_t spares = victim_spares(search, allocation);
    enum fsm_status status;
    uint64_t current;
    uint64_t limit;

    if (was_tried(search, allocation))
        return;
    candidate->node_count =
        victim_useful(search, allocation, UINT32_MAX, NULL, &candidate->gpu_count);
    candidate->shrinks = candidate->node_count > 0 &&
                         victim_shrinks(search, allocation, candidate->node_count, spares);
    if (candidate->shrinks && spares < candidate->node_count) {
        search->spared = true;
        candidate->node_count =
            victim_useful(search, allocation, spares, NULL, &candidate->gpu_count);
    }
    status = fsm_victim_check(search->fsm, search->asked, allocation, candidate->shrinks, &current,
                              &limit);
    if (status != FSM_OK) {
        search->refusal = status;
        search->refusal_current = current;
        search->refusal_limit = limit;
        search->storage_unavailable |= status == FSM_STORAGE_UNAVAILABLE;
        return;
    }
    if (candidate->node_count == 0)
        return;
    candidate->allocation = allocation;
    candidate->cost = fsm_victim_cost(search->fsm, allocation, candidate->shrinks);
    candidate->class = view->preemption_class;
    candidate->chosen = false;
    search->count++;
}

static void search_add_named(struct search *search)
{
    const Ckpt__V1__RequestPreemptionRequest *request = search->asked->request;

    for (size_t i = 0; i < request->n_candidates; i++) {
        const struct allocation *allocation =
            fsm_allocation_named(search->fsm, request->candidates[i]);
        bool named_before = false;

        for (size_t j = 0; j < search->count; j++)
            named_before |= search->items[j].allocation == allocation;
        if (allocation == NULL)
            search->refusal = FSM_ALLOCATION_NOT_FOUND;
        else if (!named_before)
            search_add(search, allocation);
    }
}

static void search_add_any(struct search *search)
{
    uint32_t looked_at = 0;

    for (uint32_t class = 0; class < search->asked->acting_class; class ++) {
        const struct bitmap *slots = &search->fsm->running_by_class[class];

        for (uint32_t slot = fsm_bitmap_next(slots, 0);
             slot != UINT32_MAX && looked_at < FSM_VICTIM_CANDIDATES_MAX;
             slot = fsm_bitmap_next(slots, slot + 1)) {
            search_add(search, fsm_allocation_look(search->fsm, slot));
            looked_at++;
        }
    }
}

/* A node whose home nobody said is of use when it is named, not when only a home is asked for. */
static void search_mark_useful(struct fsm *fsm, struct search *search)
{
    const Ckpt__V1__RequestPreemptionRequest *request = search->asked->request;
    const char *home = request->home_vcluster;
    uint32_t slots = fsm->nodes.slot_end;

    if (request->n_useful_nodes == 0 && home[0] == '\0')
        return;
    search->useful = fsm_arena_take(&fsm->arena, slots + 1);
    memset(search->useful, 0, slots + 1);
    for (size_t i = 0; i < request->n_useful_nodes; i++) {
        const struct node *node = fsm_node_named(fsm, request->useful_nodes[i]);

        if (node != NULL && (home[0] == '\0' || node->view.home_vcluster[0] == '\0' ||
                             strcmp(node->view.home_vcluster, home) == 0))
            search->useful[node->view.slot] = 1;
    }
    for (uint32_t slot = 0; slot < slots && request->n_useful_nodes == 0; slot++) {
        const struct node *node = fsm_node_look(fsm, slot);

        search->useful[slot] = node != NULL && strcmp(node->view.home_vcluster, home) == 0;
    }
}

/* ---- the set ---- */

/* Sorts the items by cost and slot. */
static void search_order(struct fsm *fsm, struct search *search)
{
    size_t count = search->count;
    struct sort_item *order = fsm_arena_take(&fsm->arena, (count + 1) * sizeof(*order));
    struct candidate *sorted = fsm_arena_take(&fsm->arena, (count + 1) * sizeof(*sorted));

    for (size_t i = 0; i < count; i++)
        order[i] = (struct sort_item){UINT64_MAX - search->items[i].cost,
                                      search->items[i].allocation->view.slot, &search->items[i]};
    fsm_sort(order, count);
    for (size_t i = 0; i < count; i++)
        sorted[i] = *(const struct candidate *)order[i].item;
    search->items = sorted;
    search->by_size = fsm_arena_take(&fsm->arena, (count + 1) * sizeof(uint32_t));
    search->eligible = fsm_arena_take(&fsm->arena, (count + 1) * sizeof(uint32_t));
}

/* What is covered first: nodes or GPUs. */
static void search_measure(struct fsm *fsm, struct search *search, bool by_gpus)
{
    struct sort_item *order = fsm_arena_take(&fsm->arena, (search->count + 1) * sizeof(*order));

    for (size_t i = 0; i < search->count; i++) {
        struct candidate *candidate = &search->items[i];

        candidate->amount = by_gpus ? candidate->gpu_count : candidate->node_count;
        order[i] = (struct sort_item){candidate->amount, i, candidate};
    }
    fsm_sort(order, search->count);
    for (size_t i = 0; i < search->count; i++)
        search->by_size[i] = (uint32_t)order[i].low;
}

static void search_limit(struct search *search, uint32_t class)
{
    search->eligible_count = 0;
    for (size_t i = 0; i < search->count; i++)
        if (search->items[search->by_size[i]].class <= class)
            search->eligible[search->eligible_count++] = search->by_size[i];
}

/* Amount of the `count` largest eligible ones that are not chosen, leaving out one. */
static uint64_t search_largest(const struct search *search, size_t count, size_t without)
{
    uint64_t amount = 0;

    for (size_t i = 0; i < search->eligible_count && count > 0; i++) {
        size_t at = search->eligible[i];

        if (at == without || search->items[at].chosen)
            continue;
        amount += search->items[at].amount;
        count--;
    }
    return amount;
}

/* The cheapest set of exactly `size` that covers the need, greedily. */
static bool search_choose_size(struct search *search, uint32_t class, size_t size, uint64_t need)
{
    for (size_t i = 0; i < search->count; i++)
        search->items[i].chosen = false;
    if (search_largest(search, size, SIZE_MAX) < need)
        return false;
    for (size_t left = size; left > 0 && need > 0; left--) {
        size_t i = 0;

        for (; i < search->count; i++) {
            struct candidate *candidate = &search->items[i];

            if (!candidate->chosen && candidate->class <= class &&
                candidate->amount + search_largest(search, left - 1, i) >= need)
                break;
        }
        CHECK(i < search->count);
        search->items[i].chosen = true;
        need -= fsm_min(need, search->items[i].amount);
    }
    return true;
}

/* Takes what is chosen over; false: it does not cover both needs, or costs too much (P-050). */
static bool search_take(struct search *search, struct victim_set *ret_set)
{
    const struct victim_search *asked = search->asked;
    uint64_t nodes = 0;
    uint64_t gpus = 0;

    ret_set->count = 0;
    ret_set->cost_gpu_ms = 0;
    for (size_t i = 0; i < search->count; i++) {
        const struct candidate *candidate = &search->items[i];

        if (!candidate->chosen)
            continue;
        CHECK(ret_set->count < FSM_VICTIMS_MAX);
        ret_set->items[ret_set->count++] =
            (struct victim_choice){candidate->allocation->view.slot, candidate->shrinks};
        ret_set->cost_gpu_ms = fsm_add(ret_set->cost_gpu_ms, candidate->cost);
        nodes += candidate->node_count;
        gpus += candidate->gpu_count;
    }
    if (nodes < asked->nodes || gpus < asked->gpus)
        return false;
    if (asked->value_gpu_ms == 0 || ret_set->cost_gpu_ms < asked->value_gpu_ms)
        return true;
    search->dear_gpu_ms = fsm_min(search->dear_gpu_ms, ret_set->cost_gpu_ms);
    return false;
}

static bool search_choose(struct fsm *fsm, struct search *search, bool by_gpus,
                          struct victim_set *ret_set)
{
    uint64_t need = by_gpus ? search->asked->gpus : search->asked->nodes;

    if (need == 0)
        return false;
    search_measure(fsm, search, by_gpus);
    for (uint32_t class = 0; class <= FSM_CLASS_MAX; class ++) {
        search_limit(search, class);
        for (size_t size = 1; size <= search->asked->max; size++)
            if (search_choose_size(search, class, size, need) && search_take(search, ret_set))
                return true;
    }
    return false;
}

static enum fsm_status search_refusal(struct search *search, struct fsm_outcome *outcome)
{
    if (search->asked->request->n_candidates == 1 && search->count == 0 &&
        search->refusal != FSM_OK) {
        outcome->current = search->refusal_current;
        outcome->limit = search->refusal_limit;
        return search->refusal;
    }
    if (search->dear_gpu_ms != UINT64_MAX) {
        outcome->current = search->dear_gpu_ms;
        outcome->limit = search->asked->value_gpu_ms;
        return FSM_COST_EXCEEDS_VALUE;
    }
    for (size_t i = 0; i < search->count; i++)
        search->items[i].chosen = false;
    search_limit(search, FSM_CLASS_MAX);
    outcome->current = search_largest(search, search->asked->max, SIZE_MAX);
    outcome->limit = search->asked->max;
    return search->storage_unavailable ? FSM_STORAGE_UNAVAILABLE : FSM_NO_VICTIMS;
}

static bool search_run(struct fsm *fsm, struct search *search, struct victim_set *ret_set)
{
    size_t capacity = search->asked->request->n_candidates > 0
                          ? search->asked->request->n_candidates
                          : fsm_min(fsm->allocations.used, FSM_VICTIM_CANDIDATES_MAX);

    search->items = fsm_arena_take(&fsm->arena, (capacity + 1) * sizeof(*search->items));
    search->count = 0;
    if (search->asked->request->n_candidates > 0)
        search_add_named(search);
    else
        search_add_any(search);
    search_order(fsm, search);
    return search_choose(fsm, search, false, ret_set) || search_choose(fsm, search, true, ret_set);
}

enum fsm_status fsm_victims_choose(struct fsm *fsm, const struct victim_search *asked,
                                   struct victim_set *ret_set, struct fsm_outcome *outcome)
{
    struct search search = {.fsm = fsm, .asked = asked, .dear_gpu_ms = UINT64_MAX};

    CHECK(asked->max <= FSM_VICTIMS_MAX);
    search_mark_useful(fsm, &search);
    if (search_run(fsm, &search, ret_set))
        return FSM_OK;
    search.elastic_stop = true;
    if (search.spared && search_run(fsm, &search, ret_set))
        return FSM_OK;
    return search_refusal(&search, outcome);
}

uint32_t fsm_victim_nodes(struct fsm *fsm, const struct victim_search *asked,
                          const struct allocation *allocation, bool shrinks, uint32_t *ret_slots,
                          uint32_t *ret_gpus)
{
    struct search search = {.fsm = fsm, .asked = asked};
    uint32_t most = UINT32_MAX;

    search_mark_useful(fsm, &search);
    if (shrinks)
        most = victim_spares(&search, allocation);
    return victim_useful(&search, allocation, most, ret_slots, ret_gpus);
}
