/* Any bytes into a server's connection: no crash, no leak, every call that was announced is ended.
 *
 * Flow     a socket pair through a unix socket → the input's bytes → close → run until the
 *          connection is gone.
 * Absent   time: deadlines and keepalive have tests of their own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/rpc/server.h"

extern const uint8_t ckpt_descriptors[];
extern const uint8_t ckpt_descriptors_end[];

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

static uv_loop_t loop;
static struct rpc_server *server;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static size_t open_calls;

static void echo_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    (void)data;
    rpc_call_reply(call, bytes, length);
}

static void chat_request(struct rpc_call *call, void *data)
{
    (void)call;
    (void)data;
    open_calls++;
}

static void chat_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    (void)data;
    rpc_call_send(call, bytes, length);
}

static void chat_half_close(struct rpc_call *call, void *data)
{
    (void)data;
    open_calls--;
    rpc_call_finish(call, RPC_OK, "bye");
}

static void chat_cancel(struct rpc_call *call, void *data)
{
    (void)call;
    (void)data;
    open_calls--;
}

static void cleanup(void)
{
    rpc_server_free(server, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
    *strrchr(address.sun_path, '/') = '\0'; /* the socket went with the server, now its folder */
    CHECK(rmdir(address.sun_path) == 0);
}

static void setup(void)
{
    const struct rpc_server_config config = {.message_max_bytes = 4096};
    const struct rpc_handlers echo = {.on_message = echo_message};
    const struct rpc_handlers chat = {.on_request = chat_request,
                                      .on_message = chat_message,
                                      .on_half_close = chat_half_close,
                                      .on_cancel = chat_cancel};
    char directory[] = "/tmp/fuzz-rpc-XXXXXX", text[128];
    struct err err;

    CHECK(mkdtemp(directory) != NULL);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", directory);
    CHECK(uv_loop_init(&loop) == 0);
    server = rpc_server_new(&loop, &config);
    rpc_server_add_method(server, "/E", false, false, &echo, NULL);
    rpc_server_add_method(server, "/C", true, true, &chat, NULL);
    rpc_server_add_health(server);
    rpc_server_add_reflection(server, ckpt_descriptors,
                              (size_t)(ckpt_descriptors_end - ckpt_descriptors));
    snprintf(text, sizeof(text), "unix:%s", address.sun_path);
    CHECK(rpc_server_listen(server, text, &err) == 0);
    atexit(cleanup);
}

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct rpc_server_stats stats;
    uint8_t drain[4096];
    int fd;

    if (server == NULL)
        setup();
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK(connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0);
    /* half of the inputs are frames: without the preface nothing would be read of them */
    if (length > 0 && bytes[0] % 2 == 0)
        (void)!send(fd, preface, sizeof(preface) - 1, MSG_NOSIGNAL);
    for (size_t at = 0; at < length;) {
        ssize_t sent = send(fd, bytes + at, length - at, MSG_NOSIGNAL);

        uv_run(&loop, UV_RUN_NOWAIT);
        if (sent < 0 && recv(fd, drain, sizeof(drain), 0) == 0)
            break;
        if (sent < 0 && at == 0)
            break;
        at += sent > 0 ? (size_t)sent : length;
    }
    uv_run(&loop, UV_RUN_NOWAIT);
    uv_run(&loop, UV_RUN_NOWAIT);
    close(fd);
    do {
        uv_run(&loop, UV_RUN_NOWAIT);
        rpc_server_get_stats(server, &stats);
    } while (stats.connections > 0);
    CHECK(stats.calls_active == 0 && open_calls == 0 && stats.bytes_buffered == 0);
    return 0;
}

enum { DATA = 0, HEADERS = 1, RST = 3, SETTINGS = 4, PING = 6, WINDOW = 8, END = 1, WHOLE = 4 };

static size_t put_frame(uint8_t *at, uint8_t type, uint8_t flags, const char *payload,
                        size_t length)
{
    const uint8_t head[9] = {0, 0, (uint8_t)length, type, flags, 0, 0, 0, type < SETTINGS};

    memcpy(at, head, sizeof(head));
    memcpy(at + sizeof(head), payload, length);
    return sizeof(head) + length;
}

/* HPACK: two indexed fields, then literals that leave no state behind. */
#define REQUEST(path)                                                                              \
    "\x83\x86\x04\x02" path "\x01\x01t\x0f\x10\x10"                                                \
    "application/grpc\0\x02te\x08trailers\0\x0cgrpc-timeout\x02"                                   \
    "9S"
#define FRAME(type, flags, text) put_frame(at + length, type, flags, text, sizeof(text) - 1)

/* Valid conversations, to be cut and joined. */
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    uint8_t *at = bytes;
    size_t length = 0;

    if (i >= 5 || size < 512)
        return 0;
    /* the first byte is even: the preface goes before it */
    switch (i) {
    case 0:
        length += FRAME(HEADERS, WHOLE, REQUEST("/E"));
        length += FRAME(DATA, END, "\0\0\0\0\1x");
        break;
    case 1:
        length += FRAME(HEADERS, WHOLE, REQUEST("/C"));
        length += FRAME(DATA, 0, "\0\0\0\0\1x\0\0\0\0");
        length += FRAME(DATA, END, "\2yz");
        break;
    case 2:
        length += FRAME(HEADERS, WHOLE, REQUEST("/C"));
        length += FRAME(RST, 0, "\0\0\0\10");
        break;
    case 3:
        length += FRAME(SETTINGS, 0, "\0\4\0\0\0\0");
        length += FRAME(HEADERS, WHOLE | END, REQUEST("/E"));
        break;
    default:
        length += FRAME(PING, 0, "abcdefgh");
        length += FRAME(WINDOW, 0, "\0\0\1\0");
        length += FRAME(HEADERS, WHOLE, REQUEST("/C"));
        break;
    }
    return length;
}
