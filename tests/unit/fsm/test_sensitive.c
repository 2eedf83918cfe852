/* Sensitive jobs: their pool and jurisdiction (N-003, I55), and nodes of their own (N-001). */
#include "fsm/restart.h"
#include "tests/unit/fsm/expect.h"

static const char *target_of(const struct script *script, const char *job)
{
    const struct fsm_allocation *view = fsm_allocation_find(script->fsm, job);

    return fsm_destination(script->fsm, view)->id;
}

/* scratch, the default, and other are in the pool at first. */
static void pools_open(struct script *script)
{
    script_start(script);
    expect_ok(script, "put vault prefix=/vault write=1000000000 pool=sensitive assured=2");
    expect_ok(script, "put scratch unsaid keep pool=open");
    expect_ok(script, "put other unsaid keep pool=open");
}

static void a_sensitive_job_goes_to_its_pool_and_is_refused_elsewhere(void **unused)
{
    struct script script;

    (void)unused;
    pools_open(&script);
    expect_status(&script, POOL_REFUSED, "register s nodes=n1 sensitive target=scratch");
    expect_ok(&script, "register s nodes=n1 sensitive");
    assert_string_equal(target_of(&script, "s"), "vault");
    expect_ok(&script, "register j nodes=n2");
    assert_string_equal(target_of(&script, "j"), "scratch");
    expect_status(&script, POOL_REFUSED, "update s target=other");
    expect_ok(&script, "update j target=other");
    script_close(&script);
}

/* P-060: its kind says it, so that who is no victim writes to no open target either. */
static void a_job_of_a_sensitive_vcluster_is_sensitive(void **unused)
{
    struct script script;

    (void)unused;
    pools_open(&script);
    expect_status(&script, POOL_REFUSED, "register s nodes=n1 kind=sensitive target=scratch");
    expect_ok(&script, "register s nodes=n1 kind=sensitive");
    assert_true(job_of(&script, "s")->sensitive);
    assert_string_equal(target_of(&script, "s"), "vault");
    expect_status(&script, ALLOCATION_EXISTS, "register s nodes=n1 kind=sensitive");
    expect_status(&script, POOL_REFUSED, "update s target=other");
    expect_status(&script, SENSITIVE, "preempt class=9 nodes=s");
    expect_status(&script, POOL_NEEDED, "drain_target vault");
    expect_ok(&script, "register j nodes=n2 kind=service");
    assert_false(job_of(&script, "j")->sensitive);
    script_close(&script);
}

static void without_a_pool_nothing_sensitive_is_taken(void **unused)
{
    struct script script;

    (void)unused;
    pools_open(&script);
    expect_ok(&script, "remove_target vault");
    expect_status(&script, POOL_REFUSED, "register s nodes=n1 sensitive");
    expect_ok(&script, "register j nodes=n1");
    script_close(&script);
}

/* Neither the nodes' domain nor an outage takes it out. */
static void neither_a_node_nor_an_outage_takes_it_out(void **unused)
{
    struct script script;

    (void)unused;
    pools_open(&script);
    expect_ok(&script, "put vault unsaid keep failover=other");
    expect_ok(&script, "put scratch unsaid keep domain=d0");
    expect_ok(&script, "node n1 ready domain=d0");
    expect_ok(&script, "register s nodes=n1 sensitive");
    expect_ok(&script, "register j nodes=n2 target=vault");
    assert_string_equal(target_of(&script, "s"), "vault");
    expect_ok(&script, "request s");
    expect_ok(&script, "request j");
    expect_ok(&script, "target vault down");
    expect_ok(&script, "after 3600000");
    expect_ok(&script, "tick");
    assert_string_equal(target_of(&script, "j"), "other");
    assert_string_equal(target_of(&script, "s"), "vault");
    expect_checkpoint(&script, 1, PAUSED);
    expect_ok(&script, "target vault up");
    expect_checkpoint(&script, 1, REQUESTED);
    script_close(&script);
}

static void a_pool_that_is_needed_stays(void **unused)
{
    struct script script;

    (void)unused;
    pools_open(&script);
    expect_ok(&script, "register s nodes=n1 sensitive");
    expect_status(&script, POOL_NEEDED, "put vault unsaid keep pool=open");
    assert_int_equal(script.outcome.current, 1);
    expect_status(&script, POOL_NEEDED, "drain_target vault");
    expect_status(&script, POOL_NEEDED, "remove_target vault");
    expect_ok(&script, "put safe prefix=/safe write=1000 pool=sensitive assured=2");
    expect_ok(&script, "drain_target vault");
    assert_string_equal(target_of(&script, "s"), "safe");
    expect_status(&script, POOL_NEEDED, "remove_target safe"); /* no job names it */
    expect_ok(&script, "drain_target vault undo");
    expect_ok(&script, "request s");
    expect_ok(&script, "grant 1-1 bytes=1");
    expect_ok(&script, "report n1 shard_verified s ckpt=1-1 size=10");
    expect_status(&script, POOL_NEEDED, "put vault unsaid keep pool=open"); /* it lies there */
    script_close(&script);
}

/* No copy stays on a node, and what cannot be removed is wiped when it can. */
static void it_is_copied_nowhere_and_wiped_when_it_goes(void **unused)
{
    struct script script;

    (void)unused;
    pools_open(&script);
    expect_ok(&script, "register s nodes=n1 sensitive");
    expect_ok(&script, "request s");
    expect_ok(&script, "grant 1-1 bytes=1");
    expect_ok(&script, "report n1 shard_verified s ckpt=1-1 size=10");
    expect_ok(&script, "report n1 copy_kept s ckpt=1-1 part=0");
    assert_int_equal(
        fsm_checkpoint_find(script.fsm, checkpoint_id_make(1, 1))->shards[0].place_count, 1);
    expect_ok(&script, "end s");
    expect_ok(&script, "expire 1-1");
    expect_ok(&script, "collected failed=1-1 why=EBUSY");
    assert_true(fsm_undeleted_find(script.fsm, checkpoint_id_make(1, 1))->sensitive);
    script_close(&script);
}

/* N-001: borrowed ones may be taken back, whatever runs there. */
static void it_takes_no_borrowed_node(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_status(&script, NODE_BORROWED, "register s nodes=n1,n2 lent=n2 sensitive");
    assert_string_equal(script.outcome.subject, "n2");
    expect_ok(&script, "register j nodes=n1,n2 lent=n2");
    expect_ok(&script, "register s nodes=n3 sensitive");
    expect_status(&script, NODE_BORROWED, "update s nodes=n4 lent=n4");
    script_close(&script);
}

/* N-001: neither comes beside the other, as long as anything of the first may run there. */
static void nobody_is_beside_it(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j nodes=n1,n2");
    expect_ok(&script, "register k nodes=n2");
    expect_status(&script, NODE_SHARED, "register s nodes=n3,n2 sensitive");
    assert_string_equal(script.outcome.subject, "n2");
    expect_ok(&script, "register s nodes=n3 sensitive");
    expect_status(&script, NODE_SHARED, "register l nodes=n3");
    expect_status(&script, NODE_SHARED, "register t nodes=n3 sensitive");
    expect_status(&script, NODE_SHARED, "update k nodes=n3");
    expect_status(&script, NODE_SHARED, "update s nodes=n2");
    expect_ok(&script, "update s nodes=n3,n4");
    expect_ok(&script, "update j nodes=n1,n5"); /* with its next checkpoint: n5 is as good as its */
    expect_status(&script, NODE_SHARED, "register t nodes=n5 sensitive");
    expect_ok(&script, "update k nodes=n2");
    expect_ok(&script, "end s");
    expect_status(&script, NODE_SHARED, "register l nodes=n3"); /* its agent has not said so yet */
    expect_ok(&script, "report n3 terminated s");
    expect_ok(&script, "register l nodes=n3");
    script_close(&script);
}

/* ... nor at a restart, by a person or by the broker. */
static void nobody_comes_back_beside_it(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "register j nodes=n1");
    expect_ok(&script, "end j");
    expect_ok(&script, "report n1 terminated j");
    expect_ok(&script, "register s nodes=n1 sensitive");
    assert_int_equal(fsm_restart_node_status(script.fsm, job_of(&script, "j"),
                                             fsm_node_find(script.fsm, "n1"), script.now_ms),
                     FSM_NODE_SHARED);
    script_close(&script);
}

/* ... nor by a move that the broker decides: the spare may still run what was stopped there. */
static void nobody_is_moved_beside_it(void **unused)
{
    struct script script;
    uint64_t skipped;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy min_interval=1 backoff=1");
    for (int i = 1; i <= 6; i++)
        expect_ok(&script, "node n%d ready", i);
    expect_ok(&script, "register s nodes=n6 sensitive");
    expect_ok(&script, "end s");
    expect_ok(&script, "register j nodes=n1 requeue=always");
    expect_ok(&script, "after 60000");
    skipped = summary_of(&script).skipped_decisions;
    expect_ok(&script, "decide j purpose=migrate spare=n6");
    assert_int_equal(summary_of(&script).skipped_decisions, skipped + 1);
    expect_ok(&script, "report n6 terminated s");
    expect_ok(&script, "decide j purpose=migrate spare=n6");
    assert_int_equal(summary_of(&script).skipped_decisions, skipped + 1);
    script_close(&script);
}

/* N-003: an operator's word is asked for, and is not taken back while something lies there. */
static void its_pool_is_encrypted_and_hot(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_status(&script, POOL_UNFIT, "put vault prefix=/vault write=1000 pool=sensitive");
    expect_status(&script, POOL_UNFIT,
                  "put vault prefix=/vault write=1000 pool=sensitive assured=2=2 hot=1");
    expect_ok(&script, "put vault prefix=/vault write=1000 pool=sensitive assured=2");
    expect_status(&script, POOL_UNFIT, "put vault unsaid keep hot=1");
    expect_ok(&script, "put vault unsaid keep pool=open hot=1");
    script_close(&script);
}

/* The pool of a release before has nobody's word. */
static void an_assured_target_goes_before_one_that_is_not(void **unused)
{
    struct script script;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init level=1");
    expect_ok(&script, "put old prefix=/old write=1000 pool=sensitive");
    expect_ok(&script, "put scratch unsaid keep pool=open");
    expect_ok(&script, "put other unsaid keep pool=open");
    expect_ok(&script, "register q nodes=n9 sensitive");
    expect_status(&script, INVALID_ARGUMENT, "put old unsaid keep zeros=2097152");
    expect_ok(&script, "policy level=2");
    expect_status(&script, POOL_UNFIT, "register s nodes=n1 sensitive");
    expect_ok(&script, "put vault prefix=/vault write=1000 pool=sensitive assured=2");
    expect_ok(&script, "register s nodes=n1 sensitive");
    assert_string_equal(target_of(&script, "s"), "vault");
    expect_ok(&script, "put old unsaid keep assured=2 law=CH"); /* nobody keeps to another one */
    script_close(&script);
}

/* N-003: of two targets of the pool it takes those of its jurisdiction, from its first one on. */
static void it_keeps_to_its_jurisdiction(void **unused)
{
    struct script script;

    (void)unused;
    pools_open(&script);
    expect_ok(&script, "put vault unsaid keep law=CH");
    expect_ok(&script, "put far prefix=/far write=1000 pool=sensitive assured=2 law=US");
    expect_status(&script, JURISDICTION_REFUSED, "register s nodes=n1 sensitive target=far law=CH");
    expect_status(&script, JURISDICTION_REFUSED, "register s nodes=n1 sensitive law=DE");
    expect_status(&script, INVALID_ARGUMENT,
                  "register j nodes=n1 law=CH"); /* nobody would keep it */
    expect_ok(&script, "register s nodes=n1 sensitive law=US");
    assert_string_equal(target_of(&script, "s"), "far");
    expect_ok(&script, "register t nodes=n2 sensitive target=vault");
    assert_string_equal(job_of(&script, "t")->jurisdiction, "CH");
    expect_status(&script, JURISDICTION_REFUSED, "update t target=far");
    expect_status(&script, POOL_NEEDED, "drain_target vault"); /* the other one is no way out */
    expect_status(&script, POOL_NEEDED, "put vault unsaid keep law=US");
    expect_status(&script, POOL_NEEDED, "put vault unsaid keep zeros=2097152"); /* its law */
    expect_ok(&script, "put near prefix=/near write=1000 pool=sensitive assured=2 law=CH");
    expect_ok(&script, "drain_target vault");
    assert_string_equal(target_of(&script, "t"), "near");
    expect_ok(&script, "put near unsaid keep failover=far");
    expect_ok(&script, "request t");
    expect_ok(&script, "target near down");
    expect_ok(&script, "after 3600000");
    expect_ok(&script, "tick");
    assert_string_equal(target_of(&script, "t"), "near");
    script_close(&script);
}

/* The checkpoints of the first lie where they lie. */
static void the_job_that_continues_it_keeps_to_it_too(void **unused)
{
    struct script script;

    (void)unused;
    pools_open(&script);
    expect_ok(&script, "put vault unsaid keep law=CH");
    expect_ok(&script, "put far prefix=/far write=1000 pool=sensitive assured=2 law=US");
    expect_ok(&script, "register s nodes=n1 sensitive law=CH");
    expect_ok(&script, "request s");
    expect_ok(&script, "grant 1-1 bytes=1");
    expect_ok(&script, "report n1 shard_verified s ckpt=1-1 size=10");
    expect_ok(&script, "end s failed");
    expect_ok(&script, "report n1 terminated s");
    expect_status(&script, CONTINUES_OTHERS, "register t nodes=n1 sensitive continues=s law=US");
    expect_status(&script, JURISDICTION_REFUSED,
                  "register t nodes=n1 sensitive continues=s target=far");
    expect_ok(&script, "register t nodes=n1 sensitive continues=s");
    assert_string_equal(job_of(&script, "t")->jurisdiction, "CH");
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sensitive_job_goes_to_its_pool_and_is_refused_elsewhere),
        cmocka_unit_test(a_job_of_a_sensitive_vcluster_is_sensitive),
        cmocka_unit_test(without_a_pool_nothing_sensitive_is_taken),
        cmocka_unit_test(neither_a_node_nor_an_outage_takes_it_out),
        cmocka_unit_test(a_pool_that_is_needed_stays),
        cmocka_unit_test(it_is_copied_nowhere_and_wiped_when_it_goes),
        cmocka_unit_test(it_takes_no_borrowed_node),
        cmocka_unit_test(nobody_is_beside_it),
        cmocka_unit_test(nobody_comes_back_beside_it),
        cmocka_unit_test(nobody_is_moved_beside_it),
        cmocka_unit_test(its_pool_is_encrypted_and_hot),
        cmocka_unit_test(an_assured_target_goes_before_one_that_is_not),
        cmocka_unit_test(it_keeps_to_its_jurisdiction),
        cmocka_unit_test(the_job_that_continues_it_keeps_to_it_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
