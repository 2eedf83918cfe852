/* The same question to several members at the same time, on one loop: a hung member does not delay
 * the others' answers. */
#include <stdlib.h>
#include <string.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/client/client.h"

struct question {
    struct call_answer *answer;
    const ProtobufCMessageDescriptor *reply_type;
    struct rpc_channel *channel;
    struct rpc_client_call *call; /* NULL: ended */
    bool ended;
    struct round *round;
};

struct round {
    uv_loop_t loop;
    uv_timer_t patience; /* started by the first answer */
    bool quick;
    struct question questions[CALL_ENDPOINTS_MAX];
    size_t count;
    size_t open_count;
};

void call_free(ProtobufCMessage *message)
{
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, NULL);
}

bool call_is_about_tls(const char *text)
{
    return strstr(text, "TLS: ") != NULL || strstr(text, "wants TLS") != NULL;
}

static bool endpoint_known(const struct call_answer *answers, size_t count, const char *endpoint,
                           size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(answers[i].endpoint) == length &&
            memcmp(answers[i].endpoint, endpoint, length) == 0)
            return true;
    return false;
}

size_t call_endpoints(struct cli *cli, struct call_answer answers[CALL_ENDPOINTS_MAX])
{
    size_t count = 0;

    for (const char *p = cli->endpoints; *p != '\0' && count < CALL_ENDPOINTS_MAX;) {
        size_t length = strcspn(p, ",");

        if (length > 0 && length < CALL_ENDPOINT_BYTES &&
            !endpoint_known(answers, count, p, length)) {
            answers[count] = (struct call_answer){.status = RPC_UNKNOWN};
            memcpy(answers[count].endpoint, p, length);
            count++;
        }
        p += length + (p[length] == ',');
    }
    return count;
}

static void on_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                       size_t length)
{
    struct question *question = data;

    (void)call;
    if (question->answer->reply == NULL) {
        question->answer->reply =
            protobuf_c_message_unpack(question->reply_type, NULL, length, bytes);
    }
}

static void on_patience_over(uv_timer_t *timer)
{
    struct round *round = timer->data;

    for (size_t i = 0; i < round->count; i++) {
        struct question *question = &round->questions[i];

        if (!question->ended) {
            rpc_client_call_cancel(question->call);
            question->ended = true;
            round->open_count--;
            call_free(question->answer->reply);
            question->answer->reply = NULL;
            question->answer->status = RPC_DEADLINE_EXCEEDED;
            err_set(&question->answer->err, ERR_TIMEOUT, "no answer within %d ms of the first one",
                    CALL_QUICK_MS);
        }
    }
}

static void on_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct question *question = data;
    struct call_answer *answer = question->answer;

    (void)call;
    CHECK(question->round->open_count > 0 && !question->ended);
    question->round->open_count--;
    question->ended = true;
    answer->status = end->status;
    if (end->status == RPC_OK && answer->reply == NULL) {
        answer->status = RPC_INTERNAL;
        err_set(&answer->err, ERR_CORRUPT, "the answer is not the expected message");
    } else if (end->status != RPC_OK) {
        err_set(&answer->err, ERR_UNAVAILABLE, "%s",
                end->message[0] != '\0' ? end->message : rpc_status_name(end->status));
        call_free(answer->reply);
        answer->reply = NULL;
    } else if (question->round->quick && !uv_is_active((uv_handle_t *)&question->round->patience)) {
        uv_timer_start(&question->round->patience, on_patience_over, CALL_QUICK_MS, 0);
    }
}

static void ask_round(const struct tls_context *tls, const struct rpc_request *request,
                      const ProtobufCMessageDescriptor *reply_type, struct round *round,
                      struct call_answer *answers)
{
    static const struct rpc_client_handlers handlers = {.on_message = on_message, .on_end = on_end};
    const struct rpc_channel_config config = {.tls = tls};

    CHECK(uv_loop_init(&round->loop) == 0);
    CHECK(uv_timer_init(&round->loop, &round->patience) == 0);
    round->patience.data = round;
    round->open_count = round->count;
    for (size_t i = 0; i < round->count; i++) {
        struct question *question = &round->questions[i];

        *question =
            (struct question){.answer = &answers[i], .reply_type = reply_type, .round = round};
        question->channel = rpc_channel_new(&round->loop, answers[i].endpoint, &config);
        question->call = rpc_channel_unary(question->channel, request, &handlers, question);
    }
    while (round->open_count > 0)
        uv_run(&round->loop, UV_RUN_ONCE);
    for (size_t i = 0; i < round->count; i++)
        rpc_channel_free(round->questions[i].channel);
    uv_close((uv_handle_t *)&round->patience, NULL);
    uv_run(&round->loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&round->loop) == 0);
}

static void ask_network(const struct tls_context *tls, const struct client_request *request,
                        bool quick, struct call_answer *answers, size_t count)
{
    struct round round = {.quick = quick, .count = count};
    struct rpc_request packed = {.timeout_ms = request->timeout_ms};
    struct buf bytes;
    char path[128];

    buf_init(&bytes);
    packed.length = protobuf_c_message_get_packed_size(request->message);
    protobuf_c_message_pack(request->message, buf_extend(&bytes, packed.length));
    packed.bytes = bytes.bytes;
    snprintf(path, sizeof(path), "/ckpt.v1.%s", request->method);
    packed.path = path;
    ask_round(tls, &packed, request->reply_type, &round, answers);
    buf_close(&bytes);
}

void call_each(struct cli *cli, const struct client_request *request, enum call_patience patience,
               struct call_answer *answers, size_t count)
{
    struct client_request timed = *request;

    timed.timeout_ms = cli->timeout_set || cli->timeout_ms < CALL_EACH_TIMEOUT_MS
                           ? cli->timeout_ms
                           : CALL_EACH_TIMEOUT_MS;
    CHECK(count <= CALL_ENDPOINTS_MAX);
    if (cli->transport == NULL) {
        ask_network(cli->tls, &timed, patience == CALL_QUICK, answers, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        answers[i].status = cli->transport(cli->transport_context, answers[i].endpoint, request,
                                           &answers[i].reply, &answers[i].err);
    }
}

const char *call_answer_text(const struct call_answer *answer, char text[CALL_ANSWER_BYTES])
{
    size_t length = strlen(answer->endpoint);
    bool named = strncmp(answer->err.text, answer->endpoint, length) == 0;

    snprintf(text, CALL_ANSWER_BYTES, "%s%s%s", named ? "" : answer->endpoint, named ? "" : ": ",
             answer->err.text);
    return text;
}

void call_each_free(struct call_answer *answers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        call_free(answers[i].reply);
        answers[i].reply = NULL;
    }
}
