/* What a decision was made from stays with its checkpoint, is shared, survives snapshots, and
 * leaves with the folder. */
#include "tests/unit/fsm/expect.h"

static const struct fsm_inputs *inputs_of(const struct script *script, uint64_t sequence)
{
    const struct fsm_checkpoint *checkpoint =
        fsm_checkpoint_find(script->fsm, checkpoint_id_make(1, sequence));

    assert_non_null(checkpoint);
    return checkpoint->inputs;
}

static void assert_numbers(const struct fsm_inputs *inputs, uint64_t first, uint64_t policy)
{
    assert_non_null(inputs);
    assert_int_equal(inputs->column_count, 3);
    assert_uint_equal(inputs->columns[0], first);
    assert_uint_equal(inputs->columns[2], UINT64_MAX);
    assert_int_equal(inputs->flags, 2);
    assert_uint_equal(inputs->result_digest, first * 3);
    assert_int_equal(inputs->source_count, 2);
    assert_int_equal(inputs->source_age_ms[0], 5000);
    assert_int_equal(inputs->source_age_ms[1], UINT32_MAX);
    assert_int_equal(inputs->basis->policy_count, 2);
    assert_uint_equal(inputs->basis->policy[0], policy);
    assert_string_equal(inputs->basis->names, "age_s gpus nodes | cycle_s restart_s");
}

static void begin(struct script *script)
{
    script_start(script);
    expect_ok(script, "policy retention=10000 keep=2 min_interval=1");
    for (int job = 1; job <= 3; job++)
        expect_ok(script, "register j%d nodes=n%d", job, job);
}

/* E-*, explain: a decision that changed something keeps its terms in the log, and what they were
 * computed from. */
static void a_decision_keeps_what_it_was_made_from(void **unused)
{
    struct script script;

    (void)unused;
    begin(&script);
    expect_ok(&script, "decide j1 recompute=7 inputs=11 basis=5");
    assert_numbers(inputs_of(&script, 1), 11, 5);
    assert_uint_equal(inputs_of(&script, 1)->index, script.index);
    assert_uint_equal(inputs_of(&script, 1)->term, script.term);
    assert_uint_equal(inputs_of(&script, 1)->evaluated_at_ms, script.now_ms);
    expect_ok(&script, "request j2");
    assert_null(inputs_of(&script, 2)); /* people asked */
    script_close(&script);
}

static void equal_policies_are_held_once(void **unused)
{
    struct script script;

    (void)unused;
    begin(&script);
    expect_ok(&script, "decide j1 inputs=11 basis=5");
    expect_ok(&script, "decide j2 inputs=12 basis=6");
    expect_ok(&script, "decide j3 inputs=13 basis=5"); /* another cycle, the same numbers */
    assert_ptr_equal(inputs_of(&script, 1)->basis, inputs_of(&script, 3)->basis);
    assert_ptr_not_equal(inputs_of(&script, 1)->basis, inputs_of(&script, 2)->basis);
    script_close(&script);
}

/* Kept while the checkpoint is active or its folder exists: bounded by what is kept anyway. */
static void inputs_leave_with_the_folder(void **unused)
{
    struct script script;

    (void)unused;
    begin(&script);
    expect_ok(&script, "decide j1 inputs=11 basis=5");
    expect_ok(&script, "grant 1-1 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    assert_numbers(inputs_of(&script, 1), 11, 5); /* COMPLETE */
    expect_ok(&script, "after 1000");
    expect_ok(&script, "decide j1 inputs=12 basis=6");
    expect_ok(&script, "grant 1-2 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-2");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "decide j1 inputs=13 basis=6");
    expect_ok(&script, "grant 1-3 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-3");
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    expect_ok(&script, "collected 1-1");
    assert_null(inputs_of(&script, 1));
    assert_non_null(fsm_checkpoint_find(script.fsm, checkpoint_id_make(1, 1))->terms);
    assert_numbers(inputs_of(&script, 2), 12, 6);
    assert_numbers(inputs_of(&script, 3), 13, 6);
    expect_ok(&script, "after 1000");
    expect_ok(&script, "decide j1 inputs=14 basis=6");
    expect_ok(&script, "cancel 1-4"); /* was never dispatched: has no folder */
    assert_null(inputs_of(&script, 4));
    script_close(&script);
}

/* NewEpoch begins every unfinished checkpoint again under another id: the decision is the same
 * one. */
static void a_new_epoch_carries_the_inputs_to_the_new_id(void **unused)
{
    struct script script;
    const struct fsm_checkpoint *again;

    (void)unused;
    begin(&script);
    expect_ok(&script, "decide j1 inputs=11 basis=5");
    expect_ok(&script, "epoch 2");
    again = fsm_checkpoint_next(script.fsm, checkpoint_id_make(2, 0));
    assert_non_null(again);
    assert_numbers(again->inputs, 11, 5);
    assert_null(inputs_of(&script, 1));
    script_close(&script);
}

/* I12 */
static void snapshots_carry_inputs_and_slots_of_policies(void **unused)
{
    struct script_bytes bytes = {NULL, 0, 0, 0}, again = {NULL, 0, 0, 0};
    struct script script;
    struct fsm *copy;
    const struct fsm_checkpoint *checkpoint;
    char text[160] = "";
    bool newer;

    (void)unused;
    begin(&script);
    expect_ok(&script, "decide j1 inputs=11 basis=5");
    expect_ok(&script, "decide j2 inputs=12 basis=6");
    expect_ok(&script, "decide j3 inputs=13 basis=5");
    expect_ok(&script, "cancel 1-2"); /* slot 1 is free again */
    assert_int_equal(fsm_snapshot_write(script.fsm, script_write, &bytes), 0);
    copy = fsm_snapshot_load(script_read, &bytes, text, sizeof(text), &newer);
    assert_string_equal(text, "");
    assert_non_null(copy);
    checkpoint = fsm_checkpoint_find(copy, checkpoint_id_make(1, 3));
    assert_numbers(checkpoint->inputs, 13, 5);
    assert_uint_equal(checkpoint->inputs->index, inputs_of(&script, 3)->index);
    assert_uint_equal(checkpoint->inputs->term, inputs_of(&script, 3)->term);
    assert_int_equal(fsm_snapshot_write(copy, script_write, &again), 0);
    assert_int_equal(again.length, bytes.length);
    assert_memory_equal(again.bytes, bytes.bytes, bytes.length);
    fsm_free(copy);
    free(bytes.bytes);
    free(again.bytes);
    script_close(&script);
}

static void batches_whose_numbers_are_too_many_are_refused(void **unused)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__DecisionBatch batch = CKPT__LOG__V1__DECISION_BATCH__INIT;
    Ckpt__Log__V1__DecisionBasis basis = CKPT__LOG__V1__DECISION_BASIS__INIT;
    Ckpt__Log__V1__Decision decision = CKPT__LOG__V1__DECISION__INIT, *pointer = &decision;
    Ckpt__Log__V1__DecisionInputs inputs = CKPT__LOG__V1__DECISION_INPUTS__INIT;
    uint64_t numbers[FSM_INPUT_NUMBERS_MAX + 1] = {0};
    uint32_t ages[FSM_INPUT_SOURCES_MAX + 1] = {0};
    struct fsm_outcome outcome;

    (void)unused;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_DECISIONS;
    command.decisions = &batch;
    batch.n_decisions = 1;
    batch.decisions = &pointer;
    decision.allocation_id = script_text("j1");
    decision.inputs = &inputs;
    inputs.columns = numbers;
    inputs.source_age_ms = ages;
    basis.policy = numbers;
    assert_int_equal(fsm_validate_command(&command, &outcome), FSM_INVALID_ARGUMENT); /* of what? */
    batch.basis = &basis;
    inputs.n_columns = FSM_INPUT_NUMBERS_MAX;
    inputs.n_source_age_ms = FSM_INPUT_SOURCES_MAX;
    basis.n_policy = FSM_INPUT_NUMBERS_MAX;
    assert_int_equal(fsm_validate_command(&command, &outcome), FSM_OK);
    inputs.n_columns++;
    assert_int_equal(fsm_validate_command(&command, &outcome), FSM_TOO_LARGE);
    assert_uint_equal(outcome.limit, FSM_INPUT_NUMBERS_MAX);
    inputs.n_columns = 0;
    inputs.n_source_age_ms++;
    assert_int_equal(fsm_validate_command(&command, &outcome), FSM_TOO_LARGE);
    inputs.n_source_age_ms = 0;
    basis.n_policy++;
    assert_int_equal(fsm_validate_command(&command, &outcome), FSM_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decision_keeps_what_it_was_made_from),
        cmocka_unit_test(equal_policies_are_held_once),
        cmocka_unit_test(inputs_leave_with_the_folder),
        cmocka_unit_test(a_new_epoch_carries_the_inputs_to_the_new_id),
        cmocka_unit_test(snapshots_carry_inputs_and_slots_of_policies),
        cmocka_unit_test(batches_whose_numbers_are_too_many_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
