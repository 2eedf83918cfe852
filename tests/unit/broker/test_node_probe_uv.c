/* A try over libuv. Machines that live, refuse or are off are seen on a real network:
 * tests/integration/test_silent_nodes.py. S3-060 */
#include "src/broker/health/node_probe_uv.h"
#include "tests/support/test.h"

static void take_result(void *data, enum probe_result result)
{
    *(int *)data = (int)result;
}

static int result_of(const char *address)
{
    struct probe_ops ops;
    uv_loop_t loop;
    int result = -1;

    assert_int_equal(uv_loop_init(&loop), 0);
    ops = node_probe_uv(&loop);
    assert_non_null(ops.start(ops.context, address, take_result, &result));
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    return result;
}

/* A member on the node itself is no witness, whatever listens there. */
static void an_address_of_this_host_is_local(void **state)
{
    (void)state;
    assert_int_equal(result_of("127.0.0.1:22"), PROBE_LOCAL);
    assert_int_equal(result_of("127.0.0.1:1"), PROBE_LOCAL);
}

static void what_is_no_address_says_nothing(void **state)
{
    static const char *const texts[] = {"", "node7:22", "10.0.0.7", "10.0.0.7:65536", "[::1"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(result_of(texts[i]), PROBE_FAILED);
}

static void a_try_that_is_cancelled_tells_nothing(void **state)
{
    struct probe_ops ops;
    uv_loop_t loop;
    int result = -1;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    ops = node_probe_uv(&loop);
    ops.cancel(ops.start(ops.context, "192.0.2.1:22", take_result, &result));
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(result, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_of_this_host_is_local),
        cmocka_unit_test(what_is_no_address_says_nothing),
        cmocka_unit_test(a_try_that_is_cancelled_tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
