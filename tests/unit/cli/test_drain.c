/* Drains, as an operator reads them: each refusal, plan and outcome of `node drain`, `undrain` and
 * `disable`, and of `target drain`, and how a node and the events tell of one. L-001, L-002,
 * L-003 */
#include "fsm/names.h"
#include "src/cli/event_text.h"
#include "src/rpc/server.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

static const char node_call[] = "OperatorService/DrainNode";
static const char target_call[] = "OperatorService/DrainTarget";

/* Nothing is sent. */
static void what_cannot_be_is_refused_before_anything_is_sent(void **state)
{
    static const char one_way[] =
        "error: node drain takes one of --urgent, --move and --at-next-checkpoint\n"
        "  try: ckptctl node drain NODE --move --deadline 10m\n";
    static const struct {
        const char *words, *error;
        int code;
        const char *input; /* typed at the question; NULL: there is no terminal */
    } cases[] = {
        {"node drain n --move --urgent --yes", one_way, CLI_USAGE, NULL},
        {"node drain n --urgent --at-next-checkpoint --yes", one_way, CLI_USAGE, NULL},
        {"node drain n --move --urgent --at-next-checkpoint --yes", one_way, CLI_USAGE, NULL},
        {"node drain", "error: node drain needs NODE\n  try: ckptctl help node drain\n", CLI_USAGE,
         NULL},
        {"node drain n m", "node drain takes no further argument: \"m\"", CLI_USAGE, NULL},
        {"node drain n --deadline 5", "--deadline: \"5\" is not a duration", CLI_USAGE, NULL},
        {"node drain n --deadline 0s", "--deadline: \"0s\" is out of range", CLI_USAGE, NULL},
        {"node drain n",
         "plan: drain node n; what runs there runs on\n"
         "error: node drain needs --yes when stdin is not a terminal\n"
         "  try: the same command with --yes, or with --dry-run\n",
         CLI_USAGE, NULL},
        {"node drain n", "error: not done: the answer was not yes\n", CLI_REFUSED, "no\n"},
        {"node disable n", "error: node disable needs --yes when stdin is not a terminal\n",
         CLI_USAGE, NULL},
        {"target drain", "error: target drain needs TARGET\n", CLI_USAGE, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct harness h;

        harness_init(&h);
        h.input = cases[i].input;
        assert_int_equal(harness_run(&h, cases[i].words), cases[i].code);
        assert_contains(h.error, cases[i].error);
        assert_string_equal(h.out, "");
        assert_uint_equal(h.call_count, 0);
        harness_close(&h);
    }
}

/* The whole of what is read, and the request. */
static void each_way_says_what_becomes_of_the_jobs(void **state)
{
    static const struct {
        const char *options, *plan;
        bool urgent, move, at_next_checkpoint;
        uint64_t deadline_ms;
    } cases[] = {
        {"", "; what runs there runs on", false, false, false, 0},
        {" --urgent",
         "; each job on it that can write a checkpoint now is asked for one, and runs on", true,
         false, false, 0},
        {" --move",
         "; each job on it leaves with a checkpoint, of now where it can write one now; a job of "
         "strategy none stays",
         false, true, false, 0},
        {" --at-next-checkpoint",
         "; each job on it leaves with its next checkpoint; a job of strategy none stays", false,
         false, true, 0},
        {" --move --deadline 10m",
         "; each job on it leaves with a checkpoint, of now where it can write one now; a job of "
         "strategy none stays; what is there is ended, with its last checkpoint, after 10m00s",
         false, true, false, 600000},
        {" --deadline 90s",
         "; what runs there runs on; what is there is ended, with its last checkpoint, after 1m30s",
         false, false, false, 90000},
    };
    Ckpt__V1__MutationReply done = CKPT__V1__MUTATION_REPLY__INIT;

    (void)state;
    done.index = 7;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const Ckpt__V1__DrainNodeRequest *sent;
        struct harness h;
        char words[96], plan[400];

        harness_init(&h);
        harness_answer(&h, NULL, node_call, RPC_OK, NULL, &done.base);
        snprintf(words, sizeof(words), "node drain gpu-b%s --yes", cases[i].options);
        snprintf(plan, sizeof(plan), "plan: drain node gpu-b%s\n", cases[i].plan);
        assert_int_equal(harness_run(&h, words), CLI_OK);
        assert_string_equal(h.error, plan);
        assert_string_equal(h.out, "done: drain node gpu-b (index 7)\n");
        sent = (const Ckpt__V1__DrainNodeRequest *)(const void *)h.last_request;
        assert_string_equal(sent->node_id, "gpu-b");
        assert_int_equal(sent->urgent, cases[i].urgent);
        assert_int_equal(sent->move, cases[i].move);
        assert_int_equal(sent->at_next_checkpoint, cases[i].at_next_checkpoint);
        assert_uint_equal(sent->deadline_ms, cases[i].deadline_ms);
        assert_false(sent->undo || sent->disable);
        harness_close(&h);
    }
}

static void the_other_verbs_say_what_they_do(void **state)
{
    static const struct {
        const char *words, *method, *error, *out;
    } cases[] = {
        {"node undrain gpu-b", node_call, "", "done: undrain node gpu-b (index 7)\n"},
        {"node disable gpu-b --yes", node_call,
         "plan: disable node gpu-b; every job on it is ended now, without a checkpoint, and "
         "requeued or failed as its policy says (ckptctl node gpu-b shows what is lost)\n",
         "done: disable node gpu-b (index 7)\n"},
        {"target drain scratch", target_call, "", "done: drain target scratch (index 7)\n"},
        {"target drain scratch --undo", target_call, "",
         "done: undrain target scratch (index 7)\n"},
    };
    Ckpt__V1__MutationReply done = CKPT__V1__MUTATION_REPLY__INIT;

    (void)state;
    done.index = 7;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct harness h;

        harness_init(&h);
        harness_answer(&h, NULL, cases[i].method, RPC_OK, NULL, &done.base);
        assert_int_equal(harness_run(&h, cases[i].words), CLI_OK);
        assert_string_equal(h.error, cases[i].error);
        assert_string_equal(h.out, cases[i].out);
        harness_close(&h);
    }
}

/* As the state machine refuses them, with the step that it names on a line of its own. */
static void each_refusal_of_the_cluster_has_its_next_step(void **state)
{
    static const struct {
        const char *words, *method;
        int status;
        const char *text;
        int code;
        const char *error;
    } cases[] = {
        {"node drain gpu-x --yes", node_call, RPC_NOT_FOUND,
         "NODE_NOT_FOUND: no such node; ckptctl nodes lists them", CLI_NOT_FOUND,
         "error: cannot drain node gpu-x: NODE_NOT_FOUND: no such node\n  try: ckptctl nodes lists "
         "them\n"},
        {"node undrain gpu-x", node_call, RPC_NOT_FOUND,
         "NODE_NOT_FOUND: no such node; ckptctl nodes lists them", CLI_NOT_FOUND,
         "error: cannot undrain node gpu-x: NODE_NOT_FOUND: no such node\n"},
        {"node disable gpu-x --yes", node_call, RPC_NOT_FOUND,
         "NODE_NOT_FOUND: no such node; ckptctl nodes lists them", CLI_NOT_FOUND,
         "error: cannot disable node gpu-x: NODE_NOT_FOUND: no such node\n"},
        {"node drain gpu-b --move --yes", node_call, RPC_FAILED_PRECONDITION,
         "FEATURE_LEVEL: move needs level 2", CLI_REFUSED,
         "error: cannot drain node gpu-b: FEATURE_LEVEL: move needs level 2\n"},
        {"node drain gpu-b --yes", node_call, RPC_PERMISSION_DENIED, "role viewer", CLI_AUTH,
         "error: cannot drain node gpu-b: PERMISSION_DENIED: role viewer\n"},
        {"target drain nix", target_call, RPC_NOT_FOUND,
         "TARGET_NOT_FOUND: no such storage target; ckptctl targets lists them", CLI_NOT_FOUND,
         "error: cannot drain target nix: TARGET_NOT_FOUND: no such storage target\n  try: ckptctl "
         "targets lists them\n"},
        {"target drain scratch", target_call, RPC_FAILED_PRECONDITION,
         "TARGET_IS_DEFAULT: it is the default one: jobs that name no target write there; make "
         "another one the default first: ckptctl target put TARGET --default",
         CLI_REFUSED,
         "jobs that name no target write there\n  try: make another one the default first: ckptctl "
         "target put TARGET --default\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct harness h;

        harness_init(&h);
        harness_answer(&h, NULL, cases[i].method, cases[i].status, cases[i].text, NULL);
        assert_int_equal(harness_run(&h, cases[i].words), cases[i].code);
        assert_contains(h.error, cases[i].error);
        assert_string_equal(h.out, "");
        harness_close(&h);
    }
}

static void a_node_says_how_its_drain_stands(void **state)
{
    static const struct {
        const char *state, *wanted;
        uint64_t until_ms;
        const char *out;
    } cases[] = {
        {"draining", "drain", 0, "node gpu-b is draining; 2 jobs\n"},
        {"draining", "drain", 91000,
         "node gpu-b is draining; 2 jobs\nwhat is there at 1970-01-01 00:01:31 is ended\n"},
        {"drained", "drain", 0, "node gpu-b is drained; 2 jobs\n"},
        {"disabled", "disable", 0, "node gpu-b is disabled; 2 jobs\n"},
        {"down", "drain", 0, "node gpu-b is down, to be drained when it is back; 2 jobs\n"},
        {"agent_lost", "disable", 0,
         "node gpu-b is agent_lost, to be disabled when it is back; 2 jobs\n"},
    };
    static char name[] = "gpu-b";

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Ckpt__V1__NodeStatus node = CKPT__V1__NODE_STATUS__INIT;
        Ckpt__V1__GetNodeReply reply = CKPT__V1__GET_NODE_REPLY__INIT;
        struct harness h;

        node.node_id = name;
        node.state = (char *)(uintptr_t)cases[i].state;
        node.wanted = (char *)(uintptr_t)cases[i].wanted;
        node.drain_until_ms = cases[i].until_ms;
        reply.node = &node;
        reply.job_count = 2;
        harness_init(&h);
        harness_answer(&h, NULL, "OperatorService/GetNode", RPC_OK, NULL, &reply.base);
        assert_int_equal(harness_run(&h, "node gpu-b"), CLI_OK);
        assert_contains(h.out, cases[i].out);
        harness_close(&h);
    }
}

static void events_tell_of_drains(void **state)
{
    static const struct {
        Ckpt__V1__EventKind kind;
        uint32_t new_state;
        const char *text;
    } cases[] = {
        {CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_DRAINED, 0, "node x drained: no job is left there"},
        {CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_DRAINED, 1,
         "target x is drained: new checkpoints go elsewhere"},
        {CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_DRAINED, 0, "target x is back in use"},
    };
    static char subject[] = "x";

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Ckpt__V1__Event event = CKPT__V1__EVENT__INIT;
        struct event_history history = {""};
        char text[EVENT_TEXT_BYTES];

        event.kind = cases[i].kind;
        event.subject = subject;
        event.new_state = cases[i].new_state;
        event_text(&event, &history, false, text);
        assert_contains(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_refused_before_anything_is_sent),
        cmocka_unit_test(each_way_says_what_becomes_of_the_jobs),
        cmocka_unit_test(the_other_verbs_say_what_they_do),
        cmocka_unit_test(each_refusal_of_the_cluster_has_its_next_step),
        cmocka_unit_test(a_node_says_how_its_drain_stands),
        cmocka_unit_test(events_tell_of_drains),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
