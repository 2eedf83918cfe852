/* What a kernel, a filter of system calls or a file system does not do is done in the usual way. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/dest/manifest.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

#define VERB(...) verb(folders, __VA_ARGS__, NULL)
#define AT_N1     "--prefix", folders->prefix, "--path", folders->path, "--part", "n1"

/* ---- openat2 ---- */

static bool refuse_openat2(uint32_t number)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | number),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Exit code of the first step that went otherwise, 0 when all is well. */
static int go_through_verbs(struct folders *folders, uint32_t number)
{
    char shard[300], aside[300];

    snprintf(shard, sizeof(shard), "%s/n1", folders->path);
    snprintf(aside, sizeof(aside), "%s/aside", folders->path);
    if (!refuse_openat2(number))
        return 1;
    if (put_n1(folders) != WORKER_EXIT_OK || verify_n1(folders) != WORKER_EXIT_OK)
        return 2;
    if (VERB("restore", AT_N1, "--to", folders->to) != WORKER_EXIT_OK ||
        !same_trees(folders->source, folders->to))
        return 3;
    if (rename(shard, aside) != 0 || symlink("aside", shard) != 0)
        return 4;
    if (verify_n1(folders) == WORKER_EXIT_OK) /* no link is followed by this way either */
        return 5;
    if (unlink(shard) != 0 || rename(aside, shard) != 0 || verify_n1(folders) != WORKER_EXIT_OK)
        return 6;
    return VERB("collect", "--prefix", folders->prefix, "--path", folders->path) ==
                       WORKER_EXIT_OK &&
                   !exists(folders->prefix, "t/p/a")
               ? 0
               : 7;
}

static void without_openat2_each_component_is_opened(void **state)
{
    static const uint32_t numbers[] = {ENOSYS, EPERM};
    struct folders *folders = *state;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        int status;
        pid_t pid = fork();

        if (pid == 0)
            _exit(go_through_verbs(folders, numbers[i]));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 1) {
            print_message("# SKIP system calls cannot be filtered here\n");
            skip();
        }
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        if (exists(folders->root, "back"))
            remove_tree(folders->to);
    }
}

/* ---- O_DIRECT ---- */

#if defined(__x86_64__)

static bool is_direct(pid_t pid, int fd)
{
    char path[64], line[128];
    unsigned flags = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)pid, fd);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        (void)sscanf(line, "flags: %o", &flags);
    fclose(file);
    return (flags & O_DIRECT) != 0;
}

/* Each write past the page cache fails as where a file system has larger blocks. Returns how many
 * there were. */
static unsigned put_with_refused_writes(struct folders *folders)
{
    struct user_regs_struct registers;
    bool entering = true, refuse = false;
    unsigned refused = 0;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(99);
        raise(SIGSTOP);
        _exit(VERB("put", AT_N1, "--source", folders->source, "--threads", "1"));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (; WIFSTOPPED(status); entering = !entering) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSTOPPED(status))
            break;
        assert_int_equal(ptrace(PTRACE_GETREGS, pid, NULL, &registers), 0);
        if (entering) {
            refuse = registers.orig_rax == SYS_pwrite64 && is_direct(pid, (int)registers.rdi);
            if (refuse)
                registers.orig_rax = (unsigned long long)-1;
        } else if (refuse) {
            registers.rax = (unsigned long long)-EINVAL;
            refused++;
        }
        if (refuse)
            assert_int_equal(ptrace(PTRACE_SETREGS, pid, NULL, &registers), 0);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), WORKER_EXIT_OK);
    return refused;
}

static void what_cannot_be_written_past_the_cache_is_written_through_it(void **state)
{
    const size_t length = 8 * (size_t)MANIFEST_CHUNK_BYTES + 4711; /* large enough to bypass it */
    struct folders *folders = *state;
    uint8_t *bytes = malloc(length);
    unsigned refused;
    char command[512];

    snprintf(command, sizeof(command),
             "exec >/dev/null 2>&1; truncate -s 300M %s/image && mkfs.ext4 -q %s/image && mount -o "
             "loop %s/image %s",
             folders->root, folders->root, folders->root, folders->prefix);
    if (geteuid() != 0 || system(command) != 0) {
        print_message("# SKIP ext4 cannot be mounted here\n");
        free(bytes);
        skip();
    }
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(i ^ i >> 8 ^ i >> 16);
    write_file(folders->source, "large", bytes, length);
    free(bytes);
    refused = put_with_refused_writes(folders);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_OK);
    assert_true(same_trees(folders->source, folders->to));
    assert_int_equal(umount2(folders->prefix, MNT_DETACH), 0);
    assert_uint_equal(refused, 1); /* once for the file */
}

#endif

#define T(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(without_openat2_each_component_is_opened),
#if defined(__x86_64__)
        T(what_cannot_be_written_past_the_cache_is_written_through_it),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
