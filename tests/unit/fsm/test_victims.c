/* Who gives nodes up for what reason, at which price, and what a preemption comes to. */
#include "tests/unit/fsm/expect.h"
#include "tests/unit/fsm/random_line.h"

static const struct fsm_preemption *preemption_of(const struct script *script, uint64_t id)
{
    const struct fsm_preemption *preemption = fsm_preemption_next(script->fsm, id - 1);

    assert_non_null(preemption);
    assert_true(preemption->id == id);
    return preemption;
}

#define expect_preemption(script, id, name)                                                        \
    assert_int_equal(preemption_of((script), (id))->state,                                         \
                     CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_##name)
#define expect_victim(script, id, i, name)                                                         \
    assert_int_equal(preemption_of((script), (id))->victims[i].state,                              \
                     CKPT__V1__VICTIM_STATE__VICTIM_STATE_##name)

/* Stops the job with its checkpoint, which is 1-`sequence`, on one node. */
static void let_go(struct script *script, const char *job, const char *node, int sequence)
{
    expect_ok(script, "grant 1-%d timeout=60000 bypass bytes=0", sequence);
    expect_ok(script, "report %s shard_verified %s ckpt=1-%d", node, job, sequence);
    expect_ok(script, "report %s terminated %s", node, job);
}

/* P-010, P-060, I32, N-001: who can never be taken is not taken by anybody; who once can, is. */
static void who_can_never_be_a_victim_is_known(void **unused)
{
    static const struct {
        const char *words;
        bool never;
    } cases[] = {{"class=9", false},
                 {"class=10", true},
                 {"class=1 sensitive", true},
                 {"class=1 kind=sensitive", true},
                 {"class=1 kind=service", true},
                 {"class=1 kind=service min=1", false},
                 {"class=1 kind=ml", false},
                 {"class=6 strategy=none", false},
                 {"class=7 strategy=none", true},
                 {"class=7 strategy=manual", false}};
    struct script script;

    (void)unused;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct fsm_allocation *job;
        uint64_t cost;

        script_start(&script);
        expect_ok(&script, "register j1 nodes=n1 %s", cases[i].words);
        job = job_of(&script, "j1");
        assert_int_equal(fsm_victim_never(job), cases[i].never);
        if (cases[i].never)
            assert_int_not_equal(fsm_victim_outlook(script.fsm, job, &cost), FSM_OK);
        else if (job->vcluster_kind != CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_SERVICE)
            assert_int_equal(fsm_victim_outlook(script.fsm, job, &cost), FSM_OK);
        script_close(&script);
    }
}

/* P-015: only nodes that help the waiting job count, so a job with many others is no better */
static void only_useful_nodes_count(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register wide nodes=n1,n2,n3 class=1 memory=1");
    expect_ok(&script, "register right nodes=n4,n5 class=1 memory=90000000000");
    expect_ok(&script, "preempt class=5 need=2 useful=n3,n4,n5");
    expect_victims(&script, "right");
    assert_int_equal(script.outcome.victims[0].node_count, 2);
    expect_status(&script, NO_VICTIMS, "preempt class=5 need=2 useful=n3");
    script_close(&script);
}

/* P-015: nodes of one vCluster */
static void nodes_of_one_home_count(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1 home=hpc");
    expect_ok(&script, "register b nodes=n2 class=1 home=ml");
    expect_ok(&script, "register c nodes=n3 class=1");
    expect_ok(&script, "preempt class=5 home=ml");
    expect_victims(&script, "b");
    expect_status(&script, NO_VICTIMS, "preempt class=5 need=2 home=hpc");
    script_close(&script);
}

/* P-050: by GPUs, and both needs at once */
static void gpus_are_covered_as_well(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register few nodes=n1,n2 gpus=1 class=1 memory=1");
    expect_ok(&script, "register many nodes=n3 gpus=8 class=1 memory=90000000000");
    expect_ok(&script, "preempt class=5 need=0 gpus=8");
    expect_victims(&script, "many");
    script_close(&script);
    script_start(&script);
    expect_ok(&script, "register few nodes=n1,n2 gpus=1 class=1 memory=1");
    expect_ok(&script, "register many nodes=n3 gpus=8 class=1 memory=90000000000");
    expect_ok(&script, "preempt class=5 need=2 gpus=9");
    expect_victims(&script, "few many");
    script_close(&script);
}

/* P-050: the victims together must cost less than the job is worth, strictly */
static void victims_must_cost_less_than_the_job_is_worth(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    /* 8 GPUs for 80 GB at 2 GB/s: 40 s x 8 = 320,000 GPU-ms */
    expect_ok(&script, "register a nodes=n1 class=1");
    expect_status(&script, COST_EXCEEDS_VALUE, "preempt class=5 value=320000");
    assert_true(script.outcome.current == 320000 && script.outcome.limit == 320000);
    expect_job(&script, "a", RUNNING);
    expect_ok(&script, "preempt class=5 value=320001");
    assert_true(preemption_of(&script, 1)->cost_gpu_ms == 320000);
    script_close(&script);
}

/* P-050: one large victim is preferred, but not at any price */
static void several_cheap_victims_are_taken_when_the_large_one_is_too_dear(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register large nodes=n1,n2 class=1 memory=400000000000");
    expect_ok(&script, "register s1 nodes=n3 class=1 memory=2000000000");
    expect_ok(&script, "register s2 nodes=n4 class=1 memory=2000000000");
    expect_ok(&script, "preempt class=5 need=2 value=100000");
    expect_victims(&script, "s1 s2");
    script_close(&script);
}

/* P-012: a manual job's checkpoint may take as long as its timeout */
static void a_manual_job_costs_its_timeout(void **unused)
{
    struct script script;
    uint64_t cost = 0;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1 strategy=manual timeout=600000");
    expect_ok(&script, "register b nodes=n2 class=1 strategy=none");
    expect_ok(&script, "after 1000");
    assert_int_equal(fsm_victim_outlook(script.fsm, job_of(&script, "a"), &cost), FSM_OK);
    assert_true(cost == UINT64_C(600000) * 8);
    assert_int_equal(fsm_victim_outlook(script.fsm, job_of(&script, "b"), &cost), FSM_OK);
    script_close(&script);
}

/* P-005, A-004: what was lent is taken back whatever class runs on it, but for class 10 and sensitive ones (N-001) */
static void a_reclaim_takes_borrowed_nodes_of_the_home_from_any_class(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register guest nodes=n1 class=9 borrowed home=ml");
    expect_ok(&script, "register own nodes=n2 class=0 home=ml");
    expect_ok(&script, "register other nodes=n3 class=0 borrowed home=hpc");
    expect_ok(&script, "register ten nodes=n4 class=10 borrowed home=ml");
    expect_ok(&script, "register secret nodes=n5 class=1 sensitive");
    expect_ok(&script, "preempt reason=reclaim home=ml class=0");
    expect_victims(&script, "guest");
    expect_status(&script, NO_VICTIMS, "preempt reason=reclaim home=ml");
    expect_status(&script, CLASS_TOO_LOW, "preempt reason=reclaim home=ml nodes=ten");
    expect_status(&script, SENSITIVE, "preempt reason=reclaim home=ml nodes=secret");
    script_close(&script);
}

/* P-005, S1-081, R-003: an elastic job checkpoints, gives back as many as are wanted, and goes on */
static void an_elastic_job_shrinks_instead_of_stopping(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register elastic nodes=n1,n2,n3 min=1 max=4 class=3 borrowed home=ml");
    expect_ok(&script, "preempt reason=reclaim home=ml need=2");
    expect_victims(&script, "elastic");
    assert_int_equal(script.outcome.victims[0].node_count, 2);
    expect_job(&script, "elastic", RUNNING);
    expect_victim(&script, 1, 0, SHRINKING);
    assert_int_equal(checkpoint_of(&script, 1)->purpose, CKPT__V1__PURPOSE__PURPOSE_SCALE_DOWN);
    expect_ok(&script, "grant 1-1");
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "report n%d shard_verified elastic ckpt=1-1", i);
    expect_job(&script, "elastic", RUNNING);
    expect_preemption(&script, 1, WAITING); /* the parts on the nodes still run */
    expect_ok(&script, "report n1 terminated elastic");
    expect_preemption(&script, 1, WAITING);
    expect_ok(&script, "report n2 terminated elastic");
    expect_preemption(&script, 1, RELEASED);
    assert_int_equal(job_of(&script, "elastic")->node_count, 1);
    assert_int_equal(job_of(&script, "elastic")->preempted_count, 0);
    script_close(&script);
}

/* stopping won, came to nothing, and the new set is forgotten */
static void an_elastic_job_whose_stop_fails_is_no_victim_any_more(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register elastic nodes=n1,n2 min=1 max=4 class=3 borrowed home=ml");
    expect_ok(&script, "preempt reason=reclaim home=ml need=1");
    expect_ok(&script, "request elastic after=stop");
    expect_ok(&script, "grant 1-1");
    expect_victim(&script, 1, 0, SHRINKING);
    expect_ok(&script, "report n1 checkpoint_failed elastic ckpt=1-1 reason=no_handler");
    expect_job(&script, "elastic", RUNNING);
    expect_victim(&script, 1, 0, WITHDRAWN);
    expect_ok(&script, "tick");
    expect_preemption(&script, 1, EXPIRED);
    script_close(&script);
}

/* reactive_min_nodes is kept: then it must stop */
static void an_elastic_job_at_its_smallest_stops(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register elastic nodes=n1,n2 min=2 max=4 class=3 borrowed home=ml");
    expect_ok(&script, "preempt reason=reclaim home=ml need=1");
    expect_victim(&script, 1, 0, STOPPING);
    expect_job(&script, "elastic", CHECKPOINTING_TO_STOP);
    script_close(&script);
}

/* P-006: at once, whatever it is worth, and forced when nothing can be written (S1-066) */
static void a_sensitive_claim_takes_the_occupiers(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=9");
    expect_ok(&script, "register b nodes=n2 class=1");
    expect_ok(&script, "preempt reason=sensitive class=10 useful=n1 value=1");
    expect_victims(&script, "a");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "preempt reason=sensitive class=10 useful=n2");
    assert_true(script.outcome.victims[0].checkpoint_id == 0);
    expect_ok(&script, "report n2 terminated b");
    expect_job(&script, "b", FAILED); /* S1-067 */
    expect_reason(&script, "b", "preempted_without_checkpoint");
    script_close(&script);
}

/* min_progress: not before it has made more progress than a checkpoint and a restart cost */
static void a_resumed_job_is_protected_until_its_progress_is_worth_it(void **unused)
{
    struct script script;
    uint64_t limit_ms;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy restart_cost=100000");
    expect_ok(&script, "register a nodes=n1 class=1");
    expect_ok(&script, "after 300000");
    expect_ok(&script, "preempt class=5");
    let_go(&script, "a", "n1", 1);
    expect_preemption(&script, 1, RELEASED);
    expect_ok(&script, "restart a");
    expect_ok(&script, "after 60000");
    expect_ok(&script, "report n1 application_started a restored=1-1");
    expect_status(&script, JUST_RESUMED, "preempt class=5 nodes=a");
    assert_true(script.outcome.current == 0); /* it only starts */
    limit_ms = script.outcome.limit;
    assert_true(limit_ms >= 102000 && limit_ms < 110000); /* restart, quiesce, a short write */
    expect_ok(&script, "after %" PRIu64, limit_ms);
    expect_status(&script, JUST_RESUMED, "preempt class=5 nodes=a");
    assert_true(script.outcome.current == limit_ms);
    expect_status(&script, JUST_RESUMED, "preempt reason=reclaim useful=n1 nodes=a");
    expect_ok(&script, "after 1");
    expect_ok(&script, "preempt class=5 nodes=a");
    script_close(&script);
}

/* P-006 */
static void a_sensitive_claim_does_not_wait_for_progress(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1");
    expect_ok(&script, "after 300000");
    expect_ok(&script, "preempt class=5");
    let_go(&script, "a", "n1", 1);
    expect_ok(&script, "restart a");
    expect_status(&script, JUST_RESUMED, "preempt class=5 nodes=a");
    expect_ok(&script, "preempt reason=sensitive class=10 nodes=a");
    script_close(&script);
}

/* The payoffs of actions: with less work at stake than a checkpoint takes, going back to the last one is cheaper */
static void a_victim_that_was_just_saved_is_stopped_without_another_checkpoint(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1");
    expect_ok(&script, "after 300000");
    expect_ok(&script, "request a");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started a ckpt=1-1");
    expect_ok(&script, "after 20000");
    expect_ok(&script, "report n1 shard_verified a ckpt=1-1 write=20000");
    expect_ok(&script, "after 1000"); /* 21 s of work against 22 s of checkpoint */
    expect_ok(&script, "preempt class=5");
    assert_true(script.outcome.victims[0].checkpoint_id == 0);
    expect_ok(&script, "report n1 terminated a");
    expect_job(&script, "a", SUSPENDED);
    assert_true(fsm_restart_point(script.fsm, "a", 0)->id == checkpoint_of(&script, 1)->id);
    script_close(&script);
}

/* P-024, P-050: the one who waits gets nothing before all have let go */
static void nodes_are_there_when_every_victim_let_go(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1");
    expect_ok(&script, "register b nodes=n2 class=1");
    expect_ok(&script, "preempt class=5 need=2 for=big");
    let_go(&script, "a", "n1", 1);
    expect_preemption(&script, 1, WAITING);
    expect_victim(&script, 1, 0, RELEASED);
    expect_victim(&script, 1, 1, STOPPING);
    assert_true(preemption_of(&script, 1)->deadline_ms > script.now_ms);
    let_go(&script, "b", "n2", 2);
    expect_preemption(&script, 1, RELEASED);
    assert_true(preemption_of(&script, 1)->ended_at_ms == script.now_ms);
    script_close(&script);
}

/* F-021: it completes by itself: its nodes are free all the same */
static void a_victim_that_completes_has_let_go(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1");
    expect_ok(&script, "preempt class=5");
    expect_ok(&script, "report n1 application_exited a");
    expect_job(&script, "a", COMPLETED);
    expect_preemption(&script, 1, RELEASED);
    script_close(&script);
}

/* A victim whose storage is gone never lets go: another one takes its place (head of line) */
/* What is being emptied or is gone helps nobody, before and after a victim let go of it. */
static void nodes_that_nobody_can_use_do_not_count(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register leaving nodes=n1,n2 class=1 memory=1");
    expect_ok(&script, "register first nodes=n3,n4 gpus=8 class=2");
    expect_ok(&script, "register second nodes=n5 gpus=8 class=3");
    expect_ok(&script, "drain n1");
    expect_ok(&script, "drain n2");
    expect_ok(&script, "preempt class=5 need=2");
    expect_victims(&script, "first");
    expect_ok(&script, "drain n3");
    expect_ok(&script, "grant 1-1 timeout=60000 bypass bytes=0");
    expect_ok(&script, "report n3 shard_verified first ckpt=1-1");
    expect_ok(&script, "report n4 shard_verified first ckpt=1-1");
    expect_ok(&script, "report n3 terminated first");
    expect_ok(&script, "report n4 terminated first");
    expect_victim(&script, 1, 0, RELEASED);
    assert_int_equal(preemption_of(&script, 1)->victims[0].node_count, 1);
    assert_int_equal(preemption_of(&script, 1)->victims[0].gpu_count, 8);
    expect_preemption(&script, 1, WAITING);
    expect_ok(&script, "tick");
    assert_string_equal(preemption_of(&script, 1)->victims[1].allocation_id, "second");
    expect_ok(&script, "node n5 down");
    expect_ok(&script, "tick");
    expect_victim(&script, 1, 1, RELEASED);
    assert_int_equal(preemption_of(&script, 1)->victims[1].node_count, 0);
    expect_preemption(&script, 1, EXPIRED);
    script_close(&script);
}

/* The broker's own claim and its scheduler's request may both come. */
static void one_job_that_waits_takes_one_set_of_victims(void **unused)
{
    static const char *const more[] = {"class=5 need=2", "class=6", "class=5 forced",
                                       "class=5 useful=n2"};
    char line[128];
    struct script script;

    (void)unused;
    script_start(&script);
    for (int i = 1; i < 9; i++)
        expect_ok(&script, "register j%d nodes=n%d class=1", i, i);
    expect_ok(&script, "preempt class=5 need=1 for=w");
    assert_true(script.outcome.preemption_id == 1);
    expect_ok(&script, "preempt class=4 need=1 for=w");
    expect_victims(&script, "j1");
    assert_true(script.outcome.preemption_id == 1);
    expect_ok(&script, "preempt class=5 need=1 for=v");
    assert_true(script.outcome.preemption_id == 2);
    expect_ok(&script, "preempt class=5 need=1");
    assert_true(script.outcome.preemption_id == 3);
    for (size_t i = 0; i < 4; i++) { /* what the first does not cover is one of its own */
        snprintf(line, sizeof(line), "preempt %s for=w", more[i]);
        script_run(&script, line);
        assert_false(script.outcome.preemption_id == 1);
    }
    let_go(&script, "j1", "n1", 1);
    expect_preemption(&script, 1, RELEASED);
    expect_ok(&script, "preempt class=4 need=1 for=w");
    assert_true(script.outcome.preemption_id > 3);
    script_close(&script);
}

static void a_stuck_victim_is_replaced_at_the_deadline(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register stuck nodes=n1 class=1 memory=1");
    expect_ok(&script, "register spare nodes=n2 class=1 target=other");
    expect_ok(&script, "preempt class=5");
    expect_victims(&script, "stuck");
    expect_ok(&script, "target scratch down");
    expect_checkpoint(&script, 1, PAUSED);
    expect_ok(&script, "at %" PRIu64, preemption_of(&script, 1)->deadline_ms - 1);
    expect_ok(&script, "tick");
    expect_victim(&script, 1, 0, STOPPING);
    expect_ok(&script, "after 1");
    expect_ok(&script, "tick");
    expect_victim(&script, 1, 0, WITHDRAWN);
    expect_victim(&script, 1, 1, STOPPING);
    expect_job(&script, "stuck", RUNNING);
    expect_job(&script, "spare", CHECKPOINTING_TO_STOP);
    expect_checkpoint(&script, 1, PAUSED); /* I24: neither cancelled nor resumed by this */
    let_go(&script, "spare", "n2", 2);
    expect_preemption(&script, 1, RELEASED);
    expect_ok(&script, "target scratch up");
    expect_checkpoint(&script, 1, REQUESTED);
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified stuck ckpt=1-1");
    expect_checkpoint(&script, 1, COMPLETE);
    expect_job(&script, "stuck", RUNNING); /* it is nobody's victim any more */
    script_close(&script);
}

static void a_preemption_without_another_victim_expires_and_gives_back(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1");
    expect_ok(&script, "preempt class=5");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "at %" PRIu64, preemption_of(&script, 1)->deadline_ms);
    expect_ok(&script, "tick");
    expect_preemption(&script, 1, EXPIRED);
    expect_victim(&script, 1, 0, WITHDRAWN);
    expect_job(&script, "a", RUNNING);
    assert_int_equal(job_of(&script, "a")->preempted_count, 0);
    script_close(&script);
}

/* S1-066, L4 */
static void a_forced_preemption_terminates_the_stuck_victim_at_the_deadline(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1 grace=1000");
    expect_ok(&script, "preempt class=5 forced");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "at %" PRIu64, preemption_of(&script, 1)->deadline_ms);
    expect_ok(&script, "tick");
    assert_true(job_of(&script, "a")->terminating);
    expect_ok(&script, "report n1 terminated a");
    expect_job(&script, "a", FAILED);
    expect_preemption(&script, 1, RELEASED);
    assert_int_equal(preemption_of(&script, 1)->escalations, 1);
    script_close(&script);
}

/* The leader was away: what waits for its grant is not given up for that */
static void a_victim_that_waits_for_a_grant_keeps_its_time(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1");
    expect_ok(&script, "preempt class=5 forced");
    expect_ok(&script, "at %" PRIu64, preemption_of(&script, 1)->deadline_ms + 5000);
    expect_ok(&script, "tick");
    expect_victim(&script, 1, 0, STOPPING);
    expect_job(&script, "a", CHECKPOINTING_TO_STOP);
    let_go(&script, "a", "n1", 1);
    expect_job(&script, "a", SUSPENDED);
    expect_preemption(&script, 1, RELEASED);
    script_close(&script);
}

static void a_cancelled_victim_is_replaced_at_the_next_tick(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1 memory=1");
    expect_ok(&script, "register b nodes=n2 class=1");
    expect_ok(&script, "preempt class=5");
    expect_ok(&script, "cancel 1-1");
    expect_victim(&script, 1, 0, WITHDRAWN);
    assert_true(fsm_next_deadline_ms(script.fsm) <= script.now_ms);
    expect_ok(&script, "tick");
    expect_victim(&script, 1, 1, STOPPING);
    expect_job(&script, "b", CHECKPOINTING_TO_STOP);
    expect_ok(&script, "cancel 1-2");
    expect_ok(&script, "tick");
    expect_preemption(&script, 1, EXPIRED);
    script_close(&script);
}

/* I12: a restored member escalates at the same instant */
static void a_preemption_goes_on_after_a_restore(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register a nodes=n1 class=1");
    expect_ok(&script, "register b nodes=n2 class=1");
    expect_ok(&script, "preempt class=5 need=2 for=big");
    let_go(&script, "a", "n1", 1);
    script_restore(&script);
    assert_true(job_of(&script, "b")->preemption_id == 1);
    let_go(&script, "b", "n2", 2);
    expect_preemption(&script, 1, RELEASED);
    script_close(&script);
}

/* A ring: the oldest ended one gives way, one that waits does not */
static void the_last_preemptions_are_kept(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    script.unchecked = true; /* a thousand times the whole state */
    expect_ok(&script, "register waits nodes=n0 class=1");
    for (int i = 0; i < FSM_PREEMPTIONS_MAX - 1; i++) {
        expect_ok(&script, "register j%d nodes=n1 class=1 strategy=none", i);
        expect_ok(&script, "preempt class=5 nodes=j%d", i);
        expect_ok(&script, "report n1 terminated j%d", i);
    }
    expect_ok(&script, "preempt class=5 nodes=waits");
    for (int i = 0; i < FSM_PREEMPTIONS_MAX - 1; i++) {
        expect_ok(&script, "register k%d nodes=n1 class=1 strategy=none", i);
        expect_ok(&script, "preempt class=5 nodes=k%d", i);
        expect_ok(&script, "report n1 terminated k%d", i);
    }
    assert_true(fsm_preemption_next(script.fsm, 0)->id == FSM_PREEMPTIONS_MAX);
    expect_ok(&script, "register last nodes=n1 class=1 strategy=none");
    expect_status(&script, PREEMPTIONS_FULL, "preempt class=5 nodes=last");
    expect_ok(&script, "end waits");
    expect_ok(&script, "preempt class=5 nodes=last");
    assert_true(fsm_preemption_next(script.fsm, 0)->id == FSM_PREEMPTIONS_MAX + 1);
    fsm_check(script.fsm, script_violation, &script);
    script_close(&script);
}

/* ---- kinds of vClusters ---- */

/* P-060: HPC, ML and interactive yes; a service's borrowed nodes only; sensitive never, not even for a sensitive claim or its home */
static void the_kind_of_a_vcluster_decides_whose_nodes_are_won(void **unused)
{
    static const char *const yes[] = {"unspecified", "hpc", "ml", "interactive"};
    struct script script;

    (void)unused;
    script_start(&script);
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        expect_ok(&script, "register j%zu nodes=n%zu class=1 kind=%s", i, i, yes[i]);
        expect_ok(&script, "preempt class=5 nodes=j%zu", i);
    }
    expect_ok(&script, "register secret nodes=s1 class=1 kind=sensitive");
    expect_status(&script, SENSITIVE, "preempt class=9 nodes=secret");
    expect_status(&script, SENSITIVE, "preempt class=10 reason=sensitive nodes=secret");
    expect_status(&script, SENSITIVE, "preempt reason=reclaim home=ml nodes=secret");
    expect_ok(&script, "register own nodes=o1 class=1 kind=service");
    expect_status(&script, BORROWED_ONLY, "preempt class=9 nodes=own");
    assert_true(script.outcome.current == 1 && script.outcome.limit == 1);
    expect_status(&script, BORROWED_ONLY, "preempt class=10 reason=sensitive nodes=own");
    expect_ok(&script, "register lent nodes=l1,l2 class=1 borrowed home=ml kind=service");
    expect_ok(&script, "preempt class=9 nodes=lent");
    script_close(&script);
}

/* P-060, P-005: part of its nodes are borrowed: it may shrink to its own, but not be stopped for the borrowed ones */
static void a_service_of_both_kinds_of_nodes_gives_back_the_borrowed_ones(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register fixed nodes=n1,n2 lent=n2 home=ml class=1 kind=service");
    expect_status(&script, BORROWED_ONLY, "preempt reason=reclaim home=ml nodes=fixed");
    assert_true(script.outcome.current == 1 && script.outcome.limit == 2);
    expect_ok(&script, "register elastic nodes=n3,n4 lent=n4 home=ml class=1 kind=service min=1");
    expect_ok(&script, "preempt reason=reclaim home=ml nodes=elastic");
    expect_victim(&script, 1, 0, SHRINKING);
    script_close(&script);
}

/* ---- random clusters ---- */

enum { RUNS = 40, LINES = 600 };

/* What must be true of everyone who was taken, judged from the state before. */
struct before {
    char id[RANDOM_JOBS][FSM_ID_BYTES];
    bool sensitive[RANDOM_JOBS], keeps_own[RANDOM_JOBS];
    uint8_t class[RANDOM_JOBS];
    uint64_t resumed_at_ms[RANDOM_JOBS];
    uint64_t protected_ms[RANDOM_JOBS];
    size_t count;
};

static void remember(const struct fsm *fsm, struct before *before)
{
    const Ckpt__V1__Policy *policy = fsm_policy(fsm);

    before->count = 0;
    for (uint32_t slot = 0; slot < fsm_allocation_slots(fsm); slot++) {
        const struct fsm_allocation *job = fsm_allocation_find_slot(fsm, slot);
        size_t i = before->count;

        if (job == NULL || i == RANDOM_JOBS)
            continue;
        snprintf(before->id[i], FSM_ID_BYTES, "%s", job->id);
        before->sensitive[i] =
            job->sensitive ||
            job->vcluster_kind == CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_SENSITIVE;
        before->keeps_own[i] =
            job->vcluster_kind == CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_SERVICE &&
            job->borrowed_count < job->node_count;
        before->class[i] = job->preemption_class;
        before->resumed_at_ms[i] = job->resumed_at_ms;
        before->protected_ms[i] = policy->restart_cost_ms; /* and more */
        before->count++;
    }
}

static size_t judge(const struct script *script, const struct before *before, bool claim,
                    bool priority, unsigned class)
{
    size_t protected = 0;

    assert_true(script->outcome.victim_count <= fsm_policy(script->fsm)->max_victims); /* P-050 */
    for (uint32_t i = 0; i < script->outcome.victim_count; i++) {
        for (size_t j = 0; j < before->count; j++) {
            uint64_t since_ms = script->now_ms - before->resumed_at_ms[j];

            if (strcmp(before->id[j], script->outcome.victims[i].allocation_id) != 0)
                continue;
            assert_false(before->sensitive[j]); /* I31, P-060 */
            assert_true(!before->keeps_own[j] || job_of(script, before->id[j])->next_count > 0);
            assert_true(before->class[j] < (priority ? class : 10)); /* I32 */
            assert_true(claim || before->resumed_at_ms[j] == 0 ||
                        since_ms > before->protected_ms[j] ||
                        job_of(script, before->id[j])->next_count > 0);
            protected += before->resumed_at_ms[j] != 0;
        }
    }
    return protected;
}

/* I31, I32, P-050, P-016, min_progress: whatever is asked of whatever runs */
static void no_random_preemption_breaks_a_rule(void **unused)
{
    uint64_t seed = test_seed();
    size_t taken = 0, refused = 0, shrunk = 0, resumed = 0, released = 0, expired = 0;

    (void)unused;
    for (uint64_t run = 0; run < RUNS; run++) {
        uint64_t state = seed + run;
        struct script script;
        static struct before before;
        const struct fsm_preemption *at = NULL;
        char line[512];

        script_start(&script);
        script_run(&script, "policy restart_cost=20000 timeout=30000 deferral=10000 near=1000");
        for (int i = 0; i < LINES; i++) {
            bool preempts;
            uint64_t victims_before = summary_of(&script).preemptions_total;

            if (random_draw(&state, 12) == 0)
                random_preempt(&state, line, sizeof(line));
            else
                random_line(&script, &state, line, sizeof(line));
            preempts = strncmp(line, "preempt ", 8) == 0;
            remember(script.fsm, &before);
            script_run(&script, "%s", line);
            if (!preempts)
                continue;
            resumed += judge(&script, &before, strstr(line, "reason=sensitive") != NULL,
                             strstr(line, "reason=priority") != NULL,
                             (unsigned)atoi(strstr(line, "class=") + 6));
            taken += script.outcome.status == FSM_OK;
            refused += script.outcome.status != FSM_OK;
            /* all or none */
            assert_true(summary_of(&script).preemptions_total - victims_before ==
                        (script.outcome.status == FSM_OK ? script.outcome.victim_count : 0));
            assert_true(script.outcome.status != FSM_OK || script.outcome.victim_count > 0);
        }
        while ((at = fsm_preemption_next(script.fsm, at == NULL ? 0 : at->id)) != NULL) {
            released += at->state == CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED;
            expired += at->state == CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_EXPIRED;
            for (uint32_t i = 0; i < at->victim_count; i++)
                shrunk +=
                    at->victims[i].state == CKPT__V1__VICTIM_STATE__VICTIM_STATE_SHRINKING ||
                    (at->victims[i].checkpoint_id != 0 &&
                     at->request->reason == CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_RECLAIM);
        }
        script_close(&script);
    }
    print_message("taken %zu refused %zu shrunk or reclaimed %zu resumed %zu released %zu expired "
                  "%zu\n",
                  taken, refused, shrunk, resumed, released, expired);
    assert_true(taken > 50 && refused > 50 && shrunk > 0 && resumed > 0 && released > 20 &&
                expired > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_can_never_be_a_victim_is_known),
        cmocka_unit_test(only_useful_nodes_count),
        cmocka_unit_test(nodes_of_one_home_count),
        cmocka_unit_test(gpus_are_covered_as_well),
        cmocka_unit_test(victims_must_cost_less_than_the_job_is_worth),
        cmocka_unit_test(several_cheap_victims_are_taken_when_the_large_one_is_too_dear),
        cmocka_unit_test(a_manual_job_costs_its_timeout),
        cmocka_unit_test(a_reclaim_takes_borrowed_nodes_of_the_home_from_any_class),
        cmocka_unit_test(an_elastic_job_shrinks_instead_of_stopping),
        cmocka_unit_test(an_elastic_job_whose_stop_fails_is_no_victim_any_more),
        cmocka_unit_test(an_elastic_job_at_its_smallest_stops),
        cmocka_unit_test(a_sensitive_claim_takes_the_occupiers),
        cmocka_unit_test(a_resumed_job_is_protected_until_its_progress_is_worth_it),
        cmocka_unit_test(a_sensitive_claim_does_not_wait_for_progress),
        cmocka_unit_test(a_victim_that_was_just_saved_is_stopped_without_another_checkpoint),
        cmocka_unit_test(nodes_are_there_when_every_victim_let_go),
        cmocka_unit_test(a_victim_that_completes_has_let_go),
        cmocka_unit_test(nodes_that_nobody_can_use_do_not_count),
        cmocka_unit_test(one_job_that_waits_takes_one_set_of_victims),
        cmocka_unit_test(a_stuck_victim_is_replaced_at_the_deadline),
        cmocka_unit_test(a_preemption_without_another_victim_expires_and_gives_back),
        cmocka_unit_test(a_forced_preemption_terminates_the_stuck_victim_at_the_deadline),
        cmocka_unit_test(a_victim_that_waits_for_a_grant_keeps_its_time),
        cmocka_unit_test(a_cancelled_victim_is_replaced_at_the_next_tick),
        cmocka_unit_test(a_preemption_goes_on_after_a_restore),
        cmocka_unit_test(the_last_preemptions_are_kept),
        cmocka_unit_test(the_kind_of_a_vcluster_decides_whose_nodes_are_won),
        cmocka_unit_test(a_service_of_both_kinds_of_nodes_gives_back_the_borrowed_ones),
        cmocka_unit_test(no_random_preemption_breaks_a_rule),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
