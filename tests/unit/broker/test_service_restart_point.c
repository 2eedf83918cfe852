/* The policy in a restart point, by a real replica of one member. */
#include "tests/unit/broker/service_calls.h"

/* S1-049: the agent hears it before each start. */
static void the_restart_point_says_whether_programs_are_saved_from_outside(void **state)
{
    static struct answer answer;
    Ckpt__V1__GetRestartPointRequest ask = CKPT__V1__GET_RESTART_POINT_REQUEST__INIT;
    Ckpt__V1__SetPolicyRequest set = CKPT__V1__SET_POLICY_REQUEST__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;

    (void)state;
    ckpt__v1__mutation_reply__free_unpacked(register_allocation("register-1", "outside"), NULL);
    ask.allocation_id = (char *)(uintptr_t) "outside";
    for (int yes = 0; yes <= 1; yes++) {
        Ckpt__V1__RestartPoint *point;

        policy.transparent =
            yes ? CKPT__V1__TRANSPARENT__TRANSPARENT_YES : CKPT__V1__TRANSPARENT__TRANSPARENT_NO;
        set.policy = &policy;
        set.request_id = (char *)(uintptr_t)(yes ? "outside-1" : "outside-0");
        call(OPERATOR("SetPolicy"), &set.base, &answer);
        expect(&answer, RPC_OK, "");
        call(BROKER("GetRestartPoint"), &ask.base, &answer);
        point = ckpt__v1__restart_point__unpack(NULL, answer.length, answer.bytes);
        assert_int_equal(point->transparent, yes);
        ckpt__v1__restart_point__free_unpacked(point, NULL);
    }
}

#define WITH(open, test) cmocka_unit_test_setup_teardown(test, open, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(open_one, the_restart_point_says_whether_programs_are_saved_from_outside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
