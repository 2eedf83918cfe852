/* The lines between ranks and the agent: each one there and back, what each may hold, and what is
 * said of one that is wrong. */
#include "src/agent/app/app_line.h"
#include "tests/support/test.h"

static int next(struct app_line_input *input, enum app_line_side from, const char *text,
                struct app_line *ret_line, struct err *err)
{
    const uint8_t *bytes = (const uint8_t *)text;
    size_t length = strlen(text);

    return app_line_next(input, from, &bytes, &length, ret_line, err);
}

/* What is said of a line that is wrong. */
static const char *wrong(enum app_line_side from, const char *text)
{
    static struct err err;
    struct app_line_input input = {.length = 0};
    struct app_line line;
    char whole[2 * APP_LINE_BYTES];

    snprintf(whole, sizeof(whole), "%s\n", text);
    err.text[0] = '\0';
    assert_int_equal(next(&input, from, whole, &line, &err), -1);
    assert_true(strlen(err.text) < 256); /* as much as the library keeps */
    return err.text;
}

static struct app_line right(enum app_line_side from, const char *text)
{
    struct app_line_input input = {.length = 0};
    struct app_line line;
    struct err err;
    char whole[2 * APP_LINE_BYTES];

    snprintf(whole, sizeof(whole), "%s\n", text);
    if (next(&input, from, whole, &line, &err) != 1)
        fail_msg("%s: %s", text, err.text);
    return line;
}

static const struct {
    enum app_line_side from;
    const char *text;
} every[] = {
    {APP_LINE_FROM_RANK, "hello 1 j1 4398046511105 3 1 4 2 barrier"},
    {APP_LINE_FROM_RANK, "hello 1 j1 0 0 - - - plain"},
    {APP_LINE_FROM_RANK, "hello 1 j1 0 0 - - - opened"},
    {APP_LINE_FROM_RANK, "hello 1 j1 18446744073709551615 1048575 255 1048576 256 barrier"},
    {APP_LINE_FROM_RANK, "at 1-42-1 0 0"},
    {APP_LINE_FROM_RANK, "at 1-42-1 18446744073709551615 18446744073709551615"},
    {APP_LINE_FROM_RANK, "missed 1-42-1 131"},
    {APP_LINE_FROM_RANK, "done 16777215-1099511627775-4294967295"},
    {APP_LINE_FROM_RANK, "defer 1-42-1 1"},
    {APP_LINE_FROM_RANK, "progress 1-42-1 1000000"},
    {APP_LINE_FROM_RANK, "request 0"},
    {APP_LINE_FROM_RANK, "request 18446744073709551615"},
    {APP_LINE_FROM_AGENT, "ready 1 node-a.1 4095 4096"},
    {APP_LINE_FROM_AGENT, "refused rank%203:%2010%25%20is%20too%0Alittle%C3%BC"},
    {APP_LINE_FROM_AGENT, "ask 1-42-1 1700000000000 0 out/1-42-1/rank-00003"},
    {APP_LINE_FROM_AGENT, "ask 1-42-1 1 60000 a%20b%25/..c/."
                          "d"},
    {APP_LINE_FROM_AGENT, "step 1-42-1 1"},
    {APP_LINE_FROM_AGENT, "step - 1"},
    {APP_LINE_FROM_RANK, "at - 128 250000"},
    {APP_LINE_FROM_AGENT, "withdrawn 1-42-1"},
};

static void each_line_reads_as_it_was_written(void **state)
{
    bool seen[APP_LINE_VERB_COUNT] = {false};

    (void)state;
    for (size_t i = 0; i < sizeof(every) / sizeof(every[0]); i++) {
        struct app_line line = right(every[i].from, every[i].text);
        char text[APP_LINE_BYTES + 1];
        size_t length = app_line_format(&line, text);

        assert_true(length > 0 && text[length - 1] == '\n');
        text[length - 1] = '\0';
        assert_string_equal(text, every[i].text);
        assert_int_equal(
            strncmp(text, app_line_verb_name(line.verb), strlen(app_line_verb_name(line.verb))), 0);
        seen[line.verb] = true;
    }
    for (size_t verb = 0; verb < APP_LINE_VERB_COUNT; verb++)
        assert_true(seen[verb]);
}

static void the_words_of_a_line_are_its_values(void **state)
{
    struct app_line line = right(APP_LINE_FROM_RANK, "hello 1 j1 77 3 1 4 - barrier");

    (void)state;
    assert_int_equal(line.verb, APP_LINE_HELLO);
    assert_string_equal(line.id, "j1");
    assert_uint_equal(line.run, 77);
    assert_uint_equal(line.rank, 3);
    assert_uint_equal(line.local_rank, 1);
    assert_uint_equal(line.ranks, 4);
    assert_uint_equal(line.local_ranks, APP_LINE_UNKNOWN);
    assert_int_equal(line.way, APP_LINE_BARRIER);
    line = right(APP_LINE_FROM_RANK, "at 1-42-1 128 250000");
    assert_string_equal(line.hint, "1-42-1");
    assert_uint_equal(line.step, 128);
    assert_uint_equal(line.ns_per_step, 250000);
    line = right(APP_LINE_FROM_AGENT, "ask 1-42-2 99 60000 out/1-42-2/rank-00003");
    assert_uint_equal(line.deadline_ms, 99);
    assert_uint_equal(line.max_deferral_ms, 60000);
    assert_string_equal(line.folder, "out/1-42-2/rank-00003");
    assert_string_equal(right(APP_LINE_FROM_AGENT, "refused no%0Away").text, "no\nway");
}

static void numbers_have_limits_that_are_told(void **state)
{
    (void)state;
    assert_string_equal(wrong(APP_LINE_FROM_RANK, "hello 1 j1 1 1048576 - - - plain"),
                        "hello: RANK: \"1048576\" is out of range; 0 to 1048575 are taken");
    assert_contains(wrong(APP_LINE_FROM_RANK, "hello 1 j1 1 0 256 - - plain"), "LOCAL: \"256\"");
    assert_contains(wrong(APP_LINE_FROM_RANK, "hello 1 j1 1 0 0 0 - plain"), "SIZE: \"0\"");
    assert_contains(wrong(APP_LINE_FROM_RANK, "hello 1 j1 1 0 0 - 257 plain"),
                    "LOCAL_SIZE: \"257\" is out of range; 1 to 256 are taken");
    assert_contains(wrong(APP_LINE_FROM_RANK, "hello 1 j1 1 - - - - plain"), "RANK: \"-\"");
    assert_contains(wrong(APP_LINE_FROM_RANK, "hello 1 j1 -1 0 - - - plain"), "RUN: \"-1\"");
    assert_contains(wrong(APP_LINE_FROM_RANK, "at 1-42-1 18446744073709551616 0"), "STEP");
    assert_contains(wrong(APP_LINE_FROM_RANK, "at 1-42-1 5x 0"), "STEP: \"5x\"");
    assert_contains(wrong(APP_LINE_FROM_RANK, "defer 1-42-1 0"), "MS: \"0\"");
    assert_contains(wrong(APP_LINE_FROM_RANK, "progress 1-42-1 1000001"),
                    "PPM: \"1000001\" is out of range; 0 to 1000000 are taken");
    assert_contains(wrong(APP_LINE_FROM_AGENT, "step 1-42-1 0"), "STEP: \"0\"");
    assert_contains(wrong(APP_LINE_FROM_AGENT, "ask 1-42-1 0 0 out"), "DEADLINE_MS");
}

static void numbers_of_one_line_agree(void **state)
{
    (void)state;
    assert_string_equal(wrong(APP_LINE_FROM_RANK, "hello 1 j1 1 4 0 4 2 plain"),
                        "hello: RANK is not below SIZE");
    assert_contains(wrong(APP_LINE_FROM_RANK, "hello 1 j1 1 0 2 - 2 plain"),
                    "LOCAL is not below LOCAL_SIZE");
    assert_contains(wrong(APP_LINE_FROM_RANK, "hello 1 j1 1 0 0 2 3 plain"),
                    "LOCAL_SIZE is above SIZE");
    assert_contains(wrong(APP_LINE_FROM_AGENT, "ready 1 n1 2 2"), "PART is not below PARTS");
    right(APP_LINE_FROM_RANK, "hello 1 j1 1 7 0 - 2 plain");
}

static void another_version_is_told_before_anything_else(void **state)
{
    (void)state;
    assert_string_equal(wrong(APP_LINE_FROM_RANK, "hello 2 with words of its own"),
                        "hello: VERSION is \"2\", this end speaks 1; use libckptapp and "
                        "ckpt-agentd of one release");
    assert_contains(wrong(APP_LINE_FROM_AGENT, "ready 2"), "VERSION is \"2\"");
    assert_contains(wrong(APP_LINE_FROM_RANK, "hello one"), "VERSION is \"one\"");
}

static void texts_have_a_form(void **state)
{
    char long_name[200] = "hello 1 ", folder[400] = "ask 1-42-1 5 5 ";

    (void)state;
    assert_contains(wrong(APP_LINE_FROM_RANK, "hello 1 a/b 1 0 - - - plain"),
                    "JOB: \"a/b\" is not a name");
    assert_contains(wrong(APP_LINE_FROM_RANK, "hello 1 .. 1 0 - - - plain"), "JOB: \"..\"");
    assert_contains(wrong(APP_LINE_FROM_RANK, "hello 1 a%20b 1 0 - - - plain"), "JOB: \"a%20b\"");
    memset(long_name + 8, 'x', 129);
    strcat(long_name, " 1 0 - - - plain");
    assert_contains(wrong(APP_LINE_FROM_RANK, long_name), "1 to 128");
    assert_contains(wrong(APP_LINE_FROM_RANK, "hello 1 j1 1 0 - - - often"),
                    "\"often\" is neither barrier nor plain nor opened");
    assert_contains(wrong(APP_LINE_FROM_RANK, "done x"), "HINT: \"x\" is not the hint");
    assert_contains(
        wrong(APP_LINE_FROM_RANK, "done 123456789012345678901234567890123456789012345678"), "HINT");
    for (size_t i = 0; i < 6; i++) {
        static const char *const folders[] = {"/etc", "out//a", "out/", ".", "a/../b", "a/.."};

        snprintf(folder + 15, sizeof(folder) - 15, "%s", folders[i]);
        assert_contains(wrong(APP_LINE_FROM_AGENT, folder), "is not a folder below");
    }
    for (size_t i = 0; i < 4; i++) {
        static const char *const words[] = {"a%", "a%2", "a%zz", "a%00"};

        snprintf(folder + 15, sizeof(folder) - 15, "%s", words[i]);
        assert_contains(wrong(APP_LINE_FROM_AGENT, folder), words[i]);
    }
    memset(folder + 15, 'x', 255);
    folder[15 + 255] = '\0';
    right(APP_LINE_FROM_AGENT, folder);
    folder[15 + 255] = 'x';
    folder[15 + 256] = '\0';
    assert_contains(wrong(APP_LINE_FROM_AGENT, folder), "1 to 255 bytes");
}

static void other_words_are_refused_by_name(void **state)
{
    (void)state;
    assert_string_equal(wrong(APP_LINE_FROM_RANK, "hallo 1"),
                        "\"hallo\" is nothing that a rank says in version 1");
    assert_contains(wrong(APP_LINE_FROM_RANK, "ask 1-42-1 5 5 out"), "\"ask\" is nothing");
    assert_contains(wrong(APP_LINE_FROM_AGENT, "done 1-42-1"), "nothing that an agent says");
    assert_string_equal(wrong(APP_LINE_FROM_RANK, "at 1-42-1 5"),
                        "at: 2 words instead of 3: HINT STEP NS_PER_STEP");
    assert_contains(wrong(APP_LINE_FROM_RANK, "hello 1 j1 1 0 - - - plain more and more and more"),
                    "hello: 13 words instead of 8: VERSION JOB RUN RANK LOCAL SIZE LOCAL_SIZE "
                    "barrier|plain|opened");
    assert_contains(wrong(APP_LINE_FROM_RANK, "hello"), "hello: 0 words instead of 8");
    for (size_t i = 0; i < 6; i++) {
        static const char *const forms[] = {"", " ", "done  1-1-1", "done 1-1-1 ", "d\tx", "d\xc3"};

        assert_contains(wrong(APP_LINE_FROM_RANK, forms[i]), "between single blanks");
    }
}

/* Bytes come in any pieces; a line is taken once, and the next one is left where it is. */
static void lines_come_in_any_pieces(void **state)
{
    static const char text[] = "done 1-42-1\nat 1-42-2 7 9\nprogress 1-42-2 5\n";

    (void)state;
    for (size_t piece = 1; piece < sizeof(text); piece++) {
        struct app_line_input input = {.length = 0};
        struct app_line line;
        size_t lines = 0;

        for (size_t at = 0; at < sizeof(text) - 1; at += piece) {
            size_t left = sizeof(text) - 1 - at, length = left < piece ? left : piece;
            const uint8_t *bytes = (const uint8_t *)text + at;

            while (length > 0) {
                static const enum app_line_verb order[] = {APP_LINE_DONE, APP_LINE_AT,
                                                           APP_LINE_PROGRESS};
                int found = app_line_next(&input, APP_LINE_FROM_RANK, &bytes, &length, &line, NULL);

                assert_true(found >= 0);
                if (found == 1)
                    assert_int_equal(line.verb, order[lines++]);
            }
        }
        assert_uint_equal(lines, 3);
        assert_uint_equal(input.length, 0);
    }
}

static void a_line_that_is_too_long_or_holds_a_nul_is_wrong(void **state)
{
    struct app_line_input input = {.length = 0};
    const uint8_t *bytes = (const uint8_t *)"done 1\0-1\n";
    char longest[APP_LINE_BYTES + 2];
    struct app_line line;
    struct err err;
    size_t length = 10;

    (void)state;
    assert_int_equal(app_line_next(&input, APP_LINE_FROM_RANK, &bytes, &length, &line, &err), -1);
    assert_string_equal(err.text, "a line holds a NUL");
    memset(longest, 'x', sizeof(longest));
    memcpy(longest, "refused ", 8);
    longest[APP_LINE_BYTES - 1] = '\n';
    longest[APP_LINE_BYTES] = '\0';
    input.length = 0;
    assert_int_equal(next(&input, APP_LINE_FROM_AGENT, longest, &line, &err), 1);
    longest[APP_LINE_BYTES - 1] = 'x';
    longest[APP_LINE_BYTES] = '\n';
    longest[APP_LINE_BYTES + 1] = '\0';
    assert_int_equal(next(&input, APP_LINE_FROM_AGENT, longest, &line, &err), -1);
    assert_string_equal(err.text, "a line has more than 512 bytes");
    input.length = 0; /* also while its end has not come */
    longest[APP_LINE_BYTES] = '\0';
    assert_int_equal(next(&input, APP_LINE_FROM_AGENT, longest, &line, &err), -1);
}

static void a_text_that_is_too_long_is_cut_after_a_whole_character(void **state)
{
    struct app_line line = {.verb = APP_LINE_REFUSED};
    char text[APP_LINE_BYTES + 1];
    size_t length;

    (void)state;
    for (size_t begin = 0; begin < 12; begin++) {
        memset(line.text, 'x', begin);
        for (size_t i = begin; i + 3 < sizeof(line.text); i += 2)
            memcpy(line.text + i, "\xc3\xbc", 3);
        length = app_line_format(&line, text);
        assert_true(length > APP_LINE_BYTES - 9 && length <= APP_LINE_BYTES);
        text[length - 1] = '\0';
        struct app_line again = right(APP_LINE_FROM_AGENT, text);
        size_t kept = strlen(again.text);
        assert_string_equal(again.text + kept - 3, "...");
        assert_memory_equal(again.text, line.text, kept - 3);
        assert_uint_equal((kept - 3 - begin) % 2, 0);
    }
    memset(line.text, 'y', sizeof(line.text) - 1);
    assert_uint_equal(app_line_format(&line, text), APP_LINE_BYTES);
}

static void what_no_line_may_hold_is_not_written(void **state)
{
    struct app_line line = right(APP_LINE_FROM_AGENT, "ask 1-42-1 5 5 out/a");
    char text[APP_LINE_BYTES];

    (void)state;
    line.deadline_ms = 0;
    assert_uint_equal(app_line_format(&line, text), 0);
    line.deadline_ms = 5;
    assert_true(app_line_format(&line, text) > 0);
    snprintf(line.folder, sizeof(line.folder), "../a");
    assert_uint_equal(app_line_format(&line, text), 0);
    memset(line.folder, ' ', sizeof(line.folder) - 1); /* three bytes each */
    assert_uint_equal(app_line_format(&line, text), 0);
    line = (struct app_line){.verb = APP_LINE_STEP, .hint = "1-1-1", .step = 0};
    assert_uint_equal(app_line_format(&line, text), 0);
    line = (struct app_line){.verb = APP_LINE_READY, .id = "n", .part = 1, .parts = 1};
    assert_uint_equal(app_line_format(&line, text), 0);
    line = (struct app_line){.verb = APP_LINE_REFUSED};
    assert_uint_equal(app_line_format(&line, text), 0);
    line = (struct app_line){.verb = APP_LINE_DONE, .hint = "what"};
    assert_uint_equal(app_line_format(&line, text), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_reads_as_it_was_written),
        cmocka_unit_test(the_words_of_a_line_are_its_values),
        cmocka_unit_test(numbers_have_limits_that_are_told),
        cmocka_unit_test(numbers_of_one_line_agree),
        cmocka_unit_test(another_version_is_told_before_anything_else),
        cmocka_unit_test(texts_have_a_form),
        cmocka_unit_test(other_words_are_refused_by_name),
        cmocka_unit_test(lines_come_in_any_pieces),
        cmocka_unit_test(a_line_that_is_too_long_or_holds_a_nul_is_wrong),
        cmocka_unit_test(a_text_that_is_too_long_is_cut_after_a_whole_character),
        cmocka_unit_test(what_no_line_may_hold_is_not_written),
    };

    return cmocka_run_group_tests_name("app_line", tests, NULL, NULL);
}
