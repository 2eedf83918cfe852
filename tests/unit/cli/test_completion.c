/* Completion of each shell is written from the table of commands, and so knows all of it. A
 * real shell reads them in tests/integration/test_install.py. */
#include "src/cli/commands.h"
#include "src/cli/option_tables.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

/* The letters around a command of the table, and before an option, in the script. */
static const struct shell {
    const char *name, *before, *behind, *option;
} shells[] = {{"bash", "\"", "\")", "--"},
              {"fish", " -a ", " -d '", " -l "}, /* the last word of two */
              {"zsh", "'", "')", "'--"}};

/* O-003: completion for bash, zsh and fish */
static void each_shell_knows_every_command_and_option(void **state)
{
    struct harness h;
    char words[128];

    (void)state;
    harness_init(&h);
    for (size_t s = 0; s < sizeof(shells) / sizeof(shells[0]); s++) {
        snprintf(words, sizeof(words), "completion %s", shells[s].name);
        assert_int_equal(harness_run(&h, words), CLI_OK);
        for (const struct command *c = commands; c->name != NULL; c++) {
            const struct option_tables tables = option_tables_of(c);
            const char *last = strchr(c->name, ' ');

            snprintf(words, sizeof(words), "%s%s%s", shells[s].before,
                     last != NULL && shells[s].before[1] == '-' ? last + 1 : c->name,
                     shells[s].behind);
            assert_contains(h.out, words);
            for (size_t t = 0; t < OPTION_TABLES; t++) {
                for (const struct option_spec *o = tables.specs[t]; o != NULL && o->name != NULL;
                     o++) {
                    snprintf(words, sizeof(words), "%s%s", shells[s].option, o->name);
                    assert_contains(h.out, words);
                }
            }
        }
        assert_lacks(h.out, "(null)");
    }
    harness_close(&h);
}

static void words_of_choices_are_offered(void **state)
{
    static const char *const offered[] = {
        "--state) words=\"RUNNING ", "-l state -x -a 'RUNNING ", "--state) compadd -- RUNNING ",
        "ckptctl jobs -o name -q",   "ckptctl nodes -o name -q", "ckptctl member list -o name -q"};
    struct harness h;
    char text[128];

    (void)state;
    harness_init(&h);
    for (size_t s = 0; s < sizeof(shells) / sizeof(shells[0]); s++) {
        snprintf(text, sizeof(text), "completion %s", shells[s].name);
        assert_int_equal(harness_run(&h, text), CLI_OK);
        assert_contains(h.out, offered[s]);
        for (size_t i = 3; i < sizeof(offered) / sizeof(offered[0]); i++)
            assert_contains(h.out, offered[i]);
    }
    harness_close(&h);
}

static void names_of_all_commands_are_printed_for_programs(void **state)
{
    struct harness h;

    (void)state;
    harness_init(&h);
    assert_int_equal(harness_run(&h, "help -o name"), CLI_OK);
    for (const struct command *c = commands; c->name != NULL; c++)
        assert_contains(h.out, c->name);
    assert_lacks(h.out, "usage:");
    harness_close(&h);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_shell_knows_every_command_and_option),
        cmocka_unit_test(words_of_choices_are_offered),
        cmocka_unit_test(names_of_all_commands_are_printed_for_programs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
