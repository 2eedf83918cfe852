/* The leader's choice of nodes for stopped jobs, from what agents' heartbeats say of who waits
 * (V-001, S1-022). The state machine is the real one; the rest is the test's. */
#include "src/broker/decide/restarter.h"

#include "fsm/level.h"
#include "fsm/restart.h"
#include "src/broker/daemon/hook.h"
#include "src/broker/health/nodes.h"
#include "tests/unit/broker/fake_replica.h"

#define ALLOCATION(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define NODE(name)       CKPT__LOG__V1__NODE_STATE__NODE_STATE_##name

enum { NODES = 6 };

static double hazards[NODES + 1];
static unsigned hooks;

double nodes_hazard_factor(const struct nodes *nodes, uint32_t node_slot)
{
    (void)nodes;
    return node_slot <= NODES ? hazards[node_slot] : 1;
}

void hook_call(struct hook *hook, const struct hook_news *news)
{
    (void)hook;
    assert_string_equal(news->event, "restart");
    hooks++;
}

static void by_broker(Ckpt__V1__AllocationSpec *spec)
{
    spec->restart = CKPT__V1__RESTART_MODE__RESTART_MODE_AUTO;
    spec->max_requeue = 9;
}

/* Nodes that are ready, and a job of two of them that runs. */
static struct fake *start(void)
{
    struct fake *fake = fake_new(NULL);
    char name[16];

    fake_set_level(fake, FSM_LEVEL_NEWEST);
    hooks = 0;
    for (unsigned i = 0; i <= NODES; i++)
        hazards[i] = 1;
    for (unsigned i = 1; i <= NODES; i++) {
        snprintf(name, sizeof(name), "node-%u", i);
        fake_node_seen(fake, name, NODE(READY));
    }
    assert_int_equal(fake_register(fake, "job", 1, 2, by_broker).status, FSM_OK);
    fake->broker.restarter = restarter_new(&fake->broker);
    fake_serve(fake);
    return fake;
}

static void finish(struct fake *fake)
{
    fake_stop_serving(fake);
    restarter_free(fake->broker.restarter);
    fake_free(fake);
}

static const struct fsm_allocation *job_of(const struct fake *fake)
{
    return fsm_allocation_find(fake->replica.fsm, "job");
}

static uint32_t slot_of(const struct fake *fake, unsigned number)
{
    char name[16];

    snprintf(name, sizeof(name), "node-%u", number);
    return fsm_node_find(fake->replica.fsm, name)->slot;
}

/* Its heartbeat: who waits there or begins, NULL: nobody, and that nothing runs there. */
static void hear(struct fake *fake, unsigned number, const char *waits, const char *begins)
{
    Ckpt__V1__AgentHeartbeat heartbeat = CKPT__V1__AGENT_HEARTBEAT__INIT;
    char *waiting[] = {(char *)(uintptr_t)waits}, *beginning[] = {(char *)(uintptr_t)begins};

    heartbeat.n_waiting_allocation_ids = waits != NULL;
    heartbeat.waiting_allocation_ids = waiting;
    heartbeat.n_beginning_allocation_ids = begins != NULL;
    heartbeat.beginning_allocation_ids = beginning;
    restarter_heard(fake->broker.restarter, slot_of(fake, number), &heartbeat);
}

static void report(struct fake *fake, unsigned number, Ckpt__V1__ReportKind kind)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeReport message = CKPT__LOG__V1__NODE_REPORT__INIT;
    Ckpt__V1__AgentReport agent = CKPT__V1__AGENT_REPORT__INIT;
    char name[16];

    snprintf(name, sizeof(name), "node-%u", number);
    agent.sequence = fsm_node_find(fake->replica.fsm, name)->last_report_sequence + 1;
    agent.kind = kind;
    agent.allocation_id = (char[]){"job"};
    agent.run = fake_run(fake, "job", name);
    agent.exit_status = 1;
    agent.will_restart = 1;
    message.node_id = name;
    message.report = &agent;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT;
    command.node_report = &message;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* A rank on that node ends with an error, and the cluster ends the other one. */
static void die(struct fake *fake, unsigned number, unsigned peer)
{
    report(fake, number, CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED);
    report(fake, number, CKPT__V1__REPORT_KIND__REPORT_KIND_TERMINATED);
    report(fake, peer, CKPT__V1__REPORT_KIND__REPORT_KIND_TERMINATED);
    assert_int_equal(job_of(fake)->state, ALLOCATION(REQUEUED));
}

static void its_own_nodes_come_before_a_spare(void **state)
{
    struct fake *fake = start();
    uint64_t proposed = fake->replica.proposed_count;

    (void)state;
    hear(fake, 3, "job", NULL);
    fake_advance_ms(fake, 1000);
    assert_int_equal(fake->replica.proposed_count, proposed); /* it runs: the spare is parked */
    die(fake, 1, 2);
    hear(fake, 1, "job", NULL);
    fake_advance_ms(fake, 1000);
    assert_int_equal(job_of(fake)->state, ALLOCATION(REQUEUED)); /* node-2 may still come */
    hear(fake, 2, "job", NULL);
    fake_advance_ms(fake, RESTARTER_LOOK_MS);
    assert_int_equal(job_of(fake)->state, ALLOCATION(STARTING));
    assert_string_equal(job_of(fake)->restart_choice, "its own node-1, node-2");
    assert_int_equal(hooks, 1);
    finish(fake);
}

static void a_spare_comes_when_an_own_node_had_its_time(void **state)
{
    struct fake *fake = start();

    (void)state;
    hear(fake, 3, "job", NULL);
    die(fake, 1, 2);
    hear(fake, 1, "job", NULL);
    hear(fake, 2, NULL, NULL);
    fake_advance_ms(fake, RESTARTER_SETTLE_MS + RESTARTER_LOOK_MS);
    assert_string_equal(job_of(fake)->restart_choice, "its own node-1; the spare node-3");
    finish(fake);
}

/* V-001: not where the job failed twice in a row, as long as that node is excluded. */
static void a_node_that_is_excluded_gives_way_to_a_spare(void **state)
{
    struct fake *fake = start();

    (void)state;
    for (int time = 0; time < 2; time++) {
        hear(fake, 1, NULL, NULL);
        hear(fake, 2, NULL, NULL);
        die(fake, 1, 2);
        hear(fake, 1, "job", NULL);
        hear(fake, 2, "job", NULL);
        fake_advance_ms(fake, 6000);
        if (time == 0) {
            assert_string_equal(job_of(fake)->restart_choice, "its own node-1, node-2");
            fake_job_starts(fake, "job");
        }
    }
    assert_int_equal(job_of(fake)->state, ALLOCATION(REQUEUED)); /* nobody else waits */
    hear(fake, 4, "job", NULL);
    fake_advance_ms(fake, RESTARTER_LOOK_MS);
    assert_string_equal(job_of(fake)->restart_choice, "its own node-2; the spare node-4");
    finish(fake);
}

/* After its time it is taken where nobody else waits. */
static void an_exclusion_ends(void **state)
{
    struct fake *fake = start();

    (void)state;
    for (int time = 0; time < 2; time++) {
        die(fake, 1, 2);
        hear(fake, 1, "job", NULL);
        hear(fake, 2, "job", NULL);
        fake_advance_ms(fake, 6000);
        if (time == 0)
            fake_job_starts(fake, "job");
    }
    fake_advance_ms(fake, FSM_EXCLUDED_MS - 7000);
    assert_int_equal(job_of(fake)->state, ALLOCATION(REQUEUED));
    fake_advance_ms(fake, 2000);
    assert_int_equal(job_of(fake)->state, ALLOCATION(STARTING));
    assert_string_equal(job_of(fake)->restart_choice, "its own node-2, node-1");
    finish(fake);
}

/* A node with failing hardware comes after a spare without. */
static void a_well_spare_comes_before_an_own_node_that_fails(void **state)
{
    struct fake *fake = start();

    (void)state;
    hazards[slot_of(fake, 2)] = 7;
    hear(fake, 3, "job", NULL);
    die(fake, 1, 2);
    hear(fake, 1, "job", NULL);
    hear(fake, 2, "job", NULL);
    fake_advance_ms(fake, RESTARTER_LOOK_MS);
    assert_string_equal(job_of(fake)->restart_choice, "its own node-1; the spare node-3");
    finish(fake);
}

/* A leader knows what it hears alone: a new one begins with nothing, and a node whose stream
 * has ended waits no more. */
static void waits_go_with_the_stream_and_with_the_leader(void **state)
{
    struct fake *fake = start();
    struct restarter_wait waits[4];

    (void)state;
    die(fake, 1, 2);
    hear(fake, 3, "job", NULL);
    assert_int_equal(restarter_waits(fake->broker.restarter, job_of(fake), waits, 4), 1);
    assert_int_equal(waits[0].node_slot, slot_of(fake, 3));
    assert_int_equal(waits[0].status, FSM_OK);
    restarter_unheard(fake->broker.restarter, slot_of(fake, 3));
    assert_int_equal(restarter_waits(fake->broker.restarter, job_of(fake), waits, 4), 0);
    hear(fake, 3, "job", NULL);
    fake_stop_serving(fake);
    assert_int_equal(restarter_waits(fake->broker.restarter, job_of(fake), waits, 4), 0);
    fake_serve(fake);
    assert_int_equal(restarter_waits(fake->broker.restarter, job_of(fake), waits, 4), 0);
    finish(fake);
}

/* Nobody is left to begin on a chosen node, for long enough: the choice is taken back. */
static void a_choice_is_taken_back_when_nobody_begins(void **state)
{
    struct fake *fake = start();

    (void)state;
    die(fake, 1, 2);
    hear(fake, 1, "job", NULL);
    hear(fake, 2, "job", NULL);
    fake_advance_ms(fake, RESTARTER_LOOK_MS);
    assert_int_equal(job_of(fake)->state, ALLOCATION(STARTING));
    hear(fake, 1, NULL, "job");
    hear(fake, 2, NULL, NULL);
    fake_advance_ms(fake, RESTARTER_ABSENT_MS - 1000);
    assert_false(job_of(fake)->terminating);
    fake_advance_ms(fake, 2000);
    assert_true(job_of(fake)->terminating);
    finish(fake);
}

static void refuse_next(struct fake *fake)
{
    fake_node_seen(fake, "node-2", NODE(DOWN));
}

/* The state has changed between the look and the choice: why is told, and the next one comes two
 * seconds later. */
static void a_refused_choice_is_told_and_made_again(void **state)
{
    struct fake *fake = start();
    struct restarter_refusal refusal;
    struct fake_proposal *proposal;

    (void)state;
    die(fake, 1, 2);
    assert_false(restarter_refused(fake->broker.restarter, job_of(fake), &refusal));
    hear(fake, 1, "job", NULL);
    hear(fake, 2, "job", NULL);
    fake_earliest(fake)->fire(fake_earliest(fake)->data);
    assert_false(list_empty(&fake->replica.proposals));
    proposal = LIST_ITEM(fake->replica.proposals.next, struct fake_proposal, node);
    list_remove(&proposal->node); /* something else is applied before it */
    refuse_next(fake);
    list_push_back(&fake->replica.proposals, &proposal->node);
    fake_settle(fake);
    assert_int_equal(job_of(fake)->state, ALLOCATION(REQUEUED));
    assert_true(restarter_refused(fake->broker.restarter, job_of(fake), &refusal));
    assert_int_equal(refusal.status, FSM_NODE_DOWN);
    assert_in_range(refusal.current, 1, 2); /* the place in the choice, for people */
    assert_int_equal(refusal.limit, 2);
    assert_string_equal(refusal.choice, "its own node-1, node-2");
    fake_node_seen(fake, "node-2", NODE(READY));
    fake_advance_ms(fake, RESTARTER_REFUSED_MS - 500);
    assert_int_equal(job_of(fake)->state, ALLOCATION(REQUEUED));
    fake_advance_ms(fake, 1000);
    assert_int_equal(job_of(fake)->state, ALLOCATION(STARTING));
    assert_false(restarter_refused(fake->broker.restarter, job_of(fake), &refusal));
    finish(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_own_nodes_come_before_a_spare),
        cmocka_unit_test(a_spare_comes_when_an_own_node_had_its_time),
        cmocka_unit_test(a_node_that_is_excluded_gives_way_to_a_spare),
        cmocka_unit_test(an_exclusion_ends),
        cmocka_unit_test(a_well_spare_comes_before_an_own_node_that_fails),
        cmocka_unit_test(waits_go_with_the_stream_and_with_the_leader),
        cmocka_unit_test(a_choice_is_taken_back_when_nobody_begins),
        cmocka_unit_test(a_refused_choice_is_told_and_made_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
