/* A name with several addresses, of which not every one answers: the program's own getaddrinfo()
 * gives them. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/net/uv_network.h"

enum { WAIT_MS = 10000, FILL = 4, NAMED_MAX = 8 };

/* ---- names ---- */

struct named {
    struct addrinfo info;
    struct sockaddr_storage address;
};

static struct named table[NAMED_MAX];
static size_t table_count;
static unsigned resolve_ms; /* what a look-up takes */

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    (void)node;
    (void)service;
    (void)hints;
    usleep(1000 * resolve_ms);
    if (table_count == 0)
        return EAI_NONAME;
    *found = &table[0].info;
    return 0;
}

void freeaddrinfo(struct addrinfo *found)
{
    (void)found;
}

/* One more address of the name. */
static void name(const char *host, int port)
{
    struct named *named = &table[table_count];
    struct sockaddr_in6 *v6 = (void *)&named->address;
    struct sockaddr_in *v4 = (void *)&named->address;
    bool is_v6 = strchr(host, ':') != NULL;

    assert_true(table_count < NAMED_MAX);
    memset(named, 0, sizeof(*named));
    if (is_v6) {
        *v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
        assert_int_equal(inet_pton(AF_INET6, host, &v6->sin6_addr), 1);
    } else {
        *v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        assert_int_equal(inet_pton(AF_INET, host, &v4->sin_addr), 1);
    }
    named->info.ai_family = named->address.ss_family;
    named->info.ai_socktype = SOCK_STREAM;
    named->info.ai_addr = (void *)&named->address;
    named->info.ai_addrlen = is_v6 ? sizeof(*v6) : sizeof(*v4);
    if (table_count++ > 0)
        table[table_count - 2].info.ai_next = &named->info;
}

/* ---- who listens ---- */

/* A port of 127.0.0.1. backlog < 0: nobody listens there. */
static int open_port(int backlog, int *ret_fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    if (backlog >= 0)
        assert_int_equal(listen(fd, backlog), 0);
    *ret_fd = fd;
    return ntohs(address.sin_port);
}

/* One that neither takes a connection nor refuses it: its queue is full. */
struct silent {
    int fd, port, fill[FILL];
};

static void silent_open(struct silent *silent)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    silent->port = open_port(0, &silent->fd);
    address.sin_port = htons((uint16_t)silent->port);
    for (int i = 0; i < FILL; i++) {
        silent->fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(silent->fill[i], (struct sockaddr *)&address, sizeof(address));
    }
}

static void silent_close(const struct silent *silent)
{
    for (int i = 0; i < FILL; i++)
        close(silent->fill[i]);
    close(silent->fd);
}

/* ---- who dials ---- */

struct dial {
    uv_loop_t loop;
    uv_timer_t guard;
    struct network_ops network;
    struct network_stream *stream;
    struct err err;
    int opened, closed;
    bool late;
};

static void on_opened(void *data)
{
    ((struct dial *)data)->opened++;
}

static void on_received(void *data, const uint8_t *bytes, size_t length)
{
    (void)data;
    (void)bytes;
    (void)length;
}

static void on_closed(void *data, const struct err *err)
{
    ((struct dial *)data)->closed++;
    ((struct dial *)data)->err = *err;
}

static void on_late(uv_timer_t *timer)
{
    ((struct dial *)timer->data)->late = true;
}

static void dial_begin(struct dial *dial)
{
    const struct network_events events = {
        .data = dial, .opened = on_opened, .received = on_received, .closed = on_closed};

    memset(dial, 0, sizeof(*dial));
    assert_int_equal(uv_loop_init(&dial->loop), 0);
    uv_timer_init(&dial->loop, &dial->guard);
    dial->guard.data = dial;
    network_uv_ops(&dial->loop, &dial->network);
    dial->stream = dial->network.connect(dial->network.context, "name:1", &events);
}

static void dial_run(struct dial *dial, uint64_t ms)
{
    dial->late = false;
    uv_timer_start(&dial->guard, on_late, ms, 0);
    while (!dial->late && dial->opened + dial->closed == 0)
        uv_run(&dial->loop, UV_RUN_ONCE);
    uv_timer_stop(&dial->guard);
}

/* Closes it, if it is open yet, and sees that nothing is told afterwards. */
static void dial_end(struct dial *dial)
{
    int told = dial->opened + dial->closed;

    if (dial->closed == 0)
        dial->network.close(dial->stream);
    uv_close((uv_handle_t *)&dial->guard, NULL);
    uv_run(&dial->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&dial->loop), 0);
    assert_int_equal(dial->opened + dial->closed, told);
    table_count = 0;
}

static void the_next_address_is_dialled_when_one_refuses(void **state)
{
    int open, shut, port, shut_port;
    struct network_peer peer;
    struct dial dial;

    (void)state;
    port = open_port(8, &open);
    shut_port = open_port(-1, &shut);
    name("::1", shut_port);
    name("127.0.0.1", shut_port);
    name("127.0.0.1", port);
    dial_begin(&dial);
    dial_run(&dial, WAIT_MS);
    assert_int_equal(dial.opened, 1);
    assert_int_equal(dial.closed, 0);
    dial.network.peer(dial.stream, &peer);
    assert_non_null(strstr(peer.address, "127.0.0.1:"));
    dial_end(&dial);
    close(open);
    close(shut);
}

/* Of a name with two addresses the first is silent, and the second takes connections. */
static void dial_past(struct silent *silent, int *ret_open, struct dial *dial)
{
    silent_open(silent);
    name("127.0.0.1", silent->port);
    name("127.0.0.1", open_port(8, ret_open));
    dial_begin(dial);
}

static void the_next_address_is_dialled_when_one_does_not_answer(void **state)
{
    struct silent silent;
    struct dial dial;
    int open;

    (void)state;
    dial_past(&silent, &open, &dial);
    dial_run(&dial, 2000); /* after which the transport gives a dial up */
    assert_int_equal(dial.opened, 1);
    dial_end(&dial);
    close(open);
    silent_close(&silent);
}

/* What the look-up took is no time to dial in: what is left is what the addresses share. */
static void the_next_address_is_dialled_in_time_when_the_look_up_takes_long(void **state)
{
    struct silent silent;
    struct dial dial;
    int open;

    (void)state;
    resolve_ms = 1200;
    dial_past(&silent, &open, &dial);
    dial_run(&dial, 2000); /* after which the transport gives a dial up */
    resolve_ms = 0;
    assert_int_equal(dial.opened, 1);
    dial_end(&dial);
    close(open);
    silent_close(&silent);
}

/* A far one, or one whose first packet got lost, is not given up while there is time: of two each
 * has half of it. */
static void an_address_has_its_part_of_the_time_before_the_next_one(void **state)
{
    struct silent silent;
    struct dial dial;
    int open;

    (void)state;
    dial_past(&silent, &open, &dial);
    dial_run(&dial, 800);
    assert_int_equal(dial.opened + dial.closed, 0);
    dial_run(&dial, WAIT_MS);
    assert_int_equal(dial.opened, 1);
    dial_end(&dial);
    close(open);
    silent_close(&silent);
}

static void a_name_whose_addresses_all_refuse_is_told_once(void **state)
{
    struct dial dial;
    int shut, port;

    (void)state;
    port = open_port(-1, &shut);
    for (int i = 0; i < 3; i++)
        name("127.0.0.1", port);
    dial_begin(&dial);
    dial_run(&dial, WAIT_MS);
    assert_int_equal(dial.closed, 1);
    assert_string_equal(dial.err.text, "connection refused (127.0.0.1)");
    assert_int_equal(dial.err.code, ERR_NOBODY);
    dial_end(&dial);
    dial_begin(&dial); /* a name without any */
    dial_run(&dial, WAIT_MS);
    assert_int_equal(dial.closed, 1);
    assert_string_equal(dial.err.text, "unknown node or service");
    assert_int_equal(dial.err.code, ERR_TIMEOUT); /* proves nothing of a process there */
    dial_end(&dial);
    close(shut);
}

/* As where AAAA records stand beside A, and no route for them: the one that refuses counts. */
static void an_address_that_refuses_counts_before_one_without_a_way(void **state)
{
    struct dial dial;
    int shut, port;

    (void)state;
    port = open_port(-1, &shut);
    name("127.0.0.1", port);
    name("2001:db8::1", port);
    dial_begin(&dial);
    dial_run(&dial, WAIT_MS);
    assert_int_equal(dial.closed, 1);
    assert_int_equal(dial.err.code, ERR_NOBODY);
    dial_end(&dial);
    close(shut);
}

/* The only address may take as long as the transport gives it. */
static void the_last_address_is_waited_for(void **state)
{
    struct silent silent;
    struct dial dial;

    (void)state;
    silent_open(&silent);
    name("127.0.0.1", silent.port);
    dial_begin(&dial);
    dial_run(&dial, 900);
    assert_int_equal(dial.opened + dial.closed, 0);
    dial_end(&dial);
    silent_close(&silent);
}

/* Whenever its user closes it: while it looks the name up, dials, or goes on to the next
 * address. */
static void a_dial_can_be_closed_at_any_time(void **state)
{
    struct silent silent;
    int open, shut, port, shut_port;

    (void)state;
    silent_open(&silent);
    port = open_port(8, &open);
    shut_port = open_port(-1, &shut);
    for (int turns = 0; turns < 12; turns++) {
        struct dial dial;

        name("127.0.0.1", shut_port);
        name("127.0.0.1", shut_port);
        name("127.0.0.1", turns % 2 == 0 ? silent.port : port);
        name("127.0.0.1", port);
        dial_begin(&dial);
        for (int turn = 0; turn < turns && dial.opened == 0; turn++)
            uv_run(&dial.loop, UV_RUN_ONCE);
        dial_end(&dial);
    }
    close(open);
    close(shut);
    silent_close(&silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_address_is_dialled_when_one_refuses),
        cmocka_unit_test(the_next_address_is_dialled_when_one_does_not_answer),
        cmocka_unit_test(the_next_address_is_dialled_in_time_when_the_look_up_takes_long),
        cmocka_unit_test(an_address_has_its_part_of_the_time_before_the_next_one),
        cmocka_unit_test(a_name_whose_addresses_all_refuse_is_told_once),
        cmocka_unit_test(an_address_that_refuses_counts_before_one_without_a_way),
        cmocka_unit_test(the_last_address_is_waited_for),
        cmocka_unit_test(a_dial_can_be_closed_at_any_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
