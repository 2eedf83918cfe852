/* The agent's files in a work folder that belongs to somebody else: what lies there never holds the
 * agent. And what it takes for alive. */
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/node/machine.h"
#include "src/agent/node/network_fs.h"
#include "src/base/check.h"
#include "src/dest/manifest.h"
#include "tests/support/test.h"

enum { PATIENCE_S = 10 }; /* then SIGALRM ends the test */

/* The request in a work folder. */
static void write_and_read(const struct machine_ops *machine, const char *folder, const char *text)
{
    struct opened *opened = opened_here(folder);
    const struct machine_file file = {opened, {.uid = geteuid(), .gid = getegid()}, "request"};
    char read[64];
    struct err err = {0};

    assert_int_equal(machine->file_write(machine->context, &file, text, strlen(text), &err), 0);
    assert_int_equal(machine->file_read(machine->context, &file, read, sizeof(read)), strlen(text));
    assert_string_equal(read, text);
    opened_close(opened);
}

static void a_file_of_somebody_else_is_none_of_the_users_own(void **state)
{
    const struct machine_user nobody = {.uid = 65534, .gid = 65534},
                              self = {.uid = geteuid(), .gid = getegid()};
    char path[] = "/tmp/test_machine.XXXXXX", read[16];
    struct machine_ops machine;
    int fd = mkstemp(path);
    struct opened *opened = opened_here("/tmp");
    const struct machine_file file = {opened, self, path + strlen("/tmp/")};

    (void)state;
    machine_uv_ops(NULL, &machine);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "text", 4), 4);
    assert_int_equal(machine.file_read_own(machine.context, &file, read, sizeof(read)), 4);
    if (geteuid() == 0) {
        assert_int_equal(fchown(fd, nobody.uid, nobody.gid), 0);
        assert_int_equal(fchmod(fd, 0644), 0);
        assert_int_equal(machine.file_read(machine.context, &file, read, sizeof(read)), 4);
        assert_int_equal(machine.file_read_own(machine.context, &file, read, sizeof(read)), -1);
    }
    close(fd);
    opened_close(opened);
    assert_int_equal(unlink(path), 0);
}

/* What stands in the place of a file is told from none. */
static void a_folder_a_link_and_a_pipe_are_no_files(void **state)
{
    char folder[] = "/tmp/test_machine.XXXXXX", path[64], read[16];
    struct machine_ops machine;
    struct opened *opened;
    struct machine_file file = {.user = {.uid = geteuid(), .gid = getegid()}};
    static const char *const names[] = {"folder", "link", "pipe"};

    (void)state;
    machine_uv_ops(NULL, &machine);
    assert_non_null(mkdtemp(folder));
    opened = opened_here(folder);
    file.folder = opened;
    file.name = "none";
    assert_int_equal(machine.file_read(machine.context, &file, read, sizeof(read)), -1);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        assert_int_equal(i == 0   ? mkdir(path, 0700)
                         : i == 1 ? symlink("/etc/passwd", path)
                                  : mkfifo(path, 0600),
                         0);
        file.name = names[i];
        assert_int_equal(machine.file_read(machine.context, &file, read, sizeof(read)),
                         ASK_FILE_OTHER);
        assert_int_equal(remove(path), 0);
    }
    opened_close(opened);
    assert_int_equal(rmdir(folder), 0);
}

static void a_pipe_or_a_link_in_its_way_does_not_hold_a_write(void **state)
{
    char folder[] = "/tmp/test_machine.XXXXXX";
    char path[64], temporary[64], other[64];
    struct machine_ops machine;

    (void)state;
    alarm(PATIENCE_S);
    machine_uv_ops(NULL, &machine);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/request", folder);
    snprintf(temporary, sizeof(temporary), "%s/request.new", folder);
    snprintf(other, sizeof(other), "%s/other", folder);
    assert_int_equal(mkfifo(temporary, 0600), 0);
    write_and_read(&machine, folder, "first");
    assert_int_equal(symlink(other, temporary), 0);
    write_and_read(&machine, folder, "second");
    assert_int_equal(access(other, F_OK), -1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    write_and_read(&machine, folder, "third");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    alarm(0);
}

/* The product's own, from the build folder of this test: BUILD/tests/unit/agent/test_machine.
 * False: it is not built. */
static bool product_worker(void)
{
    char path[PATH_MAX] = "";
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 64);

    assert_true(length > 0);
    for (int up = 0; up < 4; up++)
        *strrchr(path, '/') = '\0';
    strcat(path, "/bin/ckpt-worker");
    worker_set_program(path);
    return access(path, X_OK) == 0;
}

/* What a checkpoint or a restart left there may be unwritable for its own user, whom the removal
 * acts for. It is overwritten before (N-003). */
static void unwritable_folders_of_the_job_are_removed(void **state)
{
    const struct machine_user nobody = {.uid = 65534, .gid = 65534},
                              self = {.uid = geteuid(), .gid = getegid()};
    char folder[] = "/tmp/test_machine.XXXXXX";
    char out[64], command[512];
    const char *const paths[] = {out};
    const struct machine_folders folders = {paths, 1, true};
    struct machine_ops machine;
    uv_loop_t loop;
    int held;

    (void)state;
    if (!product_worker())
        skip();
    assert_int_equal(uv_loop_init(&loop), 0);
    machine_uv_ops(&loop, &machine);
    assert_non_null(mkdtemp(folder));
    snprintf(out, sizeof(out), "%s/out", folder);
    snprintf(command, sizeof(command),
             "mkdir -p %s/1/sub && printf secret > %s/1/sub/file && chmod 0555 %s/1/sub && chmod 0 "
             "%s/1 && "
             "ln -s / %s/link",
             out, out, out, out, out);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof(command), "%s/1/sub/file", out);
    held = open(command, O_RDONLY | O_CLOEXEC); /* root's: others may not look into it */
    snprintf(command, sizeof(command), "chown -hR %u %s", nobody.uid, folder);
    if (self.uid == 0)
        assert_int_equal(system(command), 0);
    machine.folders_remove(&loop, self.uid == 0 ? nobody : self, &folders, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    worker_retire_idle();
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(access(out, F_OK), -1);
    if (held >= 0) {
        assert_int_equal(read(held, command, 6), 6);
        assert_memory_not_equal(command, "secret", 6);
        close(held);
    }
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* The loop itself walks it: whatever lies there, so many names and no more. */
static struct machine_growth growth_of(const char *folder)
{
    struct opened *opened = opened_here(folder);
    const struct machine_file file = {opened, {.uid = geteuid(), .gid = getegid()}, "."};
    struct machine_growth growth;
    struct machine_ops machine;

    machine_uv_ops(NULL, &machine);
    growth = machine.folder_growth(machine.context, &file);
    opened_close(opened);
    return growth;
}

static void a_walk_is_bounded_by_names_of_every_kind(void **state)
{
    enum { LINKS = 5000 };
    char folder[] = "/tmp/test_machine.XXXXXX";
    char path[64];
    size_t some, many;

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (unsigned i = 0; i < LINKS; i++) {
        snprintf(path, sizeof(path), "%s/%u", folder, i);
        assert_int_equal(symlink("nowhere", path), 0);
    }
    many = growth_of(folder).files;
    for (unsigned i = 10; i < LINKS; i++) {
        snprintf(path, sizeof(path), "%s/%u", folder, i);
        assert_int_equal(unlink(path), 0);
    }
    some = growth_of(folder).files;
    for (unsigned i = 0; i < 10; i++) {
        snprintf(path, sizeof(path), "%s/%u", folder, i);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
    assert_uint_equal(many, 1); /* not looked at to the end: not said to be empty */
    assert_uint_equal(some, 0);
}

/* As deep as a checkpoint may be: what grows there is a sign of life. */
static void a_walk_sees_all_levels_of_a_checkpoint(void **state)
{
    char folder[] = "/tmp/test_machine.XXXXXX";
    char path[sizeof(folder) + 2 * MANIFEST_DEPTH_MAX], command[64];
    struct machine_growth empty, one, grown;
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(folder));
    strcpy(path, folder);
    for (int level = 1; level < MANIFEST_DEPTH_MAX; level++) {
        strcat(path, "/d");
        assert_int_equal(mkdir(path, 0700), 0);
    }
    empty = growth_of(folder);
    strcat(path, "/f");
    assert_non_null(file = fopen(path, "w"));
    one = growth_of(folder);
    assert_true(fputs("more", file) > 0);
    fclose(file);
    grown = growth_of(folder);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    assert_uint_equal(empty.files, 0);
    assert_uint_equal(one.files, 1);
    assert_true(grown.sum != one.sum);
}

static void network_file_systems_are_known_by_number(void **state)
{
    (void)state;
    assert_string_equal(network_fs_name(NFS_SUPER_MAGIC), "NFS");
    assert_string_equal(network_fs_name(FUSE_SUPER_MAGIC), "FUSE");
    assert_string_equal(network_fs_name(0x0bd00bd0), "Lustre");
    assert_string_equal(network_fs_name(0x47504653), "GPFS");
    assert_null(network_fs_name(EXT4_SUPER_MAGIC));
    assert_null(network_fs_name(XFS_SUPER_MAGIC));
    assert_null(network_fs_name(TMPFS_MAGIC));
    assert_null(network_fs_name(OVERLAYFS_SUPER_MAGIC));
}

/* ---- processes ---- */

/* A child in a group, or leading one of its own. */
static pid_t start_process(pid_t group, uint64_t *ret_start_ticks)
{
    struct proc_stat stat;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(PATIENCE_S); /* should the test fail */
        for (;;)
            pause();
    }
    assert_int_equal(setpgid(pid, group), 0);
    assert_int_equal(proc_read_stat(pid, &stat), 0);
    *ret_start_ticks = stat.start_ticks;
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void set_descriptors_max(rlim_t max, rlim_t *ret_before)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    *ret_before = limit.rlim_cur;
    limit.rlim_cur = max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* In a session of its own, with the environment of an application. */
static pid_t start_straggler(const char *allocation_id, const char *run, const char *work_dir)
{
    char id[64], of_run[64], dir[64];
    char *const environment[] = {id, of_run, dir, NULL};
    int ready[2];
    char byte;
    pid_t pid;

    snprintf(id, sizeof(id), "CKPT_ALLOCATION_ID=%s", allocation_id);
    snprintf(of_run, sizeof(of_run), "CKPT_RUN=%s", run);
    snprintf(dir, sizeof(dir), "CKPT_DIR=%s", work_dir);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setsid();
        execle("/bin/sleep", "sleep", "20", (char *)NULL, environment);
        _exit(1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0); /* it has executed */
    close(ready[0]);
    return pid;
}

static void what_has_left_the_group_is_killed_and_nothing_else(void **state)
{
    struct job_identity job = {.stragglers = {.allocation_id = "job-of-test-machine",
                                              .work_dir = "/work/a",
                                              .run = UINT64_C(1) << 40 | 7,
                                              .uid = geteuid()},
                               .group = INT32_MAX};
    struct stragglers *stragglers = &job.stragglers;
    struct proc_stat stat;
    char run[CHECKPOINT_ID_TEXT_BYTES];
    pid_t found, others[3];

    (void)state;
    checkpoint_id_format(stragglers->run, run);
    found = start_straggler(stragglers->allocation_id, run, stragglers->work_dir);
    others[0] = start_straggler("another-job", run, stragglers->work_dir);
    others[1] = start_straggler(stragglers->allocation_id, "1-8", stragglers->work_dir);
    others[2] = start_straggler(stragglers->allocation_id, run,
                                "/work/b"); /* another node's on this machine */
    assert_int_equal(proc_read_stat(found, &stat), 0);
    stragglers->start_ticks = stat.start_ticks + 1;
    assert_uint_equal(stragglers_find(&job, true), 0); /* they are older */
    stragglers->start_ticks = stat.start_ticks;
    stragglers->uid++;
    assert_uint_equal(stragglers_find(&job, true), 0); /* another user's */
    stragglers->uid--;
    assert_uint_equal(stragglers_find(&job, false), 1);
    assert_int_equal(waitpid(found, NULL, WNOHANG), 0); /* it was only found */
    assert_uint_equal(stragglers_find(&job, true), 1);
    assert_int_equal(waitpid(found, NULL, 0), found);
    assert_uint_equal(stragglers_find(&job, true), 0);
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        assert_int_equal(waitpid(others[i], NULL, WNOHANG), 0);
        end(others[i]);
    }
}

static void what_cannot_be_read_is_not_taken_for_dead(void **state)
{
    struct machine_ops machine;
    struct proc_catching catching;
    uint64_t ticks;
    pid_t pid = start_process(0, &ticks);
    bool alive, group_alive;
    enum proc_catches catches;
    rlim_t before;

    (void)state;
    machine_uv_ops(NULL, &machine);
    set_descriptors_max(0, &before);
    alive = machine_alive(&machine, pid, ticks);
    group_alive = machine_group_alive(&machine, pid, ticks, geteuid());
    catches = machine_group_catches(&machine, pid, SIGUSR1, &catching);
    set_descriptors_max(before, &before);
    assert_true(alive);
    assert_true(group_alive);
    assert_int_equal(catches, PROC_UNREAD);
    assert_true(machine_alive(&machine, pid, ticks));
    end(pid);
    assert_false(machine_alive(&machine, pid, ticks));
    assert_false(machine_group_alive(&machine, pid, ticks, geteuid()));
}

static void a_group_without_its_leader_is_its_users_and_not_older(void **state)
{
    struct machine_ops machine;
    uint64_t ticks, process_ticks;
    pid_t pid = start_process(0, &ticks);
    pid_t process = start_process(pid, &process_ticks);

    (void)state;
    machine_uv_ops(NULL, &machine);
    assert_true(machine_group_alive(&machine, pid, ticks, geteuid() + 1)); /* it leads */
    assert_false(machine_group_alive(&machine, pid, ticks + 1, geteuid()));
    assert_false(machine_group_alive(&machine, pid, LEDGER_NEVER_STARTED, geteuid()));
    end(pid);
    assert_true(machine_group_alive(&machine, pid, ticks, geteuid()));
    assert_false(machine_group_alive(&machine, pid, ticks, geteuid() + 1));
    assert_false(machine_group_alive(&machine, pid, process_ticks + 1, geteuid()));
    assert_false(machine_group_alive(&machine, pid, LEDGER_NEVER_STARTED, geteuid()));
    end(process);
    assert_false(machine_group_alive(&machine, pid, ticks, geteuid()));
}

/* As a daemon does: begins a session, leaves a process in it, and ends. */
static pid_t start_daemon(uint64_t *ret_start_ticks, pid_t *ret_process)
{
    struct proc_stat stat;
    int told[2];
    pid_t pid;

    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pid_t process = setsid() < 0 ? -1 : fork();
        if (process == 0) {
            alarm(PATIENCE_S);
            for (;;)
                pause();
        }
        _exit(write(told[1], &process, sizeof(process)) == sizeof(process) ? 0 : 1);
    }
    assert_int_equal(read(told[0], ret_process, sizeof(*ret_process)), sizeof(*ret_process));
    assert_int_equal(proc_read_stat(pid, &stat), 0); /* not reaped yet */
    *ret_start_ticks = stat.start_ticks;
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(told[0]);
    close(told[1]);
    return pid;
}

/* The number of an application that is gone has come again. What ckpt-run starts never has a
 * session of its own. */
static void a_session_without_its_leader_is_no_application(void **state)
{
    struct machine_ops machine;
    struct proc_stat stat;
    uint64_t ticks;
    pid_t process, pid = start_daemon(&ticks, &process);
    bool alive;

    (void)state;
    machine_uv_ops(NULL, &machine);
    assert_true(process > 0);
    assert_int_equal(proc_read_stat(process, &stat), 0);
    alive = machine_group_alive(&machine, pid, ticks, geteuid());
    kill(process, SIGKILL);
    assert_int_equal(stat.group, pid);
    assert_false(alive);
}

static void heard_of(void *data)
{
    (*(unsigned *)data)++;
}

/* Renames a file to the name; how often that was told. */
static unsigned told_of(uv_loop_t *loop, const struct machine_ops *machine, const char *name)
{
    char folder[] = "/tmp/test_machine.XXXXXX", from[64], to[64];
    struct opened *opened = opened_here(mkdtemp(folder));
    unsigned told = 0;
    struct folder_watch *watch = machine->folder_watch(machine->context, opened, heard_of, &told);

    assert_non_null(watch);
    snprintf(from, sizeof(from), "%s/done.new", folder);
    snprintf(to, sizeof(to), "%s/%s", folder, name);
    close(open(from, O_WRONLY | O_CREAT | O_EXCL, 0600));
    assert_int_equal(rename(from, to), 0);
    uv_run(loop, UV_RUN_NOWAIT);
    machine->folder_watch_free(watch);
    uv_run(loop, UV_RUN_DEFAULT);
    opened_close(opened);
    assert_int_equal(unlink(to), 0);
    assert_int_equal(rmdir(folder), 0);
    return told;
}

/* A file that is first written under another name takes no look from the one that is an answer. */
static void of_a_work_folder_its_sentinels_alone_are_told(void **state)
{
    struct machine_ops machine;
    uv_loop_t loop;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    machine_uv_ops(&loop, &machine);
    assert_int_equal(told_of(&loop, &machine, "done"), 1);
    assert_int_equal(told_of(&loop, &machine, "done.17"), 1);
    assert_int_equal(told_of(&loop, &machine, "done.tmp"), 0);
    assert_int_equal(told_of(&loop, &machine, "request"), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_somebody_else_is_none_of_the_users_own),
        cmocka_unit_test(a_folder_a_link_and_a_pipe_are_no_files),
        cmocka_unit_test(a_pipe_or_a_link_in_its_way_does_not_hold_a_write),
        cmocka_unit_test(unwritable_folders_of_the_job_are_removed),
        cmocka_unit_test(a_walk_is_bounded_by_names_of_every_kind),
        cmocka_unit_test(a_walk_sees_all_levels_of_a_checkpoint),
        cmocka_unit_test(network_file_systems_are_known_by_number),
        cmocka_unit_test(what_has_left_the_group_is_killed_and_nothing_else),
        cmocka_unit_test(what_cannot_be_read_is_not_taken_for_dead),
        cmocka_unit_test(of_a_work_folder_its_sentinels_alone_are_told),
        cmocka_unit_test(a_session_without_its_leader_is_no_application),
        cmocka_unit_test(a_group_without_its_leader_is_its_users_and_not_older),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
