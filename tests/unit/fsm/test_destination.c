/* Where checkpoints go, with several targets and nodes that have domains. */
#include "tests/unit/fsm/expect.h"

static const char *destination_of(const struct script *script, const char *job)
{
    return fsm_destination(script->fsm, fsm_allocation_find(script->fsm, job))->id;
}

static const char *target_of(const struct script *script, uint64_t sequence)
{
    const struct fsm_checkpoint *checkpoint =
        fsm_checkpoint_find(script->fsm, checkpoint_id_make(1, sequence));

    return fsm_target_name(script->fsm, checkpoint->target_slot);
}

/* Two domains, a and b, each with a target; the default one has none. */
static void start_domains(struct script *script)
{
    script_start(script);
    expect_ok(script, "put near-a prefix=/a domain=a");
    expect_ok(script, "put near-b prefix=/b domain=b");
    expect_ok(script, "node n1 ready domain=a");
    expect_ok(script, "node n2 ready domain=a");
    expect_ok(script, "node n3 ready domain=b");
    expect_ok(script, "node n4 ready");
}

/* S2-022, S2-023, S2-027. */
static void the_target_of_the_nodes_domain_comes_first(void **unused)
{
    struct script script;

    (void)unused;
    start_domains(&script);
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "register j2 nodes=n3 target=other");
    expect_ok(&script, "register j3 nodes=n4 target=other");
    assert_string_equal(destination_of(&script, "j1"), "near-a");
    assert_string_equal(destination_of(&script, "j2"), "near-b");
    assert_string_equal(destination_of(&script, "j3"), "other");
    expect_ok(&script, "request j2");
    assert_string_equal(target_of(&script, 1), "near-b");
    script_restore(&script);
    assert_string_equal(destination_of(&script, "j1"), "near-a");
    assert_string_equal(target_of(&script, 1), "near-b");
    script_close(&script);
}

/* S2-023: the submitter's wins where the policy says so. */
static void the_policy_can_leave_the_choice_to_the_submitter(void **unused)
{
    struct script script;

    (void)unused;
    start_domains(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "policy zeros=%d", 1 << 23);
    assert_string_equal(destination_of(&script, "j1"), "scratch");
    script_restore(&script);
    assert_string_equal(destination_of(&script, "j1"), "scratch");
    expect_ok(&script, "policy node_chooses=1");
    assert_string_equal(destination_of(&script, "j1"), "near-a");
    script_close(&script);
}

/* S2-027: a domain is what all of a job's nodes have in common. */
static void nodes_of_different_domains_choose_nothing(void **unused)
{
    struct script script;

    (void)unused;
    start_domains(&script);
    expect_ok(&script, "register j1 nodes=n1,n3 target=other");
    expect_ok(&script, "register j2 nodes=n1,n4 target=other");
    assert_string_equal(destination_of(&script, "j1"), "other");
    assert_string_equal(destination_of(&script, "j2"), "other");
    expect_ok(&script, "node n4 ready domain=a");
    assert_string_equal(destination_of(&script, "j2"), "near-a");
    expect_ok(&script, "node n4 ready"); /* says nothing of its domain */
    assert_string_equal(destination_of(&script, "j2"), "near-a");
    expect_ok(&script, "node n4 ready domain=-");
    assert_string_equal(destination_of(&script, "j2"), "other");
    script_close(&script);
}

/* S2-022: of two targets of one domain the job's own is meant, then the default one. */
static void of_several_targets_of_a_domain_the_own_one_is_taken(void **unused)
{
    struct script script;

    (void)unused;
    start_domains(&script);
    expect_ok(&script, "put second-a prefix=/a2 domain=a");
    expect_ok(&script, "register j1 nodes=n1 target=second-a");
    expect_ok(&script, "register j2 nodes=n2 target=other");
    assert_string_equal(destination_of(&script, "j1"), "second-a");
    assert_string_equal(destination_of(&script, "j2"), "near-a");
    expect_ok(&script, "put second-a keep default");
    assert_string_equal(destination_of(&script, "j2"), "second-a");
    script_close(&script);
}

/* What is being written is not sent elsewhere, and waits for its own target alone. */
static void an_active_checkpoint_stays_where_it_was_made(void **unused)
{
    struct script script;

    (void)unused;
    start_domains(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "node n1 ready domain=b");
    assert_string_equal(destination_of(&script, "j1"), "near-a");
    expect_ok(&script, "target near-a down");
    expect_ok(&script, "epoch 2"); /* begun again, it is made anew */
    assert_string_equal(destination_of(&script, "j1"), "near-b");
    expect_ok(&script, "cancel 2-2");
    expect_ok(&script, "node n1 ready domain=a");
    expect_status(&script, STORAGE_UNAVAILABLE, "request j1");
    script_close(&script);
}

/* S2-024, S2-025: the older ones elsewhere leave when enough newer ones are complete, not before;
 * a restart names the one that is there. */
static void copies_elsewhere_leave_after_success(void **unused)
{
    const struct fsm_checkpoint *first;
    uint64_t ids[2];
    struct script script;

    (void)unused;
    start_domains(&script);
    expect_ok(&script, "policy keep=1 retention=1000000000");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "node n1 ready domain=b");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-2");
    assert_int_equal(fsm_collectable(script.fsm, 0, ids, 2), 0);
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-2 reason=write_failed");
    assert_int_equal(fsm_collectable(script.fsm, 0, ids, 2), 0);
    first = fsm_restart_point(script.fsm, "j1", 0);
    assert_string_equal(fsm_target_name(script.fsm, first->target_slot), "near-a");
    expect_ok(&script, "after 100000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-2 attempt=2");
    assert_string_equal(target_of(&script, 2), "near-b");
    assert_int_equal(fsm_collectable(script.fsm, 0, ids, 2), 1);
    assert_int_equal(fsm_restart_point(script.fsm, "j1", 0)->id, checkpoint_id_make(1, 2));
    script_close(&script);
}

/* A job that is registered can be sent elsewhere, also while it is stopped. */
static void the_target_of_a_job_can_be_changed(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "put fast prefix=/fast");
    expect_ok(&script, "register j1 nodes=n1 target=fast");
    expect_status(&script, TARGET_NOT_FOUND, "update j1 target=nowhere");
    expect_status(&script, TARGET_HAS_JOBS, "remove_target fast");
    expect_ok(&script, "update j1 target=other");
    assert_string_equal(destination_of(&script, "j1"), "other");
    expect_ok(&script, "remove_target fast");
    expect_ok(&script, "end j1 failed");
    expect_status(&script, ALLOCATION_ENDED, "update j1 target=scratch walltime=1000");
    expect_ok(&script, "update j1 target=scratch");
    script_restore(&script);
    assert_string_equal(destination_of(&script, "j1"), "scratch");
    script_close(&script);
}

/* A checkpoint may be bound for a target that no job names. */
static void a_target_with_a_waiting_checkpoint_stays(void **unused)
{
    struct script script;

    (void)unused;
    start_domains(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_status(&script, TARGET_HAS_FOLDERS, "remove_target near-a");
    assert_int_equal(script.outcome.current, 1);
    expect_ok(&script, "cancel 1-1");
    expect_ok(&script, "remove_target near-a");
    assert_string_equal(destination_of(&script, "j1"), "scratch");
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_target_of_the_nodes_domain_comes_first),
        cmocka_unit_test(the_policy_can_leave_the_choice_to_the_submitter),
        cmocka_unit_test(nodes_of_different_domains_choose_nothing),
        cmocka_unit_test(of_several_targets_of_a_domain_the_own_one_is_taken),
        cmocka_unit_test(an_active_checkpoint_stays_where_it_was_made),
        cmocka_unit_test(copies_elsewhere_leave_after_success),
        cmocka_unit_test(the_target_of_a_job_can_be_changed),
        cmocka_unit_test(a_target_with_a_waiting_checkpoint_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
