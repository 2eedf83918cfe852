/* See fixture.h. */
#include "tests/unit/rpc/fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CLOSE_TURNS = 30000 };

static void echo_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct fixture *fixture = data;
    struct rpc_server_stats stats;

    fixture->messages++;
    fixture->peer = *rpc_call_peer(call);
    rpc_call_reply(call, bytes, length);
    rpc_server_get_stats(fixture->server, &stats);
    if (stats.bytes_buffered > fixture->unwritten_max)
        fixture->unwritten_max = stats.bytes_buffered;
}

static void fail_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct fixture *fixture = data;
    char text[512];
    int status, at;

    fixture->messages++;
    snprintf(text, sizeof(text), "%.*s", (int)length, (const char *)bytes);
    assert_int_equal(sscanf(text, "%d %n", &status, &at), 1);
    if (strncmp(text + at, "hint:", 5) == 0)
        rpc_call_trailer(call, "ckpt-leader-hint", text + at + 5);
    if (strncmp(text + at, "pushback:", 9) == 0)
        rpc_call_trailer(call, "grpc-retry-pushback-ms", text + at + 9);
    rpc_call_finish(call, (enum rpc_status)status, text + at);
}

static void count_request(struct rpc_call *call, void *data)
{
    struct fixture *fixture = data;

    (void)call;
    fixture->requests++;
}

static void count_cancel(struct rpc_call *call, void *data)
{
    struct fixture *fixture = data;

    if (fixture->held == call)
        fixture->held = NULL;
    fixture->cancels++;
}

static void hold_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct fixture *fixture = data;

    (void)bytes;
    (void)length;
    fixture->messages++;
    fixture->held = call;
}

static void chat_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct fixture *fixture = data;

    fixture->messages++;
    rpc_call_send(call, bytes, length);
}

static void chat_half_close(struct rpc_call *call, void *data)
{
    struct fixture *fixture = data;

    fixture->half_closes++;
    rpc_call_finish(call, RPC_OK, NULL);
}

static void flood(struct rpc_call *call, struct fixture *fixture)
{
    static const uint8_t message[1024];
    bool room = true;

    while (room && fixture->flood_left > 0) {
        fixture->flood_left--;
        fixture->flood_sent++;
        room = rpc_call_send(call, message, sizeof(message));
        if (rpc_call_buffered(call) > fixture->buffered_max)
            fixture->buffered_max = rpc_call_buffered(call);
    }
    if (fixture->flood_left == 0)
        rpc_call_finish(call, RPC_OK, NULL);
}

static void flood_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    (void)bytes;
    (void)length;
    flood(call, data);
}

static void flood_writable(struct rpc_call *call, void *data)
{
    struct fixture *fixture = data;

    fixture->writables++;
    flood(call, fixture);
}

static void sum_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct fixture *fixture = data;

    (void)call;
    (void)bytes;
    (void)length;
    fixture->messages++;
}

static void sum_half_close(struct rpc_call *call, void *data)
{
    struct fixture *fixture = data;
    char text[32];

    snprintf(text, sizeof(text), "%zu", fixture->messages);
    rpc_call_reply(call, (const uint8_t *)text, strlen(text));
}

static void add_methods(struct fixture *fixture)
{
    const struct rpc_handlers echo = {.on_message = echo_message};
    const struct rpc_handlers failing = {.on_message = fail_message};
    const struct rpc_handlers hold = {
        .on_request = count_request, .on_message = hold_message, .on_cancel = count_cancel};
    const struct rpc_handlers chat = {.on_request = count_request,
                                      .on_message = chat_message,
                                      .on_half_close = chat_half_close,
                                      .on_cancel = count_cancel};
    const struct rpc_handlers flooding = {
        .on_message = flood_message, .on_writable = flood_writable, .on_cancel = count_cancel};
    const struct rpc_handlers sum = {
        .on_message = sum_message, .on_half_close = sum_half_close, .on_cancel = count_cancel};

    rpc_server_add_method(fixture->server, "/test.T/Echo", false, false, &echo, fixture);
    rpc_server_add_method(fixture->server, "/test.T/Fail", false, false, &failing, fixture);
    rpc_server_add_method(fixture->server, "/test.T/Hold", false, false, &hold, fixture);
    rpc_server_add_method(fixture->server, "/test.T/Chat", true, true, &chat, fixture);
    rpc_server_add_method(fixture->server, "/test.T/Flood", false, true, &flooding, fixture);
    rpc_server_add_method(fixture->server, "/test.T/Sum", true, false, &sum, fixture);
}

static void server_open(struct fixture *fixture, const struct rpc_server_config *config)
{
    memset(fixture, 0, sizeof(*fixture));
    assert_int_equal(uv_loop_init(&fixture->loop), 0);
    fixture->server = rpc_server_new(&fixture->loop, config);
    add_methods(fixture);
}

void fixture_open(struct fixture *fixture, const struct rpc_server_config *config)
{
    struct err err;

    server_open(fixture, config);
    if (rpc_server_listen(fixture->server, "127.0.0.1:0", &err) != 0)
        fail_msg("%s", err.text);
    fixture->port = rpc_server_port(fixture->server, 0);
    snprintf(fixture->address, sizeof(fixture->address), "127.0.0.1:%d", fixture->port);
}

void fixture_open_unix(struct fixture *fixture, const struct rpc_server_config *config)
{
    struct err err;

    server_open(fixture, config);
    strcpy(fixture->directory, "/tmp/rpc-test-XXXXXX");
    assert_non_null(mkdtemp(fixture->directory));
    snprintf(fixture->address, sizeof(fixture->address), "unix:%s/socket", fixture->directory);
    if (rpc_server_listen(fixture->server, fixture->address, &err) != 0)
        fail_msg("%s", err.text);
}

struct rpc_channel *fixture_channel(struct fixture *fixture,
                                    const struct rpc_channel_config *config)
{
    fixture->channel = rpc_channel_new(&fixture->loop, fixture->address, config);
    return fixture->channel;
}

static void server_freed(void *data)
{
    struct fixture *fixture = data;

    fixture->freed = true;
}

void fixture_drained(void *data)
{
    struct fixture *fixture = data;

    fixture->drained = true;
}

void fixture_free_server(struct fixture *fixture)
{
    rpc_server_free(fixture->server, server_freed, fixture);
    fixture->server = NULL;
}

void fixture_close(struct fixture *fixture)
{
    rpc_channel_free(fixture->channel);
    if (fixture->server != NULL)
        fixture_free_server(fixture);
    assert_true(fixture_run(fixture, &fixture->freed));
    /* a channel that a failed case has left would try again for ever */
    for (int turns = 0; uv_run(&fixture->loop, UV_RUN_NOWAIT) != 0 && turns < CLOSE_TURNS; turns++)
        usleep(1000);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    if (fixture->directory[0] != '\0')
        assert_int_equal(rmdir(fixture->directory), 0); /* the socket went with the server */
}

static void timer_over(uv_timer_t *timer)
{
    bool *over = timer->data;

    *over = true;
}

static void run_until(struct fixture *fixture, const bool *condition, uint64_t ms)
{
    bool over = false;
    uv_timer_t timer;

    assert_int_equal(uv_timer_init(&fixture->loop, &timer), 0);
    timer.data = &over;
    uv_update_time(&fixture->loop);
    assert_int_equal(uv_timer_start(&timer, timer_over, ms, 0), 0);
    while (!over && (condition == NULL || !*condition))
        uv_run(&fixture->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&fixture->loop, UV_RUN_NOWAIT); /* the timer lies on this stack: let it go */
}

bool fixture_run(struct fixture *fixture, const bool *condition)
{
    run_until(fixture, condition, FIXTURE_RUN_MS);
    return *condition;
}

void fixture_run_ms(struct fixture *fixture, uint64_t ms)
{
    run_until(fixture, NULL, ms);
}

static void seen_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                         size_t length)
{
    struct seen *seen = data;

    (void)call;
    seen->messages++;
    seen->bytes += length;
    snprintf(seen->last, sizeof(seen->last), "%.*s", (int)length, (const char *)bytes);
}

static void seen_writable(struct rpc_client_call *call, void *data)
{
    struct seen *seen = data;

    (void)call;
    seen->writables++;
}

static void seen_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct seen *seen = data;

    (void)call;
    assert_false(seen->done); /* exactly once */
    seen->done = true;
    seen->call = NULL;
    seen->status = end->status;
    seen->sent = end->sent;
    seen->redirected = end->redirect != NULL;
    seen->pushback = end->pushback;
    seen->pushback_ms = end->pushback_ms;
    snprintf(seen->text, sizeof(seen->text), "%s", end->message);
    snprintf(seen->redirect, sizeof(seen->redirect), "%s", seen->redirected ? end->redirect : "");
}

const struct rpc_client_handlers seen_handlers = {
    .on_message = seen_message, .on_writable = seen_writable, .on_end = seen_end};

void seen_unary(struct fixture *fixture, struct seen *seen, const char *path, const char *request,
                uint64_t timeout_ms)
{
    memset(seen, 0, sizeof(*seen));
    seen->call = rpc_channel_unary(fixture->channel,
                                   &(struct rpc_request){.path = path,
                                                         .bytes = (const uint8_t *)request,
                                                         .length = strlen(request),
                                                         .timeout_ms = timeout_ms},
                                   &seen_handlers, seen);
}

int fixture_raw(struct fixture *fixture)
{
    return fixture_raw_from(fixture, 1);
}

int fixture_raw_from(struct fixture *fixture, unsigned host)
{
    const struct sockaddr_in own = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~255U) | host)};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)fixture->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&own, sizeof(own)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

int fixture_raw_unix(struct fixture *fixture)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", strchr(fixture->address, ':') + 1);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

ssize_t fixture_raw_closed(struct fixture *fixture, int fd)
{
    uint64_t end = uv_hrtime() + UINT64_C(1000000) * FIXTURE_RUN_MS;
    uint8_t bytes[4096];
    ssize_t total = 0;

    while (uv_hrtime() < end) {
        ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return total;
        if (got > 0)
            total += got;
        else
            fixture_run_ms(fixture, 5);
    }
    return -1;
}

void fixture_still_answers(struct fixture *fixture)
{
    struct seen seen;

    if (fixture->channel == NULL)
        fixture_channel(fixture, NULL);
    seen_unary(fixture, &seen, "/test.T/Echo", "alive", 0);
    assert_true(fixture_run(fixture, &seen.done));
    assert_int_equal(seen.status, RPC_OK);
}
