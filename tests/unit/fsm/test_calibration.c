/* What was predicted beside what came: counted where it belongs, kept by snapshots, and the same on
 * every member. */
#include "tests/unit/fsm/expect.h"

static struct fsm_calibration calibration_of(const struct script *script)
{
    struct fsm_calibration calibration;

    fsm_get_calibration(script->fsm, 0, &calibration);
    return calibration;
}

/* The bin that holds actual / predicted. */
static size_t bin_of(uint64_t ppm)
{
    size_t bin = 0;

    while (ppm > fsm_ratio_end_ppm(bin))
        bin++;
    return bin;
}

static uint64_t total(const uint64_t *bins, size_t count)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += bins[i];
    return sum;
}

static void bins_rise_by_an_eighth_of_an_octave(void **unused)
{
    (void)unused;
    assert_int_equal(fsm_ratio_end_ppm(0), 62500);
    assert_int_equal(fsm_ratio_end_ppm(32), 1000000);
    assert_int_equal(fsm_ratio_end_ppm(64), 16000000);
    assert_true(fsm_ratio_end_ppm(FSM_RATIO_BINS - 1) == UINT64_MAX);
    for (size_t i = 1; i + 1 < FSM_RATIO_BINS; i++) {
        double step = (double)fsm_ratio_end_ppm(i) / (double)fsm_ratio_end_ppm(i - 1);

        assert_true(step > 1.0904 && step < 1.0906);
    }
}

static void a_complete_checkpoint_is_compared_with_what_was_decided(void **unused)
{
    struct script script;
    struct fsm_calibration calibration;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "after 100000");
    expect_ok(&script, "decide j1 size=4000 write=10000 waste=16000 recompute=7000 age=100000");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "after 6000");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 size=5000 write=3000 stall=2000");
    calibration = calibration_of(&script);
    assert_int_equal(calibration.checkpoints, 1);
    assert_int_equal(calibration.ratios[FSM_RATIO_SIZE][bin_of(1250000)], 1);
    assert_int_equal(calibration.ratios[FSM_RATIO_WRITE][bin_of(500000)], 1);
    assert_int_equal(calibration.ratios[FSM_RATIO_PAUSE][bin_of(1000000)], 1);
    assert_int_equal(calibration.pause_gpu_ms, 8 * 2000);
    assert_int_equal(calibration.pause_predicted_gpu_ms, 16000);
    assert_int_equal(calibration.saved_predicted_gpu_ms, 7000);
    assert_int_equal(calibration.ended[19], 1); /* 0.98: nothing is known yet */
    assert_int_equal(calibration.ended_ppm[19], 980000);
    assert_int_equal(calibration.completed[19], 1);
    script_close(&script);
}

/* Beyond the last bin's begin there is no other one. */
static void what_is_larger_than_any_ratio_is_in_the_last_bin(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "decide j1 size=1 write=1 waste=1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 size=%" PRIu64, FSM_NODE_BYTES_MAX);
    assert_int_equal(calibration_of(&script).ratios[FSM_RATIO_SIZE][FSM_RATIO_BINS - 1], 1);
    script_close(&script);
}

/* Nobody predicted anything about them. */
static void what_people_asked_for_is_not_counted(void **unused)
{
    struct script script;
    struct fsm_calibration calibration;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    calibration = calibration_of(&script);
    assert_int_equal(calibration.checkpoints, 0);
    assert_int_equal(total(calibration.ended, FSM_SUCCESS_BINS), 0);
    script_close(&script);
}

/* A cancel says nothing about the checkpoint; a failure does. */
static void only_what_ended_by_itself_counts_for_success(void **unused)
{
    struct script script;
    struct fsm_calibration calibration;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "decide j1");
    expect_ok(&script, "cancel 1-1");
    expect_ok(&script, "after 10");
    expect_ok(&script, "decide j1");
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-2 reason=no_handler");
    expect_checkpoint(&script, 2, FAILED);
    calibration = calibration_of(&script);
    assert_int_equal(total(calibration.ended, FSM_SUCCESS_BINS), 1);
    assert_int_equal(total(calibration.completed, FSM_SUCCESS_BINS), 0);
    script_close(&script);
}

/* One loss per 1000 s is predicted from the decision on, while the job computes; two jobs add up;
 * snapshots keep the rest. */
static void expected_losses_are_the_integral_of_the_hazards_in_use(void **unused)
{
    struct script script;
    struct fsm_calibration calibration;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "register j2 nodes=n2");
    expect_ok(&script, "after 500000");
    expect_ok(&script, "decide j1 hazard=1000000000");
    expect_ok(&script, "after 1000000");
    expect_ok(&script, "decide j2 hazard=3000000000");
    assert_int_equal(calibration_of(&script).expected_losses_e6, 1000000);
    expect_ok(&script, "after 500001");
    expect_ok(&script, "tick");
    calibration = calibration_of(&script);
    assert_int_equal(calibration.expected_losses_e6, 1000000 + 2000004);
    assert_int_equal(calibration.expected_rest_e15, 0);
    expect_ok(&script, "node n1 down"); /* j1 is lost: no hazard while it waits */
    expect_ok(&script, "after 1000000");
    expect_ok(&script, "tick");
    calibration = calibration_of(&script);
    assert_int_equal(calibration.expected_losses_e6, 3000004 + 3000000);
    assert_int_equal(calibration.node_losses, 1);
    fsm_get_calibration(script.fsm, script.now_ms + 1000000, &calibration); /* read ahead */
    assert_int_equal(calibration.expected_losses_e6, 6000004 + 3000000);
    script_close(&script);
}

/* A victim that was stopped without its work is a kill whichever way; one that could write, and a
 * job that should have moved, are none. */
static void victims_without_a_checkpoint_are_kills(void **unused)
{
    static const char *const asks[] = {"preempt class=5", "preempt class=5 forced",
                                       "preempt class=5", "migrate j3"};
    struct script script;

    (void)unused;
    script_start(&script);
    for (int i = 0; i < 4; i++) {
        expect_ok(&script, "register j%d nodes=n1 class=1", i);
        expect_ok(&script, "decide j%d hazard=1000000000", i);
        expect_ok(&script, "target scratch %s", i == 1 ? "down" : "up");
        /* the decision's checkpoint becomes the one that stops it */
        expect_ok(&script, "%s", asks[i]);
        if (i != 1)
            expect_ok(&script, "grant 1-%d timeout=60000 bypass bytes=0", i + 1);
        if (i > 1)
            expect_ok(&script, "report n1 started j%d ckpt=1-%d", i, i + 1);
        expect_ok(&script, i == 0 ? "report n1 shard_verified j0 ckpt=1-1" : "after 600000");
        expect_ok(&script, "tick");
        expect_ok(&script, "report n1 terminated j%d", i);
        expect_ok(&script, "target scratch up");
        assert_int_equal(calibration_of(&script).kill_losses, i < 2 ? i : 2);
    }
    script_close(&script);
}

/* The model's value of a checkpoint is what it saves at node failures within half its age; deaths
 * of applications are apart. */
static void a_failure_within_the_horizon_is_what_recompute_saved_meant(void **unused)
{
    static const char *const ends[] = {"node n1 down", "node n1 down",
                                       "report n1 application_exited j3 status=9 restart"};
    struct script script;

    (void)unused;
    script_start(&script);
    for (int i = 1; i <= 3; i++) {
        expect_ok(&script, "node n1 ready");
        expect_ok(&script, "register j%d nodes=n1", i);
        expect_ok(&script, "after 100000");
        expect_ok(&script, "decide j%d age=100000", i);
        expect_ok(&script, "grant 1-%d", i);
        expect_ok(&script, "report n1 started j%d ckpt=1-%d", i, i);
        expect_ok(&script, "report n1 shard_verified j%d ckpt=1-%d", i, i);
        expect_ok(&script, "after %d", i == 1 ? 50000 : 50001 - i / 3); /* in time, late, in time */
        expect_ok(&script, "%s", ends[i - 1]);
    }
    assert_int_equal(calibration_of(&script).saved_gpu_ms, 8 * 100000);
    assert_int_equal(calibration_of(&script).saved_count, 1);
    assert_int_equal(calibration_of(&script).saved_other_gpu_ms, 8 * 100000);
    script_close(&script);
}

/* V-006: pauses and what was saved are in what the job weighs, as what was decided is. */
static void a_job_without_gpus_is_compared_by_its_nodes(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "policy node_gpus=5");
    expect_ok(&script, "register j1 nodes=n1 gpus=0");
    expect_ok(&script, "after 100000");
    expect_ok(&script, "decide j1 waste=16000 recompute=7000 age=100000");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "after 6000");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 write=3000 stall=2000");
    assert_int_equal(calibration_of(&script).pause_gpu_ms, 5 * 2000);
    expect_ok(&script, "after 1000");
    expect_ok(&script, "node n1 down");
    assert_int_equal(calibration_of(&script).saved_gpu_ms, 5 * 100000);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bins_rise_by_an_eighth_of_an_octave),
        cmocka_unit_test(a_complete_checkpoint_is_compared_with_what_was_decided),
        cmocka_unit_test(what_is_larger_than_any_ratio_is_in_the_last_bin),
        cmocka_unit_test(what_people_asked_for_is_not_counted),
        cmocka_unit_test(only_what_ended_by_itself_counts_for_success),
        cmocka_unit_test(victims_without_a_checkpoint_are_kills),
        cmocka_unit_test(expected_losses_are_the_integral_of_the_hazards_in_use),
        cmocka_unit_test(a_failure_within_the_horizon_is_what_recompute_saved_meant),
        cmocka_unit_test(a_job_without_gpus_is_compared_by_its_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
