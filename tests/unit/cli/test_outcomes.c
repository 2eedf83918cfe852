/* gRPC statuses become exit codes, messages and next commands (U6, U7); changes are safe to
 * repeat. */
#include "src/cli/commands.h"
#include "src/cli/option_tables.h"
#include "src/rpc/server.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

static void each_status_has_its_exit_code_and_next_command(void **state)
{
    static const struct {
        int status;
        const char *text;
        int code;
        const char *error;
    } outcomes[] = {
        {RPC_INVALID_ARGUMENT, "INVALID_ID: an id is not", CLI_USAGE, "try: correct the id"},
        {RPC_NOT_FOUND, "ALLOCATION_NOT_FOUND: no such allocation; ckptctl jobs lists them",
         CLI_NOT_FOUND,
         "error: cannot request a checkpoint of j: ALLOCATION_NOT_FOUND: no such allocation\n  "
         "try: "
         "ckptctl jobs lists them\n"},
        {RPC_FAILED_PRECONDITION, "STORAGE_UNAVAILABLE: the destination is unavailable",
         CLI_REFUSED, "try: ckptctl targets says why; ask again when it is available"},
        {RPC_FAILED_PRECONDITION, "POOL_REFUSED: x; name such a target", CLI_REFUSED,
         "--pool sensitive"},
        {RPC_ALREADY_EXISTS, "ALLOCATION_EXISTS: x", CLI_REFUSED, "try: ckptctl job JOB"},
        {RPC_RESOURCE_EXHAUSTED, "FULL: 16384 wait", CLI_REFUSED, "FULL: 16384 wait"},
        {RPC_FAILED_PRECONDITION, "TRANSFER_REFUSED: n3 lags", CLI_REFUSED, "TRANSFER_REFUSED"},
        {RPC_UNAVAILABLE, "NOT_LEADER: member n1 does not lead", CLI_NO_LEADER,
         "none of 1 members at a:1 answers"},
        {RPC_UNAVAILABLE, "connection refused", CLI_NO_LEADER, "connection refused"},
        {RPC_DEADLINE_EXCEEDED, "no answer in time", CLI_TIMEOUT, "--request-id "},
        {RPC_UNAVAILABLE, "OUTCOME_UNKNOWN: leadership was lost", CLI_TIMEOUT, "--request-id "},
        {RPC_PERMISSION_DENIED, "role viewer", CLI_AUTH, "PERMISSION_DENIED: role viewer"},
        {RPC_UNAUTHENTICATED, "no certificate", CLI_AUTH, "UNAUTHENTICATED: no certificate"},
        {RPC_UNIMPLEMENTED, "UNIMPLEMENTED: this version cannot", CLI_FAILED,
         "try: see the release"},
        {RPC_INTERNAL, "boom \033[2J", CLI_FAILED, "INTERNAL: boom ?[2J"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        struct harness h;
        int code;

        harness_init(&h);
        harness_answer(&h, NULL, "BrokerService/RequestCheckpoint", outcomes[i].status,
                       outcomes[i].text, NULL);
        code = harness_run(&h, "--endpoints a:1 hint j");
        if (code != outcomes[i].code)
            print_error("%s: exit %d\n%s", outcomes[i].text, code, h.error);
        assert_int_equal(code, outcomes[i].code);
        assert_contains(h.error, outcomes[i].error);
        assert_string_equal(h.out, "");
        harness_close(&h);
    }
}

/* The checkpoints of a target that is written wrong are none; so are those of an empty one. */
static void scrub_of_a_target_that_is_unknown_says_so(void **state)
{
    static char scratch[] = "scratch";
    Ckpt__V1__ListCheckpointsReply none = CKPT__V1__LIST_CHECKPOINTS_REPLY__INIT;
    Ckpt__V1__ListTargetsReply reply = CKPT__V1__LIST_TARGETS_REPLY__INIT;
    Ckpt__V1__TargetStatus target = CKPT__V1__TARGET_STATUS__INIT, *targets[] = {&target};
    Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;
    struct harness h;

    (void)state;
    spec.target_id = scratch;
    target.spec = &spec;
    reply.targets = targets;
    reply.n_targets = 1;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/ListCheckpoints", RPC_OK, NULL, &none.base);
    harness_answer(&h, NULL, "OperatorService/ListTargets", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "scrub --target nix"), CLI_NOT_FOUND);
    assert_contains(h.error, "no storage target is named nix");
    assert_int_equal(harness_run(&h, "scrub --target scratch"), CLI_NOT_FOUND);
    assert_contains(h.error, "no complete checkpoint");
    harness_close(&h);
}

/* S2-007: what is computed again is not thrown away without a word. */
static void a_restart_says_from_what_it_begins(void **state)
{
    static char vault[] = "vault";
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    Ckpt__V1__Discard discard = CKPT__V1__DISCARD__INIT;
    struct harness h;

    (void)state;
    reply.index = 1221;
    reply.checkpoint_id = (UINT64_C(1) << 40) | 175;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/RestartAllocation", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "restart k2"), CLI_OK);
    assert_string_equal(h.out,
                        "done: restart job k2 (index 1221): it begins from checkpoint 1-175\n");
    assert_string_equal(h.error, "");
    discard.target_id = vault;
    discard.discarded_ms = 115000;
    reply.discard = &discard;
    assert_int_equal(harness_run(&h, "restart k2"), CLI_OK);
    assert_contains(h.out, "begins from checkpoint 1-175\n");
    assert_contains(h.error, "warning: target vault is away, and the job waits for it");
    discard.discard_at_ms = 1700000000000;
    assert_int_equal(harness_run(&h, "restart k2"), CLI_OK);
    assert_contains(h.error, "warning: target vault is away: unless it is back before");
    assert_contains(h.error, "repeats 1m55s of its run time");
    discard.begun = true;
    reply.checkpoint_id = 0;
    assert_int_equal(harness_run(&h, "restart k2"), CLI_OK);
    assert_string_equal(h.out, "done: restart job k2 (index 1221): it begins from scratch\n");
    assert_contains(h.error, "warning: it repeats 1m55s of its run time: target vault is away");
    harness_close(&h);
}

static void a_prefix_in_another_ones_is_warned_of(void **state)
{
    static char a[] = "a", prefix[] = "/x/a";
    Ckpt__V1__MutationReply done = CKPT__V1__MUTATION_REPLY__INIT;
    Ckpt__V1__ListTargetsReply reply = CKPT__V1__LIST_TARGETS_REPLY__INIT;
    Ckpt__V1__TargetStatus target = CKPT__V1__TARGET_STATUS__INIT, *targets[] = {&target};
    Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;
    struct harness h;

    (void)state;
    spec.target_id = a;
    spec.prefix = prefix;
    target.spec = &spec;
    reply.targets = targets;
    reply.n_targets = 1;
    done.index = 7;
    harness_init(&h);
    harness_answer(&h, NULL, "OperatorService/PutTarget", RPC_OK, NULL, &done.base);
    harness_answer(&h, NULL, "OperatorService/ListTargets", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "target put b --prefix /x/a/b --write 1GB/s"), CLI_OK);
    assert_contains(h.error, "warning: its prefix and that of target a are one, or one lies in");
    assert_int_equal(harness_run(&h, "target put b --prefix /x/ab --write 1GB/s"), CLI_OK);
    assert_string_equal(h.error, "");
    assert_int_equal(harness_run(&h, "target put a --prefix /x/a --write 1GB/s"), CLI_OK);
    assert_string_equal(h.error, ""); /* its own */
    harness_close(&h);
}

/* One rule for scripts: what changes something takes --yes, whether it asks first or not. */
static void every_change_takes_yes_and_nothing_else_does(void **state)
{
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    struct harness h;
    size_t table, position;

    (void)state;
    for (const struct command *c = commands; c->name != NULL; c++)
        assert_true((option_tables_find(c, "yes", 3, 0, &table, &position) != NULL) ==
                    (c->kind == COMMAND_CHANGES));
    reply.index = 7;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/RequestMigration", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "migrate j --yes"), CLI_OK);
    assert_int_equal(harness_run(&h, "jobs --yes"), CLI_USAGE);
    harness_close(&h);
}

static void a_target_is_drained_with_and_without_yes(void **state)
{
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    struct harness h;

    (void)state;
    reply.index = 7;
    harness_init(&h);
    harness_answer(&h, NULL, "OperatorService/DrainTarget", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "target drain scratch --yes"), CLI_OK);
    assert_int_equal(harness_run(&h, "target drain scratch"), CLI_OK);
    harness_close(&h);
}

static void an_unknown_outcome_prints_the_request_id_that_was_sent(void **state)
{
    struct harness h;
    char expected[128];

    (void)state;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/RequestCheckpoint", RPC_DEADLINE_EXCEEDED, "late",
                   NULL);
    assert_int_equal(harness_run(&h, "--endpoints a:1 hint j"), CLI_TIMEOUT);
    const char *sent = ((const Ckpt__V1__RequestCheckpointRequest *)h.last_request)->request_id;

    assert_int_equal(strlen(sent), 32);
    snprintf(expected, sizeof(expected), "--request-id %s", sent);
    assert_contains(h.error, expected);
    assert_int_equal(harness_run(&h, "--endpoints a:1 hint j --request-id mine-1"), CLI_TIMEOUT);
    assert_string_equal(((const Ckpt__V1__RequestCheckpointRequest *)h.last_request)->request_id,
                        "mine-1");
    assert_contains(h.error, "request id mine-1");
    harness_close(&h);
}

static void a_read_without_quorum_says_so_and_not_timeout(void **state)
{
    Ckpt__V1__StatusReply status = CKPT__V1__STATUS_REPLY__INIT;
    struct harness h;

    (void)state;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/ListAllocations", RPC_DEADLINE_EXCEEDED, "late", NULL);
    harness_answer(&h, "a:1", "OperatorService/Status", RPC_OK, NULL, &status.base);
    assert_int_equal(harness_run(&h, "--endpoints a:1,b:1 jobs"), CLI_NO_LEADER);
    assert_contains(h.error, "no leader, no quorum (1 of 2 members answer)");
    assert_contains(h.error, "try: ckptctl status");
    status.voter_count = 3; /* two of them hear each other: nothing is to be started */
    status.reachable_count = 2;
    harness_answer(&h, "b:1", "OperatorService/Status", RPC_OK, NULL, &status.base);
    assert_int_equal(harness_run(&h, "--endpoints a:1,b:1 jobs"), CLI_NO_LEADER);
    assert_contains(h.error, "no leader, an election is under way (2 of 2 members answer)");
    status.quorum = true;
    status.leader_id = 1;
    assert_int_equal(harness_run(&h, "--endpoints a:1,b:1 jobs"), CLI_TIMEOUT);
    harness_close(&h);
}

/* Far or busy members answer late: who leads with a quorum, or follows such a leader, knows better
 * than who counts answers. */
static void a_read_goes_on_where_a_quorum_is_known_though_few_answer_soon(void **state)
{
    Ckpt__V1__StatusReply status = CKPT__V1__STATUS_REPLY__INIT;
    Ckpt__V1__ListAllocationsReply list = CKPT__V1__LIST_ALLOCATIONS_REPLY__INIT;
    struct harness h;

    (void)state;
    for (unsigned quorum = 0; quorum <= 1; quorum++) {
        harness_init(&h);
        status.voter_count = 3;
        status.quorum = quorum != 0;
        harness_answer(&h, NULL, "BrokerService/ListAllocations", RPC_DEADLINE_EXCEEDED, "late",
                       NULL);
        h.answers[0].turns = 1;
        harness_answer(&h, NULL, "BrokerService/ListAllocations", RPC_OK, NULL, &list.base);
        harness_answer(&h, "a:1", "OperatorService/Status", RPC_OK, NULL, &status.base);
        assert_int_equal(harness_run(&h, "--endpoints a:1,b:1,c:1 jobs"),
                         quorum != 0 ? CLI_OK : CLI_NO_LEADER);
        if (quorum == 0)
            assert_contains(h.error, "no quorum, 1 of 3 members answer");
        harness_close(&h);
    }
}

/* A job on a misspelt node would never start. */
static void a_node_without_an_agent_is_taken_only_on_demand(void **state)
{
    static const struct {
        const char *words, *method, *error;
    } cases[] = {{"register --alloc a --node n1:8,n2:8", "BrokerService/RegisterAllocation",
                  "no agent has ever spoken from node n2"},
                 {"register --alloc a --node n3:8", "BrokerService/RegisterAllocation",
                  "no agent has ever spoken from node n3"},
                 {"update a --node n1:8,n3:8", "BrokerService/UpdateAllocation",
                  "no agent has ever spoken from node n3"},
                 {"restart a --node n3:8", "BrokerService/RestartAllocation",
                  "no agent has ever spoken from node n3"}};
    static char known[] = "n1", silent[] = "n2", boot[] = "b";
    Ckpt__V1__NodeStatus nodes[2] = {CKPT__V1__NODE_STATUS__INIT, CKPT__V1__NODE_STATUS__INIT};
    Ckpt__V1__NodeStatus *pointers[2] = {&nodes[0], &nodes[1]};
    Ckpt__V1__ListNodesReply list = CKPT__V1__LIST_NODES_REPLY__INIT;
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    struct harness h;

    (void)state;
    nodes[0].node_id = known;
    nodes[0].boot_id = boot;
    nodes[1].node_id = silent; /* of another registration; no agent spoke */
    list.nodes = pointers;
    list.n_nodes = 2;
    harness_init(&h);
    harness_answer(&h, NULL, "OperatorService/ListNodes", RPC_OK, NULL, &list.base);
    harness_answer(&h, NULL, "BrokerService/RegisterAllocation", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "register --alloc a --tenant t --project p --node n1:8"),
                     CLI_OK);
    assert_string_equal(h.last_method, "BrokerService/RegisterAllocation");
    harness_answer(&h, NULL, "BrokerService/UpdateAllocation", RPC_OK, NULL, &reply.base);
    harness_answer(&h, NULL, "BrokerService/RestartAllocation", RPC_OK, NULL, &reply.base);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char words[80];

        assert_int_equal(harness_run(&h, cases[i].words), CLI_REFUSED);
        assert_string_equal(h.last_method, "OperatorService/ListNodes");
        assert_contains(h.error, cases[i].error);
        assert_contains(h.error, "--new-node");
        snprintf(words, sizeof(words), "%s --new-node", cases[i].words);
        assert_int_equal(harness_run(&h, words), CLI_OK);
        assert_string_equal(h.last_method, cases[i].method);
    }
    assert_int_equal(harness_run(&h, "restart a"), CLI_OK); /* on its old ones */
    harness_close(&h);
}

static void success_prints_index_and_checkpoint(void **state)
{
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    struct harness h;

    (void)state;
    reply.index = 918233;
    reply.checkpoint_id = (UINT64_C(1) << 40) | 42;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/RequestCheckpoint", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "hint j"), CLI_OK);
    assert_string_equal(h.out, "done: request a checkpoint of j (index 918233, checkpoint 1-42)\n");
    assert_int_equal(harness_run(&h, "hint j -o name"), CLI_OK);
    assert_string_equal(h.out, "1-42\n");
    assert_int_equal(harness_run(&h, "hint j -o jsonl"), CLI_OK);
    assert_string_equal(h.out,
                        "{\"version\":1,\"reply\":{\"index\":918233,\"checkpoint_id\":\"1-42\","
                        "\"repeated\":false,\"status\":0,\"discard\":null}}\n");
    reply.repeated = true;
    assert_int_equal(harness_run(&h, "hint j"), CLI_OK);
    assert_contains(h.out, "the outcome of the first request");
    harness_close(&h);
}

static void waiting_ends_with_the_checkpoint(void **state)
{
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    Ckpt__V1__Checkpoint writing = CKPT__V1__CHECKPOINT__INIT, ended = CKPT__V1__CHECKPOINT__INIT;
    Ckpt__V1__Checkpoint *first = &writing, *second = &ended;
    Ckpt__V1__ListCheckpointsReply before = CKPT__V1__LIST_CHECKPOINTS_REPLY__INIT;
    Ckpt__V1__ListCheckpointsReply after = CKPT__V1__LIST_CHECKPOINTS_REPLY__INIT;

    (void)state;
    reply.checkpoint_id = writing.checkpoint_id = ended.checkpoint_id = (UINT64_C(1) << 40) | 42;
    writing.state = CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_WRITING;
    before.n_checkpoints = after.n_checkpoints = 1;
    before.checkpoints = &first;
    after.checkpoints = &second;
    for (int failed = 0; failed < 2; failed++) {
        struct harness h;

        harness_init(&h);
        ended.state = failed ? CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_FAILED
                             : CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE;
        ended.reason = failed ? CKPT__V1__REASON__REASON_WRITE_FAILED : 0;
        harness_answer(&h, NULL, "BrokerService/RequestCheckpoint", RPC_OK, NULL, &reply.base);
        harness_answer(&h, NULL, "BrokerService/ListCheckpoints", RPC_OK, NULL, &before.base);
        h.answers[1].turns = 2;
        harness_answer(&h, NULL, "BrokerService/ListCheckpoints", RPC_OK, NULL, &after.base);
        assert_int_equal(harness_run(&h, "hint j --wait"), failed ? CLI_FAILED : CLI_OK);
        assert_contains(h.out, failed ? "checkpoint 1-42 FAILED" : "checkpoint 1-42 COMPLETE");
        assert_contains(h.error, "checkpoint 1-42 WRITING");
        if (failed)
            assert_contains(h.error, "ended FAILED: write failed");
        assert_uint_equal(h.call_count, 4);
        harness_close(&h);
    }
}

static void waiting_longer_than_allowed_leaves_the_outcome_open(void **state)
{
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    Ckpt__V1__Checkpoint writing = CKPT__V1__CHECKPOINT__INIT;
    Ckpt__V1__Checkpoint *first = &writing;
    Ckpt__V1__ListCheckpointsReply list = CKPT__V1__LIST_CHECKPOINTS_REPLY__INIT;
    struct harness h;

    (void)state;
    reply.checkpoint_id = writing.checkpoint_id = 5;
    writing.state = CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED;
    list.n_checkpoints = 1;
    list.checkpoints = &first;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/RequestCheckpoint", RPC_OK, NULL, &reply.base);
    harness_answer(&h, NULL, "BrokerService/ListCheckpoints", RPC_OK, NULL, &list.base);
    assert_int_equal(harness_run(&h, "hint j --wait --wait-for 20ms"), CLI_TIMEOUT);
    assert_contains(h.error, "it goes on");
    harness_close(&h);
}

static void destructive_commands_ask_on_a_terminal(void **state)
{
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    struct harness h;

    (void)state;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/EndAllocation", RPC_OK, NULL, &reply.base);
    h.input = "no\n";
    assert_int_equal(harness_run(&h, "end j"), CLI_REFUSED);
    assert_uint_equal(h.call_count, 0);
    h.input = "yes\n";
    assert_int_equal(harness_run(&h, "end j --failed --reason node_down"), CLI_OK);
    assert_contains(h.error,
                    "plan: end job j as FAILED, or REQUEUED where its requeue policy asks for "
                    "another run; its active");
    assert_int_equal(((const Ckpt__V1__EndAllocationRequest *)h.last_request)->reason,
                     CKPT__V1__REASON__REASON_NODE_DOWN);
    h.input = NULL;
    assert_int_equal(harness_run(&h, "end j --yes"), CLI_OK);
    assert_uint_equal(h.call_count, 2);
    harness_close(&h);
}

/* U6 */
static void a_request_id_tells_what_came_of_it(void **state)
{
    static char id[] = "r-1", command[] = "register_allocation", ok[] = "OK",
                refused[] = "ALLOCATION_EXISTS", text[] = "the allocation exists; end it";
    Ckpt__V1__RequestOutcome outcome = CKPT__V1__REQUEST_OUTCOME__INIT;
    struct harness h;

    (void)state;
    outcome.request_id = id;
    outcome.command = command;
    outcome.status_name = ok;
    outcome.index = 17;
    outcome.checkpoint_id = (UINT64_C(1) << 40) | 3;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/GetRequest", RPC_OK, NULL, &outcome.base);
    assert_int_equal(harness_run(&h, "request r-1"), CLI_OK);
    assert_string_equal(((const Ckpt__V1__GetRequestRequest *)h.last_request)->request_id, "r-1");
    assert_non_null(strstr(h.out, "REQUEST r-1  register_allocation took effect at"));
    assert_non_null(strstr(h.out, "(index 17, checkpoint 1-3)"));
    outcome.status = 3;
    outcome.status_name = refused;
    outcome.text = text;
    assert_int_equal(harness_run(&h, "request r-1"), CLI_REFUSED);
    assert_non_null(strstr(h.out, "was refused"));
    assert_non_null(strstr(h.out, "ALLOCATION_EXISTS: the allocation exists; end it"));
    assert_int_equal(harness_run(&h, "request a/b"), CLI_USAGE);
    harness_close(&h);
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/GetRequest", RPC_NOT_FOUND,
                   "REQUEST_NOT_FOUND: no request with this id is remembered", NULL);
    assert_int_equal(harness_run(&h, "request r-2"), CLI_NOT_FOUND);
    harness_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_id_tells_what_came_of_it),
        cmocka_unit_test(a_node_without_an_agent_is_taken_only_on_demand),
        cmocka_unit_test(each_status_has_its_exit_code_and_next_command),
        cmocka_unit_test(scrub_of_a_target_that_is_unknown_says_so),
        cmocka_unit_test(a_restart_says_from_what_it_begins),
        cmocka_unit_test(a_prefix_in_another_ones_is_warned_of),
        cmocka_unit_test(every_change_takes_yes_and_nothing_else_does),
        cmocka_unit_test(a_target_is_drained_with_and_without_yes),
        cmocka_unit_test(an_unknown_outcome_prints_the_request_id_that_was_sent),
        cmocka_unit_test(a_read_without_quorum_says_so_and_not_timeout),
        cmocka_unit_test(a_read_goes_on_where_a_quorum_is_known_though_few_answer_soon),
        cmocka_unit_test(success_prints_index_and_checkpoint),
        cmocka_unit_test(waiting_ends_with_the_checkpoint),
        cmocka_unit_test(waiting_longer_than_allowed_leaves_the_outcome_open),
        cmocka_unit_test(destructive_commands_ask_on_a_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
