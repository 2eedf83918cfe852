/* Which waiting checkpoints get bandwidth now: one pass in the order of the candidates. See
 * dispatcher_grants.h. The first that does not fit closes its target for all behind it, so that a
 * large one is not passed over for ever by small ones; those with a deadline go past. */
#include "src/broker/dispatch/dispatcher_grants.h"

#include "src/base/check.h"

enum { UNPROVEN_SHARES = 64 /* of a budget: less is too little for one that may hang */ };

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t grant_timeout_ms(uint64_t timeout_ms, uint64_t size_bytes, uint64_t bytes_per_s)
{
    uint64_t write_ms;

    CHECK(bytes_per_s > 0);
    if (size_bytes > UINT64_MAX / 2000)
        size_bytes = UINT64_MAX / 2000;
    write_ms = size_bytes * 1000 / bytes_per_s;
    return 2 * write_ms > timeout_ms ? 2 * write_ms : timeout_ms;
}

/* A rate below a quarter of the budget is not worth starting with, unless it is all that the nodes
 * can write: many writers at a crawl finish later than a few at speed. */
static uint64_t worthwhile_rate(const struct grant_candidate *candidate,
                                const struct grant_target *target)
{
    uint64_t quarter = target->budget_bytes_per_s / 4;

    return smaller_of(candidate->wanted_bytes_per_s, quarter > 0 ? quarter : 1);
}

static uint64_t what_is_left(uint64_t of, uint64_t by)
{
    return of > by ? of - by : 0;
}

/* What unproven ones may still have, of half of the budget. */
static uint64_t unproven_room(const struct grant_target *target)
{
    uint64_t half = target->budget_bytes_per_s / 2;

    return what_is_left(half > 0 ? half : 1, target->unproven_bytes_per_s);
}

/* Each of them takes half of that at most: the next one begins beside it, although it may hang
 * until its timeout. */
static uint64_t unproven_share(const struct grant_target *target)
{
    return unproven_room(target) / 2 + unproven_room(target) % 2;
}

/* A smaller share is not worth starting with: with it, it would not write within its timeout. */
static uint64_t unproven_least(const struct grant_candidate *candidate,
                               const struct grant_target *target)
{
    uint64_t least = target->budget_bytes_per_s / UNPROVEN_SHARES;
    uint64_t in_time = candidate->size_bytes / (candidate->timeout_ms / 1000 + 1);

    if (in_time > least)
        least = in_time;
    return smaller_of(worthwhile_rate(candidate, target), least > 0 ? least : 1);
}

/* Likewise, of half of the places: one of its kind may have more, but not beside others. */
static bool unproven_has_places(const struct grant_candidate *candidate,
                                const struct grant_target *target)
{
    uint32_t half = target->places / 2;

    return target->places == 0 || target->unproven_writing == 0 ||
           (uint64_t)target->unproven_writing + candidate->parts <= half;
}

/* Others of its kind hold what it could have: it waits for them, and nobody behind it does. */
static bool waits_for_unproven(const struct grant_candidate *candidate,
                               const struct grant_target *target)
{
    return candidate->unproven && !candidate->bypass &&
           (unproven_share(target) < unproven_least(candidate, target) ||
            !unproven_has_places(candidate, target));
}

/* Whoever has a deadline is asked for no place. */
static bool has_places(const struct grant_candidate *candidate, const struct grant_target *target)
{
    return candidate->bypass || target->places == 0 || target->writing == 0 ||
           (uint64_t)target->writing + candidate->parts <= target->places;
}

/* The rate to grant; 0: it does not fit. */
static uint64_t rate_for(const struct grant_candidate *candidate, const struct grant_target *target,
                         bool *ret_over_budget)
{
    uint64_t left = what_is_left(target->budget_bytes_per_s, target->granted_bytes_per_s);
    uint64_t least = worthwhile_rate(candidate, target);

    *ret_over_budget = false;
    if (!has_places(candidate, target))
        return 0;
    if (left >= least && (!target->full || candidate->bypass)) {
        if (candidate->unproven && !candidate->bypass)
            left = smaller_of(left, unproven_share(target));
        return smaller_of(candidate->wanted_bytes_per_s, left);
    }
    if (!candidate->bypass)
        return 0;
    *ret_over_budget = left < least;
    return least;
}

/* Each candidate takes from its own target only: a full target holds up no other. */
size_t grants_pack(const struct grant_candidate *candidates, size_t candidate_count,
                   struct grant_target *targets, struct grant *ret_grants)
{
    size_t count = 0;

    for (size_t i = 0; i < candidate_count; i++) {
        const struct grant_candidate *candidate = &candidates[i];
        struct grant_target *target = &targets[candidate->target];
        bool over_budget;
        uint64_t rate;

        CHECK(candidate->wanted_bytes_per_s > 0);
        CHECK(candidate->parts > 0);
        if (target->budget_bytes_per_s == 0 || waits_for_unproven(candidate, target))
            continue;
        rate = rate_for(candidate, target, &over_budget);
        if (rate == 0) {
            target->full = true;
            continue;
        }
        target->granted_bytes_per_s += rate;
        target->writing += candidate->parts;
        target->unproven_bytes_per_s += candidate->unproven ? rate : 0;
        target->unproven_writing += candidate->unproven ? candidate->parts : 0;
        ret_grants[count++] = (struct grant){
            .checkpoint_id = candidate->checkpoint_id,
            .bytes_per_s = rate,
            .timeout_ms = grant_timeout_ms(candidate->timeout_ms, candidate->size_bytes, rate),
            .bypass_budget = over_budget};
    }
    return count;
}
