/* LSF's words of a job that is saved from outside: bsub -k's text, the variables, lsf.conf, the
 * programs that they lead to, and the lines with which these are run. */
#include "src/agent/run/run_lsf_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "tests/support/test.h"

static char root[64];

static const char *const names[] = {"LSB_ECHKPNT_METHOD",      "LSB_ECHKPNT_METHOD_DIR",
                                    "LSB_ECHKPNT_KEEP_OUTPUT", "LSF_SERVERDIR",
                                    "LSF_ECHKPNTDIR",          "LSB_JOBID"};

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/ckpt-lsf-XXXXXX");
    assert_non_null(mkdtemp(root));
    assert_int_equal(chdir(root), 0);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        unsetenv(names[i]);
    setenv("LSF_ENVDIR", root, 1); /* not the LSF of this machine */
    return 0;
}

static int tear_down(void **state)
{
    char line[128];

    (void)state;
    assert_int_equal(chdir("/"), 0);
    snprintf(line, sizeof(line), "rm -rf %s", root);
    return system(line);
}

static const char *below(const char *name)
{
    static char paths[4][128];
    static size_t next;
    char *path = paths[next++ % ARRAY_COUNT(paths)];

    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

static void put_file(const char *name, const char *text, mode_t mode)
{
    FILE *file = fopen(below(name), "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(below(name), mode), 0);
}

static void put_folder(const char *name)
{
    assert_int_equal(mkdir(below(name), 0700), 0);
}

static struct lsf_settings parsed(const char *text, const char *options)
{
    struct lsf_settings settings;
    struct err err = {0};

    if (lsf_settings_parse(text, options, &settings, &err) != 0)
        fail_msg("\"%s\" %s: %s", text, options == NULL ? "" : options, err.text);
    return settings;
}

static void expect_refused(const char *text, const char *options, const char *said)
{
    struct lsf_settings settings;
    struct err err = {0};

    if (lsf_settings_parse(text, options, &settings, &err) == 0)
        fail_msg("\"%s\" is taken", text);
    if (strstr(err.text, said) == NULL)
        fail_msg("\"%s\" is refused by \"%s\", not by \"%s\"", text, err.text, said);
}

/* S3-029 (the text), S3-068 (init and method). */
static void the_text_of_bsub_is_read(void **state)
{
    struct lsf_settings settings = parsed("/scratch/ck", NULL);
    char wanted[128];

    (void)state;
    assert_string_equal(settings.folder, "/scratch/ck");
    assert_string_equal(settings.method, "");
    assert_int_equal(settings.period_min, 0);
    settings = parsed("  my.dir \t init=5  240 method=fluent-2_x ", NULL);
    snprintf(wanted, sizeof(wanted), "%s/my.dir", root);
    assert_string_equal(settings.folder, wanted);
    assert_string_equal(settings.method, "fluent-2_x");
    assert_int_equal(settings.period_min, 240);
    assert_int_equal(settings.first_period_min, 5);
    assert_string_equal(parsed("d method=default 1", NULL).method, "default");
}

static void what_bsub_would_not_take_is_named(void **state)
{
    char text[8192];

    (void)state;
    expect_refused("", NULL, "-k is empty");
    expect_refused(" \t ", NULL, "-k is empty");
    expect_refused("method=fluent", NULL, "it begins with a folder");
    expect_refused("d 0", NULL, "\"0\"");
    expect_refused("d -5", NULL, "\"-5\"");
    expect_refused("d 5m", NULL, "\"5m\"");
    expect_refused("d 99999999999999999999", NULL, "MINUTES are 1 to");
    expect_refused("d init=", NULL, "\"init=\"");
    expect_refused("d 5 6", NULL, "a period twice");
    expect_refused("d init=5 init=6", NULL, "a period twice");
    expect_refused("d method=a method=b", NULL, "a method twice");
    expect_refused("d method=", NULL, "names the method \"\"");
    expect_refused("d method=../../bin/sh", NULL, "must be 1 to 64 of");
    expect_refused("d method=a;b", NULL, "must be 1 to 64 of");
    expect_refused("d nonsense", NULL, "\"nonsense\"");
    memset(text, 'm', sizeof(text));
    memcpy(text, "d method=", 9);
    text[9 + 65] = '\0';
    expect_refused(text, NULL, "must be 1 to 64 of");
    memset(text, '/', sizeof(text));
    text[4001] = '\0';
    expect_refused(text, NULL, "at most 4000 can be");
    memset(text, ' ', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    expect_refused(text, NULL, "bytes, at most");
}

/* S3-012 and S3-019: what echkpnt's grammar does not have is an error of use, and -k and -s
 * exclude each other. S3-013, S3-014, S3-022, S3-023: -c and -f reach both programs. */
static void options_are_echkpnts(void **state)
{
    (void)state;
    assert_true(parsed("d", "-c").copies);
    assert_true(parsed("d", " -f  -x ").forces);
    assert_true(parsed("d", "-cfx").extended && parsed("d", "-cfx").copies);
    assert_false(parsed("d", "").copies || parsed("d", NULL).forces);
    expect_refused("d", "-z", "-z, which is unknown");
    expect_refused("d", "-k -s", "exclude each other");
    expect_refused("d", "-ks", "exclude each other");
    expect_refused("d", "-k", "ckpt-run migrate");
    expect_refused("d", "-s", "ckpt-run migrate");
    expect_refused("d", "-d x", "-d, which is unknown");
    expect_refused("d", "c", "must be of -c, -f and -x");
    expect_refused("d", "-", "must be of -c, -f and -x");
    expect_refused("d", "- c", "must be of -c, -f and -x");
    expect_refused("d", "-c-f", "must be of -c, -f and -x");
}

static void expect_line(const char *const *line, const char *wanted)
{
    char text[256] = "";

    for (size_t i = 0; line[i] != NULL; i++) {
        assert_true(i < LSF_OPTIONS_MAX);
        strcat(text, i == 0 ? "" : " ");
        strcat(text, line[i]);
    }
    assert_string_equal(text, wanted);
}

/* S3-012: the order of its grammar; S3-016: -s, where the checkpoint ends the job; S3-018: neither,
 * where it goes on; S3-020: -d is always told; S3-021: the process group comes last. */
static void lines_are_as_lsf_has_them(void **state)
{
    const char *line[LSF_OPTIONS_MAX];
    struct lsf_settings settings = parsed("d method=fluent", NULL);

    (void)state;
    lsf_echkpnt_line(&settings, false, "echkpnt.fluent", "/out/1-1-1", "4711", line);
    expect_line(line, "echkpnt.fluent -d /out/1-1-1 4711");
    lsf_erestart_line(&settings, "erestart.fluent", "/restore/1-1", line);
    expect_line(line, "erestart.fluent /restore/1-1");
    settings = parsed("d", "-xfc");
    lsf_echkpnt_line(&settings, true, "echkpnt", "/o", "2", line);
    expect_line(line, "echkpnt -c -f -s -x -d /o 2");
    lsf_erestart_line(&settings, "erestart", "/r", line);
    expect_line(line, "erestart -c -f /r");
}

static void lsf_conf_is_read_as_lsf_does(void **state)
{
    const char *text = "# LSF_SERVERDIR=/no\n\n  LSF_SERVERDIR = \"/opt/lsf 10/etc\" \r\n"
                       "LSB_ECHKPNT_METHOD='fluent'\nLSB_ECHKPNT_METHOD_DIR=\nX=1\nX=2\nY";
    char value[64] = "kept";

    (void)state;
    assert_true(lsf_conf_value(text, "LSF_SERVERDIR", value, sizeof(value)));
    assert_string_equal(value, "/opt/lsf 10/etc");
    assert_true(lsf_conf_value(text, "LSB_ECHKPNT_METHOD", value, sizeof(value)));
    assert_string_equal(value, "fluent");
    assert_true(lsf_conf_value(text, "LSB_ECHKPNT_METHOD_DIR", value, sizeof(value)));
    assert_string_equal(value, "");
    assert_true(lsf_conf_value(text, "X", value, sizeof(value)));
    assert_string_equal(value, "2");
    assert_false(lsf_conf_value(text, "Y", value, sizeof(value)));
    assert_false(lsf_conf_value(text, "LSF", value, sizeof(value)));
    assert_false(lsf_conf_value("", "X", value, sizeof(value)));
    assert_false(lsf_conf_value("X=123456789", "X", value, 4));
}

static char *found_path(const struct lsf_settings *settings, enum lsf_program program)
{
    static char path[PATH_MAX];
    struct err err = {0};

    if (lsf_program_find(settings, program, path, &err) != 0)
        fail_msg("%s", err.text);
    return path;
}

static void expect_unfound(const struct lsf_settings *settings, const char *said)
{
    char path[PATH_MAX];
    struct err err = {0};

    assert_int_equal(lsf_program_find(settings, LSF_ERESTART, path, &err), -1);
    if (strstr(err.text, said) == NULL)
        fail_msg("\"%s\" has no \"%s\"", err.text, said);
}

static struct lsf_settings found(const char *text)
{
    struct lsf_settings settings = parsed(text, NULL);
    struct err err = {0};

    if (lsf_settings_find(&settings, &err) != 0)
        fail_msg("%s", err.text);
    return settings;
}

/* S3-067: LSF_SERVERDIR, unless LSF_ECHKPNTDIR is set. S3-068: a method's programs are in
 * LSB_ECHKPNT_METHOD_DIR, else LSF_SERVERDIR; -k's method comes before the variable's, and the
 * environment before lsf.conf. S3-011: whatever lies there is run. */
static void programs_are_found_as_lsf_finds_them(void **state)
{
    struct lsf_settings settings;
    char conf[512];

    (void)state;
    put_folder("server");
    put_folder("own");
    put_folder("methods");
    put_file("server/echkpnt", "", 0700);
    put_file("server/echkpnt.default", "", 0700);
    put_file("server/echkpnt.fluent", "", 0700);
    put_file("own/echkpnt", "", 0700);
    put_file("methods/echkpnt.fluent", "", 0700);
    settings = found("d method=fluent");
    expect_unfound(&settings, "nothing says where erestart.fluent is: set LSB_ECHKPNT_METHOD_DIR");
    snprintf(conf, sizeof(conf), "LSF_SERVERDIR=%s\nLSB_ECHKPNT_METHOD=other\n", below("server"));
    put_file("lsf.conf", conf, 0600);
    settings = found("d method=fluent");
    assert_string_equal(found_path(&settings, LSF_ECHKPNT), below("server/echkpnt.fluent"));
    expect_unfound(&settings, "erestart.fluent cannot be run from");
    expect_unfound(&settings, below("server"));
    expect_unfound(&settings, "which LSF_SERVERDIR names: No such file");
    assert_string_equal(found("d").method, "other");
    setenv("LSB_ECHKPNT_METHOD", "fluent", 1);
    setenv("LSB_ECHKPNT_METHOD_DIR", below("methods"), 1);
    settings = found("d");
    assert_string_equal(found_path(&settings, LSF_ECHKPNT), below("methods/echkpnt.fluent"));
    settings = found("d method=default");
    assert_string_equal(found_path(&settings, LSF_ECHKPNT), below("server/echkpnt.default"));
    setenv("LSB_ECHKPNT_METHOD", "", 1);
    settings = found("d");
    assert_string_equal(found_path(&settings, LSF_ECHKPNT), below("server/echkpnt"));
    setenv("LSF_ECHKPNTDIR", below("own"), 1);
    settings = found("d");
    assert_string_equal(found_path(&settings, LSF_ECHKPNT), below("own/echkpnt"));
    assert_true(lsf_erestart_is_job(&settings));
    settings = found("d method=fluent");
    assert_false(lsf_erestart_is_job(&settings));
    settings = found("d method=default");
    assert_true(lsf_erestart_is_job(&settings));
}

static void a_program_that_cannot_be_run_is_named_with_its_folder(void **state)
{
    struct lsf_settings settings;
    struct err err = {0};

    (void)state;
    setenv("LSF_SERVERDIR", root, 1);
    put_folder("erestart.folder");
    put_file("erestart.text", "", 0600);
    settings = found("d method=folder");
    expect_unfound(&settings, "it is no file");
    settings = found("d method=text");
    expect_unfound(&settings, "Permission denied; put it there, executable for this user");
    setenv("LSF_SERVERDIR", "relative/etc", 1);
    settings = parsed("d method=text", NULL);
    assert_int_equal(lsf_settings_find(&settings, &err), -1);
    assert_string_equal(err.text, "LSF_SERVERDIR is \"relative/etc\", it must be an absolute path");
    setenv("LSF_SERVERDIR", root, 1);
    setenv("LSB_ECHKPNT_METHOD", "two names", 1);
    settings = parsed("d", NULL);
    assert_int_equal(lsf_settings_find(&settings, &err), -1);
    assert_non_null(strstr(err.text, "LSB_ECHKPNT_METHOD names the method \"two names\""));
}

/* S3-068: only Y and y keep it. */
static void output_is_kept_by_a_y(void **state)
{
    (void)state;
    assert_false(found("d").keep_output);
    setenv("LSB_ECHKPNT_KEEP_OUTPUT", "Y", 1);
    assert_true(found("d").keep_output);
    setenv("LSB_ECHKPNT_KEEP_OUTPUT", "yes", 1);
    assert_false(found("d").keep_output);
}

static const char *link_of(const char *name)
{
    static char to[64];
    ssize_t length = readlink(below(name), to, sizeof(to) - 1);

    to[length < 0 ? 0 : length] = '\0';
    return to;
}

/* S3-068: what a job has left follows it to a new id, and is found by each id that it had. */
static void a_new_id_gets_the_folder_of_the_one_before(void **state)
{
    struct lsf_settings settings;
    struct err err = {0};

    (void)state;
    settings = found("ck");
    lsf_output_follow(&settings, "456", "123"); /* nothing is kept */
    assert_int_not_equal(access(below("ck"), F_OK), 0);
    setenv("LSB_ECHKPNT_KEEP_OUTPUT", "Y", 1);
    settings = found("ck");
    assert_int_equal(lsf_output_prepare(&settings, "123", &err), 0);
    put_file("ck/123/echkpnt.out", "saved", 0600);
    assert_int_equal(lsf_output_prepare(&settings, "456", &err), 0);
    lsf_output_follow(&settings, "456", "123");
    assert_string_equal(link_of("ck/123"), "456");
    assert_int_equal(access(below("ck/456/echkpnt.out"), F_OK), 0);
    lsf_output_follow(&settings, "456", "456");
    lsf_output_follow(&settings, "456", "../ck");
    lsf_output_follow(&settings, "457", "123"); /* another job has taken it by now */
    assert_string_equal(link_of("ck/456"), "");
    lsf_output_follow(&settings, "789", "456");
    assert_string_equal(link_of("ck/456"), "789");
    assert_int_equal(access(below("ck/123/echkpnt.out"), F_OK), 0);
    assert_int_equal(lsf_output_prepare(&settings, "5", &err), 0);
    put_file("ck/5/echkpnt.out", "own", 0600);
    lsf_output_follow(&settings, "5", "789");
    assert_string_equal(link_of("ck/789"), "");
    assert_int_equal(access(below("ck/5/echkpnt.out"), F_OK), 0);
}

static void variables_are_lsfs(void **state)
{
    struct lsf_settings settings;

    (void)state;
    setenv("LSF_SERVERDIR", "/lsf/etc", 1);
    setenv("LSB_ECHKPNT_KEEP_OUTPUT", "y", 1);
    settings = found("/ck 30 method=fluent");
    lsf_environment(&settings, "job-7", "/out/1-1-1", "/home/me");
    assert_string_equal(getenv("LSB_JOBID"), "job-7");
    assert_string_equal(getenv("LSB_CHKPNT_DIR"), "/out/1-1-1");
    assert_string_equal(getenv("LSB_CHKPNT_PERIOD"), "1800");
    assert_string_equal(getenv("LSB_ECHKPNT_METHOD"), "fluent");
    assert_string_equal(getenv("LS_SUBCWD"), "/home/me");
    setenv("LSB_JOBID", "4711", 1); /* within a job of LSF */
    lsf_environment(&settings, "job-7", "/out/1-1-1", "/home/me");
    assert_string_equal(getenv("LSB_JOBID"), "4711");
    unsetenv("LSB_CHKPNT_PERIOD");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_text_of_bsub_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_bsub_would_not_take_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(options_are_echkpnts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_are_as_lsf_has_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lsf_conf_is_read_as_lsf_does, set_up, tear_down),
        cmocka_unit_test_setup_teardown(programs_are_found_as_lsf_finds_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_program_that_cannot_be_run_is_named_with_its_folder,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(output_is_kept_by_a_y, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_id_gets_the_folder_of_the_one_before, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(variables_are_lsfs, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
