/* scan: what lies below a prefix with a cluster's mark, and nothing else (S2-016). On a real file
 * system, by the command line of ckpt-worker. */
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/dest/mark.h"
#include "src/dest/scan.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

#define VERB(...) verb(folders, __VA_ARGS__, NULL)

static const char mark[] = "00000000000000a1", other[] = "00000000000000b2";

static void put(struct folders *folders, const char *below, const char *of)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", folders->prefix, below);
    if (of == NULL)
        assert_int_equal(VERB("put", "--prefix", folders->prefix, "--path", path, "--part", "n1",
                              "--source", folders->source),
                         WORKER_EXIT_OK);
    else
        assert_int_equal(VERB("put", "--prefix", folders->prefix, "--path", path, "--part", "n1",
                              "--source", folders->source, "--cluster", of),
                         WORKER_EXIT_OK);
}

/* The paths that were found, with blanks between them. */
static const char *found(const struct folders *folders)
{
    static char paths[4096];
    struct scan_found *one = calloc(1, sizeof(*one));

    assert_non_null(one);
    paths[0] = '\0';
    for (const char *at = folders->out; scan_read(&at, one);) {
        strcat(paths, paths[0] == '\0' ? "" : " ");
        strcat(paths, one->path);
        assert_uint_equal(one->size_bytes, 70006);
    }
    free(one);
    return paths;
}

static void what_has_the_mark_is_told_and_nothing_else(void **state)
{
    struct folders *folders = *state;
    char path[512];

    put(folders, "t/p/a/checkpoints/1-42", mark);
    put(folders, "t/p/b/checkpoints/1-2", mark);
    put(folders, "t/p/b/checkpoints/1-3", other);
    put(folders, "t/p/c/checkpoints/1-4", NULL);
    put(folders, "t/p/d/checkpoints/1-5", mark);
    snprintf(path, sizeof(path), "%s/t/p/d/checkpoints/1-5", folders->prefix);
    write_text(path, ".cluster.00000000000000b2", ""); /* nobody's: a person has to look */
    snprintf(path, sizeof(path), "%s/t/p/a/notes", folders->prefix);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(VERB("scan", "--prefix", folders->prefix, "--cluster", mark), WORKER_EXIT_OK);
    assert_string_equal(found(folders), "t/p/a/checkpoints/1-42 t/p/b/checkpoints/1-2");
    assert_value(folders, "looked", "5");
    assert_value(folders, "foreign", "3");
    assert_value(folders, "denied", "0");
}

static void a_walk_goes_on_behind_a_path(void **state)
{
    struct folders *folders = *state;

    put(folders, "t/p/a/checkpoints/1-2", mark);
    put(folders, "t/p/a/checkpoints/1-20", mark);
    put(folders, "t/p/b/checkpoints/1-1", mark);
    put(folders, "u/a/a/checkpoints/1-3", mark);
    assert_int_equal(VERB("scan", "--prefix", folders->prefix, "--cluster", mark, "--after",
                          "t/p/a/checkpoints/1-2"),
                     WORKER_EXIT_OK);
    assert_string_equal(found(folders),
                        "t/p/a/checkpoints/1-20 t/p/b/checkpoints/1-1 u/a/a/checkpoints/1-3");
    /* what has gone meanwhile leaves its place */
    assert_int_equal(VERB("scan", "--prefix", folders->prefix, "--cluster", mark, "--after",
                          "t/p/aa/checkpoints/9-9"),
                     WORKER_EXIT_OK);
    assert_string_equal(found(folders), "t/p/b/checkpoints/1-1 u/a/a/checkpoints/1-3");
    assert_int_equal(
        VERB("scan", "--prefix", folders->prefix, "--cluster", mark, "--after", "t/p/a"),
        WORKER_EXIT_USAGE);
}

static const struct timespec *times_to_set;

static int set_times(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status, (void)kind, (void)at;
    return utimensat(AT_FDCWD, path, times_to_set, AT_SYMLINK_NOFOLLOW);
}

/* Everything of a checkpoint was read and changed so many seconds ago. */
static void make_old(const struct folders *folders, const char *below, time_t age_s)
{
    const struct timespec then = {.tv_sec = time(NULL) - age_s}, times[2] = {then, then};
    char path[512];

    times_to_set = times;
    snprintf(path, sizeof(path), "%s/%s", folders->prefix, below);
    assert_int_equal(nftw(path, set_times, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static const char *found_after(struct folders *folders, const char *min_age_s)
{
    assert_int_equal(
        VERB("scan", "--prefix", folders->prefix, "--cluster", mark, "--min-age", min_age_s),
        WORKER_EXIT_OK);
    return found(folders);
}

/* A folder of a put that may be at work is young. */
static void what_is_young_is_left_alone(void **state)
{
    struct folders *folders = *state;

    put(folders, "t/p/a/checkpoints/1-1", mark);
    put(folders, "t/p/a/checkpoints/1-2", mark);
    make_old(folders, "t/p/a/checkpoints/1-1", 7200);
    assert_string_equal(found_after(folders, "3600"), "t/p/a/checkpoints/1-1");
}

/* S2-017: the age counts from the last access of any file, or from its change if that is later, at
 * any depth. The scan's own looks are none, and its MANIFEST is read by every scan. */
static void what_was_read_is_young_again(void **state)
{
    static const char *const files[] = {"n1/sub/b.txt", "n1/a.bin"};
    const struct timespec read_now[2] = {{.tv_sec = time(NULL)}, {.tv_nsec = UTIME_OMIT}};
    const struct timespec changed_now[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL)}};
    struct folders *folders = *state;
    struct scan_found *one = calloc(1, sizeof(*one));
    const char *at;
    char path[512];

    put(folders, "t/p/a/checkpoints/1-1", mark);
    for (int times = 0; times < 2; times++) { /* the first scan is no use */
        make_old(folders, "t/p/a/checkpoints/1-1", times == 0 ? 7200 : 7201);
        assert_string_equal(found_after(folders, "3600"), "t/p/a/checkpoints/1-1");
        at = folders->out;
        assert_true(scan_read(&at, one));
        assert_in_range(one->age_s, 7200, 7210);
        assert_string_equal(found_after(folders, "3600"), "t/p/a/checkpoints/1-1");
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        make_old(folders, "t/p/a/checkpoints/1-1", 7200);
        snprintf(path, sizeof(path), "%s/t/p/a/checkpoints/1-1/%s", folders->prefix, files[i]);
        assert_int_equal(utimensat(AT_FDCWD, path, i == 0 ? read_now : changed_now, 0), 0);
        assert_string_equal(found_after(folders, "3600"), "");
    }
    free(one);
}

/* An aborted attempt and a killed removal have no MANIFEST that tells their bytes. */
static void what_was_never_finished_is_told_with_its_bytes(void **state)
{
    struct folders *folders = *state;
    char from[512], to[512];

    put(folders, "t/p/a/checkpoints/1-1", mark);
    snprintf(from, sizeof(from), "%s/t/p/a/checkpoints/1-1/n1/MANIFEST", folders->prefix);
    assert_int_equal(unlink(from), 0);
    snprintf(from, sizeof(from), "%s/t/p/a/checkpoints/1-1/n1", folders->prefix);
    snprintf(to, sizeof(to), "%s/t/p/a/checkpoints/1-1/.n1.tmp.0123456789abcdef", folders->prefix);
    assert_int_equal(rename(from, to), 0);
    snprintf(from, sizeof(from), "%s/t/p/a/checkpoints/1-1", folders->prefix);
    snprintf(to, sizeof(to), "%s/t/p/a/checkpoints/.1-1.gone.0123456789abcdef", folders->prefix);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(VERB("scan", "--prefix", folders->prefix, "--cluster", mark), WORKER_EXIT_OK);
    assert_string_equal(found(folders), "t/p/a/checkpoints/1-1");
    assert_int_equal(VERB("collect", "--prefix", folders->prefix, "--path", from), WORKER_EXIT_OK);
    assert_int_equal(VERB("scan", "--prefix", folders->prefix, "--cluster", mark), WORKER_EXIT_OK);
    assert_string_equal(found(folders), "");
}

static void a_page_ends_and_the_next_one_begins_behind_it(void **state)
{
    struct folders *folders = *state;
    char path[512], after[512] = "", command[1024];
    size_t pages = 0, count = 0;

    put(folders, "t/p/a/checkpoints/1-1", mark);
    snprintf(path, sizeof(path), "%s/t/p/a/checkpoints", folders->prefix);
    for (unsigned i = 2; i <= 1200; i++) {
        snprintf(command, sizeof(command), "%s/1-%u", path, i);
        assert_int_equal(mkdir(command, 0700), 0);
        strcat(command, "/.cluster.00000000000000a1");
        assert_int_equal(close(open(command, O_CREAT | O_WRONLY, 0600)), 0);
    }
    do {
        static char text[SCAN_TEXT_BYTES];
        FILE *out = fmemopen(text, sizeof(text), "w");
        const struct destination_scan scan = {
            .prefix = folders->prefix, .mark = mark, .after = after[0] == '\0' ? NULL : after};
        struct scan_found *one = calloc(1, sizeof(*one));
        struct err err;

        assert_non_null(one);
        assert_int_equal(scan_run(&destination_posix, &scan, out, &err), 0);
        assert_int_equal(fclose(out), 0);
        for (const char *at = text; scan_read(&at, one);)
            count++;
        free(one);
        pages++;
        if (worker_output_get(text, "next", after, sizeof(after)) != 0)
            after[0] = '\0';
    } while (after[0] != '\0');
    assert_uint_equal(count, 1200);
    assert_true(pages > 1);
}

/* Reads pages until one tells of something, or the last one; how many there were. */
static size_t pages_until_found(const struct folders *folders, const char *expected)
{
    static char text[SCAN_TEXT_BYTES];
    char after[512] = "", line[600];

    for (size_t pages = 1;; pages++) {
        FILE *out = fmemopen(text, sizeof(text), "w");
        const struct destination_scan scan = {
            .prefix = folders->prefix, .mark = mark, .after = after[0] == '\0' ? NULL : after};
        struct err err;

        assert_int_equal(scan_run(&destination_posix, &scan, out, &err), 0);
        assert_int_equal(fclose(out), 0);
        snprintf(line, sizeof(line), " %s\n", expected);
        if (strstr(text, line) != NULL)
            return pages;
        assert_null(strstr(text, "found="));
        assert_int_equal(worker_output_get(text, "next", after, sizeof(after)), 0);
        assert_true(pages < 100);
    }
}

static void make_many(const struct folders *folders, const char *beginning, unsigned count)
{
    char path[512];

    for (unsigned i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%s%u", folders->prefix, beginning, i);
        assert_int_equal(mkdir(path, 0700), 0);
    }
}

/* Who waits for a page has a deadline, whatever there is to be passed over. */
static void a_page_of_which_nothing_is_told_ends_as_well(void **state)
{
    struct folders *folders = *state;

    put(folders, "t/p/a/checkpoints/1-1", other);
    put(folders, "t/p/z/checkpoints/1-1", mark);
    assert_int_equal(pages_until_found(folders, "t/p/z/checkpoints/1-1"), 1);
    make_many(folders, "t/p/a/checkpoints/2-1", 10500); /* without a mark */
    assert_int_equal(pages_until_found(folders, "t/p/z/checkpoints/1-1"), 2);
    make_many(folders, "t/p/b", 20500); /* without checkpoints */
    assert_int_equal(pages_until_found(folders, "t/p/z/checkpoints/1-1"), 4);
}

/* An unreachable prefix is no empty one, and damaged lines are passed over. */
static void what_cannot_be_read_is_said(void **state)
{
    struct folders *folders = *state;
    struct scan_found *one = calloc(1, sizeof(*one));
    const char *at = "found=\nfound=1\nfound=1 2 a\nfound=x y z t\nfound=5 6 bob t/p/a\nlooked=1\n";

    assert_non_null(one);
    assert_int_equal(VERB("scan", "--prefix", "/nowhere/at/all", "--cluster", mark),
                     WORKER_EXIT_UNAVAILABLE);
    assert_int_equal(VERB("scan", "--prefix", folders->prefix, "--cluster", "0000000000000000"),
                     WORKER_EXIT_USAGE);
    assert_int_equal(VERB("scan", "--prefix", folders->prefix), WORKER_EXIT_USAGE);
    assert_true(scan_read(&at, one));
    assert_string_equal(one->path, "t/p/a");
    assert_string_equal(one->owner, "bob");
    assert_uint_equal(one->age_s, 6);
    assert_false(scan_read(&at, one));
    free(one);
}

static int scan_denied(const struct destination_scan *scan, const struct destination_sink *sink,
                       struct destination_scanned *ret_scanned, struct err *err)
{
    (void)scan;
    (void)sink;
    (void)err;
    *ret_scanned = (struct destination_scanned){.denied = 1};
    err_set(&ret_scanned->denied_error, ERR_AUTH, "open a\nnext=boom: denied");
    return 0;
}

/* Names are those that a job's user chose, and errors name them. */
static void what_a_name_holds_makes_no_line(void **state)
{
    static const struct destination_ops denying = {.scan = scan_denied};
    const struct destination_scan scan = {.prefix = "/p", .mark = mark};
    struct folders *folders = *state;
    char path[512], value[64], text[512] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");
    struct err err;

    assert_int_equal(scan_run(&denying, &scan, out, &err), 0);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(worker_output_get(text, "next", value, sizeof(value)), -1);
    assert_contains(text, "denied_error=open a?next=boom: denied");

    put(folders, "t/p/a/checkpoints/1-1", mark);
    snprintf(path, sizeof(path), "%s/t/p/a/checkpoints/.1-2.gone.\nnext=boom", folders->prefix);
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/.cluster.00000000000000a1");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(VERB("scan", "--prefix", folders->prefix, "--cluster", mark), WORKER_EXIT_OK);
    assert_string_equal(found(folders), "t/p/a/checkpoints/1-1"); /* it is none that collect left */
}

static void marks_of_two_clusters_differ(void **state)
{
    char one[MARK_BYTES], two[MARK_BYTES];

    (void)state;
    mark_format(mark_of("demo"), one);
    mark_format(mark_of("demo2"), two);
    assert_string_not_equal(one, two);
    assert_true(mark_valid(one));
    assert_false(mark_valid("0000000000000000"));
    assert_false(mark_valid("00000000000000A1"));
}

int main(void)
{
#define WITH_FOLDERS(test) cmocka_unit_test_setup_teardown(test, folders_setup, folders_teardown)
    const struct CMUnitTest tests[] = {
        WITH_FOLDERS(what_has_the_mark_is_told_and_nothing_else),
        WITH_FOLDERS(a_walk_goes_on_behind_a_path),
        WITH_FOLDERS(what_is_young_is_left_alone),
        WITH_FOLDERS(what_was_read_is_young_again),
        WITH_FOLDERS(what_was_never_finished_is_told_with_its_bytes),
        WITH_FOLDERS(a_page_ends_and_the_next_one_begins_behind_it),
        WITH_FOLDERS(a_page_of_which_nothing_is_told_ends_as_well),
        WITH_FOLDERS(what_cannot_be_read_is_said),
        WITH_FOLDERS(what_a_name_holds_makes_no_line),
        cmocka_unit_test(marks_of_two_clusters_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
