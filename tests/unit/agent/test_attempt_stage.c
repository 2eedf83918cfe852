/* An attempt whose application writes at the destination itself: the steps until it is asked, and
 * its ends. */
#include <stdio.h>
#include <string.h>

#include "src/agent/job/attempt_step.h"
#include "tests/support/test.h"

#define FOLDER ".part-0000.tmp.0123456789abcdef"
enum { CHECKPOINT = 42, SECOND_US = 1000000 };

static struct attempt attempt;
static struct ledger_entry entry;
static struct attempt_facts facts;
static struct job_effects effects;

static void step(const struct attempt_event *event)
{
    attempt_step(&attempt, &entry, event, &facts, &effects);
}

static void step_kind(enum attempt_event_kind kind)
{
    step(&(struct attempt_event){.kind = kind});
}

static bool has_effect(enum job_effect_kind kind)
{
    for (size_t i = 0; i < effects.count; i++)
        if (effects.effects[i].kind == kind)
            return true;
    return false;
}

/* Its application is there and can be asked; the destination takes files in place. */
static int set_up(void **state)
{
    Ckpt__V1__Order order = CKPT__V1__ORDER__INIT;

    (void)state;
    attempt = (struct attempt){.state = ATTEMPT_NONE};
    memset(&entry, 0, sizeof(entry));
    snprintf(entry.allocation_id, sizeof(entry.allocation_id), "job");
    snprintf(entry.work_dir, sizeof(entry.work_dir), "/work");
    entry.pid = 7;
    facts = (struct attempt_facts){.now_us = 60 * SECOND_US, .runs = true, .takes_direct = true};
    order.checkpoint_id = CHECKPOINT;
    order.attempt = 1;
    order.timeout_ms = 60000;
    order.target_prefix = (char *)(uintptr_t) "/scratch";
    order.path = (char *)(uintptr_t) "/scratch/t/p/job/checkpoints/0-42";
    order.staging = CKPT__V1__STAGING__STAGING_DIRECT;
    step(&(struct attempt_event){.kind = ATTEMPT_START, .order = &order});
    assert_int_equal(attempt.state, ATTEMPT_WAITING);
    return 0;
}

static void begin_staging(void)
{
    step_kind(ATTEMPT_TICK);
    assert_int_equal(attempt.state, ATTEMPT_STAGING);
    assert_true(effects.commit);
    assert_true(has_effect(EFFECT_STAGE));
    assert_int_equal(entry.phase, PHASE_ASKING);
}

static void end_staging(void)
{
    struct attempt_event event = {.kind = ATTEMPT_STAGE_ENDED};

    snprintf(event.text, sizeof(event.text), FOLDER);
    step(&event);
    assert_int_equal(attempt.state, ATTEMPT_STAGED);
    assert_true(effects.commit);
    assert_true(has_effect(EFFECT_ATTEMPT_LOOK));
    assert_string_equal(entry.staged, FOLDER);
}

static void ask(void)
{
    begin_staging();
    end_staging();
    step_kind(ATTEMPT_TICK);
    assert_int_equal(attempt.state, ATTEMPT_ASKING);
    assert_true(has_effect(EFFECT_ASK));
}

static void expect_failed(Ckpt__V1__Reason reason)
{
    assert_int_equal(attempt.outcome.reason, reason);
    step_kind(ATTEMPT_ABANDONED);
    assert_int_equal(attempt.state, ATTEMPT_REMOVING);
    step_kind(ATTEMPT_REMOVED);
    assert_int_equal(attempt.state, ATTEMPT_NONE);
    assert_int_equal(effects.report.kind, CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED);
    assert_int_equal(effects.report.reason, reason);
}

static void it_is_asked_to_write_into_the_folder_at_the_destination(void **state)
{
    (void)state;
    ask();
    assert_string_equal(attempt.directory, "/scratch/t/p/job/checkpoints/0-42/" FOLDER);
}

static void the_report_says_where_it_was_written(void **state)
{
    struct attempt_event ended = {.kind = ATTEMPT_PUT_ENDED};

    (void)state;
    ask();
    step_kind(ATTEMPT_FIRED);
    facts.answer = ASK_FINISHED;
    snprintf(facts.sentinel.status, sizeof(facts.sentinel.status), "0");
    step_kind(ATTEMPT_CHANGED);
    assert_int_equal(attempt.state, ATTEMPT_PUTTING);
    ended.put = (struct attempt_put){.verified = true, .size_bytes = 5, .written_bytes = 5};
    step(&ended);
    assert_int_equal(effects.report.kind, CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED);
    assert_int_equal(effects.report.staging, CKPT__V1__STAGING__STAGING_DIRECT);
}

/* The agent cannot see it grow. */
static void it_is_given_the_one_extension(void **state)
{
    (void)state;
    ask();
    step_kind(ATTEMPT_FIRED);
    facts.now_us += 40 * SECOND_US;
    step_kind(ATTEMPT_TICK);
    assert_false(effects.reporting);
    facts.now_us += 16 * SECOND_US;
    step_kind(ATTEMPT_TICK);
    assert_true(effects.reporting);
    assert_int_equal(effects.report.kind, CKPT__V1__REPORT_KIND__REPORT_KIND_RESPONSIVE);
    assert_true(effects.report.stall_ms == 0); /* it has not answered */
    step_kind(ATTEMPT_TICK);
    assert_false(effects.reporting);
}

/* Also when it had its extension: the deadline that passes is not the application's. */
static void what_has_answered_is_told_in_time(void **state)
{
    (void)state;
    ask();
    attempt.extended = true;
    step_kind(ATTEMPT_FIRED);
    facts.answer = ASK_FINISHED;
    snprintf(facts.sentinel.status, sizeof(facts.sentinel.status), "0");
    step_kind(ATTEMPT_CHANGED);
    assert_int_equal(attempt.state, ATTEMPT_PUTTING);
    step_kind(ATTEMPT_TICK);
    assert_false(effects.reporting);
    facts.now_us += 56 * SECOND_US;
    step_kind(ATTEMPT_TICK);
    assert_true(effects.reporting);
    assert_int_equal(effects.report.kind, CKPT__V1__REPORT_KIND__REPORT_KIND_RESPONSIVE);
    assert_true(effects.report.stall_ms > 0);
    step_kind(ATTEMPT_TICK);
    assert_false(effects.reporting);
}

static void a_destination_that_cannot_do_it_is_written_to_as_always(void **state)
{
    (void)state;
    facts.takes_direct = false;
    step_kind(ATTEMPT_TICK);
    assert_int_equal(attempt.state, ATTEMPT_ASKING);
    assert_int_equal(entry.staging, CKPT__V1__STAGING__STAGING_LOCAL);
    assert_string_equal(attempt.directory, "/work/out/0-42-1");
}

/* ---- in the node's memory ---- */

#define MEMORY "/memory/1000"

static void order_memory(uint64_t room)
{
    set_up(NULL);
    attempt.staging = CKPT__V1__STAGING__STAGING_MEMORY;
    snprintf(facts.memory, sizeof(facts.memory), MEMORY);
    facts.memory_room = room;
    entry.last_bytes = 5000;
}

static void stage_in_memory(void)
{
    order_memory(5000);
    begin_staging();
    assert_string_equal(entry.memory, MEMORY); /* an agent that starts again removes it */
    step_kind(ATTEMPT_STAGE_ENDED);
    assert_int_equal(attempt.state, ATTEMPT_STAGED);
}

static void it_writes_into_the_nodes_memory(void **state)
{
    struct attempt_event ended = {.kind = ATTEMPT_PUT_ENDED};

    (void)state;
    stage_in_memory();
    step_kind(ATTEMPT_TICK);
    assert_int_equal(attempt.state, ATTEMPT_ASKING);
    assert_string_equal(attempt.directory, MEMORY "/out/0-42-1");
    step_kind(ATTEMPT_FIRED);
    facts.answer = ASK_FINISHED;
    snprintf(facts.sentinel.status, sizeof(facts.sentinel.status), "0");
    step_kind(ATTEMPT_CHANGED);
    assert_int_equal(attempt.state, ATTEMPT_PUTTING);
    facts.copy_max_bytes = 5;
    ended.put = (struct attempt_put){
        .verified = true, .size_bytes = 5, .written_bytes = 5, .manifest_left = true};
    step(&ended);
    assert_int_equal(effects.report.staging, CKPT__V1__STAGING__STAGING_MEMORY);
    assert_int_equal(entry.copy_count, 1);
    assert_string_equal(entry.copies[0].work_dir, MEMORY);
}

/* Others may have filled it, by what nobody counts. */
static void a_memory_that_is_too_small_costs_no_checkpoint(void **state)
{
    (void)state;
    order_memory(4999);
    step_kind(ATTEMPT_TICK);
    assert_int_equal(attempt.state, ATTEMPT_ASKING);
    assert_int_equal(entry.staging, CKPT__V1__STAGING__STAGING_LOCAL);
    assert_string_equal(attempt.directory, "/work/out/0-42-1");
    assert_true(has_effect(EFFECT_SAY_LOCAL));
    assert_false(effects.reporting);
    assert_contains(effects.detail, "the last checkpoint had 5000 bytes");
    assert_contains(effects.detail, "leave 4999 of memory.max_bytes");
    order_memory(5000); /* a worker finds that the tmpfs has less */
    begin_staging();
    step(&(struct attempt_event){.kind = ATTEMPT_STAGE_ENDED,
                                 .reason = CKPT__V1__REASON__REASON_MEMORY_FULL,
                                 .text = "full"});
    assert_int_equal(attempt.state, ATTEMPT_STAGED);
    assert_true(has_effect(EFFECT_SAY_LOCAL) && has_effect(EFFECT_ATTEMPT_LOOK));
    assert_string_equal(effects.detail, "full");
    assert_true(effects.commit);
    assert_string_equal(entry.memory, "");
    assert_int_equal(entry.staging, CKPT__V1__STAGING__STAGING_LOCAL);
    attempt_check(&attempt, &entry);
    step_kind(ATTEMPT_TICK);
    assert_int_equal(attempt.state, ATTEMPT_ASKING);
    assert_string_equal(attempt.directory, "/work/out/0-42-1");
    step_kind(ATTEMPT_FIRED);
    assert_int_equal(attempt.state, ATTEMPT_ASKED);
}

/* Another failure there is none of room. */
static void a_memory_that_fails_otherwise_fails_the_attempt(void **state)
{
    (void)state;
    order_memory(5000);
    begin_staging();
    step(&(struct attempt_event){.kind = ATTEMPT_STAGE_ENDED,
                                 .reason = CKPT__V1__REASON__REASON_WRITE_FAILED,
                                 .text = "no tmpfs"});
    assert_int_equal(attempt.state, ATTEMPT_REMOVING); /* nothing is at the destination */
    step_kind(ATTEMPT_REMOVED);
    assert_int_equal(effects.report.reason, CKPT__V1__REASON__REASON_WRITE_FAILED);
}

static void a_node_without_such_memory_writes_as_always(void **state)
{
    (void)state;
    order_memory(5000);
    facts.memory[0] = '\0';
    step_kind(ATTEMPT_TICK);
    assert_int_equal(attempt.state, ATTEMPT_ASKING);
    assert_int_equal(entry.staging, CKPT__V1__STAGING__STAGING_LOCAL);
    assert_string_equal(entry.memory, "");
    assert_string_equal(attempt.directory, "/work/out/0-42-1");
}

static void what_ends_before_it_is_asked_leaves_nothing_in_memory(void **state)
{
    (void)state;
    order_memory(5000);
    begin_staging();
    step_kind(ATTEMPT_CANCEL);
    assert_int_equal(attempt.state, ATTEMPT_HALTING);
    step_kind(ATTEMPT_PUT_ENDED);
    assert_int_equal(attempt.state, ATTEMPT_REMOVING);
    step_kind(ATTEMPT_REMOVED);
    assert_int_equal(attempt.state, ATTEMPT_NONE);
    stage_in_memory();
    facts.runs = false;
    step_kind(ATTEMPT_TICK);
    assert_int_equal(attempt.state, ATTEMPT_REMOVING);
    stage_in_memory();
    attempt = (struct attempt){.state = ATTEMPT_NONE}; /* the agent starts again */
    step_kind(ATTEMPT_RESUME);
    step_kind(ATTEMPT_LOOKED);
    assert_int_equal(attempt.state, ATTEMPT_ABANDONING);
    assert_string_equal(attempt.directory, MEMORY "/out/0-42-1");
    expect_failed(CKPT__V1__REASON__REASON_AGENT_LOST_ATTEMPT);
}

static void a_worker_that_fails_fails_the_attempt(void **state)
{
    (void)state;
    begin_staging();
    step(&(struct attempt_event){.kind = ATTEMPT_STAGE_ENDED,
                                 .reason = CKPT__V1__REASON__REASON_STORAGE_QUOTA,
                                 .text = "no quota"});
    assert_int_equal(attempt.state, ATTEMPT_ABANDONING);
    expect_failed(CKPT__V1__REASON__REASON_STORAGE_QUOTA);
}

static void what_is_withdrawn_while_the_worker_runs_waits_for_its_end(void **state)
{
    (void)state;
    begin_staging();
    step_kind(ATTEMPT_CANCEL);
    assert_int_equal(attempt.state, ATTEMPT_HALTING);
    assert_true(has_effect(EFFECT_PUT_KILL));
    step_kind(ATTEMPT_PUT_ENDED);
    assert_int_equal(attempt.state, ATTEMPT_ABANDONING);
    step_kind(ATTEMPT_ABANDONED);
    step_kind(ATTEMPT_REMOVED);
    assert_int_equal(effects.report.kind, CKPT__V1__REPORT_KIND__REPORT_KIND_STOPPED_WRITING);
}

/* The next one waits until nothing of this attempt is left. */
static void an_application_that_ends_before_it_is_asked_ends_it(void **state)
{
    (void)state;
    begin_staging();
    facts.runs = false;
    step_kind(ATTEMPT_GONE);
    assert_int_equal(attempt.state, ATTEMPT_HALTING);
    step_kind(ATTEMPT_PUT_ENDED);
    expect_failed(CKPT__V1__REASON__REASON_APPLICATION_EXITED);

    set_up(NULL);
    begin_staging();
    end_staging();
    facts.runs = false;
    facts.attached = true;
    step_kind(ATTEMPT_TICK);
    assert_int_equal(attempt.state, ATTEMPT_ABANDONING);
    expect_failed(CKPT__V1__REASON__REASON_APPLICATION_EXITED);
}

/* It may have lost its handler, or be another one, since it was looked at first. */
static void it_is_looked_at_anew_when_the_folder_is_there(void **state)
{
    (void)state;
    begin_staging();
    end_staging();
    facts.ready = CKPT__V1__REASON__REASON_NO_HANDLER;
    step_kind(ATTEMPT_TICK);
    assert_int_equal(attempt.state, ATTEMPT_STAGED);
    facts.now_us += 60 * SECOND_US;
    step_kind(ATTEMPT_TICK);
    assert_int_equal(attempt.state, ATTEMPT_ABANDONING);
    expect_failed(CKPT__V1__REASON__REASON_NO_HANDLER);
}

/* The journal is all that is left of it. */
static void an_agent_that_starts_again_knows_the_folder(void **state)
{
    (void)state;
    ask();
    step_kind(ATTEMPT_FIRED);
    attempt = (struct attempt){.state = ATTEMPT_NONE};
    step_kind(ATTEMPT_RESUME);
    assert_int_equal(attempt.state, ATTEMPT_RESUMING);
    assert_string_equal(attempt.directory, "/scratch/t/p/job/checkpoints/0-42/" FOLDER);
    facts.prepared = true;
    step_kind(ATTEMPT_LOOKED);
    assert_int_equal(attempt.state, ATTEMPT_ASKED);
    step_kind(ATTEMPT_CANCEL);
    assert_int_equal(attempt.state, ATTEMPT_ABANDONING);
}

/* While the worker ran, or before the application was asked. */
static void an_agent_that_starts_again_removes_what_nobody_was_told_of(void **state)
{
    (void)state;
    for (int staged = 0; staged < 2; staged++) {
        set_up(NULL);
        begin_staging();
        if (staged)
            end_staging();
        attempt = (struct attempt){.state = ATTEMPT_NONE};
        step_kind(ATTEMPT_RESUME);
        step_kind(ATTEMPT_LOOKED);
        assert_int_equal(attempt.state, ATTEMPT_ABANDONING);
        expect_failed(CKPT__V1__REASON__REASON_AGENT_LOST_ATTEMPT);
    }
}

static void what_is_put_off_keeps_its_folder(void **state)
{
    (void)state;
    entry.max_deferral_ms = 0;
    attempt.max_deferral_ms = 60000;
    ask();
    step_kind(ATTEMPT_FIRED);
    step(&(struct attempt_event){.kind = ATTEMPT_DEFER, .defer_ms = 5000});
    assert_int_equal(attempt.state, ATTEMPT_DEFERRED);
    attempt = (struct attempt){.state = ATTEMPT_NONE};
    step_kind(ATTEMPT_RESUME);
    assert_int_equal(attempt.state, ATTEMPT_DEFERRED);
    assert_string_equal(attempt.directory, "/scratch/t/p/job/checkpoints/0-42/" FOLDER);
    step_kind(ATTEMPT_CANCEL);
    assert_int_equal(attempt.state, ATTEMPT_ABANDONING); /* there is something to remove */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(it_is_asked_to_write_into_the_folder_at_the_destination),
        TEST(the_report_says_where_it_was_written),
        TEST(it_is_given_the_one_extension),
        TEST(what_has_answered_is_told_in_time),
        TEST(a_destination_that_cannot_do_it_is_written_to_as_always),
        TEST(a_worker_that_fails_fails_the_attempt),
        TEST(what_is_withdrawn_while_the_worker_runs_waits_for_its_end),
        TEST(an_application_that_ends_before_it_is_asked_ends_it),
        TEST(it_is_looked_at_anew_when_the_folder_is_there),
        TEST(an_agent_that_starts_again_knows_the_folder),
        TEST(an_agent_that_starts_again_removes_what_nobody_was_told_of),
        TEST(what_is_put_off_keeps_its_folder),
        TEST(it_writes_into_the_nodes_memory),
        TEST(a_memory_that_is_too_small_costs_no_checkpoint),
        TEST(a_memory_that_fails_otherwise_fails_the_attempt),
        TEST(a_node_without_such_memory_writes_as_always),
        TEST(what_ends_before_it_is_asked_leaves_nothing_in_memory),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
