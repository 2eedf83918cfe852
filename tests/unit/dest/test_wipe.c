/* Files are overwritten before they go (N-003). What was in them is looked for through a descriptor
 * that was opened before. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "src/base/check.h"
#include "src/dest/tree.h"
#include "src/dest/worker.h"
#include "tests/unit/dest/folders.h"

enum { FILE_BYTES = 700000 };

static char folder[] = "/tmp/ckpt-wipe-XXXXXX";
static int base = -1;

static int make(const char *name, mode_t mode)
{
    int fd = openat(base, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    char *bytes = malloc(FILE_BYTES);

    assert_true(fd >= 0);
    memset(bytes, 's', FILE_BYTES);
    assert_int_equal(pwrite(fd, bytes, FILE_BYTES, 0), FILE_BYTES);
    assert_int_equal(fchmod(fd, mode), 0);
    free(bytes);
    return fd;
}

/* How much of the secret is left; closes. */
static size_t left(int fd)
{
    char *bytes = malloc(FILE_BYTES);
    size_t longest = 0, run = 0;
    struct stat status;

    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_size, FILE_BYTES);
    assert_int_equal(pread(fd, bytes, FILE_BYTES, 0), FILE_BYTES);
    for (size_t i = 0; i < FILE_BYTES; i++) {
        run = bytes[i] == 's' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    free(bytes);
    close(fd);
    return longest;
}

static int start(void **state)
{
    (void)state;
    base = mkdtemp(folder) == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return base < 0;
}

static int stop(void **state)
{
    (void)state;
    tree_wipe(false);
    close(base);
    return rmdir(folder);
}

static void what_goes_is_overwritten_before(void **state)
{
    struct tree_removed removed = {0};
    struct err err;
    int inside, beside, fd;

    (void)state;
    assert_int_equal(mkdirat(base, "part", 0700), 0);
    inside = make("part/data", 0400); /* as it is published */
    beside = make("beside", 0600);
    assert_int_equal(symlinkat("../beside", base, "part/link"), 0);
    assert_int_equal(mkfifoat(base, "part/fifo", 0600), 0);
    tree_wipe(true);
    tree_count_removed(&removed);
    assert_int_equal(tree_remove(base, "part", &err), 0);
    tree_count_removed(NULL);
    assert_int_equal(removed.files, 3);
    assert_int_equal(removed.wiped, 1);
    assert_true(left(inside) < 16);
    assert_int_equal(left(beside), FILE_BYTES); /* a link is not followed */
    tree_wipe(false);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(tree_remove(base, "beside", &err), 0);
    close(fd);
}

/* Its last name wipes it: an increment shares files with the checkpoint before. */
static void a_file_with_another_name_stays_whole(void **state)
{
    struct err err;
    int fd, again;

    (void)state;
    fd = make("first", 0600);
    again = openat(base, "first", O_RDONLY | O_CLOEXEC);
    assert_int_equal(linkat(base, "first", base, "second", 0), 0);
    tree_wipe(true);
    assert_int_equal(tree_remove(base, "first", &err), 0);
    assert_int_equal(left(again), FILE_BYTES);
    assert_int_equal(tree_remove(base, "second", &err), 0);
    assert_true(left(fd) < 16);
}

/* A put at work takes what has not changed over by a link, at any moment. What it holds then is the
 * file as it was. In another process: whether it got one is its exit code. */
static void take_over(void)
{
    char bytes[4096];
    int fd = -1;

    while (linkat(base, "part/data", base, "taken", 0) != 0) {
        if (faccessat(base, "part", F_OK, 0) != 0)
            _exit(2); /* it came too late */
    }
    if (faccessat(base, "part/data", F_OK, 0) != 0) { /* ... as posix/earlier.c looks */
        (void)unlinkat(base, "taken", 0);
        _exit(2);
    }
    fd = openat(base, "taken", O_RDONLY | O_CLOEXEC);
    usleep(20000); /* what is written comes by then */
    for (off_t at = 0; at < FILE_BYTES; at += FILE_BYTES / 7) {
        if (pread(fd, bytes, 100, at) != 100)
            _exit(3);
        for (size_t i = 0; i < 100; i++)
            if (bytes[i] != 's')
                _exit(1);
    }
    _exit(0);
}

static void what_a_put_takes_over_meanwhile_stays_whole(void **state)
{
    struct err err;
    int status;

    (void)state;
    tree_wipe(true);
    for (int i = 0; i < 200; i++) {
        pid_t child;

        assert_int_equal(mkdirat(base, "part", 0700), 0);
        close(make("part/data", 0600));
        child = fork();
        if (child == 0) {
            usleep((useconds_t)i % 40 * 50);
            take_over();
        }
        usleep((useconds_t)i % 7 * 100);
        assert_int_equal(tree_remove(base, "part", &err), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2);
        if (WEXITSTATUS(status) == 0)
            assert_int_equal(unlinkat(base, "taken", 0), 0);
    }
}

/* In another process, stopped before the name goes. */
static pid_t begin_removal(const char *name)
{
    struct __ptrace_syscall_info info = {0};
    struct err err;
    int status;
    pid_t child = fork();

    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(99);
        raise(SIGSTOP);
        _exit(tree_remove(base, name, &err) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) {
        print_message("# SKIP tracing a child is not allowed here\n");
        skip();
    }
    assert_int_equal(ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD), 0);
    while (info.op != PTRACE_SYSCALL_INFO_ENTRY || info.entry.nr != SYS_unlinkat) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSTOPPED(status));
        assert_true(ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) > 0);
    }
    return child;
}

static void end_removal(pid_t child)
{
    int status;

    assert_int_equal(ptrace(PTRACE_DETACH, child, NULL, NULL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Each of two removals sees the other's name of the file: whose is the last one is known only
 * afterwards. */
static void of_two_removals_at_a_time_one_overwrites(void **state)
{
    pid_t one, other;
    int fd;

    (void)state;
    tree_wipe(true);
    fd = make("first", 0400);
    assert_int_equal(linkat(base, "first", base, "second", 0), 0);
    one = begin_removal("first");
    other = begin_removal("second");
    end_removal(one);
    end_removal(other);
    assert_true(left(fd) < 16);
}

/* No right to it is needed but its owner's. */
static void a_file_that_may_not_be_read_is_overwritten(void **state)
{
    struct err err;
    int status, fd;
    pid_t child;

    (void)state;
    if (geteuid() != 0)
        skip();
    tree_wipe(true);
    assert_int_equal(mkdirat(base, "part", 0700), 0);
    fd = make("part/data", 0000);
    assert_int_equal(fchown(fd, 65534, 65534), 0);
    assert_int_equal(fchownat(base, "part", 65534, 65534, 0), 0);
    assert_int_equal(fchmod(base, 0777), 0);
    child = fork();
    if (child == 0)
        _exit(setgid(65534) == 0 && setuid(65534) == 0 && tree_remove(base, "part", &err) == 0 ? 0
                                                                                               : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(fchmod(base, 0700), 0);
    assert_int_equal(status, 0);
    assert_true(left(fd) < 16);
}

/* A folder with a file, of which a descriptor is returned: what is left of it is read by that. */
static int make_folder(const char *path)
{
    int fd, before = base;

    assert_int_equal(mkdir(path, 0700), 0);
    base = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd = make("data", 0600);
    close(base);
    base = before;
    return fd;
}

/* Whoever removes: the worker of a folder on the node, of an attempt that was given up, of the next
 * put of the part. */
static void what_workers_sweep_away_is_overwritten(void **unused)
{
    static const char *const words[] = {"no", "yes"};
    struct folders *folders;
    void *state;
    char path[512];

    (void)unused;
    assert_int_equal(folders_setup(&state), 0);
    folders = state;
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    for (size_t wipe = 0; wipe < ARRAY_COUNT(words); wipe++) {
        int fds[3];

        snprintf(path, sizeof(path), "%s/swept", folders->root);
        fds[0] = make_folder(path);
        assert_int_equal(verb(folders, "sweep", "--path", path, "--wipe", words[wipe], NULL),
                         WORKER_EXIT_OK);
        assert_false(exists(path, "."));
        snprintf(path, sizeof(path), "%s/.n1.tmp.0123456789abcdef", folders->path);
        fds[1] = make_folder(path);
        assert_int_equal(verb(folders, "abandon", "--prefix", folders->prefix, "--path",
                              folders->path, "--part", "n1", "--wipe", words[wipe], NULL),
                         WORKER_EXIT_OK);
        assert_false(exists(path, "."));
        fds[2] = make_folder(path);
        assert_int_equal(verb(folders, "put", "--prefix", folders->prefix, "--path", folders->path,
                              "--part", "n1", "--source", folders->source, "--wipe", words[wipe],
                              NULL),
                         WORKER_EXIT_OK);
        assert_false(exists(path, "."));
        for (size_t i = 0; i < ARRAY_COUNT(fds); i++)
            assert_true(wipe == 1 ? left(fds[i]) < 16 : left(fds[i]) == FILE_BYTES);
    }
    folders_teardown(&state);
}

static void without_being_asked_nothing_is_overwritten(void **state)
{
    struct err err;
    int fd;

    (void)state;
    tree_wipe(false);
    fd = make("plain", 0600);
    assert_int_equal(tree_remove(base, "plain", &err), 0);
    assert_int_equal(left(fd), FILE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_is_overwritten_before),
        cmocka_unit_test(what_workers_sweep_away_is_overwritten),
        cmocka_unit_test(a_file_with_another_name_stays_whole),
        cmocka_unit_test(what_a_put_takes_over_meanwhile_stays_whole),
        cmocka_unit_test(of_two_removals_at_a_time_one_overwrites),
        cmocka_unit_test(a_file_that_may_not_be_read_is_overwritten),
        cmocka_unit_test(without_being_asked_nothing_is_overwritten),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
