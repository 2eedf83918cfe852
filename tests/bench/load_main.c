/* Load generator: writes through a public gRPC API, a fixed number in flight, for a fixed time:
 * RegisterAllocation of this broker, or Put of etcd with a message of exactly as many bytes.
 *
 * Flow     one channel to one endpoint (the leader); each answer starts the next request. Prints
 *          one JSON line.
 * Units    microseconds per call, calls per second.
 * Errors   any status but OK is counted in "failed"; the program exits 1 when a call failed.
 * Usage    load ENDPOINT IN_FLIGHT SECONDS PREFIX [COUNT_MAX [OF COUNT [PERIOD_MS]]]; ENDPOINT
 *          etcd:HOST:PORT for etcd. With OF and COUNT it is UpdateAllocation of what an earlier run
 *          registered with PREFIX OF, COUNT of them, in no order: each gets a period of its own, of
 *          weeks, or PERIOD_MS.
 *          Nothing runs of what is registered: `starts` says that it does.
 *          TLS: the environment names CKPT_CA, CKPT_CERT and CKPT_KEY, as for ckptctl.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/base/check.h"
#include "src/client/client.h"
#include "tests/bench/load_nodes.h"

enum { LATENCIES_MAX = 4 << 20, REQUEST_BYTES = 1024 };

struct slot {
    uint64_t started_ns;
};

static struct rpc_channel *channel;
static uint32_t *latencies_us;
static size_t latency_count;
static uint64_t sent_count, failed_count, count_max, end_ns, last_ns, first_ns;
static size_t in_flight;
static const char *prefix;
static char failure[256];
static const char *method = "/ckpt.v1.BrokerService/RegisterAllocation";
static bool etcd;
static const char *update_of;                   /* NULL: registrations */
static uint64_t update_count, update_period_ms; /* 0: another one each */

static void send_one(struct slot *slot);

static void on_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct slot *slot = data;
    uint64_t now = uv_hrtime();

    (void)call;
    in_flight--;
    last_ns = now;
    if (end->status != RPC_OK) {
        if (failed_count++ == 0)
            snprintf(failure, sizeof(failure), "%d %s", end->status, end->message);
    } else if (latency_count < LATENCIES_MAX) {
        latencies_us[latency_count++] = (uint32_t)((now - slot->started_ns) / 1000);
    }
    if (now < end_ns && sent_count < count_max && failed_count == 0)
        send_one(slot);
    else if (in_flight == 0)
        uv_stop(uv_default_loop());
}

static size_t pack_registration(const char *id, const char *request_id, uint8_t *ret_bytes)
{
    Ckpt__V1__RegisterAllocationRequest request = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    Ckpt__V1__NodeShare node = CKPT__V1__NODE_SHARE__INIT;
    Ckpt__V1__NodeShare *nodes[1] = {&node};
    char node_id[32];

    snprintf(node_id, sizeof(node_id), LOAD_NODE_FORMAT, sent_count % LOAD_NODES);
    node.node_id = node_id;
    node.gpu_count = 8;
    node.gpu_memory_used_bytes = UINT64_C(640) << 30;
    spec.allocation_id = (char *)(uintptr_t)id;
    spec.tenant = (char *)(uintptr_t) "physics";
    spec.project = (char *)(uintptr_t) "bench";
    spec.vcluster = (char *)(uintptr_t) "hpc";
    spec.owner = (char *)(uintptr_t) "load";
    spec.n_nodes = 1;
    spec.nodes = nodes;
    request.request_id = (char *)(uintptr_t)request_id;
    request.spec = &spec;
    CHECK(ckpt__v1__register_allocation_request__get_packed_size(&request) <= REQUEST_BYTES);
    return ckpt__v1__register_allocation_request__pack(&request, ret_bytes);
}

/* By steps of a large prime: each once before one comes again. */
static size_t pack_update(const char *request_id, uint8_t *ret_bytes)
{
    Ckpt__V1__UpdateAllocationRequest request = CKPT__V1__UPDATE_ALLOCATION_REQUEST__INIT;
    char id[96];

    snprintf(id, sizeof(id), "%s-%" PRIu64, update_of, sent_count * 1000000007 % update_count);
    request.request_id = (char *)(uintptr_t)request_id;
    request.allocation_id = id;
    request.period_ms = update_period_ms > 0 ? update_period_ms : 1000000000 + sent_count;
    CHECK(ckpt__v1__update_allocation_request__get_packed_size(&request) <= REQUEST_BYTES);
    return ckpt__v1__update_allocation_request__pack(&request, ret_bytes);
}

/* etcdserverpb.PutRequest {bytes key = 1; bytes value = 2;}, both shorter than 128 bytes: as long
 * as the registration that is there. */
static void turn_into_put(const char *key, uint8_t *bytes, size_t length)
{
    size_t key_length = strlen(key);
    size_t value_length = length - key_length - 4;

    CHECK(key_length < 128 && length > key_length + 4 && value_length < 128);
    bytes[0] = 1 << 3 | 2;
    bytes[1] = (uint8_t)key_length;
    memcpy(bytes + 2, key, key_length);
    bytes[2 + key_length] = 2 << 3 | 2;
    bytes[3 + key_length] = (uint8_t)value_length;
    memset(bytes + 4 + key_length, 'v', value_length);
}

static void send_one(struct slot *slot)
{
    static const struct rpc_client_handlers handlers = {.on_end = on_end};
    char id[96], request_id[112];
    uint8_t bytes[REQUEST_BYTES];
    size_t length;

    snprintf(id, sizeof(id), "%s-%" PRIu64, prefix, sent_count);
    snprintf(request_id, sizeof(request_id), "r-%s", id);
    length = update_of != NULL ? pack_update(request_id, bytes)
                               : pack_registration(id, request_id, bytes);
    if (etcd)
        turn_into_put(request_id, bytes, length);
    sent_count++;
    slot->started_ns = uv_hrtime();
    in_flight++;
    rpc_channel_unary(channel,
                      &(struct rpc_request){.path = method,
                                            .bytes = bytes,
                                            .length = length,
                                            .timeout_ms = 30000,
                                            .wait_for_ready = true},
                      &handlers, slot);
}

/* The answers that are on their way are still waited for. */
static void on_interrupt(uv_signal_t *handle, int number)
{
    (void)handle;
    (void)number;
    end_ns = 0;
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static uint32_t quantile(double q)
{
    return latency_count == 0 ? 0 : latencies_us[(size_t)((double)(latency_count - 1) * q)];
}

static void report(size_t concurrency)
{
    double seconds = (double)(last_ns - first_ns) / 1e9;

    qsort(latencies_us, latency_count, sizeof(latencies_us[0]), compare);
    printf("{\"in_flight\": %zu, \"calls\": %zu, \"failed\": %" PRIu64
           ", \"seconds\": %.3f, \"per_s\": %.0f, \"p50_us\": %u, \"p99_us\": %u, \"max_us\": %u, "
           "\"failure\": \"%s\"}\n",
           concurrency, latency_count, failed_count, seconds, (double)latency_count / seconds,
           quantile(0.5), quantile(0.99), quantile(1.0), failure);
}

int main(int argc, char **argv)
{
    struct rpc_channel_config config = {.tls = NULL};
    struct tls_context *tls;
    struct err err;
    uv_signal_t interrupt;
    const char *endpoint;
    size_t concurrency;
    struct slot *slots;

    if (argc < 5 || argc == 7 || argc > 9) {
        fprintf(stderr, "usage: load ENDPOINT IN_FLIGHT SECONDS PREFIX "
                        "[COUNT_MAX [OF COUNT [PERIOD_MS]]]\n");
        return 2;
    }
    endpoint = argv[1];
    etcd = strncmp(endpoint, "etcd:", 5) == 0;
    if (etcd) {
        endpoint += 5;
        method = "/etcdserverpb.KV/Put";
    }
    concurrency = (size_t)strtoull(argv[2], NULL, 10);
    prefix = argv[4];
    if (argc > 7) {
        method = "/ckpt.v1.BrokerService/UpdateAllocation";
        update_of = argv[6];
        update_count = strtoull(argv[7], NULL, 10);
        CHECK(update_count > 0);
        update_period_ms = argc > 8 ? strtoull(argv[8], NULL, 10) : 0;
    }
    count_max = argc > 5 ? strtoull(argv[5], NULL, 10) : UINT64_MAX;
    latencies_us = check_calloc(LATENCIES_MAX, sizeof(latencies_us[0]));
    slots = check_calloc(concurrency, sizeof(slots[0]));
    if (client_tls(&(struct tls_files){0}, &tls, &err) != 0) {
        fprintf(stderr, "load: %s\n", err.text);
        return 2;
    }
    config.tls = tls;
    channel = rpc_channel_new(uv_default_loop(), endpoint, &config);
    CHECK(uv_signal_init(uv_default_loop(), &interrupt) == 0);
    CHECK(uv_signal_start(&interrupt, on_interrupt, SIGINT) == 0);
    first_ns = uv_hrtime();
    end_ns = first_ns + (uint64_t)(strtod(argv[3], NULL) * 1e9);
    for (size_t i = 0; i < concurrency && sent_count < count_max; i++)
        send_one(&slots[i]);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    report(concurrency);
    free(slots);
    free(latencies_us);
    tls_context_free(tls);
    return failed_count == 0 ? 0 : 1;
}
