/* The tables of moves say what the drawings in fsm/README.md say. */
#include <ctype.h>

#include "src/base/check.h"
#include "tests/unit/fsm/expect.h"

static void moves_of_checkpoints_are_those_of_the_drawing(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    static const char *const allowed[] = {
        "UNSPECIFIED REQUESTED", "REQUESTED DISPATCHED",  "DISPATCHED WRITING",
        "WRITING COMPLETE",      "COMPLETE COLLECTED",    "REQUESTED PAUSED",
        "DISPATCHED PAUSED",     "WRITING PAUSED",        "PAUSED REQUESTED",
        "DISPATCHED REQUESTED",  "WRITING REQUESTED",     "REQUESTED FAILED",
        "DISPATCHED FAILED",     "WRITING FAILED",        "PAUSED FAILED",
        "DISPATCHED TIMED_OUT",  "WRITING TIMED_OUT",     "REQUESTED CANCELLED",
        "DISPATCHED CANCELLED",  "WRITING CANCELLED",     "PAUSED CANCELLED",
        "REQUESTED SUPERSEDED",  "DISPATCHED SUPERSEDED", "WRITING SUPERSEDED",
        "PAUSED SUPERSEDED"};
    size_t found = 0;

    for (int from = 0; from < 12; from++) {
        for (int to = 0; to < 12; to++) {
            char text[64];
            bool listed = false;

            snprintf(text, sizeof(text), "%s %s",
                     fsm_checkpoint_state_name((Ckpt__V1__CheckpointState)from),
                     fsm_checkpoint_state_name((Ckpt__V1__CheckpointState)to));
            for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
                listed = listed || (strcmp(allowed[i], text) == 0 && from < 11 && to < 11);
            assert_int_equal(listed, fsm_checkpoint_move_allowed((Ckpt__V1__CheckpointState)from,
                                                                 (Ckpt__V1__CheckpointState)to));
            found += listed;
        }
    }
    assert_int_equal(found, sizeof(allowed) / sizeof(allowed[0]));
    script_close(&script);
}

static void a_completed_allocation_stays_completed(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    for (int to = 0; to < 9; to++)
        assert_false(fsm_allocation_move_allowed(
            CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED, (Ckpt__V1__AllocationState)to));
    assert_true(fsm_allocation_move_allowed(CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED,
                                            CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING));
    assert_false(fsm_allocation_move_allowed(CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED,
                                             CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING));
    assert_false(fsm_allocation_move_allowed(
        CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING,
        CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP));
    assert_false(
        fsm_allocation_move_allowed(CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED,
                                    CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED));
    script_close(&script);
}

/* The words are those of the descriptor: a value that is appended has its name at once. */
static void expect_names(const ProtobufCEnumDescriptor *type, const char *prefix)
{
    char word[FSM_WORD_BYTES];

    for (unsigned i = 0; i < type->n_values; i++) {
        const char *name = fsm_enum_name(type, type->values[i].value);

        assert_memory_equal(type->values[i].name, prefix, strlen(prefix));
        assert_string_equal(name, type->values[i].name + strlen(prefix));
        fsm_enum_word(type, type->values[i].value, word);
        assert_int_equal(strlen(word), strlen(name));
        for (size_t at = 0; name[at] != '\0'; at++)
            assert_int_equal(word[at], tolower((unsigned char)name[at]));
    }
}

static void every_value_has_its_name(void **unused)
{
    char word[FSM_WORD_BYTES];

    (void)unused;
    expect_names(&ckpt__v1__reason__descriptor, "REASON_");
    expect_names(&ckpt__v1__purpose__descriptor, "PURPOSE_");
    expect_names(&ckpt__v1__allocation_state__descriptor, "ALLOCATION_STATE_");
    expect_names(&ckpt__v1__checkpoint_state__descriptor, "CHECKPOINT_STATE_");
    expect_names(&ckpt__v1__victim_state__descriptor, "VICTIM_STATE_");
    expect_names(&ckpt__log__v1__node_state__descriptor, "NODE_STATE_");
    assert_string_equal(fsm_reason_word(CKPT__V1__REASON__REASON_MIXED_RESTART, word),
                        "mixed_restart");
    assert_string_equal(fsm_purpose_word(CKPT__V1__PURPOSE__PURPOSE_SCALE_DOWN, word),
                        "scale_down");
}

/* What counts by state has a place for each. */
static void states_are_numbered_without_a_gap(void **unused)
{
    struct fsm_summary summary;

    (void)unused;
    assert_in_range(ckpt__v1__allocation_state__descriptor.n_values, 2,
                    ARRAY_COUNT(summary.allocations_by_state));
    assert_in_range(ckpt__v1__checkpoint_state__descriptor.n_values, 2,
                    ARRAY_COUNT(summary.checkpoints_by_state));
    assert_int_equal(ckpt__v1__allocation_state__descriptor.n_value_ranges, 1);
    assert_int_equal(ckpt__v1__checkpoint_state__descriptor.n_value_ranges, 1);
    assert_int_equal(ckpt__log__v1__node_state__descriptor.n_value_ranges, 1);
}

static void names_of_unknown_values_are_safe(void **unused)
{
    char word[FSM_WORD_BYTES];

    (void)unused;
    assert_string_equal(fsm_checkpoint_state_name((Ckpt__V1__CheckpointState)99), "UNKNOWN");
    assert_string_equal(fsm_allocation_state_name((Ckpt__V1__AllocationState)99), "UNKNOWN");
    assert_string_equal(fsm_reason_word((Ckpt__V1__Reason)99, word), "unknown");
    assert_string_equal(fsm_purpose_word((Ckpt__V1__Purpose)99, word), "unknown");
    assert_false(fsm_checkpoint_state_active((Ckpt__V1__CheckpointState)99));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_of_checkpoints_are_those_of_the_drawing),
        cmocka_unit_test(a_completed_allocation_stays_completed),
        cmocka_unit_test(every_value_has_its_name),
        cmocka_unit_test(states_are_numbered_without_a_gap),
        cmocka_unit_test(names_of_unknown_values_are_safe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
