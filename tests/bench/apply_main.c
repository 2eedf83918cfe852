/* What the state machine needs for a command: registrations, in entries of 128, first into an empty
 * state, then when a million request ids are remembered and each new one takes the oldest one's
 * place, then when a million allocations are there as well; and updates of allocations in no order,
 * few ones and a million.
 *
 * Flow     ids are filled with queue reports; what is timed is fsm_apply_entry() alone. Prints one
 *          JSON line for each case, and the state's hash: it is the same for every build that
 *          decides alike. At the end every allocation is translated, the whole state is packed as a
 *          snapshot and restored, and one preemption chooses among all.
 * Units    nanoseconds of processor time a command; page faults a command.
 * Usage    apply [COMMANDS [CASE]]: timed in each case (400,000); 0, 1 or 2 alone.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "fsm/fsm.h"
#include "fsm/level.h"
#include "fsm/limits.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/broker/explain/translate.h"

enum { ENTRY_COMMANDS = 128, FULL = FSM_PAST_REQUESTS_MAX, ID_BYTES = 64, COMMAND_BYTES = 1024 };

static struct fsm *fsm;
static uint64_t next_index, next_number, now_ms = 1000000, refused;
static double applied_ns;

static void entry_add(struct buf *entry, Ckpt__Log__V1__Command *command)
{
    uint8_t bytes[COMMAND_BYTES];
    size_t length = ckpt__log__v1__command__get_packed_size(command);
    uint8_t head[3] = {1 << 3 | 2, (uint8_t)(length | 0x80), (uint8_t)(length >> 7)};

    CHECK(length <= sizeof(bytes));
    ckpt__log__v1__command__pack(command, bytes);
    buf_append(entry, head, sizeof(head));
    buf_append(entry, bytes, length);
}

static void add_registration(struct buf *entry)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RegisterAllocationRequest request = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    Ckpt__V1__NodeShare node = CKPT__V1__NODE_SHARE__INIT;
    Ckpt__V1__NodeShare *nodes[1] = {&node};
    char id[ID_BYTES], request_id[ID_BYTES], node_id[ID_BYTES];
    char texts[4][8] = {"physics", "bench", "hpc", "load"};

    snprintf(id, sizeof(id), "a1b2c3d4e5f6-%" PRIu64, next_number);
    snprintf(request_id, sizeof(request_id), "r-a1b2c3d4e5f6-%" PRIu64, next_number);
    snprintf(node_id, sizeof(node_id), "node-%" PRIu64, next_number % 4096);
    next_number++;
    node.node_id = node_id;
    node.gpu_count = 8;
    node.gpu_memory_used_bytes = UINT64_C(640) << 30;
    spec.allocation_id = id;
    spec.tenant = texts[0];
    spec.project = texts[1];
    spec.vcluster = texts[2];
    spec.owner = texts[3];
    spec.n_nodes = 1;
    spec.nodes = nodes;
    request.spec = &spec;
    command.now_ms = now_ms;
    command.request_id = request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REGISTER_ALLOCATION;
    command.register_allocation = &request;
    entry_add(entry, &command);
}

static uint64_t registered; /* numbers of allocations, from the first on */

/* Of any, by steps of a large prime. */
static void add_update(struct buf *entry)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__UpdateAllocationRequest request = CKPT__V1__UPDATE_ALLOCATION_REQUEST__INIT;
    char id[ID_BYTES], request_id[ID_BYTES];

    snprintf(id, sizeof(id), "a1b2c3d4e5f6-%" PRIu64, next_number * 1000000007 % registered);
    snprintf(request_id, sizeof(request_id), "u-a1b2c3d4e5f6-%" PRIu64, next_number);
    request.allocation_id = id;
    request.period_ms = 1000000 + next_number++;
    command.now_ms = now_ms;
    command.request_id = request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_UPDATE_ALLOCATION;
    command.update_allocation = &request;
    entry_add(entry, &command);
}

static void add_report(struct buf *entry)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__ReportQueueRequest request = CKPT__V1__REPORT_QUEUE_REQUEST__INIT;
    char request_id[ID_BYTES], vcluster[] = "hpc";

    snprintf(request_id, sizeof(request_id), "q-a1b2c3d4e5f6-%" PRIu64, next_number++);
    request.vcluster = vcluster;
    command.now_ms = now_ms;
    command.request_id = request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REPORT_QUEUE;
    command.report_queue = &request;
    entry_add(entry, &command);
}

static void on_outcome(void *context, size_t command_index, const struct fsm_outcome *outcome)
{
    (void)context;
    (void)command_index;
    if (outcome->status != FSM_OK && refused++ == 0)
        fprintf(stderr, "refused: %s\n", fsm_status_name(outcome->status));
}

static double cpu_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time); /* not what others take of the core */
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void apply(const struct buf *entry)
{
    double begun = cpu_ns();

    fsm_apply_entry(fsm, &(struct fsm_entry){++next_index, 1, entry->bytes, entry->length},
                    on_outcome, NULL);
    applied_ns += cpu_ns() - begun;
    CHECK(refused == 0);
}

static void run(void (*add)(struct buf *entry), size_t count)
{
    struct buf entry;

    buf_init(&entry);
    for (size_t done = 0; done < count; done += ENTRY_COMMANDS) {
        buf_clear(&entry);
        for (size_t i = 0; i < ENTRY_COMMANDS; i++)
            add(&entry);
        apply(&entry);
        now_ms += 3; /* 128 commands in 3 ms: a million in more than 15 s */
    }
    buf_close(&entry);
}

static void init(void)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__ClusterInit body = CKPT__LOG__V1__CLUSTER_INIT__INIT;
    Ckpt__V1__TargetSpec target = CKPT__V1__TARGET_SPEC__INIT;
    Ckpt__V1__TargetSpec *targets[1] = {&target};
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    char name[] = "bench", prefix[] = "/scratch";
    struct buf entry;

    fsm = fsm_new();
    buf_init(&entry);
    command.now_ms = now_ms;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_CLUSTER_INIT;
    body.cluster_id = name;
    body.epoch = 1;
    target.target_id = name;
    target.prefix = prefix;
    target.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
    target.write_bytes_per_s = UINT64_C(1) << 33;
    target.is_default = true;
    body.n_targets = 1;
    body.targets = targets;
    policy.feature_level = FSM_LEVEL_NEWEST;
    body.policy = &policy;
    command.cluster_init = &body;
    entry_add(&entry, &command);
    apply(&entry);
    buf_close(&entry);
}

static void add_preemption(struct buf *entry)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RequestPreemptionRequest request = CKPT__V1__REQUEST_PREEMPTION_REQUEST__INIT;
    char request_id[ID_BYTES], job[] = "urgent";

    snprintf(request_id, sizeof(request_id), "p-%" PRIu64, next_number++);
    request.for_job = job;
    request.preemption_class = FSM_CLASS_MAX;
    request.nodes_needed = 3;
    command.now_ms = now_ms;
    command.request_id = request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_PREEMPTION;
    command.request_preemption = &request;
    entry_add(entry, &command);
}

/* One request that may choose among all allocations: three of one node each. */
static void preemption(void)
{
    struct buf entry;

    buf_init(&entry);
    add_preemption(&entry);
    applied_ns = 0;
    apply(&entry);
    printf("{\"case\": \"a preemption among all\", \"ms\": %.1f}\n", applied_ns / 1e6);
    fflush(stdout);
    buf_close(&entry);
}

/* Bytes that are written, then read from the front. */
struct stream {
    struct buf bytes;
    size_t at;
};

static int stream_write(void *context, const void *bytes, size_t length)
{
    buf_append(&((struct stream *)context)->bytes, bytes, length);
    return 0;
}

static int stream_read(void *context, void *bytes, size_t length)
{
    struct stream *stream = context;

    if (length > stream->bytes.length - stream->at)
        return -1;
    memcpy(bytes, stream->bytes.bytes + stream->at, length);
    stream->at += length;
    return 0;
}

/* The whole state out and in again, its invariants verified. */
static void snapshot(void)
{
    struct stream stream = {.at = 0};
    double begun = cpu_ns();
    char text[256] = "";
    struct fsm *restored;
    bool newer;

    buf_init(&stream.bytes);
    CHECK(fsm_snapshot_write(fsm, stream_write, &stream) == 0);
    printf("{\"case\": \"snapshot\", \"ms\": %.0f, \"bytes\": %zu}\n", (cpu_ns() - begun) / 1e6,
           stream.bytes.length);
    begun = cpu_ns();
    restored = fsm_snapshot_load(stream_read, &stream, text, sizeof(text), &newer);
    CHECK(restored != NULL);
    printf("{\"case\": \"restore\", \"ms\": %.0f}\n", (cpu_ns() - begun) / 1e6);
    fflush(stdout);
    fsm_free(restored);
    buf_close(&stream.bytes);
}

/* Every allocation as a message of the API. */
static void translate(void)
{
    double begun = cpu_ns();

    for (uint32_t slot = 0; slot < fsm_allocation_slots(fsm); slot++) {
        struct scratch scratch = {NULL};
        Ckpt__V1__Allocation message;

        translate_allocation(fsm, fsm_allocation_find_slot(fsm, slot), &scratch, &message);
        scratch_free(&scratch);
    }
    printf("{\"case\": \"translate\", \"ms\": %.0f}\n", (cpu_ns() - begun) / 1e6);
    fflush(stdout);
}

static void timed(const char *name, void (*add)(struct buf *entry), size_t commands)
{
    struct rusage before, after;
    struct fsm_summary summary;

    getrusage(RUSAGE_SELF, &before);
    applied_ns = 0;
    run(add, commands);
    getrusage(RUSAGE_SELF, &after);
    fsm_get_summary(fsm, &summary);
    printf(
        "{\"case\": \"%s\", \"ns_per_command\": %.0f, \"faults_per_command\": %.3f, \"ids\": %u, "
        "\"hash\": \"%016" PRIx64 "\"}\n",
        name, applied_ns / (double)commands,
        (double)(after.ru_minflt - before.ru_minflt) / (double)commands, summary.past_request_count,
        summary.state_hash);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    size_t commands = argc > 1 ? strtoull(argv[1], NULL, 10) : 400000;
    int only = argc > 2 ? atoi(argv[2]) : -1;

    for (int i = 0; i < 3; i++) {
        if (only >= 0 && only != i)
            continue;
        init();
        next_number = 0;
        if (i == 1)
            run(add_report, FULL);
        if (i == 2)
            run(add_registration, FULL);
        timed(i == 0   ? "empty"
              : i == 1 ? "a million ids"
                       : "a million ids and allocations",
              add_registration, commands);
        registered = i == 1 ? commands : next_number;
        if (i != 1)
            timed(i == 0 ? "updates of few" : "updates of a million", add_update, commands);
        if (i == 2) {
            translate();
            snapshot();
            preemption();
        }
        fsm_free(fsm);
    }
    return 0;
}
