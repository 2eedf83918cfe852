/* ckpt-runs that attach one after the other (F-026). */
#include "ckpt/v1/app.pb-c.h"
#include "ckpt/v1/broker.pb-c.h"
#include "src/agent/app/app_server.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/restart_points.h"
#include "src/rpc/client.h"
#include "src/rpc/server.h"
#include "src/rpc/uv_clock.h"
#include "tests/support/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_US = 10000000, POLLS_US = 700000, RUN = 9 };

/* The newest removal that was asked for; it ends when the test says so. */
static struct {
    unsigned count;
    void (*done)(void *data);
    void *data;
} removal;
enum { STREAMS = 64 /* of a connection */ };

static uv_loop_t loop;
static struct agent agent;
static struct app_server *server;
static char address[80];
static struct rpc_channel *channel;
static struct rpc_server *broker; /* that answers GetRestartPoint */
static uint64_t run_of_writer;    /* not 0: node-a's, of the only shard; node-b is in RUN */
static bool writer_gone;          /* two shards, the first of a node that is no more of the job */
static char restored[32];         /* the verb and the part of the worker */
static char folder[] = "/tmp/test-attach-XXXXXX";

static char refusal[512]; /* of the last hello */
static char said[512];    /* why it waits, as it was told last */
static struct {
    bool came;
    uint64_t checkpoint_id;
    char folder[128], notice[256], uri[64], label[16];
} ready; /* the last one without an error */

/* What the broker says. */
static uint64_t point_id, began_from; /* 0: from that too */
static bool joined, may_begin, part_restored, from_scratch, place_changed;
static Ckpt__V1__BeginState waits_for; /* when it may not begin */
static Ckpt__V1__RestoreMode mode;

/* The worker that was started last; it ends when the loop comes round. */
static struct {
    int exit_code; /* -1: none can be started */
    bool runs;
    char did[160]; /* verbs, parts and targets of all of them */
    worker_done_fn *done;
    void *data;
    struct clock_timer *timer;
} work;

static const char *wrong; /* why the work folder cannot be opened; NULL: it can */
static opened_done_fn *looked;
static void *looker;
static struct clock_timer *look_timer;

static void look_ends(void *data)
{
    opened_done_fn *done = looked;

    (void)data;
    looked = NULL;
    if (done != NULL)
        done(looker, wrong == NULL ? opened_here(folder) : NULL, wrong == NULL ? "" : wrong);
}

static struct path_open *path_open(void *context, enum opened_kind kind, const char *path,
                                   uid_t uid, opened_done_fn *done, void *data)
{
    (void)context, (void)uid;
    assert_int_equal(kind, OPENED_FOLDER);
    assert_string_equal(path, folder);
    looked = done;
    looker = data;
    agent.clock.timer_start(look_timer, 0);
    return (struct path_open *)(void *)&looked;
}

static void path_open_stop(struct path_open *open)
{
    if (open != NULL)
        looked = NULL;
}

static struct cleanup *folders_remove(void *context, struct machine_user user,
                                      const char *const *folders, size_t folder_count,
                                      void (*done)(void *data), void *data)
{
    (void)context, (void)user, (void)folders, (void)folder_count;
    removal.count++;
    removal.done = done;
    removal.data = data;
    return (struct cleanup *)(void *)&removal;
}

static void remove_detach(struct cleanup *cleanup)
{
    if (cleanup != NULL)
        removal.done = NULL;
}

static void take_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                         size_t length)
{
    Ckpt__V1__AttachDown *down = ckpt__v1__attach_down__unpack(NULL, length, bytes);

    (void)call, (void)data;
    assert_non_null(down);
    if (down->body_case == CKPT__V1__ATTACH_DOWN__BODY_NOTICE)
        snprintf(said, sizeof(said), "%s", down->notice->text);
    if (down->body_case == CKPT__V1__ATTACH_DOWN__BODY_READY)
        snprintf(refusal, sizeof(refusal), "%s", down->ready->error);
    if (down->body_case == CKPT__V1__ATTACH_DOWN__BODY_READY && down->ready->error[0] == '\0') {
        ready.came = true;
        ready.checkpoint_id = down->ready->checkpoint_id;
        snprintf(ready.folder, sizeof(ready.folder), "%s", down->ready->restore_dir);
        snprintf(ready.notice, sizeof(ready.notice), "%s", down->ready->notice);
        snprintf(ready.uri, sizeof(ready.uri), "%s", down->ready->restore_uri);
        snprintf(ready.label, sizeof(ready.label), "%s", down->ready->restore_label);
    }
    ckpt__v1__attach_down__free_unpacked(down, NULL);
}

static void ignore_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    (void)call, (void)data, (void)end;
}

static struct rpc_client_call *attach_on(struct rpc_channel *on, const char *allocation_id)
{
    static const struct rpc_client_handlers handlers = {.on_message = take_message,
                                                        .on_end = ignore_end};
    struct rpc_client_call *call =
        rpc_channel_open(on, "/ckpt.v1.AppService/Attach", 0, true, &handlers, NULL);
    Ckpt__V1__AttachUp up = CKPT__V1__ATTACH_UP__INIT;
    Ckpt__V1__AttachHello hello = CKPT__V1__ATTACH_HELLO__INIT;
    char id[32], profile[] = "signal";
    uint8_t bytes[256];

    snprintf(id, sizeof(id), "%s", allocation_id);

    hello.allocation_id = id;
    hello.profile = profile;
    hello.work_dir = folder;
    hello.want_restore = !from_scratch;
    up.body_case = CKPT__V1__ATTACH_UP__BODY_HELLO;
    up.hello = &hello;
    assert_true(ckpt__v1__attach_up__get_packed_size(&up) <= sizeof(bytes));
    rpc_client_call_send(call, bytes, ckpt__v1__attach_up__pack(&up, bytes));
    return call;
}

static struct rpc_client_call *attach(void)
{
    return attach_on(channel, "job");
}

static void answer_point(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    Ckpt__V1__RestartPoint point = CKPT__V1__RESTART_POINT__INIT;
    Ckpt__V1__AllocationPart part = CKPT__V1__ALLOCATION_PART__INIT;
    Ckpt__V1__ShardInfo shard = CKPT__V1__SHARD_INFO__INIT, second = shard;
    Ckpt__V1__ShardInfo *shards[] = {&shard, &second};
    char node[] = "node-a", other[] = "node-b", gone[] = "node-c", job[] = "job", path[] = "/ckpt",
         label[] = "128";
    char *nodes[] = {node, other};
    uint64_t runs[] = {run_of_writer != 0 ? run_of_writer : RUN, RUN};
    uint8_t reply[512];

    (void)data, (void)bytes, (void)length;
    part.allocation_id = job;
    part.remaining_ms = 40000;
    part.walltime_ms = 60000;
    part.grace_ms = 5000;
    part.joined = joined;
    part.restored = part_restored;
    part.begin = may_begin ? CKPT__V1__BEGIN_STATE__BEGIN_STATE_MAY : waits_for;
    point.restore = mode;
    point.allocation_state = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING;
    point.epoch = 1;
    point.n_node_ids = point.n_runs = 1;
    point.node_ids = nodes;
    point.runs = runs;
    point.part = &part;
    if (run_of_writer != 0) {
        shard.node_id = node;
        point.checkpoint_id = point_id;
        point.path = path;
        point.label = label;
        part.restart_checkpoint_id = began_from != 0 ? began_from : point_id;
        point.n_shards = 1;
        point.shards = shards;
        point.n_node_ids = point.n_runs = 2;
    }
    if (writer_gone || place_changed) {
        shard.node_id = gone;
        second.node_id = place_changed ? node : other;
        second.part = 1;
        point.n_shards = 2;
    }
    assert_true(ckpt__v1__restart_point__get_packed_size(&point) <= sizeof(reply));
    rpc_call_reply(call, reply, ckpt__v1__restart_point__pack(&point, reply));
}

static int shard_restore(void *context, const char *const *arguments, struct machine_user user,
                         uint64_t deadline_ms, worker_done_fn *done, void *data,
                         struct worker **ret_worker, struct err *err)
{
    (void)context, (void)user, (void)deadline_ms;
    assert_string_equal(arguments[3], "--part");
    snprintf(restored, sizeof(restored), "%s %s", arguments[0], arguments[4]);
    if (work.exit_code < 0)
        return err_set(err, ERR_IO, "this test restores nothing");
    assert_false(work.runs);
    snprintf(work.did + strlen(work.did), sizeof(work.did) - strlen(work.did), "%s;", restored);
    if (strcmp(arguments[0], "restore") == 0) /* what is below the work folder */
        assert_string_equal(arguments[5], "--to");
    work.runs = true;
    work.done = done;
    work.data = data;
    *ret_worker = (struct worker *)(void *)&work;
    agent.clock.timer_start(work.timer, 0);
    return 0;
}

static void work_ends(void *data)
{
    struct worker_result result = {.exit_code = work.exit_code, .error = "a file differs"};

    (void)data;
    work.runs = false;
    work.done(work.data, &result);
}

static bool starts(void)
{
    return ready.came;
}

static bool looks(void)
{
    return looked != NULL;
}

static bool looked_at(void)
{
    return looked == NULL;
}

static bool attached(void)
{
    const struct allocation *job = agent_find(&agent, "job");

    return job != NULL && job->stream != NULL;
}

static bool left(void)
{
    return !attached();
}

static bool removes(void)
{
    return removal.count == 1;
}

static bool removes_again(void)
{
    return removal.count > 1;
}

static bool told(void)
{
    return said[0] != '\0';
}

static bool refused(void)
{
    return refusal[0] != '\0';
}

static bool restores(void)
{
    return restored[0] != '\0';
}

static bool has_run(void)
{
    return agent_find(&agent, "job")->entry.run == RUN;
}

static bool becomes(bool (*wanted)(void), uint64_t within_us)
{
    uint64_t end_us = agent_now_us(&agent) + within_us;

    while (!wanted() && agent_now_us(&agent) < end_us) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    return wanted();
}

static struct rpc_channel *channel_new(void)
{
    return rpc_channel_new(&loop, address, NULL);
}

static int set_up(void **state)
{
    static const struct rpc_handlers points = {.on_message = answer_point};
    char socket_path[64];
    char broker_address[32];
    struct machine_ops machine;
    struct clock_ops clock;
    struct err err;

    (void)state;
    if (mkdtemp(folder) == NULL || uv_loop_init(&loop) != 0)
        return -1;
    snprintf(socket_path, sizeof(socket_path), "%s/socket", folder);
    snprintf(address, sizeof(address), "unix:%s", socket_path);
    broker = rpc_server_new(&loop, NULL);
    rpc_server_add_method(broker, "/ckpt.v1.BrokerService/GetRestartPoint", false, false, &points,
                          NULL);
    if (rpc_server_listen(broker, "127.0.0.1:0", &err) != 0)
        return -1;
    snprintf(broker_address, sizeof(broker_address), "127.0.0.1:%d", rpc_server_port(broker, 0));
    removal.count = 0;
    uv_clock_ops(&loop, &clock);
    machine_uv_ops(&loop, &machine);
    machine.path_open = path_open;
    machine.path_open_detach = path_open_stop;
    wrong = NULL;
    looked = NULL;
    refusal[0] = restored[0] = said[0] = '\0';
    run_of_writer = 0;
    writer_gone = joined = place_changed = false;
    may_begin = true;
    waits_for = CKPT__V1__BEGIN_STATE__BEGIN_STATE_RESTORING;
    part_restored = from_scratch = false;
    began_from = 0;
    point_id = 14;
    mode = CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN;
    memset(&ready, 0, sizeof(ready));
    memset(&work, 0, sizeof(work));
    work.exit_code = -1;
    machine.worker_start = shard_restore;
    machine.folders_remove = folders_remove;
    machine.remove_detach = remove_detach;
    agent_init(&agent, &loop, &clock, &machine, "node-a", "boot-1", ledger_new());
    look_timer = clock.timer_new(clock.context, look_ends, NULL);
    work.timer = clock.timer_new(clock.context, work_ends, NULL);
    if (restart_points_new(&agent, broker_address, &agent.restart_points, &err) != 0 ||
        app_server_new(&agent, socket_path, &server, &err) != 0)
        return -1;
    channel = channel_new();
    return 0;
}

static void server_freed(void *data)
{
    (void)data;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    rpc_channel_free(channel);
    agent.clock.timer_free(look_timer);
    agent.clock.timer_free(work.timer);
    agent_close(&agent);
    app_server_free(server, server_freed, NULL);
    rpc_server_free(broker, server_freed, NULL);
    restart_points_free(agent.restart_points);
    ledger_close(agent.ledger);
    uv_run(&loop, UV_RUN_DEFAULT);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    return uv_loop_close(&loop) == 0 ? system(command) : -1;
}

/* It goes by paths: it would take away what is restored for the next one meanwhile. */
static void a_sweep_that_outlives_its_ckpt_run_is_waited_for(void **state)
{
    struct rpc_client_call *first = attach();

    (void)state;
    assert_true(becomes(removes, WAIT_US));
    rpc_client_call_cancel(first);
    assert_true(becomes(left, WAIT_US));
    assert_false(allocation_idle(agent_find(&agent, "job")));
    attach();
    assert_true(becomes(attached, WAIT_US));
    assert_false(becomes(removes_again, POLLS_US));
    removal.done(removal.data);
    assert_true(becomes(removes_again, WAIT_US));
}

/* S1-090, I33: all brokers may die before they send the first orders. The end is kept like one that
 * came with orders. */
static void the_answer_about_the_restart_point_tells_the_walltime(void **state)
{
    const struct ledger_entry *kept;
    uint64_t began_us;

    (void)state;
    attach();
    assert_true(becomes(removes, WAIT_US));
    began_us = agent_now_us(&agent);
    removal.done(removal.data);
    assert_true(becomes(has_run, WAIT_US));
    kept = ledger_find(agent.ledger, "job");
    assert_non_null(kept);
    assert_true(kept->deadline_us >= began_us + UINT64_C(40000000));
    assert_true(kept->deadline_us <= agent_now_us(&agent) + UINT64_C(40000000));
    assert_uint_equal(kept->walltime_ms, 60000);
    assert_uint_equal(kept->grace_ms, 5000);
}

static void a_work_folder_that_cannot_be_opened_is_refused_with_the_reason(void **state)
{
    (void)state;
    wrong = "/some/folder does not answer";
    attach();
    assert_true(becomes(refused, WAIT_US));
    assert_string_equal(refusal, wrong);
    assert_false(attached());
}

static struct rpc_client_call *attach_to_restore(void)
{
    struct rpc_client_call *call = attach();

    removal.count = 0;
    assert_true(becomes(removes, WAIT_US));
    removal.done(removal.data);
    return call;
}

static bool goes_on(void)
{
    return agent_find(&agent, "job")->entry.still == STANDING_NOT;
}

/* A process that leads a group, as the application that a ckpt-run has left. */
static pid_t leave_application(void)
{
    pid_t pid = fork();
    struct process_identity identity;
    struct proc_status status;
    struct proc_stat stat;

    if (pid == 0) {
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    assert_int_equal(setpgid(pid, pid), 0);
    assert_int_equal(agent.machine.process_read(agent.machine.context, pid, &stat, &status), 0);
    identity = (struct process_identity){pid, stat.start_ticks, machine_user_of(&status)};
    process_attached(agent_get(&agent, "job"), &identity, RUN, false);
    assert_true(becomes(goes_on, WAIT_US)); /* one that is not known is let go on first */
    return pid;
}

/* It stands still for the checkpoint that is to end it: who comes for the next run waits, hears
 * why, and begins when it has ended. */
static void who_comes_while_the_job_stands_still_waits_and_hears_why(void **state)
{
    char wanted[80];
    pid_t pid = leave_application();

    (void)state;
    agent_find(&agent, "job")->entry.still = STANDING_STILL;
    snprintf(wanted, sizeof(wanted), "pid %d of allocation job stands still here", (int)pid);
    attach();
    assert_false(becomes(told, POLLS_US)); /* who comes back in a moment is not waited for */
    assert_true(becomes(told, WAIT_US));
    assert_contains(said, wanted);
    assert_false(attached() || refused());
    agent_find(&agent, "job")->entry.still = STANDING_NOT;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(becomes(attached, WAIT_US));
}

/* Its ckpt-run may come back in a moment; when it does not, the application is ended. */
static void who_comes_while_another_ckpt_run_is_missing_waits_for_that_one(void **state)
{
    pid_t pid = leave_application();

    (void)state;
    attach();
    assert_true(becomes(told, WAIT_US));
    assert_contains(said, "still runs here, and its ckpt-run has gone");
    assert_false(attached() || refused());
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(becomes(attached, WAIT_US));
}

/* I27: the parts that were there before live from it. */
static void who_joined_a_run_that_had_begun_restores_nothing(void **state)
{
    (void)state;
    run_of_writer = RUN;
    joined = true;
    attach_to_restore();
    assert_true(becomes(starts, WAIT_US));
    assert_uint_equal(ready.checkpoint_id, 0);
    assert_string_equal(ready.folder, "");
    assert_contains(ready.notice, "joined");
    assert_false(restores());
}

static void a_node_restores_the_shard_that_it_wrote(void **state)
{
    (void)state;
    run_of_writer = RUN;
    attach_to_restore();
    assert_true(becomes(restores, WAIT_US));
    assert_string_equal(restored, "restore part-0000");
    assert_false(refused());
}

static void a_node_takes_the_place_over_whose_writer_is_gone(void **state)
{
    (void)state;
    run_of_writer = RUN;
    writer_gone = true;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(starts, WAIT_US));
    assert_string_equal(work.did, "restore part-0000;");
    assert_uint_equal(ready.checkpoint_id, 14);
    assert_contains(ready.folder, "/restore/0-14");
    assert_string_equal(ready.label, "128");
    assert_uint_equal(ledger_last_sequence(agent.ledger), 0); /* all had said so before */
}

/* All fell back to a checkpoint that they wrote in another order: each takes its place of it, and
 * none is taken twice. */
static void a_node_takes_its_place_of_one_that_was_written_in_another_order(void **state)
{
    (void)state;
    run_of_writer = RUN;
    place_changed = true;
    attach_to_restore();
    assert_true(becomes(restores, WAIT_US));
    assert_string_equal(restored, "restore part-0000");
}

static Ckpt__V1__AgentReport *last_report(void)
{
    uint64_t last = ledger_last_sequence(agent.ledger);
    const struct ledger_report *report;

    assert_true(last > 0);
    report = ledger_report_after(agent.ledger, last - 1);
    return ckpt__v1__agent_report__unpack(NULL, report->length, report->bytes);
}

static bool reports(void)
{
    return ledger_last_sequence(agent.ledger) > 0;
}

static bool reports_again(void)
{
    return ledger_last_sequence(agent.ledger) > 1;
}

static void expect_waits(Ckpt__V1__BeginState reason, const char *text)
{
    waits_for = reason;
    said[0] = '\0';
    attach_to_restore();
    assert_true(becomes(told, WAIT_US));
    assert_contains(said, text);
    assert_false(starts());
}

/* What is waited for is said. */
static void a_part_that_may_not_begin_hears_why(void **state)
{
    (void)state;
    run_of_writer = RUN;
    may_begin = false;
    from_scratch = joined = true;
    expect_waits(CKPT__V1__BEGIN_STATE__BEGIN_STATE_ENDING,
                 "part 0 of 2: the run is being ended; what comes next is waited for");
}

static void a_part_that_counts_as_running_hears_so(void **state)
{
    (void)state;
    run_of_writer = RUN;
    may_begin = false;
    from_scratch = joined = true;
    expect_waits(CKPT__V1__BEGIN_STATE__BEGIN_STATE_RUNS,
                 "part 0 of 2: the cluster has still to hear that this part has ended");
}

static void a_part_waits_until_all_have_restored(void **state)
{
    Ckpt__V1__AgentReport *report;

    (void)state;
    run_of_writer = RUN;
    may_begin = false;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    report = last_report();
    assert_int_equal(report->kind, CKPT__V1__REPORT_KIND__REPORT_KIND_RESTORED);
    assert_uint_equal(report->restored_checkpoint_id, 14);
    assert_uint_equal(report->run, RUN);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
    assert_false(becomes(starts, POLLS_US));
    agent.callers->poll(agent_find(&agent, "job")->stream); /* a set of orders says nothing new */
    assert_false(becomes(starts, POLLS_US));
    may_begin = true;
    agent.callers->poll(agent_find(&agent, "job")->stream);
    assert_true(becomes(starts, WAIT_US));
    assert_uint_equal(ready.checkpoint_id, 14);
    assert_string_equal(work.did, "restore part-0000;");
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1);
}

/* The state is of before it said so: it was restored from a backup. */
static void a_part_says_again_what_the_state_does_not_know(void **state)
{
    (void)state;
    run_of_writer = RUN;
    may_begin = false;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    assert_true(becomes(reports_again, WAIT_US));
    part_restored = may_begin = true;
    assert_true(becomes(starts, WAIT_US));
    assert_uint_equal(ledger_last_sequence(agent.ledger), 2);
}

/* With the next run begins anew what is said. */
static void a_part_restores_again_for_another_run(void **state)
{
    (void)state;
    run_of_writer = RUN;
    may_begin = false;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    run_of_writer = RUN + 1;
    agent.callers->poll(agent_find(&agent, "job")->stream);
    assert_true(becomes(reports_again, WAIT_US));
    assert_string_equal(work.did, "restore part-0000;restore part-0000;");
}

static void one_part_of_several_does_not_begin_from_scratch_beside_the_others(void **state)
{
    (void)state;
    run_of_writer = RUN;
    from_scratch = true;
    attach();
    assert_true(becomes(removes, WAIT_US));
    removal.done(removal.data);
    assert_true(becomes(refused, WAIT_US));
    assert_contains(refusal, "2 parts, which all begin from checkpoint 0-14");
    assert_contains(refusal, "ckptctl restart job --from-scratch");
    assert_false(starts());
}

/* The others have begun from what is kept no more. */
static void one_part_of_several_does_not_begin_from_another_checkpoint(void **state)
{
    (void)state;
    run_of_writer = RUN;
    began_from = 11;
    attach_to_restore();
    assert_true(becomes(refused, WAIT_US));
    assert_contains(refusal, "have begun from checkpoint 0-11");
    assert_false(restores());
}

static void what_is_damaged_is_told_and_another_one_restored_when_the_state_says_so(void **state)
{
    Ckpt__V1__AgentReport *report;

    (void)state;
    run_of_writer = RUN;
    work.exit_code = WORKER_EXIT_CORRUPT;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    report = last_report();
    assert_int_equal(report->kind, CKPT__V1__REPORT_KIND__REPORT_KIND_RESTART_DAMAGED);
    assert_uint_equal(report->restored_checkpoint_id, 14);
    assert_contains(report->detail, "part-0000 (written on node-a): a file differs");
    ckpt__v1__agent_report__free_unpacked(report, NULL);
    agent.callers->poll(agent_find(&agent, "job")->stream);
    assert_false(becomes(starts, POLLS_US));
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1); /* said once, read once */
    assert_string_equal(work.did, "restore part-0000;");
    work.exit_code = WORKER_EXIT_OK;
    point_id = 13;
    agent.callers->poll(agent_find(&agent, "job")->stream);
    assert_true(becomes(starts, WAIT_US));
    assert_uint_equal(ready.checkpoint_id, 13);
    assert_contains(ready.notice, "checkpoint 0-14 is passed over, its part-0000 is damaged");
}

/* The state ends the run then; its order is on the way. */
static void nothing_begins_from_scratch_where_all_that_was_there_is_damaged(void **state)
{
    (void)state;
    run_of_writer = RUN;
    work.exit_code = WORKER_EXIT_CORRUPT;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    point_id = 0;
    agent.callers->poll(agent_find(&agent, "job")->stream);
    assert_false(becomes(starts, POLLS_US));
}

static void a_part_that_has_restored_goes_with_what_the_others_choose(void **state)
{
    (void)state;
    run_of_writer = RUN;
    may_begin = false;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(reports, WAIT_US));
    may_begin = true;
    point_id = 12;
    agent.callers->poll(agent_find(&agent, "job")->stream);
    assert_true(becomes(starts, WAIT_US));
    assert_uint_equal(ready.checkpoint_id, 12);
    assert_contains(ready.folder, "/restore/0-12");
    assert_contains(ready.notice, "checkpoint 0-14 is passed over, another part");
}

static void all_parts_come_each_in_its_folder_where_it_is_registered_so(void **state)
{
    (void)state;
    run_of_writer = RUN;
    writer_gone = true;
    mode = CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(starts, WAIT_US));
    assert_string_equal(work.did, "restore part-0000;restore part-0001;");
    assert_contains(ready.folder, "/restore/0-14");
}

static void a_path_is_verified_in_shares_and_told(void **state)
{
    (void)state;
    run_of_writer = RUN;
    writer_gone = true;
    mode = CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH;
    work.exit_code = WORKER_EXIT_OK;
    attach_to_restore();
    assert_true(becomes(starts, WAIT_US));
    assert_string_equal(work.did, "verify part-0000;"); /* the other part has the other one */
    assert_string_equal(ready.folder, "");
    assert_string_equal(ready.uri, "file:///ckpt");
    assert_uint_equal(ready.checkpoint_id, 14);
}

/* Names that nobody registered: without a limit they would leave no room for the jobs of others. */
static void one_user_does_not_take_all_the_room_of_a_node(void **state)
{
    struct rpc_channel *channels[AGENT_ALLOCATIONS_PER_USER / STREAMS + 1];
    size_t count = 0;
    char id[32];

    (void)state;
    for (int i = 0; i <= AGENT_ALLOCATIONS_PER_USER; i++) {
        if (i % STREAMS == 0)
            channels[count++] = channel_new();
        snprintf(id, sizeof(id), "x%d", i);
        attach_on(channels[count - 1], id);
        assert_true(becomes(looks, WAIT_US));
        assert_true(becomes(looked_at, WAIT_US));
    }
    assert_true(becomes(refused, WAIT_US));
    assert_contains(refusal, "as many as one user may");
    assert_contains(refusal, "1024");
    while (count > 0)
        rpc_channel_free(channels[--count]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sweep_that_outlives_its_ckpt_run_is_waited_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_answer_about_the_restart_point_tells_the_walltime,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_work_folder_that_cannot_be_opened_is_refused_with_the_reason, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_comes_while_the_job_stands_still_waits_and_hears_why,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            who_comes_while_another_ckpt_run_is_missing_waits_for_that_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_that_may_not_begin_hears_why, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_that_counts_as_running_hears_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_joined_a_run_that_had_begun_restores_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_node_restores_the_shard_that_it_wrote, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_takes_the_place_over_whose_writer_is_gone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_node_takes_its_place_of_one_that_was_written_in_another_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            nothing_begins_from_scratch_where_all_that_was_there_is_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_waits_until_all_have_restored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_says_again_what_the_state_does_not_know, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_part_of_several_does_not_begin_from_another_checkpoint,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_restores_again_for_another_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            one_part_of_several_does_not_begin_from_scratch_beside_the_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            what_is_damaged_is_told_and_another_one_restored_when_the_state_says_so, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(a_part_that_has_restored_goes_with_what_the_others_choose,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_parts_come_each_in_its_folder_where_it_is_registered_so,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_path_is_verified_in_shares_and_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_user_does_not_take_all_the_room_of_a_node, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
