/* keep: the new file is whole before any old one goes; only files of the series are touched. */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/dest/keep.h"
#include "tests/support/test.h"

struct fixture {
    char root[64];
    char source[128];
    char to[128];
};

static void write_file(const char *folder, const char *name, size_t length)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < length; i++)
        fputc((int)(i * 7 % 251), file);
    assert_int_equal(fclose(file), 0);
}

static void start(struct fixture *f)
{
    snprintf(f->root, sizeof(f->root), "/tmp/keep-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    snprintf(f->source, sizeof(f->source), "%s/new", f->root);
    snprintf(f->to, sizeof(f->to), "%s/to", f->root);
    assert_int_equal(mkdir(f->to, 0700), 0);
    write_file(f->root, "new", 1000);
}

static bool there(const struct fixture *f, const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", f->to, name);
    return access(path, F_OK) == 0;
}

static size_t count(const struct fixture *f)
{
    DIR *dir = opendir(f->to);
    size_t found = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        found++;
    closedir(dir);
    return found - 2;
}

static void finish(struct fixture *f)
{
    DIR *dir = opendir(f->to);
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    rmdir(f->to);
    unlink(f->source);
    assert_int_equal(rmdir(f->root), 0);
}

static int keep(const struct fixture *f, const char *name, uint64_t most, uint64_t bytes,
                struct keep_summary *summary)
{
    const struct keep_request request = {f->source, f->to, name, "ckpt-a@", most, bytes, 0, 0, 0};
    struct err err;

    return keep_file(&request, summary, &err);
}

static void the_newest_stay_and_other_series_are_left_alone(void **state)
{
    struct keep_summary summary;
    struct fixture f;

    (void)state;
    start(&f);
    for (int i = 1; i <= 5; i++) {
        char name[32];
        snprintf(name, sizeof(name), "ckpt-a@%d", i);
        write_file(f.to, name, 500);
    }
    write_file(f.to, "ckpt-a-2@0", 500);
    write_file(f.to, "notes", 10);
    write_file(f.to, ".ckpt-a@4.part", 10);
    write_file(f.to, ".ckpt-b@4.part", 10);
    assert_int_equal(keep(&f, "ckpt-a@6", 3, 0, &summary), 0);
    assert_uint_equal(summary.size_bytes, 1000);
    assert_uint_equal(summary.kept, 3);
    assert_uint_equal(summary.removed, 3);
    assert_true(there(&f, "ckpt-a@4") && there(&f, "ckpt-a@5") && there(&f, "ckpt-a@6"));
    assert_true(there(&f, "ckpt-a-2@0") && there(&f, "notes") && there(&f, ".ckpt-b@4.part"));
    assert_false(there(&f, ".ckpt-a@4.part"));
    assert_uint_equal(count(&f), 6);
    finish(&f);
}

static bool stays(const struct fixture *f, const char *stamp)
{
    char name[64];

    snprintf(name, sizeof(name), "ckpt-a@%sT120000Z", stamp);
    return there(f, name);
}

/* B-003: what is kept by day, week and month. 2026-11-30 is a Monday. */
static void the_newest_of_days_weeks_and_months_stay(void **state)
{
    static const char *const stamps[] = {"20260815", "20260930", "20261031", "20261101", "20261115",
                                         "20261122", "20261123", "20261128", "20261129"};
    struct keep_summary summary;
    struct keep_request request;
    struct fixture f;
    struct err err;

    (void)state;
    start(&f);
    for (size_t i = 0; i < sizeof(stamps) / sizeof(stamps[0]); i++) {
        char name[64];

        snprintf(name, sizeof(name), "ckpt-a@%sT120000Z", stamps[i]);
        write_file(f.to, name, 100);
        snprintf(name, sizeof(name), "ckpt-a@%sT080000Z", stamps[i]); /* earlier of that day */
        write_file(f.to, name, 100);
    }
    write_file(f.to, "ckpt-a@nodate", 100); /* sorts behind all: among the newest alone */
    request =
        (struct keep_request){f.source, f.to, "ckpt-a@20261130T120000Z", "ckpt-a@", 2, 0, 3, 3, 3};
    assert_int_equal(keep_file(&request, &summary, &err), 0);
    assert_true(stays(&f, "20261130") && there(&f, "ckpt-a@nodate")); /* the newest two */
    assert_true(stays(&f, "20261129") && stays(&f, "20261128"));      /* days */
    assert_true(stays(&f, "20261122"));                               /* a week before */
    assert_true(stays(&f, "20261031") && stays(&f, "20260930"));      /* months */
    assert_false(stays(&f, "20261123") || stays(&f, "20261115") || stays(&f, "20261101"));
    assert_false(stays(&f, "20260815") || there(&f, "ckpt-a@20261129T080000Z"));
    assert_uint_equal(summary.kept, 7);
    assert_uint_equal(summary.removed, 13);
    assert_uint_equal(count(&f), 7);
    /* the limit of bytes is above them all, oldest first */
    request.name = "ckpt-a@20261130T130000Z";
    request.keep_bytes = 1000 + 250;
    assert_int_equal(keep_file(&request, &summary, &err), 0);
    assert_true(there(&f, request.name) && stays(&f, "20261129") && !stays(&f, "20260930"));
    finish(&f);
}

static void a_limit_of_bytes_leaves_at_least_the_newest(void **state)
{
    struct keep_summary summary;
    struct fixture f;

    (void)state;
    start(&f);
    write_file(f.to, "ckpt-a@1", 800);
    write_file(f.to, "ckpt-a@2", 800);
    assert_int_equal(keep(&f, "ckpt-a@3", 100, 1900, &summary), 0);
    assert_uint_equal(summary.kept, 2);
    assert_int_equal(keep(&f, "ckpt-a@4", 100, 10, &summary), 0);
    assert_uint_equal(summary.kept, 1);
    assert_true(there(&f, "ckpt-a@4"));
    assert_uint_equal(count(&f), 1);
    finish(&f);
}

/* The clock of the one who writes is behind. */
static void what_was_just_written_stays_whatever_its_name_says(void **state)
{
    struct keep_summary summary;
    struct fixture f;

    (void)state;
    start(&f);
    write_file(f.to, "ckpt-a@5", 500);
    write_file(f.to, "ckpt-a@6", 500);
    assert_int_equal(keep(&f, "ckpt-a@1", 2, 0, &summary), 0);
    assert_true(there(&f, "ckpt-a@1") && there(&f, "ckpt-a@6") && !there(&f, "ckpt-a@5"));
    assert_int_equal(keep(&f, "ckpt-a@2", 2, 0, &summary), 0);
    assert_true(there(&f, "ckpt-a@2"));
    assert_uint_equal(count(&f), 2);
    finish(&f);
}

static void what_cannot_be_written_costs_no_old_one(void **state)
{
    const struct keep_request missing = {
        "/nonexistent/file", NULL, "ckpt-a@9", "ckpt-a@", 1, 0, 0, 0, 0};
    struct keep_request request;
    struct keep_summary summary;
    struct fixture f;
    struct err err;

    (void)state;
    start(&f);
    write_file(f.to, "ckpt-a@1", 800);
    write_file(f.to, "ckpt-a@2", 800);
    request = missing;
    request.folder = f.to;
    assert_int_equal(keep_file(&request, &summary, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    request.source = f.source;
    request.folder = "/nonexistent";
    assert_int_equal(keep_file(&request, &summary, &err), -1);
    request.folder = f.to;
    request.name = "../ckpt-a@1";
    assert_int_equal(keep_file(&request, &summary, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    request.name = "other";
    assert_int_equal(keep_file(&request, &summary, &err), -1);
    assert_uint_equal(count(&f), 2);
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_stay_and_other_series_are_left_alone),
        cmocka_unit_test(the_newest_of_days_weeks_and_months_stay),
        cmocka_unit_test(a_limit_of_bytes_leaves_at_least_the_newest),
        cmocka_unit_test(what_was_just_written_stays_whatever_its_name_says),
        cmocka_unit_test(what_cannot_be_written_costs_no_old_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
