/* Before a victim's nodes are given away another node reads its last checkpoint (P-024, D-004). */
#include "tests/unit/fsm/expect.h"

/* j1 on the nodes is a victim, and its checkpoint 1-1 is complete. */
static void start(struct script *script, const char *nodes, int ready)
{
    char word[3] = "";

    script_start(script);
    for (int i = 0; i < ready; i++)
        expect_ok(script, "node n%d ready", i);
    expect_ok(script, "register j1 nodes=%s class=1", nodes);
    expect_ok(script, "after 600000");
    expect_ok(script, "preempt class=5");
    expect_ok(script, "grant 1-1 bytes=1 timeout=600000");
    for (const char *at = nodes; *at != '\0'; at += at[2] == ',' ? 3 : 2) {
        memcpy(word, at, 2);
        expect_ok(script, "report %s shard_verified j1 ckpt=1-1", word);
    }
    expect_checkpoint(script, 1, COMPLETE);
}

/* Who reads a part: "n0 0 1" with the attempt; "": nobody. */
static const char *reader(const struct script *script)
{
    static char text[32];

    text[0] = '\0';
    for (uint32_t slot = 0; slot < fsm_node_slots(script->fsm); slot++) {
        const struct fsm_verification *read;

        if (fsm_verifications_on_node(script->fsm, slot, &read, 1) > 0)
            snprintf(text, sizeof(text), "%s %u %u", fsm_node_name(script->fsm, slot), read->part,
                     fsm_verify_attempt(script->fsm, read));
    }
    return text;
}

static bool ends(const struct script *script)
{
    return job_of(script, "j1")->terminating;
}

static uint64_t released(const struct script *script, bool verified)
{
    struct fsm_summary summary;

    fsm_get_summary(script->fsm, &summary);
    return verified ? summary.released_verified_total : summary.released_unverified_total;
}

static enum fsm_order_kind order_of(const struct script *script, const char *node)
{
    struct fsm_order order = {0};

    assert_int_equal(
        fsm_orders_for_node(script->fsm, fsm_node_find(script->fsm, node)->slot, &order, 1), 1);
    return order.kind;
}

static void its_nodes_are_held_until_another_node_has_read_it(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "n1", 2);
    assert_false(ends(&script));
    expect_job(&script, "j1", CHECKPOINTING_TO_STOP);
    assert_string_equal(reader(&script), "n0 0 1");
    assert_int_equal(order_of(&script, "n1"), FSM_ORDER_CHECKPOINT); /* it computes no further */
    expect_status(&script, CHECKPOINTING, "request j1");
    script_restore(&script);
    assert_string_equal(reader(&script), "n0 0 1");
    expect_ok(&script, "report n0 verified j1 ckpt=1-1 part=0");
    assert_true(ends(&script));
    assert_int_equal(order_of(&script, "n1"), FSM_ORDER_TERMINATE);
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", SUSPENDED);
    assert_int_equal(released(&script, true), 1);
    assert_int_equal(released(&script, false), 0);
    script_close(&script);
}

static void each_part_is_read_by_a_node_that_did_not_write_it(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "n1,n2", 3);
    assert_string_equal(reader(&script), "n2 0 1");
    expect_ok(&script, "report n2 verified j1 ckpt=1-1 part=0");
    assert_string_equal(reader(&script), "n1 1 2");
    assert_false(ends(&script));
    expect_ok(&script, "report n1 verified j1 ckpt=1-1 attempt=2 part=1");
    assert_true(ends(&script));
    script_close(&script);
}

/* The application is still there: it saves its work once more, in the time of its stop (L4). */
static void a_damaged_one_is_written_again_before_it_is_stopped(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "n1", 2);
    expect_ok(&script, "report n0 verify_damaged j1 ckpt=1-1 part=0 why=flipped");
    assert_true(fsm_checkpoint_find(script.fsm, checkpoint_id_make(1, 1))->damaged);
    assert_false(ends(&script));
    expect_job(&script, "j1", CHECKPOINTING_TO_STOP);
    expect_checkpoint(&script, 2, REQUESTED);
    expect_ok(&script, "grant 1-2 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-2");
    assert_string_equal(reader(&script), "n0 0 1");
    expect_ok(&script, "report n0 verified j1 ckpt=1-2 part=0");
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", SUSPENDED);
    assert_int_equal(job_of(&script, "j1")->last_complete_id, checkpoint_id_make(1, 2));
    script_close(&script);
}

/* Without force it keeps its nodes: its work is in no other place. */
static void a_damaged_one_that_comes_too_late_lets_its_job_go_on(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "n1", 2);
    expect_ok(&script, "policy backoff=3600000");
    expect_ok(&script, "report n0 verify_damaged j1 ckpt=1-1 part=0 why=flipped");
    assert_false(ends(&script));
    expect_job(&script, "j1", RUNNING);
    expect_reason(&script, "j1", "verify_failed");
    assert_int_equal(fsm_preemption_next(script.fsm, 0)->victims[0].reason,
                     CKPT__V1__REASON__REASON_VERIFY_FAILED);
    script_close(&script);
}

/* The application that died while its checkpoint was read is started again in place, from that
 * very one: its end is ordered once, and not forgotten. */
static void a_damaged_one_that_it_was_to_begin_from_again_ends_its_job(void **unused)
{
    static const char *const found[] = {
        "report n0 verify_damaged j1 ckpt=1-1 part=0 why=flipped",
        "report n1 restart_damaged j1 restored=1-1 why=flipped",
    };
    struct script script;

    (void)unused;
    for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++) {
        start(&script, "n1", 2);
        expect_ok(&script, "report n1 application_exited j1 status=9 restart");
        expect_job(&script, "j1", CHECKPOINTING_TO_STOP);
        expect_ok(&script, "%s", found[i]);
        assert_string_equal(reader(&script), "");
        assert_true(ends(&script));
        expect_ok(&script, "report n1 terminated j1");
        expect_job(&script, "j1", FAILED);
        script_close(&script);
    }
}

static void nobody_waits_where_no_other_node_can_read(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "n1", 0);
    assert_true(ends(&script));
    assert_int_equal(released(&script, false), 1);
    script_close(&script);
}

/* Also when who reads it cannot, is lost, or is silent. */
static void nobody_waits_longer_than_the_policy_says(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "n1", 2);
    expect_ok(&script, "after 29999");
    expect_ok(&script, "tick");
    assert_false(ends(&script));
    expect_ok(&script, "after 1");
    expect_ok(&script, "tick");
    assert_true(ends(&script));
    assert_int_equal(released(&script, false), 1);
    script_close(&script);
    start(&script, "n1", 2);
    expect_ok(&script, "node n0 down");
    assert_true(ends(&script));
    script_close(&script);
    start(&script, "n1", 2);
    for (int i = 1; i <= FSM_VERIFY_TRIES_MAX; i++)
        expect_ok(&script, "report n0 verify_failed j1 ckpt=1-1 part=0 attempt=%d why=EIO", i);
    assert_true(ends(&script));
    script_close(&script);
}

/* L4: whoever preempts was promised the nodes by then, however slow the checkpoint was. */
static void nobody_waits_longer_than_the_stop_has(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n0 ready");
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "register j1 nodes=n1 class=1");
    expect_ok(&script, "after 600000");
    expect_ok(&script, "preempt class=5");
    expect_ok(&script, "grant 1-1 bytes=1 timeout=600000");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "after 590000");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    assert_string_equal(reader(&script), "n0 0 1");
    expect_ok(&script, "after 14999"); /* of the policy's 30 s */
    expect_ok(&script, "tick");
    assert_false(ends(&script));
    expect_ok(&script, "after 1");
    expect_ok(&script, "tick");
    assert_true(ends(&script));
    script_close(&script);
}

/* Who goes on with fewer nodes gives those away, too: elastic on n1 and n2 is to give one back. */
static void start_shrinking(struct script *script)
{
    script_start(script);
    for (int i = 0; i < 3; i++)
        expect_ok(script, "node n%d ready", i);
    expect_ok(script, "register elastic nodes=n1,n2 min=1 max=4 class=3 borrowed home=ml");
    expect_ok(script, "after 600000");
    expect_ok(script, "preempt reason=reclaim home=ml need=1");
    expect_ok(script, "grant 1-1 bytes=1 timeout=600000");
    for (int i = 1; i <= 2; i++)
        expect_ok(script, "report n%d shard_verified elastic ckpt=1-1", i);
    expect_checkpoint(script, 1, COMPLETE);
    assert_false(job_of(script, "elastic")->leaving);
    assert_string_not_equal(reader(script), "");
}

static void read_by_others(struct script *script, uint64_t sequence)
{
    for (uint32_t part = 0; part < 2; part++)
        expect_ok(script, "report %.2s verified elastic ckpt=1-%d part=%u attempt=%u",
                  reader(script), (int)sequence, part, part + 1);
}

static void what_a_victim_gives_up_is_held_as_well(void **unused)
{
    struct script script;

    (void)unused;
    start_shrinking(&script);
    expect_status(&script, CHECKPOINTING, "request elastic");
    script_restore(&script);
    read_by_others(&script, 1);
    assert_true(job_of(&script, "elastic")->leaving);
    assert_int_equal(released(&script, true), 1);
    script_close(&script);
    start_shrinking(&script); /* what is damaged is written once more */
    expect_ok(&script, "report %.2s verify_damaged elastic ckpt=1-1 part=0 why=flipped",
              reader(&script));
    expect_job(&script, "elastic", RUNNING);
    expect_checkpoint(&script, 2, REQUESTED);
    expect_ok(&script, "grant 1-2 bytes=1");
    for (int i = 1; i <= 2; i++)
        expect_ok(&script, "report n%d shard_verified elastic ckpt=1-2", i);
    read_by_others(&script, 2);
    assert_true(job_of(&script, "elastic")->leaving);
    script_close(&script);
    start_shrinking(&script); /* nor longer than the policy says */
    expect_ok(&script, "after 30000");
    expect_ok(&script, "tick");
    assert_true(job_of(&script, "elastic")->leaving);
    assert_int_equal(released(&script, false), 1);
    script_close(&script);
    start_shrinking(&script); /* a stop wins over it */
    expect_ok(&script, "request elastic after=stop");
    assert_string_equal(reader(&script), "");
    expect_job(&script, "elastic", CHECKPOINTING_TO_STOP);
    script_close(&script);
}

static void what_ends_the_job_meanwhile_waits_for_nobody(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "n1", 2);
    expect_ok(&script, "end j1");
    assert_string_equal(reader(&script), "");
    expect_ok(&script, "report n0 verify_damaged j1 ckpt=1-1 part=0 why=late");
    script_close(&script);
    start(&script, "n1", 2);
    expect_ok(&script, "node n1 down");
    assert_string_equal(reader(&script), "");
    script_close(&script);
}

/* Deadlines of the preemption and of the reading that pass in one Tick, as after a time without a
 * leader, with the target away: the victim is let go, and nothing of it is turned back. */
static void nobody_waits_longer_when_all_deadlines_pass_at_once(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n0 ready");
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "register j1 nodes=n1 class=1");
    expect_ok(&script, "after 600000");
    expect_ok(&script, "preempt class=5");
    expect_ok(&script, "after 1000000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-1 bytes=1 timeout=600000");
    expect_ok(&script, "after 255000");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    assert_string_equal(reader(&script), "n0 0 1");
    expect_ok(&script, "after 200000");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "tick");
    assert_string_equal(reader(&script), "");
    assert_true(ends(&script));
    assert_int_equal(released(&script, false), 1);
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", SUSPENDED);
    script_close(&script);
}

static void a_policy_may_have_it_never(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n0 ready");
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "policy zeros=268435456");
    expect_ok(&script, "register j1 nodes=n1 class=1");
    expect_ok(&script, "preempt class=5");
    expect_ok(&script, "grant 1-1 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    assert_true(ends(&script));
    assert_int_equal(released(&script, false), 0); /* nobody was to read it */
    script_close(&script);
}

/* A target that reads nothing back before a checkpoint counts finds no fault of its storage: of a
 * victim, which computes no further, somebody else reads a sample all the same. */
static void a_target_that_reads_nothing_back_is_read_before_a_victim_goes(void **unused)
{
    const struct fsm_target *target;
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n0 ready");
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "put scratch read_back=2");
    target = fsm_target_find(script.fsm, "scratch");
    assert_int_equal(target->read_back, CKPT__V1__READ_BACK__READ_BACK_NEVER);
    assert_int_equal(fsm_release_read_back(target), CKPT__V1__READ_BACK__READ_BACK_SAMPLED);
    expect_ok(&script, "register j1 nodes=n1 class=1");
    expect_ok(&script, "preempt class=5");
    expect_ok(&script, "grant 1-1 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    assert_false(ends(&script));
    expect_job(&script, "j1", CHECKPOINTING_TO_STOP);
    assert_string_equal(reader(&script), "n0 0 1");
    assert_int_equal(released(&script, true), 0);
    expect_ok(&script, "report n0 verified j1 ckpt=1-1 part=0");
    assert_true(ends(&script));
    assert_int_equal(released(&script, true), 1);
    assert_int_equal(released(&script, false), 0);
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", SUSPENDED);
    script_close(&script);
}

/* j1 on n1 to n64 is a victim whose checkpoint has as many parts; n0 is there to read. */
static void start_wide(struct script *script, int read_back)
{
    char nodes[512] = "n1";

    script_start(script);
    for (int i = 0; i <= SCRIPT_LIST_MAX; i++) {
        expect_ok(script, "node n%d ready", i);
        if (i > 1)
            snprintf(nodes + strlen(nodes), sizeof(nodes) - strlen(nodes), ",n%d", i);
    }
    expect_ok(script, "put scratch read_back=%d", read_back);
    expect_ok(script, "register j1 nodes=%s class=1", nodes);
    expect_ok(script, "preempt class=5 need=%d", SCRIPT_LIST_MAX);
    expect_ok(script, "grant 1-1 bytes=1 timeout=600000");
    for (int i = 1; i <= SCRIPT_LIST_MAX; i++)
        expect_ok(script, "report n%d shard_verified j1 ckpt=1-1", i);
    expect_checkpoint(script, 1, COMPLETE);
    assert_int_equal(checkpoint_of(script, 1)->shard_count, SCRIPT_LIST_MAX);
}

/* Of many parts sixteen, evenly, unless the target always reads all of it. */
static void of_many_parts_a_sample_is_read(void **unused)
{
    static const struct {
        Ckpt__V1__ReadBack read_back;
        unsigned step;
    } rows[] = {{CKPT__V1__READ_BACK__READ_BACK_SAMPLED, SCRIPT_LIST_MAX / 16},
                {CKPT__V1__READ_BACK__READ_BACK_NEVER, SCRIPT_LIST_MAX / 16},
                {CKPT__V1__READ_BACK__READ_BACK_ALWAYS, 1}};
    struct script script;

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start_wide(&script, (int)rows[i].read_back);
        for (unsigned wanted = 0; wanted < SCRIPT_LIST_MAX; wanted += rows[i].step) {
            unsigned part, attempt;
            char node[8];

            assert_false(ends(&script));
            assert_int_equal(sscanf(reader(&script), "%7s %u %u", node, &part, &attempt), 3);
            assert_int_equal(part, wanted);
            expect_ok(&script, "report %s verified j1 ckpt=1-1 part=%u attempt=%u", node, part,
                      attempt);
        }
        assert_true(ends(&script));
        assert_int_equal(released(&script, true), 1);
        script_close(&script);
    }
}

/* Its work is saved, and is being read again when the storage goes away: forced then, it is no
 * victim without a checkpoint. */
static void a_forced_victim_whose_work_is_saved_comes_back(void **unused)
{
    Ckpt__V1__Reason last = CKPT__V1__REASON__REASON_PREEMPTED;
    const Ckpt__V1__Event *event;
    struct script script;
    uint64_t after = 0;
    bool gap;

    (void)unused;
    start(&script, "n1", 2);
    assert_string_equal(reader(&script), "n0 0 1");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "preempt class=6 nodes=j1 forced");
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", SUSPENDED);
    script_close(&script);

    script_start(&script);
    for (int i = 0; i < 3; i++)
        expect_ok(&script, "node n%d ready", i);
    expect_ok(&script, "register j1 nodes=n1,n2 gpus=4 min=1 borrowed requeue=always");
    expect_ok(&script, "after 600000");
    expect_ok(&script, "preempt reason=reclaim useful=n2 nodes=j1");
    expect_ok(&script, "grant 1-1 bytes=1 timeout=600000");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "preempt reason=reclaim useful=n2 nodes=j1 forced");
    expect_ok(&script, "report n2 terminated j1");
    while ((event = fsm_event_after(script.fsm, after, &gap)) != NULL) {
        after = event->sequence;
        if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_UPDATED)
            last = event->reason;
    }
    assert_int_equal(last, CKPT__V1__REASON__REASON_NONE); /* and not without a checkpoint */
    script_close(&script);

    script_start(&script); /* one that shrinks has computed on: another checkpoint is due */
    for (int i = 0; i < 3; i++)
        expect_ok(&script, "node n%d ready", i);
    expect_ok(&script, "policy release=60000");
    expect_ok(&script, "register j1 nodes=n1,n2 gpus=4 min=1 borrowed class=1");
    expect_ok(&script, "after 900000");
    expect_ok(&script, "preempt reason=reclaim need=1 nodes=j1 useful=n2");
    expect_ok(&script, "grant 1-1 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "after 50000");
    expect_ok(&script, "preempt reason=priority class=9 need=2 nodes=j1");
    expect_job(&script, "j1", CHECKPOINTING_TO_STOP);
    expect_checkpoint(&script, 2, REQUESTED);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_nodes_are_held_until_another_node_has_read_it),
        cmocka_unit_test(each_part_is_read_by_a_node_that_did_not_write_it),
        cmocka_unit_test(a_damaged_one_is_written_again_before_it_is_stopped),
        cmocka_unit_test(a_damaged_one_that_comes_too_late_lets_its_job_go_on),
        cmocka_unit_test(a_damaged_one_that_it_was_to_begin_from_again_ends_its_job),
        cmocka_unit_test(nobody_waits_where_no_other_node_can_read),
        cmocka_unit_test(nobody_waits_longer_than_the_policy_says),
        cmocka_unit_test(nobody_waits_longer_than_the_stop_has),
        cmocka_unit_test(what_a_victim_gives_up_is_held_as_well),
        cmocka_unit_test(what_ends_the_job_meanwhile_waits_for_nobody),
        cmocka_unit_test(nobody_waits_longer_when_all_deadlines_pass_at_once),
        cmocka_unit_test(a_policy_may_have_it_never),
        cmocka_unit_test(a_target_that_reads_nothing_back_is_read_before_a_victim_goes),
        cmocka_unit_test(of_many_parts_a_sample_is_read),
        cmocka_unit_test(a_forced_victim_whose_work_is_saved_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
