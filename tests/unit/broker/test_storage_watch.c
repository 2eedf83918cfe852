/* The storage watch: S1-060, S1-062, S1-073, S1-074 and what a new leader knows. Probes are the
 * test's own. */
#include "src/broker/health/storage_watch.h"
#include "src/broker/keep/collector.h"
#include "src/dest/worker.h"
#include "tests/unit/broker/fake_replica.h"

/* ---- workers that end when the test says so ---- */

struct worker {
    worker_done_fn *done;
    void *data;
    bool cancelled;
};
static struct worker running;
static size_t running_count, started_count;
static uint64_t hanging; /* a bit for each hang_id */
static bool start_fails;
static char last_arguments[256];

int worker_start(uv_loop_t *loop, const struct worker_task *task, struct worker **ret_worker,
                 struct err *err)
{
    (void)loop;
    assert_uint_equal(task->deadline_ms, 5000);
    last_arguments[0] = '\0';
    for (int i = 0; task->arguments[i] != NULL; i++) {
        strcat(last_arguments, task->arguments[i]);
        strcat(last_arguments, " ");
    }
    if (start_fails)
        return err_set(err, ERR_IO, "no such program");
    assert_uint_equal(running_count, 0); /* one target: one probe at a time */
    running = (struct worker){.done = task->done, .data = task->data};
    running_count = 1;
    started_count++;
    *ret_worker = &running;
    return 0;
}

void worker_cancel(struct worker *worker)
{
    worker->cancelled = true;
}

bool worker_hangs(uint64_t hang_id)
{
    return hanging >> hang_id & 1;
}

static void end_probe(struct worker_result result)
{
    struct worker ended = running;

    assert_uint_equal(running_count, 1);
    running_count = 0;
    result.output = "";
    result.cancelled = ended.cancelled;
    ended.done(ended.data, &result);
}

static void succeed(struct fake *fake)
{
    end_probe((struct worker_result){.duration_ms = 4});
    fake_settle(fake);
}

static void fail_probe(struct fake *fake)
{
    end_probe(
        (struct worker_result){.exit_code = 5, .error = "mkdir: no space left", .duration_ms = 9});
    fake_settle(fake);
}

static void fail_for(struct fake *fake, const char *cause)
{
    struct worker_result result = {.exit_code = 5, .error = "it fails", .duration_ms = 9};

    snprintf(result.cause, sizeof(result.cause), "%s", cause);
    end_probe(result);
    fake_settle(fake);
    fake_advance_ms(fake, 5000);
}

static void hang(struct fake *fake, uint64_t hang_id)
{
    hanging |= UINT64_C(1) << hang_id;
    end_probe((struct worker_result){
        .timed_out = true, .unkillable = true, .hang_id = hang_id, .exit_code = -1});
    fake_settle(fake);
}

static bool available(struct fake *fake)
{
    return fsm_target_find(fake->replica.fsm, "scratch")->available;
}

static struct fake *setup_watch(void)
{
    struct fake *fake = fake_new(NULL);

    running_count = started_count = 0;
    hanging = 0;
    start_fails = false;
    fake->broker.storage_watch = storage_watch_new(&fake->broker);
    return fake;
}

static struct fake *setup_serving(void)
{
    struct fake *fake = setup_watch();

    fake_serve(fake);
    return fake;
}

static void teardown_watch(struct fake *fake)
{
    fake_stop_serving(fake);
    storage_watch_free(fake->broker.storage_watch);
    if (running_count > 0) /* also after the watch is gone */
        end_probe((struct worker_result){.duration_ms = 1});
    fake_free(fake);
}

/* ---- hysteresis ---- */

static void only_failures_in_a_row_take_a_target_down(void **state)
{
    struct hysteresis h = {0};

    (void)state;
    assert_int_equal(hysteresis_sample(&h, false, true, 3, 2), HYSTERESIS_KEEP);
    assert_int_equal(hysteresis_sample(&h, false, true, 3, 2), HYSTERESIS_KEEP);
    assert_int_equal(hysteresis_sample(&h, true, true, 3, 2), HYSTERESIS_KEEP);
    assert_int_equal(hysteresis_sample(&h, false, true, 3, 2), HYSTERESIS_KEEP);
    assert_int_equal(hysteresis_sample(&h, false, true, 3, 2), HYSTERESIS_KEEP);
    assert_int_equal(hysteresis_sample(&h, false, true, 3, 2), HYSTERESIS_DOWN);
    assert_int_equal(hysteresis_sample(&h, false, true, 3, 2), HYSTERESIS_DOWN); /* not taken yet */
    assert_int_equal(hysteresis_sample(&h, false, false, 3, 2), HYSTERESIS_KEEP);
    assert_int_equal(hysteresis_sample(&h, true, false, 3, 2), HYSTERESIS_KEEP);
    assert_int_equal(hysteresis_sample(&h, true, false, 3, 2), HYSTERESIS_UP);
}

/* S1-074: whatever comes in, a change needs N, M samples of one kind in a row just before it. */
static void flapping_never_changes_faster_than_the_limits(void **state)
{
    uint64_t seed = test_seed();
    struct hysteresis h = {0};
    bool up = true;
    unsigned row = 0;
    bool last = true;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        bool sample = test_random(&seed) % 3 != 0;
        enum hysteresis_verdict verdict = hysteresis_sample(&h, sample, up, 3, 2);

        row = sample == last ? row + 1 : 1;
        last = sample;
        assert_int_equal(verdict, up && !sample && row >= 3   ? HYSTERESIS_DOWN
                                  : !up && sample && row >= 2 ? HYSTERESIS_UP
                                                              : HYSTERESIS_KEEP);
        if (verdict != HYSTERESIS_KEEP)
            up = !up;
    }
}

/* ---- the watch ---- */

static void expect_back(struct fake *fake)
{
    succeed(fake);
    assert_false(available(fake));
    fake_advance_ms(fake, 5000);
    succeed(fake);
    assert_true(available(fake));
}

/* S1-060, S1-062 */
static void three_failed_probes_make_a_target_unavailable_and_two_good_ones_bring_it_back(
    void **state)
{
    struct fake *fake = setup_serving();

    (void)state;
    assert_string_equal(last_arguments,
                        "probe --prefix /scratch --cluster 9f86d081884c7d65@1 --cluster-id test ");
    fail_probe(fake);
    fake_advance_ms(fake, 5000);
    fail_probe(fake);
    assert_true(available(fake));
    fake_advance_ms(fake, 5000);
    fail_probe(fake);
    assert_false(available(fake));
    fake_advance_ms(fake, 5000);
    expect_back(fake);
    teardown_watch(fake);
}

static void details_of_the_last_probe_are_kept_for_status(void **state)
{
    struct fake *fake = setup_watch();
    struct storage_watch *watch = fake->broker.storage_watch;
    const char *detail;
    uint64_t duration_ms;

    (void)state;
    assert_false(storage_watch_last_probe(watch, "scratch", &detail, &duration_ms));
    fake_serve(fake);
    fail_probe(fake);
    assert_true(storage_watch_last_probe(watch, "scratch", &detail, &duration_ms));
    assert_string_equal(detail, "mkdir: no space left");
    assert_uint_equal(duration_ms, 9);
    assert_false(storage_watch_last_probe(watch, "nowhere", &detail, &duration_ms));
    teardown_watch(fake);
}

static void tell(struct fake *fake, const char *trouble)
{
    storage_watch_told(fake->broker.storage_watch, 0, trouble);
    fake_settle(fake);
}

static const struct fsm_target *scratch(struct fake *fake)
{
    return fsm_target_find(fake->replica.fsm, "scratch");
}

/* S1-061 */
static void a_storage_system_that_says_it_is_down_is_believed_beside_good_probes(void **state)
{
    struct fake *fake = setup_serving();
    const char *detail;
    uint64_t duration_ms;

    (void)state;
    for (int i = 0; i < 3; i++) {
        succeed(fake);
        assert_true(available(fake));
        tell(fake, "the VMS says that state is OFFLINE");
        fake_advance_ms(fake, 5000);
    }
    assert_false(available(fake));
    assert_int_equal(scratch(fake)->reason, CKPT__V1__REASON__REASON_STORAGE_SYSTEM_DOWN);
    assert_true(
        storage_watch_last_probe(fake->broker.storage_watch, "scratch", &detail, &duration_ms));
    assert_string_equal(detail, "the VMS says that state is OFFLINE");
    for (int i = 0; i < 5; i++) { /* good probes alone do not bring it back */
        succeed(fake);
        fake_advance_ms(fake, 5000);
        assert_false(available(fake));
    }
    tell(fake, "");
    assert_false(available(fake));
    tell(fake, "");
    assert_true(available(fake));
    teardown_watch(fake);
}

/* S1-070: who looks at it knows whom to ask. An outage that goes on for another reason says so,
 * after as many probes as it takes to call it one. */
static void an_outage_has_the_reason_that_the_probes_find(void **state)
{
    struct fake *fake = setup_serving();

    (void)state;
    for (int i = 0; i < 3; i++)
        fail_for(fake, "storage_unreachable");
    assert_false(available(fake));
    assert_int_equal(scratch(fake)->reason, CKPT__V1__REASON__REASON_STORAGE_UNREACHABLE);
    for (int i = 0; i < 2; i++)
        fail_for(fake, "storage_denied");
    fail_for(fake, "storage_unreachable");
    for (int i = 0; i < 2; i++)
        fail_for(fake, "storage_denied");
    assert_int_equal(scratch(fake)->reason, CKPT__V1__REASON__REASON_STORAGE_UNREACHABLE);
    fail_for(fake, "storage_denied");
    assert_int_equal(scratch(fake)->reason, CKPT__V1__REASON__REASON_STORAGE_DENIED);
    for (int i = 0; i < 3; i++)
        fail_for(fake, "a word of a later worker");
    assert_int_equal(scratch(fake)->reason, CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE);
    expect_back(fake);
    assert_int_equal(scratch(fake)->reason, CKPT__V1__REASON__REASON_NONE);
    teardown_watch(fake);
}

static void one_word_of_trouble_is_no_outage_and_failing_probes_outweigh_good_words(void **state)
{
    struct fake *fake = setup_serving();

    (void)state;
    for (int i = 0; i < 9; i++) /* two in a row at most */
        tell(fake, i % 3 == 2 ? "" : "the VMS says that state is FAILED");
    assert_true(available(fake));
    for (int i = 0; i < 3; i++) {
        fail_probe(fake);
        tell(fake, "");
        fake_advance_ms(fake, 5000);
    }
    assert_false(available(fake));
    assert_int_equal(scratch(fake)->reason, CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE);
    tell(fake, "");
    tell(fake, "");
    assert_false(available(fake));
    teardown_watch(fake);
}

/* S1-061: data path and management path fail apart */
static void a_storage_system_that_falls_silent_leaves_it_to_the_probes(void **state)
{
    struct fake *fake = setup_serving();

    (void)state;
    for (int i = 0; i < 3; i++)
        tell(fake, "the VMS says that state is OFFLINE");
    assert_false(available(fake));
    storage_watch_untold(fake->broker.storage_watch, 0);
    expect_back(fake);
    teardown_watch(fake);
}

static void what_is_measured_never_brings_an_earlier_availability_back(void **state)
{
    struct fake *fake = setup_watch();

    (void)state;
    assert_false(storage_watch_measured(fake->broker.storage_watch, 0, 5)); /* not the leader */
    fake_serve(fake);
    for (int i = 0; i < 2; i++)
        tell(fake, "down");
    storage_watch_told(fake->broker.storage_watch, 0, "down"); /* proposed, not applied yet */
    assert_true(available(fake));
    assert_false(storage_watch_measured(fake->broker.storage_watch, 0, 5));
    fake_settle(fake);
    assert_false(available(fake));
    assert_true(storage_watch_measured(fake->broker.storage_watch, 0, 5));
    fake_settle(fake);
    assert_false(available(fake));
    assert_uint_equal(scratch(fake)->measured_bytes_per_s, 5);
    assert_true(storage_watch_measured(fake->broker.storage_watch, 0, 0));
    fake_settle(fake);
    assert_uint_equal(scratch(fake)->measured_bytes_per_s, 0);
    assert_false(storage_watch_measured(fake->broker.storage_watch, 7, 5)); /* no such target */
    teardown_watch(fake);
}

static void change_spare(struct fake *fake, const char *prefix)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__PutTarget put = CKPT__LOG__V1__PUT_TARGET__INIT;
    Ckpt__Log__V1__RemoveTarget remove = CKPT__LOG__V1__REMOVE_TARGET__INIT;
    Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;
    char request_id[32];
    static unsigned requests;

    snprintf(request_id, sizeof(request_id), "spare-%u", ++requests);
    command.request_id = request_id;
    spec.target_id = remove.target_id = (char *)(uintptr_t) "spare";
    spec.prefix = (char *)(uintptr_t)prefix;
    spec.write_bytes_per_s = 1000;
    spec.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
    put.spec = &spec;
    command.body_case = prefix != NULL ? CKPT__LOG__V1__COMMAND__BODY_PUT_TARGET
                                       : CKPT__LOG__V1__COMMAND__BODY_REMOVE_TARGET;
    if (prefix != NULL)
        command.put_target = &put;
    else
        command.remove_target = &remove;
    replica_propose(&fake->replica, &command, NULL, NULL);
    fake_settle(fake);
}

static void what_was_seen_of_a_removed_target_is_not_another_ones(void **state)
{
    struct fake *fake = setup_serving();
    uint32_t slot;

    (void)state;
    change_spare(fake, "/spare"); /* the probe of scratch runs on: this one waits for none */
    slot = fsm_target_find(fake->replica.fsm, "spare")->slot;
    for (int i = 0; i < 2; i++)
        storage_watch_told(fake->broker.storage_watch, slot, "the VMS says that state is OFFLINE");
    change_spare(fake, NULL);
    storage_watch_told(fake->broker.storage_watch, slot, "the VMS says that state is OFFLINE");
    assert_false(storage_watch_measured(fake->broker.storage_watch, slot, 5));
    change_spare(fake, "/spare");
    assert_int_equal(fsm_target_find(fake->replica.fsm, "spare")->slot, slot);
    for (int i = 0; i < 2; i++)
        storage_watch_told(fake->broker.storage_watch, slot, "the VMS says that state is OFFLINE");
    fake_settle(fake);
    assert_true(fsm_target_find(fake->replica.fsm, "spare")->available); /* two in a row, of it */
    storage_watch_told(fake->broker.storage_watch, slot, "the VMS says that state is OFFLINE");
    fake_settle(fake);
    assert_false(fsm_target_find(fake->replica.fsm, "spare")->available);
    teardown_watch(fake);
}

static void a_running_probe_is_not_doubled(void **state)
{
    struct fake *fake = setup_serving();

    (void)state;
    fake_advance_ms(fake, 60000); /* worker_start would fail the test */
    assert_uint_equal(started_count, 1);
    teardown_watch(fake);
}

/* It is down and not probed again until no others than these hang. */
static void expect_hang_lasts_until(struct fake *fake, uint64_t others)
{
    hang(fake, 1);
    assert_true(available(fake));
    fake_advance_ms(fake, 10000);
    assert_false(available(fake));
    assert_uint_equal(started_count, 1);
    hanging = others;
    fake_advance_ms(fake, 5000);
    assert_uint_equal(started_count, 2);
    expect_back(fake);
}

/* A probe in D state: counts as failures, is not repeated until it is reaped. */
static void an_unkillable_probe_counts_as_failures_and_is_not_repeated(void **state)
{
    struct fake *fake = setup_serving();

    (void)state;
    expect_hang_lasts_until(fake, 0); /* the kernel let it go */
    teardown_watch(fake);
}

/* L3: a probe of another target, or the copy of a backup. */
static void what_else_hangs_keeps_no_target_down(void **state)
{
    struct fake *fake = setup_serving();

    (void)state;
    expect_hang_lasts_until(fake, 1 << 2); /* its own has ended, the other one never does */
    teardown_watch(fake);
}

static void a_probe_that_hangs_is_not_repeated_under_a_later_leadership_either(void **state)
{
    struct fake *fake = setup_serving();

    (void)state;
    fake_stop_serving(fake);
    hang(fake, 1);
    fake_serve(fake);
    fake_advance_ms(fake, 10000);
    assert_uint_equal(started_count, 1);
    assert_false(available(fake));
    hanging = 0;
    fake_advance_ms(fake, 5000);
    assert_uint_equal(started_count, 2);
    teardown_watch(fake);
}

static void a_worker_that_cannot_start_is_a_failure(void **state)
{
    struct fake *fake = setup_watch();

    (void)state;
    start_fails = true;
    fake_serve(fake);
    fake_advance_ms(fake, 10000);
    assert_false(available(fake));
    teardown_watch(fake);
}

/* Two failures seen by the old leader and one by the new one are not three. */
static void a_new_leader_needs_fresh_evidence(void **state)
{
    struct fake *fake = setup_serving();

    (void)state;
    fail_probe(fake);
    fake_advance_ms(fake, 5000);
    fail_probe(fake);
    fake_stop_serving(fake);
    fake_serve(fake);
    fail_probe(fake);
    assert_true(available(fake));
    fake_advance_ms(fake, 5000);
    fail_probe(fake);
    fake_advance_ms(fake, 5000);
    fail_probe(fake);
    assert_false(available(fake));
    /* and the state stays as replicated until there is evidence against it */
    fake_stop_serving(fake);
    fake_serve(fake);
    assert_false(available(fake));
    succeed(fake);
    assert_false(available(fake));
    teardown_watch(fake);
}

static void a_follower_cancels_its_probe_and_ignores_the_result(void **state)
{
    struct fake *fake = setup_watch();

    (void)state;
    fake->config.storage_watch.failures_down = 1;
    fake_serve(fake);
    fake_stop_serving(fake);
    assert_true(running.cancelled);
    fail_probe(fake);
    assert_true(available(fake));
    fake_advance_ms(fake, 60000);
    assert_uint_equal(started_count, 1);
    teardown_watch(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_failures_in_a_row_take_a_target_down),
        cmocka_unit_test(flapping_never_changes_faster_than_the_limits),
        cmocka_unit_test(
            three_failed_probes_make_a_target_unavailable_and_two_good_ones_bring_it_back),
        cmocka_unit_test(details_of_the_last_probe_are_kept_for_status),
        cmocka_unit_test(a_storage_system_that_says_it_is_down_is_believed_beside_good_probes),
        cmocka_unit_test(an_outage_has_the_reason_that_the_probes_find),
        cmocka_unit_test(one_word_of_trouble_is_no_outage_and_failing_probes_outweigh_good_words),
        cmocka_unit_test(a_storage_system_that_falls_silent_leaves_it_to_the_probes),
        cmocka_unit_test(what_is_measured_never_brings_an_earlier_availability_back),
        cmocka_unit_test(what_was_seen_of_a_removed_target_is_not_another_ones),
        cmocka_unit_test(a_running_probe_is_not_doubled),
        cmocka_unit_test(an_unkillable_probe_counts_as_failures_and_is_not_repeated),
        cmocka_unit_test(what_else_hangs_keeps_no_target_down),
        cmocka_unit_test(a_probe_that_hangs_is_not_repeated_under_a_later_leadership_either),
        cmocka_unit_test(a_worker_that_cannot_start_is_a_failure),
        cmocka_unit_test(a_new_leader_needs_fresh_evidence),
        cmocka_unit_test(a_follower_cancels_its_probe_and_ignores_the_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
