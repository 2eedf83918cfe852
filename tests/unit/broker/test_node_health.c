/* What heartbeats and telemetry do to a node's hazard, and when it is drained: S1-012, S1-022,
 * S1-051, T-001. */
#include <math.h>

#include "src/broker/health/node_health.h"
#include "src/broker/health/nodes.h"
#include "tests/unit/broker/fake_replica.h"

#define STATE(name) CKPT__LOG__V1__NODE_STATE__NODE_STATE_##name
#define HOUR_MS     UINT64_C(3600000)

#define MINUTE_US UINT64_C(60000000)

enum { SOURCE = 3, FRESH_MS = 90000 };

struct scene {
    struct fake *fake;
    struct nodes *nodes;
    struct node_health *health;
    const struct fsm_node *node; /* the first of four that run "job" */
};

static struct scene begin(bool drain, uint64_t drain_max_per_hour)
{
    struct scene scene = {.fake = fake_new(NULL)};
    struct node_health_config config;

    assert_int_equal(fake_register(scene.fake, "job", 1, 4, NULL).status, FSM_OK);
    scene.nodes = nodes_new(&scene.fake->broker);
    scene.health = nodes_health(scene.nodes);
    node_health_config_default(&config);
    config.drain = drain;
    config.drain_max_per_hour = drain_max_per_hour;
    node_health_configure(scene.health, &config);
    node_health_set_source(scene.health, SOURCE, FRESH_MS);
    fake_serve(scene.fake);
    nodes_start(scene.nodes);
    scene.node = fsm_node_find(scene.fake->replica.fsm, "node-1");
    assert_non_null(scene.node);
    return scene;
}

static void finish(struct scene *scene)
{
    nodes_stop(scene->nodes);
    nodes_free(scene->nodes);
    fake_free(scene->fake);
}

static void beat(struct scene *scene, uint64_t correctable, uint64_t uncorrectable,
                 uint32_t milli_celsius)
{
    Ckpt__V1__AgentHeartbeat heartbeat = CKPT__V1__AGENT_HEARTBEAT__INIT;

    heartbeat.ecc_measured = true;
    heartbeat.ecc_correctable_count = correctable;
    heartbeat.ecc_uncorrectable_count = uncorrectable;
    heartbeat.temperature_milli_celsius = milli_celsius;
    nodes_heard(scene->nodes, scene->node->slot, &heartbeat);
}

static double factor(const struct scene *scene)
{
    return node_health_factor(scene->health, scene->node->slot);
}

static void say(struct scene *scene, enum telemetry_signal signal, double value)
{
    struct telemetry_sample sample = {
        .signal = signal, .subject = SAMPLES_NO_SUBJECT, .value = value};

    node_health_sample(scene->health, scene->node->slot, SOURCE, &sample);
    node_health_heard(scene->health, scene->node->slot, SOURCE, scene->fake->now_us);
}

/* So often that an alarm of it counts; the first time is now. */
static void say_thrice(struct scene *scene, enum telemetry_signal signal, double value)
{
    for (int poll = 0; poll < HEALTH_CONFIRM_POLLS; poll++) {
        say(scene, signal, value);
        scene->fake->now_us++;
    }
}

/* T-001: within one heartbeat; old counts say nothing; the factor decays; a counter that restarts
 * at 0 is no alarm. */
static void rising_error_counters_raise_the_hazard(void **state)
{
    struct scene scene = begin(false, 4);

    (void)state;
    beat(&scene, 1000, 0, 40000);
    assert_false(node_health_any(scene.health));
    assert_double_near(factor(&scene), 1, 0);
    beat(&scene, 1001, 0, 40000);
    assert_true(node_health_any(scene.health));
    assert_double_near(factor(&scene), 10, 1e-9);
    beat(&scene, 0, 0, 40000);
    assert_double_near(factor(&scene), 10, 1e-9);
    scene.fake->now_us += 6 * HOUR_MS * 1000;
    assert_double_near(factor(&scene), 1 + 9 / 2.0, 1e-6);
    beat(&scene, 0, 1, 40000);
    assert_double_near(factor(&scene), 300, 1e-9); /* 5.5 * 100, bounded */
    finish(&scene);
}

/* 0 of a node without counters is not "none". */
static void what_is_not_measured_is_unknown(void **state)
{
    struct scene scene = begin(false, 4);
    Ckpt__V1__AgentHeartbeat heartbeat = CKPT__V1__AGENT_HEARTBEAT__INIT;
    uint64_t age_ms;

    (void)state;
    nodes_heard(scene.nodes, scene.node->slot, &heartbeat);
    assert_int_equal(node_health_sight(scene.health, scene.node->slot, 0, &age_ms),
                     NODE_HEALTH_BLIND);
    beat(&scene, 5, 0, 0); /* the first count is a base line, whatever 0 was said before */
    assert_double_near(factor(&scene), 1, 0);
    assert_int_equal(node_health_sight(scene.health, scene.node->slot, 0, &age_ms),
                     NODE_HEALTH_FRESH);
    finish(&scene);
}

static void heat_raises_the_hazard_while_it_lasts(void **state)
{
    struct scene scene = begin(false, 4);

    (void)state;
    beat(&scene, 0, 0, 90000);
    assert_double_near(factor(&scene), 3, 1e-9);
    beat(&scene, 0, 0, 96000);
    assert_double_near(factor(&scene), 20, 1e-9);
    beat(&scene, 0, 0, 50000);
    assert_double_near(factor(&scene), 20, 1e-9); /* once may be chance */
    beat(&scene, 0, 0, 50000);
    assert_double_near(factor(&scene), 1, 1e-9);
    assert_false(node_health_any(scene.health));
    finish(&scene);
}

/* The sensor's own limit counts, where it has one. */
static void heat_is_judged_by_the_limit_of_its_sensor(void **state)
{
    struct scene scene = begin(false, 4);
    Ckpt__V1__AgentHeartbeat heartbeat = CKPT__V1__AGENT_HEARTBEAT__INIT;

    (void)state;
    heartbeat.temperature_milli_celsius = 90000;
    heartbeat.temperature_limit_milli_celsius = 105000;
    nodes_heard(scene.nodes, scene.node->slot, &heartbeat);
    assert_double_near(factor(&scene), 1, 0);
    heartbeat.temperature_milli_celsius = 96000;
    nodes_heard(scene.nodes, scene.node->slot, &heartbeat);
    assert_double_near(factor(&scene), 3, 1e-9);
    heartbeat.temperature_milli_celsius = 105000;
    nodes_heard(scene.nodes, scene.node->slot, &heartbeat);
    assert_double_near(factor(&scene), 20, 1e-9);
    finish(&scene);
}

/* For explain: the age of the youngest fresh source. */
static void the_age_of_what_is_known_is_that_of_the_youngest_fresh_source(void **state)
{
    struct scene scene = begin(false, 4);
    uint32_t slot = scene.node->slot;

    (void)state;
    assert_uint_equal(node_health_age_ms(scene.health, slot), UINT64_MAX);
    assert_uint_equal(node_health_age_ms(NULL, slot), UINT64_MAX);
    say(&scene, TELEMETRY_STATUS, 0);
    scene.fake->now_us += 80 * UINT64_C(1000000);
    assert_uint_equal(node_health_age_ms(scene.health, slot), 80000);
    beat(&scene, 0, 0, 0);
    assert_uint_equal(node_health_age_ms(scene.health, slot), 0);
    scene.fake->now_us += FRESH_MS * UINT64_C(1000) + 1;
    assert_uint_equal(node_health_age_ms(scene.health, slot), UINT64_MAX);
    finish(&scene);
}

/* A failover in the middle of rising errors: the agent says since when. */
static void a_new_leader_learns_from_the_agent_what_it_saw(void **state)
{
    struct scene scene = begin(false, 4);
    Ckpt__V1__AgentHeartbeat heartbeat = CKPT__V1__AGENT_HEARTBEAT__INIT;

    (void)state;
    scene.fake->now_us += 24 * HOUR_MS * 1000;
    heartbeat.ecc_measured = true;
    heartbeat.ecc_correctable_count = 17;
    heartbeat.ecc_correctable_risen_ms = 6 * HOUR_MS;
    nodes_heard(scene.nodes, scene.node->slot, &heartbeat);
    assert_double_near(factor(&scene), 1 + 9 / 2.0, 1e-6);
    nodes_heard(scene.nodes, scene.node->slot, &heartbeat); /* is said once */
    assert_double_near(factor(&scene), 1 + 9 / 2.0, 1e-6);
    finish(&scene);
}

static struct node_hazard hazard(const struct scene *scene)
{
    return node_health_hazard(scene->health, scene->node->slot, 1800, 100);
}

/* From the third poll on, of which the age is that of the first. */
static void an_alarm_adds_to_the_hazard_what_the_model_says(void **state)
{
    struct scene scene = begin(false, 4);
    const struct eval_alarm expected = {.precision = 0.6, .lead_s = 2700, .since_s = 600};
    uint64_t since_us;

    (void)state;
    assert_double_near(hazard(&scene).factor, 1, 0);
    assert_double_near(hazard(&scene).alarm_h, 0, 0);
    assert_false(hazard(&scene).unwell);
    say(&scene, TELEMETRY_GPU_ECC_UNCORRECTABLE, 0);
    say(&scene, TELEMETRY_XID, 0);
    scene.fake->now_us++;
    since_us = scene.fake->now_us;
    say(&scene, TELEMETRY_GPU_ECC_UNCORRECTABLE, 1);
    say(&scene, TELEMETRY_XID, 48); /* the same failure, told twice */
    assert_true(hazard(&scene).unwell && hazard(&scene).alarm_h == 0);
    scene.fake->now_us++;
    say_thrice(&scene, TELEMETRY_XID, 48);
    scene.fake->now_us = since_us + 600 * UINT64_C(1000000);
    assert_double_near(hazard(&scene).factor, factor(&scene), 1e-9);
    assert_double_near(hazard(&scene).alarm_h, eval_alarm_hazard(&expected, 1800), 1e-9);
    assert_true(hazard(&scene).unwell);
    finish(&scene);
}

/* model.h: what hard signals announce is not counted twice, and only where somebody watches. */
static void announced_failures_are_taken_out_of_watched_nodes(void **state)
{
    struct scene scene = begin(false, 4);
    struct node_health_config config;

    (void)state;
    node_health_config_default(&config);
    config.alarm_recall_ppm = 400000;
    node_health_configure(scene.health, &config);
    assert_true(node_health_any(scene.health));
    assert_double_near(hazard(&scene).factor, 1, 0); /* nobody spoke of it yet */
    say(&scene, TELEMETRY_STATUS, 0);
    assert_double_near(hazard(&scene).factor, 1 - 0.4 * exp(-100.0 / 2700), 1e-9);
    assert_false(hazard(&scene).unwell);
    assert_double_near(node_health_hazard(scene.health, scene.node->slot, 1800, INFINITY).factor, 1,
                       0); /* an outage: no warning is early enough */
    scene.fake->now_us += FRESH_MS * UINT64_C(1000) + 1;
    assert_double_near(hazard(&scene).factor, 1, 0); /* blind again: nothing would be announced */
    finish(&scene);
}

static bool alarmed(const struct scene *scene)
{
    double age_s;

    return node_health_alarm(scene->health, scene->node->slot, &age_s);
}

/* Draining began, and everything on the node is checkpointed. */
static bool drained(struct scene *scene)
{
    return scene->node->state == STATE(DRAINING) &&
           fsm_allocation_find(scene->fake->replica.fsm, "job")->active_checkpoint_id != 0;
}

static void look(struct scene *scene)
{
    node_health_look(scene->health);
    while (!list_empty(&scene->fake->replica.proposals))
        fake_apply_one(&scene->fake->replica);
}

/* S1-022 */
static void a_hard_signal_drains_the_node_once_per_episode(void **state)
{
    struct scene scene = begin(true, 4);
    struct node_health_counts counts;

    (void)state;
    say(&scene, TELEMETRY_XID, 0);
    look(&scene);
    assert_int_not_equal(scene.node->state, STATE(DRAINING));
    scene.fake->now_us++;
    say_thrice(&scene, TELEMETRY_XID, 79);
    look(&scene);
    assert_true(drained(&scene));
    say_thrice(&scene, TELEMETRY_XID, 48);
    look(&scene);
    look(&scene);
    node_health_count(scene.health, &counts);
    assert_uint_equal(counts.drains_total, 1);
    assert_uint_equal(counts.alarms, 1);
    finish(&scene);
}

/* Off by default; it is the operator's word. */
static void nothing_is_drained_unless_configured(void **state)
{
    struct scene scene = begin(false, 4);

    (void)state;
    say(&scene, TELEMETRY_XID, 0);
    scene.fake->now_us++;
    say_thrice(&scene, TELEMETRY_XID, 79);
    look(&scene);
    assert_int_not_equal(scene.node->state, STATE(DRAINING));
    assert_true(factor(&scene) > 1);
    finish(&scene);
}

/* An old alarm of a source that has fallen silent drains nothing, even when draining is switched on
 * then. */
static void a_stale_source_never_drains(void **state)
{
    struct scene scene = begin(false, 4);
    struct node_health_config config;

    (void)state;
    say(&scene, TELEMETRY_STATUS, 0);
    scene.fake->now_us++;
    say_thrice(&scene, TELEMETRY_STATUS, 2);
    scene.fake->now_us += FRESH_MS * UINT64_C(1000) + 1;
    node_health_config_default(&config);
    config.drain = true;
    node_health_configure(scene.health, &config);
    look(&scene);
    assert_int_not_equal(scene.node->state, STATE(DRAINING));
    node_health_heard(scene.health, scene.node->slot, SOURCE,
                      scene.fake->now_us); /* it speaks again, and the alarm still holds */
    look(&scene);
    assert_true(drained(&scene));
    finish(&scene);
}

/* A source that calls every node critical must not empty the cluster. */
static void drains_are_bounded_per_hour(void **state)
{
    struct scene scene = begin(true, 2);
    struct node_health_counts counts;
    uint32_t draining = 0;

    (void)state;
    for (int poll = 0; poll <= HEALTH_CONFIRM_POLLS; poll++) {
        scene.fake->now_us++;
        for (uint32_t slot = 0; slot < 4; slot++) {
            struct telemetry_sample sample = {.signal = TELEMETRY_STATUS,
                                              .subject = SAMPLES_NO_SUBJECT,
                                              .value = poll == 0 ? 0 : 2};

            node_health_sample(scene.health, slot, SOURCE, &sample);
            node_health_heard(scene.health, slot, SOURCE, scene.fake->now_us);
        }
    }
    look(&scene);
    look(&scene);
    for (uint32_t slot = 0; slot < 4; slot++)
        draining += fsm_node_at(scene.fake->replica.fsm, slot)->state == STATE(DRAINING);
    assert_int_equal(draining, 2);
    node_health_count(scene.health, &counts);
    assert_uint_equal(counts.drains_total, 2);
    assert_uint_equal(counts.drains_held_total, 1);
    finish(&scene);
}

/* No leader, a full queue: the next look tries again, and the hour's bound counts what was done. */
static void a_drain_that_cannot_be_proposed_is_tried_again(void **state)
{
    struct scene scene = begin(true, 1);
    struct node_health_counts counts;

    (void)state;
    say(&scene, TELEMETRY_STATUS, 0);
    scene.fake->now_us++;
    say_thrice(&scene, TELEMETRY_STATUS, 2);
    scene.fake->replica.refuse = true;
    look(&scene);
    look(&scene);
    node_health_count(scene.health, &counts);
    assert_uint_equal(counts.drains_total, 0);
    scene.fake->replica.refuse = false;
    look(&scene);
    assert_true(drained(&scene));
    node_health_count(scene.health, &counts);
    assert_uint_equal(counts.drains_total, 1);
    finish(&scene);
}

/* What was wrong already when this process looked first raises the hazard; nobody saw it happen, so
 * nobody is moved. */
static void what_was_there_at_first_sight_drains_nothing(void **state)
{
    struct scene scene = begin(true, 4);

    (void)state;
    say(&scene, TELEMETRY_XID, 79);
    scene.fake->now_us++;
    say_thrice(&scene, TELEMETRY_STATUS, 2);
    look(&scene);
    assert_true(factor(&scene) >= 20);
    assert_true(alarmed(&scene));
    assert_int_not_equal(scene.node->state, STATE(DRAINING));
    finish(&scene);
}

/* Nor is another node drained for it, whose slot that one has now, or which has its name again. */
static void the_alarm_of_a_removed_node_is_not_another_ones(void **state)
{
    static const char *const names[] = {"next", "gone"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct scene scene = begin(false, 4);
        struct node_health_config config;
        uint32_t slot;

        fake_node_seen(scene.fake, "gone", STATE(READY));
        scene.node = fsm_node_find(scene.fake->replica.fsm, "gone");
        slot = scene.node->slot;
        say(&scene, TELEMETRY_STATUS, 0);
        scene.fake->now_us++;
        say_thrice(&scene, TELEMETRY_STATUS, 2);
        assert_true(factor(&scene) > 1);
        fake_remove_node(scene.fake, "gone");
        assert_double_near(node_health_factor(scene.health, slot), 1, 0);
        fake_node_seen(scene.fake, names[i], STATE(READY));
        scene.node = fsm_node_find(scene.fake->replica.fsm, names[i]);
        assert_uint_equal(scene.node->slot, slot);
        assert_double_near(factor(&scene), 1, 0);
        assert_int_equal(node_health_kind(scene.health, slot), NODE_HEALTH_WELL);
        node_health_config_default(&config);
        config.drain = true;
        node_health_configure(scene.health, &config);
        look(&scene);
        assert_int_equal(scene.node->state, STATE(READY));
        assert_false(node_health_any(scene.health));
        finish(&scene);
    }
}

/* For people and for metrics: `!` in ckptctl nodes. */
static bool shown(const struct scene *scene)
{
    struct node_health_signal signals[TELEMETRY_SIGNAL_COUNT];
    size_t count = node_health_signals(scene->health, scene->node->slot, signals);
    struct node_health_counts counts;
    bool alarm = false;

    for (size_t i = 0; i < count; i++)
        alarm |= signals[i].alarm;
    node_health_count(scene->health, &counts);
    assert_uint_equal(counts.alarms, alarm);
    return alarm;
}

/* S1-022, S1-051: one poll moves nothing, drains nothing and is no alarm that anybody sees or
 * learns from; three are. T-001: the hazard rises with the first. */
static void one_poll_moves_nothing_and_three_do(void **state)
{
    struct scene scene = begin(true, 4);

    (void)state;
    say(&scene, TELEMETRY_STATUS, 0);
    for (int poll = 1; poll <= HEALTH_CONFIRM_POLLS; poll++) {
        look(&scene);
        assert_int_not_equal(scene.node->state, STATE(DRAINING));
        assert_false(alarmed(&scene) || shown(&scene) || hazard(&scene).alarm_h > 0);
        scene.fake->now_us += MINUTE_US / 2;
        say(&scene, TELEMETRY_STATUS, 2);
        assert_double_near(factor(&scene), 20, 1e-9);
    }
    assert_true(alarmed(&scene) && shown(&scene) && hazard(&scene).alarm_h > 0);
    look(&scene);
    assert_true(drained(&scene));
    finish(&scene);
}

/* Also where the hazard's factor is configured away: then nothing but the poll itself tells that
 * the node is unwell. */
static void the_third_poll_counts_without_a_factor(void **state)
{
    struct scene scene = begin(true, 4);
    struct node_health_config config;

    (void)state;
    node_health_config_default(&config);
    config.drain = true;
    config.factor_milli[TELEMETRY_XID] = 1000;
    node_health_configure(scene.health, &config);
    say(&scene, TELEMETRY_XID, 0);
    scene.fake->now_us++;
    say_thrice(&scene, TELEMETRY_XID, 79);
    assert_double_near(factor(&scene), 1, 0);
    look(&scene);
    assert_true(drained(&scene));
    finish(&scene);
}

/* S1-022 */
static void a_level_that_falls_in_the_second_poll_moves_nothing(void **state)
{
    struct scene scene = begin(true, 4);

    (void)state;
    for (int poll = 0; poll < 40; poll++) {
        say(&scene, TELEMETRY_STATUS, poll % 2 == 0 ? 0 : 2);
        look(&scene);
        assert_false(alarmed(&scene));
        assert_int_not_equal(scene.node->state, STATE(DRAINING));
        scene.fake->now_us += MINUTE_US / 2;
    }
    finish(&scene);
}

/* Its agent says hello. */
static void hello(struct scene *scene, const char *boot)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeSeen seen = CKPT__LOG__V1__NODE_SEEN__INIT;

    seen.node_id = text_message("node-1");
    seen.boot_id = text_message(boot);
    seen.state = STATE(READY);
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_SEEN;
    command.node_seen = &seen;
    assert_int_equal(fake_do(scene->fake, &command).status, FSM_OK);
}

/* A well node that has been up for hours, as its first hello is no boot. */
static struct scene begin_up(void)
{
    struct scene scene = begin(true, 4);

    hello(&scene, "boot-1");
    say(&scene, TELEMETRY_STATUS, 0);
    say(&scene, TELEMETRY_XID, 0);
    look(&scene);
    scene.fake->now_us += 2 * HOUR_MS * 1000;
    return scene;
}

/* Two polls a minute, in which nothing may be moved. */
static void stay_for(struct scene *scene, unsigned minutes, double level)
{
    for (unsigned poll = 0; poll < 2 * minutes; poll++) {
        say(scene, TELEMETRY_STATUS, level);
        look(scene);
        assert_false(alarmed(scene) || shown(scene) || hazard(scene).alarm_h > 0);
        assert_int_equal(scene->node->state, STATE(READY));
        scene->fake->now_us += MINUTE_US / 2;
    }
}

/* S1-022, S1-051: links that train for five minutes. A first hello is no boot. */
static void an_alarm_that_every_boot_shows_moves_nothing(void **state)
{
    struct scene scene = begin_up();

    (void)state;
    hello(&scene, "boot-2");
    stay_for(&scene, 5, 2);
    stay_for(&scene, 20, 0);
    hello(&scene, "boot-2"); /* its agent was restarted, and nothing else */
    scene.fake->now_us += MINUTE_US;
    say_thrice(&scene, TELEMETRY_STATUS, 2);
    look(&scene);
    assert_int_equal(scene.node->state, STATE(DRAINING));
    finish(&scene);
}

/* S1-022: the node is drained for what is still there after ten minutes, of which the failure that
 * the boot was took nothing. */
static void an_alarm_that_outlasts_a_boot_drains(void **state)
{
    struct scene scene = begin_up();

    (void)state;
    say(&scene, TELEMETRY_STATUS, 2); /* the BMC speaks before the agent */
    scene.fake->now_us += MINUTE_US / 2;
    hello(&scene, "boot-2");
    node_health_failed(scene.health, scene.node->slot);
    stay_for(&scene, 10, 2);
    say(&scene, TELEMETRY_STATUS, 2);
    assert_true(alarmed(&scene) && shown(&scene));
    look(&scene);
    assert_int_equal(scene.node->state, STATE(DRAINING));
    finish(&scene);
}

/* While its agent is silent nothing can be checkpointed, and the node is not drained for what its
 * BMC says all along: it is found down, and boots. */
static void a_silent_node_is_not_drained(void **state)
{
    static const Ckpt__Log__V1__NodeState silent[] = {STATE(DEGRADED), STATE(DOWN)};
    struct node_health_counts counts;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(silent); i++) {
        struct scene scene = begin_up();

        fake_node_seen(scene.fake, "node-1", silent[i]);
        for (int poll = 0; poll < 8; poll++) {
            say(&scene, TELEMETRY_STATUS, 2);
            look(&scene);
            assert_int_equal(scene.node->state, silent[i]);
            scene.fake->now_us += MINUTE_US / 2;
        }
        hello(&scene, "boot-2");
        stay_for(&scene, 10, 2);
        say(&scene, TELEMETRY_STATUS, 2);
        look(&scene);
        assert_int_equal(scene.node->state, STATE(DRAINING));
        node_health_count(scene.health, &counts);
        assert_uint_equal(counts.drains_total, 1);
        finish(&scene);
    }
}

/* S1-022: before the hello of the boot and after it; T-001: the hazard knows of it. */
static void an_xid_within_a_boot_moves_nothing(void **state)
{
    struct scene scene = begin_up();

    (void)state;
    say(&scene, TELEMETRY_XID, 48);
    scene.fake->now_us += MINUTE_US / 2;
    hello(&scene, "boot-2");
    stay_for(&scene, 9, 0);
    say_thrice(&scene, TELEMETRY_XID, 79);
    assert_true(factor(&scene) > 19);
    stay_for(&scene, 60, 0);
    say_thrice(&scene, TELEMETRY_XID, 48); /* this one is not the boot's */
    look(&scene);
    assert_int_equal(scene.node->state, STATE(DRAINING));
    finish(&scene);
}

/* S1-022: each member sees boots and counts polls, so that the window goes on under the next leader
 * and the polls need not begin anew. */
static void a_new_leader_goes_on_counting_polls_and_minutes(void **state)
{
    struct scene scene = begin_up();

    (void)state;
    hello(&scene, "boot-2");
    stay_for(&scene, 5, 2);
    nodes_stop(scene.nodes);
    nodes_start(scene.nodes);
    stay_for(&scene, 5, 2);
    look(&scene); /* the polls were counted before */
    assert_int_equal(scene.node->state, STATE(DRAINING));
    finish(&scene);
}

/* S1-022: ... and of what the agent tells it, the agent's heartbeats are the polls. */
static void a_new_leader_drains_after_three_heartbeats(void **state)
{
    Ckpt__V1__AgentHeartbeat heartbeat = CKPT__V1__AGENT_HEARTBEAT__INIT;

    (void)state;
    for (int again = 0; again < 2; again++) { /* also one that led before, and saw it itself */
        struct scene scene = begin_up();

        heartbeat.ecc_measured = true;
        heartbeat.ecc_uncorrectable_count = 7;
        heartbeat.ecc_uncorrectable_risen_ms = 0;
        if (again) {
            nodes_heard(scene.nodes, scene.node->slot, &heartbeat);
            scene.fake->now_us += MINUTE_US;
            heartbeat.ecc_uncorrectable_count++;
            nodes_heard(scene.nodes, scene.node->slot, &heartbeat);
            nodes_stop(scene.nodes);
            nodes_start(scene.nodes);
        }
        scene.fake->now_us += MINUTE_US;
        heartbeat.ecc_uncorrectable_risen_ms = MINUTE_US / 1000;
        for (int beat = 0; beat < HEALTH_CONFIRM_POLLS; beat++) {
            look(&scene);
            assert_false(alarmed(&scene));
            assert_int_equal(scene.node->state, STATE(READY));
            scene.fake->now_us += 1000000;
            heartbeat.ecc_uncorrectable_risen_ms += 1000;
            nodes_heard(scene.nodes, scene.node->slot, &heartbeat);
            assert_true(factor(&scene) > 90);
        }
        assert_true(alarmed(&scene));
        look(&scene);
        assert_int_equal(scene.node->state, STATE(DRAINING));
        finish(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rising_error_counters_raise_the_hazard),
        cmocka_unit_test(the_alarm_of_a_removed_node_is_not_another_ones),
        cmocka_unit_test(what_is_not_measured_is_unknown),
        cmocka_unit_test(heat_raises_the_hazard_while_it_lasts),
        cmocka_unit_test(heat_is_judged_by_the_limit_of_its_sensor),
        cmocka_unit_test(the_age_of_what_is_known_is_that_of_the_youngest_fresh_source),
        cmocka_unit_test(a_new_leader_learns_from_the_agent_what_it_saw),
        cmocka_unit_test(an_alarm_adds_to_the_hazard_what_the_model_says),
        cmocka_unit_test(announced_failures_are_taken_out_of_watched_nodes),
        cmocka_unit_test(a_hard_signal_drains_the_node_once_per_episode),
        cmocka_unit_test(nothing_is_drained_unless_configured),
        cmocka_unit_test(a_stale_source_never_drains),
        cmocka_unit_test(drains_are_bounded_per_hour),
        cmocka_unit_test(a_drain_that_cannot_be_proposed_is_tried_again),
        cmocka_unit_test(what_was_there_at_first_sight_drains_nothing),
        cmocka_unit_test(one_poll_moves_nothing_and_three_do),
        cmocka_unit_test(the_third_poll_counts_without_a_factor),
        cmocka_unit_test(a_level_that_falls_in_the_second_poll_moves_nothing),
        cmocka_unit_test(an_alarm_that_every_boot_shows_moves_nothing),
        cmocka_unit_test(an_alarm_that_outlasts_a_boot_drains),
        cmocka_unit_test(a_silent_node_is_not_drained),
        cmocka_unit_test(an_xid_within_a_boot_moves_nothing),
        cmocka_unit_test(a_new_leader_goes_on_counting_polls_and_minutes),
        cmocka_unit_test(a_new_leader_drains_after_three_heartbeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
