/* Removing folders by order. See collect.h. */
#include "src/agent/job/collect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/agent/daemon/agent.h"
#include "src/agent/job/reconcile.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/dest/worker.h"

enum { COLLECT_REPORTED_MAX = 64 }; /* a set names fewer */

/* Lives until its worker has ended, which may be after the agent. */
struct collection {
    struct collections *collections; /* NULL: nobody wants to know any more */
    char allocation_id[ID_MAX_BYTES + 1];
    uint64_t checkpoint_id;
    uint32_t attempt;
    struct worker *worker;
};

struct reported {
    uint64_t checkpoint_id;
    uint32_t attempt;
};

struct collections {
    struct agent *agent;
    struct collection *running; /* NULL: no worker */
    uint64_t hang_id;           /* of a worker that could not be killed; 0: none */
    struct reported reported[COLLECT_REPORTED_MAX];
    size_t reported_count;
};

struct collections *collections_new(struct agent *agent)
{
    struct collections *collections = check_calloc(1, sizeof(*collections));

    collections->agent = agent;
    return collections;
}

void collections_free(struct collections *collections)
{
    struct collection *running = collections->running;

    CHECK(running == NULL || running->collections == collections);
    if (running != NULL) {
        running->collections = NULL;
        collections->agent->machine.worker_cancel(running->worker);
    }
    free(collections);
}

/* ---- which ---- */

static bool is_collect(const Ckpt__V1__Order *order)
{
    return order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_COLLECT &&
           reconcile_order_wrong(order) == NULL;
}

static bool order_names(const Ckpt__V1__Order *order, const struct reported *reported)
{
    return is_collect(order) && order->checkpoint_id == reported->checkpoint_id &&
           order->attempt == reported->attempt;
}

/* What no set names any more need not be known. */
static void forget_done(struct collections *collections)
{
    const Ckpt__V1__OrderSet *set = collections->agent->orders;
    size_t kept = 0;

    CHECK(collections->reported_count <= COLLECT_REPORTED_MAX);
    for (size_t i = 0; i < collections->reported_count; i++) {
        bool named = false;

        for (size_t j = 0; j < set->n_orders && !named; j++)
            named = order_names(set->orders[j], &collections->reported[i]);
        if (named)
            collections->reported[kept++] = collections->reported[i];
    }
    collections->reported_count = kept;
}

static const Ckpt__V1__Order *next_order(const struct collections *collections)
{
    const Ckpt__V1__OrderSet *set = collections->agent->orders;

    CHECK(set != NULL);
    CHECK(collections->running == NULL);
    for (size_t i = 0; i < set->n_orders; i++) {
        bool done = !is_collect(set->orders[i]);

        for (size_t j = 0; j < collections->reported_count && !done; j++)
            done = order_names(set->orders[i], &collections->reported[j]);
        if (!done)
            return set->orders[i];
    }
    return NULL;
}

/* ---- one ---- */

static void collect_report(struct collections *collections, const struct collection *collection,
                           const struct worker_result *result)
{
    Ckpt__V1__AgentReport message = CKPT__V1__AGENT_REPORT__INIT;
    char bytes[32], detail[sizeof(result->error)], allocation_id[ID_MAX_BYTES + 1];
    bool removed = result->exit_code == WORKER_EXIT_OK;

    CHECK(collection->checkpoint_id != 0);
    CHECK(collections->reported_count < COLLECT_REPORTED_MAX);
    snprintf(allocation_id, sizeof(allocation_id), "%s", collection->allocation_id);
    snprintf(detail, sizeof(detail), "%s", removed ? "" : result->error);
    message.kind = removed ? CKPT__V1__REPORT_KIND__REPORT_KIND_COLLECTED
                           : CKPT__V1__REPORT_KIND__REPORT_KIND_COLLECT_FAILED;
    message.allocation_id = allocation_id;
    message.checkpoint_id = collection->checkpoint_id;
    message.attempt = collection->attempt;
    message.detail = detail;
    if (removed && worker_output_get(result->output, "bytes", bytes, sizeof(bytes)) == 0)
        message.size_bytes = strtoull(bytes, NULL, 10);
    collections->agent->counters.folders_removed += removed;
    collections->reported[collections->reported_count++] =
        (struct reported){collection->checkpoint_id, collection->attempt};
    agent_commit(collections->agent, NULL, &message, 0);
}

static void collect_done(void *data, const struct worker_result *result)
{
    struct collection *collection = data;
    struct collections *collections = collection->collections;

    if (collections != NULL) {
        CHECK(collections->running == collection);
        collections->running = NULL;
        if (result->unkillable)
            collections->hang_id = result->hang_id;
        collect_report(collections, collection, result);
        collections_look(collections);
    }
    free(collection);
}

static int collect_start(struct collections *collections, const Ckpt__V1__Order *order,
                         struct collection *collection, struct err *err)
{
    const struct machine_ops *machine = &collections->agent->machine;
    const char *const arguments[] = {"collect",
                                     "--prefix",
                                     order->target_prefix,
                                     "--path",
                                     order->path,
                                     "--as",
                                     "owner",
                                     order->owner[0] == '\0' ? NULL : "--owner",
                                     order->owner,
                                     NULL};

    CHECK(is_collect(order));
    CHECK(collections->running == collection);
    return machine->worker_start(machine->context, arguments, (struct machine_user){.uid = 0},
                                 order->timeout_ms, collect_done, collection, &collection->worker,
                                 err);
}

/* One that cannot be started is reported as failed, and so each is looked at once. */
void collections_look(struct collections *collections)
{
    const Ckpt__V1__Order *order;
    struct err err = {0};

    CHECK(collections->agent->collections == collections);
    CHECK(collections->reported_count <= COLLECT_REPORTED_MAX);
    if (collections->agent->orders == NULL)
        return;
    forget_done(collections);
    while (collections->running == NULL && !worker_hangs(collections->hang_id) &&
           collections->reported_count < COLLECT_REPORTED_MAX &&
           (order = next_order(collections)) != NULL) {
        struct collection *collection = check_calloc(1, sizeof(*collection));
        struct worker_result failed = {.exit_code = -1, .output = ""};

        collection->collections = collections;
        collection->checkpoint_id = order->checkpoint_id;
        collection->attempt = order->attempt;
        snprintf(collection->allocation_id, sizeof(collection->allocation_id), "%s",
                 order->allocation_id);
        collections->running = collection;
        if (collect_start(collections, order, collection, &err) == 0)
            return;
        collections->running = NULL;
        snprintf(failed.error, sizeof(failed.error), "%s", err.text);
        collect_report(collections, collection, &failed);
        free(collection);
    }
}
