/* The same question to several members at the same time, on one loop: a hung member does not delay the others' answers. */
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/client/client.h"

struct question {
    struct call_answer *answer;
    const ProtobufCMessageDescriptor *reply_type;
    struct rpc_channel *channel;
    size_t *open_count; /* of all questions of the round */
};

static bool endpoint_known(const struct call_answer *answers, size_t count, const char *endpoint,
                           size_t length)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(answers[i].endpoint) == length &&
            memcmp(answers[i].endpoint, endpoint, length) == 0) {
            return true;
        }
    }
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

static void on_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct question *question = data;
    struct call_answer *answer = question->answer;

    (void)call;
    CHECK(*question->open_count > 0);
    --*question->open_count;
    answer->status = end->status;
    if (end->status == RPC_OK && answer->reply == NULL) {
        answer->status = RPC_INTERNAL;
        err_set(&answer->err, ERR_CORRUPT, "the answer is not the expected message");
    } else if (end->status != RPC_OK) {
        err_set(&answer->err, ERR_UNAVAILABLE, "%s",
                end->message[0] != '\0' ? end->message : rpc_status_name(end->status));
        call_free(answer->reply);
        answer->reply = NULL;
    }
}

static void ask_network(const char *method, const ProtobufCMessage *request,
                        const ProtobufCMessageDescriptor *reply_type, uint64_t timeout_ms,
                        struct call_answer *answers, size_t count)
{
    static const struct rpc_client_handlers handlers = {.on_message = on_message, .on_end = on_end};
    struct question questions[CALL_ENDPOINTS_MAX];
    size_t open_count = count;
    size_t length = protobuf_c_message_get_packed_size(request);
    uint8_t *bytes = check_alloc(length + 1);
    char path[128];
    uv_loop_t loop;

    CHECK(uv_loop_init(&loop) == 0);
    protobuf_c_message_pack(request, bytes);
    snprintf(path, sizeof(path), "/ckpt.v1.%s", method);
    for (size_t i = 0; i < count; i++) {
        questions[i] = (struct question){&answers[i], reply_type, NULL, &open_count};
        questions[i].channel = rpc_channel_new(&loop, answers[i].endpoint, NULL);
        rpc_channel_unary(questions[i].channel, path, bytes, length, timeout_ms, false, &handlers,
                          &questions[i]);
    }
    while (open_count > 0) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    for (size_t i = 0; i < count; i++) {
        rpc_channel_free(questions[i].channel);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
    free(bytes);
}

void call_each(struct cli *cli, const char *method, const ProtobufCMessage *request,
               const ProtobufCMessageDescriptor *reply_type, struct call_answer *answers,
               size_t count)
{
    uint64_t timeout_ms = cli->timeout_set || cli->timeout_ms < CALL_EACH_TIMEOUT_MS
                              ? cli->timeout_ms
                              : CALL_EACH_TIMEOUT_MS;

    CHECK(count <= CALL_ENDPOINTS_MAX);
    if (cli->transport == NULL) {
        ask_network(method, request, reply_type, timeout_ms, answers, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        answers[i].status = cli->transport(cli->transport_context, answers[i].endpoint, method,
                                           request, reply_type, &answers[i].reply, &answers[i].err);
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
