/* reserve: a folder in a node's memory for what an application is to write. */
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/dest/reserve.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

static char memory[64], home[96];

static int set_up(void **state)
{
    if (folders_setup(state) != 0)
        return -1;
    snprintf(memory, sizeof(memory), "/dev/shm/ckpt-reserve-XXXXXX");
    assert_non_null(mkdtemp(memory));
    snprintf(home, sizeof(home), "%s/%u", memory, (unsigned)geteuid());
    return 0;
}

static int tear_down(void **state)
{
    remove_tree(memory);
    return folders_teardown(state);
}

static int reserve(struct folders *folders, const char *name, const char *bytes)
{
    return verb(folders, "reserve", "--path", home, "--name", name, "--bytes", bytes, NULL);
}

static void an_empty_folder_of_its_users_alone(void **state)
{
    struct stat status;
    char path[128];

    assert_int_equal(reserve(*state, "1-42-1", "4096"), WORKER_EXIT_OK);
    snprintf(path, sizeof(path), "%s/out/1-42-1", home);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    assert_int_equal(stat(home, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    assert_int_equal(reserve(*state, "1-43-1", "0"), WORKER_EXIT_OK); /* beside it */
    assert_true(exists(path, "."));
}

static void what_an_attempt_before_left_goes(void **state)
{
    char path[128];

    assert_int_equal(reserve(*state, "1-42-1", "0"), WORKER_EXIT_OK);
    snprintf(path, sizeof(path), "%s/out/1-42-1", home);
    write_text(path, "state", "of before");
    assert_int_equal(reserve(*state, "1-42-1", "0"), WORKER_EXIT_OK);
    assert_false(exists(path, "state"));
}

/* What is to be removed is room as well. */
static void what_an_attempt_before_left_counts_as_free(void **state)
{
    enum { LEFT_BYTES = 48 << 20 };
    struct folders *folders = *state;
    struct statfs at;
    char path[128], bytes[32];
    void *left = calloc(1, LEFT_BYTES);

    assert_non_null(left);
    assert_int_equal(reserve(folders, "1-42-1", "0"), WORKER_EXIT_OK);
    snprintf(path, sizeof(path), "%s/out/1-42-1", home);
    write_file(path, "state", left, LEFT_BYTES);
    free(left);
    assert_int_equal(statfs(path, &at), 0);
    snprintf(bytes, sizeof(bytes), "%" PRIu64,
             (uint64_t)at.f_bavail * (uint64_t)at.f_bsize + LEFT_BYTES / 2);
    assert_int_equal(reserve(folders, "1-42-1", bytes), WORKER_EXIT_OK);
}

/* By whatever lies there: others have as much as before. */
static void one_user_has_a_share_and_no_more(void **state)
{
    struct folders *folders = *state;
    void *junk = calloc(1, 1 << 20);

    assert_non_null(junk);
    assert_int_equal(verb(folders, "reserve", "--path", home, "--name", "1-42-1", "--bytes",
                          "1000000", "--most", "1500000", NULL),
                     WORKER_EXIT_OK);
    write_file(home, "junk", junk, 1 << 20);
    free(junk);
    assert_int_equal(verb(folders, "reserve", "--path", home, "--name", "1-43-1", "--bytes",
                          "1000000", "--most", "1500000", NULL),
                     WORKER_EXIT_UNAVAILABLE);
    assert_value(folders, "cause", "storage_full");
    assert_contains(folders->errors, "one user may have 1500000 there");
    assert_int_equal(verb(folders, "reserve", "--path", home, "--name", "1-43-1", "--bytes", "1000",
                          "--most", "1000", NULL),
                     WORKER_EXIT_UNAVAILABLE);
    assert_int_equal(verb(folders, "reserve", "--path", home, "--name", "1-43-1", "--bytes", "1000",
                          "--most", "1500000", NULL),
                     WORKER_EXIT_OK);
}

static void want_of_room_is_told_with_both_numbers(void **state)
{
    struct folders *folders = *state;
    char cause[32];

    assert_int_equal(reserve(folders, "1-42-1", "1000000000000000"), WORKER_EXIT_UNAVAILABLE);
    assert_int_equal(worker_output_get(folders->out, "cause", cause, sizeof(cause)), 0);
    assert_string_equal(cause, "storage_full");
    assert_contains(folders->errors, "bytes free, and the last checkpoint took 1000000000000000");
    assert_contains(folders->errors, "give the tmpfs more");
}

static void what_is_no_tmpfs_is_refused(void **state)
{
    struct folders *folders = *state;
    char disk[] = "/var/tmp/ckpt-reserve-XXXXXX";
    struct statfs at;

    assert_non_null(mkdtemp(disk));
    if (statfs(disk, &at) == 0 && at.f_type != TMPFS_MAGIC) {
        snprintf(home, sizeof(home), "%s/0", disk);
        assert_int_equal(reserve(folders, "1-42-1", "0"), WORKER_EXIT_REFUSED);
        assert_contains(folders->errors, "is not on a tmpfs");
    }
    assert_int_equal(rmdir(disk), 0);
}

static void a_memory_that_others_may_write_to_is_refused(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(chmod(memory, 0777), 0);
    assert_int_equal(reserve(folders, "1-42-1", "0"), WORKER_EXIT_REFUSED);
    assert_contains(folders->errors, "may be written to by others");
}

static void what_is_no_folder_of_the_user_is_refused(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(symlink("/etc", home), 0);
    assert_int_equal(reserve(folders, "1-42-1", "0"), WORKER_EXIT_REFUSED);
    assert_contains(folders->errors, "is no folder of user");
}

static void a_name_that_leads_elsewhere_is_refused(void **state)
{
    static const char *const names[] = {"..", ".", "a/b", ""};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(reserve(*state, names[i], "0"), WORKER_EXIT_USAGE);
}

/* In another process, which stays that user. */
static int reserve_as_nobody(struct folders *folders)
{
    int ended;
    pid_t child = fork();

    if (child == 0)
        _exit(verb(folders, "reserve", "--path", home, "--name", "1-42-1", "--as", "65534:65534",
                   NULL));
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    return WEXITSTATUS(ended);
}

/* By root for another user, who finds it and can write there. */
static void root_gives_each_user_a_folder(void **state)
{
    struct stat status;
    char path[128];

    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(memory, 0755), 0);
    snprintf(home, sizeof(home), "%s/65534", memory);
    assert_int_equal(reserve_as_nobody(*state), WORKER_EXIT_OK);
    snprintf(path, sizeof(path), "%s/out/1-42-1", home);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_uid, 65534);
}

/* By root, which had not given it away yet. */
static void what_a_killed_claim_left_is_given_to_its_user(void **state)
{
    struct stat status;

    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(memory, 0755), 0);
    snprintf(home, sizeof(home), "%s/65534", memory);
    assert_int_equal(mkdir(home, 0700), 0);
    write_text(home, "of root", "whatever it is");
    assert_int_equal(reserve_as_nobody(*state), WORKER_EXIT_REFUSED);
    remove_tree(home);
    assert_int_equal(mkdir(home, 0700), 0);
    assert_int_equal(reserve_as_nobody(*state), WORKER_EXIT_OK);
    assert_int_equal(stat(home, &status), 0);
    assert_int_equal(status.st_uid, 65534);
    assert_int_equal(status.st_gid, 65534);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_empty_folder_of_its_users_alone),
        TEST(what_an_attempt_before_left_goes),
        TEST(what_an_attempt_before_left_counts_as_free),
        TEST(one_user_has_a_share_and_no_more),
        TEST(want_of_room_is_told_with_both_numbers),
        TEST(what_is_no_tmpfs_is_refused),
        TEST(a_memory_that_others_may_write_to_is_refused),
        TEST(what_is_no_folder_of_the_user_is_refused),
        TEST(a_name_that_leads_elsewhere_is_refused),
        TEST(root_gives_each_user_a_folder),
        TEST(what_a_killed_claim_left_is_given_to_its_user),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
