/* How long a preemption may wait before it does something about a victim that has not let go: L4.
 *
 * Flow     whenever its deadline is another one than before the entry, it is no later than the
 *          victim needs that is done first: one and a half timeouts, what may be put off, the
 *          grace, and what a silent node gets.
 * Shapes   those that wait, WAITING_MAX at most.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "fsm/limits.h"
#include "src/base/check.h"
#include "tests/sim/world_internal.h"

#define PREEMPTION(name) CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_##name
#define VICTIM(name)     CKPT__V1__VICTIM_STATE__VICTIM_STATE_##name

enum { WAITING_MAX = 256 };

/* Of the policy: what it was before the entry, which has many commands, or is now. */
struct patience {
    uint64_t timeout_ms, sensitive_timeout_ms, deferral_ms, grace_ms;
};

struct preemption_checks {
    struct {
        uint64_t id, deadline_ms;
    } waiting[WAITING_MAX];
    unsigned count;
    struct patience before;
};

void preemptions_init(struct world *world)
{
    world->preemptions = check_calloc(1, sizeof(*world->preemptions));
}

void preemptions_close(struct world *world)
{
    free(world->preemptions);
}

void preemptions_event(struct world *world, const Ckpt__V1__Event *event)
{
    struct preemption_checks *checks = world->preemptions;

    if (event->kind != CKPT__V1__EVENT_KIND__EVENT_KIND_PREEMPTION)
        return; /* one of a victim each */
    for (unsigned i = 0; i < checks->count; i++)
        if (checks->waiting[i].id == event->number)
            return;
    CHECK(checks->count < WAITING_MAX);
    checks->waiting[checks->count].deadline_ms = 0;
    checks->waiting[checks->count++].id = event->number;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t victim_most_ms(const struct fsm *fsm, const struct patience *patience,
                               const char *allocation_id)
{
    const struct fsm_allocation *allocation = fsm_allocation_find(fsm, allocation_id);
    const struct fsm_checkpoint *active;
    uint64_t timeout_ms, grace_ms;

    CHECK(allocation != NULL);
    active = fsm_checkpoint_find(fsm, allocation->active_checkpoint_id);
    timeout_ms = allocation->checkpoint_timeout_ms;
    if (timeout_ms == 0)
        timeout_ms = allocation->sensitive ? patience->sensitive_timeout_ms : patience->timeout_ms;
    timeout_ms = larger(timeout_ms, 2 * allocation->write_estimate_ms);
    if (active != NULL)
        timeout_ms = larger(timeout_ms, active->timeout_ms);
    grace_ms = allocation->grace_ms != 0 ? allocation->grace_ms : patience->grace_ms;
    return timeout_ms + timeout_ms / 2 + patience->deferral_ms + grace_ms + FSM_TERMINATE_SLACK_MS +
           FSM_REPORT_SLACK_MAX_MS;
}

static void deadline_check(struct world *world, const struct fsm *fsm,
                           const struct patience *patience, const struct fsm_preemption *preemption)
{
    struct fsm_summary summary;
    uint64_t most_ms = UINT64_MAX;

    fsm_get_summary(fsm, &summary);
    for (uint32_t i = 0; i < preemption->victim_count; i++) {
        const struct fsm_preemption_victim *victim = &preemption->victims[i];
        uint64_t needs_ms;

        if (victim->state != VICTIM(STOPPING) && victim->state != VICTIM(SHRINKING))
            continue;
        needs_ms = victim_most_ms(fsm, patience, victim->allocation_id);
        most_ms = needs_ms < most_ms ? needs_ms : most_ms;
    }
    if (most_ms == UINT64_MAX)
        most_ms = 0; /* what is missing is looked for at once */
    if (preemption->deadline_ms == 0 || preemption->deadline_ms > summary.now_ms + most_ms)
        world_violation(world, "L4",
                        "preemption %" PRIu64 " waits until %" PRIu64 ", now it is %" PRIu64
                        ", and a victim may take %" PRIu64 " ms",
                        preemption->id, preemption->deadline_ms, summary.now_ms, most_ms);
}

static struct patience patience_of(const Ckpt__V1__Policy *policy)
{
    return (struct patience){policy->checkpoint_timeout_ms, policy->sensitive_timeout_ms,
                             policy->max_deferral_ms, policy->grace_ms};
}

void preemptions_applied(struct world *world, const struct fsm *fsm)
{
    struct preemption_checks *checks = world->preemptions;
    struct patience now = patience_of(fsm_policy(fsm)), most = checks->before;

    most.timeout_ms = larger(most.timeout_ms, now.timeout_ms);
    most.sensitive_timeout_ms = larger(most.sensitive_timeout_ms, now.sensitive_timeout_ms);
    most.deferral_ms = larger(most.deferral_ms, now.deferral_ms);
    most.grace_ms = larger(most.grace_ms, now.grace_ms);
    checks->before = now;
    for (unsigned i = 0; i < checks->count;) {
        const struct fsm_preemption *preemption =
            fsm_preemption_next(fsm, checks->waiting[i].id - 1);

        if (preemption == NULL || preemption->id != checks->waiting[i].id ||
            preemption->state != PREEMPTION(WAITING)) {
            checks->waiting[i] = checks->waiting[--checks->count];
            continue;
        }
        if (preemption->deadline_ms != checks->waiting[i].deadline_ms)
            deadline_check(world, fsm, &most, preemption);
        checks->waiting[i++].deadline_ms = preemption->deadline_ms;
    }
}
