/* What is sensitive lies in its pool (N-003, I55). */
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
    expect_ok(script, "put vault prefix=/vault write=1000000000 pool=sensitive");
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
    expect_ok(&script, "put safe prefix=/safe write=1000 pool=sensitive");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sensitive_job_goes_to_its_pool_and_is_refused_elsewhere),
        cmocka_unit_test(a_job_of_a_sensitive_vcluster_is_sensitive),
        cmocka_unit_test(without_a_pool_nothing_sensitive_is_taken),
        cmocka_unit_test(neither_a_node_nor_an_outage_takes_it_out),
        cmocka_unit_test(a_pool_that_is_needed_stays),
        cmocka_unit_test(it_is_copied_nowhere_and_wiped_when_it_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
