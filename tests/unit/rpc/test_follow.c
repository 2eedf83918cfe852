/* Which endpoint a client talks to. */
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/rpc/follow.h"
#include "tests/support/test.h"

struct following {
    uv_loop_t loop;
    struct rpc_follow *follow;
    bool ended; /* the call */
};

static void following_open(struct following *following, const char *endpoints)
{
    struct err err;

    assert_int_equal(uv_loop_init(&following->loop), 0);
    if (rpc_follow_new(&following->loop, endpoints, NULL, &following->follow, &err) != 0)
        fail_msg("%s", err.text);
}

static void following_close(struct following *following)
{
    rpc_follow_free(following->follow);
    uv_run(&following->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&following->loop), 0);
}

static const char *current(struct following *following)
{
    return rpc_channel_address(rpc_follow_channel(following->follow));
}

static bool ended(struct following *following, int status, const char *redirect,
                  uint64_t *ret_delay_ms)
{
    const struct rpc_end end = {.status = status,
                                .message = "",
                                .redirect = redirect,
                                .channel = rpc_follow_channel(following->follow)};

    return rpc_follow_result(following->follow, &end, ret_delay_ms);
}

static void a_list_is_checked_when_it_is_given(void **state)
{
    static const char *const bad[] = {"", "a", "127.0.0.1:1,", "127.0.0.1:1,,127.0.0.1:2",
                                      "127.0.0.1:1 127.0.0.1:2"};
    struct rpc_follow *follow;
    struct following following;
    struct err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        assert_int_equal(rpc_follow_new(NULL, bad[i], NULL, &follow, &err), -1);
    following_open(&following, "127.0.0.1:1, 127.0.0.1:2 ,unix:/run/x");
    assert_uint_equal(rpc_follow_count(following.follow), 3);
    assert_string_equal(rpc_follow_endpoint(following.follow, 1), "127.0.0.1:2");
    assert_string_equal(rpc_follow_endpoint(following.follow, 2), "unix:/run/x");
    following_close(&following);
}

static void too_many_endpoints_are_refused(void **state)
{
    struct rpc_follow *follow;
    char text[RPC_FOLLOW_ENDPOINTS_MAX * 16 + 32] = "";
    struct err err;

    (void)state;
    for (int i = 0; i <= RPC_FOLLOW_ENDPOINTS_MAX; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s127.0.0.1:%d",
                 i > 0 ? "," : "", i + 1);
    assert_int_equal(rpc_follow_new(NULL, text, NULL, &follow, &err), -1);
    assert_int_equal(err.code, ERR_FULL);
}

static void an_unavailable_endpoint_is_left_for_the_next_at_once(void **state)
{
    struct following following;
    uint64_t delay_ms;

    (void)state;
    following_open(&following, "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
    assert_string_equal(current(&following), "127.0.0.1:1");
    assert_true(ended(&following, RPC_UNAVAILABLE, NULL, &delay_ms));
    assert_uint_equal(delay_ms, 0);
    assert_string_equal(current(&following), "127.0.0.1:2");
    assert_true(ended(&following, RPC_DEADLINE_EXCEEDED, NULL, &delay_ms));
    assert_string_equal(current(&following), "127.0.0.1:3");
    following_close(&following);
}

static void a_whole_turn_without_an_answer_waits_longer_and_longer_up_to_a_limit(void **state)
{
    struct following following;
    uint64_t delay_ms, longest_ms = 0, waits = 0;

    (void)state;
    following_open(&following, "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
    for (int i = 0; i < 60; i++) {
        assert_true(ended(&following, RPC_UNAVAILABLE, NULL, &delay_ms));
        waits += delay_ms > 0;
        longest_ms = delay_ms > longest_ms ? delay_ms : longest_ms;
    }
    assert_uint_equal(waits, 20);
    assert_in_range(longest_ms, 101, 200);
    assert_false(ended(&following, RPC_OK, NULL, &delay_ms));
    for (int i = 0; i < 3; i++)
        assert_true(ended(&following, RPC_UNAVAILABLE, NULL, &delay_ms));
    assert_in_range(delay_ms, 10, 20); /* from the beginning again */
    following_close(&following);
}

/* The kernel answers for a process that never does. */
static int listen_mutely(char endpoints[64])
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address;
    socklen_t length = sizeof(address);

    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    snprintf(endpoints, 64, "127.0.0.1:%d,127.0.0.1:%d", ntohs(address.sin_port),
             ntohs(address.sin_port));
    return fd;
}

static void on_late(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct following *following = data;
    uint64_t delay_ms;

    (void)call;
    assert_int_equal(end->status, RPC_UNAVAILABLE);
    assert_true(rpc_follow_result(following->follow, end, &delay_ms));
    following->ended = true;
}

static void dial_late(struct following *following)
{
    static const struct rpc_client_handlers handlers = {.on_end = on_late};

    following->ended = false;
    (void)rpc_channel_unary(rpc_follow_channel(following->follow),
                            &(struct rpc_request){.path = "/test.T/Echo"}, &handlers, following);
    while (!following->ended)
        uv_run(&following->loop, UV_RUN_ONCE);
}

/* A peer that has thousands to greet is given more time each time, else none of them would ever be
 * through. One that refuses is not. */
static void a_dial_that_took_too_long_is_given_more_time_up_to_a_limit(void **state)
{
    enum { FIRST_MS = 8, MOST_MS = 60 };
    const struct rpc_channel_config config = {.connect_timeout_ms = FIRST_MS,
                                              .connect_timeout_max_ms = MOST_MS};
    struct following following = {0};
    char endpoints[64];
    int fd = listen_mutely(endpoints);
    uint64_t last_ms = FIRST_MS, delay_ms;
    struct err err;

    (void)state;
    assert_int_equal(uv_loop_init(&following.loop), 0);
    assert_int_equal(rpc_follow_new(&following.loop, endpoints, &config, &following.follow, &err),
                     0);
    assert_uint_equal(rpc_follow_dial_ms(following.follow), FIRST_MS);
    for (int i = 0; i < 4; i++) {
        dial_late(&following);
        assert_in_range(rpc_follow_dial_ms(following.follow),
                        last_ms * 2 < MOST_MS ? last_ms * 2 : MOST_MS,
                        last_ms * 5 / 2 < MOST_MS ? last_ms * 5 / 2 : MOST_MS);
        last_ms = rpc_follow_dial_ms(following.follow);
    }
    assert_uint_equal(last_ms, MOST_MS);
    rpc_follow_reached(following.follow);
    assert_uint_equal(rpc_follow_dial_ms(following.follow), FIRST_MS);
    assert_true(ended(&following, RPC_UNAVAILABLE, NULL, &delay_ms));
    assert_uint_equal(rpc_follow_dial_ms(following.follow), FIRST_MS);
    close(fd);
    following_close(&following);
}

static void a_hint_is_followed_also_outside_the_list(void **state)
{
    struct following following;
    uint64_t delay_ms;

    (void)state;
    following_open(&following, "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
    assert_true(ended(&following, RPC_UNAVAILABLE, "127.0.0.1:3", &delay_ms));
    assert_uint_equal(delay_ms, 0);
    assert_string_equal(current(&following), "127.0.0.1:3");
    assert_true(ended(&following, RPC_UNAVAILABLE, "127.0.0.1:9", &delay_ms));
    assert_string_equal(current(&following), "127.0.0.1:9");
    assert_true(ended(&following, RPC_UNAVAILABLE, NULL, &delay_ms)); /* gone again */
    assert_string_equal(current(&following), "127.0.0.1:1");
    following_close(&following);
}

static void an_empty_or_senseless_hint_means_the_next_one(void **state)
{
    struct following following;
    uint64_t delay_ms;

    (void)state;
    following_open(&following, "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
    assert_true(ended(&following, RPC_UNAVAILABLE, "", &delay_ms));
    assert_string_equal(current(&following), "127.0.0.1:2");
    assert_true(ended(&following, RPC_UNAVAILABLE, "no address", &delay_ms));
    assert_string_equal(current(&following), "127.0.0.1:3");
    following_close(&following);
}

static void members_that_name_each_other_are_left(void **state)
{
    struct following following;
    uint64_t delay_ms;
    bool third = false, waited = false;

    (void)state;
    following_open(&following, "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
    for (int i = 0; i < 20 && !third; i++) {
        const char *other =
            strcmp(current(&following), "127.0.0.1:1") == 0 ? "127.0.0.1:2" : "127.0.0.1:1";

        assert_true(ended(&following, RPC_UNAVAILABLE, other, &delay_ms));
        third = strcmp(current(&following), "127.0.0.1:3") == 0;
        waited |= delay_ms > 0;
    }
    assert_true(third);
    assert_true(waited);
    following_close(&following);
}

/* A refusal by the application's rules has no redirect trailer and must not be sent again. */
static void a_final_answer_is_not_worth_another_attempt(void **state)
{
    static const int final[] = {RPC_OK,
                                RPC_INVALID_ARGUMENT,
                                RPC_NOT_FOUND,
                                RPC_INTERNAL,
                                RPC_FAILED_PRECONDITION,
                                RPC_RESOURCE_EXHAUSTED,
                                RPC_CANCELLED,
                                RPC_ABORTED};
    struct following following;
    uint64_t delay_ms;

    (void)state;
    following_open(&following, "127.0.0.1:1,127.0.0.1:2");
    for (size_t i = 0; i < ARRAY_COUNT(final); i++)
        assert_false(ended(&following, final[i], NULL, &delay_ms));
    assert_string_equal(current(&following), "127.0.0.1:1");
    following_close(&following);
}

static void push_back_is_obeyed_on_the_same_endpoint(void **state)
{
    struct following following;
    struct rpc_end end = {.status = RPC_RESOURCE_EXHAUSTED, .pushback = true, .pushback_ms = 70};
    uint64_t delay_ms;

    (void)state;
    following_open(&following, "127.0.0.1:1,127.0.0.1:2");
    assert_true(rpc_follow_result(following.follow, &end, &delay_ms));
    assert_uint_equal(delay_ms, 70);
    assert_string_equal(current(&following), "127.0.0.1:1");
    following_close(&following);
}

static void calls_that_fail_together_move_once(void **state)
{
    struct following following;
    struct rpc_end end = {.status = RPC_UNAVAILABLE, .message = ""};
    uint64_t delay_ms;

    (void)state;
    following_open(&following, "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
    end.channel = rpc_follow_channel(following.follow);
    for (int i = 0; i < 5; i++) {
        assert_true(rpc_follow_result(following.follow, &end, &delay_ms));
        assert_string_equal(current(&following), "127.0.0.1:2");
    }
    following_close(&following);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_checked_when_it_is_given),
        cmocka_unit_test(too_many_endpoints_are_refused),
        cmocka_unit_test(an_unavailable_endpoint_is_left_for_the_next_at_once),
        cmocka_unit_test(a_whole_turn_without_an_answer_waits_longer_and_longer_up_to_a_limit),
        cmocka_unit_test(a_dial_that_took_too_long_is_given_more_time_up_to_a_limit),
        cmocka_unit_test(a_hint_is_followed_also_outside_the_list),
        cmocka_unit_test(an_empty_or_senseless_hint_means_the_next_one),
        cmocka_unit_test(members_that_name_each_other_are_left),
        cmocka_unit_test(a_final_answer_is_not_worth_another_attempt),
        cmocka_unit_test(push_back_is_obeyed_on_the_same_endpoint),
        cmocka_unit_test(calls_that_fail_together_move_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
