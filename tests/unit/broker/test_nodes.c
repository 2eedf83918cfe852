/* Heartbeat ages of nodes: F-006, F-007, S3-060, V-003. */
#include "src/broker/health/node_health.h"
#include "src/broker/health/nodes.h"
#include "tests/unit/broker/fake_probe.h"
#include "tests/unit/broker/fake_replica.h"

#define STATE(name) CKPT__LOG__V1__NODE_STATE__NODE_STATE_##name

static struct node_age age(bool heard, uint64_t age_ms)
{
    return (struct node_age){.heard = heard,
                             .first = true,
                             .age_ms = age_ms,
                             .missed_after_ms = 15000,
                             .degraded_after_ms = 30000,
                             .down_after_ms = 90000};
}

/* From level 2 on; witness: 1 one that waits for the whole silence, 2 one that is sure. */
static struct node_age age_now(bool heard, uint64_t age_ms, unsigned witness)
{
    struct node_age made = age(heard, age_ms);

    made.first = false;
    made.witnessed = witness > 0;
    made.powered_off = witness > 1;
    return made;
}

static void states_follow_the_age(void **state)
{
    const struct {
        Ckpt__Log__V1__NodeState now;
        struct node_age age;
        Ckpt__Log__V1__NodeState expected;
    } cases[] = {
        {STATE(READY), age(true, 29999), STATE(READY)},
        {STATE(READY), age(true, 30000), STATE(DEGRADED)},
        {STATE(DEGRADED), age(true, 89999), STATE(DEGRADED)},
        {STATE(DEGRADED), age(true, 90000), STATE(DOWN)},
        {STATE(DOWN), age(true, 10), STATE(READY)},
        {STATE(DOWN), age(false, 10), STATE(DOWN)}, /* nothing heard: no reason to call it READY */
        {STATE(DEGRADED), age(false, 10), STATE(DEGRADED)},
        {STATE(DOWN), age(true, 50000), STATE(DOWN)},
        {STATE(DRAINING), age(true, 50000), STATE(DRAINING)},
        {STATE(DRAINING), age(true, 90000), STATE(DOWN)},
        {STATE(READY), age_now(true, 29999, 1), STATE(READY)},
        {STATE(READY), age_now(true, 30000, 1), STATE(DEGRADED)},
        {STATE(DEGRADED), age_now(true, 89999, 1), STATE(DEGRADED)},
        {STATE(DEGRADED), age_now(true, 90000, 0), STATE(AGENT_LOST)},
        {STATE(DEGRADED), age_now(true, 90000, 1), STATE(DOWN)},
        {STATE(READY), age_now(true, 14999, 2), STATE(READY)},
        {STATE(READY), age_now(true, 15000, 2), STATE(DOWN)},
        {STATE(AGENT_LOST), age_now(true, 95000, 0), STATE(AGENT_LOST)},
        {STATE(AGENT_LOST), age_now(true, 95000, 1), STATE(DOWN)},
        {STATE(AGENT_LOST), age_now(true, 10, 0), STATE(READY)},
        {STATE(AGENT_LOST), age_now(false, 10, 1), STATE(AGENT_LOST)}, /* under a new leader */
        {STATE(AGENT_LOST), age_now(false, 31000, 1), STATE(DOWN)},
        {STATE(AGENT_LOST), age_now(false, 31000, 0), STATE(AGENT_LOST)},
        {STATE(DOWN), age_now(false, 10, 0), STATE(DOWN)},
        {STATE(DOWN), age_now(true, 50000, 0), STATE(DOWN)},
        {STATE(DOWN), age_now(true, 95000, 0), STATE(DOWN)}, /* a word is not taken back */
        {STATE(DOWN), age_now(true, 10, 0), STATE(READY)},
        {STATE(DRAINING), age_now(true, 50000, 0), STATE(DEGRADED)}, /* as it is heard */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_int_equal(nodes_state_for_age(cases[i].now, &cases[i].age), cases[i].expected);
}

static void propose_seen(struct fake *fake, const char *id, const char *boot,
                         struct fsm_outcome *ret_outcome)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeSeen message = CKPT__LOG__V1__NODE_SEEN__INIT;
    char id_copy[64], boot_copy[64];

    snprintf(id_copy, sizeof(id_copy), "%s", id);
    snprintf(boot_copy, sizeof(boot_copy), "%s", boot);
    message.node_id = id_copy;
    message.boot_id = boot_copy;
    message.state = STATE(READY);
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_SEEN;
    command.node_seen = &message;
    replica_propose(&fake->replica, &command, fake_take_outcome, ret_outcome);
}

static const struct fsm_node *seen(struct fake *fake, const char *id)
{
    struct fsm_outcome outcome = {.status = FSM_UNIMPLEMENTED};
    bool serving = fake->replica.serving;

    fake->replica.serving = true;
    propose_seen(fake, id, "boot-1", &outcome);
    fake_settle(fake);
    fake->replica.serving = serving;
    assert_int_equal(outcome.status, FSM_OK);
    return fsm_node_find(fake->replica.fsm, id);
}

static void drain(struct fake *fake, const char *id)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__DrainNode message = CKPT__LOG__V1__DRAIN_NODE__INIT;
    struct fsm_outcome outcome = {.status = FSM_UNIMPLEMENTED};
    char id_copy[64];

    snprintf(id_copy, sizeof(id_copy), "%s", id);
    message.node_id = id_copy;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_DRAIN_NODE;
    command.request_id = id_copy;
    command.drain_node = &message;
    fake->replica.serving = true;
    replica_propose(&fake->replica, &command, fake_take_outcome, &outcome);
    fake_settle(fake);
    assert_int_equal(outcome.status, FSM_OK);
}

/* An agent of each has reported once. */
static void all_seen(struct fake *fake)
{
    for (uint32_t slot = 0; slot < fsm_node_slots(fake->replica.fsm); slot++)
        (void)seen(fake, fsm_node_at(fake->replica.fsm, slot)->id);
}

static struct nodes *serve(struct fake *fake)
{
    struct nodes *nodes = nodes_new(&fake->broker);

    fake_serve(fake);
    nodes_start(nodes);
    return nodes;
}

static void finish(struct fake *fake, struct nodes *nodes)
{
    nodes_stop(nodes);
    nodes_free(nodes);
    fake_free(fake);
}

/* F-006 */
static void a_silent_node_is_degraded_after_30_s_and_down_after_90_s(void **state)
{
    struct fake *fake = fake_new(NULL);
    const struct fsm_node *node = seen(fake, "node-1");
    struct nodes *nodes = serve(fake);

    (void)state;
    nodes_heard(nodes, node->slot, NULL);
    fake_advance_ms(fake, 29000);
    assert_int_equal(node->state, STATE(READY));
    assert_uint_equal(nodes_heartbeat_age_ms(nodes, node->slot), 29000);
    fake_advance_ms(fake, 2500);
    assert_int_equal(node->state, STATE(DEGRADED));
    fake_advance_ms(fake, 57000);
    assert_int_equal(node->state, STATE(DEGRADED));
    fake_advance_ms(fake, 3000);
    assert_int_equal(node->state, STATE(DOWN));
    nodes_heard(nodes, node->slot, NULL);
    fake_advance_ms(fake, 1500);
    assert_int_equal(node->state, STATE(READY));
    finish(fake, nodes);
}

/* S3-001: what is said of its silence does not take back the boot that its hello has brought
 * meanwhile. */
static void a_node_that_boots_while_it_is_found_silent_has_booted_once(void **state)
{
    struct fake *fake = fake_new(NULL);
    const struct fsm_node *node = seen(fake, "node-1");
    struct nodes *nodes = serve(fake);
    struct fsm_outcome outcome = {.status = FSM_UNIMPLEMENTED};
    struct fake_timer *timer;

    (void)state;
    nodes_heard(nodes, node->slot, NULL);
    fake_advance_ms(fake, 29000);
    propose_seen(fake, "node-1", "boot-2", &outcome);
    while (fake->replica.waiting_count < 2) {
        timer = fake_earliest(fake);
        fake->now_us = timer->due_us;
        timer->armed = false;
        timer->fire(timer->data);
    }
    fake_settle(fake);
    assert_int_equal(outcome.status, FSM_OK);
    assert_int_equal(node->state, STATE(DEGRADED));
    assert_string_equal(node->boot_id, "boot-2");
    finish(fake, nodes);
}

/* A rack that lost its power: its nodes go down in bounded portions, and soon. */
static void thousands_of_silent_nodes_are_proposed_in_portions(void **state)
{
    enum { NODES = 4096, ALLOCATION_NODES = 64 };
    struct fake *fake = fake_new(NULL);
    struct nodes *nodes;
    uint64_t before;
    char id[32];

    (void)state;
    for (uint32_t i = 0; i < NODES / ALLOCATION_NODES; i++) {
        snprintf(id, sizeof(id), "job-%u", i);
        assert_int_equal(
            fake_register(fake, id, i * ALLOCATION_NODES, ALLOCATION_NODES, NULL).status, FSM_OK);
    }
    all_seen(fake);
    nodes = serve(fake);
    fake_advance_ms(fake, 29500);
    before = fake->replica.proposed_count;
    while (fake_earliest(fake)->due_us < UINT64_C(36000000)) {
        struct fake_timer *timer = fake_earliest(fake);

        fake->now_us = timer->due_us > fake->now_us ? timer->due_us : fake->now_us;
        timer->armed = false;
        timer->fire(timer->data);
        assert_true(fake->replica.proposed_count - before <= NODES_IN_FLIGHT_MAX);
        while (!list_empty(&fake->replica.proposals))
            fake_apply_one(&fake->replica);
        before = fake->replica.proposed_count;
    }
    for (uint32_t slot = 0; slot < fsm_node_slots(fake->replica.fsm); slot++)
        assert_int_equal(fsm_node_at(fake->replica.fsm, slot)->state, STATE(DEGRADED));
    fake_advance_ms(fake, 62000);
    for (uint32_t slot = 0; slot < fsm_node_slots(fake->replica.fsm); slot++)
        assert_int_equal(fsm_node_at(fake->replica.fsm, slot)->state, STATE(DOWN));
    finish(fake, nodes);
}

/* What ends with nodes that are given up is applied in one turn of the loop. */
static void nodes_with_many_allocations_are_given_up_a_few_at_a_time(void **state)
{
    enum { NODES = 64, EACH = 150 };
    struct fake *fake = fake_new(NULL);
    const uint32_t *running;
    struct fsm_summary summary;
    struct nodes *nodes;
    uint32_t before;
    char id[32];

    (void)state;
    for (uint32_t i = 0; i < NODES * EACH; i++) {
        snprintf(id, sizeof(id), "job-%u", i);
        assert_int_equal(fake_register(fake, id, i % NODES, 1, NULL).status, FSM_OK);
    }
    all_seen(fake);
    nodes = serve(fake);
    fake_advance_ms(fake, 89000);
    running = &summary.allocations_by_state[CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING];
    fsm_get_summary(fake->replica.fsm, &summary);
    assert_uint_equal(*running, NODES * EACH);
    while (*running > 0) {
        struct fake_timer *timer = fake_earliest(fake);

        before = *running;
        fake->now_us = timer->due_us > fake->now_us ? timer->due_us : fake->now_us;
        timer->armed = false;
        timer->fire(timer->data);
        while (!list_empty(&fake->replica.proposals))
            fake_apply_one(&fake->replica);
        fsm_get_summary(fake->replica.fsm, &summary);
        assert_true(before - *running < NODES_ALLOCATIONS_IN_FLIGHT_MAX + EACH);
    }
    finish(fake, nodes);
}

/* One line per look, however many nodes it is about. */
static void a_look_logs_one_line(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct nodes *nodes;
    char line[1024];
    int pipe_fds[2], saved = dup(STDERR_FILENO);
    ssize_t length;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 64, NULL).status, FSM_OK);
    all_seen(fake);
    nodes = serve(fake);
    fake_advance_ms(fake, 28500);
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(dup2(pipe_fds[1], STDERR_FILENO), STDERR_FILENO);
    fake_advance_ms(fake, 3000);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(pipe_fds[1]);
    length = read(pipe_fds[0], line, sizeof(line) - 1);
    assert_true(length > 0);
    line[length] = '\0';
    assert_ptr_equal(strchr(line, '\n'), line + length - 1);
    assert_non_null(strstr(line, "event=node_states"));
    assert_non_null(strstr(line, "degraded=64"));
    close(pipe_fds[0]);
    close(saved);
    finish(fake, nodes);
}

/* F-006 is about heartbeats that stop. A scheduler's load without agents goes on for as long as it
 * likes, under any leader. */
static void silence_says_nothing_of_a_node_that_no_agent_ever_reported(void **state)
{
    enum { HOUR_MS = 3600000 };
    struct fake *fake = fake_new(NULL);
    const struct fsm_node *node, *drained;
    struct fsm_summary summary;
    struct nodes *nodes;
    uint64_t index;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 2, NULL).status, FSM_OK);
    node = fsm_node_find(fake->replica.fsm, "node-1");
    drained = fsm_node_find(fake->replica.fsm, "node-2");
    drain(fake, "node-2");
    index = fake->replica.index;
    nodes = serve(fake);
    fake_advance_ms(fake, HOUR_MS);
    nodes_stop(nodes);
    nodes_start(nodes);
    fake_advance_ms(fake, HOUR_MS);
    assert_int_equal(node->state, CKPT__LOG__V1__NODE_STATE__NODE_STATE_UNSPECIFIED);
    assert_int_equal(drained->state, STATE(DRAINING));
    assert_uint_equal(fake->replica.index, index);
    assert_true(nodes_unreported(node));
    fsm_get_summary(fake->replica.fsm, &summary);
    assert_uint_equal(
        summary.allocations_by_state[CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING], 1);
    /* from its agent's first word on it is a node like all others */
    (void)seen(fake, "node-1");
    nodes_heard(nodes, node->slot, NULL);
    fake_advance_ms(fake, 95000);
    assert_int_equal(node->state, STATE(DOWN));
    finish(fake, nodes);
}

/* A failover must never look like the death of every node. */
/* A drain in between does not hide that its agent is heard again, without a hello. */
static void a_drained_node_that_is_heard_is_not_silent(void **state)
{
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    const struct fsm_node *node;
    struct nodes *nodes;
    struct fake *fake;

    (void)state;
    policy.feature_level = 2;
    fake = fake_new(&policy);
    assert_int_equal(fake_register(fake, "job", 1, 1, NULL).status, FSM_OK);
    all_seen(fake);
    node = fsm_node_find(fake->replica.fsm, "node-1");
    nodes = serve(fake);
    fake_advance_ms(fake, 95000);
    assert_int_equal(node->state, STATE(AGENT_LOST));
    assert_true(node->silent_since_ms != 0);
    drain(fake, "node-1");
    nodes_heard(nodes, node->slot, NULL);
    fake_advance_ms(fake, 5000);
    assert_true(node->silent_since_ms == 0);
    assert_int_equal(node->state, STATE(DRAINED));
    fake_advance_ms(fake, 40000); /* it keeps its state, and is told to be silent */
    assert_int_equal(node->state, STATE(DRAINED));
    assert_true(node->silent_since_ms != 0);
    fake_advance_ms(fake, 60000);
    assert_int_equal(node->state, STATE(AGENT_LOST));
    finish(fake, nodes);
}

static void make_sensitive(Ckpt__V1__AllocationSpec *spec)
{
    spec->sensitive = true;
}

static void borrow_nodes(Ckpt__V1__AllocationSpec *spec)
{
    for (size_t i = 0; i < spec->n_nodes; i++)
        spec->nodes[i]->borrowed = true;
}

/* Nodes node-1 and node-2 of a cluster at level 2, probed by two members; jobs as make says. */
struct probed {
    struct fake *fake;
    struct fake_probe tries;
    struct nodes *nodes;
    const struct fsm_node *one, *two;
};

static void probed_begin(struct probed *scene, void (*make)(Ckpt__V1__AllocationSpec *spec))
{
    *scene = (struct probed){.fake = fake_new(NULL)};
    fake_set_level(scene->fake, 2);
    fake_probe_member(scene->fake, 1, 1);
    fake_probe_member(scene->fake, 2, 2);
    assert_int_equal(fake_register(scene->fake, "job", 1, 1, make).status, FSM_OK);
    scene->fake->broker.node_probe = fake_probe_new(&scene->tries, scene->fake);
    scene->one = seen(scene->fake, "node-1");
    scene->two = seen(scene->fake, "node-2");
    scene->nodes = serve(scene->fake);
    nodes_heard(scene->nodes, scene->one->slot, NULL);
    nodes_reached(scene->nodes, scene->one->slot, "", "10.0.0.1:40000");
    nodes_heard(scene->nodes, scene->two->slot, NULL);
    nodes_reached(scene->nodes, scene->two->slot, "2222", "10.0.0.2:40000");
    fake_advance_ms(scene->fake, 5000);
}

/* Node-2's agent speaks on, member 2 sees what this one sees. */
static void probed_pass(struct probed *scene, uint64_t ms)
{
    for (uint64_t i = 0; i < ms / 1000; i++) {
        uint8_t words[NODE_PROBE_WORDS_BYTES];
        size_t length = node_probe_say(scene->fake->broker.node_probe, words);

        node_probe_hear(scene->fake->broker.node_probe, 2, words, length);
        nodes_heard(scene->nodes, scene->two->slot, NULL);
        fake_advance_ms(scene->fake, 1000);
    }
}

static void probed_end(struct probed *scene)
{
    node_probe_free(scene->fake->broker.node_probe);
    finish(scene->fake, scene->nodes);
}

/* S3-060: nobody types anything. The silence counts from the last word that was heard. */
static void a_silent_node_that_answers_nobody_is_down(void **state)
{
    struct probed scene;
    uint64_t heard_ms;

    (void)state;
    probed_begin(&scene, NULL);
    assert_string_equal(scene.one->probe, "10.0.0.1:22");
    assert_string_equal(scene.two->probe, "10.0.0.2:2222");
    heard_ms = replica_state_ms(&scene.fake->replica);
    nodes_heard(scene.nodes, scene.one->slot, NULL);
    scene.tries.silent[0] = "10.0.0.1:22";
    probed_pass(&scene, 40000);
    assert_int_equal(scene.one->state, STATE(DEGRADED));
    assert_true(scene.one->silent_since_ms >= heard_ms);
    assert_true(scene.one->silent_since_ms < heard_ms + 1000);
    probed_pass(&scene, 48000);
    assert_int_equal(scene.one->state, STATE(DEGRADED)); /* not before node_down_after */
    probed_pass(&scene, 5000);
    assert_int_equal(scene.one->state, STATE(DOWN));
    assert_int_equal(scene.one->witness, CKPT__V1__NODE_WITNESS__NODE_WITNESS_PROBE);
    assert_string_equal(scene.one->evidence, "no answer at 10.0.0.1:22 from m1, m2");
    probed_end(&scene);
}

/* V-003: its agent is stopped, its kernel answers: it is lost, for as long as that is so. When the
 * machine goes later, it is down. */
static void a_silent_node_that_answers_is_a_lost_agent(void **state)
{
    struct probed scene;

    (void)state;
    probed_begin(&scene, NULL);
    probed_pass(&scene, 200000);
    assert_int_equal(scene.one->state, STATE(AGENT_LOST));
    assert_uint_equal(scene.one->off_at_ms, 0);
    nodes_stop(scene.nodes); /* another leader finds the same */
    nodes_start(scene.nodes);
    probed_pass(&scene, 60000);
    assert_int_equal(scene.one->state, STATE(AGENT_LOST));
    scene.tries.silent[0] = "10.0.0.1:22";
    probed_pass(&scene, 60000);
    assert_int_equal(scene.one->state, STATE(DOWN));
    nodes_heard(scene.nodes, scene.one->slot, NULL);
    probed_pass(&scene, 2000);
    assert_int_equal(scene.one->state, STATE(READY));
    assert_string_equal(scene.one->evidence, "");
    probed_end(&scene);
}

/* F-006: a sensitive job has five minutes more, a borrowed node half a minute, whoever the witness
 * is that has to wait for the silence. */
static void a_witness_waits_for_the_patience_of_its_jobs(void **state)
{
    static const struct {
        void (*make)(Ckpt__V1__AllocationSpec *spec);
        uint64_t extra_ms;
    } cases[] = {{make_sensitive, 300000}, {borrow_nodes, 30000}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct probed scene;

        probed_begin(&scene, cases[i].make);
        scene.tries.silent[0] = "10.0.0.1:22";
        probed_pass(&scene, 80000 + cases[i].extra_ms);
        assert_int_equal(scene.one->state, STATE(DEGRADED));
        probed_pass(&scene, 10000);
        assert_int_equal(scene.one->state, STATE(DOWN));
        probed_end(&scene);
    }
}

static void say_off(struct fake *fake, Ckpt__V1__NodeWitness witness)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeOff off = CKPT__LOG__V1__NODE_OFF__INIT;
    char name[] = "node-1", evidence[] = "it said so", id[32];

    snprintf(id, sizeof(id), "off-%d-%u", (int)witness, (unsigned)fake->replica.index);
    off.node_id = name;
    off.witness = witness;
    off.evidence = evidence;
    command.request_id = id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_OFF;
    command.node_off = &off;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* F-006: the BMC says off: DOWN at the first missed heartbeat, however sensitive the job is. Its
 * word of a minute ago says nothing. A scheduler's waits for the whole silence. */
static void words_count_when_they_may(void **state)
{
    struct probed scene;

    (void)state;
    probed_begin(&scene, make_sensitive);
    nodes_heard(scene.nodes, scene.one->slot, NULL);
    say_off(scene.fake, CKPT__V1__NODE_WITNESS__NODE_WITNESS_BMC);
    probed_pass(&scene, 14000);
    assert_int_equal(scene.one->state, STATE(READY));
    probed_pass(&scene, 3000);
    assert_int_equal(scene.one->state, STATE(DOWN));
    assert_int_equal(scene.one->witness, CKPT__V1__NODE_WITNESS__NODE_WITNESS_BMC);
    assert_string_equal(scene.one->evidence, "it said so");
    probed_end(&scene);

    probed_begin(&scene, NULL);
    say_off(scene.fake, CKPT__V1__NODE_WITNESS__NODE_WITNESS_BMC);
    for (int i = 0; i < 7; i++) { /* it speaks for a minute */
        nodes_heard(scene.nodes, scene.one->slot, NULL);
        probed_pass(&scene, 10000);
    }
    probed_pass(&scene, 10000);
    assert_int_not_equal(scene.one->state, STATE(DOWN));
    probed_end(&scene);

    probed_begin(&scene, NULL);
    probed_pass(&scene, 40000);
    say_off(scene.fake, CKPT__V1__NODE_WITNESS__NODE_WITNESS_SCHEDULER);
    probed_pass(&scene, 40000);
    assert_int_equal(scene.one->state, STATE(DEGRADED));
    probed_pass(&scene, 10000);
    assert_int_equal(scene.one->state, STATE(DOWN));
    assert_int_equal(scene.one->witness, CKPT__V1__NODE_WITNESS__NODE_WITNESS_SCHEDULER);
    probed_end(&scene);
}

/* F-006: telemetry of the node's power is a BMC's word. */
static void a_node_whose_power_is_off_is_down_at_the_first_missed_heartbeat(void **state)
{
    struct telemetry_sample sample = {.signal = TELEMETRY_POWER, .value = 3};
    struct probed scene;

    (void)state;
    for (int old = 0; old < 2; old++) {
        probed_begin(&scene, NULL);
        node_health_set_source(nodes_health(scene.nodes), 1, 30000);
        nodes_heard(scene.nodes, scene.one->slot, NULL);
        node_health_sample(nodes_health(scene.nodes), scene.one->slot, 1, &sample);
        node_health_heard(nodes_health(scene.nodes), scene.one->slot, 1,
                          scene.fake->broker.clock.monotonic_us(scene.fake->broker.clock.context));
        for (int i = 0; old && i < 4; i++) { /* the source is stale when the agent falls silent */
            probed_pass(&scene, 10000);
            nodes_heard(scene.nodes, scene.one->slot, NULL);
        }
        probed_pass(&scene, 14000);
        assert_int_equal(scene.one->state, STATE(READY));
        probed_pass(&scene, 3000);
        assert_int_equal(scene.one->state, old ? STATE(READY) : STATE(DOWN));
        probed_end(&scene);
    }
}

static void a_new_leader_starts_all_ages_anew(void **state)
{
    struct fake *fake = fake_new(NULL);
    const struct fsm_node *node = seen(fake, "node-1");
    struct nodes *nodes = serve(fake);

    (void)state;
    nodes_heard(nodes, node->slot, NULL);
    fake_advance_ms(fake, 25000);
    nodes_stop(nodes);
    fake_advance_ms(fake, 600000);
    assert_int_equal(node->state, STATE(READY));
    nodes_start(nodes);
    assert_uint_equal(nodes_heartbeat_age_ms(nodes, node->slot), UINT64_MAX);
    fake_advance_ms(fake, 29000);
    assert_int_equal(node->state, STATE(READY));
    fake_advance_ms(fake, 65000);
    assert_int_equal(node->state, STATE(DOWN));
    finish(fake, nodes);
}

/* A node that becomes known an hour after the leader's start has its full time to be heard of. */
static void a_node_that_is_new_is_as_old_as_its_first_sight(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct nodes *nodes = serve(fake);
    const struct fsm_node *node;

    (void)state;
    fake_advance_ms(fake, 3600000);
    node = seen(fake, "node-1");
    fake_advance_ms(fake, 29000);
    assert_int_equal(node->state, STATE(READY));
    fake_advance_ms(fake, 3000);
    assert_int_equal(node->state, STATE(DEGRADED));
    finish(fake, nodes);
}

/* SIGSTOP of the broker for ten minutes: the agents' heartbeats wait in its sockets. */
static void a_pause_of_the_broker_ages_no_node(void **state)
{
    struct fake *fake = fake_new(NULL);
    const struct fsm_node *node = seen(fake, "node-1");
    struct nodes *nodes = serve(fake);

    (void)state;
    nodes_heard(nodes, node->slot, NULL);
    fake_advance_ms(fake, 20000);
    fake->now_us += UINT64_C(600000000); /* nothing ran */
    fake_settle(fake);
    assert_int_equal(node->state, STATE(READY));
    assert_true(nodes_heartbeat_age_ms(nodes, node->slot) <= 21000);
    fake_advance_ms(fake, 11000);
    assert_int_equal(node->state, STATE(DEGRADED));
    finish(fake, nodes);
}

/* F-006: sensitive +5 min, borrowed +30 s */
static void nodes_of_sensitive_and_borrowed_work_are_given_more_time(void **state)
{
    struct fake *fake = fake_new(NULL);
    const struct fsm_node *sensitive, *borrowed;
    struct nodes *nodes;

    (void)state;
    assert_int_equal(fake_register(fake, "secret", 1, 1, make_sensitive).status, FSM_OK);
    assert_int_equal(fake_register(fake, "guest", 2, 1, borrow_nodes).status, FSM_OK);
    sensitive = seen(fake, "node-1");
    borrowed = seen(fake, "node-2");
    nodes = serve(fake);
    fake_advance_ms(fake, 115000);
    assert_int_equal(borrowed->state, STATE(DEGRADED));
    assert_int_equal(sensitive->state, STATE(DEGRADED));
    fake_advance_ms(fake, 10000);
    assert_int_equal(borrowed->state, STATE(DOWN));
    assert_int_equal(sensitive->state, STATE(DEGRADED));
    fake_advance_ms(fake, 270000);
    assert_int_equal(sensitive->state, STATE(DOWN));
    finish(fake, nodes);
}

/* Another node in the slot of one that was removed was heard of when it was, not when that one
 * was. */
static void what_was_heard_of_a_removed_node_is_not_another_ones(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct nodes *nodes = serve(fake);
    Ckpt__V1__AgentHeartbeat heartbeat = CKPT__V1__AGENT_HEARTBEAT__INIT;
    const struct fsm_node *node = seen(fake, "gone");
    uint32_t slot = node->slot;

    (void)state;
    heartbeat.gpu_count = 8;
    nodes_heard(nodes, slot, &heartbeat);
    fake_advance_ms(fake, 80000);
    fake_remove_node(fake, "gone");
    assert_uint_equal(nodes_heartbeat_age_ms(nodes, slot), UINT64_MAX);
    assert_uint_equal(nodes_gpus(nodes, slot), 0);
    nodes_heard(nodes, slot, &heartbeat); /* by a stream that has not ended yet */
    node = seen(fake, "next");
    assert_uint_equal(node->slot, slot);
    assert_uint_equal(nodes_heartbeat_age_ms(nodes, slot), UINT64_MAX);
    assert_uint_equal(nodes_gpus(nodes, slot), 0);
    fake_advance_ms(fake, 25000); /* 105 s after the other one was heard */
    assert_int_equal(node->state, STATE(READY));
    fake_advance_ms(fake, 70000);
    assert_int_equal(node->state, STATE(DOWN));
    finish(fake, nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_follow_the_age),
        cmocka_unit_test(what_was_heard_of_a_removed_node_is_not_another_ones),
        cmocka_unit_test(a_silent_node_is_degraded_after_30_s_and_down_after_90_s),
        cmocka_unit_test(a_node_that_boots_while_it_is_found_silent_has_booted_once),
        cmocka_unit_test(thousands_of_silent_nodes_are_proposed_in_portions),
        cmocka_unit_test(nodes_with_many_allocations_are_given_up_a_few_at_a_time),
        cmocka_unit_test(a_look_logs_one_line),
        cmocka_unit_test(silence_says_nothing_of_a_node_that_no_agent_ever_reported),
        cmocka_unit_test(a_drained_node_that_is_heard_is_not_silent),
        cmocka_unit_test(a_silent_node_that_answers_nobody_is_down),
        cmocka_unit_test(a_silent_node_that_answers_is_a_lost_agent),
        cmocka_unit_test(a_witness_waits_for_the_patience_of_its_jobs),
        cmocka_unit_test(words_count_when_they_may),
        cmocka_unit_test(a_node_whose_power_is_off_is_down_at_the_first_missed_heartbeat),
        cmocka_unit_test(a_new_leader_starts_all_ages_anew),
        cmocka_unit_test(a_node_that_is_new_is_as_old_as_its_first_sight),
        cmocka_unit_test(a_pause_of_the_broker_ages_no_node),
        cmocka_unit_test(nodes_of_sensitive_and_borrowed_work_are_given_more_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
