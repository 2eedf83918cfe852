/* Denied calls in the audit trail: one record a minute for each caller and method, with a count,
 * and never more than its limits. K-001, V-016 */
#include "fsm/audit.h"
#include "src/broker/keep/denials.h"
#include "tests/support/audit_record.h"
#include "tests/unit/broker/fake_replica.h"

static struct rpc_peer peer_of(const char *identity)
{
    struct rpc_peer peer = {.tls = true, .address = "10.0.0.9:1"};

    snprintf(peer.identity, sizeof(peer.identity), "%s", identity);
    return peer;
}

static uint64_t records(const struct fake *fake)
{
    struct fsm_audit audit;

    fsm_get_audit(fake->replica.fsm, &audit);
    return audit.sequence;
}

static const char *newest(const struct fake *fake, uint64_t before_it)
{
    return test_audit_line(fake->replica.fsm, records(fake) - before_it);
}

static struct fake *begin(struct denials **ret_denials)
{
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    struct fake *fake;

    policy.feature_level = FSM_LEVEL_NEWEST;
    fake = fake_new(&policy);
    *ret_denials = denials_new(&fake->broker);
    fake_serve(fake);
    return fake;
}

static void a_minute_of_denials_is_one_record_for_each_caller_and_method(void **state)
{
    const struct rpc_peer eve = peer_of("ckpt://c/agent/n1"), ann = peer_of("ckpt://c/auditor/ann");
    struct denials *denials;
    struct fake *fake = begin(&denials);
    uint64_t before = records(fake);

    (void)state;
    for (int i = 0; i < 5; i++)
        denials_note(denials, &eve, "/ckpt.v1.OperatorService/SetPolicy", NULL);
    denials_note(denials, &ann, "/ckpt.v1.OperatorService/SetPolicy", NULL);
    denials_note(denials, &eve, "/ckpt.v1.AgentService/Session", "n2");
    denials_note(denials, &eve, "/ckpt.v1.AgentService/Session", "n2");
    assert_uint_equal(records(fake), before);
    fake_advance_ms(fake, DENIALS_EVERY_MS);
    assert_uint_equal(records(fake), before + 3);
    assert_contains(newest(fake, 2), "\"caller\":\"ckpt://c/agent/n1\"");
    assert_contains(newest(fake, 2), "\"kind\":\"denied\"");
    assert_contains(newest(fake, 2), "\"method\":\"OperatorService/SetPolicy\"");
    assert_contains(newest(fake, 2), "\"address\":\"10.0.0.9:1\"");
    assert_contains(newest(fake, 2), "\"count\":5");
    assert_contains(newest(fake, 1), "\"caller\":\"ckpt://c/auditor/ann\"");
    assert_contains(newest(fake, 0), "\"subject\":\"node n2\"");
    assert_contains(newest(fake, 0), "\"count\":2");
    fake_advance_ms(fake, 10 * DENIALS_EVERY_MS); /* and nothing when nobody is denied */
    assert_uint_equal(records(fake), before + 3);
    denials_free(denials);
    fake_free(fake);
}

/* An agent that speaks for another node is an event as well. */
static void a_spoofed_node_is_an_event_with_the_certificate(void **state)
{
    const struct rpc_peer eve = peer_of("ckpt://c/agent/n1");
    const Ckpt__V1__Event *event, *last = NULL;
    struct denials *denials;
    struct fake *fake = begin(&denials);
    uint64_t after = 0;
    bool gap;

    (void)state;
    denials_note(denials, &eve, "/ckpt.v1.AgentService/Session", "n2");
    fake_advance_ms(fake, DENIALS_EVERY_MS);
    while ((event = fsm_event_after(fake->replica.fsm, after, &gap)) != NULL) {
        after = event->sequence;
        last = event;
    }
    assert_int_equal(last->kind, CKPT__V1__EVENT_KIND__EVENT_KIND_SPOOFED_NODE);
    assert_string_equal(last->subject, "n2");
    assert_string_equal(last->caller, "ckpt://c/agent/n1");
    assert_uint_equal(last->number, 1);
    denials_free(denials);
    fake_free(fake);
}

static void a_flood_of_callers_has_an_end(void **state)
{
    struct denials *denials;
    struct fake *fake = begin(&denials);
    uint64_t before = records(fake), minutes = 0;
    char name[64];

    (void)state;
    for (; minutes < 59; minutes++) {
        for (int i = 0; i < 1000; i++) {
            struct rpc_peer peer;

            snprintf(name, sizeof(name), "ckpt://c/agent/n%d", i);
            peer = peer_of(name);
            denials_note(denials, &peer, "/ckpt.v1.OperatorService/SetPolicy", NULL);
        }
        fake_advance_ms(fake, DENIALS_EVERY_MS);
        assert_contains(newest(fake, 0), "\"caller\":\"others\"");
    }
    /* one of each minute tells of the others */
    assert_uint_equal(records(fake), before + DENIALS_NAMED_PER_HOUR + minutes);
    assert_contains(newest(fake, 0), "\"count\":1000");
    denials_free(denials);
    fake_free(fake);
}

/* A member that does not lead notes nothing, and one that leads later does not tell what was. */
static void who_does_not_lead_notes_nothing(void **state)
{
    const struct rpc_peer eve = peer_of("ckpt://c/agent/n1");
    struct denials *denials;
    struct fake *fake = begin(&denials);
    uint64_t before = records(fake);

    (void)state;
    denials_note(denials, &eve, "/ckpt.v1.OperatorService/SetPolicy", NULL);
    fake_stop_serving(fake);
    denials_note(denials, &eve, "/ckpt.v1.OperatorService/SetPolicy", NULL);
    fake_serve(fake);
    fake_advance_ms(fake, 2 * DENIALS_EVERY_MS);
    assert_uint_equal(records(fake), before);
    denials_note(NULL, &eve, "/ckpt.v1.OperatorService/SetPolicy", NULL);
    denials_free(denials);
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_minute_of_denials_is_one_record_for_each_caller_and_method),
        cmocka_unit_test(a_spoofed_node_is_an_event_with_the_certificate),
        cmocka_unit_test(a_flood_of_callers_has_an_end),
        cmocka_unit_test(who_does_not_lead_notes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
