/* The HTTP side port over real sockets: role URLs, health, metrics, garbage (U11). */
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/broker/daemon/http_pages.h"
#include "src/broker/daemon/metrics.h"
#include "tests/unit/broker/fake_replica.h"

/* A blocking client in a thread of its own; the loop runs meanwhile. */
struct exchange {
    int port;
    const char *bytes;
    size_t length;
    bool impatient; /* leaves when nothing has come for a moment */
    char answer[1 << 17];
    uv_async_t done;
};

static void *client(void *argument)
{
    struct exchange *exchange = argument;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)exchange->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval patience = {.tv_sec = exchange->impatient ? 0 : 30, .tv_usec = 20000};
    size_t got = 0;
    ssize_t n;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        send(fd, exchange->bytes, exchange->length, MSG_NOSIGNAL) == (ssize_t)exchange->length) {
        shutdown(fd, SHUT_WR);
        while (got + 1 < sizeof(exchange->answer) &&
               (n = recv(fd, exchange->answer + got, sizeof(exchange->answer) - 1 - got, 0)) > 0)
            got += (size_t)n;
    }
    exchange->answer[got] = '\0';
    close(fd);
    uv_async_send(&exchange->done);
    return NULL;
}

static void on_done(uv_async_t *async)
{
    uv_close((uv_handle_t *)async, NULL);
    uv_stop(async->loop);
}

static const char *exchange_bytes(uv_loop_t *loop, struct http *http, const char *bytes,
                                  size_t length, bool impatient)
{
    static struct exchange exchange;
    pthread_t thread;

    exchange = (struct exchange){
        .port = http_port(http), .bytes = bytes, .length = length, .impatient = impatient};
    assert_int_equal(uv_async_init(loop, &exchange.done, on_done), 0);
    assert_int_equal(pthread_create(&thread, NULL, client, &exchange), 0);
    uv_run(loop, UV_RUN_DEFAULT);
    pthread_join(thread, NULL);
    return exchange.answer;
}

static const char *get(uv_loop_t *loop, struct http *http, const char *path)
{
    char request[256];
    int length = snprintf(request, sizeof(request),
                          "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);

    return exchange_bytes(loop, http, request, (size_t)length, false);
}

static bool answers(const char *answer, int status, const char *text)
{
    char line[32];

    snprintf(line, sizeof(line), "HTTP/1.1 %d ", status);
    if (strncmp(answer, line, strlen(line)) == 0 && strstr(answer, text) != NULL)
        return true;
    print_error("expected %d and \"%s\", got: %s\n", status, text, answer);
    return false;
}

struct port {
    uv_loop_t loop;
    struct fake *fake;
    struct http_site site;
    struct http *http;
};

static int setup(void **state)
{
    struct port *port = check_calloc(1, sizeof(*port));
    struct err err;

    assert_int_equal(uv_loop_init(&port->loop), 0);
    port->fake = fake_new(NULL);
    port->fake->broker.loop = &port->loop;
    port->fake->broker.metrics = broker_metrics_new(&port->fake->broker);
    port->site = (struct http_site){
        .pages = http_pages, .data = &port->fake->broker, .metrics = port->fake->broker.metrics};
    assert_int_equal(http_open(&port->loop, "127.0.0.1:0", &port->site, &port->http, &err), 0);
    assert_true(http_port(port->http) > 0);
    *state = port;
    return 0;
}

static int teardown(void **state)
{
    struct port *port = *state;

    http_free(port->http);
    uv_run(&port->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&port->loop), 0);
    metrics_free(port->fake->broker.metrics);
    fake_free(port->fake);
    free(port);
    return 0;
}

static void role_urls_tell_who_leads(void **state)
{
    struct port *port = *state;

    /* no leader: neither */
    assert_true(answers(get(&port->loop, port->http, "/leader"), 503, "follower"));
    assert_true(answers(get(&port->loop, port->http, "/follower"), 503, "leader=0"));
    fake_serve(port->fake);
    assert_true(answers(get(&port->loop, port->http, "/leader"), 200, "leader term=1"));
    assert_true(answers(get(&port->loop, port->http, "/follower"), 503, "leader"));
    fake_stop_serving(port->fake);
    port->fake->replica.leader_id = 2;
    assert_true(answers(get(&port->loop, port->http, "/leader"), 503, "leader=2"));
    assert_true(answers(get(&port->loop, port->http, "/follower"), 200, "follower"));
}

static void readiness_names_its_checks_and_liveness_does_not_need_a_quorum(void **state)
{
    struct port *port = *state;

    assert_true(answers(get(&port->loop, port->http, "/livez"), 200, "alive"));
    assert_true(answers(get(&port->loop, port->http, "/healthz"), 200, "alive")); /* K-010, B-006 */
    assert_true(answers(get(&port->loop, port->http, "/readyz"), 503, "[-] quorum"));
    fake_serve(port->fake);
    assert_true(answers(get(&port->loop, port->http, "/readyz"), 200, "ready"));
    assert_null(strstr(get(&port->loop, port->http, "/readyz"), "[+]"));
    assert_true(answers(get(&port->loop, port->http, "/readyz?verbose"), 200, "[+] quorum"));
}

static void metrics_and_the_live_page_are_served(void **state)
{
    struct port *port = *state;

    fake_serve(port->fake);
    assert_int_equal(fake_register(port->fake, "job", 1, 2, NULL).status, FSM_OK);
    assert_true(
        answers(get(&port->loop, port->http, "/metrics"), 200, "\nlattice_raft_leader 1\n"));
    assert_true(answers(get(&port->loop, port->http, "/metrics"), 200,
                        "ckpt_allocations{state=\"running\"} 1\n"));
    assert_true(answers(get(&port->loop, port->http, "/"), 200, "text/html"));
    assert_true(answers(get(&port->loop, port->http, "/"), 200, "<td>scratch</td>"));
}

static void everything_else_is_refused(void **state)
{
    struct port *port = *state;
    static const char post[] = "POST /leader HTTP/1.1\r\nHost: x\r\nConnection: "
                               "close\r\nContent-Length: 5\r\n\r\nhello";

    assert_true(answers(get(&port->loop, port->http, "/../etc/passwd"), 404, "not found"));
    assert_true(answers(get(&port->loop, port->http, "/metrics/x"), 404, "not found"));
    assert_true(answers(exchange_bytes(&port->loop, port->http, post, sizeof(post) - 1, false), 405,
                        "only GET"));
}

/* All that was sent at once would be answered in one turn of the loop: it held it for a second. */
static void who_asks_for_much_at_once_gets_little(void **state)
{
    struct port *port = *state;
    static const char one[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    static char many[100 * sizeof(one)];
    const char *at;
    unsigned count = 0;

    many[0] = '\0';
    for (unsigned i = 0; i < 100; i++)
        strcat(many, one);
    for (at = exchange_bytes(&port->loop, port->http, many, strlen(many), false);
         (at = strstr(at, "HTTP/1.1 200")) != NULL; at++)
        count++;
    assert_in_range(count, 1, 2);
    assert_true(answers(get(&port->loop, port->http, "/livez"), 200, "alive"));
}

/* Whatever bytes come in, the port goes on. */
static void garbage_does_no_harm(void **state)
{
    struct port *port = *state;
    uint64_t seed = test_seed();
    static char bytes[70000];

    for (int round = 0; round < 60; round++) {
        size_t length = 1 + test_random(&seed) % (round % 10 == 0 ? sizeof(bytes) : 300);
        size_t head = round % 3 == 0 ? 0 : (size_t)snprintf(bytes, sizeof(bytes), "GET /");

        for (size_t i = head; i < length; i++)
            bytes[i] = (char)test_random(&seed);
        exchange_bytes(&port->loop, port->http, bytes, length, true);
    }
    assert_true(answers(get(&port->loop, port->http, "/livez"), 200, "alive"));
}

static void an_address_that_cannot_be_used_is_an_error(void **state)
{
    struct port *port = *state;
    struct http *second;
    struct err err = {0};
    char taken[32];

    snprintf(taken, sizeof(taken), "127.0.0.1:%d", http_port(port->http));
    assert_int_equal(http_open(&port->loop, taken, &port->site, &second, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_int_equal(http_open(&port->loop, "nonsense", &port->site, &second, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(http_open(&port->loop, "127.0.0.1:99999", &port->site, &second, &err), -1);
    assert_int_equal(http_open(&port->loop, "example:80", &port->site, &second, &err), -1);
    assert_int_equal(http_open(&port->loop, "192.0.2.1:80", &port->site, &second, &err), -1);
    assert_int_equal(err.code, ERR_IO);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(role_urls_tell_who_leads),
        TEST(readiness_names_its_checks_and_liveness_does_not_need_a_quorum),
        TEST(metrics_and_the_live_page_are_served),
        TEST(everything_else_is_refused),
        TEST(who_asks_for_much_at_once_gets_little),
        TEST(garbage_does_no_harm),
        TEST(an_address_that_cannot_be_used_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
