/* The ranks of a question: who is asked, and what follows from their answers. */
#include <string.h>

#include "src/agent/job/ranks_step.h"
#include "tests/support/test.h"

static struct ranks_table table;
static char why[JOB_DETAIL_BYTES];

static struct rank_seen rank(uint32_t number, uint32_t local_count)
{
    return (struct rank_seen){.number = number,
                              .local = RANK_NONE,
                              .local_count = local_count,
                              .pid = (pid_t)(70 + number),
                              .start_ticks = 5};
}

static void ranks_are_those_that_are_seen_without_their_launcher(void **state)
{
    struct ranks_seen seen = {.count = 3, .items = {rank(2, 2), rank(3, 2)}};

    (void)state;
    seen.items[2] = (struct rank_seen){.launcher = true, .pid = 70, .name = "mpirun"};
    seen.items[0].registered = seen.items[0].barrier = true;
    assert_true(ranks_ready(&seen, 0, &table, why));
    assert_uint_equal(table.count, 2);
    assert_int_equal(table.items[0].by, RANK_BY_STREAM);
    assert_true(table.items[0].barrier && !table.items[1].barrier);
    assert_uint_equal(table.items[1].number, 3);
    assert_uint_equal(table.items[1].pid, 73);
    assert_int_equal(table.items[1].by, RANK_BY_ENVIRONMENT);
}

/* One that died before nobody here sees: the state compares with what the parts have in all. */
static void what_the_launcher_counts_on_all_nodes_goes_with_the_question(void **state)
{
    struct ranks_seen seen = {.count = 2, .items = {rank(2, 0), rank(3, 0)}};
    static struct ledger_entry entry;

    (void)state;
    assert_true(ranks_ready(&seen, 0, &table, why));
    ranks_begin(&entry, &table);
    assert_uint_equal(entry.ranks_all, 0);
    seen.items[1].all_count = 8;
    assert_true(ranks_ready(&seen, 0, &table, why));
    ranks_begin(&entry, &table);
    assert_uint_equal(entry.ranks_all, 8);
    ranks_begin(&entry, NULL);
    assert_uint_equal(entry.ranks_all, 0);
}

static void a_job_whose_ranks_are_not_all_there_is_not_asked(void **state)
{
    struct ranks_seen seen = {.count = 2, .items = {rank(0, 4), rank(1, 4)}};

    (void)state;
    assert_false(ranks_ready(&seen, 0, &table, why));
    assert_string_equal(why, "2 of 4 ranks are there on this node: 0, 1");
    assert_false(ranks_ready(&seen, 3, &table, why));
    assert_string_equal(why, "2 of 3 ranks are there on this node: 0, 1");
    assert_true(ranks_ready(&seen, 2, &table, why));
    seen.items[0].twin = 99;
    assert_false(ranks_ready(&seen, 2, &table, why));
    assert_string_equal(why, "processes 70 and 99 are both rank 0");
    seen =
        (struct ranks_seen){.count = 1, .items = {{.launcher = true, .pid = 70, .name = "mpirun"}}};
    assert_false(ranks_ready(&seen, 0, &table, why));
    assert_string_equal(why, "mpirun (pid 70) has started no rank yet");
    seen = (struct ranks_seen){.why = "more than 256 ranks"};
    assert_false(ranks_ready(&seen, 0, &table, why));
    assert_string_equal(why, "more than 256 ranks");
}

/* Those that have registered are laid over the ones that were seen, and may come on top. */
static void more_ranks_than_are_taken_are_refused(void **state)
{
    static struct ranks_seen seen;

    (void)state;
    seen = (struct ranks_seen){.count = LEDGER_RANKS_MAX};
    for (uint32_t i = 0; i <= LEDGER_RANKS_MAX; i++)
        seen.items[i] = rank(i, 0);
    assert_true(ranks_ready(&seen, 0, &table, why));
    assert_uint_equal(table.count, LEDGER_RANKS_MAX);
    seen.count++;
    assert_false(ranks_ready(&seen, 0, &table, why));
    assert_string_equal(why, "the job has more than 256 ranks on this node, no more are taken");
}

/* V-008: the first that says `done` would speak for the others, whose states nobody has. */
static void several_that_nothing_numbers_are_asked_when_their_user_says_who_speaks(void **state)
{
    static struct ranks_seen seen = {.hearer_count = 2, .hearers = {{71, 1}, {72, 1}}};

    (void)state;
    assert_false(ranks_ready(&seen, 0, &table, why));
    assert_non_null(strstr(why, "2 processes catch the signal, pids 71 and 72 of them"));
    assert_non_null(strstr(why, "--ranks 1 if one saves for all"));
    assert_true(ranks_ready(&seen, 1, &table, why));
    assert_uint_equal(table.count, 0);
    assert_true(ranks_ready(&seen, 2, &table, why));
    assert_uint_equal(table.count, 2);
    seen.asks_group = true; /* whoever asks all of them knows that they may be many */
    assert_true(ranks_ready(&seen, 0, &table, why));
    seen.asks_group = false;
    seen.hearer_count = 1;
    assert_true(ranks_ready(&seen, 0, &table, why));
    assert_uint_equal(table.count, 0);
}

static void a_job_that_nothing_numbers_is_one_or_as_many_as_its_user_says(void **state)
{
    const struct ranks_seen seen = {0};

    (void)state;
    assert_true(ranks_ready(&seen, 0, &table, why));
    assert_uint_equal(table.count, 0);
    assert_true(ranks_ready(&seen, 1, &table, why));
    assert_uint_equal(table.count, 0);
    assert_true(ranks_ready(&seen, 3, &table, why));
    assert_uint_equal(table.count, 3);
    assert_uint_equal(table.items[2].number, 2);
    assert_uint_equal(table.items[2].pid, 0);
}

static void begin(struct ledger_entry *entry, struct rank_fact facts[2])
{
    struct ranks_seen seen = {.count = 2, .items = {rank(0, 2), rank(1, 2)}};

    *entry = (struct ledger_entry){.allocation_id = "j"};
    memset(facts, 0, 2 * sizeof(*facts));
    assert_true(ranks_ready(&seen, 0, &table, why));
    ranks_begin(entry, &table);
    assert_uint_equal(entry->rank_count, 2);
}

static struct rank_fact done(const char *label, uint64_t bytes, uint64_t stall_ms)
{
    struct rank_fact fact = {.answer = ASK_FINISHED,
                             .sentinel = {.bytes = bytes, .status = "0", .stall_ms = stall_ms}};

    snprintf(fact.sentinel.label, sizeof(fact.sentinel.label), "%s", label);
    return fact;
}

static struct ledger_entry entry;

static void a_question_is_over_when_all_of_them_are_done(void **state)
{
    struct ranks_outcome outcome;
    struct rank_fact facts[2];

    (void)state;
    begin(&entry, facts);
    facts[1] = done("127", 5, 30);
    ranks_judge(&entry, facts, true, &outcome);
    assert_int_equal(outcome.verdict, RANKS_AWAITED);
    ranks_name_silent(&entry, why);
    assert_string_equal(why, "of 2 ranks on this node these have not said done: 0");
    facts[1] = (struct rank_fact){.gone = true}; /* it was done, its end is its launcher's affair */
    ranks_judge(&entry, facts, true, &outcome);
    assert_int_equal(outcome.verdict, RANKS_AWAITED);
    facts[0] = done("127", 7, 20);
    facts[1] = done("127", 5, 30);
    ranks_judge(&entry, facts, true, &outcome);
    assert_int_equal(outcome.verdict, RANKS_DONE);
    assert_uint_equal(outcome.bytes, 12);
    assert_uint_equal(outcome.stall_ms, 30);
    assert_string_equal(outcome.label, "127");
    ranks_check_done(&entry);
}

static void one_that_ends_refuses_or_says_another_step_fails_it(void **state)
{
    struct ranks_outcome outcome;
    struct rank_fact facts[2];

    (void)state;
    begin(&entry, facts);
    facts[1].gone = true;
    ranks_judge(&entry, facts, false, &outcome); /* the whole application has ended */
    assert_int_equal(outcome.verdict, RANKS_AWAITED);
    ranks_judge(&entry, facts, true, &outcome);
    assert_int_equal(outcome.reason, CKPT__V1__REASON__REASON_APPLICATION_EXITED);
    assert_string_equal(outcome.text, "rank 1 (pid 71) ended before it was done");

    begin(&entry, facts);
    facts[0] = done("", 0, 0);
    snprintf(facts[0].sentinel.status, sizeof(facts[0].sentinel.status), "disk full");
    ranks_judge(&entry, facts, true, &outcome);
    assert_int_equal(outcome.reason, CKPT__V1__REASON__REASON_APPLICATION_REFUSED);
    assert_string_equal(outcome.text, "rank 0 says status=disk full");

    begin(&entry, facts);
    facts[0] = done("127", 1, 0);
    facts[1] = done("128", 1, 0);
    ranks_judge(&entry, facts, true, &outcome);
    assert_int_equal(outcome.verdict, RANKS_FAILED);
    assert_int_equal(outcome.reason, CKPT__V1__REASON__REASON_STEP_MISMATCH);
    assert_string_equal(outcome.text, "rank 0 says 127, rank 1 says 128");

    begin(&entry, facts);
    facts[0] = done("127", 1, 0);
    facts[1] = done("", 1, 0);
    ranks_judge(&entry, facts, true, &outcome);
    assert_string_equal(outcome.text, "rank 0 says 127, rank 1 says no step");
}

/* V-008: no step, and nothing tells whether what they saved fits together. The text names the
 * calls. */
static void several_that_name_no_step_fail_it(void **state)
{
    struct ranks_outcome outcome;
    struct rank_fact facts[2];

    (void)state;
    begin(&entry, facts);
    facts[0] = facts[1] = done("", 1, 0);
    ranks_judge(&entry, facts, true, &outcome);
    assert_int_equal(outcome.verdict, RANKS_FAILED);
    assert_int_equal(outcome.reason, CKPT__V1__REASON__REASON_STEP_MISMATCH);
    assert_string_equal(
        outcome.text,
        "STEP_MISSING: ranks 0, 1 of several said done without a step: call ckpt_done(), "
        "done(step) or write step=N; \"unordered\" where all states fit");
    begin(&entry, facts);
    facts[0] = facts[1] = done("unordered", 1, 0);
    ranks_judge(&entry, facts, true, &outcome);
    assert_int_equal(outcome.verdict, RANKS_DONE);
    assert_string_equal(outcome.label, "unordered");
}

/* One that is alone needs none; a part beside others does, and so does the one rank of a node. */
static void a_step_is_missing_where_others_save_too(void **state)
{
    static struct ledger_entry one;

    (void)state;
    for (uint32_t parts = 0; parts <= 2; parts++) {
        for (uint32_t ranks = 0; ranks <= 2; ranks++) {
            one.parts = parts;
            one.rank_count = ranks;
            one.ranks_all = 0;
            assert_int_equal(ranks_step_missing(&one, "", why), parts == 2 || ranks == 2);
            assert_false(ranks_step_missing(&one, "127", why));
        }
    }
    one = (struct ledger_entry){.parts = 1, .rank_count = 1, .ranks_all = 2};
    assert_true(ranks_step_missing(&one, "", why));
    assert_non_null(strstr(why, "STEP_MISSING: rank 0 of several"));
    one = (struct ledger_entry){.parts = 2};
    assert_true(ranks_step_missing(&one, "", why));
    assert_non_null(strstr(why, "STEP_MISSING: the application of several"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_those_that_are_seen_without_their_launcher),
        cmocka_unit_test(what_the_launcher_counts_on_all_nodes_goes_with_the_question),
        cmocka_unit_test(a_job_whose_ranks_are_not_all_there_is_not_asked),
        cmocka_unit_test(more_ranks_than_are_taken_are_refused),
        cmocka_unit_test(several_that_nothing_numbers_are_asked_when_their_user_says_who_speaks),
        cmocka_unit_test(a_job_that_nothing_numbers_is_one_or_as_many_as_its_user_says),
        cmocka_unit_test(a_question_is_over_when_all_of_them_are_done),
        cmocka_unit_test(one_that_ends_refuses_or_says_another_step_fails_it),
        cmocka_unit_test(several_that_name_no_step_fail_it),
        cmocka_unit_test(a_step_is_missing_where_others_save_too)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
