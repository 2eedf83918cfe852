/* Fields of a registration: each is an option by its descriptor, sent as typed, and shown by `job`
 * and `explain`. */
#include "src/rpc/server.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

static const ProtobufCMessageDescriptor *const type = &ckpt__v1__allocation_spec__descriptor;

/* The last value of an enum, without the prefix that all of its names have. */
static const char *last_of(const ProtobufCEnumDescriptor *type_of)
{
    static char word[40];
    size_t prefix = strlen(type_of->values[0].name) - strlen("UNSPECIFIED");

    snprintf(word, sizeof(word), " %s", type_of->values[type_of->n_values - 1].name + prefix);
    return word;
}

/* A word that the option takes and that says something. */
static const char *word_for(const ProtobufCFieldDescriptor *field)
{
    size_t stem;

    if (field->type == PROTOBUF_C_TYPE_BOOL)
        return "";
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return " word";
    if (field->type == PROTOBUF_C_TYPE_ENUM)
        return last_of(field->descriptor);
    return number_named(field->name, &stem) == NUMBER_DURATION ? " 90m"
           : number_named(field->name, &stem) == NUMBER_RATE   ? " 2GB/s"
                                                               : " 7";
}

/* Its name on the command line and in the views. */
static void words_of(const ProtobufCFieldDescriptor *field, char option[40], char shown[40])
{
    static const char *const odd[][2] = {{"allocation_id", "alloc"},
                                         {"preemption_class", "class"},
                                         {"requeue_policy", "requeue"},
                                         {"target_id", "target"}};
    size_t stem;

    number_named(field->name, &stem);
    snprintf(option, 40, "%.*s", (int)stem, field->name);
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        if (strcmp(odd[i][0], field->name) == 0)
            snprintf(option, 40, "%s", odd[i][1]);
    snprintf(shown, 40, "%s", option);
    for (size_t i = 0; option[i] != '\0'; i++) {
        option[i] = option[i] == '_' ? '-' : option[i];
        shown[i] = shown[i] == '_' ? ' ' : shown[i];
    }
}

static const char *value_shown(const ProtobufCFieldDescriptor *field)
{
    const char *word = word_for(field);

    return strcmp(word, " 90m") == 0 ? " 1h30m" : strcmp(word, " 2GB/s") == 0 ? " 2.0 GB/s" : word;
}

static bool is_option(const ProtobufCFieldDescriptor *field)
{
    return field->label != PROTOBUF_C_LABEL_REPEATED && strstr(field->name, "_at_ms") == NULL &&
           strcmp(field->name, "attributes") != 0; /* --attr, below */
}

static void each_field_is_an_option_and_shown(void **state)
{
    static char id[] = "a";
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    Ckpt__V1__Allocation job = CKPT__V1__ALLOCATION__INIT;
    Ckpt__V1__ExplainReply explained = CKPT__V1__EXPLAIN_REPLY__INIT;
    struct harness h;

    (void)state;
    explained.allocation_id = id;
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        Ckpt__V1__RegisterAllocationRequest *request;
        Ckpt__V1__AllocationSpec *sent;
        char option[40], shown[40], words[200], text[200];

        if (!is_option(field) || strcmp(field->name, "allocation_id") == 0)
            continue;
        harness_init(&h);
        harness_answer(&h, NULL, "BrokerService/RegisterAllocation", RPC_OK, NULL, &reply.base);
        words_of(field, option, shown);
        snprintf(words, sizeof(words), "register --alloc a --new-node --node n1:8 --%s%s", option,
                 word_for(field));
        if (harness_run(&h, words) != CLI_OK)
            fail_msg("%s: %s", words, h.error);
        request = (Ckpt__V1__RegisterAllocationRequest *)h.last_request;
        h.last_request = NULL; /* the job that is shown is the one that was sent */
        sent = request->spec;
        assert_string_equal(sent->allocation_id, "a");
        assert_string_equal(sent->nodes[0]->node_id, "n1");
        job.spec = sent;
        harness_answer(&h, NULL, "BrokerService/GetAllocation", RPC_OK, NULL, &job.base);
        harness_answer(&h, NULL, "BrokerService/Explain", RPC_OK, NULL, &explained.base);
        snprintf(text, sizeof(text), "\n %s%s\n", shown, value_shown(field));
        assert_int_equal(harness_run(&h, "job a"), CLI_OK);
        assert_contains(h.out, text);
        assert_int_equal(harness_run(&h, "--endpoints a:1 explain a"), CLI_OK);
        assert_contains(h.out, text);
        protobuf_c_message_free_unpacked(&request->base, NULL);
        harness_close(&h);
    }
}

/* A line each; a list of files keeps its commas. The profile follows, unless one is named.
 * S5-010. */
static void attributes_are_words_of_their_own(void **state)
{
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    const Ckpt__V1__RegisterAllocationRequest *sent;
    struct harness h;

    (void)state;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/RegisterAllocation", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h,
                                 "register --alloc a --new-node --node n1:8 "
                                 "--attr +WantCheckpointSignal=TRUE --attr TransferOutput=a,b/c"),
                     CLI_OK);
    sent = (const Ckpt__V1__RegisterAllocationRequest *)h.last_request;
    assert_string_equal(sent->spec->attributes, "+WantCheckpointSignal=TRUE\nTransferOutput=a,b/c");
    assert_string_equal(sent->spec->profile, "file");
    assert_int_equal(harness_run(&h, "register --alloc a --new-node --node n1:8 --profile grpc "
                                     "--attr checkpoint_exit_code=85"),
                     CLI_OK);
    sent = (const Ckpt__V1__RegisterAllocationRequest *)h.last_request;
    assert_string_equal(sent->spec->attributes, "checkpoint_exit_code=85");
    assert_string_equal(sent->spec->profile, "grpc"); /* the state refuses it */
    harness_close(&h);
}

/* S1-015: whatever the API takes of a waiting job, without a client of its own. */
static void a_queue_report_says_how_urgent_and_sensitive_a_job_is(void **state)
{
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;
    const Ckpt__V1__ReportQueueRequest *sent;
    struct harness h;

    (void)state;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/ReportQueue", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "queue report v --queued 9h --waiting "
                                     "a:1:8,b:2:4:5m:2.5,c:10:1:::sensitive"),
                     CLI_OK);
    sent = (const Ckpt__V1__ReportQueueRequest *)h.last_request;
    assert_int_equal(sent->n_waiting, 3);
    assert_int_equal(sent->waiting[0]->urgency_milli, 1000);
    assert_int_equal(sent->waiting[1]->urgency_milli, 2500);
    assert_int_equal(sent->waiting[1]->waited_ms, 300000);
    assert_false(sent->waiting[1]->sensitive);
    assert_int_equal(sent->waiting[2]->urgency_milli, 1000);
    assert_true(sent->waiting[2]->sensitive);
    harness_close(&h);
}

/* A period that never comes true is said when it is given; a policy that cannot be read is no
 * reason to say anything. */
static void a_period_below_the_policys_minimum_is_said(void **state)
{
    Ckpt__V1__MutationReply done = CKPT__V1__MUTATION_REPLY__INIT;
    Ckpt__V1__GetPolicyReply reply = CKPT__V1__GET_POLICY_REPLY__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    struct harness h;
    const char registered[] = "register --alloc a --tenant t --project p --owner o --new-node "
                              "--node n1:8 --period ";
    char words[160];

    (void)state;
    policy.min_interval_ms = 300000;
    policy.sensitive_min_interval_ms = 600000;
    reply.policy = &policy;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/RegisterAllocation", RPC_OK, NULL, &done.base);
    harness_answer(&h, NULL, "BrokerService/UpdateAllocation", RPC_OK, NULL, &done.base);
    snprintf(words, sizeof(words), "%s30s", registered);
    assert_int_equal(harness_run(&h, words), CLI_OK);
    assert_null(strstr(h.error, "period"));
    assert_null(strstr(h.error, "policy"));
    harness_answer(&h, NULL, "OperatorService/GetPolicy", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, words), CLI_OK);
    assert_contains(h.error, "its period 30s is below the policy's minimal interval 5m00s: it is "
                             "checkpointed at most once in 5m00s");
    assert_string_equal(h.last_method, "BrokerService/RegisterAllocation");
    assert_int_equal(harness_run(&h, "update a --period 299s"), CLI_OK);
    assert_contains(h.error, "its period 4m59s is below");
    snprintf(words, sizeof(words), "%s5m", registered);
    assert_int_equal(harness_run(&h, words), CLI_OK);
    assert_null(strstr(h.error, "period"));
    snprintf(words, sizeof(words), "%s5m --sensitive", registered);
    assert_int_equal(harness_run(&h, words), CLI_OK);
    assert_contains(h.error, "minimal interval 10m00s");
    snprintf(words, sizeof(words), "%s1h --walltime 1h", registered);
    assert_int_equal(harness_run(&h, words), CLI_OK);
    assert_contains(h.error, "its period 1h00m is no shorter than its walltime 1h00m: the job is "
                             "ended before a checkpoint is made by it");
    snprintf(words, sizeof(words), "%s59m --walltime 1h", registered);
    assert_int_equal(harness_run(&h, words), CLI_OK);
    assert_null(strstr(h.error, "period"));
    harness_close(&h);
}

/* The limit is the state machine's. */
static void a_number_beyond_its_limit_is_refused_before_it_is_sent(void **state)
{
    static const struct {
        const char *words, *error;
    } cases[] = {
        {"--class 11", "--class: \"11\" is out of range; 0 to 10 are taken"},
        {"--max-requeue 101", "0 to 100 are taken"},
        {"--reactive-max-nodes 4097", "0 to 4096 are taken"},
        {"--walltime 3651d", "out of range"},
        {"--grace 30", "is not a duration"},
        {"--strategy often", "\"often\" is not one of AUTO, MANUAL, NONE"},
        {"--started-at 1", "unknown option --started-at"},
    };
    struct harness h;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char words[120];

        harness_init(&h);
        snprintf(words, sizeof(words), "register --alloc a --node n1:8 %s", cases[i].words);
        assert_int_equal(harness_run(&h, words), CLI_USAGE);
        assert_contains(h.error, cases[i].error);
        assert_int_equal(h.call_count, 0);
        harness_close(&h);
    }
}

/* What the help says is the .proto's comment; no line is wider than a page. */
static void the_help_of_a_field_is_its_comment(void **state)
{
    struct harness h;
    size_t width;

    (void)state;
    harness_init(&h);
    assert_int_equal(harness_run(&h, "help register"), CLI_OK);
    assert_contains(h.out, "  --max-requeue N                        requeued at most so often");
    assert_contains(h.out,
                    "  --requeue WORD                         the failures after which it is "
                    "queued again: NEVER,\n");
    assert_contains(h.out,
                    "  --profile PROFILE                      how the agent asks it: signal");
    for (const char *line = h.out; *line != '\0'; line += width + (line[width] != '\0')) {
        width = strcspn(line, "\n");
        if (width > 100)
            fail_msg("%.*s", (int)width, line);
    }
    harness_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_is_an_option_and_shown),
        cmocka_unit_test(attributes_are_words_of_their_own),
        cmocka_unit_test(a_period_below_the_policys_minimum_is_said),
        cmocka_unit_test(a_number_beyond_its_limit_is_refused_before_it_is_sent),
        cmocka_unit_test(the_help_of_a_field_is_its_comment),
        cmocka_unit_test(a_queue_report_says_how_urgent_and_sensitive_a_job_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
