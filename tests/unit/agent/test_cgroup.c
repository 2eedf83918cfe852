/* Control groups of jobs: where they can be, who is never moved there, and what the kernel does
 * with them. */
#include "src/agent/node/cgroup.h"
#include "tests/unit/agent/real_job.h"

static void the_mount_of_version_2_is_found_beside_the_others(void **state)
{
    struct cgroup_mount mount;

    (void)state;
    assert_int_equal(cgroup_parse_mounts(
                         "24 1 0:22 / /proc rw shared:5 - proc proc rw\n"
                         "30 23 0:26 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs ro\n"
                         "31 30 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw\n"
                         "32 30 0:28 / /sys/fs/cgroup/memory rw shared:14 - cgroup cgroup rw\n",
                         &mount),
                     0);
    assert_string_equal(mount.folder, "/sys/fs/cgroup/unified");
    assert_string_equal(mount.root, "/");
    assert_int_equal(
        cgroup_parse_mounts("29 1 0:26 /../pod /a\\040b rw - cgroup2 cgroup rw,nsdelegate", &mount),
        0);
    assert_string_equal(mount.folder, "/a b");
    assert_string_equal(mount.root, "/../pod");
    assert_int_equal(cgroup_parse_mounts("29 1 0:26 /x /one rw - cgroup2 none rw\n"
                                         "30 1 0:26 / /whole rw - cgroup2 none rw\n"
                                         "31 1 0:26 / /again rw - cgroup2 none rw\n",
                                         &mount),
                     0);
    assert_string_equal(mount.folder, "/whole");
    assert_int_equal(cgroup_parse_mounts("", &mount), -1);
    assert_int_equal(cgroup_parse_mounts("30 1 - cgroup2 \n", &mount), -1);
    assert_int_equal(cgroup_parse_mounts("30 1 0:1 / /x rw - cgroup cgroup2 rw\n", &mount), -1);
}

static void the_own_group_is_that_of_version_2(void **state)
{
    char path[CGROUP_PATH_BYTES];

    (void)state;
    assert_int_equal(cgroup_parse_own("12:pids:/x\n1:name=systemd:/y\n0::/user.slice/a b\n", path),
                     0);
    assert_string_equal(path, "/user.slice/a b");
    assert_int_equal(cgroup_parse_own("0::/\n", path), 0);
    assert_string_equal(path, "/");
    assert_int_equal(cgroup_parse_own("", path), -1);
    assert_int_equal(cgroup_parse_own("10::/x\n1:name=0::/y:/z\n", path), -1);
}

static void groups_of_schedulers_and_containers_are_known(void **state)
{
    static const char *const theirs[] = {
        "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n",
        "4:memory:/slurm/uid_1000/job_7/step_batch\n0::/\n",
        "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-1f.scope\n",
        "3:cpuset:/torque/12.head\n",
        "0::/pbspro.slice/pbspro-12.slice\n",
        "0::/system.slice/docker-4e5.scope\n",
    };
    static const char *const free_ones[] = {
        "",
        "0::/\n",
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        "1:name=systemd:/system.slice/ssh.service\n0::/system.slice/my-slurm-notes.service\n",
        "no colon\n0:one\n",
    };
    char path[CGROUP_PATH_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++)
        assert_true(cgroup_parse_foreign(theirs[i], path));
    assert_string_equal(path, "/system.slice/docker-4e5.scope");
    for (size_t i = 0; i < sizeof(free_ones) / sizeof(free_ones[0]); i++)
        assert_false(cgroup_parse_foreign(free_ones[i], path));
}

static void a_key_that_cannot_be_is_refused_with_the_next_step(void **state)
{
    struct cgroups cgroups;
    struct err why, err = {0};
    char path[] = "/tmp/test_cgroup.XXXXXX", folder[CGROUP_PATH_BYTES];

    (void)state;
    assert_int_equal(cgroup_open("off", &cgroups, &why, &err), 0);
    assert_string_equal(cgroups.jobs, "");
    assert_int_equal(why.code, ERR_NONE);
    assert_int_equal(cgroup_open("yes", &cgroups, &why, &err), -1);
    assert_string_equal(err.text, "cgroup is \"yes\", not auto, off or the absolute path of a "
                                  "control group");
    assert_non_null(mkdtemp(path));
    assert_int_equal(cgroup_open(path, &cgroups, &why, &err), -1);
    assert_contains(err.text, "is no folder of the cgroup v2 hierarchy; set cgroup to");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(cgroup_open("/tmp/none/there", &cgroups, &why, &err), -1);
    assert_contains(err.text, "make its parent first");
    assert_string_equal(cgroups.jobs, "");
    assert_int_equal(cgroup_place(&cgroups, "j1", "1-42", getpid(), folder, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
}

static void a_check_of_the_key_makes_nothing(void **state)
{
    char path[] = "/tmp/test_cgroup.XXXXXX", below[64];
    struct err err = {0};

    (void)state;
    assert_int_equal(cgroup_check("off", &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    assert_int_equal(cgroup_check("jobs", &err), -1);
    assert_contains(err.text, "not auto, off or the absolute path");
    assert_non_null(mkdtemp(path));
    snprintf(below, sizeof(below), "%s/below/", path);
    assert_int_equal(cgroup_check(below, &err), -1);
    assert_contains(err.text, "is no folder of the cgroup v2 hierarchy");
    assert_int_equal(rmdir(path), 0);
}

static void put(const char *folder, const char *file, const char *text)
{
    char path[256];
    FILE *stream;

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    stream = fopen(path, "we");
    assert_non_null(stream);
    fputs(text, stream);
    fclose(stream);
}

/* Who moved out of it would be rid of it. */
static void a_limit_is_found_in_the_group_and_above_it(void **state)
{
    char root[] = "/tmp/test_cgroup.XXXXXX", user[64], session[64], jobs[96], command[96];
    char folder[CGROUP_PATH_BYTES];

    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(user, sizeof(user), "%s/user", root);
    snprintf(session, sizeof(session), "%s/user/session", root);
    snprintf(jobs, sizeof(jobs), "%s/agent/jobs", root);
    assert_int_equal(mkdir(user, 0755), 0);
    assert_int_equal(mkdir(session, 0755), 0);
    put(session, "memory.max", "max\n");
    put(session, "cpu.max", "max 100000\n");
    put(user, "memory.high", "max\n");
    strcpy(folder, session);
    assert_false(cgroup_limited(folder, jobs));
    put(user, "memory.high", "1073741824\n");
    strcpy(folder, session);
    assert_true(cgroup_limited(folder, jobs));
    assert_string_equal(folder, user);
    put(session, "cpu.max", "50000 100000\n");
    strcpy(folder, session);
    assert_true(cgroup_limited(folder, jobs));
    assert_string_equal(folder, session);
    strcpy(folder, session); /* it holds for the jobs' as well */
    snprintf(jobs, sizeof(jobs), "%s/agent/jobs", session);
    assert_false(cgroup_limited(folder, jobs));
    snprintf(command, sizeof(command), "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

/* Where the agent's own group is not given to it, jobs get none; that is no error. */
static void auto_without_the_right_gives_no_groups_and_says_why(void **state)
{
    struct cgroups cgroups;
    struct err why, err = {0};

    (void)state;
    assert_int_equal(cgroup_open("auto", &cgroups, &why, &err), 0);
    if (cgroups.jobs[0] != '\0') {
        print_message("# SKIP this test's own group is delegated\n");
        skip();
    }
    assert_true(why.code != ERR_NONE);
    assert_true(why.text[0] != '\0');
}

static void a_jobs_group_is_made_frozen_killed_and_removed(void **state)
{
    char parent[CGROUP_PATH_BYTES], folder[CGROUP_PATH_BYTES], nested[CGROUP_PATH_BYTES + 8];
    struct cgroups cgroups, again;
    struct err err = {0}, why;
    struct real_job job;
    pid_t pids[8];
    uint64_t count;
    pid_t pid;

    (void)state;
    if (!real_cgroups(&cgroups, parent))
        skip();
    real_open(&job, NULL);
    pid = real_start(&job, "plain", NULL);
    assert_int_equal(cgroup_place(&cgroups, "a.b-c", "1-42", pid, folder, &err), 0);
    assert_contains(folder, "/jobs/a.b-c.1-42");
    assert_int_equal(cgroup_place(&cgroups, "a.b-c", "1-42", pid, folder, &err), 0); /* again */
    assert_int_equal(cgroup_pids(folder, pids, 8), 1);
    assert_int_equal(pids[0], pid);
    assert_int_equal(cgroup_remove(folder, &err), -1);
    assert_int_equal(err.code, ERR_LOCKED);

    assert_int_equal(cgroup_freeze(folder, true, &err), 0);
    assert_true(cgroup_wait(folder, true, REAL_PATIENCE_MS));
    assert_false(cgroup_wait(folder, false, 1));
    count = real_counted(&job);
    real_wait_ms(50);
    assert_int_equal(real_counted(&job), count);
    assert_int_equal(cgroup_freeze(folder, false, &err), 0);
    assert_true(cgroup_wait(folder, false, REAL_PATIENCE_MS));

    snprintf(nested, sizeof(nested), "%s/sub", folder);
    assert_int_equal(mkdir(nested, 0755), 0);
    assert_int_equal(cgroup_kill(folder, &err), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(cgroup_remove(folder, &err), 0);
    assert_int_equal(access(folder, F_OK), -1);
    assert_int_equal(cgroup_remove(folder, &err), 0); /* it is gone already */
    assert_int_equal(cgroup_freeze(folder, true, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);

    assert_int_equal(mkdir(folder, 0755), 0);                      /* left by an agent that ended */
    assert_int_equal(cgroup_open(parent, &again, &why, &err), -1); /* it still runs */
    assert_int_equal(err.code, ERR_LOCKED);
    assert_contains(err.text, "is another agent's, which runs: give each agent a group of its own");
    assert_int_equal(access(folder, F_OK), 0);
    assert_int_equal(close(cgroups.lock), 0);
    assert_int_equal(cgroup_open(parent, &again, &why, &err), 0);
    assert_int_equal(access(folder, F_OK), -1);
    assert_int_equal(cgroup_place(&cgroups, "j1", "1-42", pid, folder, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    real_end(&job);
    real_cgroups_end(&cgroups, parent);
}

static void a_threaded_subtree_is_no_place_for_jobs(void **state)
{
    char parent[CGROUP_PATH_BYTES], threaded[CGROUP_PATH_BYTES + 16];
    struct cgroups cgroups, none;
    struct err err = {0}, why;

    (void)state;
    if (!real_cgroups(&cgroups, parent))
        skip();
    assert_int_equal(cgroup_check(parent, &err), 0);
    snprintf(threaded, sizeof(threaded), "%s/threaded", parent);
    assert_int_equal(mkdir(threaded, 0755), 0);
    put(threaded, "cgroup.type", "threaded");
    assert_int_equal(cgroup_open(threaded, &none, &why, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    assert_contains(err.text, "is of a threaded subtree (cgroup.type: threaded)");
    assert_int_equal(rmdir(threaded), 0);
    real_cgroups_end(&cgroups, parent);
}

/* The kernel takes a moment to let go of processes that have ended. */
static bool removed_soon(const char *folder)
{
    struct err err;

    for (unsigned i = 0; i < 5000; i++) {
        if (cgroup_remove(folder, &err) == 0)
            return true;
        real_wait_ms(1);
    }
    return false;
}

/* Of an agent that died between the move and its journal, or that lost its journal. */
static void what_is_left_of_another_run_is_killed_and_a_group_is_found_again(void **state)
{
    char parent[CGROUP_PATH_BYTES], first[CGROUP_PATH_BYTES], second[CGROUP_PATH_BYTES];
    char other[CGROUP_PATH_BYTES], found[CGROUP_PATH_BYTES];
    struct cgroups cgroups;
    struct err err = {0};
    struct real_job job;
    pid_t left, beside, next;

    (void)state;
    if (!real_cgroups(&cgroups, parent))
        skip();
    real_open(&job, NULL);
    left = real_start(&job, "plain", NULL);
    beside = real_start(&job, "plain", NULL);
    next = real_start(&job, "plain", NULL);
    assert_int_equal(cgroup_find("j1", "1-1", left, found), -1);
    assert_int_equal(cgroup_place(&cgroups, "j1", "1-1", left, first, &err), 0);
    assert_int_equal(cgroup_find("j1", "1-1", left, found), 0);
    assert_string_equal(found, first);
    assert_int_equal(cgroup_find("j1", "1-2", left, found), -1);
    assert_int_equal(cgroup_place(&cgroups, "j1.x", "1-1", beside, other, &err), 0);
    assert_int_equal(cgroup_place(&cgroups, "j1", "1-2", next, second, &err), 0);
    assert_int_equal(waitpid(left, NULL, 0), left);
    assert_int_equal(kill(beside, 0), 0); /* another allocation's */
    assert_int_equal(cgroup_find("j1.x", "1-1", beside, found), 0);
    assert_int_equal(cgroup_remove(first, &err), 0);
    real_end(&job);
    assert_true(removed_soon(second));
    assert_true(removed_soon(other));
    real_cgroups_end(&cgroups, parent);
}

/* A scheduler accounts for and limits a job by its group. */
static void a_process_in_a_schedulers_group_is_not_moved(void **state)
{
    char parent[CGROUP_PATH_BYTES], slurm[CGROUP_PATH_BYTES], folder[CGROUP_PATH_BYTES];
    char nested[CGROUP_PATH_BYTES + 8];
    struct cgroups cgroups, theirs;
    struct err err = {0};
    struct real_job job;
    pid_t pid;

    (void)state;
    if (!real_cgroups(&cgroups, parent))
        skip();
    real_open(&job, NULL);
    pid = real_start(&job, "plain", NULL);
    snprintf(theirs.jobs, sizeof(theirs.jobs), "%s", cgroups.jobs);
    assert_int_equal(cgroup_place(&theirs, "slurm_job", "1-1", pid, slurm, &err), 0);
    assert_int_equal(cgroup_place(&cgroups, "j1", "1-42", pid, folder, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    assert_contains(err.text, "its job is stopped by signals");
    snprintf(nested, sizeof(nested), "%s/j1.1-42", cgroups.jobs);
    assert_int_equal(access(nested, F_OK), -1);
    real_end(&job);
    real_cgroups_end(&cgroups, parent);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_mount_of_version_2_is_found_beside_the_others, real_teardown),
        cmocka_unit_test_teardown(the_own_group_is_that_of_version_2, real_teardown),
        cmocka_unit_test_teardown(groups_of_schedulers_and_containers_are_known, real_teardown),
        cmocka_unit_test_teardown(a_key_that_cannot_be_is_refused_with_the_next_step,
                                  real_teardown),
        cmocka_unit_test_teardown(a_check_of_the_key_makes_nothing, real_teardown),
        cmocka_unit_test_teardown(a_limit_is_found_in_the_group_and_above_it, real_teardown),
        cmocka_unit_test_teardown(auto_without_the_right_gives_no_groups_and_says_why,
                                  real_teardown),
        cmocka_unit_test_teardown(a_jobs_group_is_made_frozen_killed_and_removed, real_teardown),
        cmocka_unit_test_teardown(a_process_in_a_schedulers_group_is_not_moved, real_teardown),
        cmocka_unit_test_teardown(a_threaded_subtree_is_no_place_for_jobs, real_teardown),
        cmocka_unit_test_teardown(what_is_left_of_another_run_is_killed_and_a_group_is_found_again,
                                  real_teardown),
    };

    real_main(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
