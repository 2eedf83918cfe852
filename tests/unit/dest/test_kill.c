/* SIGKILL at every system call of put, restore and collect: whatever has its final name is whole.
 *
 * Flow     a child runs the operation under ptrace and is stopped at each system call of each of
 *          its threads; run k is killed at its k-th stop, for every k until one run gets to its
 *          end. No moment is left to luck where there is one thread; where there are more, how they
 *          interleave is.
 */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

typedef int operation_fn(struct folders *folders);
enum { STOPS_MAX = 20000 };

static const char *compression = "none";

/* All of it is read back, so that the calls are the same ones each time: a sample is drawn. */
static int run_put(struct folders *folders)
{
    return verb(folders, "put", "--prefix", folders->prefix, "--path", folders->path, "--part",
                "n1", "--source", folders->source, "--threads", "1", "--read-back", "always",
                "--compress", compression, NULL);
}

static int run_restore(struct folders *folders)
{
    return verb(folders, "restore", "--prefix", folders->prefix, "--path", folders->path, "--part",
                "n1", "--to", folders->to, NULL);
}

static int run_collect(struct folders *folders)
{
    return verb(folders, "collect", "--prefix", folders->prefix, "--path", folders->path, NULL);
}

static pid_t start_traced(operation_fn *operation, struct folders *folders)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(99);
        raise(SIGSTOP);
        _exit(operation(folders));
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSTOPPED(status)) {
        print_message("# SKIP tracing a child is not allowed here\n");
        skip();
    }
    return pid;
}

/* The system call that the last one stood in when it was killed: before it, or right behind it. */
static uint64_t last_call;

static void note_call(pid_t pid)
{
    struct __ptrace_syscall_info info;

    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0 &&
        info.op == PTRACE_SYSCALL_INFO_ENTRY)
        last_call = info.entry.nr;
}

/* Killed at the k-th stop: true. Ended before with success: false. */
static bool killed_at(operation_fn *operation, struct folders *folders, unsigned k)
{
    pid_t pid = start_traced(operation, folders);
    int status = 0;

    pid_t stopped = pid;

    assert_int_equal(
        ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD), 0);
    for (unsigned i = 0; i < k;) {
        (void)ptrace(PTRACE_SYSCALL, stopped, NULL, NULL); /* ESRCH: it ended with another's exit */
        stopped = waitpid(-1, &status, __WALL);
        assert_true(stopped > 0);
        if (stopped == pid && WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            return false;
        }
        i += stopped == pid || WIFSTOPPED(status);
        note_call(stopped);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    do
        stopped = waitpid(-1, &status, __WALL);
    while (stopped != pid || WIFSTOPPED(status));
    assert_true(WIFSIGNALED(status));
    return true;
}

static void remove_if_there(const char *parent, const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", parent, name);
    if (exists(parent, name))
        remove_tree(path);
}

/* Each run finds what the one before left, as a retry does. The last moments alone leave a whole
 * one: a stride may pass them by. */
static void kill_puts_anywhere(struct folders *folders)
{
    unsigned stride = test_often(3, 1);
    unsigned k, absent = 0, whole = 0;

    for (k = 1; killed_at(run_put, folders, k); k += stride) {
        if (exists(folders->path, "n1")) {
            assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
            remove_if_there(folders->path, "n1");
            whole++;
        } else {
            absent++;
        }
        assert_true(count_hidden(folders->path) <= 1); /* litter does not pile up */
        assert_true(k < STOPS_MAX);
    }
    print_message("%u moments: %u without a shard, %u with a whole one\n", k / stride, absent,
                  whole);
    assert_true(absent > 100 / stride && (whole > 0 || stride > 1));
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_uint_equal(count_hidden(folders->path), 0);
}

/* S1-092, S3-033, S5-014 */
static void put_killed_anywhere_leaves_no_shard_or_a_whole_one(void **state)
{
    kill_puts_anywhere(*state);
}

static void put_killed_while_compressing_leaves_no_shard_or_a_whole_one(void **state)
{
    compression = "lz4";
    kill_puts_anywhere(*state);
    compression = "none";
    assert_int_equal(access(in_shard(*state, "a.bin.lz4"), F_OK), 0);
}

static int run_put_by_threads(struct folders *folders)
{
    return verb(folders, "put", "--prefix", folders->prefix, "--path", folders->path, "--part",
                "n1", "--source", folders->source, "--threads", "4", "--read-back", "always", NULL);
}

/* Enough files for several batches; each STEPth moment. */
static void put_by_threads_killed_anywhere_leaves_no_shard_or_a_whole_one(void **state)
{
    enum { FILES = 200, STEP = 97 };
    struct folders *folders = *state;
    unsigned k, absent = 0;
    char name[32];

    for (unsigned i = 0; i < FILES; i++) {
        snprintf(name, sizeof(name), "sub/%u", i);
        write_text(folders->source, name, name);
    }
    for (k = 1; killed_at(run_put_by_threads, folders, k); k += STEP) {
        if (exists(folders->path, "n1")) {
            assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
            remove_if_there(folders->path, "n1");
        } else {
            absent++;
        }
        assert_true(count_hidden(folders->path) <= 1);
        assert_true(k < STOPS_MAX);
    }
    assert_true(absent > 20);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_uint_equal(count_hidden(folders->path), 0);
}

/* Most of it is taken over from another checkpoint, which stays as it is. */
static void put_killed_while_taking_over_leaves_the_earlier_one_whole(void **state)
{
    struct folders *folders = *state;
    char path[256], earlier[300];
    unsigned stride = test_often(3, 1);
    unsigned k, whole = 0;

    snprintf(path, sizeof(path), "%s", folders->path);
    snprintf(earlier, sizeof(earlier), "%.240s-earlier", folders->path);
    snprintf(folders->path, sizeof(folders->path), "%.255s", earlier);
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    snprintf(folders->path, sizeof(folders->path), "%s", path);
    write_text(folders->source, "sub/b.txt", "changed");
    for (k = 1; killed_at(run_put, folders, k); k += stride) {
        if (exists(folders->path, "n1")) {
            assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
            remove_if_there(folders->path, "n1");
            whole++;
        }
        assert_true(count_hidden(folders->path) <= 1);
        assert_true(k < STOPS_MAX);
    }
    assert_true(whole > 0 || stride > 1);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(verb(folders, "verify", "--prefix", folders->prefix, "--path", earlier,
                          "--part", "n1", NULL),
                     WORKER_EXIT_OK);
}

static char staged_name[192];

static int run_publish(struct folders *folders)
{
    return verb(folders, "publish", "--prefix", folders->prefix, "--path", folders->path, "--part",
                "n1", "--name", staged_name, NULL);
}

static void stage_and_write(struct folders *folders)
{
    char staged[512];

    assert_int_equal(verb(folders, "stage", "--prefix", folders->prefix, "--path", folders->path,
                          "--part", "n1", NULL),
                     WORKER_EXIT_OK);
    assert_int_equal(worker_output_get(folders->out, "name", staged_name, sizeof(staged_name)), 0);
    snprintf(staged, sizeof(staged), "%s/%s", folders->path, staged_name);
    write_text(staged, "a.bin", "weights");
    write_text(staged, "b.txt", staged_name);
}

/* The next one, as of an agent that starts again, comes to the same end. */
static void publish_killed_anywhere_comes_to_its_end_with_the_next(void **state)
{
    struct folders *folders = *state;
    unsigned stride = test_often(3, 1);
    unsigned k, absent = 0, whole = 0;

    stage_and_write(folders);
    for (k = 1; killed_at(run_publish, folders, k); k += stride) {
        if (exists(folders->path, "n1")) {
            assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
            whole++;
        } else {
            absent++;
        }
        assert_int_equal(run_publish(folders), WORKER_EXIT_OK);
        assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
        assert_uint_equal(count_hidden(folders->path), 0);
        remove_if_there(folders->path, "n1");
        stage_and_write(folders);
        assert_true(k < STOPS_MAX);
    }
    print_message("%u moments: %u without a shard, %u with a whole one\n", k / stride, absent,
                  whole);
    assert_true(absent > 50 / stride && (whole > 0 || stride > 1));
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
}

/* A killed put must neither keep the other tenants out nor let them change what is theirs alone. */
static void put_killed_anywhere_leaves_levels_above_readable(void **state)
{
    struct folders *folders = *state;
    struct stat status;
    char tenant[256];
    unsigned k, made = 0;

    snprintf(tenant, sizeof(tenant), "%s/t", folders->prefix);
    for (k = 1; made < 3 && killed_at(run_put, folders, k); k++) {
        if (!exists(folders->prefix, "t"))
            continue;
        made++; /* the moments right after it was made */
        assert_int_equal(stat(tenant, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0755);
        remove_tree(tenant);
    }
    assert_uint_equal(made, 3);
}

/* A second attempt over a first one's shard: none, the old or the new one, never a mixture. */
static void put_killed_while_replacing_leaves_the_old_the_new_or_none(void **state)
{
    struct folders *folders = *state;
    unsigned stride = test_often(3, 1);
    unsigned k, old = 0, new = 0, none = 0;
    char first[SHA256_HEX_BYTES], found[SHA256_HEX_BYTES];

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(worker_output_get(folders->out, "manifest_sha256", first, sizeof(first)), 0);
    for (k = 1;; k += stride) {
        write_text(folders->source, "sub/b.txt", "second attempt");
        if (!killed_at(run_put, folders, k))
            break;
        if (!exists(folders->path, "n1")) {
            /* behind the rename of the old one, and before that of the new one */
            assert_true(last_call == SYS_renameat || last_call == SYS_renameat2);
            none++;
        } else {
            assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
            worker_output_get(folders->out, "manifest_sha256", found, sizeof(found));
            if (strcmp(found, first) == 0)
                old++;
            else
                new ++;
        }
        write_text(folders->source, "sub/b.txt", "hello\n"); /* back to the first */
        assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
        assert_uint_equal(count_hidden(folders->path), 0);
        assert_true(k < STOPS_MAX);
    }
    print_message("%u moments: %u old, %u none, %u new\n", k / stride, old, none, new);
    assert_true(old > 100 / stride && new > 0 && (none > 0 || stride > 1));
}

static void restore_killed_anywhere_leaves_no_target_or_a_whole_one(void **state)
{
    struct folders *folders = *state;
    unsigned stride = test_often(3, 1);
    unsigned k, absent = 0, whole = 0;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    for (k = 1; killed_at(run_restore, folders, k); k += stride) {
        if (exists(folders->root, "back")) {
            assert_true(same_trees(folders->source, folders->to));
            remove_if_there(folders->root, "back");
            whole++;
        } else {
            absent++;
        }
        assert_true(count_hidden(folders->root) <= 1);
        assert_true(k < STOPS_MAX);
    }
    assert_true(absent > 100 / stride && (whole > 0 || stride > 1));
    assert_true(same_trees(folders->source, folders->to));
    assert_uint_equal(count_hidden(folders->root), 0);
}

/* Whatever has been removed of it: what is left of a part can be told by its MANIFEST. */
static void leftovers_have_their_manifest(const struct folders *folders)
{
    char command[1024];

    snprintf(command, sizeof(command),
             "for f in '%s'/t/p/a/checkpoints/.*.gone.*/n1; do [ ! -d \"$f\" ] || "
             "[ -z \"$(ls -A \"$f\")\" ] || [ -f \"$f/MANIFEST\" ] || exit 1; done",
             folders->prefix);
    assert_int_equal(system(command), 0);
}

static int run_collect_as_owner(struct folders *folders)
{
    return verb(folders, "collect", "--prefix", folders->prefix, "--path", folders->path, "--as",
                "owner", NULL);
}

static void give_job_away(const struct folders *folders)
{
    char command[1024];

    snprintf(command, sizeof(command),
             "chmod 711 '%s' && chmod 755 '%s' && chown -R 20001:20001 '%s/t/p/a'", folders->root,
             folders->prefix, folders->prefix);
    assert_int_equal(system(command), 0);
}

/* With the rights of the folder's owner, and again by root what is left of the levels above. */
static void collect_as_the_owner_killed_anywhere_comes_to_the_same_end(void **state)
{
    struct folders *folders = *state;
    unsigned stride = test_often(3, 1);
    unsigned k, gone = 0;

    if (geteuid() != 0) {
        print_message("# SKIP needs root to be somebody else\n");
        skip();
    }
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    give_job_away(folders);
    for (k = 1; killed_at(run_collect_as_owner, folders, k); k += stride) {
        assert_true(k < STOPS_MAX);
        leftovers_have_their_manifest(folders);
        if (exists(folders->path, "n1"))
            continue;
        gone++;
        assert_int_equal(run_collect_as_owner(folders), WORKER_EXIT_OK);
        assert_false(exists(folders->prefix, "t/p/a"));
        assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
        give_job_away(folders);
    }
    assert_true(gone > 0);
    assert_false(exists(folders->prefix, "t/p/a"));
}

static void collect_killed_anywhere_leaves_the_whole_checkpoint_or_none(void **state)
{
    struct folders *folders = *state;
    unsigned stride = test_often(3, 1);
    unsigned k, gone = 0, whole = 0;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    for (k = 1; killed_at(run_collect, folders, k); k += stride) {
        if (exists(folders->path, "n1")) {
            assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
            whole++;
        } else {
            assert_false(exists(folders->path, "."));
            leftovers_have_their_manifest(folders);
            gone++;
            assert_int_equal(run_collect(folders), WORKER_EXIT_OK);
            assert_false(exists(folders->prefix, "t/p/a")); /* nothing hidden is left either */
            assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
        }
        assert_true(k < STOPS_MAX);
    }
    assert_true(gone > 0 && (whole > 0 || stride > 1));
    assert_false(exists(folders->prefix, "t/p/a"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(put_killed_anywhere_leaves_no_shard_or_a_whole_one),
        T(put_killed_while_compressing_leaves_no_shard_or_a_whole_one),
        T(put_by_threads_killed_anywhere_leaves_no_shard_or_a_whole_one),
        T(put_killed_while_taking_over_leaves_the_earlier_one_whole),
        T(put_killed_anywhere_leaves_levels_above_readable),
        T(publish_killed_anywhere_comes_to_its_end_with_the_next),
        T(put_killed_while_replacing_leaves_the_old_the_new_or_none),
        T(restore_killed_anywhere_leaves_no_target_or_a_whole_one),
        T(collect_as_the_owner_killed_anywhere_comes_to_the_same_end),
        T(collect_killed_anywhere_leaves_the_whole_checkpoint_or_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
