/* The second witness of a silent node, and members that are none. S3-060, V-003 */
#include "src/broker/health/node_probe.h"
#include "src/broker/health/probe_area.h"
#include "tests/unit/broker/fake_probe.h"

#define STATE(name) CKPT__LOG__V1__NODE_STATE__NODE_STATE_##name
#define A           "10.0.0.1:22"
#define B           "10.0.0.2:22"

struct scene {
    struct fake *fake;
    struct fake_probe tries;
    struct node_probe *probe;
    const struct fsm_node *a, *b;
    char text[FSM_DETAIL_BYTES];
};

/* Nodes a and b are well and answer; members 1 and 2 are on two hosts. */
static void begin(struct scene *scene)
{
    *scene = (struct scene){.fake = fake_new(NULL)};
    fake_set_level(scene->fake, 2);
    fake_probe_member(scene->fake, 1, 1);
    fake_probe_member(scene->fake, 2, 2);
    scene->probe = fake_probe_new(&scene->tries, scene->fake);
    fake_probe_seen(scene->fake, "a", STATE(READY), A);
    fake_probe_seen(scene->fake, "b", STATE(READY), B);
    scene->a = fsm_node_find(scene->fake->replica.fsm, "a");
    scene->b = fsm_node_find(scene->fake->replica.fsm, "b");
    fake_advance_ms(scene->fake, 5000);
}

static void end(struct scene *scene)
{
    node_probe_free(scene->probe);
    fake_free(scene->fake);
}

static void fall_silent(struct scene *scene, uint64_t for_ms)
{
    fake_probe_seen(scene->fake, "a", STATE(DEGRADED), "");
    fake_advance_ms(scene->fake, for_ms);
}

/* The words that this member would say, as another one's. */
static void hear_as(struct scene *scene, uint64_t member_id)
{
    uint8_t words[NODE_PROBE_WORDS_BYTES];
    size_t length = node_probe_say(scene->probe, words);

    node_probe_hear(scene->probe, member_id, words, length);
}

static bool is_off(struct scene *scene)
{
    return node_probe_is_off(scene->probe, scene->a, scene->text, sizeof(scene->text));
}

/* Two hosts that got an answer before, and get none now, while another node answers them. */
static void members_on_two_hosts_are_a_witness(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_string_equal(node_probe_word(scene.probe, scene.a), "answers");
    scene.tries.silent[0] = A;
    fall_silent(&scene, 8000);
    assert_false(node_probe_witnesses(scene.probe, scene.a)); /* two tries are too few */
    fake_advance_ms(scene.fake, 12000);
    assert_true(node_probe_witnesses(scene.probe, scene.a));
    assert_false(node_probe_witnesses(scene.probe, scene.b));
    assert_false(is_off(&scene)); /* it is one */
    hear_as(&scene, 2);
    assert_true(is_off(&scene));
    assert_string_equal(scene.text, "no answer at " A " from m1, m2");
    assert_string_equal(node_probe_word(scene.probe, scene.a), "no answer");
    end(&scene);
}

/* They have one network and one cable. */
static void two_members_on_one_host_are_one(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    fake_probe_member(scene.fake, 3, 1);
    scene.tries.silent[0] = A;
    fall_silent(&scene, 20000);
    hear_as(&scene, 3);
    assert_false(is_off(&scene));
    end(&scene);
}

/* The rule: whoever reaches no other node's address does not count. Also when that begins in the
 * middle. */
static void a_member_that_is_cut_off_is_no_witness(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    scene.tries.cut_off = true;
    fall_silent(&scene, 60000);
    assert_false(node_probe_witnesses(scene.probe, scene.a));
    scene.tries.cut_off = false;
    fake_advance_ms(scene.fake, 10000); /* it answers again */
    assert_false(node_probe_witnesses(scene.probe, scene.a));
    assert_string_equal(node_probe_word(scene.probe, scene.a), "answers");
    scene.tries.silent[0] = A;
    fake_advance_ms(scene.fake, 3000);
    scene.tries.cut_off = true;
    fake_advance_ms(scene.fake, 60000);
    assert_false(node_probe_witnesses(scene.probe, scene.a));
    scene.tries.cut_off = false;
    for (int i = 0; i < 9; i++) { /* the others answer: what was missed in the cut says nothing */
        fake_advance_ms(scene.fake, 1000);
        assert_false(node_probe_witnesses(scene.probe, scene.a));
    }
    fake_advance_ms(scene.fake, 15000); /* the others answer, and a does not */
    assert_true(node_probe_witnesses(scene.probe, scene.a));
    end(&scene);
}

/* A switch cuts members from the nodes of one rack alone: others answer them, and say nothing of
 * the way there. One neighbour that answers does. V-003 */
static void a_rack_that_answers_nobody_has_no_such_witness(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    fake_probe_seen(scene.fake, "c", STATE(READY), "10.0.1.1:22");
    fake_advance_ms(scene.fake, 5000);
    scene.tries.silent[0] = A;
    scene.tries.silent[1] = B;
    fall_silent(&scene, 50000);
    assert_string_equal(node_probe_word(scene.probe, scene.a), "no answer");
    assert_false(node_probe_witnesses(scene.probe, scene.a));
    scene.tries.silent[1] = NULL;
    fake_advance_ms(scene.fake, 30000);
    assert_true(node_probe_witnesses(scene.probe, scene.a));
    scene.tries.silent[1] = B;
    for (int i = 0; i < 60; i++) { /* also when it is no more known to answer */
        fake_advance_ms(scene.fake, i == 0 ? 20000 : 10000);
        assert_false(node_probe_witnesses(scene.probe, scene.a));
    }
    end(&scene);
}

/* Nobody is near it: any other node has to do. */
static void a_node_without_neighbours_is_compared_with_any(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    fake_probe_seen(scene.fake, "b", STATE(READY), "10.0.1.2:22");
    fake_advance_ms(scene.fake, 5000);
    scene.tries.silent[0] = A;
    fall_silent(&scene, 20000);
    assert_true(node_probe_witnesses(scene.probe, scene.a));
    end(&scene);
}

static void neighbours_are_of_one_domain_or_of_one_subnet(void **state)
{
    static const struct {
        const char *domain[2], *host[2];
        bool near;
    } rows[] = {
        {{"", ""}, {"10.0.0.1", "10.0.0.254"}, true},
        {{"", ""}, {"10.0.0.1", "10.0.1.1"}, false},
        {{"", ""}, {"fd00::1:2", "fd00::3:4"}, true},
        {{"", ""}, {"fd00::1", "fd00:0:0:1::1"}, false},
        {{"rack-1", "rack-1"}, {"10.0.0.1", "10.9.0.1"}, true},
        {{"rack-1", "rack-2"}, {"10.0.0.1", "10.0.0.2"}, false},
        {{"rack-1", ""}, {"10.0.0.1", "10.0.0.2"}, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(probe_area_key(rows[i].domain[0], rows[i].host[0]) ==
                             probe_area_key(rows[i].domain[1], rows[i].host[1]),
                         rows[i].near);
}

/* A node of the same host as the silent one proves nothing of this member's network. */
static void another_address_of_the_silent_host_is_no_comparison(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    fake_probe_seen(scene.fake, "b", STATE(READY), "10.0.0.1:23");
    fake_advance_ms(scene.fake, 5000);
    scene.tries.silent[0] = A;
    fall_silent(&scene, 20000);
    assert_false(node_probe_witnesses(scene.probe, scene.a));
    end(&scene);
}

static void a_node_that_never_answered_has_no_such_witness(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    scene.tries.silent[0] = "10.0.0.1:99";
    fake_probe_seen(scene.fake, "a", STATE(READY), "10.0.0.1:99"); /* another address */
    fake_advance_ms(scene.fake, 20000);
    fall_silent(&scene, 60000);
    assert_string_equal(node_probe_word(scene.probe, scene.a), "never answered");
    assert_false(node_probe_witnesses(scene.probe, scene.a));
    end(&scene);
}

/* A port that was closed by a firewall long before the agent fell silent proves nothing. */
static void an_address_that_stopped_answering_while_the_agent_was_well_is_forgotten(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    scene.tries.silent[0] = A;
    fake_advance_ms(scene.fake, 500000);
    assert_string_equal(node_probe_word(scene.probe, scene.a), "never answered");
    fall_silent(&scene, 60000);
    assert_false(node_probe_witnesses(scene.probe, scene.a));
    end(&scene);
}

/* The machine goes first, the silence is noticed 30 s later: the misses before count. */
static void a_machine_that_goes_before_its_silence_is_noticed_has_its_witness(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    fake_advance_ms(scene.fake, NODE_PROBE_WELL_MS - 20000); /* a try is due soon */
    scene.tries.silent[0] = A;
    fake_advance_ms(scene.fake, 30000);
    assert_false(node_probe_witnesses(scene.probe, scene.a)); /* its agent is well */
    fall_silent(&scene, 10000);
    assert_true(node_probe_witnesses(scene.probe, scene.a));
    end(&scene);
}

/* One answer ends it: the kernel lives. */
static void an_answer_in_the_silence_ends_it(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    scene.tries.silent[0] = A;
    fall_silent(&scene, 20000);
    assert_true(node_probe_witnesses(scene.probe, scene.a));
    scene.tries.silent[0] = NULL;
    fake_advance_ms(scene.fake, 6000);
    assert_false(node_probe_witnesses(scene.probe, scene.a));
    end(&scene);
}

static void a_member_on_the_node_itself_is_no_witness(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    scene.tries.local = A;
    fake_probe_seen(scene.fake, "a", STATE(READY), "10.0.0.1:23");
    fake_advance_ms(scene.fake, 5000);
    fake_probe_seen(scene.fake, "a", STATE(READY), A);
    fake_advance_ms(scene.fake, 5000);
    fall_silent(&scene, 60000);
    assert_false(node_probe_witnesses(scene.probe, scene.a));
    end(&scene);
}

/* Words that are old, of other nodes in the same slots, or of the wrong length. */
static void words_that_do_not_fit_are_not_taken(void **state)
{
    struct scene scene;
    uint8_t words[NODE_PROBE_WORDS_BYTES];

    (void)state;
    begin(&scene);
    scene.tries.silent[0] = A;
    fall_silent(&scene, 20000);
    assert_uint_equal(node_probe_say(scene.probe, words), NODE_PROBE_WORDS_BYTES);
    node_probe_hear(scene.probe, 2, words, NODE_PROBE_WORDS_BYTES - 1);
    assert_false(is_off(&scene));
    words[4] ^= 1; /* the digest */
    node_probe_hear(scene.probe, 2, words, NODE_PROBE_WORDS_BYTES);
    assert_false(is_off(&scene));
    words[4] ^= 1;
    node_probe_hear(scene.probe, 9, words, NODE_PROBE_WORDS_BYTES); /* no member */
    assert_false(is_off(&scene));
    node_probe_hear(scene.probe, 2, words, NODE_PROBE_WORDS_BYTES);
    assert_true(is_off(&scene));
    fake_advance_ms(scene.fake, NODE_PROBE_WORDS_MS + 1000);
    assert_false(is_off(&scene));
    end(&scene);
}

/* Member 2 misses the node first, and this one afterwards. */
static void words_that_are_over_are_taken_back(void **state)
{
    struct scene scene;
    uint8_t words[NODE_PROBE_WORDS_BYTES];

    (void)state;
    begin(&scene);
    scene.tries.silent[0] = A;
    fall_silent(&scene, 20000);
    hear_as(&scene, 2);
    assert_true(is_off(&scene));
    scene.tries.silent[0] = NULL;
    fake_advance_ms(scene.fake, 6000);
    hear_as(&scene, 2); /* it is told once that nothing is left of it */
    assert_uint_equal(node_probe_say(scene.probe, words), 0);
    scene.tries.silent[0] = A;
    fake_advance_ms(scene.fake, 20000);
    assert_true(node_probe_witnesses(scene.probe, scene.a));
    assert_false(is_off(&scene));
    end(&scene);
}

/* Nobody is asked anything in a cluster that could not use it. */
static void below_level_2_nobody_is_probed(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct fake_probe tries = {.cut_off = false};
    struct node_probe *probe = fake_probe_new(&tries, fake);
    uint8_t words[NODE_PROBE_WORDS_BYTES];

    (void)state;
    fake_probe_seen(fake, "a", STATE(READY), "");
    fake_advance_ms(fake, 60000);
    assert_uint_equal(tries.tries, 0);
    assert_uint_equal(node_probe_say(probe, words), 0);
    node_probe_free(probe);
    fake_free(fake);
}

static void an_address_is_made_of_a_setting_and_a_stream(void **state)
{
    static const char *const cases[][3] = {
        {"", "10.0.0.7:41234", "10.0.0.7:22"},
        {"", "[fd00::7]:41234", "[fd00::7]:22"},
        {"2222", "10.0.0.7:41234", "10.0.0.7:2222"},
        {"10.9.0.7:22", "10.0.0.7:41234", "10.9.0.7:22"},
        {"[fd00::9]:1022", "10.0.0.7:41234", "[fd00::9]:1022"},
        {"off", "10.0.0.7:41234", "-"},
        {"node7:22", "10.0.0.7:41234", "-"}, /* a name server would be a witness */
        {"0", "10.0.0.7:41234", "-"},
        {"65536", "10.0.0.7:41234", "-"},
        {"", "unix", "-"},
        {"", "peer", "-"},
        {"10.9.0.7", "10.0.0.7:41234", "-"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[NODE_PROBE_ADDRESS_BYTES];

        node_probe_address(cases[i][0], cases[i][1], text);
        assert_string_equal(text, cases[i][2]);
    }
}

/* A try that is on its way when the process ends is let go. */
static void a_try_on_its_way_does_not_outlive_its_owner(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    fake_probe_seen(scene.fake, "c", STATE(READY), "10.0.0.3:22");
    fake_advance_ms(scene.fake, 1000); /* the try has begun, and ends a millisecond later */
    assert_uint_equal(scene.tries.tries, 3);
    end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_on_two_hosts_are_a_witness),
        cmocka_unit_test(two_members_on_one_host_are_one),
        cmocka_unit_test(a_member_that_is_cut_off_is_no_witness),
        cmocka_unit_test(a_rack_that_answers_nobody_has_no_such_witness),
        cmocka_unit_test(a_node_without_neighbours_is_compared_with_any),
        cmocka_unit_test(neighbours_are_of_one_domain_or_of_one_subnet),
        cmocka_unit_test(another_address_of_the_silent_host_is_no_comparison),
        cmocka_unit_test(a_node_that_never_answered_has_no_such_witness),
        cmocka_unit_test(an_address_that_stopped_answering_while_the_agent_was_well_is_forgotten),
        cmocka_unit_test(a_machine_that_goes_before_its_silence_is_noticed_has_its_witness),
        cmocka_unit_test(an_answer_in_the_silence_ends_it),
        cmocka_unit_test(a_member_on_the_node_itself_is_no_witness),
        cmocka_unit_test(words_that_do_not_fit_are_not_taken),
        cmocka_unit_test(words_that_are_over_are_taken_back),
        cmocka_unit_test(below_level_2_nobody_is_probed),
        cmocka_unit_test(an_address_is_made_of_a_setting_and_a_stream),
        cmocka_unit_test(a_try_on_its_way_does_not_outlive_its_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
