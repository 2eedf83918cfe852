/* Unary calls per second of the gRPC server: an echo of 200 bytes, client and server in a process
 * each.
 *
 * Flow     fork a server; for 1, 16 and 128 calls in flight on one connection run for SECONDS (2);
 *          print calls/s, p50 and p99 of one call, and processor time per call of the server.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/rpc/client.h"
#include "src/rpc/server.h"

enum { MESSAGE_BYTES = 200, SAMPLES = 1 << 16, WARM_UP_MS = 200 };

struct run {
    uv_loop_t loop;
    struct rpc_channel *channel;
    uint64_t count, begin_ns, end_ns;
    uint64_t samples[SAMPLES];
};
struct flight {
    struct run *run;
    uint64_t begin_ns;
};

static void echo(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    (void)data;
    rpc_call_reply(call, bytes, length);
}

static void stop(uv_signal_t *signal, int number)
{
    (void)number;
    uv_stop(signal->loop);
}

static void serve(int tell)
{
    const struct rpc_handlers handlers = {.on_message = echo};
    uv_loop_t *loop = uv_default_loop();
    struct rpc_server *server = rpc_server_new(loop, NULL);
    struct err err;
    uv_signal_t term;
    int port;

    rpc_server_add_method(server, "/bench.B/Echo", false, false, &handlers, NULL);
    CHECK(rpc_server_listen(server, "127.0.0.1:0", &err) == 0);
    port = rpc_server_port(server, 0);
    CHECK(uv_signal_init(loop, &term) == 0);
    CHECK(uv_signal_start(&term, stop, SIGTERM) == 0);
    CHECK(write(tell, &port, sizeof(port)) == sizeof(port));
    uv_run(loop, UV_RUN_DEFAULT);
    exit(0);
}

static void fly(struct flight *flight);

static void landed(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct flight *flight = data;
    struct run *run = flight->run;
    uint64_t now_ns = uv_hrtime();

    (void)call;
    CHECK(end->status == RPC_OK);
    if (flight->begin_ns >= run->begin_ns)
        run->samples[run->count++ % SAMPLES] = now_ns - flight->begin_ns;
    if (now_ns < run->end_ns)
        fly(flight);
}

static void fly(struct flight *flight)
{
    static const struct rpc_client_handlers handlers = {.on_end = landed};
    static const uint8_t message[MESSAGE_BYTES];

    flight->begin_ns = uv_hrtime();
    rpc_channel_unary(flight->run->channel,
                      &(struct rpc_request){.path = "/bench.B/Echo",
                                            .bytes = message,
                                            .length = sizeof(message),
                                            .timeout_ms = 5000,
                                            .wait_for_ready = true},
                      &handlers, flight);
}

static int order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static double cpu_us(const struct rusage *usage)
{
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1e6 +
           (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

static void measure(size_t in_flight, double seconds)
{
    static struct run run;
    struct flight *flights = check_calloc(in_flight, sizeof(*flights));
    struct rusage usage;
    char address[32];
    int pipes[2], port, status;
    size_t samples;
    pid_t server;

    CHECK(pipe(pipes) == 0);
    server = fork();
    CHECK(server >= 0);
    if (server == 0)
        serve(pipes[1]);
    CHECK(read(pipes[0], &port, sizeof(port)) == sizeof(port));
    close(pipes[0]);
    close(pipes[1]);
    memset(&run, 0, sizeof(run));
    CHECK(uv_loop_init(&run.loop) == 0);
    snprintf(address, sizeof(address), "127.0.0.1:%d", port);
    run.channel = rpc_channel_new(&run.loop, address, NULL);
    run.begin_ns = uv_hrtime() + UINT64_C(1000000) * WARM_UP_MS;
    run.end_ns = run.begin_ns + (uint64_t)(seconds * 1e9);
    for (size_t i = 0; i < in_flight; i++) {
        flights[i].run = &run;
        fly(&flights[i]);
    }
    while (rpc_channel_calls(run.channel) > 0)
        uv_run(&run.loop, UV_RUN_ONCE);
    rpc_channel_free(run.channel);
    uv_run(&run.loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&run.loop) == 0);
    kill(server, SIGTERM);
    CHECK(wait4(server, &status, 0, &usage) == server);
    samples = run.count < SAMPLES ? (size_t)run.count : SAMPLES;
    CHECK(samples > 0);
    qsort(run.samples, samples, sizeof(run.samples[0]), order);
    printf("rpc_echo in_flight=%zu calls_per_s=%.0f p50_us=%.1f p99_us=%.1f "
           "server_cpu_us_per_call=%.2f\n",
           in_flight, (double)run.count / seconds, (double)run.samples[samples / 2] / 1e3,
           (double)run.samples[samples * 99 / 100] / 1e3,
           cpu_us(&usage) / ((double)run.count * (1 + WARM_UP_MS / 1e3 / seconds)));
    fflush(stdout);
    free(flights);
}

int main(void)
{
    const char *text = getenv("SECONDS");
    double seconds = text != NULL && atof(text) > 0 ? atof(text) : 2;

    signal(SIGPIPE, SIG_IGN);
    measure(1, seconds);
    measure(16, seconds);
    measure(128, seconds);
    return 0;
}
