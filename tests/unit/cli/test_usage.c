/* What is typed wrongly ends with exit code 2, names the value, and says what to type instead.
 * Nothing is sent. */
#include <stdio.h>

#include "src/cli/commands.h"
#include "src/cli/other_words.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

/* long: the table of mistakes */
static void each_mistake_is_a_usage_error_that_says_what_to_do(void **state)
{
    static const struct {
        const char *words;
        const char *error;
    } mistakes[] = {
        {"", "usage: ckptctl"},
        {"statsu", "try: ckptctl status"},
        {"target", "try: ckptctl target put"},
        {"polcy get", "try: ckptctl policy get"},
        {"destinations", "try: ckptctl targets"},
        {"config get", "try: ckptctl policy get"},
        {"config history", "try: ckptctl audit list"},
        {"backup restore x", "try: ckptd --config FILE --bootstrap --restore"},
        {"cluster", "try: ckptctl cluster adopt"},
        {"\033[31mx", "unknown command \"?[31mx\""},
        {"job", "job needs JOB"},
        {"job a b", "takes no further argument: \"b\""},
        {"jobs --stat RUNNING", "try: --state"},
        {"jobs --tenant", "--tenant needs a value"},
        {"jobs --tenant=", "--tenant: the value is empty\n  try: ckptctl help jobs\n"},
        {"-o xml", "yaml, name\n  try: ckptctl help\n"},
        {"jobs --tenant a --tenant b", "--tenant is given twice"},
        {"jobs --state FLYING", "\"FLYING\" is not one of RUNNING, CHECKPOINTING_TO_STOP"},
        {"-o xml jobs", "\"xml\" is not one of table, wide, json, jsonl, yaml, name"},
        {"jobs --no-headers=yes", "unknown option --no-headers=yes"},
        {"jobs --timeout 5", "\"5\" is not a duration"},
        {"jobs --timeout 1ms", "10ms to 1h are taken"},
        {"jobs --yes", "unknown option --yes"},
        {"--class 5 preempt", "unknown option --class"},
        {"preempt --nodes 2", "needs --class and --nodes"},
        {"preempt --class 11 --nodes 2", "\"11\" is out of range; 0 to 10 are taken"},
        {"preempt --class -1 --nodes 2", "\"-1\" is not a whole number; 0 to 10 are taken"},
        {"preempt --class NaN --nodes 2", "\"NaN\" is not a whole number"},
        {"preempt --class 5 --nodes 99999999999999999999", "is not a whole number"},
        {"preempt --class 5 --nodes 2x", "\"2x\" is not a whole number"},
        {"preempt --class 5 --nodes 2 --candidates a,,b", "an item is empty"},
        {"checkpoint 42", "EPOCH-SEQUENCE"},
        {"checkpoint 1-x", "\"1-x\" is not a checkpoint id"},
        {"checkpoint 0-0", "is not a checkpoint id"},
        {"cancel ../etc", "is not a checkpoint id"},
        {"hint j --request-id a/b",
         "--request-id: \"a/b\" is not 1 to 128 characters of A-Z a-z 0-9 . _ - (it has 3 bytes)"},
        {"request a/b", "the request id: \"a/b\" is not 1 to 128 characters"},
        {"register --alloc a", "needs --alloc and --node"},
        {"register --alloc a --node n1", "the form is NODE:GPUS"},
        {"register --alloc a --node n1:9999", "0 to 1024 are taken"},
        {"register --alloc a --node n1:8:-5", "\"-5\" is not a size"},
        {"register --alloc a --node n/1:8", "a node: \"n/1\" is not 1 to 128 characters"},
        {"register --alloc a --node n1:8:1GB:lent", "only \"borrowed\" or \"own\" may follow"},
        {"register --file x --alloc a", "--alloc cannot be given beside --file"},
        {"register --file /nonexistent/job.yaml", "cannot open /nonexistent/job.yaml"},
        {"queue report v --waiting j:11:8", "0 to 10 are taken"},
        {"queue report v --waiting j", "JOB:CLASS:GPUS"},
        {"queue report v --waiting j:1:8:5m:x", "j: urgency"},
        {"queue report v --waiting j:1:8:5m:2:maybe", "is not \"sensitive\""},
        {"policy set min_interval", "is not KEY=VALUE"},
        {"policy set min_interval=5", "\"5\" is not a duration"},
        {"policy set min_intervall=5m", "nearest: min_interval_ms"},
        {"target put t --prefix /x --write 1GB/s --staging-share 1.5", "0% to 100% are taken"},
        {"completion csh", "\"csh\" is not one of bash fish zsh"},
        {"help nothing", "unknown command"},
        {"end j", "end needs --yes"},
        {"node drain n", "node drain needs --yes"},
        {"node down n", "it needs --is-off"},
        {"node down n --is-off", "node down needs --yes"},
    };
    struct harness h;

    (void)state;
    harness_init(&h);
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        int code = harness_run(&h, mistakes[i].words);

        if (code != CLI_USAGE)
            print_error("ckptctl %s: exit %d\n%s", mistakes[i].words, code, h.error);
        assert_int_equal(code, CLI_USAGE);
        assert_contains(h.error, mistakes[i].error);
        assert_string_equal(h.out, "");
    }
    assert_uint_equal(h.call_count, 0);
    harness_close(&h);
}

/* One rule for all: a script may say --yes to each change, also to one that does not ask. */
static void every_change_takes_yes_and_no_other_command_does(void **state)
{
    struct harness h;
    char words[128];

    (void)state;
    harness_init(&h);
    for (const struct command *c = commands; c->name != NULL; c++) {
        snprintf(words, sizeof(words), "%s --yes --help", c->name);
        if (c->kind == COMMAND_CHANGES)
            assert_int_equal(harness_run(&h, words), CLI_OK);
        else if (harness_run(&h, words) == CLI_OK)
            fail_msg("%s takes --yes and changes nothing", c->name);
    }
    harness_close(&h);
}

static void options_stand_anywhere_and_in_each_form(void **state)
{
    static const char *const forms[] = {
        "--endpoints m:1 -o json hint j --purpose drain --dry-run",
        "hint --purpose=drain --output=json j --dry-run --endpoints=m:1",
        "hint -ojson --dry-run --endpoints m:1 --purpose DRAIN -- j",
    };
    struct harness h;

    (void)state;
    harness_init(&h);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(harness_run(&h, forms[i]), CLI_OK);
        assert_contains(h.out, "\"purpose\": \"DRAIN\"");
        assert_contains(h.out, "\"allocation_id\": \"j\"");
    }
    assert_uint_equal(h.call_count, 0);
    harness_close(&h);
}

static void help_knows_every_command_and_option(void **state)
{
    struct harness h;
    char words[128];

    (void)state;
    harness_init(&h);
    for (const struct command *c = commands; c->name != NULL; c++) {
        snprintf(words, sizeof(words), "help %s", c->name);
        assert_int_equal(harness_run(&h, words), CLI_OK);
        assert_contains(h.out, c->help);
        for (const struct option_spec *o = c->options; o != NULL && o->name != NULL; o++) {
            snprintf(words, sizeof(words), "--%s", o->name);
            assert_contains(h.out, words);
        }
        snprintf(words, sizeof(words), "%s --help", c->name);
        assert_int_equal(harness_run(&h, words), CLI_OK);
        assert_contains(h.out, c->help);
        assert_int_equal(harness_run(&h, "help"), CLI_OK);
        assert_contains(h.out, c->name);
    }
    harness_close(&h);
}

static void help_on_the_first_of_two_words_lists_what_it_holds(void **state)
{
    static const char *const asked[] = {"member --help", "member -h", "help member",
                                        "--help member"};
    struct harness h;

    (void)state;
    harness_init(&h);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        assert_int_equal(harness_run(&h, asked[i]), CLI_OK);
        assert_contains(h.out, "usage: ckptctl [options] member");
        assert_contains(h.out, "member replace");
        assert_null(strstr(h.out, "tls init"));
    }
    assert_int_equal(harness_run(&h, "member"), CLI_USAGE);
    assert_contains(h.error, "member needs a second word");
    assert_int_equal(harness_run(&h, "member -q"), CLI_USAGE);
    assert_contains(h.error, "member needs a second word");
    assert_int_equal(harness_run(&h, "member -q list"), CLI_NO_LEADER);
    assert_int_equal(harness_run(&h, "help member nothing"), CLI_USAGE);
    harness_close(&h);
}

/* U4: each line that stands for a word of another system begins with a command that there is. */
static void words_of_other_systems_lead_to_commands(void **state)
{
    char first[64], second[64];
    const char *line;
    size_t taken, count = 0;

    (void)state;
    for (; (line = other_words_at(count)) != NULL; count++) {
        int found = sscanf(line, "ckptctl %63s %63s", first, second);

        if (found >= 1 &&
            command_find((const char *const[]){first, found > 1 ? second : NULL}, &taken) == NULL)
            fail_msg("%s: there is no such command", line);
    }
    assert_true(count > 20);
}

static void endpoints_come_from_option_then_environment_then_default(void **state)
{
    struct harness h;

    (void)state;
    harness_init(&h);
    unsetenv("CKPT_ENDPOINTS");
    assert_int_equal(harness_run(&h, "status"), CLI_NO_LEADER);
    assert_contains(h.error, "127.0.0.1:7443");
    setenv("CKPT_ENDPOINTS", "env:1,env:2", 1);
    assert_int_equal(harness_run(&h, "status"), CLI_NO_LEADER);
    assert_contains(h.error, "none of 2 members");
    assert_contains(h.error, "env:1");
    assert_int_equal(harness_run(&h, "status --endpoints opt:1"), CLI_NO_LEADER);
    assert_contains(h.error, "opt:1");
    unsetenv("CKPT_ENDPOINTS");
    harness_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_is_a_usage_error_that_says_what_to_do),
        cmocka_unit_test(every_change_takes_yes_and_no_other_command_does),
        cmocka_unit_test(options_stand_anywhere_and_in_each_form),
        cmocka_unit_test(help_knows_every_command_and_option),
        cmocka_unit_test(help_on_the_first_of_two_words_lists_what_it_holds),
        cmocka_unit_test(words_of_other_systems_lead_to_commands),
        cmocka_unit_test(endpoints_come_from_option_then_environment_then_default),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
