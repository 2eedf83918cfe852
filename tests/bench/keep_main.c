/* What the evaluation of many allocations takes of the leader's time: when it begins to lead, while
 * only time passes, when one in a hundred changed, and when what waits for nodes changed, which is
 * an input of every row.
 *
 * Flow     allocations are registered in a state machine alone; then cycles as evaluator.c runs
 *          them, up to the verdicts. Everything is pushed out of the caches before each. Prints
 *          JSON lines.
 * Units    milliseconds of processor time, medians of the rounds.
 * Usage    keep [ALLOCATIONS] (1,000,000)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/broker/decide/evaluator_keep.h"

enum { ROUNDS = 9, ENTRY_COMMANDS = 128, ID_BYTES = 64, COMMAND_BYTES = 1024, NODES = 4096 };
enum { CYCLE_MS = 30000, HOUR_MS = 3600000 };

static struct fsm *fsm;
static uint64_t next_index, next_number, now_ms = 1000000000;
static struct evaluator_keep keep;
static struct evaluator_block **blocks;
static uint64_t filled, fires;

static double cpu_ms(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time); /* not what others take of the core */
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* ---- a state ---- */

static void entry_add(struct buf *entry, Ckpt__Log__V1__Command *command)
{
    uint8_t bytes[COMMAND_BYTES];
    size_t length = ckpt__log__v1__command__get_packed_size(command);
    uint8_t head[3] = {1 << 3 | 2, (uint8_t)(length | 0x80), (uint8_t)(length >> 7)};

    CHECK(length <= sizeof(bytes));
    command->now_ms = now_ms;
    CHECK(ckpt__log__v1__command__get_packed_size(command) <= sizeof(bytes));
    length = ckpt__log__v1__command__pack(command, bytes);
    head[1] = (uint8_t)(length | 0x80);
    head[2] = (uint8_t)(length >> 7);
    buf_append(entry, head, sizeof(head));
    buf_append(entry, bytes, length);
}

static void on_outcome(void *context, size_t command_index, const struct fsm_outcome *outcome)
{
    (void)context;
    (void)command_index;
    CHECK(outcome->status == FSM_OK);
}

static void apply(struct buf *entry)
{
    fsm_apply_entry(fsm, &(struct fsm_entry){++next_index, 1, entry->bytes, entry->length},
                    on_outcome, NULL);
    buf_clear(entry);
}

static void init(struct buf *entry)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__ClusterInit body = CKPT__LOG__V1__CLUSTER_INIT__INIT;
    Ckpt__V1__TargetSpec target = CKPT__V1__TARGET_SPEC__INIT, *targets[1] = {&target};
    char name[] = "bench", prefix[] = "/scratch";

    fsm = fsm_new();
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_CLUSTER_INIT;
    command.cluster_init = &body;
    body.cluster_id = target.target_id = name;
    body.epoch = 1;
    target.prefix = prefix;
    target.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
    target.write_bytes_per_s = UINT64_C(1) << 33;
    target.is_default = true;
    body.n_targets = 1;
    body.targets = targets;
    entry_add(entry, &command);
    apply(entry);
}

/* Only what runs is evaluated. A node's reports are numbered: it has one job of each NODES. */
static void add_start(struct buf *entry, uint64_t number, char *id, char *node_id)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeReport message = CKPT__LOG__V1__NODE_REPORT__INIT;
    Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;

    report.sequence = number / NODES + 1;
    report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_STARTED;
    report.allocation_id = id;
    report.run = UINT64_MAX; /* no earlier than that of its part */
    message.node_id = node_id;
    message.report = &report;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT;
    command.node_report = &message;
    entry_add(entry, &command);
}

static void add_registration(struct buf *entry, uint64_t number)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RegisterAllocationRequest request = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    Ckpt__V1__NodeShare node = CKPT__V1__NODE_SHARE__INIT, *nodes[1] = {&node};
    char id[ID_BYTES], request_id[ID_BYTES], node_id[ID_BYTES];
    char texts[4][8] = {"physics", "bench", "hpc", "load"};

    snprintf(id, sizeof(id), "job-%" PRIu64, number);
    snprintf(request_id, sizeof(request_id), "r-%" PRIu64, next_number++);
    snprintf(node_id, sizeof(node_id), "node-%" PRIu64, number % NODES);
    node.node_id = node_id;
    node.gpu_count = 8;
    node.gpu_memory_used_bytes = UINT64_C(640) << 30;
    spec.allocation_id = id;
    spec.tenant = texts[0];
    spec.project = texts[1];
    spec.vcluster = texts[2];
    spec.owner = texts[3];
    spec.preemption_class = number % 3;
    spec.started_at_ms = now_ms - number % 200000;
    spec.walltime_ms = number % 2 == 0 ? 0 : 12 * (uint64_t)HOUR_MS + number % HOUR_MS;
    spec.n_nodes = 1;
    spec.nodes = nodes;
    request.spec = &spec;
    command.request_id = request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REGISTER_ALLOCATION;
    command.register_allocation = &request;
    entry_add(entry, &command);
    add_start(entry, number, id, node_id);
}

static void add_update(struct buf *entry, uint64_t number)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__UpdateAllocationRequest request = CKPT__V1__UPDATE_ALLOCATION_REQUEST__INIT;
    char id[ID_BYTES], request_id[ID_BYTES];

    snprintf(id, sizeof(id), "job-%" PRIu64, number);
    snprintf(request_id, sizeof(request_id), "u-%" PRIu64, next_number++);
    request.request_id = command.request_id = request_id;
    request.allocation_id = id;
    request.period_ms = 12 * (uint64_t)HOUR_MS + next_index;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_UPDATE_ALLOCATION;
    command.update_allocation = &request;
    entry_add(entry, &command);
}

static void add_queue(struct buf *entry)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__ReportQueueRequest request = CKPT__V1__REPORT_QUEUE_REQUEST__INIT;
    Ckpt__V1__WaitingJob job = CKPT__V1__WAITING_JOB__INIT, *jobs[1] = {&job};
    char request_id[ID_BYTES], names[2][8] = {"hpc", "waits"};

    snprintf(request_id, sizeof(request_id), "q-%" PRIu64, next_number++);
    job.job_id = names[1];
    job.preemption_class = 5;
    job.gpu_count = 64;
    job.waited_ms = now_ms % HOUR_MS;
    request.request_id = command.request_id = request_id;
    request.vcluster = names[0];
    request.queued_gpu_ms = 1000;
    request.running_gpu_ms = 1000000;
    request.n_waiting = 1;
    request.waiting = jobs;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REPORT_QUEUE;
    command.report_queue = &request;
    entry_add(entry, &command);
}

/* ---- cycles ---- */

static void push_out(void)
{
    static uint8_t *other;
    static const size_t size = 256u << 20;

    if (other == NULL)
        other = check_alloc(size);
    memset(other, (int)next_index & 0xff, size);
}

static double cycle(uint32_t count, double *ret_longest_ms)
{
    struct fsm_waiting best[FSM_TARGETS_MAX];
    struct fsm_grantable_scan scan;
    struct eval_fleet_rates rates = {.node_failures_per_s = 1e-7};
    uint8_t verdicts[EVALUATOR_BLOCK_ROWS];
    double began_ms, last_ms;

    for (size_t i = 0; i < FSM_AGE_BINS; i++)
        rates.age_factors[i] = 1;
    push_out();
    *ret_longest_ms = 0;
    filled = fires = 0;
    began_ms = last_ms = cpu_ms();
    fsm_grantable_begin(&scan, best, 1);
    CHECK(fsm_grantable_step(fsm, &scan, SIZE_MAX));
    evaluator_cycle_begin(&keep.cycle, fsm, NULL, now_ms, &scan);
    evaluator_keep_begin(&keep, fsm, &rates);
    for (uint32_t first = 0; first < count; first += EVALUATOR_BLOCK_ROWS) {
        struct evaluator_block *block = blocks[first / EVALUATOR_BLOCK_ROWS];
        uint32_t rows = count - first < EVALUATOR_BLOCK_ROWS ? count - first : EVALUATOR_BLOCK_ROWS;
        double at_ms;

        filled += evaluator_block_refresh(block, &keep, first, rows);
        evaluator_block_decide(block, &keep.cycle.policy, verdicts);
        for (uint32_t row = 0; row < rows; row++) {
            fires += eval_verdict_fires((enum eval_verdict)verdicts[row]);
            if (verdicts[row] != block->verdict[row])
                block->verdict[row] = verdicts[row];
        }
        at_ms = cpu_ms();
        if (at_ms - last_ms > *ret_longest_ms)
            *ret_longest_ms = at_ms - last_ms;
        last_ms = at_ms;
    }
    evaluator_keep_end(&keep);
    return cpu_ms() - began_ms;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static void measure(const char *name, uint32_t count, uint32_t updates, bool queue, bool all)
{
    double ms[ROUNDS], longest_ms = 0;
    struct buf entry;

    buf_init(&entry);
    for (int round = 0; round < ROUNDS; round++) {
        double longest;

        now_ms += CYCLE_MS;
        for (uint32_t i = 0; i < updates; i++) { /* spread over all */
            add_update(&entry, (uint64_t)i * (count / updates) + (uint64_t)round);
            if (i % ENTRY_COMMANDS == ENTRY_COMMANDS - 1 || i == updates - 1)
                apply(&entry);
        }
        if (queue) {
            add_queue(&entry);
            apply(&entry);
        }
        if (all)
            evaluator_keep_forget(&keep);
        ms[round] = cycle(count, &longest);
        longest_ms = longest > longest_ms ? longest : longest_ms;
    }
    qsort(ms, ROUNDS, sizeof(ms[0]), compare);
    printf("{\"case\": \"%s\", \"allocations\": %u, \"ms\": %.1f, \"longest_block_ms\": %.2f, "
           "\"filled\": %" PRIu64 ", \"fires\": %" PRIu64 "}\n",
           name, count, ms[ROUNDS / 2], longest_ms, filled, fires);
    fflush(stdout);
    buf_close(&entry);
}

int main(int argc, char **argv)
{
    uint32_t count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000000;
    uint32_t block_count = (count + EVALUATOR_BLOCK_ROWS - 1) / EVALUATOR_BLOCK_ROWS;
    struct buf entry;

    buf_init(&entry);
    init(&entry);
    for (uint32_t i = 0; i < count; i++) {
        add_registration(&entry, i);
        if (i % ENTRY_COMMANDS == ENTRY_COMMANDS - 1 || i == count - 1) {
            apply(&entry);
            now_ms += 3;
        }
    }
    evaluator_keep_init(&keep);
    blocks = check_calloc(block_count, sizeof(*blocks));
    for (uint32_t i = 0; i < block_count; i++)
        blocks[i] = evaluator_block_new(EVALUATOR_BLOCK_ROWS);
    measure("all rows", count, 0, false, true);
    measure("only time passes", count, 0, false, false);
    measure("1 % changed", count, count / 100, false, false);
    measure("what waits changed", count, 0, true, false);
    for (uint32_t i = 0; i < block_count; i++)
        evaluator_block_free(blocks[i]);
    free(blocks);
    evaluator_keep_close(&keep);
    fsm_free(fsm);
    buf_close(&entry);
    return 0;
}
