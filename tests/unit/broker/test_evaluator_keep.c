/* Rows kept from cycle to cycle hold the bits that a view made anew would hold, whatever happens to
 * the cluster; the verdicts of the fast rule are those of the slow one (S1-050, S1-054, S1-063). */
#include <math.h>

#include "src/broker/decide/evaluator_keep.h"
#include "src/broker/health/node_health.h"
#include "src/broker/health/nodes.h"
#include "src/eval/inputs.h"
#include "tests/unit/broker/evaluator_fixture.h"

enum { JOBS = 600, NODES = 40, CYCLES = 240 };

struct world {
    struct fake *fake;
    struct nodes *nodes;
    struct evaluator_keep keep;
    struct eval_view one; /* room for one row */
    struct evaluator_block *block;
    struct eval_fleet_rates rates;
    struct eval_view fresh;
    struct eval_result result;
    uint64_t random;
    uint32_t cycle, jobs, number;
    uint64_t filled, kept;
    bool quiet; /* nothing happens during a cycle */
};

static uint64_t dice(struct world *world, uint64_t sides)
{
    return test_random(&world->random) % sides;
}

static const char *next_id(struct world *world)
{
    static char id[32];

    snprintf(id, sizeof(id), "request-%u", ++world->number);
    return id;
}

/* ---- what happens ---- */

static struct world *registering; /* whose dice the next function throws */

static void any_kind(Ckpt__V1__AllocationSpec *spec)
{
    struct world *world = registering;

    spec->started_at_ms = fake_wall_ms(world->fake) - dice(world, 20 * HOUR_MS);
    if (dice(world, 2) == 0)
        spec->walltime_ms = HOUR_MS + dice(world, 30 * (uint64_t)HOUR_MS);
    if (dice(world, 50) == 0)
        spec->walltime_ms = UINT64_C(200000000000); /* longer than anybody counts */
    if (dice(world, 5) == 0)
        spec->period_ms = 60000 + dice(world, HOUR_MS);
    spec->preemption_class = (uint32_t)dice(world, FSM_CLASS_MAX + 1);
    spec->sensitive = dice(world, 10) == 0;
    if (dice(world, 20) == 0)
        spec->strategy = CKPT__V1__STRATEGY__STRATEGY_MANUAL;
    if (dice(world, 3) == 0)
        spec->grace_ms = 1000 + dice(world, 100000);
    if (dice(world, 3) == 0)
        spec->write_bytes_per_s = 1000000 + dice(world, 4000000000);
    for (size_t i = 0; i < spec->n_nodes; i++)
        spec->nodes[i]->borrowed = dice(world, 8) == 0;
}

static void register_one(struct world *world)
{
    char id[32];

    snprintf(id, sizeof(id), "job-%u", world->jobs);
    registering = world;
    if (fake_register(world->fake, id, (uint32_t)dice(world, NODES), 1 + (uint32_t)dice(world, 4),
                      any_kind)
            .status == FSM_OK)
        world->jobs++;
}

static const struct fsm_allocation *any_job(struct world *world)
{
    const struct fsm *fsm = world->fake->replica.fsm;

    return fsm_allocation_find_slot(fsm, (uint32_t)dice(world, fsm_allocation_slots(fsm)));
}

static void do_any(struct world *world, Ckpt__Log__V1__Command *command)
{
    (void)fake_do(world->fake, command); /* refused or not */
}

static void update_one(struct world *world)
{
    const struct fsm_allocation *allocation = any_job(world);
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__UpdateAllocationRequest request = CKPT__V1__UPDATE_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__NodeShare share = CKPT__V1__NODE_SHARE__INIT, *shares[] = {&share};
    char id[64], node[32];

    if (allocation == NULL)
        return;
    snprintf(id, sizeof(id), "%s", allocation->id);
    snprintf(node, sizeof(node), "node-%u", (unsigned)dice(world, NODES));
    request.request_id = command.request_id = (char *)(uintptr_t)next_id(world);
    request.allocation_id = id;
    if (dice(world, 2) == 0) {
        request.walltime_ms = 2 * HOUR_MS + dice(world, 30 * (uint64_t)HOUR_MS);
    } else if (dice(world, 2) == 0) {
        request.period_ms = 60000 + dice(world, HOUR_MS);
    } else {
        share.node_id = node;
        share.gpu_count = 1 + (uint32_t)dice(world, 8);
        request.nodes = shares;
        request.n_nodes = 1;
        request.force = true;
    }
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_UPDATE_ALLOCATION;
    command.update_allocation = &request;
    do_any(world, &command);
}

static void end_one(struct world *world)
{
    const struct fsm_allocation *allocation = any_job(world);
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__EndAllocationRequest request = CKPT__V1__END_ALLOCATION_REQUEST__INIT;
    char id[64];

    if (allocation == NULL)
        return;
    snprintf(id, sizeof(id), "%s", allocation->id);
    request.request_id = command.request_id = (char *)(uintptr_t)next_id(world);
    request.allocation_id = id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_END_ALLOCATION;
    command.end_allocation = &request;
    do_any(world, &command);
}

static void report_shards(struct world *world, const char *job, uint64_t checkpoint_id)
{
    const struct fsm *fsm = world->fake->replica.fsm;
    const struct fsm_allocation *allocation = fsm_allocation_find(fsm, job);
    uint64_t write_ms = 1000 + dice(world, 60000), bytes = 1000000000 + dice(world, 90000000000);

    for (uint32_t i = 0; i < allocation->node_count; i++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, allocation->nodes[i].node_slot);
        Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
        Ckpt__Log__V1__NodeReport message = CKPT__LOG__V1__NODE_REPORT__INIT;
        Ckpt__V1__AgentReport facts = CKPT__V1__AGENT_REPORT__INIT;
        char id[64], name[64];

        snprintf(id, sizeof(id), "%s", job);
        snprintf(name, sizeof(name), "%s", node->id);
        facts.sequence = node->last_report_sequence + 1;
        facts.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED;
        facts.allocation_id = id;
        facts.checkpoint_id = checkpoint_id;
        facts.attempt = 1;
        facts.run = allocation->nodes[i].run;
        facts.size_bytes = bytes;
        facts.ranks = 1;
        facts.write_ms = write_ms;
        facts.stall_ms = write_ms / 2;
        facts.manifest_sha256 =
            (char[]){"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"};
        message.node_id = name;
        message.report = &facts;
        command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT;
        command.node_report = &message;
        do_any(world, &command);
    }
}

static void grant(struct world *world, uint64_t checkpoint_id)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__GrantBatch batch = CKPT__LOG__V1__GRANT_BATCH__INIT;
    Ckpt__Log__V1__Grant one = CKPT__LOG__V1__GRANT__INIT, *grants[] = {&one};

    one.checkpoint_id = checkpoint_id;
    one.bytes_per_s = 1000000;
    one.timeout_ms = 100000;
    batch.n_grants = 1;
    batch.grants = grants;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_GRANTS;
    command.grants = &batch;
    do_any(world, &command);
}

/* Asked for, and perhaps granted, and perhaps written: what the job teaches about itself. */
static void checkpoint_one(struct world *world)
{
    const struct fsm_allocation *allocation = any_job(world);
    uint64_t id;

    if (!evaluator_runs(allocation) || allocation->active_checkpoint_id != 0 ||
        allocation->terminating || allocation->strategy != CKPT__V1__STRATEGY__STRATEGY_AUTO ||
        !fsm_target_at(world->fake->replica.fsm, 0)->available)
        return;
    id = fake_request_checkpoint(world->fake, allocation->id, next_id(world));
    if (dice(world, 4) == 0)
        return;
    grant(world, id);
    if (dice(world, 4) > 0)
        report_shards(world, allocation->id, id);
}

static void set_policy(struct world *world)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__SetPolicy set = CKPT__LOG__V1__SET_POLICY__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;

    command.request_id = (char *)(uintptr_t)next_id(world);
    if (dice(world, 2) == 0) {
        policy.default_write_bytes_per_s = 1000000000 + dice(world, 4000000000);
    } else if (dice(world, 2) == 0) {
        policy.grace_ms = 10000 + dice(world, 50000);
    } else if (dice(world, 2) == 0) { /* V-006 */
        policy.feature_level = 2;
        policy.node_gpus = 1 + (uint32_t)dice(world, 16);
    } else {
        policy.quiesce_ms = 100 + dice(world, 3000);
    }
    set.policy = &policy;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SET_POLICY;
    command.set_policy = &set;
    do_any(world, &command);
}

static void report_queue(struct world *world)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__ReportQueueRequest request = CKPT__V1__REPORT_QUEUE_REQUEST__INIT;
    Ckpt__V1__WaitingJob waiting = CKPT__V1__WAITING_JOB__INIT, *pointers[] = {&waiting};

    waiting.job_id = (char[]){"w1"};
    waiting.preemption_class = (uint32_t)dice(world, FSM_CLASS_MAX + 1);
    waiting.gpu_count = 1 + (uint32_t)dice(world, 100);
    waiting.waited_ms = dice(world, HOUR_MS);
    request.request_id = command.request_id = (char *)(uintptr_t)next_id(world);
    request.vcluster = (char[]){"hpc"};
    request.queued_gpu_ms = dice(world, 1000);
    request.running_gpu_ms = 500;
    request.n_waiting = dice(world, 2);
    request.waiting = pointers;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REPORT_QUEUE;
    command.report_queue = &request;
    do_any(world, &command);
}

static void see_node(struct world *world)
{
    static const Ckpt__Log__V1__NodeState states[] = {
        CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY, CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY,
        CKPT__LOG__V1__NODE_STATE__NODE_STATE_DEGRADED, CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN};
    char name[32];

    snprintf(name, sizeof(name), "node-%u", (unsigned)dice(world, NODES + 4));
    fake_node_seen(world->fake, name, states[dice(world, ARRAY_COUNT(states))]);
}

/* Errors that make it unwell for a while. */
static void sicken_node(struct world *world)
{
    Ckpt__V1__AgentHeartbeat heartbeat = CKPT__V1__AGENT_HEARTBEAT__INIT;
    uint32_t slot = (uint32_t)dice(world, fsm_node_slots(world->fake->replica.fsm));

    heartbeat.ecc_measured = true;
    nodes_heard(world->nodes, slot, &heartbeat);
    heartbeat.ecc_uncorrectable_count = 1;
    for (int beat = 0; beat < HEALTH_CONFIRM_POLLS; beat++) { /* an alarm, with the last one */
        world->fake->now_us++;
        nodes_heard(world->nodes, slot, &heartbeat);
    }
}

/* Sources that would announce failures speak of it, for a while. */
static void watch_node(struct world *world)
{
    uint32_t slot = (uint32_t)dice(world, fsm_node_slots(world->fake->replica.fsm));
    struct node_health_config config;

    node_health_heard(nodes_health(world->nodes), slot, 1, world->fake->now_us);
    if (dice(world, 10) > 0)
        return;
    node_health_config_default(&config);
    config.alarm_recall_ppm = (uint32_t)dice(world, 3) * 200000;
    node_health_configure(nodes_health(world->nodes), &config);
}

static void learn_anything(struct world *world)
{
    world->rates.kills_per_s[dice(world, FSM_GROUPS)] = (double)dice(world, 3) * 1e-6;
    world->rates.demands_per_s[dice(world, FSM_GROUPS)] = (double)dice(world, 2) * 1e-5;
    world->rates.age_factors[dice(world, FSM_AGE_BINS)] *= 0.99 + (double)dice(world, 3) / 100;
}

/* A target goes and comes again, a policy likewise. */
static void flip(struct world *world, bool back)
{
    static bool was_available;
    static uint64_t was_grace_ms;
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__SetPolicy set = CKPT__LOG__V1__SET_POLICY__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;

    if (!back) {
        was_available = fsm_target_at(world->fake->replica.fsm, 0)->available;
        was_grace_ms = fsm_policy(world->fake->replica.fsm)->grace_ms;
    }
    fake_set_available(world->fake, back ? was_available : !was_available);
    policy.grace_ms = was_grace_ms + (back ? 0 : 1000);
    command.request_id = (char *)(uintptr_t)next_id(world);
    set.policy = &policy;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SET_POLICY;
    command.set_policy = &set;
    assert_int_equal(fake_do(world->fake, &command).status, FSM_OK);
}

static void one_of_a_job(struct world *world)
{
    uint64_t which = dice(world, 180);

    if (which < 40)
        register_one(world);
    else if (which < 80)
        update_one(world);
    else if (which < 95)
        end_one(world);
    else
        checkpoint_one(world);
}

static void one_thing(struct world *world)
{
    uint64_t which = dice(world, 200);

    if (which < 180)
        one_of_a_job(world);
    else if (which < 185)
        see_node(world);
    else if (which < 187)
        fake_set_available(world->fake, dice(world, 3) > 0);
    else if (which < 189 && fsm_target_at(world->fake->replica.fsm, 0)->available)
        fake_set_measured(world->fake, 1000000000 + dice(world, 9) * 1000000000);
    else if (which < 190)
        set_policy(world);
    else if (which < 192)
        report_queue(world);
    else if (which < 193 && dice(world, 4) == 0)
        sicken_node(world);
    else if (which < 195)
        learn_anything(world);
    else
        watch_node(world);
}

/* ---- cycles ---- */

static void begin(struct world *world)
{
    struct fsm *fsm = world->fake->replica.fsm;
    struct fsm_waiting best[FSM_TARGETS_MAX];
    struct fsm_grantable_scan scan;

    fsm_grantable_begin(&scan, best, 1);
    assert_true(fsm_grantable_step(fsm, &scan, SIZE_MAX));
    evaluator_cycle_begin(&world->keep.cycle, fsm, world->nodes, fake_wall_ms(world->fake), &scan);
    evaluator_keep_begin(&world->keep, fsm, &world->rates);
    world->cycle++;
}

static void take_row(struct world *world, uint32_t row, uint8_t decided, bool compare)
{
    const struct fsm_allocation *allocation =
        fsm_allocation_find_slot(world->fake->replica.fsm, row);
    uint64_t kept[EVAL_COLUMN_COUNT], made_anew[EVAL_COLUMN_COUNT];

    evaluator_block_row(world->block, row, &world->one, 0);
    eval_row_take(&world->one, 0, kept);
    eval_row_take(&world->fresh, row, made_anew);
    for (size_t i = 0; compare && i < EVAL_COLUMN_COUNT; i++)
        if (kept[i] != made_anew[i])
            fail_msg("cycle %u, row %u: %s differs", world->cycle, row,
                     eval_column_name((enum eval_input)i));
    if (compare) {
        assert_int_equal(world->one.flags[0], world->fresh.flags[row]);
        assert_int_equal(decided, world->result.verdict[row]);
    }
    assert_uint_equal(world->block->registered_index[row],
                      evaluator_runs(allocation) ? allocation->registered_index : 0);
    if (world->block->registered_index[row] != 0)
        world->block->verdict[row] = decided;
}

static void run_cycle(struct world *world)
{
    const struct fsm *fsm = world->fake->replica.fsm;
    uint32_t rows = fsm_allocation_slots(fsm), filled;
    uint8_t verdicts[EVALUATOR_BLOCK_ROWS];
    bool flips = false;

    assert_true(rows <= JOBS);
    begin(world);
    if (world->block->view.capacity < rows) {
        struct evaluator_block *larger = evaluator_block_new(rows);

        evaluator_block_move(world->block, larger);
        evaluator_block_free(world->block);
        world->block = larger;
    }
    if (!world->quiet && dice(world, 3) == 0) /* between two turns of a cycle */
        one_of_a_job(world);
    flips = !world->quiet && dice(world, 10) == 0;
    if (flips) /* as before when the next cycle looks */
        flip(world, false);
    rows = fsm_allocation_slots(fsm) < rows ? fsm_allocation_slots(fsm) : rows;
    filled = evaluator_block_refresh(world->block, &world->keep, 0, rows);
    if (flips)
        flip(world, true);
    world->filled += filled;
    world->kept += rows - filled;
    evaluator_block_decide(world->block, &world->keep.cycle.policy, verdicts);
    evaluator_fill(&world->keep.cycle, fsm, &world->fresh, 0, rows);
    world->fresh.count = rows;
    eval_score(&world->keep.cycle.policy, &world->fresh, &world->result);
    for (uint32_t row = 0; row < rows; row++)
        take_row(world, row, verdicts[row], !flips);
    evaluator_keep_end(&world->keep);
}

static void world_open(struct world *world)
{
    memset(world, 0, sizeof(*world));
    world->fake = start();
    world->random = test_seed();
    world->nodes = nodes_new(&world->fake->broker);
    node_health_set_source(nodes_health(world->nodes), 1, HOUR_MS);
    evaluator_keep_init(&world->keep);
    eval_view_alloc(&world->one, 1);
    world->block = evaluator_block_new(1);
    for (size_t i = 0; i < FSM_AGE_BINS; i++)
        world->rates.age_factors[i] = 1;
    eval_view_alloc(&world->fresh, JOBS);
    eval_result_alloc(&world->result, JOBS);
}

static void world_close(struct world *world)
{
    evaluator_keep_close(&world->keep);
    evaluator_block_free(world->block);
    eval_view_free(&world->one);
    eval_view_free(&world->fresh);
    eval_result_free(&world->result);
    nodes_free(world->nodes);
    finish(world->fake);
}

static void kept_rows_are_those_that_would_be_made_anew(void **state)
{
    struct world *world = test_malloc(sizeof(*world));

    (void)state;
    world_open(world);
    for (int i = 0; i < JOBS / 3; i++)
        register_one(world);
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        fake_advance_ms(world->fake, dice(world, 10) == 0 ? dice(world, 4 * HOUR_MS) : 30000);
        for (uint64_t things = dice(world, 12); things > 0 && world->jobs < JOBS - 20; things--)
            one_thing(world);
        run_cycle(world);
    }
    print_message("%llu rows kept, %llu filled\n", (unsigned long long)world->kept,
                  (unsigned long long)world->filled);
    assert_true(world->kept > world->filled);
    world_close(world);
    test_free(world);
}

/* What a cycle costs follows from what changed: nothing is filled again while only time passes. */
static void quiet_rows_are_not_touched(void **state)
{
    struct world *world = test_malloc(sizeof(*world));

    (void)state;
    world_open(world);
    world->quiet = true;
    for (uint32_t i = 0; i < 100; i++) {
        char id[32];

        snprintf(id, sizeof(id), "job-%u", i);
        assert_int_equal(
            fake_register(world->fake, id, i % NODES, 1, i % 2 ? two_hours : NULL).status, FSM_OK);
    }
    run_cycle(world);
    assert_uint_equal(world->filled, 100);
    for (int cycle = 1; cycle < 100; cycle++) {
        fake_advance_ms(world->fake, 30000);
        run_cycle(world);
    }
    assert_uint_equal(world->filled, 100);
    fake_request_checkpoint(world->fake, "job-7", "ask");
    fake_advance_ms(world->fake, 30000);
    run_cycle(world);
    assert_uint_equal(world->filled, 101);
    evaluator_keep_forget(&world->keep);
    fake_advance_ms(world->fake, 30000);
    run_cycle(world);
    assert_uint_equal(world->filled, 201);
    world_close(world);
    test_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_rows_are_those_that_would_be_made_anew),
        cmocka_unit_test(quiet_rows_are_not_touched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
