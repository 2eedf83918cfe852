/* Calls over TLS: what works as without it, who is refused with which words, and that nothing is
 * left of a refused connection. */
#include <ctype.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/tls/engine.h"
#include "tests/support/tls_site.h"
#include "tests/unit/rpc/fixture.h"

struct secure {
    struct fixture fixture;
    struct site site;
    struct tls_context *server, *client;
    char refused[512], refused_address[64];
    bool was_refused;
    size_t refused_count;
    const char *denied; /* a path that nobody may call */
};

static struct secure secure;

static void on_refused(void *data, const char *address, const char *text)
{
    struct secure *s = data;

    s->refused_count++;
    s->was_refused = true;
    snprintf(s->refused, sizeof(s->refused), "%s", text);
    snprintf(s->refused_address, sizeof(s->refused_address), "%s", address);
}

static bool allowed(void *data, const struct rpc_peer *peer, const char *path, char *text,
                    size_t size)
{
    const struct secure *s = data;

    if (s->denied == NULL || strcmp(path, s->denied) != 0)
        return true;
    snprintf(text, size, "%s may not call %s", peer->identity, path);
    return false;
}

static int open_with(uint64_t handshake_ms)
{
    struct rpc_server_config config = {
        .handshake_ms = handshake_ms, .allowed = allowed, .refused = on_refused, .data = &secure};

    memset(&secure, 0, sizeof(secure));
    site_open(&secure.site, "demo");
    secure.server = site_context(&secure.site, TLS_REPLICA, "1");
    secure.client = site_context(&secure.site, TLS_SCHEDULER, "slurm");
    config.tls = secure.server;
    fixture_open(&secure.fixture, &config);
    return 0;
}

static int open_hurried(void **state)
{
    (void)state;
    return open_with(300);
}

static int open_patient(void **state)
{
    (void)state;
    return open_with(30000);
}

static int close_secure(void **state)
{
    (void)state;
    fixture_close(&secure.fixture);
    tls_context_free(secure.server);
    tls_context_free(secure.client);
    site_close(&secure.site);
    return 0;
}

static void channel_open(const struct tls_context *tls)
{
    const struct rpc_channel_config config = {.tls = tls};

    fixture_channel(&secure.fixture, &config);
}

static void call(struct seen *seen, const char *path, const char *request)
{
    seen_unary(&secure.fixture, seen, path, request, 5000);
    assert_true(fixture_run(&secure.fixture, &seen->done));
}

static void contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", text, part);
}

static void a_call_arrives_with_the_callers_identity(void **state)
{
    struct seen seen;

    (void)state;
    channel_open(secure.client);
    call(&seen, "/test.T/Echo", "hello");
    assert_int_equal(seen.status, RPC_OK);
    assert_string_equal(seen.last, "hello");
    assert_true(secure.fixture.peer.tls);
    assert_string_equal(secure.fixture.peer.identity, "ckpt://demo/scheduler/slurm");
    assert_int_equal(secure.refused_count, 0);
}

static void a_large_answer_comes_whole_and_what_waits_stays_small(void **state)
{
    struct seen seen;

    (void)state;
    secure.fixture.flood_left = 20000; /* 20 MB */
    channel_open(secure.client);
    call(&seen, "/test.T/Flood", "");
    assert_int_equal(seen.status, RPC_OK);
    assert_int_equal(seen.messages, 20000);
    assert_true(secure.fixture.buffered_max < (70 << 10));
}

static void a_method_that_the_identity_may_not_call_is_refused_by_name(void **state)
{
    struct seen seen;

    (void)state;
    secure.denied = "/test.T/Echo";
    channel_open(secure.client);
    call(&seen, "/test.T/Echo", "hello");
    assert_int_equal(seen.status, RPC_PERMISSION_DENIED);
    contains(seen.text, "ckpt://demo/scheduler/slurm may not call /test.T/Echo");
    assert_int_equal(secure.fixture.messages, 0);
    call(&seen, "/test.T/Sum", ""); /* the connection lives */
    assert_int_equal(seen.status, RPC_OK);
}

static void a_stranger_is_refused_and_told_why(void **state)
{
    struct tls_context *stranger;
    struct site foreign;
    struct seen seen;

    (void)state;
    site_open(&foreign, "demo");
    stranger = site_context(&foreign, TLS_SCHEDULER, "slurm");
    channel_open(stranger);
    call(&seen, "/test.T/Echo", "hello");
    assert_int_equal(seen.status, RPC_UNAVAILABLE);
    /* it does not take the server's certificate either, and says so first */
    contains(seen.text, "ckpt://demo/replica/1");
    contains(seen.text, "one CA");
    assert_false(seen.sent);
    assert_true(fixture_run(&secure.fixture, &secure.was_refused));
    contains(secure.refused, "TLS: the peer refused: our certificate is not of its CA");
    contains(secure.refused_address, "127.0.0.1:");
    tls_context_free(stranger);
    site_close(&foreign);
}

/* Trusts the server's CA, but has a certificate of its own one: the server's alert must reach
 * it. */
static void a_certificate_of_another_ca_gets_the_servers_reason(void **state)
{
    struct tls_context *stranger;
    struct site foreign;
    struct tls_files files;
    struct seen seen;
    struct err err;
    char command[400], both[200];

    (void)state;
    site_open(&foreign, "demo");
    site_issue(&foreign, TLS_SCHEDULER, "slurm", TLS_YEAR_S);
    snprintf(both, sizeof(both), "%s/both.crt", foreign.dir);
    snprintf(command, sizeof(command), "cat %s/ca.crt %s/ca.crt > %s", foreign.dir, secure.site.dir,
             both);
    assert_int_equal(system(command), 0);
    files = site_files(&foreign, "scheduler-slurm");
    files.ca = both;
    site_must(tls_context_new(&files, NULL, &stranger, &err), &err);
    for (int i = 0; i < 20; i++) { /* every time, not by luck of timing */
        channel_open(stranger);
        call(&seen, "/test.T/Echo", "hello");
        assert_int_equal(seen.status, RPC_UNAVAILABLE);
        contains(seen.text, "TLS: the peer refused: our certificate is not of its CA");
        rpc_channel_free(secure.fixture.channel);
        secure.fixture.channel = NULL;
    }
    contains(secure.refused, "ckpt://demo/scheduler/slurm");
    tls_context_free(stranger);
    site_close(&foreign);
}

static void a_server_that_is_no_replica_is_not_spoken_to(void **state)
{
    struct rpc_server_config config = {.refused = on_refused, .data = &secure};
    struct tls_context *agent = site_context(&secure.site, TLS_AGENT, "node-1");
    struct fixture fixture;
    struct seen seen;

    (void)state;
    config.tls = agent;
    fixture_open(&fixture, &config);
    fixture_channel(&fixture, &(struct rpc_channel_config){.tls = secure.client});
    seen_unary(&fixture, &seen, "/test.T/Echo", "hello", 5000);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_UNAVAILABLE);
    contains(seen.text, "clients only");
    assert_int_equal(fixture.messages, 0);
    fixture_close(&fixture);
    tls_context_free(agent);
}

/* ---- other bytes than TLS ---- */

static void plain_text_on_a_tls_port_is_refused_on_both_sides(void **state)
{
    struct seen seen;

    (void)state;
    channel_open(NULL);
    call(&seen, "/test.T/Echo", "hello");
    assert_int_equal(seen.status, RPC_UNAVAILABLE);
    contains(seen.text, "peer wants TLS");
    contains(secure.refused, "what came is not TLS");
}

static void tls_on_a_plain_port_is_refused_on_both_sides(void **state)
{
    struct rpc_server_config config = {.refused = on_refused, .data = &secure};
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_open(&fixture, &config);
    fixture_channel(&fixture, &(struct rpc_channel_config){.tls = secure.client});
    seen_unary(&fixture, &seen, "/test.T/Echo", "hello", 5000);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_UNAVAILABLE);
    contains(seen.text, "the peer speaks plain text");
    contains(secure.refused, "this port has no TLS");
    fixture_close(&fixture);
}

static void a_handshake_that_stalls_or_breaks_off_ends(void **state)
{
    static const uint8_t begun[] = {22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3};
    int fd = fixture_raw(&secure.fixture);

    (void)state;
    assert_int_equal(send(fd, begun, sizeof(begun), MSG_NOSIGNAL), sizeof(begun));
    assert_int_equal(fixture_raw_closed(&secure.fixture, fd), 0);
    contains(secure.refused, "no complete handshake within 300 ms");
    close(fd);
    fd = fixture_raw(&secure.fixture); /* says nothing at all */
    assert_int_equal(fixture_raw_closed(&secure.fixture, fd), 0);
    close(fd);
    assert_int_equal(secure.refused_count, 2);
    secure.was_refused = false;
    fd = fixture_raw(&secure.fixture);
    assert_int_equal(send(fd, begun, sizeof(begun), MSG_NOSIGNAL), sizeof(begun));
    fixture_run_ms(&secure.fixture, 20);
    close(fd);
    assert_true(fixture_run(&secure.fixture, &secure.was_refused));
    contains(secure.refused, "closed the connection during the handshake");
}

/* Each piece is progress, but all of it has the time of one handshake. */
static void a_handshake_in_single_bytes_has_no_more_time(void **state)
{
    static const uint8_t begun[] = {22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3};
    int fd = fixture_raw(&secure.fixture);
    uint64_t begin_ms = uv_now(&secure.fixture.loop);
    size_t sent = 0;

    (void)state;
    while (!secure.was_refused && sent < 200) {
        (void)!send(fd, sent < sizeof(begun) ? &begun[sent] : begun, 1, MSG_NOSIGNAL);
        sent++;
        fixture_run_ms(&secure.fixture, 40);
    }
    contains(secure.refused, "no complete handshake");
    assert_in_range(uv_now(&secure.fixture.loop) - begin_ms, 290, 900);
    close(fd);
}

static void who_only_looks_whether_the_port_is_open_is_not_told_of(void **state)
{
    int fd = fixture_raw(&secure.fixture);

    (void)state;
    fixture_run_ms(&secure.fixture, 20);
    close(fd);
    fixture_run_ms(&secure.fixture, 20);
    assert_int_equal(secure.refused_count, 0);
}

static void many_clients_at_once_take_turns(void **state)
{
    enum { CLIENTS = 150 };
    const struct rpc_channel_config config = {.tls = secure.client, .connect_timeout_ms = 60000};
    struct rpc_channel *channels[CLIENTS];
    static struct seen seen[CLIENTS];

    (void)state;
    for (size_t i = 0; i < CLIENTS; i++) {
        memset(&seen[i], 0, sizeof(seen[i]));
        channels[i] = rpc_channel_new(&secure.fixture.loop, secure.fixture.address, &config);
        seen[i].call = rpc_channel_unary(channels[i],
                                         &(struct rpc_request){.path = "/test.T/Echo",
                                                               .bytes = (const uint8_t *)"x",
                                                               .length = 1,
                                                               .timeout_ms = 60000},
                                         &seen_handlers, &seen[i]);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_true(fixture_run(&secure.fixture, &seen[i].done));
        if (seen[i].status != RPC_OK)
            fail_msg("%zu: %s", i, seen[i].text);
        rpc_channel_free(channels[i]);
    }
    assert_int_equal(secure.refused_count, 0);
    assert_int_equal(secure.fixture.messages, CLIENTS);
}

static void rubbish_of_every_length_is_refused(void **state)
{
    uint64_t seed = test_seed();
    uint8_t bytes[600];

    (void)state;
    for (int i = 0; i < 200; i++) {
        size_t length = 1 + test_random(&seed) % (sizeof(bytes) - 1);
        int fd = fixture_raw(&secure.fixture);

        for (size_t k = 0; k < length; k++)
            bytes[k] = (uint8_t)test_random(&seed);
        bytes[0] = 22, bytes[1] = 3; /* enough to be looked at */
        bytes[3] = 0;
        secure.was_refused = false;
        (void)!send(fd, bytes, length, MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        assert_true(fixture_run(&secure.fixture, &secure.was_refused));
        close(fd);
    }
    assert_int_equal(secure.refused_count, 200);
}

/* ---- a client of another make ---- */

/* Shakes hands while the fixture's loop runs. Returns what SSL_read says of the refusal. */
static int foreign_read(SSL *ssl)
{
    uint8_t byte;
    int result = -1, error = SSL_ERROR_WANT_READ;

    for (int i = 0; i < 1000 && error == SSL_ERROR_WANT_READ; i++) {
        fixture_run_ms(&secure.fixture, 2);
        result = SSL_read(ssl, &byte, 1);
        error = SSL_get_error(ssl, result);
    }
    return error;
}

static SSL *foreign_client(SSL_CTX *context, int *ret_fd)
{
    static const unsigned char h2[] = {2, 'h', '2'};
    struct timeval wait = {.tv_usec = 1000};
    SSL *ssl = SSL_new(context);

    *ret_fd = fixture_raw(&secure.fixture);
    assert_int_equal(setsockopt(*ret_fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
    assert_int_equal(SSL_set_alpn_protos(ssl, h2, sizeof(h2)), 0);
    assert_int_equal(SSL_set_fd(ssl, *ret_fd), 1);
    SSL_set_connect_state(ssl);
    return ssl;
}

static void a_client_without_certificate_is_refused(void **state)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    int fd;
    SSL *ssl = foreign_client(context, &fd);

    (void)state;
    assert_int_equal(foreign_read(ssl), SSL_ERROR_SSL);
    assert_true(secure.was_refused);
    contains(secure.refused, "the peer showed no certificate");
    SSL_free(ssl);
    close(fd);
    SSL_CTX_free(context);
}

static void tls_1_2_is_refused(void **state)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl;
    int fd;

    (void)state;
    assert_int_equal(SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION), 1);
    ssl = foreign_client(context, &fd);
    assert_int_equal(foreign_read(ssl), SSL_ERROR_SSL);
    assert_true(secure.was_refused);
    contains(secure.refused, "does not speak TLS 1.3");
    SSL_free(ssl);
    close(fd);
    SSL_CTX_free(context);
}

/* ---- rotation ---- */

static void a_reload_reaches_new_connections_and_the_old_ones_live_on(void **state)
{
    struct seen seen;
    struct err err;

    (void)state;
    channel_open(secure.client);
    call(&seen, "/test.T/Echo", "before");
    assert_int_equal(seen.status, RPC_OK);
    site_issue(&secure.site, TLS_REPLICA, "1", TLS_YEAR_S / 2);
    site_must(tls_context_reload(secure.server, &err), &err);
    fixture_run_ms(&secure.fixture, 1200); /* the open connection is checked again */
    call(&seen, "/test.T/Echo", "after");
    assert_int_equal(seen.status, RPC_OK);
    assert_int_equal(secure.refused_count, 0);
    rpc_channel_free(secure.fixture.channel);
    channel_open(secure.client);
    call(&seen, "/test.T/Echo", "anew");
    assert_int_equal(seen.status, RPC_OK);
}

static void a_new_ca_ends_the_connections_of_the_old_one(void **state)
{
    struct seen seen, held;
    struct site fresh;
    struct err err;
    char command[400];

    (void)state;
    channel_open(secure.client);
    call(&seen, "/test.T/Echo", "before");
    assert_int_equal(seen.status, RPC_OK);
    seen_unary(&secure.fixture, &held, "/test.T/Hold", "x", 5000);
    while (secure.fixture.held == NULL)
        fixture_run_ms(&secure.fixture, 1);
    site_open(&fresh, "demo");
    site_issue(&fresh, TLS_REPLICA, "1", TLS_YEAR_S);
    snprintf(command, sizeof(command), "cp %s/* %s/", fresh.dir, secure.site.dir);
    assert_int_equal(system(command), 0);
    site_must(tls_context_reload(secure.server, &err), &err);
    assert_true(fixture_run(&secure.fixture, &held.done));
    assert_int_equal(held.status, RPC_UNAVAILABLE);
    contains(secure.refused, "ckpt://demo/scheduler/slurm is no longer good");
    assert_int_equal(secure.fixture.cancels, 1);
    site_close(&fresh);
}

/* The client's list: the server is refused from then on, in the connection that is open too. */
static void a_client_leaves_a_server_whose_certificate_was_revoked(void **state)
{
    struct tls_description description;
    struct seen seen, held;
    char path[160], serial[64];
    const char *const serials[] = {serial};
    struct err err;
    size_t used = 0;

    (void)state;
    channel_open(secure.client);
    call(&seen, "/test.T/Echo", "before");
    assert_int_equal(seen.status, RPC_OK);
    seen_unary(&secure.fixture, &held, "/test.T/Hold", "x", 5000);
    while (secure.fixture.held == NULL)
        fixture_run_ms(&secure.fixture, 1);
    rpc_channel_recheck(secure.fixture.channel); /* all is well */
    fixture_run_ms(&secure.fixture, 1);
    assert_false(held.done);
    snprintf(path, sizeof(path), "%s/replica-1.crt", secure.site.dir);
    site_must(tls_certificate_describe(path, &description, &err), &err);
    for (const char *at = description.serial; *at != '\0'; at++)
        if (*at != ':')
            serial[used++] = (char)tolower((unsigned char)*at);
    serial[used] = '\0';
    tls_context_revoke(secure.client, serials, 1);
    rpc_channel_recheck(secure.fixture.channel);
    assert_true(fixture_run(&secure.fixture, &held.done));
    assert_int_equal(held.status, RPC_UNAVAILABLE);
    call(&seen, "/test.T/Echo", "after");
    assert_int_equal(seen.status, RPC_UNAVAILABLE);
    contains(seen.text, "revoked");
    tls_context_revoke(secure.client, NULL, 0);
}

/* Sends what the engine has to say. */
static void engine_say(struct tls_engine *engine, int fd)
{
    struct buf *output = tls_engine_output(engine);

    assert_int_equal(send(fd, output->bytes, output->length, MSG_NOSIGNAL), output->length);
    buf_clear(output);
}

/* Its handshake goes by the files of its beginning. */
static void a_handshake_under_way_does_not_outlive_its_ca(void **state)
{
    struct tls_engine *engine = tls_engine_new(secure.client, TLS_CLIENT, "h2");
    static uint8_t plain[TLS_PLAIN_BYTES];
    int fd = fixture_raw(&secure.fixture);
    uint8_t flight[16384];
    struct site fresh;
    struct err err;
    char command[400];
    size_t length;
    ssize_t got;

    (void)state;
    assert_int_equal(tls_engine_read(engine, plain, sizeof(plain), &length), TLS_WANTS_MORE);
    engine_say(engine, fd);
    fixture_run_ms(&secure.fixture, 100);
    got = recv(fd, flight, sizeof(flight), MSG_DONTWAIT);
    assert_true(got > 0);
    site_open(&fresh, "demo");
    site_issue(&fresh, TLS_REPLICA, "1", TLS_YEAR_S);
    snprintf(command, sizeof(command), "cp %s/* %s/", fresh.dir, secure.site.dir);
    assert_int_equal(system(command), 0);
    site_must(tls_context_reload(secure.server, &err), &err);
    fixture_run_ms(&secure.fixture, 1200); /* it is looked at, and has no certificate yet */
    tls_engine_feed(engine, flight, (size_t)got);
    assert_int_equal(tls_engine_read(engine, plain, sizeof(plain), &length), TLS_ESTABLISHED);
    engine_say(engine, fd);
    assert_true(fixture_run(&secure.fixture, &secure.was_refused));
    contains(secure.refused, "is no longer good");
    tls_engine_free(engine);
    close(fd);
    site_close(&fresh);
}

static void a_drain_does_not_wait_for_handshakes(void **state)
{
    int fd = fixture_raw(&secure.fixture);

    (void)state;
    fixture_run_ms(&secure.fixture, 20);
    rpc_server_drain(secure.fixture.server, 60000, fixture_drained, &secure.fixture);
    assert_true(fixture_run(&secure.fixture, &secure.fixture.drained));
    close(fd);
}

int main(void)
{
#define CASE(name)  cmocka_unit_test_setup_teardown(name, open_patient, close_secure)
#define HURRY(name) cmocka_unit_test_setup_teardown(name, open_hurried, close_secure)
    const struct CMUnitTest tests[] = {
        CASE(a_call_arrives_with_the_callers_identity),
        CASE(a_large_answer_comes_whole_and_what_waits_stays_small),
        CASE(a_method_that_the_identity_may_not_call_is_refused_by_name),
        CASE(a_stranger_is_refused_and_told_why),
        CASE(a_certificate_of_another_ca_gets_the_servers_reason),
        CASE(a_server_that_is_no_replica_is_not_spoken_to),
        CASE(plain_text_on_a_tls_port_is_refused_on_both_sides),
        CASE(tls_on_a_plain_port_is_refused_on_both_sides),
        HURRY(a_handshake_that_stalls_or_breaks_off_ends),
        HURRY(a_handshake_in_single_bytes_has_no_more_time),
        CASE(who_only_looks_whether_the_port_is_open_is_not_told_of),
        CASE(many_clients_at_once_take_turns),
        CASE(rubbish_of_every_length_is_refused),
        CASE(a_client_without_certificate_is_refused),
        CASE(tls_1_2_is_refused),
        CASE(a_reload_reaches_new_connections_and_the_old_ones_live_on),
        CASE(a_new_ca_ends_the_connections_of_the_old_one),
        CASE(a_client_leaves_a_server_whose_certificate_was_revoked),
        CASE(a_handshake_under_way_does_not_outlive_its_ca),
        CASE(a_drain_does_not_wait_for_handshakes),
    };
#undef HURRY
#undef CASE

    return cmocka_run_group_tests(tests, NULL, NULL);
}
