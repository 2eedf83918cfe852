/* Whose the folders of a destination are: several users' checkpoints beside each other, made by
 * root for each of them. */
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

enum { ANN = 20001, BOB = 20002, SERVICE = 20003, SERVICE_GROUP = 20004, PROJECT_GROUP = 20005 };
enum { TOGETHER = 8, TOGETHER_ROUNDS = 100 };

static char errors[1024]; /* of the last child */

/* What was synced in this process, in place of the system's library. */
static struct {
    size_t count;
    ino_t files[256];
} synced;

int fsync(int fd)
{
    struct stat status;

    if (fstat(fd, &status) == 0 && synced.count < sizeof(synced.files) / sizeof(synced.files[0]))
        synced.files[synced.count++] = status.st_ino;
    return (int)syscall(SYS_fsync, fd);
}

#define VERB(...) verb(folders, __VA_ARGS__, NULL)

static const char *at(const struct folders *folders, const char *relative)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", folders->prefix, relative);
    return path;
}

/* A verb that becomes another user does so for good: each runs in a child. */
static int in_child(struct folders *folders, int (*run)(struct folders *folders, const void *data),
                    const void *data)
{
    int pipe_fds[2], status;
    ssize_t got;
    pid_t child;

    assert_int_equal(pipe(pipe_fds), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int result = run(folders, data);

        _exit(write(pipe_fds[1], folders->errors, strlen(folders->errors)) < 0 ? 99 : result);
    }
    close(pipe_fds[1]);
    got = read(pipe_fds[0], errors, sizeof(errors) - 1);
    errors[got > 0 ? got : 0] = '\0';
    close(pipe_fds[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int run_put_as(struct folders *folders, const void *as)
{
    return VERB("put", "--prefix", folders->prefix, "--path", folders->path, "--part", "n1",
                "--source", folders->source, "--as", as);
}

/* A refusal by the kernel is told as what it is. */
static int run_prepare_as(struct folders *folders, const void *as)
{
    char all[256];
    int code;

    snprintf(all, sizeof(all), "%s/t/p/a/checkpoints", folders->prefix);
    code = VERB("prepare", "--prefix", folders->prefix, "--path", all, "--as", as);
    return code == WORKER_EXIT_UNAVAILABLE && strstr(folders->out, "cause=storage_denied\n") == NULL
               ? 98
               : code;
}

static int run_abandon_as(struct folders *folders, const void *as)
{
    return VERB("abandon", "--prefix", folders->prefix, "--path", folders->path, "--part", "n1",
                "--as", as);
}

static int put_of_node(struct folders *folders, int number)
{
    char node[16];

    snprintf(node, sizeof(node), "n%d", number);
    return VERB("put", "--prefix", folders->prefix, "--path", folders->path, "--part", node,
                "--source", folders->source, "--as", "20001:20001");
}

static int put_as(struct folders *folders, const char *as)
{
    return in_child(folders, run_put_as, as);
}

static int prepare_as(struct folders *folders, const char *as)
{
    return in_child(folders, run_prepare_as, as);
}

static void become(uid_t uid, gid_t group)
{
    gid_t groups[] = {group};

    assert_int_equal(setgroups(1, groups), 0);
    assert_int_equal(setgid(uid), 0);
    assert_int_equal(setuid(uid), 0);
}

static int run_move(struct folders *folders, const void *relative)
{
    char from[256];

    become(BOB, BOB);
    snprintf(from, sizeof(from), "%s", at(folders, relative));
    if (rename(from, at(folders, "stolen")) == 0)
        return 1;
    strcat(from, ".aside");
    return rename(at(folders, relative), from) == 0 || rmdir(at(folders, relative)) == 0;
}

static int run_collect(struct folders *folders, const void *group)
{
    become(SERVICE, *(const gid_t *)group);
    return VERB("collect", "--prefix", folders->prefix, "--path", folders->path);
}

static void expect_folder(const struct folders *folders, const char *relative, uid_t uid,
                          mode_t mode)
{
    struct stat status;

    assert_int_equal(lstat(at(folders, relative), &status), 0);
    assert_true(S_ISDIR(status.st_mode));
    assert_int_equal(status.st_uid, uid);
    assert_int_equal(status.st_mode & 07777, mode);
}

/* Everybody may come as far as the scratch folder; the source is everybody's to read. */
static int setup(void **state)
{
    struct folders *folders;

    if (geteuid() != 0) {
        print_message("# SKIP several users need root\n");
        skip();
    }
    folders_setup(state);
    folders = *state;
    return chmod(folders->root, 0755);
}

static void the_allocation_s_folder_is_its_owner_s_and_those_above_are_root_s(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK);
    expect_folder(folders, "t", 0, 0755);
    expect_folder(folders, "t/p", 0, 0755);
    expect_folder(folders, "t/p/a", ANN, 0700);
    expect_folder(folders, "t/p/a/checkpoints/1-42/n1", ANN, 0700);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK); /* again */
}

static void another_user_moves_and_removes_nothing(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK);
    assert_int_equal(in_child(folders, run_move, "t/p/a"), 0);
    assert_int_equal(in_child(folders, run_move, "t/p"), 0);
    assert_int_equal(in_child(folders, run_move, "t"), 0);
    assert_true(exists(folders->path, "n1/MANIFEST"));
}

static void an_allocation_s_folder_of_a_stranger_is_refused(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_as(folders, "20002:20002"), WORKER_EXIT_OK);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_REFUSED);
    assert_contains(errors, "t/p/a belongs to user 20002 and not to user 20001, whose job this is");
    expect_folder(folders, "t/p/a", BOB, 0700);
}

/* Who made them may have been killed before they were synced. */
static void folders_that_are_there_already_are_made_durable_too(void **state)
{
    static const char *const made[] = {"t", "t/p", "t/p/a", "t/p/a/checkpoints"};
    struct folders *folders = *state;
    struct stat above;

    for (size_t i = 0; i < 4; i++)
        assert_int_equal(mkdir(at(folders, made[i]), i < 2 ? 0755 : 0700), 0);
    synced.count = 0;
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    for (size_t i = 0; i < 4; i++) {
        bool found = false;

        assert_int_equal(stat(i == 0 ? folders->prefix : at(folders, made[i - 1]), &above), 0);
        for (size_t j = 0; j < synced.count; j++)
            found = found || synced.files[j] == above.st_ino;
        assert_true(found);
    }
}

static void folders_above_that_others_may_change_are_refused(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(mkdir(at(folders, "t"), 0755), 0);
    assert_int_equal(chown(at(folders, "t"), BOB, BOB), 0);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_REFUSED);
    assert_contains(errors, "dst/t belongs to user 20002, who could move");
    assert_int_equal(chown(at(folders, "t"), 0, 0), 0);
    assert_int_equal(chmod(at(folders, "t"), 0777), 0);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_REFUSED);
    assert_contains(errors, "dst/t may be written by others (mode 0777)");
    assert_int_equal(chmod(at(folders, "t"), 01777), 0); /* as an administrator may have made it */
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK);
    assert_int_equal(chmod(folders->prefix, 0777), 0);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_REFUSED);
    assert_contains(errors, "may be written by everybody (mode 0777)");
}

/* Root must not be led out of the prefix, nor made to give somebody else's folder away. */
static void symbolic_links_on_the_way_are_refused(void **state)
{
    struct folders *folders = *state;
    struct stat status;
    char aside[128];

    snprintf(aside, sizeof(aside), "%s/aside", folders->root);
    assert_int_equal(mkdir(aside, 0755), 0);
    assert_int_equal(mkdir(at(folders, "t"), 0755), 0);
    assert_int_equal(symlink(aside, at(folders, "t/p")), 0);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_REFUSED);
    assert_int_equal(unlink(at(folders, "t/p")), 0);
    assert_int_equal(mkdir(at(folders, "t/p"), 0755), 0);
    assert_int_equal(symlink(aside, at(folders, "t/p/a")), 0);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_REFUSED);
    assert_int_equal(stat(aside, &status), 0);
    assert_int_equal(status.st_uid, 0);
    assert_false(exists(aside, "a"));
}

static void a_folder_that_a_killed_one_left_unclaimed_is_given_to_the_owner(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(mkdir(at(folders, "t"), 0755), 0);
    assert_int_equal(mkdir(at(folders, "t/p"), 0755), 0);
    assert_int_equal(mkdir(at(folders, "t/p/a"), 0700), 0);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK);
    expect_folder(folders, "t/p/a", ANN, 0700);
}

/* One that is root's and holds something is a job of root's. */
static void a_folder_of_root_s_that_is_in_use_is_refused(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_REFUSED);
    assert_contains(errors, "belongs to user 0 and not to user 20001");
}

/* D-004: who removes expired checkpoints is in the prefix' group, has no right else, and reads no
 * file. */
static void the_group_of_the_prefix_may_remove_and_not_read(void **state)
{
    static const gid_t in = SERVICE_GROUP, out = PROJECT_GROUP;
    struct folders *folders = *state;
    struct stat status;

    assert_int_equal(chown(folders->prefix, SERVICE, SERVICE_GROUP), 0);
    assert_int_equal(chmod(folders->prefix, 02755), 0);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK);
    expect_folder(folders, "t/p", 0, 02775);
    expect_folder(folders, "t/p/a", ANN, 02770);
    expect_folder(folders, "t/p/a/checkpoints/1-42/n1/sub/empty", ANN, 02770);
    assert_int_equal(stat(in_shard(folders, "a.bin"), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(status.st_gid, SERVICE_GROUP);
    assert_int_equal(in_child(folders, run_move, "t/p/a"), 0);
    assert_int_equal(in_child(folders, run_collect, &out), WORKER_EXIT_UNAVAILABLE);
    assert_contains(errors, "Permission denied");
    assert_contains(errors, folders->path);
    assert_int_equal(in_child(folders, run_collect, &in), WORKER_EXIT_OK);
    assert_false(exists(folders->prefix, "t/p/a"));
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK);
}

/* Also where the folders above were there before, or somebody made them by another scheme. */
static void the_group_comes_from_the_prefix_alone(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(mkdir(at(folders, "t"), 0755), 0);
    assert_int_equal(chown(folders->prefix, SERVICE, SERVICE_GROUP), 0);
    assert_int_equal(chmod(folders->prefix, 02755), 0);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK);
    expect_folder(folders, "t/p/a", ANN, 02770);
    assert_int_equal(chmod(folders->prefix, 0755), 0);
    assert_int_equal(chown(at(folders, "t"), 0, PROJECT_GROUP), 0);
    assert_int_equal(chmod(at(folders, "t"), 02755), 0);
    remove_tree(at(folders, "t/p"));
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK);
    expect_folder(folders, "t/p", 0, 0755);
    expect_folder(folders, "t/p/a/checkpoints/1-42", ANN, 0700);
}

/* S3-035, D-003: a job's folder is there before it has written anything, as its user's, and holds
 * nothing. */
static void prepare_makes_the_folder_of_a_job_s_checkpoints(void **state)
{
    struct folders *folders = *state;

    for (int i = 0; i < 2; i++) { /* again: it is as it was */
        assert_int_equal(prepare_as(folders, "20001:20001"), WORKER_EXIT_OK);
        expect_folder(folders, "t/p", 0, 0755);
        expect_folder(folders, "t/p/a", ANN, 0700);
        expect_folder(folders, "t/p/a/checkpoints", ANN, 0700);
        assert_uint_equal(count_hidden(at(folders, "t/p/a/checkpoints")), 0);
    }
    assert_int_equal(rmdir(at(folders, "t/p/a/checkpoints")), 0);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK);
    assert_int_equal(prepare_as(folders, "20001:20001"), WORKER_EXIT_OK);
    assert_true(exists(folders->path, "n1/MANIFEST"));
}

/* As in the empty folder where a file system is to be mounted, on which the job has checkpoints. */
static void prepare_makes_nothing_where_a_checkpoint_must_be(void **state)
{
    struct folders *folders = *state;
    char all[256];

    snprintf(all, sizeof(all), "%s", at(folders, "t/p/a/checkpoints"));
    assert_int_equal(
        VERB("prepare", "--prefix", folders->prefix, "--path", all, "--beside", folders->path),
        WORKER_EXIT_UNAVAILABLE);
    assert_value(folders, "cause", "storage_unreachable");
    assert_contains(folders->errors, "which was written before, is below the prefix");
    assert_false(exists(folders->prefix, "t"));
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(
        VERB("prepare", "--prefix", folders->prefix, "--path", all, "--beside", folders->path),
        WORKER_EXIT_OK);
}

/* S3-036 */
static void prepare_refuses_a_folder_that_its_user_may_not_write(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(prepare_as(folders, "20002:20002"), WORKER_EXIT_OK);
    assert_int_equal(prepare_as(folders, "20001:20001"), WORKER_EXIT_REFUSED);
    assert_contains(errors, "t/p/a belongs to user 20002 and not to user 20001, whose job this is "
                            "(mode 0700)");
    assert_int_equal(chmod(at(folders, "t/p/a/checkpoints"), 0500), 0);
    assert_int_equal(prepare_as(folders, "20002:20002"), WORKER_EXIT_UNAVAILABLE);
    assert_contains(errors, "t/p/a/checkpoints belongs to user 20002, mode 0500, and user 20002 "
                            "may not write there");
    assert_int_equal(chown(at(folders, "t/p/a/checkpoints"), ANN, ANN), 0);
    assert_int_equal(prepare_as(folders, "20002:20002"), WORKER_EXIT_UNAVAILABLE);
    assert_contains(errors, "t/p/a/checkpoints belongs to user 20001, mode 0500, and user 20002");
    assert_int_equal(rmdir(at(folders, "t/p/a/checkpoints")), 0);
    assert_int_equal(symlink(folders->source, at(folders, "t/p/a/checkpoints")), 0);
    assert_int_equal(prepare_as(folders, "20002:20002"), WORKER_EXIT_REFUSED);
    assert_uint_equal(count_hidden(folders->source), 0);
}

static void prepare_takes_no_other_folder(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(VERB("prepare", "--prefix", folders->prefix, "--path", folders->path),
                     WORKER_EXIT_REFUSED);
    assert_contains(folders->errors, "it ends in ALLOCATION/checkpoints");
    assert_int_equal(
        VERB("prepare", "--prefix", folders->prefix, "--path", at(folders, "checkpoints")),
        WORKER_EXIT_REFUSED);
    assert_false(exists(folders->prefix, "t"));
    remove_tree(folders->prefix);
    assert_int_equal(prepare_as(folders, "20001:20001"), 98); /* it is not mounted */
    assert_contains(errors, "is missing");
}

/* What the application may do by a group its worker may as well, and no more. */
static void supplementary_groups_count(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(chown(folders->prefix, 0, PROJECT_GROUP), 0);
    assert_int_equal(chmod(folders->prefix, 0770), 0);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_UNAVAILABLE);
    assert_contains(errors, "Permission denied");
    assert_int_equal(put_as(folders, "20001:20001:4,20005"), WORKER_EXIT_OK);
    assert_int_equal(put_as(folders, "20001:20001:4"), WORKER_EXIT_UNAVAILABLE);
}

static int run_put_alone(struct folders *folders, const void *unused)
{
    (void)unused;
    become(ANN, ANN);
    return put_n1(folders);
}

static void an_agent_of_one_user_makes_all_folders_as_that_user(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(chown(folders->prefix, ANN, ANN), 0);
    assert_int_equal(in_child(folders, run_put_alone, NULL), WORKER_EXIT_OK);
    expect_folder(folders, "t/p", ANN, 0755);
    expect_folder(folders, "t/p/a", ANN, 0700);
}

/* Where root is nobody, on a server, the user makes the allocation's folder, if an administrator
 * made the one above. */
static void who_may_not_make_a_folder_is_told_who_has_to(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(in_child(folders, run_put_alone, NULL), WORKER_EXIT_UNAVAILABLE);
    assert_contains(errors, "dst/t: Permission denied; this folder is made by the agent, as root");
    assert_int_equal(mkdir(at(folders, "t"), 0755), 0);
    assert_int_equal(mkdir(at(folders, "t/p"), 0755), 0);
    assert_int_equal(chmod(at(folders, "t/p"), 01777), 0);
    assert_int_equal(in_child(folders, run_put_alone, NULL), WORKER_EXIT_OK);
    expect_folder(folders, "t/p/a", ANN, 0700);
    assert_int_equal(in_child(folders, run_move, "t/p/a"), 0);
}

static int run_put_as_unprivileged(struct folders *folders, const void *as)
{
    become(BOB, BOB);
    return run_put_as(folders, as);
}

static void only_root_becomes_another_user(void **state)
{
    static const char *const wrong[] = {"",       "1",    ":1",    "1:",           "1:2:",   "1:x",
                                        "1:2:3,", "-1:2", "1:2;3", "4294967295:1", "ann:ann"};
    struct folders *folders = *state;

    assert_int_equal(chown(folders->prefix, BOB, BOB), 0);
    assert_int_equal(in_child(folders, run_put_as_unprivileged, "20001:20001"),
                     WORKER_EXIT_REFUSED);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(put_as(folders, wrong[i]), WORKER_EXIT_USAGE);
    assert_contains(errors, "is not UID:GID");
}

/* u::rwx, u:BOB:rwx, g::r-x, m::rwx, o::r-x as the kernel takes it; folders below get it. */
static void an_access_control_list_of_others_is_refused(void **state)
{
    static const struct {
        uint32_t version;
        struct {
            uint16_t tag, rights;
            uint32_t id;
        } entries[5];
    } list = {2,
              {{1, 7, UINT32_MAX},
               {2, 7, BOB},
               {4, 5, UINT32_MAX},
               {16, 7, UINT32_MAX},
               {32, 5, UINT32_MAX}}};
    struct folders *folders = *state;

    assert_int_equal(chown(folders->prefix, SERVICE, SERVICE_GROUP), 0);
    assert_int_equal(chmod(folders->prefix, 02755), 0);
    if (setxattr(folders->prefix, "system.posix_acl_default", &list, sizeof(list), 0) != 0) {
        print_message("# SKIP no access control lists here\n");
        skip();
    }
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_REFUSED);
    assert_contains(errors, "dst/t may be written by others (mode 2775)");
    assert_contains(errors, "setfacl -b on it, and setfacl -k on the prefix");
    assert_int_equal(removexattr(folders->prefix, "system.posix_acl_default"), 0);
    remove_tree(at(folders, "t"));
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK);
}

/* Its name is gone by then: who is to remove the rest by hand finds it by what is said. */
static void what_is_left_of_a_checkpoint_is_named(void **state)
{
    static const gid_t in = SERVICE_GROUP;
    struct folders *folders = *state;
    char own[300];

    assert_int_equal(chown(folders->prefix, SERVICE, SERVICE_GROUP), 0);
    assert_int_equal(chmod(folders->prefix, 02755), 0);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK);
    snprintf(own, sizeof(own), "%s/own", folders->path);
    assert_int_equal(mkdir(own, 0700), 0);
    assert_int_equal(chown(own, ANN, ANN), 0);
    assert_int_equal(chmod(own, 0700), 0);
    write_text(own, "file", "Ann's");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(in_child(folders, run_collect, &in), WORKER_EXIT_UNAVAILABLE);
        assert_contains(errors, "checkpoints/1-42: what is left of it, .1-42.gone.");
        assert_contains(errors, "open folder own: Permission denied");
    }
    assert_false(exists(folders->path, "own"));
}

/* A job that had begun before its prefix had the bit: what it writes from then on can be
 * removed. */
static void a_job_goes_on_with_the_group_that_its_prefix_was_given(void **state)
{
    static const gid_t in = SERVICE_GROUP;
    struct folders *folders = *state;
    char before[256];

    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK);
    snprintf(before, sizeof(before), "%s", at(folders, "t/p/a/checkpoints/1-41"));
    assert_int_equal(rename(folders->path, before), 0);
    assert_int_equal(chown(folders->prefix, SERVICE, SERVICE_GROUP), 0);
    assert_int_equal(chmod(folders->prefix, 02755), 0);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK);
    expect_folder(folders, "t/p/a", ANN, 02770);
    expect_folder(folders, "t/p/a/checkpoints", ANN, 02770);
    assert_int_equal(in_child(folders, run_collect, &in), WORKER_EXIT_OK);
    assert_true(exists(before, "n1"));
}

/* The nodes of a job begin at the same time: one of them gives its owner the folder that another
 * has just looked at. */
static void nodes_that_begin_together_all_get_in(void **state)
{
    struct folders *folders = *state;

    for (int round = 0; round < TOGETHER_ROUNDS; round++) {
        for (int i = 0; i < TOGETHER; i++)
            if (fork() == 0)
                _exit(put_of_node(folders, i));
        for (int i = 0; i < TOGETHER; i++) {
            int status;

            assert_true(wait(&status) > 0);
            assert_int_equal(status, 0);
        }
        remove_tree(at(folders, "t"));
    }
}

/* Who may remove a folder by its group may so after its owner's removal stopped half way. */
static void a_removal_that_does_not_end_leaves_the_group_its_right(void **state)
{
    static const char left[] = "t/p/a/checkpoints/1-42/.n1.tmp.0123456789abcdef";
    struct folders *folders = *state;
    char foreign[288];

    assert_int_equal(chown(folders->prefix, SERVICE, SERVICE_GROUP), 0);
    assert_int_equal(chmod(folders->prefix, 02755), 0);
    assert_int_equal(put_as(folders, "20001:20001"), WORKER_EXIT_OK);
    assert_int_equal(mkdir(at(folders, left), 0770), 0);
    assert_int_equal(chown(at(folders, left), ANN, SERVICE_GROUP), 0);
    assert_int_equal(chmod(at(folders, left), 02770), 0);
    snprintf(foreign, sizeof(foreign), "%s/root-s", at(folders, left));
    assert_int_equal(mkdir(foreign, 0755), 0);
    write_text(foreign, "file", "not Ann's");
    assert_int_not_equal(in_child(folders, run_abandon_as, "20001:20001"), WORKER_EXIT_OK);
    expect_folder(folders, left, ANN, 02770);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, folders_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_allocation_s_folder_is_its_owner_s_and_those_above_are_root_s),
        T(another_user_moves_and_removes_nothing),
        T(an_allocation_s_folder_of_a_stranger_is_refused),
        T(folders_that_are_there_already_are_made_durable_too),
        T(folders_above_that_others_may_change_are_refused),
        T(symbolic_links_on_the_way_are_refused),
        T(a_folder_that_a_killed_one_left_unclaimed_is_given_to_the_owner),
        T(a_folder_of_root_s_that_is_in_use_is_refused),
        T(the_group_of_the_prefix_may_remove_and_not_read),
        T(the_group_comes_from_the_prefix_alone),
        T(prepare_makes_the_folder_of_a_job_s_checkpoints),
        T(prepare_makes_nothing_where_a_checkpoint_must_be),
        T(prepare_refuses_a_folder_that_its_user_may_not_write),
        T(prepare_takes_no_other_folder),
        T(supplementary_groups_count),
        T(an_agent_of_one_user_makes_all_folders_as_that_user),
        T(who_may_not_make_a_folder_is_told_who_has_to),
        T(only_root_becomes_another_user),
        T(an_access_control_list_of_others_is_refused),
        T(what_is_left_of_a_checkpoint_is_named),
        T(a_job_goes_on_with_the_group_that_its_prefix_was_given),
        T(nodes_that_begin_together_all_get_in),
        T(a_removal_that_does_not_end_leaves_the_group_its_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
