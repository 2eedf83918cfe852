/* What `ckptctl explain` asks, prints and refuses (U9). */
#include <time.h>

#include "src/cli/instant.h"
#include "src/rpc/server.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

#define TEXT(literal) ((char *)(uintptr_t)(literal))

/* One of everything. */
struct explanation {
    Ckpt__V1__ExplainReply reply;
    Ckpt__V1__DecisionTerms terms;
    Ckpt__V1__ExplainInput inputs[4], *input_pointers[4];
    Ckpt__V1__ExplainPart parts[3], *part_pointers[3];
    Ckpt__V1__ExplainChange change;
    Ckpt__V1__ExplainGrant grant;
    char *guards[2];
};

static void terms_init(Ckpt__V1__DecisionTerms *terms)
{
    ckpt__v1__decision_terms__init(terms);
    terms->value_gpu_ms = 41902000;
    terms->recompute_saved_gpu_ms = 39120000;
    terms->preemptability_gpu_ms = 2782000;
    terms->cost_gpu_ms = 58310000;
    terms->compute_waste_gpu_ms = 57856000;
    terms->storage_cost_gpu_ms = 454000;
    terms->failure_probability_ppm = 59400;
    terms->age_ms = 1252000;
    terms->gpu_count = 512;
    terms->size_bytes = UINT64_C(5120000000000);
    terms->write_ms = 512000;
    terms->bandwidth_bytes_per_s = UINT64_C(10000000000);
    terms->young_daly_ms = 10680000;
    terms->verdict = TEXT("value_below_cost");
    terms->weighed_nodes = 64;
}

static void input_init(struct explanation *e, size_t i, const char *name, const char *value,
                       const char *source)
{
    ckpt__v1__explain_input__init(&e->inputs[i]);
    e->inputs[i].name = TEXT(name);
    e->inputs[i].value = TEXT(value);
    e->inputs[i].source = TEXT(source);
    e->inputs[i].heard = true;
    e->input_pointers[i] = &e->inputs[i];
}

static void inputs_init(struct explanation *e)
{
    double age_s = 1252;

    input_init(e, 0, "age_s", "1252", "replicated state");
    memcpy(&e->inputs[0].bits, &age_s, sizeof(age_s));
    input_init(e, 1, "hazard_factor", "1.3700000000000001", "heartbeats of its nodes");
    e->inputs[1].aged = true;
    e->inputs[1].age_ms = 4000;
    input_init(e, 2, "flags", "", "replicated state");
    input_init(e, 3, "pressure", "0.80000000000000004", "queue reports");
    e->inputs[3].aged = true;
    e->inputs[3].age_ms = 12000;
    e->inputs[3].of_policy = true;
    e->reply.n_inputs = 4;
    e->reply.inputs = e->input_pointers;
}

static void parts_init(struct explanation *e)
{
    for (int i = 0; i < 3; i++) {
        ckpt__v1__explain_part__init(&e->parts[i]);
        e->part_pointers[i] = &e->parts[i];
    }
    e->parts[0].term = TEXT("recompute_saved");
    e->parts[0].what = TEXT("work");
    e->parts[0].raw = TEXT("641024");
    e->parts[0].raw_unit = TEXT("GPU-s");
    e->parts[0].weight = TEXT("0.061027293580021216");
    e->parts[0].weight_unit = TEXT("share");
    e->parts[0].gpu_ms = 39120000;
    e->parts[1].term = TEXT("compute_waste");
    e->parts[1].what = TEXT("pause");
    e->parts[1].raw = TEXT("113");
    e->parts[1].raw_unit = TEXT("s");
    e->parts[1].weight = TEXT("512");
    e->parts[1].weight_unit = TEXT("GPUs that stand still");
    e->parts[1].gpu_ms = 57856000;
    e->parts[2].term = TEXT("storage_cost");
    e->parts[2].what = TEXT("keeping it");
    e->parts[2].raw = TEXT("0.25222222222222224");
    e->parts[2].raw_unit = TEXT("USD");
    e->parts[2].weight = TEXT("1800");
    e->parts[2].weight_unit = TEXT("GPU-s per USD");
    e->parts[2].gpu_ms = 454000;
    e->reply.n_parts = 3;
    e->reply.parts = e->part_pointers;
}

static void explanation_init(struct explanation *e)
{
    memset(e, 0, sizeof(*e));
    ckpt__v1__explain_reply__init(&e->reply);
    terms_init(&e->terms);
    e->reply.terms = &e->terms;
    e->reply.allocation_id = TEXT("a-1");
    e->reply.evaluated_at_ms = 1700000000000;
    e->reply.flips_when = TEXT("last-checkpoint age >= 3h11m (in 52m) | bandwidth >= 14 GB/s");
    e->reply.weighed_by = TEXT("64 nodes x 8");
    e->reply.leader_id = 2;
    e->reply.term = 7;
    e->reply.source = CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_LAST;
    e->guards[0] = TEXT("min_interval: ok (1252.0 s of progress at stake)");
    e->guards[1] = TEXT("health: ok (inputs 4 s old)");
    e->reply.n_guards = 2;
    e->reply.guards = e->guards;
    inputs_init(e);
    parts_init(e);
    ckpt__v1__explain_change__init(&e->change);
    e->change.input = TEXT("bandwidth_bytes_per_s");
    e->change.from = TEXT("10000000000");
    e->change.to = TEXT("13999999999.999998");
    e->change.relative_ppm = 400000;
    e->reply.change = &e->change;
    ckpt__v1__explain_grant__init(&e->grant);
    e->grant.target_id = TEXT("scratch");
    e->grant.available = true;
    e->grant.budget_bytes_per_s = UINT64_C(40000000000);
    e->grant.granted_bytes_per_s = UINT64_C(10000000000);
    e->grant.phi_gpu_s_per_gb = TEXT("0.5");
    e->reply.grant = &e->grant;
}

static Ckpt__V1__Restoring *restoring;        /* of the job; NULL: it does not */
static Ckpt__V1__ReleaseCheck *release_check; /* likewise */

static void run(struct harness *h, const struct explanation *e, const char *words, int code)
{
    static Ckpt__V1__Allocation job;
    static Ckpt__V1__AllocationSpec spec;

    ckpt__v1__allocation__init(&job);
    ckpt__v1__allocation_spec__init(&spec);
    spec.allocation_id = TEXT("a-1");
    spec.tenant = TEXT("physics");
    job.spec = &spec;
    job.restoring = restoring;
    job.release_check = release_check;
    job.state = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING;
    job.state_since_ms = 1700000000000 - 51780000;
    harness_init(h);
    harness_answer(h, NULL, "BrokerService/Explain", RPC_OK, NULL, &e->reply.base);
    harness_answer(h, NULL, "BrokerService/GetAllocation", RPC_OK, NULL, &job.base);
    assert_int_equal(harness_run(h, words), code);
}

static void assert_golden(const char *got, const char *expected)
{
    if (strcmp(got, expected) != 0)
        fprintf(stderr, "got:\n%s", got);
    assert_string_equal(got, expected);
}

/* U9, S1-018 */
static void an_evaluation_is_printed_with_terms_inputs_and_what_would_flip_it(void **state)
{
    struct explanation e;
    struct harness h;

    (void)state;
    explanation_init(&e);
    run(&h, &e, "--endpoints a:1 explain a-1", CLI_OK);
    assert_golden(
        h.out,
        "JOB a-1 (tenant physics, 0 nodes, running since 2023-11-14 07:50:20)  decision: SKIP at "
        "2023-11-14 22:13:20 (leader member 2, term 7, value_below_cost)\n"
        " value 41 902 GPU-s   recompute 39 120 (0.061 × 641 024 at stake, p=0.0594)  preempt 2 "
        "782  backlog 0\n"
        " cost  58 310 GPU-s   write 8m32s of 4.7 TiB @ 10.0 GB/s  pause 57 856  bandwidth 0  "
        "storage 454\n"
        " counts as 64 nodes x 8\n"
        " flips when: last-checkpoint age >= 3h11m (in 52m) | bandwidth >= 14 GB/s\n"
        " smallest single change: bandwidth_bytes_per_s from 1e+10 to 1.4e+10 (40%)\n"
        " guards: min_interval: ok (1252.0 s of progress at stake)\n         health: ok (inputs 4 "
        "s old)\n"
        " grant: 10.0 GB/s of 40.0 GB/s granted on scratch; a GB cost 0.5 GPU-s\n"
        " Young/Daly for this job: 2h58m   work since the last checkpoint: 20m52s\n"
        " tenant physics\n"
        "\n"
        "TERM                  RAW  UNIT   OF             WEIGHT  WHICH IS                GPU-S\n"
        "recompute_saved    641024  GPU-s  work        0.0610273  share                  39 120\n"
        "compute_waste         113  s      pause             512  GPUs that stand still  57 856\n"
        "storage_cost     0.252222  USD    keeping it       1800  GPU-s per USD             454\n"
        "\n"
        "INPUT          VALUE   AGE  FROM\n"
        "age_s           1252     -  replicated state\n"
        "hazard_factor   1.37  4.0s  heartbeats of its nodes\n"
        "flags           none     -  replicated state\n"
        "pressure         0.8   12s  queue reports (all jobs)\n");
    harness_close(&h);
}

static void what_a_job_waits_for_is_explained(void **state)
{
    Ckpt__V1__Restoring line = CKPT__V1__RESTORING__INIT;
    Ckpt__V1__ReleaseCheck check = CKPT__V1__RELEASE_CHECK__INIT;
    struct explanation e;
    struct harness h;

    (void)state;
    explanation_init(&e);
    line.target_id = TEXT("scratch");
    line.waiting_parts = 4;
    line.place = 2;
    line.line = 3;
    check.node_id = TEXT("n7");
    check.checkpoint_id = (UINT64_C(1) << 40) | 42;
    check.part = 1;
    check.parts = 4;
    check.until_ms = 1700000000000;
    restoring = &line;
    release_check = &check;
    run(&h, &e, "--endpoints a:1 explain a-1", CLI_OK);
    assert_contains(h.out, " waits to read its checkpoint: 2 of 3 at target scratch, 4 parts\n");
    assert_contains(h.out, " a-1 keeps its nodes until 2023-11-14 22:13:20 at the latest: node n7 "
                           "reads what it saved (checkpoint 1-42, part 1 of 4) before they go\n");
    harness_close(&h);
    restoring = NULL;
    release_check = NULL;
}

static void a_decision_of_the_log_says_whether_it_was_reproduced(void **state)
{
    struct explanation e;
    struct harness h;

    (void)state;
    explanation_init(&e);
    e.reply.source = CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_LOG;
    e.reply.match = CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_SAME;
    e.reply.checkpoint = true;
    e.reply.checkpoint_id = (UINT64_C(1) << 40) + 42;
    e.reply.index = 918233;
    run(&h, &e, "--endpoints a:1 explain --checkpoint 1-42", CLI_OK);
    assert_int_equal(h.call_count > 0, 1);
    assert_contains(h.out, "decision: CHECKPOINT at 2023-11-14 22:13:20 (leader member 2, term 7, "
                           "entry 918233, checkpoint 1-42, value_below_cost)\n"
                           " reproduced bit for bit from the inputs in the log\n");
    harness_close(&h);
    e.reply.match = CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_DIFFERS;
    e.reply.match_detail = TEXT("compute_waste_gpu_ms");
    run(&h, &e, "--endpoints a:1 explain --checkpoint 1-42", CLI_FAILED);
    assert_contains(h.out, " NOT REPRODUCED: compute_waste_gpu_ms computed from");
    harness_close(&h);
    e.reply.match = CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_OTHER_VERSION;
    e.reply.match_detail = TEXT("revision 2 of the model, this version has 1");
    run(&h, &e, "--endpoints a:1 explain --checkpoint 1-42", CLI_OK);
    assert_contains(h.out, " cannot be reproduced by this version: made from revision 2");
    harness_close(&h);
    e.reply.match = CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_NO_INPUTS;
    run(&h, &e, "--endpoints a:1 explain a-1 -o json", CLI_OK);
    assert_contains(h.out, "\"match\": \"NO_INPUTS\"");
    assert_contains(h.out, "\"to\": \"13999999999.999998\"");
    assert_contains(h.out, "\"bits\": 4653221169678254080");
    harness_close(&h);
}

static void wrong_words_are_refused_before_anybody_is_asked(void **state)
{
    static const struct {
        const char *words, *error;
    } cases[] = {
        {"explain", "explain wants a job, or a checkpoint instead"},
        {"explain a-1 --checkpoint 1-2", "explain wants a job, or a checkpoint instead"},
        {"explain --checkpoint 1-2 --at 5m", "--at and --checkpoint exclude each other"},
        {"explain --checkpoint 17", "\"17\" is not a checkpoint id"},
        {"explain a-1 --at yesterday", "\"yesterday\" is no instant: 10m (ago), 10:31:07"}};
    struct harness h;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        harness_init(&h);
        assert_int_equal(harness_run(&h, cases[i].words), CLI_USAGE);
        assert_contains(h.error, cases[i].error);
        assert_int_equal(h.call_count, 0);
        harness_close(&h);
    }
}

static uint64_t instant(const char *text, int code)
{
    uint64_t ms = 0;
    struct err err;

    if (instant_parse(text, UINT64_C(1700000000500), &ms, &err) != code)
        fail_msg("%s", text);
    return ms;
}

static void instants_are_read_as_people_type_them(void **state)
{
    static const char *const wrong[] = {"",
                                        "10",
                                        "24:00",
                                        "10:60",
                                        "10:31:61",
                                        "1:2",
                                        "2023-11-14",
                                        "2023-13-14T10:31:07",
                                        "10:31:07x",
                                        "170000000000",
                                        "5 minutes ago",
                                        "-5m",
                                        "2023-11-14T10:31:07+1"};

    (void)state;
    assert_uint_equal(instant("0s", 0), 1700000000500);
    assert_uint_equal(instant("10m", 0), 1700000000500 - 600000);
    assert_uint_equal(instant("22:13:20", 0), 1700000000000);
    assert_uint_equal(instant("22:13", 0), 1700000000000 - 20000);
    assert_uint_equal(instant("22:13:21", 0), 1700000001000 - 86400000); /* yesterday */
    assert_uint_equal(instant("1700000000123", 0), 1700000000123);
    assert_uint_equal(instant("2023-11-14T22:13:20", 0), 1700000000000);
    assert_uint_equal(instant("2023-11-14T22:13:20.250+0000", 0), 1700000000250);
    assert_uint_equal(instant("2023-11-14 23:13:20+0100", 0), 1700000000000);
    assert_uint_equal(instant("2023-11-14T22:13:20Z", 0), 1700000000000);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        instant(wrong[i], -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_evaluation_is_printed_with_terms_inputs_and_what_would_flip_it),
        cmocka_unit_test(what_a_job_waits_for_is_explained),
        cmocka_unit_test(a_decision_of_the_log_says_whether_it_was_reproduced),
        cmocka_unit_test(wrong_words_are_refused_before_anybody_is_asked),
        cmocka_unit_test(instants_are_read_as_people_type_them),
    };

    setenv("TZ", "UTC", 1);
    tzset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
