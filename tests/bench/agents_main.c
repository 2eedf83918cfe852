/* Many node agents in one process: each has a connection, a stream and a job of its own, sends
 * heartbeats and reports as ckpt-agentd does, and takes orders.
 *
 * Flow     all streams are opened; when the leader has welcomed every agent, a job is registered on
 *          each node, and its agent reports that it has started. Then checkpoints of the jobs are
 *          asked for in turn, so many a second. The agent that gets the order reports STARTED and
 *          SHARD_VERIFIED at once: nothing is written. Each phase ends with a line of JSON on
 *          stdout. A line on stdin begins the next phase: "load SECONDS PER_S", "back" (waits until
 *          all are welcomed by a later leader), "quit".
 * Shapes   COUNT agents, each with an rpc_follow (a connection) and at most REPORTS_MAX reports
 *          that are not acknowledged; the client that registers and asks has one connection more.
 * Units    milliseconds in the output.
 * Errors   the program ends with 1 when a stream is refused for ever, or a request fails.
 * Usage    agents ENDPOINTS COUNT [CA_FOLDER]; with the folder of a CA each agent is issued a
 *          certificate of its own there, and the client has that of CKPT_CERT. All come back at
 *          once, as those on hosts of their own do, though one thread does all handshakes of this
 *          side.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "ckpt/v1/agent.pb-c.h"
#include "ckpt/v1/broker.pb-c.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/client/client.h"
#include "src/tls/authority.h"
#include "src/tls/context.h"

#define SESSION_METHOD "/ckpt.v1.AgentService/Session"
#define REPORT(name)   CKPT__V1__REPORT_KIND__REPORT_KIND_##name

/* for the orders of the last requests */
#define LINGER_NS UINT64_C(5000000000)

enum {
    REPORTS_MAX = 16,
    RETRY_MIN_MS = 50, /* as src/agent/daemon/session.c */
    RETRY_MAX_MS = 1000,
    WELCOME_WAIT_MS = 3000,
    DIAL_MAX_MS = 16000,
    REGISTRATIONS = 64, /* in flight */
    SAMPLES_MAX = 1 << 20,
    NAME_BYTES = 32
};

struct report {
    uint64_t sequence, checkpoint_id, run;
    uint32_t attempt;
    Ckpt__V1__ReportKind kind;
};

struct agent {
    uint32_t number;
    struct rpc_follow *follow;
    struct rpc_client_call *call;
    uv_timer_t timer; /* dial again, give up on a welcome, or the next heartbeat */
    bool welcomed;
    uint64_t retry_ms, interval_ms, heartbeats;
    uint64_t epoch, term;
    uint64_t sequence, sent_sequence; /* of reports: given, and sent on this stream */
    struct report reports[REPORTS_MAX];
    size_t report_count;
    uint64_t run, started_run; /* of its job: as told, and as reported */
    uint64_t checkpoint_id;
    uint32_t attempt;
    uint64_t asked_ns; /* a checkpoint of its job was asked for; 0: none is awaited */
};

struct samples {
    uint32_t us[SAMPLES_MAX];
    size_t count;
};

static uv_loop_t *loop;
static struct agent *agents;
static uint32_t agent_count, welcomed_count, started_count;
static uint64_t welcomes, stream_ends, began_ns;
static struct client *client;
static uint32_t registered, register_next;
static struct samples order, answer; /* request to order at the agent; request to its answer */
static uint64_t load_end_ns, load_period_ns, load_due_ns, asked, refused;
static uint32_t load_next;
static uv_timer_t load_timer;
static char line[128];
static size_t line_length;

static void agent_dial(struct agent *agent);

static void fail(const char *what, const char *text)
{
    fprintf(stderr, "agents: %s: %s\n", what, text);
    exit(1);
}

static double seconds_since(uint64_t ns)
{
    return (double)(uv_hrtime() - ns) / 1e9;
}

/* ---- what was measured ---- */

static void sample(struct samples *samples, uint64_t began)
{
    if (samples->count < SAMPLES_MAX)
        samples->us[samples->count++] = (uint32_t)((uv_hrtime() - began) / 1000);
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return (left > right) - (left < right);
}

static double quantile_ms(struct samples *samples, double q)
{
    if (samples->count == 0)
        return 0;
    qsort(samples->us, samples->count, sizeof(samples->us[0]), compare);
    return samples->us[(size_t)((double)(samples->count - 1) * q)] / 1e3;
}

static void say_load(void)
{
    printf(
        "{\"phase\": \"load\", \"asked\": %" PRIu64 ", \"refused\": %" PRIu64
        ", \"orders\": %zu, \"order_p50_ms\": %.1f, \"order_p99_ms\": %.1f, \"order_max_ms\": "
        "%.1f, \"answer_p50_ms\": %.1f, \"answer_p99_ms\": %.1f, \"stream_ends\": %" PRIu64 "}\n",
        asked, refused, order.count, quantile_ms(&order, .5), quantile_ms(&order, .99),
        quantile_ms(&order, 1), quantile_ms(&answer, .5), quantile_ms(&answer, .99), stream_ends);
    fflush(stdout);
}

/* ---- up ---- */

static void job_name(const struct agent *agent, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "job-%" PRIu32, agent->number);
}

static void node_name(const struct agent *agent, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "host-%" PRIu32, agent->number); /* load.go has nodes of its own */
}

static void send_up(struct agent *agent, const Ckpt__V1__AgentUp *up)
{
    struct buf bytes;

    buf_init(&bytes);
    ckpt__v1__agent_up__pack(up, buf_extend(&bytes, ckpt__v1__agent_up__get_packed_size(up)));
    (void)rpc_client_call_send(agent->call, bytes.bytes, bytes.length);
    buf_close(&bytes);
}

static void send_hello(struct agent *agent)
{
    static char version[] = "bench", machine[] = "x86_64", os[] = "debian 12";
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
    Ckpt__V1__AgentHello hello = CKPT__V1__AGENT_HELLO__INIT;
    char node[NAME_BYTES], boot[NAME_BYTES + 8];

    node_name(agent, node);
    snprintf(boot, sizeof(boot), "boot-%s", node);
    hello.node_id = node;
    hello.boot_id = boot;
    hello.version = version;
    hello.machine = machine;
    hello.os = os;
    hello.highest_epoch = agent->epoch;
    hello.highest_term = agent->term;
    hello.last_report_sequence = agent->sequence;
    hello.agent_started_at_ms = 1 + agent->number;
    up.body_case = CKPT__V1__AGENT_UP__BODY_HELLO;
    up.hello = &hello;
    send_up(agent, &up);
}

static void send_heartbeat(struct agent *agent)
{
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
    Ckpt__V1__AgentHeartbeat heartbeat = CKPT__V1__AGENT_HEARTBEAT__INIT;
    Ckpt__V1__RunningAllocation running = CKPT__V1__RUNNING_ALLOCATION__INIT, *list[] = {&running};
    char job[NAME_BYTES];

    job_name(agent, job);
    running.allocation_id = job;
    running.pid = 1000 + agent->number;
    running.started_at_ms = 1;
    running.run = agent->started_run;
    heartbeat.sequence = ++agent->heartbeats;
    heartbeat.load_milli = 1000;
    heartbeat.gpu_count = 8;
    heartbeat.last_report_sequence = agent->sequence;
    heartbeat.n_running = agent->started_run != 0;
    heartbeat.running = list;
    up.body_case = CKPT__V1__AGENT_UP__BODY_HEARTBEAT;
    up.heartbeat = &heartbeat;
    send_up(agent, &up);
}

static void send_report(struct agent *agent, const struct report *report)
{
    static char digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
    Ckpt__V1__AgentReport message = CKPT__V1__AGENT_REPORT__INIT;
    char job[NAME_BYTES];

    job_name(agent, job);
    message.sequence = report->sequence;
    message.kind = report->kind;
    message.allocation_id = job;
    message.checkpoint_id = report->checkpoint_id;
    message.attempt = report->attempt;
    message.run = report->run;
    if (report->kind == REPORT(SHARD_VERIFIED)) {
        message.size_bytes = UINT64_C(1) << 30;
        message.written_bytes = message.size_bytes;
        message.manifest_sha256 = digest;
        message.write_ms = 1000;
        message.ranks = 1;
        message.rank_print = rank_print(0);
    }
    up.body_case = CKPT__V1__AGENT_UP__BODY_REPORT;
    up.report = &message;
    send_up(agent, &up);
}

static void send_reports(struct agent *agent)
{
    for (size_t i = 0; agent->welcomed && i < agent->report_count; i++) {
        if (agent->reports[i].sequence <= agent->sent_sequence)
            continue;
        agent->sent_sequence = agent->reports[i].sequence;
        send_report(agent, &agent->reports[i]);
    }
}

static void add_report(struct agent *agent, Ckpt__V1__ReportKind kind)
{
    CHECK(agent->report_count < REPORTS_MAX);
    agent->reports[agent->report_count++] = (struct report){
        ++agent->sequence, kind == REPORT(APPLICATION_STARTED) ? 0 : agent->checkpoint_id,
        agent->run, kind == REPORT(APPLICATION_STARTED) ? 0 : agent->attempt, kind};
}

/* ---- down ---- */

static void drop_reports(struct agent *agent, uint64_t upto)
{
    size_t count = 0;

    while (count < agent->report_count && agent->reports[count].sequence <= upto) {
        if (agent->reports[count].kind == REPORT(APPLICATION_STARTED) &&
            ++started_count == agent_count) {
            printf("{\"phase\": \"started\", \"seconds\": %.2f}\n", seconds_since(began_ns));
            fflush(stdout);
        }
        count++;
    }
    agent->report_count -= count;
    memmove(agent->reports, agent->reports + count, agent->report_count * sizeof(struct report));
}

static void take_checkpoint(struct agent *agent, const Ckpt__V1__Order *wanted)
{
    if (wanted->checkpoint_id < agent->checkpoint_id ||
        (wanted->checkpoint_id == agent->checkpoint_id && wanted->attempt <= agent->attempt))
        return;
    agent->checkpoint_id = wanted->checkpoint_id;
    agent->attempt = wanted->attempt;
    if (agent->asked_ns != 0)
        sample(&order, agent->asked_ns);
    agent->asked_ns = 0;
    add_report(agent, REPORT(STARTED));
    add_report(agent, REPORT(SHARD_VERIFIED));
}

static void take_orders(struct agent *agent, const Ckpt__V1__OrderSet *set)
{
    for (size_t i = 0; i < set->n_parts; i++) {
        const Ckpt__V1__AllocationPart *part = set->parts[i];

        agent->run = part->run;
        if (part->begin == CKPT__V1__BEGIN_STATE__BEGIN_STATE_MAY &&
            agent->started_run < part->run) {
            agent->started_run = part->run;
            add_report(agent, REPORT(APPLICATION_STARTED));
        }
    }
    for (size_t i = 0; i < set->n_orders; i++)
        if (set->orders[i]->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_CHECKPOINT)
            take_checkpoint(agent, set->orders[i]);
    send_reports(agent);
}

static void on_heartbeat(uv_timer_t *timer)
{
    struct agent *agent = timer->data;

    send_heartbeat(agent);
}

static void take_welcome(struct agent *agent, const Ckpt__V1__AgentWelcome *welcome)
{
    agent->welcomed = true;
    rpc_follow_reached(agent->follow);
    agent->retry_ms = RETRY_MIN_MS;
    agent->epoch = welcome->epoch;
    agent->term = welcome->term;
    agent->interval_ms = welcome->heartbeat_interval_ms;
    agent->sent_sequence = welcome->acknowledged_report_sequence;
    welcomes++;
    welcomed_count++;
    drop_reports(agent, welcome->acknowledged_report_sequence);
    send_heartbeat(agent);
    send_reports(agent);
    uv_timer_start(&agent->timer, on_heartbeat, agent->interval_ms, agent->interval_ms);
    if (welcomed_count < agent_count)
        return;
    printf("{\"phase\": \"welcomed\", \"agents\": %" PRIu32
           ", \"seconds\": %.2f, \"term\": %" PRIu64 "}\n",
           welcomed_count, seconds_since(began_ns), agent->term);
    fflush(stdout);
}

static void on_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                       size_t length)
{
    struct agent *agent = data;
    Ckpt__V1__AgentDown *down = ckpt__v1__agent_down__unpack(NULL, length, bytes);

    (void)call;
    CHECK(down != NULL);
    if (down->body_case == CKPT__V1__AGENT_DOWN__BODY_WELCOME)
        take_welcome(agent, down->welcome);
    else if (down->body_case == CKPT__V1__AGENT_DOWN__BODY_ACK)
        drop_reports(agent, down->ack->sequence);
    else if (down->body_case == CKPT__V1__AGENT_DOWN__BODY_ORDERS)
        take_orders(agent, down->orders);
    ckpt__v1__agent_down__free_unpacked(down, NULL);
}

/* ---- streams ---- */

static void on_retry(uv_timer_t *timer)
{
    agent_dial(timer->data);
}

static void on_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct agent *agent = data;
    uint64_t delay_ms = RETRY_MAX_MS;

    (void)call;
    agent->call = NULL;
    stream_ends++;
    if (agent->welcomed) {
        if (welcomed_count-- == agent_count) /* the first of a leader that is gone */
            began_ns = uv_hrtime();
        agent->welcomed = false;
    }
    if (!rpc_follow_result(agent->follow, end, &delay_ms)) {
        if (end->status != RPC_ABORTED)
            fail("a stream is refused", end->message);
        rpc_follow_move(agent->follow, NULL);
        delay_ms = RETRY_MAX_MS;
    }
    if (delay_ms < agent->retry_ms)
        delay_ms = agent->retry_ms;
    agent->retry_ms =
        agent->retry_ms * 2 < RETRY_MAX_MS ? agent->retry_ms * 2 : (uint64_t)RETRY_MAX_MS;
    uv_timer_start(&agent->timer, on_retry, delay_ms, 0);
}

static void on_no_welcome(uv_timer_t *timer)
{
    struct agent *agent = timer->data;
    const struct rpc_end end = {.status = RPC_UNAVAILABLE, .message = "no welcome", .sent = true};

    rpc_client_call_cancel(agent->call);
    on_end(NULL, agent, &end);
}

static void agent_dial(struct agent *agent)
{
    static const struct rpc_client_handlers handlers = {.on_message = on_message, .on_end = on_end};

    CHECK(agent->call == NULL);
    agent->heartbeats = 0;
    uv_timer_start(&agent->timer, on_no_welcome,
                   WELCOME_WAIT_MS + rpc_follow_dial_ms(agent->follow), 0);
    agent->call = rpc_channel_open(rpc_follow_channel(agent->follow), SESSION_METHOD, 0, false,
                                   &handlers, agent);
    send_hello(agent);
}

/* ---- jobs ---- */

static void register_more(void);

static void on_registered(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    (void)data, (void)reply;
    if (status != RPC_OK)
        fail("a registration fails", text);
    registered++;
    register_more();
}

static void register_more(void)
{
    while (register_next < agent_count && register_next - registered < REGISTRATIONS) {
        Ckpt__V1__RegisterAllocationRequest request = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
        Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
        Ckpt__V1__NodeShare node = CKPT__V1__NODE_SHARE__INIT, *nodes[] = {&node};
        static char tenant[] = "bench", owner[] = "load", vcluster[] = "hpc";
        const struct agent *agent = &agents[register_next++];
        char job[NAME_BYTES], name[NAME_BYTES], id[NAME_BYTES + 4];

        job_name(agent, job);
        node_name(agent, name);
        snprintf(id, sizeof(id), "r-%s", job);
        node.node_id = name;
        node.gpu_count = 8;
        node.gpu_memory_used_bytes = UINT64_C(64) << 30;
        spec.allocation_id = job;
        spec.tenant = spec.project = tenant;
        spec.owner = owner;
        spec.vcluster = vcluster;
        spec.n_nodes = 1;
        spec.nodes = nodes;
        request.request_id = id;
        request.spec = &spec;
        client_call(client,
                    &(struct client_request){.method = "BrokerService/RegisterAllocation",
                                             .message = &request.base,
                                             .reply_type = &ckpt__v1__mutation_reply__descriptor,
                                             .timeout_ms = 60000},
                    on_registered, NULL);
    }
}

/* ---- load ---- */

static void on_asked(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct agent *agent = data;

    (void)text, (void)reply;
    if (status != RPC_OK) {
        refused++;
        agent->asked_ns = 0;
    }
}

struct question {
    struct agent *agent;
    uint64_t began_ns;
};

static void on_answered(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct question *question = data;

    sample(&answer, question->began_ns);
    on_asked(question->agent, status, text, reply);
    free(question);
}

static void ask_next(void)
{
    Ckpt__V1__RequestCheckpointRequest request = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;
    struct question *question = check_calloc(1, sizeof(*question));
    struct agent *agent = &agents[load_next];
    char job[NAME_BYTES], id[64];

    load_next = (load_next + 1) % agent_count;
    job_name(agent, job);
    snprintf(id, sizeof(id), "ask-%" PRIu64, ++asked);
    request.request_id = id;
    request.allocation_id = job;
    agent->asked_ns = uv_hrtime();
    *question = (struct question){agent, agent->asked_ns};
    client_call(client,
                &(struct client_request){.method = "BrokerService/RequestCheckpoint",
                                         .message = &request.base,
                                         .reply_type = &ckpt__v1__mutation_reply__descriptor},
                on_answered, question);
}

static void on_load(uv_timer_t *timer)
{
    uint64_t now = uv_hrtime();

    if (now >= load_end_ns + LINGER_NS || (now >= load_end_ns && order.count + refused >= asked)) {
        uv_timer_stop(timer);
        say_load();
        return;
    }
    if (now >= load_end_ns)
        return;
    for (; load_due_ns <= now; load_due_ns += load_period_ns)
        ask_next();
}

/* ---- phases ---- */

static void begin_load(double seconds, double per_s)
{
    order.count = answer.count = 0;
    asked = refused = stream_ends = 0;
    load_due_ns = uv_hrtime();
    load_end_ns = load_due_ns + (uint64_t)(seconds * 1e9);
    load_period_ns = (uint64_t)(1e9 / per_s);
    uv_timer_start(&load_timer, on_load, 1, 1);
}

static void take_line(const char *words)
{
    double seconds, per_s;

    if (sscanf(words, "load %lf %lf", &seconds, &per_s) == 2)
        begin_load(seconds, per_s);
    else if (strcmp(words, "register") == 0) {
        began_ns = uv_hrtime();
        register_more();
    } else
        exit(0); /* quit, or the end */
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
    (void)stream;
    if (length < 0)
        exit(0);
    for (ssize_t i = 0; i < length; i++) {
        if (buffer->base[i] != '\n' && line_length + 1 < sizeof(line)) {
            line[line_length++] = buffer->base[i];
            continue;
        }
        line[line_length] = '\0';
        line_length = 0;
        take_line(line);
    }
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    static char bytes[256];

    (void)handle, (void)size;
    *buffer = uv_buf_init(bytes, sizeof(bytes));
}

/* NULL without a CA: plain connections. */
static const struct tls_context *context_of(const struct agent *agent, const char *ca)
{
    char node[NAME_BYTES], ca_file[512], cert[512], key[512];
    struct tls_context *context;
    struct err err;

    if (ca == NULL)
        return NULL;
    node_name(agent, node);
    if (tls_authority_issue(
            ca, ca,
            &(struct tls_order){.kind = TLS_AGENT, .name = node, .valid_s = 86400, .replace = true},
            &err) != 0)
        fail("a certificate", err.text);
    snprintf(ca_file, sizeof(ca_file), "%s/" TLS_AUTHORITY_CERT, ca);
    snprintf(cert, sizeof(cert), "%s/agent-%s.crt", ca, node);
    snprintf(key, sizeof(key), "%s/agent-%s.key", ca, node);
    if (tls_context_new(&(struct tls_files){.ca = ca_file, .cert = cert, .key = key}, NULL,
                        &context, &err) != 0)
        fail("a certificate", err.text);
    return context;
}

static void agents_start(const char *endpoints, const char *ca)
{
    struct err err;

    for (uint32_t i = 0; i < agent_count; i++) {
        struct agent *agent = &agents[i];
        struct rpc_channel_config channel = {.connect_timeout_max_ms = DIAL_MAX_MS,
                                             .message_max_bytes = 4 << 20};

        agent->number = i;
        agent->retry_ms = RETRY_MIN_MS;
        channel.tls = context_of(agent, ca);
        if (rpc_follow_new(loop, endpoints, &channel, &agent->follow, &err) != 0)
            fail("endpoints", err.text);
        CHECK(uv_timer_init(loop, &agent->timer) == 0);
        agent->timer.data = agent;
    }
    uv_update_time(loop);
    began_ns = uv_hrtime();
    for (uint32_t i = 0; i < agent_count; i++)
        uv_timer_start(&agents[i].timer, on_retry, i / 10, 0); /* ten thousand a second */
}

int main(int argc, char **argv)
{
    struct client_config config = {.timeout_ms = 30000};
    struct tls_context *tls;
    struct rlimit files;
    static uv_pipe_t pipe;
    struct err err;

    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: agents ENDPOINTS COUNT [CA_FOLDER]\n");
        return 2;
    }
    loop = uv_default_loop();
    agent_count = (uint32_t)strtoul(argv[2], NULL, 10);
    if (agent_count == 0)
        fail("COUNT must be at least 1", argv[2]);
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    if (files.rlim_max < agent_count + 64)
        fail("too few file descriptors", "raise ulimit -n");
    agents = check_calloc(agent_count, sizeof(*agents));
    if (client_tls(&(struct tls_files){0}, &tls, &err) != 0)
        fail("CKPT_CERT", err.text);
    config.endpoints = argv[1];
    config.tls = tls;
    if (client_new(loop, &config, &client, &err) != 0)
        fail("client", err.text);
    agents_start(argv[1], argv[3]);
    CHECK(uv_timer_init(loop, &load_timer) == 0);
    CHECK(uv_pipe_init(loop, &pipe, 0) == 0);
    CHECK(uv_pipe_open(&pipe, 0) == 0);
    CHECK(uv_read_start((uv_stream_t *)&pipe, on_alloc, on_read) == 0);
    return uv_run(loop, UV_RUN_DEFAULT);
}
