/* Complete checkpoints that are read again, and what is found damaged (D-004, I28). */
#include "tests/unit/fsm/expect.h"

static void start(struct script *script, const char *nodes)
{
    script_start(script);
    for (int i = 0; i < 4; i++)
        expect_ok(script, "node n%d ready", i);
    expect_ok(script, "register j1 nodes=%s", nodes);
}

static void complete(struct script *script, uint64_t sequence, const char *nodes)
{
    char word[3] = "";

    expect_ok(script, "request j1");
    expect_ok(script, "grant 1-%d bytes=1", (int)sequence);
    for (const char *at = nodes; *at != '\0'; at += at[2] == ',' ? 3 : 2) {
        memcpy(word, at, 2);
        expect_ok(script, "report %s shard_verified j1 ckpt=1-%d", word, (int)sequence);
    }
    expect_checkpoint(script, sequence, COMPLETE);
}

static const struct fsm_checkpoint *at(const struct script *script, uint64_t sequence)
{
    return fsm_checkpoint_find(script->fsm, checkpoint_id_make(1, sequence));
}

/* Sequences of those that are due, as digits: "12". */
static const char *due(const struct script *script)
{
    static char text[16];
    uint64_t ids[8], after = 0;
    size_t count = fsm_verify_due(script->fsm, 0, 100, &after, ids, 8);

    assert_int_equal(after, 0);
    for (size_t i = 0; i < count; i++)
        text[i] = (char)('0' + (ids[i] & 15));
    text[count] = '\0';
    return text;
}

/* Who reads, and which part: "n2 1 attempt 3"; "": nobody. */
static const char *reader(const struct script *script)
{
    static char text[64];

    text[0] = '\0';
    for (uint32_t slot = 0; slot < fsm_node_slots(script->fsm); slot++) {
        const struct fsm_verification *read;

        if (fsm_verifications_on_node(script->fsm, slot, &read, 1) == 0)
            continue;
        assert_string_equal(text, "");
        snprintf(text, sizeof(text), "%s %u attempt %u", fsm_node_name(script->fsm, slot),
                 read->part, fsm_verify_attempt(script->fsm, read));
    }
    return text;
}

static const Ckpt__V1__Event *last_event(const struct script *script)
{
    const Ckpt__V1__Event *found = NULL, *event;
    uint64_t after = 0;
    bool gap;

    while ((event = fsm_event_after(script->fsm, after, &gap)) != NULL) {
        found = event;
        after = event->sequence;
    }
    return found;
}

static void the_last_one_of_a_job_is_due_each_interval(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "n1");
    expect_ok(&script, "policy scrub=3600000");
    complete(&script, 1, "n1");
    complete(&script, 2, "n1");
    assert_string_equal(due(&script), "");
    expect_ok(&script, "after 3600000");
    expect_ok(&script, "tick");
    assert_string_equal(due(&script), "2");
    expect_ok(&script, "verified 1-2 whole");
    assert_int_equal(at(&script, 2)->verified_at_ms, script.now_ms);
    assert_string_equal(due(&script), "");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "after 3600000");
    assert_string_equal(due(&script), ""); /* nobody could read it */
    expect_ok(&script, "target scratch up");
    assert_string_equal(due(&script), "2");
    expect_ok(&script, "policy zeros=%llu", 1ULL << 26);
    assert_string_equal(due(&script), "");
    script_close(&script);
}

static void what_somebody_asks_for_is_due_at_once_and_told(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "n1");
    complete(&script, 1, "n1");
    complete(&script, 2, "n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "verify 1-1 1-2 1-3 1-9"); /* 3 is not complete, 9 is not known */
    assert_int_equal(script.outcome.current, 2);
    assert_string_equal(due(&script), "12");
    expect_ok(&script, "verified 1-1 whole");
    assert_int_equal(last_event(&script)->kind, CKPT__V1__EVENT_KIND__EVENT_KIND_VERIFIED);
    assert_int_equal(last_event(&script)->new_state, CKPT__V1__VERIFY_RESULT__VERIFY_RESULT_WHOLE);
    expect_ok(&script, "verified 1-2 unreadable why=EIO");
    assert_string_equal(last_event(&script)->subject, "EIO");
    assert_string_equal(due(&script), "");
    script_close(&script);
}

static void what_a_control_node_may_not_read_is_read_by_nodes_that_did_not_write_it(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "n1,n2");
    complete(&script, 1, "n1,n2");
    expect_ok(&script, "verify 1-1");
    expect_ok(&script, "verified 1-1 elsewhere");
    assert_string_equal(reader(&script), "n2 0 attempt 1");
    assert_string_equal(due(&script), "");
    expect_ok(&script, "verified 1-1 whole"); /* of a leader before: the node reads it */
    expect_ok(&script, "report n1 verified j1 ckpt=1-1 attempt=1 part=0"); /* nobody asked it */
    expect_ok(&script, "report n2 verified j1 ckpt=1-1 attempt=1 part=1");
    assert_string_equal(reader(&script), "n2 0 attempt 1");
    expect_ok(&script, "report n2 verified j1 ckpt=1-1 attempt=1 part=0");
    assert_string_equal(reader(&script), "n1 1 attempt 2");
    assert_int_equal(at(&script, 1)->verified_at_ms, 0);
    expect_ok(&script, "after 5");
    expect_ok(&script, "report n1 verified j1 ckpt=1-1 attempt=2 part=1");
    assert_string_equal(reader(&script), "");
    assert_int_equal(at(&script, 1)->verified_at_ms, script.now_ms);
    script_close(&script);
}

/* Its bytes are right, and its application cannot read them. Somebody says so, and the job begins
 * from the one before, also in place of a restore that is under way, and never from it again. */
static void what_its_application_cannot_read_is_passed_over(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "n1");
    for (uint64_t sequence = 1; sequence <= 3; sequence++) {
        expect_ok(&script, "after 60000");
        complete(&script, sequence, "n1");
    }
    expect_status(&script, CHECKPOINT_NOT_FOUND, "pin 1-9 reject");
    expect_ok(&script, "report n1 application_exited j1 status=256");
    expect_job(&script, "j1", FAILED);
    assert_int_equal(fsm_restart_point(script.fsm, "j1", 0)->id, checkpoint_id_make(1, 3));
    expect_ok(&script, "pin 1-3 reject");
    assert_true(at(&script, 3)->damaged);
    assert_string_equal(at(&script, 3)->detail, "rejected: its application cannot begin from it");
    assert_int_equal(last_event(&script)->kind, CKPT__V1__EVENT_KIND__EVENT_KIND_DAMAGED);
    assert_int_equal(fsm_restart_point(script.fsm, "j1", 0)->id, checkpoint_id_make(1, 2));
    expect_ok(&script, "pin 1-3 reject");
    expect_ok(&script, "restart j1");
    assert_int_equal(job_of(&script, "j1")->restart_id, checkpoint_id_make(1, 2));
    expect_ok(&script, "pin 1-2 reject");
    assert_int_equal(job_of(&script, "j1")->restart_id, checkpoint_id_make(1, 1));
    script_restore(&script);
    assert_int_equal(job_of(&script, "j1")->last_complete_id, checkpoint_id_make(1, 1));
    script_close(&script);
}

/* A damaged last one is worth what it had saved, at once. */
static void a_damaged_one_is_marked_told_and_its_job_has_more_to_lose(void **unused)
{
    struct script script;
    const struct fsm_allocation *job;
    uint64_t saved_ms;

    (void)unused;
    start(&script, "n1");
    job = fsm_allocation_find(script.fsm, "j1");
    expect_ok(&script, "after 60000");
    complete(&script, 1, "n1");
    expect_ok(&script, "after 600000");
    complete(&script, 2, "n1");
    expect_ok(&script, "after 1000");
    saved_ms = job->last_complete_snapshot_ms;
    expect_ok(&script, "verify 1-2");
    expect_ok(&script, "verified 1-2 elsewhere");
    expect_ok(&script, "report n0 verify_damaged j1 ckpt=1-2 part=0 why=state.bin");
    assert_true(at(&script, 2)->damaged);
    assert_string_equal(at(&script, 2)->detail, "part 0, read by n0: state.bin");
    assert_int_equal(last_event(&script)->kind, CKPT__V1__EVENT_KIND__EVENT_KIND_DAMAGED);
    assert_int_equal(job->last_complete_id, checkpoint_id_make(1, 1));
    assert_int_equal(saved_ms - job->last_complete_snapshot_ms, 600000);
    assert_int_equal(fsm_restart_point(script.fsm, "j1", 0)->id, checkpoint_id_make(1, 1));
    assert_string_equal(reader(&script), "");
    assert_string_equal(due(&script), "1"); /* it may share what is damaged */
    assert_true(fsm_newest_damaged(script.fsm, job));
    expect_ok(&script, "verify 1-2"); /* it is known */
    assert_int_equal(script.outcome.current, 0);
    saved_ms = job->last_complete_snapshot_ms;
    expect_ok(&script, "verified 1-1 damaged");
    assert_int_equal(job->last_complete_id, 0);
    assert_int_equal(saved_ms - job->last_complete_snapshot_ms, 60000);
    complete(&script, 3, "n1");
    assert_false(fsm_newest_damaged(script.fsm, job));
    script_close(&script);
}

static void who_cannot_read_it_leaves_it_to_others_and_at_last_to_its_writer(void **unused)
{
    struct script script;
    char before[64] = "";

    (void)unused;
    start(&script, "n1");
    complete(&script, 1, "n1");
    expect_ok(&script, "verify 1-1");
    expect_ok(&script, "verified 1-1 elsewhere");
    for (int i = 1; i < FSM_VERIFY_TRIES_MAX; i++) {
        snprintf(before, sizeof(before), "%s", reader(&script));
        assert_string_not_equal(before, "");
        assert_int_not_equal(before[1], '1');
        expect_ok(&script, "report n%c %s j1 ckpt=1-1 attempt=%d part=0 why=ENOENT", before[1],
                  i == 1 ? "verify_missing" : "verify_failed", i);
    }
    assert_string_equal(reader(&script), "n1 0 attempt 4");
    expect_ok(&script, "report n1 verify_failed j1 ckpt=1-1 attempt=4 part=0 why=EIO");
    assert_string_equal(reader(&script), "");
    assert_false(at(&script, 1)->damaged);
    assert_int_equal(last_event(&script)->new_state,
                     CKPT__V1__VERIFY_RESULT__VERIFY_RESULT_UNREADABLE);
    assert_string_equal(last_event(&script)->subject, "part 0, read by n1: EIO");
    assert_string_equal(due(&script), "");
    expect_ok(&script, "verify 1-1"); /* once more, by whom it concerns */
    assert_string_equal(due(&script), "1");
    script_close(&script);
}

static void what_its_writer_does_not_find_is_damaged(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "n1,n2");
    complete(&script, 1, "n1,n2");
    expect_ok(&script, "verified 1-1 elsewhere");
    expect_ok(&script, "report n2 verify_missing j1 ckpt=1-1 part=0 why=gone");
    assert_true(at(&script, 1)->damaged);
    script_close(&script);
}

static void a_reader_that_is_lost_or_silent_is_replaced(void **unused)
{
    struct script script;
    char first[64];

    (void)unused;
    start(&script, "n1,n2");
    complete(&script, 1, "n1,n2");
    expect_ok(&script, "verified 1-1 elsewhere");
    assert_string_equal(reader(&script), "n2 0 attempt 1");
    expect_ok(&script, "after 3660000");
    expect_ok(&script, "tick");
    snprintf(first, sizeof(first), "%s", reader(&script));
    assert_string_equal(first + 2, " 0 attempt 2");
    expect_ok(&script, "node n%c down", first[1]);
    assert_string_equal(reader(&script) + 2, " 0 attempt 3");
    assert_int_not_equal(reader(&script)[1], first[1]);
    script_restore(&script);
    assert_string_equal(reader(&script) + 2, " 0 attempt 3");
    script_close(&script);
}

/* I45: what all parts are to begin from is whole. */
static void a_job_that_is_to_begin_from_it_begins_from_the_one_before(void **unused)
{
    struct script script;
    const struct fsm_allocation *job;

    (void)unused;
    start(&script, "n1,n2");
    job = fsm_allocation_find(script.fsm, "j1");
    complete(&script, 1, "n1,n2");
    complete(&script, 2, "n1,n2");
    expect_ok(&script, "request j1 after=stop");
    expect_ok(&script, "grant 1-3 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-3");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-3");
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "report n2 terminated j1");
    expect_ok(&script, "restart j1");
    assert_int_equal(job->restart_id, checkpoint_id_make(1, 3));
    expect_ok(&script, "verified 1-3 damaged why=flipped");
    assert_int_equal(job->restart_id, checkpoint_id_make(1, 2));
    script_close(&script);
}

static void what_expires_is_read_no_more(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "n1");
    expect_ok(&script, "policy keep=2");
    complete(&script, 1, "n1");
    complete(&script, 2, "n1");
    complete(&script, 3, "n1");
    expect_ok(&script, "verified 1-1 elsewhere");
    assert_string_not_equal(reader(&script), "");
    expect_ok(&script, "expire 1-1");
    assert_string_equal(reader(&script), "");
    expect_ok(&script, "report n0 verify_damaged j1 ckpt=1-1 part=0 why=gone");
    assert_false(at(&script, 1)->damaged);
    script_close(&script);
}

/* Sequences of what a node is to read, as digits. */
static const char *read_by(const struct script *script, const char *node)
{
    static char text[8];
    const struct fsm_verification *read[FSM_VERIFICATIONS_PER_NODE_MAX];
    size_t count = fsm_verifications_on_node(script->fsm, fsm_node_find(script->fsm, node)->slot,
                                             read, FSM_VERIFICATIONS_PER_NODE_MAX);

    for (size_t i = 0; i < count; i++)
        text[i] = (char)('0' + (read[i]->checkpoint_id & 15));
    text[count] = '\0';
    return text;
}

/* The only one. */
static const struct fsm_verification *verification_of(const struct script *script)
{
    const struct fsm_verification *read = NULL;

    assert_int_equal(fsm_verification_count(script->fsm), 1);
    for (uint32_t slot = 0; read == NULL && slot < fsm_node_slots(script->fsm); slot++)
        fsm_verifications_on_node(script->fsm, slot, &read, 1);
    return read;
}

/* Twice what its bytes take at the pace, and an hour at least. */
static void a_large_part_has_the_time_that_its_bytes_need(void **unused)
{
    struct script script;
    uint64_t before_ms;

    (void)unused;
    start(&script, "n1");
    complete(&script, 1, "n1");
    assert_int_equal(fsm_verify_part_ms(script.fsm, at(&script, 1), 0), 3600000);
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-2 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-2 size=2000000000000");
    assert_int_equal(fsm_verify_part_ms(script.fsm, at(&script, 2), 0), 40000000);
    before_ms = script.now_ms;
    expect_ok(&script, "verified 1-2 elsewhere");
    assert_int_equal(verification_of(&script)->deadline_ms - before_ms, 40000000 + 60000);
    expect_ok(&script, "policy scrub_rate=50000000");
    assert_int_equal(fsm_verify_part_ms(script.fsm, at(&script, 2), 0), 80000000);
    script_close(&script);
}

/* In a large cluster one node may be all that mounts a target. */
static void a_reader_is_found_among_many_nodes(void **unused)
{
    enum { OTHERS = 300 };
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "put scratch keep domain=here");
    for (int i = 0; i < OTHERS; i++)
        expect_ok(&script, "node x%d ready domain=%s", i, i == OTHERS - 1 ? "here" : "there");
    expect_ok(&script, "node n1 ready domain=here");
    expect_ok(&script, "register j1 nodes=n1");
    complete(&script, 1, "n1");
    expect_ok(&script, "verified 1-1 elsewhere");
    assert_string_equal(reader(&script), "x299 0 attempt 1");
    expect_ok(&script, "node x299 down");
    assert_string_equal(reader(&script), "n1 0 attempt 2"); /* its writer, since nobody else can */
    script_close(&script);
}

/* What lies on its nodes is whole, so the run begins from it; the damage is told when it has. */
static void a_run_that_begins_from_copies_is_not_ended_for_what_lies_at_the_target(void **unused)
{
    struct script script;
    const struct fsm_allocation *job;

    (void)unused;
    start(&script, "n1,n2");
    job = fsm_allocation_find(script.fsm, "j1");
    complete(&script, 1, "n1,n2");
    expect_ok(&script, "report n1 copy_kept j1 ckpt=1-1 part=0");
    expect_ok(&script, "report n2 copy_kept j1 ckpt=1-1 part=1");
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 nodes=n1,n2");
    expect_job(&script, "j1", STARTING);
    expect_ok(&script, "verified 1-1 damaged why=flipped"); /* it was being read before */
    expect_job(&script, "j1", STARTING);
    assert_false(at(&script, 1)->damaged);
    assert_int_equal(job->restart_id, checkpoint_id_make(1, 1));
    assert_string_equal(due(&script), ""); /* not while it begins */
    for (int i = 1; i <= 2; i++)
        expect_ok(&script, "report n%d restored j1 restored=1-1", i);
    for (int i = 1; i <= 2; i++)
        expect_ok(&script, "report n%d application_started j1 restored=1-1", i);
    expect_job(&script, "j1", RUNNING);
    assert_string_equal(due(&script), "1"); /* at once */
    expect_ok(&script, "verified 1-1 damaged why=flipped");
    assert_true(at(&script, 1)->damaged);
    expect_job(&script, "j1", RUNNING);
    script_close(&script);
}

/* All members find other readers in one order when the node is lost. */
static void a_restored_member_has_them_in_the_order_of_the_others(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "node n2 ready");
    expect_ok(&script, "register j1 nodes=n1");
    complete(&script, 1, "n1");
    complete(&script, 2, "n1");
    expect_ok(&script, "verified 1-2 elsewhere");
    expect_ok(&script, "verified 1-1 elsewhere");
    assert_string_equal(read_by(&script, "n2"), "12");
    script_restore(&script);
    assert_string_equal(read_by(&script, "n2"), "12");
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_one_of_a_job_is_due_each_interval),
        cmocka_unit_test(what_somebody_asks_for_is_due_at_once_and_told),
        cmocka_unit_test(what_a_control_node_may_not_read_is_read_by_nodes_that_did_not_write_it),
        cmocka_unit_test(what_its_application_cannot_read_is_passed_over),
        cmocka_unit_test(a_damaged_one_is_marked_told_and_its_job_has_more_to_lose),
        cmocka_unit_test(who_cannot_read_it_leaves_it_to_others_and_at_last_to_its_writer),
        cmocka_unit_test(what_its_writer_does_not_find_is_damaged),
        cmocka_unit_test(a_reader_that_is_lost_or_silent_is_replaced),
        cmocka_unit_test(a_job_that_is_to_begin_from_it_begins_from_the_one_before),
        cmocka_unit_test(what_expires_is_read_no_more),
        cmocka_unit_test(a_large_part_has_the_time_that_its_bytes_need),
        cmocka_unit_test(a_reader_is_found_among_many_nodes),
        cmocka_unit_test(a_run_that_begins_from_copies_is_not_ended_for_what_lies_at_the_target),
        cmocka_unit_test(a_restored_member_has_them_in_the_order_of_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
