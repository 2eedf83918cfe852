/* What commands print about jobs, checkpoints, decisions and preemptions. */
#include <time.h>

#include "src/rpc/server.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

struct jobs {
    Ckpt__V1__NodeShare share;
    Ckpt__V1__NodeShare *shares[2];
    Ckpt__V1__AllocationSpec specs[3];
    Ckpt__V1__Allocation items[3];
    Ckpt__V1__Allocation *pointers[3];
};

/* a-1 and a-2 are of class 2, a-3 is sensitive; all run on two nodes of 8 GPUs. */
static void jobs_init(struct jobs *jobs)
{
    static char n1[] = "n1", tenant[] = "physics";
    static char ids[3][4] = {"a-1", "a-2", "a-3"};

    ckpt__v1__node_share__init(&jobs->share);
    jobs->share.node_id = n1;
    jobs->share.gpu_count = 8;
    jobs->shares[0] = jobs->shares[1] = &jobs->share;
    for (size_t i = 0; i < 3; i++) {
        ckpt__v1__allocation_spec__init(&jobs->specs[i]);
        ckpt__v1__allocation__init(&jobs->items[i]);
        jobs->specs[i].allocation_id = ids[i];
        jobs->specs[i].tenant = tenant;
        jobs->specs[i].preemption_class = 2;
        jobs->specs[i].sensitive = i == 2;
        jobs->specs[i].nodes = jobs->shares;
        jobs->specs[i].n_nodes = 2;
        jobs->items[i].spec = &jobs->specs[i];
        jobs->items[i].state = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING;
        jobs->pointers[i] = &jobs->items[i];
    }
    jobs->items[0].last_complete_checkpoint_id = (UINT64_C(1) << 40) | 42;
}

static void a_list_is_read_to_its_last_page(void **state)
{
    static char token[] = "a-2";
    Ckpt__V1__ListAllocationsReply first = CKPT__V1__LIST_ALLOCATIONS_REPLY__INIT;
    Ckpt__V1__ListAllocationsReply last = CKPT__V1__LIST_ALLOCATIONS_REPLY__INIT;
    struct jobs jobs;
    struct harness h;

    (void)state;
    jobs_init(&jobs);
    first.allocations = jobs.pointers;
    first.n_allocations = 2;
    first.next_page_token = token;
    last.allocations = jobs.pointers + 2;
    last.n_allocations = 1;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/ListAllocations", RPC_OK, NULL, &first.base);
    h.answers[0].turns = 1;
    harness_answer(&h, NULL, "BrokerService/ListAllocations", RPC_OK, NULL, &last.base);
    assert_int_equal(harness_run(&h, "jobs -o name --state RUNNING --tenant physics"), CLI_OK);
    assert_string_equal(h.out, "a-1\na-2\na-3\n");
    const Ckpt__V1__ListAllocationsRequest *request =
        (const Ckpt__V1__ListAllocationsRequest *)h.last_request;

    assert_string_equal(request->page_token, "a-2");
    assert_string_equal(request->tenant, "physics");
    assert_int_equal(request->state, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING);
    harness_close(&h);
}

static void assert_not_saved(struct jobs *jobs, Ckpt__V1__AllocationState state, uint64_t done,
                             const char *expected)
{
    struct timespec now;
    struct harness h;

    clock_gettime(CLOCK_REALTIME, &now);
    jobs->items[0].state = state;
    jobs->items[0].last_complete_checkpoint_id = done == 0 ? 0 : (UINT64_C(1) << 40) | 42;
    jobs->items[0].last_complete_snapshot_at_ms = ((uint64_t)now.tv_sec - 2 * 3600) * 1000;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/GetAllocation", RPC_OK, NULL, &jobs->items[0].base);
    assert_int_equal(harness_run(&h, "job a-1"), CLI_OK);
    assert_contains(h.out, expected);
    harness_close(&h);
}

/* Without a checkpoint all its work is at stake, stopped none any more. */
static void work_that_is_not_saved_is_that_of_jobs_that_run(void **state)
{
    static const Ckpt__V1__AllocationState stopped[] = {
        CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED,
        CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED,
        CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED,
        CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED,
        CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING};
    struct jobs jobs;

    (void)state;
    jobs_init(&jobs);
    for (uint64_t done = 0; done < 2; done++) {
        assert_not_saved(&jobs, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING, done,
                         "work not saved 2h00m");
        assert_not_saved(&jobs, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP,
                         done, "work not saved 2h00m");
        for (size_t i = 0; i < sizeof(stopped) / sizeof(stopped[0]); i++)
            assert_not_saved(&jobs, stopped[i], done, "work not saved - ");
    }
}

/* Jobs that have ended are many and seldom wanted: only --all, or their state, lists them. */
static void jobs_that_have_ended_are_listed_only_when_asked_for(void **state)
{
    static const struct {
        const char *words;
        bool unended;
    } cases[] = {{"jobs", true}, {"jobs --all", false}, {"jobs --state FAILED", false}};
    Ckpt__V1__ListAllocationsReply reply = CKPT__V1__LIST_ALLOCATIONS_REPLY__INIT;
    struct harness h;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        harness_init(&h);
        harness_answer(&h, NULL, "BrokerService/ListAllocations", RPC_OK, NULL, &reply.base);
        assert_int_equal(harness_run(&h, cases[i].words), CLI_OK);
        assert_int_equal(((const Ckpt__V1__ListAllocationsRequest *)h.last_request)->unended,
                         cases[i].unended);
        harness_close(&h);
    }
}

/* U5 */
static void names_are_printed_one_on_a_line_and_nothing_else(void **state)
{
    static const char *const local[] = {
        "-o name whatif --numbers", "-o name version",
        "-o name whatif --scenario exponential --set jobs=2,days=1"};
    Ckpt__V1__RestartPoint none = CKPT__V1__RESTART_POINT__INIT;
    Ckpt__V1__GetPolicyReply policy = CKPT__V1__GET_POLICY_REPLY__INIT;
    Ckpt__V1__Policy values = CKPT__V1__POLICY__INIT;
    Ckpt__V1__GetCalibrationReply calibration = CKPT__V1__GET_CALIBRATION_REPLY__INIT;
    Ckpt__V1__Calibration counts = CKPT__V1__CALIBRATION__INIT;
    struct harness h;

    (void)state;
    policy.policy = &values;
    calibration.calibration = &counts;
    harness_init(&h);
    harness_answer(&h, NULL, "OperatorService/GetPolicy", RPC_OK, NULL, &policy.base);
    harness_answer(&h, NULL, "OperatorService/GetCalibration", RPC_OK, NULL, &calibration.base);
    assert_int_equal(harness_run(&h, "policy get -o name"), CLI_OK);
    assert_non_null(strstr(h.out, "min_interval_ms\n"));
    assert_lacks(h.out, " ");
    harness_answer(&h, NULL, "BrokerService/GetRestartPoint", RPC_OK, NULL, &none.base);
    assert_int_equal(harness_run(&h, "restart-point a -o name"), CLI_OK);
    assert_string_equal(h.out, "");
    assert_int_equal(harness_run(&h, "calibration -o name"), CLI_OK);
    assert_string_equal(h.out, "calibration\n");
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
        assert_int_equal(harness_run(&h, local[i]), CLI_OK);
        assert_true(h.out_length > 1);
        assert_lacks(h.out, " ");
    }
    harness_close(&h);
}

/* U5: a failure in between does not end it. */
static void watching_asks_again_and_survives_a_failure(void **state)
{
    Ckpt__V1__ListAllocationsReply reply = CKPT__V1__LIST_ALLOCATIONS_REPLY__INIT;
    struct jobs jobs;
    struct harness h;

    (void)state;
    jobs_init(&jobs);
    reply.allocations = jobs.pointers;
    reply.n_allocations = 1;
    harness_init(&h);
    h.repeats = 3;
    harness_answer(&h, NULL, "BrokerService/ListAllocations", RPC_OK, NULL, &reply.base);
    h.answers[0].turns = 1;
    harness_answer(&h, NULL, "BrokerService/ListAllocations", RPC_INTERNAL, "broken", NULL);
    h.answers[1].turns = 1;
    harness_answer(&h, NULL, "BrokerService/ListAllocations", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "jobs -o name --watch --every 100ms"), CLI_OK);
    assert_string_equal(h.out, "a-1\na-1\n");
    assert_non_null(strstr(h.error, "broken"));
    assert_int_equal(harness_run(&h, "cancel 1-1 --watch"), CLI_USAGE);
    assert_non_null(strstr(h.error, "--watch goes with commands that read, not with cancel"));
    assert_int_equal(harness_run(&h, "backup save f --watch"), CLI_USAGE);
    assert_contains(h.error, "--watch goes with commands that read, not with backup save");
    assert_int_equal(harness_run(&h, "tls show f --watch"), CLI_USAGE);
    assert_contains(h.error, "--watch goes with commands that read, not with tls show");
    assert_int_equal(harness_run(&h, "jobs --every 1s"), CLI_USAGE);
    assert_int_equal(harness_run(&h, "events -f --watch"), CLI_USAGE);
    assert_contains(h.error, "--follow never ends");
    harness_close(&h);
}

static void nodes_are_read_to_the_last_page(void **state)
{
    static char token[] = "1", names[2][8] = {"gpu-1", "gpu-2"};
    Ckpt__V1__NodeStatus nodes[2] = {CKPT__V1__NODE_STATUS__INIT, CKPT__V1__NODE_STATUS__INIT};
    Ckpt__V1__NodeStatus *pointers[2] = {&nodes[0], &nodes[1]};
    Ckpt__V1__ListNodesReply first = CKPT__V1__LIST_NODES_REPLY__INIT;
    Ckpt__V1__ListNodesReply last = CKPT__V1__LIST_NODES_REPLY__INIT;
    struct harness h;

    (void)state;
    nodes[0].node_id = names[0];
    nodes[1].node_id = names[1];
    first.nodes = pointers;
    first.n_nodes = 1;
    first.next_page_token = token;
    last.nodes = pointers + 1;
    last.n_nodes = 1;
    harness_init(&h);
    harness_answer(&h, NULL, "OperatorService/ListNodes", RPC_OK, NULL, &first.base);
    h.answers[0].turns = 1;
    harness_answer(&h, NULL, "OperatorService/ListNodes", RPC_OK, NULL, &last.base);
    assert_int_equal(harness_run(&h, "nodes -o name"), CLI_OK);
    assert_string_equal(h.out, "gpu-1\ngpu-2\n");
    harness_close(&h);
}

/* S3-060, V-003: the evidence, or that there is none; L-003: what would be lost. */
static void a_node_tells_of_its_silence_and_its_jobs(void **state)
{
    static char name[] = "gpu-b", lost[] = "agent_lost", down[] = "down", probe[] = "10.0.0.7:22",
                seen[] = "no answer at 10.0.0.7:22 from n1, n2", job_name[] = "train",
                heir[] = "gpu-c", owner[] = "ann", held[] = "fold", probed[] = "no answer",
                drain[] = "drain";
    Ckpt__V1__NodeStatus node = CKPT__V1__NODE_STATUS__INIT;
    Ckpt__V1__NodeJob job = CKPT__V1__NODE_JOB__INIT;
    Ckpt__V1__NodeJob *jobs[] = {&job};
    char *waiting[] = {held};
    Ckpt__V1__GetNodeReply reply = CKPT__V1__GET_NODE_REPLY__INIT;
    struct harness h;

    (void)state;
    node.node_id = name;
    node.state = lost;
    node.silent_since_ms = 1000;
    node.probe = probe;
    node.probed = probed;
    reply.node = &node;
    reply.held_jobs = waiting;
    reply.n_held_jobs = 1;
    harness_init(&h);
    harness_answer(&h, NULL, "OperatorService/GetNode", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "node gpu-b"), CLI_OK);
    assert_contains(h.out, "node gpu-b is agent_lost; 0 jobs\nsilent since 1970-01-01 00:00:01\n");
    assert_contains(h.out, "no second witness: nothing of it is begun elsewhere");
    assert_contains(h.out, "probe: 10.0.0.7:22, no answer\n");
    assert_contains(h.out, "not restarted elsewhere because of it: fold\n");
    harness_close(&h);

    node.state = down;
    node.off_at_ms = 91000;
    node.witness = CKPT__V1__NODE_WITNESS__NODE_WITNESS_PROBE;
    node.evidence = seen;
    node.wanted = drain;
    job.allocation_id = job_name;
    job.owner = owner;
    job.unsaved_gpu_ms = 7200000;
    job.successors = 2;
    job.successor = heir;
    job.restarts = true;
    reply.jobs = jobs;
    reply.n_jobs = reply.job_count = 1;
    reply.unsaved_gpu_ms = 7200000;
    reply.n_held_jobs = 0;
    harness_init(&h);
    harness_answer(&h, NULL, "OperatorService/GetNode", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "node gpu-b"), CLI_OK);
    assert_contains(h.out, "node gpu-b is down, to be drained when it is back; 1 jobs\n");
    assert_contains(h.out,
                    "; off, by the second witness PROBE at 1970-01-01 00:01:31: no answer at "
                    "10.0.0.7:22 from n1, n2\n");
    seen[0] = '\033'; /* a terminal obeys nobody's evidence */
    assert_int_equal(harness_run(&h, "node gpu-b"), CLI_OK);
    assert_contains(h.out, "?o answer at 10.0.0.7:22");
    assert_lacks(h.out, "\033");
    seen[0] = 'n';
    assert_lacks(h.out, "no second witness");
    assert_contains(h.out, "lost if it failed now: 2.0 GPU-hours of 1 jobs");
    assert_contains(h.out, "2, as gpu-c");
    assert_int_equal(harness_run(&h, "node gpu-b -o json"), CLI_OK);
    assert_contains(h.out, "\"evidence\": \"no answer at 10.0.0.7:22 from n1, n2\"");
    assert_int_equal(harness_run(&h, "node drain gpu-b --move --urgent --yes"), CLI_USAGE);
    assert_contains(h.error, "takes one of --urgent, --move and --at-next-checkpoint");
    harness_close(&h);
}

static void a_page_that_fails_prints_no_half_table(void **state)
{
    static char token[] = "a-2";
    Ckpt__V1__ListAllocationsReply first = CKPT__V1__LIST_ALLOCATIONS_REPLY__INIT;
    struct jobs jobs;
    struct harness h;

    (void)state;
    jobs_init(&jobs);
    first.allocations = jobs.pointers;
    first.n_allocations = 2;
    first.next_page_token = token;
    for (int json = 0; json < 2; json++) {
        harness_init(&h);
        harness_answer(&h, NULL, "BrokerService/ListAllocations", RPC_OK, NULL, &first.base);
        h.answers[0].turns = 1;
        assert_int_equal(harness_run(&h, json ? "-o json jobs" : "jobs"), CLI_NO_LEADER);
        assert_string_equal(h.out, "");
        harness_close(&h);
    }
}

static void tables_json_and_lines_show_the_same_jobs(void **state)
{
    Ckpt__V1__ListAllocationsReply reply = CKPT__V1__LIST_ALLOCATIONS_REPLY__INIT;
    struct jobs jobs;
    struct harness h;

    (void)state;
    jobs_init(&jobs);
    reply.allocations = jobs.pointers;
    reply.n_allocations = 3;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/ListAllocations", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "jobs"), CLI_OK);
    assert_contains(h.out, "JOB  TENANT   STATE");
    assert_contains(h.out, "a-1  physics  RUNNING");
    assert_contains(h.out, "1-42");
    assert_lacks(h.out, "VCLUSTER");
    assert_int_equal(harness_run(&h, "jobs -o wide --no-headers"), CLI_OK);
    assert_lacks(h.out, "JOB");
    assert_int_equal(harness_run(&h, "jobs -o wide"), CLI_OK);
    assert_contains(h.out, "VCLUSTER");
    assert_int_equal(harness_run(&h, "jobs -o jsonl"), CLI_OK);
    assert_ptr_equal(strstr(h.out, "{\"version\":1,\"job\":{\"spec\":{\"allocation_id\":\"a-1\""),
                     h.out);
    assert_int_equal(harness_run(&h, "jobs -o json"), CLI_OK);
    assert_contains(h.out, "\"jobs\": [");
    assert_lacks(h.out, "\033");
    assert_int_equal(harness_run(&h, "jobs -o yaml"), CLI_OK);
    assert_ptr_equal(strstr(h.out, "---\nversion: 1\njobs:\n- spec:\n    allocation_id: \"a-1\"\n"),
                     h.out);
    harness_close(&h);
}

/* S1-081, P-024 */
static void a_jobs_page_says_what_leaves_and_for_whom(void **state)
{
    Ckpt__V1__ListCheckpointsReply checkpoints = CKPT__V1__LIST_CHECKPOINTS_REPLY__INIT;
    static char first[] = "n3", second[] = "n4";
    char *leaving[] = {first, second};
    struct jobs jobs;
    struct harness h;

    (void)state;
    jobs_init(&jobs);
    jobs.pointers[0]->preemption_id = 7;
    jobs.pointers[0]->leaving_node_ids = leaving;
    jobs.pointers[0]->n_leaving_node_ids = 2;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/GetAllocation", RPC_OK, NULL, &jobs.pointers[0]->base);
    harness_answer(&h, NULL, "BrokerService/ListCheckpoints", RPC_OK, NULL, &checkpoints.base);
    assert_int_equal(harness_run(&h, "job a-1"), CLI_OK);
    assert_contains(h.out, "victim of preemption 7");
    assert_contains(h.out, "scales down: without n3, n4\n");
    harness_close(&h);
}

static void an_empty_list_is_said_on_stderr_only(void **state)
{
    Ckpt__V1__ListCheckpointsReply reply = CKPT__V1__LIST_CHECKPOINTS_REPLY__INIT;
    struct harness h;

    (void)state;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/ListCheckpoints", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "checkpoints a-1"), CLI_OK);
    assert_string_equal(h.out, "");
    assert_string_equal(h.error, "no checkpoints\n");
    assert_int_equal(harness_run(&h, "checkpoints -q -o json"), CLI_OK);
    assert_contains(h.out, "\"checkpoints\": []");
    assert_string_equal(h.error, "");
    assert_int_equal(harness_run(&h, "checkpoint 1-7"), CLI_NOT_FOUND);
    assert_contains(h.error, "no such checkpoint");
    harness_close(&h);
}

static void explain_prints_terms_guards_and_what_would_flip_it(void **state)
{
    static char id[] = "a-1", flips[] = "last-checkpoint age >= 3h11m",
                guard[] = "min_interval: ok", verdict[] = "value_below_cost";
    char *guards[] = {guard};
    Ckpt__V1__DecisionTerms terms = CKPT__V1__DECISION_TERMS__INIT;
    Ckpt__V1__ExplainReply reply = CKPT__V1__EXPLAIN_REPLY__INIT;
    struct jobs jobs;
    struct harness h;

    (void)state;
    jobs_init(&jobs);
    terms.value_gpu_ms = 41902000;
    terms.recompute_saved_gpu_ms = 39120000;
    terms.preemptability_gpu_ms = 2782000;
    terms.cost_gpu_ms = 58310000;
    terms.compute_waste_gpu_ms = 57856000;
    terms.storage_cost_gpu_ms = 454000;
    terms.failure_probability_ppm = 61000;
    terms.age_ms = 1252000;
    terms.gpu_count = 512;
    terms.write_ms = 512000;
    terms.bandwidth_bytes_per_s = UINT64_C(10000000000);
    terms.young_daly_ms = 10680000;
    terms.verdict = verdict;
    reply.allocation_id = id;
    reply.evaluated_at_ms = 1700000000000;
    reply.terms = &terms;
    reply.flips_when = flips;
    reply.guards = guards;
    reply.n_guards = 1;
    reply.leader_id = 2;
    reply.term = 7;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/Explain", RPC_OK, NULL, &reply.base);
    harness_answer(&h, NULL, "BrokerService/GetAllocation", RPC_OK, NULL, &jobs.items[0].base);
    assert_int_equal(harness_run(&h, "--endpoints a:1 explain a-1"), CLI_OK);
    assert_contains(h.out, "JOB a-1 (tenant physics, 2 nodes, running since");
    assert_contains(h.out, "decision: SKIP at 2023-11-1");
    assert_contains(h.out, "(leader member 2, term 7, value_below_cost)");
    assert_contains(h.out, " value 41 902 GPU-s   recompute 39 120 (641 024 at stake, p=0.061)  "
                           "preempt 2 782  backlog 0\n");
    assert_contains(h.out, " cost  58 310 GPU-s   write 8m32s of 0 B @ 10.0 GB/s  pause 57 856");
    assert_contains(h.out, "storage 454\n");
    assert_contains(h.out,
                    " flips when: last-checkpoint age >= 3h11m\n guards: min_interval: ok\n");
    assert_contains(h.out, " Young/Daly for this job: 2h58m");
    assert_int_equal(harness_run(&h, "explain a-1 -o json"), CLI_OK);
    assert_contains(h.out, "\"value_gpu_ms\": 41902000");
    harness_close(&h);
}

static void preempt_shows_whom_it_may_hit_before_it_acts(void **state)
{
    static char victim_id[] = "a-1";
    Ckpt__V1__ListAllocationsReply list = CKPT__V1__LIST_ALLOCATIONS_REPLY__INIT;
    Ckpt__V1__Victim victim = CKPT__V1__VICTIM__INIT;
    Ckpt__V1__Victim *victims[] = {&victim};
    Ckpt__V1__RequestPreemptionReply reply = CKPT__V1__REQUEST_PREEMPTION_REPLY__INIT;
    struct jobs jobs;
    struct harness h;

    (void)state;
    jobs_init(&jobs);
    list.allocations = jobs.pointers;
    list.n_allocations = 3;
    victim.allocation_id = victim_id;
    victim.node_count = 2;
    victim.state = CKPT__V1__VICTIM_STATE__VICTIM_STATE_STOPPING;
    reply.victims = victims;
    reply.n_victims = 1;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/ListAllocations", RPC_OK, NULL, &list.base);
    harness_answer(&h, NULL, "BrokerService/RequestPreemption", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "preempt --class 5 --nodes 2"), CLI_USAGE);
    assert_contains(h.error, "a-1: class 2, 2 nodes, last checkpoint 1-42");
    assert_contains(h.error, "possible victims: 2 with 4 nodes");
    assert_lacks(h.error, "a-3");
    assert_contains(h.error, "needs --yes");
    assert_string_equal(h.last_method, "BrokerService/ListAllocations");
    assert_int_equal(harness_run(&h, "preempt --class 5 --nodes 9 --candidates a-1,a-3 --dry-run"),
                     CLI_OK);
    assert_contains(h.error, "a-3: no (sensitive)");
    assert_contains(h.error, "too few: expect a refusal");
    assert_contains(h.out, "\"candidates\": [");
    assert_string_equal(h.last_method, "BrokerService/ListAllocations");
    assert_int_equal(harness_run(&h, "preempt --class 5 --nodes 2 --forced --yes --candidates a-1"),
                     CLI_OK);
    assert_contains(h.out, "a-1     stopping  none: terminated      2");
    const Ckpt__V1__RequestPreemptionRequest *request =
        (const Ckpt__V1__RequestPreemptionRequest *)h.last_request;

    assert_true(request->forced);
    assert_uint_equal(request->n_candidates, 1);
    assert_string_equal(request->candidates[0], "a-1");
    harness_close(&h);
}

static void policy_is_shown_and_set_by_units(void **state)
{
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    Ckpt__V1__GetPolicyReply get = CKPT__V1__GET_POLICY_REPLY__INIT;
    Ckpt__V1__MutationReply done = CKPT__V1__MUTATION_REPLY__INIT;
    struct harness h;

    (void)state;
    policy.min_interval_ms = 300000;
    policy.default_write_bytes_per_s = 1500000000;
    get.policy = &policy;
    harness_init(&h);
    harness_answer(&h, NULL, "OperatorService/GetPolicy", RPC_OK, NULL, &get.base);
    harness_answer(&h, NULL, "OperatorService/SetPolicy", RPC_OK, NULL, &done.base);
    assert_int_equal(harness_run(&h, "policy get"), CLI_OK);
    assert_contains(h.out, "5m00s");
    assert_contains(h.out, "1.5 GB/s");
    assert_contains(h.out, "300000");
    assert_int_equal(
        harness_run(&h, "policy set min_interval=10m max_victims=2 max_interval_ms=60000"), CLI_OK);
    const Ckpt__V1__Policy *sent = ((const Ckpt__V1__SetPolicyRequest *)h.last_request)->policy;

    assert_uint_equal(sent->min_interval_ms, 600000);
    assert_uint_equal(sent->max_victims, 2);
    assert_uint_equal(sent->max_interval_ms, 60000);
    assert_uint_equal(sent->grace_ms, 0);
    assert_uint_equal(sent->zeros, 0);
    assert_int_equal(
        harness_run(&h, "policy set f8_weight_hpc=0% quiesce=0s max_requeue=0 grace=5s"), CLI_OK);
    sent = ((const Ckpt__V1__SetPolicyRequest *)h.last_request)->policy;
    assert_uint_equal(sent->zeros, UINT64_C(1) << 47 | 1 << 16 | 1 << 21);
    assert_uint_equal(sent->grace_ms, 5000);
    harness_close(&h);
}

static void a_job_s_nodes_have_their_runs_in_the_wide_form(void **state)
{
    uint64_t runs[] = {(UINT64_C(1) << 40) | 7, 0};
    struct jobs jobs;
    struct harness h;

    (void)state;
    jobs_init(&jobs);
    jobs.items[0].node_runs = runs;
    jobs.items[0].n_node_runs = 2;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/GetAllocation", RPC_OK, NULL, &jobs.items[0].base);
    assert_int_equal(harness_run(&h, "job a-1 -o wide"), CLI_OK);
    assert_contains(h.out, "RUN-ID");
    assert_contains(h.out, "1-7");
    assert_int_equal(harness_run(&h, "job a-1"), CLI_OK);
    assert_null(strstr(h.out, "RUN-ID"));
    assert_int_equal(harness_run(&h, "job a-1 -o json"), CLI_OK);
    assert_contains(h.out, "\"node_runs\": [\n");
    assert_contains(h.out, "\"1-7\"");
    harness_close(&h);
}

/* V-006; a member of an earlier build does not say it. */
static void a_job_tells_what_it_counts_as(void **state)
{
    static char weight[] = "2 nodes x 4";
    struct jobs jobs;

    (void)state;
    for (int told = 0; told <= 1; told++) {
        struct harness h;

        jobs_init(&jobs);
        if (told)
            jobs.items[0].weighed_by = weight;
        harness_init(&h);
        harness_answer(&h, NULL, "BrokerService/GetAllocation", RPC_OK, NULL, &jobs.items[0].base);
        assert_int_equal(harness_run(&h, "job a-1"), CLI_OK);
        assert_int_equal(strstr(h.out, " GPU-s  counts as 2 nodes x 4\n\n") != NULL, told);
        assert_int_equal(strstr(h.out, "counts as") != NULL, told);
        harness_close(&h);
    }
}

/* What a restart would begin from decides whether a job can be killed without loss. */
static void a_job_tells_from_what_it_began_and_would_begin(void **state)
{
    static char node[] = "n1";
    struct jobs jobs;
    struct harness h;

    (void)state;
    jobs_init(&jobs);
    jobs.items[0].restart_checkpoint_id = (UINT64_C(1) << 40) | 41;
    jobs.items[0].next_restart_checkpoint_id = (UINT64_C(1) << 40) | 42;
    jobs.items[0].unresponsive = true;
    jobs.items[0].silent_node_id = node;
    jobs.items[0].silent_since_ms = 1000;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/GetAllocation", RPC_OK, NULL, &jobs.items[0].base);
    assert_int_equal(harness_run(&h, "job a-1"), CLI_OK);
    assert_contains(h.out, " parts 2  this run began from 1-41  a restart begins from 1-42\n");
    assert_contains(h.out, " unresponsive: it did not answer");
    assert_contains(h.out, "(ckptctl hint a-1 asks now)");
    assert_contains(h.out,
                    " node n1 of its last run has been silent since 1970-01-01 00:00:01: its "
                    "processes may run on there");
    assert_contains(h.out, "ckptctl node down n1 --is-off\n");
    assert_lacks(h.out, "no agent ever spoke");
    assert_contains(h.out, "NODE  PART");
    assert_int_equal(harness_run(&h, "job a-1 -o json"), CLI_OK);
    assert_contains(h.out, "\"restart_checkpoint_id\": \"1-41\"");
    assert_contains(h.out, "\"next_restart_checkpoint_id\": \"1-42\"");
    assert_contains(h.out, "\"unresponsive\": true");
    harness_close(&h);
    jobs.items[0].restart_checkpoint_id = jobs.items[0].next_restart_checkpoint_id = 0;
    jobs.items[0].unresponsive = false;
    jobs.items[0].never_heard_node_id = node;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/GetAllocation", RPC_OK, NULL, &jobs.items[0].base);
    assert_int_equal(harness_run(&h, "job a-1"), CLI_OK);
    assert_contains(h.out,
                    " parts 2  this run began from scratch  a restart begins from scratch, and "
                    "only with --from-scratch\n");
    assert_lacks(h.out, "unresponsive");
    assert_lacks(h.out, "no agent ever spoke");
    harness_close(&h);
    jobs.items[0].restart_at_ms = 1000; /* by the broker */
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/GetAllocation", RPC_OK, NULL, &jobs.items[0].base);
    assert_int_equal(harness_run(&h, "job a-1"), CLI_OK);
    assert_contains(h.out,
                    " node n1 is one of its nodes, and no agent ever spoke there: the broker "
                    "takes no others by itself\n");
    harness_close(&h);
}

static void a_checkpoint_tells_what_its_ranks_saved(void **state)
{
    static char label[] = "311", n1[] = "n1", n2[] = "n2", machine[] = "x86_64", os[] = "debian 12";
    Ckpt__V1__ShardInfo parts[2] = {CKPT__V1__SHARD_INFO__INIT, CKPT__V1__SHARD_INFO__INIT};
    Ckpt__V1__ShardInfo *shards[] = {&parts[0], &parts[1]};
    Ckpt__V1__Checkpoint one = CKPT__V1__CHECKPOINT__INIT;
    Ckpt__V1__Checkpoint *list[] = {&one};
    Ckpt__V1__ListCheckpointsReply reply = CKPT__V1__LIST_CHECKPOINTS_REPLY__INIT;
    struct harness h;

    (void)state;
    parts[0].node_id = n1;
    parts[0].ranks = 2;
    parts[0].verified = true;
    parts[0].size_bytes = 1536;
    parts[1].node_id = n2;
    parts[1].part = 1;
    parts[1].started = true;
    one.checkpoint_id = (UINT64_C(1) << 40) | 43;
    one.shards = shards;
    one.n_shards = 2;
    one.label = label;
    one.agreed_step = 311;
    one.barrier = CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_AGREED;
    reply.checkpoints = list;
    reply.n_checkpoints = 1;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/ListCheckpoints", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "checkpoint 1-43"), CLI_OK);
    assert_contains(h.out, " label 311  2 ranks in 2 parts  barrier agreed at step 311\n");
    assert_contains(h.out, "PART  NODE  STATE     RANKS     SIZE");
    assert_contains(h.out, "   0  n1    verified      2  1.5 KiB");
    assert_contains(h.out, "   1  n2    writing       -");
    assert_lacks(h.out, "written on");
    assert_lacks(h.out, "DAMAGED");
    assert_int_equal(harness_run(&h, "checkpoint 1-43 -o json"), CLI_OK);
    assert_contains(h.out, "\"label\": \"311\"");
    assert_contains(h.out, "\"agreed_step\": 311");
    assert_contains(h.out, "\"ranks\": 2");
    one.machine = machine;
    one.os = os;
    one.damaged = true;
    assert_int_equal(harness_run(&h, "checkpoint 1-43"), CLI_OK);
    assert_contains(h.out, " written on x86_64 debian 12\n");
    assert_contains(h.out, " DAMAGED: ");
    harness_close(&h);
}

static void losses_are_shown_in_gpu_hours_and_per_cent(void **state)
{
    static char tenant[] = "physics";
    Ckpt__V1__GpuAccount account = CKPT__V1__GPU_ACCOUNT__INIT;
    Ckpt__V1__Losses cluster = CKPT__V1__LOSSES__INIT, one = CKPT__V1__LOSSES__INIT;
    Ckpt__V1__Losses *losses[] = {&cluster, &one};
    Ckpt__V1__GetLossesReply reply = CKPT__V1__GET_LOSSES_REPLY__INIT;
    struct harness h;

    (void)state;
    account.held_gpu_ms = 360000000; /* 100 GPU-hours */
    account.useful_gpu_ms = 320400000;
    account.pending_gpu_ms = 3600000;
    account.lost_failure_gpu_ms = 18000000;
    account.lost_checkpoint_gpu_ms = 7200000;
    account.lost_restart_gpu_ms = 5400000;
    account.lost_preemption_gpu_ms = 2700000;
    account.lost_walltime_gpu_ms = 1800000;
    account.lost_stop_gpu_ms = 900000;
    cluster.account = &account;
    one.account = &account;
    one.name = tenant;
    reply.losses = losses;
    reply.n_losses = 2;
    harness_init(&h);
    harness_answer(&h, NULL, "OperatorService/GetLosses", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "losses"), CLI_OK);
    assert_contains(h.out, "all");
    assert_contains(h.out, "100.00");
    assert_contains(h.out, "10.00%");
    assert_contains(h.out, "physics");
    assert_int_equal(harness_run(&h, "losses --tenant physics -o json"), CLI_OK);
    assert_string_equal(((const Ckpt__V1__GetLossesRequest *)h.last_request)->tenant, "physics");
    assert_contains(h.out, "\"lost_failure_gpu_ms\": 18000000");
    assert_int_equal(harness_run(&h, "losses j1"), CLI_OK);
    assert_string_equal(((const Ckpt__V1__GetLossesRequest *)h.last_request)->allocation_id, "j1");
    assert_int_equal(harness_run(&h, "losses j1 --tenant physics"), CLI_USAGE);
    harness_close(&h);
}

static void calibration_prints_quantiles_and_what_was_to_be_expected(void **state)
{
    uint64_t ends[] = {500000, 1000000, 2000000, UINT64_MAX}, none[] = {0, 0, 0, 0};
    uint64_t sizes[] = {0, 80, 20, 0}, writes[] = {0, 0, 0, 3};
    uint64_t ended[] = {0, 50}, completed[] = {0, 45}, ppm[] = {0, 49000000};
    Ckpt__V1__Calibration calibration = CKPT__V1__CALIBRATION__INIT;
    Ckpt__V1__GetCalibrationReply reply = CKPT__V1__GET_CALIBRATION_REPLY__INIT;
    struct harness h;

    (void)state;
    calibration.size_ratio = sizes;
    calibration.write_ratio = writes;
    calibration.pause_ratio = none;
    calibration.n_size_ratio = calibration.n_write_ratio = calibration.n_pause_ratio = 4;
    calibration.ended = ended;
    calibration.completed = completed;
    calibration.ended_ppm = ppm;
    calibration.n_ended = calibration.n_completed = calibration.n_ended_ppm = 2;
    calibration.expected_losses_e6 = 4000000;
    calibration.node_losses = 5;
    calibration.kill_losses = 1;
    calibration.saved_predicted_gpu_ms = 36000000;
    calibration.saved_gpu_ms = 18000000;
    calibration.saved_count = 3;
    calibration.checkpoints = 100;
    reply.calibration = &calibration;
    reply.ratio_end_ppm = ends;
    reply.n_ratio_end_ppm = 4;
    harness_init(&h);
    harness_answer(&h, NULL, "OperatorService/GetCalibration", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "calibration"), CLI_OK);
    assert_contains(h.out, "size         100   0.56   0.81   1.50");
    assert_contains(h.out, "write time     3 > 2.00 > 2.00 > 2.00");
    assert_contains(h.out, "pause          0      -      -      -");
    assert_contains(h.out, "success: 50 ended that were given 0.980 on the mean: 0.900 completed");
    assert_contains(h.out,
                    "losses: 4.00 expected (+- 4.00 by chance), 6 came: 5 with a node, 1 killed");
    assert_contains(h.out, "value: 10.00 GPU-h of work saved predicted by 100 checkpoints, 5.00");
    assert_int_equal(harness_run(&h, "calibration -o json"), CLI_OK);
    assert_contains(h.out, "\"expected_losses_e6\": 4000000");
    harness_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_read_to_its_last_page),
        cmocka_unit_test(work_that_is_not_saved_is_that_of_jobs_that_run),
        cmocka_unit_test(jobs_that_have_ended_are_listed_only_when_asked_for),
        cmocka_unit_test(names_are_printed_one_on_a_line_and_nothing_else),
        cmocka_unit_test(watching_asks_again_and_survives_a_failure),
        cmocka_unit_test(nodes_are_read_to_the_last_page),
        cmocka_unit_test(a_node_tells_of_its_silence_and_its_jobs),
        cmocka_unit_test(a_page_that_fails_prints_no_half_table),
        cmocka_unit_test(tables_json_and_lines_show_the_same_jobs),
        cmocka_unit_test(a_jobs_page_says_what_leaves_and_for_whom),
        cmocka_unit_test(an_empty_list_is_said_on_stderr_only),
        cmocka_unit_test(explain_prints_terms_guards_and_what_would_flip_it),
        cmocka_unit_test(preempt_shows_whom_it_may_hit_before_it_acts),
        cmocka_unit_test(a_job_s_nodes_have_their_runs_in_the_wide_form),
        cmocka_unit_test(policy_is_shown_and_set_by_units),
        cmocka_unit_test(a_job_tells_what_it_counts_as),
        cmocka_unit_test(a_job_tells_from_what_it_began_and_would_begin),
        cmocka_unit_test(a_checkpoint_tells_what_its_ranks_saved),
        cmocka_unit_test(losses_are_shown_in_gpu_hours_and_per_cent),
        cmocka_unit_test(calibration_prints_quantiles_and_what_was_to_be_expected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
