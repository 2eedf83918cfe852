/* ckptctl undeleted: folders of expired checkpoints that could not be removed. */
#include <inttypes.h>
#include <stdlib.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"

static const struct output_column columns[] = {
    {"CHECKPOINT", OUTPUT_LEFT},
    {"JOB", OUTPUT_LEFT},
    {"SINCE", OUTPUT_LEFT},
    {"SIZE", OUTPUT_RIGHT},
    {"TRIED", OUTPUT_RIGHT},
    {"NEXT TRY", OUTPUT_LEFT},
    {"PATH", OUTPUT_LEFT},
    {"REASON", OUTPUT_LEFT},
    {"TARGET", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"LAST TRY", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
};

static void undeleted_row(struct output_table *table, const ProtobufCMessage *item)
{
    const Ckpt__V1__Undeleted *undeleted = (const Ckpt__V1__Undeleted *)item;
    char text[HUMAN_BYTES];

    output_cell(table, "%s", human_checkpoint(undeleted->checkpoint_id, text));
    output_cell(table, "%s", undeleted->allocation_id);
    output_cell(table, "%s", human_clock(undeleted->since_ms, text));
    output_cell(table, "%s",
                undeleted->size_bytes == 0 ? "-" : human_size(undeleted->size_bytes, text));
    output_cell(table, "%" PRIu32, undeleted->attempts);
    output_cell(table, "%s",
                undeleted->next_try_ms == 0 ? "-" : human_clock(undeleted->next_try_ms, text));
    output_cell(table, "%s", undeleted->path);
    output_cell(table, "%s", undeleted->reason[0] == '\0' ? "-" : undeleted->reason);
    output_cell(table, "%s", undeleted->target_id);
    output_cell(table, "%s",
                undeleted->tried_at_ms == 0 ? "-" : human_clock(undeleted->tried_at_ms, text));
}

static const char *undeleted_name(const ProtobufCMessage *item, char text[HUMAN_BYTES])
{
    return human_checkpoint(((const Ckpt__V1__Undeleted *)item)->checkpoint_id, text);
}

static const struct output_kind undeleted_kind = {
    "undeleted", "undeleted", columns, ARRAY_COUNT(columns), undeleted_row, undeleted_name};

static void say_sums(struct cli *cli, const Ckpt__V1__ListUndeletedReply *reply)
{
    char bytes[HUMAN_BYTES];

    if (reply->count > 0)
        cli_note(cli,
                 "%" PRIu64 " could not be deleted (%s); give the service's user the right, or "
                 "remove them by hand: they leave this list at the next try",
                 reply->count, human_size(reply->size_bytes, bytes));
    if (reply->forgotten > 0)
        cli_note(cli,
                 "%" PRIu64 " more (%s) were forgotten for want of a place and are tried no more: "
                 "look for them below the prefixes of the targets",
                 reply->forgotten, human_size(reply->forgotten_bytes, bytes));
}

enum cli_exit command_undeleted(struct cli *cli)
{
    Ckpt__V1__ListUndeletedRequest request = CKPT__V1__LIST_UNDELETED_REQUEST__INIT;
    ProtobufCMessage *message = NULL;
    struct output_list list;
    enum cli_exit code;

    if (cli->argument_count > 0)
        request.allocation_id = cli_argument(cli, 0);
    request.stale = cli_flag(cli, "stale");
    output_list_begin(&list, cli, &undeleted_kind);
    for (;;) {
        ProtobufCMessage *page;
        const Ckpt__V1__ListUndeletedReply *reply;

        code = call_read(cli, "list undeleted", "BrokerService/ListUndeleted", &request.base,
                         &ckpt__v1__list_undeleted_reply__descriptor, &page);
        if (code != CLI_OK)
            break;
        if (message != NULL)
            call_free(message);
        message = page;
        reply = (const Ckpt__V1__ListUndeletedReply *)message;
        for (size_t i = 0; i < reply->n_undeleted; i++)
            output_list_add(&list, &reply->undeleted[i]->base);
        request.page_token = reply->next_page_token;
        if (request.page_token[0] == '\0')
            break;
    }
    output_list_end(&list, code == CLI_OK);
    if (code == CLI_OK)
        say_sums(cli, (const Ckpt__V1__ListUndeletedReply *)message);
    if (message != NULL)
        call_free(message);
    return code;
}
