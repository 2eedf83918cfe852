/* Evaluation: from committed state to decisions (S1-050, T-001). */
#include <math.h>

#include "src/broker/decide/decision_inputs.h"
#include "src/broker/decide/evaluator_view.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/health/nodes.h"
#include "src/eval/breakdown.h"
#include "tests/unit/broker/evaluator_fixture.h"

/* A cycle with what waits now. */
static void begin_cycle_of(struct fake *fake, struct evaluator_cycle *cycle,
                           const struct nodes *nodes, uint64_t now_ms)
{
    struct fsm_waiting best[FSM_TARGETS_MAX];
    struct fsm_grantable_scan scan;

    fsm_grantable_begin(&scan, best, 1);
    assert_true(fsm_grantable_step(fake->replica.fsm, &scan, SIZE_MAX));
    evaluator_cycle_begin(cycle, fake->replica.fsm, nodes, now_ms, &scan);
}

static const struct fsm_allocation *job(struct fake *fake)
{
    return fsm_allocation_find(fake->replica.fsm, "job");
}

static Ckpt__V1__CheckpointState checkpoint_state(struct fake *fake)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_next(fake->replica.fsm, 0);

    return checkpoint == NULL ? CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_UNSPECIFIED
                              : checkpoint->state;
}

/* ---- cycles ---- */

/* S1-054 */
static void every_running_allocation_is_evaluated_once_per_interval(void **state)
{
    struct fake *fake = start();

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 4, NULL).status, FSM_OK);
    fake_serve(fake); /* at once after gaining leadership */
    assert_double_near(metrics_value(fake->broker.metrics, METRIC_L_EVALUATIONS, "skip", NULL), 1,
                       0);
    fake_advance_ms(fake, 30000);
    assert_double_near(metrics_value(fake->broker.metrics, METRIC_L_EVALUATIONS, "skip", NULL), 2,
                       0);
    fake_advance_ms(fake, 60000);
    assert_double_near(metrics_value(fake->broker.metrics, METRIC_L_EVALUATIONS, "skip", NULL), 4,
                       0);
    assert_uint_equal(evaluator_last_cycle_ms(fake->broker.evaluator), fake_wall_ms(fake));
    finish(fake);
}

static void set_interval(struct fake *fake, uint64_t ms)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__SetPolicy set = CKPT__LOG__V1__SET_POLICY__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    char id[32];

    snprintf(id, sizeof(id), "interval-%d", (int)ms);
    command.request_id = id;
    policy.evaluation_interval_ms = ms;
    set.policy = &policy;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SET_POLICY;
    command.set_policy = &set;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* The leader that waits out an interval of an hour does not sleep through the policy that ends
 * it. */
static void a_new_interval_counts_from_the_last_cycle(void **state)
{
    struct fake *fake = start();
    uint64_t last_ms;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 4, NULL).status, FSM_OK);
    fake_serve(fake);
    set_interval(fake, HOUR_MS);
    fake_advance_ms(fake, 40000);
    last_ms = evaluator_last_cycle_ms(fake->broker.evaluator);
    set_interval(fake, 60000);
    fake_advance_ms(fake, 19000);
    assert_uint_equal(evaluator_last_cycle_ms(fake->broker.evaluator), last_ms);
    fake_advance_ms(fake, 1000); /* 60 s after the last one */
    assert_uint_equal(evaluator_last_cycle_ms(fake->broker.evaluator), last_ms + 60000);
    set_interval(fake, 120000); /* longer: not before */
    fake_advance_ms(fake, 119000);
    assert_uint_equal(evaluator_last_cycle_ms(fake->broker.evaluator), last_ms + 60000);
    fake_advance_ms(fake, 1000);
    assert_uint_equal(evaluator_last_cycle_ms(fake->broker.evaluator), last_ms + 180000);
    finish(fake);
}

/* S1-055, S1-056 */
static void value_over_cost_becomes_exactly_one_checkpoint(void **state)
{
    struct fake *fake = start();
    const struct fsm_checkpoint *checkpoint;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 16, NULL).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, 10 * 60000);
    assert_int_equal(checkpoint_state(fake),
                     CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_UNSPECIFIED);
    fake_advance_ms(fake, 12 * (uint64_t)HOUR_MS);
    checkpoint = fsm_checkpoint_next(fake->replica.fsm, 0);
    assert_non_null(checkpoint);
    assert_int_equal(checkpoint->state, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED);
    assert_int_equal(checkpoint->purpose, CKPT__V1__PURPOSE__PURPOSE_PERIODIC);
    assert_non_null(checkpoint->terms);
    assert_null(fsm_checkpoint_next(fake->replica.fsm, checkpoint->id));
    assert_double_near(
        metrics_value(fake->broker.metrics, METRIC_L_EVALUATIONS, "checkpoint", NULL), 1, 0);
    assert_true(counted(fake, "skip", "one_active") > 0);
    finish(fake);
}

/* The first decision of the log on the only job. */
static const struct fsm_checkpoint *decided(struct fake *fake)
{
    const struct fsm_checkpoint *checkpoint;

    assert_int_equal(fake_register(fake, "job", 1, 16, NULL).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, 12 * (uint64_t)HOUR_MS);
    checkpoint = fsm_checkpoint_next(fake->replica.fsm, 0);
    assert_non_null(checkpoint);
    assert_non_null(checkpoint->terms);
    assert_non_null(checkpoint->inputs);
    return checkpoint;
}

/* A decision of the log is reproduced bit for bit from what is beside it, and what differs is
 * named. */
static void a_decision_of_the_log_is_reproduced_bit_for_bit(void **state)
{
    struct fake *fake = start();
    const struct fsm_checkpoint *checkpoint = decided(fake);
    struct fsm_inputs inputs = *checkpoint->inputs;
    struct fsm_basis basis = *inputs.basis;
    Ckpt__V1__DecisionTerms terms = *checkpoint->terms;
    struct eval_policy policy;
    struct eval_view view;
    struct eval_result result;
    const struct decision_place place = {&policy, &view, &result};
    uint64_t columns[EVAL_COLUMN_COUNT];
    char what[160];

    (void)state;
    eval_view_alloc(&view, 1);
    eval_result_alloc(&result, 1);
    assert_int_equal(decision_recompute(&inputs, &terms, &place, what, sizeof(what)),
                     DECISION_SAME);
    assert_string_equal(what, "");
    assert_true(eval_verdict_fires((enum eval_verdict)result.verdict[0]));
    assert_double_near(view.age_s[0] * 1e3, (double)terms.age_ms, 1);
    terms.compute_waste_gpu_ms++;
    assert_int_equal(decision_recompute(&inputs, &terms, &place, what, sizeof(what)),
                     DECISION_DIFFERS);
    assert_string_equal(what, "compute_waste_gpu_ms");
    terms = *checkpoint->terms;
    memcpy(columns, inputs.columns, sizeof(columns));
    inputs.columns = columns;
    columns[0]++; /* the lowest bit of the age changes no integer, but the digest */
    assert_int_equal(decision_recompute(&inputs, &terms, &place, what, sizeof(what)),
                     DECISION_DIFFERS);
    assert_non_null(strstr(what, "by less than a GPU-millisecond"));
    inputs = *checkpoint->inputs;
    inputs.basis = &basis;
    basis.revision++;
    assert_int_equal(decision_recompute(&inputs, &terms, &place, what, sizeof(what)),
                     DECISION_OTHER_VERSION);
    basis.revision--;
    basis.names = "age_s | cycle_s";
    assert_int_equal(decision_recompute(&inputs, &terms, &place, what, sizeof(what)),
                     DECISION_OTHER_VERSION);
    eval_view_free(&view);
    eval_result_free(&result);
    finish(fake);
}

/* S1-063: no decision, no trap, without bandwidth. S1-064: the job goes on. */
static void nothing_is_decided_while_the_storage_is_down(void **state)
{
    struct fake *fake = start();

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 16, NULL).status, FSM_OK);
    fake_set_available(fake, false);
    fake_serve(fake);
    fake_advance_ms(fake, 24 * (uint64_t)HOUR_MS);
    assert_int_equal(checkpoint_state(fake),
                     CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_UNSPECIFIED);
    assert_true(counted(fake, "skip", "storage_unavailable") > 100);
    assert_int_equal(job(fake)->state, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING);
    assert_string_equal(explain(fake).verdict, "storage_unavailable");
    finish(fake);
}

/* S1-068: not at the next interval but now. */
static void a_recovered_target_is_evaluated_at_once(void **state)
{
    struct fake *fake = start();

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 16, NULL).status, FSM_OK);
    fake_set_available(fake, false);
    fake_serve(fake);
    fake_advance_ms(fake, 24 * (uint64_t)HOUR_MS + 10000);
    fake_set_available(fake, true);
    fake_advance_ms(fake, 10);
    assert_int_equal(checkpoint_state(fake),
                     CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED);
    finish(fake);
}

/* S1-050: what is committed is all that a new leader needs. */
static void a_follower_decides_nothing_and_explains_nothing(void **state)
{
    struct fake *fake = start();
    struct explained_copy unused = {0};
    uint64_t proposed;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 16, NULL).status, FSM_OK);
    fake_serve(fake);
    explain(fake);
    fake_stop_serving(fake);
    proposed = fake->replica.proposed_count;
    fake_advance_ms(fake, 24 * (uint64_t)HOUR_MS);
    assert_uint_equal(fake->replica.proposed_count, proposed);
    assert_false(explain_last(&fake->broker, (char[]){"job"}, keep_explained, &unused));
    assert_uint_equal(evaluator_last_cycle_ms(fake->broker.evaluator), 0);
    fake_serve(fake);
    assert_int_equal(checkpoint_state(fake),
                     CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED);
    finish(fake);
}

static void set_manual(Ckpt__V1__AllocationSpec *spec)
{
    spec->strategy = CKPT__V1__STRATEGY__STRATEGY_MANUAL;
}

/* S1-082, S3-030 (README.md recommends it where it belongs): and asked for it is written */
static void a_manual_allocation_is_never_hinted(void **state)
{
    struct fake *fake = start();
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RequestCheckpointRequest request = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 16, set_manual).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, 24 * (uint64_t)HOUR_MS);
    assert_int_equal(checkpoint_state(fake),
                     CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_UNSPECIFIED);
    assert_string_equal(explain(fake).verdict, "strategy_not_auto");
    request.request_id = command.request_id = (char[]){"by-hand"};
    request.allocation_id = (char[]){"job"};
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_CHECKPOINT;
    command.request_checkpoint = &request;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    assert_int_equal(checkpoint_state(fake),
                     CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED);
    finish(fake);
}

/* S3-031, S4-008 */
static void a_declared_period_fires_beside_the_model(void **state)
{
    struct fake *fake = start();

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 1, set_period).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, 9 * 60000);
    assert_int_equal(checkpoint_state(fake),
                     CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_UNSPECIFIED);
    fake_advance_ms(fake, 2 * 60000);
    assert_int_equal(checkpoint_state(fake),
                     CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED);
    finish(fake);
}

static void short_with_a_period(Ckpt__V1__AllocationSpec *spec)
{
    spec->period_ms = 600000;
    spec->walltime_ms = 8 * (uint64_t)HOUR_MS;
    spec->sensitive = true;
}

/* S1-063: neither a declared period, nor the longest interval (of sensitive jobs: an hour), nor the
 * end of the walltime. */
static void no_override_fires_in_an_outage(void **state)
{
    struct fake *fake = start();

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 16, short_with_a_period).status, FSM_OK);
    fake_set_available(fake, false);
    fake_serve(fake);
    fake_advance_ms(fake, 8 * (uint64_t)HOUR_MS - 1000);
    assert_int_equal(checkpoint_state(fake),
                     CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_UNSPECIFIED);
    assert_double_near(
        metrics_value(fake->broker.metrics, METRIC_L_EVALUATIONS, "checkpoint", NULL), 0, 0);
    assert_true(counted(fake, "skip", "storage_unavailable") > 900);
    finish(fake);
}

/* The same job fires at once when the target is there. */
static void a_period_fires_for_a_sensitive_job_at_its_own_smallest_interval(void **state)
{
    struct fake *fake = start();
    const struct fsm_checkpoint *checkpoint;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 1, short_with_a_period).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, 600000 - 30000);
    assert_null(fsm_checkpoint_next(fake->replica.fsm, 0));
    fake_advance_ms(fake, 60000);
    checkpoint = fsm_checkpoint_next(fake->replica.fsm, 0);
    assert_non_null(checkpoint);
    assert_int_equal(checkpoint->purpose, CKPT__V1__PURPOSE__PURPOSE_PERIODIC);
    finish(fake);
}

/* The decisions of a cycle are on their way when the next slot of its last chunk is taken. */
static void an_allocation_registered_within_a_cycle_waits_for_the_next(void **state)
{
    struct fake *fake = start();
    struct fake_timer *timer;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    fake->now_us += 24 * (uint64_t)HOUR_MS * 1000;
    fake->replica.term++;
    fake->replica.serving = true;
    fake_tell(&fake->replica, 0);
    while (list_empty(&fake->replica.proposals)) {
        timer = fake_earliest(fake);
        assert_non_null(timer);
        timer->armed = false;
        timer->fire(timer->data);
    }
    assert_int_equal(fake_register(fake, "late", 2, 1, NULL).status, FSM_OK);
    fake_advance_ms(fake, 100);
    assert_int_equal(checkpoint_state(fake),
                     CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED);
    assert_false(
        explain_last(&fake->broker, (char[]){"late"}, keep_explained, &(struct explained_copy){0}));
    fake_advance_ms(fake, 30000);
    assert_true(
        explain_last(&fake->broker, (char[]){"late"}, keep_explained, &(struct explained_copy){0}));
    finish(fake);
}

/* ---- explain ---- */

static void register_jobs(struct fake *fake, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        char name[32];

        snprintf(name, sizeof(name), "job-%u", i);
        assert_int_equal(fake_register(fake, name, i + 1, 1, NULL).status, FSM_OK);
    }
}

/* Rows that the last cycle's block had no room for have no evaluation before. */
static void a_chunk_that_outgrows_its_block_is_evaluated_whole(void **state)
{
    struct fake *fake = start();

    (void)state;
    register_jobs(fake, 0, 200);
    fake_serve(fake);
    fake_advance_ms(fake, 60000);
    assert_int_equal(explain_job(fake, "job-199").count, 1);
    register_jobs(fake, 200, 300);
    fake_advance_ms(fake, 60000);
    assert_int_equal(explain_job(fake, "job-299").count, 1);
    fake_advance_ms(fake, 60000);
    assert_int_equal(explain_job(fake, "job-299").count, 1);
    finish(fake);
}

static void a_negative_evaluation_is_explained_with_numbers(void **state)
{
    struct fake *fake = start();
    struct explained_copy explained;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 16, NULL).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, 600000);
    explained = explain(fake);
    assert_false(explained.checkpoint);
    assert_string_equal(explained.verdict, "value_below_cost");
    assert_uint_equal(explained.evaluated_at_ms, fake_wall_ms(fake));
    assert_uint_equal(explained.term, 1);
    assert_uint_equal(explained.terms.age_ms, 600000);
    assert_uint_equal(explained.terms.gpu_count, 128);
    assert_uint_equal(explained.terms.bandwidth_bytes_per_s,
                      fsm_target_find(fake->replica.fsm, "scratch")->budget_bytes_per_s <
                              16 * fsm_policy(fake->replica.fsm)->default_write_bytes_per_s
                          ? fsm_target_find(fake->replica.fsm, "scratch")->budget_bytes_per_s
                          : 16 * fsm_policy(fake->replica.fsm)->default_write_bytes_per_s);
    assert_true(explained.terms.value_gpu_ms > 0);
    assert_true(explained.terms.cost_gpu_ms > explained.terms.value_gpu_ms);
    assert_true(strlen(explained.flips) > 0);
    assert_true(explained.guard_count >= 4);
    for (size_t i = 0; i < explained.guard_count; i++) /* no agent was heard of */
        assert_non_null(strstr(explained.guards[i], strncmp(explained.guards[i], "health", 6) == 0
                                                        ? ": blind"
                                                        : ": ok"));
    finish(fake);
}

/* S1-005: storage_write_bandwidth is what the storage system measures now, in the cycle after it
 * has changed */
static void the_next_cycle_uses_the_bandwidth_that_was_measured(void **state)
{
    const uint64_t configured = UINT64_C(7000000000), measured = UINT64_C(2000000000);
    struct fake *fake = start();
    struct explained_copy before, after;
    uint32_t cycle_ms = (uint32_t)fsm_policy(fake->replica.fsm)->evaluation_interval_ms;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 16, NULL).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, cycle_ms);
    before = explain(fake);
    assert_uint_equal(before.terms.bandwidth_bytes_per_s, configured);
    fake_set_measured(fake, measured);
    fake_advance_ms(fake, cycle_ms);
    after = explain(fake);
    assert_uint_equal(after.evaluated_at_ms, before.evaluated_at_ms + cycle_ms);
    assert_uint_equal(after.terms.bandwidth_bytes_per_s, measured);
    assert_true(after.terms.cost_gpu_ms > 3 * before.terms.cost_gpu_ms); /* 7 / 2 */
    fake_set_measured(fake, 3 * measured);
    fake_advance_ms(fake, cycle_ms);
    assert_uint_equal(explain(fake).terms.bandwidth_bytes_per_s, 3 * measured);
    fake_set_measured(fake,
                      100 * measured); /* never more than the staging of data leaves (D-001) */
    fake_advance_ms(fake, cycle_ms);
    assert_uint_equal(explain(fake).terms.bandwidth_bytes_per_s, configured);
    fake_set_measured(fake, measured);
    fake_set_measured(fake, 0); /* aged out */
    fake_advance_ms(fake, cycle_ms);
    assert_uint_equal(explain(fake).terms.bandwidth_bytes_per_s, configured);
    finish(fake);
}

static void an_allocation_that_was_not_evaluated_is_not_explained(void **state)
{
    struct fake *fake = start();
    struct explained_copy unused = {0};

    (void)state;
    fake_serve(fake);
    assert_false(explain_last(&fake->broker, (char[]){"job"}, keep_explained, &unused));
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    assert_false(explain_last(&fake->broker, (char[]){"job"}, keep_explained, &unused));
    assert_false(evaluator_last(NULL, job(fake), &(struct evaluator_row){0}));
    finish(fake);
}

/* ---- walltime and scaling ---- */

/* How many checkpoints of the purpose there are, and the last of them. */
static size_t checkpoints_for(struct fake *fake, Ckpt__V1__Purpose purpose,
                              const struct fsm_checkpoint **ret_last)
{
    const struct fsm_checkpoint *at = NULL;
    size_t count = 0;

    while ((at = fsm_checkpoint_next(fake->replica.fsm, at == NULL ? 0 : at->id)) != NULL) {
        if (at->purpose != purpose)
            continue;
        count++;
        *ret_last = at;
    }
    return count;
}

/* S1-023, S1-094, S1-095: 640 GB at 2 GB/s, a quarter more, quiesce, grace: 432 s before the end;
 * no leader asks a second time, whatever became of the first. S1-090: and the end stays where it
 * is. */
static void the_last_safe_slot_fires_once_also_under_another_leader(void **state)
{
    struct fake *fake = start();
    const struct fsm_checkpoint *slot = NULL;
    uint64_t asked_ms = 0;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 1, two_hours).status, FSM_OK);
    fake_serve(fake);
    for (uint64_t ms = 0; ms < 2 * (uint64_t)HOUR_MS - 60000; ms += 30000) {
        fake_advance_ms(fake, 30000);
        if (asked_ms == 0 &&
            checkpoints_for(fake, CKPT__V1__PURPOSE__PURPOSE_WALLTIME, &slot) == 1) {
            asked_ms = ms + 30000;
            assert_true(job(fake)->walltime_asked);
            fake_stop_serving(fake);
            cancel(fake, slot->id);
            fake_serve(fake); /* a cycle at once */
        }
    }
    assert_true(asked_ms >= 2 * (uint64_t)HOUR_MS - 462000 &&
                asked_ms <= 2 * (uint64_t)HOUR_MS - 402000);
    assert_uint_equal(checkpoints_for(fake, CKPT__V1__PURPOSE__PURPOSE_WALLTIME, &slot), 1);
    assert_uint_equal(job(fake)->walltime_ms, 2 * HOUR_MS);
    finish(fake);
}

static void update_nodes(struct fake *fake, uint32_t node_count, const char *request_id)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__UpdateAllocationRequest request = CKPT__V1__UPDATE_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__NodeShare shares[8], *pointers[8];
    char names[8][16], id[32];

    snprintf(id, sizeof(id), "%s", request_id);
    for (uint32_t i = 0; i < node_count; i++) {
        snprintf(names[i], sizeof(names[i]), "node-%u", i + 1);
        ckpt__v1__node_share__init(&shares[i]);
        shares[i].node_id = names[i];
        shares[i].gpu_count = 8;
        pointers[i] = &shares[i];
    }
    request.request_id = command.request_id = id;
    request.allocation_id = (char[]){"job"};
    request.nodes = pointers;
    request.n_nodes = node_count;
    request.force = true;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_UPDATE_ALLOCATION;
    command.update_allocation = &request;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* S1-080 */
static void the_next_cycle_counts_the_nodes_of_now(void **state)
{
    struct fake *fake = start();

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 2, NULL).status, FSM_OK);
    fake_serve(fake);
    assert_uint_equal(explain(fake).terms.gpu_count, 16);
    update_nodes(fake, 5, "grow");
    assert_uint_equal(explain(fake).terms.gpu_count, 16); /* as it was evaluated */
    fake_advance_ms(fake, 30000);
    assert_uint_equal(explain(fake).terms.gpu_count, 40);
    update_nodes(fake, 1, "shrink");
    fake_advance_ms(fake, 30000);
    assert_uint_equal(explain(fake).terms.gpu_count, 8);
    finish(fake);
}

/* ---- health ---- */

/* T-001: one heartbeat later the next evaluation sees it, and says why. */
static void rising_errors_of_one_node_raise_the_value(void **state)
{
    struct fake *fake = start();
    Ckpt__V1__AgentHeartbeat heartbeat = CKPT__V1__AGENT_HEARTBEAT__INIT;
    struct nodes *nodes;
    struct evaluator_cycle healthy, sick;
    struct eval_view view = {0};
    double before;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 4, NULL).status, FSM_OK);
    fake_serve(fake);
    nodes = nodes_new(&fake->broker);
    eval_view_alloc(&view, 16);
    nodes_start(nodes);
    begin_cycle_of(fake, &healthy, nodes, fake_wall_ms(fake));
    evaluator_fill(&healthy, fake->replica.fsm, &view, 0, 1);
    before = view.hazard_factor[0];
    heartbeat.ecc_measured = true;
    nodes_heard(nodes, job(fake)->nodes[2].node_slot, &heartbeat);
    heartbeat.ecc_uncorrectable_count = 1;
    nodes_heard(nodes, job(fake)->nodes[2].node_slot, &heartbeat);
    begin_cycle_of(fake, &sick, nodes, fake_wall_ms(fake));
    evaluator_fill(&sick, fake->replica.fsm, &view, 0, 1);
    assert_double_near(before, 1, 0);
    assert_double_near(view.hazard_factor[0], (1 + 1 + 100 + 1) / 4.0, 1e-9);
    evaluator_cycle_end(&healthy);
    evaluator_cycle_end(&sick);
    eval_view_free(&view);
    nodes_stop(nodes);
    nodes_free(nodes);
    finish(fake);
}

/* ---- queues ---- */

static void report_queue(struct fake *fake, uint64_t queued_gpu_ms, uint64_t running_gpu_ms,
                         uint32_t preemption_class)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__ReportQueueRequest request = CKPT__V1__REPORT_QUEUE_REQUEST__INIT;
    Ckpt__V1__WaitingJob waiting = CKPT__V1__WAITING_JOB__INIT;
    Ckpt__V1__WaitingJob *pointers[] = {&waiting};
    static int number;
    char request_id[32];

    snprintf(request_id, sizeof(request_id), "queue-%d", ++number);
    waiting.job_id = (char[]){"w1"};
    waiting.preemption_class = preemption_class;
    waiting.urgency_milli = 2000;
    waiting.gpu_count = 64;
    waiting.waited_ms = 600000;
    request.request_id = request_id;
    request.vcluster = (char[]){"hpc"};
    request.queued_gpu_ms = queued_gpu_ms;
    request.running_gpu_ms = running_gpu_ms;
    request.n_waiting = 1;
    request.waiting = pointers;
    command.request_id = request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REPORT_QUEUE;
    command.report_queue = &request;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* S1-053, A-002 */
static void queues_give_pressure_and_gain_and_grow_old(void **state)
{
    struct fake *fake = start();
    struct evaluator_cycle cycle;
    struct eval_view view = {0};

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 4, NULL).status, FSM_OK); /* class 3, 32 GPUs */
    eval_view_alloc(&view, 16);
    report_queue(fake, 500, 1000, 5);
    begin_cycle_of(fake, &cycle, NULL, fake_wall_ms(fake));
    evaluator_fill(&cycle, fake->replica.fsm, &view, 0, 1);
    assert_double_near(cycle.policy.pressure, 0.5, 1e-12);
    assert_double_near(cycle.policy.backlog_urgency, 2, 1e-12);
    assert_double_near(view.waiting_gain_gpu_s[0], 32 * 2 * 600,
                       1e-6); /* bounded by its own GPUs */
    evaluator_cycle_end(&cycle);
    report_queue(fake, 500, 0, 3); /* equal class gains nothing; running 0 is defined */
    begin_cycle_of(fake, &cycle, NULL, fake_wall_ms(fake));
    evaluator_fill(&cycle, fake->replica.fsm, &view, 0, 1);
    assert_double_near(cycle.policy.pressure, 1, 1e-12);
    assert_double_near(view.waiting_gain_gpu_s[0], 0, 0);
    evaluator_cycle_end(&cycle);
    begin_cycle_of(fake, &cycle, NULL,
                   fake_wall_ms(fake) + fsm_policy(fake->replica.fsm)->queue_max_age_ms + 1);
    assert_double_near(cycle.policy.pressure, 0, 0);
    evaluator_cycle_end(&cycle);
    eval_view_free(&view);
    finish(fake);
}

static void highest_class(Ckpt__V1__AllocationSpec *spec)
{
    spec->preemption_class = FSM_CLASS_MAX;
}

static void made_sensitive(Ckpt__V1__AllocationSpec *spec)
{
    spec->sensitive = true;
}

static void of_a_sensitive_vcluster(Ckpt__V1__AllocationSpec *spec)
{
    spec->vcluster_kind = CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_SENSITIVE;
}

/* Under full pressure of urgent work of an equal class: relief for who may yield, none for who can
 * never be a victim. */
static void who_can_never_be_a_victim_relieves_no_backlog(void **state)
{
    void (*const kinds[])(Ckpt__V1__AllocationSpec *) = {NULL, highest_class,
                                                         of_a_sensitive_vcluster, made_sensitive};
    struct eval_part parts[EVAL_PARTS_MAX];
    struct evaluator_cycle cycle;
    struct eval_view view = {0};
    struct eval_result result = {0};
    struct fake *fake = start();
    char id[32];

    (void)state;
    for (uint32_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        snprintf(id, sizeof(id), "job-%u", i);
        assert_int_equal(fake_register(fake, id, i + 1, 1, kinds[i]).status, FSM_OK);
    }
    fake_advance_ms(fake, 2 * HOUR_MS);
    eval_view_alloc(&view, 16);
    eval_result_alloc(&result, 16);
    view.count = ARRAY_COUNT(kinds);
    report_queue(fake, 1000, 1000, 10);
    begin_cycle_of(fake, &cycle, NULL, fake_wall_ms(fake));
    evaluator_fill(&cycle, fake->replica.fsm, &view, 0, ARRAY_COUNT(kinds));
    eval_score(&cycle.policy, &view, &result);
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        assert_int_equal(result.backlog_relief[i] > 0, i == 0);
        assert_int_equal(result.preemptability[i] > 0, i == 0);
        assert_int_equal(eval_breakdown(&cycle.policy, &view, i, parts), EVAL_PARTS_MAX);
        assert_double_near(parts[3].raw * parts[3].weight, result.backlog_relief[i], 1e-6);
    }
    evaluator_cycle_end(&cycle);
    eval_result_free(&result);
    eval_view_free(&view);
    finish(fake);
}

static void the_gain_of_waiting_jobs_is_taken_in_order_and_in_part(void **state)
{
    double gpus[] = {10, 30, 30, 70}, gain[] = {100, 140, 140, 150};
    struct waiting_curve curve = {.count = 4, .gpus = gpus, .gain_gpu_s = gain};
    struct waiting_curve empty = {0};

    (void)state;
    assert_double_near(waiting_gain_gpu_s(&curve, 0), 0, 1e-12);
    assert_double_near(waiting_gain_gpu_s(&curve, 5), 50, 1e-12);
    assert_double_near(waiting_gain_gpu_s(&curve, 10), 100, 1e-12);
    assert_double_near(waiting_gain_gpu_s(&curve, 20), 120, 1e-12);
    assert_double_near(waiting_gain_gpu_s(&curve, 50), 145, 1e-12);
    assert_double_near(waiting_gain_gpu_s(&curve, 1e9), 150, 1e-12);
    assert_double_near(waiting_gain_gpu_s(&empty, 8), 0, 0);
}

/* ---- integers ---- */

static void conversion_saturates_and_nan_is_zero(void **state)
{
    (void)state;
    assert_int_equal(saturate_int64(NAN), 0);
    assert_true(saturate_int64(INFINITY) == INT64_C(9200000000000000000));
    assert_true(saturate_int64(-INFINITY) == INT64_C(-9200000000000000000));
    assert_int_equal(saturate_int64(-1.9), -1);
    assert_uint_equal(saturate_uint64(-1), 0);
    assert_uint_equal(saturate_uint64(NAN), 0);
    assert_uint_equal(saturate_uint64(1e30), 9200000000000000000u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_running_allocation_is_evaluated_once_per_interval),
        cmocka_unit_test(a_new_interval_counts_from_the_last_cycle),
        cmocka_unit_test(value_over_cost_becomes_exactly_one_checkpoint),
        cmocka_unit_test(a_decision_of_the_log_is_reproduced_bit_for_bit),
        cmocka_unit_test(nothing_is_decided_while_the_storage_is_down),
        cmocka_unit_test(a_recovered_target_is_evaluated_at_once),
        cmocka_unit_test(a_follower_decides_nothing_and_explains_nothing),
        cmocka_unit_test(a_manual_allocation_is_never_hinted),
        cmocka_unit_test(a_declared_period_fires_beside_the_model),
        cmocka_unit_test(no_override_fires_in_an_outage),
        cmocka_unit_test(a_period_fires_for_a_sensitive_job_at_its_own_smallest_interval),
        cmocka_unit_test(an_allocation_registered_within_a_cycle_waits_for_the_next),
        cmocka_unit_test(a_chunk_that_outgrows_its_block_is_evaluated_whole),
        cmocka_unit_test(a_negative_evaluation_is_explained_with_numbers),
        cmocka_unit_test(the_next_cycle_uses_the_bandwidth_that_was_measured),
        cmocka_unit_test(an_allocation_that_was_not_evaluated_is_not_explained),
        cmocka_unit_test(rising_errors_of_one_node_raise_the_value),
        cmocka_unit_test(the_last_safe_slot_fires_once_also_under_another_leader),
        cmocka_unit_test(the_next_cycle_counts_the_nodes_of_now),
        cmocka_unit_test(queues_give_pressure_and_gain_and_grow_old),
        cmocka_unit_test(who_can_never_be_a_victim_relieves_no_backlog),
        cmocka_unit_test(the_gain_of_waiting_jobs_is_taken_in_order_and_in_part),
        cmocka_unit_test(conversion_saturates_and_nan_is_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
