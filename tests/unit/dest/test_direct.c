/* stage and publish: an application writes into the hidden folder at the destination itself. */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

#define AT_N1 "--prefix", folders->prefix, "--path", folders->path, "--part", "n1"

enum { LARGE_BYTES = 40 << 20 };

static char staged[512], staged_name[192];

static void stage_n1(struct folders *folders)
{
    assert_int_equal(verb(folders, "stage", AT_N1, NULL), WORKER_EXIT_OK);
    assert_int_equal(worker_output_get(folders->out, "name", staged_name, sizeof(staged_name)), 0);
    assert_true(strncmp(staged_name, ".n1.tmp.", 8) == 0);
    snprintf(staged, sizeof(staged), "%s/%s", folders->path, staged_name);
}

static void write_state(void)
{
    char path[600];

    write_text(staged, "a.bin", "weights");
    snprintf(path, sizeof(path), "%s/sub", staged);
    assert_int_equal(mkdir(path, 0755), 0);
    write_text(staged, "sub/b.txt", "hello\n");
}

static int publish_n1(struct folders *folders)
{
    return verb(folders, "publish", AT_N1, "--name", staged_name, NULL);
}

static const char *told(const struct folders *folders, const char *key)
{
    static char value[128];

    assert_int_equal(worker_output_get(folders->out, key, value, sizeof(value)), 0);
    return value;
}

static void expect_nothing_published(struct folders *folders)
{
    assert_false(exists(folders->path, "n1"));
}

static void what_was_written_in_place_becomes_the_shard(void **state)
{
    struct folders *folders = *state;
    struct stat before, after;
    char path[600];

    stage_n1(folders);
    write_state();
    snprintf(path, sizeof(path), "%s/a.bin", staged);
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(publish_n1(folders), WORKER_EXIT_OK);
    assert_string_equal(told(folders, "size_bytes"), "13");
    assert_string_equal(told(folders, "written_bytes"), "13");
    assert_string_equal(told(folders, "files"), "2");
    assert_int_equal(stat(in_shard(folders, "a.bin"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino); /* no second write */
    assert_int_equal(count_hidden(folders->path), 0);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(verb(folders, "restore", AT_N1, "--to", folders->to, NULL), WORKER_EXIT_OK);
    assert_true(exists(folders->to, "sub/b.txt"));
    snprintf(path, sizeof(path), "%s/a.bin", folders->to);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_mode & 0777, 0755);
}

/* Its application may have it open still, and what it writes then would be in both. */
static void what_was_written_in_place_is_taken_over_by_no_link(void **state)
{
    struct folders *folders = *state;
    char next[512];
    struct stat own, copied;

    stage_n1(folders);
    write_text(staged, "a.bin", "weights");
    assert_int_equal(publish_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(stat(in_shard(folders, "a.bin"), &own), 0);
    write_text(folders->source, "a.bin", "weights");
    snprintf(next, sizeof(next), "%s/t/p/a/checkpoints/1-43", folders->prefix);
    assert_int_equal(verb(folders, "put", "--prefix", folders->prefix, "--path", next, "--part",
                          "n1", "--source", folders->source, "--generations", "255", NULL),
                     WORKER_EXIT_OK);
    assert_string_equal(told(folders, "saved_bytes"), "0");
    strcat(next, "/n1/a.bin");
    assert_int_equal(stat(next, &copied), 0);
    assert_true(own.st_ino != copied.st_ino);
}

static void what_is_to_be_overwritten_waits_for_who_has_the_time(void **state)
{
    struct folders *folders = *state;
    char left[512];

    stage_n1(folders);
    snprintf(left, sizeof(left), "%s", staged);
    assert_int_equal(verb(folders, "stage", AT_N1, "--wipe", "yes", NULL), WORKER_EXIT_OK);
    assert_true(exists(left, "."));
    assert_int_equal(verb(folders, "abandon", AT_N1, "--wipe", "yes", NULL), WORKER_EXIT_OK);
    assert_false(exists(left, "."));
    assert_int_equal(verb(folders, "stage", AT_N1, "--wipe", "no", NULL), WORKER_EXIT_OK);
}

static void large_files_and_many_are_hashed_where_they_lie(void **state)
{
    struct folders *folders = *state;
    char name[32];
    char *bytes = calloc(1, LARGE_BYTES);

    stage_n1(folders);
    memset(bytes, 7, LARGE_BYTES);
    write_file(staged, "large", bytes, LARGE_BYTES);
    free(bytes);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "small%d", i);
        write_text(staged, name, name);
    }
    assert_int_equal(
        verb(folders, "publish", AT_N1, "--name", staged_name, "--read-back", "always", NULL),
        WORKER_EXIT_OK);
    assert_string_equal(told(folders, "files"), "101");
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
}

/* A kill between the rename and the answer. */
static void a_second_publish_finds_what_the_first_one_published(void **state)
{
    struct folders *folders = *state;
    char manifest[128];

    stage_n1(folders);
    write_state();
    assert_int_equal(publish_n1(folders), WORKER_EXIT_OK);
    snprintf(manifest, sizeof(manifest), "%s", told(folders, "manifest_sha256"));
    assert_int_equal(publish_n1(folders), WORKER_EXIT_OK);
    assert_string_equal(told(folders, "manifest_sha256"), manifest);
}

static void what_was_written_after_the_rename_is_found_by_the_second(void **state)
{
    struct folders *folders = *state;

    stage_n1(folders);
    write_state();
    assert_int_equal(publish_n1(folders), WORKER_EXIT_OK);
    write_text(folders->path, "n1/a.bin", "WEIGHTS");
    assert_int_equal(publish_n1(folders), WORKER_EXIT_CORRUPT);
    expect_nothing_published(folders);
    assert_int_equal(count_hidden(folders->path), 0);
}

/* Another attempt's shard, of whatever bytes, is not what was staged. */
static void the_shard_of_another_attempt_is_replaced_and_never_taken_for_it(void **state)
{
    struct folders *folders = *state;
    char first[192];

    stage_n1(folders);
    write_state();
    assert_int_equal(publish_n1(folders), WORKER_EXIT_OK);
    snprintf(first, sizeof(first), "%s", staged_name);
    stage_n1(folders);
    write_state();
    write_text(staged, "a.bin", "second attempt");
    assert_int_equal(publish_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(verb(folders, "publish", AT_N1, "--name", first, NULL), WORKER_EXIT_NOT_FOUND);
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(publish_n1(folders), WORKER_EXIT_NOT_FOUND);
    assert_contains(folders->errors, "given up");
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
}

/* Between the MANIFEST's rename into the folder and the folder's own. */
static void a_manifest_that_a_kill_left_is_written_anew(void **state)
{
    struct folders *folders = *state;
    char from[600], to[600];

    stage_n1(folders);
    write_state();
    assert_int_equal(publish_n1(folders), WORKER_EXIT_OK);
    snprintf(from, sizeof(from), "%s/n1/MANIFEST", folders->path);
    snprintf(to, sizeof(to), "%s/MANIFEST", folders->root);
    assert_int_equal(rename(from, to), 0);
    stage_n1(folders);
    write_state();
    snprintf(from, sizeof(from), "%s/MANIFEST", staged);
    assert_int_equal(rename(to, from), 0);
    write_text(folders->path, ".n1.new.0123456789abcdef", "# ckpt-man");
    assert_int_equal(publish_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(count_hidden(folders->path), 0);
}

/* Also an empty one, or one that begins as ours do: publish never leaves half of one. */
static void a_file_of_the_manifests_name_is_the_applications_and_refused(void **state)
{
    static const char *const left[] = {
        "", "# ckpt-man", "# ckpt-manifest 2\n# file size=", "of the application's own"};
    struct folders *folders = *state;

    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        stage_n1(folders);
        write_state();
        write_text(staged, "MANIFEST", left[i]);
        assert_int_equal(publish_n1(folders), WORKER_EXIT_REFUSED);
        assert_true(exists(staged, "MANIFEST"));
    }
    expect_nothing_published(folders);
}

static void a_file_with_another_name_is_refused(void **state)
{
    struct folders *folders = *state;
    char inside[600], outside[600];

    stage_n1(folders);
    write_state();
    snprintf(inside, sizeof(inside), "%s/a.bin", staged);
    snprintf(outside, sizeof(outside), "%s/other", folders->root);
    assert_int_equal(link(inside, outside), 0);
    assert_int_equal(publish_n1(folders), WORKER_EXIT_REFUSED);
    assert_contains(folders->errors, "a.bin has 2 names");
    expect_nothing_published(folders);
    assert_int_equal(unlink(outside), 0);
    assert_int_equal(publish_n1(folders), WORKER_EXIT_OK);
}

static void links_and_nothing_at_all_are_refused(void **state)
{
    struct folders *folders = *state;
    char path[600];

    stage_n1(folders);
    assert_int_equal(publish_n1(folders), WORKER_EXIT_EMPTY);
    write_state();
    snprintf(path, sizeof(path), "%s/link", staged);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(publish_n1(folders), WORKER_EXIT_REFUSED);
    expect_nothing_published(folders);
}

static void only_a_folder_that_was_staged_for_the_part_is_published(void **state)
{
    static const char *const wrong[] = {".n2.tmp.0123456789abcdef", "../x", "n1", ".n1.tmp.12",
                                        ".n1.tmp.0123456789abcdeg"};
    struct folders *folders = *state;

    stage_n1(folders);
    write_state();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(verb(folders, "publish", AT_N1, "--name", wrong[i], NULL),
                         WORKER_EXIT_USAGE);
    expect_nothing_published(folders);
}

/* Of an application that was given up and writes on. */
static void what_was_abandoned_or_staged_anew_cannot_be_published(void **state)
{
    struct folders *folders = *state;
    char before[192];
    int late;

    stage_n1(folders);
    write_state();
    late = openat(AT_FDCWD, staged, O_RDONLY | O_DIRECTORY);
    snprintf(before, sizeof(before), "%s", staged_name);
    stage_n1(folders);
    assert_int_equal(count_hidden(folders->path), 1);
    assert_int_equal(openat(late, "more", O_WRONLY | O_CREAT, 0600), -1);
    close(late);
    assert_int_equal(verb(folders, "publish", AT_N1, "--name", before, NULL),
                     WORKER_EXIT_NOT_FOUND);
    write_state();
    assert_int_equal(verb(folders, "abandon", AT_N1, NULL), WORKER_EXIT_OK);
    assert_int_equal(count_hidden(folders->path), 0);
    assert_int_equal(publish_n1(folders), WORKER_EXIT_NOT_FOUND);
    expect_nothing_published(folders);
}

enum { LATE_ROUNDS = 40, LATE_BYTES = 1 << 20 };

/* A descriptor outlives the rename. What is published in spite of the writer is of one moment: it
 * verifies, unless it was written after publish had its last look, which the next reader finds. */
static void a_late_writer_does_not_get_into_what_is_published(void **state)
{
    struct folders *folders = *state;
    char *bytes = calloc(1, LATE_BYTES);
    unsigned noticed = 0;

    for (int i = 0; i < LATE_ROUNDS; i++) {
        char path[600];
        int fd, status;
        pid_t child;

        stage_n1(folders);
        write_file(staged, "a.bin", bytes, LATE_BYTES);
        snprintf(path, sizeof(path), "%s/a.bin", staged);
        fd = open(path, O_WRONLY);
        assert_true(fd >= 0);
        child = fork();
        if (child == 0) {
            usleep((useconds_t)(i * 1500));
            _exit(pwrite(fd, "late", 4, LATE_BYTES / 2) != 4);
        }
        close(fd);
        status = publish_n1(folders);
        if (status == WORKER_EXIT_OK) {
            snprintf(path, sizeof(path), "%s/n1", folders->path);
            remove_tree(path);
        } else {
            assert_int_equal(status, WORKER_EXIT_CORRUPT);
            /* it was written; or it is not what was written, where its writer was held up between
             * the stamp and the bytes until the file was listed, which reading back finds */
            assert_contains(folders->errors, "a.bin ");
            assert_contains(folders->errors, "was written");
            expect_nothing_published(folders);
            noticed++;
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    free(bytes);
    assert_true(noticed > 0);
}

enum { MAPPED_ROUNDS = 8, MAPPED_BYTES = 2 << 20, MANY = 48, LAST_LOOK_US = 20000 };

static int64_t now_us(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* What two processes tell each other. */
struct mapped_round {
    volatile bool dirty;        /* the page is, in the process that will store into it */
    volatile bool begins;       /* publish does */
    volatile int64_t stored_us; /* INT64_MAX: not yet */
};

/* Into a page that this process made dirty before: a first store of a process is a fault. */
static void store_later(const char *path, unsigned after_us, struct mapped_round *round)
{
    int fd = open(path, O_RDWR);
    volatile char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    mapped[0] = 1;
    round->dirty = true;
    while (!round->begins)
        usleep(100);
    usleep(after_us);
    mapped[1] = 1;
    round->stored_us = now_us();
    _exit(0);
}

/* A page of a mapping that is dirty takes stores without a stamp. What is published in spite of
 * them is what its MANIFEST says, unless they came after publish had its last look. */
static void a_store_into_a_mapping_does_not_get_into_what_is_published(void **state)
{
    struct folders *folders = *state;
    char *bytes = calloc(1, MAPPED_BYTES), path[600], disk[] = "/var/tmp/ckpt-mapped-XXXXXX";
    struct mapped_round *round =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct statfs at;

    assert_true(round != MAP_FAILED);
    assert_non_null(mkdtemp(disk));
    assert_int_equal(statfs(disk, &at), 0);
    if (at.f_type == TMPFS_MAGIC) { /* nothing is written out there */
        assert_int_equal(rmdir(disk), 0);
        skip();
    }
    snprintf(folders->prefix, sizeof(folders->prefix), "%s", disk);
    snprintf(folders->path, sizeof(folders->path), "%s/t/p/a/checkpoints/1-42", disk);
    for (unsigned i = 0; i < MAPPED_ROUNDS; i++) {
        int64_t ended_us;
        int status;
        pid_t child;

        stage_n1(folders);
        for (int k = 0; k < MANY; k++) { /* one sync for all of them */
            snprintf(path, sizeof(path), "f%02d", k);
            write_file(staged, path, bytes, MAPPED_BYTES);
        }
        snprintf(path, sizeof(path), "%s/f00", staged);
        *round = (struct mapped_round){.stored_us = INT64_MAX};
        child = fork();
        if (child == 0)
            store_later(path, 20000 + i * 10000, round);
        while (!round->dirty)
            usleep(1000);
        usleep(50000); /* stamps of before are of another tick */
        round->begins = true;
        status =
            verb(folders, "publish", AT_N1, "--name", staged_name, "--read-back", "never", NULL);
        ended_us = now_us();
        assert_int_equal(waitpid(child, NULL, 0), child);
        if (status != WORKER_EXIT_OK)
            assert_int_equal(status, WORKER_EXIT_CORRUPT);
        else if (round->stored_us < ended_us - LAST_LOOK_US)
            assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
        remove_tree(folders->path);
    }
    remove_tree(disk);
    free(bytes);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_was_written_in_place_becomes_the_shard),
        TEST(what_was_written_in_place_is_taken_over_by_no_link),
        TEST(what_is_to_be_overwritten_waits_for_who_has_the_time),
        TEST(large_files_and_many_are_hashed_where_they_lie),
        TEST(a_second_publish_finds_what_the_first_one_published),
        TEST(what_was_written_after_the_rename_is_found_by_the_second),
        TEST(the_shard_of_another_attempt_is_replaced_and_never_taken_for_it),
        TEST(a_manifest_that_a_kill_left_is_written_anew),
        TEST(a_file_of_the_manifests_name_is_the_applications_and_refused),
        TEST(a_file_with_another_name_is_refused),
        TEST(links_and_nothing_at_all_are_refused),
        TEST(only_a_folder_that_was_staged_for_the_part_is_published),
        TEST(what_was_abandoned_or_staged_anew_cannot_be_published),
        TEST(a_late_writer_does_not_get_into_what_is_published),
        TEST(a_store_into_a_mapping_does_not_get_into_what_is_published),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
