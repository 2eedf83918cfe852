/* The order of granting: found in steps of any size, it is the order of all that wait. And who
 * finds a place among those that are written at a time. */
#include "tests/support/test.h"

#include "tests/unit/fsm/expect.h"
#include "tests/unit/fsm/random_line.h"

enum { RUNS = 16, RUNS_MAX = 80, LINES = 3000, WAITING_MAX = 4096, WAIT_AT_ONCE = 4 };

static bool before(const struct fsm_checkpoint *a, const struct fsm_checkpoint *b,
                   const struct fsm *fsm)
{
    uint64_t x = fsm_grant_priority(fsm, a), y = fsm_grant_priority(fsm, b);

    if (a->resumed_from_outage != b->resumed_from_outage)
        return a->resumed_from_outage;
    if (a->resumed_from_outage) {
        x = a->recompute_saved_gpu_ms;
        y = b->recompute_saved_gpu_ms;
    }
    return x != y ? x > y : a->id < b->id;
}

/* By looking at every checkpoint and sorting by insertion. */
static size_t all_waiting(const struct fsm *fsm, uint64_t *ret_ids)
{
    size_t count = 0;

    for (const struct fsm_checkpoint *at = fsm_checkpoint_next(fsm, 0); at != NULL;
         at = fsm_checkpoint_next(fsm, at->id)) {
        size_t i = count;

        if (!fsm_grant_possible(fsm, at->id))
            continue;
        assert_true(count < WAITING_MAX);
        for (; i > 0 && before(at, fsm_checkpoint_find(fsm, ret_ids[i - 1]), fsm); i--)
            ret_ids[i] = ret_ids[i - 1];
        ret_ids[i] = at->id;
        count++;
    }
    return count;
}

static void compare(const struct fsm *fsm, size_t step, size_t max, size_t *ret_longest)
{
    static uint64_t expected[WAITING_MAX], at_once[WAITING_MAX];
    static struct fsm_waiting best[WAITING_MAX * 4];
    struct fsm_grantable_scan scan;
    size_t count = all_waiting(fsm, expected), kept = count < max ? count : max;

    if (count > *ret_longest)
        *ret_longest = count;
    assert_uint_equal(fsm_grantable(fsm, at_once, max), kept);
    for (size_t i = 0; i < kept; i++)
        assert_true(at_once[i] == expected[i]);
    fsm_grantable_begin(&scan, best, max);
    while (!fsm_grantable_step(fsm, &scan, step))
        assert_true(scan.count <= fsm_target_slots(fsm) * max);
    assert_true(scan.count >= kept);
    for (size_t i = 0; i < kept; i++)
        assert_true(best[i].id == expected[i]);
}

static void steps_find_the_order_of_all_that_wait(void **unused)
{
    uint64_t seed = test_seed();
    size_t longest = 0;

    (void)unused;
    for (uint64_t run = 0; run < RUNS || (longest < WAIT_AT_ONCE && run < RUNS_MAX); run++) {
        uint64_t state = seed + run;
        struct script script;
        char line[512];

        script_start(&script);
        script_run(&script, "policy min_interval=1 backoff=1000 retention=50000 timeout=30000");
        for (int i = 0; i < LINES; i++) {
            random_line(&script, &state, line, sizeof(line));
            script_run(&script, "%s", line);
            if (i % 7 == 0)
                compare(script.fsm, 1 + random_draw(&state, 5), 1 + random_draw(&state, 10),
                        &longest);
        }
        script_close(&script);
    }
    print_message("at most %zu waited\n", longest);
    assert_true(longest >= WAIT_AT_ONCE);
}

/* Nothing is found twice and nothing that waits all the time is missed, whatever is asked for,
 * granted and ended meanwhile. */
static void what_waits_all_the_time_is_found_though_others_come_and_go(void **unused)
{
    enum { JOBS = 60 };
    struct fsm_waiting best[JOBS * 4];
    struct fsm_grantable_scan scan;
    struct script script;
    bool seen[JOBS] = {false};
    int step = 0;

    (void)unused;
    script_start(&script);
    for (int i = 0; i < JOBS; i++)
        script_run(&script, "register j%d nodes=n%d", i, i % 7);
    for (int i = 0; i < JOBS; i++)
        script_run(&script, "request j%d", i);
    fsm_grantable_begin(&scan, best, JOBS * 2);
    while (!fsm_grantable_step(script.fsm, &scan, 3)) {
        char id[CHECKPOINT_ID_TEXT_BYTES];
        const struct fsm_allocation *job;
        char name[16];

        /* odd ones go, behind and ahead of the scan, also the one it stands on */
        snprintf(name, sizeof(name), "j%d", step < JOBS ? (step * 29 % JOBS) | 1 : 1);
        job = fsm_allocation_find(script.fsm, name);
        if (job->active_checkpoint_id != 0) {
            script_run(&script, "cancel %s", checkpoint_id_format(job->active_checkpoint_id, id));
            if (step % 3 == 0)
                script_run(&script, "request %s", name);
        }
        step++;
    }
    for (size_t i = 0; i < scan.count; i++) {
        const struct fsm_checkpoint *found = fsm_checkpoint_find(script.fsm, best[i].id);
        uint32_t slot;

        if (found == NULL || !fsm_grant_possible(script.fsm, found->id))
            continue;
        slot = found->allocation_slot;
        assert_true(slot < JOBS && !seen[slot]);
        seen[slot] = true;
    }
    for (int i = 0; i < JOBS; i += 2)
        assert_true(seen[i]);
    script_close(&script);
}

static uint64_t price(const struct script *script)
{
    struct fsm_waiting best[4];
    struct fsm_grantable_scan scan;

    fsm_grantable_begin(&scan, best, 1);
    while (!fsm_grantable_step(script->fsm, &scan, 1))
        continue;
    return scan.sums[0].price_gpu_ms_per_gb;
}

/* D-001: what was asked for and what has a deadline is granted first, and has no index. */
static void the_price_is_the_best_index_of_all_that_wait(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    script_run(&script, "init");
    for (int i = 0; i < 5; i++)
        script_run(&script, "register j%d nodes=n%d,m%d", i, i, i);
    script_run(&script, "after 600000");
    assert_uint_equal(price(&script), 0);
    script_run(&script, "decide j0 purpose=periodic after=continue priority=100");
    script_run(&script, "decide j1 purpose=periodic after=continue priority=300");
    script_run(&script, "decide j2 purpose=periodic after=continue priority=200");
    assert_uint_equal(price(&script), 300);
    script_run(&script, "request j3");
    assert_uint_equal(price(&script), 300);
    script_run(&script, "decide j4 purpose=walltime after=continue priority=900");
    assert_uint_equal(price(&script), 300);
    script_run(&script, "update j1 nodes=n1"); /* hurried: nodes wait for it */
    assert_uint_equal(price(&script), 200);
    script_close(&script);
}

static uint32_t writing(const struct script *script)
{
    return fsm_target_find(script->fsm, "scratch")->writing_count;
}

/* S2-032: a place for each part, given back when the checkpoint is over, whatever it came to. */
static void so_many_parts_are_written_at_a_time(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "put scratch keep writes_max=3");
    expect_ok(&script, "register j1 nodes=n1,n2");
    for (int i = 2; i < 6; i++) {
        expect_ok(&script, "register j%d nodes=m%d", i, i);
        expect_ok(&script, "request j%d", i);
    }
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 bytes=1");
    expect_ok(&script, "grant 1-2 bytes=1");
    expect_status(&script, WRITES_FULL, "grant 1-5 bytes=1"); /* both its parts or none */
    expect_ok(&script, "grant 1-3 bytes=1");
    expect_status(&script, WRITES_FULL, "grant 1-4 bytes=1");
    assert_int_equal(writing(&script), 3);
    script_restore(&script);
    assert_int_equal(writing(&script), 3);
    expect_ok(&script, "report m2 shard_verified j2 ckpt=1-1");
    expect_ok(&script, "end j3");
    assert_int_equal(writing(&script), 1);
    expect_ok(&script, "grant 1-5 bytes=1");
    assert_int_equal(writing(&script), 3);
    expect_ok(&script, "preempt class=9 useful=m5"); /* a deadline waits for no place */
    expect_ok(&script, "grant 1-4 bytes=1");
    assert_int_equal(writing(&script), 4);
    expect_ok(&script, "put scratch keep zeros=262144");
    assert_int_equal(fsm_target_find(script.fsm, "scratch")->max_writes, 0);
    script_close(&script);
}

/* It would wait for ever. */
static void who_has_more_parts_than_places_is_written_alone(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "put scratch keep writes_max=1");
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "register j2 nodes=n3");
    expect_ok(&script, "request j1");
    expect_ok(&script, "request j2");
    expect_ok(&script, "grant 1-1 bytes=2");
    assert_int_equal(writing(&script), 2);
    expect_status(&script, WRITES_FULL, "grant 1-2 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "grant 1-2 bytes=1");
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_find_the_order_of_all_that_wait),
        cmocka_unit_test(the_price_is_the_best_index_of_all_that_wait),
        cmocka_unit_test(so_many_parts_are_written_at_a_time),
        cmocka_unit_test(who_has_more_parts_than_places_is_written_alone),
        cmocka_unit_test(what_waits_all_the_time_is_found_though_others_come_and_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
