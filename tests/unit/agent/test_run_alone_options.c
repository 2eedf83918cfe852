/* The line of ckpt-run --standalone: each mistake gets its word (S4-007). */
#include "src/agent/run/run_options.h"

#include <unistd.h>

#include "tests/support/test.h"

enum { WORDS_MAX = 16, LINE_BYTES = 200 };

static struct run_options options;
static struct err err;

/* The words of the line, at its blanks. */
static int parse(const char *line)
{
    static char text[LINE_BYTES];
    char *words[WORDS_MAX];
    int count = 0;

    snprintf(text, sizeof(text), "ckpt-run %s", line);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(count < WORDS_MAX - 1);
        words[count++] = word;
    }
    words[count] = NULL;
    err = (struct err){0};
    optind = 0; /* of getopt: a line anew */
    return run_options_parse(count, words, &options, &err);
}

static void refuses(const char *line, const char *said)
{
    assert_int_equal(parse(line), -1);
    assert_contains(err.text, said);
}

static void a_whole_line_is_taken_and_three_stay_by_default(void **state)
{
    (void)state;
    assert_int_equal(parse("--standalone --every 30m --dir /d -- true"), 0);
    assert_true(options.alone.wanted);
    assert_uint_equal(options.alone.every_ms, 30 * 60000);
    assert_string_equal(options.alone.folder, "/d");
    assert_uint_equal(options.alone.keep, 3);
    assert_int_equal(parse("--standalone --every 1s --dir /d --keep 100 --ranks 4 -- true"), 0);
    assert_uint_equal(options.alone.keep, 100);
    assert_int_equal(parse("--standalone --every 2h --dir d --max-restarts 9 -- true"), 0);
    assert_uint_equal(options.restarts_max, 9);
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    refuses("--standalone --every 30m -- true", "--dir DIR is missing");
    refuses("--standalone --dir /d -- true", "--every TIME is missing");
    refuses("--standalone --every 30m --dir /d", "the command is missing");
    refuses("-- true", "--standalone");
}

static void a_wrong_value_is_named_with_its_limit(void **state)
{
    (void)state;
    refuses("--standalone --every 999ms --dir /d -- true", "1s to 30d");
    refuses("--standalone --every 31d --dir /d -- true", "1s to 30d");
    refuses("--standalone --every 30 --dir /d -- true", "\"30\" is not a duration");
    refuses("--standalone --every 30m --dir /d --keep 0 -- true", "1 to 100");
    refuses("--standalone --every 30m --dir /d --keep 101 -- true", "1 to 100");
}

static void words_of_a_cluster_do_not_go_with_it(void **state)
{
    (void)state;
    refuses("--standalone --every 30m --dir /d --alloc x -- true", "--alloc names a job");
    refuses("--standalone --every 30m --dir /d --socket /s -- true", "--socket names the agent");
    refuses("--standalone --every 30m --dir /d --stay -- true", "--stay waits for a cluster");
}

static void its_words_do_not_go_with_a_cluster(void **state)
{
    (void)state;
    refuses("--alloc x --every 30m -- true", "--every is of use with --standalone");
    refuses("--alloc x --dir /d -- true", "--dir is of use with --standalone");
    refuses("--alloc x --keep 3 -- true", "--keep is of use with --standalone");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_line_is_taken_and_three_stay_by_default),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(a_wrong_value_is_named_with_its_limit),
        cmocka_unit_test(words_of_a_cluster_do_not_go_with_it),
        cmocka_unit_test(its_words_do_not_go_with_a_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
