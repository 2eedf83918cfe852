/* An agent whose socket ckpt-runs attach to, and a broker that answers them, in one loop.
 *
 * Flow     set_up(); attach() as a ckpt-run does, then becomes() what is expected; tear_down().
 * Shapes   restores, sweeps and looks at work folders are the test's own: each ends when the loop
 *          comes round, or when the test says so.
 */
#ifndef TESTS_UNIT_AGENT_ATTACH_H
#define TESTS_UNIT_AGENT_ATTACH_H

#include "ckpt/v1/app.pb-c.h"
#include "ckpt/v1/broker.pb-c.h"
#include "src/agent/app/app_server.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/restart_points.h"
#include "src/agent/node/proc.h"
#include "src/rpc/client.h"
#include "src/rpc/server.h"
#include "src/rpc/uv_clock.h"
#include "tests/support/test.h"

#include <unistd.h>

/* Of the agent's clock, HURRY times as fast as the machine's. WAIT_US is for what comes: long. */
enum { HURRY = 6, WAIT_US = 60000000, POLLS_US = 700000, OUTAGE_US = 6000000, RUN = 9 };

/* The newest removal that was asked for; it ends when the test says so. */
static struct {
    unsigned count;
    char folder[128]; /* the last one of the last call */
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
static char rate[24];             /* its --rate; "": none */
static Ckpt__V1__ReadState may_read; /* from the target */
static uint64_t discard_at_ms;       /* of a target that is away */
static Ckpt__V1__BeginCause without; /* why not from 0-14, 10 minutes; UNSPECIFIED: not told */
static char manifest[72];            /* of all shards; "": an earlier broker tells none */
static bool copy_goes;               /* that of part-0001, when the next worker ends */
static uint32_t restart_count;       /* of the next hello */
static char next_path[32];           /* where the checkpoints go; "": the job has none */
static bool written_there;           /* what it begins from lies at the same destination */
static struct {
    int exit_code;
    bool hangs; /* it does not end by itself */
    const char *cause, *error;
} prepare;
static char folder[] = "/tmp/test-attach-XXXXXX";

static char refusal[512]; /* of the last hello */
static char said[1024];   /* why it waits, as it was told last */
static struct {
    bool came;
    uint64_t checkpoint_id;
    char folder[128], notice[256], uri[64], label[16], scratch[160];
    bool outside;
} ready; /* the last one without an error */

/* What the broker says. */
static uint64_t point_id, began_from; /* 0: from that too */
static bool silent;                   /* no leader */
static bool unknown;                  /* nobody has registered the job */
static Ckpt__V1__AllocationState job_state;
static bool joined, may_begin, part_restored, from_scratch, place_changed, swapped;
static Ckpt__V1__BeginState waits_for;                /* when it may not begin */
static char registered_profile[16], said_profile[16]; /* "": none */
static char registered_attributes[64], told_attributes[64];
static uint32_t said_signal; /* 0: none */
static bool said_finds_way;
static char said_outside[16];                  /* "": none */
static bool point_transparent;                 /* the policy's */
static bool profile_named;                     /* registered by name */
static Ckpt__V1__RestoreMode mode, other_mode; /* other: of part 1, which has restored */

/* The worker that was started last; it ends when the loop comes round. */
static struct {
    int exit_code; /* -1: none can be started */
    bool runs, prepares, hangs;
    const char *error; /* NULL: a file differs */
    char did[160];     /* verbs, parts and targets of all of them */
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
    assert_int_equal(strncmp(path, folder, strlen(folder)), 0);
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
                                      const struct machine_folders *folders,
                                      void (*done)(void *data), void *data)
{
    (void)context, (void)user;
    snprintf(removal.folder, sizeof(removal.folder), "%s", folders->paths[folders->count - 1]);
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
        snprintf(ready.scratch, sizeof(ready.scratch), "%s", down->ready->scratch);
        ready.outside = down->ready->outside;
        snprintf(told_attributes, sizeof(told_attributes), "%s", down->ready->attributes);
    }
    ckpt__v1__attach_down__free_unpacked(down, NULL);
}

static bool replaces;              /* as --replace says */
static enum rpc_status ended_with; /* the last stream that has ended */

static void note_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    (void)call, (void)data;
    ended_with = end->status;
}

static struct rpc_client_call *attach_on(struct rpc_channel *on, const char *allocation_id)
{
    static const struct rpc_client_handlers handlers = {.on_message = take_message,
                                                        .on_end = note_end};
    struct rpc_client_call *call =
        rpc_channel_open(on, "/ckpt.v1.AppService/Attach", 0, true, &handlers, NULL);
    Ckpt__V1__AttachUp up = CKPT__V1__ATTACH_UP__INIT;
    Ckpt__V1__AttachHello hello = CKPT__V1__ATTACH_HELLO__INIT;
    char id[32], own_folder[80], served[] = "unix:/x/serves";
    uint8_t bytes[256];

    snprintf(id, sizeof(id), "%s", allocation_id);
    snprintf(own_folder, sizeof(own_folder), "%s%s", folder,
             strcmp(id, "job") == 0 || strcmp(id, "intruder") == 0 ? "" : id);

    hello.allocation_id = id;
    hello.profile = said_profile;
    hello.ask_signal = said_signal;
    hello.finds_way = said_finds_way;
    hello.outside = said_outside;
    if (said_outside[0] != '\0')
        hello.outside_endpoint = served;
    hello.work_dir = own_folder;
    hello.want_restore = !from_scratch;
    hello.restart_count = restart_count;
    hello.replace = replaces;
    up.body_case = CKPT__V1__ATTACH_UP__BODY_HELLO;
    up.hello = &hello;
    assert_true(ckpt__v1__attach_up__get_packed_size(&up) <= sizeof(bytes));
    rpc_client_call_send(call, bytes, ckpt__v1__attach_up__pack(&up, bytes));
    return call;
}

/* Its application is this process. */
static inline void say_started(struct rpc_client_call *call)
{
    Ckpt__V1__AttachUp up = CKPT__V1__ATTACH_UP__INIT;
    Ckpt__V1__AttachStarted started = CKPT__V1__ATTACH_STARTED__INIT;
    struct proc_stat stat;
    uint8_t bytes[64];

    assert_int_equal(proc_read_stat(getpid(), &stat), 0);
    started.pid = (uint32_t)getpid();
    started.start_time_ticks = stat.start_ticks;
    up.body_case = CKPT__V1__ATTACH_UP__BODY_STARTED;
    up.started = &started;
    assert_true(ckpt__v1__attach_up__get_packed_size(&up) <= sizeof(bytes));
    rpc_client_call_send(call, bytes, ckpt__v1__attach_up__pack(&up, bytes));
}

static inline struct rpc_client_call *attach(void)
{
    return attach_on(channel, "job");
}

static void fill_part(Ckpt__V1__AllocationPart *part, char *job)
{
    part->allocation_id = job;
    part->remaining_ms = 40000;
    part->walltime_ms = 60000;
    part->grace_ms = 5000;
    part->joined = joined;
    part->restored = part_restored;
    part->begin = may_begin ? CKPT__V1__BEGIN_STATE__BEGIN_STATE_MAY : waits_for;
    part->read = may_read;
    part->read_bytes_per_s = 1000000;
}

static void answer_point(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    Ckpt__V1__RestartPoint point = CKPT__V1__RESTART_POINT__INIT;
    Ckpt__V1__AllocationPart part = CKPT__V1__ALLOCATION_PART__INIT;
    Ckpt__V1__ShardInfo shard = CKPT__V1__SHARD_INFO__INIT, second = shard;
    Ckpt__V1__ShardInfo *shards[] = {&shard, &second};
    Ckpt__V1__BeginWithout left_out = CKPT__V1__BEGIN_WITHOUT__INIT;
    char node[] = "node-a", other[] = "node-b", gone[] = "node-c", job[] = "job", path[] = "/ckpt",
         label[] = "128", target[] = "x", prefix[] = "/x";
    char *nodes[] = {swapped ? other : node, swapped ? node : other};
    uint64_t runs[] = {run_of_writer != 0 ? run_of_writer : RUN, RUN};
    uint8_t reply[1024];

    (void)data, (void)bytes, (void)length;
    if (silent) {
        rpc_call_finish(call, RPC_UNAVAILABLE, "no leader");
        return;
    }
    if (unknown) {
        rpc_call_finish(call, RPC_NOT_FOUND, "no such job");
        return;
    }
    fill_part(&part, job);
    point.target_id = target;
    point.target_prefix = written_there ? prefix : next_path + strlen(next_path);
    point.checkpoints_path = next_path;
    point.checkpoints_prefix = next_path[0] == '\0' ? next_path : prefix;
    point.read_place = 3;
    point.read_line = 7;
    point.discarded_ms = discard_at_ms == 0 ? 0 : 600000;
    point.discard_at_ms = discard_at_ms;
    point.max_discarded_ms = 3600000;
    left_out.cause = without;
    left_out.checkpoint_id = 14;
    left_out.repeated_ms = 600000;
    point.without = without == CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_UNSPECIFIED ? NULL : &left_out;
    point.restore = mode;
    point.profile = registered_profile;
    point.attributes = registered_attributes;
    point.profile_named = profile_named;
    point.transparent = point_transparent;
    point.restored_as = other_mode;
    point.restored_part = 1;
    point.allocation_state = job_state;
    point.epoch = 1;
    point.n_node_ids = point.n_runs = 1;
    point.node_ids = nodes;
    point.runs = runs;
    point.part = &part;
    shard.manifest_sha256 = second.manifest_sha256 = manifest;
    if (run_of_writer != 0) {
        shard.node_id = node;
        point.checkpoint_id = point_id;
        point.path = path;
        point.label = label;
        part.restart_checkpoint_id = began_from != 0 ? began_from : point_id;
        point.n_shards = 1;
        point.own_shard = joined ? 0 : swapped ? 2 : 1;
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

static void work_begins(worker_done_fn *done, void *data, struct worker **ret_worker)
{
    assert_false(work.runs);
    work.runs = true;
    work.done = done;
    work.data = data;
    *ret_worker = (struct worker *)(void *)&work;
}

static void folder_prepare(const char *const *arguments, worker_done_fn *done, void *data,
                           struct worker **ret_worker)
{
    assert_string_equal(arguments[2], "/x");
    assert_string_equal(arguments[3], "--path");
    if (arguments[5] != NULL)
        assert_string_equal(arguments[6], "/ckpt");
    snprintf(work.did + strlen(work.did), sizeof(work.did) - strlen(work.did), "prepare %s%s;",
             arguments[4], arguments[5] == NULL ? "" : " beside /ckpt");
    work.prepares = true;
    work_begins(done, data, ret_worker);
    if (!prepare.hangs)
        agent.clock.timer_start(work.timer, 0);
}

static int shard_restore(void *context, const char *const *arguments, struct machine_user user,
                         uint64_t deadline_ms, worker_done_fn *done, void *data,
                         struct worker **ret_worker, struct err *err)
{
    bool goes_to = false;

    (void)context, (void)user, (void)deadline_ms;
    if (strcmp(arguments[0], "prepare") == 0) {
        folder_prepare(arguments, done, data, ret_worker);
        return 0;
    }
    assert_string_equal(arguments[3], "--part");
    snprintf(restored, sizeof(restored), "%s %s", arguments[0], arguments[4]);
    rate[0] = '\0';
    for (size_t i = 0; arguments[i] != NULL; i++) {
        goes_to |= strcmp(arguments[i], "--to") == 0;
        if (strcmp(arguments[i], "--rate") == 0)
            snprintf(rate, sizeof(rate), "%s", arguments[i + 1]);
    }
    if (work.exit_code < 0)
        return err_set(err, ERR_IO, "this test restores nothing");
    snprintf(work.did + strlen(work.did), sizeof(work.did) - strlen(work.did), "%s;", restored);
    if (strcmp(arguments[0], "restore") == 0) /* what is below the work folder */
        assert_true(goes_to);
    work_begins(done, data, ret_worker);
    if (!work.hangs)
        agent.clock.timer_start(work.timer, 0);
    return 0;
}

static void work_ends(void *data)
{
    struct worker_result result = {.exit_code = work.exit_code, .error = "a file differs"};

    (void)data;
    if (work.error != NULL)
        snprintf(result.error, sizeof(result.error), "%s", work.error);
    work.runs = false;
    if (work.prepares) {
        result.exit_code = prepare.exit_code;
        snprintf(result.error, sizeof(result.error), "%s", prepare.error);
        snprintf(result.cause, sizeof(result.cause), "%s", prepare.cause);
        work.prepares = false;
    }
    if (copy_goes)
        agent_find(&agent, "job")->entry.copy_count = 1;
    work.done(work.data, &result);
}

static inline bool starts(void)
{
    return ready.came;
}

static inline bool looks(void)
{
    return looked != NULL;
}

static inline bool looked_at(void)
{
    return looked == NULL;
}

static bool attached(void)
{
    const struct allocation *job = agent_find(&agent, "job");

    return job != NULL && job->stream != NULL;
}

static inline bool left(void)
{
    return !attached();
}

static inline bool starts_over(void)
{
    return ended_with == RPC_ABORTED;
}

static inline bool removes(void)
{
    return removal.count == 1;
}

static inline bool removes_again(void)
{
    return removal.count > 1;
}

static inline bool told(void)
{
    return said[0] != '\0';
}

static bool refused(void)
{
    return refusal[0] != '\0';
}

static inline bool restores(void)
{
    return restored[0] != '\0';
}

static inline bool has_run(void)
{
    return agent_find(&agent, "job")->entry.run == RUN;
}

static struct clock_ops real_clock;

static uint64_t hurried_us(void *context)
{
    return real_clock.monotonic_us(context) * HURRY;
}

static void hurried_start(struct clock_timer *timer, uint64_t delay_us)
{
    real_clock.timer_start(timer, (delay_us + HURRY - 1) / HURRY);
}

/* Waits of seconds are what the cases are about, and nobody has to sit through them. */
static void hurry(struct clock_ops *clock)
{
    uv_clock_ops(&loop, clock);
    real_clock = *clock;
    clock->monotonic_us = hurried_us;
    clock->timer_start = hurried_start;
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
    hurry(&clock);
    machine_uv_ops(&loop, &machine);
    machine.path_open = path_open;
    machine.path_open_detach = path_open_stop;
    wrong = NULL;
    looked = NULL;
    refusal[0] = restored[0] = said[0] = '\0';
    may_read = CKPT__V1__READ_STATE__READ_STATE_UNSPECIFIED;
    discard_at_ms = 0;
    without = CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_UNSPECIFIED;
    snprintf(manifest, sizeof(manifest), "%064d", 7);
    copy_goes = false;
    run_of_writer = 0;
    writer_gone = joined = place_changed = swapped = silent = false;
    may_begin = true;
    waits_for = CKPT__V1__BEGIN_STATE__BEGIN_STATE_RESTORING;
    part_restored = from_scratch = false;
    began_from = 0;
    point_id = 14;
    unknown = false;
    job_state = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING;
    mode = CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN;
    other_mode = CKPT__V1__RESTORE_MODE__RESTORE_MODE_UNSPECIFIED;
    registered_profile[0] = said_profile[0] = registered_attributes[0] = '\0';
    said_signal = 0;
    profile_named = said_finds_way = point_transparent = false;
    said_outside[0] = '\0';
    ended_with = RPC_OK;
    memset(&ready, 0, sizeof(ready));
    memset(&work, 0, sizeof(work));
    memset(&prepare, 0, sizeof(prepare));
    prepare.cause = prepare.error = "";
    next_path[0] = '\0';
    written_there = false;
    restart_count = 0;
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

#endif
