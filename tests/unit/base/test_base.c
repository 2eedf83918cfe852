/* Errors, buffers, lists, ids and log lines. */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/address.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/err.h"
#include "src/base/id.h"
#include "src/base/list.h"
#include "src/base/lockfile.h"
#include "src/base/log.h"
#include "src/base/text.h"

static void an_error_gets_context_in_front_and_is_cut_with_dots(void **state)
{
    struct err err;
    char longer[ERR_TEXT_BYTES * 2];

    (void)state;
    assert_int_equal(err_set(&err, ERR_IO, "open %s: %s", "/x", "denied"), -1);
    assert_int_equal(err_wrap(&err, "member %d", 3), -1);
    assert_string_equal(err.text, "member 3: open /x: denied");
    assert_int_equal(err.code, ERR_IO);
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    err_set(&err, ERR_INVALID, "%s", longer);
    assert_int_equal(strlen(err.text), ERR_TEXT_BYTES - 1);
    assert_string_equal(err.text + ERR_TEXT_BYTES - 4, "...");
    err_wrap(&err, "%s", longer);
    assert_int_equal(strlen(err.text), ERR_TEXT_BYTES - 1);
    assert_string_equal(err_code_name(ERR_CORRUPT), "CORRUPT");
    assert_string_equal(err_code_name(ERR_NEWER), "NEWER");
    assert_string_equal(err_code_name(ERR_UNFIT), "UNFIT");
    assert_string_equal(err_code_name(ERR_NO_ROOM), "NO_ROOM");
    assert_string_equal(err_code_name(ERR_NOBODY), "NOBODY");
    assert_string_equal(err_code_name((enum err_code)(ERR_NOBODY + 1)), "UNKNOWN");
    assert_string_equal(err_code_name((enum err_code)99), "UNKNOWN");
    assert_int_equal(err_set(NULL, ERR_IO, "nobody listens"), -1);
}

static void a_buffer_grows_consumes_and_gives_its_bytes_away(void **state)
{
    struct buf buf;
    size_t length;
    uint8_t *bytes;

    (void)state;
    buf_init(&buf);
    for (int i = 0; i < 1000; i++)
        buf_printf(&buf, "%03d,", i);
    assert_int_equal(buf.length, 4000);
    buf_consume(&buf, 3996);
    assert_memory_equal(buf.bytes, "999,", 4);
    buf_append(&buf, "end", 3);
    bytes = buf_take(&buf, &length);
    assert_int_equal(length, 7);
    assert_memory_equal(bytes, "999,end", 7);
    assert_null(buf.bytes);
    free(bytes);
    buf_close(&buf);
}

static void a_list_keeps_order_and_removal_is_repeatable(void **state)
{
    struct item {
        int value;
        struct list node;
    } items[3] = {{.value = 1}, {.value = 2}, {.value = 3}};
    struct list head;
    int sum = 0;

    (void)state;
    list_init(&head);
    assert_true(list_empty(&head));
    for (int i = 0; i < 3; i++)
        list_push_back(&head, &items[i].node);
    list_remove(&items[1].node);
    list_remove(&items[1].node);
    for (struct list *node = head.next; node != &head; node = node->next)
        sum = sum * 10 + LIST_ITEM(node, struct item, node)->value;
    assert_int_equal(sum, 13);
}

static void an_id_is_a_file_name_and_never_a_path(void **state)
{
    static const char *const bad[] = {"",     ".",        "..",  "a/b", "a b",
                                      "a\nb", "\xc3\xa9", "a:b", "~",   "a*"};
    char longest[ID_MAX_BYTES + 2];

    (void)state;
    assert_true(id_valid("job-1.2_X"));
    assert_true(id_valid("..."));
    assert_false(id_valid(NULL));
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        assert_false(id_valid(bad[i]));
    memset(longest, 'x', sizeof(longest));
    longest[ID_MAX_BYTES] = '\0';
    assert_true(id_valid(longest));
    longest[ID_MAX_BYTES] = 'x';
    longest[ID_MAX_BYTES + 1] = '\0';
    assert_false(id_valid(longest));
}

/* U7: one sentence in all programs, with the value and how long it is. */
static void a_text_that_is_no_id_is_refused_in_one_sentence(void **state)
{
    struct err err = {0};
    char longer[ID_MAX_BYTES + 32];

    (void)state;
    assert_int_equal(id_check("--alloc", "job-1", &err), 0);
    assert_string_equal(err.text, "");
    assert_int_equal(id_check("--alloc", "a/b\n", &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_string_equal(err.text, "--alloc: \"a/b?\" is not " ID_FORM " (it has 4 bytes)");
    assert_int_equal(id_check("node_id", NULL, &err), -1);
    assert_string_equal(err.text, "node_id: \"\" is not " ID_FORM " (it has 0 bytes)");
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(id_check("tenant", longer, &err), -1);
    assert_non_null(strstr(err.text, "xxx...\" is not " ID_FORM " (it has 159 bytes)"));
}

static void a_label_is_a_short_word(void **state)
{
    static const char *const bad[] = {"", "a/b", "a b", "a\nb", "\xc3\xa9", "~", "a*"};
    char longest[LABEL_MAX_BYTES + 2];

    (void)state;
    assert_true(label_valid("127"));
    assert_true(label_valid("epoch:3_batch-12.5"));
    assert_true(label_valid(".."));
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        assert_false(label_valid(bad[i]));
    memset(longest, 'x', sizeof(longest));
    longest[LABEL_MAX_BYTES] = '\0';
    assert_true(label_valid(longest));
    longest[LABEL_MAX_BYTES] = 'x';
    longest[LABEL_MAX_BYTES + 1] = '\0';
    assert_false(label_valid(longest));
}

static void digits_alone_are_a_number(void **state)
{
    (void)state;
    assert_true(id_is_number("0"));
    assert_true(id_is_number("1234567890123456789012"));
    assert_false(id_is_number(""));
    assert_false(id_is_number("n7"));
    assert_false(id_is_number("7n"));
    assert_false(id_is_number("7-1"));
}

static void a_checkpoint_id_has_one_text_and_reads_back(void **state) /* I26 */
{
    static const char *const bad[] = {"",
                                      "1",
                                      "1-",
                                      "-1",
                                      "0-1",
                                      "1-0",
                                      "01-1",
                                      "1-01",
                                      "1-1x",
                                      " 1-1",
                                      "1--1",
                                      "+1-1",
                                      "1-+1",
                                      "1_1",
                                      "16777216-1",
                                      "1-1099511627776",
                                      "99999999999999999999-1"};
    uint64_t seed = test_seed();
    char text[CHECKPOINT_ID_TEXT_BYTES];
    uint64_t id = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint64_t epoch = 1 + test_random(&seed) % 16777215,
                 sequence = 1 + (test_random(&seed) >> 25);
        uint64_t made = checkpoint_id_make(epoch, sequence);
        assert_int_equal(checkpoint_id_parse(checkpoint_id_format(made, text), &id), 0);
        assert_uint_equal(id, made);
    }
    assert_string_equal(checkpoint_id_format(checkpoint_id_make(1, 42), text), "1-42");
    assert_true(checkpoint_id_make(2, 1) > checkpoint_id_make(1, (UINT64_C(1) << 40) - 1));
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        assert_int_equal(checkpoint_id_parse(bad[i], &id), -1);
}

/* What a child wrote to stderr while doing `work`. */
static size_t captured(void (*work)(void), char *text, size_t size, int *ret_status)
{
    int ends[2];
    size_t used = 0;
    ssize_t got;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        work();
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, ret_status, 0), child);
    return used;
}

static void log_hostile_value(void)
{
    log_set_identity("ckptd", "n1");
    log_debug("hidden", "a=1");
    log_warning("refused", "id=\"%s\" length=%d", "x\nlevel=error event=forged\r", 5000);
}

/* Names of files, of users and texts of peers reach the log. */
static void log_forged_values(void)
{
    log_info("put", "text=\"%s\" path=%s mode=%03o part=%s:%d", "it\" level=error x=\"",
             "/a\" level=error", 7, "p=1 q", 4);
    log_info("plain", "path=%s text=\"%.*s%%\" n=%" PRIu64 " z=%zu c=%c ratio=%.2f none=%s end=%s",
             "/a/b-1.c", 2, "abc", UINT64_C(18446744073709551615), (size_t)9, 'x', 0.5, "", "\\\"");
}
static void a_value_from_outside_stays_one_value(void **state)
{
    char text[8192];
    int status;

    (void)state;
    captured(log_forged_values, text, sizeof(text), &status);
    assert_non_null(strstr(text, "event=put text=\"it\\\" level=error x=\\\"\" "
                                 "path=\"/a\\\" level=error\" mode=007 part=\"p=1 q:4\"\n"));
    assert_non_null(strstr(text,
                           "event=plain path=/a/b-1.c text=\"ab%\" n=18446744073709551615 z=9 c=x "
                           "ratio=0.50 none= end=\"\\\\\\\"\"\n"));
}
static void log_too_long(void)
{
    char value[LOG_LINE_BYTES * 2];

    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    log_info("long", "value=%s", value);
}

static void a_log_line_is_one_line_whatever_the_values_hold(void **state)
{
    char text[8192];
    int status;

    (void)state;
    captured(log_hostile_value, text, sizeof(text), &status);
    assert_non_null(
        strstr(text, "level=warning program=ckptd name=n1 event=refused id=\"x level=error"));
    assert_null(strstr(text, "hidden"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_int_equal(captured(log_too_long, text, sizeof(text), &status), LOG_LINE_BYTES - 1);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void fail_a_check(void)
{
    log_debug("before", "step=%d", 7);
    check_set_hook(log_dump);
    CHECK(1 + 1 == 3);
}

static void a_failed_check_names_the_condition_tells_the_last_lines_and_aborts(void **state)
{
    char text[1024];
    int status;

    (void)state;
    captured(fail_a_check, text, sizeof(text), &status);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "1 + 1 == 3"));
    assert_non_null(strstr(text, "test_base.c"));
    assert_non_null(strstr(text, "kept time="));
    assert_non_null(strstr(text, "event=before step=7\n"));
}

static void the_distance_of_words_counts_what_must_be_typed_anew(void **state)
{
    static const struct {
        const char *a, *b;
        size_t distance;
    } rows[] = {{"", "", 0},
                {"", "abc", 3},
                {"policy", "policy", 0},
                {"polcy", "policy", 1},
                {"heartbaet", "heartbeat", 2},
                {"kitten", "sitting", 3},
                {"Cluster_ID", "cluster_id", 0}};
    char longest[TEXT_DISTANCE_MAX_BYTES + 2];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_uint_equal(text_distance(rows[i].a, rows[i].b), rows[i].distance);
        assert_uint_equal(text_distance(rows[i].b, rows[i].a), rows[i].distance);
    }
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_true(text_distance(longest, "x") == SIZE_MAX);
    assert_true(text_distance("x", longest) == SIZE_MAX);
    longest[TEXT_DISTANCE_MAX_BYTES] = '\0';
    assert_uint_equal(text_distance(longest, "x"), TEXT_DISTANCE_MAX_BYTES - 1);
}

/* A child that inherited the lock holds it until it closes its copy; then the next one gets it,
 * without being told. */
static void a_lock_is_waited_for_a_moment_and_then_refused(void **state)
{
    char path[] = "/tmp/ckpt-lock-XXXXXX";
    int first = mkstemp(path), second = open(path, O_RDWR), status, ends[2];
    char byte;

    (void)state;
    assert_int_equal(lockfile_take(first), 0);
    assert_int_equal(lockfile_take(second), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 1 && usleep(100000) == 0 ? 0 : 1);
    }
    close(first);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(lockfile_take(second), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(second);
    close(ends[0]);
    close(ends[1]);
    unlink(path);
}

static void a_copied_text_is_cut_to_its_buffer_and_ends(void **state)
{
    char text[4] = "xxx";

    (void)state;
    assert_int_equal(text_copy(text, sizeof(text), "ab"), 2);
    assert_string_equal(text, "ab");
    assert_int_equal(text_copy(text, sizeof(text), "abcdef"), 3);
    assert_string_equal(text, "abc");
    assert_int_equal(text_copy(text + 3, 1, "d"), 0);
    assert_string_equal(text, "abc");
}

static void cleared_memory_is_zero_whether_small_or_large(void **state)
{
    (void)state;
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
        uint8_t *bytes = check_alloc(size);
        memset(bytes, 0xff, size);
        free(bytes);
        bytes = check_calloc(size, 1); /* the same chunk, as a rule */
        for (size_t i = 0; i < size; i++)
            assert_int_equal(bytes[i], 0);
        free(bytes);
    }
}

static void loopback_is_recognised(void **state)
{
    static const char *const here[] = {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1"};
    static const char *const beyond[] = {"0.0.0.0:1", "[::]:1",     "10.0.0.1:1",
                                         "127.0.0.1", "127.0.0.1:", "127.example.org:1"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(here); i++)
        assert_true(address_is_loopback(here[i]));
    for (size_t i = 0; i < ARRAY_COUNT(beyond); i++)
        assert_false(address_is_loopback(beyond[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_is_recognised),
        cmocka_unit_test(an_error_gets_context_in_front_and_is_cut_with_dots),
        cmocka_unit_test(a_buffer_grows_consumes_and_gives_its_bytes_away),
        cmocka_unit_test(a_list_keeps_order_and_removal_is_repeatable),
        cmocka_unit_test(an_id_is_a_file_name_and_never_a_path),
        cmocka_unit_test(a_text_that_is_no_id_is_refused_in_one_sentence),
        cmocka_unit_test(a_label_is_a_short_word),
        cmocka_unit_test(digits_alone_are_a_number),
        cmocka_unit_test(a_checkpoint_id_has_one_text_and_reads_back),
        cmocka_unit_test(a_log_line_is_one_line_whatever_the_values_hold),
        cmocka_unit_test(a_value_from_outside_stays_one_value),
        cmocka_unit_test(the_distance_of_words_counts_what_must_be_typed_anew),
        cmocka_unit_test(a_copied_text_is_cut_to_its_buffer_and_ends),
        cmocka_unit_test(cleared_memory_is_zero_whether_small_or_large),
        cmocka_unit_test(a_lock_is_waited_for_a_moment_and_then_refused),
        cmocka_unit_test(a_failed_check_names_the_condition_tells_the_last_lines_and_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
