/* Users' names that were found out lately: fresh ones are known, the eldest makes room. */
#include "src/agent/app/own_names.h"

#include "tests/support/test.h"

static void a_name_is_known_while_it_is_fresh(void **state)
{
    struct own_names names = {0};
    const struct own_name *known;

    (void)state;
    assert_null(own_names_get(&names, 0, 1));
    own_names_put(&names, 1000, 1, "ann", "staff,gpu");
    known = own_names_get(&names, 1000, OWN_NAMES_FRESH_US);
    assert_non_null(known);
    assert_string_equal(known->owner, "ann");
    assert_string_equal(known->groups, "staff,gpu");
    assert_null(own_names_get(&names, 1001, 2));
    assert_null(own_names_get(&names, 1000, 1 + OWN_NAMES_FRESH_US));
    own_names_put(&names, 1000, OWN_NAMES_FRESH_US, "ann", "");
    known = own_names_get(&names, 1000, 1 + OWN_NAMES_FRESH_US);
    assert_non_null(known);
    assert_string_equal(known->groups, "");
    own_names_close(&names);
    assert_null(own_names_get(&names, 1000, 2));
}

static void the_eldest_makes_room(void **state)
{
    struct own_names names = {0};

    (void)state;
    for (unsigned i = 0; i < OWN_NAMES_MAX; i++)
        own_names_put(&names, i, 10 + i, "user", "");
    own_names_put(&names, 0, 100, "user", ""); /* found anew */
    own_names_put(&names, 99, 101, "user", "");
    assert_null(own_names_get(&names, 1, 102));
    assert_non_null(own_names_get(&names, 0, 102));
    assert_non_null(own_names_get(&names, 2, 102));
    assert_non_null(own_names_get(&names, 99, 102));
    own_names_close(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_known_while_it_is_fresh),
        cmocka_unit_test(the_eldest_makes_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
