/* Which kept rows a new cycle finds out of date. See evaluator_keep.h. A row depends on four kinds
 * of things: what is the same for all (same_for_all), what is the same for its group or its target
 * (compare_groups), its nodes (compare_nodes), and its own allocation (the state's list of
 * changes). The first difference makes every row stale, the others those that it concerns. */
#include "src/broker/decide/evaluator_keep.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/health/node_health.h"

enum {
    WORD_BITS = EVALUATOR_WORD_ROWS,
    EVALUATOR_WORDS_AHEAD = 16,
    ALLOCATIONS_PER_NODE_TOLD_MAX = 1024
};

void evaluator_keep_init(struct evaluator_keep *keep)
{
    memset(keep, 0, sizeof(*keep));
}

void evaluator_keep_close(struct evaluator_keep *keep)
{
    evaluator_cycle_end(&keep->cycle);
    evaluator_cycle_end(&keep->before);
    free(keep->changed);
}

/* Rates that were held are forgotten too: another leader may have learned others meanwhile. */
void evaluator_keep_forget(struct evaluator_keep *keep)
{
    evaluator_cycle_end(&keep->cycle);
    evaluator_cycle_end(&keep->before);
    keep->has_before = false;
    keep->rates_held = false;
}

/* ---- what is the same for many rows ---- */

/* Bit for bit: equal numbers with other bits would give another digest of the same decision. */
static bool same_doubles(const double *a, const double *b, size_t count)
{
    return count == 0 || memcmp(a, b, count * sizeof(*a)) == 0;
}

/* Without a recall the lead of alarms is part of no row. */
static bool same_health(const struct evaluator_cycle *a, const struct evaluator_cycle *b)
{
    return a->recall == b->recall && (a->recall == 0 || a->alarm_lead_s == b->alarm_lead_s);
}

/* A queue that turns busy or calm moves the jobs of its vCluster to another group. */
static bool same_busy(const struct evaluator_cycle *a, const struct evaluator_cycle *b)
{
    return a->busy_count == b->busy_count &&
           memcmp(a->busy, b->busy, a->busy_count * sizeof(a->busy[0])) == 0;
}

static bool same_for_all(const struct evaluator_cycle *a, const struct evaluator_cycle *b)
{
    return a->default_write_bytes_per_s == b->default_write_bytes_per_s &&
           a->grace_ms == b->grace_ms && a->node_gpus == b->node_gpus &&
           a->timeout_ms == b->timeout_ms && a->sensitive_timeout_ms == b->sensitive_timeout_ms &&
           a->policy.stall_fraction == b->policy.stall_fraction &&
           a->policy.quiesce_s == b->policy.quiesce_s && same_health(a, b) && same_busy(a, b) &&
           same_doubles(a->rates.age_factors, b->rates.age_factors, FSM_AGE_BINS);
}

static bool same_target(const struct evaluator_target *a, const struct evaluator_target *b)
{
    return a->known == b->known && a->available == b->available &&
           a->budget_bytes_per_s == b->budget_bytes_per_s &&
           a->micro_usd_per_gb_month == b->micro_usd_per_gb_month;
}

/* The curves of all classes; a job's row holds one point of one of them. */
static bool same_gains(const struct evaluator_cycle *a, const struct evaluator_cycle *b)
{
    for (uint32_t class = 0; class <= FSM_CLASS_MAX; class ++) {
        const struct waiting_curve *x = &a->waiting[class], *y = &b->waiting[class];

        if (x->count != y->count || !same_doubles(x->gpus, y->gpus, x->count) ||
            !same_doubles(x->gain_gpu_s, y->gain_gpu_s, x->count))
            return false;
    }
    return true;
}

/* A group's rates and a target's budget are in the rows of its jobs alone. */
static void compare_groups(struct evaluator_keep *keep)
{
    const struct evaluator_cycle *a = &keep->cycle, *b = &keep->before;

    memset(keep->groups, 0, sizeof(keep->groups));
    memset(keep->targets, 0, sizeof(keep->targets));
    for (uint32_t group = 0; group < FSM_GROUPS; group++)
        keep->groups[group] = a->rates.kills_per_s[group] != b->rates.kills_per_s[group] ||
                              a->rates.demands_per_s[group] != b->rates.demands_per_s[group];
    for (uint32_t slot = 0; slot < FSM_TARGETS_MAX; slot++)
        keep->targets[slot] = !same_target(&a->targets[slot], &b->targets[slot]);
    keep->some = false;
    for (uint32_t i = 0; i <= UINT8_MAX; i++)
        keep->some |= keep->groups[i] || keep->targets[i];
}

/* ---- what changed ---- */

/* The bits of changed slots grow with the slots of the state. */
static void reach_word(struct evaluator_keep *keep, uint32_t word)
{
    uint32_t count = keep->changed_words == 0 ? 64 : keep->changed_words;

    if (word < keep->changed_words)
        return;
    while (count <= word)
        count *= 2;
    keep->changed = check_realloc(keep->changed, count, sizeof(*keep->changed));
    memset(keep->changed + keep->changed_words, 0,
           (count - keep->changed_words) * sizeof(*keep->changed));
    keep->changed_words = count;
}

/* Marks the jobs of a node whose age or health is another now. False: the node has more jobs than
 * are looked up one by one. */
static bool tell_node(struct evaluator_keep *keep, uint32_t node_slot)
{
    uint32_t slots[ALLOCATIONS_PER_NODE_TOLD_MAX];
    size_t count = fsm_allocations_on_node(keep->fsm, node_slot, slots, ARRAY_COUNT(slots));

    if (count > ARRAY_COUNT(slots))
        return false;
    for (size_t i = 0; i < count; i++) {
        reach_word(keep, slots[i] / WORD_BITS);
        keep->changed[slots[i] / WORD_BITS] |= UINT64_C(1) << slots[i] % WORD_BITS;
    }
    return true;
}

/* False: too many changed to go through what runs on each. */
static bool compare_nodes(struct evaluator_keep *keep)
{
    const struct evaluator_cycle *a = &keep->cycle, *b = &keep->before;
    uint32_t told = 0;

    for (uint32_t slot = 0; slot < a->age_factor_count; slot++) {
        if (slot < b->age_factor_count && a->node_marks[slot] == b->node_marks[slot])
            continue;
        if (++told > EVALUATOR_NODES_TOLD_MAX || !tell_node(keep, slot))
            return false;
    }
    return true;
}

/* Rates count once they differ enough (eval_fleet_hold): else each cycle would bring slightly other
 * ones, and every row would be filled each time. */
void evaluator_keep_begin(struct evaluator_keep *keep, struct fsm *fsm,
                          const struct eval_fleet_rates *rates)
{
    keep->fsm = fsm;
    keep->taken_words = 0;
    if (keep->rates_held)
        eval_fleet_hold(&keep->rates, rates);
    else
        keep->rates = *rates;
    keep->rates_held = true;
    evaluator_cycle_learned(&keep->cycle, fsm, &keep->rates);
    keep->all = !keep->has_before || !same_for_all(&keep->cycle, &keep->before);
    if (keep->all)
        return;
    memset(keep->gains, 0, sizeof(keep->gains));
    keep->moving = !same_gains(&keep->cycle, &keep->before);
    for (uint32_t group = 0; group < FSM_GROUPS; group++)
        keep->moving |= keep->cycle.rates.demands_per_s[group] > 0;
    compare_groups(keep);
    keep->all = !compare_nodes(keep);
}

void evaluator_keep_end(struct evaluator_keep *keep)
{
    evaluator_cycle_end(&keep->before);
    keep->before = keep->cycle;
    memset(&keep->cycle, 0, sizeof(keep->cycle));
    keep->has_before = true;
}

/* Asks the memory for what will be read soon: the allocations of one cycle are far more than a
 * cache holds. */
static void look_ahead(const struct evaluator_keep *keep, uint32_t word,
                       void (*look)(const struct fsm *fsm, uint32_t slot))
{
    for (uint64_t bits = keep->changed[word]; bits != 0; bits &= bits - 1)
        look(keep->fsm, word * WORD_BITS + (uint32_t)__builtin_ctzll(bits));
}

/* ---- rows ---- */

/* The allocations of what is to be filled lie far apart: they are asked of the memory while the
 * words before are looked at, their nodes one word later. */
void evaluator_keep_take(struct evaluator_keep *keep, uint32_t word)
{
    uint32_t last = word + EVALUATOR_WORDS_AHEAD;

    for (; keep->taken_words <= last; keep->taken_words++) {
        reach_word(keep, keep->taken_words);
        keep->changed[keep->taken_words] |=
            fsm_take_changed_allocations(keep->fsm, keep->taken_words);
        look_ahead(keep, keep->taken_words, fsm_prefetch_allocation);
    }
    look_ahead(keep, word + EVALUATOR_WORDS_AHEAD / 2, fsm_prefetch_allocation_nodes);
}

uint64_t evaluator_keep_changed(const struct evaluator_keep *keep, uint32_t word)
{
    return word < keep->changed_words ? keep->changed[word] : 0;
}

/* All 64 when something beside the allocations concerns some of them: which ones
 * evaluator_keep_stale() finds out. */
uint64_t evaluator_keep_bits(const struct evaluator_keep *keep, uint32_t word, double until_ms)
{
    bool any = keep->all || keep->some || keep->moving || until_ms <= (double)keep->cycle.now_ms;

    return any ? UINT64_MAX : keep->changed[word];
}

bool evaluator_keep_stale(const struct evaluator_keep *keep, const struct evaluator_block *block,
                          uint32_t row, uint32_t slot)
{
    return keep->all || (keep->changed[slot / WORD_BITS] >> slot % WORD_BITS & 1) != 0 ||
           block->until_ms[row] <= (double)keep->cycle.now_ms || keep->groups[block->group[row]] ||
           keep->targets[block->target[row]];
}

/* Many jobs have as many GPUs and yield to the same classes: the search in the curve is done once
 * for them. */
double evaluator_keep_gain(struct evaluator_keep *keep, const struct evaluator_block *block,
                           uint32_t row)
{
    uint8_t class = block->yields[row];
    double gpus = block->gpus[row];
    struct evaluator_gain *gain =
        &keep->gains[((uint32_t)gpus * (FSM_CLASS_MAX + 1) + class) % EVALUATOR_GAINS];

    if (class == EVALUATOR_YIELDS_NEVER)
        return 0;
    if (gain->gpus != gpus || gain->class != class || gpus == 0)
        *gain = (struct evaluator_gain){gpus, waiting_gain_gpu_s(&keep->cycle.waiting[class], gpus),
                                        class};
    return gain->gain_gpu_s;
}

void evaluator_keep_filled(struct evaluator_keep *keep, uint32_t slot)
{
    keep->changed[slot / WORD_BITS] &= ~(UINT64_C(1) << slot % WORD_BITS);
}
