/* ckptctl preempt, preemptions: frees nodes, after showing whom it may hit; shows what it came
 * to. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/operator.pb-c.h"
#include "fsm/status.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/job_waits.h"
#include "src/cli/output.h"

static bool is_candidate(const Ckpt__V1__RequestPreemptionRequest *request, const char *id)
{
    for (size_t i = 0; i < request->n_candidates; i++)
        if (strcmp(request->candidates[i], id) == 0)
            return true;
    return request->n_candidates == 0;
}

static bool is_forced(const Ckpt__V1__RequestPreemptionRequest *request)
{
    return request->forced ||
           request->reason == CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_SENSITIVE;
}

/* Only force takes a job whose destination is away. */
static bool is_storage_away(const Ckpt__V1__Allocation *job)
{
    return job->stop_way == CKPT__V1__STOP_WAY__STOP_WAY_STORAGE_AWAY;
}

static uint32_t acting_class(const Ckpt__V1__RequestPreemptionRequest *request)
{
    bool priority = request->reason <= CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_PRIORITY;

    return priority ? request->preemption_class : 10;
}

static bool node_listed(const Ckpt__V1__RequestPreemptionRequest *request, const char *node)
{
    for (size_t i = 0; i < request->n_useful_nodes; i++)
        if (strcmp(request->useful_nodes[i], node) == 0)
            return true;
    return request->n_useful_nodes == 0;
}

/* As fsm/preempt/victims.c counts them, but for the states of nodes. */
static size_t useful_nodes(const Ckpt__V1__RequestPreemptionRequest *request,
                           const Ckpt__V1__Allocation *job)
{
    bool reclaim = request->reason == CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_RECLAIM;
    bool named = request->n_useful_nodes > 0;
    size_t count = 0;

    for (size_t i = 0; i < job->spec->n_nodes; i++) {
        const Ckpt__V1__NodeShare *node = job->spec->nodes[i];
        bool home = request->home_vcluster[0] == '\0' ||
                    strcmp(node->home_vcluster, request->home_vcluster) == 0 ||
                    (named && node->home_vcluster[0] == '\0');

        count += home && node_listed(request, node->node_id) && (node->borrowed || !reclaim);
    }
    return count;
}

/* Why the job cannot be a victim; NULL: it can. The state machine decides again when the request is
 * applied. */
static const char *why_no_victim(const Ckpt__V1__RequestPreemptionRequest *request,
                                 const Ckpt__V1__Allocation *job)
{
    if (job->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING &&
        job->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING)
        return "not running";
    if (job->spec->sensitive)
        return "sensitive";
    if (job->spec->preemption_class >= acting_class(request))
        return "class not lower";
    if (is_storage_away(job) && !is_forced(request))
        return "its destination takes no writes";
    return useful_nodes(request, job) == 0 ? "no node of use" : NULL;
}

/* A job that has ended can be no victim, and would take the place of one that can: a page is all
 * that is looked at. Named ones are told of in any case. */
static enum cli_exit fetch_jobs(struct cli *cli, bool named, ProtobufCMessage **ret_message)
{
    Ckpt__V1__ListAllocationsRequest request = CKPT__V1__LIST_ALLOCATIONS_REQUEST__INIT;

    request.page_size = 1000;
    request.unended = !named;
    return call_read(cli, "plan the preemption", "BrokerService/ListAllocations", &request.base,
                     &ckpt__v1__list_allocations_reply__descriptor, ret_message);
}

/* At most this many jobs are named in a plan; the rest is counted. */
enum { PLAN_JOBS_SHOWN = 10, WAY_COUNT = CKPT__V1__STOP_WAY__STOP_WAY_STORAGE_AWAY + 1 };

/* Ways to stop a victim without a checkpoint; NULL: it writes one, or loses nothing. */
static const char *const ways_without[WAY_COUNT] = {
    [CKPT__V1__STOP_WAY__STOP_WAY_UNSPECIFIED] = NULL,
    [CKPT__V1__STOP_WAY__STOP_WAY_CHECKPOINT] = NULL,
    [CKPT__V1__STOP_WAY__STOP_WAY_NOT_BEGUN] = NULL,
    [CKPT__V1__STOP_WAY__STOP_WAY_LESS_AT_STAKE] =
        "goes back to its last checkpoint, which costs less than another one",
    [CKPT__V1__STOP_WAY__STOP_WAY_STRATEGY_NONE] = "its strategy is none",
    [CKPT__V1__STOP_WAY__STOP_WAY_UNRESPONSIVE] = "it did not answer the last time",
    [CKPT__V1__STOP_WAY__STOP_WAY_PART_FINISHED] = "a part of it has finished",
    [CKPT__V1__STOP_WAY__STOP_WAY_STORAGE_AWAY] = "its destination takes no writes"};

/* A broker of version 0.1.0 does not tell: these two are known all the same. */
static size_t stop_way(const Ckpt__V1__Allocation *job)
{
    if (job->stop_way != CKPT__V1__STOP_WAY__STOP_WAY_UNSPECIFIED)
        return (unsigned)job->stop_way < WAY_COUNT ? job->stop_way : 0;
    if (job->spec->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE)
        return CKPT__V1__STOP_WAY__STOP_WAY_STRATEGY_NONE;
    return job->unresponsive ? CKPT__V1__STOP_WAY__STOP_WAY_UNRESPONSIVE : 0;
}

static void describe_job(const Ckpt__V1__RequestPreemptionRequest *request,
                         const Ckpt__V1__Allocation *job, struct buf *plan)
{
    const char *without = ways_without[stop_way(job)];
    char id[129], age[HUMAN_BYTES];

    buf_printf(plan, "  %s: class %u, %zu nodes%s, last checkpoint %s",
               human_safe(job->spec->allocation_id, id, sizeof(id)), job->spec->preemption_class,
               useful_nodes(request, job),
               useful_nodes(request, job) < job->spec->n_nodes ? " of use" : "",
               human_checkpoint(job->last_complete_checkpoint_id, age));
    if (without != NULL)
        buf_printf(plan, "; ends WITHOUT a checkpoint: %s", without);
    buf_printf(plan, "\n");
}

/* Each reason with its count, of the jobs that a plan names or counts. */
static void describe_ways(const size_t counts[WAY_COUNT], struct buf *plan)
{
    size_t sum = 0, said = 0;

    for (size_t way = 0; way < WAY_COUNT; way++)
        sum += ways_without[way] != NULL ? counts[way] : 0;
    if (sum == 0)
        return;
    buf_printf(plan, "\n  of these %zu would end WITHOUT a checkpoint of now (", sum);
    for (size_t way = 0; way < WAY_COUNT; way++)
        if (ways_without[way] != NULL && counts[way] > 0)
            buf_printf(plan, "%s%zu: %s", said++ > 0 ? "; " : "", counts[way], ways_without[way]);
    buf_printf(plan, ")");
}

static void describe_jobs(const Ckpt__V1__RequestPreemptionRequest *request,
                          const Ckpt__V1__ListAllocationsReply *reply, struct buf *plan)
{
    size_t possible = 0, freed = 0, ways[WAY_COUNT] = {0};
    char id[129];

    for (size_t i = 0; i < reply->n_allocations; i++) {
        const Ckpt__V1__Allocation *job = reply->allocations[i];
        const char *why;

        if (job->spec == NULL || !is_candidate(request, job->spec->allocation_id))
            continue;
        why = why_no_victim(request, job);
        if (why != NULL && request->n_candidates > 0)
            buf_printf(plan, "  %s: no (%s)\n",
                       human_safe(job->spec->allocation_id, id, sizeof(id)), why);
        if (why != NULL)
            continue;
        if (possible++ < PLAN_JOBS_SHOWN)
            describe_job(request, job, plan);
        ways[stop_way(job)]++;
        freed += useful_nodes(request, job);
    }
    if (possible > PLAN_JOBS_SHOWN)
        buf_printf(plan, "  and %zu more\n", possible - PLAN_JOBS_SHOWN);
    buf_printf(plan, "  possible victims: %zu with %zu nodes%s%s", possible, freed,
               reply->next_page_token[0] != '\0' ? " among the first 1000 jobs" : "",
               freed < request->nodes_needed ? "; too few: expect a refusal" : "");
    describe_ways(ways, plan);
}

/* Since level 2 a victim that cannot save goes on, unless it is forced. */
static const char *victims_fate(const Ckpt__V1__RequestPreemptionRequest *request,
                                const Ckpt__V1__ListAllocationsReply *reply)
{
    if (is_forced(request))
        return ", or terminated without a checkpoint (FAILED) when none can be written";
    if (reply->feature_level < 2)
        return " and stopped; one whose checkpoint fails, or does not end in time, is ended "
               "without one";
    return " and stopped; one whose checkpoint fails goes on, and another is tried; one that does "
           "not answer in time is ended without one";
}

static void describe_request(const Ckpt__V1__RequestPreemptionRequest *request,
                             const Ckpt__V1__ListAllocationsReply *reply, struct buf *plan)
{
    bool reclaim = request->reason == CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_RECLAIM;
    char home[129];

    buf_printf(plan, "plan: ");
    if (reclaim && request->home_vcluster[0] != '\0')
        buf_printf(plan, "%s takes back", human_safe(request->home_vcluster, home, sizeof(home)));
    else if (reclaim)
        buf_printf(plan, "take back");
    else
        buf_printf(plan, "class %u needs", request->preemption_class);
    buf_printf(plan, " %u nodes", request->nodes_needed);
    if (request->gpus_needed > 0)
        buf_printf(plan, " with %u GPUs", request->gpus_needed);
    buf_printf(plan, "; victims are checkpointed%s%s\n", victims_fate(request, reply),
               reclaim ? "; elastic ones shrink, with a checkpoint where one succeeds" : "");
}

static enum cli_exit confirm_plan(struct cli *cli,
                                  const Ckpt__V1__RequestPreemptionRequest *request)
{
    struct buf plan;
    ProtobufCMessage *jobs = NULL;
    enum cli_exit code = fetch_jobs(cli, request->n_candidates > 0, &jobs);

    if (code != CLI_OK)
        return code;
    buf_init(&plan);
    describe_request(request, (const Ckpt__V1__ListAllocationsReply *)jobs, &plan);
    describe_jobs(request, (const Ckpt__V1__ListAllocationsReply *)jobs, &plan);
    buf_append(&plan, "", 1);
    code = call_confirm(cli, (const char *)plan.bytes);
    call_free(jobs);
    buf_close(&plan);
    return code;
}

/* ---- what it comes to ---- */

static void victim_row(struct output_table *table, const Ckpt__V1__Victim *victim)
{
    char text[HUMAN_BYTES];

    output_row(table);
    output_cell(table, "%s", victim->allocation_id);
    output_cell(table, "%s",
                human_enum_words(&ckpt__v1__victim_state__descriptor, (int)victim->state, text));
    output_cell(table, "%s",
                victim->checkpoint_id == 0 ? "none: terminated"
                                           : human_checkpoint(victim->checkpoint_id, text));
    output_cell(table, "%u", victim->node_count);
    if (victim->reason == CKPT__V1__REASON__REASON_NONE)
        output_cell(table, "%s", "");
    else
        output_cell(table, "%s%s%s",
                    human_enum_words(&ckpt__v1__reason__descriptor, (int)victim->reason, text),
                    victim->detail[0] != '\0' ? ": " : "", victim->detail);
}

static void print_victims(struct cli *cli, size_t count, Ckpt__V1__Victim *const *victims)
{
    static const struct output_column columns[] = {{"VICTIM", OUTPUT_LEFT},
                                                   {"STATE", OUTPUT_LEFT},
                                                   {"CHECKPOINT", OUTPUT_LEFT},
                                                   {"NODES", OUTPUT_RIGHT},
                                                   {"WHY IT GOES ON", OUTPUT_LEFT}};
    struct output_table table;

    output_table_init(&table, cli, columns, ARRAY_COUNT(columns));
    for (size_t i = 0; i < count; i++)
        victim_row(&table, victims[i]);
    output_table_print(&table);
    for (size_t i = 0; i < count; i++)
        job_waits_release(cli, victims[i]->allocation_id, victims[i]->release_check);
}

static void print_reply(struct cli *cli, const Ckpt__V1__RequestPreemptionReply *reply)
{
    if (cli->format == OUTPUT_NAME) {
        for (size_t i = 0; i < reply->n_victims; i++) {
            output_safe(cli->out, reply->victims[i]->allocation_id);
            fputc('\n', cli->out);
        }
        return;
    }
    cli_out(cli, "preemption %" PRIu64 " (index %" PRIu64 "%s)\n", reply->preemption_id,
            reply->index, reply->repeated ? ", the outcome of the first request" : "");
    print_victims(cli, reply->n_victims, reply->victims);
}

static enum cli_exit fetch_preemption(struct cli *cli, uint64_t id, bool stale,
                                      ProtobufCMessage **ret_message)
{
    Ckpt__V1__ListPreemptionsRequest request = CKPT__V1__LIST_PREEMPTIONS_REQUEST__INIT;
    char what[64];

    request.preemption_id = id;
    request.stale = stale;
    snprintf(what, sizeof(what), "show preemption %" PRIu64, id);
    return call_read(cli, what, "BrokerService/ListPreemptions", &request.base,
                     &ckpt__v1__list_preemptions_reply__descriptor, ret_message);
}

static void print_preemption(struct cli *cli, const Ckpt__V1__Preemption *p)
{
    char state[HUMAN_BYTES], reason[HUMAN_BYTES], at[HUMAN_BYTES], job[129];

    cli_out(cli, "PREEMPTION %" PRIu64 "  %s  %s%s%s  %u of %zu victims released\n",
            p->preemption_id,
            human_enum(&ckpt__v1__preemption_state__descriptor, (int)p->state, state),
            human_enum_words(&ckpt__v1__preemption_reason__descriptor, (int)p->reason, reason),
            p->for_job[0] != '\0' ? " for " : "", human_safe(p->for_job, job, sizeof(job)),
            p->victims_released, p->n_victims);
    cli_out(cli, " class %u  nodes %u", p->preemption_class, p->nodes_needed);
    if (p->gpus_needed > 0)
        cli_out(cli, "  GPUs %u", p->gpus_needed);
    cli_out(cli, "  cost %" PRIu64 " GPU-s", p->cost_gpu_ms / 1000);
    if (p->value_gpu_ms > 0)
        cli_out(cli, " of %" PRIu64, p->value_gpu_ms / 1000);
    cli_out(cli, "  escalations %u  asked %s", p->escalations, human_clock(p->asked_at_ms, at));
    if (p->deadline_ms != 0)
        cli_out(cli, "  deadline %s", human_clock(p->deadline_ms, at));
    if (p->ended_at_ms != 0)
        cli_out(cli, "  ended %s", human_clock(p->ended_at_ms, at));
    fputs("\n", cli->out);
    print_victims(cli, p->n_victims, p->victims);
    for (size_t i = 0; i < p->n_released_node_ids; i++) {
        fputs(i == 0 ? " released: " : " ", cli->out);
        output_safe(cli->out, p->released_node_ids[i]);
    }
    if (p->n_released_node_ids > 0)
        fputc('\n', cli->out);
}

enum { WAIT_POLL_MIN_MS = 100, WAIT_POLL_MAX_MS = 1000, WAIT_DEFAULT_MS = 1800000 };

static uint64_t monotonic_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Why there was no other one, and of each that goes on why. */
static void describe_expiry(const Ckpt__V1__Preemption *p, struct buf *text)
{
    char id[129], words[HUMAN_BYTES];

    if (p->refusal != 0)
        buf_printf(text, " (%s)", fsm_status_name((enum fsm_status)p->refusal));
    for (size_t i = 0; i < p->n_victims; i++)
        if (p->victims[i]->reason != CKPT__V1__REASON__REASON_NONE)
            buf_printf(
                text, "; %s goes on: %s", human_safe(p->victims[i]->allocation_id, id, sizeof(id)),
                human_enum_words(&ckpt__v1__reason__descriptor, (int)p->victims[i]->reason, words));
    buf_append(text, "", 1);
}

static enum cli_exit wait_expired(struct cli *cli, const Ckpt__V1__Preemption *p)
{
    struct buf why;
    enum cli_exit code;

    buf_init(&why);
    describe_expiry(p, &why);
    code = cli_fail(
        cli, CLI_FAILED,
        "ckptctl checkpoints JOB says what failed; then preempt again, or with --forced",
        "preemption %" PRIu64 " expired: a victim kept its nodes, and there was no other%s",
        p->preemption_id, (const char *)why.bytes);
    buf_close(&why);
    return code;
}

static enum cli_exit wait_ended(struct cli *cli, const Ckpt__V1__Preemption *p)
{
    if (cli->format == OUTPUT_NAME)
        for (size_t i = 0; i < p->n_released_node_ids; i++) {
            output_safe(cli->out, p->released_node_ids[i]);
            fputc('\n', cli->out);
        }
    else if (!output_json_message(cli, "preemption", &p->base))
        print_preemption(cli, p);
    if (p->state == CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED)
        return CLI_OK;
    return wait_expired(cli, p);
}

static enum cli_exit wait_released(struct cli *cli, uint64_t id)
{
    uint64_t limit_ms = monotonic_ms() + cli_number(cli, "wait-for", WAIT_DEFAULT_MS);
    uint64_t poll_ms = WAIT_POLL_MIN_MS;
    uint32_t last = UINT32_MAX;

    for (;;) {
        struct timespec rest = {(time_t)(poll_ms / 1000), (long)(poll_ms % 1000) * 1000000};
        ProtobufCMessage *message;
        enum cli_exit code = fetch_preemption(cli, id, false, &message);

        if (code != CLI_OK)
            return code;
        const Ckpt__V1__Preemption *p =
            ((const Ckpt__V1__ListPreemptionsReply *)message)->preemptions[0];

        if (p->victims_released != last)
            cli_note(cli, "preemption %" PRIu64 ": %u of %zu victims released", id,
                     p->victims_released, p->n_victims);
        last = p->victims_released;
        if (p->state != CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_WAITING) {
            code = wait_ended(cli, p);
            call_free(message);
            return code;
        }
        call_free(message);
        if (monotonic_ms() + poll_ms >= limit_ms)
            return cli_fail(cli, CLI_TIMEOUT, "ckptctl preemptions ID, or a longer --wait-for",
                            "not every victim of preemption %" PRIu64 " let go in time; it goes on",
                            id);
        while (nanosleep(&rest, &rest) != 0) {
        }
        poll_ms = poll_ms * 2 < WAIT_POLL_MAX_MS ? poll_ms * 2 : WAIT_POLL_MAX_MS;
    }
}

/* ---- the commands ---- */

static void fill_request(struct cli *cli, Ckpt__V1__RequestPreemptionRequest *request)
{
    const struct option_value *candidates = cli_option(cli, "candidates");
    const struct option_value *useful = cli_option(cli, "useful-nodes");

    request->reason = (Ckpt__V1__PreemptionReason)cli_number(cli, "reason", 0);
    request->preemption_class = (uint32_t)cli_number(
        cli, "class",
        request->reason == CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_SENSITIVE ? 10 : 0);
    request->nodes_needed = (uint32_t)cli_number(cli, "nodes", 0);
    request->gpus_needed = (uint32_t)cli_number(cli, "gpus", 0);
    request->value_gpu_ms = cli_number(cli, "value", 0);
    request->forced = cli_flag(cli, "forced");
    request->candidates = candidates->items;
    request->n_candidates = candidates->item_count;
    request->useful_nodes = useful->items;
    request->n_useful_nodes = useful->item_count;
    cli_set_text(cli, "for-job", &request->for_job);
    cli_set_text(cli, "home", &request->home_vcluster);
}

enum cli_exit command_preempt(struct cli *cli)
{
    Ckpt__V1__RequestPreemptionRequest request = CKPT__V1__REQUEST_PREEMPTION_REQUEST__INIT;
    ProtobufCMessage *message;
    enum cli_exit code;
    uint64_t id;

    fill_request(cli, &request);
    if ((!cli_option(cli, "class")->set &&
         request.reason <= CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_PRIORITY) ||
        (request.nodes_needed == 0 && request.gpus_needed == 0))
        return cli_fail(cli, CLI_USAGE, "ckptctl preempt --class 5 --nodes 2",
                        "preempt needs --class and --nodes (or --gpus); a reclaim or a sensitive "
                        "claim needs no class");
    code = confirm_plan(cli, &request);
    if (code == CLI_OK) {
        code = call_mutate(cli, "preempt", "BrokerService/RequestPreemption", &request.base,
                           &ckpt__v1__request_preemption_reply__descriptor, &message);
    }
    if (code != CLI_OK || message == NULL)
        return code;
    id = ((const Ckpt__V1__RequestPreemptionReply *)message)->preemption_id;
    if (cli_flag(cli, "wait"))
        code = wait_released(cli, id);
    else if (!output_json_message(cli, "preemption", message))
        print_reply(cli, (const Ckpt__V1__RequestPreemptionReply *)message);
    call_free(message);
    return code;
}

static void preemption_row(struct output_table *table, const ProtobufCMessage *item)
{
    const Ckpt__V1__Preemption *p = (const Ckpt__V1__Preemption *)item;
    char text[HUMAN_BYTES];

    output_cell(table, "%" PRIu64, p->preemption_id);
    output_cell(table, "%s",
                human_enum(&ckpt__v1__preemption_state__descriptor, (int)p->state, text));
    output_cell(table, "%s",
                human_enum_words(&ckpt__v1__preemption_reason__descriptor, (int)p->reason, text));
    output_cell(table, "%s", p->for_job);
    output_cell(table, "%u", p->nodes_needed);
    output_cell(table, "%u of %zu", p->victims_released, p->n_victims);
    output_cell(table, "%u", p->escalations);
    output_cell(table, "%s", human_clock(p->asked_at_ms, text));
    output_cell(table, "%s", p->deadline_ms == 0 ? "" : human_clock(p->deadline_ms, text));
}

static const char *preemption_name(const ProtobufCMessage *item, char text[HUMAN_BYTES])
{
    snprintf(text, HUMAN_BYTES, "%" PRIu64, ((const Ckpt__V1__Preemption *)item)->preemption_id);
    return text;
}

static enum cli_exit list_preemptions(struct cli *cli)
{
    static const struct output_column columns[] = {
        {"ID", OUTPUT_RIGHT},          {"STATE", OUTPUT_LEFT},  {"REASON", OUTPUT_LEFT},
        {"FOR", OUTPUT_LEFT},          {"NODES", OUTPUT_RIGHT}, {"RELEASED", OUTPUT_RIGHT},
        {"ESCALATIONS", OUTPUT_RIGHT}, {"ASKED", OUTPUT_LEFT},  {"DEADLINE", OUTPUT_LEFT}};
    static const struct output_kind kind = {"preemptions",        "preemption",   columns,
                                            ARRAY_COUNT(columns), preemption_row, preemption_name};
    Ckpt__V1__ListPreemptionsRequest request = CKPT__V1__LIST_PREEMPTIONS_REQUEST__INIT;
    struct output_list list;
    enum cli_exit code;

    request.only_waiting = cli_flag(cli, "waiting");
    request.stale = cli_flag(cli, "stale");
    output_list_begin(&list, cli, &kind);
    do {
        ProtobufCMessage *message;

        code = call_read(cli, "list preemptions", "BrokerService/ListPreemptions", &request.base,
                         &ckpt__v1__list_preemptions_reply__descriptor, &message);
        if (code != CLI_OK)
            break;
        const Ckpt__V1__ListPreemptionsReply *reply =
            (const Ckpt__V1__ListPreemptionsReply *)message;

        for (size_t i = 0; i < reply->n_preemptions; i++)
            output_list_add(&list, &reply->preemptions[i]->base);
        request.after_preemption_id = reply->next_after_preemption_id;
        call_free(message);
    } while (request.after_preemption_id != 0);
    output_list_end(&list, code == CLI_OK);
    return code;
}

enum cli_exit command_preemptions(struct cli *cli)
{
    ProtobufCMessage *message;
    const struct number_range range = {1, UINT64_MAX};
    struct err err;
    uint64_t id;
    enum cli_exit code;

    if (cli->argument_count == 0)
        return list_preemptions(cli);
    if (number_parse(NUMBER_PLAIN, cli_argument(cli, 0), range, &id, &err) != 0)
        return cli_fail(cli, CLI_USAGE, "ckptctl preemptions", "the number of a preemption: %s",
                        err.text);
    code = fetch_preemption(cli, id, cli_flag(cli, "stale"), &message);
    if (code != CLI_OK)
        return code;
    const Ckpt__V1__Preemption *p =
        ((const Ckpt__V1__ListPreemptionsReply *)message)->preemptions[0];

    if (cli->format == OUTPUT_NAME)
        cli_out(cli, "%" PRIu64 "\n", p->preemption_id);
    else if (!output_json_message(cli, "preemption", &p->base))
        print_preemption(cli, p);
    call_free(message);
    return CLI_OK;
}
