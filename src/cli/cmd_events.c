/* ckptctl events: what happened, and with -f what happens. */
#include <inttypes.h>
#include <stdio.h>

#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/event_text.h"
#include "src/cli/members.h"
#include "src/cli/output.h"
#include "src/cli/reflect.h"
#include "src/cli/watch.h"

/* A member's first lead is logged before its name is known to the state: the members themselves
 * tell it. */
struct leader_names {
    bool asked;
    struct members members;
};

struct printer {
    struct leader_names names;
    struct event_history history;
    json_t *items; /* of one JSON document; NULL: each event is a line */
    uint64_t left; /* events still wanted; 0: no limit */
    uint64_t seen;
};

/* NULL: not known. The text lives as long as names. */
static char *leader_name(struct cli *cli, struct leader_names *names, uint64_t member_id)
{
    const Ckpt__V1__StatusReply *best;

    if (!names->asked) {
        names->asked = true;
        members_ask(cli, CALL_QUICK, &names->members);
    }
    best = names->members.best;
    for (size_t i = 0; best != NULL && i < best->n_members; i++)
        if (best->members[i]->member_id == member_id)
            return best->members[i]->name;
    return NULL;
}

static void print_text(struct cli *cli, struct printer *printer, const Ckpt__V1__Event *event)
{
    char text[EVENT_TEXT_BYTES];
    Ckpt__V1__Event named = *event;
    char *name = NULL;

    if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_LEADER && event->subject[0] == '\0')
        name = leader_name(cli, &printer->names, event->new_state);
    if (name != NULL)
        named.subject = name;
    event_text(&named, &printer->history, cli->format == OUTPUT_WIDE, text);
    cli_out(cli, "%s\n", text);
}

static void print_line(struct cli *cli, struct printer *printer, const Ckpt__V1__Event *event)
{
    switch (cli->format) {
    case OUTPUT_JSON:
    case OUTPUT_JSONL:
        cli->format = OUTPUT_JSONL; /* an endless stream is lines in either JSON format */
        output_json(cli, "event", reflect_to_json(&event->base));
        return;
    case OUTPUT_YAML:
        output_json(cli, "event", reflect_to_json(&event->base));
        return;
    case OUTPUT_NAME:
        cli_out(cli, "%" PRIu64 "\n", event->sequence);
        return;
    case OUTPUT_TABLE:
    case OUTPUT_WIDE:
        print_text(cli, printer, event);
        return;
    }
}

static bool on_event(struct cli *cli, void *data, const Ckpt__V1__Event *event)
{
    struct printer *printer = data;

    printer->seen++;
    if (event->gap)
        cli_note(cli, "remark: events before %" PRIu64 " are no longer kept", event->sequence);
    if (printer->items != NULL)
        json_array_append_new(printer->items, reflect_to_json(&event->base));
    else
        print_line(cli, printer, event);
    /* a reader that went away ends the watch; cli_run reports it */
    if (cli_flag(cli, "follow") && fflush(cli->out) != 0)
        return false;
    return printer->left == 0 || --printer->left > 0;
}

/* A job without an event that is kept: it may be there all the same. */
static enum cli_exit find_job(struct cli *cli, const struct watch_options *options)
{
    Ckpt__V1__GetAllocationRequest request = CKPT__V1__GET_ALLOCATION_REQUEST__INIT;
    ProtobufCMessage *reply = NULL;
    enum cli_exit code;
    char what[160];

    if (options->allocation_id[0] == '\0')
        return CLI_OK;
    request.allocation_id = options->allocation_id;
    request.stale = options->stale;
    snprintf(what, sizeof(what), "list events of job %.128s", options->allocation_id);
    code = call_read(cli, what, "BrokerService/GetAllocation", &request.base,
                     &ckpt__v1__allocation__descriptor, &reply);
    call_free(reply);
    return code;
}

enum cli_exit command_events(struct cli *cli)
{
    static char everything[] = "";
    struct watch_options options = {.after_sequence = cli_number(cli, "after", 0),
                                    .allocation_id = cli_argument(cli, 0),
                                    .follow = cli_flag(cli, "follow"),
                                    .stale = cli_flag(cli, "stale"),
                                    .current = cli_flag(cli, "current")};
    struct printer printer = {.left = cli_number(cli, "max", 0)};
    enum cli_exit code;

    if (options.stale && options.follow)
        return cli_fail(cli, CLI_USAGE, "one of the two",
                        "events: --follow goes on at the leader, --stale asks any member");
    if (options.current && options.after_sequence != 0)
        return cli_fail(cli, CLI_USAGE, "one of the two",
                        "events: --current begins with what holds now, --after with an event");
    if (options.follow && cli->repeat_ms != 0)
        return cli_fail(cli, CLI_USAGE, "ckptctl events --follow",
                        "--watch asks again and --follow never ends: give one of them");
    if (options.allocation_id == NULL)
        options.allocation_id = everything;
    if ((cli->format == OUTPUT_JSON || cli->format == OUTPUT_YAML) && !options.follow)
        printer.items = json_array();
    code = watch_run(cli, &options, on_event, &printer);
    members_free(&printer.names.members);
    if (code == CLI_OK && printer.seen == 0)
        code = find_job(cli, &options);
    if (printer.items != NULL && code == CLI_OK)
        output_json(cli, "events", printer.items);
    else
        json_decref(printer.items);
    return code;
}
