/* Jobs that the broker starts again: which, when, on which nodes. F-008, F-015, S1-022, S3-047,
 * V-001, V-002
 */
#include "tests/unit/fsm/expect.h"

#include "fsm/restart.h"

/* A cluster with nodes n1, n2 ... and without jobs. */
static void start_nodes(struct script *script, const char *level, int nodes)
{
    script_open(script);
    expect_ok(script, "init %s", level);
    for (int i = 1; i <= nodes; i++)
        expect_ok(script, "node n%d ready boot=b%d", i, i);
}

static void start(struct script *script, const char *level, const char *words)
{
    start_nodes(script, level, 4);
    expect_ok(script, "put vault prefix=/vault write=1000000000 pool=sensitive assured=2");
    expect_ok(script, "register j nodes=n1,n2 restore=all %s", words);
}

static const struct fsm_allocation *j_of(const struct script *script)
{
    return job_of(script, "j");
}

/* A rank of it dies; its ckpt-run would start it again. */
static void die(struct script *script, const char *node, const char *peer)
{
    expect_ok(script, "report %s application_exited j status=1 restart", node);
    expect_ok(script, "report %s terminated j", node);
    expect_ok(script, "report %s terminated j", peer);
}

/* The job's first checkpoint was complete; a preemption takes its only node after the second. */
static void lose_to_preemption(struct script *script, const char *job, const char *node,
                               const char *needed)
{
    expect_ok(script, "after 400000");
    expect_ok(script, "preempt class=5 %s useful=%s", needed, node);
    expect_victims(script, job);
    expect_ok(script, "grant 1-2 bytes=1");
    expect_ok(script, "report %s shard_verified %s ckpt=1-2", node, job);
    expect_ok(script, "report %s terminated %s", node, job);
    assert_int_equal(job_of(script, job)->state,
                     CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED);
}

/* ON_NODE_FAILURE is the default, and a rank's death is none: its ckpt-run would start it again all
 * the same, as on a single node. */
static void a_rank_that_dies_brings_the_job_back(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "", "");
    die(&script, "n1", "n2");
    expect_job(&script, "j", REQUEUED);
    assert_true(fsm_restart_awaited(script.fsm, j_of(&script)));
    assert_true(j_of(&script)->restart_at_ms == script.now_ms); /* the first comes at once */
    script_restore(&script);
    expect_ok(&script, "choose j nodes=n1,n2");
    expect_job(&script, "j", STARTING);
    assert_false(fsm_restart_awaited(script.fsm, j_of(&script)));
    assert_string_equal(j_of(&script)->restart_choice, "they wait");
    script_restore(&script);
    assert_string_equal(j_of(&script)->restart_choice, "they wait");
    expect_status(&script, NOT_RESTARTABLE, "choose j nodes=n1,n2"); /* twice */
    script_close(&script);
}

/* At level 1, and where nobody is to start it again by himself. */
static void who_restarts_by_hand_is_left_alone(void **unused)
{
    static const struct {
        const char *level, *words, *state;
    } rows[] = {{"level=1", "", "FAILED"},
                {"level=1", "requeue=always", "REQUEUED"},
                {"", "broker=manual requeue=always", "REQUEUED"},
                {"", "requeue=never", "FAILED"},
                {"", "requeue=always sensitive target=vault", "FAILED"}};

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script script;

        start(&script, rows[i].level, rows[i].words);
        die(&script, "n1", "n2");
        assert_string_equal(fsm_allocation_state_name(j_of(&script)->state), rows[i].state);
        assert_true(j_of(&script)->restart_at_ms == 0);
        assert_false(fsm_restart_awaited(script.fsm, j_of(&script)));
        expect_status(&script, NOT_RESTARTABLE, "choose j nodes=n1,n2");
        script_close(&script);
    }
}

static const Ckpt__V1__Event *end_told(const struct script *script)
{
    const Ckpt__V1__Event *event;
    uint64_t after = 0;
    bool gap;

    while ((event = fsm_event_after(script->fsm, after, &gap)) != NULL) {
        after = event->sequence;
        if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_APPLICATION_END)
            return event;
    }
    return NULL;
}

/* S3-028: why an application could not go on is stored and told, once its ckpt-run knows; not by
 * members of level 1, and not of an end that says all by its status. */
static void words_about_an_end_are_kept(void **unused)
{
    const Ckpt__V1__Event *event;
    struct script script;

    (void)unused;
    start(&script, "", "");
    expect_ok(&script, "report n1 application_exited j status=9 restart");
    assert_null(end_told(&script));
    script_close(&script);
    start(&script, "", "");
    expect_ok(&script,
              "report n1 application_exited j status=1792 why=erestart-has-failed restart");
    event = end_told(&script);
    assert_non_null(event);
    assert_string_equal(event->subject, "n1: erestart-has-failed");
    assert_uint_equal(event->number, 1792);
    assert_string_equal(event->allocation_id, "j");
    script_close(&script);
    start(&script, "level=1", "");
    expect_ok(&script,
              "report n1 application_exited j status=1792 why=erestart-has-failed restart");
    assert_null(end_told(&script));
    script_close(&script);
}

static void part_dies(const char *words, Ckpt__V1__AllocationState state)
{
    struct script script;

    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2 %s", words);
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "report n1 application_exited j1 status=9 restart");
    expect_checkpoint(&script, 1, SUPERSEDED);
    assert_true(job_of(&script, "j1")->terminating);
    expect_ok(&script, "report n1 terminated j1");
    expect_job(&script, "j1", RUNNING);
    expect_ok(&script, "report n2 terminated j1");
    assert_int_equal(job_of(&script, "j1")->state, state);
    assert_int_equal(job_of(&script, "j1")->reason, CKPT__V1__REASON__REASON_APPLICATION_EXITED);
    script_close(&script);
}

/* All parts begin again together where the broker restarts the job (V-002). */
static void a_part_that_dies_stops_the_others_instead_of_restarting_alone(void **unused)
{
    (void)unused;
    part_dies("", CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED);
    part_dies("broker=manual", CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED);
}

/* Without progress each pause doubles, less up to a quarter, and the limit of requeues ends the
 * chain; a complete checkpoint begins it anew. */
static void a_job_without_progress_waits_longer_and_ends(void **unused)
{
    struct script script;
    unsigned dies = 1;

    (void)unused;
    start(&script, "", "max_requeue=3");
    for (uint64_t time = 0; time < 3; time++) {
        uint64_t pause = time == 0 ? 0 : 5000u << (time - 1);

        die(&script, dies == 1 ? "n1" : "n2", dies == 1 ? "n2" : "n1");
        expect_job(&script, "j", REQUEUED);
        assert_int_equal(j_of(&script)->restarts_without_progress, time);
        assert_true(j_of(&script)->restart_at_ms >= script.now_ms + pause - pause / 4);
        assert_true(j_of(&script)->restart_at_ms <= script.now_ms + pause);
        if (pause > 0)
            expect_status(&script, NOT_RESTARTABLE, "choose j nodes=n1,n2");
        script_restore(&script);
        expect_ok(&script, "after %" PRIu64, pause);
        expect_ok(&script, "choose j nodes=n1,n2");
        expect_ok(&script, "report n1 application_started j");
        expect_ok(&script, "report n2 application_started j");
        dies = 3 - dies; /* else its node is excluded for longer than the pause */
    }
    die(&script, "n1", "n2");
    expect_job(&script, "j", FAILED);
    script_close(&script);

    start(&script, "", "max_requeue=1");
    for (unsigned time = 1; time <= 3; time++) {
        expect_ok(&script, "request j");
        expect_ok(&script, "grant 1-%u", time);
        expect_ok(&script, "report n1 shard_verified j ckpt=1-%u", time);
        expect_ok(&script, "report n2 shard_verified j ckpt=1-%u", time);
        assert_int_equal(j_of(&script)->restarts_without_progress, 0);
        assert_int_equal(j_of(&script)->requeue_count, 0);
        die(&script, "n2", "n1");
        expect_job(&script, "j", REQUEUED);
        expect_ok(&script, "choose j nodes=n1,n2");
        for (int node = 1; node <= 2; node++) {
            expect_ok(&script, "report n%d restored j restored=1-%u", node, time);
            expect_ok(&script, "report n%d application_started j restored=1-%u", node, time);
        }
    }
    script_close(&script);
}

/* The state looks again, since it may have changed. */
static void a_choice_is_checked_again(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "", "");
    expect_ok(&script, "node n9 ready boot=b9 machine=arm");
    expect_ok(&script, "request j");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "node n1 ready boot=b1 machine=x86");
    expect_ok(&script, "node n2 ready boot=b2 machine=x86");
    expect_ok(&script, "report n1 shard_verified j ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j ckpt=1-1");
    die(&script, "n1", "n2");
    expect_status(&script, TOO_FEW_NODES, "choose j nodes=n1");
    expect_status(&script, TOO_FEW_NODES, "choose j nodes=n1,n2,n3");
    expect_status(&script, NODE_NOT_FOUND, "choose j nodes=n1,n7");
    expect_status(&script, NODE_UNLIKE, "choose j nodes=n1,n9");
    expect_ok(&script, "node n3 down");
    expect_status(&script, NODE_DOWN, "choose j nodes=n1,n3");
    expect_ok(&script, "drain n4");
    expect_status(&script, NODE_DRAINING, "choose j nodes=n1,n4");
    assert_string_equal(script.outcome.subject, "n4");
    expect_ok(&script, "drain n4 undo");
    expect_ok(&script, "choose j nodes=n1,n4");
    expect_job(&script, "j", STARTING);
    script_close(&script);
}

/* A job that goes on from another one's checkpoints has something to lose before its own first. */
static void a_job_that_continues_begins_from_what_it_continues(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "", "");
    expect_ok(&script, "request j");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j ckpt=1-1");
    expect_ok(&script, "report n2 shard_verified j ckpt=1-1");
    expect_ok(&script, "end j");
    expect_ok(&script, "report n1 terminated j");
    expect_ok(&script, "report n2 terminated j");
    expect_ok(&script, "register k nodes=n1,n2 restore=all continues=j");
    for (int node = 1; node <= 2; node++) {
        expect_ok(&script, "report n%d restored k restored=1-1", node);
        expect_ok(&script, "report n%d application_started k restored=1-1", node);
    }
    expect_ok(&script, "report n1 application_exited k status=1 restart");
    expect_ok(&script, "report n1 terminated k");
    expect_ok(&script, "report n2 terminated k");
    expect_job(&script, "k", REQUEUED);
    expect_ok(&script, "choose k nodes=n1,n2");
    assert_true(job_of(&script, "k")->restart_id == checkpoint_of(&script, 1)->id);
    script_close(&script);
}

/* A chosen node's ckpt-run has gone: the others do not wait for it for ever. */
static void a_choice_whose_node_left_is_made_again(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "", "");
    expect_status(&script, NOT_RESTARTABLE, "choose j absent=n1"); /* it runs */
    die(&script, "n1", "n2");
    expect_status(&script, NOT_RESTARTABLE, "choose j absent=n1"); /* none was chosen */
    expect_ok(&script, "choose j nodes=n1,n2");
    expect_ok(&script, "report n1 application_started j");
    expect_status(&script, NOT_RESTARTABLE, "choose j absent=n1"); /* it has begun */
    expect_status(&script, NOT_RESTARTABLE, "choose j absent=n3");
    expect_status(&script, NODE_NOT_FOUND, "choose j absent=n7");
    expect_ok(&script, "choose j absent=n2");
    assert_true(j_of(&script)->terminating);
    expect_status(&script, NOT_RESTARTABLE, "choose j absent=n2");
    expect_ok(&script, "report n1 terminated j");
    expect_ok(&script, "report n2 terminated j");
    expect_job(&script, "j", REQUEUED);
    expect_reason(&script, "j", "not_attached");
    assert_int_equal(j_of(&script)->requeue_count, 2);
    assert_true(j_of(&script)->restart_at_ms > script.now_ms);
    script_close(&script);

    start(&script, "", "broker=manual requeue=always"); /* somebody's own restart waits for him */
    die(&script, "n1", "n2");
    expect_ok(&script, "restart j from_scratch");
    expect_status(&script, NOT_RESTARTABLE, "choose j absent=n1");
    script_close(&script);
}

/* Two failures in a row that began on one node: it is excluded for two minutes, and others come
 * first after that. Progress, a failure elsewhere and a person's restart begin the count anew. */
static void a_node_that_failed_the_job_twice_is_excluded(void **unused)
{
    struct script script;
    const struct fsm_node *n1;

    (void)unused;
    start(&script, "", "max_requeue=9");
    n1 = fsm_node_find(script.fsm, "n1");
    for (uint32_t time = 1; time <= 2; time++) {
        die(&script, "n1", "n2");
        assert_int_equal(j_of(&script)->cause_count, time);
        assert_int_equal(fsm_restart_failed_on(j_of(&script), n1), time == 2);
        expect_ok(&script, "after 10000");
        if (time == 2) {
            expect_status(&script, NODE_EXCLUDED, "choose j nodes=n1,n2");
            assert_string_equal(script.outcome.subject, "n1");
            assert_int_equal(fsm_restart_node_status(script.fsm, j_of(&script),
                                                     fsm_node_find(script.fsm, "n3"),
                                                     script.now_ms),
                             FSM_OK);
            expect_ok(&script, "after 110000");
        }
        expect_ok(&script, "choose j nodes=n1,n2"); /* nobody else waits */
        expect_ok(&script, "report n1 application_started j");
        expect_ok(&script, "report n2 application_started j");
    }
    script_restore(&script);
    n1 = fsm_node_find(script.fsm, "n1");
    assert_int_equal(j_of(&script)->cause_count, 2);
    die(&script, "n2", "n1");
    assert_int_equal(j_of(&script)->cause_count, 1);
    assert_false(fsm_restart_failed_on(j_of(&script), n1));
    expect_ok(&script, "restart j from_scratch");
    assert_int_equal(j_of(&script)->cause_count, 0);
    script_close(&script);
}

/* Another node takes a lost one's place and share; not while that is only silent. */
static void a_spare_takes_the_place_of_a_lost_node(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "", "gpus=4");
    expect_ok(&script, "node n2 degraded");
    expect_ok(&script, "node n2 down");
    expect_ok(&script, "report n1 terminated j");
    expect_job(&script, "j", REQUEUED);
    expect_status(&script, NODE_SILENT, "choose j nodes=n1,n3");
    expect_ok(&script, "node_off n2");
    expect_ok(&script, "choose j nodes=n1,n3");
    expect_job(&script, "j", STARTING);
    assert_int_equal(j_of(&script)->gpu_count, 8);
    assert_int_equal(j_of(&script)->node_count, 2);
    script_close(&script);
}

/* A reactive job comes back with as many as its minimum. */
static void an_elastic_job_comes_back_smaller(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "", "min=1 max=2");
    die(&script, "n1", "n2");
    assert_int_equal(fsm_restart_nodes(script.fsm, j_of(&script)).fewest, 1);
    assert_int_equal(fsm_restart_nodes(script.fsm, j_of(&script)).most, 2);
    expect_ok(&script, "choose j nodes=n2");
    assert_int_equal(j_of(&script)->node_count, 1);
    script_close(&script);
}

/* Nodes that a preemption took are free again when their next job has given them back. */
static void a_victim_waits_until_its_nodes_are_free_again(void **unused)
{
    struct script script;

    (void)unused;
    start_nodes(&script, "", 2);
    expect_ok(&script, "policy zeros=268435456");
    expect_ok(&script, "register j nodes=n1 class=1 restore=all gpus=4");
    expect_complete(&script, "j", 1);
    lose_to_preemption(&script, "j", "n1", "need=1");
    assert_true(j_of(&script)->restart_at_ms != 0);
    expect_status(&script, NODE_LEFT, "choose j nodes=n1");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "register k nodes=n1 class=5");
    expect_status(&script, NODE_LEFT, "choose j nodes=n1");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "end k");
    expect_ok(&script, "report n1 terminated k");
    script_restore(&script);
    expect_ok(&script, "choose j nodes=n1");
    expect_job(&script, "j", STARTING);
    script_close(&script);
}

/* Whoever was there all the time, as another victim of the same preemption, gives no node back. */
static void a_victim_does_not_come_back_when_another_one_goes(void **unused)
{
    struct script script;

    (void)unused;
    start_nodes(&script, "", 1);
    expect_ok(&script, "policy zeros=268435456");
    expect_ok(&script, "register j nodes=n1 class=1 restore=all gpus=4");
    expect_ok(&script, "register o nodes=n1 class=8 gpus=4");
    expect_complete(&script, "j", 1);
    lose_to_preemption(&script, "j", "n1", "need=0 gpus=4");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "end o");
    expect_ok(&script, "report n1 terminated o");
    expect_status(&script, NODE_LEFT, "choose j nodes=n1");
    expect_ok(&script, "register k nodes=n1 class=5");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "end k");
    expect_ok(&script, "report n1 terminated k");
    script_restore(&script);
    expect_ok(&script, "choose j nodes=n1");
    expect_job(&script, "j", STARTING);
    script_close(&script);
}

/* S1-022: the node that a job was moved away from is not where it goes on. */
static void a_job_that_moved_does_not_come_back_to_its_node(void **unused)
{
    struct script script;

    (void)unused;
    start_nodes(&script, "", 2);
    expect_ok(&script, "register j nodes=n1 restore=all");
    expect_ok(&script, "migrate j");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j ckpt=1-1");
    expect_ok(&script, "report n1 terminated j");
    expect_job(&script, "j", REQUEUED);
    expect_status(&script, NODE_LEFT, "choose j nodes=n1");
    expect_ok(&script, "choose j nodes=n2");
    script_close(&script);

    start(&script, "", ""); /* of several nodes: one at least is another one */
    expect_ok(&script, "migrate j");
    expect_ok(&script, "grant 1-1");
    for (int node = 1; node <= 2; node++)
        expect_ok(&script, "report n%d shard_verified j ckpt=1-1", node);
    for (int node = 1; node <= 2; node++)
        expect_ok(&script, "report n%d terminated j", node);
    expect_job(&script, "j", REQUEUED);
    assert_int_equal(fsm_restart_nodes(script.fsm, j_of(&script)).others, 1);
    expect_status(&script, NODE_LEFT, "choose j nodes=n1,n2");
    expect_ok(&script, "choose j nodes=n1,n3");
    script_close(&script);
}

/* S3-053: nothing of it can be saved, and it may run again: it begins anew on the new node. */
static void a_job_without_checkpoints_moves_by_beginning_anew(void **unused)
{
    struct script script;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init");
    for (int i = 1; i <= 2; i++)
        expect_ok(&script, "node n%d ready boot=b%d", i, i);
    expect_ok(&script, "register j nodes=n1 strategy=none");
    expect_ok(&script, "migrate j");
    expect_status(&script, CHECKPOINTING, "migrate j"); /* under way */
    expect_ok(&script, "report n1 terminated j");
    expect_job(&script, "j", REQUEUED);
    assert_int_equal(j_of(&script)->reason, CKPT__V1__REASON__REASON_MIGRATED);
    assert_int_equal(j_of(&script)->requeue_count, 0); /* to move is no failure */
    expect_status(&script, NODE_LEFT, "choose j nodes=n1");
    expect_ok(&script, "choose j nodes=n2");
    expect_job(&script, "j", STARTING);
    assert_int_equal(j_of(&script)->last_complete_id, 0);
    expect_ok(&script, "register k nodes=n1 strategy=none requeue=never");
    expect_status(&script, NOT_RERUNNABLE, "migrate k");
    expect_job(&script, "k", RUNNING);
    script_close(&script);
}

/* Nodes that a preemption freed are for who comes next: not for a spare of a lower class, and not
 * for the victim. When nobody comes for five minutes they are free. */
static void nodes_of_a_preemption_are_kept_for_who_is_to_come(void **unused)
{
    struct script script;
    const struct fsm_node *n3;

    (void)unused;
    start(&script, "", "class=4");
    n3 = fsm_node_find(script.fsm, "n3");
    expect_ok(&script, "policy zeros=268435456");
    expect_ok(&script, "register v nodes=n3 class=1 restore=all gpus=4");
    expect_ok(&script, "register h nodes=n4 class=7");
    expect_ok(&script, "request v");
    expect_ok(&script, "grant 1-1 bytes=1");
    expect_ok(&script, "report n3 shard_verified v ckpt=1-1");
    lose_to_preemption(&script, "v", "n3", "need=1");
    die(&script, "n1", "n2");
    assert_int_equal(fsm_restart_node_status(script.fsm, j_of(&script), n3, script.now_ms),
                     FSM_NODE_LEFT);
    expect_status(&script, NODE_LEFT, "choose j nodes=n1,n3");
    assert_int_equal(fsm_restart_node_status(script.fsm, job_of(&script, "h"), n3, script.now_ms),
                     FSM_OK);
    script_restore(&script);
    n3 = fsm_node_find(script.fsm, "n3");
    expect_ok(&script, "after 299000");
    expect_status(&script, NODE_LEFT, "choose v nodes=n3");
    expect_ok(&script, "after 1000");
    assert_int_equal(fsm_restart_node_status(script.fsm, j_of(&script), n3, script.now_ms), FSM_OK);
    expect_ok(&script, "choose v nodes=n3");
    expect_job(&script, "v", STARTING);
    script_close(&script);
}

/* A victim that ends for good while it waits holds no node that it could free. */
static void a_victim_that_ends_later_frees_nothing_again(void **unused)
{
    struct script script;

    (void)unused;
    start_nodes(&script, "", 2);
    expect_ok(&script, "policy zeros=268435456");
    expect_ok(&script, "register v nodes=n1 class=1 restore=all gpus=4");
    expect_ok(&script, "register j nodes=n2 class=1 requeue=always");
    expect_complete(&script, "v", 1);
    lose_to_preemption(&script, "v", "n1", "need=1");
    expect_ok(&script, "register k nodes=n1 class=5");
    expect_ok(&script, "end k");
    expect_ok(&script, "report n1 terminated k");
    expect_ok(&script, "end v");
    assert_int_equal(fsm_restart_node_status(script.fsm, j_of(&script),
                                             fsm_node_find(script.fsm, "n1"), script.now_ms),
                     FSM_OK);
    script_close(&script);
}

/* V-002: ranks end because their peer's node is off, and are heard first: the node is the cause,
 * and the job is requeued as its policy says of lost nodes. */
static void exits_of_peers_are_not_the_cause(void **unused)
{
    struct script script;

    (void)unused;
    for (int nodes_first = 0; nodes_first < 2; nodes_first++) {
        start(&script, "", "broker=manual requeue=on_node_failure");
        if (nodes_first != 0) {
            expect_ok(&script, "node n2 degraded");
            expect_ok(&script, "node n2 down");
            expect_ok(&script, "report n1 application_exited j status=256");
        } else {
            expect_ok(&script, "report n1 application_exited j status=256");
            assert_string_equal(j_of(&script)->cause_node_id, "n1");
            assert_int_equal(j_of(&script)->cause_wait_status, 256);
            expect_ok(&script, "after %d", 1000 + FSM_TERMINATE_SLACK_MS - 1);
            expect_ok(&script, "node n2 degraded");
            expect_ok(&script, "after 1");
            expect_ok(&script, "tick");
            assert_true(j_of(&script)->terminating); /* n2 may be the cause */
            script_restore(&script);
            expect_ok(&script, "after %d", FSM_CAUSE_AGAIN_MS);
            expect_ok(&script, "tick");
            assert_true(j_of(&script)->terminating);
            expect_ok(&script, "node n2 down");
        }
        expect_job(&script, "j", REQUEUED);
        expect_reason(&script, "j", "node_down");
        assert_string_equal(j_of(&script)->cause_node_id, "n2");
        assert_int_equal(j_of(&script)->cause_wait_status, 0);
        assert_true(j_of(&script)->cause_at_ms != 0);
        script_close(&script);
    }
}

/* Its ckpt-run and its application are gone together, as when a node loses all its processes and is
 * back before it was called down: the policy for lost nodes holds. */
static void an_end_that_nobody_saw_is_a_nodes(void **unused)
{
    struct script script;

    (void)unused;
    for (int level = 1; level <= 2; level++) {
        start(&script, level == 1 ? "level=1" : "", "requeue=on_node_failure");
        expect_ok(&script, "report n1 application_exited j status=-1 %s",
                  level == 1 ? "" : "end=unseen");
        expect_ok(&script, "report n2 terminated j");
        assert_string_equal(fsm_allocation_state_name(j_of(&script)->state),
                            level == 1 ? "FAILED" : "REQUEUED");
        expect_reason(&script, "j", "application_exited");
        script_close(&script);
    }
}

/* F-015: somebody ends one part, or the only one. A peer that ends with it may be heard first. The
 * job does not come back, whatever the policy of requeues, which is about failures. */
static void an_end_that_was_asked_for_is_no_failure(void **unused)
{
    static const char *const told[] = {"application_exited j status=2 end=asked",
                                       "terminated j status=2 end=asked"};
    static const char *const policies[] = {"", "requeue=always", "broker=manual requeue=always"};

    (void)unused;
    for (size_t i = 0; i < 6; i++) {
        const char *policy = policies[i / 2];
        struct script script;

        start(&script, "", policy);
        expect_ok(&script, "report n2 application_exited j status=1 restart");
        expect_ok(&script, "report n1 %s", told[i % 2]);
        expect_ok(&script, "report n2 terminated j");
        if (i % 2 == 0)
            expect_ok(&script, "report n1 terminated j");
        expect_job(&script, "j", FAILED);
        assert_false(fsm_restart_awaited(script.fsm, j_of(&script)));
        script_close(&script);
        start(&script, "", policy);
        expect_ok(&script, "report n1 application_exited j status=%d end=asked", i % 2 ? 2 : -1);
        expect_ok(&script, "report n2 terminated j");
        expect_job(&script, "j", FAILED);
        expect_reason(&script, "j", "application_exited");
        script_close(&script);
    }
    for (int asked = 0; asked < 2; asked++) { /* the only part of a job */
        struct script script;

        start(&script, "", "");
        expect_ok(&script, "register alone nodes=n3 requeue=always");
        expect_ok(&script, "report n3 application_started alone");
        expect_ok(&script, "report n3 application_exited alone status=2 %s",
                  asked ? "end=asked" : "");
        assert_string_equal(fsm_allocation_state_name(job_of(&script, "alone")->state),
                            asked ? "FAILED" : "REQUEUED");
        script_close(&script);
    }
}

/* V-018: whose it is on a node stays known there, for an agent that has lost its journal, through a
 * snapshot, a change of its nodes and the agent's further starts. */
static void whose_it_is_on_a_node_is_kept(void **unused)
{
    struct script script;
    struct fsm_part part;
    uint32_t slot;

    (void)unused;
    start(&script, "", "strategy=none");
    slot = fsm_node_find(script.fsm, "n1")->slot;
    expect_ok(&script, "report n1 application_started j user=1001");
    expect_ok(&script, "report n2 application_started j user=1002");
    script_restore(&script);
    assert_true(fsm_part_on(script.fsm, j_of(&script), slot, &part));
    assert_int_equal(part.user, 1001);
    expect_ok(&script, "update j nodes=n3,n1");
    assert_true(fsm_part_on(script.fsm, j_of(&script), slot, &part));
    assert_int_equal(part.user, 1001);
    slot = fsm_node_find(script.fsm, "n3")->slot;
    assert_true(fsm_part_on(script.fsm, j_of(&script), slot, &part));
    assert_int_equal(part.user, 0);
    script_close(&script);
}

/* A silent node that is heard again was not the cause; nor is one whose application ended first. */
static void a_node_that_is_heard_again_was_not_the_cause(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "", "broker=manual requeue=on_node_failure");
    expect_ok(&script, "report n1 application_exited j status=256");
    expect_ok(&script, "after %d", 1000 + FSM_TERMINATE_SLACK_MS);
    expect_ok(&script, "node n2 degraded");
    expect_ok(&script, "tick");
    expect_ok(&script, "node n2 ready boot=b2");
    expect_ok(&script, "report n2 terminated j");
    expect_job(&script, "j", FAILED);
    assert_string_equal(j_of(&script)->cause_node_id, "n1");
    script_close(&script);

    start(&script, "", "broker=manual requeue=on_node_failure");
    expect_ok(&script, "report n2 application_exited j status=256");
    expect_ok(&script, "node n2 degraded");
    expect_ok(&script, "node n2 down");
    expect_ok(&script, "report n1 terminated j");
    expect_job(&script, "j", FAILED);
    expect_reason(&script, "j", "application_exited");
    assert_string_equal(j_of(&script)->cause_node_id, "n2");
    assert_int_equal(j_of(&script)->cause_wait_status, 256);
    script_close(&script);

    start(&script, "level=1", "requeue=on_node_failure");
    expect_ok(&script, "report n1 application_exited j status=256");
    expect_ok(&script, "node n2 down");
    expect_job(&script, "j", FAILED);
    assert_string_equal(j_of(&script)->cause_node_id, "");
    script_close(&script);
}

/* Ranks whose peer has died hang in a collective; others have their grace. */
static void peers_of_a_dead_rank_are_ended_at_once(void **unused)
{
    struct fsm_order order;
    struct script script;

    (void)unused;
    start(&script, "", "");
    expect_ok(&script, "report n1 application_exited j status=1 restart");
    assert_int_equal(
        fsm_orders_for_node(script.fsm, fsm_node_find(script.fsm, "n2")->slot, &order, 1), 1);
    assert_int_equal(order.kind, FSM_ORDER_TERMINATE);
    assert_true(order.grace_ms == 1000);
    script_close(&script);
    start(&script, "level=1", "");
    expect_ok(&script, "report n1 application_exited j status=1 restart");
    assert_int_equal(
        fsm_orders_for_node(script.fsm, fsm_node_find(script.fsm, "n2")->slot, &order, 1), 1);
    assert_true(order.grace_ms == 30000);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_dies_brings_the_job_back),
        cmocka_unit_test(who_restarts_by_hand_is_left_alone),
        cmocka_unit_test(a_part_that_dies_stops_the_others_instead_of_restarting_alone),
        cmocka_unit_test(words_about_an_end_are_kept),
        cmocka_unit_test(a_job_without_progress_waits_longer_and_ends),
        cmocka_unit_test(a_choice_is_checked_again),
        cmocka_unit_test(a_job_that_continues_begins_from_what_it_continues),
        cmocka_unit_test(a_choice_whose_node_left_is_made_again),
        cmocka_unit_test(a_node_that_failed_the_job_twice_is_excluded),
        cmocka_unit_test(a_spare_takes_the_place_of_a_lost_node),
        cmocka_unit_test(an_elastic_job_comes_back_smaller),
        cmocka_unit_test(a_victim_waits_until_its_nodes_are_free_again),
        cmocka_unit_test(a_victim_does_not_come_back_when_another_one_goes),
        cmocka_unit_test(a_job_that_moved_does_not_come_back_to_its_node),
        cmocka_unit_test(a_job_without_checkpoints_moves_by_beginning_anew),
        cmocka_unit_test(nodes_of_a_preemption_are_kept_for_who_is_to_come),
        cmocka_unit_test(a_victim_that_ends_later_frees_nothing_again),
        cmocka_unit_test(exits_of_peers_are_not_the_cause),
        cmocka_unit_test(an_end_that_nobody_saw_is_a_nodes),
        cmocka_unit_test(an_end_that_was_asked_for_is_no_failure),
        cmocka_unit_test(whose_it_is_on_a_node_is_kept),
        cmocka_unit_test(a_node_that_is_heard_again_was_not_the_cause),
        cmocka_unit_test(peers_of_a_dead_rank_are_ended_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
