/* Checkpoints from the request to the end: attempts, deadlines, pauses, what follows. */
#include "tests/unit/fsm/expect.h"

static void stop_after(struct script *script, const char *after)
{
    expect_ok(script, "register j1 nodes=n1");
    expect_ok(script, "request j1 after=%s", after);
    expect_job(script, "j1", CHECKPOINTING_TO_STOP);
    expect_ok(script, "grant 1-1 timeout=60000");
    expect_ok(script, "report n1 shard_verified j1 ckpt=1-1");
    expect_checkpoint(script, 1, COMPLETE);
    expect_job(script, "j1", CHECKPOINTING_TO_STOP);
    assert_true(job_of(script, "j1")->terminating);
    expect_ok(script, "report n1 terminated j1");
}

/* S3-016, P-024 */
static void stop_suspends_once_the_nodes_are_done(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    stop_after(&script, "stop");
    expect_job(&script, "j1", SUSPENDED);
    assert_int_equal(fsm_node_find(script.fsm, "n1")->allocation_count, 0);
    script_close(&script);
}

/* S3-015 */
static void kill_completes_the_allocation(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    stop_after(&script, "kill");
    expect_job(&script, "j1", COMPLETED);
    script_close(&script);
}

/* S3-056, S1-022 */
static void migrate_requeues_without_counting_a_failure(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    stop_after(&script, "migrate");
    expect_job(&script, "j1", REQUEUED);
    expect_reason(&script, "j1", "migrated");
    assert_int_equal(job_of(&script, "j1")->requeue_count, 0);
    script_close(&script);
}

/* S1-022, F-008: between the decision and now the spare may have gone, and some jobs are not moved
 * without asking */
static void a_decided_move_needs_its_spare_still(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "register other nodes=n2");
    expect_ok(&script, "register never nodes=n4 requeue=never");
    expect_ok(&script, "register secret nodes=n5 sensitive");
    expect_ok(&script, "node n2 ready");
    expect_ok(&script, "node n3 ready");
    expect_ok(&script, "node n3 down");
    expect_ok(&script, "node n6 ready");
    expect_ok(&script, "decide j1 purpose=migrate");
    expect_ok(&script, "decide j1 purpose=migrate spare=nowhere");
    expect_ok(&script, "decide j1 purpose=migrate spare=n2"); /* taken meanwhile */
    expect_ok(&script, "decide j1 purpose=migrate spare=n3");
    expect_ok(&script, "decide never secret purpose=migrate spare=n6");
    assert_true(summary_of(&script).skipped_decisions == 6);
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "decide j1 purpose=migrate spare=n6");
    expect_job(&script, "j1", CHECKPOINTING_TO_STOP);
    assert_int_equal(checkpoint_of(&script, 1)->after,
                     CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_MIGRATE);
    script_close(&script);
}

/* S1-022: a move whose checkpoint failed for good is not begun again before the minimal interval
 * has passed; nor one that was cancelled. */
static void a_move_that_failed_is_not_begun_again_at_once(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "node n6 ready");
    expect_ok(&script, "decide j1 purpose=migrate spare=n6");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=no_handler");
    expect_checkpoint(&script, 1, FAILED);
    expect_job(&script, "j1", RUNNING);
    assert_true(fsm_move_too_soon(script.fsm, job_of(&script, "j1")));
    expect_ok(&script, "decide j1 purpose=migrate spare=n6");
    assert_int_equal(summary_of(&script).skipped_decisions, 1);
    expect_ok(&script, "after %" PRIu64, fsm_policy(script.fsm)->min_interval_ms);
    expect_ok(&script, "decide j1 purpose=migrate spare=n6");
    expect_ok(&script, "cancel 1-2");
    expect_ok(&script, "decide j1 purpose=migrate spare=n6");
    assert_int_equal(summary_of(&script).skipped_decisions, 2);
    expect_ok(&script, "migrate j1"); /* by request: at once */
    expect_job(&script, "j1", CHECKPOINTING_TO_STOP);
    script_close(&script);
}

/* S1-094: the checkpoint that waits for its turn becomes the walltime's, once; its attempt's
 * back-off too ends there. */
static void the_last_safe_slot_hurries_a_checkpoint_that_waits(void **unused)
{
    struct script script;
    uint64_t first, best;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 walltime=3600000");
    expect_ok(&script, "register j2 nodes=n2");
    expect_ok(&script, "decide j1 j2 priority=5");
    assert_int_equal(checkpoint_of(&script, 1)->priority_gpu_ms_per_gb, 5);
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 attempt=1 reason=write_failed");
    assert_true(checkpoint_of(&script, 1)->retry_at_ms > script.now_ms);
    expect_ok(&script, "decide j1 purpose=walltime priority=7");
    assert_int_equal(summary_of(&script).skipped_decisions, 0);
    first = checkpoint_of(&script, 1)->id;
    assert_int_equal(job_of(&script, "j1")->active_checkpoint_id, first);
    assert_true(job_of(&script, "j1")->walltime_asked);
    assert_int_equal(checkpoint_of(&script, 1)->purpose, CKPT__V1__PURPOSE__PURPOSE_WALLTIME);
    assert_true(checkpoint_of(&script, 1)->priority_gpu_ms_per_gb == UINT64_MAX);
    assert_int_equal(checkpoint_of(&script, 1)->retry_at_ms, 0);
    assert_int_equal(fsm_grantable(script.fsm, &best, 1), 1);
    assert_int_equal(best, first);
    expect_ok(&script, "decide j1 purpose=walltime");  /* asked already */
    expect_ok(&script, "decide j2 purpose=proactive"); /* no deadline */
    expect_ok(&script, "grant 1-2 timeout=60000");
    expect_ok(&script, "decide j2 purpose=walltime"); /* it writes: that is enough */
    assert_int_equal(summary_of(&script).skipped_decisions, 3);
    assert_false(job_of(&script, "j2")->walltime_asked);
    assert_int_equal(checkpoint_of(&script, 2)->purpose, CKPT__V1__PURPOSE__PURPOSE_PERIODIC);
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 attempt=2");
    expect_checkpoint(&script, 1, COMPLETE);
    expect_job(&script, "j1", RUNNING);
    script_close(&script);
}

/* S1-094: the slot comes once, and the walltime ends no later for what is to follow the
 * checkpoint. */
static void the_last_safe_slot_stays_urgent_when_a_stopping_request_meets_it(void **unused)
{
    const struct fsm_checkpoint *at = NULL;
    struct script script;
    uint64_t best;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "register j2 nodes=n2 walltime=3600000");
    expect_ok(&script, "decide j1 priority=5");
    expect_ok(&script, "decide j2 purpose=walltime");
    assert_true(fsm_grant_weighed(checkpoint_of(&script, 1)));
    expect_ok(&script, "migrate j1");
    expect_ok(&script, "migrate j2");
    for (int epoch = 1; epoch <= 2; epoch++) {
        at = fsm_checkpoint_next(script.fsm, checkpoint_id_make((uint32_t)epoch, 0));
        assert_string_equal(fsm_allocation_at(script.fsm, at->allocation_slot)->id, "j1");
        assert_false(fsm_grant_weighed(at) || fsm_grant_urgent(at));
        at = fsm_checkpoint_next(script.fsm, at->id);
        assert_int_equal(at->purpose, CKPT__V1__PURPOSE__PURPOSE_MIGRATE);
        assert_true(fsm_grant_urgent(at));
        assert_int_equal(fsm_grantable(script.fsm, &best, 1), 1);
        assert_int_equal(best, at->id);
        if (epoch == 1)
            expect_ok(&script, "epoch 2"); /* both begin again under other ids */
    }
    script_close(&script);
}

/* L4: who waits for its nodes does not wait for the back-off of a checkpoint that it had begun for
 * itself. */
static void a_preemption_does_not_wait_for_a_back_off(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 class=1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 attempt=1 reason=write_failed");
    assert_true(checkpoint_of(&script, 1)->retry_at_ms > script.now_ms);
    expect_ok(&script, "preempt class=5");
    assert_int_equal(checkpoint_of(&script, 1)->purpose, CKPT__V1__PURPOSE__PURPOSE_PREEMPT);
    assert_int_equal(checkpoint_of(&script, 1)->retry_at_ms, 0);
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 attempt=2");
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", SUSPENDED);
    script_close(&script);
}

/* F-021, S3-017: who has finished writes nothing. The others' work is saved by none, so nobody is
 * asked; a preemption ends it as when all attempts had failed. */
static void no_checkpoint_is_begun_when_a_part_has_finished(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2,n3 class=1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 timeout=60000");
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "report n%d shard_verified j1 ckpt=1-1", i);
    expect_checkpoint(&script, 1, COMPLETE);
    expect_ok(&script, "after 600000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-2 timeout=60000");
    expect_ok(&script, "report n1 application_exited j1");
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-2 reason=not_attached");
    expect_checkpoint(&script, 2, FAILED); /* after one attempt */
    expect_status(&script, PART_FINISHED, "request j1 after=stop");
    assert_int_equal(script.outcome.current, 1);
    assert_int_equal(script.outcome.limit, 3);
    expect_ok(&script, "decide j1");
    assert_int_equal(summary_of(&script).skipped_decisions, 1);
    expect_ok(&script, "update j1 nodes=n1,n2"); /* n3 leaves at once */
    assert_int_equal(job_of(&script, "j1")->node_count, 2);
    expect_ok(&script, "preempt class=5");
    assert_true(script.outcome.victims[0].checkpoint_id == 0);
    expect_ok(&script, "report n2 terminated j1");
    expect_job(&script, "j1", SUSPENDED); /* from the last one, in which all have a shard */
    script_close(&script);
}

/* What is written when a part finishes may have its shard already. */
static void a_part_that_finished_after_it_was_saved_is_in_the_checkpoint(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 class=1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "report n1 application_exited j1");
    expect_ok(&script, "preempt class=5");
    assert_true(script.outcome.victims[0].checkpoint_id == checkpoint_of(&script, 1)->id);
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1");
    expect_checkpoint(&script, 1, COMPLETE);
    expect_ok(&script, "report n2 terminated j1");
    expect_job(&script, "j1", SUSPENDED);
    script_close(&script);
}

/* S3-017 */
static void a_failed_stopping_checkpoint_leaves_the_job_running(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1 after=kill");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=application_refused");
    expect_checkpoint(&script, 1, FAILED);
    expect_job(&script, "j1", RUNNING);
    assert_false(job_of(&script, "j1")->terminating);
    script_close(&script);
}

/* S2-005: 1, 2, 4 s ... */
static void retries_back_off_and_end(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    for (unsigned attempt = 1; attempt <= 3; attempt++) {
        expect_ok(&script, "grant 1-1 timeout=60000");
        assert_int_equal(checkpoint_of(&script, 1)->attempt, attempt);
        expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 attempt=%u reason=write_failed",
                  attempt);
        if (attempt == 3)
            break;
        expect_checkpoint(&script, 1, REQUESTED);
        expect_status(&script, CHECKPOINT_ACTIVE, "grant 1-1");
        assert_int_equal(fsm_next_deadline_ms(script.fsm),
                         script.now_ms + (UINT64_C(1000) << (attempt - 1)));
        expect_ok(&script, "after %u", 1000u << (attempt - 1));
        expect_ok(&script, "tick");
        assert_int_equal(checkpoint_of(&script, 1)->retry_at_ms, 0);
    }
    expect_checkpoint(&script, 1, FAILED);
    assert_int_equal(checkpoint_of(&script, 1)->reason, CKPT__V1__REASON__REASON_RETRIES_EXHAUSTED);
    expect_job(&script, "j1", RUNNING);
    script_close(&script);
}

/* P-040, I34: also across attempts */
static void the_extension_is_granted_once_in_a_checkpoints_life(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 timeout=60000");
    assert_int_equal(checkpoint_of(&script, 1)->deadline_ms, script.now_ms + 60000);
    expect_ok(&script, "report n1 responsive j1 ckpt=1-1");
    assert_int_equal(checkpoint_of(&script, 1)->deadline_ms, script.now_ms + 90000);
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=write_failed");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script, "report n1 responsive j1 ckpt=1-1 attempt=2");
    assert_int_equal(checkpoint_of(&script, 1)->timeout_ms, 60000);
    script_close(&script);
}

static void expect_order(const struct script *script, const char *node, uint64_t timeout_ms,
                         uint64_t max_deferral_ms, uint64_t deferred_ms)
{
    struct fsm_order order;

    assert_int_equal(orders_of(script, node, &order), 1);
    assert_int_equal(order.timeout_ms, timeout_ms);
    assert_int_equal(order.max_deferral_ms, max_deferral_ms);
    assert_int_equal(order.deferred_ms, deferred_ms);
}

/* P-043, S1-042, I34: in all, across attempts; nodes do it side by side */
static void a_checkpoint_is_deferred_up_to_the_policys_limit(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_order(&script, "n1", 60000, 300000, 0);
    expect_ok(&script, "report n1 deferred j1 ckpt=1-1 deferral=100000");
    expect_ok(&script, "report n2 deferred j1 ckpt=1-1 deferral=40000");
    assert_int_equal(checkpoint_of(&script, 1)->deferred_ms, 100000);
    assert_int_equal(checkpoint_of(&script, 1)->deadline_ms, script.now_ms + 65000 + 100000);
    expect_order(&script, "n2", 160000, 300000, 100000);
    expect_ok(&script, "report n2 responsive j1 ckpt=1-1");
    expect_order(&script, "n2", 190000, 300000, 100000);
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=write_failed");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-1 timeout=60000");
    assert_int_equal(checkpoint_of(&script, 1)->deadline_ms, script.now_ms + 60000);
    expect_order(&script, "n1", 60000, 200000, 0);
    expect_ok(&script, "report n2 deferred j1 ckpt=1-1 attempt=2 deferral=500000");
    assert_int_equal(checkpoint_of(&script, 1)->deferred_ms, 300000);
    expect_order(&script, "n1", 260000, 200000, 200000);
    expect_ok(&script, "report n2 deferred j1 ckpt=1-1 attempt=1 deferral=600000"); /* late */
    expect_order(&script, "n1", 260000, 200000, 200000);
    expect_ok(&script, "after 260001");
    expect_ok(&script, "tick");
    expect_checkpoint(&script, 1, TIMED_OUT);
    script_close(&script);
}

/* S1-090, P-043: one that was put off does not wait longer than until the last safe slot; one that
 * nobody put off writes anyway. */
static void the_last_safe_slot_hurries_a_checkpoint_that_was_put_off(void **unused)
{
    struct script_bytes bytes = {NULL, 0, 0, 0};
    struct script script;
    char text[256];

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 walltime=3600000");
    expect_ok(&script, "decide j1 priority=5");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "decide j1 purpose=walltime");
    assert_int_equal(summary_of(&script).skipped_decisions, 1);
    expect_ok(&script, "report n1 deferred j1 ckpt=1-1 deferral=100000");
    expect_order(&script, "n1", 160000, 300000, 100000);
    expect_ok(&script, "decide j1 purpose=walltime");
    assert_int_equal(summary_of(&script).skipped_decisions, 1);
    assert_true(job_of(&script, "j1")->walltime_asked);
    expect_order(&script, "n1", 160000, 0, 100000); /* begin */
    expect_order(&script, "n2", 160000, 0, 100000);
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 attempt=1 reason=write_failed");
    assert_int_equal(fsm_snapshot_write(script.fsm, script_write, &bytes), 0);
    fsm_free(script.fsm);
    script.fsm = fsm_new();
    assert_int_equal(fsm_snapshot_read(script.fsm, script_read, &bytes, text, sizeof(text)), 0);
    free(bytes.bytes);
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_order(&script, "n1", 60000, 0, 0);
    script_close(&script);
}

static void expect_detail(struct script *script, const char *detail)
{
    assert_string_equal(checkpoint_of(script, 1)->detail, detail);
}

/* The agent knows more than the reason says: it stays beside that, and no longer, and through
 * snapshots. */
static void what_an_agent_says_of_a_failure_is_kept_with_the_reason(void **unused)
{
    struct script_bytes bytes = {0};
    struct script script;
    char text[128], longer[512];
    bool gap;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script,
              "report n1 checkpoint_failed j1 ckpt=1-1 reason=write_failed why=quota-of-ann");
    expect_checkpoint(&script, 1, REQUESTED);
    expect_detail(&script, "quota-of-ann");
    assert_int_equal(fsm_snapshot_write(script.fsm, script_write, &bytes), 0);
    fsm_free(script.fsm);
    script.fsm = fsm_new();
    assert_int_equal(fsm_snapshot_read(script.fsm, script_read, &bytes, text, sizeof(text)), 0);
    free(bytes.bytes);
    expect_detail(&script, "quota-of-ann");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_detail(&script, "");
    snprintf(longer, sizeof(longer),
             "report n1 checkpoint_failed j1 ckpt=1-1 attempt=2 reason=no_handler why=\x1b%0300d",
             0);
    expect_ok(&script, longer);
    expect_checkpoint(&script, 1, FAILED);
    assert_int_equal(strlen(checkpoint_of(&script, 1)->detail), FSM_DETAIL_BYTES - 1);
    assert_int_equal(checkpoint_of(&script, 1)->detail[0], '?');
    for (const Ckpt__V1__Event *event = NULL;
         (event = fsm_event_after(script.fsm, event == NULL ? 0 : event->sequence, &gap)) !=
         NULL;) {
        if (event->checkpoint_id != 0 && event->reason == CKPT__V1__REASON__REASON_NO_HANDLER)
            assert_string_equal(event->subject, checkpoint_of(&script, 1)->detail);
    }
    script_close(&script);
}

static const Ckpt__V1__Event *last_event_of_state(const struct script *script,
                                                  Ckpt__V1__CheckpointState state)
{
    const Ckpt__V1__Event *event = NULL, *found = NULL;
    bool gap;

    while ((event = fsm_event_after(script->fsm, event == NULL ? 0 : event->sequence, &gap)) !=
           NULL)
        if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE &&
            event->new_state == (uint32_t)state)
            found = event;
    assert_non_null(found);
    return found;
}

/* D-007: each complete checkpoint once, with what its bytes cost where they lie. */
static void a_complete_checkpoint_is_told_with_size_time_and_price(void **unused)
{
    const Ckpt__V1__Event *event;
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "put scratch cost=30000"); /* 3 cents a GB and month */
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "request j1");
    expect_ok(&script, "after 2000");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 size=1500000000");
    event = last_event_of_state(&script, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_WRITING);
    assert_uint_equal(event->size_bytes, 0);
    expect_ok(&script, "after 500");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 size=500000000");
    script_restore(&script);
    event = last_event_of_state(&script, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE);
    assert_uint_equal(event->size_bytes, 2000000000);
    assert_uint_equal(event->duration_ms, 2500);
    assert_uint_equal(event->storage_micro_usd_per_month, 60000);
    script_close(&script);
}

/* I33, P-043: what would not be written before the walltime ends is not put off */
static void a_deferral_leaves_a_whole_timeout_before_the_walltime(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 walltime=100000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_order(&script, "n1", 60000, 40000, 0);
    expect_ok(&script, "report n1 deferred j1 ckpt=1-1 deferral=90000");
    assert_int_equal(checkpoint_of(&script, 1)->deadline_ms, script.now_ms + 100000);
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=write_failed");
    expect_ok(&script, "after 90000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_order(&script, "n1", 60000, 0, 0);
    script_close(&script);
}

/* Decision 4 */
static void the_timeout_is_never_below_twice_the_learned_write_time(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 timeout=5000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    assert_int_equal(checkpoint_of(&script, 1)->timeout_ms, 5000);
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 write=4000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-2");
    assert_int_equal(checkpoint_of(&script, 2)->timeout_ms, 8000);
    script_close(&script);
}

/* V-014: files that were written before the question are of their own time, of the oldest part, and
 * never of before the run. */
static void what_was_saved_before_the_question_counts_from_then(void **unused)
{
    struct script script;
    uint64_t began_ms, asked_ms;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2");
    began_ms = job_of(&script, "j1")->started_at_ms;
    expect_ok(&script, "after 60000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    asked_ms = script.now_ms;
    expect_ok(&script, "after 1000");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 age=1000 before=20000");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 age=1000 before=30000");
    assert_true(checkpoint_of(&script, 1)->snapshot_at_ms == asked_ms - 30000);
    assert_true(job_of(&script, "j1")->last_complete_snapshot_ms == asked_ms - 30000);
    script_restore(&script);
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-2 before=3600000");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-2");
    assert_true(checkpoint_of(&script, 2)->snapshot_at_ms == began_ms);
    assert_true(job_of(&script, "j1")->last_complete_snapshot_ms == asked_ms - 30000);
    script_close(&script);
}

/* S1-017: from the snapshot, not from the completion; a failed one changes nothing */
static void progress_counts_from_the_snapshot_of_the_last_complete_one(void **unused)
{
    struct script script;
    uint64_t dispatched_ms;

    (void)unused;
    script_start(&script);
    dispatched_ms = script.now_ms + 5000;
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "after 5000");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "after 400");
    expect_ok(&script, "report n1 started j1 ckpt=1-1 age=300");
    assert_int_equal(checkpoint_of(&script, 1)->snapshot_at_ms, dispatched_ms + 100);
    expect_ok(&script, "after 9000");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 age=1");
    assert_int_equal(job_of(&script, "j1")->last_complete_snapshot_ms, dispatched_ms + 100);
    expect_ok(&script, "request j1");
    expect_ok(&script, "cancel 1-2");
    assert_int_equal(job_of(&script, "j1")->last_complete_snapshot_ms, dispatched_ms + 100);
    script_close(&script);
}

/* S1-062, S1-072, I24: three outages, each paused and resumed once, by whatever leader */
static void each_outage_pauses_and_resumes_once(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    for (unsigned outage = 1; outage <= 3; outage++) {
        expect_ok(&script, "grant 1-1");
        expect_ok(&script, "target scratch down");
        expect_ok(&script, "target scratch down");
        expect_checkpoint(&script, 1, PAUSED);
        expect_ok(&script, "leader %u", outage);
        expect_status(&script, CHECKPOINT_ACTIVE, "request j1");
        expect_ok(&script, "target scratch up");
        expect_ok(&script, "target scratch up");
        expect_checkpoint(&script, 1, REQUESTED);
        assert_int_equal(checkpoint_of(&script, 1)->paused_count, outage);
        assert_int_equal(checkpoint_of(&script, 1)->resumed_count, outage);
        assert_int_equal(checkpoint_of(&script, 1)->attempt, outage);
    }
    script_close(&script);
}

/* S5-015 */
static void a_stopping_request_upgrades_the_active_checkpoint(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "decide j1 purpose=periodic after=continue");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "request j1 after=stop purpose=drain");
    assert_int_equal(script.outcome.checkpoint_id, checkpoint_id_make(1, 1));
    assert_int_equal(checkpoint_of(&script, 1)->attempt, 1);
    assert_int_equal(checkpoint_of(&script, 1)->purpose, CKPT__V1__PURPOSE__PURPOSE_DRAIN);
    expect_job(&script, "j1", CHECKPOINTING_TO_STOP);
    script_close(&script);
}

/* S3-069: nothing is computed between the last done and the end. Ranks may have said done to an
 * attempt that is under way; to one that waits none has. */
static void what_ends_a_job_takes_over_no_attempt(void **unused)
{
    static const char *const asks[] = {"migrate j1", "request j1 after=kill",
                                       "request j1 after=migrate"};
    struct script script;

    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        script_start(&script);
        expect_ok(&script, "register j1 nodes=n1");
        expect_ok(&script, "decide j1 purpose=periodic after=continue");
        expect_ok(&script, "grant 1-1");
        expect_status(&script, CHECKPOINT_ACTIVE, asks[i]);
        expect_ok(&script, "report n1 started j1 ckpt=1-1");
        expect_status(&script, CHECKPOINT_ACTIVE, asks[i]);
        assert_int_equal(script.outcome.checkpoint_id, checkpoint_id_make(1, 1));
        expect_job(&script, "j1", RUNNING);
        assert_int_equal(checkpoint_of(&script, 1)->after,
                         CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE);
        expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-1 reason=write_failed");
        expect_checkpoint(&script, 1, REQUESTED); /* it waits for its next attempt */
        expect_ok(&script, asks[i]);
        assert_int_equal(script.outcome.checkpoint_id, checkpoint_id_make(1, 1));
        expect_job(&script, "j1", CHECKPOINTING_TO_STOP);
        script_close(&script);
    }
}

/* S3-069: the job is well, only its move came to nothing. */
static void a_job_whose_migration_timed_out_goes_on(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 gpus=2");
    for (int round = 1; round <= 2; round++) { /* without an earlier checkpoint, and with one */
        expect_ok(&script, "migrate j1");
        expect_job(&script, "j1", CHECKPOINTING_TO_STOP);
        expect_ok(&script, "grant 1-%d timeout=60000", 2 * round - 1);
        expect_ok(&script, "after 60000");
        expect_ok(&script, "tick");
        expect_checkpoint(&script, (uint64_t)(2 * round - 1), TIMED_OUT);
        expect_job(&script, "j1", RUNNING);
        expect_reason(&script, "j1", "checkpoint_timeout");
        assert_false(job_of(&script, "j1")->terminating);
        expect_ok(&script, "request j1");
        expect_ok(&script, "grant 1-%d", 2 * round);
        expect_ok(&script, "report n1 shard_verified j1 ckpt=1-%d", 2 * round);
        expect_checkpoint(&script, (uint64_t)(2 * round), COMPLETE);
    }
    assert_int_equal(repeated_of(&script, "j1"), 0);
    script_close(&script);
}

/* S3-001: each part is restored by whoever takes it over. */
static void a_job_of_several_nodes_is_moved(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "migrate j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 label=9");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 label=9");
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "report n2 terminated j1");
    expect_job(&script, "j1", REQUEUED);
    expect_ok(&script, "restart j1 nodes=n3,n2");
    assert_int_equal(job_of(&script, "j1")->restart_id, checkpoint_id_make(1, 1));
    expect_job(&script, "j1", STARTING);
    script_close(&script);
}

/* S3-045 */
static void the_broker_moves_a_job_to_no_node_of_another_kind(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready boot=a machine=x86_64 os=debian-12");
    expect_ok(&script, "node n6 ready boot=b machine=aarch64 os=debian-12");
    expect_ok(&script, "node n7 ready boot=c machine=x86_64 os=debian-12");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "decide j1 purpose=migrate spare=n6");
    assert_int_equal(summary_of(&script).skipped_decisions, 1);
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "decide j1 purpose=migrate spare=n7");
    expect_job(&script, "j1", CHECKPOINTING_TO_STOP);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_suspends_once_the_nodes_are_done),
        cmocka_unit_test(a_job_of_several_nodes_is_moved),
        cmocka_unit_test(the_broker_moves_a_job_to_no_node_of_another_kind),
        cmocka_unit_test(kill_completes_the_allocation),
        cmocka_unit_test(migrate_requeues_without_counting_a_failure),
        cmocka_unit_test(a_decided_move_needs_its_spare_still),
        cmocka_unit_test(a_move_that_failed_is_not_begun_again_at_once),
        cmocka_unit_test(what_an_agent_says_of_a_failure_is_kept_with_the_reason),
        cmocka_unit_test(the_last_safe_slot_hurries_a_checkpoint_that_waits),
        cmocka_unit_test(the_last_safe_slot_stays_urgent_when_a_stopping_request_meets_it),
        cmocka_unit_test(a_preemption_does_not_wait_for_a_back_off),
        cmocka_unit_test(no_checkpoint_is_begun_when_a_part_has_finished),
        cmocka_unit_test(a_part_that_finished_after_it_was_saved_is_in_the_checkpoint),
        cmocka_unit_test(a_failed_stopping_checkpoint_leaves_the_job_running),
        cmocka_unit_test(retries_back_off_and_end),
        cmocka_unit_test(the_extension_is_granted_once_in_a_checkpoints_life),
        cmocka_unit_test(a_checkpoint_is_deferred_up_to_the_policys_limit),
        cmocka_unit_test(the_last_safe_slot_hurries_a_checkpoint_that_was_put_off),
        cmocka_unit_test(a_complete_checkpoint_is_told_with_size_time_and_price),
        cmocka_unit_test(a_deferral_leaves_a_whole_timeout_before_the_walltime),
        cmocka_unit_test(the_timeout_is_never_below_twice_the_learned_write_time),
        cmocka_unit_test(progress_counts_from_the_snapshot_of_the_last_complete_one),
        cmocka_unit_test(what_was_saved_before_the_question_counts_from_then),
        cmocka_unit_test(each_outage_pauses_and_resumes_once),
        cmocka_unit_test(a_stopping_request_upgrades_the_active_checkpoint),
        cmocka_unit_test(what_ends_a_job_takes_over_no_attempt),
        cmocka_unit_test(a_job_whose_migration_timed_out_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
