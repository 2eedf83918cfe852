/* ckptctl upgrade canary: a member with a new build watches itself, and is followed to its
 * verdict. The member watches alone: whoever follows may go. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "src/base/check.h"
#include "src/base/number.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"
#include "src/cli/upgrade.h"

enum { CANARY_POLL_MS = 500, CANARY_SILENT_MS = 120000 };

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void print_checks(struct cli *cli, const Ckpt__V1__Canary *canary)
{
    static const struct output_column columns[] = {{"CHECK", OUTPUT_LEFT},
                                                   {"VALUE", OUTPUT_LEFT},
                                                   {"LIMIT", OUTPUT_LEFT},
                                                   {"STATE", OUTPUT_LEFT}};
    struct output_table table;

    output_table_init(&table, cli, columns, ARRAY_COUNT(columns));
    for (size_t i = 0; i < canary->n_checks; i++) {
        output_row(&table);
        output_cell(&table, "%s", canary->checks[i]->name);
        output_cell(&table, "%s", canary->checks[i]->value);
        output_cell(&table, "%s", canary->checks[i]->limit);
        output_cell(&table, "%s", canary->checks[i]->failed ? "FAILED" : "ok");
    }
    output_table_print(&table);
}

static enum cli_exit ask_member(struct cli *cli, const struct upgrade_member *row,
                                uint64_t duration_ms)
{
    Ckpt__V1__StartCanaryRequest request = CKPT__V1__START_CANARY_REQUEST__INIT;
    struct call_answer answer = {.status = RPC_UNKNOWN};
    char what[160], next[200];
    enum cli_exit code = CLI_OK;

    request.member_id = row->status->member_id;
    request.duration_ms = duration_ms;
    snprintf(answer.endpoint, sizeof(answer.endpoint), "%s", row->status->api_address);
    call_each(cli,
              &(struct client_request){.method = "OperatorService/StartCanary",
                                       .message = &request.base,
                                       .reply_type = &ckpt__v1__mutation_reply__descriptor},
              CALL_PATIENT, &answer, 1);
    snprintf(what, sizeof(what), "%s %.128s", duration_ms == 0 ? "end the watch of" : "watch",
             row->status->name);
    snprintf(next, sizeof(next), "exchange the program of %.128s first: ckptctl upgrade plan",
             row->status->name);
    if (answer.status == RPC_UNIMPLEMENTED)
        code = cli_fail(cli, CLI_REFUSED, next,
                        "cannot %s: its build (%.95s) knows no such request", what, row->build);
    else if (answer.status != RPC_OK)
        code = call_failed(cli, what, answer.status, answer.err.text, true);
    call_each_free(&answer, 1);
    return code;
}

/* One look at the member. */
struct verdict {
    bool answered;
    bool put_back;  /* by ckptd-start, from the build that is followed */
    char state[16]; /* "": it watches nothing */
    char build[UPGRADE_BUILD_BYTES];
    char failed[300];
};

static void look_once(struct cli *cli, uint64_t id, const char *began, struct verdict *verdict)
{
    struct upgrade upgrade;

    verdict->answered = false;
    if (upgrade_look_at_members(cli, "follow the watch", &upgrade) != CLI_OK)
        return;
    for (size_t i = 0; i < upgrade.count; i++) {
        const Ckpt__V1__StatusReply *own = upgrade.rows[i].own;

        if (upgrade.rows[i].status->member_id != id || own == NULL)
            continue;
        verdict->answered = true;
        human_safe(own->canary == NULL ? "" : own->canary->state, verdict->state,
                   sizeof(verdict->state));
        human_safe(upgrade.rows[i].build, verdict->build, sizeof(verdict->build));
        verdict->put_back = own->start != NULL && strcmp(own->start->put_back_build, began) == 0;
        if (verdict->put_back)
            human_safe(own->start->put_back_why, verdict->failed, sizeof(verdict->failed));
        for (size_t k = 0; own->canary != NULL && k < own->canary->n_checks; k++)
            if (own->canary->checks[k]->failed)
                snprintf(verdict->failed, sizeof(verdict->failed), "%s: %s (%s)",
                         own->canary->checks[k]->name, own->canary->checks[k]->value,
                         own->canary->checks[k]->limit);
        if (own->canary != NULL && strcmp(verdict->state, "passed") == 0 && !cli_is_json(cli))
            print_checks(cli, own->canary);
    }
    upgrade_free(&upgrade);
}

static enum cli_exit tell_failed(struct cli *cli, const char *name, const char *build,
                                 const struct verdict *verdict)
{
    const bool back =
        verdict->answered && (verdict->put_back || strcmp(verdict->build, build) != 0);

    return cli_fail(cli, CLI_FAILED,
                    "ckptctl upgrade status; journalctl -u ckptd on its host has "
                    "event=canary_failed; ckptd-start --again there tries this build once more",
                    "%s with build %s failed its watch: %s; %s%s", name, build,
                    verdict->failed[0] != '\0' ? verdict->failed : "its process ended",
                    back ? "it runs again with build " : "it has not come back yet",
                    back ? verdict->build : "");
}

/* A verdict of failure is told when the build before runs, or does not come. */
static enum cli_exit follow_watch(struct cli *cli, const char *name, uint64_t id, const char *build)
{
    const struct timespec pause = {0, CANARY_POLL_MS * 1000000L};
    struct verdict verdict = {0};
    uint64_t silent_since_ms = now_ms();
    char began[UPGRADE_BUILD_BYTES];

    human_safe(build, began, sizeof(began));
    for (;;) {
        look_once(cli, id, build, &verdict);
        if (verdict.answered && (verdict.put_back || strcmp(verdict.build, began) != 0))
            return tell_failed(cli, name, began, &verdict);
        if (verdict.answered && strcmp(verdict.state, "passed") == 0) {
            if (cli_is_json(cli))
                output_json(cli, "canary",
                            json_pack("{s:s, s:s, s:s}", "name", name, "build", began, "state",
                                      verdict.state));
            else
                cli_out(cli, "done: %s with build %s passed its watch\n", name, began);
            return CLI_OK;
        }
        if (verdict.answered && strcmp(verdict.state, "watching") == 0)
            silent_since_ms = now_ms();
        if (now_ms() - silent_since_ms >= CANARY_SILENT_MS)
            return tell_failed(cli, name, began, &verdict);
        nanosleep(&pause, NULL);
    }
}

enum cli_exit command_upgrade_canary(struct cli *cli)
{
    static const struct number_range range = {1, UINT64_C(86400000)};
    const char *word = cli_argument(cli, 0), *text = cli_argument(cli, 1);
    const struct upgrade_member *row;
    char name[129], build[UPGRADE_BUILD_BYTES];
    uint64_t duration_ms = 0, id = 0;
    struct upgrade upgrade;
    struct err err;
    enum cli_exit code;

    if ((text == NULL) != cli_flag(cli, "end"))
        return cli_fail(cli, CLI_USAGE, "ckptctl upgrade canary n2 15m",
                        "upgrade canary takes a member and a duration, or --end");
    if (text != NULL && number_parse(NUMBER_DURATION, text, range, &duration_ms, &err) != 0)
        return cli_fail(cli, CLI_USAGE, "ckptctl upgrade canary n2 15m", "%s", err.text);
    code = upgrade_look_at_members(cli, "watch a member", &upgrade);
    if (code != CLI_OK)
        return code;
    row = upgrade_find(&upgrade, word);
    if (row == NULL) {
        code =
            cli_fail(cli, CLI_NOT_FOUND, "ckptctl member list", "there is no member %.128s", word);
    } else if (!cli_flag(cli, "dry-run")) {
        human_safe(row->status->name, name, sizeof(name));
        human_safe(row->build, build, sizeof(build));
        id = row->status->member_id;
        code = ask_member(cli, row, duration_ms);
    }
    upgrade_free(&upgrade);
    if (code != CLI_OK || cli_flag(cli, "dry-run"))
        return code;
    cli_note(cli, "%s: %s", name,
             duration_ms == 0 ? "the watch is over, its build stays"
                              : "it watches its build, also when nobody follows");
    if (duration_ms == 0 || cli_flag(cli, "no-wait"))
        return CLI_OK;
    return follow_watch(cli, name, id, build);
}
