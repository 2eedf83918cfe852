/* A profile that ckpt-run may take by default: the agent knows whether somebody has said a way. */
#include "src/agent/app/app_stream.h"
#include "tests/unit/agent/attach_restore.h"

/* ckpt-run knows the program, and stands in for it where a broker says that nobody has said another
 * way, and that the job will have checkpoints. S1-030. */
static void what_ckpt_run_offers_is_taken_where_nobody_has_said_a_way(void **state)
{
    static const struct {
        const char *registered, *said, *offers, *path, *counts;
        bool named, taken;
    } rows[] = {{"signal", "", "file", "a/job", "file", false, true},
                {"signal", "", "file", "", "signal", false, false},
                {"signal", "", "file", "a/job", "signal", true, false},
                {"signal", "grpc", "file", "a/job", "grpc", false, false},
                {"grpc", "", "file", "a/job", "grpc", true, false},
                {"", "", "file", "a/job", "signal", false, false}, /* told at level 1 */
                {"signal", "", "exec", "a/job", "signal", false, false},
                {"signal", "", "nonsense", "a/job", "signal", false, false}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set_up(state);
        snprintf(registered_profile, sizeof(registered_profile), "%s", rows[i].registered);
        snprintf(said_profile, sizeof(said_profile), "%s", rows[i].said);
        snprintf(said_offers, sizeof(said_offers), "%s", rows[i].offers);
        snprintf(next_path, sizeof(next_path), "%s", rows[i].path);
        profile_named = rows[i].named;
        attach_to_restore();
        expect_start(0);
        assert_string_equal(agent_find(&agent, "job")->entry.profile, rows[i].counts);
        assert_int_equal(ready.offer_taken, rows[i].taken);
        assert_int_equal(agent_find(&agent, "job")->entry.way_open == WAY_OFFERED, rows[i].taken);
        tear_down(state);
    }
}

/* Each of its parts would be stopped by itself. */
static void nothing_is_taken_for_a_job_of_several_nodes(void **state)
{
    (void)state;
    strcpy(registered_profile, "signal");
    strcpy(said_offers, "file");
    strcpy(next_path, "a/job");
    run_of_writer = RUN;
    joined = true;
    attach_to_restore();
    expect_start(0);
    assert_uint_equal(agent_find(&agent, "job")->entry.parts, 2);
    assert_string_equal(agent_find(&agent, "job")->entry.profile, "signal");
    assert_false(ready.offer_taken);
}

/* Of another ckpt-run, which may not know the program, nothing is expected. */
static void in_an_outage_an_offer_is_taken_as_at_the_start_before(void **state)
{
    const struct restore_word nobody = {.profile = ""};
    struct app_stream *stream;
    struct ledger_entry *entry;
    char *offers;

    (void)state;
    strcpy(registered_profile, "signal");
    strcpy(said_offers, "file");
    strcpy(next_path, "a/job");
    attach_to_restore();
    expect_start(0);
    stream = agent_find(&agent, "job")->stream;
    entry = &agent_find(&agent, "job")->entry;
    app_stream_take_profile(stream, &nobody);
    assert_string_equal(entry->profile, "file");
    assert_uint_equal(entry->way_open, WAY_OFFERED);
    offers = stream->hello->offers;
    stream->hello->offers = (char[]){""};
    app_stream_take_profile(stream, &nobody);
    stream->hello->offers = offers;
    assert_string_equal(entry->profile, "signal");
    assert_uint_equal(entry->way_open, WAY_OPEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ckpt_run_offers_is_taken_where_nobody_has_said_a_way),
        cmocka_unit_test_setup_teardown(nothing_is_taken_for_a_job_of_several_nodes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(in_an_outage_an_offer_is_taken_as_at_the_start_before,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
