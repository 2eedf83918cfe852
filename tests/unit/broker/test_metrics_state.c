/* Metrics that are counted from the state's events, and gauges that are read from the state when
 * somebody asks: P-080, T-006, F-014. */
#include "src/base/text.h"
#include "src/broker/daemon/metrics.h"
#include "tests/unit/broker/fake_replica.h"

static struct fake *start(void)
{
    struct fake *fake = fake_new(NULL);

    fake->broker.metrics = broker_metrics_new(&fake->broker);
    fake_serve(fake);
    return fake;
}

static void finish(struct fake *fake)
{
    fake_stop_serving(fake);
    metrics_free(fake->broker.metrics);
    fake_free(fake);
}

static double value(struct fake *fake, enum metric metric, const char *label0, const char *label1)
{
    return metrics_value(fake->broker.metrics, metric, label0, label1);
}

static bool rendered(struct fake *fake, const char *line)
{
    struct buf text;
    bool found;

    buf_init(&text);
    metrics_render(fake->broker.metrics, &text);
    buf_append(&text, "", 1);
    found = strstr((const char *)text.bytes, line) != NULL;
    buf_close(&text);
    return found;
}

/* ---- commands ---- */

static uint32_t ranks_all;         /* that its launcher counts */
static uint64_t written = 5000000; /* of as many bytes */

static void node_report(struct fake *fake, const char *job, uint64_t sequence,
                        Ckpt__V1__ReportKind kind, uint64_t checkpoint_id)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeReport message = CKPT__LOG__V1__NODE_REPORT__INIT;
    Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;
    char id[32], node[] = "node-1",
                 sha256[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    snprintf(id, sizeof(id), "%s", job);
    report.sequence = sequence + 1; /* the first one was that it runs */
    report.kind = kind;
    report.allocation_id = id;
    report.checkpoint_id = checkpoint_id;
    if (kind == CKPT__V1__REPORT_KIND__REPORT_KIND_RESTART_DAMAGED)
        report.restored_checkpoint_id = checkpoint_id;
    report.attempt = 1;
    report.run = fake_run(fake, job, node);
    if (kind == CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED) {
        report.size_bytes = 5000000;
        report.written_bytes = written;
        report.ranks = 1;
        report.ranks_all = ranks_all;
        report.manifest_sha256 = sha256;
        report.write_ms = 700;
    }
    message.node_id = node;
    message.report = &report;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT;
    command.node_report = &message;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* Asked 2 s after the grant, written 5 s later. */
static void write_checkpoint(struct fake *fake, const char *job, uint64_t checkpoint_id)
{
    fake_grant(fake, checkpoint_id, 1000000, 600000);
    fake_advance_ms(fake, 2000);
    node_report(fake, job, 1, CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED, checkpoint_id);
    fake_advance_ms(fake, 5000);
    node_report(fake, job, 2, CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED, checkpoint_id);
}

static uint64_t preempt(struct fake *fake, Ckpt__V1__PreemptionReason reason)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RequestPreemptionRequest request = CKPT__V1__REQUEST_PREEMPTION_REQUEST__INIT;
    char name[] = "p1", job[] = "urgent";
    struct fsm_outcome outcome;

    request.request_id = command.request_id = name;
    request.preemption_class =
        reason == CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_SENSITIVE ? 10 : 9;
    request.reason = reason;
    request.nodes_needed = 1;
    request.for_job = job;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_PREEMPTION;
    command.request_preemption = &request;
    outcome = fake_do(fake, &command);
    assert_int_equal(outcome.status, FSM_OK);
    assert_uint_equal(outcome.victim_count, 1);
    return outcome.victims[0].checkpoint_id;
}

/* ---- tests ---- */

static void a_complete_checkpoint_is_counted_and_timed(void **state)
{
    struct fake *fake = start();

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    write_checkpoint(fake, "job", fake_request_checkpoint(fake, "job", "r1"));
    assert_double_near(value(fake, METRIC_HINTS, "manual", "complete"), 1, 0);
    assert_double_near(value(fake, METRIC_L_OPERATIONS, "complete", NULL), 1, 0);
    assert_double_near(value(fake, METRIC_CHECKPOINT_DURATION, NULL, NULL), 7, 1e-9);
    assert_double_near(value(fake, METRIC_HINT_ACK, NULL, NULL), 2, 1e-9);
    assert_double_near(value(fake, METRIC_CHECKPOINT_SIZE, NULL, NULL), 5000000, 0);
    assert_true(rendered(fake, "lattice_checkpoint_duration_seconds_count 1\n"));
    assert_true(rendered(fake, "ckpt_checkpoints_entered_total{state=\"complete\"} 1\n"));
    assert_true(rendered(fake, "ckpt_checkpoints{state=\"complete\"} 1\n"));
    finish(fake);
}

/* The first one writes all of it; the second one takes over what has not changed. */
static void what_a_checkpoint_takes_over_is_counted_as_saved(void **state)
{
    struct fake *fake = start();
    uint64_t id;

    (void)state;
    assert_true(rendered(fake, "ckpt_checkpoint_saved_bytes_total 0\n"));
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    write_checkpoint(fake, "job", fake_request_checkpoint(fake, "job", "r1"));
    assert_true(rendered(fake, "ckpt_checkpoint_saved_bytes_total 0\n"));
    fake_advance_ms(fake, 3600000);
    id = fake_request_checkpoint(fake, "job", "r2");
    fake_grant(fake, id, 1000000, 600000);
    written = 1200000;
    node_report(fake, "job", 3, CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED, id);
    written = 5000000;
    assert_true(rendered(fake, "ckpt_checkpoint_saved_bytes_total 3800000\n"));
    assert_true(rendered(fake, "ckpt_checkpoint_size_bytes_sum 10000000\n"));
    finish(fake);
}

/* From its grant on, until its last part is verified. */
static void a_part_that_is_written_is_counted_at_its_target(void **state)
{
    struct fake *fake = start();
    uint64_t id;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 2, NULL).status, FSM_OK);
    id = fake_request_checkpoint(fake, "job", "r1");
    assert_true(
        rendered(fake, "ckpt_destination_writes{destination=\"scratch\",state=\"writing\"} 0\n"));
    assert_true(
        rendered(fake, "ckpt_destination_writes{destination=\"scratch\",state=\"waiting\"} 0\n"));
    fake_grant(fake, id, 1000000, 600000);
    assert_true(
        rendered(fake, "ckpt_destination_writes{destination=\"scratch\",state=\"writing\"} 2\n"));
    fake_verify_part(fake, "job", id, 0);
    fake_verify_part(fake, "job", id, 1);
    assert_true(
        rendered(fake, "ckpt_destination_writes{destination=\"scratch\",state=\"writing\"} 0\n"));
    fake_stop_serving(fake);
    assert_false(
        rendered(fake, "ckpt_destination_writes{destination=\"scratch\",state=\"waiting\"}"));
    fake_serve(fake);
    finish(fake);
}

static void a_failed_one_names_its_reason(void **state)
{
    struct fake *fake = start();
    uint64_t id;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    id = fake_request_checkpoint(fake, "job", "r1");
    fake_grant(fake, id, 1000000, 600000);
    fake_stop_serving(fake);
    fake_serve(fake); /* what the last leader counted stays, what is old is not counted twice */
    node_report(fake, "job", 1, CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED, 0);
    assert_double_near(value(fake, METRIC_L_OPERATIONS, "complete", NULL), 0, 0);
    assert_double_near(value(fake, METRIC_HINTS, "manual", "superseded") +
                           value(fake, METRIC_HINTS, "manual", "failed"),
                       1, 0);
    finish(fake);
}

/* Each rank is to be in a part: it is tried again, and told meanwhile. */
static void an_attempt_that_lacks_ranks_is_counted_though_it_is_tried_again(void **state)
{
    struct fake *fake = start();
    uint64_t id;

    (void)state;
    assert_true(
        rendered(fake, "ckpt_checkpoint_attempts_failed_total{reason=\"ranks_missing\"} 0\n"));
    assert_true(rendered(fake, "ckpt_restart_points_damaged_total 0\n"));
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    id = fake_request_checkpoint(fake, "job", "r1");
    ranks_all = 2;
    write_checkpoint(fake, "job", id);
    ranks_all = 0;
    assert_true(
        rendered(fake, "ckpt_checkpoint_attempts_failed_total{reason=\"ranks_missing\"} 1\n"));
    assert_double_near(value(fake, METRIC_L_OPERATIONS, "failed", NULL), 0, 0);
    finish(fake);
}

static void a_restart_point_that_is_damaged_is_counted(void **state)
{
    struct fake *fake = start();
    uint64_t id;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    id = fake_request_checkpoint(fake, "job", "r1");
    write_checkpoint(fake, "job", id);
    node_report(fake, "job", 3, CKPT__V1__REPORT_KIND__REPORT_KIND_RESTART_DAMAGED, id);
    assert_true(rendered(fake, "ckpt_restart_points_damaged_total 1\n"));
    finish(fake);
}

/* P-080 */
static void a_preemption_is_counted_from_the_claim_to_the_suspended_victim(void **state)
{
    struct fake *fake = start();
    uint64_t id;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    fake_advance_ms(fake, 3600000);
    id = preempt(fake, CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_UNSPECIFIED);
    assert_double_near(value(fake, METRIC_L_PREEMPTIONS, "hpc", "priority"), 1, 0);
    write_checkpoint(fake, "job", id);
    assert_double_near(value(fake, METRIC_L_PREEMPTION_DURATION, NULL, NULL), 7, 1e-9);
    assert_true(rendered(fake, "lattice_preemption_checkpoint_duration_seconds_count 1\n"));
    node_report(fake, "job", 3, CKPT__V1__REPORT_KIND__REPORT_KIND_TERMINATED, 0);
    assert_int_equal(fsm_allocation_find(fake->replica.fsm, "job")->state,
                     CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED);
    assert_double_near(value(fake, METRIC_L_PREEMPTION_REQUEUE, NULL, NULL), 1, 0);
    assert_double_near(value(fake, METRIC_L_PREEMPTION_FAILED, NULL, NULL), 0, 0);
    assert_double_near(value(fake, METRIC_PREEMPTIONS_ENDED, "released", NULL), 1, 0);
    assert_double_near(value(fake, METRIC_PREEMPTION_RELEASE, NULL, NULL), 7, 1e-9);
    finish(fake);
}

/* P-080: why is told by the request */
static void a_sensitive_claim_is_counted_as_one(void **state)
{
    struct fake *fake = start();

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    preempt(fake, CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_SENSITIVE);
    assert_double_near(value(fake, METRIC_L_PREEMPTIONS, "hpc", "sensitive"), 1, 0);
    assert_double_near(value(fake, METRIC_L_PREEMPTIONS, "hpc", "priority"), 0, 0);
    finish(fake);
}

static void a_follower_counts_nothing(void **state)
{
    struct fake *fake = start();

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    fake_stop_serving(fake);
    write_checkpoint(fake, "job", fake_request_checkpoint(fake, "job", "r1"));
    assert_double_near(value(fake, METRIC_L_OPERATIONS, "complete", NULL), 0, 0);
    fake_serve(fake);
    assert_double_near(value(fake, METRIC_L_OPERATIONS, "complete", NULL), 0, 0);
    assert_true(rendered(fake, "ckpt_checkpoints_entered_total{state=\"complete\"} 1\n"));
    finish(fake);
}

/* A status with a number of its own is counted however many there are. */
static void each_status_of_the_catalogue_is_counted(void **state)
{
    struct fake *fake = start();
    char line[128];

    (void)state;
    for (size_t i = 1; i < fsm_status_count(); i++)
        fake->broker.counters.outcomes_total[i] = i;
    for (size_t i = 1; i < fsm_status_count(); i++) {
        const char *name = fsm_status_name((enum fsm_status)i);

        snprintf(line, sizeof(line), "ckpt_mutation_outcomes_total{status=\"%s\"} %zu\n", name, i);
        if (strcmp(name, "UNKNOWN") != 0)
            assert_true(rendered(fake, line));
    }
    finish(fake);
}

/* What raft counted of its own snapshots, each under its own name. */
static void snapshots_that_fail_or_do_not_read_are_counted(void **state)
{
    const struct consensus_status status = {
        .snapshot_count = 40, .snapshot_failures_total = 5, .snapshot_unreadable_total = 3};
    struct fake *fake = start();

    (void)state;
    assert_true(rendered(fake, "\nckpt_raft_snapshot_unreadable_total 0\n"));
    fake->replica.status = &status;
    assert_true(rendered(fake, "\nckpt_raft_snapshots_total 40\n"));
    assert_true(rendered(fake, "\nckpt_raft_snapshot_failures_total 5\n"));
    assert_true(rendered(fake, "\nckpt_raft_snapshot_unreadable_total 3\n"));
    finish(fake);
}

/* A second target, for what is bound for the first one in an outage. */
static void put_target(struct fake *fake, const char *id, const char *failover)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__PutTarget put = CKPT__LOG__V1__PUT_TARGET__INIT;
    Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;

    spec.target_id = text_message(id);
    spec.failover_target_id = text_message(failover);
    if (failover[0] == '\0') {
        spec.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
        spec.prefix = text_message("/far");
        spec.write_bytes_per_s = 1000000;
        spec.staging_share_ppm = 300000;
    }
    put.spec = &spec;
    command.request_id = text_message(failover[0] == '\0' ? "put" : "failover");
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_PUT_TARGET;
    command.put_target = &put;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

static void drain_target(struct fake *fake, const char *id)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__DrainTarget drain = CKPT__LOG__V1__DRAIN_TARGET__INIT;

    drain.target_id = text_message(id);
    command.request_id = text_message("drain");
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_DRAIN_TARGET;
    command.drain_target = &drain;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

static void target_is(struct fake *fake, const char *id, bool available)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__TargetAvailability change = CKPT__LOG__V1__TARGET_AVAILABILITY__INIT;

    change.target_id = text_message(id);
    change.available = available;
    change.reason =
        available ? CKPT__V1__REASON__REASON_NONE : CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_TARGET_AVAILABILITY;
    command.target_availability = &change;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

static void tick(struct fake *fake)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__Tick message = CKPT__LOG__V1__TICK__INIT;

    command.body_case = CKPT__LOG__V1__COMMAND__BODY_TICK;
    command.tick = &message;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* D-004: as the bytes that its remover found. */
static void a_folder_that_is_gone_is_counted_with_its_bytes(void **state)
{
    struct fake *fake = start();
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__CheckpointsCollected collected = CKPT__LOG__V1__CHECKPOINTS_COLLECTED__INIT;
    Ckpt__Log__V1__Command ending = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__EndAllocationRequest end = CKPT__V1__END_ALLOCATION_REQUEST__INIT;
    uint64_t id, bytes = 4000000;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    id = fake_request_checkpoint(fake, "job", "r1");
    write_checkpoint(fake, "job", id);
    end.request_id = ending.request_id = text_message("end");
    end.allocation_id = text_message("job");
    ending.body_case = CKPT__LOG__V1__COMMAND__BODY_END_ALLOCATION;
    ending.end_allocation = &end;
    assert_int_equal(fake_do(fake, &ending).status, FSM_OK);
    fake_advance_ms(fake, UINT64_C(8) * 24 * 3600 * 1000);
    tick(fake);
    collected.n_checkpoint_ids = collected.n_removed_bytes = 1;
    collected.checkpoint_ids = &id;
    collected.removed_bytes = &bytes;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_CHECKPOINTS_COLLECTED;
    command.checkpoints_collected = &collected;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    assert_double_near(value(fake, METRIC_DELETED, "scratch", NULL), 1, 0);
    assert_double_near(value(fake, METRIC_DELETED_BYTES, "scratch", NULL), 4000000, 0);
    finish(fake);
}

/* S2-009: what a target that is to go still holds. */
static void a_target_that_is_drained_shows_what_it_holds(void **state)
{
    struct fake *fake = start();

    (void)state;
    put_target(fake, "far", "");
    fake_register(fake, "job", 1, 1, NULL);
    write_checkpoint(fake, "job", fake_request_checkpoint(fake, "job", "r1"));
    assert_true(rendered(fake, "ckpt_destination_draining{destination=\"far\"} 0\n"));
    assert_true(rendered(fake, "ckpt_destination_checkpoints{destination=\"scratch\"} 1\n"));
    assert_true(rendered(fake, "ckpt_destination_checkpoints{destination=\"far\"} 0\n"));
    drain_target(fake, "far");
    assert_true(rendered(fake, "ckpt_destination_draining{destination=\"far\"} 1\n"));
    finish(fake);
}

/* S2-026 */
static void a_fail_over_is_counted_and_shown_while_it_lasts(void **state)
{
    struct fake *fake = start();

    (void)state;
    put_target(fake, "far", "");
    put_target(fake, "scratch", "far");
    fake_register(fake, "job", 1, 1, NULL);
    (void)fake_request_checkpoint(fake, "job", "r1");
    target_is(fake, "scratch", false);
    fake_advance_ms(fake, 120000);
    tick(fake);
    assert_true(
        rendered(fake, "ckpt_destination_failed_over{destination=\"scratch\",to=\"far\"} 1\n"));
    assert_double_near(value(fake, METRIC_FAILOVERS, "scratch", NULL), 1, 0);
    target_is(fake, "scratch", true);
    tick(fake);
    assert_false(rendered(fake, "ckpt_destination_failed_over{"));
    assert_double_near(value(fake, METRIC_FAILOVERS, "scratch", NULL), 1, 0);
    assert_double_near(value(fake, METRIC_DISCARDED, NULL, NULL), 0, 0);
    finish(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_complete_checkpoint_is_counted_and_timed),
        cmocka_unit_test(a_folder_that_is_gone_is_counted_with_its_bytes),
        cmocka_unit_test(what_a_checkpoint_takes_over_is_counted_as_saved),
        cmocka_unit_test(a_part_that_is_written_is_counted_at_its_target),
        cmocka_unit_test(a_failed_one_names_its_reason),
        cmocka_unit_test(an_attempt_that_lacks_ranks_is_counted_though_it_is_tried_again),
        cmocka_unit_test(a_restart_point_that_is_damaged_is_counted),
        cmocka_unit_test(a_preemption_is_counted_from_the_claim_to_the_suspended_victim),
        cmocka_unit_test(a_sensitive_claim_is_counted_as_one),
        cmocka_unit_test(a_follower_counts_nothing),
        cmocka_unit_test(each_status_of_the_catalogue_is_counted),
        cmocka_unit_test(snapshots_that_fail_or_do_not_read_are_counted),
        cmocka_unit_test(a_target_that_is_drained_shows_what_it_holds),
        cmocka_unit_test(a_fail_over_is_counted_and_shown_while_it_lasts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
