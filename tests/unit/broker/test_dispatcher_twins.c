/* Two agents with the name of one node: the second one is refused while the first one is heard, and
 * Status names both. */
#include "src/broker/explain/translate.h"
#include "tests/unit/broker/dispatcher_stand.h"

enum { HEARTBEAT_MS = 10000 }; /* a third of node_degraded_after */

static void begins(struct stand *stand, struct agent *agent, const char *boot_id,
                   uint64_t started_ms)
{
    size_t before = agent->count;

    open_stream(agent);
    hello_of_agent(agent, "node-1", boot_id, started_ms);
    await(stand, agent->ended || agent->count > before);
}

static void is_refused(struct stand *stand, const struct agent *agent)
{
    assert_true(agent->ended);
    assert_int_equal(agent->status, RPC_FAILED_PRECONDITION);
    assert_non_null(strstr(agent->message, "NODE_TAKEN"));
    assert_non_null(strstr(agent->message, "is node node-1"));
    assert_non_null(strstr(agent->message, "--name"));
    assert_uint_equal(dispatcher_connected_count(stand->fake->broker.dispatcher), 1);
    assert_string_equal(fsm_node_find(stand->fake->replica.fsm, "node-1")->boot_id, "boot-1");
}

/* On the same machine, with a folder of its own, or on another one, or a copy of its image. */
static void a_second_agent_of_a_name_is_refused_while_the_first_is_heard(void **state)
{
    struct stand *stand = *state;
    struct agent *first = &stand->agents[0], *second = &stand->agents[1];
    struct scratch scratch = {NULL};
    char *warning;

    fake_serve(stand->fake);
    begins(stand, first, "boot-1", 1000);
    assert_null(dispatcher_twin_warning(stand->fake->broker.dispatcher, &scratch));
    begins(stand, second, "boot-1", 2000);
    is_refused(stand, second);
    begins(stand, second, "boot-2", 1000);
    is_refused(stand, second);
    assert_false(first->ended);
    assert_uint_equal(stand->fake->broker.counters.agent_twins_total, 2);
    warning = dispatcher_twin_warning(stand->fake->broker.dispatcher, &scratch);
    assert_non_null(warning);
    assert_non_null(strstr(warning, "node node-1 has two agents, at 127.0.0.1:"));
    for (uint64_t beat = 1; beat <= 7; beat++) {
        fake_advance_ms(stand->fake, HEARTBEAT_MS);
        heartbeat(first, beat);
        for (int turns = 0; turns < 50; turns++)
            turn(stand);
    }
    assert_null(dispatcher_twin_warning(stand->fake->broker.dispatcher, &scratch));
    begins(stand, second, "boot-2", 1000);
    is_refused(stand, second);
    scratch_free(&scratch);
}

/* A stream that a power cut leaves open does not keep the next agent out for long. */
static void the_next_agent_of_a_silent_one_is_let_in(void **state)
{
    struct stand *stand = *state;
    struct agent *first = &stand->agents[0], *second = &stand->agents[1];

    fake_serve(stand->fake);
    begins(stand, first, "boot-1", 1000);
    fake_advance_ms(stand->fake, HEARTBEAT_MS * 3 / 2 - 1);
    begins(stand, second, "boot-1", 2000);
    is_refused(stand, second);
    fake_advance_ms(stand->fake, 1);
    begins(stand, second, "boot-1", 2000);
    await(stand, first->ended);
    assert_false(second->ended);
    assert_int_equal(first->status, RPC_ABORTED);
}

static void the_same_agent_comes_back_over_another_connection(void **state)
{
    struct stand *stand = *state;
    struct agent *first = &stand->agents[0], *again = &stand->agents[1];

    fake_serve(stand->fake);
    begins(stand, first, "boot-1", 1000);
    begins(stand, again, "boot-1", 1000);
    await(stand, first->ended);
    assert_false(again->ended);
    assert_uint_equal(stand->fake->broker.counters.agent_twins_total, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_second_agent_of_a_name_is_refused_while_the_first_is_heard, setup, teardown),
        cmocka_unit_test_setup_teardown(the_next_agent_of_a_silent_one_is_let_in, setup, teardown),
        cmocka_unit_test_setup_teardown(the_same_agent_comes_back_over_another_connection, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
