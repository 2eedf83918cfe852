/* The agents' streams: ckpt.v1.AgentService/Session.
 *
 * Flow     hello -> NodeSeen (when it changes something) -> welcome, order set; report ->
 *          NodeReport -> acknowledgement of all that is committed; an order set again whenever the
 *          state changed the node's orders. A hello of another boot than the state's is welcomed
 *          first, and believed with the next message: it may have been under way since before that
 *          boot. heartbeat -> NodeRunning, when the report of a start is lost for ever.
 * Shapes   a session lives until its call has ended and the last of its proposals was answered. One
 *          attached session per node slot. A stream's full buffer keeps the newest order set alone.
 * Errors   dispatcher.h. After a failed proposal the stream ends; the agent comes back with it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/agent.pb-c.h"
#include "fsm/level.h"
#include "fsm/node_life.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/log.h"
#include "src/broker/api/access.h"
#include "src/broker/api/answer.h"
#include "src/broker/daemon/metrics.h"
#include "src/broker/decide/hangs.h"
#include "src/broker/decide/restarter.h"
#include "src/broker/dispatch/dispatcher_internal.h"
#include "src/broker/drill/drills.h"
#include "src/broker/explain/translate.h"
#include "src/broker/health/nodes.h"
#include "src/broker/keep/denials.h"
#include "src/broker/keep/scanner.h"

#define SESSION_METHOD "/ckpt.v1.AgentService/Session"

enum { SESSION_HEARTBEATS_PER_DEGRADED = 3, SLOT_NONE = UINT32_MAX };

struct session {
    struct list node;
    struct dispatcher *dispatcher;
    struct rpc_call *call; /* NULL: ended, waits for its proposals */
    bool greeted;          /* hello came */
    bool doubted;          /* it was of another boot: nothing has come since */
    bool welcomed;         /* before it was attached */
    bool blocked;          /* the stream's buffer is full */
    bool dirty;            /* orders changed while blocked */
    bool telling;          /* NodeRunning is in flight */
    uint32_t slot;         /* SLOT_NONE: not attached */
    uint64_t made;         /* of the node that it is attached to */
    uint32_t pending;      /* proposals in flight */
    uint64_t hello_number; /* of all that came to this member */
    uint64_t beat;         /* the sequence of the last heartbeat; 0: none came yet */
    uint64_t refused;      /* heartbeats */
    uint64_t started_ms;   /* of its agent */
    char node_id[DISPATCHER_TEXT_BYTES], boot_id[DISPATCHER_TEXT_BYTES];
    char machine[FSM_PLATFORM_BYTES], os[FSM_PLATFORM_BYTES];
    char version[DISPATCHER_TEXT_BYTES], domain[DISPATCHER_TEXT_BYTES];
};

/* One NodeReport in flight. */
struct report_proposal {
    struct session *session;
    uint64_t sequence;
};

/* The applied state. A session looks things up anew in each call: nothing of the state is kept. */
static const struct fsm *session_fsm(const struct session *session)
{
    return replica_fsm(session->dispatcher->broker->replica);
}

/* NULL: it is not attached, or its node was removed, which ends it when the entry is applied. */
static const struct fsm_node *session_node(const struct session *session)
{
    const struct fsm_node *node =
        session->slot == SLOT_NONE ? NULL : fsm_node_find_slot(session_fsm(session), session->slot);

    return node != NULL && node->made == session->made ? node : NULL;
}

/* ---- ending ---- */

/* The last of two to end frees the session: its call, or its proposals. */
static void session_release(struct session *session)
{
    if (session->call != NULL || session->pending > 0)
        return;
    list_remove(&session->node);
    free(session);
}

/* The node has no stream any more. The table of slots and the sessions tell the same. */
static void session_detach(struct session *session)
{
    struct dispatcher *dispatcher = session->dispatcher;

    if (session->slot == SLOT_NONE)
        return;
    CHECK(session->slot < dispatcher->slot_count);
    CHECK(dispatcher->by_slot[session->slot] == session);
    CHECK(dispatcher->attached_count > 0);
    restarter_unheard(dispatcher->broker->restarter, session->slot);
    hangs_unheard(dispatcher->broker->hangs, session->slot);
    dispatcher->by_slot[session->slot] = NULL;
    dispatcher->attached_count--;
    session->slot = SLOT_NONE;
}

/* Ends the session for the caller to answer its call; it is gone unless proposals are in flight. */
static struct rpc_call *session_take_call(struct session *session)
{
    struct rpc_call *call = session->call;

    CHECK(call != NULL);
    session_detach(session);
    session->call = NULL;
    session_release(session);
    return call;
}

static void session_finish(struct session *session, enum rpc_status status, const char *message)
{
    rpc_call_finish(session_take_call(session), status, message);
}

/* answer_failed() says where the leader is, if the reason is that this member leads no more. */
static void session_failed(struct session *session, const struct err *failed)
{
    struct broker *broker = session->dispatcher->broker;

    answer_failed(broker, session_take_call(session), failed);
}

static void session_removed(struct session *session)
{
    session_finish(session, RPC_ABORTED, "the node was removed: begin again with hello");
}

/* ---- down ---- */

/* A message that does not fit into the stream's buffer is still taken (src/rpc/server.h); after it
 * the stream counts as blocked until it is writable. */
static void session_send(struct session *session, const Ckpt__V1__AgentDown *down)
{
    struct buf bytes;

    buf_init(&bytes);
    ckpt__v1__agent_down__pack(down,
                               buf_extend(&bytes, ckpt__v1__agent_down__get_packed_size(down)));
    if (!rpc_call_send(session->call, bytes.bytes, bytes.length))
        session->blocked = true;
    buf_close(&bytes);
}

/* The whole set, as it is now. While the stream is blocked only the newest set matters: the flag
 * stands for it. */
static void session_send_orders(struct session *session)
{
    struct buf bytes;

    CHECK(session->slot != SLOT_NONE);
    if (session_node(session) == NULL)
        return;
    if (session->blocked) {
        session->dirty = true;
        return;
    }
    session->dirty = false;
    buf_init(&bytes);
    dispatcher_pack_orders(session->dispatcher, session->slot, &bytes);
    drills_note_orders(session->dispatcher->broker->drills);
    if (!rpc_call_send(session->call, bytes.bytes, bytes.length))
        session->blocked = true;
    buf_close(&bytes);
}

/* Acknowledges by the number that the state has reached, so that one acknowledgement stands for all
 * reports below it. */
static void session_send_ack(struct session *session, const struct fsm_node *node)
{
    Ckpt__V1__AgentDown down = CKPT__V1__AGENT_DOWN__INIT;
    Ckpt__V1__ReportAck ack = CKPT__V1__REPORT_ACK__INIT;

    ack.sequence = node->last_report_sequence;
    ack.feature_level = fsm_level(session_fsm(session));
    down.body_case = CKPT__V1__AGENT_DOWN__BODY_ACK;
    down.ack = &ack;
    session_send(session, &down);
}

/* Tells whose orders the agent is to obey (epoch and term, I25), which reports are taken, and how
 * often to say that it lives: thrice in the time after which a silent node is degraded. */
static void session_send_welcome(struct session *session, const struct fsm_node *node)
{
    Ckpt__V1__AgentDown down = CKPT__V1__AGENT_DOWN__INIT;
    Ckpt__V1__AgentWelcome welcome = CKPT__V1__AGENT_WELCOME__INIT;
    struct consensus_status status;
    struct fsm_summary summary;

    fsm_get_summary(session_fsm(session), &summary);
    replica_get_status(session->dispatcher->broker->replica, &status);
    welcome.cluster_id = translate_text(summary.cluster_id);
    welcome.epoch = summary.epoch;
    welcome.term = status.term;
    welcome.acknowledged_report_sequence = node->last_report_sequence;
    welcome.feature_level = fsm_level(session_fsm(session));
    welcome.heartbeat_interval_ms =
        fsm_policy(session_fsm(session))->node_degraded_after_ms / SESSION_HEARTBEATS_PER_DEGRADED;
    down.body_case = CKPT__V1__AGENT_DOWN__BODY_WELCOME;
    down.welcome = &welcome;
    session_send(session, &down);
}

/* ---- hello ---- */

/* The place of a node slot in both tables, which grow with the slots of the state. */
static struct session **slot_entry(struct dispatcher *dispatcher, uint32_t slot)
{
    if (slot >= dispatcher->slot_count) {
        uint32_t count = slot + 1 < 64 ? 64 : slot + 1 + slot / 2;

        dispatcher->by_slot =
            check_realloc(dispatcher->by_slot, count, sizeof(*dispatcher->by_slot));
        memset(dispatcher->by_slot + dispatcher->slot_count, 0,
               (count - dispatcher->slot_count) * sizeof(*dispatcher->by_slot));
        dispatcher->hello_by_slot =
            check_realloc(dispatcher->hello_by_slot, count, sizeof(*dispatcher->hello_by_slot));
        memset(dispatcher->hello_by_slot + dispatcher->slot_count, 0,
               (count - dispatcher->slot_count) * sizeof(*dispatcher->hello_by_slot));
        dispatcher->slot_count = count;
    }
    return &dispatcher->by_slot[slot];
}

/* The node is known to the state: from here on the stream is the node's. The older one goes. Its
 * orders are the next that it is sent. */
static void session_attach(struct session *session)
{
    struct dispatcher *dispatcher = session->dispatcher;
    const struct fsm_node *node = fsm_node_find(session_fsm(session), session->node_id);
    struct session *older;

    CHECK(session->slot == SLOT_NONE);
    if (node == NULL) { /* by a later command of the same entry */
        session_removed(session);
        return;
    }
    older = *slot_entry(dispatcher, node->slot);
    if (older != NULL)
        session_finish(older, RPC_ABORTED, "replaced by a newer stream of the same node");
    session->slot = node->slot;
    session->made = node->made;
    dispatcher->by_slot[node->slot] = session;
    dispatcher->attached_count++;
    nodes_heard(dispatcher->broker->nodes, node->slot, NULL);
    log_info("agent_connected", "node=%s boot=%s version=%s acknowledged=%" PRIu64, node->id,
             session->boot_id, session->version, node->last_report_sequence);
    if (session->welcomed)
        session_send_ack(session, node);
    else
        session_send_welcome(session, node);
}

/* Its orders come when the whole entry is applied, which has changed the node
 * (dispatcher_sessions_changed): here they would be of half of it, and name its index. */
static void on_seen(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct session *session = data;

    CHECK(session->pending > 0);
    session->pending--;
    if (session->call == NULL)
        session_release(session);
    else if (failed != NULL)
        session_failed(session, failed);
    else if (outcome->status != FSM_OK)
        answer_outcome(session_take_call(session), outcome);
    else
        session_attach(session);
}

/* A drained node stays drained, but by an operator; from level 2 on the state knows that. */
static void propose_seen(struct session *session, const struct fsm_node *node)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeSeen seen = CKPT__LOG__V1__NODE_SEEN__INIT;

    seen.node_id = session->node_id;
    seen.boot_id = session->boot_id;
    seen.version = session->version;
    seen.machine = session->machine;
    seen.os = session->os;
    seen.domain = session->domain;
    seen.domain_told = true;
    seen.state = node != NULL && fsm_level(session_fsm(session)) < 2 &&
                         node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DRAINING
                     ? node->state
                     : CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_SEEN;
    command.node_seen = &seen;
    session->pending++;
    replica_propose(session->dispatcher->broker->replica, &command, on_seen, session);
}

/* A certificate speaks for its own node, or a broken node could report for all others. */
static void refuse_node(struct session *session, const char *node_id)
{
    const struct rpc_peer *peer = rpc_call_peer(session->call);
    char text[1024];

    denials_note(session->dispatcher->broker->denials, peer, SESSION_METHOD, node_id);
    dispatcher_refusal(peer, node_id, text, sizeof(text));
    session_finish(session, RPC_PERMISSION_DENIED, text);
}

/* What runs on the node would count as gone. A boot that is over sends nothing any more, so it
 * cannot answer the welcome. */
static bool hello_of_other_boot(const struct session *session, const struct fsm_node *node)
{
    return node != NULL && node->boot_id[0] != '\0' && session->boot_id[0] != '\0' &&
           strcmp(node->boot_id, session->boot_id) != 0;
}

/* The welcome asks the question: whoever sends another message after it was alive to receive it. */
static void session_doubt(struct session *session, const struct fsm_node *node)
{
    session->doubted = true;
    session->welcomed = true;
    session_send_welcome(session, node);
}

/* It was alive after its welcome, but for when a newer one said hello since. Returns whether the
 * session goes on. */
static bool session_believe(struct session *session)
{
    struct dispatcher *dispatcher = session->dispatcher;
    const struct fsm_node *node = fsm_node_find(session_fsm(session), session->node_id);

    session->doubted = false;
    if (node != NULL) {
        slot_entry(dispatcher, node->slot);
        if (dispatcher->hello_by_slot[node->slot] > session->hello_number) {
            session_finish(session, RPC_ABORTED, "replaced by a newer stream of the same node");
            return false;
        }
    }
    session->pending++; /* a refusal comes at once, and would free the session */
    propose_seen(session, node);
    session->pending--;
    if (session->call != NULL)
        return true;
    session_release(session);
    return false;
}

/* Hellos are numbered in the order in which they came, so that of two streams of one node the later
 * one wins whichever is believed first. */
static void note_hello(struct session *session, const struct fsm_node *node)
{
    struct dispatcher *dispatcher = session->dispatcher;

    session->hello_number = ++dispatcher->hellos;
    if (node == NULL)
        return;
    slot_entry(dispatcher, node->slot);
    dispatcher->hello_by_slot[node->slot] = session->hello_number;
    nodes_heard(dispatcher->broker->nodes, node->slot,
                NULL); /* now, or it is found silent meanwhile */
}

/* It changes nothing that the state knows of the node. */
static bool hello_known(const struct session *session, const struct fsm_node *node)
{
    return node != NULL && strcmp(node->boot_id, session->boot_id) == 0 &&
           strcmp(node->version, session->version) == 0 &&
           (session->machine[0] == '\0' || strcmp(node->machine, session->machine) == 0) &&
           (session->os[0] == '\0' || strcmp(node->os, session->os) == 0) &&
           strcmp(node->domain, session->domain) == 0 &&
           (node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY ||
            (fsm_node_refusal(node) != FSM_OK && !fsm_node_gone(node)));
}

static struct dispatcher_agent agent_of(const struct session *session)
{
    return (struct dispatcher_agent){session->boot_id, rpc_call_peer(session->call)->address,
                                     session->started_ms};
}

/* Two agents of one name; true: the newcomer's stream is ended. */
static bool twin_refused(struct session *session, const struct fsm_node *node)
{
    const struct session *attached =
        node == NULL ? NULL : *slot_entry(session->dispatcher, node->slot);
    struct dispatcher_agent agent = agent_of(session), first;
    char text[512];

    if (attached == NULL)
        return false;
    first = agent_of(attached);
    if (!dispatcher_twin_refused(session->dispatcher, node, &first, &agent, text, sizeof(text)))
        return false;
    session_finish(session, RPC_FAILED_PRECONDITION, text);
    return true;
}

/* A node that is known, as its hello tells it, is attached at once and costs no log entry.
 * Everything else becomes a NodeSeen first: the stream is the node's when the state knows the
 * node. */
static void take_hello(struct session *session, const Ckpt__V1__AgentHello *hello)
{
    const struct fsm_node *node;
    struct err err = {0};

    if (session->greeted) {
        session_finish(session, RPC_INVALID_ARGUMENT, "hello is the first message only");
        return;
    }
    if (dispatcher_hello_check(hello, &err) != 0) {
        session_finish(session, RPC_INVALID_ARGUMENT, err.text);
        return;
    }
    if (!access_is_agent(rpc_call_peer(session->call), hello->node_id)) {
        refuse_node(session, hello->node_id);
        return;
    }
    session->greeted = true;
    dispatcher_note_fence(session->dispatcher->broker, hello);
    snprintf(session->node_id, sizeof(session->node_id), "%s", hello->node_id);
    snprintf(session->boot_id, sizeof(session->boot_id), "%s", hello->boot_id);
    snprintf(session->version, sizeof(session->version), "%s", hello->version);
    snprintf(session->machine, sizeof(session->machine), "%s", hello->machine);
    snprintf(session->os, sizeof(session->os), "%s", hello->os);
    snprintf(session->domain, sizeof(session->domain), "%s", hello->domain);
    session->started_ms = hello->agent_started_at_ms;
    node = fsm_node_find(session_fsm(session), session->node_id);
    if (twin_refused(session, node))
        return;
    note_hello(session, node);
    if (hello_known(session, node)) {
        session_attach(session);
        session_send_orders(session);
    } else if (hello_of_other_boot(session, node)) {
        session_doubt(session, node);
    } else {
        propose_seen(session, node);
    }
}

/* ---- reports ---- */

/* Acknowledges what is committed. A report beyond that was not taken: its number skips, the agent
 * has to begin again. */
static void report_committed(struct session *session, uint64_t sequence)
{
    const struct fsm_node *node = session_node(session);

    if (session->slot == SLOT_NONE)
        return; /* the welcome will say */
    if (node == NULL) {
        session_removed(session);
        return;
    }
    if (node->last_report_sequence < sequence) {
        session_finish(session, RPC_ABORTED,
                       "the report's number skips: repeat from the last acknowledged one");
        return;
    }
    metrics_add(session->dispatcher->broker->metrics, METRIC_AGENT_REPORTS, NULL, NULL, 1);
    session_send_ack(session, node);
}

static void on_reported(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct report_proposal proposal = *(struct report_proposal *)data;
    struct session *session = proposal.session;

    (void)outcome; /* a refused report is taken too: the number that the state has reached counts */
    free(data);
    CHECK(session->pending > 0);
    session->pending--;
    if (session->call == NULL) {
        session_release(session);
        return;
    }
    if (failed != NULL) {
        session_failed(session, failed);
        return;
    }
    report_committed(session, proposal.sequence);
}

/* A report goes into the log as it came. The state refuses what is of an earlier run, and takes its
 * number all the same. */
static void propose_report(struct session *session, Ckpt__V1__AgentReport *report)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeReport node_report = CKPT__LOG__V1__NODE_REPORT__INIT;
    struct report_proposal *proposal = check_alloc(sizeof(*proposal));

    *proposal = (struct report_proposal){.session = session, .sequence = report->sequence};
    if (fsm_level(session_fsm(session)) < 2) { /* of an agent that another cluster welcomed */
        report->told_write_ms = 0;
        report->end = CKPT__V1__APPLICATION_END__APPLICATION_END_UNSPECIFIED;
        report->user = 0;
    }
    node_report.node_id = session->node_id;
    node_report.boot_id = session->boot_id;
    node_report.report = report;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT;
    command.node_report = &node_report;
    session->pending++;
    replica_propose(session->dispatcher->broker->replica, &command, on_reported, proposal);
}

/* A report up to the acknowledged one is a repetition after a lost acknowledgement: it is
 * acknowledged again and not proposed. */
static void take_report(struct session *session, Ckpt__V1__AgentReport *report)
{
    const struct fsm_node *node = fsm_node_find(session_fsm(session), session->node_id);

    if (node != NULL)
        nodes_heard(session->dispatcher->broker->nodes, node->slot, NULL);
    if (session_node(session) != NULL && report->sequence <= node->last_report_sequence) {
        session_send_ack(session, node); /* a repetition of what is committed */
        return;
    }
    if (session->pending >= DISPATCHER_REPORTS_MAX) {
        session_finish(session, RPC_RESOURCE_EXHAUSTED,
                       "too many reports wait for their acknowledgement");
        return;
    }
    propose_report(session, report);
}

static void on_told(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct session *session = data;

    (void)failed; /* the next heartbeat repeats what the state still waits for */
    (void)outcome;
    CHECK(session->pending > 0 && session->telling);
    session->pending--;
    session->telling = false;
    if (session->call == NULL)
        session_release(session);
}

/* The state waits for starts whose reports were lost: what runs tells them, unless a report may be
 * on its way. It judges again, since others may come in between. */
static void tell_awaited(struct session *session, const Ckpt__V1__AgentHeartbeat *heartbeat)
{
    const struct fsm *fsm = session_fsm(session);
    Ckpt__Log__V1__RunningPart parts[FSM_RUNNING_PER_COMMAND_MAX];
    Ckpt__Log__V1__RunningPart *pointers[FSM_RUNNING_PER_COMMAND_MAX];
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeRunning told = CKPT__LOG__V1__NODE_RUNNING__INIT;
    size_t count = 0;

    if (session->telling ||
        heartbeat->last_report_sequence != fsm_node_at(fsm, session->slot)->last_report_sequence)
        return;
    for (size_t i = dispatcher_awaited(fsm, session->slot, heartbeat, parts); i-- > 0;)
        pointers[count++] = &parts[i];
    if (count == 0)
        return;
    log_info("start_found", "node=%s count=%zu first=%s text=\"it runs, the report is lost\"",
             session->node_id, count, parts[0].allocation_id);
    told.node_id = session->node_id;
    told.boot_id = session->boot_id;
    told.report_sequence = heartbeat->last_report_sequence;
    told.running = pointers;
    told.n_running = count;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_RUNNING;
    command.node_running = &told;
    session->telling = true;
    session->pending++;
    replica_propose(session->dispatcher->broker->replica, &command, on_told, session);
}

/* One that comes again, by whoever stands in between or by an agent that counts wrong, proves
 * nothing of what is on the node now. The first of a stream is told. */
static bool is_repeated(struct session *session, uint64_t sequence)
{
    if (sequence > session->beat) {
        session->beat = sequence;
        return false;
    }
    metrics_add(session->dispatcher->broker->metrics, METRIC_HEARTBEATS_REFUSED, NULL, NULL, 1);
    if (session->refused++ == 0)
        log_warning("heartbeat_refused",
                    "node=%s sequence=%" PRIu64 " last=%" PRIu64
                    " text=\"it came before: the node is not heard by it\"",
                    session->node_id, sequence, session->beat);
    return true;
}

/* The agent says in each heartbeat which list it has: nothing of it is kept here. */
static void tell_revoked(struct session *session, const Ckpt__V1__AgentHeartbeat *heartbeat)
{
    struct dispatcher_revoked message;

    if (!session->blocked && dispatcher_revoked_for(session_fsm(session), heartbeat, &message))
        session_send(session, &message.down);
}

/* Heartbeats cost no log entry; what runs is not state, but for the end of a wait. */
static void take_heartbeat(struct session *session, const Ckpt__V1__AgentHeartbeat *heartbeat)
{
    if (session_node(session) == NULL || is_repeated(session, heartbeat->sequence))
        return;
    nodes_heard(session->dispatcher->broker->nodes, session->slot, heartbeat);
    nodes_reached(session->dispatcher->broker->nodes, session->slot, heartbeat->node_probe,
                  rpc_call_peer(session->call)->address);
    restarter_heard(session->dispatcher->broker->restarter, session->slot, heartbeat);
    hangs_heard(session->dispatcher->broker->hangs, session->slot, heartbeat);
    tell_revoked(session, heartbeat);
    tell_awaited(session, heartbeat);
}

/* ---- up ---- */

/* The first message must be a hello: it says for whom the stream speaks. Any later message proves
 * that the agent outlived its welcome. */
static void take_message(struct session *session, Ckpt__V1__AgentUp *up)
{
    if (up->body_case != CKPT__V1__AGENT_UP__BODY_HELLO && !session->greeted) {
        session_finish(session, RPC_INVALID_ARGUMENT, "the first message must be hello");
        return;
    }
    if (session->doubted && up->body_case != CKPT__V1__AGENT_UP__BODY_HELLO &&
        !session_believe(session))
        return;
    switch (up->body_case) {
    case CKPT__V1__AGENT_UP__BODY_HELLO:
        take_hello(session, up->hello);
        return;
    case CKPT__V1__AGENT_UP__BODY_HEARTBEAT:
        take_heartbeat(session, up->heartbeat);
        return;
    case CKPT__V1__AGENT_UP__BODY_REPORT:
        take_report(session, up->report);
        return;
    case CKPT__V1__AGENT_UP__BODY_SCAN_PAGE:
        if (session_node(session) != NULL)
            scanner_take_page(session->dispatcher->broker->scanner, session->slot, up->scan_page);
        return;
    case CKPT__V1__AGENT_UP__BODY__NOT_SET:
    case _CKPT__V1__AGENT_UP__BODY__CASE_IS_INT_SIZE:
        break;
    }
    session_finish(session, RPC_INVALID_ARGUMENT, "a message without a body");
}

static void on_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct session *session = rpc_call_data(call);
    Ckpt__V1__AgentUp *up;

    (void)data;
    if (session == NULL)
        return;
    up = ckpt__v1__agent_up__unpack(NULL, length, bytes);
    if (up == NULL) {
        session_finish(session, RPC_INVALID_ARGUMENT, "the message does not decode as AgentUp");
        return;
    }
    take_message(session, up);
    ckpt__v1__agent_up__free_unpacked(up, NULL);
}

/* A stream begins. It may stay without hello for ever: it holds no node's place. */
static void on_request(struct rpc_call *call, void *data)
{
    struct dispatcher *dispatcher = data;
    struct session *session;

    if (!dispatcher->serving) {
        if (replica_serving(dispatcher->broker->replica))
            answer_passive(call);
        else
            answer_not_leader(dispatcher->broker, call);
        return;
    }
    session = check_calloc(1, sizeof(*session));
    session->dispatcher = dispatcher;
    session->call = call;
    session->slot = SLOT_NONE;
    list_push_back(&dispatcher->sessions, &session->node);
    rpc_call_set_data(call, session);
}

static void on_half_close(struct rpc_call *call, void *data)
{
    struct session *session = rpc_call_data(call);

    (void)data;
    if (session != NULL)
        session_finish(session, RPC_OK, NULL);
}

/* The buffer has room again: the set that waited is sent as it is now. */
static void on_writable(struct rpc_call *call, void *data)
{
    struct session *session = rpc_call_data(call);

    (void)data;
    if (session == NULL)
        return;
    session->blocked = false;
    if (session->dirty && session->slot != SLOT_NONE)
        session_send_orders(session);
}

static void on_cancel(struct rpc_call *call, void *data)
{
    struct session *session = rpc_call_data(call);

    (void)data;
    if (session == NULL)
        return;
    if (session->slot != SLOT_NONE)
        log_info("agent_disconnected", "node=%s", session->node_id);
    session_detach(session);
    session->call = NULL;
    session_release(session);
}

/* ---- for dispatcher.c ---- */

void dispatcher_sessions_serve(struct dispatcher *dispatcher)
{
    static const struct rpc_handlers handlers = {.on_request = on_request,
                                                 .on_message = on_message,
                                                 .on_half_close = on_half_close,
                                                 .on_writable = on_writable,
                                                 .on_cancel = on_cancel};

    rpc_server_add_method(dispatcher->broker->rpc, SESSION_METHOD, true, true, &handlers,
                          dispatcher);
}

/* The state lists the nodes whose orders changed since it was asked last. A node without a stream
 * on this member gets its orders when it says hello. */
void dispatcher_sessions_changed(struct dispatcher *dispatcher)
{
    struct fsm *fsm = replica_fsm_mutable(dispatcher->broker->replica);
    uint32_t slot;

    while (fsm_take_changed_node(fsm, &slot)) {
        struct session *session = slot < dispatcher->slot_count ? dispatcher->by_slot[slot] : NULL;

        if (session == NULL)
            continue;
        if (session_node(session) != NULL)
            session_send_orders(session);
        else
            session_removed(session);
    }
}

/* Leadership is over: each agent is told who leads, and comes to that member. Sessions with
 * proposals in flight stay until these are answered. */
void dispatcher_sessions_end(struct dispatcher *dispatcher)
{
    struct list *node = dispatcher->sessions.next;

    while (node != &dispatcher->sessions) {
        struct session *session = LIST_ITEM(node, struct session, node);

        node = node->next;
        if (session->call == NULL)
            continue;
        answer_not_leader(dispatcher->broker, session_take_call(session));
    }
    CHECK(dispatcher->attached_count == 0);
}

/* After the server is freed: no call will tell anything any more. */
void dispatcher_sessions_close(struct dispatcher *dispatcher)
{
    while (!list_empty(&dispatcher->sessions)) {
        struct session *session = LIST_ITEM(dispatcher->sessions.next, struct session, node);

        if (session->call != NULL)
            rpc_call_set_data(session->call, NULL);
        list_remove(&session->node);
        free(session);
    }
}
