/* Builds and feature levels of members and agents. See upgrade.h. */
#include "src/cli/upgrade.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/common.pb-c.h"
#include "fsm/status.h" /* and the profiles */
#include "src/base/build.h"
#include "src/base/check.h"
#include "src/base/id.h"

/* ---- levels ---- */

enum { LEVEL_FIRST = 1 };

static const struct {
    const char *message;
    uint32_t number;
    uint32_t level;
} field_levels[] = {
#define FIELD_LEVEL(message, number, level) {#message, number, level},
#define VALUE_LEVEL(name, number, level)
#include "ckpt/levels.h"
#undef FIELD_LEVEL
#undef VALUE_LEVEL
};

/* The level that this program's own build knows. */
static uint32_t own_level(void)
{
    uint32_t newest = LEVEL_FIRST;

    for (size_t i = 0; i < ARRAY_COUNT(field_levels); i++)
        if (field_levels[i].level > newest)
            newest = field_levels[i].level;
    return newest;
}

/* ---- builds ---- */

/* "(123456789abc, 2026-11-29)" behind the version; "": none. */
static const char *date_of(const char *build)
{
    const char *comma = strchr(build, ',');

    return comma == NULL ? "" : comma + 1 + strspn(comma + 1, " ");
}

int upgrade_compare(const char *a, const char *b)
{
    const char *rest_a = a, *rest_b = b;

    CHECK(a != NULL && b != NULL);
    for (int part = 0; part < 3; part++) {
        char *end_a, *end_b;
        unsigned long number_a = strtoul(rest_a, &end_a, 10),
                      number_b = strtoul(rest_b, &end_b, 10);

        if (number_a != number_b)
            return number_a < number_b ? -1 : 1;
        rest_a = end_a + (*end_a == '.');
        rest_b = end_b + (*end_b == '.');
    }
    return strcmp(date_of(a), date_of(b));
}

bool upgrade_behind(const struct upgrade *upgrade, const char *build)
{
    return strcmp(build, upgrade->target) != 0;
}

/* Releases that told no level. */
static uint32_t level_of_version(const char *build)
{
    static const struct {
        uint32_t level;
        const char *version;
    } releases[] = {
#define X(level, version) {level, version},
        BUILD_RELEASES(X)
#undef X
    };

    for (size_t i = 0; i < ARRAY_COUNT(releases); i++) {
        size_t length = strlen(releases[i].version);

        if (strncmp(build, releases[i].version, length) == 0 &&
            (build[length] == '\0' || build[length] == ' '))
            return releases[i].level;
    }
    return 0;
}

/* An agent is of the level of a member with the same build, or of the release that its version
 * names. */
static uint32_t level_of_build(const struct upgrade *upgrade, const char *build)
{
    for (size_t i = 0; i < upgrade->count; i++)
        if (upgrade->rows[i].level != 0 && strcmp(upgrade->rows[i].build, build) == 0)
            return upgrade->rows[i].level;
    return strcmp(build, build_text) == 0 ? own_level() : level_of_version(build);
}

/* ---- members ---- */

static const Ckpt__V1__MemberStatus *member_of(const Ckpt__V1__StatusReply *reply, uint64_t id)
{
    for (size_t i = 0; i < reply->n_members; i++)
        if (reply->members[i]->member_id == id)
            return reply->members[i];
    return NULL;
}

/* A member knows its own level best; one of a build from before levels says none. */
static void fill_row(const struct upgrade *upgrade, const Ckpt__V1__MemberStatus *status,
                     struct upgrade_member *ret_row)
{
    const Ckpt__V1__StatusReply *best = upgrade->members.best;
    const Ckpt__V1__MemberStatus *itself;

    memset(ret_row, 0, sizeof(*ret_row));
    ret_row->status = status;
    ret_row->own = members_own(&upgrade->members, status->member_id);
    ret_row->leads = best->leader_id != 0 && best->leader_id == status->member_id;
    ret_row->build = ret_row->own != NULL ? ret_row->own->version : status->version;
    ret_row->level = status->feature_level;
    ret_row->lag = status->lag_entries;
    if (ret_row->own == NULL)
        return;
    itself = member_of(ret_row->own, status->member_id);
    ret_row->level = itself == NULL ? 0 : itself->feature_level;
    if (ret_row->level == 0)
        ret_row->level = LEVEL_FIRST;
    if (best->leader_id != best->member_id && best->commit_index > ret_row->own->applied_index)
        ret_row->lag = best->commit_index - ret_row->own->applied_index;
}

static bool goes_before(const struct upgrade_member *a, const struct upgrade_member *b)
{
    return a->leads != b->leads ? b->leads : a->status->member_id < b->status->member_id;
}

static void fill_rows(struct upgrade *upgrade)
{
    const Ckpt__V1__StatusReply *best = upgrade->members.best;

    for (size_t i = 0; i < best->n_members && i < CALL_ENDPOINTS_MAX; i++) {
        struct upgrade_member row;
        size_t at = upgrade->count;

        fill_row(upgrade, best->members[i], &row);
        for (; at > 0 && goes_before(&row, &upgrade->rows[at - 1]); at--)
            upgrade->rows[at] = upgrade->rows[at - 1];
        upgrade->rows[at] = row;
        upgrade->count++;
    }
    upgrade->target = build_text;
    upgrade->target_level = own_level();
    upgrade->newest_level = LEVEL_FIRST;
    for (size_t i = 0; i < upgrade->count; i++) {
        const struct upgrade_member *row = &upgrade->rows[i];

        if (row->level > upgrade->newest_level)
            upgrade->newest_level = row->level;
        if (row->build[0] == '\0' || upgrade_compare(row->build, upgrade->target) <= 0)
            continue;
        upgrade->target = row->build;
        upgrade->target_level = row->level;
    }
    upgrade->cluster_level = best->feature_level == 0 ? LEVEL_FIRST : best->feature_level;
}

enum cli_exit upgrade_look_at_members(struct cli *cli, const char *what, struct upgrade *upgrade)
{
    enum cli_exit code;

    memset(upgrade, 0, sizeof(*upgrade));
    members_ask(cli, CALL_QUICK, &upgrade->members);
    if (upgrade->members.best == NULL) {
        code = members_nobody(cli, &upgrade->members, what);
        upgrade_free(upgrade);
        return code;
    }
    fill_rows(upgrade);
    CHECK(upgrade->target != NULL);
    return CLI_OK;
}

void upgrade_free(struct upgrade *upgrade)
{
    members_free(&upgrade->members);
    upgrade->count = 0;
}

const struct upgrade_member *upgrade_find(const struct upgrade *upgrade, const char *word)
{
    uint64_t id = id_is_number(word) ? strtoull(word, NULL, 10) : 0;

    for (size_t i = 0; i < upgrade->count; i++) {
        const Ckpt__V1__MemberStatus *status = upgrade->rows[i].status;

        if (id != 0 ? status->member_id == id : strcmp(status->name, word) == 0)
            return &upgrade->rows[i];
    }
    return NULL;
}

bool upgrade_caught_up(const struct upgrade_member *member)
{
    return member->own != NULL && (member->leads || member->status->reachable) &&
           member->lag <= UPGRADE_LAG_MAX;
}

/* ---- agents ---- */

static struct upgrade_agents *agents_of(struct upgrade *upgrade, const char *build)
{
    for (size_t i = 0; i < upgrade->agent_builds; i++)
        if (strncmp(upgrade->agents[i].build, build, UPGRADE_BUILD_BYTES - 1) == 0)
            return &upgrade->agents[i];
    if (upgrade->agent_builds == UPGRADE_AGENT_BUILDS_MAX) {
        upgrade->agents[UPGRADE_AGENT_BUILDS_MAX - 1].build[0] = '\0';
        return &upgrade->agents[UPGRADE_AGENT_BUILDS_MAX - 1];
    }
    snprintf(upgrade->agents[upgrade->agent_builds].build, UPGRADE_BUILD_BYTES, "%s", build);
    return &upgrade->agents[upgrade->agent_builds++];
}

/* Nodes from which no agent ever spoke have no build. */
static void add_nodes(void *context, const ProtobufCMessage *page)
{
    const Ckpt__V1__ListNodesReply *reply = (const Ckpt__V1__ListNodesReply *)page;
    struct upgrade *upgrade = context;

    for (size_t i = 0; i < reply->n_nodes; i++) {
        const Ckpt__V1__NodeStatus *node = reply->nodes[i];
        struct upgrade_agents *agents;

        if (node->version[0] == '\0')
            continue;
        agents = agents_of(upgrade, node->version);
        agents->level = level_of_build(upgrade, node->version);
        if (agents->count < UPGRADE_NAMED_NODES)
            human_safe(node->node_id, agents->nodes[agents->count], sizeof(agents->nodes[0]));
        agents->count++;
    }
}

enum cli_exit upgrade_look(struct cli *cli, const char *what, struct upgrade *upgrade)
{
    Ckpt__V1__ListNodesRequest request = CKPT__V1__LIST_NODES_REQUEST__INIT;
    enum cli_exit code = upgrade_look_at_members(cli, what, upgrade);

    if (code != CLI_OK || upgrade->members.best->leader_id == 0 || !upgrade->members.best->quorum)
        return code;
    code = call_read_pages(cli, "list the agents", "OperatorService/ListNodes", &request.base,
                           &ckpt__v1__list_nodes_reply__descriptor,
                           &(struct call_taker){add_nodes, upgrade});
    upgrade->agents_known = code == CLI_OK;
    if (code != CLI_OK)
        upgrade_free(upgrade);
    return code;
}

/* ---- what levels bring ---- */

static void add_word(char *text, size_t size, const char *word)
{
    size_t length = strlen(text);

    snprintf(text + length, size - length, "%s%s", text[length - 1] == ':' ? " " : ", ", word);
}

static void end_text(struct upgrade_news *news, const char *head)
{
    if (strlen(news->texts[news->count]) > strlen(head))
        news->count++;
}

void upgrade_news(uint32_t from, uint32_t to, struct upgrade_news *ret_news)
{
    static const struct {
        const char *head, *message;
        const ProtobufCMessageDescriptor *type;
    } kinds[] = {
        {"keys of the policy:", "ckpt__v1__policy", &ckpt__v1__policy__descriptor},
        {"options of register:", "ckpt__v1__allocation_spec",
         &ckpt__v1__allocation_spec__descriptor},
        {"options of target put:", "ckpt__v1__target_spec", &ckpt__v1__target_spec__descriptor},
    };
    static const struct {
        const char *name;
        uint32_t level;
    } profiles[] = {
#define X(row, name, level) {name, level},
        FSM_PROFILES(X)
#undef X
    };
    char *text;

    memset(ret_news, 0, sizeof(*ret_news));
    for (size_t k = 0; k < ARRAY_COUNT(kinds); k++) {
        text = ret_news->texts[ret_news->count];
        snprintf(text, sizeof(ret_news->texts[0]), "%s", kinds[k].head);
        for (size_t i = 0; i < ARRAY_COUNT(field_levels); i++)
            if (strcmp(field_levels[i].message, kinds[k].message) == 0 &&
                field_levels[i].level > from && field_levels[i].level <= to)
                add_word(
                    text, sizeof(ret_news->texts[0]),
                    protobuf_c_message_descriptor_get_field(kinds[k].type, field_levels[i].number)
                        ->name);
        end_text(ret_news, kinds[k].head);
    }
    text = ret_news->texts[ret_news->count];
    snprintf(text, sizeof(ret_news->texts[0]), "ways of asking:");
    for (size_t i = 0; i < ARRAY_COUNT(profiles); i++)
        if (profiles[i].level > from && profiles[i].level <= to)
            add_word(text, sizeof(ret_news->texts[0]), profiles[i].name);
    end_text(ret_news, "ways of asking:");
}
