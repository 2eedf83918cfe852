/* Probes of a member while a drill measures. See prober.h. */
#include "src/broker/drill/prober.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "fsm/drill.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/api/answer.h"
#include "src/rpc/follow.h"

enum { ENDPOINTS_BYTES = RPC_FOLLOW_ENDPOINTS_MAX * 264, ID_BYTES = 96 };

struct prober {
    struct broker *broker;
    struct prober_config config;
    struct rpc_follow *follow;
    struct clock_timer *timer;
    const char *path; /* of the call under way, or to be repeated */
    struct buf request;
    bool in_flight, waits; /* for an answer; to repeat the call */
    bool stopped, quiet_told, telling;
    bool closing; /* the call under way ends for nobody */
    uint64_t answered;
    uint64_t begun_ms, answered_at_ms, away_ms; /* the last begin and answer; the longest pause */
};

static void add_endpoint(char text[ENDPOINTS_BYTES], const char *address)
{
    size_t used = strlen(text);

    if (address[0] != '\0')
        snprintf(text + used, ENDPOINTS_BYTES - used, "%s%.255s", used == 0 ? "" : ",", address);
}

/* The members' addresses, as clients know them. */
static void list_endpoints(const struct broker *broker, char text[ENDPOINTS_BYTES])
{
    struct consensus_status raft;
    struct answer_member member;

    _Static_assert((int)CONSENSUS_MEMBERS_MAX <= (int)RPC_FOLLOW_ENDPOINTS_MAX,
                   "an endpoint for each member");
    replica_get_status(broker->replica, &raft);
    text[0] = '\0';
    for (size_t i = 0; i < raft.peer_count; i++)
        if (answer_find_member(broker, raft.peers[i].id, &member))
            add_endpoint(text, member.api);
    if (answer_find_member(broker, broker->config->self->id, &member))
        add_endpoint(text, member.api);
}

static void pack_request(struct prober *prober, const ProtobufCMessage *message)
{
    size_t length = protobuf_c_message_get_packed_size(message);

    buf_clear(&prober->request);
    CHECK(protobuf_c_message_pack(message, buf_extend(&prober->request, length)) == length);
}

static void call_ended(struct rpc_client_call *call, void *data, const struct rpc_end *end);

static void send_request(struct prober *prober)
{
    static const struct rpc_client_handlers handlers = {.on_end = call_ended};
    const struct rpc_request request = {.path = prober->path,
                                        .bytes = prober->request.bytes,
                                        .length = prober->request.length,
                                        .timeout_ms = PROBER_TIMEOUT_MS};

    CHECK(!prober->in_flight);
    prober->in_flight = true;
    prober->waits = false;
    (void)rpc_channel_unary(rpc_follow_channel(prober->follow), &request, &handlers, prober);
}

static void begin_probe(struct prober *prober)
{
    Ckpt__V1__ProbeDrillRequest probe = CKPT__V1__PROBE_DRILL_REQUEST__INIT;
    char id[ID_BYTES];

    snprintf(id, sizeof(id), "drill-%" PRIu64 "-%" PRIu64 "-%" PRIu64 "-%" PRIu64,
             prober->config.drill_id, prober->config.member_id, prober->config.run,
             prober->answered);
    probe.request_id = id;
    probe.drill_id = prober->config.drill_id;
    probe.member_id = prober->config.member_id;
    probe.run = prober->config.run;
    pack_request(prober, &probe.base);
    prober->path = "/ckpt.v1.OperatorService/ProbeDrill";
    prober->begun_ms = broker_monotonic_ms(prober->broker);
    send_request(prober);
}

static void tell_quiet(struct prober *prober)
{
    if (!prober->stopped || prober->quiet_told || prober->in_flight || prober->waits)
        return;
    prober->quiet_told = true;
    prober->config.quiet(prober->config.data);
}

static uint64_t pause_ms(const struct prober *prober)
{
    return broker_monotonic_ms(prober->broker) - prober->answered_at_ms;
}

static void take_answer(struct prober *prober, const struct rpc_end *end)
{
    uint64_t paused_ms = pause_ms(prober);
    uint64_t age_ms = broker_monotonic_ms(prober->broker) - prober->begun_ms;

    if (end->status != RPC_OK) {
        log_warning("drill_probe_refused", "drill=%" PRIu64 " text=\"%s\"", prober->config.drill_id,
                    end->message);
        prober->stopped = true;
        tell_quiet(prober);
        return;
    }
    if (paused_ms > prober->away_ms)
        prober->away_ms = paused_ms;
    prober->answered_at_ms = broker_monotonic_ms(prober->broker);
    prober->answered++;
    if (prober->stopped)
        tell_quiet(prober);
    else
        prober->broker->clock.timer_start(
            prober->timer, age_ms >= PROBER_INTERVAL_MS ? 0 : (PROBER_INTERVAL_MS - age_ms) * 1000);
}

/* Short pauses: what is measured is the cluster, not the patience of its client. */
static void call_ended(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct prober *prober = data;
    uint64_t delay_ms;

    (void)call;
    if (prober->closing)
        return;
    prober->in_flight = false;
    if (rpc_follow_result(prober->follow, end, &delay_ms)) {
        prober->waits = true;
        prober->broker->clock.timer_start(
            prober->timer, (delay_ms < PROBER_RETRY_MS ? delay_ms : PROBER_RETRY_MS) * 1000);
    } else if (prober->telling) {
        if (end->status != RPC_OK)
            log_warning("drill_word_refused", "drill=%" PRIu64 " text=\"%s\"",
                        prober->config.drill_id, end->message);
        prober->config.told(prober->config.data);
    } else {
        take_answer(prober, end);
    }
}

static void on_timer(void *data)
{
    struct prober *prober = data;

    if (prober->waits)
        send_request(prober);
    else if (!prober->stopped && !prober->in_flight)
        begin_probe(prober);
}

struct prober *prober_start(struct broker *broker, const struct prober_config *config)
{
    const struct rpc_channel_config channel = {.tls = config->tls,
                                               .connect_timeout_ms = PROBER_TIMEOUT_MS,
                                               .backoff_min_ms = PROBER_RETRY_MS,
                                               .backoff_max_ms = PROBER_RETRY_MS};
    struct prober *prober = check_calloc(1, sizeof(*prober));
    char endpoints[ENDPOINTS_BYTES];
    struct err err;

    CHECK(config->quiet != NULL && config->told != NULL);
    list_endpoints(broker, endpoints);
    if (rpc_follow_new(broker->loop, endpoints, &channel, &prober->follow, &err) != 0) {
        log_warning("drill_prober", "text=\"%s\"", err.text);
        free(prober);
        return NULL;
    }
    prober->broker = broker;
    prober->config = *config;
    buf_init(&prober->request);
    prober->timer = broker->clock.timer_new(broker->clock.context, on_timer, prober);
    prober->answered_at_ms = broker_monotonic_ms(broker);
    broker->clock.timer_start(prober->timer, 0);
    return prober;
}

void prober_free(struct prober *prober)
{
    if (prober == NULL)
        return;
    prober->closing = true;
    rpc_follow_free(prober->follow); /* ends the call */
    prober->broker->clock.timer_free(prober->timer);
    buf_close(&prober->request);
    free(prober);
}

void prober_stop(struct prober *prober)
{
    prober->stopped = true;
    tell_quiet(prober);
}

void prober_tell(struct prober *prober, const Ckpt__V1__DrillWord *word)
{
    Ckpt__V1__TellDrillRequest told = CKPT__V1__TELL_DRILL_REQUEST__INIT;
    char id[ID_BYTES];

    CHECK(prober->quiet_told && !prober->telling);
    snprintf(id, sizeof(id), "drill-%" PRIu64 "-%" PRIu64 "-%" PRIu64 "-word",
             prober->config.drill_id, prober->config.member_id, prober->config.run);
    told.request_id = id;
    told.drill_id = prober->config.drill_id;
    told.member_id = prober->config.member_id;
    told.word = (Ckpt__V1__DrillWord *)(uintptr_t)word;
    pack_request(prober, &told.base);
    prober->path = "/ckpt.v1.OperatorService/TellDrill";
    prober->telling = true;
    send_request(prober);
}

uint64_t prober_answered(const struct prober *prober)
{
    return prober->answered;
}

/* One that has stopped waits for nothing. */
uint64_t prober_away_ms(const struct prober *prober)
{
    uint64_t paused_ms = prober->stopped ? 0 : pause_ms(prober);

    return paused_ms > prober->away_ms ? paused_ms : prober->away_ms;
}
