/* Looking through targets by order. See scans.h. */
#include "src/agent/job/scans.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/daemon/agent.h"
#include "src/agent/job/reconcile.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/dest/mark.h"
#include "src/dest/scan.h"
#include "src/dest/worker.h"

enum { SCANS_TOLD_MAX = 64, SCANS_REST_US = 200000 };

/* Lives until its worker has ended, which may be after the agent. */
struct scan_page {
    struct scans *scans; /* NULL: nobody wants to know any more */
    struct worker *worker;
};

/* Its last page went out on that stream: with another one it may have been lost on its way, and an
 * order that is still there says that the leader waits for it. */
struct scan_told {
    char prefix[RECONCILE_PREFIX_MAX_BYTES];
    uint32_t attempt;
    uint64_t stream;
};

struct scans {
    struct agent *agent;
    struct scan_page *running; /* NULL: no worker */
    struct clock_timer *timer; /* between pages */
    uint64_t hang_id;          /* of a worker that could not be killed; 0: none */
    /* the one at work; attempt 0: none */
    char prefix[RECONCILE_PREFIX_MAX_BYTES];
    uint32_t attempt, page;
    uint64_t stream; /* on which its pages went; counted by the agent */
    char after[SCAN_PATH_BYTES];
    struct scan_told told[SCANS_TOLD_MAX];
    size_t told_count;
};

static void scans_next(void *data);

struct scans *scans_new(struct agent *agent)
{
    struct scans *scans = check_calloc(1, sizeof(*scans));

    scans->agent = agent;
    scans->timer = agent->clock.timer_new(agent->clock.context, scans_next, scans);
    return scans;
}

void scans_free(struct scans *scans)
{
    if (scans == NULL)
        return;
    CHECK(scans->agent->scans == scans);
    if (scans->running != NULL) {
        scans->running->scans = NULL;
        scans->agent->machine.worker_cancel(scans->running->worker);
    }
    scans->agent->clock.timer_free(scans->timer);
    free(scans);
}

/* ---- which ---- */

static bool is_scan(const Ckpt__V1__Order *order)
{
    CHECK(order != NULL);
    return order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_SCAN &&
           reconcile_order_wrong(order) == NULL;
}

static const Ckpt__V1__Order *order_named(const struct scans *scans, const char *prefix,
                                          uint32_t attempt)
{
    const Ckpt__V1__OrderSet *set = scans->agent->orders;

    CHECK(attempt != 0);
    for (size_t i = 0; set != NULL && i < set->n_orders; i++)
        if (is_scan(set->orders[i]) && set->orders[i]->attempt == attempt &&
            strcmp(set->orders[i]->target_prefix, prefix) == 0)
            return set->orders[i];
    return NULL;
}

/* What no set names any more need not be known, nor what went out on a stream that has ended. */
static void forget_told(struct scans *scans)
{
    size_t kept = 0;

    CHECK(scans->told_count <= SCANS_TOLD_MAX);
    for (size_t i = 0; i < scans->told_count; i++)
        if (scans->told[i].stream == scans->agent->counters.sessions_opened &&
            order_named(scans, scans->told[i].prefix, scans->told[i].attempt) != NULL)
            scans->told[kept++] = scans->told[i];
    scans->told_count = kept;
}

static bool was_told(const struct scans *scans, const Ckpt__V1__Order *order)
{
    CHECK(is_scan(order));
    for (size_t i = 0; i < scans->told_count; i++)
        if (scans->told[i].attempt == order->attempt &&
            strcmp(scans->told[i].prefix, order->target_prefix) == 0)
            return true;
    return false;
}

static const Ckpt__V1__Order *next_order(const struct scans *scans)
{
    const Ckpt__V1__OrderSet *set = scans->agent->orders;

    CHECK(scans->told_count <= SCANS_TOLD_MAX);
    for (size_t i = 0; set != NULL && i < set->n_orders; i++)
        if (is_scan(set->orders[i]) && !was_told(scans, set->orders[i]))
            return set->orders[i];
    return NULL;
}

/* ---- one page ---- */

static void scan_begin(struct scans *scans, const Ckpt__V1__Order *order)
{
    CHECK(is_scan(order));
    CHECK(scans->running == NULL);
    text_copy(scans->prefix, sizeof(scans->prefix), order->target_prefix);
    scans->attempt = order->attempt;
    scans->page = 0;
    scans->after[0] = '\0';
    scans->stream = scans->agent->counters.sessions_opened;
}

/* True: it is with the leader, as far as a stream tells. */
static bool scan_tell(struct scans *scans, const struct worker_result *result)
{
    Ckpt__V1__ScanPage page = CKPT__V1__SCAN_PAGE__INIT;
    char after[SCAN_PATH_BYTES], error[sizeof(result->error)];
    bool failed = result->exit_code != WORKER_EXIT_OK;
    bool more = !failed && worker_output_get(result->output, "next", after, sizeof(after)) == 0;

    CHECK(scans->attempt != 0);
    snprintf(error, sizeof(error), "%s", failed ? result->error : "");
    page.target_prefix = scans->prefix;
    page.attempt = scans->attempt;
    page.page = scans->page + 1;
    page.output = text_message(failed ? "" : result->output);
    page.last = !more;
    page.error = error;
    if (scans->agent->send_page == NULL || !scans->agent->send_page(scans->agent->session, &page))
        return false;
    scans->page++;
    if (more) {
        memcpy(scans->after, after, strlen(after) + 1);
        return true;
    }
    if (scans->told_count < SCANS_TOLD_MAX) {
        struct scan_told *told = &scans->told[scans->told_count++];

        memcpy(told->prefix, scans->prefix, sizeof(told->prefix));
        told->attempt = scans->attempt;
        told->stream = scans->stream;
    }
    log_info("scanned", "prefix=%s pages=%u error=\"%s\"", scans->prefix, scans->page, error);
    scans->attempt = 0;
    return true;
}

static void page_done(void *data, const struct worker_result *result)
{
    struct scan_page *page = data;
    struct scans *scans = page->scans;

    if (scans != NULL)
        CHECK(scans->running == page);
    free(page);
    if (scans == NULL)
        return;
    scans->running = NULL;
    if (result->unkillable)
        scans->hang_id = result->hang_id;
    if (scans->attempt != 0 && scans->stream == scans->agent->counters.sessions_opened)
        (void)scan_tell(scans, result); /* else the page is read again */
    scans->agent->clock.timer_start(scans->timer, SCANS_REST_US);
}

static int page_start(struct scans *scans, const Ckpt__V1__Order *order, struct err *err)
{
    const struct machine_ops *machine = &scans->agent->machine;
    struct scan_page *page = check_calloc(1, sizeof(*page));
    char mark[MARK_BYTES], age[24];
    const char *const arguments[] = {"scan",
                                     "--prefix",
                                     scans->prefix,
                                     "--cluster",
                                     mark_format(order->cluster_mark, mark),
                                     "--min-age",
                                     age,
                                     scans->after[0] == '\0' ? NULL : "--after",
                                     scans->after,
                                     NULL};

    CHECK(scans->running == NULL);
    CHECK(scans->attempt == order->attempt);
    CHECK(order->cluster_mark != 0);
    snprintf(age, sizeof(age), "%" PRIu64, order->min_age_ms / 1000);
    page->scans = scans;
    scans->running = page;
    if (machine->worker_start(machine->context, arguments, (struct machine_user){.uid = 0},
                              order->timeout_ms, page_done, page, &page->worker, err) == 0)
        return 0;
    scans->running = NULL;
    free(page);
    return -1;
}

/* The next page of the one at work, or the first one of another. */
static void scans_next(void *data)
{
    struct scans *scans = data;
    const Ckpt__V1__Order *order;
    struct worker_result failed = {.exit_code = -1, .output = ""};
    struct err err = {0};

    CHECK(scans->agent->scans == scans);
    if (scans->running != NULL || worker_hangs(scans->hang_id))
        return;
    forget_told(scans);
    order = scans->attempt == 0 ? NULL : order_named(scans, scans->prefix, scans->attempt);
    if (order == NULL || scans->stream != scans->agent->counters.sessions_opened) {
        scans->attempt = 0;
        order = next_order(scans);
        if (order == NULL)
            return;
        scan_begin(scans, order);
    }
    if (page_start(scans, order, &err) == 0)
        return;
    snprintf(failed.error, sizeof(failed.error), "%s", err.text);
    (void)scan_tell(scans, &failed);
    scans->agent->clock.timer_start(scans->timer, SCANS_REST_US);
}

void scans_look(struct scans *scans)
{
    CHECK(scans->agent->scans == scans);
    if (scans->running == NULL)
        scans->agent->clock.timer_start(scans->timer, 0);
}
