/* ckptctl profile list, show, check. S1-030. */
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

static struct harness h;
static char folder[] = "/tmp/ckpt-profiles-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("CKPT_PROFILES", folder, 1), 0);
    harness_init(&h);
    return 0;
}

static int tear_down(void **state)
{
    char line[128];

    (void)state;
    harness_close(&h);
    snprintf(line, sizeof(line), "rm -r %s", folder);
    return system(line);
}

static void put_file(const char *name, const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void profiles_are_listed_and_shown(void **state)
{
    (void)state;
    put_file("ours.yaml", "about: our solver\nrequest: {way: shm}\n");
    assert_int_equal(harness_run(&h, "profile list"), CLI_OK);
    assert_contains(h.out, "vasp");
    assert_contains(h.out, "built in");
    assert_contains(h.out, "our solver");
    assert_contains(h.out, folder);
    assert_int_equal(harness_run(&h, "profile list -o name"), CLI_OK);
    assert_contains(h.out, "ours\n");
    assert_lacks(h.out, "solver");
    assert_int_equal(harness_run(&h, "profile list -o json"), CLI_OK);
    assert_contains(h.out, "\"about\": \"our solver\"");
    assert_int_equal(harness_run(&h, "profile show vasp"), CLI_OK);
    assert_contains(h.out, "# vasp (built in)\n");
    assert_contains(h.out, "file: STOPCAR");
    assert_int_equal(harness_run(&h, "profile show vasp -o json"), CLI_OK);
    assert_contains(h.out, "\"file\": \"STOPCAR\"");
    assert_int_equal(harness_run(&h, "profile show vesp"), CLI_NOT_FOUND);
    assert_contains(h.error, "the nearest is vasp");
    assert_int_equal(h.call_count, 0); /* no member was asked */
}

static void a_file_is_checked(void **state)
{
    char words[300];

    (void)state;
    put_file("good.yaml", "request: {way: shm}\n");
    put_file("wrong.yaml", "request:\n  way: shm\n  fil: STOP\n");
    snprintf(words, sizeof(words), "profile check %s/good.yaml", folder);
    assert_int_equal(harness_run(&h, words), CLI_OK);
    assert_contains(h.out, "good.yaml is well: ckpt-run --profile /tmp");
    snprintf(words, sizeof(words), "profile check %s/wrong.yaml", folder);
    assert_int_equal(harness_run(&h, words), CLI_USAGE);
    assert_contains(h.error, "wrong.yaml, line 3: unknown key 'fil'");
    assert_contains(h.error, "the nearest known key is 'file'");
    assert_int_equal(harness_run(&h, "profile check ./none.yaml"), CLI_NOT_FOUND);
    assert_int_equal(harness_run(&h, "profile list"), CLI_PARTIAL);
    assert_contains(h.error, "wrong.yaml, line 3");
    assert_contains(h.out, "good");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(profiles_are_listed_and_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_is_checked, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
