/* A job of real processes stands still, goes on and ends as a whole, by its control group and by
 * signals. */
#include "tests/unit/agent/real_job.h"

static struct cgroups cgroups;
static char parent[CGROUP_PATH_BYTES];
static bool have_cgroups;

/* ---- what is the same for each kind of job ---- */

static void expect_running(const struct real_job *job)
{
    const uint64_t count = real_counted(job);

    for (int i = 0; i < REAL_PATIENCE_MS && real_counted(job) < count + 20; i++)
        real_wait_ms(1);
    assert_true(real_counted(job) >= count + 20);
}

/* Among them one that ignores SIGTERM. */
static void expect_processes(const struct real_job *job, size_t wanted)
{
    const uint64_t end_us = real_now_us() + REAL_PATIENCE_MS * 1000;
    size_t ignoring;

    while (real_now_us() < end_us && (real_identity(job, &ignoring) != wanted || ignoring != 1))
        real_wait_ms(5);
    assert_int_equal(real_identity(job, &ignoring), wanted);
    real_reap();
}

static void expect_still(const struct real_job *job)
{
    const uint64_t count = real_counted(job);

    real_wait_ms(100);
    assert_int_equal(real_counted(job), count);
}

static struct still_result expect_whole(const struct real_job *job, enum still_way way,
                                        const char *what)
{
    struct still_result result = real_still(job, way);

    print_message("# %s: %zu processes, %u rounds, %.1f ms\n", what, result.count, result.rounds,
                  (double)result.took_us / 1000);
    if (!result.whole)
        fail_msg("process %d (%s) is stuck", (int)result.stuck, result.stuck_name);
    return result;
}

static void stop_and_go(const char *role, bool by_cgroup)
{
    struct real_job job;
    int one_round = 0;

    if (by_cgroup && !have_cgroups)
        skip();
    real_open(&job, by_cgroup ? cgroups.jobs : NULL);
    real_start(&job, role, NULL);
    expect_running(&job);
    real_wait_ms(100);
    for (int i = 0; i < 3; i++) {
        struct still_result result = expect_whole(&job, STILL_FREEZE, "freeze");
        assert_true(by_cgroup == (result.count == 0)); /* of those that got a signal */
        expect_still(&job);
        /* by an agent that was started anew: that one round found all stopped says nothing of those
         * that were started while it looked; a stranger that ends meanwhile costs another one */
        result = expect_whole(&job, STILL_FREEZE, "again");
        assert_true(by_cgroup || result.rounds >= 2);
        one_round += result.rounds == 1;
        expect_whole(&job, STILL_THAW, "thaw");
        expect_running(&job);
    }
    /* a group needs one round, unless a stranger of this machine ends while it is read */
    assert_int_equal(one_round > 0, by_cgroup);
    expect_whole(&job, STILL_FREEZE, "freeze");
    real_end(&job); /* out of its stillness */
}

static void a_job_that_forks_100_times_a_second_stands_still_by_signals(void **state)
{
    (void)state;
    stop_and_go("forks", false);
}

static void a_job_that_forks_100_times_a_second_stands_still_by_its_group(void **state)
{
    (void)state;
    stop_and_go("forks", true);
}

static void a_job_that_spawns_100_times_a_second_stands_still_by_signals(void **state)
{
    (void)state;
    stop_and_go("spawns", false);
}

static void a_job_that_spawns_100_times_a_second_stands_still_by_its_group(void **state)
{
    (void)state;
    stop_and_go("spawns", true);
}

/* Who spawns waits in the kernel, deaf to signals, for the child that is stopped before it runs its
 * program. */
static void a_job_that_is_about_to_start_a_program_stands_still_by_signals(void **state)
{
    (void)state;
    stop_and_go("vforks", false);
}

static void a_job_that_is_about_to_start_a_program_stands_still_by_its_group(void **state)
{
    (void)state;
    stop_and_go("vforks", true);
}

/* In sessions of their own, with threads whose first one has ended, and deaf to what can be
 * ignored. */
static void many_processes_in_many_groups_stand_still_by_signals(void **state)
{
    (void)state;
    stop_and_go("many", false);
}

static void many_processes_in_many_groups_stand_still_by_their_group(void **state)
{
    (void)state;
    stop_and_go("many", true);
}

/* A daemon of a scheduler starts tasks outside of the group that the main process is in. */
static void what_is_outside_of_the_group_stands_still_as_well(void **state)
{
    struct still_result result;
    struct job_identity inside;
    struct real_job job;

    (void)state;
    if (!have_cgroups)
        skip();
    real_open(&job, cgroups.jobs);
    real_start(&job, "plain", NULL);
    inside = job.identity;
    job.identity.cgroup[0] = '\0';
    real_start(&job, "ignores", NULL);
    job.identity = inside;
    expect_running(&job);
    result = expect_whole(&job, STILL_FREEZE, "freeze");
    assert_int_equal(result.count, 1); /* by signals */
    expect_still(&job);
    expect_whole(&job, STILL_THAW, "thaw");
    expect_running(&job);
    real_end(&job);
}

/* The wait of a freezer of version 1 is one that no signal ends, as that for a dead file server. */
static void a_process_that_no_signal_reaches_is_named_at_the_limit(void **state)
{
    const char *freezer = "/sys/fs/cgroup/freezer";
    char folder[64], command[256];
    struct still_result result;
    struct real_job job;
    pid_t pid;

    (void)state;
    snprintf(folder, sizeof(folder), "%s/ckpt-test-%d", freezer, (int)getpid());
    if (access("/sys/fs/cgroup/freezer/tasks", W_OK) != 0 || mkdir(folder, 0755) != 0) {
        print_message("# SKIP no freezer of version 1\n");
        skip();
    }
    real_open(&job, NULL);
    real_start(&job, "plain", NULL);
    pid = real_start(&job, "plain", NULL);
    expect_running(&job);
    snprintf(command, sizeof(command), "echo %d > %s/tasks && echo FROZEN > %s/freezer.state",
             (int)pid, folder, folder);
    assert_int_equal(system(command), 0);
    result = real_still(&job, STILL_FREEZE);
    assert_false(result.whole);
    assert_int_equal(result.stuck, pid);
    assert_true(result.took_us >= STILL_LIMIT_MS * 1000 &&
                result.took_us < 2 * STILL_LIMIT_MS * 1000);
    /* its stop is pending: the thaw takes it back, so it goes on when its wait ends */
    expect_whole(&job, STILL_THAW, "thaw");
    expect_running(&job);
    snprintf(command, sizeof(command), "echo THAWED > %s/freezer.state", folder);
    assert_int_equal(system(command), 0);
    real_wait_ms(50);
    kill(job.identity.group, SIGKILL);
    real_wait_ms(20);
    expect_running(&job); /* that one alone */
    real_end(&job);
    for (int i = 0; i < REAL_PATIENCE_MS && rmdir(folder) != 0; i++)
        real_wait_ms(1);
    assert_int_equal(access(folder, F_OK), -1);
}

static void a_signal_reaches_each_process_once(void **state)
{
    struct still_result result;
    struct real_job job;

    (void)state;
    real_open(&job, NULL);
    real_start(&job, "many", NULL);
    expect_processes(&job, 66);
    result = real_still(&job, STILL_END);
    assert_true(result.whole);
    assert_int_equal(result.rounds, 1);
    assert_int_equal(result.count, 66);
    expect_processes(&job, 1);
    expect_running(&job); /* the one that ignores it */
    result = real_still(&job, STILL_END);
    assert_int_equal(result.count, 1);
    real_end(&job);
}

/* mpirun that is told to end kills its ranks a second later, whatever they still write. */
static void ranks_have_their_time_before_their_launcher_is_told_to_end(void **state)
{
    struct still_result result;
    struct real_job job;

    (void)state;
    real_open(&job, NULL);
    real_start(&job, "patient", NULL);
    for (int i = 0; i < REAL_PATIENCE_MS && real_counted(&job) < 3; i++)
        real_wait_ms(1);
    assert_int_equal(real_counted(&job), 3);
    real_wait_ms(50);
    result = real_still(&job, STILL_END);
    assert_true(result.whole);
    assert_true(result.took_us >= 300000);
    for (int i = 0; i < REAL_PATIENCE_MS && atomic_load(&job.count[2]) == 0; i++)
        real_wait_ms(1);
    assert_int_equal(atomic_load(&job.count[1]), 2); /* both saved what they had */
    assert_int_equal(atomic_load(&job.count[2]), 3); /* ... before the launcher heard of it */
    real_end(&job);
}

/* Who has cleared its environment and left the group is found while its parent lives, and
 * remembered when it is stopped. */
static void who_was_stopped_goes_on_when_its_parents_are_dead(void **state)
{
    struct real_job job;

    (void)state;
    real_open(&job, NULL);
    real_start(&job, "clears", NULL);
    expect_running(&job);
    expect_whole(&job, STILL_FREEZE, "freeze");
    expect_still(&job);
    assert_int_equal(real_found.known_count, 1);
    kill(job.identity.group, SIGKILL);
    real_wait_ms(20);
    real_reap();
    job.identity = real_found;
    *real_left_of(&job) = job.identity;
    expect_whole(&job, STILL_THAW, "thaw");
    expect_running(&job);
    real_end(&job);
}

/* S3-017: a command that saved the job from outside has left it stopped (echkpnt -s). */
static void a_job_that_was_stopped_before_goes_on(bool by_cgroup)
{
    struct real_job job;

    if (by_cgroup && !have_cgroups)
        skip();
    real_open(&job, by_cgroup ? cgroups.jobs : NULL);
    real_start(&job, "plain", NULL);
    expect_running(&job);
    kill(-job.identity.group, SIGSTOP);
    real_wait_ms(50);
    expect_still(&job);
    expect_whole(&job, STILL_FREEZE, "freeze");
    expect_whole(&job, STILL_THAW, "thaw");
    expect_running(&job);
    real_end(&job);
}

static void who_was_stopped_before_the_freeze_goes_on_by_signals(void **state)
{
    (void)state;
    a_job_that_was_stopped_before_goes_on(false);
}

static void who_was_stopped_before_the_freeze_goes_on_by_the_group(void **state)
{
    (void)state;
    a_job_that_was_stopped_before_goes_on(true);
}

/* ---- a change of mind ---- */

struct turning {
    struct job_still *still;
    struct still_result result;
    int done;
};

static void turned(void *data, const struct still_result *result)
{
    struct turning *turning = data;

    turning->result = *result;
    turning->done++;
}

static void a_freeze_that_is_given_up_leaves_nobody_stopped(void **state)
{
    struct turning turning = {.done = 0};
    struct real_job job;
    uv_loop_t loop;

    (void)state;
    real_open(&job, NULL);
    real_start(&job, "forks", NULL);
    expect_running(&job);
    assert_int_equal(uv_loop_init(&loop), 0);
    turning.still = still_start(&loop, &job.identity, STILL_FREEZE, turned, &turning);
    uv_run(&loop, UV_RUN_ONCE); /* a round at most */
    assert_int_equal(turning.done, 0);
    still_change(turning.still, STILL_THAW);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(turning.done, 1);
    assert_true(turning.result.whole);
    expect_running(&job);

    turning.still = still_start(&loop, &job.identity, STILL_FREEZE, turned, &turning);
    still_change(turning.still, STILL_THAW);
    still_detach(turning.still); /* it goes on to its end all the same */
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(turning.done, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
    expect_running(&job);
    real_end(&job);
}

static int open_groups(void **state)
{
    (void)state;
    have_cgroups = real_cgroups(&cgroups, parent);
    return 0;
}

static int close_groups(void **state)
{
    (void)state;
    if (have_cgroups)
        real_cgroups_end(&cgroups, parent);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_job_that_forks_100_times_a_second_stands_still_by_signals,
                                  real_teardown),
        cmocka_unit_test_teardown(a_job_that_forks_100_times_a_second_stands_still_by_its_group,
                                  real_teardown),
        cmocka_unit_test_teardown(a_job_that_spawns_100_times_a_second_stands_still_by_signals,
                                  real_teardown),
        cmocka_unit_test_teardown(a_job_that_spawns_100_times_a_second_stands_still_by_its_group,
                                  real_teardown),
        cmocka_unit_test_teardown(a_job_that_is_about_to_start_a_program_stands_still_by_signals,
                                  real_teardown),
        cmocka_unit_test_teardown(a_job_that_is_about_to_start_a_program_stands_still_by_its_group,
                                  real_teardown),
        cmocka_unit_test_teardown(many_processes_in_many_groups_stand_still_by_signals,
                                  real_teardown),
        cmocka_unit_test_teardown(many_processes_in_many_groups_stand_still_by_their_group,
                                  real_teardown),
        cmocka_unit_test_teardown(what_is_outside_of_the_group_stands_still_as_well, real_teardown),
        cmocka_unit_test_teardown(a_process_that_no_signal_reaches_is_named_at_the_limit,
                                  real_teardown),
        cmocka_unit_test_teardown(a_signal_reaches_each_process_once, real_teardown),
        cmocka_unit_test_teardown(ranks_have_their_time_before_their_launcher_is_told_to_end,
                                  real_teardown),
        cmocka_unit_test_teardown(who_was_stopped_goes_on_when_its_parents_are_dead, real_teardown),
        cmocka_unit_test_teardown(who_was_stopped_before_the_freeze_goes_on_by_signals,
                                  real_teardown),
        cmocka_unit_test_teardown(who_was_stopped_before_the_freeze_goes_on_by_the_group,
                                  real_teardown),
        cmocka_unit_test_teardown(a_freeze_that_is_given_up_leaves_nobody_stopped, real_teardown),
    };

    real_main(argc, argv);
    return cmocka_run_group_tests(tests, open_groups, close_groups);
}
