/* Accounting records as files: what a kill leaves, files that make room, and a disk that takes
 * nothing. D-007. */
#include "src/broker/keep/accounting_file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/buf.h"
#include "tests/support/test.h"

static const unsigned long long EPOCH = 2;

static char root[64], folder[96];

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/ckpt-accounting-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof(folder), "%s/accounting", root);
    return 0;
}

static const char *path_of(const char *name)
{
    static char path[160];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int teardown(void **state)
{
    static const char *const files[] = {"accounting.jsonl", "accounting.jsonl.1",
                                        "accounting.jsonl.2"};

    (void)state;
    for (size_t i = 0; i < 3; i++)
        (void)unlink(path_of(files[i]));
    (void)rmdir(folder);
    return rmdir(root);
}

/* Records first .. first + count - 1; -1: refused. */
static int append(struct accounting_file *file, uint64_t first, uint64_t count, struct err *err)
{
    struct accounting_lines lines = {.record_count = count};
    struct buf text = {0};
    int result;

    for (uint64_t i = first; i < first + count; i++)
        buf_printf(&text, ACCOUNTING_PLACE "\"event\": \"x\"}\n", EPOCH, (unsigned long long)i);
    lines.bytes = text.bytes;
    lines.length = text.length;
    result = accounting_file_append(file, &lines, err);
    buf_close(&text);
    return result;
}

/* The sequences of the first and of the last line; how many there are. */
static size_t look(const char *name, uint64_t *ret_first, uint64_t *ret_last)
{
    FILE *file = fopen(path_of(name), "re");
    char line[256];
    size_t count = 0;

    *ret_first = *ret_last = 0;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        unsigned long long epoch, sequence;

        assert_int_equal(sscanf(line, ACCOUNTING_PLACE, &epoch, &sequence), 2);
        *ret_last = sequence;
        if (count++ == 0)
            *ret_first = sequence;
    }
    if (file != NULL)
        fclose(file);
    return count;
}

static void a_start_goes_on_behind_the_last_whole_line(void **state)
{
    static const char torn[] = "{\"epoch\": 2, \"sequence\": 6, \"ev";
    struct accounting_file file;
    uint64_t first, last;
    struct err err;
    int fd;

    (void)state;
    assert_int_equal(accounting_file_open(folder, &file, &err), 0);
    assert_int_equal(file.last.sequence, 0);
    assert_int_equal(append(&file, 3, 3, &err), 0);
    accounting_file_close(&file);
    fd = open(path_of("accounting.jsonl"), O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(fd, torn, strlen(torn)), (ssize_t)strlen(torn));
    close(fd);
    assert_int_equal(accounting_file_open(folder, &file, &err), 0);
    assert_int_equal(file.last.sequence, 5);
    assert_int_equal(file.last.epoch, EPOCH);
    assert_int_equal(file.record_count, 3);
    assert_int_equal(append(&file, 6, 1, &err), 0);
    accounting_file_close(&file);
    assert_int_equal(look("accounting.jsonl", &first, &last), 4);
    assert_int_equal(first, 3);
    assert_int_equal(last, 6);
}

static void the_last_hundred_thousand_records_stay(void **state)
{
    enum { BATCH = ACCOUNTING_BATCH_RECORDS - 1 };
    struct accounting_file file;
    uint64_t next = 1, first, last, oldest = 0;
    struct err err;

    (void)state;
    assert_int_equal(accounting_file_open(folder, &file, &err), 0);
    for (int i = 0; i < 40; i++, next += BATCH) {
        uint64_t there = 0, expected = next;

        assert_int_equal(append(&file, next, BATCH, &err), 0);
        there = look("accounting.jsonl", &first, &last);
        assert_int_equal(there, file.record_count);
        assert_true(there <= ACCOUNTING_FILE_RECORDS);
        assert_int_equal(last, next + BATCH - 1);
        expected = first;
        for (int older = 1; older <= ACCOUNTING_OLDER_FILES; older++) {
            char name[32];
            size_t count;

            snprintf(name, sizeof(name), "accounting.jsonl.%d", older);
            count = look(name, &first, &last);
            if (count == 0)
                break;
            assert_int_equal(last + 1, expected);
            expected = first;
            there += count;
        }
        oldest = expected;
        assert_int_equal(there, next + BATCH - oldest); /* without a hole */
        assert_true(there >= ACCOUNTING_KEPT_RECORDS || oldest == 1);
        assert_int_equal(file.removed_count, oldest - 1);
    }
    assert_true(oldest > 1);
    accounting_file_close(&file);
    assert_int_equal(accounting_file_open(folder, &file, &err), 0);
    assert_int_equal(file.last.sequence, next - 1);
    accounting_file_close(&file);
}

/* Killed between the turn of the files and the first line of the new one. */
static void a_new_file_without_a_line_goes_on_behind_the_older_one(void **state)
{
    struct accounting_file file;
    struct err err;

    (void)state;
    assert_int_equal(accounting_file_open(folder, &file, &err), 0);
    assert_int_equal(append(&file, 7, 2, &err), 0);
    accounting_file_close(&file);
    {
        char older[160];

        snprintf(older, sizeof(older), "%s", path_of("accounting.jsonl.1"));
        assert_int_equal(rename(path_of("accounting.jsonl"), older), 0);
    }
    assert_int_equal(accounting_file_open(folder, &file, &err), 0);
    assert_int_equal(file.last.sequence, 8);
    assert_int_equal(file.record_count, 0);
    accounting_file_close(&file);
}

/* The system takes some of the bytes and no more. */
static void what_the_disk_takes_in_part_leaves_nothing(void **state)
{
    struct rlimit before, small;
    struct accounting_file file;
    uint64_t first, last;
    struct stat there;
    struct err err = {0};

    (void)state;
    assert_int_equal(accounting_file_open(folder, &file, &err), 0);
    assert_int_equal(append(&file, 1, 2, &err), 0);
    assert_int_equal(stat(path_of("accounting.jsonl"), &there), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = (rlim_t)there.st_size + 40;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(append(&file, 3, 2, &err), -1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_contains(err.text, "accounting.jsonl: File too large");
    assert_int_equal(look("accounting.jsonl", &first, &last), 2);
    assert_int_equal(append(&file, 3, 2, &err), 0);
    assert_int_equal(look("accounting.jsonl", &first, &last), 4);
    assert_int_equal(last, 4);
    accounting_file_close(&file);
}

/* Somebody else's file is not written to. */
static void a_link_in_the_place_of_the_file_is_not_followed(void **state)
{
    struct accounting_file file;
    struct err err = {0};

    (void)state;
    assert_int_equal(accounting_file_open(folder, &file, &err), 0);
    assert_int_equal(unlink(path_of("accounting.jsonl")), 0);
    assert_int_equal(symlink("/dev/null", path_of("accounting.jsonl")), 0);
    assert_int_equal(append(&file, 3, 2, &err), -1);
    assert_contains(err.text, "open accounting.jsonl: Too many levels of symbolic links");
    accounting_file_close(&file);
}

static void write_newest(const void *bytes, size_t length)
{
    int fd = open(path_of("accounting.jsonl"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    assert_int_equal(write(fd, bytes, length), (ssize_t)length);
    close(fd);
}

/* Nobody else's lines, and no number that cannot be, tell where to go on. */
static void what_is_no_record_is_passed_over(void **state)
{
    static const char lines[] = "{\"epoch\": 2, \"sequence\": 9, \"event\": \"x\"}\n"
                                "{\"epoch\": 2, \"sequence\": 99999999999999999999, }\n"
                                "{\"epoch\": 1, \"sequence\": 500, \"event\": \"x\"}\n"
                                "\n\x01\xff\n{\"sequence\": 70}\n";
    struct accounting_file file;
    struct err err;

    (void)state;
    assert_int_equal(mkdir(folder, 0700), 0);
    write_newest(lines, sizeof(lines) - 1);
    assert_int_equal(accounting_file_open(folder, &file, &err), 0);
    assert_int_equal(file.last.epoch, 2);
    assert_int_equal(file.last.sequence, 9);
    assert_int_equal(file.record_count, 6);
    accounting_file_close(&file);
}

/* It may be anybody's, and is not thrown away. */
static void what_is_no_file_of_lines_is_refused_and_kept(void **state)
{
    static const char block[ACCOUNTING_LINE_BYTES + 1];
    struct accounting_file file;
    struct stat status;
    struct err err;

    (void)state;
    assert_int_equal(mkdir(folder, 0700), 0);
    write_newest("line\n", 5);
    write_newest(block, sizeof(block));
    assert_int_equal(accounting_file_open(folder, &file, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_contains(err.text, "accounting.jsonl ends with 8193 bytes that are no line: move it");
    accounting_file_close(&file);
    assert_int_equal(stat(path_of("accounting.jsonl"), &status), 0);
    assert_int_equal(status.st_size, 5 + sizeof(block));
    assert_int_equal(unlink(path_of("accounting.jsonl")), 0);
    assert_int_equal(mkfifo(path_of("accounting.jsonl"), 0600), 0);
    assert_int_equal(accounting_file_open(folder, &file, &err), -1);
    assert_contains(err.text, "accounting.jsonl is no file: move it away");
    accounting_file_close(&file);
}

static void a_folder_that_cannot_be_made_is_named(void **state)
{
    struct accounting_file file;
    struct err err;

    (void)state;
    assert_int_equal(accounting_file_open("/proc/no/accounting", &file, &err), -1);
    assert_contains(err.text, "make /proc/no/accounting: ");
    accounting_file_close(&file);
    accounting_file_close(&file);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_start_goes_on_behind_the_last_whole_line),
        T(the_last_hundred_thousand_records_stay),
        T(a_new_file_without_a_line_goes_on_behind_the_older_one),
        T(what_the_disk_takes_in_part_leaves_nothing),
        T(a_link_in_the_place_of_the_file_is_not_followed),
        T(what_is_no_record_is_passed_over),
        T(what_is_no_file_of_lines_is_refused_and_kept),
        T(a_folder_that_cannot_be_made_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
