/* Agents' streams over real sockets: hello, orders, reports, heartbeats, failover (I20, F-009,
 * F-022, F-023). The broker's clock is the test's, so that nothing here waits for time; the loop
 * runs until what is awaited has come. */
#include "src/broker/daemon/metrics.h"
#include "tests/unit/broker/dispatcher_stand.h"

#define STATE(name) CKPT__LOG__V1__NODE_STATE__NODE_STATE_##name

static uint64_t request_checkpoint(struct fake *fake, const char *request_id)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RequestCheckpointRequest request = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;
    struct fsm_outcome outcome;
    char id[64];

    snprintf(id, sizeof(id), "%s", request_id);
    request.request_id = id;
    request.allocation_id = (char[]){"job"};
    command.request_id = id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_CHECKPOINT;
    command.request_checkpoint = &request;
    outcome = fake_do(fake, &command);
    assert_int_equal(outcome.status, FSM_OK);
    return outcome.checkpoint_id;
}

/* ---- tests ---- */

static void hello_is_answered_by_a_welcome_and_the_whole_order_set(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0];
    uint64_t age_ms;

    fake_serve(stand->fake);
    connect_agent(stand, agent, "node-1");
    assert_int_equal(agent->downs[0]->body_case, CKPT__V1__AGENT_DOWN__BODY_WELCOME);
    assert_string_equal(agent->downs[0]->welcome->cluster_id, "test");
    assert_uint_equal(agent->downs[0]->welcome->epoch, 1);
    assert_uint_equal(agent->downs[0]->welcome->term, 1);
    assert_uint_equal(agent->downs[0]->welcome->heartbeat_interval_ms, 10000);
    assert_non_null(orders(agent));
    assert_uint_equal(orders(agent)->n_orders, 0);
    assert_int_equal(fsm_node_find(stand->fake->replica.fsm, "node-1")->state, STATE(READY));
    assert_string_equal(fsm_node_find(stand->fake->replica.fsm, "node-1")->machine, "x86_64");
    assert_string_equal(fsm_node_find(stand->fake->replica.fsm, "node-1")->os, "debian 12");
    assert_uint_equal(dispatcher_connected_count(stand->fake->broker.dispatcher), 1);
    assert_true(dispatcher_node_connected(stand->fake->broker.dispatcher, "node-1", &age_ms));
    assert_uint_equal(age_ms, 0);
    assert_false(dispatcher_node_connected(stand->fake->broker.dispatcher, "node-2", &age_ms));
    assert_uint_equal(age_ms, UINT64_MAX);
}

/* S1-045: the order comes with a grant; its rate is the node's share. */
static void a_requested_checkpoint_is_granted_and_ordered_on_every_node(void **state)
{
    struct stand *stand = *state;
    const struct fsm_checkpoint *checkpoint;
    uint64_t id;

    fake_serve(stand->fake);
    assert_int_equal(fake_register(stand->fake, "job", 1, 2, NULL).status, FSM_OK);
    connect_agent(stand, &stand->agents[0], "node-1");
    connect_agent(stand, &stand->agents[1], "node-2");
    id = request_checkpoint(stand->fake, "r1");
    for (int i = 0; i < 2; i++) {
        struct agent *agent = &stand->agents[i];

        await(stand, orders(agent)->n_orders == 1);
        checkpoint = fsm_checkpoint_find(stand->fake->replica.fsm, id);
        assert_int_equal(checkpoint->state,
                         CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_DISPATCHED);
        assert_uint_equal(orders(agent)->orders[0]->checkpoint_id, id);
        assert_uint_equal(orders(agent)->orders[0]->attempt, 1);
        assert_int_equal(orders(agent)->orders[0]->kind,
                         CKPT__V1__ORDER_KIND__ORDER_KIND_CHECKPOINT);
        assert_uint_equal(orders(agent)->orders[0]->granted_bytes_per_s,
                          checkpoint->granted_bytes_per_s / 2);
        assert_true(orders(agent)->orders[0]->timeout_ms >= 600000);
        assert_non_null(strstr(orders(agent)->orders[0]->path, "/scratch/physics/p1/job/"));
        assert_uint_equal(orders(agent)->term, 1);
    }
    assert_true(fsm_target_find(stand->fake->replica.fsm, "scratch")->granted_bytes_per_s <=
                fsm_target_find(stand->fake->replica.fsm, "scratch")->budget_bytes_per_s);
    /* S1-062: an outage withdraws the orders */
    fake_set_available(stand->fake, false);
    await(stand, orders(&stand->agents[0])->n_orders == 0);
    /* S1-072: resumed once, as the next attempt */
    fake_set_available(stand->fake, true);
    await(stand, orders(&stand->agents[0])->n_orders == 1);
    assert_uint_equal(orders(&stand->agents[0])->orders[0]->attempt, 2);
}

static void say_attempt(struct agent *agent, uint64_t sequence, uint64_t checkpoint_id,
                        Ckpt__V1__ReportKind kind, uint64_t step, uint64_t told_write_ms)
{
    Ckpt__V1__AgentReport message = CKPT__V1__AGENT_REPORT__INIT;

    message.sequence = sequence;
    message.kind = kind;
    message.allocation_id = (char[]){"job"};
    message.checkpoint_id = checkpoint_id;
    message.attempt = 1;
    message.barrier = kind == CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED;
    message.step = step;
    message.told_write_ms = told_write_ms;
    message.run = run_in_orders(agent);
    report(agent, &message);
}

static void await_phase(struct stand *stand, Ckpt__V1__BarrierPhase phase, uint64_t agreed)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct agent *agent = &stand->agents[i];

        await(stand, orders(agent)->n_orders == 1 && orders(agent)->orders[0]->barrier == phase);
        assert_uint_equal(orders(agent)->orders[0]->agreed_step, agreed);
        assert_uint_equal(orders(agent)->orders[0]->part, i);
    }
}

/* Each phase is sent when it is committed, not with a heartbeat; each part learns its place. */
static void agents_hear_of_the_step_that_all_ranks_agree_on(void **state)
{
    static const Ckpt__V1__ReportKind barrier = CKPT__V1__REPORT_KIND__REPORT_KIND_BARRIER;
    struct stand *stand = *state;
    uint64_t id;

    fake_serve(stand->fake);
    assert_int_equal(fake_register(stand->fake, "job", 1, 2, NULL).status, FSM_OK);
    connect_agent(stand, &stand->agents[0], "node-1");
    connect_agent(stand, &stand->agents[1], "node-2");
    id = request_checkpoint(stand->fake, "r1");
    await_phase(stand, CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_NONE, 0);
    say_attempt(&stand->agents[0], 2, id, CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED, 0, 0);
    await_phase(stand, CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_GATHERING, 0);
    say_attempt(&stand->agents[1], 2, id, CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED, 0, 0);
    for (int i = 0; i < 2; i++)
        say_attempt(&stand->agents[i], 3, id, barrier, 0, 0);
    await_phase(stand, CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_STEPPING, 0);
    say_attempt(&stand->agents[0], 4, id, barrier, 128, 0);
    say_attempt(&stand->agents[1], 4, id, barrier, 126, 0);
    await_phase(stand, CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_AGREED, 128);
}

/* S1-040: an agent's journal may have what the cluster's members do not know; the report is taken
 * without it. The welcome says what an agent may send. */
static void what_a_lower_level_does_not_know_is_left_out_of_a_report(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0], *next = &stand->agents[1];
    uint64_t id;

    fake_serve(stand->fake);
    assert_int_equal(fake_register(stand->fake, "job", 1, 1, NULL).status, FSM_OK);
    connect_agent(stand, agent, "node-1");
    assert_uint_equal(agent->downs[0]->welcome->feature_level, 1);
    id = request_checkpoint(stand->fake, "r1");
    await(stand, orders(agent)->n_orders == 1);
    say_attempt(agent, 2, id, CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED, 0, 5000);
    await(stand, acknowledged(agent) == 2);
    assert_uint_equal(fsm_checkpoint_find(stand->fake->replica.fsm, id)->told_write_ms, 0);
    fake_set_level(stand->fake, 2);
    say_attempt(agent, 3, id, CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED, 0, 5000);
    await(stand, acknowledged(agent) == 3);
    assert_uint_equal(fsm_checkpoint_find(stand->fake->replica.fsm, id)->told_write_ms, 5000);
    connect_agent(stand, next, "node-2");
    assert_uint_equal(next->downs[0]->welcome->feature_level, 2);
}

/* I6: acknowledged only when committed, repetitions too. */
static void reports_are_acknowledged_after_their_commit(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0];
    size_t count;
    uint64_t id, index;

    fake_serve(stand->fake);
    assert_int_equal(fake_register(stand->fake, "job", 1, 1, NULL).status, FSM_OK);
    connect_agent(stand, agent, "node-1");
    id = request_checkpoint(stand->fake, "r1");
    await(stand, orders(agent)->n_orders == 1);
    report_started(agent, 2, id, 1);
    for (int i = 0; i < 1000 && list_empty(&stand->fake->replica.proposals); i++)
        uv_run(&stand->loop, UV_RUN_NOWAIT); /* without applying anything */
    for (int i = 0; i < 100; i++)
        uv_run(&stand->loop, UV_RUN_NOWAIT);
    assert_uint_equal(acknowledged(agent), 0);
    await(stand, acknowledged(agent) == 2);
    assert_int_equal(fsm_checkpoint_find(stand->fake->replica.fsm, id)->state,
                     CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_WRITING);
    /* the same again: acknowledged, not proposed */
    index = stand->fake->replica.index;
    count = agent->count;
    report_started(agent, 2, id, 1);
    await(stand, agent->count > count);
    assert_uint_equal(acknowledged(agent), 2);
    assert_uint_equal(stand->fake->replica.index, index);
}

static void reports_in_a_row_are_acknowledged_in_order(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0];

    fake_serve(stand->fake);
    assert_int_equal(fake_register(stand->fake, "job", 1, 1, NULL).status, FSM_OK);
    open_stream(agent);
    hello(agent, "node-1"); /* and at once, without waiting for the welcome */
    for (uint64_t sequence = 1; sequence <= 20; sequence++)
        report_started(agent, sequence, 77, 1); /* refused reports are taken and acknowledged too */
    await(stand,
          acknowledged(agent) == 20 ||
              (agent->count > 0 && agent->downs[0]->welcome->acknowledged_report_sequence == 20));
    assert_uint_equal(fsm_node_find(stand->fake->replica.fsm, "node-1")->last_report_sequence, 20);
}

static void a_report_whose_number_skips_ends_the_stream(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0];

    fake_serve(stand->fake);
    connect_agent(stand, agent, "node-1");
    report_started(agent, 5, 1, 1);
    await(stand, agent->ended);
    assert_int_equal(agent->status, RPC_ABORTED);
    assert_uint_equal(fsm_node_find(stand->fake->replica.fsm, "node-1")->last_report_sequence, 0);
}

static void the_newest_stream_of_a_node_replaces_the_older(void **state)
{
    struct stand *stand = *state;
    uint64_t age_ms;

    fake_serve(stand->fake);
    connect_agent(stand, &stand->agents[0], "node-1");
    connect_agent(stand, &stand->agents[1], "node-1");
    await(stand, stand->agents[0].ended);
    assert_int_equal(stand->agents[0].status, RPC_ABORTED);
    assert_false(stand->agents[1].ended);
    assert_uint_equal(dispatcher_connected_count(stand->fake->broker.dispatcher), 1);
    assert_true(dispatcher_node_connected(stand->fake->broker.dispatcher, "node-1", &age_ms));
}

static bool is_known(const struct stand *stand, const char *node_id)
{
    return fsm_node_find(stand->fake->replica.fsm, node_id) != NULL;
}

/* Its agent stood still: the stream is there, nothing came. When it goes on it says hello, and is
 * as any new one. */
static void the_stream_of_a_removed_node_ends(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0], *again = &stand->agents[1];
    uint64_t age_ms;

    fake_serve(stand->fake);
    connect_agent(stand, agent, "node-1");
    report_started(agent, 1, 1, 1);
    await(stand, acknowledged(agent) == 1);
    fake_remove_node(stand->fake, "node-1");
    assert_uint_equal(dispatcher_connected_count(stand->fake->broker.dispatcher), 0);
    await(stand, agent->ended);
    assert_int_equal(agent->status, RPC_ABORTED);
    assert_false(is_known(stand, "node-1"));
    assert_false(dispatcher_node_connected(stand->fake->broker.dispatcher, "node-1", &age_ms));
    connect_agent(stand, again, "node-1");
    assert_uint_equal(again->downs[0]->welcome->acknowledged_report_sequence, 0);
    assert_int_equal(fsm_node_find(stand->fake->replica.fsm, "node-1")->state, STATE(READY));
}

/* The removal is applied after the hello or the report, and before what answers them. */
static void a_removal_behind_what_an_agent_says_ends_its_stream(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0], *late = &stand->agents[1];

    fake_serve(stand->fake);
    connect_agent(stand, agent, "node-1");
    report_started(agent, 1, 1, 1);
    for (int turns = 0; stand->fake->replica.waiting_count == 0 && turns < TURNS_MAX; turns++)
        uv_run(&stand->loop, UV_RUN_NOWAIT);
    assert_uint_equal(stand->fake->replica.waiting_count, 1);
    fake_remove_node(stand->fake, "node-1");
    await(stand, agent->ended);
    assert_int_equal(agent->status, RPC_ABORTED);
    open_stream(late);
    hello(late, "node-1");
    for (int turns = 0; stand->fake->replica.waiting_count == 0 && turns < TURNS_MAX; turns++)
        uv_run(&stand->loop, UV_RUN_NOWAIT);
    assert_uint_equal(stand->fake->replica.waiting_count, 1);
    fake_remove_node(stand->fake, "node-1");
    await(stand, late->ended);
    assert_int_equal(late->status, RPC_ABORTED);
    assert_false(is_known(stand, "node-1"));
}

/* Nothing that was said of the one is answered to the other. */
static void the_slot_of_a_removed_node_is_the_next_ones(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0], *next = &stand->agents[1];

    fake_serve(stand->fake);
    connect_agent(stand, agent, "node-1");
    report_started(agent, 1, 1, 1);
    await(stand, acknowledged(agent) == 1);
    fake_remove_node(stand->fake, "node-1");
    connect_agent(stand, next, "node-2");
    assert_uint_equal(fsm_node_find(stand->fake->replica.fsm, "node-2")->slot, 0);
    assert_uint_equal(next->downs[0]->welcome->acknowledged_report_sequence, 0);
    heartbeat(next, 0);
    report_started(next, 1, 1, 1);
    await(stand, acknowledged(next) == 1);
    assert_false(next->ended);
    assert_uint_equal(dispatcher_connected_count(stand->fake->broker.dispatcher), 1);
}

static const char *boot_of(const struct stand *stand, const char *node_id)
{
    return fsm_node_find(stand->fake->replica.fsm, node_id)->boot_id;
}

static void hello_is_welcomed(struct stand *stand, struct agent *agent, const char *boot_id)
{
    fake_advance_ms(stand->fake, 15000); /* the one before is silent: test_dispatcher_twins.c */
    open_stream(agent);
    hello_of_boot(agent, "node-1", boot_id);
    await(stand, agent->count == 1);
    assert_int_equal(agent->downs[0]->body_case, CKPT__V1__AGENT_DOWN__BODY_WELCOME);
    assert_uint_equal(stand->fake->replica.waiting_count, 0);
}

/* I30: it may have been under way since before the node booted; what runs there would count as
 * gone. */
static void a_hello_of_another_boot_is_believed_with_the_next_message(void **state)
{
    struct stand *stand = *state;
    struct agent *before = &stand->agents[0], *agent = &stand->agents[1];

    fake_serve(stand->fake);
    connect_agent(stand, before, "node-1");
    hello_is_welcomed(stand, agent, "boot-2");
    assert_false(before->ended);
    assert_string_equal(boot_of(stand, "node-1"), "boot-1");
    heartbeat(agent, 1);
    await(stand, before->ended);
    assert_string_equal(boot_of(stand, "node-1"), "boot-2");
    await(stand, orders(agent) != NULL);
    assert_uint_equal(dispatcher_connected_count(stand->fake->broker.dispatcher), 1);
    report_started(agent, 1, 1, 1);
    await(stand, acknowledged(agent) == 1);
}

static void what_a_boot_says_after_the_hello_of_the_next_one_is_not_believed(void **state)
{
    struct stand *stand = *state;
    struct agent *late = &stand->agents[1], *agent = &stand->agents[0];

    fake_serve(stand->fake);
    connect_agent(stand, agent, "node-1");
    hello_is_welcomed(stand, late, "boot-2");
    agent_close(agent);
    hello_is_welcomed(stand, agent, "boot-3");
    report_started(agent, 1, 1, 1);
    await(stand, acknowledged(agent) == 1);
    heartbeat(late, 1);
    await(stand, late->ended);
    assert_int_equal(late->status, RPC_ABORTED);
    assert_string_equal(boot_of(stand, "node-1"), "boot-3");
}

static void a_boot_that_cannot_be_proposed_ends_the_stream(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[1];

    fake_serve(stand->fake);
    connect_agent(stand, &stand->agents[0], "node-1");
    hello_is_welcomed(stand, agent, "boot-2");
    stand->fake->replica.refuse = true;
    report_started(agent, 1, 1, 1);
    await(stand, agent->ended);
    assert_int_equal(agent->status, RPC_UNAVAILABLE);
    assert_string_equal(boot_of(stand, "node-1"), "boot-1");
    stand->fake->replica.refuse = false;
}

static void heartbeats_keep_a_node_ready_and_cost_no_log_entry(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0];
    struct fake *fake = stand->fake;
    uint64_t index, age_ms = 1;

    fake_serve(fake);
    connect_agent(stand, agent, "node-1");
    index = fake->replica.index;
    for (uint64_t i = 1; i <= 20; i++) {
        fake_advance_ms(fake, 10000);
        heartbeat(agent, i);
        await(stand,
              (dispatcher_node_connected(fake->broker.dispatcher, "node-1", &age_ms), age_ms == 0));
    }
    assert_uint_equal(fake->replica.index, index);
    fake_advance_ms(fake, 95000);
    assert_int_equal(fsm_node_find(fake->replica.fsm, "node-1")->state, STATE(DOWN));
    heartbeat(agent, 21);
    await(stand, (fake_advance_ms(fake, 50),
                  fsm_node_find(fake->replica.fsm, "node-1")->state == STATE(READY)));
}

/* L-004: whatever is sent again, or comes too late, does not keep a node alive. */
static void a_repeated_heartbeat_is_refused_and_counted(void **state)
{
    static const uint64_t repeated[] = {5, 4, 1, 0};
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0];
    struct fake *fake = stand->fake;
    struct metrics *metrics = broker_metrics_new(&fake->broker);
    struct agent *next = &stand->agents[1];
    uint64_t age_ms = 1;

    fake->broker.metrics = metrics;
    fake_serve(fake);
    connect_agent(stand, agent, "node-1");
    fake_advance_ms(fake, 10000); /* the hello was heard, too */
    heartbeat(agent, 5);
    await(stand,
          (dispatcher_node_connected(fake->broker.dispatcher, "node-1", &age_ms), age_ms == 0));
    for (size_t i = 0; i < ARRAY_COUNT(repeated); i++) {
        fake_advance_ms(fake, 10000);
        heartbeat(agent, repeated[i]);
        await(stand,
              metrics_value(metrics, METRIC_HEARTBEATS_REFUSED, NULL, NULL) == (double)i + 1);
    }
    assert_true(dispatcher_node_connected(fake->broker.dispatcher, "node-1", &age_ms));
    assert_uint_equal(age_ms, 40000); /* since the one that counted */
    heartbeat(agent, 6);
    await(stand,
          (dispatcher_node_connected(fake->broker.dispatcher, "node-1", &age_ms), age_ms == 0));
    assert_false(agent->ended);
    connect_agent(stand, next, "node-1"); /* a stream counts anew */
    fake_advance_ms(fake, 10000);
    heartbeat(next, 1);
    await(stand,
          (dispatcher_node_connected(fake->broker.dispatcher, "node-1", &age_ms), age_ms == 0));
    fake_stop_serving(fake); /* they observe it */
    list_remove(fake->replica.observers.previous);
    fake->broker.metrics = NULL;
    metrics_free(metrics);
}

static void a_follower_refuses_with_the_leaders_address(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0];

    stand->fake->replica.leader_id = 2;
    open_stream(agent);
    await(stand, agent->ended);
    assert_int_equal(agent->status, RPC_UNAVAILABLE);
    assert_string_equal(agent->hint, "127.0.0.1:7444");
}

/* The next leader derives the same orders, in a higher term. */
static void streams_end_with_leadership_and_go_on_with_the_next_leader(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0];
    uint64_t id;

    fake_serve(stand->fake);
    assert_int_equal(fake_register(stand->fake, "job", 1, 1, NULL).status, FSM_OK);
    connect_agent(stand, agent, "node-1");
    id = request_checkpoint(stand->fake, "r1");
    await(stand, orders(agent)->n_orders == 1);
    fake_stop_serving(stand->fake);
    await(stand, agent->ended);
    assert_int_equal(agent->status, RPC_UNAVAILABLE);
    assert_string_equal(agent->hint, "");
    assert_uint_equal(dispatcher_connected_count(stand->fake->broker.dispatcher), 0);
    fake_serve(stand->fake);
    connect_agent(stand, agent, "node-1");
    assert_uint_equal(orders(agent)->n_orders, 1);
    assert_uint_equal(orders(agent)->orders[0]->checkpoint_id, id);
    assert_uint_equal(orders(agent)->orders[0]->attempt, 1);
    assert_uint_equal(orders(agent)->term, 2);
}

static void walltime(Ckpt__V1__AllocationSpec *spec)
{
    spec->walltime_ms = 3600000;
    spec->grace_ms = 7000;
}

/* F-019: the agent gets what is left of the walltime. */
static void walltime_ends_are_sent_as_remaining_time(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0];

    fake_serve(stand->fake);
    assert_int_equal(fake_register(stand->fake, "job", 1, 1, walltime).status, FSM_OK);
    fake_advance_ms(stand->fake, 20000);
    connect_agent(stand, agent, "node-1");
    assert_uint_equal(orders(agent)->n_parts, 1);
    assert_string_equal(orders(agent)->parts[0]->allocation_id, "job");
    assert_uint_equal(orders(agent)->parts[0]->remaining_ms, 3580000);
    assert_uint_equal(orders(agent)->parts[0]->grace_ms, 7000);
    assert_uint_equal(orders(agent)->parts[0]->walltime_ms, 3600000);
}

static void end_job(struct stand *stand, bool again)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__EndAllocationRequest end = CKPT__V1__END_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__RestartAllocationRequest restart = CKPT__V1__RESTART_ALLOCATION_REQUEST__INIT;
    static unsigned number;
    char end_id[16], restart_id[16];

    snprintf(end_id, sizeof(end_id), "end-%u", ++number);
    snprintf(restart_id, sizeof(restart_id), "restart-%u", number);
    end.request_id = command.request_id = end_id;
    end.allocation_id = restart.allocation_id = (char[]){"job"};
    end.failed = true;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_END_ALLOCATION;
    command.end_allocation = &end;
    assert_int_equal(fake_do(stand->fake, &command).status, FSM_OK);
    if (!again)
        return;
    restart.from_scratch = true;
    restart.request_id = command.request_id = restart_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_RESTART_ALLOCATION;
    command.restart_allocation = &restart;
    assert_int_equal(fake_do(stand->fake, &command).status, FSM_OK);
}

static void say_what_runs(struct stand *stand, uint64_t run, uint64_t last_report_sequence)
{
    static uint64_t beats = 1000;
    struct agent *agent = &stand->agents[0];
    Ckpt__V1__RunningAllocation item = CKPT__V1__RUNNING_ALLOCATION__INIT;
    Ckpt__V1__RunningAllocation *running[] = {&item};
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
    Ckpt__V1__AgentHeartbeat beat = CKPT__V1__AGENT_HEARTBEAT__INIT;

    item.allocation_id = (char[]){"job"};
    item.run = run;
    beat.sequence = beats++;
    beat.last_report_sequence = last_report_sequence;
    beat.n_running = 1;
    beat.running = running;
    up.body_case = CKPT__V1__AGENT_UP__BODY_HEARTBEAT;
    up.heartbeat = &beat;
    send_up(agent, &up);
    for (int i = 0; i < 50; i++)
        uv_run(&stand->loop, UV_RUN_NOWAIT);
}

/* F-006, F-016, F-022: of the state alone, whatever the agent says that it runs: an agent ends what
 * is not named. */
static void a_set_names_each_part_that_may_run(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0];
    const struct fsm_allocation *job;
    uint64_t run;
    size_t count;

    fake_serve(stand->fake);
    assert_int_equal(fake_register(stand->fake, "job", 1, 1, NULL).status, FSM_OK);
    assert_int_equal(fake_register(stand->fake, "elsewhere", 1, 2, NULL).status, FSM_OK);
    job = fsm_allocation_find(replica_fsm(stand->fake->broker.replica), "job");
    connect_agent(stand, agent, "node-2"); /* the second part of the other one */
    assert_uint_equal(orders(agent)->n_parts, 1);
    assert_string_equal(orders(agent)->parts[0]->allocation_id, "elsewhere");
    connect_agent(stand, agent, "node-1");
    assert_uint_equal(orders(agent)->n_parts, 2);
    assert_string_equal(orders(agent)->parts[0]->allocation_id, "job");
    run = orders(agent)->parts[0]->run;
    assert_uint_equal(run, job->nodes[0].run);
    assert_uint_equal(run_epoch(run), 1);
    assert_uint_equal(orders(agent)->parts[0]->walltime_ms, 0);
    assert_true(orders(agent)->parts[0]->grace_ms > 0);
    assert_true(orders(agent)->runs_until >= run);
    count = agent->count;
    say_what_runs(stand, run - 1, 0);
    assert_uint_equal(agent->count, count);
    end_job(stand, true);
    await(stand, orders(agent)->parts[0]->run > run || orders(agent)->n_parts == 1);
    await(stand, orders(agent)->n_parts == 2);
    assert_uint_equal(orders(agent)->parts[1]->run, job->nodes[0].run);
    assert_true(orders(agent)->runs_until >= job->nodes[0].run);
    assert_uint_equal(orders(agent)->n_orders, 0);
    end_job(stand, false);
    await(stand, orders(agent)->n_parts == 1);
    assert_string_equal(orders(agent)->parts[0]->allocation_id, "elsewhere");
}

/* With an agent's journal: the state waits for it, and no other report will ever say that the
 * application runs. */
static void a_start_whose_report_was_lost_is_told_by_a_heartbeat(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0];
    Ckpt__V1__AgentReport started = CKPT__V1__AGENT_REPORT__INIT;
    const struct fsm_allocation *job;
    uint64_t index;

    fake_serve(stand->fake);
    assert_int_equal(fake_register_starting(stand->fake, "job", 1, 1, NULL).status, FSM_OK);
    connect_agent(stand, agent, "node-1");
    job = fsm_allocation_find(replica_fsm(stand->fake->broker.replica), "job");
    index = stand->fake->replica.index;
    say_what_runs(stand, job->nodes[0].run, 1); /* its first report is still to come */
    assert_uint_equal(stand->fake->replica.index, index);
    assert_int_equal(job->state, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING);
    started.sequence = 1; /* about another one */
    started.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_STARTED;
    started.allocation_id = (char[]){"other"};
    report(agent, &started);
    await(stand, acknowledged(agent) == 1);
    index = stand->fake->replica.index;
    say_what_runs(stand, job->nodes[0].run, 1);
    await(stand, job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING);
    assert_uint_equal(stand->fake->replica.index, index + 1);
    say_what_runs(stand, job->nodes[0].run, 1);
    assert_uint_equal(stand->fake->replica.index, index + 1); /* once */
}

static void wrong_first_messages_and_garbage_are_refused(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0];
    static const uint8_t garbage[] = {0xff, 0xff, 0xff, 0xff, 0x01};
    char boot[132];

    fake_serve(stand->fake);
    open_stream(agent);
    heartbeat(agent, 1);
    await(stand, agent->ended);
    assert_int_equal(agent->status, RPC_INVALID_ARGUMENT);
    open_stream(agent);
    hello(agent, "../etc");
    await(stand, agent->ended);
    assert_contains(agent->message, "node_id: \"../etc\" is not 1 to 128 characters");
    open_stream(agent);
    snprintf(boot, sizeof(boot), "%0129d", 7);
    hello_of_boot(agent, "node-1", boot);
    await(stand, agent->ended);
    assert_string_equal(agent->message, "boot_id: it has 129 bytes, at most 128 are taken");
    open_stream(agent);
    rpc_client_call_send(agent->call, garbage, sizeof(garbage));
    await(stand, agent->ended);
    assert_int_equal(agent->status, RPC_INVALID_ARGUMENT);
    connect_agent(stand, agent, "node-1");
    hello(agent, "node-1");
    await(stand, agent->ended);
    assert_int_equal(agent->status, RPC_INVALID_ARGUMENT);
}

static void a_stream_ends_when_its_report_cannot_be_proposed(void **state)
{
    struct stand *stand = *state;
    struct agent *agent = &stand->agents[0];

    fake_serve(stand->fake);
    connect_agent(stand, agent, "node-1");
    stand->fake->replica.refuse = true;
    report_started(agent, 1, 1, 1);
    await(stand, agent->ended);
    assert_int_equal(agent->status, RPC_UNAVAILABLE);
    stand->fake->replica.refuse = false;
    connect_agent(stand, agent, "node-1");
    assert_uint_equal(acknowledged(agent), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(hello_is_answered_by_a_welcome_and_the_whole_order_set),
        TEST(a_requested_checkpoint_is_granted_and_ordered_on_every_node),
        TEST(agents_hear_of_the_step_that_all_ranks_agree_on),
        TEST(reports_are_acknowledged_after_their_commit),
        TEST(reports_in_a_row_are_acknowledged_in_order),
        TEST(a_report_whose_number_skips_ends_the_stream),
        TEST(the_newest_stream_of_a_node_replaces_the_older),
        TEST(the_stream_of_a_removed_node_ends),
        TEST(a_removal_behind_what_an_agent_says_ends_its_stream),
        TEST(the_slot_of_a_removed_node_is_the_next_ones),
        TEST(a_hello_of_another_boot_is_believed_with_the_next_message),
        TEST(what_a_lower_level_does_not_know_is_left_out_of_a_report),
        TEST(a_boot_that_cannot_be_proposed_ends_the_stream),
        TEST(what_a_boot_says_after_the_hello_of_the_next_one_is_not_believed),
        TEST(heartbeats_keep_a_node_ready_and_cost_no_log_entry),
        TEST(a_repeated_heartbeat_is_refused_and_counted),
        TEST(a_follower_refuses_with_the_leaders_address),
        TEST(streams_end_with_leadership_and_go_on_with_the_next_leader),
        TEST(walltime_ends_are_sent_as_remaining_time),
        TEST(a_set_names_each_part_that_may_run),
        TEST(a_start_whose_report_was_lost_is_told_by_a_heartbeat),
        TEST(wrong_first_messages_and_garbage_are_refused),
        TEST(a_stream_ends_when_its_report_cannot_be_proposed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
