/* What may be collected, and what never is. */
#include "tests/unit/fsm/expect.h"

static void complete(struct script *script, uint64_t sequence)
{
    expect_ok(script, "request j1");
    expect_ok(script, "grant 1-%d bytes=1", (int)sequence);
    expect_ok(script, "report n1 shard_verified j1 ckpt=1-%d", (int)sequence);
    expect_checkpoint(script, sequence, COMPLETE);
}

static int sequence_of(uint64_t id)
{
    return (int)(id & ((UINT64_C(1) << CHECKPOINT_SEQUENCE_BITS) - 1));
}

static size_t collectable(const struct script *script)
{
    uint64_t ids[128];

    return fsm_collectable(script->fsm, 0, ids, FSM_COLLECTABLE_MAX);
}

/* D-004, I28, I29; S3-033: each has a folder of its own below the job's, and the older ones go when
 * newer ones are complete */
static void the_newest_ones_of_a_running_job_are_kept(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=10000 keep=2");
    expect_ok(&script, "register j1 nodes=n1");
    for (uint64_t i = 1; i <= 4; i++)
        complete(&script, i);
    assert_int_equal(collectable(&script), 0);
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    assert_int_equal(collectable(&script), 2);
    expect_ok(&script, "collected 1-1 1-2 1-3 1-4");
    assert_int_equal(script.outcome.current, 2);
    expect_checkpoint(&script, 1, COLLECTED);
    expect_checkpoint(&script, 3, COMPLETE);
    assert_int_equal(fsm_restart_point(script.fsm, "j1", checkpoint_id_make(1, 4))->id,
                     checkpoint_id_make(1, 3));
    script_close(&script);
}

static void failed_attempts_leave_a_folder_to_collect(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy timeout=10000");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "cancel 1-1");
    assert_int_equal(collectable(&script), 0); /* the agent may still write */
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    assert_int_equal(collectable(&script), 1);
    expect_ok(&script, "collected 1-1");
    expect_checkpoint(&script, 1, CANCELLED); /* one terminal state (I23) */
    assert_int_equal(collectable(&script), 0);
    script_close(&script);
}

/* K-007: bounded records; old complete ones expire early rather than block new ones */
static void records_of_an_allocation_are_bounded(void **unused)
{
    struct script script;
    uint64_t sequence;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    for (sequence = 1; sequence <= 64; sequence++)
        complete(&script, sequence);
    assert_int_equal(collectable(&script), 32);
    expect_ok(&script, "collected 1-1 1-2 1-3");
    complete(&script, 65);
    assert_null(fsm_checkpoint_find(script.fsm, checkpoint_id_make(1, 1)));
    assert_int_equal(summary_of(&script).checkpoint_count, 64);
    script_close(&script);
}

static struct fsm_undeleted_sum sum_of(const struct script *script)
{
    struct fsm_undeleted_sum sum;

    fsm_undeleted_sum(script->fsm, &sum);
    return sum;
}

/* D-004, K-007: what cannot be removed is kept apart, with its reason, and found again when the job
 * has long gone on */
static void checkpoints_go_on_when_no_folder_can_be_removed(void **unused)
{
    struct script script;
    const struct fsm_undeleted *first;
    char path[1024];

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    for (uint64_t sequence = 1; sequence <= 300; sequence++) {
        uint64_t ids[FSM_COLLECTABLE_MAX];
        size_t count = fsm_collectable(script.fsm, 0, ids, FSM_COLLECTABLE_MAX);

        complete(&script, sequence);
        for (size_t i = 0; i < count; i++)
            expect_ok(&script, "collected failed=1-%d why=permission-denied", sequence_of(ids[i]));
    }
    assert_int_equal(summary_of(&script).checkpoint_count, FSM_CHECKPOINTS_PER_ALLOCATION_MAX);
    first = fsm_undeleted_find(script.fsm, checkpoint_id_make(1, 1));
    assert_non_null(first);
    assert_false(first->listed);
    assert_int_equal(first->attempts, 1);
    assert_string_equal(first->reason, "permission-denied");
    assert_true(fsm_undeleted_path(script.fsm, first, path, sizeof(path)) > 0);
    assert_non_null(strstr(path, "/j1/checkpoints/1-1"));
    assert_int_equal(sum_of(&script).count, 300 - FSM_COMPLETE_KEPT_MAX - 1);
    expect_ok(&script, "end j1 failed"); /* and its id is free again after the retention */
    expect_ok(&script, "collected 1-1");
    assert_null(fsm_undeleted_find(script.fsm, checkpoint_id_make(1, 1)));
    script_close(&script);
}

/* One that was never tried yields its place in the list too, and is still given to the
 * collector. */
static void a_full_list_makes_room_before_the_collector_came(void **unused)
{
    struct script script;
    uint64_t sequence;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    for (sequence = 1; sequence <= 70; sequence++)
        complete(&script, sequence);
    assert_int_equal(summary_of(&script).checkpoint_count, 64);
    assert_int_equal(sum_of(&script).count, 0); /* nothing has failed */
    assert_int_equal(collectable(&script), 38);
    expect_ok(&script, "collected 1-1 1-2 1-3 1-4 1-5 1-6");
    assert_int_equal(collectable(&script), 32);
    script_close(&script);
}

/* A hundred that always fail do not keep one that would not from its turn, nor are they asked for
 * at each look. */
static void what_fails_waits_behind_what_was_not_tried(void **unused)
{
    struct script script;
    uint64_t ids[FSM_COLLECTABLE_MAX];
    uint64_t sequence = 0;
    size_t count;

    (void)unused;
    script_start(&script);
    for (int job = 1; job <= 3; job++) {
        expect_ok(&script, "register j%d nodes=n1", job);
        for (int i = 0; i < 64; i++) {
            sequence++;
            expect_ok(&script, "request j%d", job);
            expect_ok(&script, "grant 1-%d bytes=1", (int)sequence);
            expect_ok(&script, "report n1 shard_verified j%d ckpt=1-%d", job, (int)sequence);
        }
    }
    for (int look = 0; look < 2; look++) { /* 96 are expired */
        count = fsm_collectable(script.fsm, 0, ids, FSM_COLLECTABLE_MAX);
        assert_int_equal(count, look == 0 ? 64 : 32);
        for (size_t i = 0; i < count; i++)
            expect_ok(&script, "collected failed=1-%d", sequence_of(ids[i]));
    }
    assert_int_equal(collectable(&script), 0);
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    assert_int_equal(collectable(&script), 64);
    complete(&script, sequence + 1); /* expires the oldest of j1 that is kept */
    count = fsm_collectable(script.fsm, 0, ids, FSM_COLLECTABLE_MAX);
    assert_int_equal(count, 64);
    assert_int_equal(sequence_of(ids[0]), 33);
    for (size_t i = 1; i < count; i++) {
        expect_ok(&script, "collected failed=1-%d", sequence_of(ids[i]));
        assert_int_equal(fsm_undeleted_find(script.fsm, ids[i])->attempts, 2);
    }
    assert_int_equal(collectable(&script), 1 + 33); /* the others' turn, which were due as long */
    script_close(&script);
}

/* A job whose folders stay leaves at the end of its retention like any other, and its name may be
 * used again. */
static void an_ended_job_leaves_its_undeleted_folders_behind(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=10000 keep=2");
    expect_ok(&script, "register j1 nodes=n1");
    complete(&script, 1);
    complete(&script, 2);
    expect_ok(&script, "end j1");
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    expect_ok(&script, "collected 1-1");
    expect_ok(&script, "collected failed=1-2");
    assert_null(fsm_allocation_find(script.fsm, "j1"));
    assert_false(fsm_undeleted_find(script.fsm, checkpoint_id_make(1, 2))->listed);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "collected 1-2");
    assert_int_equal(sum_of(&script).count, 0);
    script_close(&script);
}

/* Completes the next one. A look at the invariants reads all places: while the list fills, only
 * every 512th is followed by one, and from `full_at` on each command. */
static void complete_next(struct script *script, uint64_t *sequence, uint64_t full_at)
{
    (*sequence)++;
    script->unchecked = *sequence < full_at && *sequence % 512 != 0;
    expect_ok(script, "request j1");
    expect_ok(script, "grant 1-%d bytes=1", (int)*sequence);
    expect_ok(script, "report n1 shard_verified j1 ckpt=1-%d", (int)*sequence);
}

/* The list is bounded as well: the oldest gives way, and is counted. */
static void too_many_undeleted_folders_are_forgotten_and_counted(void **unused)
{
    struct script script;
    uint64_t sequence = 0;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    while (sequence < FSM_UNDELETED_MAX + FSM_CHECKPOINTS_PER_ALLOCATION_MAX + 3) {
        complete_next(&script, &sequence, FSM_UNDELETED_MAX);
        if (sequence == 60)
            expect_ok(&script, "collected failed=1-1");
    }
    assert_int_equal(sum_of(&script).forgotten, 3);
    assert_null(fsm_undeleted_find(script.fsm, checkpoint_id_make(1, 3)));
    assert_non_null(fsm_undeleted_find(script.fsm, checkpoint_id_make(1, 4)));
    script_close(&script);
}

/* However many there are already: else ended jobs would fill the state. */
static void an_ended_job_leaves_although_half_of_the_places_are_taken(void **unused)
{
    struct script script;
    uint64_t sequence = 0;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=10000 keep=2");
    expect_ok(&script, "register j1 nodes=n1");
    while (sequence < FSM_UNDELETED_MAX / 2 + FSM_CHECKPOINTS_PER_ALLOCATION_MAX)
        complete_next(&script, &sequence, FSM_UNDELETED_MAX / 2);
    expect_ok(&script, "end j1");
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    for (int i = 0; i < FSM_CHECKPOINTS_PER_ALLOCATION_MAX; i++)
        expect_ok(&script, "collected failed=1-%d", (int)sequence - i);
    assert_null(fsm_allocation_find(script.fsm, "j1"));
    assert_int_equal(sum_of(&script).count, FSM_CHECKPOINTS_PER_ALLOCATION_MAX);
    script_close(&script);
}

/* Whose agent is to remove 1-SEQUENCE; NULL: nobody's. */
static const char *remover_of(const struct script *script, uint64_t sequence)
{
    const struct fsm_undeleted *at =
        fsm_undeleted_find(script->fsm, checkpoint_id_make(1, sequence));

    return at == NULL || !at->given ? NULL : fsm_node_name(script->fsm, at->node_slot);
}

static size_t removals_on(const struct script *script, const char *node)
{
    const struct fsm_undeleted *removals[FSM_REMOVALS_PER_NODE_MAX];

    return fsm_removals_on_node(script->fsm, fsm_node_find(script->fsm, node)->slot, removals,
                                FSM_REMOVALS_PER_NODE_MAX);
}

/* D-004: the folder is of its job's user, and so is who removes it; no trouble before a node has
 * failed too. */
static void what_a_control_node_may_not_remove_is_removed_by_a_node_that_wrote_it(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=10000 keep=2");
    expect_ok(&script, "node n0 ready");
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "register j1 nodes=n1");
    complete(&script, 1);
    complete(&script, 2);
    complete(&script, 3);
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    expect_ok(&script, "collected failed=1-1 why=EACCES elsewhere");
    assert_string_equal(remover_of(&script, 1), "n1");
    assert_int_equal(removals_on(&script, "n1"), 1);
    assert_int_equal(sum_of(&script).count, 0);
    assert_int_equal(collectable(&script), 0);
    expect_ok(&script, "collected failed=1-1 why=EACCES elsewhere"); /* of a leader before */
    assert_string_equal(remover_of(&script, 1), "n1");
    expect_ok(&script, "report n1 collected j1 ckpt=1-1 size=77");
    assert_int_equal(removals_on(&script, "n1"), 0);
    assert_null(fsm_undeleted_find(script.fsm, checkpoint_id_make(1, 1)));
    expect_checkpoint(&script, 1, COLLECTED);
    expect_status(&script, CHECKPOINT_NOT_FOUND, "report n1 collected j1 ckpt=1-1 size=77");
    expect_status(&script, CHECKPOINT_NOT_FOUND,
                  "report n1 collected j1 ckpt=1-2 size=77"); /* nobody was asked to */
    expect_checkpoint(&script, 2, COMPLETE);
    script_close(&script);
}

/* The order goes to another node when its node is lost, and comes back when that fails. */
static void a_removal_goes_to_another_node_when_its_node_is_lost(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=10000 keep=2");
    expect_ok(&script, "node n0 ready");
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "register j1 nodes=n1");
    complete(&script, 1);
    complete(&script, 2);
    complete(&script, 3);
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    expect_ok(&script, "collected failed=1-1 elsewhere");
    expect_ok(&script, "node n1 ready boot=b2"); /* it finds the order again */
    assert_string_equal(remover_of(&script, 1), "n1");
    expect_ok(&script, "node n1 down");
    assert_string_equal(remover_of(&script, 1), "n0");
    expect_ok(&script, "report n1 collect_failed j1 ckpt=1-1 why=EIO"); /* too late */
    assert_string_equal(remover_of(&script, 1), "n0");
    expect_ok(&script, "node n0 down");
    assert_null(remover_of(&script, 1)); /* a control node tries it again, at once */
    assert_int_equal(collectable(&script), 1);
    expect_ok(&script, "node n0 ready");
    expect_ok(&script, "collected failed=1-1 elsewhere");
    assert_string_equal(remover_of(&script, 1), "n0");
    expect_ok(&script, "report n0 collect_failed j1 ckpt=1-1 why=EIO");
    assert_null(remover_of(&script, 1));
    assert_int_equal(sum_of(&script).count, 1);
    assert_string_equal(fsm_undeleted_find(script.fsm, checkpoint_id_make(1, 1))->reason,
                        "n0: EIO");
    assert_int_equal(collectable(&script), 0);
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    assert_int_equal(collectable(&script), 1);
    expect_ok(&script, "collected failed=1-1 elsewhere");
    assert_string_equal(remover_of(&script, 1), "n0");
    expect_ok(&script, "after 3600000"); /* it says nothing */
    expect_ok(&script, "tick");
    expect_ok(&script, "collected failed=1-1 elsewhere");
    assert_null(remover_of(&script, 1));
    assert_int_equal(fsm_undeleted_find(script.fsm, checkpoint_id_make(1, 1))->attempts, 2);
    script_close(&script);
}

static void a_node_removes_so_many_folders_at_a_time(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=10000 keep=2");
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "register j1 nodes=n1");
    for (uint64_t sequence = 1; sequence <= FSM_REMOVALS_PER_NODE_MAX + 3; sequence++)
        complete(&script, sequence);
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    for (int i = 1; i <= FSM_REMOVALS_PER_NODE_MAX + 1; i++)
        expect_ok(&script, "collected failed=1-%d elsewhere", i);
    assert_int_equal(removals_on(&script, "n1"), FSM_REMOVALS_PER_NODE_MAX);
    assert_null(remover_of(&script, FSM_REMOVALS_PER_NODE_MAX + 1));
    script_close(&script);
}

/* All members give those of a lost node to others in one order. */
static void a_restored_member_has_removals_in_the_order_of_the_others(void **unused)
{
    const struct fsm_undeleted *removals[FSM_REMOVALS_PER_NODE_MAX];
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=10000 keep=2");
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "register j1 nodes=n1");
    for (uint64_t sequence = 1; sequence <= 4; sequence++)
        complete(&script, sequence);
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    expect_ok(&script, "collected failed=1-1 elsewhere");
    expect_ok(&script, "collected failed=1-2 elsewhere");
    expect_ok(&script, "report n1 collect_failed j1 ckpt=1-1 why=EIO");
    expect_ok(&script, "after 60000");
    expect_ok(&script, "collected failed=1-1 elsewhere"); /* in the first place again */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fsm_removals_on_node(script.fsm, fsm_node_find(script.fsm, "n1")->slot,
                                              removals, FSM_REMOVALS_PER_NODE_MAX),
                         2);
        assert_int_equal(removals[0]->checkpoint_id, checkpoint_id_make(1, 2));
        assert_int_equal(removals[1]->checkpoint_id, checkpoint_id_make(1, 1));
        script_restore(&script);
    }
    script_close(&script);
}

static bool may_expire(const struct script *script, uint64_t sequence)
{
    return fsm_may_expire(script->fsm,
                          fsm_checkpoint_find(script->fsm, checkpoint_id_make(1, sequence)));
}

/* D-004: what is pinned outlives its retention, its successors and its job; the last ones of a job
 * that may be started again go by nobody's word. */
static void a_pinned_checkpoint_stays_and_others_may_go_before_their_time(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=10000 keep=2");
    expect_ok(&script, "register j1 nodes=n1");
    for (uint64_t sequence = 1; sequence <= 4; sequence++)
        complete(&script, sequence);
    expect_ok(&script, "pin 1-1");
    assert_false(may_expire(&script, 1));
    assert_true(may_expire(&script, 2));
    assert_false(may_expire(&script, 3));
    expect_ok(&script, "expire 1-1 1-2 1-3 1-4 1-99");
    assert_int_equal(script.outcome.current, 1);
    assert_int_equal(collectable(&script), 1);
    expect_status(&script, NOT_KEPT, "pin 1-2"); /* it is being deleted */
    expect_ok(&script, "collected 1-2");
    expect_ok(&script, "after 20000");
    expect_ok(&script, "tick");
    assert_int_equal(collectable(&script), 0);
    expect_ok(&script, "end j1");
    expect_ok(&script, "after 20000");
    expect_ok(&script, "tick");
    expect_ok(&script, "collected 1-3 1-4");
    assert_non_null(fsm_allocation_find(script.fsm, "j1")); /* as long as it is pinned */
    expect_ok(&script, "pin 1-1 undo");
    expect_ok(&script, "tick");
    assert_int_equal(collectable(&script), 1);
    expect_ok(&script, "collected 1-1");
    assert_null(fsm_allocation_find(script.fsm, "j1"));
    script_close(&script);
}

/* What is on its way out protects nobody: the last one that is whole stays, also without its
 * pin. */
static void what_is_to_go_back_to_stays_behind_one_that_has_expired(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=10000 keep=2");
    expect_ok(&script, "register j1 nodes=n1");
    complete(&script, 1);
    expect_ok(&script, "pin 1-1");
    for (uint64_t sequence = 2; sequence <= 5; sequence++)
        complete(&script, sequence);
    expect_ok(&script, "after 20000");
    expect_ok(&script, "tick");
    assert_int_equal(collectable(&script), 2); /* 1-2 and 1-3 */
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1");
    expect_ok(&script, "report n1 restart_damaged j1 restored=1-5");
    expect_ok(&script, "report n1 restart_damaged j1 restored=1-4");
    assert_uint_equal(job_of(&script, "j1")->last_complete_id, checkpoint_id_make(1, 1));
    expect_ok(&script, "report n1 application_started j1 restored=1-1"); /* its run has begun */
    expect_ok(&script, "pin 1-1 undo");
    expect_ok(&script, "after 20000");
    expect_ok(&script, "tick");
    assert_false(may_expire(&script, 1));
    expect_ok(&script, "collected 1-1"); /* nor has it expired by itself */
    assert_int_equal(script.outcome.current, 0);
    expect_checkpoint(&script, 1, COMPLETE);
    assert_uint_equal(job_of(&script, "j1")->last_complete_id, checkpoint_id_make(1, 1));
    script_close(&script);
}

/* Nothing begins from a damaged one: it makes room as what has expired does. */
static void checkpoints_go_on_however_many_are_damaged(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    for (unsigned i = 1; i <= FSM_CHECKPOINTS_PER_ALLOCATION_MAX + 6; i++) {
        expect_complete(&script, "j1", i);
        expect_ok(&script, "verified 1-%u damaged why=EIO", i);
    }
    for (unsigned i = 1; i <= FSM_COMPLETE_KEPT_MAX; i++)
        expect_complete(&script, "j1", FSM_CHECKPOINTS_PER_ALLOCATION_MAX + 6 + i);
    expect_checkpoint(&script, FSM_CHECKPOINTS_PER_ALLOCATION_MAX + 7, COMPLETE);
    script_close(&script);
}

/* The target of the two newest is away, so the run begins from the one before, which a smaller
 * keep_complete would let go meanwhile (I45). */
static void what_a_run_is_about_to_begin_from_stays(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "policy discarded=100000000 keep=3");
    expect_ok(&script, "register j1 nodes=n1 target=scratch requeue=always");
    expect_complete(&script, "j1", 1);
    expect_ok(&script, "update j1 target=other");
    expect_complete(&script, "j1", 2);
    expect_ok(&script, "request j1 after=stop");
    expect_ok(&script, "grant 1-3 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-3");
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "target other down");
    expect_ok(&script, "after 3600000");
    expect_ok(&script, "restart j1 id=r1");
    assert_true(job_of(&script, "j1")->restart_id == checkpoint_id_make(1, 1));
    expect_ok(&script, "tenant physics keep=2 max=1");
    expect_ok(&script, "over_quota 1-1");
    assert_uint_equal(script.outcome.current, 0);
    expect_ok(&script, "expire 1-1");
    assert_uint_equal(script.outcome.current, 0);
    expect_checkpoint(&script, 1, COMPLETE);
    script_restore(&script);
    expect_ok(&script, "report n1 restored j1 restored=1-1");
    expect_ok(&script, "report n1 application_started j1 restored=1-1");
    expect_ok(&script, "over_quota 1-1");
    assert_uint_equal(script.outcome.current, 1);
    script_close(&script);
}

static void so_many_checkpoints_of_a_job_are_pinned(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    for (uint64_t sequence = 1; sequence <= 80; sequence++) {
        complete(&script, sequence);
        if (sequence <= FSM_PINNED_MAX)
            expect_ok(&script, "pin 1-%d", (int)sequence);
    }
    expect_status(&script, PINS_FULL, "pin 1-80");
    expect_ok(&script, "pin 1-16"); /* it is already */
    expect_ok(&script, "pin 1-16 undo");
    expect_ok(&script, "pin 1-80");
    script_close(&script);
}

static void ended_jobs_leave_when_their_folders_are_gone(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=10000 keep=2");
    expect_ok(&script, "register j1 nodes=n1");
    complete(&script, 1);
    expect_ok(&script, "end j1");
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    assert_non_null(fsm_allocation_find(script.fsm, "j1"));
    expect_ok(&script, "collected 1-1");
    assert_null(fsm_allocation_find(script.fsm, "j1"));
    assert_int_equal(summary_of(&script).checkpoint_count, 0);
    expect_ok(&script, "register j1 nodes=n1");
    script_close(&script);
}

/* I26 */
static void ids_are_never_used_twice(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=1000 keep=2");
    expect_ok(&script, "register j1 nodes=n1");
    complete(&script, 1);
    expect_ok(&script, "end j1");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    expect_ok(&script, "collected 1-1");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    assert_int_equal(script.outcome.checkpoint_id, checkpoint_id_make(1, 2));
    script_close(&script);
}

static void ended_job(struct script *script, const char *init, const char *end)
{
    script_open(script);
    expect_ok(script, "%s", init);
    expect_ok(script, "policy min_interval=1 retention=3600000 keep=2");
    expect_ok(script, "register j1 nodes=n1");
    for (uint64_t i = 1; i <= 4; i++)
        complete(script, i);
    expect_ok(script, "%s", end);
    expect_ok(script, "after 60000");
    expect_ok(script, "policy retention=30000");
    expect_ok(script, "tick");
}

/* ... also of jobs that had ended before, but for what a restart needs: of a job that failed. */
static void a_shorter_retention_reaches_jobs_that_have_ended(void **unused)
{
    struct script script;

    (void)unused;
    ended_job(&script, "init", "end j1 completed");
    assert_int_equal(collectable(&script), 4);
    script_close(&script);
    ended_job(&script, "init", "end j1 failed");
    assert_int_equal(collectable(&script), 2);
    assert_non_null(fsm_restart_point(script.fsm, "j1", 0));
    expect_ok(&script, "collected 1-1 1-2");
    expect_ok(&script, "after 3500000"); /* it was told an hour when it ended */
    expect_ok(&script, "tick");
    assert_non_null(fsm_restart_point(script.fsm, "j1", 0));
    script_close(&script);
    ended_job(&script, "init level=1", "end j1 completed"); /* as earlier builds decide */
    assert_int_equal(collectable(&script), 0);
    script_close(&script);
}

/* However many there are: each Tick has its share, and the next one is due at once. */
static void a_pass_over_all_jobs_is_of_bounded_ticks(void **unused)
{
    struct script script;
    uint32_t ticks = 0;

    (void)unused;
    script_start(&script);
    script.unchecked = true;
    expect_ok(&script, "policy retention=3600000");
    for (int i = 0; i < 2 * FSM_REVIEW_PER_TICK_MAX + 10; i++) {
        expect_ok(&script, "register j%d nodes=n1", i);
        expect_ok(&script, "end j%d completed", i);
    }
    expect_ok(&script, "policy retention=7200000");
    while (fsm_next_deadline_ms(script.fsm) <= script.now_ms && ticks++ < 10)
        expect_ok(&script, "tick");
    assert_int_equal(ticks, 3);
    script.unchecked = false;
    expect_ok(&script, "tick");
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_ones_of_a_running_job_are_kept),
        cmocka_unit_test(failed_attempts_leave_a_folder_to_collect),
        cmocka_unit_test(a_shorter_retention_reaches_jobs_that_have_ended),
        cmocka_unit_test(a_pass_over_all_jobs_is_of_bounded_ticks),
        cmocka_unit_test(records_of_an_allocation_are_bounded),
        cmocka_unit_test(checkpoints_go_on_when_no_folder_can_be_removed),
        cmocka_unit_test(a_full_list_makes_room_before_the_collector_came),
        cmocka_unit_test(what_fails_waits_behind_what_was_not_tried),
        cmocka_unit_test(an_ended_job_leaves_its_undeleted_folders_behind),
        cmocka_unit_test(an_ended_job_leaves_although_half_of_the_places_are_taken),
        cmocka_unit_test(too_many_undeleted_folders_are_forgotten_and_counted),
        cmocka_unit_test(what_a_control_node_may_not_remove_is_removed_by_a_node_that_wrote_it),
        cmocka_unit_test(a_removal_goes_to_another_node_when_its_node_is_lost),
        cmocka_unit_test(a_node_removes_so_many_folders_at_a_time),
        cmocka_unit_test(a_pinned_checkpoint_stays_and_others_may_go_before_their_time),
        cmocka_unit_test(what_is_to_go_back_to_stays_behind_one_that_has_expired),
        cmocka_unit_test(checkpoints_go_on_however_many_are_damaged),
        cmocka_unit_test(what_a_run_is_about_to_begin_from_stays),
        cmocka_unit_test(so_many_checkpoints_of_a_job_are_pinned),
        cmocka_unit_test(ended_jobs_leave_when_their_folders_are_gone),
        cmocka_unit_test(ids_are_never_used_twice),
        cmocka_unit_test(a_restored_member_has_removals_in_the_order_of_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
