/* ckptctl preempt: stops lower classes to free nodes, after showing whom it may hit. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/operator.pb-c.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"

static bool is_candidate(const Ckpt__V1__RequestPreemptionRequest *request, const char *id)
{
    for (size_t i = 0; i < request->n_candidates; i++)
        if (strcmp(request->candidates[i], id) == 0)
            return true;
    return request->n_candidates == 0;
}

/* Why the job cannot be a victim; NULL: it can. The state machine decides again when the request is applied. */
static const char *excluded(const Ckpt__V1__RequestPreemptionRequest *request,
                            const Ckpt__V1__Allocation *job)
{
    if (job->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING)
        return "not running";
    if (job->spec->preemption_class >= request->preemption_class)
        return "class not lower";
    if (job->spec->sensitive)
        return "sensitive";
    return job->non_preemptible ? "not preemptible" : NULL;
}

static enum cli_exit fetch_jobs(struct cli *cli, ProtobufCMessage **ret_message)
{
    Ckpt__V1__ListAllocationsRequest request = CKPT__V1__LIST_ALLOCATIONS_REQUEST__INIT;

    request.page_size = 1000;
    return call_read(cli, "plan the preemption", "BrokerService/ListAllocations", &request.base,
                     &ckpt__v1__list_allocations_reply__descriptor, ret_message);
}

/* At most this many jobs are named in a plan; the rest is counted. */
enum { PLAN_JOBS_SHOWN = 10 };

static void describe_jobs(const Ckpt__V1__RequestPreemptionRequest *request,
                          const Ckpt__V1__ListAllocationsReply *reply, struct buf *plan)
{
    size_t possible = 0, freed = 0;
    char id[129], age[HUMAN_BYTES];

    for (size_t i = 0; i < reply->n_allocations; i++) {
        const Ckpt__V1__Allocation *job = reply->allocations[i];
        const char *why;

        if (job->spec == NULL || !is_candidate(request, job->spec->allocation_id))
            continue;
        why = excluded(request, job);
        human_safe(job->spec->allocation_id, id, sizeof(id));
        if (why != NULL && request->n_candidates > 0) {
            buf_printf(plan, "  %s: no (%s)\n", id, why);
        } else if (why == NULL && possible++ < PLAN_JOBS_SHOWN) {
            buf_printf(plan, "  %s: class %u, %zu nodes, last checkpoint %s\n", id,
                       job->spec->preemption_class, job->spec->n_nodes,
                       human_checkpoint(job->last_complete_checkpoint_id, age));
        }
        freed += why == NULL ? job->spec->n_nodes : 0;
    }
    if (possible > PLAN_JOBS_SHOWN)
        buf_printf(plan, "  and %zu more\n", possible - PLAN_JOBS_SHOWN);
    buf_printf(plan, "  possible victims: %zu with %zu nodes%s%s", possible, freed,
               reply->next_page_token[0] != '\0' ? " among the first 1000 jobs" : "",
               freed < request->nodes_needed ? "; too few: expect a refusal" : "");
}

static enum cli_exit confirm(struct cli *cli, const Ckpt__V1__RequestPreemptionRequest *request)
{
    struct buf plan;
    ProtobufCMessage *jobs = NULL;
    enum cli_exit code;

    buf_init(&plan);
    buf_printf(&plan, "plan: class %u needs %u nodes; victims are checkpointed%s\n",
               request->preemption_class, request->nodes_needed,
               request->forced
                   ? ", or terminated without a checkpoint (FAILED) when none can be written"
                   : " and stopped, never killed without one");
    code = fetch_jobs(cli, &jobs);
    if (code == CLI_OK) {
        describe_jobs(request, (const Ckpt__V1__ListAllocationsReply *)jobs, &plan);
        buf_append(&plan, "", 1);
        code = call_confirm(cli, (const char *)plan.bytes);
        call_free(jobs);
    }
    buf_close(&plan);
    return code;
}

static void print_victims(struct cli *cli, const Ckpt__V1__RequestPreemptionReply *reply)
{
    static const struct output_column columns[] = {
        {"VICTIM", OUTPUT_LEFT}, {"CHECKPOINT", OUTPUT_LEFT}, {"NODES", OUTPUT_RIGHT}};
    struct output_table table;
    char text[HUMAN_BYTES];

    if (cli->format == OUTPUT_NAME) {
        for (size_t i = 0; i < reply->n_victims; i++) {
            output_safe(cli->out, reply->victims[i]->allocation_id);
            fputc('\n', cli->out);
        }
        return;
    }
    fprintf(cli->out, "preemption %" PRIu64 " (index %" PRIu64 "%s)\n", reply->preemption_id,
            reply->index, reply->repeated ? ", the outcome of the first request" : "");
    output_table_init(&table, cli, columns, ARRAY_COUNT(columns));
    for (size_t i = 0; i < reply->n_victims; i++) {
        const Ckpt__V1__Victim *victim = reply->victims[i];

        output_row(&table);
        output_cell(&table, "%s", victim->allocation_id);
        output_cell(&table, "%s",
                    victim->checkpoint_id == 0 ? "none: terminated"
                                               : human_checkpoint(victim->checkpoint_id, text));
        output_cell(&table, "%u", victim->node_count);
    }
    output_table_print(&table);
}

enum cli_exit command_preempt(struct cli *cli)
{
    Ckpt__V1__RequestPreemptionRequest request = CKPT__V1__REQUEST_PREEMPTION_REQUEST__INIT;
    const struct option_value *candidates = cli_option(cli, "candidates");
    ProtobufCMessage *message;
    enum cli_exit code;

    if (!cli_option(cli, "class")->set || !cli_option(cli, "nodes")->set) {
        return cli_fail(cli, CLI_USAGE, "ckptctl preempt --class 5 --nodes 2",
                        "preempt needs --class and --nodes");
    }
    request.preemption_class = (uint32_t)cli_number(cli, "class", 0);
    request.nodes_needed = (uint32_t)cli_number(cli, "nodes", 0);
    request.forced = cli_flag(cli, "forced");
    request.candidates = candidates->items;
    request.n_candidates = candidates->item_count;
    cli_set_text(cli, "for-job", &request.for_job);
    code = confirm(cli, &request);
    if (code == CLI_OK) {
        code = call_mutate(cli, "preempt", "BrokerService/RequestPreemption", &request.base,
                           &ckpt__v1__request_preemption_reply__descriptor, &message);
    }
    if (code != CLI_OK || message == NULL)
        return code;
    if (!output_json_message(cli, "preemption", message))
        print_victims(cli, (const Ckpt__V1__RequestPreemptionReply *)message);
    call_free(message);
    return CLI_OK;
}
