/* ckptctl member list, add, promote, remove, replace, transfer: the members of the cluster. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/members.h"
#include "src/cli/output.h"

enum {
    MEMBER_ATTEMPT_MS = 4000,   /* the leader asks the new member's address before it answers */
    TRANSFER_ATTEMPT_MS = 3000, /* it answers when it is known who leads afterwards */
    MEMBER_POLL_MS = 250,
    MEMBER_CONTACT_MS = 3000, /* a leader has reached by then whom it was told of just now */
    MEMBER_WAIT_MS = 600000,
    MEMBER_CAUGHT_UP_ENTRIES = 100
};

/* ---- list ---- */

static const struct output_column list_columns[] = {
    {"ID", OUTPUT_RIGHT},      {"MEMBER", OUTPUT_LEFT},
    {"VOTES", OUTPUT_LEFT},    {"ROLE", OUTPUT_LEFT},
    {"RAFT", OUTPUT_LEFT},     {"API", OUTPUT_LEFT},
    {"MATCH", OUTPUT_RIGHT},   {"BEHIND", OUTPUT_RIGHT},
    {"CONTACT", OUTPUT_RIGHT}, {"VERSION", OUTPUT_LEFT | OUTPUT_ONLY_WIDE}};

static void list_row(struct output_table *table, const ProtobufCMessage *item)
{
    const Ckpt__V1__MemberStatus *member = (const Ckpt__V1__MemberStatus *)item;
    char text[HUMAN_BYTES];

    output_cell(table, "%" PRIu64, member->member_id);
    output_cell(table, "%s", member->name);
    output_cell(table, "%s", member->voter ? "yes" : "no");
    output_state(table, member->reachable ? member->role : "unreachable");
    output_cell(table, "%s", member->raft_address);
    output_cell(table, "%s", member->api_address);
    output_cell(table, "%" PRIu64, member->match_index);
    output_cell(table, "%" PRIu64, member->lag_entries);
    output_cell(table, "%s", human_duration(member->last_contact_ms, text));
    output_cell(table, "%s", member->version);
}

static const char *list_name(const ProtobufCMessage *item, char text[HUMAN_BYTES])
{
    (void)text;
    return ((const Ckpt__V1__MemberStatus *)item)->name;
}

enum cli_exit command_member_list(struct cli *cli)
{
    static const struct output_kind kind = {
        "members", "member", list_columns, ARRAY_COUNT(list_columns), list_row, list_name};
    struct output_list list;
    struct members members;
    enum cli_exit code;

    members_ask(cli, CALL_QUICK, &members);
    if (members.best == NULL) {
        code = members_nobody(cli, &members, "list the members");
        members_free(&members);
        return code;
    }
    if (!members.best->quorum)
        cli_note(cli, "remark: no quorum; this is what %s knows", members.best->member_name);
    output_list_begin(&list, cli, &kind);
    for (size_t i = 0; i < members.best->n_members; i++)
        output_list_add(&list, &members.best->members[i]->base);
    output_list_end(&list, true);
    members_free(&members);
    return CLI_OK;
}

/* ---- one change ---- */

static const Ckpt__V1__MemberStatus *find_id(const struct members *members, uint64_t id)
{
    for (size_t i = 0; members->best != NULL && i < members->best->n_members; i++)
        if (members->best->members[i]->member_id == id)
            return members->best->members[i];
    return NULL;
}

static const Ckpt__V1__MemberStatus *find_name(const struct members *members, const char *name)
{
    for (size_t i = 0; members->best != NULL && i < members->best->n_members; i++)
        if (strcmp(members->best->members[i]->name, name) == 0)
            return members->best->members[i];
    return NULL;
}

/* Digits are an id and never a name: what is shown of a member is of the one that is then asked for
 * (set_member()). */
static const Ckpt__V1__MemberStatus *find_member(const struct members *members, const char *word)
{
    return id_is_number(word) ? find_id(members, strtoull(word, NULL, 10))
                              : find_name(members, word);
}

/* The id with the name: repeated later, the request means the same member and no other one that has
 * got its name. A name that no member tells of goes as it is. `id`: the one that was confirmed or
 * added, 0: not looked up yet. */
static void set_member(struct cli *cli, Ckpt__V1__MemberRequest *request, char *word, uint64_t id)
{
    const Ckpt__V1__MemberStatus *member;
    struct members members;

    cli->again[0] = '\0';
    request->member_id = id != 0 || !id_is_number(word) ? id : strtoull(word, NULL, 10);
    if (id_is_number(word))
        return;
    request->name = word;
    if (id != 0)
        return;
    members_ask(cli, CALL_QUICK, &members);
    member = find_member(&members, word);
    request->member_id = member == NULL ? 0 : member->member_id;
    members_free(&members);
}

/* A leader alone has addresses to ask, and is waited for longer than others. */
static bool somebody_leads(struct cli *cli)
{
    struct members members;
    bool leads;

    members_ask(cli, CALL_QUICK, &members);
    leads = members.best != NULL && members.best->quorum && members.best->leader_id != 0;
    members_free(&members);
    return leads;
}

/* Each step of a longer command is a request of its own. */
static enum cli_exit request_change(struct cli *cli, const char *what, const char *method,
                                    Ckpt__V1__MemberRequest *request)
{
    char method_path[64];

    cli->attempt_ms = MEMBER_ATTEMPT_MS;
    if (!cli->timeout_set && somebody_leads(cli))
        cli->timeout_ms = 3 * MEMBER_ATTEMPT_MS;
    snprintf(method_path, sizeof(method_path), "OperatorService/%s", method);
    return call_mutate_simple(cli, what, method_path, &request->base);
}

static enum cli_exit addresses_check(struct cli *cli)
{
    const char *raft = cli_text(cli, "raft"), *api = cli_text(cli, "api");

    if (raft != NULL && raft[0] != '\0' && api != NULL && api[0] != '\0')
        return CLI_OK;
    return cli_fail(cli, CLI_USAGE,
                    "ckptctl member add n4 --id 4 --raft 10.0.0.4:9000 --api 10.0.0.4:7443",
                    "--raft and --api say where the new member listens");
}

static enum cli_exit add_member(struct cli *cli, char *name)
{
    Ckpt__V1__MemberRequest request = CKPT__V1__MEMBER_REQUEST__INIT;
    char what[200];

    if (addresses_check(cli) != CLI_OK)
        return CLI_USAGE;
    request.name = name;
    request.member_id = cli_number(cli, "id", 0);
    cli_set_text(cli, "raft", &request.raft_address);
    cli_set_text(cli, "api", &request.api_address);
    snprintf(what, sizeof(what), "add %.128s as a learner", name);
    return request_change(cli, what, "AddMember", &request);
}

static enum cli_exit promote_member(struct cli *cli, char *member, uint64_t id)
{
    Ckpt__V1__MemberRequest request = CKPT__V1__MEMBER_REQUEST__INIT;
    char what[200];

    set_member(cli, &request, member, id);
    if (request.member_id != 0)
        snprintf(cli->again, sizeof(cli->again), "ckptctl member promote %" PRIu64,
                 request.member_id);
    snprintf(what, sizeof(what), "promote %.128s to a voter", member);
    return request_change(cli, what, "PromoteMember", &request);
}

static enum cli_exit remove_one(struct cli *cli, char *member, uint64_t confirmed_id)
{
    Ckpt__V1__MemberRequest request = CKPT__V1__MEMBER_REQUEST__INIT;
    char what[200];

    set_member(cli, &request, member, confirmed_id);
    if (request.member_id != 0)
        snprintf(cli->again, sizeof(cli->again), "ckptctl member remove %" PRIu64,
                 request.member_id);
    snprintf(what, sizeof(what), "remove %.128s", member);
    return request_change(cli, what, "RemoveMember", &request);
}

/* ---- waiting ---- */

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* What the leader says of a member. */
struct progress {
    bool unknown; /* there is none of that name or id */
    bool caught_up;
    bool reachable;
    bool contacted;       /* the leader has had the time to reach it */
    uint64_t needs_index; /* what the leader had at the first look; 0: none answered yet */
    uint64_t lag;         /* UINT64_MAX: no leader answered yet */
};

/* Unchanged when no leader answers. */
static void progress_ask(struct cli *cli, const char *member, uint64_t id,
                         struct progress *progress)
{
    const Ckpt__V1__MemberStatus *status;
    struct members members;

    members_ask(cli, CALL_QUICK, &members);
    status = id != 0 ? find_id(&members, id) : find_member(&members, member);
    if (members.best != NULL && members.best->leader_id != 0 &&
        members.best->leader_id == members.best->member_id) {
        progress->unknown = status == NULL;
        if (status != NULL) {
            if (progress->needs_index == 0)
                progress->needs_index = status->match_index + status->lag_entries;
            progress->lag = status->lag_entries;
            progress->reachable = status->reachable;
            progress->caught_up =
                status->voter || (status->reachable && status->match_index > 0 &&
                                  status->match_index >= progress->needs_index &&
                                  status->lag_entries <= MEMBER_CAUGHT_UP_ENTRIES);
        }
    }
    members_free(&members);
}

static void progress_tell(struct cli *cli, const char *member, const struct progress *now,
                          const struct progress *before)
{
    char text[HUMAN_BYTES];

    if (now->lag != UINT64_MAX && (now->lag != before->lag || now->reachable != before->reachable ||
                                   (!now->reachable && now->contacted != before->contacted)))
        cli_note(cli, "%s is %s entries behind%s", member, human_count(now->lag, text),
                 now->reachable   ? ""
                 : now->contacted ? " and not reachable: start it"
                                  : ", the leader is making contact with it");
}

/* `id`: of the one that was added, 0: `member` says it. */
static enum cli_exit wait_caught_up(struct cli *cli, const char *member, uint64_t id)
{
    uint64_t limit_ms = now_ms() + cli_number(cli, "wait-for", MEMBER_WAIT_MS);
    const uint64_t begun_ms = now_ms();
    struct progress progress = {.lag = UINT64_MAX};
    char text[HUMAN_BYTES], next[200];

    for (;;) {
        const struct timespec pause = {0, MEMBER_POLL_MS * 1000000L};
        struct progress before = progress;
        uint64_t lag;

        progress_ask(cli, member, id, &progress);
        progress.contacted = now_ms() - begun_ms >= MEMBER_CONTACT_MS;
        lag = progress.lag;
        if (progress.unknown)
            return cli_fail(cli, CLI_NOT_FOUND, "ckptctl member list",
                            "there is no member %.128s: add it first", member);
        if (progress.caught_up)
            break;
        progress_tell(cli, member, &progress, &before);
        if (now_ms() >= limit_ms) {
            snprintf(next, sizeof(next), "ckptctl member list; then the same command again");
            return cli_fail(cli, CLI_TIMEOUT, next, "%s has not caught up in time (%s behind)",
                            member, lag == UINT64_MAX ? "unknown" : human_count(lag, text));
        }
        nanosleep(&pause, NULL);
    }
    return CLI_OK;
}

/* Its name may be another one's id: the member that was added goes on by its own. */
static enum cli_exit added_id(struct cli *cli, const char *name, uint64_t *ret_id)
{
    const Ckpt__V1__MemberStatus *member;
    struct members members;

    *ret_id = cli_number(cli, "id", 0);
    if (*ret_id != 0)
        return CLI_OK;
    members_ask(cli, CALL_QUICK, &members);
    member = find_name(&members, name);
    *ret_id = member == NULL ? 0 : member->member_id;
    members_free(&members);
    if (*ret_id != 0 || !id_is_number(name))
        return CLI_OK;
    return cli_fail(cli, CLI_NOT_FOUND, "ckptctl member list; then ckptctl member promote ID",
                    "%.128s was added, and nobody tells of its id yet", name);
}

/* ---- commands ---- */

enum cli_exit command_member_add(struct cli *cli)
{
    char *member = cli_argument(cli, 0);
    uint64_t id = 0;
    enum cli_exit code = add_member(cli, member);

    if (code == CLI_OK && cli_flag(cli, "promote") && !cli_flag(cli, "dry-run")) {
        cli->request_id[0] = '\0';
        code = added_id(cli, member, &id);
        if (code == CLI_OK)
            code = wait_caught_up(cli, member, id);
        return code == CLI_OK ? promote_member(cli, member, id) : code;
    }
    if (code == CLI_OK && !cli_is_json(cli))
        cli_note(cli, "next: ckptctl member promote %s (waits until it has caught up)",
                 id_is_number(member) ? "ID" : member);
    return code;
}

enum cli_exit command_member_promote(struct cli *cli)
{
    enum cli_exit code = CLI_OK;

    if (!cli_flag(cli, "no-wait") && !cli_flag(cli, "dry-run"))
        code = wait_caught_up(cli, cli_argument(cli, 0), 0);
    return code == CLI_OK ? promote_member(cli, cli_argument(cli, 0), 0) : code;
}

/* What the removal means, in numbers; the cluster checks them again. Returns the member's id, 0:
 * nobody tells of it. */
static uint64_t plan_remove(struct cli *cli, const char *word, char *plan, size_t size)
{
    uint64_t id;
    const Ckpt__V1__MemberStatus *member;
    struct members members;

    members_ask(cli, CALL_QUICK, &members);
    member = find_member(&members, word);
    snprintf(plan, size, "plan: remove %.128s for ever; its id is never used again", word);
    if (member != NULL && member->voter && members.best->voter_count > 1) {
        uint32_t left = members.best->voter_count - 1;
        uint32_t reachable = members.best->reachable_count - member->reachable;

        snprintf(plan, size,
                 "plan: remove %.128s (id %" PRIu64 ", %s) for ever; its id is never used again\n"
                 "  voters %" PRIu32 " -> %" PRIu32 ", reachable %" PRIu32 " -> %" PRIu32
                 ", failure tolerance %" PRId32 " -> %" PRId32,
                 member->name, member->member_id,
                 member->member_id == members.best->leader_id ? "leader: hands over first"
                 : member->reachable                          ? "reachable"
                                                              : "unreachable",
                 members.best->voter_count, left, members.best->reachable_count, reachable,
                 members.best->failure_tolerance, (int32_t)reachable - (int32_t)(left / 2 + 1));
    }
    id = member == NULL ? 0 : member->member_id;
    members_free(&members);
    return id;
}

enum cli_exit command_member_remove(struct cli *cli)
{
    char plan[512];
    uint64_t id = plan_remove(cli, cli_argument(cli, 0), plan, sizeof(plan));
    enum cli_exit code = call_confirm(cli, plan);

    return code == CLI_OK ? remove_one(cli, cli_argument(cli, 0), id) : code;
}

/* ---- replacing ---- */

/* The voters before a replacement, while both are there, and after it. */
struct voters {
    uint32_t count[3], reachable[3];
};

static int voters_to_spare(const struct voters *voters, int stage)
{
    return (int)voters->reachable[stage] - (int)(voters->count[stage] / 2 + 1);
}

static struct voters voters_of(const Ckpt__V1__StatusReply *status,
                               const Ckpt__V1__MemberStatus *old, const Ckpt__V1__MemberStatus *new)
{
    bool promotes = new == NULL || !new->voter, removes = old != NULL && old->voter;
    struct voters voters = {{status->voter_count}, {status->reachable_count}};

    voters.count[1] = voters.count[0] + promotes;
    voters.reachable[1] = voters.reachable[0] + promotes;
    voters.count[2] = voters.count[1] - removes;
    voters.reachable[2] = voters.reachable[1] - (removes && old->reachable);
    return voters;
}

static void add_text(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add_text(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

/* Who has to be waited for, and how much a new member has to copy. */
static void plan_lag(const Ckpt__V1__StatusReply *status, const Ckpt__V1__MemberStatus *new,
                     const char *new_name, char *plan, size_t size)
{
    add_text(plan, size,
             "\n  entries behind the leader %.100s (log index %" PRIu64 "):", status->leader_name,
             status->commit_index);
    for (size_t i = 0; i < status->n_members; i++) {
        const Ckpt__V1__MemberStatus *member = status->members[i];

        if (status->member_id != status->leader_id)
            break; /* only the leader knows, and it did not answer */
        if (member->member_id != status->leader_id)
            add_text(plan, size, " %.100s %" PRIu64 "%s;", member->name, member->lag_entries,
                     member->reachable ? "" : " (unreachable)");
    }
    if (new == NULL)
        add_text(plan, size, " %.100s all of them", new_name);
}

enum { PLAN_BYTES = 4096 };

static void plan_replace(const Ckpt__V1__StatusReply *status, const Ckpt__V1__MemberStatus *old,
                         const char *old_name, const char *new_name, char plan[PLAN_BYTES])
{
    const Ckpt__V1__MemberStatus *new = NULL;
    struct voters voters;

    for (size_t i = 0; i < status->n_members; i++)
        if (strcmp(status->members[i]->name, new_name) == 0)
            new = status->members[i];
    voters = voters_of(status, old, new);
    plan[0] = '\0';
    if (old == NULL)
        add_text(plan, PLAN_BYTES, "plan: replace %.100s, which is no member any more, by %.100s",
                 old_name, new_name);
    else
        add_text(plan, PLAN_BYTES, "plan: replace %.100s (id %" PRIu64 ", %s) by %.100s", old->name,
                 old->member_id,
                 old->member_id == status->leader_id ? "leader: hands over first"
                 : old->reachable                    ? old->role
                                                     : "unreachable",
                 new_name);
    add_text(plan, PLAN_BYTES,
             "\n  1. add %.100s as a learner%s  2. wait until it has caught up  3. promote it%s  "
             "4. remove %.100s for ever; its id is never used again",
             new_name, new != NULL ? " (done)" : "", new != NULL &&new->voter ? " (done)" : "",
             old_name);
    add_text(plan, PLAN_BYTES,
             "\n  now, after step 3, after step 4: voters %u -> %u -> %u, quorum ", voters.count[0],
             voters.count[1], voters.count[2]);
    add_text(plan, PLAN_BYTES, "%u -> %u -> %u, reachable %u -> %u -> %u, failure tolerance ",
             voters.count[0] / 2 + 1, voters.count[1] / 2 + 1, voters.count[2] / 2 + 1,
             voters.reachable[0], voters.reachable[1], voters.reachable[2]);
    add_text(plan, PLAN_BYTES, "%d -> %d -> %d", voters_to_spare(&voters, 0),
             voters_to_spare(&voters, 1), voters_to_spare(&voters, 2));
    plan_lag(status, new, new_name, plan, PLAN_BYTES);
}

/* Before anything is confirmed or changed: a step that fails later would leave one voter more than
 * there was. A member is told to be its own successor by its id as well, and by its name also when
 * that is another one's id. */
static enum cli_exit replace_check(struct cli *cli, const char *old_name, const char *new_name,
                                   char plan[PLAN_BYTES], uint64_t *ret_old_id)
{
    const Ckpt__V1__MemberStatus *old, *new;
    struct members members;
    char what[200], next[400];
    enum cli_exit code = CLI_OK;

    snprintf(what, sizeof(what), "replace %.128s", old_name);
    members_ask(cli, CALL_QUICK, &members);
    old = find_member(&members, old_name);
    new = find_name(&members, new_name);
    *ret_old_id = old == NULL ? 0 : old->member_id;
    if (members.best == NULL)
        code = members_nobody(cli, &members, what);
    else if (old != NULL &&
             (old == find_member(&members, new_name) || strcmp(old->name, new_name) == 0))
        code = cli_fail(cli, CLI_USAGE,
                        "ckptctl member replace OLD NEW with a new name, id and empty folder",
                        "cannot %s: %.128s is the same member (id %" PRIu64 ")", what, new_name,
                        old->member_id);
    else if (old == NULL && (new == NULL || !new->voter)) {
        snprintf(next, sizeof(next), "ckptctl member list%s%.128s%s",
                 new == NULL ? "" : ", or ckptctl member promote ", new == NULL ? "" : new->name,
                 new == NULL ? "" : " alone");
        code = cli_fail(cli, CLI_NOT_FOUND, next,
                        "cannot %s: there is no member %.128s among the %zu; nothing was changed",
                        what, old_name, members.best->n_members);
    } else if (members.best->leader_id == 0)
        code = cli_fail(cli, CLI_NO_LEADER, "ckptctl status",
                        "cannot %s: nobody is known to lead (%u of %u voters reachable); nothing "
                        "was changed",
                        what, members.best->reachable_count, members.best->voter_count);
    else
        plan_replace(members.best, old, old_name, new_name, plan);
    members_free(&members);
    return code;
}

/* What a replacement that stopped has left, and both ways on. */
static enum cli_exit replace_stopped(struct cli *cli, enum cli_exit code, const char *old,
                                     const char *new, bool promoted)
{
    if (promoted)
        cli_note(cli,
                 "remark: %.128s votes, and %.128s is not known to be removed; next: ckptctl "
                 "member remove %.128s",
                 new, old, old);
    else
        cli_note(cli,
                 "remark: %.128s was added and is not known to vote, %.128s is still a member; "
                 "next: the same command again goes on here, ckptctl member remove %.128s gives "
                 "it up",
                 new, old, new);
    return code;
}

/* Each step is idempotent: after an interruption the same command goes on where it was. */
enum cli_exit command_member_replace(struct cli *cli)
{
    char *old = cli_argument(cli, 0), *new = cli_argument(cli, 1), plan[PLAN_BYTES];
    char new_word[200];
    uint64_t old_id = 0, new_id = 0;
    enum cli_exit code = addresses_check(cli);

    if (code == CLI_OK)
        code = replace_check(cli, old, new, plan, &old_id);
    if (code == CLI_OK)
        code = call_confirm(cli, plan);
    if (code == CLI_OK)
        code = add_member(cli, new);
    if (code != CLI_OK || cli_flag(cli, "dry-run"))
        return code;
    code = added_id(cli, new, &new_id);
    if (id_is_number(new))
        snprintf(new_word, sizeof(new_word), new_id == 0 ? "ID" : "%" PRIu64, new_id);
    else
        snprintf(new_word, sizeof(new_word), "%.128s", new);
    if (code == CLI_OK)
        code = wait_caught_up(cli, new, new_id);
    cli->request_id[0] = '\0';
    if (code == CLI_OK)
        code = promote_member(cli, new, new_id);
    if (code != CLI_OK)
        return replace_stopped(cli, code, old, new_word, false);
    cli->request_id[0] = '\0';
    code = remove_one(cli, old, old_id);
    return code == CLI_OK ? CLI_OK : replace_stopped(cli, code, old, new_word, true);
}

/* ---- leadership ---- */

/* The next one behind the leader that has caught up. */
static const Ckpt__V1__MemberStatus *find_successor(const Ckpt__V1__StatusReply *status)
{
    const Ckpt__V1__MemberStatus *best = NULL;

    for (size_t i = 0; i < status->n_members; i++) {
        const Ckpt__V1__MemberStatus *member = status->members[i];

        if (member->voter && member->reachable && member->member_id != status->leader_id &&
            member->lag_entries <= MEMBER_CAUGHT_UP_ENTRIES &&
            (best == NULL ||
             member->member_id - status->leader_id < best->member_id - status->leader_id))
            best = member;
    }
    return best;
}

static enum cli_exit transfer_to(struct cli *cli, char *member)
{
    Ckpt__V1__MemberRequest request = CKPT__V1__MEMBER_REQUEST__INIT;
    char what[200];

    request.name = member;
    snprintf(what, sizeof(what), "transfer leadership to %.128s", member);
    snprintf(cli->again, sizeof(cli->again), "ckptctl transfer %.128s", member);
    cli->attempt_ms = TRANSFER_ATTEMPT_MS;
    return call_mutate_simple(cli, what, "OperatorService/TransferLeadership", &request.base);
}

/* Whom it goes to is named before anything is asked for, so that a request that is repeated hands
 * over once. */
enum cli_exit command_transfer(struct cli *cli)
{
    const Ckpt__V1__MemberStatus *next;
    struct members members;
    enum cli_exit code;

    if (cli->argument_count > 0)
        return transfer_to(cli, cli_argument(cli, 0));
    members_ask(cli, CALL_QUICK, &members);
    next = members.best == NULL ? NULL : find_successor(members.best);
    if (members.best == NULL)
        code = members_nobody(cli, &members, "transfer leadership");
    else if (members.best->leader_id == 0)
        code = cli_fail(cli, CLI_NO_LEADER, "ckptctl status",
                        "cannot transfer leadership: nobody is known to lead");
    else if (next == NULL)
        code = cli_fail(cli, CLI_REFUSED, "ckptctl member list",
                        "cannot transfer leadership: %s leads, and no other voter is reachable and "
                        "has caught up",
                        members.best->leader_name);
    else
        code = transfer_to(cli, next->name);
    members_free(&members);
    return code;
}
