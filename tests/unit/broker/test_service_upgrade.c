/* RestartMember and StartCanary at a real member: what is refused, what the files of ckptd-start
 * hold, and when the process ends. U-002, U-003. */
#include "src/base/build.h"
#include "src/broker/daemon/upgrades.h"
#include "tests/unit/broker/service_calls.h"

static const char *const variables[] = {"NOTIFY_SOCKET",       "INVOCATION_ID",
                                        "SYSTEMD_EXEC_PID",    "CKPT_START_STATE",
                                        "CKPT_START_PREVIOUS", "CKPT_START_PREVIOUS_LEVEL",
                                        "CKPT_START_PUT_BACK", "CKPT_START_PUT_BACK_WHY"};
static bool ended;
static struct answer answer;

static void end(void *context)
{
    (void)context;
    ended = true;
}

static void begin_upgrades(void)
{
    ended = false;
    fixture->broker.upgrades = upgrades_new(&fixture->broker, end, NULL);
}

static void stop_upgrades(void)
{
    upgrades_free(fixture->broker.upgrades);
    fixture->broker.upgrades = NULL;
}

static int open_member(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(variables); i++)
        unsetenv(variables[i]);
    if (open_one(state) != 0)
        return -1;
    begin_upgrades();
    return 0;
}

static int open_one_of_three(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(variables); i++)
        unsetenv(variables[i]);
    if (open_lonely(state) != 0)
        return -1;
    begin_upgrades();
    return 0;
}

static int close_member(void **state)
{
    stop_upgrades();
    return close_fixture(state);
}

static void by_ckptd_start(const char *previous, const char *level)
{
    stop_upgrades();
    setenv("CKPT_START_STATE", fixture->dir, 1);
    setenv("CKPT_START_PREVIOUS", previous, 1);
    setenv("CKPT_START_PREVIOUS_LEVEL", level, 1);
    begin_upgrades();
}

static void restart(uint64_t id, uint64_t started_at_ms, bool accept_outage)
{
    Ckpt__V1__RestartMemberRequest request = CKPT__V1__RESTART_MEMBER_REQUEST__INIT;

    request.member_id = id;
    request.started_at_ms = started_at_ms;
    request.accept_outage = accept_outage;
    call(OPERATOR("RestartMember"), &request.base, &answer);
}

static void watch(uint64_t duration_ms)
{
    Ckpt__V1__StartCanaryRequest request = CKPT__V1__START_CANARY_REQUEST__INIT;

    request.member_id = 1;
    request.duration_ms = duration_ms;
    call(OPERATOR("StartCanary"), &request.base, &answer);
}

static Ckpt__V1__StatusReply *status(void)
{
    Ckpt__V1__StatusRequest request = CKPT__V1__STATUS_REQUEST__INIT;
    Ckpt__V1__StatusReply *reply;

    call(OPERATOR("Status"), &request.base, &answer);
    expect(&answer, RPC_OK, "");
    reply = ckpt__v1__status_reply__unpack(NULL, answer.length, answer.bytes);
    assert_non_null(reply);
    return reply;
}

/* "": there is no such file. */
static const char *file_of(const char *name)
{
    static char text[1024];
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", fixture->dir, name);
    file = fopen(path, "r");
    text[0] = '\0';
    if (file != NULL) {
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
    }
    return text;
}

static void a_member_that_nobody_starts_again_does_not_end(void **state)
{
    (void)state;
    restart(1, 0, true);
    expect(&answer, RPC_FAILED_PRECONDITION, "NOT_SUPERVISED: nobody is known to start n1 again");
    setenv("INVOCATION_ID", "x", 1);
    setenv("SYSTEMD_EXEC_PID", "1", 1); /* a shell's, which has handed it on */
    restart(1, 0, true);
    expect(&answer, RPC_FAILED_PRECONDITION, "NOT_SUPERVISED");
    assert_false(ended);
    fixture->config->supervised = true;
    assert_string_equal(upgrades_supervisor(true), "supervised: yes");
    restart(1, 0, true);
    expect(&answer, RPC_OK, "");
    run_until(&ended);
}

static void the_only_voter_ends_only_where_an_outage_is_accepted(void **state)
{
    Ckpt__V1__StatusReply *told;
    uint64_t at_ms;

    (void)state;
    setenv("NOTIFY_SOCKET", "/nowhere", 1);
    told = status();
    at_ms = told->start->at_ms;
    assert_string_equal(told->start->supervised_by, "NOTIFY_SOCKET");
    assert_null(told->canary);
    ckpt__v1__status_reply__free_unpacked(told, NULL);
    restart(1, at_ms, false);
    expect(&answer, RPC_FAILED_PRECONDITION,
           "QUORUM_AT_RISK: without n1 0 of 1 voters are left and 1 decide");
    restart(2, at_ms, true);
    expect(&answer, RPC_FAILED_PRECONDITION, "MEMBER_MISMATCH: this is n1 (id 1), and id 2");
    restart(1, at_ms - 1, true);
    expect(&answer, RPC_FAILED_PRECONDITION, "MEMBER_MISMATCH: n1 was restarted since then");
    assert_false(ended);
    restart(1, at_ms, true);
    expect(&answer, RPC_OK, "");
    run_until(&ended);
}

/* A founder that waits for the others decides nothing yet. */
static void one_that_is_no_voter_may_end(void **state)
{
    (void)state;
    setenv("NOTIFY_SOCKET", "/nowhere", 1);
    restart(1, 0, false);
    expect(&answer, RPC_OK, "");
    run_until(&ended);
}

static void a_watch_needs_a_build_to_put_back(void **state)
{
    (void)state;
    watch(900000);
    expect(&answer, RPC_FAILED_PRECONDITION, "CANARY_REFUSED: it was not started by ckptd-start");
    by_ckptd_start("", "0");
    watch(900000);
    expect(&answer, RPC_FAILED_PRECONDITION, "CANARY_REFUSED: ckptd-start has no build before");
    by_ckptd_start("0.1.9", "2");
    watch(59999);
    expect(&answer, RPC_OUT_OF_RANGE, "a watch of 59999 ms, at least 60000");
    watch(86400001);
    expect(&answer, RPC_OUT_OF_RANGE, "at most 86400000");
    assert_string_equal(file_of("build"), "");
    by_ckptd_start("0.1.0", "1");
    watch(900000);
    expect(&answer, RPC_FAILED_PRECONDITION,
           "the cluster's level is 2 and 0.1.0 knows 1: it cannot be put back after upgrade");
}

/* After `upgrade finalize`: its starts are not counted any more. */
static void what_cannot_take_part_any_more_is_not_put_back(void **state)
{
    char wanted[128];

    (void)state;
    by_ckptd_start("0.1.0", "1"); /* the cluster is of level 2 */
    snprintf(wanted, sizeof(wanted), "%s\n0\n0\n1\n0\n", build_text);
    for (int i = 0; i < 100 && file_of("build")[0] == '\0'; i++)
        uv_run(&fixture->loop, UV_RUN_ONCE);
    assert_string_equal(file_of("build"), wanted);
}

/* The file tells ckptd-start until when starts are counted, and the next process that it
 * watches. */
static void a_watch_goes_on_after_a_restart_of_the_same_build(void **state)
{
    Ckpt__V1__StatusReply *told;
    char first[64];

    (void)state;
    by_ckptd_start("0.1.9", "2");
    watch(900000);
    expect(&answer, RPC_OK, "");
    snprintf(first, sizeof(first), "%s\n", build_text);
    assert_memory_equal(file_of("build"), first, strlen(first));
    assert_contains(file_of("build"), "\n1\n1\n");
    stop_upgrades();
    begin_upgrades();
    told = status();
    assert_string_equal(told->canary->state, "watching");
    assert_int_equal(told->canary->until_ms - told->canary->begun_ms, 900000);
    assert_int_equal(told->canary->n_checks, CANARY_CHECK_COUNT);
    assert_string_equal(told->start->previous_build, "0.1.9");
    ckpt__v1__status_reply__free_unpacked(told, NULL);
    watch(0);
    expect(&answer, RPC_OK, "");
    assert_contains(file_of("build"), "\n1\n0\n");
    stop_upgrades();
    begin_upgrades();
    told = status();
    assert_null(told->canary); /* it is over */
    ckpt__v1__status_reply__free_unpacked(told, NULL);
}

/* A fault ends the process at once: a wrong hash of the state, for one. */
static void a_fault_during_the_watch_has_the_build_before_started(void **state)
{
    char wanted[128];

    (void)state;
    by_ckptd_start("0.1.9", "2");
    assert_false(upgrades_failed(fixture->broker.upgrades, "no watch is under way"));
    assert_string_equal(file_of("put-back"), "");
    watch(900000);
    expect(&answer, RPC_OK, "");
    assert_true(upgrades_failed(fixture->broker.upgrades, "the hash differs"));
    snprintf(wanted, sizeof(wanted), "%s\nthe hash differs\n", build_text);
    assert_string_equal(file_of("put-back"), wanted);
    assert_false(upgrades_failed(fixture->broker.upgrades, "a second word"));
    assert_string_equal(file_of("put-back"), wanted);
}

static void the_build_that_was_put_back_is_told(void **state)
{
    Ckpt__V1__StatusReply *told;

    (void)state;
    setenv("CKPT_START_PUT_BACK", "0.3.0", 1);
    setenv("CKPT_START_PUT_BACK_WHY", "elections", 1);
    stop_upgrades();
    begin_upgrades();
    told = status();
    assert_string_equal(told->start->put_back_build, "0.3.0");
    assert_string_equal(told->start->put_back_why, "elections");
    ckpt__v1__status_reply__free_unpacked(told, NULL);
}

#define WITH(open, test) cmocka_unit_test_setup_teardown(test, open, close_member)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(open_member, a_member_that_nobody_starts_again_does_not_end),
        WITH(open_member, the_only_voter_ends_only_where_an_outage_is_accepted),
        WITH(open_one_of_three, one_that_is_no_voter_may_end),
        WITH(open_member, a_watch_needs_a_build_to_put_back),
        WITH(open_member, what_cannot_take_part_any_more_is_not_put_back),
        WITH(open_member, a_watch_goes_on_after_a_restart_of_the_same_build),
        WITH(open_member, a_fault_during_the_watch_has_the_build_before_started),
        WITH(open_member, the_build_that_was_put_back_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
