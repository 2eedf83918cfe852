/* The tenants that a user may register jobs of the own for. */
#include "tests/support/test.h"

#include "src/agent/app/own_tenant.h"

static void a_tenant_is_the_users_or_one_of_a_group(void **state)
{
    (void)state;
    assert_true(own_tenant_is("ann", "ann", "ann,lab", ""));
    assert_true(own_tenant_is("lab", "ann", "ann,lab", ""));
    assert_false(own_tenant_is("la", "ann", "ann,lab", ""));
    assert_false(own_tenant_is("labs", "ann", "ann,lab", ""));
    assert_false(own_tenant_is("bob", "ann", "ann,lab", ""));
    assert_false(own_tenant_is("bob", "ann", "", ""));
}

static void the_sites_table_gives_others(void **state)
{
    const char *table = "physics=@lab,bob shared=*  bio=@biology,carl";

    (void)state;
    assert_true(own_tenant_is("physics", "ann", "ann,lab", table));
    assert_true(own_tenant_is("physics", "bob", "bob", table));
    assert_false(own_tenant_is("physics", "carl", "carl", table)); /* of the next row */
    assert_true(own_tenant_is("bio", "carl", "carl", table));
    assert_false(own_tenant_is("bio", "biology", "x", table)); /* a user who is named like it */
    assert_true(own_tenant_is("shared", "anyone", "", table));
    assert_false(own_tenant_is("physic", "bob", "bob", table));
    assert_false(own_tenant_is("bob", "ann", "ann", table)); /* a user, no tenant */
}

static void a_wrong_table_is_refused_with_the_word(void **state)
{
    static const char *const wrong[] = {"physics", "physics=",        "=ann",
                                        "a/b=ann", "physics=ann=bob", "ok=ann wrong"};
    struct err err;

    (void)state;
    assert_int_equal(own_tenants_check("", &err), 0);
    assert_int_equal(own_tenants_check("physics=@lab,bob shared=*", &err), 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(own_tenants_check(wrong[i], &err), -1);
    assert_non_null(strstr(err.text, "\"wrong\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_is_the_users_or_one_of_a_group),
        cmocka_unit_test(the_sites_table_gives_others),
        cmocka_unit_test(a_wrong_table_is_refused_with_the_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
