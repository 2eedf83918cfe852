/* The agent as a whole. See agent.h. */
#include "src/agent/daemon/agent.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/app/app_server.h"
#include "src/agent/daemon/session.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/walltime.h"
#include "src/base/check.h"
#include "src/base/log.h"

/* An order to terminate may come before ckpt-run attached its application again, or before it
 * attached at all. */
enum { TERMINATE_ATTACH_WAIT_US = 3000000, RECONCILE_AGAIN_US = 200000, REPORT_DETAIL_BYTES = 201 };

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
                            .sysfs = "",
                            .ledger = ledger};
    agent->started_at_ms = agent->clock.wall_ms(agent->clock.context);
    agent->started_us = agent_now_us(agent);
    list_init(&agent->allocations);
    agent->reconcile_timer = agent->clock.timer_new(agent->clock.context, reconcile_fire, agent);
}

uint64_t agent_now_us(const struct agent *agent)
{
    return agent->clock.monotonic_us(agent->clock.context);
}

/* ---- allocations ---- */

static struct allocation *agent_first(const struct agent *agent)
{
    return list_empty(&agent->allocations)
               ? NULL
               : LIST_ITEM(agent->allocations.next, struct allocation, node);
}

struct allocation *agent_find(const struct agent *agent, const char *allocation_id)
{
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, node);
        if (strcmp(allocation->entry.allocation_id, allocation_id) == 0)
            return allocation;
    }
    return NULL;
}

static struct allocation *agent_add(struct agent *agent, const char *allocation_id,
                                    const struct ledger_entry *entry)
{
    struct allocation *allocation = allocation_new(agent, allocation_id, entry);

    list_push_back(&agent->allocations, &allocation->node);
    agent->allocation_count++;
    return allocation;
}

void agent_journal_failed(struct agent *agent, const struct err *err)
{
    log_error("journal_failed", "text=\"%s\" next=\"free or repair the disk; applications run on\"",
              err->text);
    agent->machine.fail(agent->machine.context);
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
            (void)user_path_ready(&allocation->folder, allocation->entry.work_dir);
        process_resume(allocation);
        if (allocation->entry.phase != PHASE_NONE)
            attempt_resume(allocation);
        walltime_start(allocation);
    }
    log_info("resumed", "allocations=%zu reports_pending=%zu", agent->allocation_count,
             ledger_pending_count(agent->ledger));
}

void agent_close(struct agent *agent)
{
    while (!list_empty(&agent->allocations))
        allocation_free(agent_first(agent));
    agent->clock.timer_free(agent->reconcile_timer);
    if (agent->orders != NULL)
        ckpt__v1__order_set__free_unpacked(agent->orders, NULL);
    agent->orders = NULL;
}

/* ---- reports ---- */

/* Protocol texts are UTF-8 of at most 200 bytes; what a process or a worker calls itself need not
 * be. */
static void text_tame(const char *text, char tame[REPORT_DETAIL_BYTES])
{
    size_t i = 0;

    for (; text[i] != '\0' && i < REPORT_DETAIL_BYTES - 1; i++)
        tame[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    tame[i] = '\0';
}

static void report_finish(struct agent *agent, Ckpt__V1__AgentReport *report)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], life[CHECKPOINT_ID_TEXT_BYTES];

    report->at_ms = agent->clock.wall_ms(agent->clock.context);
    report->sequence = ledger_last_sequence(agent->ledger) + 1;
    log_info(
        "report",
        "sequence=%" PRIu64 " kind=%s allocation=%s life=%s checkpoint=%s attempt=%" PRIu32
        " reason=%d exit_status=%d detail=\"%s\"",
        report->sequence,
        protobuf_c_enum_descriptor_get_value(&ckpt__v1__report_kind__descriptor, (int)report->kind)
            ->name,
        report->allocation_id, checkpoint_id_format(report->life, life),
        checkpoint_id_format(report->checkpoint_id, id), report->attempt, (int)report->reason,
        report->exit_status, report->detail);
}

void agent_commit(struct agent *agent, const struct ledger_entry *entry,
                  Ckpt__V1__AgentReport *report, uint64_t since_us)
{
    uint8_t bytes[LEDGER_REPORT_MAX_BYTES];
    char detail[REPORT_DETAIL_BYTES];
    size_t length = 0;
    struct err err;

    if (report != NULL) {
        text_tame(report->detail, detail);
        report->detail = detail;
        report_finish(agent, report);
        CHECK(ckpt__v1__agent_report__get_packed_size(report) <= sizeof(bytes));
        length = ckpt__v1__agent_report__pack(report, bytes);
    }
    if (ledger_commit(agent->ledger, entry, report == NULL ? NULL : bytes, length, since_us,
                      &err) != 0)
        agent_journal_failed(agent, &err);
    if (report != NULL && agent->session != NULL)
        session_send_reports(agent->session);
}

/* ---- orders ---- */

void agent_reconcile_soon(struct agent *agent)
{
    agent->clock.timer_start(agent->reconcile_timer, 0);
}

/* Of a life before the one here, or of the next one while an application of this one runs. */
static bool part_of_other(const struct allocation *allocation, const Ckpt__V1__AllocationPart *part)
{
    uint64_t own = allocation->entry.life;

    return reconcile_late(allocation->agent->orders, part->life, own) ||
           (allocation->process.state != PROCESS_ABSENT && own != 0 && part->life > own);
}

static struct walltime_word orders_word(const struct agent *agent, uint64_t life)
{
    return (struct walltime_word){agent->orders->epoch, agent->orders->index,
                                  agent->orders_taken_us, life};
}

static void take_part(struct allocation *allocation, const Ckpt__V1__AllocationPart *part)
{
    struct walltime_word word = orders_word(allocation->agent, part->life);

    if (!part_of_other(allocation, part))
        walltime_set(allocation, part, &word);
}

void agent_retake_part(struct allocation *allocation)
{
    const struct agent *agent = allocation->agent;
    const Ckpt__V1__AllocationPart *part =
        agent->orders == NULL ? NULL
                              : reconcile_part(agent->orders, allocation->entry.allocation_id);

    if (part != NULL)
        take_part(allocation, part);
}

static void take_parts(struct agent *agent)
{
    const struct walltime_word word = orders_word(agent, 0);

    for (size_t i = 0; i < agent->orders->n_parts; i++) {
        const Ckpt__V1__AllocationPart *part = agent->orders->parts[i];
        struct allocation *allocation = NULL;
        if (id_valid(part->allocation_id))
            allocation = agent_get(agent, part->allocation_id);
        if (allocation != NULL)
            take_part(allocation, part);
    }
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, node);
        struct ledger_entry *entry = &allocation->entry;
        if (entry->named_life == 0 || !reconcile_judges(agent->orders, entry->named_life) ||
            reconcile_part(agent->orders, entry->allocation_id) != NULL ||
            walltime_stale(entry, &word))
            continue;
        entry->named_life = 0; /* nothing of it may start here in an outage */
        allocation_commit(allocation, NULL, 0);
    }
}

/* Streams that wait for an order to go away look again. */
static void poll_streams(struct agent *agent)
{
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, node);
        if (allocation->stream != NULL)
            app_stream_poll(allocation->stream);
    }
}

void agent_take_orders(struct agent *agent, Ckpt__V1__OrderSet *take_orders)
{
    if (agent->orders != NULL)
        ckpt__v1__order_set__free_unpacked(agent->orders, NULL);
    agent->orders = take_orders;
    agent->orders_taken_us = agent_now_us(agent);
    agent->counters.order_sets++;
    take_parts(agent);
    agent_reconcile_soon(agent);
    poll_streams(agent);
    agent_prune(agent, AGENT_ALLOCATIONS_KEPT);
}

/* Nothing runs here that could be stopped. Just after the start of the agent ckpt-run may be about
 * to attach what the journal does not know. */
static bool terminate_too_early(const struct agent *agent, const struct allocation *allocation)
{
    return allocation->process.state == PROCESS_ABSENT && !allocation->entry.ended &&
           agent_now_us(agent) - agent->started_us < TERMINATE_ATTACH_WAIT_US;
}

/* Its allocation has ended, or goes on elsewhere or in another life. */
static void end_unwanted(const struct agent *agent, struct allocation *allocation)
{
    if (process_stopping(allocation) && allocation->process.cause != STOP_BY_TAKEOVER)
        return; /* by an order that stands beside it */
    process_stop(allocation,
                 &(struct process_stop_ask){.cause = STOP_BY_ORDER,
                                            .reason = CKPT__V1__REASON__REASON_ALLOCATION_ENDED,
                                            .grace_ms = process_grace_ms(&allocation->entry),
                                            .life = allocation->entry.life,
                                            .epoch = agent->orders->epoch});
}

static void carry_out(struct agent *agent, const struct step *step)
{
    struct allocation *allocation = agent_get(agent, step->allocation_id);

    if (allocation == NULL)
        return;
    switch (step->kind) {
    case STEP_START:
        attempt_start(allocation, step->order);
        return;
    case STEP_CANCEL:
        attempt_cancel(allocation);
        return;
    case STEP_EXTEND:
        attempt_extend(allocation, step->order);
        return;
    case STEP_HURRY:
        attempt_extend(allocation, step->order);
        attempt_hurry(allocation);
        return;
    case STEP_TERMINATE:
        if (terminate_too_early(agent, allocation))
            agent->clock.timer_start(agent->reconcile_timer, RECONCILE_AGAIN_US);
        else
            process_stop(allocation, &(struct process_stop_ask){.cause = STOP_BY_ORDER,
                                                                .reason = step->order->reason,
                                                                .grace_ms = step->order->grace_ms,
                                                                .life = step->order->life,
                                                                .epoch = agent->orders->epoch});
        return;
    case STEP_END:
        end_unwanted(agent, allocation);
        return;
    case STEP_IGNORE:
        return;
    }
}

static void reconcile_fire(void *data)
{
    struct agent *agent = data;
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
    count = reconcile(hands, hand_count, agent->orders, steps);
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
