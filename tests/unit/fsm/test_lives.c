/* Of which life an application is that nobody could tell (F-016, I30, I33). */
#include "tests/unit/fsm/expect.h"

/* Nobody could be asked for the life of what began and ended before the restart, of which its node tells only now (simulator, seed
 * 614009682). */
static void what_was_started_before_a_restart_is_of_an_earlier_life(void **unused)
{
    struct script script;
    struct fsm_summary summary;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 requeue=always walltime=5000");
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "restart j1");
    expect_ok(&script, "after 6000");
    expect_ok(
        &script,
        "tick"); /* the walltime of this life is over, what is late is of the one before all the same */
    expect_status(&script, EARLIER_LIFE, "report n1 application_started j1 old=6001");
    expect_status(&script, EARLIER_LIFE, "report n1 application_exited j1 old=6001");
    expect_status(&script, EARLIER_LIFE, "report n1 walltime_killed j1 old=6001");
    expect_status(&script, EARLIER_LIFE,
                  "report n1 application_exited j1 old=18446744073709551615");
    fsm_get_summary(script.fsm, &summary);
    assert_int_equal(summary.earlier_life_reports, 4);
    expect_job(&script, "j1", STARTING);
    expect_ok(&script,
              "report n1 application_started j1 old=6000"); /* in the millisecond of the restart */
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1");
    expect_status(&script, EARLIER_LIFE, "report n1 application_exited j1 old=1");
    expect_ok(&script, "after 10");
    expect_ok(&script, "tick");
    expect_ok(&script, "report n1 application_started j1 old=1");
    expect_ok(
        &script,
        "report n1 application_exited j1 old=100000"); /* it is of this life whatever clocks do */
    expect_job(&script, "j1", COMPLETED);
    script_close(&script);
}

/* Whatever its age is by clocks that lag: its agent had heard from a leader that knew of the life. */
static void what_was_started_after_its_agent_heard_of_its_life_is_of_that(void **unused)
{
    struct script script;
    char known[CHECKPOINT_ID_TEXT_BYTES];
    uint64_t life;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 requeue=always");
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1");
    life = fsm_allocation_find(script.fsm, "j1")->nodes[0].life;
    checkpoint_id_format(life - 1, known);
    expect_status(&script, EARLIER_LIFE, "report n1 application_started j1 old=5000 known=%s",
                  known);
    checkpoint_id_format(life, known);
    expect_ok(&script, "report n1 application_started j1 old=5000 known=%s", known);
    expect_ok(&script, "report n1 application_exited j1 old=6000");
    expect_job(&script, "j1", COMPLETED);
    script_close(&script);
}

/* A job may begin before it is registered: what is told of that is told of this life. And that an order is carried out is told of the order. */
static void what_was_started_before_its_registration_is_of_this_life(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "report n1 application_started j1 old=60000");
    expect_ok(&script, "report n1 application_exited j1 old=60000");
    expect_job(&script, "j1", COMPLETED);
    expect_ok(&script, "register j2 nodes=n1 requeue=always");
    expect_ok(&script, "end j2 failed");
    expect_ok(&script, "restart j2");
    expect_ok(&script, "report n1 application_started j2");
    expect_ok(&script, "request j2 after=stop");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j2 ckpt=1-1");
    expect_ok(&script, "report n1 terminated j2 old=60000");
    expect_job(&script, "j2", SUSPENDED);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_started_before_a_restart_is_of_an_earlier_life),
        cmocka_unit_test(what_was_started_after_its_agent_heard_of_its_life_is_of_that),
        cmocka_unit_test(what_was_started_before_its_registration_is_of_this_life),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
