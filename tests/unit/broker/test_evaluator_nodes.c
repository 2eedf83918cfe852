/* The part of a job's nodes in the worth of its checkpoints: nodes without GPUs, healthy ones. */
#include "tests/unit/broker/evaluator_fixture.h"

static void without_gpus(Ckpt__V1__AllocationSpec *spec)
{
    for (size_t i = 0; i < spec->n_nodes; i++) {
        spec->nodes[i]->gpu_count = 0;
        spec->nodes[i]->gpu_memory_used_bytes = 1000000000; /* of its checkpoint */
    }
}

static void without_gpus_for_two_hours(Ckpt__V1__AllocationSpec *spec)
{
    without_gpus(spec);
    two_hours(spec);
}

static void count_nodes_as(struct fake *fake, uint32_t gpus)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__SetPolicy set = CKPT__LOG__V1__SET_POLICY__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    char request_id[32];

    snprintf(request_id, sizeof(request_id), "count-as-%u", gpus);
    command.request_id = request_id;
    policy.feature_level = 2;
    policy.node_gpus = gpus;
    policy.zeros = gpus == 0 ? UINT64_C(1) << 56 : 0;
    set.policy = &policy;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SET_POLICY;
    command.set_policy = &set;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* In a cluster of level 2. */
static struct fake *start_counting(uint32_t gpus)
{
    struct fake *fake = start();

    count_nodes_as(fake, gpus);
    return fake;
}

/* V-006: before the policy's max_interval, by which every job gets one. */
static void a_job_without_gpus_counts_by_its_nodes(void **state)
{
    const struct fsm_checkpoint *checkpoint;

    (void)state;
    for (uint32_t gpus = 0; gpus <= 2; gpus++) {
        struct fake *fake = start_counting(gpus);

        assert_int_equal(fake_register(fake, "job", 1, 16, without_gpus).status, FSM_OK);
        fake_serve(fake);
        fake_advance_ms(fake, 5 * (uint64_t)HOUR_MS);
        checkpoint = fsm_checkpoint_next(fake->replica.fsm, 0);
        if (gpus == 0) {
            assert_null(checkpoint);
        } else {
            assert_non_null(checkpoint);
            assert_int_equal(checkpoint->terms->gpu_count, 16 * gpus);
            assert_int_equal(checkpoint->terms->weighed_nodes, 16);
        }
        finish(fake);
    }
}

/* V-006: at the last safe slot, or before. */
static void a_job_without_gpus_is_saved_before_its_walltime(void **state)
{
    (void)state;
    for (uint32_t gpus = 0; gpus <= 1; gpus++) {
        struct fake *fake = start_counting(gpus);

        assert_int_equal(fake_register(fake, "job", 1, 4, without_gpus_for_two_hours).status,
                         FSM_OK);
        fake_serve(fake);
        fake_advance_ms(fake, 2 * (uint64_t)HOUR_MS - 30000);
        assert_int_equal(fsm_checkpoint_next(fake->replica.fsm, 0) != NULL, gpus);
        assert_int_equal(fsm_allocation_find(fake->replica.fsm, "job")->walltime_asked, gpus);
        finish(fake);
    }
}

static void on_fast(Ckpt__V1__AllocationSpec *spec)
{
    static char fast[] = "fast";

    spec->target_id = fast;
}

/* The documents' job of 64 nodes with 8 GPUs of 80 GB each, and 100 GB/s for its checkpoints: a new
 * target leaves three tenths to staging. */
static const struct fsm_checkpoint *first_of_the_documents_job(struct fake *fake)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__PutTarget put = CKPT__LOG__V1__PUT_TARGET__INIT;
    Ckpt__V1__TargetSpec target = CKPT__V1__TARGET_SPEC__INIT;

    command.request_id = (char[]){"fast"};
    target.target_id = (char[]){"fast"};
    target.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
    target.prefix = (char[]){"/fast"};
    target.write_bytes_per_s = UINT64_C(100000000000) / 7 * 10;
    put.spec = &target;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_PUT_TARGET;
    command.put_target = &put;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    assert_int_equal(fake_register(fake, "job", 1, 64, on_fast).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, 7 * (uint64_t)HOUR_MS);
    return fsm_checkpoint_next(fake->replica.fsm, 0);
}

/* S1-020: with the defaults of a new cluster. By its cost alone the checkpoint would come a little
 * later: before any has completed, one of fifty is expected to fail. The longest interval comes
 * first. A cluster that an earlier build founded keeps its own rate. */
static void a_quiet_job_on_healthy_nodes_saves_about_every_six_hours(void **state)
{
    static const struct {
        uint32_t level;
        uint64_t max_interval_ms;
        double hours;
        const char *verdict;
    } rows[] = {{2, 0, 6, "max_interval_reached"},
                {2, 24 * (uint64_t)HOUR_MS, 6.05, "value_exceeds_cost"},
                {1, 0, 3.6, "value_exceeds_cost"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
        const struct fsm_checkpoint *checkpoint;
        struct fake *fake;
        uint64_t began_ms;

        policy.feature_level = rows[i].level;
        policy.max_interval_ms = rows[i].max_interval_ms;
        fake = start_with(&policy);
        began_ms = fake_wall_ms(fake);
        checkpoint = first_of_the_documents_job(fake);
        assert_non_null(checkpoint);
        assert_string_equal(checkpoint->terms->verdict, rows[i].verdict);
        assert_double_near((double)(checkpoint->created_at_ms - began_ms) / HOUR_MS, rows[i].hours,
                           0.03);
        finish(fake);
    }
}

static void keep_match(void *context, const Ckpt__V1__ExplainReply *reply)
{
    Ckpt__V1__ExplainMatch *match = context;

    *match = reply->match;
    assert_string_equal(reply->weighed_by, "16 nodes x 1");
    assert_int_equal(reply->terms->weighed_nodes, 16);
}

/* V-006: of the last look, and of a decision of the log, which is computed again bit by bit. */
static void explain_says_what_counted(void **state)
{
    struct fake *fake = start_counting(1);
    Ckpt__V1__ExplainRequest request = CKPT__V1__EXPLAIN_REQUEST__INIT;
    Ckpt__V1__ExplainMatch match = CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_UNSPECIFIED;
    uint64_t oldest_ms;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 16, without_gpus).status, FSM_OK);
    assert_int_equal(fake_register(fake, "other", 17, 1, NULL).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, 60000);
    assert_string_equal(explain(fake).weighed_by, "16 nodes x 1");
    assert_string_equal(explain_job(fake, "other").weighed_by, "8 GPUs");
    fake_advance_ms(fake, 5 * (uint64_t)HOUR_MS);
    for (uint64_t id = 0; match == 0;) {
        const struct fsm_checkpoint *at = fsm_checkpoint_next(fake->replica.fsm, id);

        assert_non_null(at);
        id = at->id;
        if (strcmp(fsm_allocation_at(fake->replica.fsm, at->allocation_slot)->id, "job") != 0)
            continue;
        request.checkpoint_id = id;
        assert_int_equal(explain_request(&fake->broker, &request, keep_match, &match, &oldest_ms),
                         EXPLAIN_FOUND);
    }
    assert_int_equal(match, CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_SAME);
    count_nodes_as(fake, 9); /* in the next look, at every job */
    fake_advance_ms(fake, 60000);
    assert_string_equal(explain(fake).weighed_by, "16 nodes x 9");
    assert_string_equal(explain_job(fake, "other").weighed_by, "1 node x 9");
    finish(fake);
}

static void report_waiting(struct fake *fake, char *request_id, uint64_t waited_ms)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__ReportQueueRequest request = CKPT__V1__REPORT_QUEUE_REQUEST__INIT;
    Ckpt__V1__WaitingJob waiting = CKPT__V1__WAITING_JOB__INIT;
    Ckpt__V1__WaitingJob *pointers[] = {&waiting};

    waiting.job_id = (char[]){"w1"};
    waiting.preemption_class = 5;
    waiting.urgency_milli = 2000;
    waiting.gpu_count = 64;
    waiting.waited_ms = waited_ms;
    request.request_id = command.request_id = request_id;
    request.vcluster = (char[]){"hpc"};
    request.n_waiting = 1;
    request.waiting = pointers;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REPORT_QUEUE;
    command.report_queue = &request;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

static void keep_gain(void *context, const Ckpt__V1__ExplainReply *reply)
{
    double *gain = context;

    for (size_t i = 0; i < reply->n_inputs; i++)
        if (strcmp(reply->inputs[i]->name, "waiting_gain_gpu_s") == 0)
            *gain = strtod(reply->inputs[i]->value, NULL);
}

static double waiting_gain(struct fake *fake, char *id)
{
    double gain = -1;

    assert_true(explain_last(&fake->broker, id, keep_gain, &gain));
    return gain;
}

/* A job that waits for GPUs gains nothing from nodes without any, whatever these weigh: neither
 * when the row is filled, nor when the queue's report moves it. */
static void what_waits_for_gpus_gains_nothing_from_nodes_without(void **state)
{
    struct fake *fake = start_counting(1);
    double before;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 16, without_gpus).status, FSM_OK);
    assert_int_equal(fake_register(fake, "other", 17, 1, NULL).status, FSM_OK);
    report_waiting(fake, (char[]){"q1"}, 600000);
    fake_serve(fake);
    fake_advance_ms(fake, 60000);
    assert_double_near(waiting_gain(fake, (char[]){"job"}), 0, 0);
    assert_true(waiting_gain(fake, (char[]){"other"}) > 0);
    before = waiting_gain(fake, (char[]){"other"});
    report_waiting(fake, (char[]){"q2"}, 900000);
    fake_advance_ms(fake, 60000);
    assert_double_near(waiting_gain(fake, (char[]){"job"}), 0, 0);
    assert_true(waiting_gain(fake, (char[]){"other"}) > before);
    finish(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_without_gpus_counts_by_its_nodes),
        cmocka_unit_test(a_job_without_gpus_is_saved_before_its_walltime),
        cmocka_unit_test(explain_says_what_counted),
        cmocka_unit_test(what_waits_for_gpus_gains_nothing_from_nodes_without),
        cmocka_unit_test(a_quiet_job_on_healthy_nodes_saves_about_every_six_hours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
