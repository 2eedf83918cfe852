/* The orders of a job without a cluster: when it is asked, from where it begins, what stays
 * (S4-007). */
#include "src/agent/alone/alone_step.h"
#include "src/agent/job/reconcile.h"
#include "tests/support/test.h"

#define REPORT(name) CKPT__V1__REPORT_KIND__REPORT_KIND_##name
#define ORDER(name)  CKPT__V1__ORDER_KIND__ORDER_KIND_##name
#define PHASE(name)  CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_##name
#define BEGIN(name)  CKPT__V1__BEGIN_STATE__BEGIN_STATE_##name

enum { EVERY_MS = 60000, BEGAN_MS = 1000000, WALL_MS = 5000000, EPOCH = 3 };

static struct alone alone;
static struct alone_messages messages;
static uint64_t clock_ms;
static const struct alone_settings settings = {.allocation_id = "job",
                                               .folder = "/scratch/my run",
                                               .every_ms = EVERY_MS,
                                               .keep = 2,
                                               .cluster_mark = 7};

static uint64_t id_of(uint64_t epoch, uint64_t number)
{
    return checkpoint_id_make(epoch, number);
}

static int begin_new(void **state)
{
    (void)state;
    clock_ms = BEGAN_MS;
    alone_begin(&alone, &settings, EPOCH, &(struct alone_found){0}, clock_ms);
    return 0;
}

static Ckpt__V1__AgentReport report_of(Ckpt__V1__ReportKind kind)
{
    Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;

    report.kind = kind;
    report.run = alone.run;
    report.checkpoint_id = alone.attempt.id;
    report.attempt = alone.attempt.number;
    return report;
}

static const struct alone_checkpoint *take(const Ckpt__V1__AgentReport *report)
{
    return alone_take(&alone, report, clock_ms, WALL_MS);
}

static void take_kind(Ckpt__V1__ReportKind kind)
{
    Ckpt__V1__AgentReport report = report_of(kind);

    (void)take(&report);
}

static void application_starts(uint64_t from)
{
    Ckpt__V1__AgentReport report = report_of(REPORT(APPLICATION_STARTED));

    report.restored_checkpoint_id = from;
    (void)take(&report);
}

static void application_ends(bool again)
{
    Ckpt__V1__AgentReport report = report_of(REPORT(APPLICATION_EXITED));

    report.will_restart = again;
    (void)take(&report);
}

static void turn_at(uint64_t ms)
{
    clock_ms = ms;
    alone_turn(&alone, clock_ms);
}

/* The order of this kind; NULL: the set has none. */
static const Ckpt__V1__Order *order_of(Ckpt__V1__OrderKind kind)
{
    alone_orders(&alone, &messages);
    for (size_t i = 0; i < messages.set.n_orders; i++) {
        assert_null(reconcile_order_wrong(messages.set.orders[i]));
        if (messages.set.orders[i]->kind == kind)
            return messages.set.orders[i];
    }
    return NULL;
}

static const struct alone_checkpoint *checkpoint_completes(const char *label)
{
    Ckpt__V1__AgentReport report;
    static char hash[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    turn_at(alone_due_ms(&alone));
    report = report_of(REPORT(SHARD_VERIFIED));
    report.manifest_sha256 = hash;
    report.size_bytes = 77;
    report.snapshot_age_ms = 500;
    report.label = (char *)(uintptr_t)label;
    return take(&report);
}

static void the_first_checkpoint_is_asked_a_period_after_the_start(void **state)
{
    const Ckpt__V1__Order *order;

    (void)state;
    assert_uint_equal(alone_due_ms(&alone), UINT64_MAX);
    clock_ms += 5000;
    application_starts(0);
    assert_uint_equal(alone_due_ms(&alone), BEGAN_MS + 5000 + EVERY_MS);
    turn_at(alone_due_ms(&alone) - 1);
    assert_null(order_of(ORDER(CHECKPOINT)));
    turn_at(alone_due_ms(&alone));
    order = order_of(ORDER(CHECKPOINT));
    assert_non_null(order);
    assert_uint_equal(order->checkpoint_id, id_of(EPOCH, 1));
    assert_uint_equal(order->attempt, 1);
    assert_uint_equal(order->run, alone.run);
    assert_uint_equal(order->cluster_mark, 7);
    assert_string_equal(order->path, "/scratch/my run/standalone/checkpoints/3-1");
    assert_string_equal(order->target_prefix, "/scratch/my run");
    assert_uint_equal(messages.set.n_parts, 1);
    assert_uint_equal(messages.set.parts[0]->run, messages.set.runs_until);
}

static void a_verified_one_is_the_restart_point_with_its_label_and_instant(void **state)
{
    const struct alone_checkpoint *checkpoint;

    (void)state;
    application_starts(0);
    checkpoint = checkpoint_completes("step-9");
    assert_non_null(checkpoint);
    assert_uint_equal(checkpoint->taken_ms, WALL_MS - 500);
    assert_null(order_of(ORDER(CHECKPOINT)));
    application_ends(true);
    alone_point(&alone, &messages);
    assert_uint_equal(messages.point.checkpoint_id, id_of(EPOCH, 1));
    assert_string_equal(messages.point.label, "step-9");
    assert_uint_equal(messages.point.snapshot_at_ms, WALL_MS - 500);
    assert_string_equal(messages.point.path, "/scratch/my run/standalone/checkpoints/3-1");
    assert_uint_equal(messages.point.n_shards, 1);
    assert_string_equal(messages.point.shards[0]->manifest_sha256, checkpoint->manifest_sha256);
    assert_int_equal(messages.point.part->begin, BEGIN(MAY));
    assert_uint_equal(messages.point.part->restart_checkpoint_id, id_of(EPOCH, 1));
}

/* In place the run stays; an end for good has a next one only for who asks for a start. */
static void a_run_ends_with_its_application_and_the_next_one_waits_for_a_start(void **state)
{
    const uint64_t first = alone.run;

    (void)state;
    application_starts(0);
    alone_point(&alone, &messages);
    assert_int_equal(messages.point.part->begin, BEGIN(RUNS));
    application_ends(true);
    alone_point(&alone, &messages);
    assert_uint_equal(alone.run, first);
    application_starts(0);
    application_ends(false);
    alone_orders(&alone, &messages);
    assert_uint_equal(messages.set.parts[0]->run, first);
    alone_point(&alone, &messages);
    assert_true(messages.point.runs[0] > first);
    assert_int_equal(messages.point.part->begin, BEGIN(MAY));
    alone_orders(&alone, &messages);
    assert_uint_equal(messages.set.parts[0]->run, alone.run);
}

static void a_report_of_an_earlier_run_changes_nothing(void **state)
{
    Ckpt__V1__AgentReport late = report_of(REPORT(APPLICATION_EXITED));

    (void)state;
    application_starts(0);
    application_ends(false);
    alone_point(&alone, &messages);
    application_starts(0);
    (void)take(&late);
    assert_true(alone.running);
    assert_false(alone.over);
}

static void what_the_journal_has_running_is_of_its_run(void **state)
{
    const struct alone_found found = {run_make(2, 5), true, id_of(2, 4)};

    (void)state;
    alone_begin(&alone, &settings, EPOCH, &found, clock_ms);
    alone_orders(&alone, &messages);
    assert_uint_equal(messages.set.parts[0]->run, run_make(2, 5));
    assert_uint_equal(messages.set.parts[0]->restart_checkpoint_id, id_of(2, 4));
    turn_at(alone_due_ms(&alone));
    assert_uint_equal(order_of(ORDER(CHECKPOINT))->checkpoint_id, id_of(EPOCH, 1));
    assert_uint_equal(order_of(ORDER(CHECKPOINT))->run, run_make(2, 5));
    application_ends(false);
    assert_null(order_of(ORDER(CHECKPOINT)));
    alone_point(&alone, &messages);
    assert_uint_equal(alone.run, run_make(EPOCH, 1));
}

static void a_failed_one_is_tried_three_times_and_then_a_period_later(void **state)
{
    (void)state;
    application_starts(0);
    turn_at(alone_due_ms(&alone));
    for (uint32_t number = 1; number <= ALONE_ATTEMPTS_MAX; number++) {
        assert_uint_equal(order_of(ORDER(CHECKPOINT))->attempt, number);
        assert_uint_equal(order_of(ORDER(CHECKPOINT))->checkpoint_id, id_of(EPOCH, 1));
        take_kind(REPORT(CHECKPOINT_FAILED));
        assert_null(order_of(ORDER(CHECKPOINT)));
        assert_true(alone_due_ms(&alone) > clock_ms);
        turn_at(alone_due_ms(&alone));
    }
    assert_uint_equal(order_of(ORDER(CHECKPOINT))->checkpoint_id, id_of(EPOCH, 2));
    assert_uint_equal(order_of(ORDER(CHECKPOINT))->attempt, 1);
    assert_true(clock_ms >= BEGAN_MS + 2 * (uint64_t)EVERY_MS);
}

static void a_job_that_saves_for_long_has_half_of_its_time_for_itself(void **state)
{
    uint64_t asked_ms;

    (void)state;
    application_starts(0);
    turn_at(alone_due_ms(&alone));
    asked_ms = clock_ms;
    clock_ms += 10 * (uint64_t)EVERY_MS;
    take_kind(REPORT(SHARD_VERIFIED));
    assert_uint_equal(alone_due_ms(&alone), asked_ms + 20 * (uint64_t)EVERY_MS);
}

static void the_ranks_of_a_library_agree_on_a_step(void **state)
{
    Ckpt__V1__AgentReport started, step;

    (void)state;
    application_starts(0);
    turn_at(alone_due_ms(&alone));
    assert_int_equal(order_of(ORDER(CHECKPOINT))->barrier, PHASE(NONE));
    started = report_of(REPORT(STARTED));
    started.barrier = true;
    (void)take(&started);
    assert_int_equal(order_of(ORDER(CHECKPOINT))->barrier, PHASE(GATHERING));
    step = report_of(REPORT(BARRIER));
    (void)take(&step);
    assert_int_equal(order_of(ORDER(CHECKPOINT))->barrier, PHASE(STEPPING));
    step.step = 41;
    (void)take(&step);
    assert_int_equal(order_of(ORDER(CHECKPOINT))->barrier, PHASE(AGREED));
    assert_uint_equal(order_of(ORDER(CHECKPOINT))->agreed_step, 41);
}

static void a_deferral_and_the_one_extension_lengthen_the_time(void **state)
{
    Ckpt__V1__AgentReport deferred;
    uint64_t timeout_ms, deferral_ms;

    (void)state;
    application_starts(0);
    turn_at(alone_due_ms(&alone));
    timeout_ms = order_of(ORDER(CHECKPOINT))->timeout_ms;
    deferral_ms = order_of(ORDER(CHECKPOINT))->max_deferral_ms;
    deferred = report_of(REPORT(DEFERRED));
    deferred.deferral_ms = 4000;
    (void)take(&deferred);
    assert_uint_equal(order_of(ORDER(CHECKPOINT))->timeout_ms, timeout_ms + 4000);
    assert_uint_equal(order_of(ORDER(CHECKPOINT))->max_deferral_ms, deferral_ms - 4000);
    take_kind(REPORT(RESPONSIVE));
    assert_true(order_of(ORDER(CHECKPOINT))->extended);
    assert_true(order_of(ORDER(CHECKPOINT))->timeout_ms > timeout_ms + 4000);
}

static void the_newest_stay_and_what_is_older_goes_while_the_application_runs(void **state)
{
    Ckpt__V1__AgentReport gone;
    const Ckpt__V1__Order *order;

    (void)state;
    application_starts(0);
    for (int i = 0; i < 3; i++)
        (void)checkpoint_completes("");
    order = order_of(ORDER(COLLECT));
    assert_non_null(order);
    assert_uint_equal(order->checkpoint_id, id_of(EPOCH, 1));
    assert_string_equal(order->path, "/scratch/my run/standalone/checkpoints/3-1");
    gone = report_of(REPORT(COLLECT_FAILED));
    gone.checkpoint_id = id_of(EPOCH, 1);
    (void)take(&gone);
    assert_null(order_of(ORDER(COLLECT)));
    (void)checkpoint_completes("");
    assert_uint_equal(messages.set.n_orders, 0);
    assert_uint_equal(order_of(ORDER(COLLECT))->attempt, 2);
    application_ends(true);
    assert_null(order_of(ORDER(COLLECT)));
    application_starts(alone_newest(&alone)->id);
    gone.kind = REPORT(COLLECTED);
    (void)take(&gone);
    assert_uint_equal(order_of(ORDER(COLLECT))->checkpoint_id, id_of(EPOCH, 2));
    gone.checkpoint_id = id_of(EPOCH, 2);
    (void)take(&gone);
    assert_null(order_of(ORDER(COLLECT)));
    assert_uint_equal(alone.count, 2);
}

/* It is not counted either: as many whole ones stay as were wished. */
static void a_damaged_one_is_passed_over_for_the_one_before(void **state)
{
    Ckpt__V1__AgentReport damaged;

    (void)state;
    for (uint64_t number = 1; number <= 3; number++)
        alone_know(&alone, &(struct alone_checkpoint){.id = id_of(1, number)});
    alone_point(&alone, &messages);
    assert_uint_equal(messages.point.checkpoint_id, id_of(1, 3));
    damaged = report_of(REPORT(RESTART_DAMAGED));
    damaged.restored_checkpoint_id = id_of(1, 3);
    assert_uint_equal(take(&damaged)->id, id_of(1, 3)); /* its note is to say so */
    alone_point(&alone, &messages);
    assert_uint_equal(messages.point.checkpoint_id, id_of(1, 2));
    assert_uint_equal(messages.point.part->restart_checkpoint_id, id_of(1, 2));
    application_starts(id_of(1, 2));
    assert_null(order_of(ORDER(COLLECT)));
    (void)checkpoint_completes("");
    assert_uint_equal(order_of(ORDER(COLLECT))->checkpoint_id, id_of(1, 1));
}

/* Nothing else is to come. The run in which the last one was found damaged would wait for that. */
static void where_all_are_damaged_the_restart_point_says_so(void **state)
{
    Ckpt__V1__AgentReport damaged;
    uint64_t run;

    (void)state;
    alone_know(&alone, &(struct alone_checkpoint){.id = id_of(1, 1), .damaged = true});
    alone_know(&alone, &(struct alone_checkpoint){.id = id_of(1, 2)});
    alone_point(&alone, &messages);
    assert_uint_equal(messages.point.checkpoint_id, id_of(1, 2));
    assert_null(messages.point.without);
    run = messages.point.runs[0];
    damaged = report_of(REPORT(RESTART_DAMAGED));
    damaged.restored_checkpoint_id = id_of(1, 2);
    (void)take(&damaged);
    alone_point(&alone, &messages);
    assert_true(messages.point.runs[0] > run);
    assert_int_equal(messages.point.part->begin, BEGIN(MAY));
    assert_uint_equal(messages.point.checkpoint_id, 0);
    assert_int_equal(messages.point.without->cause, CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_UNREADABLE);
    application_starts(0); /* as --from-scratch says */
    (void)checkpoint_completes("");
    application_ends(true);
    alone_point(&alone, &messages);
    assert_null(messages.point.without);
}

/* Also when the next agent holds the newer ones, which were passed over, for whole. */
static void what_the_application_began_from_stays_while_it_runs(void **state)
{
    const struct alone_found found = {run_make(2, 5), true, id_of(1, 2)};
    Ckpt__V1__AgentReport gone;

    (void)state;
    alone_begin(&alone, &settings, EPOCH, &found, clock_ms);
    for (uint64_t number = 1; number <= 4; number++)
        alone_know(&alone, &(struct alone_checkpoint){.id = id_of(1, number)});
    gone = report_of(REPORT(COLLECTED));
    gone.checkpoint_id = order_of(ORDER(COLLECT))->checkpoint_id;
    assert_uint_equal(gone.checkpoint_id, id_of(1, 1));
    (void)take(&gone);
    assert_null(order_of(ORDER(COLLECT)));
    (void)checkpoint_completes("");
    assert_uint_equal(order_of(ORDER(COLLECT))->checkpoint_id, id_of(1, 3));
    application_ends(true);
    application_starts(alone_newest(&alone)->id);
    assert_uint_equal(order_of(ORDER(COLLECT))->checkpoint_id, id_of(1, 2));
}

static void whoever_asks_gets_one_at_once_unless_one_is_under_way(void **state)
{
    uint64_t active = 1;

    (void)state;
    assert_uint_equal(alone_ask(&alone, clock_ms, &active), 0);
    assert_uint_equal(active, 0);
    application_starts(0);
    assert_uint_equal(alone_ask(&alone, clock_ms, &active), id_of(EPOCH, 1));
    assert_non_null(order_of(ORDER(CHECKPOINT)));
    assert_uint_equal(alone_ask(&alone, clock_ms, &active), 0);
    assert_uint_equal(active, id_of(EPOCH, 1));
}

/* A full folder leaves one for each period. */
static void what_a_failed_one_has_left_goes_and_hides_nothing(void **state)
{
    Ckpt__V1__AgentReport gone;

    (void)state;
    for (uint64_t number = 1; number < ALONE_CHECKPOINTS_MAX; number++)
        alone_know(&alone, &(struct alone_checkpoint){.id = id_of(1, number), .damaged = true});
    alone_know(&alone, &(struct alone_checkpoint){.id = id_of(1, ALONE_CHECKPOINTS_MAX)});
    application_starts(0);
    for (int i = 0; i < 2 * ALONE_ATTEMPTS_MAX; i++) {
        turn_at(alone_due_ms(&alone));
        take_kind(REPORT(CHECKPOINT_FAILED));
    }
    assert_uint_equal(alone_newest(&alone)->id, id_of(1, ALONE_CHECKPOINTS_MAX));
    assert_uint_equal(order_of(ORDER(COLLECT))->checkpoint_id, id_of(EPOCH, 2));
    gone = report_of(REPORT(COLLECTED));
    gone.checkpoint_id = id_of(EPOCH, 2);
    (void)take(&gone);
    assert_null(order_of(ORDER(COLLECT)));
    application_ends(true);
    alone_point(&alone, &messages);
    assert_uint_equal(messages.point.checkpoint_id, id_of(1, ALONE_CHECKPOINTS_MAX));
}

static void of_more_than_it_can_know_the_oldest_are_forgotten(void **state)
{
    (void)state;
    for (uint64_t number = ALONE_CHECKPOINTS_MAX + 2; number >= 1; number--)
        alone_know(&alone, &(struct alone_checkpoint){.id = id_of(1, number), .damaged = true});
    assert_uint_equal(alone.count, ALONE_CHECKPOINTS_MAX);
    for (size_t i = 1; i < alone.count; i++)
        assert_true(alone.checkpoints[i - 1].id < alone.checkpoints[i].id);
    assert_null(alone_newest(&alone));
}

static bool given_up(uint64_t id)
{
    for (size_t i = 0; i < alone.count; i++)
        if (alone.checkpoints[i].id == id)
            return alone.checkpoints[i].given_up;
    return false;
}

/* Whatever an agent says: at most one checkpoint is ordered, ids and attempts only grow, the newest
 * whole one is never removed, and what is restored is known. */
static void any_reports_leave_sound_orders(void **state)
{
    static const Ckpt__V1__ReportKind kinds[] = {
        REPORT(STARTED),         REPORT(SHARD_VERIFIED),     REPORT(CHECKPOINT_FAILED),
        REPORT(STOPPED_WRITING), REPORT(APPLICATION_EXITED), REPORT(APPLICATION_STARTED),
        REPORT(RESPONSIVE),      REPORT(DEFERRED),           REPORT(BARRIER),
        REPORT(RESTORED),        REPORT(RESTART_DAMAGED),    REPORT(COLLECTED),
        REPORT(COLLECT_FAILED),  REPORT(TERMINATED)};
    uint64_t seed = test_seed(), highest = 0;
    uint32_t attempt = 0;

    (void)state;
    for (unsigned i = 0; i < test_often(20000, 400000); i++) {
        const uint64_t draw = test_random(&seed);
        Ckpt__V1__AgentReport report = report_of(kinds[draw % (sizeof(kinds) / sizeof(kinds[0]))]);
        const Ckpt__V1__Order *order;

        clock_ms += draw >> 40 & 0x7fff;
        report.will_restart = (draw >> 8) & 1;
        report.step = (draw >> 9) & 7;
        report.barrier = (draw >> 12) & 1;
        if (alone.count > 0 && (draw >> 13 & 1) != 0)
            report.checkpoint_id = report.restored_checkpoint_id =
                alone.checkpoints[(draw >> 16) % alone.count].id;
        if (report.kind == REPORT(SHARD_VERIFIED) && alone.phase != ALONE_ASKED)
            continue; /* nothing was asked */
        (void)take(&report);
        alone_turn(&alone, clock_ms);
        if ((draw >> 14 & 3) == 0)
            alone_point(&alone, &messages);
        order = order_of(ORDER(CHECKPOINT));
        if (order != NULL) {
            assert_true(alone.running);
            assert_true(order->checkpoint_id > highest ||
                        (order->checkpoint_id == highest && order->attempt >= attempt));
            highest = order->checkpoint_id;
            attempt = order->attempt;
        }
        order = order_of(ORDER(COLLECT));
        if (order != NULL && !given_up(order->checkpoint_id)) {
            assert_non_null(alone_newest(&alone));
            assert_true(order->checkpoint_id < alone_newest(&alone)->id);
            assert_true(order->checkpoint_id != alone.began_from);
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, begin_new)
    const struct CMUnitTest tests[] = {
        TEST(the_first_checkpoint_is_asked_a_period_after_the_start),
        TEST(a_verified_one_is_the_restart_point_with_its_label_and_instant),
        TEST(a_run_ends_with_its_application_and_the_next_one_waits_for_a_start),
        TEST(a_report_of_an_earlier_run_changes_nothing),
        TEST(what_the_journal_has_running_is_of_its_run),
        TEST(a_failed_one_is_tried_three_times_and_then_a_period_later),
        TEST(a_job_that_saves_for_long_has_half_of_its_time_for_itself),
        TEST(the_ranks_of_a_library_agree_on_a_step),
        TEST(a_deferral_and_the_one_extension_lengthen_the_time),
        TEST(the_newest_stay_and_what_is_older_goes_while_the_application_runs),
        TEST(a_damaged_one_is_passed_over_for_the_one_before),
        TEST(what_the_application_began_from_stays_while_it_runs),
        TEST(where_all_are_damaged_the_restart_point_says_so),
        TEST(whoever_asks_gets_one_at_once_unless_one_is_under_way),
        TEST(what_a_failed_one_has_left_goes_and_hides_nothing),
        TEST(of_more_than_it_can_know_the_oldest_are_forgotten),
        TEST(any_reports_leave_sound_orders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
