/* Limits of tables, past requests, events, changed nodes, grants. */
#include "tests/unit/fsm/expect.h"

static void tables_are_bounded_by_outcomes(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    for (int i = 0; i < FSM_TARGETS_MAX - 2; i++)
        expect_ok(&script, "put t%d prefix=/t%d", i, i);
    expect_status(&script, TARGETS_FULL, "put more prefix=/more");
    for (int i = 0; i < FSM_QUEUES_MAX; i++)
        expect_ok(&script, "queue q%d", i);
    expect_status(&script, QUEUES_FULL, "queue more");
    expect_ok(&script, "queue q0 queued=7");
    assert_int_equal(fsm_queue_count(script.fsm), FSM_QUEUES_MAX);
    for (int i = 1; i <= FSM_MEMBERS_MAX; i++)
        expect_ok(&script, "member %d", i);
    expect_status(&script, TOO_LARGE, "member 99");
    assert_int_equal(fsm_member_at(script.fsm, 2)->member_id, 3);
    assert_null(fsm_member_at(script.fsm, FSM_MEMBERS_MAX));
    script_close(&script);
}

/* I9: what Raft committed becomes history; an id that was removed never comes back. */
static void members_come_and_go_once(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "member 4 name=n4");
    assert_int_equal(fsm_member_at(script.fsm, 0)->role, 0);
    expect_ok(&script, "role 4 learner name=other");
    expect_ok(&script, "role 4 voter");
    expect_ok(&script, "role 4 voter");
    expect_ok(&script, "member 4 name=n4-moved");
    assert_string_equal(fsm_member_at(script.fsm, 0)->name, "n4-moved");
    assert_int_equal(fsm_member_at(script.fsm, 0)->role,
                     CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_VOTER);
    assert_false(fsm_member_was_removed(script.fsm, 4));
    expect_ok(&script, "role 4 removed");
    expect_status(&script, MEMBER_REMOVED, "member 4 name=n4");
    expect_status(&script, MEMBER_REMOVED, "role 4 learner");
    assert_true(fsm_member_was_removed(script.fsm, 4));
    assert_true(fsm_member_was_removed(script.fsm, 3)); /* below the highest, and unknown */
    assert_false(fsm_member_was_removed(script.fsm, 5));
    for (int i = 5; i < 5 + FSM_MEMBERS_MAX; i++)
        expect_ok(&script, "role %d removed", i); /* the first removed ones give way */
    assert_true(fsm_member_was_removed(script.fsm, 4));
    expect_ok(&script, "epoch 2");
    assert_null(fsm_member_at(script.fsm, 0)); /* of another history */
    expect_ok(&script, "member 4 name=n4");
    script_close(&script);
}

/* Who comes when the room is used up is refused, and nobody stops for it */
static void the_number_of_nodes_is_bounded(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    script.unchecked = true;
    for (int i = 0; i < FSM_NODES_MAX; i++)
        expect_ok(&script, "node n%d ready", i);
    expect_status(&script, NODES_FULL, "node more ready");
    expect_status(&script, NODES_FULL, "register j1 nodes=n1,more");
    expect_ok(&script, "register j1 nodes=n1,n2 class=1");
    expect_status(&script, NODES_FULL, "register j2 nodes=n1,more class=9");
    expect_job(&script, "j1", RUNNING);
    assert_int_equal(summary_of(&script).preemptions_total, 0);
    assert_null(fsm_preemption_next(script.fsm, 0));
    expect_ok(&script, "node n7 down");
    expect_ok(&script, "remove_node n7");
    expect_ok(&script, "register j3 nodes=more"); /* in its place */
    expect_status(&script, NODES_FULL, "node n7 ready");
    script.unchecked = false;
    expect_ok(&script, "tick");
    script_close(&script);
}

/* K-004 */
static void past_requests_are_forgotten_by_age(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy session_ttl=10000");
    expect_ok(&script, "register j1 nodes=n1 id=a");
    expect_ok(&script, "register j1 nodes=n1 id=a");
    assert_true(script.outcome.repeated);
    expect_ok(&script, "after 10000");
    expect_status(&script, ALLOCATION_EXISTS, "register j1 nodes=n1 id=a");
    assert_false(script.outcome.repeated);
    script_close(&script);
}

/* A refusal is the outcome of its request as well */
static void refusals_are_remembered(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_status(&script, ALLOCATION_NOT_FOUND, "request j1 id=a");
    expect_ok(&script, "register j1 nodes=n1");
    expect_status(&script, ALLOCATION_NOT_FOUND, "request j1 id=a");
    assert_true(script.outcome.repeated);
    expect_ok(&script, "request j1 id=b");
    script_close(&script);
}

static void a_new_policy_keeps_what_is_not_named(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy grace=77");
    assert_int_equal(fsm_policy(script.fsm)->grace_ms, 77);
    assert_int_equal(fsm_policy(script.fsm)->checkpoint_timeout_ms, 600000);
    assert_int_equal(fsm_policy(script.fsm)->retry_backoff_ms, 1000);
    script_close(&script);
}

static uint64_t bit(unsigned number)
{
    return UINT64_C(1) << number;
}

/* Of a message a field at zero says nothing: `zeros` does. */
static void a_zero_is_a_value_where_it_is_meant(void **unused)
{
    const uint64_t always = bit(50) | bit(51); /* f8_weight_sensitive, _interactive: 0 by default */
    struct script_bytes bytes = {.length = 0};
    struct script script;
    struct fsm *copy;
    char text[256];

    (void)unused;
    script_start(&script);
    assert_true(fsm_policy(script.fsm)->zeros == always);
    expect_ok(&script, "policy grace=78");
    assert_int_equal(fsm_policy(script.fsm)->restart_cost_ms, 180000);
    expect_ok(&script, "policy zeros=%" PRIu64, bit(18) | bit(21));
    assert_int_equal(fsm_policy(script.fsm)->restart_cost_ms, 0);
    assert_int_equal(fsm_policy(script.fsm)->max_requeue, 0);
    assert_int_equal(fsm_policy(script.fsm)->f8_weight_ml_ppm, 100000);
    assert_int_equal(fsm_policy(script.fsm)->grace_ms, 78);
    assert_true(fsm_policy(script.fsm)->zeros == (always | bit(18) | bit(21)));
    assert_int_equal(fsm_snapshot_write(script.fsm, script_write, &bytes), 0);
    copy = fsm_new();
    assert_int_equal(fsm_snapshot_read(copy, script_read, &bytes, text, sizeof(text)), 0);
    assert_int_equal(fsm_policy(copy)->restart_cost_ms, 0);
    assert_true(fsm_policy(copy)->zeros == fsm_policy(script.fsm)->zeros);
    fsm_free(copy);
    free(bytes.bytes);
    expect_ok(&script, "policy restart_cost=7");
    assert_int_equal(fsm_policy(script.fsm)->restart_cost_ms, 7);
    assert_true(fsm_policy(script.fsm)->zeros == (always | bit(21)));
    expect_ok(&script, "policy restart_cost=8 zeros=%" PRIu64, bit(18)); /* the number is there */
    assert_int_equal(fsm_policy(script.fsm)->restart_cost_ms, 8);
    script_close(&script);
}

/* What a configuration file would be refused for, the log takes neither, and the refusal says of
 * what it speaks. */
static void a_policy_out_of_range_or_against_itself_changes_nothing(void **unused)
{
    static const struct {
        const char *line, *subject;
        uint64_t current, limit;
    } refusals[] = {{"policy interval=10", "evaluation_interval_ms", 10, 50},
                    {"policy interval=36000000", "evaluation_interval_ms", 36000000, 3600000},
                    {"policy stall=1000001", "stall_fraction_ppm", 1000001, 1000000},
                    {"policy keep=33", "keep_complete", 33, 32},
                    {"policy grace=5 retention=999", "retention_ms", 999, 1000},
                    {"policy min_interval=25200000", "min_interval_ms (limited by max_interval_ms)",
                     25200000, 21600000},
                    {"policy max_interval=5 min_interval=6",
                     "min_interval_ms (limited by max_interval_ms)", 6, 5},
                    {"policy zeros=4", "min_interval_ms", 0, 1},
                    {"policy sensitive_min=7200000",
                     "sensitive_min_interval_ms (limited by sensitive_max_interval_ms)", 7200000,
                     3600000}};
    struct script script;
    char text[256];

    (void)unused;
    script_start(&script);
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        expect_status(&script, INVALID_ARGUMENT, "%s", refusals[i].line);
        assert_non_null(script.outcome.subject);
        assert_string_equal(script.outcome.subject, refusals[i].subject);

        assert_uint_equal(script.outcome.current, refusals[i].current);
        assert_uint_equal(script.outcome.limit, refusals[i].limit);
        fsm_outcome_text(&script.outcome, text, sizeof(text));
        assert_memory_equal(text, refusals[i].subject, strlen(refusals[i].subject));
    }
    expect_status(&script, INVALID_ARGUMENT, "policy zeros=1");
    assert_string_equal(script.outcome.subject, "zeros");
    assert_int_equal(fsm_policy(script.fsm)->grace_ms, 30000);
    assert_int_equal(fsm_policy(script.fsm)->max_interval_ms, 21600000);
    expect_ok(&script, "policy min_interval=25200000 max_interval=25200000");
    script_close(&script);
}

static void watches_learn_of_dropped_events(void **unused)
{
    struct script script;
    const Ckpt__V1__Event *event;
    bool gap;

    (void)unused;
    script_start(&script);
    script.unchecked = true;
    for (int i = 0; i < FSM_EVENTS_MAX + 10; i++)
        expect_ok(&script, "node n1 %s", i % 2 ? "degraded" : "ready");
    event = fsm_event_after(script.fsm, 0, &gap);
    assert_true(gap);
    assert_int_equal(event->sequence, summary_of(&script).next_event_sequence - FSM_EVENTS_MAX);
    event = fsm_event_after(script.fsm, event->sequence, &gap);
    assert_false(gap);
    assert_null(fsm_event_after(script.fsm, summary_of(&script).next_event_sequence - 1, &gap));
    assert_null(fsm_event_after(script.fsm, UINT64_MAX, &gap));
    script_close(&script);
}

static void changed_nodes_are_listed_once(void **unused)
{
    struct script script;
    uint32_t slot;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    assert_true(fsm_take_changed_node(script.fsm, &slot));
    assert_int_equal(slot, 0);
    assert_true(fsm_take_changed_node(script.fsm, &slot));
    assert_int_equal(slot, 1);
    assert_false(fsm_take_changed_node(script.fsm, &slot));
    expect_ok(&script, "report n2 responsive j1 ckpt=1-1");
    assert_true(fsm_take_changed_node(script.fsm, &slot));
    script_close(&script);
}

/* D-001, I36: a lowered budget takes nothing back, and nothing more is granted */
static void a_lowered_budget_stops_further_grants(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "register j2 nodes=n2 walltime=100000000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "decide j2 purpose=walltime");
    expect_ok(&script, "grant 1-1 bytes=6000000000");
    expect_ok(&script, "put scratch write=1000000000 default");
    assert_int_equal(fsm_target_find(script.fsm, "scratch")->budget_bytes_per_s, 700000000);
    assert_int_equal(fsm_target_find(script.fsm, "scratch")->granted_bytes_per_s, 6000000000);
    expect_status(&script, BUDGET_EXCEEDED, "grant 1-2 bytes=1");
    expect_ok(&script, "grant 1-2 bytes=1 bypass");
    script_close(&script);
}

/* S1-005, S1-052 */
static void what_is_measured_bounds_the_budget_until_it_is_forgotten(void **unused)
{
    struct script script;
    const struct fsm_target *target;

    (void)unused;
    script_start(&script);
    target = fsm_target_find(script.fsm, "scratch");
    expect_ok(&script, "after 1000");
    expect_ok(&script, "target scratch up measured=2000000000");
    assert_int_equal(target->budget_bytes_per_s, 2000000000);
    assert_int_equal(target->measured_at_ms, target->since_ms + 1000);
    expect_ok(&script, "put scratch write=1000000000 default");
    assert_int_equal(target->budget_bytes_per_s, 700000000);
    expect_ok(&script, "put scratch write=10000000000 default");
    assert_int_equal(target->budget_bytes_per_s, 2000000000);
    expect_ok(&script, "target scratch down");
    assert_int_equal(target->budget_bytes_per_s, 0);
    assert_int_equal(fsm_target_budget_when_up(target), 2000000000);
    expect_ok(&script, "target scratch up forget");
    assert_int_equal(target->budget_bytes_per_s, 7000000000);
    script_close(&script);
}

static void only_those_that_write_are_own_writes(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "register j2 nodes=n2");
    expect_ok(&script, "request j1");
    expect_ok(&script, "request j2");
    assert_int_equal(fsm_target_writing_rate(script.fsm, 0), 0);
    expect_ok(&script, "grant 1-1 1-2 bytes=3000000");
    assert_int_equal(fsm_target_writing_rate(script.fsm, 0), 0);
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    assert_int_equal(fsm_target_writing_rate(script.fsm, 0), 3000000);
    assert_int_equal(fsm_target_writing_rate(script.fsm, 5), 0);
    script_close(&script);
}

static void expect_unproven(const struct script *script, uint64_t bytes_per_s, uint32_t parts)
{
    uint32_t found;

    assert_uint_equal(fsm_target_unproven_rate(script->fsm, 0, &found), bytes_per_s);
    assert_uint_equal(found, parts);
}

static void who_has_written_nothing_yet_is_unproven(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2");
    assert_true(fsm_allocation_unproven(job_of(&script, "j1")));
    expect_ok(&script, "request j1");
    expect_unproven(&script, 0, 0);
    expect_ok(&script, "grant 1-1 bytes=6000000");
    expect_unproven(&script, 6000000, 2);
    expect_ok(&script, "report n1 started j1 ckpt=1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 size=30");
    expect_ok(&script, "report n2 shard_verified j1 ckpt=1-1 size=30");
    assert_false(fsm_allocation_unproven(job_of(&script, "j1")));
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-2 bytes=3000000");
    expect_unproven(&script, 0, 0);
    script_close(&script);
}

/* S1-044 */
static void the_path_of_a_checkpoint_is_that_of_the_rows(void **unused)
{
    struct script script;
    const struct fsm_allocation *job;
    char path[256];

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    job = fsm_allocation_find(script.fsm, "j1");
    assert_int_equal(fsm_checkpoint_path(script.fsm, checkpoint_of(&script, 1), path, sizeof(path)),
                     strlen("/scratch/physics/climate/j1/checkpoints/1-1"));
    assert_string_equal(path, "/scratch/physics/climate/j1/checkpoints/1-1");
    assert_int_equal(fsm_checkpoint_path(script.fsm, checkpoint_of(&script, 1), path, 20), 0);
    assert_int_equal(
        fsm_checkpoints_path(script.fsm, job, fsm_destination(script.fsm, job), path, sizeof(path)),
        strlen("/scratch/physics/climate/j1/checkpoints"));
    assert_string_equal(path, "/scratch/physics/climate/j1/checkpoints");
    assert_int_equal(
        fsm_checkpoints_path(script.fsm, job, fsm_destination(script.fsm, job), path, 20), 0);
    expect_ok(&script, "put tenants s3 prefix=s3:// write=1000 default");
    expect_ok(&script, "register j2 nodes=n2");
    expect_ok(&script, "request j2");
    assert_true(fsm_checkpoint_path(script.fsm, checkpoint_of(&script, 2), path, sizeof(path)) > 0);
    assert_string_equal(path, "s3://physics/climate/j2/checkpoints/1-2"); /* S1-043 */
    script_close(&script);
}

static uint64_t events_of(const struct script *script)
{
    return summary_of(script).next_event_sequence;
}

/* What whatif replays: told when it changes noticeably, so that a report every few seconds does not
 * fill the history. */
static void a_queue_is_told_of_when_it_changes_noticeably(void **unused)
{
    struct script script;
    const Ckpt__V1__Event *event;
    uint64_t before;
    bool gap;

    (void)unused;
    script_start(&script);
    before = events_of(&script);
    expect_ok(&script, "queue hpc queued=0 running=1000");
    assert_int_equal(events_of(&script), before); /* nothing waits: as before */
    expect_ok(&script, "queue hpc queued=300 running=1000 waiting");
    assert_int_equal(events_of(&script), before + 1);
    event = fsm_event_after(script.fsm, before - 1, &gap);
    assert_int_equal(event->kind, CKPT__V1__EVENT_KIND__EVENT_KIND_QUEUE);
    assert_string_equal(event->subject, "hpc");
    assert_int_equal(event->number, 300000);
    assert_int_equal(event->new_state, 8);
    for (int i = 0; i < 9; i++)
        expect_ok(&script, "queue hpc queued=%d running=1000 waiting", 300 + i * 10);
    assert_int_equal(events_of(&script), before + 1);
    expect_ok(&script, "queue hpc queued=400 running=1000 waiting");
    assert_int_equal(events_of(&script), before + 2);
    expect_ok(&script, "queue hpc queued=400 running=1000"); /* nobody waits by name */
    assert_int_equal(events_of(&script), before + 3);
    expect_ok(&script, "queue hpc queued=1 running=0");
    event = fsm_event_after(script.fsm, before + 2, &gap);
    assert_int_equal(event->number, 1000000);
    expect_ok(&script, "queue other queued=5 running=1000"); /* each has its own */
    assert_int_equal(events_of(&script), before + 5);
    script_close(&script);
}

static void what_is_not_said_of_a_target_stays(void **unused)
{
    const struct fsm_target *fast;
    struct script script;

    (void)unused;
    script_start(&script);
    expect_status(&script, PREFIX_INVALID, "put fast keep write=1000");
    expect_status(&script, INVALID_ARGUMENT, "put fast keep prefix=/fast");
    expect_ok(&script, "put fast keep prefix=/fast write=1000 cost=700 domain=d");
    fast = fsm_target_find(script.fsm, "fast");
    assert_int_equal(fast->staging_share_ppm, 300000);
    assert_int_equal(fast->read_back, CKPT__V1__READ_BACK__READ_BACK_SAMPLED);
    assert_int_equal(fast->generations, 8);
    expect_ok(&script, "put fast keep read_back=%d generations=3",
              CKPT__V1__READ_BACK__READ_BACK_ALWAYS);
    expect_status(&script, INVALID_ARGUMENT, "put fast keep read_back=4");
    expect_status(&script, INVALID_ARGUMENT, "put fast keep generations=256");
    assert_int_equal(fast->staging, CKPT__V1__STAGING__STAGING_LOCAL);
    expect_ok(&script, "put fast keep writes=direct");
    expect_status(&script, STAGING_UNFIT, "put fast s3 prefix=s3://a"); /* direct stays */
    assert_int_equal(fast->compression, CKPT__V1__COMPRESSION__COMPRESSION_NONE);
    expect_ok(&script, "put fast keep writes=local compression=lz4");
    expect_status(&script, COMPRESSION_UNFIT, "put fast s3 prefix=s3://a"); /* lz4 stays */
    expect_ok(&script, "put fast keep writes=direct");
    assert_int_equal(fast->compression, CKPT__V1__COMPRESSION__COMPRESSION_LZ4);
    expect_ok(&script, "put fast keep write=2000");
    assert_int_equal(fast->staging, CKPT__V1__STAGING__STAGING_DIRECT);
    assert_int_equal(fast->read_back, CKPT__V1__READ_BACK__READ_BACK_ALWAYS);
    assert_int_equal(fast->generations, 3);
    assert_int_equal(fast->write_bytes_per_s, 2000);
    assert_int_equal(fast->budget_bytes_per_s, 1400);
    assert_int_equal(fast->cost_micro_usd_per_gb_month, 700);
    assert_string_equal(fast->prefix, "/fast");
    assert_string_equal(fast->domain, "d");
    expect_ok(&script, "put fast keep zeros=%d", 1 << 5 | 1 << 6 | 1 << 8 | 1 << 13);
    assert_int_equal(fast->generations, 0);
    assert_int_equal(fast->staging_share_ppm, 0);
    assert_int_equal(fast->cost_micro_usd_per_gb_month, 0);
    assert_string_equal(fast->domain, "");
    assert_int_equal(fast->write_bytes_per_s, 2000);
    expect_status(&script, INVALID_ARGUMENT, "put fast keep zeros=%d", 1 << 4);
    expect_status(&script, INVALID_ARGUMENT, "put fast keep s3"); /* the prefix is not of it */
    script_close(&script);
}

static void a_drain_can_be_undone(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready boot=b1");
    expect_ok(&script, "drain n1");
    expect_ok(&script, "node n1 ready boot=b1"); /* a drain outlives reconnections */
    assert_int_equal(fsm_node_find(script.fsm, "n1")->state,
                     CKPT__LOG__V1__NODE_STATE__NODE_STATE_DRAINED);
    expect_ok(&script, "drain n1 undo");
    expect_ok(&script, "drain n1 undo");
    assert_int_equal(fsm_node_find(script.fsm, "n1")->state,
                     CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    expect_ok(&script, "register j1 nodes=n2"); /* no agent spoke from there yet */
    expect_ok(&script, "drain n2");
    expect_ok(&script, "drain n2 undo");
    assert_int_equal(fsm_node_find(script.fsm, "n2")->state,
                     CKPT__LOG__V1__NODE_STATE__NODE_STATE_UNSPECIFIED);
    expect_status(&script, NODE_NOT_FOUND, "drain nowhere undo");
    script_close(&script);
}

/* GPU-milliseconds that wait there; 0: no report is known. */
static uint64_t queued(const struct script *script, const char *vcluster)
{
    struct fsm_queue queue;

    for (size_t i = 0; i < fsm_queue_count(script->fsm); i++) {
        fsm_queue_at(script->fsm, i, &queue);
        if (strcmp(queue.vcluster, vcluster) == 0)
            return queue.queued_gpu_ms;
    }
    return 0;
}

static void a_queue_that_is_withdrawn_is_forgotten(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "queue a queued=100 running=10");
    expect_ok(&script, "queue b queued=200 running=10");
    expect_ok(&script, "queue c queued=300 running=10");
    expect_ok(&script, "queue b withdrawn");
    expect_ok(&script, "queue nobody withdrawn");
    assert_int_equal(queued(&script, "b"), 0);
    assert_int_equal(fsm_queue_count(script.fsm), 2);
    script_restore(&script);
    assert_int_equal(queued(&script, "a"), 100);
    assert_int_equal(queued(&script, "c"), 300);
    expect_ok(&script, "queue b queued=1 running=10");
    assert_int_equal(queued(&script, "b"), 1);
    script_close(&script);
}

static void a_target_that_nothing_needs_can_be_removed(void **unused)
{
    struct script script;
    uint32_t slot;
    uint64_t made;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "put fast prefix=/fast");
    slot = fsm_target_find(script.fsm, "fast")->slot;
    made = fsm_target_find(script.fsm, "fast")->made;
    expect_ok(&script, "remove_target fast id=once");
    expect_ok(&script, "remove_target fast id=once");
    assert_null(fsm_target_find(script.fsm, "fast"));
    assert_null(fsm_target_find_slot(script.fsm, slot));
    expect_status(&script, TARGET_NOT_FOUND, "remove_target fast");
    expect_status(&script, TARGET_NOT_FOUND, "register j1 nodes=n1 target=fast");
    script_restore(&script);
    assert_null(fsm_target_find(script.fsm, "fast"));
    expect_ok(&script, "put second prefix=/second"); /* the slot is free again, for another one */
    assert_int_equal(fsm_target_find(script.fsm, "second")->slot, slot);
    assert_true(fsm_target_find(script.fsm, "second")->made > made);
    script_close(&script);
}

static void a_target_stays_while_it_is_needed(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_status(&script, TARGET_IS_DEFAULT, "remove_target scratch");
    expect_ok(&script, "put fast prefix=/fast");
    expect_ok(&script, "register j1 nodes=n1 target=fast");
    expect_status(&script, TARGET_HAS_JOBS, "remove_target fast");
    assert_int_equal(script.outcome.current, 1);
    expect_ok(&script, "policy keep=2 retention=1000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "end j1");
    expect_status(&script, TARGET_HAS_FOLDERS, "remove_target fast");
    assert_int_equal(script.outcome.current, 1);
    assert_int_equal(script.outcome.limit, 0);
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    expect_ok(&script, "collected failed=1-1");
    script_restore(&script); /* the job has left, its folder has not */
    assert_null(fsm_allocation_find(script.fsm, "j1"));
    expect_status(&script, TARGET_HAS_FOLDERS, "remove_target fast");
    assert_int_equal(script.outcome.current, 1);
    assert_int_equal(script.outcome.limit, 1);
    expect_ok(&script, "collected 1-1");
    expect_ok(&script, "remove_target fast");
    script_close(&script);
}

/* Who ended keeps the name of its target, and that keeps the slot. */
static void a_removed_target_is_named_by_jobs_that_ended(void **unused)
{
    struct script script;
    uint32_t slot;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "put fast prefix=/fast");
    slot = fsm_target_find(script.fsm, "fast")->slot;
    expect_ok(&script, "register j1 nodes=n1 target=fast");
    expect_ok(&script, "register j2 nodes=n1 target=fast");
    expect_ok(&script, "end j1");
    expect_ok(&script, "end j2 failed");
    expect_ok(&script, "remove_target fast");
    script_restore(&script);
    assert_null(fsm_target_find(script.fsm, "fast"));
    assert_string_equal(
        fsm_target_name(script.fsm, fsm_allocation_find(script.fsm, "j1")->target_slot), "fast");
    expect_status(&script, TARGET_NOT_FOUND, "restart j2");
    expect_ok(&script, "put second prefix=/second");
    assert_int_not_equal(fsm_target_find(script.fsm, "second")->slot, slot);
    expect_ok(&script, "put fast prefix=/faster"); /* again: it is whose name they have */
    assert_int_equal(fsm_target_find(script.fsm, "fast")->slot, slot);
    assert_true(fsm_target_find(script.fsm, "fast")->available);
    expect_ok(&script, "restart j2 from_scratch");
    expect_ok(&script, "end j2");
    expect_ok(&script, "remove_target fast");
    expect_ok(&script, "policy retention=1000");
    expect_ok(&script, "after 1000000000");
    expect_ok(&script, "tick");
    assert_null(fsm_allocation_find(script.fsm, "j1"));
    expect_ok(&script, "put third prefix=/third");
    assert_int_equal(fsm_target_find(script.fsm, "third")->slot, slot);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_target_that_nothing_needs_can_be_removed),
        cmocka_unit_test(a_target_stays_while_it_is_needed),
        cmocka_unit_test(a_removed_target_is_named_by_jobs_that_ended),
        cmocka_unit_test(what_is_not_said_of_a_target_stays),
        cmocka_unit_test(a_drain_can_be_undone),
        cmocka_unit_test(a_queue_that_is_withdrawn_is_forgotten),
        cmocka_unit_test(tables_are_bounded_by_outcomes),
        cmocka_unit_test(members_come_and_go_once),
        cmocka_unit_test(the_number_of_nodes_is_bounded),
        cmocka_unit_test(past_requests_are_forgotten_by_age),
        cmocka_unit_test(refusals_are_remembered),
        cmocka_unit_test(a_new_policy_keeps_what_is_not_named),
        cmocka_unit_test(a_zero_is_a_value_where_it_is_meant),
        cmocka_unit_test(a_policy_out_of_range_or_against_itself_changes_nothing),
        cmocka_unit_test(watches_learn_of_dropped_events),
        cmocka_unit_test(changed_nodes_are_listed_once),
        cmocka_unit_test(a_lowered_budget_stops_further_grants),
        cmocka_unit_test(what_is_measured_bounds_the_budget_until_it_is_forgotten),
        cmocka_unit_test(only_those_that_write_are_own_writes),
        cmocka_unit_test(who_has_written_nothing_yet_is_unproven),
        cmocka_unit_test(the_path_of_a_checkpoint_is_that_of_the_rows),
        cmocka_unit_test(a_queue_is_told_of_when_it_changes_noticeably),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
