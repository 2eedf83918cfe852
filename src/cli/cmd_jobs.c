/* ckptctl jobs, job, update, end, restart, migrate, placement. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/job_waits.h"
#include "src/cli/nodes_option.h"
#include "src/cli/output.h"
#include "src/cli/period.h"
#include "src/cli/spec.h"

static const struct output_column columns[] = {
    {"JOB", OUTPUT_LEFT},
    {"TENANT", OUTPUT_LEFT},
    {"STATE", OUTPUT_LEFT},
    {"REASON", OUTPUT_LEFT},
    {"SINCE", OUTPUT_LEFT},
    {"NODES", OUTPUT_RIGHT},
    {"GPUS", OUTPUT_RIGHT},
    {"CLASS", OUTPUT_RIGHT},
    {"ACTIVE", OUTPUT_LEFT},
    {"LAST", OUTPUT_LEFT},
    {"NOT SAVED", OUTPUT_RIGHT},
    {"DONE", OUTPUT_RIGHT},
    {"PROJECT", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"VCLUSTER", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"OWNER", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"STRATEGY", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"SIZE", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"WRITE", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"PREEMPTED", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"REQUEUED", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"RESTARTS", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"LOST GPU-S", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
};

static const Ckpt__V1__AllocationSpec *spec_of(const Ckpt__V1__Allocation *allocation)
{
    static const Ckpt__V1__AllocationSpec none = CKPT__V1__ALLOCATION_SPEC__INIT;

    return allocation->spec != NULL ? allocation->spec : &none;
}

static uint64_t gpu_count(const Ckpt__V1__AllocationSpec *spec)
{
    uint64_t count = 0;

    for (size_t i = 0; i < spec->n_nodes; i++)
        count += spec->nodes[i]->gpu_count;
    return count;
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static const char *age_text(uint64_t at_ms, char text[HUMAN_BYTES])
{
    uint64_t now = now_ms();

    return at_ms == 0 ? "-" : human_duration(now > at_ms ? now - at_ms : 0, text);
}

/* What a failure now would have computed again: without a complete checkpoint all since it began.
 * A job that does not run computes nothing, and what it had not saved is lost already. */
static const char *not_saved(const Ckpt__V1__Allocation *job, char text[HUMAN_BYTES])
{
    return job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING ||
                   job->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP
               ? age_text(job->last_complete_snapshot_at_ms, text)
               : "-";
}

static const char *reason_text(Ckpt__V1__Reason reason, char text[HUMAN_BYTES])
{
    return reason == CKPT__V1__REASON__REASON_NONE
               ? "-"
               : human_enum(&ckpt__v1__reason__descriptor, (int)reason, text);
}

static void job_row(struct output_table *table, const ProtobufCMessage *item)
{
    const Ckpt__V1__Allocation *job = (const Ckpt__V1__Allocation *)item;
    const Ckpt__V1__AllocationSpec *spec = spec_of(job);
    char text[HUMAN_BYTES];

    output_cell(table, "%s", spec->allocation_id);
    output_cell(table, "%s", spec->tenant);
    output_state(table,
                 job->hung_since_ms != 0
                     ? "HUNG"
                     : human_enum(&ckpt__v1__allocation_state__descriptor, (int)job->state, text));
    output_cell(table, "%s", reason_text(job->reason, text));
    output_cell(table, "%s", human_clock(job->state_since_ms, text));
    output_cell(table, "%zu", spec->n_nodes);
    output_cell(table, "%" PRIu64, gpu_count(spec));
    output_cell(table, "%u", spec->preemption_class);
    output_cell(table, "%s", human_checkpoint(job->active_checkpoint_id, text));
    output_cell(table, "%s", human_checkpoint(job->last_complete_checkpoint_id, text));
    output_cell(table, "%s", not_saved(job, text));
    output_cell(table, "%" PRIu64, job->checkpoint_count);
    output_cell(table, "%s", spec->project);
    output_cell(table, "%s", spec->vcluster);
    output_cell(table, "%s", spec->owner);
    output_cell(table, "%s",
                human_enum(&ckpt__v1__strategy__descriptor, (int)spec->strategy, text));
    output_cell(table, "%s", human_size(job->size_estimate_bytes, text));
    output_cell(table, "%s", human_duration(job->write_estimate_ms, text));
    output_cell(table, "%u", job->preempted_count);
    output_cell(table, "%u", job->requeue_count);
    output_cell(table, "%u", job->restart_count);
    output_cell(table, "%" PRIu64, job->lost_gpu_ms / 1000);
}

/* A member tells an owner what it has learned, also where that is nothing yet. */
static bool measures_hidden(const Ckpt__V1__Allocation *job)
{
    const Ckpt__V1__AllocationSpec *spec = spec_of(job);

    return job->learned == NULL &&
           (spec->sensitive ||
            spec->vcluster_kind == CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_SENSITIVE);
}

static const char *job_name(const ProtobufCMessage *item, char text[64])
{
    (void)text;
    return spec_of((const Ckpt__V1__Allocation *)item)->allocation_id;
}

static const struct output_kind jobs_kind = {"jobs",  "job",   columns, ARRAY_COUNT(columns),
                                             job_row, job_name};

static void add_jobs(void *context, const ProtobufCMessage *page)
{
    const Ckpt__V1__ListAllocationsReply *reply = (const Ckpt__V1__ListAllocationsReply *)page;

    for (size_t i = 0; i < reply->n_allocations; i++)
        output_list_add(context, &reply->allocations[i]->base);
}

enum cli_exit command_jobs(struct cli *cli)
{
    Ckpt__V1__ListAllocationsRequest request = CKPT__V1__LIST_ALLOCATIONS_REQUEST__INIT;
    struct output_list list;
    enum cli_exit code;

    cli_set_text(cli, "tenant", &request.tenant);
    cli_set_text(cli, "owner", &request.owner);
    cli_set_text(cli, "node", &request.node_id);
    request.state = (Ckpt__V1__AllocationState)cli_number(cli, "state", 0);
    request.unended = !cli_flag(cli, "all") && !cli_option(cli, "state")->set;
    request.stale = cli_flag(cli, "stale");
    output_list_begin(&list, cli, &jobs_kind);
    code = call_read_pages(cli, "list jobs", "BrokerService/ListAllocations", &request.base,
                           &ckpt__v1__list_allocations_reply__descriptor,
                           &(struct call_taker){add_jobs, &list});
    output_list_end(&list, code == CLI_OK);
    return code;
}

static void print_nodes(struct cli *cli, const Ckpt__V1__Allocation *job)
{
    static const struct output_column node_columns[] = {
        {"NODE", OUTPUT_LEFT},     {"PART", OUTPUT_RIGHT},
        {"GPUS", OUTPUT_RIGHT},    {"GPU MEMORY USED", OUTPUT_RIGHT},
        {"BORROWED", OUTPUT_LEFT}, {"RUN-ID", OUTPUT_LEFT | OUTPUT_ONLY_WIDE}};
    const Ckpt__V1__AllocationSpec *spec = spec_of(job);
    struct output_table table;
    char text[HUMAN_BYTES];

    output_table_init(&table, cli, node_columns, ARRAY_COUNT(node_columns));
    for (size_t i = 0; i < spec->n_nodes; i++) {
        output_row(&table);
        output_cell(&table, "%s", spec->nodes[i]->node_id);
        output_cell(&table, "%zu", i);
        output_cell(&table, "%u", spec->nodes[i]->gpu_count);
        output_cell(&table, "%s", human_size(spec->nodes[i]->gpu_memory_used_bytes, text));
        output_cell(&table, "%s%s%s", spec->nodes[i]->borrowed ? "yes" : "no",
                    spec->nodes[i]->home_vcluster[0] != '\0' ? " of " : "",
                    spec->nodes[i]->home_vcluster);
        output_cell(&table, "%s",
                    human_checkpoint(i < job->n_node_runs ? job->node_runs[i] : 0, text));
    }
    output_table_print(&table);
}

/* What its own checkpoints taught: the evaluator plans with these. */
static void print_learned(const struct cli *cli, const Ckpt__V1__Learned *learned)
{
    char a[HUMAN_BYTES], b[HUMAN_BYTES], c[HUMAN_BYTES], d[HUMAN_BYTES];

    cli_out(cli, " learned from %u: write %s +- %s  size %s +- %s  success %.1f %%", learned->count,
            human_duration(learned->write_ms, a), human_duration(learned->write_deviation_ms, b),
            human_size(learned->size_bytes, c), human_size(learned->size_deviation_bytes, d),
            learned->success_ppm / 1e4);
    if (learned->stall_measured)
        cli_out(cli, "  stands still %.1f %% of the write", learned->stall_ppm / 1e4);
    fputc('\n', cli->out);
}

/* From what its run began, and from what the next one would. */
static void print_restart(const struct cli *cli, const Ckpt__V1__Allocation *job)
{
    const Ckpt__V1__AllocationSpec *spec = spec_of(job);
    char a[HUMAN_BYTES], b[HUMAN_BYTES], id[129];

    cli_out(cli, " parts %zu  this run began from %s  a restart begins from %s\n", spec->n_nodes,
            job->restart_checkpoint_id == 0 ? "scratch"
                                            : human_checkpoint(job->restart_checkpoint_id, a),
            job->next_restart_checkpoint_id == 0
                ? job->restart_at_ms != 0 ? "scratch" : "scratch, and only with --from-scratch"
                : human_checkpoint(job->next_restart_checkpoint_id, b));
    if (job->unresponsive)
        cli_out(cli,
                " unresponsive: it did not answer the last time it was asked; no "
                "preemption waits for it, and it is asked\n"
                " more and more rarely until a checkpoint of it completes (ckptctl hint "
                "%s asks now)\n",
                human_safe(spec->allocation_id, id, sizeof(id)));
}

static void print_job(struct cli *cli, const Ckpt__V1__Allocation *job)
{
    const Ckpt__V1__AllocationSpec *spec = spec_of(job);
    char a[HUMAN_BYTES], b[HUMAN_BYTES], safe[129], target[129];

    cli_out(cli, "JOB %s  %s since %s", human_safe(spec->allocation_id, safe, sizeof(safe)),
            human_enum(&ckpt__v1__allocation_state__descriptor, (int)job->state, a),
            human_clock(job->state_since_ms, b));
    if (job->reason != CKPT__V1__REASON__REASON_NONE) {
        cli_out(cli, "  (%s)",
                human_enum_words(&ckpt__v1__reason__descriptor, (int)job->reason, a));
    }
    fputc('\n', cli->out);
    spec_print(cli, spec);
    if (job->unresponsive || spec->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE)
        cli_out(cli, " dear to preempt: it writes no checkpoint\n");
    cli_out(cli, " checkpoints %" PRIu64 " complete  last %s  work not saved %s",
            job->checkpoint_count, human_checkpoint(job->last_complete_checkpoint_id, a),
            not_saved(job, b));
    cli_out(cli, "  active %s\n", human_checkpoint(job->active_checkpoint_id, a));
    cli_out(cli, " last complete one lies on %s  the next goes to %s\n",
            job->last_target_id[0] == '\0' ? "no target"
                                           : human_safe(job->last_target_id, safe, sizeof(safe)),
            human_safe(job->next_target_id, target, sizeof(target)));
    print_restart(cli, job);
    if (job->continued_by[0] != '\0')
        cli_out(cli, " continued by job %s, which has its checkpoints\n",
                human_safe(job->continued_by, safe, sizeof(safe)));
    job_waits_print(cli, job);
    if (measures_hidden(job))
        cli_out(cli, " measures hidden: a sensitive job's are told to its owner and to an "
                     "admin of its tenant\n");
    else
        cli_out(cli, " estimates size %s  write %s\n", human_size(job->size_estimate_bytes, a),
                human_duration(job->write_estimate_ms, b));
    if (job->told_write_ms != 0)
        cli_out(cli, " its application says that it writes for %s%s\n",
                human_duration(job->told_write_ms, a),
                job->learned != NULL && job->learned->count > 0
                    ? ", measured times count"
                    : ", which counts until a checkpoint is complete");
    if (job->learned != NULL && job->learned->count > 0)
        print_learned(cli, job->learned);
    if (job->preemption_id != 0)
        cli_out(cli, " victim of preemption %" PRIu64 ": ckptctl preemptions %" PRIu64 "\n",
                job->preemption_id, job->preemption_id);
    for (size_t i = 0; i < job->n_leaving_node_ids; i++)
        cli_out(cli, "%s%s%s", i == 0 ? " scales down: without " : ", ",
                human_safe(job->leaving_node_ids[i], safe, sizeof(safe)),
                i + 1 == job->n_leaving_node_ids ? "\n" : "");
    cli_out(cli, " restarts %u  requeued %u  preempted %u  lost %" PRIu64 " GPU-s",
            job->restart_count, job->requeue_count, job->preempted_count, job->lost_gpu_ms / 1000);
    if (job->weighed_by[0] != '\0') /* a member of an earlier build does not say it */
        cli_out(cli, "  counts as %s", human_safe(job->weighed_by, a, sizeof(a)));
    fputs("\n\n", cli->out);
    print_nodes(cli, job);
}

enum cli_exit command_job(struct cli *cli)
{
    Ckpt__V1__GetAllocationRequest request = CKPT__V1__GET_ALLOCATION_REQUEST__INIT;
    ProtobufCMessage *message;
    char what[160];
    enum cli_exit code;

    request.allocation_id = cli_argument(cli, 0);
    request.stale = cli_flag(cli, "stale");
    snprintf(what, sizeof(what), "show job %.128s", request.allocation_id);
    code = call_read(cli, what, "BrokerService/GetAllocation", &request.base,
                     &ckpt__v1__allocation__descriptor, &message);
    if (code != CLI_OK)
        return code;
    if (cli->format == OUTPUT_NAME) {
        char name[64];

        cli_out(cli, "%s\n", job_name(message, name));
    } else if (!output_json_message(cli, "job", message)) {
        print_job(cli, (const Ckpt__V1__Allocation *)message);
    }
    call_free(message);
    return CLI_OK;
}

/* Numbers of fields of UpdateAllocationRequest. */
enum { WALLTIME_FIELD = 4, PERIOD_FIELD = 5 };

enum cli_exit command_update(struct cli *cli)
{
    Ckpt__V1__UpdateAllocationRequest request = CKPT__V1__UPDATE_ALLOCATION_REQUEST__INIT;
    struct nodes_option nodes;
    char what[160];
    enum cli_exit code;
    uint64_t floor_ms;

    code = nodes_option_parse(cli, "node", &nodes);
    if (code != CLI_OK)
        return code;
    request.allocation_id = cli_argument(cli, 0);
    request.nodes = nodes.shares;
    request.n_nodes = nodes.count;
    request.walltime_ms = cli_number(cli, "walltime", 0);
    request.period_ms = cli_number(cli, "period", 0);
    if (cli_flag(cli, "no-walltime"))
        request.zeros |= UINT64_C(1) << WALLTIME_FIELD;
    if (cli_flag(cli, "no-period"))
        request.zeros |= UINT64_C(1) << PERIOD_FIELD;
    request.strategy = (Ckpt__V1__Strategy)cli_number(cli, "strategy", 0);
    request.force = cli_flag(cli, "force");
    cli_set_text(cli, "target", &request.target_id);
    snprintf(what, sizeof(what), "update job %.128s", request.allocation_id);
    code = nodes_check_agents(cli, nodes.shares, nodes.count);
    floor_ms = period_floor_ms(cli, request.period_ms, false);
    if (code == CLI_OK)
        code = call_mutate_simple(cli, what, "BrokerService/UpdateAllocation", &request.base);
    if (code == CLI_OK)
        period_note(cli, request.period_ms, floor_ms, request.walltime_ms);
    nodes_option_free(&nodes);
    return code;
}

enum cli_exit command_end(struct cli *cli)
{
    Ckpt__V1__EndAllocationRequest request = CKPT__V1__END_ALLOCATION_REQUEST__INIT;
    char what[160], plan[300];
    enum cli_exit code;

    request.allocation_id = cli_argument(cli, 0);
    request.failed = cli_flag(cli, "failed") || cli_flag(cli, "node-failure");
    request.node_failure = cli_flag(cli, "node-failure");
    request.reason = (Ckpt__V1__Reason)cli_number(cli, "reason", 0);
    snprintf(
        plan, sizeof(plan),
        "plan: end job %.128s as %s; its active checkpoint is withdrawn, its complete ones stay",
        request.allocation_id,
        request.failed ? "FAILED, or REQUEUED where its requeue policy asks for another run"
                       : "COMPLETED");
    code = call_confirm(cli, plan);
    if (code != CLI_OK)
        return code;
    snprintf(what, sizeof(what), "end job %.128s", request.allocation_id);
    return call_mutate_simple(cli, what, "BrokerService/EndAllocation", &request.base);
}

/* What computing is thrown away, or will be, and why. */
static void warn_discard(struct cli *cli, const Ckpt__V1__Discard *discard)
{
    char target[129], repeated[HUMAN_BYTES], at[HUMAN_BYTES];

    human_safe(discard->target_id, target, sizeof(target));
    human_duration(discard->discarded_ms, repeated);
    if (discard->begun)
        cli_note(cli,
                 "warning: it repeats %s of its run time: target %s is away, where its newest "
                 "checkpoint lies",
                 repeated, target);
    else if (discard->discard_at_ms > 0)
        cli_note(cli,
                 "warning: target %s is away: unless it is back before, the job begins at %s "
                 "without that checkpoint, and repeats %s of its run time",
                 target, human_clock(discard->discard_at_ms, at), repeated);
    else
        cli_note(cli,
                 "warning: target %s is away, and the job waits for it: without that checkpoint %s "
                 "of its run time would be repeated, more than the policy's max_discarded",
                 target, repeated);
}

static void restart_told(struct cli *cli, const char *what, const Ckpt__V1__MutationReply *reply)
{
    char id[HUMAN_BYTES];
    bool scratch = reply->checkpoint_id == 0;

    cli_out(cli, "done: %s (index %" PRIu64 "%s): it begins from %s%s\n", what, reply->index,
            reply->repeated ? ", the outcome of the first request" : "",
            scratch ? "scratch" : "checkpoint ",
            scratch ? "" : human_checkpoint(reply->checkpoint_id, id));
    if (reply->discard != NULL)
        warn_discard(cli, reply->discard);
}

enum cli_exit command_restart(struct cli *cli)
{
    Ckpt__V1__RestartAllocationRequest request = CKPT__V1__RESTART_ALLOCATION_REQUEST__INIT;
    struct nodes_option nodes;
    char what[160];
    enum cli_exit code = nodes_option_parse(cli, "node", &nodes);

    if (code != CLI_OK)
        return code;
    request.allocation_id = cli_argument(cli, 0);
    request.nodes = nodes.shares;
    request.n_nodes = nodes.count;
    request.from_scratch = cli_flag(cli, "from-scratch");
    snprintf(what, sizeof(what), "restart job %.128s", request.allocation_id);
    code = nodes_check_agents(cli, nodes.shares, nodes.count);
    if (code == CLI_OK)
        code = call_mutate_told(cli, what, "BrokerService/RestartAllocation", &request.base,
                                restart_told);
    nodes_option_free(&nodes);
    return code;
}

enum cli_exit command_migrate(struct cli *cli)
{
    Ckpt__V1__RequestMigrationRequest request = CKPT__V1__REQUEST_MIGRATION_REQUEST__INIT;
    char what[160];

    request.allocation_id = cli_argument(cli, 0);
    snprintf(what, sizeof(what), "migrate job %.128s", request.allocation_id);
    return call_mutate_simple(cli, what, "BrokerService/RequestMigration", &request.base);
}
