/* Scale-down: a checkpoint of the old nodes first, then the nodes leave (S1-081, R-002, R-003). */
#include "tests/unit/fsm/expect.h"

/* Three nodes, and an update that leaves n3 out. */
static void start(struct script *script)
{
    script_start(script);
    expect_ok(script, "register j1 nodes=n1,n2,n3 gpus=4 min=1");
    expect_ok(script, "after 10000");
    expect_ok(script, "update j1 nodes=n1,n2 gpus=4");
}

static void verify_all(struct script *script)
{
    for (int i = 1; i <= 3; i++)
        expect_ok(script, "report n%d shard_verified j1 ckpt=1-1", i);
}

static void save_all(struct script *script)
{
    expect_ok(script, "grant 1-1");
    verify_all(script);
}

/* A checkpoint of all three is complete, and n2 and n3 are to leave. */
static void start_leaving(struct script *script)
{
    script_start(script);
    expect_ok(script, "register j1 nodes=n1,n2,n3 gpus=4");
    expect_ok(script, "update j1 nodes=n1 gpus=4");
    save_all(script);
}

static void expect_runs_on(struct script *script, int node_count)
{
    assert_int_equal(job_of(script, "j1")->node_count, node_count);
    expect_job(script, "j1", RUNNING);
}

/* n3 is told to end its part of j1. */
static void expect_ends_on_n3(struct script *script)
{
    struct fsm_order order;

    assert_int_equal(orders_of(script, "n3", &order), 1);
    assert_int_equal(order.kind, FSM_ORDER_TERMINATE);
}

/* S1-081: the answer says which checkpoint, and that one is of all three nodes */
static void a_node_leaves_when_the_old_set_is_saved_and_its_part_has_ended(void **unused)
{
    struct script script;
    struct fsm_order order;

    (void)unused;
    start(&script);
    assert_true(script.outcome.checkpoint_id == checkpoint_of(&script, 1)->id);
    assert_int_equal(checkpoint_of(&script, 1)->purpose, CKPT__V1__PURPOSE__PURPOSE_SCALE_DOWN);
    assert_int_equal(checkpoint_of(&script, 1)->shard_count, 3);
    assert_int_equal(job_of(&script, "j1")->node_count, 3);
    save_all(&script);
    expect_runs_on(&script, 3);
    expect_ends_on_n3(&script);
    assert_int_equal(orders_of(&script, "n1", &order), 0);
    expect_status(&script, CHECKPOINTING, "request j1"); /* of which nodes? */
    expect_ok(&script, "report n3 terminated j1");
    assert_int_equal(job_of(&script, "j1")->node_count, 2);
    assert_int_equal(job_of(&script, "j1")->gpu_count, 8);
    assert_int_equal(fsm_node_find(script.fsm, "n3")->allocation_count, 0);
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "request j1");
    assert_int_equal(checkpoint_of(&script, 2)->shard_count, 2);
    script_close(&script);
}

static void a_silent_node_counts_as_gone_after_the_grace(void **unused)
{
    struct script script;

    (void)unused;
    start(&script);
    save_all(&script);
    expect_ok(&script, "at %" PRIu64, fsm_next_deadline_ms(script.fsm));
    expect_ok(&script, "tick");
    expect_runs_on(&script, 2);
    script_close(&script);
}

/* F-007 does not hold for a node that was leaving */
static void a_leaving_node_that_dies_has_left(void **unused)
{
    struct script script;

    (void)unused;
    start(&script);
    save_all(&script);
    expect_ok(&script, "node n3 down");
    expect_runs_on(&script, 2);
    script_close(&script);
}

/* I30 */
static void what_begins_again_on_a_leaving_node_is_ended_first(void **unused)
{
    struct script script;

    (void)unused;
    start_leaving(&script);
    expect_ok(&script, "report n3 terminated j1");
    expect_ok(&script, "report n3 application_started j1");
    expect_ends_on_n3(&script);
    expect_ok(&script, "report n2 terminated j1");
    expect_ok(&script, "report n3 application_exited j1 status=9 restart");
    assert_int_equal(job_of(&script, "j1")->node_count, 3);
    expect_ok(&script, "report n3 terminated j1");
    expect_runs_on(&script, 1);
    script_close(&script);
}

/* I30 */
static void a_leaving_node_that_was_only_silent_is_ended_first(void **unused)
{
    struct script script;

    (void)unused;
    start_leaving(&script);
    expect_ok(&script, "node n3 down");
    expect_ok(&script, "node n3 ready");
    expect_ends_on_n3(&script);
    expect_ok(&script, "report n2 terminated j1");
    assert_int_equal(job_of(&script, "j1")->node_count, 3);
    expect_ok(&script, "report n3 terminated j1");
    expect_runs_on(&script, 1);
    script_close(&script);
}

static void a_failed_checkpoint_lets_the_node_leave_and_counts_the_loss(void **unused)
{
    struct script script;
    struct fsm_account account;

    (void)unused;
    start(&script);
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    expect_checkpoint(&script, 1, TIMED_OUT);
    expect_ok(&script, "report n3 terminated j1");
    expect_runs_on(&script, 2);
    fsm_allocation_account(script.fsm, job_of(&script, "j1"), 0, &account);
    assert_true(account.lost_gpu_ms[FSM_LOSS_STOP] == 70000 * 4); /* a third of 70 s of 12 GPUs */
    assert_true(account.pending_gpu_ms == 70000 * 8);
    script_close(&script);
}

static void the_same_update_again_names_the_same_checkpoint_another_is_refused(void **unused)
{
    struct script script;

    (void)unused;
    start(&script);
    expect_ok(&script, "update j1 nodes=n1,n2 gpus=4");
    assert_true(script.outcome.checkpoint_id == checkpoint_of(&script, 1)->id);
    expect_status(&script, CHECKPOINTING, "update j1 nodes=n1 gpus=4");
    expect_status(&script, CHECKPOINTING, "update j1 nodes=n1,n2,n3,n4 gpus=4");
    expect_ok(&script, "update j1 walltime=900000"); /* not about nodes */
    assert_int_equal(job_of(&script, "j1")->node_count, 3);
    script_close(&script);
}

static void force_takes_the_node_at_once(void **unused)
{
    struct script script;

    (void)unused;
    start(&script);
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "update j1 nodes=n1 gpus=4 force");
    assert_int_equal(job_of(&script, "j1")->node_count, 1);
    expect_checkpoint(&script, 1, CANCELLED);
    expect_job(&script, "j1", RUNNING);
    script_close(&script);
}

/* j1 was checkpointed and stopped on n1, and runs again on n2. */
static void start_moved(struct script *script)
{
    script_start(script);
    expect_ok(script, "register j1 nodes=n1 gpus=4");
    expect_ok(script, "request j1 after=stop");
    expect_ok(script, "grant 1-1");
    expect_ok(script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(script, "report n1 terminated j1");
    expect_ok(script, "restart j1 nodes=n2 gpus=4");
    expect_ok(script, "report n2 application_started j1 restored=1-1");
}

static struct fsm_part part_of(const struct script *script, const char *node_id)
{
    struct fsm_part part;

    assert_true(fsm_part_on(script->fsm, job_of(script, "j1"),
                            fsm_node_find(script->fsm, node_id)->slot, &part));
    return part;
}

/* A moved job of one node runs from the only shard there is; the node that wrote it joins as any
 * other does, and restores nothing (I45). */
static void the_node_that_a_job_moved_away_from_joins_and_restores_nothing(void **unused)
{
    struct script script;

    (void)unused;
    start_moved(&script);
    expect_ok(&script, "update j1 nodes=n2,n1 gpus=4");
    script_restore(&script);
    assert_true(part_of(&script, "n1").joined);
    expect_begin(part_of(&script, "n1"), MAY);
    assert_false(part_of(&script, "n2").joined);
    expect_ok(&script, "report n1 application_started j1");
    assert_false(job_of(&script, "j1")->terminating);
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-2");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-2");
    assert_false(part_of(&script, "n1").joined);
    assert_true(part_of(&script, "n1").restored);
    script_close(&script);
}

/* Each has the place of what it wrote, whoever came and went before the start (I45, found by the
 * simulator). */
static void nodes_that_change_before_the_start_have_the_places_of_their_shards(void **unused)
{
    struct script script;
    uint64_t run;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 gpus=4");
    expect_ok(&script, "request j1 after=stop");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "report n2 terminated j1");
    expect_ok(&script, "restart j1 nodes=n1,n2 gpus=4");
    expect_ok(&script, "report n2 restored j1 restored=1-1");
    run = part_of(&script, "n2").run;
    expect_ok(&script, "update j1 nodes=n2 gpus=4 force");
    assert_uint_equal(part_of(&script, "n2").place, 0);
    expect_ok(&script, "update j1 nodes=n2,n3 gpus=4");
    assert_uint_equal(part_of(&script, "n2").place, 1);
    assert_uint_equal(part_of(&script, "n3").place, 0);
    assert_false(part_of(&script, "n3").joined || part_of(&script, "n2").restored);
    assert_true(part_of(&script, "n2").run > run); /* it says again what it has */
    script_restore(&script);
    script_close(&script);
}

/* Its checkpoint has one part, and the place of the second is none of it. */
static void a_node_that_comes_before_the_start_joins_where_no_part_is_for_it(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 gpus=4");
    expect_ok(&script, "request j1 after=stop");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "restart j1 nodes=n2 gpus=4");
    expect_ok(&script, "update j1 nodes=n2,n3 gpus=4");
    assert_true(part_of(&script, "n3").joined);
    expect_begin(part_of(&script, "n2"), RESTORING);
    expect_ok(&script,
              "report n2 application_started j1 restored=1-1"); /* told when it was alone */
    assert_false(job_of(&script, "j1")->terminating);
    assert_true(part_of(&script, "n2").restored);
    expect_begin(part_of(&script, "n3"), MAY);
    expect_begin(part_of(&script, "n2"), RUNS); /* it runs */
    script_close(&script);
}

/* The first part ended before the new one begins, or is told to. */
static void a_moved_job_goes_back_as_a_whole(void **unused)
{
    struct script script;

    (void)unused;
    start_moved(&script);
    expect_ok(&script, "update j1 nodes=n1 gpus=4 force");
    expect_ok(&script, "update j1 nodes=n1,n2 gpus=4"); /* n1 has its own shard */
    script_close(&script);
}

/* I47: a shard's folder has the name of its part, and what an attempt of the old nodes left behind
 * may still be at work there. */
static void an_attempt_of_other_nodes_is_not_repeated_under_its_id(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 gpus=4");
    expect_ok(&script, "request j1");
    expect_ok(&script, "update j1 nodes=n1,n2,n3 gpus=4 force"); /* no attempt was made yet */
    assert_int_equal(job_of(&script, "j1")->active_checkpoint_id, checkpoint_id_make(1, 1));
    assert_int_equal(checkpoint_of(&script, 1)->shard_count, 3);
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n2 checkpoint_failed j1 ckpt=1-1 reason=write_failed");
    expect_checkpoint(&script, 1, REQUESTED);
    expect_ok(&script, "update j1 nodes=n1,n2,n3 gpus=8 force"); /* the same nodes */
    expect_checkpoint(&script, 1, REQUESTED);
    expect_ok(&script, "update j1 nodes=n1,n3 gpus=8 force");
    expect_checkpoint(&script, 1, SUPERSEDED);
    assert_int_equal(checkpoint_of(&script, 1)->reason, CKPT__V1__REASON__REASON_REPLACED);
    assert_int_equal(job_of(&script, "j1")->active_checkpoint_id, checkpoint_id_make(1, 2));
    expect_checkpoint(&script, 2, REQUESTED);
    assert_int_equal(checkpoint_of(&script, 2)->shard_count, 2);
    assert_int_equal(checkpoint_of(&script, 2)->purpose, checkpoint_of(&script, 1)->purpose);
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-2");
    expect_ok(&script, "report n3 shard_verified j1 ckpt=1-2");
    expect_checkpoint(&script, 2, COMPLETE);
    script_close(&script);
}

static void cancelling_its_checkpoint_undoes_the_scale_down(void **unused)
{
    struct script script;

    (void)unused;
    start(&script);
    expect_ok(&script, "cancel 1-1");
    assert_int_equal(job_of(&script, "j1")->next_count, 0);
    assert_int_equal(job_of(&script, "j1")->node_count, 3);
    script_close(&script);
}

/* The application is asked once: what it writes already counts */
static void an_active_checkpoint_serves_the_scale_down(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2,n3 gpus=4");
    expect_ok(&script, "decide j1 purpose=periodic");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "update j1 nodes=n1,n2 gpus=4");
    assert_true(script.outcome.checkpoint_id == checkpoint_of(&script, 1)->id);
    verify_all(&script);
    expect_ok(&script, "report n3 terminated j1");
    assert_int_equal(job_of(&script, "j1")->node_count, 2);
    script_close(&script);
}

/* S1-062, S1-064: paused, and resumed with the nodes that were to leave */
static void an_outage_pauses_the_scale_down(void **unused)
{
    struct script script;

    (void)unused;
    start(&script);
    expect_ok(&script, "target scratch down");
    expect_checkpoint(&script, 1, PAUSED);
    expect_ok(&script, "target scratch up");
    save_all(&script);
    expect_ok(&script, "report n3 terminated j1");
    assert_int_equal(job_of(&script, "j1")->node_count, 2);
    script_close(&script);
}

/* */
static void a_preemption_wins_over_a_scale_down(void **unused)
{
    struct script script;

    (void)unused;
    start(&script);
    expect_ok(&script, "preempt class=9 need=3");
    expect_job(&script, "j1", CHECKPOINTING_TO_STOP);
    assert_int_equal(job_of(&script, "j1")->next_count, 0);
    assert_true(script.outcome.victims[0].checkpoint_id == checkpoint_of(&script, 1)->id);
    script_close(&script);
}

/* S1-090: the walltime ends it, whatever else was going on */
static void the_walltime_wins_over_a_scale_down(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 walltime=60000");
    expect_ok(&script, "update j1 nodes=n1");
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    assert_true(job_of(&script, "j1")->terminating);
    assert_int_equal(job_of(&script, "j1")->next_count, 0);
    script_close(&script);
}

/* what is leaving already is not asked for twice */
static void a_reclaim_of_what_leaves_waits_for_the_same_checkpoint(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2,n3 gpus=4 min=1 borrowed");
    expect_ok(&script, "update j1 nodes=n1,n2 gpus=4 borrowed");
    expect_ok(&script, "preempt reason=reclaim useful=n3 nodes=j1");
    assert_true(script.outcome.victims[0].checkpoint_id == checkpoint_of(&script, 1)->id);
    expect_status(&script, CHECKPOINTING, "preempt reason=reclaim useful=n3 nodes=j1");
    save_all(&script);
    expect_ok(&script, "report n3 terminated j1");
    assert_int_equal(fsm_preemption_next(script.fsm, 0)->state,
                     CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED);
    script_close(&script);
}

/* A reclaim of n3, which is to leave j1, in an outage: the checkpoint that was to be first is
 * paused. */
static void start_forced(struct script *script)
{
    script_start(script);
    expect_ok(script, "register j1 nodes=n1,n2,n3 gpus=4 min=1 borrowed");
    expect_ok(script, "update j1 nodes=n1,n2 gpus=4 borrowed");
    expect_ok(script, "target scratch down");
    expect_status(script, STORAGE_UNAVAILABLE, "preempt reason=reclaim useful=n3 nodes=j1");
    assert_false(job_of(script, "j1")->leaving);
    expect_ok(script, "preempt reason=reclaim useful=n3 nodes=j1 forced");
}

/* S1-066, I35; found by the simulator (seed 50001574): it waited for the end of the outage, or its
 * own deadline. */
static void a_forced_reclaim_does_not_wait_for_a_paused_scale_down(void **unused)
{
    struct script script;

    (void)unused;
    start_forced(&script);
    assert_true(job_of(&script, "j1")->leaving);
    assert_true(script.outcome.victims[0].checkpoint_id == 0);
    expect_ends_on_n3(&script);
    expect_checkpoint(&script, 1, PAUSED); /* I24 */
    expect_ok(&script, "report n3 terminated j1");
    assert_int_equal(fsm_preemption_next(script.fsm, 0)->state,
                     CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED);
    expect_runs_on(&script, 2);
    expect_ok(&script, "target scratch up");
    expect_ok(&script, "grant 1-1");
    assert_int_equal(checkpoint_of(&script, 1)->shard_count, 2);
    script_close(&script);
}

/* S1-066, I35: of a job that shrinks for another request as well, which was not forced and waits
 * for the end of the outage; like one that waits to stop */
static void a_forced_reclaim_does_not_wait_for_another_ones_paused_victim(void **unused)
{
    static const char ask[] = "preempt reason=reclaim useful=n3 nodes=j1";
    const struct fsm_preemption *first, *second;
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2,n3 gpus=4 min=1 borrowed");
    expect_ok(&script, ask);
    expect_status(&script, CHECKPOINTING, "%s forced", ask); /* what it waits for is on its way */
    expect_ok(&script, "target scratch down");
    expect_status(&script, CHECKPOINTING, ask);
    expect_ok(&script, "%s forced", ask);
    assert_true(job_of(&script, "j1")->leaving);
    expect_checkpoint(&script, 1, PAUSED); /* I24 */
    expect_ok(&script, "tick");
    expect_ok(&script, "report n3 terminated j1");
    first = fsm_preemption_next(script.fsm, 0);
    second = fsm_preemption_next(script.fsm, first->id);
    assert_int_equal(first->state, CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_EXPIRED);
    assert_int_equal(second->state, CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED);
    expect_runs_on(&script, 2);
    script_close(&script);
}

/* Forced at the deadline, in an outage that ends while n3 is leaving: of which nodes would the
 * checkpoint be? */
static void what_was_paused_is_granted_when_the_nodes_have_left(void **unused)
{
    struct script script;
    uint64_t id;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2,n3 gpus=4 min=1 borrowed grace=1000");
    expect_ok(&script, "preempt reason=reclaim useful=n3 nodes=j1 forced");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "at %" PRIu64, fsm_preemption_next(script.fsm, 0)->deadline_ms);
    expect_ok(&script, "tick");
    assert_true(job_of(&script, "j1")->leaving);
    expect_ok(&script, "target scratch up");
    assert_int_equal(fsm_grantable(script.fsm, &id, 1), 0);
    expect_status(&script, CHECKPOINT_ACTIVE, "grant 1-1");
    expect_ok(&script, "report n3 terminated j1");
    assert_int_equal(job_of(&script, "j1")->node_count, 2);
    assert_int_equal(fsm_grantable(script.fsm, &id, 1), 1);
    expect_ok(&script, "grant 1-1");
    script_close(&script);
}

/* Nothing is waited for of a job that does not answer, or hangs. Its checkpoint that is being
 * written is of nodes that it loses; found by the simulator (seed 576): members ended at it. */
static void what_is_written_of_a_job_that_does_not_answer_ends_when_it_shrinks(void **unused)
{
    struct script script;

    (void)unused;
    for (int hangs = 0; hangs < 2; hangs++) {
        script_start(&script);
        for (int i = 1; i <= 3; i++)
            expect_ok(&script, "node n%d ready boot=b%d", i, i);
        expect_ok(&script, "register j1 nodes=n1,n2,n3 gpus=4 min=1 borrowed");
        expect_ok(&script, "after 900000");
        if (hangs) {
            expect_ok(&script, "hang j1 quiet=300000 gap=1000");
        } else {
            expect_ok(&script, "request j1");
            expect_ok(&script, "grant 1-1 timeout=60000");
            expect_ok(&script, "after 60000");
            expect_ok(&script, "tick");
            assert_true(job_of(&script, "j1")->unresponsive);
        }
        expect_ok(&script, "update j1 nodes=n1,n2 gpus=4 borrowed");
        expect_ok(&script, "grant 1-%d", hangs ? 1 : 2);
        expect_ok(&script, "preempt reason=reclaim useful=n3 nodes=j1");
        assert_true(job_of(&script, "j1")->leaving);
        assert_true(script.outcome.victims[0].checkpoint_id == 0);
        expect_checkpoint(&script, hangs ? 1 : 2, CANCELLED);
        script_restore(&script);
        expect_ok(&script, "report n3 terminated j1");
        assert_int_equal(fsm_preemption_next(script.fsm, 0)->state,
                         CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED);
        expect_runs_on(&script, 2);
        expect_ok(&script, "request j1"); /* of what it has now */
        expect_ok(&script, "grant 1-%d", hangs ? 2 : 3);
        assert_int_equal(checkpoint_of(&script, hangs ? 2 : 3)->shard_count, 2);
        script_close(&script);
    }
}

/* It takes its time until the set changes: what was to join may be out of use by then. */
static void a_node_that_is_out_of_use_by_then_does_not_join(void **unused)
{
    static const char *const ends[] = {"drain n4 disable", "node n4 down"};
    struct script script;

    (void)unused;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        for (int all = 0; all < 2; all++) { /* all: nothing of the set is left */
            script_start(&script);
            for (int node = 1; node <= 4; node++)
                expect_ok(&script, "node n%d ready boot=b", node);
            expect_ok(&script, "register j1 nodes=n1,n3 gpus=4 requeue=always");
            expect_ok(&script, "after 10000");
            expect_ok(&script, "update j1 nodes=%sn4 gpus=4", all ? "" : "n1,");
            expect_ok(&script, ends[i]);
            expect_ok(&script, "grant 1-1");
            expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
            expect_ok(&script, "report n3 shard_verified j1 ckpt=1-1");
            expect_ok(&script, "report n3 terminated j1");
            if (all)
                expect_ok(&script, "report n1 terminated j1");
            script_restore(&script);
            if (!all)
                expect_runs_on(&script, 1);
            else
                assert_true(job_of(&script, "j1")->terminating ||
                            job_of(&script, "j1")->restart_at_ms != 0);
            script_close(&script);
        }
}

/* F-021: the parts that stay are remembered as ended */
static void parts_that_ended_are_remembered(void **unused)
{
    struct script script;

    (void)unused;
    start(&script);
    expect_ok(&script, "report n1 application_exited j1");
    expect_ok(&script, "cancel 1-1");
    expect_ok(&script, "update j1 nodes=n1,n2 gpus=4 force");
    expect_ok(&script, "report n2 application_exited j1");
    expect_job(&script, "j1", COMPLETED);
    script_close(&script);
}

/* F-021; found by the simulator (seed 502065): nobody was left to report anything. */
static void what_stays_may_have_ended_while_the_others_left(void **unused)
{
    struct script script;

    (void)unused;
    start(&script);
    save_all(&script);
    expect_ok(&script, "report n1 application_exited j1");
    expect_ok(&script, "report n2 application_exited j1");
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "report n3 terminated j1");
    expect_job(&script, "j1", COMPLETED);
    script_close(&script);
}

static void what_stays_may_have_ended_before_the_others_leave_at_once(void **unused)
{
    struct script script;

    (void)unused;
    start(&script);
    expect_ok(&script, "report n1 application_exited j1");
    expect_ok(&script, "report n2 application_exited j1");
    expect_ok(&script, "cancel 1-1");
    expect_ok(&script, "update j1 nodes=n1,n2 gpus=4 force");
    expect_job(&script, "j1", COMPLETED);
    script_close(&script);
}

static void a_walltime_and_a_period_can_be_taken_back(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 walltime=60000 period=5000");
    expect_ok(&script, "update j1 zeros=%d", 1 << 4);
    assert_int_equal(job_of(&script, "j1")->walltime_ms, 0);
    assert_int_equal(job_of(&script, "j1")->period_ms, 5000);
    expect_ok(&script, "update j1 zeros=%d", 1 << 5);
    assert_int_equal(job_of(&script, "j1")->period_ms, 0);
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    expect_job(&script, "j1", RUNNING);
    expect_status(&script, INVALID_ARGUMENT, "update j1 zeros=%d", 1 << 6);
    script_close(&script);
}

static size_t named_on(const struct script *script, const char *node_id, uint64_t *ret_run)
{
    struct fsm_part parts[4];
    size_t count =
        fsm_parts_on_node(script->fsm, fsm_node_find(script->fsm, node_id)->slot, parts, 4);

    *ret_run = count > 0 ? parts[0].run : 0;
    return count;
}

/* F-006, F-022: an agent ends what is not named for its node. */
static void a_part_may_run_from_its_begin_until_it_has_ended(void **unused)
{
    struct script script;
    uint64_t run, first;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 requeue=always starting");
    assert_int_equal(named_on(&script, "n1", &first), 1);
    assert_int_equal(first, job_of(&script, "j1")->nodes[0].run);
    expect_ok(&script, "report n1 application_exited j1 status=9"); /* all are told to end */
    assert_true(job_of(&script, "j1")->terminating);
    assert_int_equal(named_on(&script, "n1", &run), 0);
    assert_int_equal(named_on(&script, "n2", &run), 1);
    assert_int_equal(run, first);
    expect_ok(&script, "report n1 application_started j1"); /* its ckpt-run was not told yet */
    assert_int_equal(named_on(&script, "n1", &run), 1);
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "report n2 terminated j1");
    expect_job(&script, "j1", REQUEUED);
    assert_int_equal(named_on(&script, "n1", &run), 0);
    assert_int_equal(named_on(&script, "n2", &run), 0);
    expect_ok(&script, "restart j1 from_scratch");
    script_restore(&script);
    assert_int_equal(named_on(&script, "n1", &run), 1);
    assert_true(run > first);
    expect_ok(&script, "update j1 nodes=n2 force");
    assert_int_equal(named_on(&script, "n1", &run), 0);
    assert_int_equal(named_on(&script, "n2", &run), 1);
    script_close(&script);
}

/* what was stopped or shrunk does not grow at once; others have no such rule. */
static void a_reactive_job_that_shrank_does_not_grow_at_once(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 min=1 max=4 requeue=always");
    expect_ok(&script, "update j1 nodes=n1,n2,n3"); /* nothing has happened to it yet */
    expect_ok(&script, "update j1 nodes=n1 force");
    expect_ok(&script, "after 1000");
    expect_status(&script, SCALE_COOLDOWN, "update j1 nodes=n1,n2");
    assert_uint_equal(script.outcome.current, 1000);
    assert_uint_equal(script.outcome.limit, 300000);
    expect_ok(&script, "update j1 nodes=n3 force"); /* as many as before */
    script_restore(&script);
    expect_ok(&script, "after 298999");
    expect_status(&script, SCALE_COOLDOWN, "update j1 nodes=n3,n2");
    expect_ok(&script, "after 1");
    expect_ok(&script, "update j1 nodes=n3,n2");
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 from_scratch");
    assert_int_equal(job_of(&script, "j1")->node_count, 1); /* its minimum */
    expect_status(&script, SCALE_COOLDOWN, "update j1 nodes=n3,n2");
    expect_ok(&script, "register j2 nodes=n5,n6");
    expect_ok(&script, "update j2 nodes=n5 force");
    expect_ok(&script, "update j2 nodes=n5,n6");
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reactive_job_that_shrank_does_not_grow_at_once),
        cmocka_unit_test(a_walltime_and_a_period_can_be_taken_back),
        cmocka_unit_test(a_part_may_run_from_its_begin_until_it_has_ended),
        cmocka_unit_test(a_node_leaves_when_the_old_set_is_saved_and_its_part_has_ended),
        cmocka_unit_test(a_silent_node_counts_as_gone_after_the_grace),
        cmocka_unit_test(a_leaving_node_that_dies_has_left),
        cmocka_unit_test(what_begins_again_on_a_leaving_node_is_ended_first),
        cmocka_unit_test(a_leaving_node_that_was_only_silent_is_ended_first),
        cmocka_unit_test(a_failed_checkpoint_lets_the_node_leave_and_counts_the_loss),
        cmocka_unit_test(the_same_update_again_names_the_same_checkpoint_another_is_refused),
        cmocka_unit_test(force_takes_the_node_at_once),
        cmocka_unit_test(the_node_that_a_job_moved_away_from_joins_and_restores_nothing),
        cmocka_unit_test(nodes_that_change_before_the_start_have_the_places_of_their_shards),
        cmocka_unit_test(a_node_that_comes_before_the_start_joins_where_no_part_is_for_it),
        cmocka_unit_test(a_moved_job_goes_back_as_a_whole),
        cmocka_unit_test(an_attempt_of_other_nodes_is_not_repeated_under_its_id),
        cmocka_unit_test(cancelling_its_checkpoint_undoes_the_scale_down),
        cmocka_unit_test(an_active_checkpoint_serves_the_scale_down),
        cmocka_unit_test(an_outage_pauses_the_scale_down),
        cmocka_unit_test(a_preemption_wins_over_a_scale_down),
        cmocka_unit_test(the_walltime_wins_over_a_scale_down),
        cmocka_unit_test(a_reclaim_of_what_leaves_waits_for_the_same_checkpoint),
        cmocka_unit_test(a_forced_reclaim_does_not_wait_for_a_paused_scale_down),
        cmocka_unit_test(a_forced_reclaim_does_not_wait_for_another_ones_paused_victim),
        cmocka_unit_test(what_was_paused_is_granted_when_the_nodes_have_left),
        cmocka_unit_test(a_node_that_is_out_of_use_by_then_does_not_join),
        cmocka_unit_test(what_is_written_of_a_job_that_does_not_answer_ends_when_it_shrinks),
        cmocka_unit_test(parts_that_ended_are_remembered),
        cmocka_unit_test(what_stays_may_have_ended_while_the_others_left),
        cmocka_unit_test(what_stays_may_have_ended_before_the_others_leave_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
