/* ckptctl losses: where GPU time went. */
#include <stdio.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"

#define MS_PER_HOUR 3600000.0

static const struct output_column columns[] = {
    {"OF", OUTPUT_LEFT},
    {"HELD", OUTPUT_RIGHT},
    {"USEFUL", OUTPUT_RIGHT},
    {"PENDING", OUTPUT_RIGHT},
    {"FAILURE", OUTPUT_RIGHT},
    {"CHECKPOINT", OUTPUT_RIGHT},
    {"RESTART", OUTPUT_RIGHT},
    {"PREEMPTION", OUTPUT_RIGHT},
    {"WALLTIME", OUTPUT_RIGHT},
    {"STOP", OUTPUT_RIGHT},
    {"LOST-GPU-H", OUTPUT_RIGHT},
    {"LOST", OUTPUT_RIGHT},
    {"WAITED", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
};

static void hours_cell(struct output_table *table, uint64_t gpu_ms)
{
    output_cell(table, "%.3f", (double)gpu_ms / MS_PER_HOUR);
}

static void losses_row(struct output_table *table, const ProtobufCMessage *item)
{
    static const Ckpt__V1__GpuAccount none = CKPT__V1__GPU_ACCOUNT__INIT;
    const Ckpt__V1__Losses *losses = (const Ckpt__V1__Losses *)item;
    const Ckpt__V1__GpuAccount *account = losses->account != NULL ? losses->account : &none;
    uint64_t kept = account->useful_gpu_ms + account->pending_gpu_ms;
    uint64_t lost = account->held_gpu_ms > kept ? account->held_gpu_ms - kept : 0;
    char text[HUMAN_BYTES];

    output_cell(table, "%s", losses->name[0] != '\0' ? losses->name : "all");
    hours_cell(table, account->held_gpu_ms);
    hours_cell(table, account->useful_gpu_ms);
    hours_cell(table, account->pending_gpu_ms);
    hours_cell(table, account->lost_failure_gpu_ms);
    hours_cell(table, account->lost_checkpoint_gpu_ms);
    hours_cell(table, account->lost_restart_gpu_ms);
    hours_cell(table, account->lost_preemption_gpu_ms);
    hours_cell(table, account->lost_walltime_gpu_ms);
    hours_cell(table, account->lost_stop_gpu_ms);
    hours_cell(table, lost);
    output_cell(table, "%.2f%%",
                account->held_gpu_ms > 0 ? 100 * (double)lost / (double)account->held_gpu_ms : 0.0);
    output_cell(table, "%s", human_duration(losses->waited_ms, text));
}

static const char *losses_name(const ProtobufCMessage *item, char text[64])
{
    const Ckpt__V1__Losses *losses = (const Ckpt__V1__Losses *)item;

    (void)text;
    return losses->name[0] != '\0' ? losses->name : "all";
}

static const struct output_kind losses_kind = {
    "losses", "losses", columns, ARRAY_COUNT(columns), losses_row, losses_name};

enum cli_exit command_losses(struct cli *cli)
{
    Ckpt__V1__GetLossesRequest request = CKPT__V1__GET_LOSSES_REQUEST__INIT;
    const char *job = cli_argument(cli, 0);
    ProtobufCMessage *message;
    struct output_list list;
    enum cli_exit code;

    const bool of_tenants = cli_option_exists(cli, "tenant");

    if (job != NULL && of_tenants && cli_text(cli, "tenant") != NULL)
        return cli_fail(cli, CLI_USAGE, "ckptctl help losses", "losses takes JOB or --tenant");
    if (job != NULL)
        request.allocation_id = cli_argument(cli, 0);
    if (of_tenants)
        cli_set_text(cli, "tenant", &request.tenant);
    request.stale = cli_flag(cli, "stale");
    code = call_read(cli, "list losses", "OperatorService/GetLosses", &request.base,
                     &ckpt__v1__get_losses_reply__descriptor, &message);
    if (code != CLI_OK)
        return code;
    const Ckpt__V1__GetLossesReply *reply = (const Ckpt__V1__GetLossesReply *)message;

    output_list_begin(&list, cli, &losses_kind);
    for (size_t i = 0; i < reply->n_losses; i++)
        output_list_add(&list, &reply->losses[i]->base);
    output_list_end(&list, true);
    if (!cli_is_json(cli) && reply->n_losses > 0)
        cli_note(cli, "GPU-hours; pending: computed since the last complete checkpoints");
    call_free(message);
    return CLI_OK;
}
