/* Texts and prefixes of gRPC, and the heap of timers. */
#include "src/base/check.h"
#include "src/net/address.h"
#include "src/rpc/timers.h"
#include "src/rpc/uv_clock.h"
#include "src/rpc/wire.h"
#include "tests/support/test.h"

static void timeouts_are_parsed_strictly(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {{"1H", 3600000},
                {"2M", 120000},
                {"3S", 3000},
                {"4m", 4},
                {"1u", 1},
                {"0n", 0},
                {"1000001n", 2},
                {"99999999H", UINT64_C(99999999) * 3600000},
                {"99999999m", 99999999},
                {"0S", 0}};
    static const char *const bad[] = {"",     "1",  "S",   "-1S",        "+1S", " 1S",  "1S ",
                                      "1.5S", "1s", "1mS", "123456789S", "1 S", "0x1S", "H1"};
    uint64_t ms;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        ms = 77;
        assert_int_equal(rpc_timeout_parse(good[i].text, strlen(good[i].text), &ms), 0);
        assert_uint_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        ms = 77;
        assert_int_equal(rpc_timeout_parse(bad[i], strlen(bad[i]), &ms), -1);
        assert_uint_equal(ms, 77);
    }
}

static void a_formatted_timeout_is_never_shorter_than_asked(void **state)
{
    static const uint64_t asked[] = {
        0, 1, 999, 99999999, 100000000, 123456789012, UINT64_C(99999998) * 1000};
    char text[RPC_TIMEOUT_TEXT_BYTES];
    uint64_t ms;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(asked); i++) {
        rpc_timeout_format(asked[i], text);
        assert_int_equal(rpc_timeout_parse(text, strlen(text), &ms), 0);
        assert_true(ms >= asked[i]);
    }
    rpc_timeout_format(UINT64_MAX, text);
    assert_string_equal(text, "99999999H");
}

static void percent_encoding_survives_the_round_trip(void **state)
{
    struct buf encoded, decoded;
    const char *text = "no 100% \xc3\xa4nd\x7f \"quoted\" %41";

    (void)state;
    buf_init(&encoded);
    buf_init(&decoded);
    rpc_percent_encode(&encoded, text);
    for (size_t i = 0; i < encoded.length; i++)
        assert_in_range(encoded.bytes[i], 0x20, 0x7e);
    rpc_percent_decode(&decoded, (const char *)encoded.bytes, encoded.length);
    assert_uint_equal(decoded.length, strlen(text));
    assert_memory_equal(decoded.bytes, text, decoded.length);
    buf_close(&encoded);
    buf_close(&decoded);
}

static void broken_percent_encoding_is_kept_and_control_characters_become_blanks(void **state)
{
    struct buf decoded;
    const char *text = "%zz%4%00a%0Ab%";

    (void)state;
    buf_init(&decoded);
    rpc_percent_decode(&decoded, text, strlen(text));
    buf_append(&decoded, "", 1);
    assert_string_equal(decoded.bytes, "%zz%4 a b%");
    buf_close(&decoded);
}

struct collected {
    size_t count;
    size_t stop_after;
    uint8_t last[64];
    size_t last_length;
};

static bool collect(void *data, const uint8_t *bytes, size_t length)
{
    struct collected *collected = data;

    collected->count++;
    assert_true(length <= sizeof(collected->last));
    memcpy(collected->last, bytes, length);
    collected->last_length = length;
    return collected->count != collected->stop_after;
}

static size_t put_message(uint8_t *at, const char *text)
{
    rpc_prefix_write(at, strlen(text));
    memcpy(at + RPC_PREFIX_BYTES, text, strlen(text));
    return RPC_PREFIX_BYTES + strlen(text);
}

static void messages_are_found_however_the_bytes_are_cut(void **state)
{
    uint8_t bytes[64];
    size_t length = put_message(bytes, "first");

    (void)state;
    length += put_message(bytes + length, "");
    length += put_message(bytes + length, "third");
    for (size_t piece = 1; piece <= length; piece++) {
        struct collected collected = {.count = 0};
        struct rpc_inbox inbox = {.bytes = {0}};

        for (size_t at = 0; at < length; at += piece)
            assert_int_equal(rpc_inbox_feed(&inbox, bytes + at,
                                            length - at < piece ? length - at : piece, 5, collect,
                                            &collected),
                             RPC_INBOX_OK);
        assert_uint_equal(collected.count, 3);
        assert_uint_equal(collected.last_length, 5);
        assert_memory_equal(collected.last, "third", 5);
        assert_uint_equal(inbox.bytes.length, 0);
        buf_close(&inbox.bytes);
    }
}

static void compressed_and_oversize_messages_are_named_before_their_bytes_come(void **state)
{
    const uint8_t compressed[] = {1, 0, 0, 0, 1};
    const uint8_t large[] = {0, 0xff, 0xff, 0xff, 0xff};
    struct collected collected = {.count = 0};

    (void)state;
    for (size_t cut = 1; cut <= RPC_PREFIX_BYTES; cut++) {
        struct rpc_inbox inbox = {.bytes = {0}};

        rpc_inbox_feed(&inbox, large, cut, 100, collect, &collected);
        assert_int_equal(cut == RPC_PREFIX_BYTES
                             ? rpc_inbox_feed(&inbox, large, cut, 100, collect, &collected)
                             : rpc_inbox_feed(&inbox, large + cut, RPC_PREFIX_BYTES - cut, 100,
                                              collect, &collected),
                         RPC_INBOX_TOO_LARGE);
        buf_close(&inbox.bytes);
        assert_int_equal(
            rpc_inbox_feed(&inbox, compressed, sizeof(compressed), 100, collect, &collected),
            RPC_INBOX_COMPRESSED);
        buf_close(&inbox.bytes);
    }
    assert_uint_equal(collected.count, 0);
}

static void a_callback_can_stop_the_feeding(void **state)
{
    uint8_t bytes[64];
    size_t length = put_message(bytes, "a");
    struct collected collected = {.stop_after = 1};
    struct rpc_inbox inbox = {.bytes = {0}};

    (void)state;
    length += put_message(bytes + length, "b");
    assert_int_equal(rpc_inbox_feed(&inbox, bytes, length, 5, collect, &collected),
                     RPC_INBOX_STOPPED);
    assert_uint_equal(collected.count, 1);
    buf_close(&inbox.bytes);
}

static void addresses_are_host_and_port_or_a_socket_path(void **state)
{
    static const char *const bad[] = {"",     "host", "host:",  ":1",    "host:65536",
                                      "h:-1", "h:1x", "::1:80", "unix:", "h:123456"};
    struct network_address address;
    struct err err;

    (void)state;
    assert_int_equal(network_address_parse("127.0.0.1:7443", &address, &err), 0);
    assert_string_equal(address.host, "127.0.0.1");
    assert_int_equal(address.port, 7443);
    assert_false(address.local);
    assert_int_equal(network_address_parse("[::1]:80", &address, &err), 0);
    assert_string_equal(address.host, "::1");
    assert_int_equal(network_address_parse("unix:/run/a:b", &address, &err), 0);
    assert_true(address.local);
    assert_string_equal(address.host, "/run/a:b");
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(network_address_parse(bad[i], &address, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

/* ---- timers ---- */

enum { TIMERS = 200 };
static struct probe {
    struct rpc_timer timer;
    uint64_t asked_ms;
    size_t fired;
} probes[TIMERS];
static struct rpc_timers timers;
static uint64_t last_due_ms;
static size_t fired_count;

static void probe_fired(struct rpc_timer *timer)
{
    struct probe *probe = (struct probe *)timer;

    assert_true(probe->asked_ms <= uv_now(timers.uv.loop));
    assert_true(probe->asked_ms >= last_due_ms);
    last_due_ms = probe->asked_ms;
    probe->fired++;
    fired_count++;
}

static void timers_closed(void *data)
{
    *(bool *)data = true;
}

static void timers_fire_once_each_in_order_and_never_early(void **state)
{
    uint64_t seed = test_seed();
    uv_loop_t loop;
    bool closed = false;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    rpc_timers_init(&timers, &loop);
    for (size_t i = 0; i < TIMERS; i++) {
        rpc_timer_init(&probes[i].timer, probe_fired);
        probes[i].asked_ms = uv_now(&loop) + test_random(&seed) % 60;
        rpc_timer_start(&timers, &probes[i].timer, probes[i].asked_ms);
    }
    for (size_t i = 0; i < TIMERS; i += 3)
        rpc_timer_stop(&timers, &probes[i].timer);
    for (size_t i = 0; i < TIMERS; i += 7) {
        probes[i].asked_ms = uv_now(&loop) + 1 + test_random(&seed) % 60;
        rpc_timer_start(&timers, &probes[i].timer, probes[i].asked_ms);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    for (size_t i = 0; i < TIMERS; i++)
        assert_uint_equal(probes[i].fired, i % 3 != 0 || i % 7 == 0 ? 1 : 0);
    assert_uint_equal(timers.count, 0);
    rpc_timers_close(&timers, timers_closed, &closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(closed);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* ---- uv_clock ---- */

struct alarm {
    struct clock_ops clock;
    struct clock_timer *timer;
    uint64_t due_us;
    size_t fired;
};

static void alarm_fired(void *data)
{
    struct alarm *alarm = data;

    assert_true(alarm->clock.monotonic_us(alarm->clock.context) >= alarm->due_us);
    if (++alarm->fired == 1) {
        alarm->due_us = alarm->clock.monotonic_us(alarm->clock.context) + 1500;
        alarm->clock.timer_start(alarm->timer, 1500); /* from its own callback */
    }
}

static void the_loop_clock_never_fires_early_and_restarts_in_its_callback(void **state)
{
    struct alarm alarm = {.fired = 0};
    struct clock_timer *stopped;
    struct random_ops random;
    uint8_t first[16], second[16];
    uv_loop_t loop;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_clock_ops(&loop, &alarm.clock);
    assert_true(alarm.clock.wall_ms(alarm.clock.context) > UINT64_C(1600000000000));
    alarm.timer = alarm.clock.timer_new(alarm.clock.context, alarm_fired, &alarm);
    stopped = alarm.clock.timer_new(alarm.clock.context, alarm_fired, &alarm);
    alarm.clock.timer_start(stopped, 100);
    alarm.clock.timer_stop(stopped);
    alarm.due_us = alarm.clock.monotonic_us(alarm.clock.context) + 2300;
    alarm.clock.timer_start(alarm.timer, 2300);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_uint_equal(alarm.fired, 2);
    alarm.clock.timer_start(alarm.timer, 1000);
    alarm.clock.timer_free(alarm.timer); /* pending: never fires */
    alarm.clock.timer_free(stopped);
    alarm.clock.timer_free(NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_uint_equal(alarm.fired, 2);
    assert_int_equal(uv_loop_close(&loop), 0);
    uv_random_ops(&random);
    random.fill(random.context, first, sizeof(first));
    random.fill(random.context, second, sizeof(second));
    assert_memory_not_equal(first, second, sizeof(first));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timeouts_are_parsed_strictly),
        cmocka_unit_test(a_formatted_timeout_is_never_shorter_than_asked),
        cmocka_unit_test(percent_encoding_survives_the_round_trip),
        cmocka_unit_test(broken_percent_encoding_is_kept_and_control_characters_become_blanks),
        cmocka_unit_test(messages_are_found_however_the_bytes_are_cut),
        cmocka_unit_test(compressed_and_oversize_messages_are_named_before_their_bytes_come),
        cmocka_unit_test(a_callback_can_stop_the_feeding),
        cmocka_unit_test(addresses_are_host_and_port_or_a_socket_path),
        cmocka_unit_test(timers_fire_once_each_in_order_and_never_early),
        cmocka_unit_test(the_loop_clock_never_fires_early_and_restarts_in_its_callback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
