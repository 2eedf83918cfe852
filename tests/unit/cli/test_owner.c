/* The owner's verbs: what they call, and their texts in an owner's words. V-014 */
#include "src/cli/owner.h"

#include <string.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/rpc/server.h"
#include "tests/support/test.h"

static char asked[64];
static Ckpt__V1__RestartAllocationRequest restarted;
static int status;

/* The agent, which passes it on. */
static int agent(void *context, const char *endpoint, const struct client_request *request,
                 ProtobufCMessage **ret_reply, struct err *err)
{
    const struct cli *cli = context;
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    uint8_t bytes[64];

    assert_null(endpoint);
    assert_string_equal(cli->endpoints, "/tmp/agent.sock");
    snprintf(asked, sizeof(asked), "%s", request->method);
    if (strcmp(request->method, "BrokerService/RestartAllocation") == 0)
        restarted = *(const Ckpt__V1__RestartAllocationRequest *)(const void *)request->message;
    if (status != RPC_OK) {
        err_set(err, ERR_IO,
                "NOT_RESTARTABLE: it is not stopped; ckptctl job JOB shows when and why");
        return status;
    }
    assert_ptr_equal(request->reply_type, &ckpt__v1__mutation_reply__descriptor);
    reply.index = 7;
    *ret_reply = protobuf_c_message_unpack(request->reply_type, NULL,
                                           ckpt__v1__mutation_reply__pack(&reply, bytes), bytes);
    return RPC_OK;
}

static int run(const char *line)
{
    char copy[256], *words[16], *rest = copy;
    int count = 0;

    snprintf(copy, sizeof(copy), "%s", line);
    asked[0] = '\0';
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        words[count++] = word;
    words[count] = NULL;
    return owner_run(count, words, agent);
}

/* An option of operators is none of theirs. */
static void each_verb_asks_what_ckptctl_asks_of_an_own_job(void **state)
{
    static const struct {
        const char *line, *method;
        int code;
    } cases[] = {
        {"hint j --socket /tmp/agent.sock", "BrokerService/RequestCheckpoint", 0},
        {"restart j --from-scratch --socket /tmp/agent.sock", "BrokerService/RestartAllocation", 0},
        {"migrate j --socket /tmp/agent.sock", "BrokerService/RequestMigration", 0},
        {"pin 1-42 --socket /tmp/agent.sock", "OperatorService/PinCheckpoint", 0},
        {"unpin 1-42 --socket /tmp/agent.sock", "OperatorService/PinCheckpoint", 0},
        {"hint --socket /tmp/agent.sock", "", 125},
        {"hint j --after STOP", "", 125},
        {"hint j --endpoints 127.0.0.1:7443", "", 125},
        {"restart j --node n1:1", "", 125},
        {"losses --tenant t", "", 125},
        {"pin j", "", 125}};

    (void)state;
    status = RPC_OK;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(run(cases[i].line), cases[i].code);
        assert_string_equal(asked, cases[i].method);
    }
    assert_true(restarted.from_scratch);
    assert_int_equal(restarted.n_nodes, 0);
    assert_null(owner_verb("register")); /* it has options of its own */
    assert_null(owner_verb("policy"));
}

static void exit_codes_are_those_of_ckpt_run(void **state)
{
    static const struct {
        int status, code;
    } cases[] = {{RPC_NOT_FOUND, 3},     {RPC_FAILED_PRECONDITION, 4}, {RPC_PERMISSION_DENIED, 4},
                 {RPC_UNAVAILABLE, 125}, {RPC_DEADLINE_EXCEEDED, 6},   {RPC_INTERNAL, 1}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        status = cases[i].status;
        assert_int_equal(run("restart j --socket /tmp/agent.sock"), cases[i].code);
    }
    status = RPC_OK;
}

static void texts_name_what_an_owner_can_do(void **state)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"no such job; ckptctl jobs lists them",
         "no such job; ckpt-run status lists yours of a node"},
        {"ckptctl job j shows it", "ckpt-run status --alloc j shows it"},
        {"(ckptctl hint j asks now)", "(ckpt-run hint j asks now)"},
        {"ckptctl restart j --from-scratch", "ckpt-run restart j --from-scratch"},
        {"ckptctl restart j --node n1:1 ...", "an operator's ckptctl restart j --node n1:1 ..."},
        {"ckptctl checkpoint pin 1-1, ckptctl checkpoint 1-1",
         "ckpt-run pin 1-1, ckpt-run checkpoint 1-1"},
        {"ckptctl register --alloc NEW --continues j",
         "ckpt-run register --alloc NEW --continues j"},
        {"ckptctl end, ckptctl restart", "ckpt-run end, ckpt-run restart"},
        {"ckptctl help hint", "ckpt-run hint --help"},
        {"ckptctl node down n1 --is-off", "an operator's ckptctl node down n1 --is-off"},
        {"ckptctl", "ckptctl"},
        {"", ""}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char *said = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&said, &length);

        assert_non_null(out);
        owner_words(out, cases[i].text);
        fclose(out);
        assert_string_equal(said, cases[i].said);
        free(said);
    }
}

static char *continues(const char *id, uint64_t walltime_ms)
{
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    Ckpt__V1__NodeShare nodes[2] = {CKPT__V1__NODE_SHARE__INIT, CKPT__V1__NODE_SHARE__INIT};
    Ckpt__V1__NodeShare *list[] = {&nodes[0], &nodes[1]};
    static char n1[] = "n1", n2[] = "n2", tenant[] = "t", project[] = "p";
    char *said = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&said, &length);

    assert_non_null(out);
    nodes[0].node_id = n1;
    nodes[0].gpu_count = 8;
    nodes[1].node_id = n2;
    nodes[1].gpu_count = 4;
    spec.allocation_id = (char *)(uintptr_t)id;
    spec.tenant = tenant;
    spec.project = project;
    spec.walltime_ms = walltime_ms;
    spec.nodes = list;
    spec.n_nodes = 2;
    spec.strategy = CKPT__V1__STRATEGY__STRATEGY_MANUAL;
    spec.restore = CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN;
    owner_continue_print(out, &spec, NULL);
    fclose(out);
    return said;
}

static void the_line_that_goes_on_has_a_new_id_and_the_old_options(void **state)
{
    char *said = continues("12345", 86400000);

    (void)state;
    assert_string_equal(said, "ckpt-run register --alloc 12345-2 --continues 12345 --tenant t "
                              "--project p --walltime 86400s --gpus 8 --node n2:4 --strategy "
                              "MANUAL");
    free(said);
    said = continues("run-2", 0);
    assert_non_null(strstr(said, "--alloc run-3 --continues run-2 "));
    free(said);
}

/* Those of the list, with a blank before and behind each. */
static bool is_used(void *context, const char *id)
{
    char word[ID_MAX_BYTES + 3];

    snprintf(word, sizeof(word), " %s ", id);
    return strstr(context, word) != NULL;
}

static const char *ids_used = "";

/* How a job of one node goes on, as its ckpt-run says last. V-014 */
static char *next_of(Ckpt__V1__Allocation *job)
{
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    Ckpt__V1__NodeShare share = CKPT__V1__NODE_SHARE__INIT;
    Ckpt__V1__NodeShare *list[] = {&share};
    static char node[] = "n1", id[] = "j", tenant[] = "t", project[] = "p";
    char *said = NULL, used[128];
    const struct owner_ids ids = {is_used, used};
    size_t length = 0;
    FILE *out = open_memstream(&said, &length);

    assert_non_null(out);
    share.node_id = node;
    spec.allocation_id = id;
    spec.tenant = tenant;
    spec.project = project;
    spec.nodes = list;
    spec.n_nodes = 1;
    job->spec = &spec;
    snprintf(used, sizeof(used), "%s", ids_used);
    owner_job_next(out, job, &ids);
    fclose(out);
    return said;
}

static void each_end_says_the_line_that_is_typed_next(void **state)
{
#define STATE(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define UNDER_NEW   "ckpt-run register --alloc j-2 "
#define WHOSE       "--tenant t --project p, and the same line with that --alloc\n"
    static const struct {
        Ckpt__V1__AllocationState state;
        uint64_t checkpoint_id, restart_at_ms;
        const char *continued_by, *said; /* NULL: it was moved */
    } cases[] = {
        {STATE(COMPLETED), (UINT64_C(1) << 40) | 7, 0, "",
         "job j is completed; from checkpoint 1-7 under a new id: " UNDER_NEW
         "--continues j " WHOSE},
        {STATE(COMPLETED), 0, 0, "", "job j is completed; anew under a new id: " UNDER_NEW WHOSE},
        {STATE(COMPLETED), (UINT64_C(1) << 40) | 7, 0, "k",
         "job j is completed; job k goes on from its checkpoints\n"},
        {STATE(FAILED), (UINT64_C(1) << 40) | 7, 0, "",
         "job j is failed; it goes on by ckpt-run restart j and the same line, or from checkpoint "
         "1-7 under a new id: " UNDER_NEW "--continues j " WHOSE},
        {STATE(FAILED), 0, 0, "",
         "job j is failed; it goes on by ckpt-run restart j --from-scratch and the same line, or "
         "anew under a new id: " UNDER_NEW WHOSE},
        {STATE(REQUEUED), 0, 0, "",
         "job j is requeued; it goes on by ckpt-run restart j --from-scratch and the same line\n"},
        {STATE(REQUEUED), 0, 5, "",
         "job j is requeued; it goes on by the same line: the cluster restarts it when enough of "
         "its ckpt-runs wait\n"},
        {STATE(REQUEUED), 7, 5, NULL,
         "job j is requeued; it goes on by the same line on another node; where it was, after "
         "ckpt-run restart j\n"},
        {STATE(SUSPENDED), 7, 0, "",
         "job j is suspended; it goes on by ckpt-run restart j and the same line\n"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        Ckpt__V1__Allocation job = CKPT__V1__ALLOCATION__INIT;
        char *said;

        job.state = cases[i].state;
        job.next_restart_checkpoint_id = cases[i].checkpoint_id;
        job.restart_at_ms = cases[i].restart_at_ms;
        if (cases[i].continued_by != NULL)
            job.continued_by = (char *)(uintptr_t)cases[i].continued_by;
        else
            job.reason = CKPT__V1__REASON__REASON_MIGRATED;
        said = next_of(&job);
        assert_string_equal(said, cases[i].said);
        free(said);
    }
}

/* A job that went on by its own line already, or a name that the owner gave: not proposed again. */
static void the_new_id_is_one_that_is_not_taken(void **state)
{
    static const struct {
        const char *used, *said;
    } cases[] = {{"", " --alloc j-2 "},
                 {" j j-3 ", " --alloc j-2 "},
                 {" j-2 ", " --alloc j-3 "},
                 {" j-2 j-3 j-5 ", " --alloc j-4 "},
                 {" j-2 j-3 j-4 j-5 j-6 j-7 j-8 j-9 ", " --alloc j-N "}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        Ckpt__V1__Allocation job = CKPT__V1__ALLOCATION__INIT;
        char *said;

        ids_used = cases[i].used;
        job.state = STATE(COMPLETED);
        said = next_of(&job);
        assert_contains(said, cases[i].said);
        free(said);
    }
    ids_used = "";
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_end_says_the_line_that_is_typed_next),
        cmocka_unit_test(the_new_id_is_one_that_is_not_taken),
        cmocka_unit_test(each_verb_asks_what_ckptctl_asks_of_an_own_job),
        cmocka_unit_test(exit_codes_are_those_of_ckpt_run),
        cmocka_unit_test(texts_name_what_an_owner_can_do),
        cmocka_unit_test(the_line_that_goes_on_has_a_new_id_and_the_old_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
