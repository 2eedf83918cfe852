/* ckpt-runs that attach one after the other (F-026). */
#include "src/agent/app/app_stream.h"
#include "tests/unit/agent/attach_restore.h"

/* It goes by paths: it would take away what is restored for the next one meanwhile. */
static void a_sweep_that_outlives_its_ckpt_run_is_waited_for(void **state)
{
    struct rpc_client_call *first = attach();

    (void)state;
    assert_true(becomes(removes, WAIT_US));
    rpc_client_call_cancel(first);
    assert_true(becomes(left, WAIT_US));
    assert_false(allocation_idle(agent_find(&agent, "job")));
    attach();
    assert_true(becomes(attached, WAIT_US));
    assert_false(becomes(removes_again, POLLS_US));
    removal.done(removal.data);
    assert_true(becomes(removes_again, WAIT_US));
}

/* S1-090, I33: all brokers may die before they send the first orders. The end is kept like one that
 * came with orders. */
static void the_answer_about_the_restart_point_tells_the_walltime(void **state)
{
    const struct ledger_entry *kept;
    uint64_t began_us;

    (void)state;
    attach();
    assert_true(becomes(removes, WAIT_US));
    began_us = agent_now_us(&agent);
    removal.done(removal.data);
    assert_true(becomes(has_run, WAIT_US));
    kept = ledger_find(agent.ledger, "job");
    assert_non_null(kept);
    assert_true(kept->deadline_us >= began_us + UINT64_C(40000000));
    assert_true(kept->deadline_us <= agent_now_us(&agent) + UINT64_C(40000000));
    assert_uint_equal(kept->walltime_ms, 60000);
    assert_uint_equal(kept->grace_ms, 5000);
}

static void a_work_folder_that_cannot_be_opened_is_refused_with_the_reason(void **state)
{
    (void)state;
    wrong = "/some/folder does not answer";
    attach();
    assert_true(becomes(refused, WAIT_US));
    assert_string_equal(refusal, wrong);
    assert_false(attached());
}

/* ---- what is expected of several ---- */

static void poll_job(void)
{
    agent.callers->poll(agent_find(&agent, "job")->stream);
}

/* I27: the parts that were there before live from it. */
static void who_joined_a_run_that_had_begun_restores_nothing(void **state)
{
    (void)state;
    run_of_writer = RUN;
    joined = true;
    attach_to_restore();
    expect_start(0);
    assert_string_equal(ready.folder, "");
    assert_contains(ready.notice, "joined");
    assert_false(restores());
}

static void a_node_restores_the_shard_that_it_wrote(void **state)
{
    (void)state;
    run_of_writer = RUN;
    attach_to_restore();
    assert_true(becomes(restores, WAIT_US));
    assert_string_equal(restored, "restore part-0000");
    assert_false(refused());
}

static void a_node_takes_the_place_over_whose_writer_is_gone(void **state)
{
    (void)state;
    run_of_writer = RUN;
    writer_gone = true;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(starts, WAIT_US));
    assert_string_equal(work.did, "restore part-0000;");
    assert_uint_equal(ready.checkpoint_id, 14);
    assert_contains(ready.folder, "/restore/0-14");
    assert_string_equal(ready.label, "128");
    assert_uint_equal(ledger_last_sequence(agent.ledger), 0); /* all had said so before */
}

/* All fell back to a checkpoint that they wrote in another order: each takes its place of it, and
 * none is taken twice. */
static void a_node_takes_its_place_of_one_that_was_written_in_another_order(void **state)
{
    (void)state;
    run_of_writer = RUN;
    place_changed = true;
    attach_to_restore();
    assert_true(becomes(restores, WAIT_US));
    assert_string_equal(restored, "restore part-0000");
}

/* Nothing of 0-14 is left beside what comes in its place, and nothing comes before it has gone. */
static void removed_for_another(void)
{
    size_t did = strlen(work.did);

    assert_true(becomes(removes_again, WAIT_US));
    assert_contains(removal.folder, "/restore/0-14");
    assert_false(becomes(starts, POLLS_US));
    assert_uint_equal(strlen(work.did), did);
    removal.done(removal.data);
}

static bool reports_again(void)
{
    return ledger_last_sequence(agent.ledger) > 1;
}

static void expect_waits(Ckpt__V1__BeginState reason, const char *text)
{
    waits_for = reason;
    said[0] = '\0';
    attach_to_restore();
    assert_true(becomes(told, WAIT_US));
    assert_contains(said, text);
    assert_false(starts());
}

/* What is waited for is said. */
static void a_part_that_may_not_begin_hears_why(void **state)
{
    (void)state;
    run_of_writer = RUN;
    may_begin = false;
    from_scratch = joined = true;
    expect_waits(CKPT__V1__BEGIN_STATE__BEGIN_STATE_ENDING,
                 "part 0 of 2: the run is being ended; what comes next is waited for");
}

static void a_part_that_counts_as_running_hears_so(void **state)
{
    (void)state;
    run_of_writer = RUN;
    may_begin = false;
    from_scratch = joined = true;
    expect_waits(CKPT__V1__BEGIN_STATE__BEGIN_STATE_RUNS,
                 "part 0 of 2: the cluster has still to hear that this part has ended");
}

static void a_part_waits_until_all_have_restored(void **state)
{
    Ckpt__V1__AgentReport *report;

    (void)state;
    run_of_writer = RUN;
    may_begin = false;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    report = last_report();
    assert_int_equal(report->kind, CKPT__V1__REPORT_KIND__REPORT_KIND_RESTORED);
    assert_uint_equal(report->restored_checkpoint_id, 14);
    assert_uint_equal(report->run, RUN);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
    assert_false(becomes(starts, POLLS_US));
    poll_job(); /* a set of orders says nothing new */
    assert_false(becomes(starts, POLLS_US));
    may_begin = true;
    poll_job();
    expect_start(14);
    assert_string_equal(work.did, "restore part-0000;");
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1);
}

/* The state is of before it said so: it was restored from a backup. */
static void a_part_says_again_what_the_state_does_not_know(void **state)
{
    (void)state;
    run_of_writer = RUN;
    may_begin = false;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    assert_true(becomes(reports_again, WAIT_US));
    part_restored = may_begin = true;
    assert_true(becomes(starts, WAIT_US));
    assert_uint_equal(ledger_last_sequence(agent.ledger), 2);
}

/* It was told of before the next one began: its application would be ended at once, with the
 * walltime of the next one. */
static void a_run_that_orders_name_no_more_does_not_begin(void **state)
{
    Ckpt__V1__OrderSet orders = CKPT__V1__ORDER_SET__INIT;
    Ckpt__V1__AllocationPart part = CKPT__V1__ALLOCATION_PART__INIT, *parts[] = {&part};
    char job[] = "job";

    (void)state;
    run_of_writer = RUN;
    work.exit_code = WORKER_EXIT_OK;
    part.allocation_id = job;
    part.run = RUN + 1;
    orders.parts = parts;
    orders.n_parts = 1;
    agent.orders = &orders;
    attach_to_restore();
    assert_true(becomes(restores, WAIT_US));
    assert_false(becomes(starts, POLLS_US));
    run_of_writer = RUN + 1;
    assert_true(becomes(starts, WAIT_US));
    assert_uint_equal(agent_find(&agent, "job")->entry.run, RUN + 1);
    agent.orders = NULL;
}

/* Orders overtook what its ckpt-run says: it holds the application still, and drops it. */
static void what_was_started_for_a_run_that_orders_name_no_more_is_dropped(void **state)
{
    Ckpt__V1__OrderSet orders = CKPT__V1__ORDER_SET__INIT;
    Ckpt__V1__AllocationPart part = CKPT__V1__ALLOCATION_PART__INIT, *parts[] = {&part};
    char job[] = "job";
    struct rpc_client_call *call;

    (void)state;
    call = attach_to_restore();
    assert_true(becomes(starts, WAIT_US));
    part.allocation_id = job;
    part.run = RUN + 1;
    orders.parts = parts;
    orders.n_parts = 1;
    agent.orders = &orders;
    say_started(call);
    assert_true(becomes(starts_over, WAIT_US));
    assert_false(attached());
    assert_int_equal(agent_find(&agent, "job")->process.state, PROCESS_ABSENT);
    agent.orders = NULL;
}

/* Its ckpt-run had asked before these orders came. */
static void in_an_outage_nothing_begins_that_the_last_orders_do_not_name(void **state)
{
    Ckpt__V1__OrderSet orders = CKPT__V1__ORDER_SET__INIT;
    struct ledger_entry *entry = &agent_get(&agent, "job")->entry;

    (void)state;
    entry->named_run = RUN;
    entry->owner_rule = CKPT__V1__OWNER_RULE__OWNER_RULE_FIRST;
    silent = from_scratch = true;
    attach_to_restore();
    assert_true(becomes(told, WAIT_US));
    orders.epoch = orders.index = 1;
    orders.runs_until = RUN;
    agent.orders = &orders;
    assert_false(becomes(starts, OUTAGE_US));
    agent.orders = NULL;
    entry->named_run = RUN;
    assert_true(becomes(starts, WAIT_US));
}

/* What it has is of another part now: that goes before its own comes, into the same folder. */
static void a_part_whose_place_changes_restores_what_is_there(void **state)
{
    (void)state;
    run_of_writer = RUN;
    writer_gone = true;
    may_begin = false;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    assert_string_equal(work.did, "restore part-0000;");
    swapped = true;
    poll_job();
    assert_true(becomes(removes_again, WAIT_US));
    assert_contains(removal.folder, "/restore/0-14");
    assert_string_equal(work.did, "restore part-0000;");
    removal.done(removal.data);
    assert_true(becomes(reports_again, WAIT_US));
    assert_string_equal(work.did, "restore part-0000;restore part-0001;");
}

/* With the next run begins anew what is said. */
static void a_part_restores_again_for_another_run(void **state)
{
    (void)state;
    run_of_writer = RUN;
    may_begin = false;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    run_of_writer = RUN + 1;
    poll_job();
    assert_true(becomes(reports_again, WAIT_US));
    assert_string_equal(work.did, "restore part-0000;restore part-0000;");
}

static void one_part_of_several_does_not_begin_from_scratch_beside_the_others(void **state)
{
    (void)state;
    run_of_writer = RUN;
    from_scratch = true;
    attach();
    assert_true(becomes(removes, WAIT_US));
    removal.done(removal.data);
    expect_refusal("2 parts, which all begin from checkpoint 0-14");
    assert_contains(refusal, "ckptctl restart job --from-scratch");
    assert_false(starts());
}

/* The others have begun from what is kept no more. */
static void one_part_of_several_does_not_begin_from_another_checkpoint(void **state)
{
    (void)state;
    run_of_writer = RUN;
    began_from = 11;
    attach_to_restore();
    expect_refusal("have begun from checkpoint 0-11");
    assert_false(restores());
}

/* The other one's may have come first, also while this one still restored. */
static void a_part_that_restores_in_another_way_is_refused_with_both(void **state)
{
    Ckpt__V1__AgentReport *report;

    (void)state;
    run_of_writer = RUN;
    may_begin = false;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    report = last_report();
    assert_int_equal(report->restore, CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
    other_mode = CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL;
    expect_refusal("part 0 of allocation job restores own, part 1 has restored all");
    assert_contains(refusal, "--restore all");
    assert_false(starts());
}

/* ckpt-run names one where none was registered, which the first profile stands for; not when that
 * was named. */
static void the_registered_profile_counts(void **state)
{
    static const struct {
        const char *registered, *said, *counts; /* NULL: it is refused */
        bool named;
        enum way_open open;
    } rows[] = {{"", "", "signal", false, WAY_OPEN},
                {"", "grpc", "grpc", false, WAY_NAMED},
                {"signal", "", "signal", false, WAY_OPEN},
                {"signal", "signal-usr2", "signal-usr2", false, WAY_NAMED},
                {"signal", "", "signal", true, WAY_NAMED},
                {"signal", "signal", "signal", true, WAY_NAMED},
                {"signal", "grpc", NULL, true, WAY_NAMED},
                {"grpc", "", "grpc", true, WAY_NAMED},
                {"signal-usr2", "signal-usr2", "signal-usr2", true, WAY_NAMED},
                {"grpc", "signal", NULL, true, WAY_NAMED},
                {"signal-usr2", "grpc", NULL, false, WAY_NAMED}, /* registered at level 1 */
                {"of-no-agent", "", NULL, true, WAY_NAMED}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set_up(state);
        snprintf(registered_profile, sizeof(registered_profile), "%s", rows[i].registered);
        snprintf(said_profile, sizeof(said_profile), "%s", rows[i].said);
        profile_named = rows[i].named;
        attach_to_restore();
        if (rows[i].counts != NULL) {
            expect_start(0);
            assert_string_equal(agent_find(&agent, "job")->entry.profile, rows[i].counts);
            assert_uint_equal(agent_find(&agent, "job")->entry.way_open, rows[i].open);
        } else {
            expect_refusal("allocation job is registered with profile ");
            assert_contains(refusal, rows[i].registered);
            assert_contains(refusal, rows[i].said[0] != '\0' ? rows[i].said : "there are: signal");
        }
        tear_down(state);
    }
}

/* S4-003: it is in the journal, or refused where no signal asks, or where it is none. */
static void the_signal_that_its_user_names_asks(void **state)
{
    (void)state;
    said_signal = SIGTSTP;
    attach_to_restore();
    expect_start(0);
    assert_uint_equal(agent_find(&agent, "job")->entry.ask_signal, SIGTSTP);
}

static void a_signal_that_cannot_ask_is_refused(void **state)
{
    static const struct {
        const char *profile, *said;
        uint32_t signal;
    } rows[] = {{"grpc", "--ask-signal is of no use with profile grpc", SIGTSTP},
                {"", "signal 65 is none, there are 1 to 64", 65}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set_up(state);
        snprintf(said_profile, sizeof(said_profile), "%s", rows[i].profile);
        said_signal = rows[i].signal;
        (void)attach();
        expect_refusal(rows[i].said);
        tear_down(state);
    }
}

/* S5-010: the leader's word, for ckpt-run. */
static void the_registered_attributes_are_told(void **state)
{
    (void)state;
    snprintf(registered_attributes, sizeof(registered_attributes), "checkpoint_exit_code=85");
    attach_to_restore();
    expect_start(0);
    assert_string_equal(agent_find(&agent, "job")->stream->attributes, "checkpoint_exit_code=85");
    assert_string_equal(told_attributes, "checkpoint_exit_code=85");
}

static void a_way_is_sought_where_none_is_named(void **state)
{
    char path[ASK_REGION_PATH_BYTES];

    (void)state;
    said_finds_way = true;
    attach_to_restore();
    expect_start(0);
    assert_true(allocation_region(&agent_find(&agent, "job")->entry, path));
}

/* Without a broker it is as it was at the last start. */
static void in_an_outage_the_profile_is_that_of_the_start_before(void **state)
{
    struct ledger_entry *entry;

    (void)state;
    strcpy(registered_profile, "grpc");
    attach_to_restore();
    expect_start(0);
    entry = &agent_find(&agent, "job")->entry;
    app_stream_take_profile(agent_find(&agent, "job")->stream,
                            &(struct restore_word){.profile = ""});
    assert_string_equal(entry->profile, "grpc");
    strcpy(entry->profile, "another");
    app_stream_take_profile(agent_find(&agent, "job")->stream,
                            &(struct restore_word){.profile = ""});
    assert_string_equal(entry->profile, "signal");
}

static void what_is_damaged_is_told_and_another_one_restored_when_the_state_says_so(void **state)
{
    Ckpt__V1__AgentReport *report;

    (void)state;
    run_of_writer = RUN;
    work.exit_code = WORKER_EXIT_CORRUPT;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    report = last_report();
    assert_int_equal(report->kind, CKPT__V1__REPORT_KIND__REPORT_KIND_RESTART_DAMAGED);
    assert_uint_equal(report->restored_checkpoint_id, 14);
    assert_contains(report->detail, "part-0000 (written on node-a): a file differs");
    ckpt__v1__agent_report__free_unpacked(report, NULL);
    assert_true(becomes(told, WAIT_US));
    assert_string_equal(said, "checkpoint 0-14 is passed over, it is damaged: part-0000 (written "
                              "on node-a): a file differs");
    poll_job();
    assert_false(becomes(starts, POLLS_US));
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1); /* said once, read once */
    assert_string_equal(work.did, "restore part-0000;");
    work.exit_code = WORKER_EXIT_OK;
    point_id = 13;
    poll_job();
    removed_for_another();
    expect_start(13);
    assert_string_equal(ready.notice, ""); /* it was said before */
}

/* The state ends the run then; its order is on the way. */
static void nothing_begins_from_scratch_where_all_that_was_there_is_damaged(void **state)
{
    (void)state;
    run_of_writer = RUN;
    work.exit_code = WORKER_EXIT_CORRUPT;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    point_id = 0;
    poll_job();
    removed_for_another();
    assert_false(becomes(starts, POLLS_US));
}

static void a_part_that_has_restored_goes_with_what_the_others_choose(void **state)
{
    (void)state;
    run_of_writer = RUN;
    may_begin = false;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    may_begin = true;
    point_id = 12;
    poll_job();
    removed_for_another();
    expect_start(12);
    assert_contains(ready.folder, "/restore/0-12");
    assert_contains(ready.notice, "checkpoint 0-14 is passed over, another part");
}

static void all_parts_come_each_in_its_folder_where_it_is_registered_so(void **state)
{
    (void)state;
    run_of_writer = RUN;
    writer_gone = true;
    mode = CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(starts, WAIT_US));
    assert_string_equal(work.did, "restore part-0000;restore part-0001;");
    assert_contains(ready.folder, "/restore/0-14");
}

static void a_path_is_verified_in_shares_and_told(void **state)
{
    (void)state;
    run_of_writer = RUN;
    writer_gone = true;
    mode = CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(starts, WAIT_US));
    assert_string_equal(work.did, "verify part-0000;"); /* the other part has the other one */
    assert_string_equal(ready.folder, "");
    assert_string_equal(ready.uri, "file:///ckpt");
    assert_uint_equal(ready.checkpoint_id, 14);
}

static Ckpt__V1__ReportKind last_kind(void)
{
    Ckpt__V1__AgentReport *report = last_report();
    Ckpt__V1__ReportKind kind = report->kind;

    assert_uint_equal(report->restored_checkpoint_id, 14);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
    return kind;
}

static bool gave_up(void)
{
    return last_kind() == CKPT__V1__REPORT_KIND__REPORT_KIND_READ_ENDED;
}

/* S2-032: who needs bytes of the target stands in its line, and reads at the rate that it is let in
 * with. */
static void who_reads_from_a_target_waits_in_its_line(void **state)
{
    (void)state;
    run_of_writer = RUN;
    may_read = CKPT__V1__READ_STATE__READ_STATE_ASK;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    assert_int_equal(last_kind(), CKPT__V1__REPORT_KIND__REPORT_KIND_READ_WANTED);
    agent.callers->poll(agent_find(&agent, "job")->stream);
    assert_false(becomes(restores, POLLS_US));
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1); /* said once */
    may_read = CKPT__V1__READ_STATE__READ_STATE_WAITS;
    agent.callers->poll(agent_find(&agent, "job")->stream);
    assert_true(becomes(told, WAIT_US));
    assert_contains(said, "waits to read its checkpoint 0-14: 3rd of 7 at target x");
    assert_false(restores());
    may_read = CKPT__V1__READ_STATE__READ_STATE_MAY;
    agent.callers->poll(agent_find(&agent, "job")->stream);
    assert_true(becomes(starts, WAIT_US));
    assert_string_equal(rate, "1000000");
    assert_int_equal(last_kind(), CKPT__V1__REPORT_KIND__REPORT_KIND_READ_ENDED);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 2);
}

static void who_goes_away_gives_the_place_in_line_back(void **state)
{
    (void)state;
    run_of_writer = RUN;
    may_read = CKPT__V1__READ_STATE__READ_STATE_WAITS;
    attach_to_restore();
    assert_true(becomes(told, WAIT_US));
    rpc_channel_free(channel); /* its ckpt-run has died */
    channel = channel_new();
    assert_true(becomes(reports, WAIT_US));
    assert_true(becomes(gave_up, WAIT_US));
}

/* The state took it back, since others waited for one that took too long: on a node whose orders
 * change all the time it is asked for again all the same. */
static void a_place_that_was_lost_is_asked_for_at_once(void **state)
{
    struct err err;

    (void)state;
    run_of_writer = RUN;
    may_read = CKPT__V1__READ_STATE__READ_STATE_ASK;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    assert_int_equal(ledger_acknowledge(agent.ledger, 1, &err), 0);
    poll_job();
    assert_true(becomes(reports_again, 4 * POLLS_US));
    assert_int_equal(last_kind(), CKPT__V1__REPORT_KIND__REPORT_KIND_READ_WANTED);
}

static void both_parts_are_kept(void)
{
    struct ledger_entry *entry = &agent_find(&agent, "job")->entry;

    entry->copy_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        entry->copies[i] = (struct ledger_copy){
            .checkpoint_id = 14, .part = i, .state = COPY_HERE, .uid = getuid()};
        strcpy(entry->copies[i].manifest_sha256, manifest);
        strcpy(entry->copies[i].work_dir, folder);
    }
}

/* What its node kept is read without a place. When a copy goes meanwhile, its part stands in line
 * like all others. */
static void a_part_whose_copy_goes_while_others_are_read_waits_in_line(void **state)
{
    (void)state;
    run_of_writer = RUN;
    writer_gone = copy_goes = true;
    mode = CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL;
    may_read = CKPT__V1__READ_STATE__READ_STATE_ASK;
    work.exit_code = WORKER_EXIT_OK;
    attach();
    assert_true(becomes(removes, WAIT_US));
    both_parts_are_kept();
    removal.done(removal.data);
    assert_true(becomes(reports, WAIT_US));
    assert_int_equal(last_kind(), CKPT__V1__REPORT_KIND__REPORT_KIND_READ_WANTED);
    assert_string_equal(work.did, "restore part-0000;");
    may_read = CKPT__V1__READ_STATE__READ_STATE_MAY;
    poll_job();
    assert_true(becomes(starts, WAIT_US));
    assert_string_equal(work.did, "restore part-0000;restore part-0000;restore part-0001;");
    assert_string_equal(rate, "1000000");
}

/* S2-007. */
static void what_an_outage_leads_to_is_told(void **state)
{
    (void)state;
    run_of_writer = RUN;
    work.exit_code = WORKER_EXIT_UNAVAILABLE;
    discard_at_ms = UINT64_C(1700000000000);
    attach_to_restore();
    assert_true(becomes(told, WAIT_US));
    assert_contains(said, "it begins without that and repeats 10m");
    assert_contains(said, "max_discarded 1h");
    point_id = 0;
    run_of_writer = 0;
    discard_at_ms = 0;
    assert_true(becomes(removes_again, 4 * WAIT_US));
    removal.done(removal.data);
    assert_true(becomes(starts, WAIT_US));
    assert_uint_equal(ready.checkpoint_id, 0);
    assert_contains(ready.notice, "checkpoint 0-14 is waited for no more");
}

/* Its start would empty the folder that the first one writes into, whether that runs or waits. */
static void a_work_folder_is_one_allocations(void **state)
{
    (void)state;
    attach();
    assert_true(becomes(removes, WAIT_US));
    attach_on(channel, "intruder");
    expect_refusal("is that of allocation job, which is on this node");
    assert_contains(refusal, "--work-dir");
    assert_uint_equal(removal.count, 1); /* of the first one alone */
    removal.done(removal.data);
    assert_true(becomes(starts, WAIT_US));
}

/* A folder is its user's: who merely names it keeps nobody out. */
static void a_work_folder_is_not_kept_by_another_user_that_names_it(void **state)
{
    struct allocation *claim = agent_get(&agent, "claim");

    (void)state;
    assert_non_null(claim);
    snprintf(claim->entry.work_dir, sizeof(claim->entry.work_dir), "%s", folder);
    claim->entry.uid = getuid() + 1;
    claim->entry.restart_awaited = true;
    attach();
    assert_true(becomes(removes, WAIT_US));
    claim->entry.uid = getuid();
    attach_on(channel, "intruder");
    expect_refusal("is that of allocation");
    removal.done(removal.data);
    assert_true(becomes(starts, WAIT_US));
}

/* Names that nobody registered: without a limit they would leave no room for the jobs of others. */
static void one_user_does_not_take_all_the_room_of_a_node(void **state)
{
    struct rpc_channel *channels[AGENT_ALLOCATIONS_PER_USER / STREAMS + 1];
    size_t count = 0;
    char id[32];

    (void)state;
    for (int i = 0; i <= AGENT_ALLOCATIONS_PER_USER; i++) {
        if (i % STREAMS == 0)
            channels[count++] = channel_new();
        snprintf(id, sizeof(id), "x%d", i);
        attach_on(channels[count - 1], id);
        assert_true(becomes(looks, WAIT_US));
        assert_true(becomes(looked_at, WAIT_US));
    }
    expect_refusal("as many as one user may");
    assert_contains(refusal, "1024");
    while (count > 0)
        rpc_channel_free(channels[--count]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sweep_that_outlives_its_ckpt_run_is_waited_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_answer_about_the_restart_point_tells_the_walltime,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_work_folder_that_cannot_be_opened_is_refused_with_the_reason, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_that_may_not_begin_hears_why, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_that_counts_as_running_hears_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_work_folder_is_one_allocations, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_work_folder_is_not_kept_by_another_user_that_names_it,
                                        set_up, tear_down),
        cmocka_unit_test(the_registered_profile_counts),
        cmocka_unit_test_setup_teardown(the_signal_that_its_user_names_asks, set_up, tear_down),
        cmocka_unit_test(a_signal_that_cannot_ask_is_refused),
        cmocka_unit_test_setup_teardown(the_registered_attributes_are_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_way_is_sought_where_none_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(in_an_outage_the_profile_is_that_of_the_start_before,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_that_restores_in_another_way_is_refused_with_both,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_joined_a_run_that_had_begun_restores_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_node_restores_the_shard_that_it_wrote, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_takes_the_place_over_whose_writer_is_gone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_node_takes_its_place_of_one_that_was_written_in_another_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            nothing_begins_from_scratch_where_all_that_was_there_is_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_waits_until_all_have_restored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_says_again_what_the_state_does_not_know, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_part_of_several_does_not_begin_from_another_checkpoint,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_restores_again_for_another_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_orders_name_no_more_does_not_begin, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            what_was_started_for_a_run_that_orders_name_no_more_is_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            in_an_outage_nothing_begins_that_the_last_orders_do_not_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_whose_place_changes_restores_what_is_there, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            one_part_of_several_does_not_begin_from_scratch_beside_the_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            what_is_damaged_is_told_and_another_one_restored_when_the_state_says_so, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(a_part_that_has_restored_goes_with_what_the_others_choose,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_parts_come_each_in_its_folder_where_it_is_registered_so,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_path_is_verified_in_shares_and_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_reads_from_a_target_waits_in_its_line, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_goes_away_gives_the_place_in_line_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_place_that_was_lost_is_asked_for_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_part_whose_copy_goes_while_others_are_read_waits_in_line,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_an_outage_leads_to_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_user_does_not_take_all_the_room_of_a_node, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
