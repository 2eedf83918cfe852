/* The ranks of jobs of real processes, and who of them hears the signal. */
#include "src/agent/node/asked.h"
#include "src/agent/node/ranks.h"
#include "tests/unit/agent/real_job.h"

static struct ranks_seen seen;

static void take_seen(void *data, const struct ranks_seen *result)
{
    seen = *result;
    *(int *)data += 1;
}

static void look(const struct real_job *real, bool detach)
{
    struct ranks_look *look;
    uv_loop_t loop;
    int done = 0;

    assert_int_equal(uv_loop_init(&loop), 0);
    look = ranks_start(&loop, &real->identity, SIGUSR1, take_seen, &done);
    if (detach)
        ranks_detach(look);
    ranks_detach(NULL);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(done, detach ? 0 : 1);
}

/* A launcher, a wrapper script, data loaders, and a rank that somebody else has started. */
static void the_ranks_of_a_real_job_are_found(void **state)
{
    struct real_job real;
    uint64_t end_us = real_now_us() + REAL_PATIENCE_MS * 1000, begun_us;
    pid_t launcher, outside;
    struct proc_stat stat;
    size_t ready = 0, ignoring;

    (void)state;
    real_open(&real, NULL);
    launcher = real_start(&real, "launcher", NULL);
    outside = real_start(&real, "rank", "6");
    while (ready < 3 && real_now_us() < end_us) {
        real_wait_ms(5);
        look(&real, false);
        ready = 0;
        for (size_t i = 0; i < seen.count; i++)
            ready += seen.items[i].catches_usr1 && !seen.items[i].launcher ? 1 : 0;
        if (real_identity(&real, &ignoring) != 8) /* with a loader for each, and the script */
            ready = 0;
    }
    begun_us = real_now_us();
    look(&real, false);
    print_message("# a look takes %.1f ms\n", (double)(real_now_us() - begun_us) / 1000);
    assert_int_equal(seen.count, 4);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(seen.items[i].number, 4 + i);
        assert_int_equal(seen.items[i].twin, 0);
        assert_true(seen.items[i].catches_usr1);
        assert_false(seen.items[i].catches_usr2);
        assert_true(seen.items[i].start_ticks == real_start_ticks(seen.items[i].pid));
    }
    assert_int_equal(proc_read_stat(seen.items[0].pid, &stat), 0);
    assert_int_equal(stat.parent, launcher);
    assert_int_equal(proc_read_stat(seen.items[1].pid, &stat), 0);
    assert_int_equal(proc_read_stat(stat.parent, &stat), 0);
    assert_string_equal(stat.name, "sh");
    assert_int_equal(seen.items[1].local, 1);
    assert_int_equal(seen.items[1].local_count, 2);
    assert_int_equal(seen.items[2].pid, outside);
    assert_int_equal(seen.items[3].pid, launcher);
    assert_true(seen.items[3].launcher);
    look(&real, true);
    real_end(&real);
}

/* One that has executed another program since would die of it, and is spared. */
static void signalled_is_who_still_catches_it(const struct real_job *real, pid_t shell)
{
    struct machine_ops machine;
    struct asked asked = {.machine = &machine, .group = real->identity.group, .seen = &seen};
    struct err err = {0};

    machine_uv_ops(NULL, &machine);
    seen.hearers[seen.hearer_count++] = (struct process_id){shell, real_start_ticks(shell)};
    assert_int_equal(asked_node.job_signal(&asked, SIGUSR1, &err), 0);
    seen.hearers[0] = seen.hearers[1];
    seen.hearer_count = 1;
    assert_int_equal(asked_node.job_signal(&asked, SIGUSR1, &err), -1);
    assert_non_null(strstr(err.text, "does not catch signal 10 any more"));
    assert_true(machine_alive(&machine, shell, real_start_ticks(shell)));
}

/* Below a shell, with a forked child, one whose parent has ended, and a program that would die. */
static void of_a_real_program_it_alone_hears(void **state)
{
    struct real_job real;
    uint64_t end_us = real_now_us() + REAL_PATIENCE_MS * 1000;
    struct proc_stat stat;
    size_t ignoring;
    pid_t shell;

    (void)state;
    real_open(&real, NULL);
    shell = real_start(&real, "below-shell", NULL);
    do {
        real_wait_ms(5);
        look(&real, false);
    } while ((real_identity(&real, &ignoring) != 5 || seen.hearer_count == 0) &&
             real_now_us() < end_us);
    look(&real, false);
    assert_int_equal(seen.count, 0);
    assert_int_equal(seen.hearer_count, 1);
    assert_int_equal(proc_read_stat(seen.hearers[0].pid, &stat), 0);
    assert_int_equal(stat.parent, shell);
    assert_true(stat.executed);
    assert_true(stat.image != 0);
    signalled_is_who_still_catches_it(&real, shell);
    real_end(&real);
}

/* ---- several jobs ---- */

enum { LOOKS = 6 };

struct shared_look {
    const struct real_job *job;
    uv_loop_t *loop;
    unsigned left;
    size_t ranks; /* of the last look */
    pid_t strange;
};

static void begin_look(struct shared_look *shared);

static void take_shared(void *data, const struct ranks_seen *result)
{
    struct shared_look *shared = data;

    shared->ranks = 0;
    for (size_t i = 0; i < result->count; i++) {
        struct proc_stat stat;
        const pid_t main_process = shared->job->identity.group;
        pid_t at = result->items[i].pid;
        shared->ranks += result->items[i].launcher ? 0 : 1;
        while (at > 1 && at != main_process && proc_read_stat(at, &stat) == 0)
            at = stat.parent;
        if (at != main_process)
            shared->strange = result->items[i].pid;
    }
    begin_look(shared);
}

static void begin_look(struct shared_look *shared)
{
    if (shared->left == 0)
        return;
    shared->left--;
    assert_non_null(
        ranks_start(shared->loop, &shared->job->identity, SIGUSR1, take_shared, shared));
}

/* All of them by one table, on several threads, while others begin and end. */
static void jobs_that_are_looked_at_together_have_their_own_ranks(void **state)
{
    struct real_job jobs[2], busy;
    struct shared_look looks[2 * 3];
    uint64_t end_us = real_now_us() + REAL_PATIENCE_MS * 1000;
    uv_loop_t loop;
    size_t ready = 0, ignoring;

    (void)state;
    real_open(&busy, NULL);
    real_start(&busy, "forks", NULL);
    for (size_t i = 0; i < ARRAY_COUNT(jobs); i++) {
        real_open(&jobs[i], NULL);
        real_start(&jobs[i], "launcher", NULL);
    }
    while (ready < ARRAY_COUNT(jobs) && real_now_us() < end_us) {
        ready = 0;
        for (size_t i = 0; i < ARRAY_COUNT(jobs); i++)
            ready += real_identity(&jobs[i], &ignoring) == 6 ? 1 : 0;
    }
    assert_int_equal(uv_loop_init(&loop), 0);
    for (size_t i = 0; i < ARRAY_COUNT(looks); i++) {
        looks[i] = (struct shared_look){.job = &jobs[i % 2], .loop = &loop, .left = LOOKS};
        begin_look(&looks[i]);
    }
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    for (size_t i = 0; i < ARRAY_COUNT(looks); i++) {
        assert_int_equal(looks[i].strange, 0);
        assert_int_equal(looks[i].ranks, 2);
    }
    real_end(&busy);
    real_end(&jobs[0]);
    real_end(&jobs[1]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_ranks_of_a_real_job_are_found, real_teardown),
        cmocka_unit_test_teardown(of_a_real_program_it_alone_hears, real_teardown),
        cmocka_unit_test_teardown(jobs_that_are_looked_at_together_have_their_own_ranks,
                                  real_teardown),
    };

    real_main(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
