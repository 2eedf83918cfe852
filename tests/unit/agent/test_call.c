/* The gRPC way's pure parts: what of a deferral is granted, which endpoints are none (S1-038,
 * P-043, I34). */
#include "src/agent/app/app_register.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/attempt_step.h"
#include "tests/support/test.h"

static void a_deferral_is_granted_up_to_what_is_left(void **state)
{
    (void)state;
    assert_uint_equal(deferral_granted(60000, 0, 300000), 60000);
    assert_uint_equal(deferral_granted(600000, 0, 300000), 300000);
    assert_uint_equal(deferral_granted(60000, 250000, 300000), 50000);
    assert_uint_equal(deferral_granted(60000, 300000, 300000), 0);
    assert_uint_equal(deferral_granted(UINT64_MAX, 299999, 300000), 1);
    assert_uint_equal(deferral_granted(60000, 0, 0), 0); /* an order of a broker that knows none */
}

/* Each is a report: however little is asked for at a time, there are at most so many of them. */
static void deferrals_are_few_and_never_beyond_the_limit(void **state)
{
    static const uint64_t limits[] = {1, 999, 1000, 5000, 31999, 300000, 86400000};

    (void)state;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        uint64_t used_ms = 0;
        int count = 0;
        for (uint64_t granted_ms; (granted_ms = deferral_granted(0, used_ms, limits[i])) > 0;
             count++)
            used_ms += granted_ms;
        assert_uint_equal(used_ms, limits[i]);
        assert_true(count <= 33);
    }
}

static void an_endpoint_is_an_absolute_path_of_a_unix_socket(void **state)
{
    char text[200] = "unix:/";

    (void)state;
    assert_null(app_register_endpoint_wrong("unix:/run/user/1000/app.sock"));
    assert_null(app_register_endpoint_wrong("unix:/tmp/..hidden/a..b"));
    assert_non_null(app_register_endpoint_wrong(""));
    assert_non_null(app_register_endpoint_wrong("unix:"));
    assert_non_null(app_register_endpoint_wrong("unix:app.sock"));
    assert_non_null(app_register_endpoint_wrong("/tmp/app.sock"));
    assert_non_null(app_register_endpoint_wrong("127.0.0.1:80"));
    assert_non_null(app_register_endpoint_wrong("unix:/tmp/../etc/app.sock"));
    assert_non_null(app_register_endpoint_wrong("unix:/tmp/.."));
    assert_non_null(app_register_endpoint_wrong("unix:/tmp/a b"));
    assert_non_null(app_register_endpoint_wrong("unix:/tmp/a\nb"));
    memset(text + 6, 'x', 106);
    assert_null(app_register_endpoint_wrong(text));
    text[6 + 106] = 'x';
    assert_non_null(app_register_endpoint_wrong(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deferral_is_granted_up_to_what_is_left),
        cmocka_unit_test(deferrals_are_few_and_never_beyond_the_limit),
        cmocka_unit_test(an_endpoint_is_an_absolute_path_of_a_unix_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
