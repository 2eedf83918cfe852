/* See owner_orders.h. One row for each kind of order, and a lane for what is at work of it. */
#include "src/agent/job/owner_orders.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/agent/daemon/agent.h"
#include "src/agent/job/reconcile.h"
#include "src/base/check.h"
#include "src/dest/worker.h"

#define ORDER(name)  CKPT__V1__ORDER_KIND__ORDER_KIND_##name
#define REPORT(name) CKPT__V1__REPORT_KIND__REPORT_KIND_##name

enum { RUNNING_MAX = 4, WORDS_MAX = 24, NUMBER_BYTES = 24, LANES = 2 };

/* The attempt is another one each time that a node is asked. */
struct named {
    uint64_t checkpoint_id;
    uint32_t attempt;
};

/* Lives until its worker has ended, which may be after the agent. */
struct task {
    struct lane *lane; /* NULL: nobody wants to know any more */
    char allocation_id[ID_MAX_BYTES + 1];
    struct named named;
    uint32_t part;
    struct worker *worker;
};

/* Of a worker, with the texts that are made for it. */
struct words {
    const char *items[WORDS_MAX];
    size_t count;
    char part[PART_NAME_BYTES], rate[NUMBER_BYTES], claim[MARK_CLAIM_BYTES];
};

struct row {
    Ckpt__V1__OrderKind kind;
    const char *verb;
    size_t running_max;
    void (*add_words)(struct words *words, const struct agent *agent, const Ckpt__V1__Order *order);
    /* What the result is told as, beside its text; counts it. */
    void (*tell)(struct agent_counters *counters, const struct worker_result *result,
                 Ckpt__V1__AgentReport *report);
};

struct lane {
    const struct row *row;
    struct agent *agent;
    struct task *running[RUNNING_MAX]; /* in the first places; NULL: no worker */
    size_t running_count;
    uint64_t hang_id; /* of a worker that could not be killed; 0: none */
    struct named reported[OWNER_ORDERS_KNOWN_MAX];
    size_t reported_count;
};

struct owner_orders {
    struct lane lanes[LANES];
};

/* ---- kinds ---- */

static void add_word(struct words *words, const char *word)
{
    CHECK(words->count + 1 < WORDS_MAX);
    words->items[words->count++] = word;
}

static void collect_words(struct words *words, const struct agent *agent,
                          const Ckpt__V1__Order *order)
{
    const char *claim = agent_claim(agent, order->cluster_mark, words->claim);

    CHECK(order->kind == ORDER(COLLECT));
    if (claim != NULL) {
        add_word(words, "--cluster");
        add_word(words, claim);
    }
    if (!order->wipe)
        return;
    add_word(words, "--wipe");
    add_word(words, "yes");
}

static void collect_tell(struct agent_counters *counters, const struct worker_result *result,
                         Ckpt__V1__AgentReport *report)
{
    char bytes[NUMBER_BYTES];

    CHECK(report->checkpoint_id != 0);
    report->kind = result->exit_code == WORKER_EXIT_OK ? REPORT(COLLECTED) : REPORT(COLLECT_FAILED);
    if (report->kind != REPORT(COLLECTED))
        return;
    if (worker_output_get(result->output, "bytes", bytes, sizeof(bytes)) == 0)
        report->size_bytes = strtoull(bytes, NULL, 10);
    counters->folders_removed++;
}

static void verify_words(struct words *words, const struct agent *agent,
                         const Ckpt__V1__Order *order)
{
    (void)agent;
    CHECK(order->kind == ORDER(VERIFY));
    snprintf(words->rate, sizeof(words->rate), "%" PRIu64, order->granted_bytes_per_s);
    add_word(words, "--part");
    add_word(words, part_name_format(order->part, words->part));
    add_word(words, "--manifest-sha256");
    add_word(words, order->manifest_sha256);
    add_word(words, "--rate");
    add_word(words, words->rate);
    add_word(words, "--read-back");
    add_word(words,
             order->read_back == CKPT__V1__READ_BACK__READ_BACK_SAMPLED ? "sampled" : "always");
}

static void verify_tell(struct agent_counters *counters, const struct worker_result *result,
                        Ckpt__V1__AgentReport *report)
{
    CHECK(report->checkpoint_id != 0);
    report->kind = REPORT(VERIFY_FAILED);
    if (result->timed_out || result->unkillable)
        return;
    if (result->exit_code == WORKER_EXIT_OK)
        report->kind = REPORT(VERIFIED);
    else if (result->exit_code == WORKER_EXIT_CORRUPT)
        report->kind = REPORT(VERIFY_DAMAGED);
    else if (result->exit_code == WORKER_EXIT_NOT_FOUND)
        report->kind = REPORT(VERIFY_MISSING);
    counters->parts_read_again += report->kind == REPORT(VERIFIED);
}

static const struct row rows[LANES] = {
    {ORDER(COLLECT), "collect", 1, collect_words, collect_tell},
    {ORDER(VERIFY), "verify", RUNNING_MAX, verify_words, verify_tell},
};

/* ---- what is at work ---- */

static void task_leave(struct lane *lane, size_t i)
{
    CHECK(i < lane->running_count);
    CHECK(lane->running[i]->lane == lane);
    lane->running[i]->lane = NULL;
    lane->running[i] = lane->running[--lane->running_count];
    lane->running[lane->running_count] = NULL;
}

static void task_end(struct lane *lane, size_t i)
{
    struct worker *worker = lane->running[i]->worker;

    CHECK(worker != NULL);
    task_leave(lane, i);
    lane->agent->machine.worker_cancel(worker);
}

struct owner_orders *owner_orders_new(struct agent *agent)
{
    struct owner_orders *orders = check_calloc(1, sizeof(*orders));

    for (size_t i = 0; i < LANES; i++)
        orders->lanes[i] = (struct lane){.row = &rows[i], .agent = agent};
    return orders;
}

void owner_orders_free(struct owner_orders *orders)
{
    for (size_t i = 0; i < LANES; i++)
        while (orders->lanes[i].running_count > 0)
            task_end(&orders->lanes[i], 0);
    free(orders);
}

/* ---- which ---- */

static bool is_of(const struct lane *lane, const Ckpt__V1__Order *order)
{
    CHECK(lane->row != NULL);
    return order->kind == lane->row->kind && reconcile_order_wrong(order) == NULL;
}

static bool order_is(const Ckpt__V1__Order *order, const struct named *named)
{
    CHECK(named->checkpoint_id != 0);
    return order->checkpoint_id == named->checkpoint_id && order->attempt == named->attempt;
}

static bool set_names(const struct lane *lane, const struct named *named)
{
    const Ckpt__V1__OrderSet *set = lane->agent->orders;

    CHECK(set != NULL);
    for (size_t i = 0; i < set->n_orders; i++)
        if (is_of(lane, set->orders[i]) && order_is(set->orders[i], named))
            return true;
    return false;
}

/* What no set names any more need not be known, nor done. */
static void forget_unnamed(struct lane *lane)
{
    size_t kept = 0;

    CHECK(lane->reported_count <= OWNER_ORDERS_KNOWN_MAX);
    for (size_t i = 0; i < lane->reported_count; i++)
        if (set_names(lane, &lane->reported[i]))
            lane->reported[kept++] = lane->reported[i];
    lane->reported_count = kept;
    for (size_t i = lane->running_count; i-- > 0;)
        if (!set_names(lane, &lane->running[i]->named))
            task_end(lane, i);
}

static bool is_known(const struct lane *lane, const Ckpt__V1__Order *order)
{
    CHECK(lane->running_count <= RUNNING_MAX);
    for (size_t i = 0; i < lane->reported_count; i++)
        if (order_is(order, &lane->reported[i]))
            return true;
    for (size_t i = 0; i < lane->running_count; i++)
        if (order_is(order, &lane->running[i]->named))
            return true;
    return false;
}

/* Each that is begun has room for its report: a set comes from outside, and may be of any length.
 */
static const Ckpt__V1__Order *next_order(const struct lane *lane)
{
    const Ckpt__V1__OrderSet *set = lane->agent->orders;

    CHECK(set != NULL);
    if (lane->running_count >= lane->row->running_max || worker_hangs(lane->hang_id) ||
        lane->reported_count + lane->running_count >= OWNER_ORDERS_KNOWN_MAX)
        return NULL;
    for (size_t i = 0; i < set->n_orders; i++)
        if (is_of(lane, set->orders[i]) && !is_known(lane, set->orders[i]))
            return set->orders[i];
    return NULL;
}

/* ---- one ---- */

static void task_report(struct lane *lane, const struct task *task,
                        const struct worker_result *result)
{
    Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;
    char detail[sizeof(result->error)], allocation_id[ID_MAX_BYTES + 1];

    CHECK(lane->reported_count < OWNER_ORDERS_KNOWN_MAX);
    CHECK(task->named.checkpoint_id != 0);
    CHECK(task->lane == lane || task->lane == NULL);
    snprintf(allocation_id, sizeof(allocation_id), "%s", task->allocation_id);
    snprintf(detail, sizeof(detail), "%s",
             result->exit_code == WORKER_EXIT_OK ? "" : result->error);
    report.allocation_id = allocation_id;
    report.checkpoint_id = task->named.checkpoint_id;
    report.attempt = task->named.attempt;
    report.part = task->part;
    report.detail = detail;
    lane->row->tell(&lane->agent->counters, result, &report);
    lane->reported[lane->reported_count++] = task->named;
    agent_commit(lane->agent, NULL, &report, 0);
}

static void lane_look(struct lane *lane);

static void task_done(void *data, const struct worker_result *result)
{
    struct task *task = data;
    struct lane *lane = task->lane;
    size_t i = 0;

    CHECK(result != NULL);
    CHECK(task->named.checkpoint_id != 0);
    if (lane != NULL) {
        while (lane->running[i] != task)
            i++;
        task_leave(lane, i);
        if (result->unkillable)
            lane->hang_id = result->hang_id;
        task_report(lane, task, result);
        lane_look(lane);
    }
    free(task);
}

static int task_start(struct lane *lane, const Ckpt__V1__Order *order, struct task *task,
                      struct err *err)
{
    const struct machine_ops *machine = &lane->agent->machine;
    struct words words = {
        .items = {lane->row->verb, "--prefix", order->target_prefix, "--path", order->path},
        .count = 5};

    CHECK(is_of(lane, order));
    lane->row->add_words(&words, lane->agent, order);
    add_word(&words, "--as");
    add_word(&words, "owner");
    if (order->owner[0] != '\0') {
        add_word(&words, "--owner");
        add_word(&words, order->owner);
    }
    return machine->worker_start(machine->context, words.items, (struct machine_user){.uid = 0},
                                 order->timeout_ms, task_done, task, &task->worker, err);
}

/* One that cannot be started is reported as failed, and so each is looked at once. */
static void lane_look(struct lane *lane)
{
    const Ckpt__V1__Order *order;
    struct err err = {0};

    CHECK(lane->agent->orders != NULL);
    while ((order = next_order(lane)) != NULL) {
        struct task *task = check_calloc(1, sizeof(*task));
        struct worker_result failed = {.exit_code = -1, .output = ""};

        *task = (struct task){
            .lane = lane, .named = {order->checkpoint_id, order->attempt}, .part = order->part};
        snprintf(task->allocation_id, sizeof(task->allocation_id), "%s", order->allocation_id);
        if (task_start(lane, order, task, &err) == 0) {
            lane->running[lane->running_count++] = task;
            continue;
        }
        snprintf(failed.error, sizeof(failed.error), "%s", err.text);
        task_report(lane, task, &failed);
        free(task);
    }
}

void owner_orders_look(struct owner_orders *orders)
{
    CHECK(orders->lanes[0].agent->owner_orders == orders);
    for (size_t i = 0; i < LANES && orders->lanes[i].agent->orders != NULL; i++) {
        forget_unnamed(&orders->lanes[i]);
        lane_look(&orders->lanes[i]);
    }
}
