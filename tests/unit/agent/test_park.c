/* ckpt-runs that wait for what is in their way on the node, and say so. */
#include "tests/unit/agent/attach.h"

#include <signal.h>
#include <sys/wait.h>

static bool being_ended(void)
{
    return process_state_stops(agent_find(&agent, "job")->process.state);
}

static bool goes_on(void)
{
    return agent_find(&agent, "job")->entry.still == STANDING_NOT;
}

/* A process that leads a group, as the application that a ckpt-run has left. */
static pid_t leave_application(void)
{
    pid_t pid = fork();
    struct process_identity identity;
    struct proc_status status;
    struct proc_stat stat;

    if (pid == 0) {
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    assert_int_equal(setpgid(pid, pid), 0);
    assert_int_equal(agent.machine.process_read(agent.machine.context, pid, &stat, &status), 0);
    identity = (struct process_identity){pid, stat.start_ticks, machine_user_of(&status)};
    process_attached(agent_get(&agent, "job"), &identity, RUN, false);
    assert_true(becomes(goes_on, WAIT_US)); /* one that is not known is let go on first */
    return pid;
}

/* It stands still for the checkpoint that is to end it: who comes for the next run waits, hears
 * why, and begins when it has ended. */
static void who_comes_while_the_job_stands_still_waits_and_hears_why(void **state)
{
    char wanted[80];
    pid_t pid = leave_application();

    (void)state;
    agent_find(&agent, "job")->entry.still = STANDING_STILL;
    snprintf(wanted, sizeof(wanted), "pid %d of allocation job stands still here", (int)pid);
    attach();
    assert_false(becomes(told, POLLS_US)); /* who comes back in a moment is not waited for */
    assert_true(becomes(told, WAIT_US));
    assert_contains(said, wanted);
    assert_false(attached() || refused());
    agent_find(&agent, "job")->entry.still = STANDING_NOT;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(becomes(attached, WAIT_US));
}

/* Its ckpt-run may come back in a moment; when it does not, the application is ended. */
static void who_comes_while_another_ckpt_run_is_missing_waits_for_that_one(void **state)
{
    pid_t pid = leave_application();

    (void)state;
    attach();
    assert_true(becomes(told, WAIT_US));
    assert_contains(said, "still runs here, and its ckpt-run has gone");
    assert_false(attached() || refused());
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(becomes(attached, WAIT_US));
}

/* The other one did not come: what runs well goes on, unless its user wants another one in its
 * place (V-012). */
static void who_comes_in_the_place_of_a_ckpt_run_that_has_gone_says_so(void **state)
{
    pid_t pid = leave_application();

    (void)state;
    attach();
    assert_true(becomes(refused, 2 * WAIT_US));
    assert_contains(refusal, "without its ckpt-run");
    assert_contains(refusal, "ckpt-run end job");
    refusal[0] = '\0';
    assert_int_equal(kill(pid, 0), 0);
    assert_int_equal(agent_find(&agent, "job")->process.state, PROCESS_RUNNING);
    replaces = true;
    attach();
    assert_true(becomes(being_ended, 2 * WAIT_US));
    replaces = false;
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(becomes(attached, 2 * WAIT_US));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_comes_while_the_job_stands_still_waits_and_hears_why,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            who_comes_while_another_ckpt_run_is_missing_waits_for_that_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_comes_in_the_place_of_a_ckpt_run_that_has_gone_says_so,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
