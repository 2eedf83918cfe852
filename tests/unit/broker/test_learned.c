/* What the state machine learns by integers is what src/eval/learn.h learns by doubles, and a
 * failover changes nothing of it. */
#include <math.h>

#include "src/eval/learn.h"
#include "tests/support/test.h"
#include "tests/unit/fsm/script.h"

enum { CHECKPOINTS = 300, RUNS = 20 };

static uint64_t draw(uint64_t *state, uint64_t below)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

/* The same history in doubles. */
struct doubles {
    struct eval_history write, size;
    struct eval_success success;
    double stall;
};

static const struct fsm_allocation *job_of(const struct script *script)
{
    return fsm_allocation_find(script->fsm, "j1");
}

/* Folders that retention gave up make room for the next ones. */
static void collect(struct script *script)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];
    uint64_t first;

    while (fsm_collectable(script->fsm, 0, &first, 1) > 0)
        script_run(script, "collected %s", checkpoint_id_format(first, id));
}

/* One checkpoint: verified, or failed for good. */
static void checkpoint(struct script *script, struct doubles *doubles, uint64_t *dice)
{
    uint64_t write_ms = 1 + draw(dice, 900000), size_bytes = 1 + draw(dice, UINT64_C(1) << 45);
    uint64_t stall_ms = draw(dice, 4) == 0 ? 0 : 1 + draw(dice, 300000);
    bool fails = draw(dice, 9) == 0;
    char id[CHECKPOINT_ID_TEXT_BYTES];

    script_run(script, "after %" PRIu64, 1000 + draw(dice, 1000000));
    collect(script);
    assert_int_equal(script_run(script, "request j1"), FSM_OK);
    checkpoint_id_format(job_of(script)->active_checkpoint_id, id);
    script_run(script, "grant %s timeout=300000000", id);
    if (fails) {
        script_run(script, "report n1 checkpoint_failed j1 ckpt=%s reason=no_handler", id);
        eval_success_note(&doubles->success, false);
        return;
    }
    script_run(script,
               "report n1 shard_verified j1 ckpt=%s size=%" PRIu64 " write=%" PRIu64
               " stall=%" PRIu64,
               id, size_bytes, write_ms, stall_ms);
    eval_success_note(&doubles->success, true);
    eval_history_note(&doubles->write, (double)(write_ms + stall_ms) / 1e3);
    eval_history_note(&doubles->size, (double)size_bytes);
    if (stall_ms > 0)
        eval_stall_note(&doubles->stall, (double)stall_ms / 1e3,
                        (double)(write_ms + stall_ms) / 1e3);
}

static void expect_near(double got, double wanted, double relative, double absolute)
{
    if (!(fabs(got - wanted) <= relative * fabs(wanted) + absolute))
        fail_msg("%.9g, not %.9g", got, wanted);
}

static void expect_equal_histories(const struct fsm_allocation *job, const struct doubles *doubles)
{
    assert_true((double)job->learned.count == doubles->write.count);
    if (job->learned.count == 0)
        return; /* the size is what the memory says */
    expect_near((double)job->learned.write_mean_us / 1e6, doubles->write.mean, 1e-9, 5e-6);
    expect_near((double)job->learned.write_deviation_us / 1e6, doubles->write.deviation, 1e-6,
                1e-5);
    expect_near((double)job->size_estimate_bytes, doubles->size.mean, 1e-9, 5);
    expect_near((double)job->learned.size_deviation_bytes, doubles->size.deviation, 1e-6, 10);
    expect_near(fsm_success_ppm(&job->learned) / 1e6, eval_success_probability(&doubles->success),
                0, 2e-6);
    assert_true(job->learned.stall_measured == (doubles->stall >= 0));
    if (job->learned.stall_measured)
        expect_near(job->learned.stall_ppm / 1e6, doubles->stall, 0, 5e-6);
}

static void integers_learn_what_doubles_learn(void **unused)
{
    uint64_t seed = test_seed();

    (void)unused;
    for (uint64_t run = 0; run < RUNS; run++) {
        struct doubles doubles = {.stall = -1};
        struct script script;
        uint64_t dice = seed + run;

        script_start(&script);
        script_run(&script, "policy attempts=1");
        script_run(&script, "register j1 nodes=n1");
        for (int i = 0; i < CHECKPOINTS; i++) {
            checkpoint(&script, &doubles, &dice);
            expect_equal_histories(job_of(&script), &doubles);
        }
        script_close(&script);
    }
}

/* A job of two nodes takes as long as the slower of them, and stands still as long as the slowest
 * does. */
static void a_checkpoint_takes_as_long_as_its_slowest_shard(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    script_run(&script, "register j1 nodes=n1,n2");
    script_run(&script, "request j1");
    script_run(&script, "grant 1-1");
    script_run(&script, "report n1 shard_verified j1 ckpt=1-1 size=300 write=5000 stall=3000");
    script_run(&script, "report n2 shard_verified j1 ckpt=1-1 size=500 write=9000 stall=1000");
    assert_int_equal(job_of(&script)->learned.write_mean_us, 10000000);
    assert_int_equal(job_of(&script)->learned.stall_ppm, 300000);
    assert_int_equal(job_of(&script)->size_estimate_bytes, 800);
    script_run(&script, "update j1 nodes=n1,n2,n3"); /* S1-080: more data, not more time */
    assert_int_equal(job_of(&script)->size_estimate_bytes, 1200);
    assert_int_equal(job_of(&script)->learned.write_mean_us, 10000000);
    script_close(&script);
}

/* What fails for other reasons is counted there: nodes in the hazard, the scheduler's wishes
 * nowhere. */
static void only_a_checkpoints_own_failures_lower_its_success(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    script_run(&script, "node n1 ready");
    script_run(&script, "register j1 nodes=n1");
    script_run(&script, "request j1");
    script_run(&script, "cancel 1-1");
    assert_int_equal(job_of(&script)->learned.failed_e6, 0);
    script_run(&script, "request j1");
    script_run(&script, "grant 1-2 timeout=1000");
    script_run(&script, "node n1 down");
    assert_int_equal(job_of(&script)->learned.failed_e6, 0);
    script_run(&script, "node n1 ready");
    script_run(&script, "restart j1 from_scratch");
    script_run(&script, "report n1 application_started j1");
    script_run(&script, "request j1");
    script_run(&script, "grant 1-3 timeout=1000");
    script_run(&script, "after 1001");
    script_run(&script, "tick");
    assert_int_equal(job_of(&script)->learned.failed_e6, 1000000);
    assert_int_equal(fsm_success_ppm(&job_of(&script)->learned), 960784); /* 49 of 51 */
    script_close(&script);
}

static void the_ages_of_nodes_fall_into_the_models_bins(void **unused)
{
    static const double ages_s[] = {0,      3599.9, 3600,    14399.9, 14400,   86399,   86400,
                                    345599, 345600, 1382399, 1382400, 5529599, 5529600, 1e9};

    (void)unused;
    assert_int_equal(FSM_AGE_BINS, EVAL_AGE_BINS);
    assert_int_equal(FSM_HAZARD_WORDS, EVAL_HAZARD_WORDS);
    for (size_t i = 0; i < sizeof(ages_s) / sizeof(ages_s[0]); i++)
        assert_int_equal(fsm_age_bin((uint64_t)(ages_s[i] * 1000)), eval_hazard_bin(ages_s[i]));
}

static uint64_t failures(const struct script *script)
{
    struct fsm_losses losses;
    uint64_t sum = 0;

    fsm_get_losses(script->fsm, &losses);
    for (int i = 0; i < FSM_AGE_BINS; i++)
        sum += losses.node_failures[i];
    return sum;
}

/* A drain is planned, a node that no agent ever served is none, and one failure is counted once
 * however it is found. */
static void node_failures_are_counted_once_and_drains_never(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    script_run(&script, "register j1 nodes=n1,n2,n3"); /* named, not seen */
    script_run(&script, "node n3 down");
    assert_int_equal(failures(&script), 0);
    script_run(&script, "node n1 ready boot=a");
    script_run(&script, "node n1 degraded");
    script_run(&script, "after 5000");
    script_run(&script, "node n1 down");
    script_run(&script, "node n1 down");
    script_run(&script, "node n1 ready boot=b"); /* what was found down has rebooted */
    assert_int_equal(failures(&script), 1);
    assert_int_equal(fsm_node_find(script.fsm, "n1")->steady_since_ms, 1005000);
    assert_int_equal(fsm_node_find(script.fsm, "n1")->failure_count, 1);
    script_run(&script, "node n1 ready boot=c"); /* nobody saw it down */
    assert_int_equal(failures(&script), 2);
    script_run(&script, "drain n1");
    script_run(&script, "node n1 down");
    script_run(&script, "node n1 ready boot=d");
    assert_int_equal(failures(&script), 2);
    script_close(&script);
}

/* Killed: stopped for others, work lost. A victim that was checkpointed first is a demand, and no
 * kill. */
static void kills_and_demands_are_counted_by_class(void **unused)
{
    struct fsm_losses losses;
    struct script script;

    (void)unused;
    script_start(&script);
    script_run(&script, "node n1 ready");
    script_run(&script, "register polite nodes=n1 class=2");
    script_run(&script, "preempt class=8 need=1 nodes=polite");
    script_run(&script, "grant 1-1");
    script_run(&script, "report n1 shard_verified polite ckpt=1-1");
    script_run(&script, "report n1 terminated polite");
    script_run(&script, "register killed nodes=n1 class=4");
    script_run(&script, "target scratch down");
    script_run(&script, "preempt class=8 need=1 nodes=killed forced");
    script_run(&script, "report n1 terminated killed");
    script_run(&script, "register lent nodes=n1 class=4 borrowed");
    script_run(&script, "preempt class=8 need=1 nodes=lent forced");
    script_run(&script, "report n1 terminated lent");
    fsm_get_losses(script.fsm, &losses);
    assert_int_equal(losses.demands[2], 1);
    assert_int_equal(losses.kills[2], 0);
    assert_int_equal(losses.demands[4], 1);
    assert_int_equal(losses.kills[4], 1);
    assert_int_equal(losses.demands[FSM_CLASS_MAX + 1], 1);
    assert_int_equal(losses.kills[FSM_CLASS_MAX + 1], 1);
    script_close(&script);
}

/* Replay and snapshot give the same numbers; terms begin again in a new epoch, and what was learned
 * is kept. */
static void what_is_learned_survives_a_restore_and_a_new_epoch(void **unused)
{
    struct script_bytes bytes = {NULL, 0, 0, 0};
    struct fsm_learned before;
    struct script script;
    struct doubles doubles = {.stall = -1};
    uint64_t dice = 7;
    char text[256];

    (void)unused;
    script_start(&script);
    script.term = 5;
    script_run(&script, "register j1 nodes=n1");
    for (int i = 0; i < 7; i++)
        checkpoint(&script, &doubles, &dice);
    script_run(&script, "learned hazard=77 at=1000");
    before = job_of(&script)->learned;
    assert_int_equal(fsm_snapshot_write(script.fsm, script_write, &bytes), 0);
    fsm_free(script.fsm);
    script.fsm = fsm_new();
    assert_int_equal(fsm_snapshot_read(script.fsm, script_read, &bytes, text, sizeof(text)), 0);
    assert_memory_equal(&before, &job_of(&script)->learned, sizeof(before));
    assert_int_equal(fsm_learned(script.fsm)->hazard[0], 77);
    script_run(&script, "epoch 2");
    script.term = 1;
    assert_int_equal(fsm_learned(script.fsm)->hazard[0], 77);
    assert_int_equal(script_run(&script, "learned hazard=78 at=2000"), FSM_OK);
    assert_int_equal(fsm_learned(script.fsm)->hazard[0], 78);
    free(bytes.bytes);
    script_close(&script);
}

/* sensitive: 10 min, 1 h and 15 min of their own, changed through the log like the others. */
static void sensitive_allocations_have_intervals_and_a_timeout_of_their_own(void **unused)
{
    struct script script;

    (void)unused;
    script_open(&script);
    script_run(&script, "init");
    script_run(&script, "register secret nodes=n1 sensitive");
    assert_int_equal(fsm_policy(script.fsm)->sensitive_max_interval_ms, 3600000);
    script_run(&script, "request secret");
    script_run(&script, "grant 1-1");
    assert_int_equal(fsm_checkpoint_find(script.fsm, UINT64_C(1) << 40 | 1)->timeout_ms, 900000);
    script_run(&script, "report n1 shard_verified secret ckpt=1-1");
    script_run(&script, "after 599999");
    assert_int_equal(script_run(&script, "decide secret"), FSM_OK);
    assert_int_equal(script.outcome.current, 0);
    script_run(&script, "after 1");
    script_run(&script, "decide secret");
    assert_int_equal(script.outcome.current, 1);
    script_run(&script, "cancel 1-2");
    script_run(&script, "policy sensitive_min=1000 sensitive_timeout=70000");
    script_run(&script, "after 1000");
    script_run(&script, "decide secret");
    assert_int_equal(script.outcome.current, 1);
    script_run(&script, "grant 1-3");
    assert_int_equal(fsm_checkpoint_find(script.fsm, UINT64_C(1) << 40 | 3)->timeout_ms, 70000);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_learn_what_doubles_learn),
        cmocka_unit_test(a_checkpoint_takes_as_long_as_its_slowest_shard),
        cmocka_unit_test(only_a_checkpoints_own_failures_lower_its_success),
        cmocka_unit_test(the_ages_of_nodes_fall_into_the_models_bins),
        cmocka_unit_test(node_failures_are_counted_once_and_drains_never),
        cmocka_unit_test(kills_and_demands_are_counted_by_class),
        cmocka_unit_test(what_is_learned_survives_a_restore_and_a_new_epoch),
        cmocka_unit_test(sensitive_allocations_have_intervals_and_a_timeout_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
