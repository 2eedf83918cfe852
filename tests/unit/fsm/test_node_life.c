/* The life of a node: the table of moves, what a silence means without and with a second witness,
 * what an operator wants of it. F-006, S3-060, V-003, L-001, L-002, L-003 */
#include "tests/unit/fsm/expect.h"

#include "fsm/ends.h"
#include "fsm/node_life.h"

#define NODE(name) CKPT__LOG__V1__NODE_STATE__NODE_STATE_##name

static void start(struct script *script, const char *level)
{
    script_open(script);
    expect_ok(script, "init %s", level);
    for (int i = 1; i <= 4; i++)
        expect_ok(script, "node n%d ready boot=b%d", i, i);
}

static const struct fsm_node *node_of(const struct script *script, const char *name)
{
    return fsm_node_find(script->fsm, name);
}

#define expect_node(script, name, expected)                                                        \
    assert_int_equal(node_of(script, name)->state, NODE(expected))

/* The moves of the node that were told, in order, as digits: "15" is READY, then AGENT_LOST. */
static void moves_of(const struct script *script, const char *node, char text[64])
{
    const Ckpt__V1__Event *event;
    uint64_t after = 0;
    size_t length = 0;
    bool gap;

    while ((event = fsm_event_after(script->fsm, after, &gap)) != NULL && length < 63) {
        after = event->sequence;
        if ((event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_STATE ||
             event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_DRAINED) &&
            strcmp(event->subject, node) == 0)
            text[length++] = (char)('0' + event->new_state);
    }
    text[length] = '\0';
}

static const char *last_subject(const struct script *script, Ckpt__V1__EventKind kind)
{
    const Ckpt__V1__Event *event;
    const char *subject = "";
    uint64_t after = 0;
    bool gap;

    while ((event = fsm_event_after(script->fsm, after, &gap)) != NULL) {
        after = event->sequence;
        if (event->kind == kind)
            subject = event->subject;
    }
    return subject;
}

/* L-001, L-002, L-003: nobody becomes gone but by silence, and from there back degraded. */
static void the_table_is_the_drawing(void **unused)
{
    (void)unused;
    for (int at = 0; at < FSM_STATES_NODE; at++) {
        Ckpt__Log__V1__NodeState to = (Ckpt__Log__V1__NodeState)at;
        bool back = to == NODE(READY) || to == NODE(DRAINING) || to == NODE(DRAINED) ||
                    to == NODE(DISABLED);

        assert_int_equal(fsm_node_move_allowed(NODE(DOWN), to), back);
        assert_int_equal(fsm_node_move_allowed(NODE(AGENT_LOST), to), back || to == NODE(DOWN));
        assert_false(fsm_node_move_allowed(to, to));
        assert_int_equal(fsm_node_move_allowed(to, NODE(UNSPECIFIED)),
                         to == NODE(DRAINING) || to == NODE(DRAINED) || to == NODE(DISABLED));
    }
    assert_false(fsm_node_move_allowed(NODE(READY), (Ckpt__Log__V1__NodeState)FSM_STATES_NODE));
    assert_false(fsm_node_move_allowed((Ckpt__Log__V1__NodeState)FSM_STATES_NODE, NODE(READY)));
}

/* V-003, S3-060: whatever the leader calls a silence, without a witness it is AGENT_LOST. All that
 * ran there counts as lost, and nothing of it is begun elsewhere, also under another leader. */
static void a_silence_alone_is_a_lost_agent(void **unused)
{
    static const char *const words[] = {"down", "agent_lost"};

    (void)unused;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct script script;
        char moves[64];

        start(&script, "");
        expect_ok(&script, "register j nodes=n1,n2");
        expect_ok(&script, "after 30000");
        expect_ok(&script, "node n2 degraded heard=1000");
        assert_int_equal(node_of(&script, "n2")->silent_since_ms, 1000); /* not when it was seen */
        expect_ok(&script, "node n2 %s", words[i]);
        expect_node(&script, "n2", AGENT_LOST);
        expect_ok(&script, "report n1 terminated j");
        expect_job(&script, "j", REQUEUED);
        script_restore(&script);
        expect_status(&script, NODE_SILENT, "restart j nodes=n1,n3 from_scratch");
        expect_status(&script, NODE_DOWN, "restart j nodes=n1,n2 from_scratch");
        expect_ok(&script, "node n2 degraded"); /* age alone does not bring it back */
        expect_node(&script, "n2", AGENT_LOST);
        expect_ok(&script, "node n2 ready boot=b2");
        expect_ok(&script, "report n2 terminated j");
        expect_ok(&script, "restart j nodes=n1,n3 from_scratch");
        moves_of(&script, "n2", moves);
        assert_string_equal(moves, "1251");
        script_close(&script);
    }
}

/* S3-060, F-006: with a second witness the job runs elsewhere, without any person's command. The
 * evidence is kept and told; a node that is heard again has none. */
static void two_witnesses_make_it_down(void **unused)
{
    static const char *const witnesses[] = {"probe", "bmc", "scheduler", "operator"};

    (void)unused;
    for (size_t i = 0; i < sizeof(witnesses) / sizeof(witnesses[0]); i++) {
        struct script script;
        bool late = i % 2 == 1; /* it speaks when the agent counts as lost already */

        start(&script, "");
        expect_ok(&script, "register j nodes=n1,n2");
        expect_ok(&script, "node n2 degraded");
        if (late)
            expect_ok(&script, "node n2 agent_lost");
        expect_ok(&script, "node n2 down witness=%s evidence=no-answer", witnesses[i]);
        expect_node(&script, "n2", DOWN);
        assert_string_equal(last_subject(&script, CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_OFF),
                            "n2: no-answer");
        expect_ok(&script, "report n1 terminated j");
        script_restore(&script);
        assert_string_equal(node_of(&script, "n2")->evidence, "no-answer");
        assert_int_equal(node_of(&script, "n2")->witness, i == 0 ? 4 : i == 1 ? 3 : i == 2 ? 2 : 1);
        assert_int_equal(node_of(&script, "n2")->failure_count, 1);
        expect_ok(&script, "node n2 agent_lost"); /* it is silent still */
        expect_node(&script, "n2", DOWN);
        expect_ok(&script, "restart j nodes=n1,n3 from_scratch");
        expect_ok(&script, "node n2 ready boot=b2");
        assert_string_equal(node_of(&script, "n2")->evidence, "");
        assert_int_equal(node_of(&script, "n2")->off_at_ms, 0);
        script_close(&script);
    }
}

/* F-006: a BMC may speak before anybody has noticed a silence, and the leader counts the missed
 * heartbeats; a scheduler's word waits for node_down_after, as it may know no more than the
 * broker. */
static void a_word_that_does_not_count_yet_waits(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "");
    expect_ok(&script, "register j nodes=n2");
    expect_status(&script, NODE_NOT_DOWN, "node_off n2 witness=scheduler");
    expect_status(&script, NODE_NOT_DOWN, "node_off n2 witness=operator");
    expect_ok(&script, "node_off n2 witness=bmc evidence=power-off");
    expect_node(&script, "n2", READY);
    assert_int_equal(node_of(&script, "n2")->off_at_ms, 0);
    assert_int_not_equal(node_of(&script, "n2")->word_at_ms, 0);
    script_restore(&script);
    expect_ok(&script, "node n2 ready boot=b2"); /* it is heard: the word is over */
    assert_int_equal(node_of(&script, "n2")->word_at_ms, 0);

    expect_ok(&script, "node n2 degraded");
    expect_ok(&script, "node_off n2 witness=scheduler evidence=slurm-says-so");
    expect_node(&script, "n2", DEGRADED);
    expect_job(&script, "j", RUNNING);
    assert_int_not_equal(node_of(&script, "n2")->word_at_ms, 0);
    expect_ok(&script, "node_off n2 witness=bmc"); /* it counts at once */
    expect_node(&script, "n2", DOWN);
    expect_job(&script, "j", REQUEUED);

    expect_ok(&script, "node n3 agent_lost");
    expect_ok(&script, "node_off n3 witness=scheduler"); /* the silence has lasted */
    expect_node(&script, "n3", DOWN);
    script_close(&script);
}

/* A drain neither makes a silent node speak nor forgets that it is down; what is wanted holds when
 * it is back. L-001 */
static void a_drain_of_a_node_that_is_down_leaves_it_down(void **unused)
{
    struct script script;
    char moves[64];

    (void)unused;
    start(&script, "");
    expect_ok(&script, "node n2 down witness=probe");
    expect_ok(&script, "drain n2");
    expect_node(&script, "n2", DOWN);
    expect_ok(&script, "drain n3");
    expect_ok(&script, "node n3 agent_lost");
    expect_ok(&script, "drain n3");
    expect_node(&script, "n3", AGENT_LOST);
    expect_status(&script, NODE_DRAINING, "register k nodes=n2");
    script_restore(&script);
    expect_ok(&script, "node n2 ready boot=c2"); /* another boot */
    expect_node(&script, "n2", DRAINED);
    expect_ok(&script, "node n3 ready boot=b3");
    expect_node(&script, "n3", DRAINED);
    expect_ok(&script, "drain n2 undo");
    expect_node(&script, "n2", READY);
    moves_of(&script, "n2", moves);
    assert_string_equal(moves, "1361");
    moves_of(&script, "n3", moves);
    assert_string_equal(moves, "1656");
    script_close(&script);
}

/* L-002: a state of its own, told once; what is undone is as it was heard. */
static void a_node_is_draining_until_it_is_drained(void **unused)
{
    struct script script;
    char moves[64];

    (void)unused;
    start(&script, "");
    expect_ok(&script, "register j nodes=n1,n2");
    expect_ok(&script, "drain n1");
    expect_node(&script, "n1", DRAINING);
    expect_ok(&script, "node n1 degraded"); /* it is silent, and still draining */
    expect_node(&script, "n1", DRAINING);
    expect_ok(&script, "end j");
    expect_node(&script, "n1", DRAINED);
    script_restore(&script);
    expect_ok(&script, "drain n1 undo");
    expect_node(&script, "n1", DEGRADED);
    moves_of(&script, "n1", moves);
    assert_string_equal(moves, "1462");
    script_close(&script);
}

/* L-003: at once: what runs there is ended by orders, and requeued or failed as its policy says;
 * neither a registration nor a restart comes there. It stays so until it is undone, also over a
 * reboot. */
static void a_disabled_node_is_out_of_use_at_once(void **unused)
{
    struct script script;
    char moves[64];

    (void)unused;
    start(&script, "");
    expect_ok(&script, "register j nodes=n1,n2");
    expect_ok(&script, "register k nodes=n1 requeue=never");
    expect_ok(&script, "request j");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 started j ckpt=1-1");
    expect_ok(&script, "drain n1 disable");
    expect_node(&script, "n1", DISABLED);
    assert_true(job_of(&script, "j")->terminating);
    assert_true(job_of(&script, "k")->terminating);
    expect_ok(&script, "report n1 terminated j");
    expect_job(&script, "j", RUNNING); /* its agents are there: each says that it is done */
    expect_ok(&script, "report n2 terminated j");
    expect_ok(&script, "report n1 terminated k");
    expect_job(&script, "j", REQUEUED);
    expect_job(&script, "k", FAILED);
    assert_int_equal(node_of(&script, "n1")->failure_count, 0); /* it was meant */
    expect_status(&script, NODE_DISABLED, "register l nodes=n1");
    assert_string_equal(script.outcome.subject, "n1");
    expect_status(&script, NODE_DISABLED, "restart j nodes=n1,n3 from_scratch");
    script_restore(&script);
    expect_ok(&script, "restart j nodes=n2,n3 from_scratch"); /* nothing of it is unheard */
    expect_ok(&script, "node n1 ready boot=c1");
    expect_node(&script, "n1", DISABLED);
    expect_ok(&script, "node n1 down witness=bmc");
    expect_ok(&script, "node n1 ready boot=d1");
    expect_node(&script, "n1", DISABLED);
    expect_ok(&script, "drain n1 undo");
    expect_node(&script, "n1", READY);
    moves_of(&script, "n1", moves);
    assert_string_equal(moves, "17371");
    script_close(&script);
}

/* Members of the release before decide as they did: a silence is enough, a drain ends with it. */
static void level_1_is_as_it_was(void **unused)
{
    struct script script;

    (void)unused;
    start(&script, "level=1");
    expect_ok(&script, "node n2 down");
    expect_node(&script, "n2", DOWN);
    expect_ok(&script, "drain n2");
    expect_node(&script, "n2", DRAINING);
    expect_ok(&script, "node n2 down");
    expect_ok(&script, "node n2 ready");
    expect_node(&script, "n2", READY);
    expect_ok(&script, "drain n3");
    expect_node(&script, "n3", DRAINING);
    expect_ok(&script, "policy level=2"); /* it is drained, by the rules from now on */
    expect_status(&script, NODE_DRAINING, "register j nodes=n3");
    expect_ok(&script, "node n3 ready boot=b3");
    expect_node(&script, "n3", DRAINED);
    expect_ok(&script, "drain n3 undo");
    expect_node(&script, "n3", READY);
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_the_drawing),
        cmocka_unit_test(a_silence_alone_is_a_lost_agent),
        cmocka_unit_test(two_witnesses_make_it_down),
        cmocka_unit_test(a_word_that_does_not_count_yet_waits),
        cmocka_unit_test(a_drain_of_a_node_that_is_down_leaves_it_down),
        cmocka_unit_test(a_node_is_draining_until_it_is_drained),
        cmocka_unit_test(a_disabled_node_is_out_of_use_at_once),
        cmocka_unit_test(level_1_is_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
