/* What a storage system says of its bandwidth and what becomes of it in the state: S1-005,
 * S1-052. */
#include <math.h>

#include "src/broker/decide/headroom.h"
#include "src/broker/health/storage_watch.h"
#include "src/dest/worker.h"
#include "src/rpc/uv_clock.h"
#include "tests/unit/broker/fake_replica.h"

#define GB UINT64_C(1000000000)

enum { PROBES_MAX = 64 };

static struct {
    worker_done_fn *done;
    void *data;
} probes[PROBES_MAX];
static size_t probe_count;

/* Probes begin, and end with the site only. */
int worker_start(uv_loop_t *loop, const struct worker_task *task, struct worker **ret_worker,
                 struct err *err)
{
    static int one;

    (void)loop, (void)err;
    assert_true(probe_count < PROBES_MAX);
    probes[probe_count].done = task->done;
    probes[probe_count++].data = task->data;
    *ret_worker = (struct worker *)(void *)&one;
    return 0;
}

void worker_cancel(struct worker *worker)
{
    (void)worker;
}

bool worker_hangs(uint64_t hang_id)
{
    return hang_id != 0;
}

/* ---- one VMS that is never really asked: its loop does not run ---- */

struct site {
    uv_loop_t loop;
    struct fake *fake;
    struct sources *sources;
    struct headroom *headroom;
};

static void no_cluster(void *context, size_t source, const struct vast_cluster *cluster)
{
    (void)context, (void)source, (void)cluster;
}

static void configure(struct site *site, const char *targets, uint64_t limit_bytes_per_s)
{
    char text[256];
    struct source_config config = {.name = (char[]){"vms"},
                                   .kind = SOURCE_VAST,
                                   .url = (char[]){"http://127.0.0.1:9"},
                                   .map = (char[]){""},
                                   .credentials = (char[]){""},
                                   .ca = (char[]){""},
                                   .cert = (char[]){""},
                                   .key = (char[]){""},
                                   .targets = text,
                                   .cluster = (char[]){""},
                                   .write_limit_bytes_per_s = limit_bytes_per_s,
                                   .interval_ms = 30000,
                                   .timeout_ms = 5000,
                                   .max_bytes = 65536,
                                   .concurrency = 1};

    snprintf(text, sizeof(text), "%s", targets);
    headroom_restart(site->headroom);
    sources_configure(site->sources, &config, targets[0] != '\0');
}

static void site_start(struct site *site, const char *targets, uint64_t limit_bytes_per_s)
{
    struct sources_hooks hooks = {.cluster = no_cluster};

    assert_int_equal(uv_loop_init(&site->loop), 0);
    site->fake = fake_new(NULL);
    uv_random_ops(&site->fake->broker.random);
    site->fake->config.storage_watch.interval_ms = 3600000;
    site->fake->broker.storage_watch = storage_watch_new(&site->fake->broker);
    site->headroom = headroom_new(&site->fake->broker);
    site->sources =
        sources_new(&site->loop, &site->fake->broker.clock, &site->fake->broker.random, &hooks);
    configure(site, targets, limit_bytes_per_s);
    fake_serve(site->fake);
    headroom_restart(site->headroom); /* as telemetry.c does */
}

static void site_stop(struct site *site)
{
    fake_stop_serving(site->fake);
    sources_free(site->sources);
    headroom_free(site->headroom);
    storage_watch_free(site->fake->broker.storage_watch);
    while (probe_count > 0) {
        probe_count--;
        probes[probe_count].done(probes[probe_count].data,
                                 &(struct worker_result){.cancelled = true});
    }
    while (uv_run(&site->loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&site->loop), 0);
    fake_free(site->fake);
}

static void tell(struct site *site, double writes, double limit, const char *trouble)
{
    struct vast_cluster cluster = {
        .up = trouble[0] == '\0', .write_bytes_per_s = writes, .limit_bytes_per_s = limit};

    snprintf(cluster.trouble, sizeof(cluster.trouble), "%s", trouble);
    headroom_take(site->headroom, site->sources, 0, &cluster);
    fake_settle(site->fake);
}

static void look_after(struct site *site, uint64_t ms)
{
    fake_advance_ms(site->fake, ms);
    headroom_look(site->headroom, site->sources);
    fake_settle(site->fake);
}

static uint64_t measured(const struct site *site, const char *target)
{
    return fsm_target_find(site->fake->replica.fsm, target)->measured_bytes_per_s;
}

/* ---- tests; scratch takes 10 GB/s ---- */

static void a_change_of_a_tenth_enters_the_log_once_and_less_does_not(void **state)
{
    struct site site;
    uint64_t before;

    (void)state;
    site_start(&site, "scratch", 0);
    tell(&site, 6e9, 14e9, "");
    assert_uint_equal(measured(&site, "scratch"), 8 * GB);
    before = site.fake->replica.index;
    tell(&site, 6.7e9, 14e9, "");
    tell(&site, 5.3e9, 14e9, "");
    look_after(&site, 1000);
    assert_uint_equal(measured(&site, "scratch"), 8 * GB);
    assert_uint_equal(site.fake->replica.index, before);
    tell(&site, 6.9e9, 14e9, "");
    assert_uint_equal(measured(&site, "scratch"), 71 * GB / 10);
    look_after(&site, 1000);
    assert_uint_equal(site.fake->replica.index, before + 1);
    tell(&site, 1e9, 14e9, "");
    assert_uint_equal(measured(&site, "scratch"), 10 * GB);
    site_stop(&site);
}

static void differences_are_a_tenth_or_a_hundredth_of_what_is_configured(void **state)
{
    (void)state;
    assert_true(headroom_differs(0, 1, 100 * GB));
    assert_true(headroom_differs(1, 0, 100 * GB));
    assert_false(headroom_differs(0, 0, 100 * GB));
    assert_false(headroom_differs(GB, GB, 0));
    assert_true(headroom_differs(10 * GB, 11 * GB, 20 * GB));
    assert_false(headroom_differs(10 * GB, 11 * GB - 1, 20 * GB));
    assert_true(headroom_differs(10 * GB, 9 * GB, 20 * GB));
    assert_false(headroom_differs(GB / 10, GB / 5, 20 * GB));
}

/* a measurement of three intervals ago is none, and a new leader's time begins anew */
static void what_is_not_measured_any_more_is_forgotten(void **state)
{
    struct site site;

    (void)state;
    site_start(&site, "scratch", 0);
    tell(&site, 6e9, 14e9, "");
    look_after(&site, 90000);
    assert_uint_equal(measured(&site, "scratch"), 8 * GB);
    look_after(&site, 1);
    assert_uint_equal(measured(&site, "scratch"), 0);
    tell(&site, 6e9, 14e9, "");
    fake_advance_ms(site.fake, 60000);
    headroom_restart(site.headroom); /* another leader that has not heard yet */
    look_after(&site, 90000);
    assert_uint_equal(measured(&site, "scratch"), 8 * GB);
    look_after(&site, 1);
    assert_uint_equal(measured(&site, "scratch"), 0);
    site_stop(&site);
}

static void a_source_that_is_taken_away_measures_nothing(void **state)
{
    struct site site;

    (void)state;
    site_start(&site, "scratch", 0);
    tell(&site, 6e9, 14e9, "");
    configure(&site, "", 0);
    look_after(&site, 1000);
    assert_uint_equal(measured(&site, "scratch"), 0);
    site_stop(&site);
}

static void a_system_that_is_down_or_counts_nothing_measures_nothing(void **state)
{
    struct site site;

    (void)state;
    site_start(&site, "scratch, nowhere", 0);
    tell(&site, 0, 14e9, "the VMS says that state is OFFLINE");
    assert_uint_equal(measured(&site, "scratch"), 0);
    tell(&site, 1e9, NAN, "");
    assert_uint_equal(measured(&site, "scratch"), 0);
    assert_non_null(strstr(headroom_problem(site.headroom, 0), "names nowhere"));
    configure(&site, "scratch", 0);
    tell(&site, 1e9, NAN, "");
    assert_non_null(strstr(headroom_problem(site.headroom, 0), "set write_limit_bytes_per_s"));
    tell(&site, NAN, 1e9, "");
    assert_non_null(strstr(headroom_problem(site.headroom, 0), "wr_bw"));
    configure(&site, "scratch", 4 * GB);
    tell(&site, 1e9, NAN, "");
    assert_string_equal(headroom_problem(site.headroom, 0), "");
    assert_uint_equal(measured(&site, "scratch"), 3 * GB);
    site_stop(&site);
}

static void targets_of_one_system_share_what_it_leaves(void **state)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__PutTarget put = CKPT__LOG__V1__PUT_TARGET__INIT;
    Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;
    struct site site;

    (void)state;
    site_start(&site, "small scratch small", 0);
    spec.target_id = (char[]){"small"};
    spec.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
    spec.prefix = (char[]){"/small"};
    spec.write_bytes_per_s = 2 * GB;
    put.spec = &spec;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_PUT_TARGET;
    command.request_id = (char[]){"put"};
    command.put_target = &put;
    assert_int_equal(fake_do(site.fake, &command).status, FSM_OK);
    tell(&site, 8e9, 14e9, "");
    assert_uint_equal(measured(&site, "scratch"), 5 * GB);
    assert_uint_equal(measured(&site, "small"), GB);
    site_stop(&site);
}

/* ---- own writes ---- */

static void ask_for_checkpoint(struct fake *fake)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RequestCheckpointRequest request = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;

    request.allocation_id = (char[]){"job"};
    command.request_id = (char[]){"ask"};
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_CHECKPOINT;
    command.request_checkpoint = &request;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

static void grant(struct fake *fake, uint64_t checkpoint_id, uint64_t bytes_per_s)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__GrantBatch batch = CKPT__LOG__V1__GRANT_BATCH__INIT;
    Ckpt__Log__V1__Grant one = CKPT__LOG__V1__GRANT__INIT, *grants[] = {&one};

    one.checkpoint_id = checkpoint_id;
    one.bytes_per_s = bytes_per_s;
    one.timeout_ms = 10000000;
    batch.n_grants = 1;
    batch.grants = grants;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_GRANTS;
    command.grants = &batch;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

static void report(struct fake *fake, uint64_t checkpoint_id, Ckpt__V1__ReportKind kind)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeReport message = CKPT__LOG__V1__NODE_REPORT__INIT;
    Ckpt__V1__AgentReport facts = CKPT__V1__AGENT_REPORT__INIT;

    facts.sequence = fsm_node_find(fake->replica.fsm, "node-1")->last_report_sequence + 1;
    facts.kind = kind;
    facts.allocation_id = (char[]){"job"};
    facts.checkpoint_id = checkpoint_id;
    facts.attempt = 1;
    facts.run = fake_run(fake, "job", "node-1");
    facts.size_bytes = facts.write_ms = 1000;
    facts.ranks = 1;
    facts.manifest_sha256 =
        (char[]){"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"};
    message.node_id = (char[]){"node-1"};
    message.report = &facts;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT;
    command.node_report = &message;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* wr_bw holds them: a checkpoint that begins, writes and ends is no change of what is left for
 * checkpoints */
static void own_checkpoints_do_not_close_the_gate_behind_which_they_write(void **state)
{
    struct site site;
    uint64_t id, before;

    (void)state;
    site_start(&site, "scratch", 0);
    assert_int_equal(fake_register(site.fake, "job", 1, 1, NULL).status, FSM_OK);
    for (int second = 0; second < HEADROOM_WINDOW; second++)
        look_after(&site, 1000);
    tell(&site, 6e9, 14e9, "");
    assert_uint_equal(measured(&site, "scratch"), 8 * GB);
    ask_for_checkpoint(site.fake);
    id = fsm_allocation_find(site.fake->replica.fsm, "job")->active_checkpoint_id;
    grant(site.fake, id, 5 * GB);
    report(site.fake, id, CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED);
    before = site.fake->replica.index;
    for (int second = 1; second <= 12; second++) { /* the VMS's mean of 10 s follows */
        look_after(&site, 1000);
        tell(&site, 6e9 + 5e9 * fmin(second, 10) / 10, 14e9, "");
        assert_uint_equal(measured(&site, "scratch"), 8 * GB);
    }
    report(site.fake, id, CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED);
    for (int second = 1; second <= 12; second++) {
        look_after(&site, 1000);
        tell(&site, 6e9 + 5e9 * fmax(10 - second, 0) / 10, 14e9, "");
        assert_uint_equal(measured(&site, "scratch"), 8 * GB);
    }
    assert_uint_equal(site.fake->replica.index, before + 1); /* the report */
    site_stop(&site);
}

static void a_follower_proposes_nothing(void **state)
{
    struct site site;

    (void)state;
    site_start(&site, "scratch", 0);
    fake_stop_serving(site.fake);
    tell(&site, 6e9, 14e9, "");
    look_after(&site, 200000);
    assert_uint_equal(measured(&site, "scratch"), 0);
    site_stop(&site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_of_a_tenth_enters_the_log_once_and_less_does_not),
        cmocka_unit_test(differences_are_a_tenth_or_a_hundredth_of_what_is_configured),
        cmocka_unit_test(what_is_not_measured_any_more_is_forgotten),
        cmocka_unit_test(a_source_that_is_taken_away_measures_nothing),
        cmocka_unit_test(a_system_that_is_down_or_counts_nothing_measures_nothing),
        cmocka_unit_test(targets_of_one_system_share_what_it_leaves),
        cmocka_unit_test(own_checkpoints_do_not_close_the_gate_behind_which_they_write),
        cmocka_unit_test(a_follower_proposes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
