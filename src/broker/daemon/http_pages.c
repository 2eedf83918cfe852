/* See http_pages.h. */
#include "src/broker/daemon/http_pages.h"

#include <inttypes.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/broker/broker.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/explain/translate.h"

enum { PAGE_OK = 200, PAGE_UNAVAILABLE = 503, PAGE_ROWS_MAX = 50 };

/* ---- health ---- */

/* What is not well is told in any case, what is well when it is asked for. */
static bool check_line(struct buf *body, bool verbose, bool ok, const char *name,
                       const char *detail)
{
    if (verbose || !ok)
        buf_printf(body, "[%s] %s: %s\n", ok ? "+" : "-", name, detail);
    return ok;
}

/* Ready: this member can answer stale reads from a state that is not far behind, and there is a
 * leader to be pointed at. */
static bool is_ready(struct broker *broker, bool verbose, struct buf *body)
{
    struct consensus_status status;
    struct fsm_summary summary;
    bool ok = true;

    replica_get_status(broker->replica, &status);
    fsm_get_summary(replica_fsm(broker->replica), &summary);
    ok &= check_line(body, verbose, summary.initialised, "initialised",
                     summary.initialised ? "the cluster has its first state"
                                         : "waiting for the first leader");
    ok &=
        check_line(body, verbose, status.leader_id != 0, "leader",
                   status.leader_id != 0 ? "known" : "none known; an election is due or no quorum");
    ok &= check_line(body, verbose, status.quorum, "quorum",
                     status.quorum ? "in contact with a majority"
                                   : "no contact with a majority: ckptctl status");
    ok &= check_line(body, verbose, status.accepts_writes, "disk",
                     status.accepts_writes ? "has room"
                                           : "nearly full: free space in the data folder");
    if (status.role == CONSENSUS_LEADER)
        ok &= check_line(body, verbose, replica_serving(broker->replica), "serving",
                         replica_serving(broker->replica) ? "leads and serves"
                                                          : "elected, waiting for its first entry");
    return ok;
}

static unsigned page_ready(void *data, bool verbose, struct buf *body)
{
    bool ok = is_ready(data, verbose, body);

    buf_printf(body, "%s\n", ok ? "ready" : "not ready");
    return ok ? PAGE_OK : PAGE_UNAVAILABLE;
}

/* Whether this member leads. */
static bool write_role(const struct broker *broker, struct consensus_status *status,
                       struct buf *body)
{
    bool leads = replica_serving(broker->replica);

    replica_get_status(broker->replica, status);
    buf_printf(body, "%s term=%" PRIu64 " leader=%" PRIu64 "\n",
               leads ? "leader" : translate_role(status), status->term, status->leader_id);
    return leads;
}

/* For load balancers that send writes to the leader. */
static unsigned page_leader(void *data, bool verbose, struct buf *body)
{
    struct consensus_status status;

    (void)verbose;
    return write_role(data, &status, body) ? PAGE_OK : PAGE_UNAVAILABLE;
}

/* One that follows nobody is none. */
static unsigned page_follower(void *data, bool verbose, struct buf *body)
{
    struct consensus_status status;

    (void)verbose;
    return !write_role(data, &status, body) && status.leader_id != 0 ? PAGE_OK : PAGE_UNAVAILABLE;
}

/* ---- the live page ---- */

/* Ids come from callers: nothing of theirs is markup. */
static void html_text(struct buf *body, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            buf_printf(body, "&#%d;", *text);
        else
            buf_append(body, text, 1);
    }
}

static void print_cell(struct buf *body, const char *text)
{
    buf_printf(body, "<td>");
    html_text(body, text);
    buf_printf(body, "</td>");
}

static void page_head(struct broker *broker, struct buf *body)
{
    struct consensus_status status;
    struct fsm_summary summary;

    replica_get_status(broker->replica, &status);
    fsm_get_summary(replica_fsm(broker->replica), &summary);
    buf_printf(
        body,
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=2>"
        "<title>ckptd</title><style>body{font:14px sans-serif;margin:2em}table{border-collapse:"
        "collapse;margin:1em 0}td,th{border:1px solid #999;padding:.2em .6em;text-align:left}"
        "</style><h1>Checkpoint broker: ");
    html_text(body, summary.initialised ? summary.cluster_id : "not initialised");
    buf_printf(body,
               "</h1><p>This member %s (%s), leader %" PRIu64 ", term %" PRIu64 ", applied %" PRIu64
               ", %s.",
               broker->config != NULL && broker->config->self != NULL ? broker->config->self->name
                                                                      : "?",
               translate_role(&status), status.leader_id, status.term, status.applied_index,
               status.quorum ? "quorum" : "<b>no quorum: what follows may be old</b>");
    buf_printf(body,
               "<p>%u allocations, %u checkpoints kept, %u paused, %zu agents connected here.",
               summary.allocation_count, summary.checkpoint_count,
               summary.checkpoints_by_state[CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED],
               dispatcher_connected_count(broker->dispatcher));
}

static void page_targets(struct broker *broker, struct buf *body)
{
    const struct fsm *fsm = replica_fsm(broker->replica);

    buf_printf(body, "<table><tr><th>target<th>state<th>granted bytes/s<th>budget<th>paused");
    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);

        if (target == NULL)
            continue;
        buf_printf(body, "<tr>");
        print_cell(body, target->id);
        print_cell(body, target->available ? "available" : "UNAVAILABLE");
        buf_printf(body, "<td>%" PRIu64 "<td>%" PRIu64 "<td>%u", target->granted_bytes_per_s,
                   target->budget_bytes_per_s, target->paused_count);
    }
    buf_printf(body, "</table>");
}

/* A few rows: the page is for a look, not for a list. */
static void page_active(struct broker *broker, struct buf *body)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_next(fsm, 0);
    char id[CHECKPOINT_ID_TEXT_BYTES];
    char purpose[FSM_WORD_BYTES];
    int rows = 0, looked_at = 0;

    buf_printf(body,
               "<table><tr><th>active checkpoint<th>allocation<th>state<th>purpose<th>attempt");
    for (; checkpoint != NULL && rows < PAGE_ROWS_MAX && looked_at < 100 * PAGE_ROWS_MAX;
         checkpoint = fsm_checkpoint_next(fsm, checkpoint->id), looked_at++) {
        const struct fsm_allocation *allocation =
            fsm_allocation_at(fsm, checkpoint->allocation_slot);

        if (!fsm_checkpoint_state_active(checkpoint->state))
            continue;
        rows++;
        buf_printf(body, "<tr>");
        print_cell(body, checkpoint_id_format(checkpoint->id, id));
        print_cell(body, allocation->id);
        print_cell(body, fsm_checkpoint_state_name(checkpoint->state));
        print_cell(body, fsm_purpose_word(checkpoint->purpose, purpose));
        buf_printf(body, "<td>%u", checkpoint->attempt);
    }
    buf_printf(body,
               "</table><p>At most %d rows. <a href=metrics>metrics</a> "
               "<a href='readyz?verbose'>readyz</a>",
               PAGE_ROWS_MAX);
}

static unsigned page_live(void *data, bool verbose, struct buf *body)
{
    (void)verbose;
    page_head(data, body);
    page_targets(data, body);
    page_active(data, body);
    return PAGE_OK;
}

const struct http_page http_pages[] = {
    {"/", HTTP_HTML, page_live, false},
    {"/readyz", HTTP_TEXT, page_ready, true},
    {"/leader", HTTP_TEXT, page_leader, true},
    {"/follower", HTTP_TEXT, page_follower, true},
    {NULL, NULL, NULL, false},
};
