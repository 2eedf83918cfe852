/* Bytes of a tenant's checkpoints, and its limits (I56). */
#include "tests/unit/fsm/expect.h"

#include "fsm/quota.h"

/* With one node, the bytes are the report's. */
static void complete_of(struct script *script, const char *job, int sequence, int bytes)
{
    expect_ok(script, "request %s", job);
    expect_ok(script, "grant 1-%d bytes=1", sequence);
    expect_ok(script, "report n1 shard_verified %s ckpt=1-%d size=%d", job, sequence, bytes);
    expect_checkpoint(script, (uint64_t)sequence, COMPLETE);
}

static struct fsm_quota quota_of(const struct script *script, const char *tenant)
{
    struct fsm_quota quota;
    const char *id;

    for (uint32_t i = 0; (id = fsm_tenant_quota(script->fsm, i, &quota)) != NULL; i++)
        if (strcmp(id, tenant) == 0)
            return quota;
    fail_msg("no tenant %s", tenant);
    return quota;
}

/* What the leader would propose; returns how many it names. */
static size_t let_go(struct script *script, const char *tenant)
{
    struct fsm_quota_scan scan = {0};
    struct fsm_quota quota;
    uint64_t bytes = 0;
    size_t named = 0;
    char line[512] = "over_quota", id[CHECKPOINT_ID_TEXT_BYTES];

    while (strcmp(fsm_tenant_quota(script->fsm, scan.tenant, &quota), tenant) != 0)
        scan.tenant++;
    while (!fsm_quota_step(script->fsm, &scan, 1))
        ;
    for (; named < scan.count && bytes < fsm_quota_excess(&quota, script->now_ms); named++) {
        strcat(line, " ");
        strcat(line, checkpoint_id_format(scan.first[named].id, id));
        bytes += scan.first[named].bytes;
    }
    if (named > 0)
        expect_ok(script, "%s", line);
    return named;
}

static size_t collectable(const struct script *script, uint64_t *ids)
{
    return fsm_collectable(script->fsm, 0, ids, FSM_COLLECTABLE_MAX);
}

static void bytes_follow_a_checkpoint_from_its_request_to_its_removal(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy keep=2 retention=10000");
    expect_ok(&script, "register j1 nodes=n1 memory=700");
    expect_ok(&script, "request j1");
    assert_int_equal(quota_of(&script, "physics").running_bytes, 700);
    expect_ok(&script, "grant 1-1 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 size=600");
    assert_int_equal(quota_of(&script, "physics").running_bytes, 0);
    assert_int_equal(quota_of(&script, "physics").stored_bytes, 600);
    complete_of(&script, "j1", 2, 500);
    assert_int_equal(quota_of(&script, "physics").stored_bytes, 1100);
    complete_of(&script, "j1", 3, 400);
    assert_int_equal(quota_of(&script, "physics").stored_bytes, 1500);
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    assert_int_equal(quota_of(&script, "physics").leaving_bytes, 600);
    expect_ok(&script, "collected 1-1");
    assert_int_equal(quota_of(&script, "physics").stored_bytes, 900);
    assert_int_equal(quota_of(&script, "physics").leaving_bytes, 0);
    expect_ok(&script, "request j1");
    expect_ok(&script, "cancel 1-4");
    assert_int_equal(quota_of(&script, "physics").running_bytes, 0);
    script_close(&script);
}

/* No limit, as a new tenant has none, refuses nothing. */
/* P-007: what is over a limit is refused, and takes nothing from who runs. */
static void a_checkpoint_that_does_not_fit_is_refused_by_name(void **unused)
{
    struct script script;
    uint64_t ids[FSM_COLLECTABLE_MAX];

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 memory=1000");
    for (int i = 1; i <= 3; i++)
        complete_of(&script, "j1", i, 1000);
    expect_ok(&script, "tenant physics max=3500");
    expect_status(&script, TENANT_OVER_QUOTA, "request j1");
    expect_job(&script, "j1", RUNNING);
    assert_int_equal(script.outcome.current, 4000);
    assert_int_equal(script.outcome.limit, 3500);
    assert_int_equal(fsm_quota_wanted(&(struct fsm_quota){0}, 0), 0);
    assert_int_equal(quota_of(&script, "physics").wanted_bytes, 1000);
    assert_int_equal(let_go(&script, "physics"), 1); /* the oldest one makes room */
    assert_int_equal(collectable(&script, ids), 1);
    assert_int_equal(ids[0], checkpoint_id_make(1, 1));
    expect_status(&script, TENANT_OVER_QUOTA, "request j1"); /* it is still there */
    expect_ok(&script, "collected 1-1");
    complete_of(&script, "j1", 4, 1000);
    expect_ok(&script, "tenant physics zeros=4"); /* no limit again */
    complete_of(&script, "j1", 5, 1000);
    script_close(&script);
}

static void two_complete_ones_of_each_job_stay(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy keep=3");
    expect_ok(&script, "register j1 nodes=n1 memory=1000");
    for (int i = 1; i <= 3; i++)
        complete_of(&script, "j1", i, 1000);
    expect_ok(&script, "tenant physics max=1500");
    assert_int_equal(let_go(&script, "physics"), 1);
    assert_int_equal(let_go(&script, "physics"), 0);
    expect_ok(&script, "over_quota 1-2 1-3"); /* whatever a leader names */
    assert_int_equal(script.outcome.current, 0);
    assert_int_equal(quota_of(&script, "physics").leaving_bytes, 1000);
    expect_ok(&script, "end j1");                    /* it does not start again */
    assert_int_equal(let_go(&script, "physics"), 1); /* 1,000 remain, which fit */
    script_close(&script);
}

static void what_is_pinned_or_of_others_stays(void **unused)
{
    struct script script;
    uint64_t ids[FSM_COLLECTABLE_MAX];

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy keep=2");
    expect_ok(&script, "register j1 nodes=n1 memory=1000");
    expect_ok(&script, "register j2 nodes=n1 tenant=biology memory=1000");
    complete_of(&script, "j2", 1, 1000);
    complete_of(&script, "j1", 2, 1000);
    complete_of(&script, "j2", 3, 1000);
    complete_of(&script, "j1", 4, 1000);
    complete_of(&script, "j1", 5, 1000);
    complete_of(&script, "j2", 6, 1000);
    complete_of(&script, "j1", 7, 1000);
    expect_ok(&script, "pin 1-2");
    expect_ok(&script, "tenant physics max=1000");
    assert_int_equal(let_go(&script, "physics"), 1);
    assert_int_equal(collectable(&script, ids), 1);
    assert_int_equal(ids[0], checkpoint_id_make(1, 4));
    expect_ok(&script, "over_quota 1-1"); /* biology has no limit */
    assert_int_equal(script.outcome.current, 0);
    expect_ok(&script, "tenant biology max=1000"); /* which is all that kept it */
    expect_ok(&script, "over_quota 1-1");
    assert_int_equal(script.outcome.current, 1);
    script_close(&script);
}

/* Stops, moves, the end of a walltime and nodes that leave are somebody else's need. */
static void what_stops_a_job_is_never_refused(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    for (int i = 1; i <= 5; i++)
        expect_ok(&script, "register j%d nodes=n%d walltime=3600000", i, i);
    expect_ok(&script, "tenant physics max=1");
    expect_status(&script, TENANT_OVER_QUOTA, "request j1");
    expect_ok(&script, "request j1 after=stop");
    expect_ok(&script, "migrate j2");
    expect_ok(&script, "decide j3 purpose=walltime");
    assert_int_equal(script.outcome.current, 1);
    expect_ok(&script, "drain n4 urgent");
    assert_true(fsm_allocation_find(script.fsm, "j4")->active_checkpoint_id != 0);
    expect_ok(&script, "decide j5");
    assert_int_equal(script.outcome.current, 0);
    expect_ok(&script, "preempt class=9 need=1 nodes=j5");
    assert_true(fsm_allocation_find(script.fsm, "j5")->active_checkpoint_id != 0);
    script_close(&script);
}

/* It would not fit if everything else went. */
static void nothing_goes_for_what_can_never_fit(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    for (int i = 1; i <= 4; i++)
        complete_of(&script, "j1", i, 100);
    expect_ok(&script, "tenant physics max=100000");
    expect_ok(&script, "register j2 nodes=n2");
    assert_true(job_of(&script, "j2")->size_estimate_bytes > 100000);
    expect_status(&script, TENANT_OVER_QUOTA, "request j2");
    expect_ok(&script, "over_quota 1-1 1-2");
    assert_uint_equal(script.outcome.current, 0);
    script_close(&script);
}

static void a_refusal_is_told_once_in_ten_minutes(void **unused)
{
    struct script script;
    uint64_t before;
    struct fsm_summary summary;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1 memory=1000");
    expect_ok(&script, "tenant physics max=1");
    summary = summary_of(&script);
    before = summary.next_event_sequence;
    expect_status(&script, TENANT_OVER_QUOTA, "request j1");
    expect_status(&script, TENANT_OVER_QUOTA, "request j1");
    summary = summary_of(&script);
    assert_int_equal(summary.next_event_sequence, before + 1);
    expect_ok(&script, "after 600000");
    expect_status(&script, TENANT_OVER_QUOTA, "request j1");
    summary = summary_of(&script);
    assert_int_equal(summary.next_event_sequence, before + 2);
    script_close(&script);
}

/* The job's own number, else its tenant's, else the policy's. */
static void a_tenant_and_a_job_have_their_own_retention(void **unused)
{
    struct script script;
    uint64_t ids[FSM_COLLECTABLE_MAX];

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy keep=4 retention=1000000");
    expect_ok(&script, "tenant physics keep=2 retention=20000");
    expect_ok(&script, "register j1 nodes=n1 memory=1000");
    expect_ok(&script, "register j2 nodes=n1 keep=3 retention=10000");
    for (int i = 1; i <= 4; i++)
        complete_of(&script, "j1", i, 10);
    for (int i = 5; i <= 8; i++)
        complete_of(&script, "j2", i, 10);
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    assert_int_equal(collectable(&script, ids), 1);
    assert_int_equal(ids[0], checkpoint_id_make(1, 5));
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    assert_int_equal(collectable(&script, ids), 3);
    script_close(&script);
}

/* What the log of an earlier build says of one is two: by the policy, a tenant and a job. */
static void one_that_an_earlier_build_took_is_two(void **unused)
{
    static const char *const lines[] = {"policy keep=1 retention=10000",
                                        "tenant physics keep=1 retention=10000",
                                        "register j1 nodes=n1 keep=1 retention=10000"};
    uint64_t ids[FSM_COLLECTABLE_MAX];

    (void)unused;
    for (size_t k = 0; k < 3; k++) {
        struct script script;

        script_start(&script);
        expect_ok(&script, "policy keep=3 retention=1000000");
        expect_ok(&script, "%s", lines[k]);
        if (k < 2)
            expect_ok(&script, "register j1 nodes=n1");
        for (int i = 1; i <= 3; i++)
            complete_of(&script, "j1", i, 10);
        expect_ok(&script, "after 10000");
        expect_ok(&script, "tick");
        assert_int_equal(collectable(&script, ids), 1);
        assert_int_equal(ids[0], checkpoint_id_make(1, 1));
        assert_int_equal(fsm_policy(script.fsm)->keep_complete, k == 0 ? 2 : 3);
        script_close(&script);
    }
}

static void a_tenant_is_put_by_what_is_said(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "tenant physics max=100 keep=2 retention=5000");
    expect_ok(&script, "tenant physics keep=4");
    assert_int_equal(quota_of(&script, "physics").max_bytes, 100);
    assert_int_equal(quota_of(&script, "physics").keep_complete, 4);
    expect_ok(&script, "tenant physics zeros=24");
    assert_int_equal(quota_of(&script, "physics").max_bytes, 100);
    assert_int_equal(quota_of(&script, "physics").keep_complete, 0);
    assert_int_equal(quota_of(&script, "physics").retention_ms, 0);
    expect_status(&script, INVALID_ID, "tenant a/b max=1");
    expect_status(&script, INVALID_ARGUMENT, "tenant physics keep=33");
    expect_status(&script, INVALID_ARGUMENT, "tenant physics retention=999");
    for (int i = 1; i < FSM_TENANTS_MAX - 1; i++)
        expect_ok(&script, "tenant t%d max=1", i);
    expect_status(&script, TENANTS_FULL, "tenant another max=1");
    assert_int_equal(script.outcome.limit, FSM_TENANTS_MAX - 1);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_follow_a_checkpoint_from_its_request_to_its_removal),
        cmocka_unit_test(a_checkpoint_that_does_not_fit_is_refused_by_name),
        cmocka_unit_test(two_complete_ones_of_each_job_stay),
        cmocka_unit_test(what_is_pinned_or_of_others_stays),
        cmocka_unit_test(what_stops_a_job_is_never_refused),
        cmocka_unit_test(nothing_goes_for_what_can_never_fit),
        cmocka_unit_test(a_refusal_is_told_once_in_ten_minutes),
        cmocka_unit_test(a_tenant_and_a_job_have_their_own_retention),
        cmocka_unit_test(one_that_an_earlier_build_took_is_two),
        cmocka_unit_test(a_tenant_is_put_by_what_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
