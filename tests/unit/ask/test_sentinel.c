/* Request and sentinel texts (S1-032, decision 14). */
#include "src/ask/sentinel.h"

#include <stdlib.h>
#include <unistd.h>

#include "src/base/id.h"
#include "tests/support/test.h"

static int parse(const char *text, struct sentinel *sentinel)
{
    struct err err;

    return sentinel_parse(text, strlen(text), sentinel, &err);
}

static void hint_names_checkpoint_and_attempt(void **state)
{
    char text[HINT_TEXT_BYTES];

    (void)state;
    assert_string_equal(hint_format(checkpoint_id_make(1, 42), 1, text), "1-42-1");
    hint_format(UINT64_MAX, UINT32_MAX, text);
    assert_string_equal(text, "16777215-1099511627775-4294967295");
}

static void request_holds_hint_directory_and_deadline(void **state)
{
    char text[128];
    size_t length = request_format(
        &(struct request_text){"1-42-1", "/w/out/1-42-1", 1700000000000, ""}, text, sizeof(text));

    (void)state;
    assert_string_equal(text, "hint=1-42-1\ndirectory=/w/out/1-42-1\ndeadline_ms=1700000000000\n");
    assert_uint_equal(length, strlen(text));
    assert_uint_equal(request_format(&(struct request_text){"1-42-1", "/w", 1, ""}, text, 10), 0);
}

/* A shell that sources the request runs nothing of what its path holds, and reads the path as it
 * is. S1-032. */
static void a_request_is_sourced_by_a_shell_whatever_its_path_holds(void **state)
{
    static const char *const paths[] = {"/w/a;touch ran;b/out",
                                        "/w/ann's data; $(touch ran)/out",
                                        "/w/`touch ran`/\\\"$HOME",
                                        "/w/ two  blanks /*",
                                        "/w/''/'",
                                        "/w/\xc3\xa9t\xc3\xa9 #1 ~ & > ran"};
    char folder[] = "/tmp/ckpt-request-XXXXXX", text[512], read[256] = "";
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        assert_true(request_format(&(struct request_text){"1-42-1", paths[i], 1000, "0,1"}, text,
                                   sizeof(text)) > 0);
        snprintf(read, sizeof(read), "%.*s", (int)strcspn(strstr(text, "directory=") + 10, "\n"),
                 strstr(text, "directory=") + 10);
        request_unquote(read); /* a program that is no shell */
        assert_string_equal(read, paths[i]);
        file = fopen("request", "w");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        fclose(file);
        assert_int_equal(system("sh -ec '. ./request; printf %s \"$directory\" > read; "
                                "[ \"$hint $deadline_ms $ranks\" = \"1-42-1 1000 0,1\" ]'"),
                         0);
        file = fopen("read", "r");
        assert_non_null(file);
        read[fread(read, 1, sizeof(read) - 1, file)] = '\0';
        fclose(file);
        assert_string_equal(read, paths[i]);
        assert_int_equal(access("ran", F_OK), -1);
    }
    assert_int_equal(unlink("request") + unlink("read") + chdir("/") + rmdir(folder), 0);
}

static void complete_sentinel_is_read(void **state)
{
    struct sentinel sentinel;

    (void)state;
    assert_int_equal(parse("hint=1-42-1\nbytes=320044\nstatus=0\n", &sentinel), 0);
    assert_string_equal(sentinel.hint, "1-42-1");
    assert_uint_equal(sentinel.bytes, 320044);
    assert_string_equal(sentinel.status, "0");
    /* any order, unknown keys, no last line feed */
    assert_int_equal(parse("status=disk full\nextra=1\nbytes=0\nhint=2-1-3", &sentinel), 0);
    assert_string_equal(sentinel.status, "disk full");
}

/* As long as libckptapp takes it of a program; one byte more is told. */
static void a_long_reason_is_taken_whole(void **state)
{
    char text[320], reason[SENTINEL_STATUS_MAX_BYTES + 2];
    struct sentinel sentinel;

    (void)state;
    memset(reason, 'x', sizeof(reason));
    reason[SENTINEL_STATUS_MAX_BYTES + 1] = '\0';
    snprintf(text, sizeof(text), "hint=1-42-1\nbytes=0\nstatus=%s\n", reason);
    assert_int_equal(parse(text, &sentinel), -1);
    snprintf(text, sizeof(text), "hint=1-42-1\nbytes=0\nstatus=%s\n", reason + 1);
    assert_int_equal(parse(text, &sentinel), 0);
    assert_string_equal(sentinel.status, reason + 1);
}

static void incomplete_or_wrong_sentinel_is_none(void **state)
{
    static const char *const texts[] = {
        "",
        "hint=1-42-1\n",
        "hint=1-42-1\nbytes=1\n",
        "hint=1-42-1\nstatus=0\n",
        "bytes=1\nstatus=0\n",
        "hint=\nbytes=1\nstatus=0\n",
        "hint=1-42-1\nbytes=-1\nstatus=0\n",
        "hint=1-42-1\nbytes=nan\nstatus=0\n",
        "hint=1-42-1\nbytes=99999999999999999999\nstatus=0\n",
        "hint=1-42-1\nbytes=1\nstatus=\n",
        "hint=0123456789012345678901234567890123456789012345678901234567890\nbytes=1\nstatus=0\n",
    };
    struct sentinel sentinel;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(parse(texts[i], &sentinel), -1);
}

static void expect_fault(const char *text, enum err_code code, const char *part)
{
    struct sentinel sentinel;
    struct err err = {0};

    assert_int_equal(sentinel_parse(text, strlen(text), &sentinel, &err), -1);
    assert_int_equal(err.code, code);
    assert_non_null(strstr(err.text, part));
}

/* What a writer without rename may still complete is told apart from what can never become
 * right. */
static void a_wrong_line_is_named_and_a_missing_one_awaited(void **state)
{
    char hint[HINT_TEXT_BYTES];

    (void)state;
    expect_fault("hint=1-42-1\nbytes=-5\nstatus=0\n", ERR_INVALID, "'bytes=-5'");
    expect_fault("hint=1-42-1\nbytes=\nstatus=0\n", ERR_INVALID, "'bytes='");
    expect_fault("hint=1-42-1\nbytes=5\nstatus=\n", ERR_INVALID, "'status='");
    expect_fault("hint=1-42-1\nbytes=", ERR_EMPTY, "bytes=");
    expect_fault("hint=1-42-1\nbytes=5\n", ERR_EMPTY, "status=");
    expect_fault("bytes=5\nstatus=0\n", ERR_EMPTY, "hint=");
    assert_string_equal(sentinel_hint("bytes=-5\nhint=1-42-1\n", 21, hint), "1-42-1");
    assert_string_equal(sentinel_hint("bytes=-5\nhint=1-42", 18, hint), "");
}

static void sentinel_with_nul_or_too_long_is_none(void **state)
{
    static char large[SENTINEL_MAX_BYTES + 1];
    struct sentinel sentinel;
    struct err err;

    (void)state;
    assert_int_equal(sentinel_parse("hint=1\0-1\nbytes=1\nstatus=0\n", 27, &sentinel, &err), -1);
    memset(large, '\n', sizeof(large));
    memcpy(large, "hint=1-1-1\nbytes=1\nstatus=0\n", 28);
    assert_int_equal(sentinel_parse(large, SENTINEL_MAX_BYTES, &sentinel, &err), 0);
    assert_int_equal(sentinel_parse(large, SENTINEL_MAX_BYTES + 1, &sentinel, &err), -1);
}

static void sentinel_that_the_agent_writes_is_read(void **state)
{
    struct sentinel told = {.hint = "1-42-1", .bytes = 320044, .status = "the solver diverges"};
    struct sentinel sentinel;
    char text[SENTINEL_MAX_BYTES];
    struct err err;

    (void)state;
    assert_int_equal(sentinel_parse(text, sentinel_format(&told, text), &sentinel, &err), 0);
    assert_string_equal(sentinel.hint, told.hint);
    assert_string_equal(sentinel.status, told.status);
    assert_uint_equal(sentinel.bytes, told.bytes);
}

static void a_sentinel_is_known_by_its_name(void **state)
{
    static const char *const others[] = {"",           "don",   "done.", "done.new",
                                         "done.1.new", "done1", ".done"};

    (void)state;
    assert_true(sentinel_named("done"));
    assert_true(sentinel_named("done.0") && sentinel_named("done.4294967295"));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(sentinel_named(others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hint_names_checkpoint_and_attempt),
        cmocka_unit_test(request_holds_hint_directory_and_deadline),
        cmocka_unit_test(a_request_is_sourced_by_a_shell_whatever_its_path_holds),
        cmocka_unit_test(complete_sentinel_is_read),
        cmocka_unit_test(a_long_reason_is_taken_whole),
        cmocka_unit_test(incomplete_or_wrong_sentinel_is_none),
        cmocka_unit_test(a_wrong_line_is_named_and_a_missing_one_awaited),
        cmocka_unit_test(sentinel_with_nul_or_too_long_is_none),
        cmocka_unit_test(sentinel_that_the_agent_writes_is_read),
        cmocka_unit_test(a_sentinel_is_known_by_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
