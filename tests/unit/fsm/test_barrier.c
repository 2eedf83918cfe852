/* How all ranks of an attempt come to one step, by what their nodes say of them; and that parts
 * which saved different steps are no checkpoint. */
#include "tests/unit/fsm/expect.h"

static const struct fsm_shard *shard_of(const struct script *script, uint32_t i)
{
    const struct fsm_checkpoint *checkpoint = checkpoint_of(script, 1);

    assert_true(i < checkpoint->shard_count);
    return &checkpoint->shards[i];
}

static void start_writing_on(struct script *script, const char *nodes)
{
    script_start(script);
    expect_ok(script, "register j1 nodes=%s", nodes);
    expect_ok(script, "request j1");
    expect_ok(script, "grant 1-1");
}

static void start_writing(struct script *script)
{
    start_writing_on(script, "n1,n2");
}

#define expect_phase(script, name)                                                                 \
    assert_int_equal(checkpoint_of((script), 1)->barrier,                                          \
                     CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_##name)

static void expect_agreed(const struct script *script, uint64_t step)
{
    expect_phase(script, AGREED);
    assert_uint_equal(checkpoint_of(script, 1)->agreed_step, step);
}

static void expect_no_barrier(const struct script *script)
{
    expect_phase(script, NONE);
    assert_uint_equal(checkpoint_of(script, 1)->agreed_step, 0);
}

/* How many nodes are to be sent their orders anew. */
static unsigned orders_changed(const struct script *script)
{
    uint32_t slot;
    unsigned count = 0;

    while (fsm_take_changed_node(script->fsm, &slot))
        count++;
    return count;
}

/* Each node hears of the phase and of its own place. */
static void expect_orders(const struct script *script, const char *node, uint32_t part)
{
    const struct fsm_checkpoint *checkpoint = checkpoint_of(script, 1);
    struct fsm_order order = {0};

    assert_uint_equal(orders_of(script, node, &order), 1);
    assert_uint_equal(order.part, part);
    assert_ptr_equal(order.checkpoint, checkpoint);
}

static void all_parts_come_to_the_latest_step_that_one_can_meet(void **unused)
{
    struct script script;

    (void)unused;
    start_writing_on(&script, "n1,n2,n3");
    expect_no_barrier(&script);
    expect_ok(&script, "report n2 started j1 ckpt=1-1 barrier");
    expect_phase(&script, GATHERING);
    expect_ok(&script, "report n2 barrier j1 ckpt=1-1");
    expect_ok(&script, "report n1 started j1 ckpt=1-1 barrier");
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1");
    expect_phase(&script, GATHERING); /* the third has not been heard of */
    expect_ok(&script, "report n3 started j1 ckpt=1-1 barrier");
    expect_phase(&script, GATHERING);
    orders_changed(&script);
    expect_ok(&script, "report n3 barrier j1 ckpt=1-1");
    expect_phase(&script, STEPPING);
    assert_uint_equal(orders_changed(&script), 3);
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1 step=128");
    expect_ok(&script, "report n3 barrier j1 ckpt=1-1 step=131");
    assert_uint_equal(orders_changed(&script), 0); /* only a phase is told */
    expect_phase(&script, STEPPING);
    expect_ok(&script, "report n2 barrier j1 ckpt=1-1 step=127");
    expect_agreed(&script, 131);
    assert_uint_equal(orders_changed(&script), 3);
    expect_orders(&script, "n1", 0);
    expect_orders(&script, "n2", 1);
    expect_orders(&script, "n3", 2);
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "report n%d shard_verified j1 ckpt=1-1 label=131", i);
    expect_checkpoint(&script, 1, COMPLETE);
    assert_string_equal(checkpoint_of(&script, 1)->label, "131");
    expect_no_barrier(&script);
    script_close(&script);
}

static void a_step_that_is_said_while_others_are_awaited_is_not_taken(void **unused)
{
    struct script script;

    (void)unused;
    start_writing(&script);
    expect_ok(&script, "report n1 started j1 ckpt=1-1 barrier");
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1 step=5");
    assert_true(shard_of(&script, 0)->aware);
    assert_uint_equal(shard_of(&script, 0)->step, 0);
    expect_ok(&script, "report n2 started j1 ckpt=1-1 barrier");
    expect_ok(&script, "report n2 barrier j1 ckpt=1-1");
    expect_phase(&script, STEPPING);
    expect_ok(&script, "report n2 barrier j1 ckpt=1-1 step=9");
    expect_phase(&script, STEPPING);
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1 step=70");
    expect_agreed(&script, 70);
    expect_ok(&script, "report n2 barrier j1 ckpt=1-1 step=99"); /* it is over */
    expect_agreed(&script, 70);
    script_restore(&script);
    expect_agreed(&script, 70);
    script_close(&script);
}

/* The last part's start alone ends the first phase when its ranks take no part. */
static void parts_without_a_barrier_are_awaited_until_they_start(void **unused)
{
    struct script script;

    (void)unused;
    start_writing_on(&script, "n1,n2,n3");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_no_barrier(&script);
    expect_ok(&script, "report n2 started j1 ckpt=1-1 barrier");
    expect_ok(&script, "report n2 barrier j1 ckpt=1-1");
    expect_phase(&script, GATHERING);
    expect_ok(&script, "report n3 started j1 ckpt=1-1");
    expect_phase(&script, STEPPING);
    expect_ok(&script, "report n2 barrier j1 ckpt=1-1 step=3");
    expect_agreed(&script, 3);
    script_close(&script);
}

/* The report of its start may be lost, with an agent's journal. */
static void a_part_that_has_saved_is_not_awaited(void **unused)
{
    struct script script;

    (void)unused;
    start_writing_on(&script, "n1,n2,n3");
    expect_ok(&script, "report n1 started j1 ckpt=1-1 barrier");
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 label=8");
    expect_phase(&script, GATHERING);
    expect_ok(&script, "report n3 started j1 ckpt=1-1 barrier");
    expect_ok(&script, "report n3 barrier j1 ckpt=1-1");
    expect_phase(&script, STEPPING);
    expect_ok(&script, "report n3 barrier j1 ckpt=1-1 step=8");
    expect_phase(&script, STEPPING);
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 label=8");
    expect_agreed(&script, 8);
    script_close(&script);
}

static void agree(struct script *script, uint64_t step)
{
    for (int node = 1; node <= 2; node++)
        expect_ok(script, "report n%d started j1 ckpt=1-1 barrier", node);
    for (int node = 1; node <= 2; node++)
        expect_ok(script, "report n%d barrier j1 ckpt=1-1", node);
    for (int node = 1; node <= 2; node++)
        expect_ok(script, "report n%d barrier j1 ckpt=1-1 step=%d", node, (int)step);
    expect_agreed(script, step);
}

/* When it is asked again its ranks are beyond the step that was agreed. */
static void a_part_that_is_put_off_has_all_meet_at_another_step(void **unused)
{
    struct script script;

    (void)unused;
    for (int put_off = 1; put_off <= 2; put_off++) {
        start_writing(&script);
        agree(&script, 9);
        for (int node = 1; node <= put_off; node++) {
            orders_changed(&script);
            expect_ok(&script, "report n%d deferred j1 ckpt=1-1 deferral=1000", node);
            expect_phase(&script, GATHERING);
            assert_uint_equal(checkpoint_of(&script, 1)->agreed_step, 0);
            assert_false(shard_of(&script, (uint32_t)node - 1)->aware);
            assert_true(node > 1 || orders_changed(&script) > 0);
        }
        expect_ok(&script, "report n2 barrier j1 ckpt=1-1 step=9"); /* on its way, or anew */
        expect_phase(&script, GATHERING);
        script_restore(&script);
        expect_ok(&script, "report n1 barrier j1 ckpt=1-1");
        expect_phase(&script, STEPPING);
        expect_ok(&script, "report n1 barrier j1 ckpt=1-1 step=80");
        expect_phase(&script, STEPPING);
        expect_ok(&script, "report n2 barrier j1 ckpt=1-1 step=78");
        expect_agreed(&script, 80);
        script_close(&script);
    }
}

/* What it has saved is of the step before, so this attempt comes to nothing. */
static void a_part_that_has_saved_when_another_is_put_off_does_not_meet_it(void **unused)
{
    struct script script;

    (void)unused;
    start_writing(&script);
    agree(&script, 9);
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 label=9");
    expect_ok(&script, "report n1 deferred j1 ckpt=1-1 deferral=1000");
    expect_phase(&script, GATHERING);
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1");
    expect_phase(&script, STEPPING);
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1 step=80");
    expect_agreed(&script, 80);
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 label=80");
    expect_checkpoint(&script, 1, REQUESTED);
    assert_int_equal(checkpoint_of(&script, 1)->reason, CKPT__V1__REASON__REASON_STEP_MISMATCH);
    script_close(&script);
}

/* An outage of the destination leaves nothing of it. */
static void a_pause_in_any_phase_begins_it_anew(void **unused)
{
    static const char *const words[] = {"started j1 ckpt=1-1 barrier", "barrier j1 ckpt=1-1",
                                        "barrier j1 ckpt=1-1 step=4"};
    struct script script;

    (void)unused;
    for (size_t phase = 1; phase <= 3; phase++) {
        start_writing(&script);
        for (size_t i = 0; i < phase; i++) {
            expect_ok(&script, "report n1 %s", words[i]);
            expect_ok(&script, "report n2 %s", words[i]);
        }
        assert_int_equal(checkpoint_of(&script, 1)->barrier, phase);
        expect_ok(&script, "target scratch down");
        expect_checkpoint(&script, 1, PAUSED);
        expect_no_barrier(&script);
        expect_ok(&script, "target scratch up");
        expect_ok(&script, "grant 1-1");
        expect_ok(&script, "report n1 barrier j1 ckpt=1-1 step=9"); /* of the attempt before */
        expect_no_barrier(&script);
        expect_ok(&script, "report n1 started j1 ckpt=1-1 attempt=2 barrier");
        expect_phase(&script, GATHERING);
        assert_false(shard_of(&script, 0)->aware);
        script_close(&script);
    }
}

static void parts_that_saved_different_steps_are_no_checkpoint(void **unused)
{
    struct script script;

    (void)unused;
    start_writing(&script);
    expect_ok(&script, "policy attempts=2");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 label=128");
    assert_string_equal(checkpoint_of(&script, 1)->label, "128");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 label=127");
    expect_checkpoint(&script, 1, REQUESTED);
    assert_int_equal(checkpoint_of(&script, 1)->reason, CKPT__V1__REASON__REASON_STEP_MISMATCH);
    assert_string_equal(checkpoint_of(&script, 1)->detail, "part 1 says 128, part 0 (n1) says 127");
    assert_string_equal(checkpoint_of(&script, 1)->label, "");
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 attempt=2 label=140");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 attempt=2 label=141");
    expect_checkpoint(&script, 1, FAILED);
    assert_string_equal(checkpoint_of(&script, 1)->detail, "part 0 says 140, part 1 (n2) says 141");
    assert_int_equal(job_of(&script, "j1")->last_complete_id, 0);
    assert_false(job_of(&script, "j1")->unresponsive);
    script_close(&script);
}

static void a_part_that_names_no_step_differs_from_one_that_does(void **unused)
{
    static const char *const labels[][2] = {{"", "label=127"}, {"label=127", ""}};
    static const char *const details[] = {"part 0 says no step, part 1 (n2) says 127",
                                          "part 0 says 127, part 1 (n2) says no step"};
    struct script script;

    (void)unused;
    for (size_t i = 0; i < 2; i++) {
        start_writing(&script);
        expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 %s", labels[i][0]);
        expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 %s", labels[i][1]);
        expect_checkpoint(&script, 1, REQUESTED);
        assert_string_equal(checkpoint_of(&script, 1)->detail, details[i]);
        script_close(&script);
    }
}

/* A label is any word; a report that repeats itself must say the same one. */
static void one_label_over_all_parts_is_the_checkpoints(void **unused)
{
    static const char *const labels[] = {"127", "epoch:3.batch_9-a", ""};
    struct script script;

    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        start_writing(&script);
        expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 label=%s", labels[i]);
        expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 label=%s", labels[i]);
        expect_checkpoint(&script, 1, WRITING);
        expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 label=%s", labels[i]);
        expect_checkpoint(&script, 1, COMPLETE);
        assert_string_equal(checkpoint_of(&script, 1)->label, labels[i]);
        script_close(&script);
    }
    start_writing(&script);
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 label=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 label=2");
    expect_checkpoint(&script, 1, REQUESTED);
    assert_int_equal(checkpoint_of(&script, 1)->reason, CKPT__V1__REASON__REASON_VERIFY_FAILED);
    script_close(&script);
}

/* Such a report is taken all the same, or its node would be heard no more; the shard is not. */
static void a_shard_without_a_rank_or_with_a_label_that_is_no_word_is_not_verified(void **unused)
{
    struct script script;
    char longer[LABEL_MAX_BYTES + 2] = "";

    (void)unused;
    memset(longer, 'x', LABEL_MAX_BYTES + 1);
    for (int i = 0; i < 3; i++) {
        start_writing(&script);
        if (i == 0)
            expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 ranks=0");
        else
            expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 label=%s",
                      i == 1 ? "a/b" : longer);
        expect_checkpoint(&script, 1, REQUESTED);
        assert_int_equal(checkpoint_of(&script, 1)->reason, CKPT__V1__REASON__REASON_VERIFY_FAILED);
        assert_false(shard_of(&script, 0)->verified);
        script_close(&script);
    }
}

/* A step that a rank has passed already is met by the next attempt; a job that cannot be stopped is
 * not asked again. */
static void a_missed_step_is_tried_again(void **unused)
{
    struct script script;

    (void)unused;
    start_writing(&script);
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=step_missed why=rank-2");
    expect_checkpoint(&script, 1, REQUESTED);
    assert_false(job_of(&script, "j1")->unresponsive);
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 attempt=2 reason=not_frozen");
    expect_checkpoint(&script, 1, FAILED);
    script_close(&script);
}

/* By which a restart on another node is judged. */
static void a_complete_one_knows_what_kind_of_nodes_wrote_it(void **unused)
{
    static const struct {
        const char *other, *machine, *os;
    } cases[] = {{"machine=x86_64 os=debian-12", "x86_64", "debian-12"},
                 {"machine=x86_64 os=rocky-9", "x86_64", ""},
                 {"", "", ""}};
    struct script script;

    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        script_start(&script);
        expect_ok(&script, "node n1 ready boot=a machine=x86_64 os=debian-12");
        expect_ok(&script, "node n2 ready boot=b %s", cases[i].other);
        expect_ok(&script, "register j1 nodes=n1,n2");
        expect_ok(&script, "request j1");
        expect_ok(&script, "grant 1-1");
        expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
        assert_string_equal(checkpoint_of(&script, 1)->machine, "");
        expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1");
        assert_string_equal(checkpoint_of(&script, 1)->machine, cases[i].machine);
        assert_string_equal(checkpoint_of(&script, 1)->os, cases[i].os);
        script_close(&script);
    }
}

static void a_node_says_where_its_ranks_are(void **unused)
{
    struct script script;

    (void)unused;
    start_writing(&script);
    expect_ok(&script, "report n1 started j1 ckpt=1-1 barrier");
    expect_ok(&script, "report n2 started j1 ckpt=1-1");
    assert_true(shard_of(&script, 0)->barrier);
    assert_false(shard_of(&script, 1)->barrier);
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1");
    assert_true(shard_of(&script, 0)->aware);
    assert_uint_equal(shard_of(&script, 0)->step, 0);
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1 step=127");
    assert_uint_equal(shard_of(&script, 0)->step, 127);
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1 step=131"); /* said once */
    assert_uint_equal(shard_of(&script, 0)->step, 127);
    expect_ok(&script, "report n2 barrier j1 ckpt=1-1 step=5"); /* its ranks take no part */
    assert_false(shard_of(&script, 1)->aware);
    assert_uint_equal(shard_of(&script, 1)->step, 0);
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 ranks=4");
    assert_uint_equal(shard_of(&script, 0)->ranks, 4);
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 ranks=300");
    assert_uint_equal(shard_of(&script, 1)->ranks, FSM_RANKS_PER_NODE_MAX);
    expect_checkpoint(&script, 1, COMPLETE);
    script_close(&script);
}

static void the_next_attempt_knows_nothing_of_it(void **unused)
{
    struct script script;

    (void)unused;
    start_writing(&script);
    expect_ok(&script, "report n1 started j1 ckpt=1-1 barrier");
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1 step=127");
    expect_ok(&script, "report n2 checkpoint_failed j1 ckpt=1-1 reason=write_failed");
    expect_checkpoint(&script, 1, REQUESTED);
    assert_false(shard_of(&script, 0)->barrier || shard_of(&script, 0)->aware);
    assert_uint_equal(shard_of(&script, 0)->step, 0);
    expect_ok(&script, "report n1 stopped_writing j1 ckpt=1-1");
    expect_ok(&script, "report n2 stopped_writing j1 ckpt=1-1");
    script_run(&script, "after 60000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 barrier j1 ckpt=1-1 attempt=1 step=9"); /* of the one before */
    assert_uint_equal(shard_of(&script, 0)->step, 0);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_parts_come_to_the_latest_step_that_one_can_meet),
        cmocka_unit_test(a_step_that_is_said_while_others_are_awaited_is_not_taken),
        cmocka_unit_test(parts_without_a_barrier_are_awaited_until_they_start),
        cmocka_unit_test(a_part_that_has_saved_is_not_awaited),
        cmocka_unit_test(a_part_that_is_put_off_has_all_meet_at_another_step),
        cmocka_unit_test(a_part_that_has_saved_when_another_is_put_off_does_not_meet_it),
        cmocka_unit_test(a_pause_in_any_phase_begins_it_anew),
        cmocka_unit_test(parts_that_saved_different_steps_are_no_checkpoint),
        cmocka_unit_test(a_part_that_names_no_step_differs_from_one_that_does),
        cmocka_unit_test(one_label_over_all_parts_is_the_checkpoints),
        cmocka_unit_test(a_shard_without_a_rank_or_with_a_label_that_is_no_word_is_not_verified),
        cmocka_unit_test(a_missed_step_is_tried_again),
        cmocka_unit_test(a_complete_one_knows_what_kind_of_nodes_wrote_it),
        cmocka_unit_test(a_node_says_where_its_ranks_are),
        cmocka_unit_test(the_next_attempt_knows_nothing_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
