/* Two engines and the bytes between them: who is taken, who is refused, and what is said about
 * it. */
#include "src/tls/engine.h"
#include "tests/support/tls_site.h"

struct end {
    struct tls_engine *engine;
    struct buf plain;
    bool established;
    enum tls_progress last;
};

static struct site site;
static struct tls_context *replica, *agent;

static int open_site(void **state)
{
    (void)state;
    site_open(&site, "demo");
    replica = site_context(&site, TLS_REPLICA, "1");
    agent = site_context(&site, TLS_AGENT, "node-1");
    return 0;
}

static int close_site(void **state)
{
    (void)state;
    tls_context_free(replica);
    tls_context_free(agent);
    site_close(&site);
    return 0;
}

static struct end end_new(const struct tls_context *context, enum tls_side side,
                          const char *protocol)
{
    struct end end = {.engine = tls_engine_new(context, side, protocol)};

    buf_init(&end.plain);
    return end;
}

static void end_free(struct end *end)
{
    tls_engine_free(end->engine);
    buf_close(&end->plain);
}

static void end_take(struct end *end, const uint8_t *bytes, size_t length)
{
    uint8_t plain[TLS_PLAIN_BYTES];
    size_t plain_length;

    tls_engine_feed(end->engine, bytes, length);
    do {
        end->last = tls_engine_read(end->engine, plain, sizeof(plain), &plain_length);
        if (end->last == TLS_PLAIN)
            buf_append(&end->plain, plain, plain_length);
        end->established |= end->last == TLS_ESTABLISHED;
    } while (end->last == TLS_PLAIN || end->last == TLS_ESTABLISHED);
}

/* Carries what waits from one to the other, in pieces of at most `piece` bytes. */
static bool carry(struct end *from, struct end *to, size_t piece)
{
    struct buf *output = tls_engine_output(from->engine);
    size_t length;
    uint8_t *bytes = buf_take(output, &length);

    for (size_t at = 0; at < length; at += piece)
        end_take(to, bytes + at, length - at < piece ? length - at : piece);
    free(bytes);
    return length > 0;
}

static void converse(struct end *client, struct end *server, size_t piece)
{
    if (!client->established)
        end_take(client, NULL, 0);
    while (carry(client, server, piece) | carry(server, client, piece))
        ;
}

static void say(struct end *end, const void *bytes, size_t length)
{
    assert_int_equal(tls_engine_write(end->engine, bytes, length), 0);
}

static void both_sides_know_each_other_and_bytes_come_whole_however_they_are_cut(void **state)
{
    static const size_t pieces[] = {1, 7, 1000, 1 << 20};
    enum { LONG = 100000 };
    uint8_t *bytes = malloc(LONG);

    (void)state;
    for (size_t i = 0; i < LONG; i++)
        bytes[i] = (uint8_t)(i * 31);
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct end client = end_new(agent, TLS_CLIENT, "h2");
        struct end server = end_new(replica, TLS_SERVER, "h2");
        struct err err;

        converse(&client, &server, pieces[i]);
        assert_true(client.established && server.established);
        assert_string_equal(tls_engine_peer(server.engine, &err)->name, "node-1");
        assert_int_equal(tls_engine_peer(server.engine, &err)->kind, TLS_AGENT);
        assert_int_equal(tls_engine_peer(client.engine, &err)->member_id, 1);
        say(&client, bytes, LONG);
        say(&server, "answer", 6);
        converse(&client, &server, pieces[i]);
        assert_int_equal(server.plain.length, LONG);
        assert_memory_equal(server.plain.bytes, bytes, LONG);
        assert_int_equal(client.plain.length, 6);
        assert_int_equal(client.last, TLS_WANTS_MORE);
        end_free(&client);
        end_free(&server);
    }
    free(bytes);
}

static void a_client_expects_a_replica_of_its_own_cluster_and_that_very_member(void **state)
{
    struct tls_context *other_member = site_context(&site, TLS_REPLICA, "2");
    const struct {
        const struct tls_context *server;
        uint64_t member_id;
        const char *text; /* NULL: taken */
    } cases[] = {{replica, 0, NULL},
                 {replica, 1, NULL},
                 {replica, 2, "names ckpt://demo/replica/1, not member 2"},
                 {other_member, 1, "names ckpt://demo/replica/2, not member 1"}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct end client = end_new(agent, TLS_CLIENT, "h2");
        struct end server = end_new(cases[i].server, TLS_SERVER, "h2");

        converse(&client, &server, 4096);
        assert_true(client.established);
        if (cases[i].text == NULL) {
            assert_int_equal(tls_engine_expect_replica(client.engine, cases[i].member_id), 0);
        } else {
            assert_int_equal(tls_engine_expect_replica(client.engine, cases[i].member_id), -1);
            assert_non_null(strstr(tls_engine_error(client.engine)->text, cases[i].text));
            assert_int_equal(tls_engine_write(client.engine, (const uint8_t *)"x", 1), -1);
        }
        end_free(&client);
        end_free(&server);
    }
    tls_context_free(other_member);
}

/* The certificate is of the right CA and may serve nobody: OpenSSL's purpose check refuses it
 * before the identity is looked at. */
static void an_agent_cannot_play_a_server(void **state)
{
    struct end client = end_new(agent, TLS_CLIENT, "h2");
    struct end server = end_new(agent, TLS_SERVER, "h2");

    (void)state;
    converse(&client, &server, 4096);
    assert_false(client.established);
    assert_non_null(strstr(tls_engine_error(client.engine)->text, "clients only"));
    assert_int_equal(server.last, TLS_FAILED);
    end_free(&client);
    end_free(&server);
}

static void a_certificate_of_another_ca_is_refused_on_both_sides(void **state)
{
    struct site foreign;
    struct tls_context *stranger;

    (void)state;
    site_open(&foreign, "demo"); /* the same names, signed by somebody else */
    stranger = site_context(&foreign, TLS_REPLICA, "1");
    for (int turn = 0; turn < 2; turn++) {
        struct end client = end_new(turn == 0 ? stranger : replica, TLS_CLIENT, "h2");
        struct end server = end_new(turn == 0 ? replica : stranger, TLS_SERVER, "h2");

        converse(&client, &server, 4096);
        assert_false(client.established);
        assert_int_equal(client.last, TLS_FAILED);
        assert_non_null(strstr(tls_engine_error(client.engine)->text, "one CA"));
        end_free(&client);
        end_free(&server);
    }
    tls_context_free(stranger);
    site_close(&foreign);
}

static void another_clusters_replica_of_the_same_ca_is_no_replica_of_ours(void **state)
{
    struct site other;
    struct tls_context *ours, *theirs;
    struct end client, server;
    struct tls_files files;
    struct err err;
    char both[600];

    (void)state;
    /* one file that trusts both CAs: what is left is the identity */
    site_open(&other, "other");
    site_issue(&other, TLS_REPLICA, "1", TLS_YEAR_S);
    snprintf(both, sizeof(both), "cat %s/ca.crt %s/ca.crt > %s/both.crt", site.dir, other.dir,
             site.dir);
    assert_int_equal(system(both), 0);
    snprintf(both, sizeof(both), "%s/both.crt", site.dir);
    files = site_files(&other, "replica-1");
    files.ca = both;
    site_must(tls_context_new(&files, NULL, &theirs, &err), &err);
    files = site_files(&site, "replica-1");
    files.ca = both;
    site_must(tls_context_new(&files, NULL, &ours, &err), &err);
    client = end_new(ours, TLS_CLIENT, "h2");
    server = end_new(theirs, TLS_SERVER, "h2");
    converse(&client, &server, 4096);
    assert_true(client.established);
    assert_int_equal(tls_engine_expect_replica(client.engine, 0), -1);
    assert_non_null(strstr(tls_engine_error(client.engine)->text,
                           "ckpt://other/replica/1, not a replica of cluster demo"));
    end_free(&client);
    end_free(&server);
    tls_context_free(ours);
    tls_context_free(theirs);
    site_close(&other);
}

static void services_that_do_not_belong_together_part(void **state)
{
    struct end client = end_new(agent, TLS_CLIENT, "h2");
    struct end server = end_new(replica, TLS_SERVER, "ckpt-raft");

    (void)state;
    converse(&client, &server, 4096);
    assert_false(client.established);
    assert_non_null(strstr(tls_engine_error(client.engine)->text, "another service listens there"));
    assert_non_null(strstr(tls_engine_error(server.engine)->text, "ckpt-raft"));
    end_free(&client);
    end_free(&server);
}

static void what_is_not_tls_is_called_so(void **state)
{
    static const char *const texts[] = {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                                        "GET / HTTP/1.1\r\n\r\n", "\0\0\0\1abcdefghijklmnop"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct end server = end_new(replica, TLS_SERVER, "h2");

        end_take(&server, (const uint8_t *)texts[i], 16);
        assert_int_equal(server.last, TLS_FAILED);
        assert_non_null(strstr(tls_engine_error(server.engine)->text, "not TLS"));
        /* it stays so */
        end_take(&server, (const uint8_t *)texts[i], 16);
        assert_int_equal(server.last, TLS_FAILED);
        end_free(&server);
    }
}

static void a_flipped_bit_ends_the_connection(void **state)
{
    struct end client = end_new(agent, TLS_CLIENT, "h2");
    struct end server = end_new(replica, TLS_SERVER, "h2");

    (void)state;
    converse(&client, &server, 4096);
    say(&client, "pay 10", 6);
    tls_engine_output(client.engine)->bytes[8] ^= 1;
    converse(&client, &server, 4096);
    assert_int_equal(server.last, TLS_FAILED);
    assert_int_equal(server.plain.length, 0);
    assert_int_equal(client.last, TLS_FAILED); /* the alert */
    end_free(&client);
    end_free(&server);
}

static void a_peer_that_goes_away_in_the_handshake_is_told_apart(void **state)
{
    struct end client = end_new(agent, TLS_CLIENT, "h2");
    struct end server = end_new(replica, TLS_SERVER, "h2");

    (void)state;
    end_take(&client, NULL, 0);
    assert_true(tls_engine_output(client.engine)->length > 0);
    assert_non_null(strstr(tls_engine_closed(client.engine)->text, "is TLS configured there?"));
    assert_non_null(strstr(tls_engine_timed_out(server.engine, 3000)->text, "3000 ms"));
    end_take(&server, (const uint8_t *)"x", 1);
    assert_int_equal(server.last, TLS_FAILED);
    end_free(&client);
    end_free(&server);
}

static void an_expired_certificate_is_noticed_on_an_open_connection(void **state)
{
    struct end client, server;
    struct tls_context *brief;
    struct tls_files files;
    struct err err;
    int tries = 0;

    (void)state;
    site_issue(&site, TLS_AGENT, "brief", 2);
    files = site_files(&site, "agent-brief");
    site_must(tls_context_new(&files, NULL, &brief, &err), &err);
    client = end_new(brief, TLS_CLIENT, "h2");
    server = end_new(replica, TLS_SERVER, "h2");
    converse(&client, &server, 4096);
    assert_true(server.established);
    assert_int_equal(tls_engine_recheck(server.engine, replica, true, &err), 0);
    while (tls_engine_recheck(server.engine, replica, true, &err) == 0 && tries++ < 500)
        usleep(10000);
    assert_non_null(strstr(err.text, "ckpt://demo/agent/brief is no longer good"));
    assert_non_null(strstr(err.text, "expired"));
    end_free(&client);
    end_free(&server);
    /* and refused when it comes again */
    client = end_new(brief, TLS_CLIENT, "h2");
    server = end_new(replica, TLS_SERVER, "h2");
    converse(&client, &server, 4096);
    assert_false(server.established);
    assert_non_null(
        strstr(tls_engine_error(server.engine)->text, "ckpt://demo/agent/brief expired at"));
    assert_non_null(strstr(tls_engine_error(client.engine)->text, "our certificate has expired"));
    end_free(&client);
    end_free(&server);
    tls_context_free(brief);
}

/* As the list has it: lower case, without colons. */
static void serial_of(const char *path, char serial[TLS_SERIAL_BYTES])
{
    struct tls_description description;
    struct err err;
    size_t used = 0;

    site_must(tls_certificate_describe(path, &description, &err), &err);
    for (const char *at = description.serial; *at != '\0'; at++)
        if (*at != ':')
            serial[used++] = *at >= 'A' && *at <= 'F' ? (char)(*at + 'a' - 'A') : *at;
    serial[used] = '\0';
}

/* K-009: in an open connection, when it comes again, and whoever has it, also a replica. */
static void a_revoked_certificate_is_taken_no_more(void **state)
{
    struct tls_context *leaver = site_context(&site, TLS_OPERATOR, "leaver");
    char serial[TLS_SERIAL_BYTES], own[TLS_SERIAL_BYTES];
    const char *serials[] = {"00ff", own, serial};
    uint64_t generation = tls_context_generation(replica);
    struct end client = end_new(leaver, TLS_CLIENT, "h2");
    struct end server = end_new(replica, TLS_SERVER, "h2");
    struct err err;

    (void)state;
    serial_of(site_files(&site, "operator-leaver").cert, serial);
    serial_of(site_files(&site, "replica-1").cert, own);
    converse(&client, &server, 4096);
    assert_true(server.established);
    tls_context_revoke(replica, serials, 1);
    assert_int_equal(tls_engine_recheck(server.engine, replica, true, &err), 0);
    tls_context_revoke(replica, serials, 3);
    assert_uint_equal(tls_context_generation(replica), generation + 2);
    assert_int_equal(tls_engine_recheck(server.engine, replica, false, &err), -1);
    assert_contains(err.text, "ckpt://demo/operator/leaver was revoked; issue another one");
    end_free(&client);
    end_free(&server);
    client = end_new(leaver, TLS_CLIENT, "h2");
    server = end_new(replica, TLS_SERVER, "h2");
    converse(&client, &server, 4096);
    assert_false(server.established);
    assert_contains(tls_engine_error(server.engine)->text,
                    "ckpt://demo/operator/leaver: certificate revoked; issue another one");
    assert_contains(tls_engine_error(client.engine)->text, "revoked");
    end_free(&client);
    end_free(&server);
    client = end_new(agent, TLS_CLIENT, "h2"); /* another one of the same CA */
    server = end_new(replica, TLS_SERVER, "h2");
    converse(&client, &server, 4096);
    assert_true(server.established);
    end_free(&client);
    end_free(&server);
    tls_context_revoke(replica, NULL, 0);
    tls_context_free(leaver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_know_each_other_and_bytes_come_whole_however_they_are_cut),
        cmocka_unit_test(a_client_expects_a_replica_of_its_own_cluster_and_that_very_member),
        cmocka_unit_test(an_agent_cannot_play_a_server),
        cmocka_unit_test(a_certificate_of_another_ca_is_refused_on_both_sides),
        cmocka_unit_test(another_clusters_replica_of_the_same_ca_is_no_replica_of_ours),
        cmocka_unit_test(services_that_do_not_belong_together_part),
        cmocka_unit_test(what_is_not_tls_is_called_so),
        cmocka_unit_test(a_flipped_bit_ends_the_connection),
        cmocka_unit_test(a_peer_that_goes_away_in_the_handshake_is_told_apart),
        cmocka_unit_test(an_expired_certificate_is_noticed_on_an_open_connection),
        cmocka_unit_test(a_revoked_certificate_is_taken_no_more),
    };

    return cmocka_run_group_tests(tests, open_site, close_site);
}
