/* Where checkpoints go, with several targets and nodes that have domains. */
#include "fsm/begin.h"
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

/* S4-009: a job that names no target has the default one; one that names another is written there
 * and read from there. */
static void the_default_target_is_of_jobs_that_name_none(void **unused)
{
    struct script script;

    (void)unused;
    start_domains(&script);
    expect_ok(&script, "register j1 nodes=n4");
    expect_ok(&script, "register j2 nodes=n4 target=other");
    for (unsigned i = 1; i <= 2; i++) {
        expect_ok(&script, "request j%u", i);
        expect_ok(&script, "grant 1-%u", i);
        expect_ok(&script, "report n4 shard_verified j%u ckpt=1-%u", i, i);
    }
    assert_string_equal(target_of(&script, 1), "scratch");
    assert_string_equal(target_of(&script, 2), "other");
    assert_int_equal(fsm_restart_point(script.fsm, "j1", 0)->id, checkpoint_id_make(1, 1));
    assert_int_equal(fsm_restart_point(script.fsm, "j2", 0)->id, checkpoint_id_make(1, 2));
    expect_ok(&script, "put other keep default");
    expect_ok(&script, "register j3 nodes=n4");
    assert_string_equal(destination_of(&script, "j3"), "other");
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
    expect_ok(&script, "policy keep=2 retention=1000000000");
    expect_ok(&script, "register j1 nodes=n1");
    expect_complete(&script, "j1", 1);
    expect_complete(&script, "j1", 2);
    expect_ok(&script, "node n1 ready domain=b");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-3");
    assert_int_equal(fsm_collectable(script.fsm, 0, ids, 2), 0);
    expect_ok(&script, "report n1 checkpoint_failed j1 ckpt=1-3 reason=write_failed");
    assert_int_equal(fsm_collectable(script.fsm, 0, ids, 2), 0);
    first = fsm_restart_point(script.fsm, "j1", 0);
    assert_string_equal(fsm_target_name(script.fsm, first->target_slot), "near-a");
    expect_ok(&script, "after 100000");
    expect_ok(&script, "tick");
    expect_ok(&script, "grant 1-3");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-3 attempt=2");
    assert_string_equal(target_of(&script, 3), "near-b");
    assert_int_equal(fsm_collectable(script.fsm, 0, ids, 2), 1);
    assert_int_equal(ids[0], checkpoint_id_make(1, 1));
    assert_int_equal(fsm_restart_point(script.fsm, "j1", 0)->id, checkpoint_id_make(1, 3));
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

/* Drained, it takes nothing new; what is there stays until it has gone. */
static void a_drained_target_is_left_and_can_go(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "put fast prefix=/fast domain=a");
    expect_ok(&script, "node n1 ready domain=a");
    expect_ok(&script, "policy keep=2 retention=1000");
    expect_ok(&script, "register j1 nodes=n1 target=fast");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_status(&script, TARGET_IS_DEFAULT, "drain_target scratch");
    expect_status(&script, TARGET_NOT_FOUND, "drain_target nowhere");
    expect_ok(&script, "drain_target fast");
    expect_ok(&script, "drain_target fast");
    assert_string_equal(destination_of(&script, "j1"), "fast"); /* it is being written */
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    assert_string_equal(destination_of(&script, "j1"), "scratch");
    expect_status(&script, TARGET_HAS_FOLDERS, "remove_target fast");
    script_restore(&script);
    assert_true(fsm_target_find(script.fsm, "fast")->draining);
    expect_ok(&script, "drain_target fast undo");
    assert_string_equal(destination_of(&script, "j1"), "fast");
    expect_ok(&script, "drain_target fast");
    expect_complete(&script, "j1", 2);
    assert_string_equal(target_of(&script, 2), "scratch");
    expect_complete(&script, "j1", 3);
    assert_string_equal(target_of(&script, 3), "scratch");
    expect_ok(&script, "collected 1-1");
    expect_ok(&script, "remove_target fast");
    script_restore(&script);
    assert_string_equal(destination_of(&script, "j1"), "scratch");
    expect_ok(&script, "put other keep default");
    expect_ok(&script, "drain_target scratch");
    expect_ok(&script, "put scratch keep default"); /* back into use by that */
    assert_false(fsm_target_find(script.fsm, "scratch")->draining);
    script_close(&script);
}

/* S2-026: off unless a target is named; what waits begins again there, and the end of the outage
 * takes it back. */
static void an_outage_that_lasts_fails_over_where_a_target_is_named(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_status(&script, FAILOVER_UNKNOWN, "put scratch keep failover=nowhere");
    expect_status(&script, FAILOVER_UNKNOWN, "put scratch keep failover=scratch");
    expect_ok(&script, "policy failover_after=10000");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "after 20000");
    expect_ok(&script, "tick");
    expect_checkpoint(&script, 1, PAUSED); /* none is named */
    expect_ok(&script, "put scratch keep failover=other");
    expect_ok(&script, "target other down");
    expect_ok(&script, "after 1");
    expect_ok(&script, "tick"); /* that one is away too */
    expect_checkpoint(&script, 1, PAUSED);
    expect_ok(&script, "target other up");
    script_restore(&script);
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    expect_checkpoint(&script, 1, SUPERSEDED);
    expect_checkpoint(&script, 2, REQUESTED);
    assert_string_equal(target_of(&script, 2), "other");
    script_restore(&script);
    assert_true(fsm_target_find(script.fsm, "scratch")->failed_over);
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "target scratch up");
    assert_string_equal(destination_of(&script, "j1"), "other"); /* it goes on there */
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-2");
    assert_string_equal(destination_of(&script, "j1"), "scratch");
    assert_false(fsm_target_find(script.fsm, "scratch")->failed_over);
    script_close(&script);
}

static void expect_fail_over_after(struct script *script, uint64_t after_ms)
{
    expect_ok(script, "after %" PRIu64, after_ms - 1);
    expect_ok(script, "tick");
    assert_false(fsm_target_find(script->fsm, "scratch")->failed_over);
    expect_ok(script, "after 1");
    expect_ok(script, "tick");
    assert_true(fsm_target_find(script->fsm, "scratch")->failed_over);
}

/* S2-026: a short outage moves nothing, and the next one counts from its own beginning. */
static void an_outage_fails_over_after_the_policys_time_and_not_before(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "put scratch keep failover=other");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "after 59999");
    expect_ok(&script, "tick");
    expect_ok(&script, "target scratch up");
    expect_ok(&script, "after 59999");
    expect_ok(&script, "tick");
    assert_false(fsm_target_find(script.fsm, "scratch")->failed_over);
    expect_ok(&script, "target scratch down");
    expect_fail_over_after(&script, 60000); /* unless the policy says otherwise */
    assert_string_equal(target_of(&script, 2), "other");
    expect_ok(&script, "target scratch up");
    expect_ok(&script, "policy failover_after=10000");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "after 4000");
    script_restore(&script);
    expect_fail_over_after(&script, 6000);
    script_close(&script);
}

/* S2-028, S2-030: bound by the first complete one. */
static void a_required_domain_binds_after_the_first_checkpoint(void **unused)
{
    struct script script;

    (void)unused;
    start_domains(&script);
    expect_ok(&script, "register j1 nodes=n1 domain_rule=required requeue=always");
    assert_string_equal(fsm_bound_domain(script.fsm, fsm_allocation_find(script.fsm, "j1")), "");
    expect_complete(&script, "j1", 1);
    assert_string_equal(fsm_bound_domain(script.fsm, fsm_allocation_find(script.fsm, "j1")), "a");
    expect_ok(&script, "end j1 failed");
    expect_status(&script, NODE_OUTSIDE_DOMAIN, "restart j1 nodes=n3");
    assert_int_equal(script.outcome.current, 1);
    script_restore(&script);
    expect_ok(&script, "restart j1 nodes=n2");
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 nodes=n3 from_scratch");
    script_close(&script);
}

/* A job that says nothing has the policy's rule of the moment when it came, and keeps it; one that
 * says ANY is bound by none. */
static void the_policys_rule_is_that_of_jobs_that_say_nothing(void **unused)
{
    struct script script;

    (void)unused;
    start_domains(&script);
    assert_int_equal(fsm_policy(script.fsm)->domain_rule, CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_ANY);
    expect_ok(&script, "register before nodes=n1 requeue=always");
    expect_ok(&script, "policy domain_rule=required");
    expect_ok(&script, "register j1 nodes=n1 requeue=always");
    expect_ok(&script, "register free nodes=n1 domain_rule=any requeue=always");
    expect_ok(&script, "policy keep=3"); /* says nothing of it */
    assert_int_equal(fsm_policy(script.fsm)->domain_rule,
                     CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_REQUIRED);
    expect_ok(&script, "policy domain_rule=preferred");
    expect_ok(&script, "register wish nodes=n1 requeue=always");
    script_restore(&script);
    assert_int_equal(fsm_policy(script.fsm)->domain_rule,
                     CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_PREFERRED);
    assert_int_equal(job_of(&script, "before")->domain_rule,
                     CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_ANY);
    assert_int_equal(job_of(&script, "j1")->domain_rule,
                     CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_REQUIRED);
    assert_int_equal(job_of(&script, "free")->domain_rule, CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_ANY);
    assert_int_equal(job_of(&script, "wish")->domain_rule,
                     CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_PREFERRED);
    expect_ok(&script, "policy domain_rule=required");
    expect_complete(&script, "before", 1);
    expect_complete(&script, "free", 2);
    expect_ok(&script, "policy domain_rule=any");
    expect_complete(&script, "j1", 3);
    expect_ok(&script, "end before failed");
    expect_ok(&script, "end free failed");
    expect_ok(&script, "end j1 failed");
    expect_status(&script, NODE_OUTSIDE_DOMAIN, "restart j1 nodes=n3");
    expect_ok(&script, "policy domain_rule=required");
    expect_ok(&script, "restart before nodes=n3");
    expect_ok(&script, "restart free nodes=n3");
    script_close(&script);
}

/* S2-029: nodes outside are taken where there are no others, and the job's domain moves with it. */
static void a_preferred_domain_forbids_nothing(void **unused)
{
    const struct fsm_allocation *job;
    struct script script;

    (void)unused;
    start_domains(&script);
    expect_ok(&script, "register j1 nodes=n1 domain_rule=preferred requeue=always");
    expect_complete(&script, "j1", 1);
    job = fsm_allocation_find(script.fsm, "j1");
    assert_string_equal(fsm_bound_domain(script.fsm, job), "a");
    assert_true(fsm_domain_fits(script.fsm, job, fsm_node_find(script.fsm, "n2")));
    assert_false(fsm_domain_fits(script.fsm, job, fsm_node_find(script.fsm, "n3")));
    assert_true(fsm_domain_allows(script.fsm, job, fsm_node_find(script.fsm, "n3")));
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 nodes=n3");
    assert_int_equal(script.outcome.checkpoint_id, checkpoint_id_make(1, 1));
    expect_ok(&script, "report n3 restored j1 restored=1-1");
    expect_ok(&script, "report n3 application_started j1 restored=1-1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "report n3 shard_verified j1 ckpt=1-2");
    assert_string_equal(target_of(&script, 2), "near-b");
    assert_string_equal(fsm_bound_domain(script.fsm, fsm_allocation_find(script.fsm, "j1")), "b");
    script_close(&script);
}

/* j1 on n1, with a checkpoint that holds 30 s of its work. */
static void start_with_work(struct script *script, const char *policy)
{
    start_domains(script);
    expect_ok(script, "policy keep=2 %s", policy);
    expect_ok(script, "register j1 nodes=n1 requeue=always");
    expect_ok(script, "after 30000");
    expect_complete(script, "j1", 1);
    expect_ok(script, "end j1 failed");
}

static struct fsm_discard discard_of(const struct script *script, const char *job)
{
    struct fsm_discard discard;

    fsm_begin_discards(script->fsm, job_of(script, job), &discard);
    return discard;
}

static struct fsm_begin_without without_of(const struct script *script, const char *job)
{
    struct fsm_begin_without without;

    fsm_begin_without(script->fsm, job_of(script, job), &without);
    return without;
}

/* Whoever starts a job is told why it begins from nothing. */
static void why_a_run_begins_from_scratch_is_known(void **unused)
{
    struct script script;

    (void)unused;
    start_domains(&script);
    expect_ok(&script, "policy keep=2 discarded=60000");
    expect_ok(&script, "register j1 nodes=n1 requeue=always");
    assert_int_equal(without_of(&script, "j1").cause,
                     CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_NONE_COMPLETE);
    expect_ok(&script, "after 30000");
    expect_complete(&script, "j1", 1);
    expect_ok(&script, "end j1 failed");
    assert_int_equal(without_of(&script, "j1").cause,
                     CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_UNSPECIFIED);
    expect_ok(&script, "target near-a down");
    expect_ok(&script, "after 30000");
    expect_ok(&script, "restart j1 nodes=n1");
    assert_int_equal(without_of(&script, "j1").cause, CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_GIVEN_UP);
    assert_uint_equal(without_of(&script, "j1").checkpoint_id, checkpoint_id_make(1, 1));
    assert_uint_equal(without_of(&script, "j1").repeated_ms, 30000);
    expect_ok(&script, "target near-a up");
    assert_int_equal(without_of(&script, "j1").cause, CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_LEFT);
    assert_uint_equal(without_of(&script, "j1").repeated_ms, 30000);
    script_close(&script);
}

/* S2-007, S2-008. */
static void little_work_is_discarded_in_an_outage_and_much_is_waited_for(void **unused)
{
    struct script script;

    (void)unused;
    start_with_work(&script, "discarded=60000");
    expect_ok(&script, "target near-a down");
    expect_ok(&script, "after 30000");
    expect_ok(&script, "restart j1 nodes=n1"); /* 30 s are repeated, and as long it was away */
    assert_int_equal(script.outcome.checkpoint_id, 0);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "policy discarded=1000");
    expect_ok(&script, "restart j1 nodes=n1"); /* it waits for the target */
    assert_int_equal(script.outcome.checkpoint_id, checkpoint_id_make(1, 1));
    assert_int_equal(discard_of(&script, "j1").discarded_ms, 30000);
    assert_int_equal(discard_of(&script, "j1").at_ms, 0);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "policy zeros=%d", 1 << 25);
    expect_ok(&script, "restart j1 nodes=n1");
    assert_int_equal(script.outcome.checkpoint_id, checkpoint_id_make(1, 1));
    script_close(&script);
}

/* S2-007: an outage that has just begun may be over before the work would be done again. */
static void an_outage_is_waited_for_as_long_as_what_it_costs_is_worth(void **unused)
{
    struct script script;
    bool gap;

    (void)unused;
    start_with_work(&script, "discarded=60000");
    expect_ok(&script, "target near-a down");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "restart j1 nodes=n1");
    assert_int_equal(script.outcome.checkpoint_id, checkpoint_id_make(1, 1));
    expect_ok(&script, "report n1 read_wanted j1 restored=1-1");
    script_restore(&script);
    assert_int_equal(discard_of(&script, "j1").at_ms,
                     fsm_target_find(script.fsm, "near-a")->since_ms + 30000);
    expect_ok(&script, "after 28000");
    expect_ok(&script, "tick");
    assert_int_equal(job_of(&script, "j1")->restart_id, checkpoint_id_make(1, 1));
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    assert_int_equal(job_of(&script, "j1")->restart_id, 0);
    assert_int_equal(discard_of(&script, "j1").discarded_ms, 0);
    assert_int_equal(
        fsm_event_after(script.fsm, summary_of(&script).next_event_sequence - 2, &gap)->kind,
        CKPT__V1__EVENT_KIND__EVENT_KIND_DISCARDED);
    script_close(&script);
}

/* S2-007: also when it began while the job was reading. */
static void an_outage_may_begin_after_the_choice(void **unused)
{
    struct script script;

    (void)unused;
    start_with_work(&script, "discarded=60000");
    expect_ok(&script, "restart j1 nodes=n1");
    expect_ok(&script, "report n1 read_wanted j1 restored=1-1");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "target near-a down");
    expect_ok(&script, "after 20000");
    expect_ok(&script, "target near-a up"); /* in time: nothing is given up */
    expect_ok(&script, "after 20000");
    expect_ok(&script, "tick");
    assert_int_equal(job_of(&script, "j1")->restart_id, checkpoint_id_make(1, 1));
    expect_ok(&script, "target near-a down");
    script_restore(&script);
    expect_ok(&script, "after 30000");
    expect_ok(&script, "tick");
    assert_int_equal(job_of(&script, "j1")->restart_id, 0);
    assert_int_equal(fsm_target_find(script.fsm, "near-a")->reading_count, 0);
    expect_ok(&script, "report n1 application_started j1");
    script_close(&script);
}

/* What was due changes without its timer: that is no end of a walltime. */
static void a_job_that_gives_up_nothing_any_more_goes_on(void **unused)
{
    struct script script;

    (void)unused;
    start_domains(&script);
    expect_ok(&script, "policy keep=2 discarded=600000");
    expect_ok(&script, "register j1 nodes=n1,m1 requeue=always");
    expect_ok(&script, "after 30000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 size=1000");
    expect_ok(&script, "report m1 shard_verified j1 ckpt=1-1 size=1000");
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 nodes=n1,m1");
    expect_ok(&script, "report n1 restored j1 restored=1-1");
    expect_ok(&script, "report n1 read_wanted j1 restored=1-1"); /* by the agent after */
    expect_ok(&script, "target %s down", target_of(&script, 1));
    assert_true(discard_of(&script, "j1").at_ms > 0);
    expect_ok(&script, "report m1 restored j1 restored=1-1");
    assert_int_equal(discard_of(&script, "j1").at_ms, 0);
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    assert_false(job_of(&script, "j1")->terminating);
    script_restore(&script);
    script_close(&script);
}

/* What the nodes kept of the newest checkpoint needs no target: nothing is discarded. */
static void nothing_is_discarded_while_nodes_have_copies(void **unused)
{
    struct script script;

    (void)unused;
    start_domains(&script);
    expect_ok(&script, "policy keep=2 discarded=60000");
    expect_ok(&script, "register j1 nodes=n1 requeue=always");
    expect_ok(&script, "after 30000");
    expect_complete(&script, "j1", 1);
    expect_ok(&script, "report n1 copy_kept j1 ckpt=1-1");
    expect_ok(&script, "target near-a down");
    expect_ok(&script, "after 30000");
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 nodes=n1");
    assert_int_equal(script.outcome.checkpoint_id, checkpoint_id_make(1, 1));
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "report n1 copy_dropped j1 ckpt=1-1");
    expect_ok(&script, "restart j1 nodes=n1"); /* 30 s are repeated */
    assert_int_equal(script.outcome.checkpoint_id, 0);
    script_close(&script);
}

/* Whoever stands in the target's line for it has no copy that it can use. */
static void a_copy_that_a_part_cannot_use_holds_up_nothing(void **unused)
{
    struct script script;

    (void)unused;
    start_with_work(&script, "discarded=60000");
    expect_ok(&script, "restart j1 nodes=n1");
    expect_ok(&script, "report n1 application_started j1 restored=1-1");
    expect_complete(&script, "j1", 2);
    expect_ok(&script, "report n1 copy_kept j1 ckpt=1-2");
    expect_ok(&script, "target near-a down");
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 nodes=n1");
    assert_int_equal(script.outcome.checkpoint_id, checkpoint_id_make(1, 2));
    expect_ok(&script, "report n1 read_wanted j1 restored=1-2");
    script_restore(&script);
    assert_true(discard_of(&script, "j1").at_ms > 0);
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    assert_int_equal(job_of(&script, "j1")->restart_id, 0);
    assert_false(job_of(&script, "j1")->terminating);
    script_close(&script);
}

/* Its account is empty, whatever it has computed. */
static void the_work_of_a_job_without_gpus_is_worth_its_time(void **unused)
{
    struct script script;

    (void)unused;
    start_domains(&script);
    expect_ok(&script, "policy keep=2 discarded=60000");
    expect_ok(&script, "register j1 nodes=n1 gpus=0 requeue=always");
    expect_ok(&script, "after 30000");
    expect_complete(&script, "j1", 1);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "target near-a down");
    expect_ok(&script, "after 2000");
    expect_ok(&script, "restart j1 nodes=n1 gpus=0");
    assert_int_equal(job_of(&script, "j1")->restart_id, checkpoint_id_make(1, 1));
    assert_in_range(discard_of(&script, "j1").discarded_ms, 30000, 40000);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_target_of_the_nodes_domain_comes_first),
        cmocka_unit_test(the_policy_can_leave_the_choice_to_the_submitter),
        cmocka_unit_test(nodes_of_different_domains_choose_nothing),
        cmocka_unit_test(the_default_target_is_of_jobs_that_name_none),
        cmocka_unit_test(of_several_targets_of_a_domain_the_own_one_is_taken),
        cmocka_unit_test(an_active_checkpoint_stays_where_it_was_made),
        cmocka_unit_test(copies_elsewhere_leave_after_success),
        cmocka_unit_test(the_target_of_a_job_can_be_changed),
        cmocka_unit_test(a_target_with_a_waiting_checkpoint_stays),
        cmocka_unit_test(a_drained_target_is_left_and_can_go),
        cmocka_unit_test(an_outage_that_lasts_fails_over_where_a_target_is_named),
        cmocka_unit_test(an_outage_fails_over_after_the_policys_time_and_not_before),
        cmocka_unit_test(a_required_domain_binds_after_the_first_checkpoint),
        cmocka_unit_test(the_policys_rule_is_that_of_jobs_that_say_nothing),
        cmocka_unit_test(a_preferred_domain_forbids_nothing),
        cmocka_unit_test(why_a_run_begins_from_scratch_is_known),
        cmocka_unit_test(little_work_is_discarded_in_an_outage_and_much_is_waited_for),
        cmocka_unit_test(an_outage_is_waited_for_as_long_as_what_it_costs_is_worth),
        cmocka_unit_test(an_outage_may_begin_after_the_choice),
        cmocka_unit_test(a_job_that_gives_up_nothing_any_more_goes_on),
        cmocka_unit_test(nothing_is_discarded_while_nodes_have_copies),
        cmocka_unit_test(a_copy_that_a_part_cannot_use_holds_up_nothing),
        cmocka_unit_test(the_work_of_a_job_without_gpus_is_worth_its_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
