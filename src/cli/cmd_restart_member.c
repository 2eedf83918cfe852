/* ckptctl restart-member: members end in good order and are started again, one after the other. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "src/base/check.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"
#include "src/cli/upgrade.h"

enum { RESTART_POLL_MS = 250, RESTART_WAIT_MS = 120000, RESTART_NAME_BYTES = 129 };

/* A member that is to be restarted: what is known of it before. */
struct restart {
    uint64_t id, started_at_ms;
    char name[RESTART_NAME_BYTES];
    char build[UPGRADE_BUILD_BYTES];
};

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- before anything is changed ---- */

/* Whether the member can be asked at all. */
static enum cli_exit check_asked(struct cli *cli, const struct upgrade_member *row)
{
    const char *name = row->status->name;
    char next[200];

    if (row->own == NULL)
        return cli_fail(cli, CLI_NO_LEADER, "ckptctl status; systemctl status ckptd on its host",
                        "cannot restart %.128s: it does not answer at %.200s", name,
                        row->status->api_address);
    if (row->own->start != NULL && row->own->start->supervised_by[0] != '\0')
        return CLI_OK;
    snprintf(next, sizeof(next), "on the host of %.128s: systemctl restart ckptd", name);
    if (row->own->start == NULL)
        return cli_fail(cli, CLI_REFUSED, next,
                        "cannot restart %.128s: its build (%.95s) knows no such request", name,
                        row->build);
    return cli_fail(cli, CLI_REFUSED,
                    "stop it and start it on its host, as it was started; with supervised: yes in "
                    "its configuration where something starts it again",
                    "cannot restart %.128s: NOT_SUPERVISED: nobody is known to start it again when "
                    "it ends (neither NOTIFY_SOCKET nor INVOCATION_ID is set, nor supervised: yes)",
                    name);
}

/* A majority is left, and has what was decided. The member itself checks the first again, by what
 * it knows. */
static enum cli_exit check_others(struct cli *cli, const struct upgrade *upgrade, uint64_t id)
{
    const Ckpt__V1__StatusReply *best = upgrade->members.best;
    const struct upgrade_member *row = NULL;
    uint32_t left = 0;

    for (size_t i = 0; i < upgrade->count; i++) {
        const Ckpt__V1__MemberStatus *status = upgrade->rows[i].status;

        if (status->member_id == id)
            row = &upgrade->rows[i];
        else
            left += status->voter && upgrade_caught_up(&upgrade->rows[i]);
    }
    if (cli_flag(cli, "accept-outage") || (row != NULL && !row->status->voter))
        return CLI_OK;
    if (best->leader_id == 0 || !best->quorum)
        return cli_fail(cli, CLI_NO_LEADER, "ckptctl status",
                        "cannot restart a member: nobody leads now");
    if (row != NULL && left >= best->voter_count / 2 + 1)
        return CLI_OK;
    return cli_fail(cli, CLI_REFUSED, "ckptctl upgrade plan; or --accept-outage, where that may be",
                    "cannot restart %.128s: QUORUM_AT_RISK: without it %u of %u voters are there "
                    "and have caught up, and %u decide",
                    row == NULL ? "it" : row->status->name, left, best->voter_count,
                    best->voter_count / 2 + 1);
}

static void take_row(const struct upgrade_member *row, struct restart *ret_restart)
{
    ret_restart->id = row->status->member_id;
    ret_restart->started_at_ms =
        row->own == NULL || row->own->start == NULL ? 0 : row->own->start->at_ms;
    human_safe(row->status->name, ret_restart->name, sizeof(ret_restart->name));
    human_safe(row->build, ret_restart->build, sizeof(ret_restart->build));
}

/* Those that are meant, in their order. */
static enum cli_exit choose_members(struct cli *cli, struct restart restarts[CALL_ENDPOINTS_MAX],
                                    size_t *ret_count)
{
    const char *word = cli_argument(cli, 0);
    const struct upgrade_member *named;
    struct upgrade upgrade;
    enum cli_exit code;

    *ret_count = 0;
    if ((word != NULL) == cli_flag(cli, "all"))
        return cli_fail(cli, CLI_USAGE,
                        "ckptctl restart-member n2, or ckptctl restart-member --all",
                        "restart-member takes the name of a member, or --all");
    code = upgrade_look_at_members(cli, "restart a member", &upgrade);
    if (code != CLI_OK)
        return code;
    named = word == NULL ? NULL : upgrade_find(&upgrade, word);
    if (word != NULL && named == NULL)
        code =
            cli_fail(cli, CLI_NOT_FOUND, "ckptctl member list", "there is no member %.128s", word);
    for (size_t i = 0; i < upgrade.count && code == CLI_OK; i++) {
        if (word != NULL && &upgrade.rows[i] != named)
            continue;
        code = check_asked(cli, &upgrade.rows[i]);
        take_row(&upgrade.rows[i], &restarts[(*ret_count)++]);
    }
    if (code == CLI_OK)
        code = check_others(cli, &upgrade, restarts[0].id);
    upgrade_free(&upgrade);
    return code;
}

/* ---- one member ---- */

/* The member itself is asked. An answer that got lost may have been an OK: what comes tells. */
static enum cli_exit ask_member(struct cli *cli, const struct upgrade *upgrade,
                                const struct restart *restart)
{
    Ckpt__V1__RestartMemberRequest request = CKPT__V1__RESTART_MEMBER_REQUEST__INIT;
    struct call_answer answer = {.status = RPC_UNKNOWN};
    char what[RESTART_NAME_BYTES + 16];
    enum cli_exit code = CLI_OK;

    for (size_t i = 0; i < upgrade->count; i++)
        if (upgrade->rows[i].status->member_id == restart->id)
            snprintf(answer.endpoint, sizeof(answer.endpoint), "%s",
                     upgrade->rows[i].status->api_address);
    request.member_id = restart->id;
    request.started_at_ms = restart->started_at_ms;
    request.accept_outage = cli_flag(cli, "accept-outage");
    call_each(cli,
              &(struct client_request){.method = "OperatorService/RestartMember",
                                       .message = &request.base,
                                       .reply_type = &ckpt__v1__mutation_reply__descriptor},
              CALL_PATIENT, &answer, 1);
    snprintf(what, sizeof(what), "restart %s", restart->name);
    if (answer.status != RPC_OK && answer.status != RPC_UNAVAILABLE &&
        answer.status != RPC_DEADLINE_EXCEEDED)
        code = call_failed(cli, what, answer.status, answer.err.text, true);
    call_each_free(&answer, 1);
    return code;
}

static bool has_come_back(const struct upgrade *upgrade, struct restart *restart, bool *ret_new)
{
    const Ckpt__V1__StatusReply *best = upgrade->members.best;

    for (size_t i = 0; i < upgrade->count; i++) {
        const struct upgrade_member *row = &upgrade->rows[i];

        if (row->status->member_id != restart->id || row->own == NULL)
            continue;
        /* a build from before this request was put into its place, where it tells no start */
        *ret_new = row->own->start == NULL || row->own->start->at_ms != restart->started_at_ms;
        if (!*ret_new || best->leader_id == 0 || !best->quorum || !upgrade_caught_up(row))
            continue;
        human_safe(row->build, restart->build, sizeof(restart->build));
        return true;
    }
    return false;
}

static enum cli_exit wait_for(struct cli *cli, struct restart *restart)
{
    const struct timespec pause = {0, RESTART_POLL_MS * 1000000L};
    const uint64_t wait_ms = cli_number(cli, "wait-for", RESTART_WAIT_MS);
    const uint64_t limit_ms = now_ms() + wait_ms;
    char text[HUMAN_BYTES];
    bool is_new = false;

    for (;;) {
        struct upgrade upgrade;
        bool back = false;

        memset(&upgrade, 0, sizeof(upgrade));
        if (upgrade_look_at_members(cli, "wait for a member", &upgrade) == CLI_OK) {
            back = has_come_back(&upgrade, restart, &is_new);
            upgrade_free(&upgrade);
        }
        if (back)
            return CLI_OK;
        if (now_ms() >= limit_ms)
            break;
        nanosleep(&pause, NULL);
    }
    return cli_fail(
        cli, CLI_TIMEOUT,
        is_new ? "ckptctl status shows its LAG; then the same command again"
               : "systemctl status ckptd and journalctl -u ckptd on its host; put its "
                 "program back, or mend what the log names; then the same command again",
        "%s has not %s in %s: no other member was restarted after it, and those that "
        "are there go on",
        restart->name, is_new ? "caught up" : "come back", human_duration(wait_ms, text));
}

/* Looked at anew before each: another one may have failed meanwhile. */
static enum cli_exit restart_one(struct cli *cli, struct restart *restart)
{
    char before[UPGRADE_BUILD_BYTES];
    struct upgrade upgrade;
    enum cli_exit code = upgrade_look_at_members(cli, "restart a member", &upgrade);

    if (code != CLI_OK)
        return code;
    snprintf(before, sizeof(before), "%s", restart->build);
    code = check_others(cli, &upgrade, restart->id);
    if (code == CLI_OK)
        code = ask_member(cli, &upgrade, restart);
    upgrade_free(&upgrade);
    if (code == CLI_OK)
        code = wait_for(cli, restart);
    if (code == CLI_OK && !cli_is_json(cli))
        cli_out(cli, "done: %s restarted: %s%s%s\n", restart->name, before,
                strcmp(before, restart->build) == 0 ? "" : " -> ",
                strcmp(before, restart->build) == 0 ? "" : restart->build);
    return code;
}

static void plan_text(const struct restart *restarts, size_t count, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size,
                                   "plan: each ends in good order (a leader hands over first), is "
                                   "started again and waited for:");

    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s %s", i == 0 ? "" : ",",
                                 restarts[i].name);
}

enum cli_exit command_restart_member(struct cli *cli)
{
    struct restart restarts[CALL_ENDPOINTS_MAX];
    size_t count, done = 0;
    char plan[4096];
    enum cli_exit code = choose_members(cli, restarts, &count);

    if (code != CLI_OK)
        return code;
    plan_text(restarts, count, plan, sizeof(plan));
    code = call_confirm(cli, plan);
    if (code != CLI_OK || cli_flag(cli, "dry-run"))
        return code;
    for (; done < count && code == CLI_OK; done += code == CLI_OK)
        code = restart_one(cli, &restarts[done]);
    if (code != CLI_OK && done > 0) {
        cli_note(cli, "remark: %zu of %zu were restarted before", done, count);
        return code == CLI_TIMEOUT ? CLI_PARTIAL : code;
    }
    if (code == CLI_OK && cli_is_json(cli)) {
        json_t *names = json_array();

        for (size_t i = 0; i < count; i++)
            json_array_append_new(names, json_pack("{s:s, s:s}", "name", restarts[i].name, "build",
                                                   restarts[i].build));
        output_json_list(cli, "restarted", "restarted", names);
    }
    return code;
}
