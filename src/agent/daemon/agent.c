/* The agent as a whole. See agent.h. */
#include "src/agent/daemon/agent.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/job/allocation.h"
#include "src/agent/job/copies.h"
#include "src/agent/job/owner_orders.h"
#include "src/agent/job/pace_kept.h"
#include "src/agent/job/pretenders.h"
#include "src/agent/job/scans.h"
#include "src/base/check.h"
#include "src/base/log.h"

/* An order to terminate may come before ckpt-run attached its application again, or before it
 * attached at all. */
enum {
    TERMINATE_ATTACH_WAIT_US = 3000000,
    RECONCILE_AGAIN_US = 200000,
};

static void reconcile_fire(void *data);

void agent_init(struct agent *agent, uv_loop_t *loop, const struct clock_ops *clock,
                const struct machine_ops *machine, const char *node_id, const char *boot_id,
                struct ledger *ledger)
{
    *agent = (struct agent){.loop = loop,
                            .clock = *clock,
                            .machine = *machine,
                            .node_id = node_id,
                            .boot_id = boot_id,
                            .architecture = "",
                            .domain = "",
                            .node_probe = "",
                            .os = "",
                            .sysfs = "",
                            .app_socket = "",
                            .memory_path = "",
                            .ledger = ledger};
    agent->started_at_ms = agent->clock.wall_ms(agent->clock.context);
    agent->started_us = agent_now_us(agent);
    agent->leader_left_us = agent->started_us;
    list_init(&agent->allocations);
    list_init(&agent->pretenders);
    agent->reconcile_timer = agent->clock.timer_new(agent->clock.context, reconcile_fire, agent);
    agent->owner_orders = owner_orders_new(agent);
    agent->scans = scans_new(agent);
}

/* ---- allocations ---- */

static struct allocation *agent_first(const struct agent *agent)
{
    return list_empty(&agent->allocations)
               ? NULL
               : LIST_ITEM(agent->allocations.next, struct allocation, node);
}

static struct allocation *agent_add(struct agent *agent, const char *allocation_id,
                                    const struct ledger_entry *entry)
{
    struct allocation *allocation = allocation_new(agent, allocation_id, entry);

    list_push_back(&agent->allocations, &allocation->node);
    agent->allocation_count++;
    return allocation;
}

static bool ordered(const struct agent *agent, const char *allocation_id)
{
    for (size_t i = 0; agent->orders != NULL && i < agent->orders->n_orders; i++) {
        if (strcmp(agent->orders->orders[i]->allocation_id, allocation_id) == 0)
            return true;
    }
    return agent->orders != NULL && reconcile_part(agent->orders, allocation_id) != NULL;
}

/* Forgets the oldest that nothing refers to. Its attempts need not be remembered: ids only grow,
 * and an order that the leader no longer derives never comes again above the fence. */
static void prune(struct agent *agent, size_t keep, bool owned)
{
    struct list *at = agent->allocations.next;

    while (agent->allocation_count > keep && at != &agent->allocations) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, node);
        struct err err;
        at = at->next;
        if (allocation->entry.owned != owned || !allocation_idle(allocation) ||
            ordered(agent, allocation->entry.allocation_id))
            continue;
        if (ledger_forget(agent->ledger, allocation->entry.allocation_id, &err) != 0)
            agent_journal_failed(agent, &err);
        allocation_free(allocation);
        agent->allocation_count--;
    }
}

/* Names that a caller made up go before what belongs to somebody. */
static void agent_prune(struct agent *agent, size_t keep)
{
    prune(agent, keep, false);
    prune(agent, keep, true);
}

struct allocation *agent_get(struct agent *agent, const char *allocation_id)
{
    struct allocation *allocation = agent_find(agent, allocation_id);

    if (allocation != NULL)
        return allocation;
    if (agent->allocation_count >= AGENT_ALLOCATIONS_MAX) {
        agent_prune(agent, AGENT_ALLOCATIONS_MAX - 1);
        if (agent->allocation_count >= AGENT_ALLOCATIONS_MAX) {
            log_error("allocations_full", "allocation=%s limit=%d", allocation_id,
                      AGENT_ALLOCATIONS_MAX);
            return NULL;
        }
    }
    return agent_add(agent, allocation_id, NULL);
}

void agent_resume(struct agent *agent)
{
    const struct ledger_entry *entry = NULL;

    while ((entry = ledger_next(agent->ledger, entry)) != NULL)
        agent_add(agent, entry->allocation_id, entry);
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, node);
        if (allocation->entry.pid != 0 ||
            allocation->entry.start_granted) /* how it ended may be written there */
            (void)user_path_ready(&allocation->folder, allocation->entry.work_dir,
                                  allocation->entry.uid);
        process_post(allocation, PROCESS_RESUMED);
        if (allocation->entry.phase != PHASE_NONE)
            attempt_post(allocation, ATTEMPT_RESUME, NULL);
        walltime_post(allocation, WALLTIME_WANTED, &(struct walltime_word){0});
        pace_resume(allocation);
        copies_resume(allocation);
    }
    copies_watch_start(agent);
    log_info("resumed", "allocations=%zu reports_pending=%zu", agent->allocation_count,
             ledger_pending_count(agent->ledger));
}

void agent_close(struct agent *agent)
{
    copies_watch_stop(agent);
    while (!list_empty(&agent->allocations))
        allocation_free(agent_first(agent));
    pretenders_free(agent);
    owner_orders_free(agent->owner_orders);
    scans_free(agent->scans);
    agent->clock.timer_free(agent->reconcile_timer);
    if (agent->orders != NULL)
        ckpt__v1__order_set__free_unpacked(agent->orders, NULL);
    agent->orders = NULL;
}

/* ---- orders ---- */

/* Also what the set does not name. */
static void take_parts(struct agent *agent)
{
    for (size_t i = 0; i < agent->orders->n_parts; i++) {
        if (id_valid(agent->orders->parts[i]->allocation_id))
            (void)agent_get(agent, agent->orders->parts[i]->allocation_id);
    }
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next)
        allocation_take_orders(LIST_ITEM(at, struct allocation, node));
}

/* Streams that wait for an order to go away look again. */
static void poll_streams(struct agent *agent)
{
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, node);
        if (allocation->stream != NULL)
            agent->callers->poll(allocation->stream);
    }
}

void agent_take_orders(struct agent *agent, Ckpt__V1__OrderSet *take_orders)
{
    if (agent->orders != NULL)
        ckpt__v1__order_set__free_unpacked(agent->orders, NULL);
    else /* 0: it names no run, and may be of any */
        agent->first_runs_until =
            take_orders->runs_until != 0 ? take_orders->runs_until : UINT64_MAX;
    agent->orders = take_orders;
    agent->orders_taken_us = agent_now_us(agent);
    agent->counters.order_sets++;
    take_parts(agent);
    pretenders_take_orders(agent);
    copies_take_orders(agent);
    agent_reconcile_soon(agent);
    owner_orders_look(agent->owner_orders);
    scans_look(agent->scans);
    poll_streams(agent);
    agent_prune(agent, AGENT_ALLOCATIONS_KEPT);
}

static void stop_by_order(const struct agent *agent, struct allocation *allocation,
                          struct process_stop_ask ask)
{
    ask.cause = STOP_BY_ORDER;
    ask.epoch = agent->orders->epoch;
    process_stop(allocation, &ask);
}

static void carry_out(struct agent *agent, const struct step *step)
{
    struct allocation *allocation = agent_get(agent, step->allocation_id);

    if (allocation == NULL)
        return;
    switch (step->kind) {
    case STEP_START:
        attempt_post(allocation, ATTEMPT_START, step->order);
        return;
    case STEP_CANCEL:
        attempt_post(allocation, ATTEMPT_CANCEL, NULL);
        return;
    case STEP_EXTEND:
        attempt_post(allocation, ATTEMPT_EXTEND, step->order);
        return;
    case STEP_AFTER:
        attempt_post(allocation, ATTEMPT_AFTER, step->order);
        agent_reconcile_soon(agent); /* what else has changed of it */
        return;
    case STEP_BARRIER:
        attempt_post(allocation, ATTEMPT_BARRIER, step->order);
        return;
    case STEP_HURRY:
        attempt_post(allocation, ATTEMPT_HURRY, step->order);
        return;
    case STEP_TERMINATE:
        if (allocation->process.state == PROCESS_ABSENT &&
            pretenders_terminate(agent, step->order)) {
            agent->clock.timer_start(agent->reconcile_timer, RECONCILE_AGAIN_US);
            return;
        }
        stop_by_order(agent, allocation,
                      (struct process_stop_ask){.reason = step->order->reason,
                                                .grace_ms = step->order->grace_ms,
                                                .run = step->order->run});
        return;
    case STEP_END: /* its allocation has ended, or goes on elsewhere or in another run */
        stop_by_order(agent, allocation,
                      (struct process_stop_ask){.reason = CKPT__V1__REASON__REASON_ALLOCATION_ENDED,
                                                .grace_ms = process_grace_ms(&allocation->entry),
                                                .run = allocation->entry.run});
        return;
    case STEP_LATER:
        agent->clock.timer_start(agent->reconcile_timer, RECONCILE_AGAIN_US);
        return;
    case STEP_IGNORE:
        return;
    }
}

static void reconcile_fire(void *data)
{
    struct agent *agent = data;
    bool early = agent_now_us(agent) - agent->started_us < TERMINATE_ATTACH_WAIT_US;
    /* whatever began later began before its eyes */
    uint64_t early_until = early ? agent->first_runs_until : 0;
    size_t hand_count = agent->allocation_count;
    struct hand *hands;
    struct step *steps;
    size_t count = 0;

    if (agent->orders == NULL)
        return;
    hands = check_calloc(hand_count + 1, sizeof(*hands));
    steps = check_calloc(2 * (hand_count + agent->orders->n_orders) + 1, sizeof(*steps));
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next)
        allocation_hand(LIST_ITEM(at, struct allocation, node), &hands[count++]);
    CHECK(count == hand_count);
    count = reconcile(hands, hand_count, agent->orders, early_until, steps);
    for (size_t i = 0; i < count; i++) {
        if (steps[i].kind == STEP_IGNORE)
            log_warning("order_ignored", "allocation=\"%s\" text=\"%s\"", steps[i].allocation_id,
                        steps[i].why);
        else
            carry_out(agent, &steps[i]);
    }
    free(steps);
    free(hands);
}
