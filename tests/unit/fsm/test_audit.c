/* The audit trail: each change has a record with who, from where, and the old and the new value;
 * what is sensitive has one before its action; the records are a chain. F-017, F-018, N-002, V-016,
 * I31, I41 */
#include "tests/unit/fsm/expect.h"

#include "fsm/audit/audit.h"
#include "fsm/core/state.h"
#include "tests/support/audit_record.h"

static struct fsm_audit head_of(const struct script *script)
{
    struct fsm_audit audit;

    fsm_get_audit(script->fsm, &audit);
    return audit;
}

static const char *line_of(const struct script *script, uint64_t sequence)
{
    return test_audit_line(script->fsm, sequence);
}

/* The newest record holds each of the texts. */
static void expect_newest(const struct script *script, const char *const *texts)
{
    const char *line = line_of(script, head_of(script).sequence);

    for (; *texts != NULL; texts++)
        if (strstr(line, *texts) == NULL)
            fail_msg("no %s in %s", *texts, line);
}
#define EXPECT_NEWEST(script, ...) expect_newest(script, (const char *const[]){__VA_ARGS__, NULL})

static void a_change_names_who_where_what_and_both_values(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy hang_after=1800000 by=ckpt://c/operator/alice id=r-1");
    expect_ok(&script, "policy hang_after=2400000 by=ckpt://c/operator/alice id=r-2");
    EXPECT_NEWEST(&script, "\"kind\":\"change\"", "\"caller\":\"ckpt://c/operator/alice\"",
                  "\"address\":\"10.0.0.7:4711\"", "\"method\":\"BrokerService/Test\"",
                  "\"request_id\":\"r-2\"", "\"subject\":\"policy\"",
                  "\"was\":\"hang_after_ms=1800000\"", "\"is\":\"hang_after_ms=2400000\"");
    expect_ok(&script, "register j nodes=n1 by=bob");
    EXPECT_NEWEST(&script, "\"caller\":\"bob\"", "\"subject\":\"job j\"", "allocation_id=j",
                  "tenant=physics", "nodes=n1");
    expect_ok(&script, "update j walltime=900000 by=bob");
    EXPECT_NEWEST(&script, "\"is\":\"walltime_ms=900000\"");
    expect_ok(&script, "request j by=bob");
    EXPECT_NEWEST(&script, "\"subject\":\"job j\"", "checkpoint=1-1");
    expect_ok(&script, "cancel 1-1 by=bob");
    EXPECT_NEWEST(&script, "\"subject\":\"checkpoint 1-1\"", "state=REQUESTED", "state=CANCELLED");
    expect_ok(&script, "drain n1 by=bob");
    EXPECT_NEWEST(&script, "\"subject\":\"node n1\"", "state=DRAINING", "wanted=DRAIN");
    expect_ok(&script, "put vault prefix=/vault write=7 by=bob");
    EXPECT_NEWEST(&script, "\"subject\":\"target vault\"", "prefix=/vault");
    expect_ok(&script, "tenant physics keep=3 by=bob");
    EXPECT_NEWEST(&script, "\"subject\":\"tenant physics\"", "keep_complete=3");
    expect_ok(&script, "remove_target vault by=bob");
    EXPECT_NEWEST(&script, "\"was\":\"target_id=vault, kind=POSIX, prefix=/vault");
    script_close(&script);
}

/* A retry is no change, and neither is a refusal; a change of the leader itself names the
 * broker. */
static void what_changes_nothing_has_no_record(void **unused)
{
    struct script script;
    uint64_t before;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j nodes=n1 by=bob id=once");
    before = head_of(&script).sequence;
    expect_ok(&script, "register j nodes=n1 by=bob id=once");
    assert_true(script.outcome.repeated);
    expect_ok(&script, "register j nodes=n1 by=eve id=once"); /* from elsewhere: the same request */
    assert_true(script.outcome.repeated);
    expect_status(&script, ALLOCATION_EXISTS, "register j nodes=n1 by=bob");
    expect_ok(&script, "tick");
    assert_uint_equal(head_of(&script).sequence, before);
    expect_ok(&script, "end j");
    EXPECT_NEWEST(&script, "\"caller\":\"broker\"", "\"method\":\"EndAllocation\"");
    script_close(&script);
}

/* F-017, N-002: with the entry that brings the checkpoint about, and so before an order of it. */
static void a_sensitive_checkpoint_is_recorded_before_its_orders(void **unused)
{
    struct fsm_audit_link link;
    struct fsm_order order;
    struct script script;
    uint64_t slot;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register s nodes=n1 sensitive by=bob");
    expect_ok(&script, "decide s purpose=periodic recompute=100");
    EXPECT_NEWEST(&script, "\"kind\":\"action\"", "\"caller\":\"broker\"",
                  "\"method\":\"decisions\"", "\"subject\":\"checkpoint 1-1 of job s\"",
                  "\"was\":\"state=none\"", "state=REQUESTED", "target=scratch", "nodes=n1");
    slot = fsm_node_find(script.fsm, "n1")->slot;
    assert_int_equal(fsm_orders_for_node(script.fsm, (uint32_t)slot, &order, 1), 0);
    expect_ok(&script, "grant 1-1");
    EXPECT_NEWEST(&script, "\"method\":\"grants\"", "state=REQUESTED", "state=DISPATCHED");
    assert_true(fsm_audit_link(script.fsm, fsm_audit_link_of(script.fsm, head_of(&script).sequence),
                               &link));
    assert_uint_equal(link.index, script.index); /* I31 */
    assert_int_equal(fsm_orders_for_node(script.fsm, (uint32_t)slot, &order, 1), 1);
    expect_ok(&script, "report n1 shard_verified s ckpt=1-1 size=77");
    EXPECT_NEWEST(&script, "\"method\":\"node_report\"", "state=COMPLETE", "size_bytes=77");
    script_close(&script);
}

/* I41: an edit anywhere shows in the hash of the next line, and at the end in the head. */
static void each_link_holds_the_hash_of_the_one_before(void **unused)
{
    struct script script;
    uint8_t hash[BLAKE2B_BYTES] = {0};
    struct fsm_audit_link link;
    struct audit *audit;

    (void)unused;
    script_start(&script);
    for (unsigned i = 0; i < 5; i++)
        expect_ok(&script, "register j%u nodes=n1 by=bob", i);
    for (uint64_t at = 1; fsm_audit_link(script.fsm, at, &link); at++) {
        struct fsm_audit_place place;

        assert_true(fsm_audit_place(link.bytes, link.length, &place));
        assert_memory_equal(place.previous, hash, sizeof(hash));
        blake2b(link.bytes, link.length, hash);
    }
    assert_uint_equal(link.last, head_of(&script).sequence);
    assert_memory_equal(hash, head_of(&script).hash, sizeof(hash));
    assert_true(audit_whole(script.fsm, FSM_AUDIT_MAX));
    audit = script.fsm->audit;
    for (uint32_t byte = 0; byte < audit->end; byte++) { /* whichever it is */
        audit->ring[byte] ^= 1;
        assert_false(audit_whole(script.fsm, FSM_AUDIT_MAX));
        audit->ring[byte] ^= 1;
    }
    assert_true(audit_whole(script.fsm, FSM_AUDIT_MAX));
    script_close(&script);
}

/* The command that came is in its record; one that is too long for it has its texts, cut. */
static void a_long_command_has_its_texts(void **unused)
{
    struct script script;
    char list[2048] = "", name[32];
    struct fsm_audit_link link;
    size_t used = 0;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register small nodes=n1 by=bob");
    assert_true(fsm_audit_link(script.fsm, fsm_audit_link_of(script.fsm, head_of(&script).sequence),
                               &link));
    assert_true(link.length < 400);
    assert_null(strstr(line_of(&script, head_of(&script).sequence), "..."));
    for (unsigned i = 0; i < SCRIPT_LIST_MAX; i++) {
        snprintf(name, sizeof(name), "node-of-a-long-name-%05u", i);
        expect_ok(&script, "node %s ready boot=b1", name);
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i == 0 ? "" : ",", name);
    }
    expect_ok(&script, "register long nodes=%s by=bob", list);
    EXPECT_NEWEST(&script, "\"caller\":\"bob\"", "\"method\":\"BrokerService/Test\"",
                  "\"subject\":\"job long\"", "allocation_id=long",
                  "nodes=node-of-a-long-name-00000 node-of-a-long-name-00001", "...\"");
    script_close(&script);
}

static void shipped_records_leave_but_for_the_newest(void **unused)
{
    struct script script;
    struct fsm_audit audit;

    (void)unused;
    script_start(&script);
    script.unchecked = true;
    for (unsigned i = 0; i < FSM_AUDIT_MAX + 100; i++)
        expect_ok(&script, "audit_calls denied count=1 by=mallory");
    script.unchecked = false;
    audit = head_of(&script);
    assert_uint_equal(audit.sequence + 1 - audit.oldest, FSM_AUDIT_MAX);
    assert_uint_equal(audit.lost, 0); /* nobody ships them */
    expect_status(&script, INVALID_ARGUMENT, "audit_shipped %d", FSM_AUDIT_MAX * 2);
    expect_ok(&script, "audit_shipped %" PRIu64, audit.sequence - 6000);
    audit = head_of(&script);
    assert_uint_equal(audit.oldest, audit.shipped + 1);
    expect_ok(&script, "audit_shipped all");
    audit = head_of(&script);
    assert_uint_equal(audit.sequence + 1 - audit.oldest, FSM_AUDIT_KEPT);
    expect_ok(&script, "audit_shipped 1"); /* an older leader's: it takes nothing back */
    assert_uint_equal(head_of(&script).shipped, audit.sequence);
    script_restore(&script);
    assert_memory_equal(&audit.hash, head_of(&script).hash, sizeof(audit.hash));
    assert_uint_equal(head_of(&script).oldest, audit.oldest);
    for (unsigned i = 0; i < FSM_AUDIT_MAX; i++) {
        script.unchecked = true;
        expect_ok(&script, "audit_calls taken by=bob what=a\"b\\c");
    }
    assert_uint_equal(head_of(&script).lost, 0);
    EXPECT_NEWEST(&script, "\"kind\":\"call\"", "\"asked\":\"a\\\"b\\\\c\"");
    for (unsigned i = 0; i < 3; i++)
        expect_ok(&script, "audit_calls taken by=bob");
    assert_uint_equal(head_of(&script).lost, 3);
    script_close(&script);
}

static void a_snapshot_that_was_changed_is_refused(void **unused)
{
    struct script script;
    struct script_bytes bytes = {NULL, 0, 0, 0};
    struct fsm *loaded;
    char text[256], *at;
    bool newer;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j nodes=n1 by=bob");
    expect_ok(&script, "end j by=bob");
    assert_int_equal(fsm_snapshot_write(script.fsm, script_write, &bytes), 0);
    loaded = fsm_snapshot_load(script_read, &bytes, text, sizeof(text), &newer);
    assert_non_null(loaded);
    fsm_free(loaded);
    at = memmem(bytes.bytes, bytes.length, "BrokerService/Test", 18);
    assert_non_null(at);
    at[17] = 'x';
    bytes.at = 0;
    loaded = fsm_snapshot_load(script_read, &bytes, text, sizeof(text), &newer);
    assert_null(loaded);
    assert_non_null(strstr(text, "audit trail"));
    free(bytes.bytes);
    script_close(&script);
}

/* Written in slices while records come and go, it is the one of its instant. */
static void a_snapshot_in_slices_has_the_records_of_its_instant(void **unused)
{
    struct script script;
    struct script_bytes whole = {NULL, 0, 0, 0}, slices = {NULL, 0, 0, 0};
    struct fsm_snapshot *snapshot;
    bool done = false;

    (void)unused;
    script_start(&script);
    script.unchecked = true;
    for (unsigned i = 0; i < FSM_AUDIT_MAX; i++)
        expect_ok(&script, "audit_calls denied count=%u by=mallory", i + 1);
    assert_int_equal(fsm_snapshot_write(script.fsm, script_write, &whole), 0);
    snapshot = fsm_snapshot_begin(script.fsm);
    while (!done) {
        for (unsigned i = 0; i < 40; i++)
            expect_ok(&script, "audit_calls denied by=eve");
        assert_int_equal(fsm_snapshot_next(snapshot, 1 << 17, script_write, &slices, &done), 0);
    }
    fsm_snapshot_end(snapshot);
    assert_uint_equal(slices.length, whole.length);
    assert_memory_equal(slices.bytes, whole.bytes, whole.length);
    free(whole.bytes);
    free(slices.bytes);
    script_close(&script);
}

static void events_name_who_asked(void **unused)
{
    struct script script;
    const Ckpt__V1__Event *event, *last = NULL;
    uint64_t after = 0;
    bool gap;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j nodes=n1 by=bob starting");
    for (unsigned pass = 0; pass < 2; pass++) {
        while ((event = fsm_event_after(script.fsm, after, &gap)) != NULL) {
            after = event->sequence;
            last = event;
        }
        assert_string_equal(last->caller, "bob");
        script_restore(&script);
        after = 0;
    }
    expect_ok(&script, "report n1 application_started j");
    while ((event = fsm_event_after(script.fsm, after, &gap)) != NULL) {
        after = event->sequence;
        last = event;
    }
    assert_string_equal(last->caller, "");
    script_close(&script);
}

/* Members of level 1 know no trail: there is none before the cluster's level rises. */
static void below_level_2_there_is_no_trail(void **unused)
{
    struct script script;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init level=1");
    expect_ok(&script, "node n1 ready boot=b1");
    expect_ok(&script, "register j nodes=n1");
    assert_uint_equal(head_of(&script).sequence, 0);
    expect_ok(&script, "policy level=2 by=alice");
    assert_uint_equal(head_of(&script).sequence, 0);
    expect_ok(&script, "end j by=alice");
    assert_uint_equal(head_of(&script).sequence, 1);
    script_close(&script);
}

static void a_record_is_found_by_its_entry(void **unused)
{
    struct script script;
    struct fsm_audit_link link;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j nodes=n1 by=bob");
    assert_uint_equal(fsm_audit_link_from_index(script.fsm, script.index + 1), 0);
    assert_uint_equal(fsm_audit_link_from_index(script.fsm, 0), 1);
    expect_ok(&script, "end j by=bob");
    assert_true(
        fsm_audit_link(script.fsm, fsm_audit_link_from_index(script.fsm, script.index), &link));
    assert_uint_equal(link.last, head_of(&script).sequence);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_names_who_where_what_and_both_values),
        cmocka_unit_test(what_changes_nothing_has_no_record),
        cmocka_unit_test(a_sensitive_checkpoint_is_recorded_before_its_orders),
        cmocka_unit_test(each_link_holds_the_hash_of_the_one_before),
        cmocka_unit_test(a_long_command_has_its_texts),
        cmocka_unit_test(shipped_records_leave_but_for_the_newest),
        cmocka_unit_test(a_snapshot_that_was_changed_is_refused),
        cmocka_unit_test(a_snapshot_in_slices_has_the_records_of_its_instant),
        cmocka_unit_test(events_name_who_asked),
        cmocka_unit_test(below_level_2_there_is_no_trail),
        cmocka_unit_test(a_record_is_found_by_its_entry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
