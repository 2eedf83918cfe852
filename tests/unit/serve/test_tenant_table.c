/* Tables of tenants: the owners of jobs, and who looks at all of a tenant. */
#include "tests/support/test.h"

#include "src/serve/tenant_table.h"

static void a_tenant_is_the_users_or_one_of_a_group(void **state)
{
    (void)state;
    assert_true(tenant_is_named("ann", "ann", "ann,lab"));
    assert_true(tenant_is_named("lab", "ann", "ann,lab"));
    assert_false(tenant_is_named("la", "ann", "ann,lab"));
    assert_false(tenant_is_named("labs", "ann", "ann,lab"));
    assert_false(tenant_is_named("bob", "ann", "ann,lab"));
    assert_false(tenant_is_named("bob", "ann", ""));
}

static void the_sites_table_gives_others(void **state)
{
    const char *table = "physics=@lab,bob shared=*  bio=@biology,carl";

    (void)state;
    assert_true(tenant_table_gives(table, "physics", "ann", "ann,lab"));
    assert_true(tenant_table_gives(table, "physics", "bob", "bob"));
    assert_false(tenant_table_gives(table, "physics", "carl", "carl")); /* of the next row */
    assert_true(tenant_table_gives(table, "bio", "carl", "carl"));
    assert_false(
        tenant_table_gives(table, "bio", "biology", "x")); /* a user who is named like it */
    assert_true(tenant_table_gives(table, "shared", "anyone", ""));
    assert_false(tenant_table_gives(table, "physic", "bob", "bob"));
    assert_false(tenant_table_gives(table, "bob", "ann", "ann")); /* a user, no tenant */
}

static void a_wrong_table_is_refused_with_the_word(void **state)
{
    static const char *const wrong[] = {"physics", "physics=",        "=ann",
                                        "a/b=ann", "physics=ann=bob", "ok=ann wrong"};
    struct err err;

    (void)state;
    assert_int_equal(tenant_table_check("tenant_admins", "", &err), 0);
    assert_int_equal(tenant_table_check("tenant_admins", "physics=@lab,bob shared=*", &err), 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(tenant_table_check("tenant_admins", wrong[i], &err), -1);
    assert_non_null(strstr(err.text, "tenant_admins has \"wrong\""));
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
