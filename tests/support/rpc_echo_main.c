/* A small gRPC server for tests in other languages: echo in every shape, health, reflection.
 *
 * Flow     listens on a free port of 127.0.0.1, prints "port N" and serves until stdin ends; then
 *          drains and exits. Lines on stdin: "serving NAME", "not-serving NAME" set health; "drain"
 *          drains.
 * Absent   everything a real server does with its calls.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/rpc/server.h"

extern const uint8_t ckpt_descriptors[];
extern const uint8_t ckpt_descriptors_end[];

static struct rpc_server *server;
static uv_pipe_t input;
static char line[256];
static size_t line_length;

/* The metadata "x-echo" comes back as a trailer, "x-status" is the status to end with, "x-text" its
 * message. */
static void finish(struct rpc_call *call)
{
    const char *echo = rpc_call_metadata(call, "x-echo");
    const char *status = rpc_call_metadata(call, "x-status");
    const char *text = rpc_call_metadata(call, "x-text");

    if (echo != NULL)
        rpc_call_trailer(call, "x-echo", echo);
    rpc_call_finish(call, status != NULL ? (enum rpc_status)atoi(status) : RPC_OK, text);
}

static void unary_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    (void)data;
    if (rpc_call_metadata(call, "x-status") == NULL)
        rpc_call_send(call, bytes, length);
    finish(call);
}

static void chat_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    (void)data;
    rpc_call_send(call, bytes, length);
}

static void chat_half_close(struct rpc_call *call, void *data)
{
    (void)data;
    finish(call);
}

/* Sends as many messages as its request has bytes, each one byte longer. */
static void count_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    (void)data;
    for (size_t i = 0; i < length; i++)
        rpc_call_send(call, bytes, i);
    finish(call);
}

static void drained(void *data)
{
    (void)data;
    rpc_server_free(server, NULL, NULL);
    server = NULL;
    if (!uv_is_closing((uv_handle_t *)&input))
        uv_close((uv_handle_t *)&input, NULL);
}

static void drain(void)
{
    static bool draining;

    if (!draining)
        rpc_server_drain(server, 2000, drained, NULL);
    draining = true;
}

static void obey(const char *text)
{
    if (strncmp(text, "serving ", 8) == 0)
        rpc_server_set_health(server, text + 8, true);
    else if (strncmp(text, "not-serving ", 12) == 0)
        rpc_server_set_health(server, text + 12, false);
    else if (strcmp(text, "drain") == 0)
        drain();
}

static void input_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    static char bytes[256];

    (void)handle;
    (void)suggested;
    *ret_buffer = uv_buf_init(bytes, sizeof(bytes));
}

static void input_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
    if (length < 0) {
        uv_read_stop(stream);
        if (server != NULL)
            drain();
        return;
    }
    for (ssize_t i = 0; i < length; i++) {
        if (buffer->base[i] != '\n') {
            CHECK(line_length + 1 < sizeof(line));
            line[line_length++] = buffer->base[i];
            continue;
        }
        line[line_length] = '\0';
        line_length = 0;
        obey(line);
    }
}

int main(void)
{
    const struct rpc_handlers unary = {.on_message = unary_message};
    const struct rpc_handlers chat = {.on_message = chat_message, .on_half_close = chat_half_close};
    const struct rpc_handlers count = {.on_message = count_message};
    const struct rpc_handlers hold = {.on_message = NULL};
    uv_loop_t *loop = uv_default_loop();
    struct err err;

    server = rpc_server_new(loop, NULL);
    rpc_server_add_method(server, "/test.T/Unary", false, false, &unary, NULL);
    rpc_server_add_method(server, "/test.T/Chat", true, true, &chat, NULL);
    rpc_server_add_method(server, "/test.T/Count", false, true, &count, NULL);
    rpc_server_add_method(server, "/test.T/Hold", false, false, &hold, NULL);
    rpc_server_add_health(server);
    rpc_server_add_reflection(server, ckpt_descriptors,
                              (size_t)(ckpt_descriptors_end - ckpt_descriptors));
    if (rpc_server_listen(server, "127.0.0.1:0", &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("port %d\n", rpc_server_port(server, 0));
    fflush(stdout);
    CHECK(uv_pipe_init(loop, &input, 0) == 0);
    CHECK(uv_pipe_open(&input, 0) == 0);
    CHECK(uv_read_start((uv_stream_t *)&input, input_buffer, input_read) == 0);
    uv_run(loop, UV_RUN_DEFAULT);
    return 0;
}
