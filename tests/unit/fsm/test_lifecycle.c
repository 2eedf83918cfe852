/* The tables of moves say what the drawings in fsm/README.md say. */
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
                                            CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING));
    assert_false(
        fsm_allocation_move_allowed(CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED,
                                    CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED));
    script_close(&script);
}

static void names_of_unknown_values_are_safe(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    assert_string_equal(fsm_checkpoint_state_name((Ckpt__V1__CheckpointState)99), "UNSPECIFIED");
    assert_string_equal(fsm_allocation_state_name((Ckpt__V1__AllocationState)99), "UNSPECIFIED");
    assert_string_equal(fsm_reason_name((Ckpt__V1__Reason)99), "unknown");
    assert_string_equal(fsm_purpose_name((Ckpt__V1__Purpose)99), "unknown");
    assert_false(fsm_checkpoint_state_active((Ckpt__V1__CheckpointState)99));
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_of_checkpoints_are_those_of_the_drawing),
        cmocka_unit_test(a_completed_allocation_stays_completed),
        cmocka_unit_test(names_of_unknown_values_are_safe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
