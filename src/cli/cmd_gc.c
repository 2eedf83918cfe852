/* ckptctl gc, checkpoint pin, unpin and reject: what retention keeps for its age alone, and what an
 * operator keeps or lets go.
 *
 * Flow     gc run shows the plan page by page and deletes exactly what it has shown: what has
 *          become needed since stays.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/checkpoints.h"
#include "src/cli/commands.h"
#include "src/cli/gc.h"
#include "src/cli/human.h"
#include "src/cli/output.h"

enum { GC_PAGE = 1000 };

static const struct output_column columns[] = {
    {"CHECKPOINT", OUTPUT_LEFT}, {"JOB", OUTPUT_LEFT},   {"STATE", OUTPUT_LEFT},
    {"SINCE", OUTPUT_LEFT},      {"SIZE", OUTPUT_RIGHT}, {"PATH", OUTPUT_LEFT},
};

static void gc_row(struct output_table *table, const ProtobufCMessage *item)
{
    const Ckpt__V1__Checkpoint *checkpoint = (const Ckpt__V1__Checkpoint *)item;
    bool complete = checkpoint->state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE;
    char text[HUMAN_BYTES];

    output_cell(table, "%s", human_checkpoint(checkpoint->checkpoint_id, text));
    output_cell(table, "%s", checkpoint->allocation_id);
    output_cell(table, "%s", complete ? "complete" : "of a failed attempt");
    output_cell(table, "%s", human_clock(checkpoint->state_since_ms, text));
    output_cell(table, "%s",
                checkpoint->size_bytes == 0 ? "-" : human_size(checkpoint->size_bytes, text));
    output_cell(table, "%s", checkpoint->path);
}

static const char *gc_name(const ProtobufCMessage *item, char text[HUMAN_BYTES])
{
    return human_checkpoint(((const Ckpt__V1__Checkpoint *)item)->checkpoint_id, text);
}

static const struct output_kind gc_kind = {"checkpoints",        "checkpoint", columns,
                                           ARRAY_COUNT(columns), gc_row,       gc_name};

struct plan {
    uint64_t *ids;
    size_t count;
    uint64_t size_bytes;
};

static void plan_add(struct plan *plan, struct output_list *list, const Ckpt__V1__GcReply *reply)
{
    plan->ids = check_realloc(plan->ids, plan->count + reply->n_checkpoints + 1, sizeof(uint64_t));
    for (size_t i = 0; i < reply->n_checkpoints; i++) {
        plan->ids[plan->count++] = reply->checkpoints[i]->checkpoint_id;
        output_list_add(list, &reply->checkpoints[i]->base);
    }
    plan->size_bytes += reply->size_bytes;
}

static enum cli_exit plan_read(struct cli *cli, struct plan *plan)
{
    Ckpt__V1__GcRequest request = CKPT__V1__GC_REQUEST__INIT;
    struct output_list list;
    enum cli_exit code;

    if (cli->argument_count > 0)
        request.allocation_id = cli_argument(cli, 0);
    output_list_begin(&list, cli, &gc_kind);
    do {
        ProtobufCMessage *message;

        code = call_read(cli, "plan gc", "OperatorService/PlanGc", &request.base,
                         &ckpt__v1__gc_reply__descriptor, &message);
        if (code != CLI_OK)
            break;
        const Ckpt__V1__GcReply *reply = (const Ckpt__V1__GcReply *)message;

        plan_add(plan, &list, reply);
        request.after_checkpoint_id = reply->next_after_checkpoint_id;
        call_free(message);
    } while (request.after_checkpoint_id != 0);
    output_list_end(&list, code == CLI_OK);
    return code;
}

enum cli_exit command_gc_plan(struct cli *cli)
{
    struct plan plan = {0};
    enum cli_exit code = plan_read(cli, &plan);
    char bytes[HUMAN_BYTES];

    if (code == CLI_OK)
        cli_note(cli,
                 "%zu checkpoints (%s) are kept for their age alone: ckptctl gc run deletes them "
                 "now, ckptctl checkpoint pin keeps one",
                 plan.count, human_size(plan.size_bytes, bytes));
    free(plan.ids);
    return code;
}

static void count_older(struct gc_count *count, const Ckpt__V1__GcReply *reply, uint64_t before_ms)
{
    for (size_t i = 0; i < reply->n_checkpoints; i++) {
        if (reply->checkpoints[i]->state_since_ms >= before_ms)
            continue;
        count->count++;
        count->size_bytes += reply->checkpoints[i]->size_bytes;
    }
}

enum cli_exit gc_count_older(struct cli *cli, uint64_t age_ms, struct gc_count *ret_count)
{
    Ckpt__V1__GcRequest request = CKPT__V1__GC_REQUEST__INIT;
    const uint64_t now_ms = (uint64_t)time(NULL) * 1000;

    *ret_count = (struct gc_count){0, 0};
    do {
        ProtobufCMessage *message;
        enum cli_exit code = call_read(cli, "plan gc", "OperatorService/PlanGc", &request.base,
                                       &ckpt__v1__gc_reply__descriptor, &message);

        if (code != CLI_OK)
            return code;
        const Ckpt__V1__GcReply *reply = (const Ckpt__V1__GcReply *)message;

        count_older(ret_count, reply, now_ms > age_ms ? now_ms - age_ms : 0);
        request.after_checkpoint_id = reply->next_after_checkpoint_id;
        call_free(message);
    } while (request.after_checkpoint_id != 0);
    return CLI_OK;
}

static enum cli_exit plan_run(struct cli *cli, const struct plan *plan)
{
    enum cli_exit code = CLI_OK;

    for (size_t at = 0; at < plan->count && code == CLI_OK; at += GC_PAGE) {
        Ckpt__V1__RunGcRequest request = CKPT__V1__RUN_GC_REQUEST__INIT;
        char what[64];

        request.checkpoint_ids = plan->ids + at;
        request.n_checkpoint_ids = plan->count - at < GC_PAGE ? plan->count - at : GC_PAGE;
        snprintf(what, sizeof(what), "delete %zu checkpoints", request.n_checkpoint_ids);
        code = call_mutate_simple(cli, what, "OperatorService/RunGc", &request.base);
    }
    return code;
}

enum cli_exit command_gc_run(struct cli *cli)
{
    struct plan plan = {0};
    enum cli_exit code;
    char text[160], bytes[HUMAN_BYTES];

    if (cli_flag(cli, "orphans"))
        return command_gc_run_orphans(cli);
    code = plan_read(cli, &plan);
    snprintf(text, sizeof(text), "plan: delete these %zu checkpoints (%s)", plan.count,
             human_size(plan.size_bytes, bytes));
    if (code == CLI_OK && plan.count > 0)
        code = call_confirm(cli, text);
    if (code == CLI_OK)
        code = plan_run(cli, &plan);
    free(plan.ids);
    return code;
}

static enum cli_exit pin_checkpoint(struct cli *cli, const char *verb)
{
    Ckpt__V1__PinRequest request = CKPT__V1__PIN_REQUEST__INIT;
    enum cli_exit code = checkpoint_argument(cli, 0, &request.checkpoint_id);
    char what[64], text[HUMAN_BYTES];

    if (code != CLI_OK)
        return code;
    request.unpin = strcmp(verb, "unpin") == 0;
    request.reject = strcmp(verb, "reject") == 0;
    snprintf(what, sizeof(what), "%s checkpoint %s", verb,
             human_checkpoint(request.checkpoint_id, text));
    if (request.reject)
        code = call_confirm(cli, "restarts pass over this checkpoint for good, and begin from the "
                                 "one before it");
    if (code != CLI_OK)
        return code;
    return call_mutate_simple(cli, what, "OperatorService/PinCheckpoint", &request.base);
}

enum cli_exit command_checkpoint_pin(struct cli *cli)
{
    return pin_checkpoint(cli, "pin");
}

enum cli_exit command_checkpoint_unpin(struct cli *cli)
{
    return pin_checkpoint(cli, "unpin");
}

enum cli_exit command_checkpoint_reject(struct cli *cli)
{
    return pin_checkpoint(cli, "reject");
}
