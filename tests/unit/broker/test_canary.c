/* The checks of a canary: each holds for what is usual and fails by what it names, alone. U-003. */
#include "src/broker/daemon/canary.h"
#include "tests/support/test.h"

static struct canary_sample begin, now;
static struct canary_result results[CANARY_CHECK_COUNT];

static int open_samples(void **state)
{
    (void)state;
    memset(&begin, 0, sizeof(begin));
    begin.memory_bytes = UINT64_C(100) << 20;
    begin.jobs_running = 20;
    begin.leader_changes = 7;
    begin.lost_peers = 3;
    now = begin;
    return 0;
}

/* "": all hold; else the names of those that do not. */
static void expect_failed(const char *names)
{
    char failed[256] = "";
    bool all = canary_look(&begin, &now, results);

    for (size_t i = 0; i < CANARY_CHECK_COUNT; i++)
        if (results[i].failed)
            snprintf(failed + strlen(failed), sizeof(failed) - strlen(failed), "%s ",
                     results[i].name);
    assert_string_equal(failed, names);
    assert_int_equal(all, names[0] == '\0');
    now = begin;
}

static void what_is_usual_passes(void **state)
{
    (void)state;
    expect_failed("");
    now.leader_changes += CANARY_ELECTIONS_MAX;
    now.lost_peers += CANARY_LOST_PEERS_MAX;
    now.late_turns += CANARY_LATE_TURNS_MAX;
    now.behind_looks = CANARY_BEHIND_LOOKS - 1;
    now.jobs_failed += CANARY_JOBS_FAILED_MIN;
    now.memory_bytes = 2 * begin.memory_bytes + CANARY_MEMORY_BYTES;
    now.commit_us[10] = 100000;
    expect_failed("");
}

static void each_check_fails_by_its_own_number(void **state)
{
    (void)state;
    now.leader_changes += CANARY_ELECTIONS_MAX + 1;
    expect_failed("elections ");
    now.behind_looks = CANARY_BEHIND_LOOKS;
    expect_failed("behind ");
    now.memory_bytes = 2 * begin.memory_bytes + CANARY_MEMORY_BYTES + 1;
    expect_failed("memory ");
    now.lost_peers += CANARY_LOST_PEERS_MAX + 1;
    expect_failed("peers ");
    now.late_turns += CANARY_LATE_TURNS_MAX + 1;
    expect_failed("loop ");
    now.snapshot_failures++;
    expect_failed("snapshots ");
    now.jobs_failed += CANARY_JOBS_FAILED_MIN + 1;
    expect_failed("jobs ");
}

/* Commits that were slow before the watch do not count, and a few commits tell nothing of a p99. */
static void commits_that_are_slow_fail_when_they_are_many(void **state)
{
    enum { SLOW = REPLICA_LATENCY_BUCKETS - 1 };

    (void)state;
    begin.commit_us[SLOW] = 1000;
    now = begin;
    now.commit_us[5] = 1000;
    expect_failed("");
    now.commit_us[SLOW] += CANARY_COMMITS_MIN - 1;
    expect_failed("");
    now.commit_us[SLOW] += CANARY_COMMITS_MIN;
    expect_failed("commit ");
    now.commit_us[5] = 990;
    now.commit_us[SLOW] += 10;
    expect_failed("");
    now.commit_us[5] = 980;
    now.commit_us[SLOW] += 20;
    (void)canary_look(&begin, &now, results);
    assert_string_equal(results[1].value, "p99 over 4194304 us of 1000");
    expect_failed("commit ");
}

/* A site of many jobs has more that fail by themselves. */
static void jobs_that_fail_are_measured_by_those_that_run(void **state)
{
    (void)state;
    begin.jobs_running = 1000;
    now = begin;
    now.jobs_failed = 100;
    expect_failed("");
    now.jobs_failed = 101;
    expect_failed("jobs ");
    begin.jobs_failed = now.jobs_failed = 50; /* retention has forgotten some */
    now.jobs_failed = 3;
    expect_failed("");
}

#define WITH(test) cmocka_unit_test_setup(test, open_samples)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(what_is_usual_passes),
        WITH(each_check_fails_by_its_own_number),
        WITH(commits_that_are_slow_fail_when_they_are_many),
        WITH(jobs_that_fail_are_measured_by_those_that_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
