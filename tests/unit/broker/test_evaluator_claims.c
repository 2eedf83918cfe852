/* A sensitive job waits in a deep queue: the evaluator claims nodes for it. S1-021, P-004, P-006,
 * S1-053. */
#include "src/broker/daemon/metrics.h"
#include "src/broker/decide/evaluator.h"
#include "src/broker/decide/evaluator_claims.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/health/nodes.h"
#include "tests/unit/broker/fake_replica.h"

enum { MINUTE_MS = 60000, GPUS = 8 };

static struct fake *start(void)
{
    struct fake *fake = fake_new(NULL);

    fake->broker.metrics = broker_metrics_new(&fake->broker);
    fake->broker.evaluator = evaluator_new(&fake->broker);
    return fake;
}

static void finish(struct fake *fake)
{
    fake_stop_serving(fake);
    evaluator_free(fake->broker.evaluator);
    dispatcher_free(fake->broker.dispatcher);
    nodes_free(fake->broker.nodes);
    metrics_free(fake->broker.metrics);
    fake_free(fake);
}

struct waits {
    const char *job_id;
    uint32_t gpus;
    bool sensitive;
    uint32_t pressure_percent;
    const char *vcluster;
};

static void report_waited(struct fake *fake, const struct waits *waits, uint64_t waited_ms)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__ReportQueueRequest request = CKPT__V1__REPORT_QUEUE_REQUEST__INIT;
    Ckpt__V1__WaitingJob waiting = CKPT__V1__WAITING_JOB__INIT;
    Ckpt__V1__WaitingJob *pointers[] = {&waiting};
    static int number;
    char request_id[32], job_id[32], vcluster[32];

    snprintf(request_id, sizeof(request_id), "queue-%d", ++number);
    snprintf(job_id, sizeof(job_id), "%s", waits->job_id);
    snprintf(vcluster, sizeof(vcluster), "%s", waits->vcluster);
    waiting.job_id = job_id;
    waiting.preemption_class = 10;
    waiting.gpu_count = waits->gpus;
    waiting.sensitive = waits->sensitive;
    waiting.waited_ms = waited_ms;
    request.request_id = request_id;
    request.vcluster = vcluster;
    request.queued_gpu_ms = waits->pressure_percent;
    request.running_gpu_ms = 100;
    request.n_waiting = 1;
    request.waiting = pointers;
    command.request_id = request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REPORT_QUEUE;
    command.report_queue = &request;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

static void report(struct fake *fake, const struct waits *waits)
{
    report_waited(fake, waits, 0);
}

static void node_idle(struct fake *fake, const char *name)
{
    fake_node_seen(fake, name, CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
}

static void of_class_9(Ckpt__V1__AllocationSpec *spec)
{
    spec->preemption_class = 9;
}

static void itself_sensitive(Ckpt__V1__AllocationSpec *spec)
{
    spec->sensitive = true;
}

static void without_checkpoints(Ckpt__V1__AllocationSpec *spec)
{
    spec->strategy = CKPT__V1__STRATEGY__STRATEGY_NONE; /* may be a victim, storage or not */
}

static size_t claims(const struct fake *fake)
{
    const struct fsm_preemption *at = fsm_preemption_next(fake->replica.fsm, 0);
    size_t count = 0;

    for (; at != NULL; at = fsm_preemption_next(fake->replica.fsm, at->id))
        count++;
    return count;
}

/* "low" of one node and "high" of two have run for an hour. */
static struct fake *busy_cluster(void)
{
    struct fake *fake = start();

    assert_int_equal(fake_register(fake, "low", 1, 1, NULL).status, FSM_OK);
    assert_int_equal(fake_register(fake, "high", 2, 2, of_class_9).status, FSM_OK);
    fake_advance_ms(fake, 60 * MINUTE_MS);
    return fake;
}

static size_t claims_when(struct fake *fake, const struct waits *waits)
{
    report(fake, waits);
    fake_serve(fake);
    return claims(fake);
}

static size_t claims_after(struct fake *fake, const struct waits *waits, uint64_t ms)
{
    report(fake, waits);
    fake_advance_ms(fake, ms);
    return claims(fake);
}

/* S1-021, P-006: in the same cycle, with a checkpoint for the purpose, of the lowest class that
 * suffices. */
static void a_deep_queue_and_a_sensitive_job_preempt_at_once(void **state)
{
    struct fake *fake = busy_cluster();
    struct waits waits = {"secret", GPUS, true, 60, "hpc"};
    const struct fsm_preemption *claim;
    const struct fsm_allocation *low;

    (void)state;
    assert_uint_equal(claims_when(fake, &waits), 1);
    claim = fsm_preemption_next(fake->replica.fsm, 0);
    low = fsm_allocation_find(fake->replica.fsm, "low");
    assert_int_equal(claim->request->reason,
                     CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_SENSITIVE);
    assert_string_equal(claim->request->for_job, "secret");
    assert_uint_equal(claim->acting_class, 10);
    assert_uint_equal(claim->victim_count, 1);
    assert_string_equal(claim->victims[0].allocation_id, "low");
    assert_int_equal(low->state,
                     CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP);
    assert_int_equal(fsm_checkpoint_find(fake->replica.fsm, low->active_checkpoint_id)->purpose,
                     CKPT__V1__PURPOSE__PURPOSE_PREEMPT);
    finish(fake);
}

/* The row says both: one alone is no reason. */
static void neither_a_sensitive_job_nor_a_deep_queue_alone_preempts(void **state)
{
    static const struct waits no_reason[] = {{"plain", GPUS, false, 100, "hpc"},
                                             {"secret", GPUS, true, 50, "hpc"},
                                             {"", GPUS, true, 100, "hpc"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(no_reason); i++) {
        struct fake *fake = busy_cluster();

        assert_uint_equal(claims_when(fake, &no_reason[i]), 0);
        finish(fake);
    }
}

static void an_old_queue_report_claims_nothing(void **state)
{
    struct fake *fake = busy_cluster();
    struct waits waits = {"secret", GPUS, true, 100, "hpc"},
                 other = {"plain", GPUS, false, 100, "ml"};

    (void)state;
    report(fake, &waits);
    fake_advance_ms(fake, fsm_policy(fake->replica.fsm)->queue_max_age_ms + 1);
    report(fake, &other); /* the queues are deep all the same */
    fake_serve(fake);
    assert_uint_equal(claims(fake), 0);
    finish(fake);
}

/* P-004: only what idle nodes do not give is taken from others. */
static void idle_nodes_come_first(void **state)
{
    struct fake *fake = busy_cluster();
    struct waits waits = {"secret", GPUS, true, 100, "hpc"};

    (void)state;
    node_idle(fake, "idle");
    assert_uint_equal(claims_when(fake, &waits), 0);
    waits.gpus = 2 * GPUS;
    assert_uint_equal(claims_after(fake, &waits, MINUTE_MS), 1);
    assert_uint_equal(fsm_preemption_next(fake->replica.fsm, 0)->request->gpus_needed, GPUS);
    finish(fake);
}

/* P-016: three nodes run; nothing enters the log for a job that needs more, and sensitive ones are
 * not counted. */
static void what_cannot_be_won_is_not_asked_for(void **state)
{
    struct fake *fake = busy_cluster();
    struct waits waits = {"secret", 3 * GPUS + 1, true, 100, "hpc"};
    uint64_t proposed;

    (void)state;
    assert_int_equal(fake_register(fake, "other", 4, 1, itself_sensitive).status, FSM_OK);
    assert_uint_equal(claims_when(fake, &waits), 0);
    proposed = fake->replica.proposed_count;
    assert_uint_equal(claims_after(fake, &waits, 2 * MINUTE_MS), 0);
    assert_true(fake->replica.proposed_count - proposed <= 3); /* the report, what is learned */
    waits.gpus = 3 * GPUS;
    assert_uint_equal(claims_after(fake, &waits, MINUTE_MS), 1);
    finish(fake);
}

/* S1-063, S1-066: work is killed without a checkpoint only for somebody who asks for that. */
static void nothing_is_claimed_in_an_outage(void **state)
{
    struct fake *fake = busy_cluster();
    struct waits waits = {"secret", GPUS, true, 100, "hpc"};

    (void)state;
    assert_int_equal(fake_register(fake, "bare", 4, 1, without_checkpoints).status, FSM_OK);
    fake_set_available(fake, false);
    assert_uint_equal(claims_when(fake, &waits), 0);
    fake_set_available(fake, true);
    fake_advance_ms(fake, MINUTE_MS);
    assert_uint_equal(claims(fake), 1);
    finish(fake);
}

static void put_down(struct fake *fake, char *name)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__PutTarget put = CKPT__LOG__V1__PUT_TARGET__INIT;
    Ckpt__V1__TargetSpec target = CKPT__V1__TARGET_SPEC__INIT;
    Ckpt__Log__V1__TargetAvailability change = CKPT__LOG__V1__TARGET_AVAILABILITY__INIT;

    target.target_id = change.target_id = name;
    target.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
    target.prefix = (char[]){"/elsewhere"};
    target.write_bytes_per_s = UINT64_C(10000000000);
    command.request_id = (char[]){"put"};
    put.spec = &target;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_PUT_TARGET;
    command.put_target = &put;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    command = (Ckpt__Log__V1__Command)CKPT__LOG__V1__COMMAND__INIT;
    change.reason = CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_TARGET_AVAILABILITY;
    command.target_availability = &change;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

static void writes_elsewhere(Ckpt__V1__AllocationSpec *spec)
{
    spec->target_id = (char *)(uintptr_t) "elsewhere";
}

/* S1-021: a target of others that is down stops no claim. S1-066: a job that writes there is
 * cheaper to stop, and is not, as nothing of it could be saved. */
static void a_target_of_others_that_is_down_stops_no_claim(void **state)
{
    struct fake *fake = busy_cluster();
    struct waits waits = {"secret", GPUS, true, 100, "hpc"};

    (void)state;
    put_down(fake, (char[]){"elsewhere"});
    assert_int_equal(fake_register(fake, "cheap", 4, 1, writes_elsewhere).status, FSM_OK);
    fake_advance_ms(fake, 1000);
    assert_uint_equal(claims_when(fake, &waits), 1);
    assert_uint_equal(fsm_preemption_next(fake->replica.fsm, 0)->victim_count, 1);
    assert_string_equal(fsm_preemption_next(fake->replica.fsm, 0)->victims[0].allocation_id, "low");
    finish(fake);
}

/* The scheduler started it and has not reported since. */
static void a_job_that_runs_is_not_claimed_for(void **state)
{
    static const char *const names[] = {"secret", "hpc-4711"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct fake *fake = busy_cluster();
        struct waits waits = {"secret", GPUS, true, 100, "hpc"},
                     plain = {"plain", GPUS, false, 100, "hpc"},
                     next = {"next", GPUS, true, 100, "hpc"};

        report(fake, &waits);
        fake_advance_ms(fake, 1000);
        assert_int_equal(fake_register(fake, names[i], 4, 1, itself_sensitive).status, FSM_OK);
        fake_serve(fake);
        fake_advance_ms(fake, 2 * MINUTE_MS);
        assert_uint_equal(claims(fake), 0);
        assert_uint_equal(claims_after(fake, &plain, MINUTE_MS), 0);
        assert_uint_equal(claims_after(fake, &next, MINUTE_MS), 1);
        finish(fake);
    }
}

static void a_running_job_s_own_name_suffices(void **state)
{
    struct fake *fake = busy_cluster();
    struct waits waits = {"high", GPUS, true, 100, "hpc"};

    (void)state;
    assert_uint_equal(claims_when(fake, &waits), 0);
    fake_advance_ms(fake, MINUTE_MS);
    assert_uint_equal(claims(fake), 0);
    finish(fake);
}

static void a_start_in_another_vcluster_or_of_a_plain_job_does_not_matter(void **state)
{
    struct waits waits[] = {{"secret", GPUS, true, 100, "hpc"}, {"secret", GPUS, true, 100, "ml"}};
    void (*const specs[])(Ckpt__V1__AllocationSpec *) = {NULL, itself_sensitive};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(waits); i++) {
        struct fake *fake = busy_cluster();

        report(fake, &waits[i]);
        fake_advance_ms(fake, 1000);
        assert_int_equal(fake_register(fake, "other", 4, 1, specs[i]).status, FSM_OK);
        fake_serve(fake);
        assert_uint_equal(claims(fake), 1);
        finish(fake);
    }
}

/* Also under the next leader, and when the scheduler asked first. */
static void a_job_is_claimed_for_once_an_hour(void **state)
{
    struct fake *fake = busy_cluster();
    struct waits waits = {"secret", GPUS, true, 100, "hpc"};

    (void)state;
    assert_uint_equal(claims_when(fake, &waits), 1);
    fake_stop_serving(fake);
    fake_serve(fake);
    for (int minute = 0; minute < 58; minute++) {
        report(fake, &waits);
        fake_advance_ms(fake, MINUTE_MS);
    }
    assert_uint_equal(claims(fake), 1);
    waits.job_id = "another";
    assert_uint_equal(claims_after(fake, &waits, MINUTE_MS), 2);
    finish(fake);
}

/* The wall clock stepped back: until it has caught up the state's clock stands still. */
static void claims_of_one_instant_are_two(void **state)
{
    struct fake *fake = busy_cluster();
    struct waits waits = {"secret", GPUS, true, 100, "hpc"};

    (void)state;
    report(fake, &waits);
    fake->wall_step_ms -= 30 * MINUTE_MS;
    fake_serve(fake);
    assert_uint_equal(claims(fake), 1);
    waits.job_id = "another";
    assert_uint_equal(claims_after(fake, &waits, MINUTE_MS), 2);
    finish(fake);
}

/* "high" runs on a node that is down: it counts with two nodes, and gives one. */
static struct fake *cluster_that_promises_too_much(void)
{
    struct fake *fake = start();

    fake_node_seen(fake, "node-3", CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN);
    assert_int_equal(fake_register(fake, "low", 1, 1, NULL).status, FSM_OK);
    assert_int_equal(fake_register(fake, "high", 2, 2, of_class_9).status, FSM_OK);
    return fake;
}

static void a_claim_that_is_refused_does_not_hold_up_the_next(void **state)
{
    struct fake *fake = cluster_that_promises_too_much();
    struct waits large = {"large", 3 * GPUS, true, 100, "hpc"},
                 small = {"small", GPUS, true, 100, "ml"};

    (void)state;
    report(fake, &small);
    report_waited(fake, &large, MINUTE_MS);
    fake_serve(fake);
    assert_uint_equal(claims(fake), 0);
    fake_advance_ms(fake, MINUTE_MS / 2);
    assert_uint_equal(claims(fake), 1);
    assert_string_equal(fsm_preemption_next(fake->replica.fsm, 0)->request->for_job, "small");
    finish(fake);
}

static void a_refused_job_has_its_turn_again_after_five_minutes(void **state)
{
    struct fake *fake = cluster_that_promises_too_much();
    struct waits large = {"large", 3 * GPUS, true, 100, "hpc"};

    (void)state;
    assert_uint_equal(claims_when(fake, &large), 0);
    fake_node_seen(fake, "node-3", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    fake_advance_ms(fake, 4 * MINUTE_MS + MINUTE_MS / 2);
    assert_uint_equal(claims(fake), 0);
    assert_uint_equal(claims_after(fake, &large, MINUTE_MS), 1);
    finish(fake);
}

/* One more than are remembered: the oldest is asked for again. */
static void the_oldest_refusal_is_forgotten_first(void **state)
{
    struct fake *fake = cluster_that_promises_too_much();

    (void)state;
    for (uint64_t i = 0; i <= EVALUATOR_CLAIM_REFUSED_MAX; i++) {
        char name[32];
        struct waits large = {name, 3 * GPUS, true, 100, name};

        snprintf(name, sizeof(name), "large-%u", (unsigned)i);
        report_waited(fake, &large, (100 - i) * 1000);
    }
    fake_serve(fake);
    fake_advance_ms(fake, EVALUATOR_CLAIM_REFUSED_MAX * MINUTE_MS / 2);
    assert_uint_equal(claims(fake), 0);
    fake_node_seen(fake, "node-3", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    fake_advance_ms(fake, MINUTE_MS / 2);
    assert_uint_equal(claims(fake), 1);
    assert_string_equal(fsm_preemption_next(fake->replica.fsm, 0)->request->for_job, "large-0");
    finish(fake);
}

/* More than a turn of the loop looks at. */
static void every_idle_node_of_a_large_cluster_is_counted(void **state)
{
    enum { IDLE = EVALUATOR_CLAIM_NODES_PER_TURN + 2 };
    struct fake *fake = busy_cluster();
    struct waits waits = {"secret", IDLE * GPUS, true, 100, "hpc"};
    struct evaluator_cycle cycle = {.now_ms = 0};
    struct evaluator_claims count = {.wanted = true};

    (void)state;
    for (int i = 0; i < IDLE; i++) {
        char name[32];

        snprintf(name, sizeof(name), "idle-%d", i);
        node_idle(fake, name);
    }
    assert_false(evaluator_claims_count(&count, fake->replica.fsm, NULL, &cycle));
    assert_uint_equal(count.next_node, EVALUATOR_CLAIM_NODES_PER_TURN);
    assert_true(evaluator_claims_count(&count, fake->replica.fsm, NULL, &cycle));
    assert_uint_equal(count.idle_nodes, IDLE);
    assert_uint_equal(claims_when(fake, &waits), 0);
    waits.gpus = IDLE * GPUS + 1;
    assert_uint_equal(claims_after(fake, &waits, MINUTE_MS), 1);
    assert_uint_equal(fsm_preemption_next(fake->replica.fsm, 0)->request->gpus_needed, 1);
    finish(fake);
}

static void node_told(struct fake *fake, const char *name, uint32_t gpu_count)
{
    Ckpt__V1__AgentHeartbeat heartbeat = CKPT__V1__AGENT_HEARTBEAT__INIT;
    struct nodes *nodes = fake->broker.nodes;

    heartbeat.gpu_count = gpu_count;
    node_idle(fake, name);
    nodes_heard(nodes, fsm_node_find(fake->replica.fsm, name)->slot, &heartbeat);
    nodes_heard(nodes, fsm_node_find(fake->replica.fsm, name)->slot, NULL);
}

/* P-004: one that told of none counts what nodes have on average. */
static void an_idle_node_counts_the_gpus_that_it_told_of(void **state)
{
    struct fake *fake = busy_cluster();
    struct waits waits = {"secret", 4 * GPUS, true, 100, "hpc"};

    (void)state;
    fake->broker.nodes = nodes_new(&fake->broker);
    fake->broker.dispatcher = dispatcher_new(&fake->broker);
    fake_serve(fake);
    fake_advance_ms(fake, MINUTE_MS / 6);
    node_told(fake, "large", 2 * GPUS);
    node_told(fake, "small", 1);
    node_told(fake, "silent", 0);
    node_told(fake, "silent", UINT32_MAX); /* that is no count */
    assert_uint_equal(claims_after(fake, &waits, MINUTE_MS / 2), 1);
    assert_uint_equal(fsm_preemption_next(fake->replica.fsm, 0)->request->gpus_needed, GPUS - 1);
    finish(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deep_queue_and_a_sensitive_job_preempt_at_once),
        cmocka_unit_test(neither_a_sensitive_job_nor_a_deep_queue_alone_preempts),
        cmocka_unit_test(an_old_queue_report_claims_nothing),
        cmocka_unit_test(idle_nodes_come_first),
        cmocka_unit_test(what_cannot_be_won_is_not_asked_for),
        cmocka_unit_test(nothing_is_claimed_in_an_outage),
        cmocka_unit_test(a_target_of_others_that_is_down_stops_no_claim),
        cmocka_unit_test(a_job_that_runs_is_not_claimed_for),
        cmocka_unit_test(a_running_job_s_own_name_suffices),
        cmocka_unit_test(a_start_in_another_vcluster_or_of_a_plain_job_does_not_matter),
        cmocka_unit_test(a_job_is_claimed_for_once_an_hour),
        cmocka_unit_test(claims_of_one_instant_are_two),
        cmocka_unit_test(a_claim_that_is_refused_does_not_hold_up_the_next),
        cmocka_unit_test(a_refused_job_has_its_turn_again_after_five_minutes),
        cmocka_unit_test(the_oldest_refusal_is_forgotten_first),
        cmocka_unit_test(every_idle_node_of_a_large_cluster_is_counted),
        cmocka_unit_test(an_idle_node_counts_the_gpus_that_it_told_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
