/* One process against a job, by itself and those above it alone: the same as what a look at all
 * processes says (node/job_processes.h). */
#include "src/agent/node/job_process_look.h"

#include "tests/unit/agent/real_job.h"

struct looked {
    unsigned count;
    enum process_verdict verdict;
    uint64_t start_ticks;
};

static void take_verdict(void *data, enum process_verdict verdict, uint64_t start_ticks)
{
    struct looked *looked = data;

    *looked = (struct looked){looked->count + 1, verdict, start_ticks};
}

static struct looked look_at(const struct real_job *job, pid_t pid)
{
    struct looked looked = {.count = 0};
    uv_loop_t loop;

    assert_int_equal(uv_loop_init(&loop), 0);
    assert_non_null(job_process_look_start(&loop, &job->identity, pid, take_verdict, &looked));
    assert_int_equal(looked.count, 0);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(looked.count, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
    return looked;
}

static void wait_for_processes(const struct real_job *job, size_t wanted)
{
    const uint64_t end_us = real_now_us() + 10000000;
    size_t ignoring;

    while (real_identity(job, &ignoring) != wanted && real_now_us() < end_us)
        real_wait_ms(10);
    assert_int_equal(real_identity(job, &ignoring), wanted);
}

/* Ranks in groups of their own, a wrapper script, data loaders; and those of a job beside it. */
static void what_a_launcher_has_started_belongs_and_nothing_else(void **state)
{
    struct real_job job, other;
    struct job_processes table;
    size_t processes = 0;

    (void)state;
    real_open(&job, NULL);
    real_start(&job, "launcher", NULL);
    real_open(&other, NULL);
    real_start(&other, "launcher", NULL);
    wait_for_processes(&job, 6);
    wait_for_processes(&other, 6);
    job_processes_init(&table);
    job_processes_look(&table, &job.identity, PROCESS_ANEW);
    for (size_t i = 0; i < table.count; i++) {
        const struct job_process *process = &table.items[i];
        if (!process->belongs)
            continue;
        struct looked looked = look_at(&job, process->stat.pid);
        assert_int_equal(looked.verdict, VERDICT_BELONGS);
        assert_int_equal(looked.start_ticks, process->stat.start_ticks);
        assert_int_equal(look_at(&other, process->stat.pid).verdict, VERDICT_STRANGER);
        processes++;
    }
    job_processes_close(&table);
    assert_int_equal(processes, 6);
    assert_int_equal(look_at(&job, getpid()).verdict, VERDICT_STRANGER);
    assert_int_equal(look_at(&job, 1).verdict, VERDICT_ENDED);
    real_end(&job);
    real_end(&other);
}

static void what_has_ended_is_nobody(void **state)
{
    struct real_job job;
    pid_t zombie;

    (void)state;
    real_open(&job, NULL);
    real_start(&job, "plain", NULL);
    zombie = fork();
    if (zombie == 0)
        _exit(0);
    real_wait_ms(100);
    assert_int_equal(look_at(&job, zombie).verdict, VERDICT_ENDED);
    assert_int_equal(waitpid(zombie, NULL, 0), zombie);
    assert_int_equal(look_at(&job, zombie).verdict, VERDICT_ENDED);
    real_end(&job);
}

/* Its parent has gone: the environment says it. */
static void an_orphan_of_the_job_belongs(void **state)
{
    struct real_job job;
    pid_t orphan;

    (void)state;
    real_open(&job, NULL);
    real_start(&job, "plain", NULL);
    orphan = real_start(&job, "plain", NULL); /* of this test, in a group of its own */
    wait_for_processes(&job, 2);
    assert_int_equal(look_at(&job, orphan).verdict, VERDICT_BELONGS);
    real_end(&job);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_a_launcher_has_started_belongs_and_nothing_else,
                                  real_teardown),
        cmocka_unit_test_teardown(what_has_ended_is_nobody, real_teardown),
        cmocka_unit_test_teardown(an_orphan_of_the_job_belongs, real_teardown),
    };

    real_main(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
