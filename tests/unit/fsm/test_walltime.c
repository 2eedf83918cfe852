/* An event announces the end of a job's walltime. */
#include "tests/unit/fsm/expect.h"

static unsigned warnings_of(const struct script *script, uint64_t *ret_left_ms)
{
    const Ckpt__V1__Event *event;
    unsigned count = 0;
    uint64_t after = 0;
    bool gap;

    while ((event = fsm_event_after(script->fsm, after, &gap)) != NULL) {
        after = event->sequence;
        if (event->kind != CKPT__V1__EVENT_KIND__EVENT_KIND_WALLTIME_WARNING)
            continue;
        count++;
        *ret_left_ms = event->number;
    }
    return count;
}

/* O-002, I33: once in a run, when nine tenths are over; a longer walltime is told of again. */
static void the_end_of_a_walltime_is_told_before_it_comes(void **unused)
{
    struct script script;
    uint64_t left_ms = 0;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 walltime=1000 grace=5000");
    expect_ok(&script, "after 899");
    expect_ok(&script, "tick");
    assert_int_equal(warnings_of(&script, &left_ms), 0);
    expect_ok(&script, "after 1");
    assert_uint_equal(fsm_next_deadline_ms(script.fsm), script.now_ms);
    expect_ok(&script, "tick");
    assert_int_equal(warnings_of(&script, &left_ms), 1);
    assert_uint_equal(left_ms, 100);
    expect_ok(&script, "after 50");
    expect_ok(&script, "tick");
    assert_int_equal(warnings_of(&script, &left_ms), 1);
    expect_ok(&script, "update j1 walltime=2000");
    expect_ok(&script, "after 850");
    expect_ok(&script, "tick");
    assert_int_equal(warnings_of(&script, &left_ms), 2);
    assert_uint_equal(left_ms, 200);
    expect_ok(&script, "after 200"); /* the end is an end all the same */
    expect_ok(&script, "tick");
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", FAILED);
    assert_int_equal(warnings_of(&script, &left_ms), 2);
    script_close(&script);
}

/* U-001: members of level 1 would refuse the state. */
static void a_cluster_of_level_1_is_told_nothing_of_it(void **unused)
{
    struct script script;
    uint64_t left_ms = 0;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init level=1");
    expect_ok(&script, "register j1 nodes=n1 walltime=1000 grace=5000");
    expect_ok(&script, "after 950");
    expect_ok(&script, "tick");
    assert_int_equal(warnings_of(&script, &left_ms), 0);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_walltime_is_told_before_it_comes),
        cmocka_unit_test(a_cluster_of_level_1_is_told_nothing_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
