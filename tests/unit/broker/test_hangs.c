/* Running jobs that the leader finds to hang, by the steps in their nodes' heartbeats (V-030). The
 * state machine is the real one; the rest is the test's. */
#include "src/broker/decide/hangs.h"

#include "fsm/hang.h"
#include "fsm/level.h"
#include "src/broker/daemon/hook.h"
#include "tests/unit/broker/fake_replica.h"

#define NODE(name) CKPT__LOG__V1__NODE_STATE__NODE_STATE_##name
#define KIND(name) CKPT__V1__REPORT_KIND__REPORT_KIND_##name

enum { NODES = 2, BEAT_MS = 10000, GAP_MS = 60000 };

static unsigned hooks;

void hook_call(struct hook *hook, const struct hook_news *news)
{
    (void)hook;
    assert_string_equal(news->event, "hang");
    hooks++;
}

/* The word of a node about its one rank. */
struct said {
    uint64_t step;
    uint64_t quiet_ms, gap_ms;
    bool under_way;
    bool silent; /* no heartbeat comes */
};

struct scene {
    struct fake *fake;
    struct said said[NODES + 1];
};

static const struct fsm_allocation *job_of(const struct scene *scene)
{
    return fsm_allocation_find(scene->fake->replica.fsm, "job");
}

static const char *name_of(unsigned number, char name[16])
{
    snprintf(name, 16, "node-%u", number);
    return name;
}

static void report_started(struct fake *fake, unsigned number)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeReport message = CKPT__LOG__V1__NODE_REPORT__INIT;
    Ckpt__V1__AgentReport agent = CKPT__V1__AGENT_REPORT__INIT;
    char name[16];

    name_of(number, name);
    agent.sequence = fsm_node_find(fake->replica.fsm, name)->last_report_sequence + 1;
    agent.kind = KIND(APPLICATION_STARTED);
    agent.allocation_id = (char[]){"job"};
    agent.run = fake_run(fake, "job", name);
    message.node_id = name;
    message.report = &agent;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT;
    command.node_report = &message;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* A job of two nodes that runs; each has a rank that is at step 10 and says one a minute. */
static struct scene start(void)
{
    struct scene scene = {.fake = fake_new(NULL)};
    char name[16];

    fake_set_level(scene.fake, FSM_LEVEL_NEWEST);
    hooks = 0;
    for (unsigned i = 1; i <= NODES; i++) {
        fake_node_seen(scene.fake, name_of(i, name), NODE(READY));
        scene.said[i] = (struct said){.step = 10, .gap_ms = GAP_MS};
    }
    assert_int_equal(fake_register(scene.fake, "job", 1, NODES, NULL).status, FSM_OK);
    for (unsigned i = 1; i <= NODES; i++)
        report_started(scene.fake, i);
    assert_int_equal(job_of(&scene)->state, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING);
    scene.fake->broker.hangs = hangs_new(&scene.fake->broker);
    fake_serve(scene.fake);
    return scene;
}

static void finish(struct scene *scene)
{
    fake_stop_serving(scene->fake);
    hangs_free(scene->fake->broker.hangs);
    fake_free(scene->fake);
}

static uint32_t slot_of(const struct scene *scene, unsigned number)
{
    char name[16];

    return fsm_node_find(scene->fake->replica.fsm, name_of(number, name))->slot;
}

static void hear(const struct scene *scene, unsigned number)
{
    const struct said *said = &scene->said[number];
    Ckpt__V1__AgentHeartbeat heartbeat = CKPT__V1__AGENT_HEARTBEAT__INIT;
    Ckpt__V1__RunningAllocation running = CKPT__V1__RUNNING_ALLOCATION__INIT, *items = &running;
    Ckpt__V1__StepsWord steps = CKPT__V1__STEPS_WORD__INIT;
    Ckpt__V1__BehindRank rank = CKPT__V1__BEHIND_RANK__INIT, *ranks = &rank;
    char name[16];

    if (said->silent)
        return;
    rank.number = number - 1;
    rank.pid = 100 + number;
    rank.step = rank.step_most = said->step;
    rank.state = (char[]){"waits in futex_wait (S)"};
    steps.quiet_ms = said->quiet_ms;
    steps.stepped_ms = said->quiet_ms + 1;
    steps.gap_p99_ms = said->gap_ms;
    steps.highest_step = said->step;
    steps.under_way = said->under_way;
    steps.rank_count = 1;
    steps.n_behind = said->quiet_ms > 2 * said->gap_ms; /* as agents look */
    steps.behind = &ranks;
    running.allocation_id = (char[]){"job"};
    running.run = fake_run(scene->fake, "job", name_of(number, name));
    running.steps = &steps;
    heartbeat.n_running = 1;
    heartbeat.running = &items;
    hangs_heard(scene->fake->broker.hangs, slot_of(scene, number), &heartbeat);
}

/* So long, with a heartbeat of each node every ten seconds. Nobody steps, but for `stepping`. */
static void pass(struct scene *scene, uint64_t ms, unsigned stepping)
{
    for (uint64_t passed = 0; passed < ms; passed += BEAT_MS) {
        for (unsigned i = 1; i <= NODES; i++) {
            struct said *said = &scene->said[i];

            said->step += i == stepping;
            said->quiet_ms = i == stepping ? 0 : said->quiet_ms + BEAT_MS;
            hear(scene, i);
        }
        fake_advance_ms(scene->fake, BEAT_MS);
    }
}

/* Ten gaps are longer than hang_after. The lowest step comes first in the evidence. */
static void a_job_of_which_no_rank_steps_is_told_after_ten_gaps(void **state)
{
    struct scene scene = start();

    (void)state;
    assert_true(fsm_policy(scene.fake->replica.fsm)->hang_after_ms < 10 * GAP_MS);
    scene.said[2].step = 9;
    pass(&scene, 10 * GAP_MS - 2 * BEAT_MS, 0);
    assert_false(fsm_hung(job_of(&scene)));
    pass(&scene, 5 * BEAT_MS, 0);
    assert_true(fsm_hung(job_of(&scene)));
    assert_int_equal(hooks, 1);
    assert_string_equal(job_of(&scene)->hang_text,
                        "rank 1 (node-2, pid 102) at step 9 waits in futex_wait (S)");
    pass(&scene, 10 * BEAT_MS, 0);
    assert_int_equal(hooks, 1); /* it is told once */
    finish(&scene);
}

static void one_rank_that_steps_is_no_hang(void **state)
{
    struct scene scene = start();

    (void)state;
    pass(&scene, 30 * GAP_MS, 2);
    assert_false(fsm_hung(job_of(&scene)));
    finish(&scene);
}

static void a_step_ends_it(void **state)
{
    struct scene scene = start();

    (void)state;
    pass(&scene, 11 * GAP_MS, 0);
    assert_true(fsm_hung(job_of(&scene)));
    pass(&scene, 2 * BEAT_MS, 1);
    assert_false(fsm_hung(job_of(&scene)));
    assert_int_equal(hooks, 1);
    finish(&scene);
}

/* The ranks that it hides may step. */
static void a_node_that_is_not_heard_hides_everything(void **state)
{
    struct scene scene = start();

    (void)state;
    pass(&scene, 5 * GAP_MS, 0);
    scene.said[2].silent = true;
    pass(&scene, 10 * GAP_MS, 0);
    assert_false(fsm_hung(job_of(&scene)));
    scene.said[2].silent = false;
    pass(&scene, 2 * BEAT_MS, 0);
    assert_true(fsm_hung(job_of(&scene)));
    finish(&scene);
}

/* No more quiet is believed than this leader has seen on the node's stream, whatever the agent
 * says: one that began again hears of no step until its ranks have found it. */
static void a_stream_that_begins_anew_begins_the_time_anew(void **state)
{
    struct scene scene = start();

    (void)state;
    pass(&scene, 9 * GAP_MS, 0);
    hangs_unheard(scene.fake->broker.hangs, slot_of(&scene, 1));
    pass(&scene, 9 * GAP_MS, 0);
    assert_false(fsm_hung(job_of(&scene)));
    pass(&scene, 2 * GAP_MS, 0);
    assert_true(fsm_hung(job_of(&scene)));
    finish(&scene);
}

/* An election does the same. */
static void a_leader_begins_the_time_anew(void **state)
{
    struct scene scene = start();

    (void)state;
    pass(&scene, 9 * GAP_MS, 0);
    fake_stop_serving(scene.fake);
    fake_serve(scene.fake);
    pass(&scene, 9 * GAP_MS, 0);
    assert_false(fsm_hung(job_of(&scene)));
    pass(&scene, 2 * GAP_MS, 0);
    assert_true(fsm_hung(job_of(&scene)));
    finish(&scene);
}

/* A checkpoint, its barrier, or a stop. */
static void what_is_under_way_is_no_hang(void **state)
{
    struct scene scene = start();

    (void)state;
    scene.said[1].under_way = true;
    pass(&scene, 30 * GAP_MS, 0);
    assert_false(fsm_hung(job_of(&scene)));
    scene.said[1].under_way = false;
    pass(&scene, 2 * BEAT_MS, 0);
    assert_true(fsm_hung(job_of(&scene)));
    finish(&scene);
}

/* The first step of a program may build what all others use. */
static void one_that_has_stepped_once_has_six_times_as_long(void **state)
{
    struct scene scene = start();
    const uint64_t hang_after_ms = fsm_policy(scene.fake->replica.fsm)->hang_after_ms;

    (void)state;
    scene.said[1].gap_ms = scene.said[2].gap_ms = 0;
    pass(&scene, FSM_HANG_UNPACED * hang_after_ms - 2 * BEAT_MS, 0);
    assert_false(fsm_hung(job_of(&scene)));
    pass(&scene, 5 * BEAT_MS, 0);
    assert_true(fsm_hung(job_of(&scene)));
    finish(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_of_which_no_rank_steps_is_told_after_ten_gaps),
        cmocka_unit_test(one_rank_that_steps_is_no_hang),
        cmocka_unit_test(a_step_ends_it),
        cmocka_unit_test(a_node_that_is_not_heard_hides_everything),
        cmocka_unit_test(a_stream_that_begins_anew_begins_the_time_anew),
        cmocka_unit_test(a_leader_begins_the_time_anew),
        cmocka_unit_test(what_is_under_way_is_no_hang),
        cmocka_unit_test(one_that_has_stepped_once_has_six_times_as_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
