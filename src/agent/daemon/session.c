/* The stream to the leader. See session.h. */
#include "src/agent/daemon/session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/agent.pb-c.h"
#include "fsm/message_level.h"
#include "src/agent/daemon/revoked_kept.h"
#include "src/agent/daemon/vitals.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/pace.h"
#include "src/agent/job/pace_kept.h"
#include "src/base/buf.h"
#include "src/base/build.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/rpc/follow.h"

#define SESSION_METHOD "/ckpt.v1.AgentService/Session"

enum {
    WELCOME_WAIT_US = 3000000, /* beside the time of the dial */
    DIAL_MAX_MS = 16000,
    HURRY_US = 20000,
    RETRY_MIN_MS = 50,
    RETRY_MAX_MS = 1000,
    ENDS_TOLD_US = 60000000, /* in an outage */
    MESSAGE_MAX_BYTES = 4 << 20,
    PROBE_LEVEL = 2 /* from which a cluster asks where its nodes are probed */
};

/* Of streams, since the last one that was welcomed, or that welcome. */
struct session_ends {
    uint64_t count; /* 0: none */
    uint64_t since_us, told_us;
    uint64_t untold;
    int told_status; /* enum rpc_status */
};

struct session {
    struct agent *agent;
    struct rpc_follow *follow;
    struct rpc_client_call *call; /* NULL: waits for the retry timer */
    /* without a call: dial again; before the welcome: give up; then: heartbeat */
    struct clock_timer *timer;
    bool welcomed;
    bool blocked; /* the stream's buffer is full */
    uint64_t heartbeat_ms;
    uint64_t interval_ms;
    uint64_t heartbeat_sequence;
    uint64_t sent_sequence; /* of reports, on this stream */
    uint64_t retry_ms;
    struct session_ends ends;
    struct vitals vitals;
};

static void session_dial(struct session *session);

bool session_open(const struct session *session)
{
    return session->call != NULL && session->welcomed;
}

const char *session_address(const struct session *session)
{
    return rpc_channel_address(rpc_follow_channel(session->follow));
}

static void timer_start(struct session *session, uint64_t delay_us)
{
    session->agent->clock.timer_start(session->timer, delay_us);
}

/* ---- ends ---- */

/* The first one is told at once, those that follow without a welcome by their number, each minute:
 * an outage is one piece of news, and a refusal that comes in it another. */
static void note_end(struct session *session, const struct rpc_end *end)
{
    struct session_ends *ends = &session->ends;
    const uint64_t now_us = agent_now_us(session->agent);

    if (ends->count++ == 0) {
        ends->since_us = ends->told_us = now_us;
        ends->told_status = (int)end->status;
        log_info("session_ended", "endpoint=%s status=%s text=\"%s\"", session_address(session),
                 rpc_status_name(end->status), end->message);
        return;
    }
    ends->untold++;
    if (now_us - ends->told_us < ENDS_TOLD_US &&
        (end->status == RPC_UNAVAILABLE || (int)end->status == ends->told_status))
        return;
    ends->told_status = (int)end->status;
    log_info("sessions_ended",
             "count=%" PRIu64 " outage_s=%" PRIu64 " endpoint=%s status=%s text=\"%s\"",
             ends->untold, (now_us - ends->since_us) / 1000000, session_address(session),
             rpc_status_name(end->status), end->message);
    ends->told_us = now_us;
    ends->untold = 0;
}

static void note_welcome(struct session *session)
{
    struct session_ends *ends = &session->ends;

    if (ends->count > 1)
        log_info("session_outage_over", "count=%" PRIu64 " outage_s=%" PRIu64, ends->count,
                 (agent_now_us(session->agent) - ends->since_us) / 1000000);
    *ends = (struct session_ends){0};
}

static void session_ended(struct session *session, const struct rpc_end *end)
{
    uint64_t delay_ms = RETRY_MAX_MS;

    note_end(session, end);
    session->call = NULL;
    if (session->welcomed)
        session->agent->leader_left_us = agent_now_us(session->agent);
    session->welcomed = false;
    if (!rpc_follow_result(session->follow, end, &delay_ms)) {
        /* Final for a client. An agent never gives up, nor stays with what is no broker while
         * others may be. */
        rpc_follow_move(session->follow, NULL);
        delay_ms = RETRY_MAX_MS;
    }
    if (delay_ms < session->retry_ms)
        delay_ms = session->retry_ms;
    session->retry_ms = session->retry_ms * 2 < RETRY_MAX_MS ? session->retry_ms * 2 : RETRY_MAX_MS;
    timer_start(session, delay_ms * 1000);
}

static void on_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct session *session = data;

    (void)call;
    session_ended(session, end);
}

/* Ends the stream from here and goes on to another endpoint. */
static void session_leave(struct session *session, const char *why)
{
    const struct rpc_end end = {.status = RPC_UNAVAILABLE, .message = why, .sent = true};

    rpc_client_call_cancel(session->call);
    session_ended(session, &end);
}

/* ---- up ---- */

static void session_send(struct session *session, const Ckpt__V1__AgentUp *up)
{
    struct buf bytes;

    buf_init(&bytes);
    ckpt__v1__agent_up__pack(up, buf_extend(&bytes, ckpt__v1__agent_up__get_packed_size(up)));
    if (!rpc_client_call_send(session->call, bytes.bytes, bytes.length))
        session->blocked = true;
    buf_close(&bytes);
}

/* Changes of the same moment go with one heartbeat. */
static void session_hurry(struct session *session)
{
    if (session != NULL && session_open(session))
        timer_start(session, HURRY_US);
}

/* The allocations whose application runs; for running_free(). */
static Ckpt__V1__RunningAllocation **running_list(struct session *session,
                                                  Ckpt__V1__RunningAllocation **ret_items,
                                                  size_t *ret_count)
{
    struct agent *agent = session->agent;
    Ckpt__V1__RunningAllocation *items = check_calloc(agent->allocation_count + 1, sizeof(*items));
    Ckpt__V1__RunningAllocation **list = check_calloc(agent->allocation_count + 1, sizeof(*list));
    size_t count = 0;

    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, node);
        if (allocation->process.state == PROCESS_ABSENT)
            continue;
        Ckpt__V1__RunningAllocation *message = &items[count];

        ckpt__v1__running_allocation__init(message);
        message->allocation_id = allocation->entry.allocation_id;
        message->pid = allocation->entry.pid;
        message->started_at_ms = allocation->entry.started_at_ms;
        message->run = allocation->entry.run;
        pace_turns(allocation);
        message->steps = pace_word_new(allocation);
        list[count++] = message;
    }
    *ret_items = items;
    *ret_count = count;
    return list;
}

static void running_free(Ckpt__V1__RunningAllocation **list, Ckpt__V1__RunningAllocation *items,
                         size_t count)
{
    for (size_t i = 0; i < count; i++)
        pace_word_free(items[i].steps);
    free(list);
    free(items);
}

/* Jobs whose ckpt-run here waits for a restart, or begins; the caller frees the list. */
static char **attended_list(const struct session *session, bool begins, size_t *ret_count)
{
    struct agent *agent = session->agent;
    char **list = check_calloc(agent->allocation_count + 1, sizeof(*list));
    size_t count = 0;

    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, node);
        const struct caller_ops *callers = agent->callers;

        if (allocation->stream != NULL &&
            (begins ? callers->starts : callers->awaits)(allocation->stream))
            list[count++] = allocation->entry.allocation_id;
    }
    *ret_count = count;
    return list;
}

static void send_hello(struct session *session)
{
    struct agent *agent = session->agent;
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
    Ckpt__V1__AgentHello hello = CKPT__V1__AGENT_HELLO__INIT;

    hello.node_id = text_message(agent->node_id);
    hello.boot_id = text_message(agent->boot_id);
    hello.version = text_message(build_text);
    hello.machine = text_message(agent->architecture);
    hello.os = text_message(agent->os);
    hello.domain = text_message(agent->domain);
    hello.highest_epoch = ledger_fence(agent->ledger).epoch;
    hello.highest_term = ledger_fence(agent->ledger).term;
    hello.last_report_sequence = ledger_last_sequence(agent->ledger);
    hello.agent_started_at_ms = agent->started_at_ms;
    up.body_case = CKPT__V1__AGENT_UP__BODY_HELLO;
    up.hello = &hello;
    session_send(session, &up);
}

/* Before a heartbeat: the journal may have to know of them. */
static void keep_paces(struct agent *agent)
{
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next)
        pace_keep(LIST_ITEM(at, struct allocation, node));
}

static void send_heartbeat(struct session *session)
{
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
    Ckpt__V1__AgentHeartbeat heartbeat = CKPT__V1__AGENT_HEARTBEAT__INIT;
    Ckpt__V1__RunningAllocation *items;
    const struct machine_ops *machine = &session->agent->machine;

    keep_paces(session->agent);
    heartbeat.load_milli = machine->load_milli(machine->context);
    heartbeat.sequence = ++session->heartbeat_sequence;
    heartbeat.last_report_sequence = ledger_last_sequence(session->agent->ledger);
    vitals_fill(&session->vitals, &heartbeat);
    heartbeat.running = running_list(session, &items, &heartbeat.n_running);
    heartbeat.waiting_allocation_ids =
        attended_list(session, false, &heartbeat.n_waiting_allocation_ids);
    heartbeat.beginning_allocation_ids =
        attended_list(session, true, &heartbeat.n_beginning_allocation_ids);
    if (session->agent->feature_level >= PROBE_LEVEL)
        heartbeat.node_probe = text_message(session->agent->node_probe);
    if (session->agent->feature_level >= PROBE_LEVEL) {
        heartbeat.n_tools = session->agent->tool_count;
        heartbeat.tools = session->agent->tools;
        heartbeat.takes_revoked = session->agent->tls != NULL;
        heartbeat.revoked_hash = revoked_kept_hash(session->agent->revoked);
    }
    up.body_case = CKPT__V1__AGENT_UP__BODY_HEARTBEAT;
    up.heartbeat = &heartbeat;
    session_send(session, &up);
    free(heartbeat.waiting_allocation_ids);
    free(heartbeat.beginning_allocation_ids);
    running_free(heartbeat.running, items, heartbeat.n_running);
}

/* A cluster that tells none is of the first. */
static uint32_t cluster_level(const struct session *session)
{
    uint32_t told = session->agent->feature_level;

    return told < FSM_LEVEL_FIRST ? FSM_LEVEL_FIRST : told;
}

static void send_report(struct session *session, const struct ledger_report *kept)
{
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
    Ckpt__V1__AgentReport *report = ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);

    CHECK(report != NULL); /* the journal's checksum held, and this program wrote it */
    report->sequence = kept->sequence;
    if (kept->since_us != 0) /* rounded up: 0 stays for what is not known */
        report->snapshot_age_ms = (agent_now_us(session->agent) - kept->since_us) / 1000 + 1;
    /* members of an earlier level refuse a report with a field that they do not know, for ever */
    fsm_message_lower(&report->base, cluster_level(session));
    up.body_case = CKPT__V1__AGENT_UP__BODY_REPORT;
    up.report = report;
    session_send(session, &up);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
}

/* What is in the journal and not sent on this stream yet goes out. */
static void session_send_reports(struct session *session)
{
    const struct ledger_report *report;

    if (!session_open(session))
        return;
    while (!session->blocked &&
           (report = ledger_report_after(session->agent->ledger, session->sent_sequence)) != NULL) {
        send_report(session, report);
        session->sent_sequence = report->sequence;
    }
}

/* Pages are kept nowhere: one that cannot go out now is for its sender to send again. */
static bool session_send_page(struct session *session, Ckpt__V1__ScanPage *page)
{
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;

    if (!session_open(session) || session->blocked)
        return false;
    up.body_case = CKPT__V1__AGENT_UP__BODY_SCAN_PAGE;
    up.scan_page = page;
    session_send(session, &up);
    return true;
}

static void on_writable(struct rpc_client_call *call, void *data)
{
    struct session *session = data;

    (void)call;
    session->blocked = false;
    session_send_reports(session);
}

/* ---- down ---- */

/* False: below the fence, and the stream is left. */
static bool fence_passed(struct session *session, uint64_t epoch, uint64_t term)
{
    const struct fence fence = {epoch, term};
    struct ledger *ledger = session->agent->ledger;
    struct err err;

    if (ledger_fence_refuses(ledger, fence)) {
        session->agent->counters.orders_fenced++;
        log_warning("fenced",
                    "epoch=%" PRIu64 " term=%" PRIu64 " kept_epoch=%" PRIu64 " kept_term=%" PRIu64,
                    epoch, term, ledger_fence(ledger).epoch, ledger_fence(ledger).term);
        session_leave(session, "an older leader");
        return false;
    }
    if (ledger_raise_fence(ledger, fence, &err) != 0)
        agent_journal_failed(session->agent, &err);
    return true;
}

static void take_welcome(struct session *session, const Ckpt__V1__AgentWelcome *welcome)
{
    struct err err;

    if (session->welcomed || !fence_passed(session, welcome->epoch, welcome->term))
        return;
    if (ledger_align(session->agent->ledger, welcome->acknowledged_report_sequence, &err) != 0)
        agent_journal_failed(session->agent, &err);
    session->welcomed = true;
    rpc_follow_reached(session->follow);
    note_welcome(session);
    session->agent->cluster_mark = mark_of(welcome->cluster_id);
    session->agent->feature_level = welcome->feature_level;
    session->agent->leader_left_us = 0;
    session->retry_ms = RETRY_MIN_MS;
    session->sent_sequence = welcome->acknowledged_report_sequence;
    session->agent->counters.sessions_opened++;
    session->interval_ms = session->heartbeat_ms;
    if (welcome->heartbeat_interval_ms > 0 && welcome->heartbeat_interval_ms < session->interval_ms)
        session->interval_ms = welcome->heartbeat_interval_ms;
    log_info("session_open",
             "endpoint=%s cluster=%s epoch=%" PRIu64 " term=%" PRIu64 " acknowledged=%" PRIu64
             " reports_pending=%zu",
             rpc_channel_address(rpc_follow_channel(session->follow)), welcome->cluster_id,
             welcome->epoch, welcome->term, welcome->acknowledged_report_sequence,
             ledger_pending_count(session->agent->ledger));
    send_heartbeat(session);
    timer_start(session, session->interval_ms * 1000);
    session_send_reports(session);
}

static void take_ack(struct session *session, const Ckpt__V1__ReportAck *ack)
{
    struct agent *agent = session->agent;
    struct err err;

    if (!session->welcomed || ack->sequence > session->sent_sequence)
        return; /* never sent: not an acknowledgement of anything */
    if (ack->feature_level > agent->feature_level)
        agent->feature_level = ack->feature_level;
    if (ledger_acknowledge(agent->ledger, ack->sequence, &err) != 0)
        agent_journal_failed(session->agent, &err);
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, node);
        if (allocation->stream != NULL)
            session->agent->callers->poll(allocation->stream);
    }
}

static void take_orders(struct session *session, Ckpt__V1__AgentDown *down)
{
    Ckpt__V1__OrderSet *orders = down->orders;

    if (!session->welcomed || !fence_passed(session, orders->epoch, orders->term))
        return;
    if (orders->n_orders > RECONCILE_ORDERS_MAX) {
        log_error("orders_too_many", "count=%zu limit=%d", orders->n_orders, RECONCILE_ORDERS_MAX);
        return;
    }
    log_debug("orders", "index=%" PRIu64 " count=%zu", orders->index, orders->n_orders);
    down->orders = NULL;
    down->body_case = CKPT__V1__AGENT_DOWN__BODY__NOT_SET;
    agent_take_orders(session->agent, orders);
}

static void on_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                       size_t length)
{
    struct session *session = data;
    Ckpt__V1__AgentDown *down = ckpt__v1__agent_down__unpack(NULL, length, bytes);

    (void)call;
    if (down == NULL) {
        session_leave(session, "a message that does not decode");
        return;
    }
    switch (down->body_case) {
    case CKPT__V1__AGENT_DOWN__BODY_WELCOME:
        take_welcome(session, down->welcome);
        break;
    case CKPT__V1__AGENT_DOWN__BODY_ACK:
        take_ack(session, down->ack);
        break;
    case CKPT__V1__AGENT_DOWN__BODY_ORDERS:
        take_orders(session, down);
        break;
    case CKPT__V1__AGENT_DOWN__BODY_REVOKED:
        if (session->welcomed)
            revoked_kept_take(session->agent->revoked, down->revoked);
        break;
    case CKPT__V1__AGENT_DOWN__BODY__NOT_SET:
    case _CKPT__V1__AGENT_DOWN__BODY__CASE_IS_INT_SIZE:
        break; /* of a newer broker */
    }
    ckpt__v1__agent_down__free_unpacked(down, NULL);
}

/* ---- life ---- */

static void session_timer(void *data)
{
    struct session *session = data;

    if (session->call == NULL) {
        session_dial(session);
    } else if (!session->welcomed) {
        session_leave(session, "no welcome in time");
    } else {
        if (!session->blocked)
            send_heartbeat(session);
        timer_start(session, session->interval_ms * 1000);
    }
}

static void session_dial(struct session *session)
{
    static const struct rpc_client_handlers handlers = {
        .on_message = on_message, .on_writable = on_writable, .on_end = on_end};

    CHECK(session->call == NULL);
    session->welcomed = false;
    session->blocked = false;
    session->heartbeat_sequence = 0;
    timer_start(session, WELCOME_WAIT_US + 1000 * rpc_follow_dial_ms(session->follow));
    session->call = rpc_channel_open(rpc_follow_channel(session->follow), SESSION_METHOD, 0, false,
                                     &handlers, session);
    send_hello(session);
}

int session_new(struct agent *agent, const char *brokers, uint64_t heartbeat_ms,
                struct session **ret_session, struct err *err)
{
    const struct rpc_channel_config config = {.connect_timeout_max_ms = DIAL_MAX_MS,
                                              .message_max_bytes = MESSAGE_MAX_BYTES,
                                              .tls = agent->tls};
    struct session *session = check_calloc(1, sizeof(*session));

    if (rpc_follow_new(agent->loop, brokers, &config, &session->follow, err) != 0) {
        free(session);
        return -1;
    }
    session->agent = agent;
    agent->send_reports = session_send_reports;
    agent->send_page = session_send_page;
    agent->hurry = session_hurry;
    session->heartbeat_ms = heartbeat_ms;
    session->retry_ms = RETRY_MIN_MS;
    vitals_open(&session->vitals, &agent->machine, &agent->clock, agent->sysfs);
    session->timer = agent->clock.timer_new(agent->clock.context, session_timer, session);
    timer_start(session, 0);
    *ret_session = session;
    return 0;
}

void session_recheck(struct session *session)
{
    if (session != NULL)
        rpc_follow_recheck(session->follow);
}

void session_free(struct session *session)
{
    if (session == NULL)
        return;
    if (session->call != NULL)
        rpc_client_call_cancel(session->call);
    session->agent->hurry = NULL;
    session->agent->clock.timer_free(session->timer);
    vitals_close(&session->vitals);
    rpc_follow_free(session->follow);
    free(session);
}
