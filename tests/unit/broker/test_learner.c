/* What is learned reaches the model, and the next leader goes on with it. */
#include <math.h>

#include "src/broker/daemon/metrics_model.h"
#include "src/broker/decide/evaluator_view.h"
#include "src/broker/decide/learner.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/health/node_health.h"
#include "src/broker/health/nodes.h"
#include "src/eval/learn.h"
#include "tests/unit/broker/evaluator_fixture.h"

static void nodes_ready(struct fake *fake, uint32_t first, uint32_t count)
{
    char name[32];

    for (uint32_t i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "node-%u", first + i);
        fake_node_seen(fake, name, CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    }
}

/* What a learner that begins now makes of the state. */
static struct eval_fleet_rates rates_of_next_leader(struct fake *fake)
{
    static const uint32_t nobody[FSM_GROUPS] = {0};
    struct learner *learner = learner_new(&fake->broker);
    bool refuse = fake->replica.refuse;
    struct eval_fleet_rates rates;

    fake->replica.refuse = true; /* it only looks */
    learner_load(learner);
    learner_advance(learner, nobody);
    learner_rates(learner, &rates);
    learner_free(learner);
    fake->replica.refuse = refuse;
    return rates;
}

static void expect_near(double got, double wanted, double relative)
{
    if (!(fabs(got - wanted) <= relative * fabs(wanted) + 1e-15))
        fail_msg("%.12g, not %.12g", got, wanted);
}

/* Nodes that failed a short time ago fail more often here, and the fleet more than the prior says: both are learned. */
static void failures_raise_the_rate_and_the_factor_of_their_age(void **unused)
{
    struct fake *fake = start();
    struct eval_fleet_rates before, after;

    (void)unused;
    nodes_ready(fake, 0, 20);
    fake_serve(fake);
    before = rates_of_next_leader(fake);
    expect_near(before.node_failures_per_s, 6.5 / 1000 / 86400, 1e-9);
    fake_advance_ms(fake, 10 * (uint64_t)HOUR_MS);
    for (int i = 0; i < 30; i++) { /* one node, again and again */
        fake_node_seen(fake, "node-3", CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN);
        fake_node_seen(fake, "node-3", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
        fake_advance_ms(fake, HOUR_MS / 2);
    }
    after = rates_of_next_leader(fake);
    /* 10 failures in the prior's 1.5e8 s and 30 in 25 h of 20 nodes */
    assert_true(after.node_failures_per_s > 3.5 * before.node_failures_per_s);
    assert_true(after.node_failures_per_s < 4.1 * before.node_failures_per_s);
    assert_true(after.age_factors[0] > 3); /* within an hour */
    assert_true(after.age_factors[2] <= 1.3);
    assert_non_null(fsm_learned(fake->replica.fsm));
    finish(fake);
}

/* The next leader's numbers are the last one's, also those it had not written yet. */
static void the_next_leader_goes_on_where_the_last_one_was(void **unused)
{
    struct fake *fake = start();
    struct eval_fleet_rates written, counted;
    uint64_t at_ms;

    (void)unused;
    nodes_ready(fake, 0, 10);
    fake_serve(fake);
    fake_advance_ms(fake, 50 * (uint64_t)HOUR_MS);
    fake_node_seen(fake, "node-1", CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN);
    fake_advance_ms(fake, HOUR_MS);
    at_ms = fsm_learned(fake->replica.fsm)->at_ms;
    written = rates_of_next_leader(fake);
    /* 51 h of ten nodes, one of them down for the last of it, and one failure */
    expect_near(written.node_failures_per_s,
                (10 + 1 * exp(-1.0 / 720)) /
                    (10 / (6.5 / 1000 / 86400) + (51 * 10 - 1) * 3600.0 * exp(-25.0 / 720)),
                1e-3);
    fake_stop_serving(fake); /* nobody writes what follows among the learned numbers */
    fake_node_seen(fake, "node-2", CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN);
    fake->now_us += UINT64_C(20) * HOUR_MS * 1000;
    counted = rates_of_next_leader(fake);
    assert_int_equal(fsm_learned(fake->replica.fsm)->at_ms, at_ms);
    expect_near(counted.node_failures_per_s,
                (11 + exp(-21.0 / 720)) / (10 / (6.5 / 1000 / 86400) + (509 + 8 * 20) * 3600.0),
                0.02);
    fake_serve(fake); /* and the next one's first cycle writes the same */
    assert_true(fsm_learned(fake->replica.fsm)->at_ms > at_ms);
    expect_near(rates_of_next_leader(fake).node_failures_per_s, counted.node_failures_per_s,
                1e-7); /* words are millionths */
    finish(fake);
}

static void an_idle_cluster_writes_nothing_that_was_learned(void **unused)
{
    struct fake *fake = start();
    uint64_t proposed;

    (void)unused;
    fake_serve(fake);
    proposed = fake->replica.proposed_count;
    fake_advance_ms(fake, 100 * (uint64_t)HOUR_MS);
    assert_uint_equal(fake->replica.proposed_count, proposed);
    nodes_ready(fake, 0, 3);
    proposed = fake->replica.proposed_count;
    fake_advance_ms(fake, 10 * (uint64_t)HOUR_MS); /* quiet: hourly */
    assert_true(fake->replica.proposed_count - proposed <= 11);
    finish(fake);
}

/* At most one in five minutes, however many fail. */
static void what_is_learned_enters_the_log_at_most_every_few_minutes(void **unused)
{
    struct fake *fake = start();
    uint64_t proposed;

    (void)unused;
    nodes_ready(fake, 0, 50);
    fake_serve(fake);
    fake_advance_ms(fake, HOUR_MS);
    proposed = fake->replica.proposed_count;
    for (uint32_t i = 0; i < 30; i++) {
        char name[32];

        snprintf(name, sizeof(name), "node-%u", i);
        fake_node_seen(fake, name, CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN);
        fake_advance_ms(fake, 60000);
    }
    assert_in_range(fake->replica.proposed_count - proposed - 30, 5, 8);
    finish(fake);
}

/* ---- the job's own ---- */

static struct fsm_outcome command_do(struct fake *fake, Ckpt__Log__V1__Command *command)
{
    struct fsm_outcome outcome = fake_do(fake, command);

    assert_int_equal(outcome.status, FSM_OK);
    return outcome;
}

/* The job's checkpoint on node-1, from grant to verified. */
static void write_checkpoint(struct fake *fake, uint64_t id, uint64_t write_ms, uint64_t stall_ms,
                             uint64_t bytes)
{
    Ckpt__Log__V1__Command grant = CKPT__LOG__V1__COMMAND__INIT, report = grant;
    Ckpt__Log__V1__GrantBatch batch = CKPT__LOG__V1__GRANT_BATCH__INIT;
    Ckpt__Log__V1__Grant one = CKPT__LOG__V1__GRANT__INIT, *grants[] = {&one};
    Ckpt__Log__V1__NodeReport message = CKPT__LOG__V1__NODE_REPORT__INIT;
    Ckpt__V1__AgentReport facts = CKPT__V1__AGENT_REPORT__INIT;

    one.checkpoint_id = id;
    one.bytes_per_s = 1000000000;
    one.timeout_ms = 10000000;
    batch.n_grants = 1;
    batch.grants = grants;
    grant.body_case = CKPT__LOG__V1__COMMAND__BODY_GRANTS;
    grant.grants = &batch;
    command_do(fake, &grant);
    fake_advance_ms(fake, write_ms + stall_ms);
    facts.sequence = fsm_node_find(fake->replica.fsm, "node-1")->last_report_sequence + 1;
    facts.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED;
    facts.allocation_id = (char[]){"job"};
    facts.checkpoint_id = one.checkpoint_id;
    facts.attempt = 1;
    facts.run = fake_run(fake, "job", "node-1");
    facts.size_bytes = bytes;
    facts.ranks = 1;
    facts.write_ms = write_ms;
    facts.stall_ms = stall_ms;
    facts.manifest_sha256 =
        (char[]){"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"};
    message.node_id = (char[]){"node-1"};
    message.report = &facts;
    report.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT;
    report.node_report = &message;
    command_do(fake, &report);
}

/* One that was asked for. */
static void run_checkpoint(struct fake *fake, uint64_t write_ms, uint64_t stall_ms, uint64_t bytes)
{
    static uint64_t number;
    Ckpt__Log__V1__Command ask = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RequestCheckpointRequest request = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;
    char id[64];

    snprintf(id, sizeof(id), "ask-%llu", (unsigned long long)++number);
    request.allocation_id = (char[]){"job"};
    ask.request_id = id;
    ask.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_CHECKPOINT;
    ask.request_checkpoint = &request;
    write_checkpoint(fake, command_do(fake, &ask).checkpoint_id, write_ms, stall_ms, bytes);
}

static void set_walltime(Ckpt__V1__AllocationSpec *spec)
{
    spec->walltime_ms = 100 * (uint64_t)HOUR_MS;
}

static void fill_one(struct fake *fake, const struct eval_fleet_rates *rates,
                     struct eval_view *view)
{
    struct fsm_grantable_scan scan;
    struct fsm_waiting best[FSM_TARGETS_MAX];
    struct evaluator_cycle cycle;

    fsm_grantable_begin(&scan, best, 1);
    assert_true(fsm_grantable_step(fake->replica.fsm, &scan, SIZE_MAX));
    evaluator_cycle_begin(&cycle, fake->replica.fsm, NULL, fake_wall_ms(fake), &scan);
    evaluator_cycle_learned(&cycle, fake->replica.fsm, rates);
    evaluator_fill(&cycle, fake->replica.fsm, view, 0, 1);
    view->count = 1;
    evaluator_cycle_end(&cycle);
}

static void a_jobs_own_checkpoints_are_what_the_model_plans_with(void **unused)
{
    struct fake *fake = start();
    struct eval_fleet_rates rates = rates_of_next_leader(fake);
    struct eval_view view;

    (void)unused;
    eval_view_alloc(&view, 1);
    assert_int_equal(fake_register(fake, "job", 1, 1, set_walltime).status, FSM_OK);
    fill_one(fake, &rates, &view);
    expect_near(view.bandwidth_bytes_per_s[0], 2e9, 1e-9); /* the policy's */
    expect_near(view.success_probability[0], 0.98, 1e-5);
    expect_near(view.write_quantile_s[0], 0, 0);
    expect_near(view.stall_factor[0], 1, 0);
    for (int i = 0; i < 4; i++)
        run_checkpoint(fake, 300000, 100000, UINT64_C(200000000000));
    fill_one(fake, &rates, &view);
    expect_near(view.size_bytes[0], 2e11, 1e-9);
    expect_near(view.bandwidth_bytes_per_s[0], 2e11 / 400, 1e-9); /* asked to verified */
    /* no write repeats more exactly than a hundredth: 4 s, and the age is what is at risk */
    expect_near(view.write_quantile_s[0],
                400 + 4 * sqrt(2 * log(fmax(0.4 * view.age_s[0] / 4, 1.6))), 1e-6);
    expect_near(view.stall_factor[0], (100.0 - 2) / 400, 1e-6); /* 2 s of them are the policy's */
    assert_true(view.success_probability[0] > 0.98);
    eval_view_free(&view);
    finish(fake);
}

/* S1-005: the last safe slot before the walltime comes as much earlier as the storage is slower than it was */
static void less_bandwidth_than_its_checkpoints_had_stretches_what_was_learned(void **unused)
{
    struct fake *fake = start();
    struct eval_fleet_rates rates = rates_of_next_leader(fake);
    struct eval_view view;
    double quantile_s;

    (void)unused;
    eval_view_alloc(&view, 1);
    assert_int_equal(fake_register(fake, "job", 1, 1, set_walltime).status, FSM_OK);
    for (int i = 0; i < 4; i++)
        run_checkpoint(fake, 300000, 100000, UINT64_C(200000000000)); /* at 500 MB/s */
    fill_one(fake, &rates, &view);
    quantile_s = view.write_quantile_s[0];
    fake_set_measured(fake, 600000000);
    fill_one(fake, &rates, &view);
    expect_near(view.bandwidth_bytes_per_s[0], 5e8, 1e-9);
    expect_near(view.write_quantile_s[0], quantile_s, 1e-6);
    fake_set_measured(fake, 125000000);
    fill_one(fake, &rates, &view);
    expect_near(view.bandwidth_bytes_per_s[0], 1.25e8, 1e-9);
    expect_near(view.write_quantile_s[0], 4 * quantile_s, 1e-6);
    eval_view_free(&view);
    finish(fake);
}

static void kills_and_demands_of_its_class_reach_the_job(void **unused)
{
    struct fake *fake = start();
    struct eval_fleet_rates rates = rates_of_next_leader(fake);
    struct eval_view view;

    (void)unused;
    eval_view_alloc(&view, 1);
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    fake_advance_ms(fake, 2 * (uint64_t)HOUR_MS);
    fill_one(fake, &rates, &view);
    expect_near(view.kill_per_s[0], 0, 0);
    expect_near(view.yield_probability[0], 0, 0);
    rates.kills_per_s[3] = 1e-5;
    rates.demands_per_s[3] = 1e-4;
    rates.kills_per_s[2] = rates.demands_per_s[2] = 7;
    fill_one(fake, &rates, &view);
    expect_near(view.kill_per_s[0], 1e-5, 1e-3);                        /* to ten bits */
    expect_near(view.yield_probability[0], -expm1(-1e-4 * 3600), 1e-3); /* half the age */
    eval_view_free(&view);
    finish(fake);
}

/* Kills that the state counted become a rate: three in ten hours of one job. */
static void counted_kills_become_a_rate_of_their_class(void **unused)
{
    struct fake *fake = start();
    uint32_t running[FSM_GROUPS] = {[3] = 1};
    struct learner *learner = learner_new(&fake->broker);
    struct eval_fleet_rates rates;

    (void)unused;
    fake->replica.serving = true;
    learner_load(learner);
    for (int i = 0; i < 3; i++) {
        Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
        Ckpt__V1__RequestPreemptionRequest request = CKPT__V1__REQUEST_PREEMPTION_REQUEST__INIT;
        char id[32], job[32];

        snprintf(job, sizeof(job), "job-%d", i);
        assert_int_equal(fake_register(fake, job, (uint32_t)i, 1, NULL).status, FSM_OK);
        fake_set_available(fake, false);
        snprintf(id, sizeof(id), "take-%d", i);
        request.preemption_class = 9;
        request.nodes_needed = 1;
        request.forced = true;
        command.request_id = id;
        command.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_PREEMPTION;
        command.request_preemption = &request;
        command_do(fake, &command);
        fake->now_us += UINT64_C(60000000) * 60;
        command = (Ckpt__Log__V1__Command)CKPT__LOG__V1__COMMAND__INIT;
        command.body_case = CKPT__LOG__V1__COMMAND__BODY_TICK; /* its silent node counts as done */
        command.tick = &(Ckpt__Log__V1__Tick)CKPT__LOG__V1__TICK__INIT;
        command_do(fake, &command);
        fake_set_available(fake, true);
    }
    fake->replica.refuse = true;
    learner_advance(learner, running);
    learner_rates(learner, &rates);
    /* pulled back to a calm day as three of six hours are forgotten */
    expect_near(rates.kills_per_s[3], eval_steady(3 / (86400 + 3 * 3600 * exp(-0.5))), 1e-6);
    expect_near(rates.demands_per_s[3], rates.kills_per_s[3], 1e-9);
    expect_near(rates.kills_per_s[4], 0, 0);
    learner_free(learner);
    fake->replica.refuse = false;
    finish(fake);
}

/* Predicted against actual: 640 GB at 2 GB/s were expected, 320 GB came in 400 s. */
static void what_was_expected_is_compared_with_what_came(void **unused)
{
    struct fake *fake = start();
    const struct metrics *metrics = fake->broker.metrics;
    const struct fsm_checkpoint *decided;

    (void)unused;
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, 24 * (uint64_t)HOUR_MS);
    decided = fsm_checkpoint_next(fake->replica.fsm, 0);
    assert_non_null(decided);
    write_checkpoint(fake, decided->id, 300000, 100000, UINT64_C(320000000000));
    fake_settle(fake);
    expect_near(metrics_value(metrics, METRIC_ESTIMATE_RATIO, "size", NULL), 2, 1e-9);
    expect_near(metrics_value(metrics, METRIC_ESTIMATE_RATIO, "write_time", NULL), 0.8, 1e-9);
    expect_near(metrics_value(metrics, METRIC_ESTIMATE_SUCCESS, "expected", NULL), 0.98, 1e-5);
    expect_near(metrics_value(metrics, METRIC_ESTIMATE_SUCCESS, "actual", NULL), 1, 0);
    finish(fake);
}

/* Queue reports say how old they are, and stop counting by the policy. */
static void queue_reports_grow_old_in_sight(void **unused)
{
    struct fake *fake = start();
    struct metrics *metrics = fake->broker.metrics;
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__ReportQueueRequest report = CKPT__V1__REPORT_QUEUE_REQUEST__INIT;

    (void)unused;
    fake_serve(fake);
    report.vcluster = (char[]){"hpc"};
    report.queued_gpu_ms = 300;
    report.running_gpu_ms = 1000;
    command.request_id = (char[]){"q1"};
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REPORT_QUEUE;
    command.report_queue = &report;
    command_do(fake, &command);
    fake_advance_ms(fake, 299000);
    metrics_model_read(metrics, &fake->broker);
    expect_near(metrics_value(metrics, METRIC_QUEUE_AGE, "hpc", NULL), 299, 1e-9);
    expect_near(metrics_value(metrics, METRIC_QUEUE_COUNTED, "hpc", NULL), 1, 0);
    expect_near(metrics_value(metrics, METRIC_PRESSURE, NULL, NULL), 0.3, 1e-9);
    fake_advance_ms(fake, 2000);
    metrics_model_read(metrics, &fake->broker);
    expect_near(metrics_value(metrics, METRIC_QUEUE_COUNTED, "hpc", NULL), 0, 0);
    expect_near(metrics_value(metrics, METRIC_PRESSURE, NULL, NULL), 0, 0);
    expect_near(metrics_value(metrics, METRIC_LEARNED_FAILURES, NULL, NULL), 6.5 / 1000 / 86400,
                1e-6);
    finish(fake);
}

/* A source says so in so many polls; fewer than HEALTH_CONFIRM_POLLS make no alarm. */
static void say(struct fake *fake, const char *node, const struct telemetry_sample *sample,
                int polls)
{
    struct node_health *health = nodes_health(fake->broker.nodes);
    uint32_t slot = fsm_node_find(fake->replica.fsm, node)->slot;

    for (; polls > 0; polls--) {
        node_health_sample(health, slot, 3, sample);
        node_health_heard(health, slot, 3, fake->now_us);
        fake->now_us++;
    }
}

static void say_xid(struct fake *fake, const char *node, double value)
{
    say(fake, node,
        &(struct telemetry_sample){
            .signal = TELEMETRY_XID, .subject = SAMPLES_NO_SUBJECT, .value = value},
        HEALTH_CONFIRM_POLLS);
}

static void say_critical_once(struct fake *fake, const char *node)
{
    say(fake, node,
        &(struct telemetry_sample){
            .signal = TELEMETRY_STATUS, .subject = SAMPLES_NO_SUBJECT, .value = 2},
        1);
}

/* One cycle of the learner, 30 s on. */
static void go_on(struct fake *fake, struct learner *learner, uint64_t ms)
{
    static const uint32_t nobody[FSM_GROUPS] = {0};

    fake->now_us += ms * 1000;
    learner_advance(learner, nobody);
    while (!list_empty(&fake->replica.proposals))
        fake_apply_one(&fake->replica);
}

/* What came of hard signals becomes recall, precision and lead, which the rows are made of at once and the next leader goes on with. */
static void alarms_and_what_followed_them_are_learned(void **unused)
{
    struct fake *fake = start();
    struct learner *learner;
    struct node_health *health;
    struct eval_fleet_rates rates;
    struct node_hazard before, after;
    char name[32];

    (void)unused;
    fake->broker.nodes = nodes_new(&fake->broker);
    fake->broker.dispatcher = dispatcher_new(&fake->broker);
    health = nodes_health(fake->broker.nodes);
    node_health_set_source(health, 3, 100 * (uint64_t)HOUR_MS);
    nodes_ready(fake, 0, 40);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "node-%d", i);
        say_xid(fake, name, 0);
    }
    fake->replica.serving = true;
    fake->replica.term = 1;
    learner = learner_new(&fake->broker);
    learner_load(learner);
    go_on(fake, learner, 30000);
    learner_rates(learner, &rates);
    assert_true(rates.alarms.recall == 0);
    before =
        node_health_hazard(health, fsm_node_find(fake->replica.fsm, "node-39")->slot, 1800, 60);
    assert_true(before.factor == 1);
    for (
        int i = 0; i < 30;
        i++) { /* ten failures 30 min after a signal, ten signals for nothing, ten failures without one */
        snprintf(name, sizeof(name), "node-%d", i);
        if (i < 20)
            say_xid(fake, name, 79);
        else
            say_critical_once(fake, name); /* one poll announces nothing */
        go_on(fake, learner, HOUR_MS / 2);
        if (i < 10 || i >= 20)
            fake_node_seen(fake, name, CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN);
        go_on(fake, learner, 30000);
    }
    go_on(fake, learner, 10 * HOUR_MS);
    learner_rates(learner, &rates);
    expect_near(rates.alarms.recall, 10.0 / 30,
                0.02); /* beside ten outcomes of the configuration */
    expect_near(rates.alarms.precision, 16.0 / 30, 0.02);
    expect_near(rates.alarms.lead_s, (10 * 1800 + 10 * 2700) / 20.0, 0.02);
    after = node_health_hazard(health, fsm_node_find(fake->replica.fsm, "node-39")->slot, 1800, 60);
    assert_true(after.factor < 0.7 && after.factor > 0.65); /* the announced share is taken out */
    after = node_health_hazard(health, fsm_node_find(fake->replica.fsm, "node-3")->slot, 1800, 60);
    assert_true(after.alarm_h == 0 && !after.unwell); /* it failed: nothing is announced any more */
    learner_free(learner);
    assert_non_null(fsm_learned(fake->replica.fsm));
    learner = learner_new(&fake->broker);
    learner_load(learner);
    learner_rates(learner, &rates);
    assert_true(rates.alarms.recall > 0.2);
    learner_free(learner);
    fake_stop_serving(fake);
    evaluator_free(fake->broker.evaluator);
    dispatcher_free(fake->broker.dispatcher);
    nodes_free(fake->broker.nodes);
    metrics_free(fake->broker.metrics);
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_raise_the_rate_and_the_factor_of_their_age),
        cmocka_unit_test(the_next_leader_goes_on_where_the_last_one_was),
        cmocka_unit_test(an_idle_cluster_writes_nothing_that_was_learned),
        cmocka_unit_test(what_is_learned_enters_the_log_at_most_every_few_minutes),
        cmocka_unit_test(a_jobs_own_checkpoints_are_what_the_model_plans_with),
        cmocka_unit_test(less_bandwidth_than_its_checkpoints_had_stretches_what_was_learned),
        cmocka_unit_test(kills_and_demands_of_its_class_reach_the_job),
        cmocka_unit_test(what_was_expected_is_compared_with_what_came),
        cmocka_unit_test(queue_reports_grow_old_in_sight),
        cmocka_unit_test(counted_kills_become_a_rate_of_their_class),
        cmocka_unit_test(alarms_and_what_followed_them_are_learned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
