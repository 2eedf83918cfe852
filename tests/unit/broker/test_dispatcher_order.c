/* Who gets bandwidth when not all can (D-002, S1-069, L3): the dispatcher with evaluator and state,
 * without streams. */
#include "src/broker/decide/evaluator.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/health/nodes.h"
#include "tests/unit/broker/fake_replica.h"

enum { HOUR_MS = 3600000 };

static struct fake *start(void)
{
    struct fake *fake = fake_new(NULL);

    fake->broker.nodes = nodes_new(&fake->broker);
    fake->broker.dispatcher = dispatcher_new(&fake->broker);
    fake->broker.evaluator = evaluator_new(&fake->broker);
    return fake;
}

static void finish(struct fake *fake)
{
    fake_stop_serving(fake);
    evaluator_free(fake->broker.evaluator);
    dispatcher_free(fake->broker.dispatcher);
    nodes_free(fake->broker.nodes);
    fake_free(fake);
}

/* Never hinted by itself, as wide as the whole budget. */
static void manual_and_wide(Ckpt__V1__AllocationSpec *spec)
{
    spec->strategy = CKPT__V1__STRATEGY__STRATEGY_MANUAL;
    spec->write_bytes_per_s = UINT64_C(10000000000);
}

static void add_job(struct fake *fake, const char *id, uint32_t node)
{
    assert_int_equal(fake_register(fake, id, node, 1, manual_and_wide).status, FSM_OK);
}

/* One of this shape, and two that write when the test asks. */
static void add_three(struct fake *fake, void (*shape)(Ckpt__V1__AllocationSpec *spec))
{
    assert_int_equal(fake_register(fake, "own", 1, 1, shape).status, FSM_OK);
    add_job(fake, "blocker", 2);
    add_job(fake, "waits", 3);
}

static const struct fsm_checkpoint *request(struct fake *fake, const char *job, const char *name)
{
    uint64_t id = fake_request_checkpoint(fake, job, name);

    fake_settle(fake);
    return fsm_checkpoint_find(fake->replica.fsm, id);
}

static void cancel(struct fake *fake, uint64_t checkpoint_id, const char *name)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__CancelCheckpointRequest message = CKPT__V1__CANCEL_CHECKPOINT_REQUEST__INIT;
    char request_id[32];

    snprintf(request_id, sizeof(request_id), "%s", name);
    message.request_id = command.request_id = request_id;
    message.checkpoint_id = checkpoint_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_CANCEL_CHECKPOINT;
    command.cancel_checkpoint = &message;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    fake_settle(fake);
}

static bool granted(const struct fsm_checkpoint *checkpoint)
{
    return checkpoint->state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_DISPATCHED;
}

static void sum_is_within_budget(struct fake *fake)
{
    const struct fsm_target *target = fsm_target_find(fake->replica.fsm, "scratch");

    assert_true(target->granted_bytes_per_s <= target->budget_bytes_per_s);
}

/* Nodes without agents are given up after 90 s; here nothing may end but by the test. */
static struct fake *start_serving(void)
{
    struct fake *fake = start();
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__SetPolicy message = CKPT__LOG__V1__SET_POLICY__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    char request_id[] = "policy";

    command.request_id = request_id;
    policy.node_degraded_after_ms = 100 * (uint64_t)HOUR_MS;
    policy.node_down_after_ms = 200 * (uint64_t)HOUR_MS;
    message.policy = &policy;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SET_POLICY;
    command.set_policy = &message;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    fake_serve(fake);
    return fake;
}

/* Requests carry no gain of their own; the evaluation's present one decides, so the one with more
 * at stake goes first although it asked last. */
static void the_one_with_more_at_stake_now_goes_first(void **state)
{
    struct fake *fake = start_serving();
    const struct fsm_checkpoint *blocker, *young, *old;

    (void)state;
    add_job(fake, "old", 1);
    fake_advance_ms(fake, 6 * (uint64_t)HOUR_MS);
    add_job(fake, "blocker", 2);
    add_job(fake, "young", 3);
    fake_advance_ms(fake, 60000);
    blocker = request(fake, "blocker", "r1");
    assert_true(granted(blocker));
    young = request(fake, "young", "r2");
    old = request(fake, "old", "r3");
    assert_false(granted(young) || granted(old));
    sum_is_within_budget(fake);
    cancel(fake, blocker->id, "c1");
    assert_true(granted(old));
    assert_false(granted(young));
    sum_is_within_budget(fake);
    cancel(fake, old->id, "c2");
    assert_true(granted(young));
    finish(fake);
}

/* S1-069: whatever is worth more by then, those that the outage held up go first, by what would be
 * lost. */
static void resumed_ones_go_before_all_others(void **state)
{
    struct fake *fake = start_serving();
    const struct fsm_checkpoint *small, *large, *fresh;

    (void)state;
    add_job(fake, "large", 1);
    add_job(fake, "fresh", 3);
    fake_advance_ms(fake, 6 * (uint64_t)HOUR_MS);
    add_job(fake, "small", 2);
    fake_advance_ms(fake, 60000);
    small = request(fake, "small", "r1");
    large = request(fake, "large", "r2");
    assert_true(granted(small));
    fake_set_available(fake, false);
    fake_settle(fake);
    assert_false(granted(small));
    assert_int_equal(small->state, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED);
    fake_set_available(fake, true);
    fake_settle(fake);
    assert_true(granted(large));
    assert_false(granted(small));
    fresh = request(fake, "fresh", "r3");
    cancel(fake, large->id, "c1");
    assert_true(granted(small));
    assert_false(granted(fresh));
    finish(fake);
}

static void hourly_and_wide(Ckpt__V1__AllocationSpec *spec)
{
    spec->period_ms = HOUR_MS;
    spec->write_bytes_per_s = UINT64_C(10000000000);
}

static void what_was_asked_for_goes_before_what_was_decided(void **state)
{
    struct fake *fake = start_serving();
    const struct fsm_checkpoint *blocker, *decided, *asked;

    (void)state;
    add_three(fake, hourly_and_wide);
    fake_advance_ms(fake, HOUR_MS - 60000);
    blocker = request(fake, "blocker", "r1");
    fake_advance_ms(fake, 120000);
    decided = fsm_checkpoint_next(fake->replica.fsm, blocker->id);
    assert_non_null(decided);
    assert_int_equal(decided->state, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED);
    asked = request(fake, "waits", "r2");
    cancel(fake, blocker->id, "c1");
    assert_true(granted(asked));
    assert_false(granted(decided));
    finish(fake);
}

static Ckpt__V1__Checkpoint place_of(struct fake *fake, const struct fsm_checkpoint *checkpoint)
{
    Ckpt__V1__Checkpoint message = CKPT__V1__CHECKPOINT__INIT;

    message.checkpoint_id = checkpoint->id;
    message.state = checkpoint->state;
    dispatcher_fill_place(fake->broker.dispatcher, &message);
    return message;
}

/* Waves are visible: each place, and when its turn should come: 640 GB at 7 GB/s before the first,
 * and so on. */
static void those_that_wait_see_their_place_and_their_time(void **state)
{
    struct fake *fake = start_serving();
    const struct fsm_checkpoint *writer, *first, *second;
    Ckpt__V1__TargetStatus target = CKPT__V1__TARGET_STATUS__INIT;
    uint64_t now_ms;

    (void)state;
    add_job(fake, "writer", 1);
    add_job(fake, "first", 2);
    fake_advance_ms(fake, 48 * (uint64_t)HOUR_MS);
    add_job(fake, "second", 3);
    fake_advance_ms(fake, 60000);
    writer = request(fake, "writer", "r1");
    second = request(fake, "second", "r2");
    first = request(fake, "first", "r3");
    now_ms = fake_wall_ms(fake);
    assert_int_equal(place_of(fake, writer).queue_position, 0);
    assert_int_equal(place_of(fake, first).queue_position, 1);
    assert_int_equal(place_of(fake, first).wave, 1);
    assert_in_range(place_of(fake, first).expected_start_ms, now_ms + 91400, now_ms + 91430);
    assert_int_equal(place_of(fake, second).queue_position, 2);
    assert_int_equal(place_of(fake, second).wave, 2);
    assert_in_range(place_of(fake, second).expected_start_ms, now_ms + 182840, now_ms + 182860);
    fake_advance_ms(fake, 50000); /* the writer goes on with half of what its kind may have */
    assert_in_range(place_of(fake, first).expected_start_ms, now_ms + 128900, now_ms + 128960);
    dispatcher_fill_queue(fake->broker.dispatcher, 0, &target);
    assert_int_equal(target.waiting_count, 2);
    assert_int_equal(target.wave_count, 2);
    assert_true(target.price_gpu_ms_per_gb == 0); /* both were asked for */
    cancel(fake, writer->id, "c1");
    assert_int_equal(place_of(fake, first).queue_position, 0);
    assert_int_equal(place_of(fake, second).queue_position, 1);
    finish(fake);
}

static void short_and_wide(Ckpt__V1__AllocationSpec *spec)
{
    spec->walltime_ms = 2 * (uint64_t)HOUR_MS;
    spec->write_bytes_per_s = UINT64_C(10000000000);
}

/* A walltime slot comes once: it passes the limit, and those that were asked for. */
static void a_walltime_slot_is_granted_although_the_target_is_full(void **state)
{
    struct fake *fake = start_serving();
    const struct fsm_checkpoint *blocker, *waiting, *last = NULL;

    (void)state;
    add_three(fake, short_and_wide);
    fake_advance_ms(fake, HOUR_MS + HOUR_MS / 2);
    while ((last = fsm_checkpoint_next(fake->replica.fsm, last == NULL ? 0 : last->id)) != NULL)
        cancel(fake, last->id, "c0"); /* what the model wanted before */
    blocker = request(fake, "blocker", "r1");
    waiting = request(fake, "waits", "r2");
    assert_true(granted(blocker));
    fake_advance_ms(fake, HOUR_MS / 2 - 100000);
    last = fsm_checkpoint_next(fake->replica.fsm, waiting->id);
    assert_non_null(last);
    assert_int_equal(last->purpose, CKPT__V1__PURPOSE__PURPOSE_WALLTIME);
    assert_true(granted(last));
    assert_false(granted(waiting));
    finish(fake);
}

static void short_with_a_period(Ckpt__V1__AllocationSpec *spec)
{
    short_and_wide(spec);
    spec->period_ms = HOUR_MS;
}

/* The job's own checkpoint waits behind a writer and what was asked for: at the last safe slot it
 * goes at once, under the same id. */
static void a_walltime_slot_hurries_the_checkpoint_that_waits(void **state)
{
    struct fake *fake = start_serving();
    const struct fsm *fsm = fake->replica.fsm;
    const struct fsm_checkpoint *blocker, *waiting, *own;

    (void)state;
    add_three(fake, short_with_a_period);
    blocker = request(fake, "blocker", "r1");
    waiting = request(fake, "waits", "r2");
    assert_true(granted(blocker));
    fake_advance_ms(fake, HOUR_MS + HOUR_MS / 2);
    own = fsm_checkpoint_find(fsm, fsm_allocation_find(fsm, "own")->active_checkpoint_id);
    assert_non_null(own); /* of its period */
    assert_false(granted(own));
    assert_int_equal(own->purpose, CKPT__V1__PURPOSE__PURPOSE_PERIODIC);
    fake_advance_ms(fake, HOUR_MS / 2 - 100000);
    assert_int_equal(fsm_allocation_find(fsm, "own")->active_checkpoint_id, own->id);
    assert_int_equal(own->purpose, CKPT__V1__PURPOSE__PURPOSE_WALLTIME);
    assert_true(fsm_allocation_find(fsm, "own")->walltime_asked);
    assert_true(granted(own));
    assert_false(granted(waiting));
    finish(fake);
}

static void decide_for_walltime(struct fake *fake, const char *job)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__DecisionBatch batch = CKPT__LOG__V1__DECISION_BATCH__INIT;
    Ckpt__Log__V1__Decision decision = CKPT__LOG__V1__DECISION__INIT, *decisions[] = {&decision};
    char id[32];

    snprintf(id, sizeof(id), "%s", job);
    decision.allocation_id = id;
    decision.purpose = CKPT__V1__PURPOSE__PURPOSE_WALLTIME;
    batch.n_decisions = 1;
    batch.decisions = decisions;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_DECISIONS;
    command.decisions = &batch;
    assert_int_equal(fake_do(fake, &command).current, 1);
}

static void migrate(struct fake *fake, const char *job, const char *name)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RequestMigrationRequest message = CKPT__V1__REQUEST_MIGRATION_REQUEST__INIT;
    char id[32], request_id[32];

    snprintf(id, sizeof(id), "%s", job);
    snprintf(request_id, sizeof(request_id), "%s", name);
    message.request_id = command.request_id = request_id;
    message.allocation_id = id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_MIGRATION;
    command.request_migration = &message;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* Found by the simulator (seed 520008297): it would wait behind the writer, and the walltime ends
 * no later than before. */
static void a_walltime_slot_is_granted_although_a_migration_met_it(void **state)
{
    struct fake *fake = start_serving();
    const struct fsm *fsm = fake->replica.fsm;
    const struct fsm_checkpoint *blocker, *own, *asked;

    (void)state;
    add_three(fake, short_and_wide);
    blocker = request(fake, "blocker", "r1");
    assert_true(granted(blocker));
    asked = request(fake, "waits", "r2");
    migrate(fake, "waits", "m1");
    decide_for_walltime(fake, "own");
    own = fsm_checkpoint_find(fsm, fsm_allocation_find(fsm, "own")->active_checkpoint_id);
    migrate(fake, "own", "m2");
    assert_false(granted(own));
    fake_settle(fake);
    assert_int_equal(own->purpose, CKPT__V1__PURPOSE__PURPOSE_MIGRATE);
    assert_true(granted(own));
    assert_false(granted(asked));
    finish(fake);
}

/* A new leader grants what is waiting without being told again. */
static void grants_are_derived_from_the_state_by_the_next_leader(void **state)
{
    struct fake *fake = start();
    const struct fsm_checkpoint *checkpoint;

    (void)state;
    add_job(fake, "job", 1);
    checkpoint = request(fake, "job", "r1");
    fake_advance_ms(fake, 60000);
    assert_false(granted(checkpoint)); /* nobody leads */
    fake_serve(fake);
    assert_true(granted(checkpoint));
    assert_true(checkpoint->timeout_ms >= 600000);
    finish(fake);
}

static void a_refused_proposal_is_repeated(void **state)
{
    struct fake *fake = start();
    const struct fsm_checkpoint *checkpoint;

    (void)state;
    add_job(fake, "job", 1);
    fake->replica.refuse = true;
    fake_serve(fake);
    fake->replica.refuse = false;
    checkpoint = request(fake, "job", "r1");
    fake->replica.refuse = true;
    fake_advance_ms(fake, 1000);
    fake->replica.refuse = false;
    fake_advance_ms(fake, 1000);
    assert_true(granted(checkpoint));
    finish(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_one_with_more_at_stake_now_goes_first),
        cmocka_unit_test(resumed_ones_go_before_all_others),
        cmocka_unit_test(what_was_asked_for_goes_before_what_was_decided),
        cmocka_unit_test(those_that_wait_see_their_place_and_their_time),
        cmocka_unit_test(a_walltime_slot_is_granted_although_the_target_is_full),
        cmocka_unit_test(a_walltime_slot_hurries_the_checkpoint_that_waits),
        cmocka_unit_test(a_walltime_slot_is_granted_although_a_migration_met_it),
        cmocka_unit_test(grants_are_derived_from_the_state_by_the_next_leader),
        cmocka_unit_test(a_refused_proposal_is_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
