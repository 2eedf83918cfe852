/* A program that shows no way, and that its ckpt-run could save from outside: what the policy, the
 * registration and an outage make of it. S1-049. */
#include "src/agent/app/app_stream.h"
#include "src/base/check.h"
#include "tests/unit/agent/attach_restore.h"

static const struct ledger_entry *entry_of_job(void)
{
    return &agent_find(&agent, "job")->entry;
}

static void set_up_for(void **state)
{
    assert_int_equal(set_up(state), 0);
    said_finds_way = point_transparent = true;
    strcpy(said_outside, "criu");
}

static void the_policy_allows_it(void **state)
{
    set_up_for(state);
    attach_to_restore();
    expect_start(0);
    assert_string_equal(entry_of_job()->outside, "criu");
    assert_string_equal(entry_of_job()->outside_endpoint, "unix:/x/serves");
    assert_string_equal(entry_of_job()->endpoint, "");
    /* it may show a way by itself first */
    assert_uint_equal(entry_of_job()->way_open, WAY_SOUGHT);
    assert_string_equal(entry_of_job()->profile, "signal");
    assert_true(ready.outside);
}

static void it_is_not_where_anybody_says_otherwise(void **state)
{
    static const struct {
        const char *registered, *outside;
        bool finds, transparent;
    } rows[] = {{"", "criu", true, false},       {"", "", true, true},
                {"", "criu", false, true},       {"grpc", "criu", true, true},
                {"", "of-no-agent", true, true}, {"", "grpc", true, true}};

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        set_up_for(state);
        strcpy(registered_profile, rows[i].registered);
        strcpy(said_outside, rows[i].outside);
        said_finds_way = rows[i].finds;
        point_transparent = rows[i].transparent;
        attach_to_restore();
        expect_start(0);
        assert_string_equal(entry_of_job()->outside, "");
        assert_false(ready.outside);
        tear_down(state);
    }
    assert_int_equal(set_up(state), 0);
}

/* Without a broker it is as at the start before; but not without the tool. */
static void in_an_outage_it_is_as_before(void **state)
{
    struct app_stream *stream;
    struct ledger_entry *entry;

    set_up_for(state);
    attach_to_restore();
    expect_start(0);
    stream = agent_find(&agent, "job")->stream;
    entry = &stream->allocation->entry;
    strcpy(entry->profile, "criu"); /* it has come to that */
    entry->way_open = WAY_OUTSIDE;
    app_stream_take_profile(stream, &(struct restore_word){.profile = ""});
    assert_string_equal(entry->outside, "criu");
    assert_uint_equal(entry->way_open, WAY_SOUGHT);
    assert_string_equal(entry->profile, "signal");
    app_stream_take_profile(stream, &(struct restore_word){.epoch = 1,
                                                           .profile = "",
                                                           .places = 2, /* a tool saves one */
                                                           .transparent = true});
    assert_string_equal(entry->outside, "");
    app_stream_take_profile(
        stream,
        &(struct restore_word){.epoch = 1, .profile = "", .places = 1, .transparent = true});
    assert_string_equal(entry->outside, "criu");
    stream->hello->outside[0] = '\0';
    app_stream_take_profile(stream, &(struct restore_word){.profile = ""});
    assert_string_equal(entry->outside, "");
}

static int set_up_nothing(void **state)
{
    (void)state;
    return 0;
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up_nothing, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {T(the_policy_allows_it),
                                       T(it_is_not_where_anybody_says_otherwise),
                                       T(in_an_outage_it_is_as_before)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
