/* Attributes of a job that checkpoints itself, by the names of HTCondor's releases. */
#include "fsm/attributes.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static struct fsm_attributes attributes;
static char found[FSM_FOUND_BYTES];

static enum fsm_status read_text(const char *text)
{
    return fsm_attributes_read(text, &attributes, found);
}

/* Today's name says by itself that each such end is a save. S5-005, S5-006. */
static void todays_name_says_all(void **state)
{
    (void)state;
    assert_int_equal(read_text("checkpoint_exit_code = 85\ntransfer_checkpoint_files = a,b/c"),
                     FSM_OK);
    assert_true(attributes.unasked && !attributes.want_signal && !attributes.by_signal);
    assert_int_equal(attributes.code, 85);
    assert_string_equal(attributes.files, "a b/c");
    assert_int_equal(read_text(""), FSM_OK);
    assert_false(attributes.unasked);
}

/* S5-004, S5-005, S5-006, S5-010, S5-011. */
static void names_of_all_releases_are_known(void **state)
{
    (void)state;
    assert_int_equal(read_text("+CheckpointExitBySignal = TRUE\n+CheckpointExitSignal = SIGUSR2\n"
                               "+WantCheckpointSignal = true\n+CheckpointSig = \"SIGTSTP\"\n"
                               "when_to_transfer_output = ON_EXIT_OR_EVICT"),
                     FSM_OK);
    assert_true(attributes.by_signal && attributes.want_signal && !attributes.unasked);
    assert_string_equal(attributes.exit_signal, "SIGUSR2");
    assert_string_equal(attributes.checkpoint_signal, "SIGTSTP");
    assert_int_equal(read_text("MY.SuccessCheckpointExitBySignal=FALSE\n"
                               "my.successcheckpointexitcode=77\nWantFTOnCheckpoint=TRUE\n"
                               "KillSig=15\nTransferOutput=\"x\"\nTransferCheckpoint=y"),
                     FSM_OK);
    assert_true(attributes.unasked && !attributes.by_signal);
    assert_int_equal(attributes.code, 77);
    assert_string_equal(attributes.kill_signal, "15");
    assert_string_equal(attributes.files, "x y");
}

/* S5-003, S5-013: status 0 may be the answer to a signal, and never one that nobody sent. */
static void a_save_that_ends_as_the_work_does_is_refused(void **state)
{
    static const struct {
        const char *text;
        enum fsm_status status;
    } rows[] = {
        {"checkpoint_exit_code=0", FSM_CHECKPOINT_EXIT_FINAL},
        {"WantFTOnCheckpoint=TRUE", FSM_CHECKPOINT_EXIT_FINAL},
        {"checkpoint_exit_code=5\nsuccess_exit_code=5", FSM_CHECKPOINT_EXIT_FINAL},
        {"checkpoint_exit_code=5\nJobSuccessExitCode=5\nWantCheckpointSignal=TRUE",
         FSM_CHECKPOINT_EXIT_FINAL},
        {"checkpoint_exit_code=5\nsuccess_exit_code=6", FSM_OK},
        {"WantCheckpointSignal=TRUE", FSM_OK},
        {"WantCheckpointSignal=TRUE\nWantFTOnCheckpoint=TRUE", FSM_OK},
        {"WantFTOnCheckpoint=TRUE\nCheckpointExitBySignal=TRUE\nCheckpointExitSignal=USR2", FSM_OK},
        {"CheckpointExitCode=85", FSM_ATTRIBUTES_MUTE},
        {"kill_sig=TERM", FSM_ATTRIBUTES_MUTE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (read_text(rows[i].text) != rows[i].status)
            fail_msg("row %zu: %s", i, fsm_status_name(read_text(rows[i].text)));
}

static void what_is_wrong_is_found(void **state)
{
    static const char *const wrong[] = {"checkpoint_exit_code=256",
                                        "checkpoint_exit_code=-1",
                                        "checkpoint_exit_code=",
                                        "checkpoint_exit_code",
                                        "=85",
                                        "checkpoint_exit=85",
                                        "WantCheckpointSignal=yes",
                                        "CheckpointSig=SIG TERM",
                                        "CheckpointSig=ABCDEFGHIJKLMNOP",
                                        "transfer_checkpoint_files=",
                                        "WantCheckpointSignal=TRUE1"};
    char *longer = malloc(FSM_ATTRIBUTES_MAX_BYTES + 100);

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(read_text(wrong[i]), FSM_ATTRIBUTE_WRONG);
        assert_string_equal(found, wrong[i]);
    }
    assert_int_equal(read_text("WantCheckpointSignal=TRUE\nCheckpointExitBySignal=TRUE"),
                     FSM_ATTRIBUTE_WRONG);
    assert_string_equal(found, "CheckpointExitBySignal=TRUE without its signal");
    assert_non_null(longer);
    memset(longer, 'x', FSM_ATTRIBUTES_MAX_BYTES + 99);
    memcpy(longer, "transfer_output_files=", 22);
    longer[FSM_ATTRIBUTES_MAX_BYTES + 99] = '\0';
    assert_int_equal(read_text(longer), FSM_ATTRIBUTE_WRONG);
    assert_int_equal(strlen(found), FSM_FOUND_BYTES - 1);
    free(longer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(todays_name_says_all), cmocka_unit_test(names_of_all_releases_are_known),
        cmocka_unit_test(a_save_that_ends_as_the_work_does_is_refused),
        cmocka_unit_test(what_is_wrong_is_found)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
