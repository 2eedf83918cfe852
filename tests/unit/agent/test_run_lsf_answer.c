/* The texts that LSF's programs and their caller leave for each other, also hostile ones: words of
 * erestart, .restart_cmd, .echkpnt, and the process group of a restarted job. */
#include "src/agent/run/run_lsf_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/agent/run/run_lsf_output.h"
#include "src/base/check.h"
#include "tests/support/test.h"

enum { RANDOM_ROUNDS = 20000 };

static char root[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/ckpt-answer-XXXXXX");
    assert_non_null(mkdtemp(root));
    return 0;
}

static int tear_down(void **state)
{
    char line[128];

    (void)state;
    snprintf(line, sizeof(line), "rm -rf %s", root);
    return system(line);
}

static void put_bytes(const char *name, const char *text, size_t length)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", root, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    fclose(file);
}

static void expect_answer(const char *text, bool last, enum lsf_answer wanted, pid_t pid,
                          pid_t group)
{
    pid_t got_pid = 0, got_group = 0;
    enum lsf_answer answer = lsf_answer_read(text, last, &got_pid, &got_group);

    if (answer != wanted || got_pid != pid || got_group != group)
        fail_msg("\"%s\": %d, pid %d, pgid %d", text, (int)answer, (int)got_pid, (int)got_group);
}

/* S3-026: pid= and pgid= are new ids, with and without the end of a line. S3-027: a closed standard
 * error without a word. S3-028: any other text. S3-025: until one of these, it is waited for. */
static void erestarts_words_are_told_apart(void **state)
{
    (void)state;
    expect_answer("pid=4711 pgid=4710\n", false, LSF_ANSWER_CHANGED, 4711, 4710);
    expect_answer("pid=4711 pgid=4710", true, LSF_ANSWER_CHANGED, 4711, 4710);
    expect_answer("pgid=4710 pid=4711 ", false, LSF_ANSWER_CHANGED, 4711, 4710);
    expect_answer("warning\npid=4711 pgid=4710\nmore", true, LSF_ANSWER_CHANGED, 4711, 4710);
    expect_answer("pid=4711 pgid=47", false, LSF_ANSWER_NONE, 0, 0); /* and "10" is to come */
    expect_answer("pid=4711 ", false, LSF_ANSWER_NONE, 0, 0);
    expect_answer("", false, LSF_ANSWER_NONE, 0, 0);
    expect_answer("", true, LSF_ANSWER_UNCHANGED, 0, 0);
    expect_answer("\n", true, LSF_ANSWER_UNCHANGED, 0, 0);
    expect_answer("cannot open the checkpoint", true, LSF_ANSWER_FAILED, 0, 0);
    expect_answer("cannot open the checkpoint\n", false, LSF_ANSWER_NONE, 0, 0);
}

static void hostile_ids_are_none(void **state)
{
    static const char *const texts[] = {"pid=1 pgid=1\n",
                                        "pid=0 pgid=0\n",
                                        "pid=-5 pgid=-5\n",
                                        "pid=+5 pgid=5\n",
                                        "pid=0x10 pgid=16\n",
                                        "pid=99999999 pgid=2\n",
                                        "pid=5a pgid=5\n",
                                        "pid= 5 pgid= 5\n",
                                        "pid=5\n",
                                        "pgid=5\n",
                                        "pid=5 pgid=\n",
                                        "pgid=5 pgid=6\n",
                                        "pid=99999999999999999999999999 pgid=5\n",
                                        "PID=5 PGID=5\n"};
    char text[LSF_ANSWER_MAX_BYTES];

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        expect_answer(texts[i], true, LSF_ANSWER_FAILED, 0, 0);
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    expect_answer(text, false, LSF_ANSWER_FAILED, 0, 0); /* it is as long as any is read */
}

static void random_words_are_read_within_bounds(void **state)
{
    static const char *const pieces[] = {"pid=",    "pgid=", "12", " ", "\n",
                                         "9999999", "=",     "p",  "-"};
    unsigned seed = (unsigned)time(NULL);

    (void)state;
    print_message("# SEED=%u\n", seed);
    for (int i = 0; i < RANDOM_ROUNDS; i++) {
        char text[128] = "";
        pid_t pid = 0, group = 0;
        enum lsf_answer answer;
        for (int n = rand_r(&seed) % 10; n > 0; n--)
            strcat(text, pieces[(size_t)rand_r(&seed) % ARRAY_COUNT(pieces)]);
        answer = lsf_answer_read(text, rand_r(&seed) % 2 == 0, &pid, &group);
        assert_true((answer == LSF_ANSWER_CHANGED) == (pid > 1 && group > 1));
        assert_true(pid <= 1 << 22 && group <= 1 << 22);
    }
}

static void expect_command(const char *text, const char *wanted)
{
    char command[LSF_COMMAND_BYTES];
    struct err err = {0};

    put_bytes(".restart_cmd", text, strlen(text));
    if (lsf_command_read(root, command, &err) != 0)
        fail_msg("\"%s\": %s", text, err.text);
    assert_string_equal(command, wanted);
}

static void expect_no_command(const char *text, size_t length, const char *said)
{
    char command[LSF_COMMAND_BYTES];
    struct err err = {0};

    put_bytes(".restart_cmd", text, length);
    assert_int_equal(lsf_command_read(root, command, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    if (strstr(err.text, said) == NULL)
        fail_msg("\"%s\" has no \"%s\"", err.text, said);
}

/* S3-068: LSB_RESTART_CMD is the command of the next start. */
static void the_restart_command_is_read(void **state)
{
    char command[LSF_COMMAND_BYTES], path[128], *text = calloc(1, LSF_COMMAND_BYTES + 64);
    struct err err = {0};

    (void)state;
    assert_int_equal(lsf_command_read(root, command, &err), -1);
    assert_int_equal(err.code, ERR_EMPTY);
    expect_command("LSB_RESTART_CMD=./solver --from 'a b' -i case\n",
                   "./solver --from 'a b' -i case");
    expect_command("  LSB_RESTART_CMD=  x=1 y\r\nLSB_RESTART_CMD=second\n", "x=1 y");
    expect_command("LSB_RESTART_CMD=no end", "no end");
    expect_no_command("", 0, "begins with \"\"");
    expect_no_command("rm -rf /\n", 9, "begins with \"rm -rf /");
    expect_no_command("LSB_RESTART_CMD=\n", 17, "has no command");
    expect_no_command("LSB_RESTART_CMD=a\0b\n", 20, "cannot be read");
    memset(text, 'x', LSF_COMMAND_BYTES + 32);
    memcpy(text, "LSB_RESTART_CMD=", 16);
    expect_no_command(text, LSF_COMMAND_BYTES, "File too large");
    snprintf(path, sizeof(path), "%s/.restart_cmd", root);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(lsf_command_read(root, command, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody waits for its writer */
    assert_int_equal(lsf_command_read(root, command, &err), -1);
    free(text);
}

/* S3-024: the ids of the job that was saved; S3-068: the method that saved it. */
static void a_checkpoint_knows_its_job(void **state)
{
    const struct lsf_record record = {.method = "fluent",
                                      .method_dir = "/site/methods",
                                      .job = "job-7",
                                      .pid = 4711,
                                      .group = 4710};
    struct lsf_record again;
    struct err err = {0};

    (void)state;
    assert_int_equal(lsf_record_read(root, &again, &err), -1);
    assert_int_equal(err.code, ERR_EMPTY);
    assert_int_equal(lsf_record_write(root, &record), 0);
    assert_int_equal(lsf_record_read(root, &again, &err), 0);
    assert_string_equal(again.method, "fluent");
    assert_string_equal(again.method_dir, "/site/methods");
    assert_string_equal(again.job, "job-7");
    assert_int_equal(again.pid, 4711);
    assert_int_equal(again.group, 4710);
    assert_true(lsf_record_write("/nowhere/at/all", &record) != 0);
}

static void a_damaged_record_is_refused(void **state)
{
    static const char *const texts[] = {"LSB_ECHKPNT_METHOD=../../../bin/sh\n",
                                        "LSB_ECHKPNT_METHOD=a b\n",
                                        "LSB_ECHKPNT_METHOD_DIR=relative\n"};
    struct lsf_record record = {.pid = 77};
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        put_bytes(".echkpnt", texts[i], strlen(texts[i]));
        assert_int_equal(lsf_record_read(root, &record, &err), -1);
        assert_int_equal(err.code, ERR_CORRUPT);
        assert_int_equal(record.pid, 77);
    }
    put_bytes(".echkpnt", "LSB_RESTART_PID=1\nLSB_RESTART_PGID=-3\n", 38);
    assert_int_equal(lsf_record_read(root, &record, &err), 0);
    assert_int_equal(record.pid, 0);
    assert_int_equal(record.group, 0);
    put_bytes(".echkpnt", "LSB_OLD_JOBID=a\0b", 17);
    assert_int_equal(lsf_record_read(root, &record, &err), -1);
}

static void the_group_of_a_restarted_job_is_one_that_lives(void **state)
{
    pid_t group = 0;

    (void)state;
    assert_false(lsf_group_read(root, &group));
    lsf_group_write(root, getpid(), getpgrp());
    assert_true(lsf_group_read(root, &group));
    assert_int_equal(group, getpgrp());
    lsf_group_write(root, getpid(), (1 << 22) - 1);
    assert_false(lsf_group_read(root, &group));
    lsf_group_write(root, getpid(), getpgrp());
    lsf_group_drop(root);
    assert_false(lsf_group_read(root, &group));
}

/* LSB_ERESTART_USRCMD: a shell reads the same words. */
static void a_command_is_told_as_one_line(void **state)
{
    static char a[] = "./solver", b[] = "it's a case", c[] = "", d[] = "-n=4";
    char *const command[] = {a, b, c, d, NULL};
    char *line = lsf_command_line(command);

    (void)state;
    assert_string_equal(line, "./solver 'it'\\''s a case' '' -n=4");
    free(line);
}

static void the_last_line_of_what_was_said_is_shown(void **state)
{
    char some[] = "first\nlicense \033[1mserver\tdown\n \n", none[] = " \n\t", line[64];

    (void)state;
    assert_string_equal(lsf_last_line(some, line, sizeof(line)), "license ?[1mserver?down");
    assert_string_equal(lsf_last_line(none, line, sizeof(line)), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(erestarts_words_are_told_apart),
        cmocka_unit_test(hostile_ids_are_none),
        cmocka_unit_test(random_words_are_read_within_bounds),
        cmocka_unit_test_setup_teardown(the_restart_command_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_checkpoint_knows_its_job, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_record_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_group_of_a_restarted_job_is_one_that_lives, set_up,
                                        tear_down),
        cmocka_unit_test(a_command_is_told_as_one_line),
        cmocka_unit_test(the_last_line_of_what_was_said_is_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
