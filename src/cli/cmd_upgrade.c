/* ckptctl upgrade status, plan, finalize: which builds run, in which order they are exchanged, and
 * when the cluster takes what the new one brings. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/build.h"
#include "src/base/check.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"
#include "src/cli/upgrade.h"

/* ---- status ---- */

/* "1", or "-" of a member that nobody heard. */
static const char *level_text(uint32_t level, char text[HUMAN_BYTES])
{
    snprintf(text, HUMAN_BYTES, level == 0 ? "-" : "%" PRIu32, level);
    return text;
}

static const char *place_of(const struct upgrade *upgrade, const char *build)
{
    if (build[0] == '\0')
        return "not known";
    return upgrade_behind(upgrade, build) ? "behind" : "newest";
}

static void print_members(struct cli *cli, const struct upgrade *upgrade)
{
    static const struct output_column columns[] = {
        {"MEMBER", OUTPUT_LEFT},
        {"ROLE", OUTPUT_LEFT},
        {"LAG", OUTPUT_RIGHT},
        {"LEVEL", OUTPUT_RIGHT},
        {"BUILD", OUTPUT_LEFT},
        {"STATE", OUTPUT_LEFT},
        {"STARTED AGAIN BY", OUTPUT_LEFT},
        {"CAN BE PUT BACK TO", OUTPUT_LEFT | OUTPUT_ONLY_WIDE}};
    struct output_table table;
    char text[HUMAN_BYTES];

    output_table_init(&table, cli, columns, ARRAY_COUNT(columns));
    for (size_t i = 0; i < upgrade->count; i++) {
        const struct upgrade_member *row = &upgrade->rows[i];
        const Ckpt__V1__MemberStart *start = row->own == NULL ? NULL : row->own->start;

        output_row(&table);
        output_cell(&table, "%s", row->status->name);
        output_state(&table, row->own != NULL         ? row->own->role
                             : row->status->reachable ? "no answer"
                                                      : "unreachable");
        output_cell(&table, "%" PRIu64, row->lag);
        output_cell(&table, "%s", level_text(row->level, text));
        output_cell(&table, "%s", row->build);
        output_cell(&table, "%s", place_of(upgrade, row->build));
        output_cell(&table, "%s",
                    start == NULL                     ? "not told"
                    : start->supervised_by[0] == '\0' ? "nobody"
                                                      : start->supervised_by);
        output_cell(&table, "%s",
                    start == NULL || start->previous_build[0] == '\0' ? "-"
                                                                      : start->previous_build);
    }
    output_table_print(&table);
}

/* "3 (a, b, c)". */
static void print_agents(struct cli *cli, const struct upgrade *upgrade)
{
    static const struct output_column columns[] = {{"AGENTS", OUTPUT_RIGHT},
                                                   {"LEVEL", OUTPUT_RIGHT},
                                                   {"BUILD", OUTPUT_LEFT},
                                                   {"STATE", OUTPUT_LEFT},
                                                   {"NODES", OUTPUT_LEFT}};
    struct output_table table;
    char text[HUMAN_BYTES];

    output_table_init(&table, cli, columns, ARRAY_COUNT(columns));
    for (size_t i = 0; i < upgrade->agent_builds; i++) {
        const struct upgrade_agents *agents = &upgrade->agents[i];
        char nodes[sizeof(agents->nodes) + 32] = "";

        for (size_t k = 0; k < agents->count && k < UPGRADE_NAMED_NODES; k++)
            snprintf(nodes + strlen(nodes), sizeof(nodes) - strlen(nodes), "%s%s",
                     k == 0 ? "" : ", ", agents->nodes[k]);
        if (agents->count > UPGRADE_NAMED_NODES)
            snprintf(nodes + strlen(nodes), sizeof(nodes) - strlen(nodes), " and %zu more",
                     agents->count - UPGRADE_NAMED_NODES);
        output_row(&table);
        output_cell(&table, "%zu", agents->count);
        output_cell(&table, "%s", level_text(agents->level, text));
        output_cell(&table, "%s", agents->build[0] == '\0' ? "others" : agents->build);
        output_cell(&table, "%s", place_of(upgrade, agents->build));
        output_cell(&table, "%s", nodes);
    }
    output_table_print(&table);
}

/* "n1 (0.1.0, level 1); n2 (not heard)". */
static void name_members_below(const struct upgrade *upgrade, uint32_t level, char *text,
                               size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < upgrade->count && used < size; i++) {
        const struct upgrade_member *row = &upgrade->rows[i];
        char known[HUMAN_BYTES];

        if (row->level >= level)
            continue;
        snprintf(known, sizeof(known), row->level == 0 ? "level not known" : "level %" PRIu32,
                 row->level);
        used += (size_t)snprintf(text + used, size - used, "%s%.64s (%.95s%s%s)",
                                 used == 0 ? "" : "; ", row->status->name, row->build,
                                 row->build[0] == '\0' ? "" : ", ", known);
    }
}

/* The effect of the next command, or those who are waited for. */
static void print_finalize(struct cli *cli, const struct upgrade *upgrade)
{
    const uint32_t newest = upgrade->newest_level;
    struct upgrade_news news;
    char behind[1024];

    if (upgrade->cluster_level >= newest) {
        cli_out(cli, "\nthe cluster is at the newest level of its members\n");
        return;
    }
    upgrade_news(upgrade->cluster_level, newest, &news);
    cli_out(cli, "\nckptctl upgrade finalize raises the level %u -> %u and switches on:\n",
            upgrade->cluster_level, newest);
    for (size_t i = 0; i < news.count; i++)
        cli_out(cli, "  %s\n", news.texts[i]);
    name_members_below(upgrade, newest, behind, sizeof(behind));
    if (behind[0] == '\0') {
        cli_out(cli, "every member knows level %u; until then each can be put back\n", newest);
        return;
    }
    cli_out(cli, "behind: ");
    output_safe(cli->out, behind);
    cli_out(cli, "\nnext: ckptctl upgrade plan; until finalize each member can be put back\n");
}

static json_t *member_json(const struct upgrade *upgrade, const struct upgrade_member *row)
{
    const Ckpt__V1__MemberStart *start = row->own == NULL ? NULL : row->own->start;

    return json_pack("{s:s, s:s, s:i, s:I, s:b, s:b, s:b, s:s, s:s}", "name", row->status->name,
                     "build", row->build, "level", (int)row->level, "lag_entries",
                     (json_int_t)row->lag, "leads", (int)row->leads, "answered", row->own != NULL,
                     "behind", (int)upgrade_behind(upgrade, row->build), "supervised_by",
                     start == NULL ? "" : start->supervised_by, "previous_build",
                     start == NULL ? "" : start->previous_build);
}

static json_t *status_json(const struct upgrade *upgrade)
{
    json_t *members = json_array(), *agents = json_array(), *brings = json_array();
    struct upgrade_news news;

    for (size_t i = 0; i < upgrade->count; i++)
        json_array_append_new(members, member_json(upgrade, &upgrade->rows[i]));
    for (size_t i = 0; i < upgrade->agent_builds; i++) {
        const struct upgrade_agents *row = &upgrade->agents[i];

        json_array_append_new(agents,
                              json_pack("{s:s, s:i, s:I, s:b}", "build", row->build, "level",
                                        (int)row->level, "count", (json_int_t)row->count, "behind",
                                        (int)upgrade_behind(upgrade, row->build)));
    }
    upgrade_news(upgrade->cluster_level, upgrade->newest_level, &news);
    for (size_t i = 0; i < news.count; i++)
        json_array_append_new(brings, json_string(news.texts[i]));
    return json_pack("{s:i, s:i, s:s, s:o, s:o, s:b, s:o}", "cluster_level",
                     (int)upgrade->cluster_level, "newest_level", (int)upgrade->newest_level,
                     "newest_build", upgrade->target, "members", members, "agents", agents,
                     "agents_known", (int)upgrade->agents_known, "finalize_brings", brings);
}

/* For scripts: whom to upgrade. */
static void name_behind(struct cli *cli, const struct upgrade *upgrade)
{
    size_t count = 0;

    for (size_t i = 0; i < upgrade->count; i++) {
        if (!upgrade_behind(upgrade, upgrade->rows[i].build))
            continue;
        output_name(cli, upgrade->rows[i].status->name);
        count++;
    }
    if (count == 0)
        cli_note(cli, "no member is behind: names are of those that are");
}

enum cli_exit command_upgrade_status(struct cli *cli)
{
    struct upgrade upgrade;
    enum cli_exit code = upgrade_look(cli, "show the builds", &upgrade);

    if (code != CLI_OK)
        return code;
    if (cli_is_json(cli)) {
        output_json(cli, "upgrade", status_json(&upgrade));
    } else if (cli->format == OUTPUT_NAME) {
        name_behind(cli, &upgrade);
    } else {
        cli_out(cli, "cluster level %u   newest build ", upgrade.cluster_level);
        output_safe(cli->out, upgrade.target);
        cli_out(cli, "\n\n");
        print_members(cli, &upgrade);
        if (upgrade.agent_builds > 0) {
            fputc('\n', cli->out);
            print_agents(cli, &upgrade);
        } else if (!upgrade.agents_known) {
            cli_out(cli, "\nagents: not known without a leader\n");
        }
        print_finalize(cli, &upgrade);
    }
    upgrade_free(&upgrade);
    return CLI_OK;
}

/* ---- plan ---- */

/* A guard writes why it does not hold; nothing: it holds. */
struct guard {
    const char *name;
    void (*look)(const struct upgrade *upgrade, char *text, size_t size);
};

static void guard_leader(const struct upgrade *upgrade, char *text, size_t size)
{
    if (upgrade->members.best->leader_id == 0)
        snprintf(text, size, "nobody is known to lead: ckptctl status");
}

static void guard_quorum(const struct upgrade *upgrade, char *text, size_t size)
{
    const Ckpt__V1__StatusReply *best = upgrade->members.best;

    if (best->voter_count == 1)
        snprintf(text, size, "the only voter: nothing is decided while it restarts; jobs run on");
    else if (best->failure_tolerance < 1)
        snprintf(text, size,
                 "failure tolerance is %d (%u of %u voters reachable): a member that restarts "
                 "would stop all changes; start what is down first",
                 best->failure_tolerance, best->reachable_count, best->voter_count);
}

static void guard_catch_up(const struct upgrade *upgrade, char *text, size_t size)
{
    for (size_t i = 0; i < upgrade->count; i++) {
        const struct upgrade_member *row = &upgrade->rows[i];

        if (upgrade_caught_up(row))
            continue;
        if (row->own == NULL)
            snprintf(text, size, "%.64s does not answer: ckptctl status", row->status->name);
        else
            snprintf(text, size, "%.64s is %" PRIu64 " entries behind: wait until it has them",
                     row->status->name, row->lag);
        return;
    }
}

static void guard_storage(const struct upgrade *upgrade, char *text, size_t size)
{
    const Ckpt__V1__StatusReply *best = upgrade->members.best;

    for (size_t i = 0; i < best->n_targets; i++)
        if (!best->targets[i]->available)
            snprintf(text, size,
                     "storage target %.64s is unavailable: an outage and an upgrade at one time "
                     "hide each other; wait, or go on if the upgrade is to mend it",
                     best->targets[i]->spec->target_id);
}

static void guard_canary(const struct upgrade *upgrade, char *text, size_t size)
{
    for (size_t i = 0; i < upgrade->count; i++) {
        const Ckpt__V1__StatusReply *own = upgrade->rows[i].own;

        if (own != NULL && own->canary != NULL && strcmp(own->canary->state, "watching") == 0)
            snprintf(text, size, "%.64s watches its new build: wait for its verdict",
                     upgrade->rows[i].status->name);
        if (own != NULL && own->start != NULL && own->start->put_back_build[0] != '\0')
            snprintf(text, size, "%.64s was put back from %.95s: %.200s",
                     upgrade->rows[i].status->name, own->start->put_back_build,
                     own->start->put_back_why);
    }
}

static const struct guard guards[] = {{"leader", guard_leader},
                                      {"quorum", guard_quorum},
                                      {"catch-up", guard_catch_up},
                                      {"storage", guard_storage},
                                      {"canary", guard_canary}};

enum { PLAN_STEP_BYTES = 640 };

static void step_member(const struct upgrade *upgrade, const struct upgrade_member *row, char *text,
                        size_t size)
{
    const Ckpt__V1__MemberStart *start = row->own == NULL ? NULL : row->own->start;
    const int32_t tolerance = upgrade->members.best->failure_tolerance;
    bool asked = start != NULL && start->supervised_by[0] != '\0';

    snprintf(text, size,
             "%.64s (%s, %.95s): exchange its program, then %s%.64s; it costs %s; failure "
             "tolerance %d -> %d until it is back",
             row->status->name, row->leads ? "leader" : row->status->role, row->build,
             asked ? "ckptctl restart-member " : "systemctl restart ckptd on ",
             asked ? row->status->name : "its host",
             row->leads ? "a hand-over: writes wait for some tens of milliseconds"
                        : "nothing that jobs or clients notice",
             tolerance, tolerance - (row->status->voter ? 1 : 0));
}

/* Agents may go first or last, so they are first: each sends to an older cluster what that knows.
 * Returns how many steps there are. */
static size_t plan_steps(const struct upgrade *upgrade,
                         char steps[CALL_ENDPOINTS_MAX + 2][PLAN_STEP_BYTES])
{
    size_t count = 0, behind = 0;

    for (size_t i = 0; i < upgrade->agent_builds; i++)
        behind += upgrade_behind(upgrade, upgrade->agents[i].build) ? upgrade->agents[i].count : 0;
    if (behind > 0)
        snprintf(steps[count++], PLAN_STEP_BYTES,
                 "agents of %zu nodes, all of a job's nodes together: exchange their programs, "
                 "then systemctl restart ckpt-agentd; it costs nothing: applications run on",
                 behind);
    for (size_t i = 0; i < upgrade->count; i++)
        if (upgrade_behind(upgrade, upgrade->rows[i].build))
            step_member(upgrade, &upgrade->rows[i], steps[count++], PLAN_STEP_BYTES);
    if (upgrade->cluster_level < upgrade->newest_level ||
        upgrade->cluster_level < upgrade->target_level)
        snprintf(steps[count++], PLAN_STEP_BYTES,
                 "ckptctl upgrade finalize, when all has worked for a while: no member can be put "
                 "back after it");
    return count;
}

static void print_plan(struct cli *cli, const struct upgrade *upgrade)
{
    char steps[CALL_ENDPOINTS_MAX + 2][PLAN_STEP_BYTES], text[512];
    size_t count = plan_steps(upgrade, steps);

    cli_out(cli, "to build ");
    output_safe(cli->out, upgrade->target);
    cli_out(cli, "%s\n", count == 0 ? ": every member and agent runs it" : "");
    for (size_t i = 0; i < count; i++) {
        cli_out(cli, "%2zu. ", i + 1);
        output_safe(cli->out, steps[i]);
        fputc('\n', cli->out);
    }
    cli_out(cli, "guards now:\n");
    for (size_t i = 0; i < ARRAY_COUNT(guards); i++) {
        text[0] = '\0';
        guards[i].look(upgrade, text, sizeof(text));
        cli_out(cli, "  %-9s %s", guards[i].name, text[0] == '\0' ? "ok" : "DOES NOT HOLD: ");
        output_safe(cli->out, text);
        fputc('\n', cli->out);
    }
}

static json_t *plan_json(const struct upgrade *upgrade)
{
    char steps[CALL_ENDPOINTS_MAX + 2][PLAN_STEP_BYTES], text[512];
    size_t count = plan_steps(upgrade, steps);
    json_t *listed = json_array(), *held = json_object();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(listed, json_string(steps[i]));
    for (size_t i = 0; i < ARRAY_COUNT(guards); i++) {
        text[0] = '\0';
        guards[i].look(upgrade, text, sizeof(text));
        json_object_set_new(held, guards[i].name, json_string(text));
    }
    return json_pack("{s:s, s:o, s:o}", "target_build", upgrade->target, "steps", listed, "guards",
                     held);
}

/* A guard that does not hold makes the exit code 4: scripts stop there. */
enum cli_exit command_upgrade_plan(struct cli *cli)
{
    struct upgrade upgrade;
    enum cli_exit code = upgrade_look(cli, "plan an upgrade", &upgrade);

    if (code != CLI_OK)
        return code;
    if (cli_is_json(cli))
        output_json(cli, "plan", plan_json(&upgrade));
    else
        print_plan(cli, &upgrade);
    for (size_t i = 0; i < ARRAY_COUNT(guards); i++) {
        char text[512] = "";

        guards[i].look(&upgrade, text, sizeof(text));
        if (text[0] != '\0')
            code = CLI_REFUSED;
    }
    upgrade_free(&upgrade);
    return code;
}

/* ---- finalize ---- */

/* A watch that fails could put nothing back afterwards. */
static enum cli_exit check_canary(struct cli *cli, const struct upgrade *upgrade)
{
    char text[512] = "";

    guard_canary(upgrade, text, sizeof(text));
    if (text[0] == '\0')
        return CLI_OK;
    return cli_fail(cli, CLI_REFUSED,
                    "ckptctl upgrade canary MEMBER --end where the build may stay, or exchange the "
                    "program: ckptctl upgrade plan",
                    "cannot raise the level: %s", text);
}

/* A leader of an older build does not know the rule that would refuse: it is told here. */
static enum cli_exit check_leader(struct cli *cli, const struct upgrade *upgrade, uint32_t level)
{
    const struct upgrade_member *leader;
    char behind[1024], next[200];

    if (upgrade->members.best->leader_id == 0 || upgrade->count == 0)
        return cli_fail(cli, CLI_NO_LEADER, "ckptctl status",
                        "cannot raise the level: nobody is known to lead");
    leader = &upgrade->rows[upgrade->count - 1];
    if (leader->level >= level)
        return CLI_OK;
    name_members_below(upgrade, level, behind, sizeof(behind));
    snprintf(next, sizeof(next), "exchange the program of %.64s: ckptctl upgrade plan",
             leader->status->name);
    return cli_fail(cli, CLI_REFUSED, next,
                    "cannot raise the level to %u: FEATURE_LEVEL: the leader itself is behind: %s",
                    level, behind);
}

static void finalize_text(const struct upgrade *upgrade, uint32_t level, char *text, size_t size)
{
    struct upgrade_news news;
    size_t used, agents = 0;

    upgrade_news(upgrade->cluster_level, level, &news);
    used = (size_t)snprintf(text, size,
                            "plan: the cluster's level rises %u -> %u for good: no member can be "
                            "put back to a build of a lower level, and it switches on",
                            upgrade->cluster_level, level);
    for (size_t i = 0; i < news.count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "\n  %s", news.texts[i]);
    for (size_t i = 0; i < upgrade->agent_builds; i++)
        agents += upgrade->agents[i].level < level ? upgrade->agents[i].count : 0;
    if (agents > 0 && used < size)
        snprintf(text + used, size - used,
                 "\n  agents of %zu nodes are of a lower level or of none that is known: they go "
                 "on, and have none of it",
                 agents);
}

enum cli_exit command_upgrade_finalize(struct cli *cli)
{
    Ckpt__V1__SetPolicyRequest request = CKPT__V1__SET_POLICY_REQUEST__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    struct upgrade upgrade;
    char text[4096], what[64];
    uint32_t level, before;
    enum cli_exit code = upgrade_look(cli, "raise the level", &upgrade);

    if (code != CLI_OK)
        return code;
    before = upgrade.cluster_level;
    level = (uint32_t)cli_number(cli, "level", upgrade.newest_level);
    finalize_text(&upgrade, level, text, sizeof(text));
    if (before < level)
        code = check_leader(cli, &upgrade, level);
    if (before < level && code == CLI_OK)
        code = check_canary(cli, &upgrade);
    upgrade_free(&upgrade);
    if (code != CLI_OK)
        return code;
    if (before >= level) {
        cli_note(cli, "nothing to do: the cluster's level is %u, and it never falls", before);
        return CLI_OK;
    }
    code = call_confirm(cli, text);
    if (code != CLI_OK)
        return code;
    policy.feature_level = level;
    request.policy = &policy;
    snprintf(what, sizeof(what), "raise the cluster's level to %u", level);
    return call_mutate_simple(cli, what, "OperatorService/SetPolicy", &request.base);
}
