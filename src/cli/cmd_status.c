/* ckptctl status: who leads, how far behind the others are, how many more may fail, what waits.
 * Answers from any member. */
#include <inttypes.h>
#include <string.h>

#include "src/base/check.h"
#include "src/cli/commands.h"
#include "src/cli/drill.h"
#include "src/cli/human.h"
#include "src/cli/members.h"
#include "src/cli/output.h"
#include "src/cli/reflect.h"
#include "src/cli/targets.h"

enum { CLOCK_WARN_MS = 5000 }; /* above what an answer may take */

static const struct output_column member_columns[] = {
    {"MEMBER", OUTPUT_LEFT},
    {"ADDRESS", OUTPUT_LEFT},
    {"ROLE", OUTPUT_LEFT},
    {"TERM", OUTPUT_RIGHT},
    {"APPLIED", OUTPUT_RIGHT},
    {"LAG", OUTPUT_RIGHT},
    {"CONTACT", OUTPUT_RIGHT},
    {"VERSION", OUTPUT_LEFT},
    {"ID", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"RAFT", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"MATCH", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"HASH", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"LOOP LAG", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"CERTIFICATE", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
};

static bool cluster_serves(const Ckpt__V1__StatusReply *reply)
{
    return reply->quorum && reply->leader_id != 0;
}

static void print_warning_head(struct cli *cli, const char *text)
{
    if (cli->colour)
        fputs("\033[1;31m", cli->out);
    cli_out(cli, "%s", text);
    fputs(cli->colour ? "\033[0m\n" : "\n", cli->out);
}

/* Nobody serves: a majority that reaches each other elects, and starting members helps the others
 * alone. */
static void print_why_nobody_serves(struct cli *cli, const struct members *members)
{
    const Ckpt__V1__StatusReply *best = members->best;
    const uint64_t reachable =
        best->reachable_count > 0 ? best->reachable_count : members->answered;
    char head[256], commit[64];

    if (best->last_commit_age_ms == UINT64_MAX) {
        snprintf(commit, sizeof(commit), "no commit since its start");
    } else {
        snprintf(commit, sizeof(commit), "last commit %" PRIu64 " s ago",
                 best->last_commit_age_ms / 1000);
    }

    if (strcmp(best->role, "founding") == 0)
        snprintf(head, sizeof(head),
                 "NOT FOUNDED YET (%zu members answer) — it begins when all its founders run",
                 members->answered);
    else if (best->voter_count == 0)
        snprintf(head, sizeof(head), "NO QUORUM (no voters are known) — %s", commit);
    else if (!best->quorum && reachable <= best->voter_count / 2)
        snprintf(head, sizeof(head),
                 "NO QUORUM (%" PRIu64 " of %u reachable) — data below may be stale, %s", reachable,
                 best->voter_count, commit);
    else
        snprintf(head, sizeof(head),
                 "NO LEADER (an election is under way) — data below may be stale, %s", commit);
    print_warning_head(cli, head);
}

static void print_head(struct cli *cli, const struct members *members)
{
    const Ckpt__V1__StatusReply *best = members->best;
    char since[HUMAN_BYTES];

    if (!cluster_serves(best))
        print_why_nobody_serves(cli, members);
    cli_out(cli, "cluster ");
    output_safe(cli->out, best->cluster_id);
    cli_out(cli, "  epoch %" PRIu64 "  term %" PRIu64 "  commit %" PRIu64 "  leader ", best->epoch,
            best->term, best->commit_index);
    output_safe(cli->out, best->leader_id == 0 ? "none" : best->leader_name);
    if (best->leader_since_ms != 0 && best->leader_id != 0)
        cli_out(cli, " since %s", human_clock(best->leader_since_ms, since));
    if (cluster_serves(best)) {
        cli_out(cli, "\nfailure tolerance %d (%u of %u members reachable)", best->failure_tolerance,
                best->reachable_count, best->voter_count);
    }
    cli_out(cli, "\n\n");
}

static const char *certificate_text(const Ckpt__V1__StatusReply *own, char text[HUMAN_BYTES])
{
    int64_t left_ms = (int64_t)(own->certificate_expires_ms - own->now_ms);

    if (own->certificate_expires_ms == 0)
        snprintf(text, HUMAN_BYTES, "no TLS");
    else if (left_ms <= 0)
        snprintf(text, HUMAN_BYTES, "EXPIRED");
    else
        snprintf(text, HUMAN_BYTES, "%" PRId64 "d left", left_ms / 86400000);
    return text;
}

static void print_member(struct output_table *table, const struct members *members,
                         const Ckpt__V1__MemberStatus *member)
{
    const Ckpt__V1__StatusReply *own = members_own(members, member->member_id);
    const Ckpt__V1__StatusReply *best = members->best;
    uint64_t applied = own != NULL ? own->applied_index : member->match_index;
    uint64_t lag = best->commit_index > applied ? best->commit_index - applied : 0;
    char contact[HUMAN_BYTES];

    output_row(table);
    output_cell(table, "%s", member->name);
    output_cell(table, "%s", member->api_address);
    output_state(table, own != NULL ? own->role : member->reachable ? "no answer" : "unreachable");
    if (own != NULL) {
        output_cell(table, "%" PRIu64, own->term);
        output_cell(table, "%" PRIu64, own->applied_index);
        output_cell(table, "%" PRIu64, lag);
    } else {
        output_cell(table, "-");
        output_cell(table, "-");
        output_cell(table, "-");
    }
    output_cell(table, "%s",
                member->member_id == best->member_id
                    ? "-"
                    : human_duration(member->last_contact_ms, contact));
    output_cell(table, "%s", own != NULL ? own->version : member->version);
    output_cell(table, "%" PRIu64, member->member_id);
    output_cell(table, "%s", member->raft_address);
    output_cell(table, "%" PRIu64, member->match_index);
    if (own != NULL) {
        output_cell(table, "%016" PRIx64, own->state_hash);
        output_cell(table, "%s", human_duration(own->loop_lag_max_ms, contact));
        output_cell(table, "%s", certificate_text(own, contact));
    }
}

static void print_members(struct cli *cli, const struct members *members)
{
    struct output_table table;

    output_table_init(&table, cli, member_columns, ARRAY_COUNT(member_columns));
    for (size_t i = 0; i < members->best->n_members; i++)
        print_member(&table, members, members->best->members[i]);
    output_table_print(&table);
}

static void print_targets(struct cli *cli, const Ckpt__V1__StatusReply *best)
{
    struct output_list list;

    output_list_begin(&list, cli, &targets_kind);
    for (size_t i = 0; i < best->n_targets; i++)
        output_list_add(&list, &best->targets[i]->base);
    output_list_end(&list, true);
}

static void print_counts(struct cli *cli, const Ckpt__V1__StatusReply *best)
{
    uint64_t held = best->running_count + best->starting_count;
    char age[HUMAN_BYTES];

    cli_out(cli, "\njobs %" PRIu64 " running, ", best->running_count);
    if (best->starting_count > 0)
        cli_out(cli, "%" PRIu64 " starting, ", best->starting_count);
    cli_out(cli, "%" PRIu64 " others   checkpoints %" PRIu64 " active, %" PRIu64 " paused",
            best->allocation_count > held ? best->allocation_count - held : 0,
            best->active_checkpoint_count, best->paused_count);
    if (best->paused_count > 0)
        cli_out(cli, " (oldest %s)", human_duration(best->oldest_paused_age_ms, age));
    cli_out(cli, "   agents %" PRIu64 " connected\n", best->connected_agents);
}

/* "nodes 12 ready, 6 draining (a, b, c, d and 2 more)": who is not ready is named. */
static void print_nodes(struct cli *cli, const Ckpt__V1__StatusReply *best)
{
    for (size_t i = 0; i < best->n_node_states; i++) {
        const Ckpt__V1__NodesInState *item = best->node_states[i];
        char state[HUMAN_BYTES], name[129];

        cli_out(cli, "%s%" PRIu64 " %s", i == 0 ? "nodes " : ", ", item->count,
                human_safe(item->state, state, sizeof(state)));
        for (size_t k = 0; strcmp(item->state, "ready") != 0 && k < item->n_node_ids; k++)
            cli_out(cli, "%s%s", k == 0 ? " (" : ", ",
                    human_safe(item->node_ids[k], name, sizeof(name)));
        if (strcmp(item->state, "ready") == 0 || item->n_node_ids == 0)
            continue;
        if (item->count > item->n_node_ids)
            cli_out(cli, " and %" PRIu64 " more", item->count - item->n_node_ids);
        fputc(')', cli->out);
    }
    if (best->n_node_states > 0)
        fputc('\n', cli->out);
}

/* The best answer's warnings; those of the others that only they can give: "the disk of n2 ...",
 * "the certificate of n2 ...". */
static void print_warnings_of(struct cli *cli, const Ckpt__V1__StatusReply *reply, bool all,
                              size_t *count)
{
    char own[200];

    snprintf(own, sizeof(own), " of %.128s ", reply->member_name);
    for (size_t i = 0; i < reply->n_warnings; i++) {
        if (!all && strstr(reply->warnings[i], own) == NULL)
            continue;
        cli_out(cli, "%swarning: ", (*count)++ == 0 ? "\n" : "");
        output_safe(cli->out, reply->warnings[i]);
        fputc('\n', cli->out);
    }
}

/* The members compare their clocks; what is off has a warning of its own then. */
static bool told_of_clock(const Ckpt__V1__StatusReply *reply)
{
    return reply->clock_offset_ms > CLOCK_WARN_MS || reply->clock_offset_ms < -CLOCK_WARN_MS;
}

/* All were asked at one time. Certificates, deadlines of a new leader and everything that people
 * read depend on it. */
static void print_clock_warning(struct cli *cli, const Ckpt__V1__StatusReply *best,
                                const Ckpt__V1__StatusReply *reply, size_t *count)
{
    bool ahead = reply->now_ms > best->now_ms;
    uint64_t off_ms = ahead ? reply->now_ms - best->now_ms : best->now_ms - reply->now_ms;
    char text[HUMAN_BYTES];

    if (off_ms < CLOCK_WARN_MS || told_of_clock(best) || told_of_clock(reply))
        return;
    cli_out(cli,
            "%swarning: the clock of %s is %s %s that of %s: correct the wrong one (timedatectl)\n",
            (*count)++ == 0 ? "\n" : "", reply->member_name, human_duration(off_ms, text),
            ahead ? "ahead of" : "behind", best->member_name);
}

/* Of the member whose address the endpoint is; NULL: nobody's. */
static const Ckpt__V1__MemberStatus *member_at(const struct members *members, const char *endpoint)
{
    for (size_t i = 0; i < members->best->n_members; i++)
        if (strcmp(members->best->members[i]->api_address, endpoint) == 0)
            return members->best->members[i];
    return NULL;
}

/* "connection refused (10.0.0.1)": which address a name stood for is told beside the name. */
static void note_silent(struct cli *cli, const Ckpt__V1__MemberStatus *member,
                        const struct call_answer *answer)
{
    char text[CALL_ANSWER_BYTES], safe[129];
    const char *why, *number;
    int length;

    (void)call_answer_text(answer, text);
    CHECK(strncmp(text, answer->endpoint, strlen(answer->endpoint)) == 0);
    why = text + strlen(answer->endpoint);
    why += strspn(why, ": ");
    number = strrchr(why, '(');
    if (number == NULL || number == why || number[-1] != ' ' || text[strlen(text) - 1] != ')')
        number = "";
    length = (int)(*number == '\0' ? strlen(why) : (size_t)(number - why) - 1);
    cli_note(cli, "remark: %s does not answer at %s%s%s: %.*s",
             human_safe(member->name, safe, sizeof(safe)), answer->endpoint,
             *number == '\0' ? "" : " ", number, length, why);
}

static void print_silent(struct cli *cli, const struct members *members)
{
    for (size_t i = 0; i < members->count; i++) {
        const struct call_answer *answer = &members->answers[i];
        const Ckpt__V1__MemberStatus *member = member_at(members, answer->endpoint);
        char text[CALL_ANSWER_BYTES];

        if (answer->reply != NULL)
            continue;
        if (member != NULL &&
            (answer->status == RPC_UNAVAILABLE || answer->status == RPC_DEADLINE_EXCEEDED))
            note_silent(cli, member, answer);
        else
            cli_note(cli, "remark: no answer from %s", call_answer_text(answer, text));
    }
}

/* A member or target that is away then may be so on purpose. */
static void print_drill(struct cli *cli, const Ckpt__V1__StatusReply *status)
{
    char kind[64], member[64];

    if (status->drill == NULL)
        return;
    cli_out(cli, "drill %" PRIu64 ": %s", status->drill->drill_id,
            drill_kind_word(status->drill->kind, kind));
    if (status->drill->target_id[0] != '\0') {
        fputs(" of ", cli->out);
        output_safe(cli->out, status->drill->target_id);
    } else {
        cli_out(cli, " of %s", drill_member(status->drill, status->drill->member_id, member));
    }
    cli_out(cli, " is under way: ckptctl drill report %" PRIu64 "\n", status->drill->drill_id);
}

static void print_warnings(struct cli *cli, const struct members *members)
{
    size_t count = 0;

    print_warnings_of(cli, members->best, true, &count);
    for (size_t i = 0; i < members->count; i++) {
        const Ckpt__V1__StatusReply *reply =
            (const Ckpt__V1__StatusReply *)members->answers[i].reply;

        if (reply != NULL && reply != members->best) {
            print_warnings_of(cli, reply, false, &count);
            print_clock_warning(cli, members->best, reply, &count);
        }
    }
    print_silent(cli, members);
}

/* The best answer, and beside it what each endpoint said. */
static json_t *status_json(const struct members *members)
{
    json_t *status = reflect_to_json(&members->best->base);
    json_t *answers = json_array();

    for (size_t i = 0; i < members->count; i++) {
        const struct call_answer *answer = &members->answers[i];
        json_t *item = json_object();

        json_object_set_new(item, "endpoint", json_string(answer->endpoint));
        json_object_set_new(item, "answered", json_boolean(answer->reply != NULL));
        json_object_set_new(item, "error",
                            json_string(answer->reply != NULL ? "" : answer->err.text));
        json_object_set_new(item, "status",
                            answer->reply != NULL ? reflect_to_json(answer->reply) : json_null());
        json_array_append_new(answers, item);
    }
    json_object_set_new(status, "answers", answers);
    return status;
}

enum cli_exit command_status(struct cli *cli)
{
    struct members members;
    enum cli_exit code;

    members_ask(cli, CALL_QUICK, &members);
    if (members.best == NULL) {
        code = members_nobody(cli, &members, "show the status");
        members_free(&members);
        return code;
    }
    if (cli_is_json(cli)) {
        output_json(cli, "status", status_json(&members));
    } else if (cli->format == OUTPUT_NAME) {
        if (members.best->leader_id != 0)
            output_name(cli, members.best->leader_name);
    } else {
        print_head(cli, &members);
        print_members(cli, &members);
        fputc('\n', cli->out);
        print_targets(cli, members.best);
        print_counts(cli, members.best);
        print_nodes(cli, members.best);
        print_drill(cli, members.best);
        print_warnings(cli, &members);
    }
    code = cluster_serves(members.best) ? CLI_OK : CLI_NO_LEADER;
    members_free(&members);
    return code;
}
