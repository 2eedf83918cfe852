/* Accounts of frames without use: what floods is stopped soon, what a busy and well-behaved peer
 * does is not. */
#include "src/rpc/police.h"

#include "tests/support/test.h"

enum { DATA = 0, HEADERS = 1, WINDOW_UPDATE = 8, UNKNOWN = 0xfa };

static void frame(struct rpc_police *police, uint64_t now_ms, uint8_t type, uint8_t length)
{
    const uint8_t bytes[9 + 255] = {0, 0, length, type};

    rpc_police_bytes(police, now_ms, bytes, 9U + length);
}

/* How many such frames are taken at one instant. */
static int taken(struct rpc_police *police, uint64_t now_ms, uint8_t type)
{
    int count = 0;

    while (rpc_police_allows(police) && count < 1000000) {
        frame(police, now_ms, type, 4);
        count++;
    }
    return count - 1;
}

static void floods_end_after_the_burst(void **state)
{
    struct rpc_police police;

    (void)state;
    rpc_police_init(&police, 5);
    assert_int_equal(taken(&police, 5, UNKNOWN), RPC_POLICE_CONTROL_BURST);
    rpc_police_init(&police, 5);
    assert_int_equal(taken(&police, 5, WINDOW_UPDATE), RPC_POLICE_LOOSE_BURST);
    rpc_police_init(&police, 5);
    assert_int_equal(taken(&police, 5, DATA), RPC_POLICE_LOOSE_BURST); /* of no call */
    rpc_police_init(&police, 5);
    assert_int_equal(taken(&police, 1005, UNKNOWN),
                     RPC_POLICE_CONTROL_BURST); /* time adds nothing */
}

static void a_drip_within_the_rate_is_taken_for_ever(void **state)
{
    struct rpc_police police;

    (void)state;
    rpc_police_init(&police, 0);
    for (uint64_t now_ms = 0; now_ms < 1000000; now_ms += 5)
        frame(&police, now_ms, WINDOW_UPDATE, 4); /* 200/s */
    assert_true(rpc_police_allows(&police));
    for (uint64_t now_ms = 1000000; rpc_police_allows(&police); now_ms += 4) {
        frame(&police, now_ms, WINDOW_UPDATE, 4);
        assert_true(now_ms < 1100000); /* 250/s is too many in the end */
    }
}

/* Two WINDOW_UPDATEs for each DATA frame that it got, and a burst of them when a thousand calls
 * begin and end together. */
static void a_busy_reader_is_no_flood(void **state)
{
    struct rpc_police police;

    (void)state;
    rpc_police_init(&police, 0);
    for (int i = 0; i < 1000000; i++) {
        rpc_police_sent(&police);
        frame(&police, 0, WINDOW_UPDATE, 4);
        frame(&police, 0, WINDOW_UPDATE, 4);
    }
    assert_true(rpc_police_allows(&police));
    for (int turn = 0; turn < 100; turn++) {
        for (int i = 0; i < 1000; i++) {
            frame(&police, 0, HEADERS, 100);
            rpc_police_of_use(&police, true);
            frame(&police, 0, DATA, 20);
            rpc_police_of_use(&police, false);
        }
        for (int i = 0; i < 2000; i++)
            rpc_police_sent(&police);
        for (int i = 0; i < 4000; i++)
            frame(&police, 0, WINDOW_UPDATE, 4);
    }
    assert_true(rpc_police_allows(&police));
    assert_in_range(taken(&police, 0, WINDOW_UPDATE), 0, RPC_POLICE_LOOSE_MOST);
}

/* A client in Go sends a PING for DATA that it got, as soon as the last one was answered, for as
 * long as a stream lasts. */
static void who_reads_a_stream_may_measure_the_path(void **state)
{
    struct rpc_police police;

    (void)state;
    rpc_police_init(&police, 0);
    for (int i = 0; i < 100000; i++) {
        rpc_police_sent(&police);
        rpc_police_control(&police, 0);
    }
    assert_true(rpc_police_allows(&police));
    for (int i = 0; i < 100000; i++)
        rpc_police_sent(&police); /* is not saved up */
    assert_int_equal(taken(&police, 0, UNKNOWN), RPC_POLICE_CONTROL_BURST);
}

/* Frames are found in bytes that come in pieces of any size, behind the preface of a client. */
static void frames_are_counted_however_they_are_cut(void **state)
{
    uint8_t bytes[24 + 50 * (9 + 7)] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    uint64_t left = 0;

    (void)state;
    for (size_t i = 0; i < 50; i++) {
        bytes[24 + i * 16 + 2] = 7;
        bytes[24 + i * 16 + 3] = UNKNOWN;
    }
    for (size_t piece = 1; piece < 40; piece++) {
        struct rpc_police police;

        rpc_police_init(&police, 0);
        rpc_police_expect_magic(&police, 24);
        for (size_t at = 0; at < sizeof(bytes); at += piece)
            rpc_police_bytes(&police, 0, bytes + at,
                             sizeof(bytes) - at < piece ? sizeof(bytes) - at : piece);
        if (piece == 1)
            left = police.control;
        assert_uint_equal(police.control, left);
        assert_uint_equal(police.control, (RPC_POLICE_CONTROL_BURST - 50) * 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floods_end_after_the_burst),
        cmocka_unit_test(a_drip_within_the_rate_is_taken_for_ever),
        cmocka_unit_test(a_busy_reader_is_no_flood),
        cmocka_unit_test(who_reads_a_stream_may_measure_the_path),
        cmocka_unit_test(frames_are_counted_however_they_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
