/* cluster pause and resume as an operator types them, and how events and top tell of a pause. U4,
 * U8 */
#include <unistd.h>

#include "src/cli/event_text.h"
#include "src/rpc/server.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

static const char method[] = "OperatorService/PauseCluster";

/* Nothing is sent. */
static void what_is_wrong_is_refused_before_anything_is_sent(void **state)
{
    static const struct {
        const char *words, *error;
    } cases[] = {
        {"cluster pause", "error: cluster pause needs REASON\n  try: ckptctl help cluster pause\n"},
        {"cluster pause why not", "cluster pause takes no further argument: \"not\""},
        {"cluster pause why --for 5", "--for: \"5\" is not a duration"},
        {"cluster pause why --for 10ms", "--for: \"10ms\" is out of range"},
        {"cluster pause why --for 366d", "--for: \"366d\" is out of range"},
        {"cluster resume now", "cluster resume takes no further argument: \"now\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct harness h;

        harness_init(&h);
        assert_int_equal(harness_run(&h, cases[i].words), CLI_USAGE);
        assert_contains(h.error, cases[i].error);
        assert_string_equal(h.out, "");
        assert_uint_equal(h.call_count, 0);
        harness_close(&h);
    }
}

static void a_pause_says_what_it_holds_back_and_who_asks(void **state)
{
    const Ckpt__V1__PauseClusterRequest *sent;
    Ckpt__V1__MutationReply done = CKPT__V1__MUTATION_REPLY__INIT;
    struct harness h;
    char host[64];

    (void)state;
    done.index = 7;
    harness_init(&h);
    harness_answer(&h, NULL, method, RPC_OK, NULL, &done.base);
    assert_int_equal(harness_run(&h, "cluster pause repair --for 2h"), CLI_OK);
    assert_contains(h.error, "plan: for 2h00m\n  no checkpoint is asked for, also none before a "
                             "walltime; jobs that stop or fail are not restarted\n");
    assert_contains(h.out, "paused (index 7): what is under way ends");
    sent = (const Ckpt__V1__PauseClusterRequest *)(const void *)h.last_request;
    assert_string_equal(sent->reason, "repair");
    assert_uint_equal(sent->duration_ms, 7200000);
    assert_false(sent->resume);
    assert_int_equal(gethostname(host, sizeof(host)), 0);
    assert_contains(sent->by, host);
    assert_int_equal(harness_run(&h, "cluster resume"), CLI_OK);
    assert_string_equal(h.out, "done: resume the cluster (index 7)\n");
    sent = (const Ckpt__V1__PauseClusterRequest *)(const void *)h.last_request;
    assert_true(sent->resume);
    assert_contains(sent->by, host);
    harness_close(&h);
}

static void events_tell_who_paused_it_and_how_it_ended(void **state)
{
    static const struct {
        Ckpt__V1__EventKind kind;
        uint64_t number;
        const char *subject, *text;
    } cases[] = {
        {CKPT__V1__EVENT_KIND__EVENT_KIND_CLUSTER_PAUSED, 7200000, "ann: repair",
         "cluster paused for 2h00m by ann: repair"},
        {CKPT__V1__EVENT_KIND__EVENT_KIND_CLUSTER_PAUSED, 0, "ann: repair",
         "cluster paused until somebody ends it, by ann: repair"},
        {CKPT__V1__EVENT_KIND__EVENT_KIND_CLUSTER_RESUMED, 60000, "bob",
         "cluster resumed after 1m00s, by bob"},
        {CKPT__V1__EVENT_KIND__EVENT_KIND_CLUSTER_RESUMED, 60000, "",
         "cluster resumed after 1m00s, its time was over"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Ckpt__V1__Event event = CKPT__V1__EVENT__INIT;
        struct event_history history = {""};
        char text[EVENT_TEXT_BYTES];

        event.kind = cases[i].kind;
        event.subject = (char *)(uintptr_t)cases[i].subject;
        event.number = cases[i].number;
        event_text(&event, &history, false, text);
        assert_contains(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_is_refused_before_anything_is_sent),
        cmocka_unit_test(a_pause_says_what_it_holds_back_and_who_asks),
        cmocka_unit_test(events_tell_who_paused_it_and_how_it_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
