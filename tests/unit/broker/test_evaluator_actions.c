/* Moves off nodes that are about to fail: S1-022, F-008, F-015; the best payoff becomes a
 * decision that the state machine checks. */
#include <math.h>

#include "src/broker/daemon/metrics.h"
#include "src/broker/decide/evaluator.h"
#include "src/broker/decide/evaluator_actions.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/explain/explain.h"
#include "src/broker/health/node_health.h"
#include "src/broker/health/nodes.h"
#include "tests/unit/broker/fake_replica.h"

#define HOUR_MS UINT64_C(3600000)

enum { SOURCE = 3, FRESH_MS = 90000 };

struct scene {
    struct fake *fake;
    struct nodes *nodes;
    struct node_health *health;
    struct evaluator_cycle cycle;
    struct eval_view view;
    struct eval_result result;
    struct evaluator_actions actions;
};

static const struct fsm_allocation *job(const struct scene *scene)
{
    return fsm_allocation_find(scene->fake->replica.fsm, "job");
}

static void never_requeued(Ckpt__V1__AllocationSpec *spec)
{
    spec->requeue_policy = CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_NEVER;
}

static void made_sensitive(Ckpt__V1__AllocationSpec *spec)
{
    spec->sensitive = true;
}

/* "job" has computed for two hours on node-1 and so many more. */
static struct scene begin_on(uint32_t nodes, void (*change)(Ckpt__V1__AllocationSpec *spec))
{
    struct scene scene = {.fake = fake_new(NULL)};

    assert_int_equal(fake_register(scene.fake, "job", 1, nodes, change).status, FSM_OK);
    scene.nodes = nodes_new(&scene.fake->broker);
    scene.health = nodes_health(scene.nodes);
    node_health_set_source(scene.health, SOURCE, FRESH_MS);
    fake_advance_ms(scene.fake, 2 * HOUR_MS);
    fake_serve(scene.fake);
    nodes_start(scene.nodes);
    eval_view_alloc(&scene.view, 16);
    eval_result_alloc(&scene.result, 16);
    return scene;
}

static struct scene begin(void (*change)(Ckpt__V1__AllocationSpec *spec))
{
    return begin_on(1, change);
}

static void finish(struct scene *scene)
{
    eval_view_free(&scene->view);
    eval_result_free(&scene->result);
    nodes_stop(scene->nodes);
    nodes_free(scene->nodes);
    fake_free(scene->fake);
}

static void say(struct node_health *health, struct fake *fake, const char *node,
                enum telemetry_signal signal, double value)
{
    struct telemetry_sample sample = {
        .signal = signal, .subject = SAMPLES_NO_SUBJECT, .value = value};
    uint32_t slot = fsm_node_find(fake->replica.fsm, node)->slot;

    node_health_sample(health, slot, SOURCE, &sample);
    node_health_heard(health, slot, SOURCE, fake->now_us);
    fake->now_us++;
}

/* In as many polls as make it an alarm. */
static void say_xid(struct node_health *health, struct fake *fake, const char *node)
{
    say(health, fake, node, TELEMETRY_XID, 0);
    for (int poll = 0; poll < HEALTH_CONFIRM_POLLS; poll++)
        say(health, fake, node, TELEMETRY_XID, 79);
}

/* A GPU that fell off the bus: precision 0.6, mean lead 45 min. */
static void alarm_of(struct scene *scene, const char *node)
{
    say_xid(scene->health, scene->fake, node);
}

/* Scores the one row and asks for its action; so many nodes are removed when the spares were looked
 * for. */
static bool moves_without(struct scene *scene, const char *removed, const char **ret_spare)
{
    const struct fsm *fsm = scene->fake->replica.fsm;
    struct fsm_waiting best[FSM_TARGETS_MAX];
    struct fsm_grantable_scan scan;
    const struct evaluator_scored scored = {&scene->view, &scene->result, 0};
    struct eval_view rows;
    bool move;

    fsm_grantable_begin(&scan, best, 1);
    assert_true(fsm_grantable_step(fsm, &scan, SIZE_MAX));
    evaluator_cycle_begin(&scene->cycle, fsm, scene->nodes, fake_wall_ms(scene->fake), &scan);
    evaluator_actions_begin(&scene->actions);
    evaluator_fill(&scene->cycle, fsm, &scene->view, 0, 1);
    rows = evaluator_view_rows(&scene->view, 0, 1);
    eval_score(&scene->cycle.policy, &rows, &scene->result);
    if (removed != NULL) {
        assert_true(evaluator_actions_move(&scene->actions, &scene->cycle, fsm, job(scene), &scored,
                                           ret_spare));
        fake_remove_node(scene->fake, removed);
    }
    move =
        evaluator_actions_move(&scene->actions, &scene->cycle, fsm, job(scene), &scored, ret_spare);
    evaluator_cycle_end(&scene->cycle);
    return move;
}

static bool moves(struct scene *scene, const char **ret_spare)
{
    return moves_without(scene, NULL, ret_spare);
}

/* A cycle takes several turns, and a spare may be removed between two of them. */
static void a_spare_that_was_removed_is_promised_to_nobody(void **state)
{
    struct scene scene = begin(NULL);
    const char *spare = NULL;

    (void)state;
    fake_node_seen(scene.fake, "idle", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    fake_node_seen(scene.fake, "idle-2", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    alarm_of(&scene, "node-1");
    assert_false(moves_without(&scene, "idle-2", &spare));
    finish(&scene);
}

/* S1-022 */
static void a_job_moves_off_a_node_with_an_alarm_when_a_spare_waits(void **state)
{
    struct scene scene = begin(NULL);
    const char *spare = NULL;

    (void)state;
    fake_node_seen(scene.fake, "idle", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    assert_false(moves(&scene, &spare)); /* no alarm */
    alarm_of(&scene, "node-1");
    assert_true(moves(&scene, &spare));
    assert_string_equal(spare, "idle");
    finish(&scene);
}

static void without_a_good_spare_it_stays(void **state)
{
    struct scene scene = begin(NULL);
    const char *spare = NULL;

    (void)state;
    alarm_of(&scene, "node-1");
    assert_false(moves(&scene, &spare)); /* none at all */
    fake_node_seen(scene.fake, "drained", CKPT__LOG__V1__NODE_STATE__NODE_STATE_DRAINING);
    fake_node_seen(scene.fake, "late", CKPT__LOG__V1__NODE_STATE__NODE_STATE_DEGRADED);
    fake_node_seen(scene.fake, "ill", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    alarm_of(&scene, "ill");
    assert_false(moves(&scene, &spare));
    fake_node_seen(scene.fake, "busy", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    assert_true(moves(&scene, &spare));
    assert_string_equal(spare, "busy");
    finish(&scene);
}

/* S3-045: not even the spare that is promised first, when another one would do. */
static void a_job_moves_to_a_spare_of_its_own_kind(void **state)
{
    struct scene scene = begin(NULL);
    const char *spare = NULL;

    (void)state;
    fake_node_says(scene.fake, "node-1", "x86_64", "");
    fake_node_says(scene.fake, "idle-1", "aarch64", "");
    fake_node_says(scene.fake, "idle-2", "aarch64", "");
    alarm_of(&scene, "node-1");
    assert_false(moves(&scene, &spare));
    fake_node_says(scene.fake, "idle-3", "x86_64", "");
    assert_true(moves(&scene, &spare));
    assert_string_equal(spare, "idle-3");
    assert_uint_equal(scene.actions.spare_count, 2); /* those wait for others */
    finish(&scene);
}

static void prefers_its_domain(Ckpt__V1__AllocationSpec *spec)
{
    spec->domain_rule = CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_PREFERRED;
}

static void put_domain(struct fake *fake, const char *domain)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__PutTarget put = CKPT__LOG__V1__PUT_TARGET__INIT;
    Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;

    spec.target_id = text_message("scratch");
    spec.domain = text_message(domain);
    put.spec = &spec;
    command.request_id = text_message("put");
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_PUT_TARGET;
    command.put_target = &put;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* S2-029: a spare of the domain where its last checkpoint lies comes first, whichever waits in
 * front; another one is taken where there is none. */
static void a_job_moves_to_a_spare_of_its_checkpoints_domain(void **state)
{
    struct scene scene = begin(prefers_its_domain);
    const char *spare = NULL;
    uint64_t id;

    (void)state;
    put_domain(scene.fake, "left");
    id = fake_request_checkpoint(scene.fake, "job", "request");
    fake_grant(scene.fake, id, 1, HOUR_MS);
    fake_verify_part(scene.fake, "job", id, 0);
    fake_advance_ms(scene.fake, HOUR_MS);
    fake_node_says(scene.fake, "idle-1", "", "right");
    fake_node_says(scene.fake, "idle-2", "", "left");
    fake_node_says(scene.fake, "idle-3", "", "right");
    alarm_of(&scene, "node-1");
    assert_true(moves(&scene, &spare));
    assert_string_equal(spare, "idle-2");
    fake_remove_node(scene.fake, "idle-2");
    assert_true(moves(&scene, &spare));
    assert_string_not_equal(spare, "idle-2");
    finish(&scene);
}

/* A node that takes a part over restores it. */
static void a_job_of_several_nodes_is_moved(void **state)
{
    struct scene scene = begin_on(2, NULL);
    const char *spare = NULL;

    (void)state;
    fake_node_seen(scene.fake, "idle-1", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    fake_node_seen(scene.fake, "idle-2", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    alarm_of(&scene, "node-1");
    assert_true(moves(&scene, &spare));
    assert_non_null(spare);
    finish(&scene);
}

/* F-008, F-015 */
static void who_may_not_be_requeued_is_not_moved(void **state)
{
    void (*const kinds[])(Ckpt__V1__AllocationSpec * spec) = {never_requeued, made_sensitive};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct scene scene = begin(kinds[i]);
        const char *spare = NULL;

        fake_node_seen(scene.fake, "idle", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
        alarm_of(&scene, "node-1");
        assert_false(moves(&scene, &spare));
        finish(&scene);
    }
}

/* With nothing at stake a move costs a restart and saves less: p (D + R) < R */
static void a_job_with_nothing_to_lose_stays(void **state)
{
    struct scene scene = begin(NULL);
    const struct evaluator_scored scored = {&scene.view, &scene.result, 0};
    const char *spare = NULL;
    struct eval_situation situation;
    struct eval_payoffs payoffs;
    uint32_t alarmed;

    (void)state;
    fake_node_seen(scene.fake, "idle", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    alarm_of(&scene, "node-1");
    assert_true(moves(&scene, &spare));
    assert_true(evaluator_actions_situation(&scene.cycle, scene.fake->replica.fsm, job(&scene),
                                            &scored, &situation, &alarmed));
    assert_uint_equal(alarmed, 1);
    assert_double_near(situation.alarm_p, 0.6, 1e-6);
    assert_double_near(situation.down_s, 90, 0);
    situation.spare = true;
    situation.lost_s = situation.age_s = 0;
    situation.value_gpu_s = 0;
    eval_payoffs(&situation, &payoffs);
    assert_int_not_equal(payoffs.best, EVAL_ACTION_MIGRATE);
    finish(&scene);
}

static void expect_reproduced(void *context, const Ckpt__V1__ExplainReply *reply)
{
    ++*(int *)context;
    assert_int_equal(reply->match, CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_SAME);
    assert_true(reply->checkpoint);
    assert_string_equal(reply->terms->verdict, "checkpoint_and_migrate");
    assert_non_null(reply->change);
    assert_true(reply->change->relative_ppm > 0);
    assert_string_not_equal(reply->change->from, reply->change->to);
    assert_non_null(strstr(reply->flips_when, "checkpoint_and_migrate (net "));
    for (size_t i = 0; i < reply->n_guards; i++)
        if (strncmp(reply->guards[i], "last_attempt", 12) == 0)
            assert_non_null(strstr(reply->guards[i], ": ok"));
}

/* What payoffs come from is in the log beside the row, and gives the same choice again, bit for
 * bit. */
static void explain_move(struct fake *fake, Ckpt__V1__ExplainRequest request)
{
    uint64_t oldest_ms;
    int told = 0;

    assert_int_equal(explain_request(&fake->broker, &request, expect_reproduced, &told, &oldest_ms),
                     EXPLAIN_FOUND);
    assert_int_equal(told, 1);
}

/* The whole way: a cycle of the evaluator proposes it, the state machine begins a checkpoint that
 * ends in a move. */
static void a_cycle_proposes_the_move(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct node_health *health;
    const struct fsm_checkpoint *checkpoint;
    Ckpt__V1__ExplainRequest request = CKPT__V1__EXPLAIN_REQUEST__INIT;
    char job_id[] = "job";

    (void)state;
    fake->broker.metrics = broker_metrics_new(&fake->broker);
    fake->broker.nodes = nodes_new(&fake->broker);
    fake->broker.dispatcher = dispatcher_new(&fake->broker);
    fake->broker.evaluator = evaluator_new(&fake->broker);
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    fake_node_seen(fake, "idle", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    health = nodes_health(fake->broker.nodes);
    node_health_set_source(health, SOURCE, FRESH_MS);
    fake_advance_ms(fake, 20 * 60000);
    say_xid(health, fake, "node-1");
    fake_serve(fake); /* a cycle at once */
    checkpoint = fsm_checkpoint_next(fake->replica.fsm, 0);
    assert_non_null(checkpoint);
    assert_int_equal(checkpoint->purpose, CKPT__V1__PURPOSE__PURPOSE_MIGRATE);
    assert_int_equal(checkpoint->after, CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_MIGRATE);
    assert_string_equal(checkpoint->terms->verdict, "checkpoint_and_migrate");
    request.checkpoint_id = checkpoint->id;
    explain_move(fake, request);
    request.checkpoint_id = 0; /* the last evaluation, the one of this instant: the same decision */
    request.allocation_id = job_id;
    explain_move(fake, request);
    request.at_ms = fake_wall_ms(fake);
    explain_move(fake, request);
    fake_advance_ms(fake, 1000);
    assert_double_near(metrics_value(fake->broker.metrics, METRIC_EVALUATIONS, "checkpoint",
                                     "checkpoint_and_migrate"),
                       1, 0);
    assert_double_near(metrics_value(fake->broker.metrics, METRIC_L_EVALUATIONS, "skip", NULL), 0,
                       0);
    assert_int_equal(fsm_allocation_find(fake->replica.fsm, "job")->state,
                     CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP);
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
        cmocka_unit_test(a_job_moves_off_a_node_with_an_alarm_when_a_spare_waits),
        cmocka_unit_test(a_spare_that_was_removed_is_promised_to_nobody),
        cmocka_unit_test(without_a_good_spare_it_stays),
        cmocka_unit_test(a_job_moves_to_a_spare_of_its_own_kind),
        cmocka_unit_test(a_job_moves_to_a_spare_of_its_checkpoints_domain),
        cmocka_unit_test(a_job_of_several_nodes_is_moved),
        cmocka_unit_test(who_may_not_be_requeued_is_not_moved),
        cmocka_unit_test(a_job_with_nothing_to_lose_stays),
        cmocka_unit_test(a_cycle_proposes_the_move),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
