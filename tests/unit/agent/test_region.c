/* Memory that an agent shares with an application, with the kernel's own futexes (S1-034, S1-035),
 * and whose regions are refused. */
#include "src/agent/node/region.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "src/agent/run/run_region.h"
#include "src/app/ckptshm.h"
#include "src/ask/region.h"
#include "src/base/id.h"
#include "tests/support/test.h"

static char path[ASK_REGION_PATH_BYTES];
static struct machine_region region;

static int set_up(void **state)
{
    char folder[64];

    (void)state;
    snprintf(folder, sizeof(folder), "/work/of/%d", (int)getpid());
    ask_region_path(geteuid(), "job", folder, path);
    region = (struct machine_region){.path = path, .user = {.uid = geteuid(), .gid = getegid()}};
    (void)unlink(path);
    setenv("CKPT_SHM", path, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(path);
    return 0;
}

static struct ckpt_shm_slot *opened(struct ckpt_shm **ret_shm)
{
    struct err err = {0};

    assert_int_equal(run_region_make(path, &err), 0);
    return ckpt_shm_open(0, ret_shm);
}

static size_t request_of(size_t slot)
{
    return offsetof(struct ckpt_shm, slot) + slot * sizeof(struct ckpt_shm_slot) +
           offsetof(struct ckpt_shm_slot, request);
}

static int change(enum ask_region_change how, size_t slot)
{
    const size_t offset = request_of(slot);
    struct err err = {0};

    return region_change(&region, how, &offset, 1, &err);
}

struct waiter {
    struct ckpt_shm_slot *slot;
    uint32_t seen;
};

static void *wait_for_word(void *data)
{
    struct waiter *waiter = data;

    while ((waiter->seen = ckpt_shm_wait(waiter->slot, NULL)) == 0)
        ;
    return NULL;
}

/* S1-035: one polls, one waits, and each sees the same word. */
static void polling_and_waiting_see_the_same_request(void **state)
{
    struct ckpt_shm *shm;
    struct ckpt_shm_slot *slot = opened(&shm);
    struct waiter waiter = {.slot = slot};
    pthread_t thread;

    (void)state;
    assert_non_null(slot);
    for (uint32_t round = 1; round <= 20; round++) {
        assert_int_equal(ckpt_shm_asked(slot), 0);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_word, &waiter), 0);
        usleep(round % 2 * 2000); /* it waits already, or is about to */
        assert_int_equal(change(ASK_REGION_RAISE, 0), 0);
        while (ckpt_shm_asked(slot) == 0)
            ;
        pthread_join(thread, NULL);
        assert_int_equal(waiter.seen, 2 * round + 1);
        assert_int_equal(ckpt_shm_asked(slot), waiter.seen);
        if (round % 2 == 0)
            assert_int_equal(change(ASK_REGION_CLEAR, 0), 0);
        else
            assert_int_equal(ckpt_shm_done(shm, slot, waiter.seen, 1, NULL), 0);
    }
    assert_int_equal(shm->answers, 10);
    munmap(shm, sizeof(*shm));
}

/* An agent that asks again while the rank still has the request of before. */
static void a_request_that_nobody_cleared_becomes_the_next_one(void **state)
{
    struct ckpt_shm *shm;
    struct ckpt_shm_slot *slot = opened(&shm);
    uint32_t first;

    (void)state;
    assert_int_equal(change(ASK_REGION_RAISE, 0), 0);
    first = ckpt_shm_asked(slot);
    assert_int_equal(change(ASK_REGION_RAISE, 0), 0);
    assert_int_equal(ckpt_shm_asked(slot), first + 2);
    assert_int_equal(ckpt_shm_done(shm, slot, first, 1, NULL), -1);
    assert_int_equal(ckpt_shm_asked(slot), first + 2);
    munmap(shm, sizeof(*shm));
}

static void ranks_take_a_slot_each_and_keep_it(void **state)
{
    struct ckpt_shm *shm = NULL, *again = NULL;
    struct ckpt_shm_slot *slot = opened(&shm), *other;

    (void)state;
    assert_ptr_equal(slot, &shm->slot[0]);
    munmap(shm, sizeof(*shm));
    slot = ckpt_shm_open(CKPT_SHM_SLOTS, &shm); /* its place is taken by rank 0 */
    assert_ptr_equal(slot, &shm->slot[1]);
    other = ckpt_shm_open(CKPT_SHM_SLOTS, &again); /* as after an exec */
    assert_ptr_equal(other, &again->slot[1]);
    assert_int_equal(other->pid, getpid());
    munmap(shm, sizeof(*shm));
    munmap(again, sizeof(*again));
}

static void what_is_read_and_written_is_the_mapping(void **state)
{
    char hint[CKPT_SHM_HINT_BYTES] = "1-42-1", found[CKPT_SHM_HINT_BYTES];
    struct ckpt_shm *shm;
    struct err err = {0};

    (void)state;
    assert_non_null(opened(&shm));
    assert_int_equal(
        region_write(&region, offsetof(struct ckpt_shm, hint), hint, sizeof(hint), &err), 0);
    assert_string_equal(shm->hint, "1-42-1");
    strcpy(shm->hint, "1-42-2");
    assert_int_equal(
        region_read(&region, offsetof(struct ckpt_shm, hint), found, sizeof(found), &err), 0);
    assert_string_equal(found, "1-42-2");
    region_remove(&region);
    assert_int_equal(access(path, F_OK), -1);
    munmap(shm, sizeof(*shm));
}

static void expect_refused(const char *why)
{
    struct err err = {0};
    uint32_t word;

    assert_int_equal(region_read(&region, 0, &word, sizeof(word), &err), -1);
    assert_contains(err.text, why);
    assert_contains(err.text, path);
    assert_int_equal(region_write(&region, 0, &word, sizeof(word), &err), -1);
    assert_int_equal(change(ASK_REGION_RAISE, 0), -1);
}

/* Whatever its user makes of it, the agent gets an error and no signal. */
static void a_region_that_is_none_is_refused(void **state)
{
    struct err err = {0};
    FILE *file;

    (void)state;
    expect_refused("there is no shared memory at");
    assert_int_equal(symlink("/etc/passwd", path), 0);
    expect_refused("it is a link or a mount");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused("is no file of the job's user");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(run_region_make(path, &err), 0);
    assert_int_equal(truncate(path, 4096), 0);
    expect_refused("has 4096 bytes and not 139264");
    file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    expect_refused("has 0 bytes");
}

/* Between two starts its name is at no time free for another user to take. */
static void a_new_region_takes_the_place_of_the_one_before(void **state)
{
    struct err err = {0};
    int status;
    pid_t child;

    (void)state;
    assert_int_equal(run_region_make(path, &err), 0);
    child = fork();
    assert_true(child >= 0);
    for (int fd; child == 0;) { /* until it is killed, or has the name */
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0)
            _exit(1);
    }
    for (int i = 0; i < 500; i++)
        assert_int_equal(run_region_make(path, &err), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

/* Cut between the look at its size and the word: a fault that the kernel returns. */
static void words_beyond_the_end_of_a_cut_file_are_an_error(void **state)
{
    struct ckpt_shm *shm;
    void *word;

    (void)state;
    assert_non_null(opened(&shm));
    word = &shm->slot[200].request;
    assert_int_equal(truncate(path, 4096), 0);
    assert_int_equal(syscall(SYS_futex, word, FUTEX_WAKE_OP, 1, NULL, word,
                             FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_EQ, 0)),
                     -1);
    assert_int_equal(errno, EFAULT);
    munmap(shm, sizeof(*shm));
}

/* S1-034: another user takes the name before the job starts, or owns what lies there. */
static void another_users_region_is_refused(void **state)
{
    struct err err = {0};
    int status, fd;

    (void)state;
    if (geteuid() != 0)
        skip();
    fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_int_equal(ftruncate(fd, ASK_REGION_BYTES), 0);
    assert_int_equal(fchown(fd, 12345, 12345), 0);
    close(fd);
    expect_refused("is no file of the job's user 0 but of 12345");
    if (fork() == 0) { /* the job's user, whose ckpt-run finds root's file there */
        if (chown(path, 0, 0) != 0 || setgid(54321) != 0 || setuid(54321) != 0)
            _exit(9);
        _exit(run_region_make(path, &err) == -1 &&
                      strstr(err.text,
                             "cannot be removed (Operation not permitted): remove it, or, "
                             "where another user has made it") != NULL
                  ? 0
                  : 1);
    }
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
}

/* In its process, as that user: 0 when all went well. */
static int as_user(uid_t uid, int (*run)(void))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit(setgid(uid) != 0 || setuid(uid) != 0 ? 9 : run());
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

enum { OWNER = 54321, THIEF = 12345 };

static int take_by_file(void)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0666);

    return fd < 0;
}

static int take_by_link(void)
{
    return symlink("/etc/passwd", path);
}

/* One that is not empty, which no rename replaces. */
static int take_by_folder(void)
{
    char inner[ASK_REGION_PATH_BYTES + 8];

    snprintf(inner, sizeof(inner), "%s/x", path);
    return mkdir(path, 0777) | mkdir(inner, 0777);
}

static int make_own(void)
{
    struct err err = {0};

    return run_region_make(path, &err) == 0 ? 0 : 1;
}

/* 0: it could not be taken from its owner. */
static int take_back(void)
{
    char other[ASK_REGION_PATH_BYTES + 8];
    int fd, taken;

    snprintf(other, sizeof(other), "%s.x", path);
    fd = open(other, O_RDWR | O_CREAT, 0600);
    taken = fd < 0 || unlink(path) == 0 || rename(other, path) == 0 || unlink(other) != 0;
    return taken;
}

/* S1-034: the name is not secret. Another user who takes it before the first start holds nobody up,
 * and nobody takes it afterwards. */
static void another_user_cannot_keep_a_job_from_its_region(void **state)
{
    static int (*const takes[])(void) = {take_by_file, take_by_link, take_by_folder};
    struct err err = {0};
    uint32_t word;

    (void)state;
    if (geteuid() != 0)
        skip();
    region.user = (struct machine_user){.uid = OWNER, .gid = OWNER};
    for (size_t i = 0; i < sizeof(takes) / sizeof(takes[0]); i++) {
        assert_int_equal(as_user(THIEF, takes[i]), 0);
        assert_int_equal(as_user(OWNER, make_own), 1);
        assert_int_equal(region_claim(&region, &err), 0);
        assert_int_equal(as_user(THIEF, take_back), 0);
        assert_int_equal(as_user(OWNER, make_own), 0);
        assert_int_equal(as_user(THIEF, take_back), 0);
        assert_int_equal(region_claim(&region, &err), 0); /* its own stays */
        assert_int_equal(region_read(&region, 0, &word, sizeof(word), &err), 0);
        region_remove(&region);
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_int_equal(
        system("find /dev/shm -maxdepth 1 -name '.ckpt-*' -uid 12345 -exec rm -rf {} +"),
        0);                                           /* the folder, which was put aside */
    assert_int_equal(region_claim(&region, &err), 0); /* nobody had it: nobody can */
    assert_int_equal(as_user(THIEF, take_by_file), 1);
    region_remove(&region);
}

/* A link there is replaced and never followed; what is not at the place is not made. */
static void making_one_follows_no_link(void **state)
{
    struct err err = {0};
    struct stat stat;

    (void)state;
    assert_int_equal(symlink("/tmp/ckpt-test-region-target", path), 0);
    assert_int_equal(run_region_make(path, &err), 0);
    assert_int_equal(lstat(path, &stat), 0);
    assert_true(S_ISREG(stat.st_mode));
    assert_int_equal(stat.st_mode & 0777, 0600);
    assert_int_equal(stat.st_size, ASK_REGION_BYTES);
    assert_int_equal(access("/tmp/ckpt-test-region-target", F_OK), -1);
    assert_int_equal(run_region_make("/dev/shm/../etc/ckpt", &err), -1);
    assert_contains(err.text, "which is no place for it");
    assert_int_equal(run_region_make("/tmp/ckpt-1", &err), -1);
    assert_int_equal(run_region_make("", &err), 0);
}

/* Parts of one job, as several agents of one machine have them in tests. */
static void each_work_folder_has_a_region_of_its_own(void **state)
{
    char one[ASK_REGION_PATH_BYTES], other[ASK_REGION_PATH_BYTES], id[ID_MAX_BYTES + 1];

    (void)state;
    memset(id, 'x', ID_MAX_BYTES);
    id[ID_MAX_BYTES] = '\0';
    ask_region_path(UINT32_MAX, id, "/work/a", one);
    ask_region_path(UINT32_MAX, id, "/work/b", other);
    assert_string_not_equal(one, other);
    assert_non_null(ask_region_name(one));
    assert_true(strlen(ask_region_name(one)) <= 255);
    assert_null(ask_region_name("/dev/shm/other"));
    assert_null(ask_region_name("/dev/shm/ckpt-1/x"));
}

/* S1-034: `/bin/true` is started without it where it may be asked in other ways, and is not where
 * its owner has named this one. */
static void a_name_that_is_taken_keeps_no_job_from_its_other_ways(void **state)
{
    const struct run_options options = {.way = RUN_WAY_UNSAID};
    Ckpt__V1__AttachReady ready = CKPT__V1__ATTACH_READY__INIT;
    char inner[ASK_REGION_PATH_BYTES + 8];
    struct err err = {0};

    (void)state;
    snprintf(inner, sizeof(inner), "%s/x", path); /* no rename replaces it, whoever does it */
    assert_int_equal(mkdir(path, 0700) | mkdir(inner, 0700), 0);
    ready.shm = path;
    ready.shm_sought = true;
    assert_int_equal(run_start_prepare("/bin/true", &options, &ready, &err), 0);
    assert_string_equal(run_region_path(), "");
    ready.shm_sought = false;
    assert_int_equal(run_start_prepare("/bin/true", &options, &ready, &err), EACCES);
    assert_contains(err.text, "another --work-dir gives it another name");
    assert_string_equal(run_region_path(), "");
    run_region_drop(path);
    assert_int_equal(access(inner, F_OK), 0);
    assert_int_equal(rmdir(inner) | rmdir(path), 0);
    err = (struct err){0};
    assert_int_equal(run_start_prepare("/bin/true", &options, &ready, &err), 0);
    assert_string_equal(run_region_path(), path);
    run_region_drop(path);
    assert_int_equal(access(path, F_OK), -1);
    ready.shm = (char[]){""};
    assert_int_equal(run_start_prepare("/bin/true", &options, &ready, &err), 0);
    assert_string_equal(run_region_path(), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(polling_and_waiting_see_the_same_request, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_request_that_nobody_cleared_becomes_the_next_one, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(ranks_take_a_slot_each_and_keep_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_read_and_written_is_the_mapping, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_region_that_is_none_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(words_beyond_the_end_of_a_cut_file_are_an_error, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(another_users_region_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_user_cannot_keep_a_job_from_its_region, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(making_one_follows_no_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_that_is_taken_keeps_no_job_from_its_other_ways,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_region_takes_the_place_of_the_one_before, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(each_work_folder_has_a_region_of_its_own, set_up,
                                        tear_down)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
