/* ckptctl gc orphans, gc run --orphans: what lies at targets without a record.
 *
 * Flow     gc run --orphans shows the list as gc orphans does, and removes exactly what it has
 *          shown: what has got a record since stays.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"

enum { ORPHANS_PER_CALL = 256 };

static const struct output_column columns[] = {
    {"CHECKPOINT", OUTPUT_LEFT},
    {"JOB", OUTPUT_LEFT},
    {"AGE", OUTPUT_RIGHT},
    {"SIZE", OUTPUT_RIGHT},
    {"OWNER", OUTPUT_LEFT},
    {"PATH", OUTPUT_LEFT},
    {"TARGET", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
};

static void orphan_row(struct output_table *table, const ProtobufCMessage *item)
{
    const Ckpt__V1__Orphan *orphan = (const Ckpt__V1__Orphan *)item;
    char text[HUMAN_BYTES];

    output_cell(table, "%s", human_checkpoint(orphan->checkpoint_id, text));
    output_cell(table, "%s", orphan->allocation_id);
    output_cell(table, "%s", human_duration(orphan->age_ms, text));
    output_cell(table, "%s", human_size(orphan->size_bytes, text));
    output_cell(table, "%s", orphan->owner[0] == '\0' ? "-" : orphan->owner);
    output_cell(table, "%s", orphan->path);
    output_cell(table, "%s", orphan->target_id);
}

static const char *orphan_name(const ProtobufCMessage *item, char text[HUMAN_BYTES])
{
    return human_checkpoint(((const Ckpt__V1__Orphan *)item)->checkpoint_id, text);
}

static const struct output_kind orphan_kind = {
    "orphans", "orphan", columns, ARRAY_COUNT(columns), orphan_row, orphan_name};

/* Pages stay until the end: their items are what is removed. */
struct orphans {
    ProtobufCMessage **pages;
    Ckpt__V1__Orphan **items;
    size_t page_count, count;
    uint64_t size_bytes;
};

static void orphans_free(struct orphans *orphans)
{
    for (size_t i = 0; i < orphans->page_count; i++)
        call_free(orphans->pages[i]);
    free(orphans->pages);
    free(orphans->items);
}

static void orphans_add(struct orphans *orphans, struct output_list *list, ProtobufCMessage *page)
{
    const Ckpt__V1__ListOrphansReply *reply = (const Ckpt__V1__ListOrphansReply *)page;

    orphans->pages =
        check_realloc(orphans->pages, orphans->page_count + 1, sizeof(*orphans->pages));
    orphans->pages[orphans->page_count++] = page;
    orphans->items = check_realloc(orphans->items, orphans->count + reply->n_orphans + 1,
                                   sizeof(*orphans->items));
    for (size_t i = 0; i < reply->n_orphans; i++) {
        orphans->items[orphans->count++] = reply->orphans[i];
        orphans->size_bytes += reply->orphans[i]->size_bytes;
        output_list_add(list, &reply->orphans[i]->base);
    }
}

/* Of a target that is not in order, so that an empty list is not taken for an empty target. */
static void say_scan(struct cli *cli, const Ckpt__V1__OrphanScan *scan)
{
    char text[HUMAN_BYTES];

    if (scan->error[0] != '\0')
        cli_note(cli, "target %s: %s", scan->target_id, scan->error);
    if (scan->running)
        cli_note(cli, "target %s is being looked through now", scan->target_id);
    else if (scan->ended_at_ms == 0)
        cli_note(cli, "target %s was not looked through since this leader leads", scan->target_id);
    else
        cli_note(cli, "target %s: %" PRIu64 " checkpoints looked at by %s%s, until %s",
                 scan->target_id, scan->looked, scan->node_id[0] == '\0' ? "the leader" : "node ",
                 scan->node_id, human_clock(scan->ended_at_ms, text));
    if (scan->foreign > 0)
        cli_note(cli,
                 "target %s: %" PRIu64 " of them have no mark of this cluster, or another one's, "
                 "and are left alone",
                 scan->target_id, scan->foreign);
    if (scan->denied > 0)
        cli_note(cli, "target %s: %" PRIu64 " folders could not be looked into", scan->target_id,
                 scan->denied);
}

static enum cli_exit orphans_read(struct cli *cli, bool scan, struct orphans *orphans)
{
    Ckpt__V1__ListOrphansRequest request = CKPT__V1__LIST_ORPHANS_REQUEST__INIT;
    struct output_list list;
    enum cli_exit code;

    request.scan = scan;
    output_list_begin(&list, cli, &orphan_kind);
    do {
        ProtobufCMessage *page;

        code = call_read(cli, "list orphans", "OperatorService/ListOrphans", &request.base,
                         &ckpt__v1__list_orphans_reply__descriptor, &page);
        if (code != CLI_OK)
            break;
        orphans_add(orphans, &list, page);
        request.scan = false;
        request.page_token = ((Ckpt__V1__ListOrphansReply *)(void *)page)->next_page_token;
    } while (request.page_token[0] != '\0');
    output_list_end(&list, code == CLI_OK);
    return code;
}

enum cli_exit command_gc_orphans(struct cli *cli)
{
    struct orphans orphans = {0};
    enum cli_exit code = orphans_read(cli, cli_flag(cli, "scan"), &orphans);

    if (code == CLI_OK) {
        const Ckpt__V1__ListOrphansReply *first =
            (const Ckpt__V1__ListOrphansReply *)(const void *)orphans.pages[0];
        char bytes[HUMAN_BYTES], age[HUMAN_BYTES];

        for (size_t i = 0; i < first->n_scans; i++)
            say_scan(cli, first->scans[i]);
        cli_note(cli, "%zu orphans (%s), unused for %s: ckptctl gc run --orphans removes them",
                 orphans.count, human_size(orphans.size_bytes, bytes),
                 human_duration(first->min_age_ms, age));
        if (first->rule == CKPT__V1__ORPHAN_RULE__ORPHAN_RULE_REMOVE)
            cli_note(cli, "the policy's orphan_rule removes each by itself, unused for %s",
                     human_duration(first->remove_age_ms, age));
        if (first->left_out > 0)
            cli_note(cli, "%" PRIu64 " more were found: they are shown when these are removed",
                     first->left_out);
    }
    orphans_free(&orphans);
    return code;
}

/* Without what the state makes anew, so that a call has room for all. */
static enum cli_exit orphans_remove(struct cli *cli, const struct orphans *orphans)
{
    static char nothing[] = "";
    Ckpt__V1__Orphan named[ORPHANS_PER_CALL], *pointers[ORPHANS_PER_CALL];
    enum cli_exit code = CLI_OK;

    for (size_t at = 0; at < orphans->count && code == CLI_OK; at += ORPHANS_PER_CALL) {
        Ckpt__V1__RemoveOrphansRequest request = CKPT__V1__REMOVE_ORPHANS_REQUEST__INIT;
        char what[64];

        request.n_orphans =
            orphans->count - at < ORPHANS_PER_CALL ? orphans->count - at : ORPHANS_PER_CALL;
        for (size_t i = 0; i < request.n_orphans; i++) {
            named[i] = *orphans->items[at + i];
            named[i].path = nothing;
            pointers[i] = &named[i];
        }
        request.orphans = pointers;
        snprintf(what, sizeof(what), "remove %zu orphans", request.n_orphans);
        code = call_mutate_simple(cli, what, "OperatorService/RemoveOrphans", &request.base);
    }
    return code;
}

enum cli_exit command_gc_run_orphans(struct cli *cli)
{
    struct orphans orphans = {0};
    enum cli_exit code = orphans_read(cli, false, &orphans);
    char text[160], bytes[HUMAN_BYTES];

    snprintf(text, sizeof(text), "plan: remove these %zu orphans (%s)", orphans.count,
             human_size(orphans.size_bytes, bytes));
    if (code == CLI_OK && orphans.count > 0)
        code = call_confirm(cli, text);
    if (code == CLI_OK)
        code = orphans_remove(cli, &orphans);
    orphans_free(&orphans);
    return code;
}
