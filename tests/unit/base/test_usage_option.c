/* Words of a command line that are none: named, one line, with the nearest that is one (U2). */
#include "src/base/usage.h"

#include "src/base/err.h"
#include "tests/support/test.h"

enum { WORDS_MAX = 8 };

static const struct option table[] = {{"alloc", required_argument, NULL, 'a'},
                                      {"output", required_argument, NULL, 'o'},
                                      {"quiet", no_argument, NULL, 'q'},
                                      {"quota", no_argument, NULL, 'Q'},
                                      {NULL, 0, NULL, 0}};

static const char *value; /* of the last option */

/* The last option of the line, or what refused it. */
static int parse(const char *line, const char *letters, struct err *err)
{
    static char copy[128]; /* `value` points into it */
    char *words[WORDS_MAX] = {copy}, *rest = copy;
    int count = 0, option, last = -1;

    snprintf(copy, sizeof(copy), "%s", line);
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        words[count++] = word;
    optind = 0; /* from the beginning again */
    while ((option = usage_option(count, words, letters, table, err)) != -1) {
        last = option;
        value = optarg;
        if (option == '?')
            break;
    }
    return last;
}

static void what_is_no_option_is_named_with_the_nearest(void **state)
{
    static const struct {
        const char *line, *letters, *text;
    } cases[] = {{"p --aloc j", "", "unknown option --aloc; the nearest is --alloc"},
                 {"p --nothing-like-it", "", "unknown option --nothing-like-it"},
                 {"p --outputt=json", "", "unknown option --outputt=json; the nearest is --output"},
                 {"p --alloc", "", "--alloc needs a value"},
                 {"p --all", "", "--alloc needs a value"},
                 {"p --quiet=yes", "", "--quiet takes no value"},
                 {"p --qu", "", "unknown option --qu; the nearest is --quiet"},
                 {"p -a j", "", "unknown option -a"},
                 {"p -o", "o:", "-o needs a value"},
                 {"p --quiet -xy", "", "unknown option -x"}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = {0};

        assert_int_equal(parse(cases[i].line, cases[i].letters, &err), '?');
        assert_int_equal(err.code, ERR_INVALID);
        assert_string_equal(err.text, cases[i].text);
    }
}

static void what_is_one_is_taken_as_ever(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(parse("p --alloc j word --quiet", "", &err), 'q');
    assert_int_equal(parse("p -ojson", "o:", &err), 'o');
    assert_string_equal(value, "json");
    assert_int_equal(parse("p --al=j", "", &err), 'a');
    assert_string_equal(value, "j");
    assert_int_equal(parse("p word", "", &err), -1);
    assert_string_equal(err.text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_option_is_named_with_the_nearest),
        cmocka_unit_test(what_is_one_is_taken_as_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
