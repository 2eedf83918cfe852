/* Who gives nodes up for whom: candidates and the set to take (P-003, P-015, P-016, P-050);
 * victim_rules.c has the rules for one.
 *
 * Flow     class by class, the lowest first: search_class() looks at who may be a victim, and how
 *          many nodes of use each would free; measure_choose() finds a set that covers the need, or
 *          the next class is looked at as well. First with what elastic jobs can spare, then with
 *          elastic jobs stopped.
 * Choice   the lowest highest class first (P-003), then the fewest victims (P-050), then greedily
 *          the cheapest that still lets the others cover the need (P-015); a set whose cost is not
 *          below the stated value is passed over. No set: nothing changes (P-016).
 * Shapes   every running allocation of the classes below is looked at once, or only those on the
 *          nodes of use where these are few; at most `max` are taken. Of those who are alike in
 *          class and amount only the `max` cheapest can be taken, so no others are kept (shelves):
 *          the choice is the one that all of them would give, in memory that does not grow with
 *          them.
 * Units    costs are GPU-milliseconds. Nodes "of use" are those that help the one who waits.
 */
#include "fsm/core/registry.h"
#include "fsm/core/state.h"

#define ENDS(name)   CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define REASON(name) CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_##name

/* One shelf per amount from none to the largest job's nodes, and one for the largest amounts. */
enum { SHELVES = FSM_NODES_PER_ALLOCATION_MAX + 2, LARGEST = SHELVES - 1 };
/* So many slots ahead the memory is asked for a job, and half as many for its nodes. */
enum { LOOK_AHEAD = 12, LINE_BYTES = 64 };

/* A job that may be taken, with what it would give and cost. */
struct candidate {
    const struct allocation *allocation;
    uint64_t cost;
    uint32_t amount; /* nodes or GPUs of use, by what is being covered */
    uint32_t node_count, gpu_count;
    bool shrinks;
    bool chosen;
};

/* What is to be covered, nodes or GPUs, and by whom it can be. Amounts of one step are alike: one
 * node, or GPUs up to 1/4,096 of the need. Where a step is wider than one the largest are kept
 * beside the cheapest, so that a set is found whenever there is one. */
struct measure {
    bool by_gpus;
    uint64_t need; /* 0: nothing */
    uint64_t step;
    /* SHELVES times `max`, of the class that is looked at, the cheapest first; LARGEST: the largest
     * first */
    struct candidate *shelves;
    uint8_t *counts;         /* on each */
    size_t shelf_end;        /* from here on they are empty, but for LARGEST */
    struct candidate *items; /* of that class and those below, the cheapest first */
    uint32_t *by_size;       /* indexes, the largest amount first */
    size_t count;
};

/* All that one choice knows. It lives in the arena and on the stack, and is gone with the
 * command. */
struct search {
    struct fsm *fsm;
    const struct victim_search *asked;
    uint8_t *useful; /* by node slot: it serves, and helps; NULL: every node that serves */
    /* slots of the allocations on useful nodes, when all others are left out */
    struct bitmap there;
    struct measure nodes, gpus;
    uint32_t accepted;
    enum fsm_status refusal; /* of the last one that may not be a victim */
    uint64_t refusal_current, refusal_limit;
    bool elastic_stop;        /* an elastic job may be stopped for more than it can spare */
    bool spared;              /* some gave less than they have */
    bool storage_unavailable; /* some were left out for that alone */
    uint64_t dear_gpu_ms;     /* the cheapest set that costs too much; UINT64_MAX: none */
};

/* A reclaim is about what was lent: only borrowed nodes help it. */
static bool share_useful(const struct search *search, const struct fsm_node_share *share)
{
    CHECK(search->fsm != NULL);
    CHECK(share->node_slot < FSM_NODES_MAX);
    return (search->useful == NULL ? fsm_node_serves(search->fsm, share->node_slot)
                                   : search->useful[share->node_slot] != 0) &&
           (search->asked->reason != REASON(RECLAIM) || share->borrowed);
}

/* a scale-down that is under way gives exactly what is wanted. */
static bool victim_leaves_already(const struct search *search, const struct fsm_allocation *view)
{
    CHECK(search->fsm != NULL);
    CHECK(view->id != NULL);
    for (uint32_t i = 0; i < view->next_count; i++)
        if (share_useful(search, &view->next[i]))
            return false;
    return true;
}

/* P-005: how many of its nodes an elastic job may give back and go on; 0: it must stop. */
static uint32_t victim_spares(const struct search *search, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;

    CHECK(search->fsm != NULL);
    CHECK(allocation->view.id != NULL);
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

    CHECK(allocation->view.id != NULL);
    if (allocation->view.next_count > 0 || !search->elastic_stop)
        return spares > 0;
    if (search->asked->nodes > 0 && search->asked->gpus == 0 && search->asked->nodes < wanted)
        wanted = search->asked->nodes;
    return spares >= wanted;
}

/* The nodes of use, and of a job that shrinks no more than it spares. Returns how many; slots NULL:
 * only counted. */
static uint32_t victim_useful(const struct search *search, const struct allocation *allocation,
                              uint32_t most, uint32_t *ret_slots, uint32_t *ret_gpus)
{
    const struct fsm_allocation *view = &allocation->view;
    uint32_t count = 0;

    CHECK(search->fsm != NULL);
    CHECK(allocation->view.id != NULL);
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

/* A job that this preemption took before is not taken again: it gives already, or could not let
 * go. */
static bool was_tried(const struct search *search, const struct allocation *allocation)
{
    const struct preemption *preemption = search->asked->goes_on;

    CHECK(search->fsm != NULL);
    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; preemption != NULL && i < preemption->view.victim_count; i++)
        if (strcmp(preemption->view.victims[i].allocation_id, allocation->view.id) == 0)
            return true;
    return false;
}

/* ---- who can be taken ---- */

/* The slot is last, so that the order is total and each member chooses the same set. */
static bool candidate_before(const struct candidate *a, const struct candidate *b, bool by_amount)
{
    if (by_amount && a->amount != b->amount)
        return a->amount > b->amount;
    if (a->cost != b->cost)
        return a->cost < b->cost;
    return a->allocation->view.slot < b->allocation->view.slot;
}

/* An insertion into a short list that drops its last one: at most `max` of those who are alike can
 * be part of a set, so no others are needed. */
static void shelf_put(const struct search *search, struct measure *measure, size_t shelf,
                      const struct candidate *candidate)
{
    struct candidate *items = &measure->shelves[shelf * search->asked->max];
    size_t i = measure->counts[shelf];

    CHECK(search->fsm != NULL);
    if (i < search->asked->max)
        measure->counts[shelf]++;
    else if (i == 0 || !candidate_before(candidate, &items[--i], shelf == LARGEST))
        return;
    for (; i > 0 && candidate_before(candidate, &items[i - 1], shelf == LARGEST); i--)
        items[i] = items[i - 1];
    items[i] = *candidate;
    if (shelf != LARGEST && shelf >= measure->shelf_end)
        measure->shelf_end = shelf + 1;
}

/* More than is needed is as good as what is needed. */
static size_t measure_shelf(const struct measure *measure, const struct candidate *candidate)
{
    size_t shelf = fsm_min(candidate->amount, measure->need) / measure->step;

    CHECK(shelf < LARGEST);
    return shelf;
}

/* A candidate counts by nodes and by GPUs, for each need of its own. */
static void measure_put(const struct search *search, struct measure *measure,
                        struct candidate candidate)
{
    CHECK(search->fsm != NULL);
    if (measure->need == 0)
        return;
    candidate.amount = measure->by_gpus ? candidate.gpu_count : candidate.node_count;
    shelf_put(search, measure, measure_shelf(measure, &candidate), &candidate);
    if (measure->step > 1)
        shelf_put(search, measure, LARGEST, &candidate);
}

/* The last refusal is kept: for a single named candidate it is the answer. An elastic job is first
 * looked at with what it can spare; what it gives beyond needs a second round. */
static void search_add(struct search *search, const struct allocation *allocation)
{
    struct candidate candidate = {.allocation = allocation};
    uint32_t spares = victim_spares(search, allocation);
    enum fsm_status status;
    uint64_t current;
    uint64_t limit;

    CHECK(search->fsm != NULL);
    CHECK(allocation->view.id != NULL);
    search->fsm->victims_looked++;
    if (was_tried(search, allocation))
        return;
    candidate.node_count =
        victim_useful(search, allocation, UINT32_MAX, NULL, &candidate.gpu_count);
    candidate.shrinks = candidate.node_count > 0 &&
                        victim_shrinks(search, allocation, candidate.node_count, spares);
    if (candidate.shrinks && spares < candidate.node_count) {
        search->spared = true;
        candidate.node_count =
            victim_useful(search, allocation, spares, NULL, &candidate.gpu_count);
    }
    status = fsm_victim_check(search->fsm, search->asked, allocation, candidate.shrinks, &current,
                              &limit);
    if (status != FSM_OK) {
        search->refusal = status;
        search->refusal_current = current;
        search->refusal_limit = limit;
        search->storage_unavailable |= status == FSM_STORAGE_UNAVAILABLE;
        return;
    }
    if (candidate.node_count == 0)
        return;
    candidate.cost = fsm_victim_cost(search->fsm, allocation, candidate.shrinks);
    search->accepted++;
    measure_put(search, &search->nodes, candidate);
    measure_put(search, &search->gpus, candidate);
}

/* Most of the time is waiting for memory: what comes next is asked for meanwhile. */
static void search_look_ahead(const struct search *search, uint32_t slot)
{
    const struct allocation *near = allocation_find_slot(search->fsm, slot + LOOK_AHEAD / 2);
    const struct allocation *far = allocation_find_slot(search->fsm, slot + LOOK_AHEAD);

    CHECK(search->fsm != NULL);
    if (near != NULL)
        fsm_prefetch(near->view.nodes);
    for (size_t at = 0; far != NULL && at < sizeof(far->view); at += LINE_BYTES)
        fsm_prefetch((const char *)&far->view + at);
}

/* Those of one class: of the named ones, of those on the nodes of use, or of all. */
static void search_add_class(struct search *search, uint32_t class)
{
    const struct bitmap *running = &search->fsm->running_by_class[class];
    const struct bitmap *slots = search->there.words != NULL ? &search->there : running;
    bool named = search->asked->request->n_candidates > 0;

    CHECK(search->fsm != NULL);
    for (uint32_t slot = fsm_bitmap_next(slots, 0); slot != UINT32_MAX;
         slot = fsm_bitmap_next(slots, slot + 1)) {
        const struct allocation *allocation = allocation_at(search->fsm, slot);

        if (named ? allocation->view.preemption_class == class
                  : slots == running || fsm_bitmap_get(running, slot))
            search_add(search, allocation);
        search_look_ahead(search, slot);
    }
}

/* A node whose home nobody said is of use when it is named, not when only a home is asked for. */
static void search_mark_useful(struct fsm *fsm, struct search *search, bool all)
{
    const Ckpt__V1__RequestPreemptionRequest *request = search->asked->request;
    const char *home = request->home_vcluster;
    uint32_t slots = fsm->nodes.slot_end;

    CHECK(search->fsm != NULL);
    if (request->n_useful_nodes == 0 && home[0] == '\0' && !all)
        return;
    search->useful = fsm_arena_take(&fsm->arena, slots + 1);
    memset(search->useful, 0, slots + 1);
    for (size_t i = 0; i < request->n_useful_nodes; i++) {
        const struct node *node = node_find(fsm, request->useful_nodes[i]);

        if (node != NULL && (home[0] == '\0' || node->view.home_vcluster[0] == '\0' ||
                             strcmp(node->view.home_vcluster, home) == 0))
            search->useful[node->view.slot] = fsm_node_serves(fsm, node->view.slot);
    }
    for (uint32_t slot = 0; slot < slots && request->n_useful_nodes == 0; slot++) {
        const struct node *node = node_find_slot(fsm, slot);

        search->useful[slot] = node != NULL && fsm_node_serves(fsm, slot) &&
                               (home[0] == '\0' || strcmp(node->view.home_vcluster, home) == 0);
    }
}

/* Named candidates are looked at in the order of their slots, as all others are. */
static void search_mark_named(struct search *search)
{
    const Ckpt__V1__RequestPreemptionRequest *request = search->asked->request;

    CHECK(search->fsm != NULL);
    for (size_t i = 0; i < request->n_candidates; i++) {
        const struct allocation *allocation = allocation_find(search->fsm, request->candidates[i]);

        if (allocation == NULL)
            search->refusal = FSM_ALLOCATION_NOT_FOUND;
        else
            fsm_bitmap_set(&search->there, allocation->view.slot);
    }
}

/* All that hold the node, of whatever class: search_add_class() sorts them out. */
static void search_mark_on(struct search *search, const struct node *node)
{
    const struct list *item = &node->assignments;

    CHECK(search->fsm != NULL);
    CHECK(node->view.id != NULL);
    while ((item = item->next) != &node->assignments)
        fsm_bitmap_set(&search->there,
                       LIST_ITEM(item, struct assignment, in_node)->allocation->view.slot);
}

/* On few nodes of use: who was not there would only cost time. Marking them has its cost too, so
 * the bound is a quarter of all jobs. */
static bool search_few(const struct search *search)
{
    uint64_t parts = 0;

    CHECK(search->fsm != NULL);
    for (uint32_t slot = 0; slot < search->fsm->nodes.slot_end; slot++)
        if (search->useful[slot] != 0)
            parts += node_at(search->fsm, slot)->view.allocation_count;
    return parts <= search->fsm->allocations.used / 4;
}

/* Who is looked at, when not all are. */
static void search_mark_there(struct fsm *fsm, struct search *search)
{
    bool named = search->asked->request->n_candidates > 0;
    uint32_t words = fsm->allocations.slot_end / 64 + 1;

    CHECK(search->fsm != NULL);
    if (!named && !search_few(search))
        return;
    search->there.words = fsm_arena_take(&fsm->arena, words * sizeof(*search->there.words));
    search->there.word_count = words;
    memset(search->there.words, 0, words * sizeof(*search->there.words));
    if (named)
        search_mark_named(search);
    for (uint32_t slot = 0; !named && slot < fsm->nodes.slot_end; slot++)
        if (search->useful[slot] != 0)
            search_mark_on(search, node_at(fsm, slot));
}

/* ---- the set ---- */

/* Memory for the most that can be kept, whatever the number of jobs. */
static void measure_begin(struct fsm *fsm, const struct search *search, struct measure *measure)
{
    const Ckpt__V1__RequestPreemptionRequest *request = search->asked->request;
    uint64_t most = request->n_candidates > 0 ? request->n_candidates : fsm->allocations.used;

    CHECK(search->fsm != NULL);
    measure->need = measure->by_gpus ? search->asked->gpus : search->asked->nodes;
    measure->step = measure->by_gpus ? (measure->need + FSM_NODES_PER_ALLOCATION_MAX - 1) /
                                           FSM_NODES_PER_ALLOCATION_MAX
                                     : 1;
    measure->count = 0;
    if (measure->need == 0)
        return;
    most = fsm_min(most, (uint64_t)SHELVES * search->asked->max * (FSM_CLASS_MAX + 1)) + 1;
    measure->items = fsm_arena_take(&fsm->arena, most * sizeof(*measure->items));
    measure->by_size = fsm_arena_take(&fsm->arena, most * sizeof(*measure->by_size));
    measure->shelves =
        fsm_arena_take(&fsm->arena, SHELVES * (search->asked->max + 1) * sizeof(*measure->shelves));
    measure->counts = fsm_arena_take(&fsm->arena, SHELVES);
    memset(measure->counts, 0, SHELVES);
    measure->shelf_end = 0;
}

/* One of the largest may stand where its amount belongs as well. */
static bool measure_has(const struct search *search, const struct measure *measure,
                        const struct candidate *candidate)
{
    size_t shelf = measure_shelf(measure, candidate);

    CHECK(search->fsm != NULL);
    for (size_t i = 0; i < measure->counts[shelf]; i++)
        if (measure->shelves[shelf * search->asked->max + i].allocation == candidate->allocation)
            return true;
    return false;
}

/* Clears the shelves; false: there is nobody new. */
static bool measure_gather(const struct search *search, struct measure *measure)
{
    const struct candidate *largest = &measure->shelves[LARGEST * search->asked->max];
    size_t before = measure->count;

    CHECK(search->fsm != NULL);
    for (size_t i = 0; i < measure->counts[LARGEST]; i++)
        if (!measure_has(search, measure, &largest[i]))
            measure->items[measure->count++] = largest[i];
    for (size_t shelf = measure->shelf_end; shelf-- > 0;)
        for (size_t i = 0; i < measure->counts[shelf]; i++)
            measure->items[measure->count++] = measure->shelves[shelf * search->asked->max + i];
    memset(measure->counts, 0, measure->shelf_end);
    measure->counts[LARGEST] = 0;
    measure->shelf_end = 0;
    return measure->count > before;
}

/* Sorts the items by cost and slot, and says who is large. */
static void measure_sort(struct fsm *fsm, struct measure *measure)
{
    size_t count = measure->count;
    struct sort_item *order = fsm_arena_take(&fsm->arena, (count + 1) * sizeof(*order));
    struct candidate *sorted = fsm_arena_take(&fsm->arena, (count + 1) * sizeof(*sorted));

    for (size_t i = 0; i < count; i++)
        order[i] = (struct sort_item){UINT64_MAX - measure->items[i].cost,
                                      measure->items[i].allocation->view.slot, &measure->items[i]};
    fsm_sort(order, count);
    for (size_t i = 0; i < count; i++)
        sorted[i] = *(const struct candidate *)order[i].item;
    memcpy(measure->items, sorted, count * sizeof(*sorted));
    for (size_t i = 0; i < count; i++)
        order[i] = (struct sort_item){measure->items[i].amount, i, &measure->items[i]};
    fsm_sort(order, count);
    for (size_t i = 0; i < count; i++)
        measure->by_size[i] = (uint32_t)order[i].low;
}

/* Amount of the `count` largest that are not chosen, leaving out one. What is asked with it: could
 * the others still cover the need? */
static uint64_t measure_largest(const struct measure *measure, size_t count, size_t without)
{
    uint64_t amount = 0;

    for (size_t i = 0; i < measure->count && count > 0; i++) {
        size_t at = measure->by_size[i];

        if (at == without || measure->items[at].chosen)
            continue;
        amount += measure->items[at].amount;
        count--;
    }
    return amount;
}

static void measure_choose_none(struct measure *measure)
{
    for (size_t i = 0; i < measure->count; i++)
        measure->items[i].chosen = false;
}

/* The cheapest set of exactly `size` that covers the need, greedily: each time the cheapest that
 * still lets the largest of the others cover the rest (P-015). It may be dearer than the best set;
 * finding that would take time that grows as a power of the size. */
static bool measure_choose_size(struct measure *measure, size_t size)
{
    uint64_t need = measure->need;

    measure_choose_none(measure);
    if (measure_largest(measure, size, SIZE_MAX) < need)
        return false;
    for (size_t left = size; left > 0 && need > 0; left--) {
        size_t i = 0;

        for (; i < measure->count; i++) {
            const struct candidate *candidate = &measure->items[i];

            if (!candidate->chosen &&
                candidate->amount + measure_largest(measure, left - 1, i) >= need)
                break;
        }
        CHECK(i < measure->count);
        measure->items[i].chosen = true;
        need -= fsm_min(need, measure->items[i].amount);
    }
    return true;
}

/* Takes what is chosen over; false: it does not cover both needs, or costs too much (P-050). */
static bool search_take(struct search *search, const struct measure *measure,
                        struct victim_set *ret_set)
{
    const struct victim_search *asked = search->asked;
    uint64_t nodes = 0;
    uint64_t gpus = 0;

    CHECK(search->fsm != NULL);
    ret_set->count = 0;
    ret_set->cost_gpu_ms = 0;
    for (size_t i = 0; i < measure->count; i++) {
        const struct candidate *candidate = &measure->items[i];

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

/* The smallest set first (P-050). A size is tried only while it can cover the need. */
static bool measure_choose(struct fsm *fsm, struct search *search, struct measure *measure,
                           struct victim_set *ret_set)
{
    CHECK(search->fsm != NULL);
    if (measure->need == 0 || !measure_gather(search, measure))
        return false;
    measure_sort(fsm, measure);
    for (size_t size = 1; size <= search->asked->max; size++)
        if (measure_choose_size(measure, size) && search_take(search, measure, ret_set))
            return true;
    return false;
}

/* The most telling one: why the only candidate cannot, that all sets are too dear, that storage is
 * away, or how much could be freed at most. */
static enum fsm_status search_refusal(struct search *search, struct fsm_outcome *outcome)
{
    struct measure *measure = search->gpus.need > 0 ? &search->gpus : &search->nodes;

    CHECK(search->fsm != NULL);
    if (search->asked->request->n_candidates == 1 && search->accepted == 0 &&
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
    measure_choose_none(measure);
    outcome->current = measure_largest(measure, search->asked->max, SIZE_MAX);
    outcome->limit = search->asked->max;
    return search->storage_unavailable ? FSM_STORAGE_UNAVAILABLE : FSM_NO_VICTIMS;
}

/* Class by class from the lowest: a higher one is looked at only when those below do not suffice
 * (P-003). Named candidates are looked at whatever their class, so that a refusal can say what is
 * wrong. */
static bool search_run(struct fsm *fsm, struct search *search, struct victim_set *ret_set)
{
    bool named = search->asked->request->n_candidates > 0;

    CHECK(search->fsm != NULL);
    search->accepted = 0;
    measure_begin(fsm, search, &search->nodes);
    measure_begin(fsm, search, &search->gpus);
    for (uint32_t class = 0; class <= FSM_CLASS_MAX; class ++) {
        if (named || class < search->asked->acting_class)
            search_add_class(search, class);
        if (measure_choose(fsm, search, &search->nodes, ret_set) ||
            measure_choose(fsm, search, &search->gpus, ret_set))
            return true;
    }
    return false;
}

/* Elastic jobs give what they can spare first and are stopped only when that does not suffice. */
enum fsm_status fsm_victims_choose(struct fsm *fsm, const struct victim_search *asked,
                                   struct victim_set *ret_set, struct fsm_outcome *outcome)
{
    struct search search = {
        .fsm = fsm, .asked = asked, .gpus.by_gpus = true, .dear_gpu_ms = UINT64_MAX};
    bool named = asked->request->n_candidates > 0;

    CHECK(outcome != NULL);
    CHECK(asked->max <= FSM_VICTIMS_MAX);
    search_mark_useful(fsm, &search, !named);
    search_mark_there(fsm, &search);
    if (search_run(fsm, &search, ret_set))
        return FSM_OK;
    search.elastic_stop = true;
    if (search.spared && search_run(fsm, &search, ret_set))
        return FSM_OK;
    return search_refusal(&search, outcome);
}

/* Computed again when the victim is taken, by the rules of the choice, so that a set need not hold
 * node lists. */
uint32_t fsm_victim_nodes(struct fsm *fsm, const struct victim_search *asked,
                          const struct allocation *allocation, bool shrinks, uint32_t *ret_slots,
                          uint32_t *ret_gpus)
{
    struct search search = {.fsm = fsm, .asked = asked};
    uint32_t most = UINT32_MAX;

    CHECK(asked != NULL);
    CHECK(allocation->view.id != NULL);
    search_mark_useful(fsm, &search, false);
    if (shrinks)
        most = victim_spares(&search, allocation);
    return victim_useful(&search, allocation, most, ret_slots, ret_gpus);
}
