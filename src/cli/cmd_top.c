/* ckptctl top: the running jobs that would lose most if they died now, with what the model says of
 * each.
 *
 * Flow     all running jobs are listed, page by page, and the heaviest are kept. For each of them
 *          the leader is asked for its last evaluation. --watch draws the table again and again.
 * Shapes   as many rows as --count says. A job that was not evaluated yet has no value and cost.
 * Units    GPU-seconds; a job's weight in GPUs is the model's.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ckpt/v1/explain.pb-c.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"
#include "src/cli/pause.h"

enum { TOP_ROWS = 20, TOP_ROWS_MAX = 200 };

struct row {
    char job[ID_MAX_BYTES + 1];
    char tenant[ID_MAX_BYTES + 1];
    uint64_t gpus;
    uint64_t not_saved_ms; /* a failure now would have it computed again */
    uint64_t loss_gpu_ms;
    bool evaluated;
    bool checkpoint; /* the decision */
    int64_t value_gpu_ms, cost_gpu_ms;
    char flips_when[256];
};

struct top {
    struct row rows[TOP_ROWS_MAX + 1]; /* the heaviest first */
    size_t count, most;
    uint64_t running;
    uint64_t now_ms;
};

static uint64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- the heaviest ---- */

static void add_row(struct top *top, const Ckpt__V1__Allocation *job)
{
    const uint64_t since_ms = job->last_complete_snapshot_at_ms;
    struct row row = {.gpus = job->weight_gpus};
    size_t at = top->count;

    if (job->spec == NULL)
        return;
    (void)text_copy(row.job, sizeof(row.job), job->spec->allocation_id);
    (void)text_copy(row.tenant, sizeof(row.tenant), job->spec->tenant);
    for (size_t i = 0; job->weight_gpus == 0 && i < job->spec->n_nodes; i++)
        row.gpus += job->spec->nodes[i]->gpu_count;
    if (since_ms != 0 && top->now_ms > since_ms)
        row.not_saved_ms = top->now_ms - since_ms;
    row.loss_gpu_ms = row.not_saved_ms * row.gpus;
    top->running++;
    for (; at > 0 && top->rows[at - 1].loss_gpu_ms < row.loss_gpu_ms; at--)
        top->rows[at] = top->rows[at - 1];
    top->rows[at] = row;
    if (top->count < top->most)
        top->count++;
}

static void add_page(void *context, const ProtobufCMessage *page)
{
    const Ckpt__V1__ListAllocationsReply *reply = (const Ckpt__V1__ListAllocationsReply *)page;

    for (size_t i = 0; i < reply->n_allocations; i++)
        add_row(context, reply->allocations[i]);
}

/* ---- the model's word ---- */

static void take_explanation(struct row *row, const Ckpt__V1__ExplainReply *reply)
{
    if (reply->terms == NULL)
        return;
    row->evaluated = true;
    row->checkpoint = reply->checkpoint;
    row->value_gpu_ms = (int64_t)reply->terms->value_gpu_ms;
    row->cost_gpu_ms = (int64_t)reply->terms->cost_gpu_ms;
    (void)text_copy(row->flips_when, sizeof(row->flips_when), reply->flips_when);
}

/* A job that has ended meanwhile, or was not evaluated yet, has no explanation: no error. */
static void explain_row(struct cli *cli, struct row *row)
{
    Ckpt__V1__ExplainRequest request = CKPT__V1__EXPLAIN_REQUEST__INIT;
    ProtobufCMessage *reply = NULL;
    FILE *error = cli->error;
    char *told = NULL;
    size_t length;

    request.allocation_id = row->job;
    request.stale = cli_flag(cli, "stale");
    cli->error = open_memstream(&told, &length);
    CHECK(cli->error != NULL);
    if (call_read(cli, "explain a job", "BrokerService/Explain", &request.base,
                  &ckpt__v1__explain_reply__descriptor, &reply) == CLI_OK) {
        take_explanation(row, (const Ckpt__V1__ExplainReply *)reply);
        call_free(reply);
    }
    fclose(cli->error);
    free(told);
    cli->error = error;
}

/* ---- printing ---- */

static void print_cells(struct output_table *table, const struct row *row)
{
    char text[HUMAN_BYTES];

    output_row(table);
    output_cell(table, "%s", row->job);
    output_cell(table, "%s", row->tenant);
    output_cell(table, "%" PRIu64, row->gpus);
    output_cell(table, "%s", human_duration(row->not_saved_ms, text));
    output_cell(table, "%" PRIu64, row->loss_gpu_ms / 1000);
    if (!row->evaluated) {
        for (int i = 0; i < 5; i++)
            output_cell(table, "-");
        return;
    }
    output_cell(table, "%" PRId64, row->value_gpu_ms / 1000);
    output_cell(table, "%" PRId64, row->cost_gpu_ms / 1000);
    if (row->cost_gpu_ms > 0)
        output_cell(table, "%.2f", (double)row->value_gpu_ms / (double)row->cost_gpu_ms);
    else
        output_cell(table, "-");
    output_cell(table, "%s", row->checkpoint ? "CHECKPOINT" : "SKIP");
    output_cell(table, "%s", row->flips_when[0] == '\0' ? "-" : row->flips_when);
}

static void print_table(struct cli *cli, const struct top *top)
{
    static const struct output_column columns[] = {
        {"JOB", OUTPUT_LEFT},         {"TENANT", OUTPUT_LEFT},
        {"GPUS", OUTPUT_RIGHT},       {"NOT SAVED", OUTPUT_RIGHT},
        {"LOSS GPU-S", OUTPUT_RIGHT}, {"VALUE GPU-S", OUTPUT_RIGHT},
        {"COST GPU-S", OUTPUT_RIGHT}, {"RATIO", OUTPUT_RIGHT},
        {"DECISION", OUTPUT_LEFT},    {"FLIPS WHEN", OUTPUT_LEFT | OUTPUT_ONLY_WIDE}};
    struct output_table table;

    output_table_init(&table, cli, columns, ARRAY_COUNT(columns));
    for (size_t i = 0; i < top->count; i++)
        print_cells(&table, &top->rows[i]);
    output_table_print(&table);
    if (top->running == 0)
        cli_note(cli, "no running jobs");
    pause_note(cli);
    if (top->running > top->count)
        cli_note(cli, "remark: %" PRIu64 " more jobs run and would lose less: --count N",
                 top->running - top->count);
}

static json_t *row_json(const struct row *row)
{
    json_t *item =
        json_pack("{s:s, s:s, s:I, s:I, s:I}", "allocation_id", row->job, "tenant", row->tenant,
                  "weight_gpus", (json_int_t)row->gpus, "not_saved_ms",
                  (json_int_t)row->not_saved_ms, "loss_gpu_ms", (json_int_t)row->loss_gpu_ms);

    CHECK(item != NULL);
    if (!row->evaluated)
        return item;
    CHECK(json_object_set_new(item, "value_gpu_ms", json_integer(row->value_gpu_ms)) == 0);
    CHECK(json_object_set_new(item, "cost_gpu_ms", json_integer(row->cost_gpu_ms)) == 0);
    CHECK(json_object_set_new(item, "checkpoint", json_boolean(row->checkpoint)) == 0);
    CHECK(json_object_set_new(item, "flips_when", json_string(row->flips_when)) == 0);
    return item;
}

static void print_json(struct cli *cli, const struct top *top)
{
    json_t *items = json_array();

    for (size_t i = 0; i < top->count; i++)
        CHECK(json_array_append_new(items, row_json(&top->rows[i])) == 0);
    output_json_list(cli, "top", "top", items);
}

enum cli_exit command_top(struct cli *cli)
{
    Ckpt__V1__ListAllocationsRequest request = CKPT__V1__LIST_ALLOCATIONS_REQUEST__INIT;
    struct top *top = check_calloc(1, sizeof(*top));
    enum cli_exit code;

    request.state = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING;
    request.stale = cli_flag(cli, "stale");
    top->most = (size_t)cli_number(cli, "count", TOP_ROWS);
    top->now_ms = wall_ms();
    CHECK(top->most <= TOP_ROWS_MAX);
    code = call_read_pages(cli, "list jobs", "BrokerService/ListAllocations", &request.base,
                           &ckpt__v1__list_allocations_reply__descriptor,
                           &(struct call_taker){add_page, top});
    for (size_t i = 0; code == CLI_OK && i < top->count; i++)
        explain_row(cli, &top->rows[i]);
    if (code == CLI_OK && cli_is_json(cli))
        print_json(cli, top);
    else if (code == CLI_OK)
        print_table(cli, top);
    free(top);
    return code;
}
