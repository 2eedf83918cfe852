/* Runs ckptctl inside the test. */
#include "tests/unit/cli/harness.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/client/client.h"
#include "src/rpc/server.h"

static ProtobufCMessage *copy_message(const ProtobufCMessage *message)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = check_alloc(length + 1);
    ProtobufCMessage *copy;

    protobuf_c_message_pack(message, bytes);
    copy = protobuf_c_message_unpack(message->descriptor, NULL, length, bytes);
    free(bytes);
    CHECK(copy != NULL);
    return copy;
}

static bool matches(const struct harness_answer *answer, const char *endpoint, const char *method)
{
    bool same_endpoint = (answer->endpoint == NULL) == (endpoint == NULL) &&
                         (endpoint == NULL || strcmp(answer->endpoint, endpoint) == 0);

    return answer->turns != 0 && same_endpoint && strcmp(answer->method, method) == 0;
}

static int answer_call(void *context, const char *endpoint, const struct client_request *request,
                       ProtobufCMessage **ret_reply, struct err *err)
{
    struct harness *h = context;
    int status = RPC_UNAVAILABLE;

    h->call_count++;
    if (endpoint == NULL) {
        if (h->last_request != NULL)
            protobuf_c_message_free_unpacked(h->last_request, NULL);
        h->last_request = copy_message(request->message);
        snprintf(h->last_method, sizeof(h->last_method), "%s", request->method);
    }
    err_set(err, ERR_UNAVAILABLE, "connection refused");
    for (size_t i = 0; i < h->answer_count; i++) {
        struct harness_answer *answer = &h->answers[i];

        if (matches(answer, endpoint, request->method)) {
            answer->turns -= answer->turns > 0 ? 1 : 0;
            status = answer->status;
            if (status == RPC_OK) {
                CHECK(answer->reply->descriptor == request->reply_type);
                *ret_reply = copy_message(answer->reply);
            } else {
                err_set(err, ERR_IO, "%s", answer->text);
            }
            break;
        }
    }
    return status;
}

void harness_init(struct harness *h)
{
    *h = (struct harness){0};
}

void harness_answer(struct harness *h, const char *endpoint, const char *method, int status,
                    const char *text, const ProtobufCMessage *reply)
{
    CHECK(h->answer_count < HARNESS_ANSWERS_MAX);
    h->answers[h->answer_count++] =
        (struct harness_answer){endpoint, method, status, text, reply, -1};
}

static void drop_output(struct harness *h)
{
    free(h->out);
    free(h->error);
    h->out = NULL;
    h->error = NULL;
}

int harness_run(struct harness *h, const char *words)
{
    char *copy = check_strdup(words);
    char *rest = copy;
    char *word;
    char program[] = "ckptctl";
    char *argv[64] = {program};
    int argc = 1;
    int code;

    drop_output(h);
    while ((word = strsep(&rest, " ")) != NULL) {
        if (*word != '\0') {
            CHECK(argc < 63);
            argv[argc++] = word;
        }
    }
    h->cli = (struct cli){.transport = h->network ? NULL : answer_call,
                          .transport_context = h,
                          .interactive = h->input != NULL,
                          .repeats_max = h->repeats};
    h->cli.out = open_memstream(&h->out, &h->out_length);
    h->cli.error = open_memstream(&h->error, &h->error_length);
    if (h->input != NULL) {
        char *input = check_strdup(h->input);

        h->cli.in = fmemopen(input, strlen(input), "r");
        code = (int)cli_run(&h->cli, argc, argv);
        fclose(h->cli.in);
        free(input);
    } else {
        code = (int)cli_run(&h->cli, argc, argv);
    }
    fclose(h->cli.out);
    fclose(h->cli.error);
    free(copy);
    return code;
}

void harness_close(struct harness *h)
{
    drop_output(h);
    if (h->last_request != NULL)
        protobuf_c_message_free_unpacked(h->last_request, NULL);
}
