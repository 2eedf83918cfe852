/* A real server, client and replica on one loop and in a folder of its own, for tests of the
 * services.
 *
 * Flow     open_one() or open_lonely() as setup -> calls by fixture->channel -> run_until() ->
 *          close_fixture().
 * Shapes   open_one: one member that leads. open_lonely: one of three that never finds the others.
 *          Included once per test program.
 */
#ifndef CKPT_TESTS_UNIT_BROKER_SERVICE_FIXTURE_H
#define CKPT_TESTS_UNIT_BROKER_SERVICE_FIXTURE_H

#include "tests/support/test.h"

#include <ftw.h>
#include <unistd.h>

#include "ckpt/v1/operator.pb-c.h"
#include "raft/uv_io.h"
#include "src/base/check.h"
#include "src/broker/api/service.h"
#include "src/broker/api/watch.h"
#include "src/broker/explain/translate.h"
#include "src/net/uv_network.h"
#include "src/rpc/client.h"
#include "src/rpc/uv_clock.h"

enum { WAIT_MAX_MS = 10000 };

struct fixture {
    uv_loop_t loop;
    struct broker broker;
    struct config *config;
    struct disk_ops disk;
    struct network_ops network;
    struct consensus_member members[3];
    Ckpt__Log__V1__ClusterInit initial;
    Ckpt__V1__TargetSpec *targets[1];
    struct rpc_channel *channel;
    uv_timer_t guard;
    uint64_t (*monotonic_us)(void *context);
    uint64_t skipped_us; /* by which the replica's clock is ahead of the machine's */
    bool late;
    bool closed;
    char dir[64];
};

static struct fixture *fixture;

static void be_late(uv_timer_t *timer)
{
    ((struct fixture *)timer->data)->late = true;
}

/* Runs the loop until *flag, or fails. */
static void run_until(const bool *flag)
{
    uv_update_time(&fixture->loop);
    uv_timer_start(&fixture->guard, be_late, WAIT_MAX_MS, 0);
    fixture->late = false;
    while (!*flag && !fixture->late)
        uv_run(&fixture->loop, UV_RUN_ONCE);
    uv_timer_stop(&fixture->guard);
    if (!*flag)
        fail_msg("not within %d ms", WAIT_MAX_MS);
}

static void no_fatal(void *context, const struct err *err)
{
    (void)context;
    fail_msg("fatal: %s", err->text);
}

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static struct config *make_config(size_t member_count, const char *dir)
{
    char text[2048];
    int used = snprintf(text, sizeof(text), "cluster_id: demo\ndata_dir: %s/data\nmembers:\n", dir);
    struct config_flags flags = {.name = "n1"};
    struct config *config = NULL;
    struct err err;

    for (size_t i = 1; i <= member_count; i++)
        used +=
            snprintf(text + used, sizeof(text) - (size_t)used,
                     "  - {id: %zu, name: n%zu, raft: \"127.0.0.1:%d\", api: \"127.0.0.1:%d\"}\n",
                     i, i, free_port(), free_port());
    used +=
        snprintf(text + used, sizeof(text) - (size_t)used,
                 "timers: {election: 100ms, heartbeat: 20ms}\n"
                 "targets:\n  - {id: scratch, prefix: %s/scratch, write_bytes_per_s: 1000000}\n",
                 dir);
    if (config_parse("test", text, (size_t)used, &flags, &config, &err) != 0)
        fail_msg("%s", err.text);
    return config;
}

static uint64_t ahead_us(void *context)
{
    return fixture->monotonic_us(context) + fixture->skipped_us;
}

static void open_replica(struct fixture *f)
{
    struct consensus_config consensus = {.member_id = 1,
                                         .cluster_id = f->config->cluster_id,
                                         .data_dir = f->config->data_dir,
                                         .listen_address = f->config->self->raft,
                                         .members = f->members,
                                         .member_count = f->config->member_count,
                                         .bootstrap = true,
                                         .election_timeout_ms = 100,
                                         .heartbeat_ms = 20,
                                         .clock = &f->broker.clock,
                                         .random = &f->broker.random,
                                         .disk = &f->disk,
                                         .network = &f->network};
    struct err err;

    for (size_t i = 0; i < f->config->member_count; i++) {
        f->members[i].id = f->config->members[i].id;
        snprintf(f->members[i].name, sizeof(f->members[i].name), "%s", f->config->members[i].name);
        snprintf(f->members[i].address, sizeof(f->members[i].address), "%s",
                 f->config->members[i].raft);
    }
    ckpt__log__v1__cluster_init__init(&f->initial);
    f->initial.cluster_id = f->config->cluster_id;
    f->initial.epoch = 1;
    f->initial.policy = &f->config->policy;
    f->targets[0] = &f->config->targets[0];
    f->initial.n_targets = 1;
    f->initial.targets = f->targets;
    if (replica_open(&consensus, &f->initial, no_fatal, f, &f->broker.replica, &err) != 0)
        fail_msg("%s", err.text);
}

static void open_fixture(size_t member_count)
{
    struct fixture *f = check_calloc(1, sizeof(*f));
    struct rpc_server_config server = {0};
    struct rpc_channel_config channel = {0};
    char address[64];
    struct err err;

    fixture = f;
    snprintf(f->dir, sizeof(f->dir), "/tmp/ckpt-service-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(uv_loop_init(&f->loop), 0);
    uv_timer_init(&f->loop, &f->guard);
    f->guard.data = f;
    f->config = make_config(member_count, f->dir);
    f->broker.loop = &f->loop;
    f->broker.config = f->config;
    uv_clock_ops(&f->loop, &f->broker.clock);
    f->monotonic_us = f->broker.clock.monotonic_us;
    f->broker.clock.monotonic_us = ahead_us;
    uv_random_ops(&f->broker.random);
    disk_uv_ops(&f->loop, &f->disk);
    network_uv_ops(&f->loop, &f->network);
    open_replica(f);
    f->broker.rpc = rpc_server_new(&f->loop, &server);
    f->broker.service = service_new(&f->broker);
    f->broker.watch = watch_new(&f->broker);
    if (rpc_server_listen(f->broker.rpc, "127.0.0.1:0", &err) != 0)
        fail_msg("%s", err.text);
    snprintf(address, sizeof(address), "127.0.0.1:%d", rpc_server_port(f->broker.rpc, 0));
    f->channel = rpc_channel_new(&f->loop, address, &channel);
}

static void set_flag(void *flag)
{
    *(bool *)flag = true;
}

static int remove_visited(const char *path, const struct stat *status, int kind, struct FTW *ftw)
{
    (void)status;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static int close_fixture(void **state)
{
    struct fixture *f = fixture;
    bool freed = false;
    bool closed = false;

    (void)state;
    rpc_channel_free(f->channel);
    rpc_server_free(f->broker.rpc, set_flag, &freed);
    run_until(&freed);
    f->broker.rpc = NULL;
    replica_close(f->broker.replica, set_flag, &closed);
    run_until(&closed);
    service_free(f->broker.service);
    watch_free(f->broker.watch);
    uv_close((uv_handle_t *)&f->guard, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    config_free(f->config);
    nftw(f->dir, remove_visited, 16, FTW_DEPTH | FTW_PHYS);
    free(f);
    fixture = NULL;
    return 0;
}

/* An only founder listens for a while to those who may have known its former self: there are none.
 */
static int open_one(void **state)
{
    (void)state;
    open_fixture(1);
    fixture->skipped_us = UINT64_C(1000) * WAIT_MAX_MS;
    for (int i = 0; i < 10000 && !replica_serving(fixture->broker.replica); i++)
        uv_run(&fixture->loop, UV_RUN_ONCE);
    return replica_serving(fixture->broker.replica) ? 0 : -1;
}

static inline int open_lonely(void **state)
{
    (void)state;
    open_fixture(3);
    return 0;
}

#endif
