/* Where the process of a note runs (S4-007). */
#include "src/agent/alone/alone_place.h"

#include "tests/support/test.h"

static const struct alone_place here = {"vm", "aaaa-1", 4026531836};

static void its_lines_come_back(void **state)
{
    char text[ALONE_PLACE_BYTES];
    struct alone_place own, read = {.host = "kept"};

    (void)state;
    alone_place_own(&own);
    assert_true(own.host[0] != '\0' && own.boot_id[0] != '\0' && own.pid_namespace != 0);
    alone_place_format(&own, text);
    alone_place_parse(text, &read);
    assert_string_equal(read.host, "kept");
    assert_string_equal(read.boot_id, own.boot_id);
    assert_true(read.pid_namespace == own.pid_namespace);
    own.boot_id[0] = '\0';
    alone_place_format(&own, text);
    assert_contains(text, "boot=unknown\n");
    alone_place_parse(text, &read);
    assert_string_equal(read.boot_id, "");
    assert_true(read.pid_namespace == own.pid_namespace);
    alone_place_parse("", &read); /* of a release before */
    assert_true(read.pid_namespace == 0);
}

static void what_it_means_here(void **state)
{
    const struct alone_place own = here;
    struct alone_place noted = here;

    (void)state;
    assert_int_equal(alone_place_distance(&noted, &own), ALONE_HERE);
    snprintf(noted.host, sizeof(noted.host), "container");
    assert_int_equal(alone_place_distance(&noted, &own), ALONE_HERE);
    noted.pid_namespace++;
    assert_int_equal(alone_place_distance(&noted, &own), ALONE_UNSEEN);
    snprintf(noted.boot_id, sizeof(noted.boot_id), "bbbb-2");
    assert_int_equal(alone_place_distance(&noted, &own), ALONE_ELSEWHERE);
    noted = here;
    snprintf(noted.boot_id, sizeof(noted.boot_id), "bbbb-2"); /* it was booted since */
    assert_int_equal(alone_place_distance(&noted, &own), ALONE_ELSEWHERE);
}

/* As of a release before, or where the kernel does not tell: the host alone counts. */
static void without_the_boot_the_host_says_which_machine(void **state)
{
    const struct alone_place own = here;
    struct alone_place noted = {.host = "vm"};

    (void)state;
    assert_int_equal(alone_place_distance(&noted, &own), ALONE_HERE);
    noted.pid_namespace = 1;
    assert_int_equal(alone_place_distance(&noted, &own), ALONE_UNSEEN);
    snprintf(noted.host, sizeof(noted.host), "other");
    assert_int_equal(alone_place_distance(&noted, &own), ALONE_ELSEWHERE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_lines_come_back),
        cmocka_unit_test(what_it_means_here),
        cmocka_unit_test(without_the_boot_the_host_says_which_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
