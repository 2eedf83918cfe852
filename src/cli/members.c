/* What the members say about themselves. */
#include "src/cli/members.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/cli/human.h"
#include "src/client/client.h"

static const Ckpt__V1__StatusReply *reply_of(const struct call_answer *answer)
{
    return (const Ckpt__V1__StatusReply *)answer->reply;
}

/* A leader with a quorum knows most, then any member in a quorum, then the highest term, then the
 * longest applied log. */
static bool knows_more(const Ckpt__V1__StatusReply *a, const Ckpt__V1__StatusReply *b)
{
    bool a_leads = a->quorum && a->leader_id == a->member_id && a->leader_id != 0;
    bool b_leads = b->quorum && b->leader_id == b->member_id && b->leader_id != 0;

    if (a_leads != b_leads)
        return a_leads;
    if (a->quorum != b->quorum)
        return a->quorum;
    return a->term != b->term ? a->term > b->term : a->applied_index > b->applied_index;
}

static void find_best(struct members *members)
{
    members->best = NULL;
    members->answered = 0;
    for (size_t i = 0; i < members->count; i++) {
        const Ckpt__V1__StatusReply *reply = reply_of(&members->answers[i]);

        if (reply == NULL)
            continue;
        members->answered++;
        if (members->best == NULL || knows_more(reply, members->best))
            members->best = reply;
    }
}

/* Members of another cluster (a wrong address in --endpoints) must not be mixed in: the first
 * endpoint that answers says which cluster is meant. */
static void drop_foreign(struct cli *cli, struct members *members)
{
    const char *cluster_id = NULL;
    size_t kept = 0;

    for (size_t i = 0; i < members->count; i++) {
        const Ckpt__V1__StatusReply *reply = reply_of(&members->answers[i]);
        char safe[129];

        if (reply != NULL && cluster_id == NULL)
            cluster_id = reply->cluster_id;
        if (reply != NULL && strcmp(reply->cluster_id, cluster_id) != 0) {
            cli_note(cli, "remark: %s is left out: it belongs to cluster %s",
                     members->answers[i].endpoint,
                     human_safe(reply->cluster_id, safe, sizeof(safe)));
            call_free(members->answers[i].reply);
            continue;
        }
        members->answers[kept++] = members->answers[i];
    }
    members->count = kept;
}

static bool member_was_asked(const struct members *members, const Ckpt__V1__MemberStatus *member)
{
    for (size_t i = 0; i < members->count; i++)
        if (strcmp(members->answers[i].endpoint, member->api_address) == 0)
            return true;
    return members_own(members, member->member_id) != NULL;
}

/* Adds the members that the best answer names and that were not asked. Returns how many. */
static size_t add_named(struct members *members)
{
    size_t before = members->count;

    for (size_t i = 0; members->best != NULL && i < members->best->n_members; i++) {
        const Ckpt__V1__MemberStatus *member = members->best->members[i];
        size_t length = strlen(member->api_address);

        if (length > 0 && length < CALL_ENDPOINT_BYTES && members->count < CALL_ENDPOINTS_MAX &&
            !member_was_asked(members, member)) {
            struct call_answer *answer = &members->answers[members->count++];

            *answer = (struct call_answer){.err.code = ERR_NONE};
            memcpy(answer->endpoint, member->api_address, length + 1);
        }
    }
    return members->count - before;
}

void members_ask(struct cli *cli, enum call_patience patience, struct members *members)
{
    Ckpt__V1__StatusRequest request = CKPT__V1__STATUS_REQUEST__INIT;
    size_t added;

    members->count = call_endpoints(cli, members->answers);
    call_each(cli,
              &(struct client_request){.method = "OperatorService/Status",
                                       .message = &request.base,
                                       .reply_type = &ckpt__v1__status_reply__descriptor},
              patience, members->answers, members->count);
    drop_foreign(cli, members);
    find_best(members);
    added = add_named(members);
    if (added > 0) {
        call_each(cli,
                  &(struct client_request){.method = "OperatorService/Status",
                                           .message = &request.base,
                                           .reply_type = &ckpt__v1__status_reply__descriptor},
                  patience, members->answers + members->count - added, added);
        drop_foreign(cli, members);
        find_best(members);
    }
    CHECK((members->best == NULL) == (members->answered == 0));
}

void members_free(struct members *members)
{
    call_each_free(members->answers, members->count);
    members->best = NULL;
}

const Ckpt__V1__StatusReply *members_own(const struct members *members, uint64_t member_id)
{
    for (size_t i = 0; i < members->count; i++) {
        const Ckpt__V1__StatusReply *reply = reply_of(&members->answers[i]);

        if (reply != NULL && reply->member_id == member_id)
            return reply;
    }
    return NULL;
}

enum cli_exit members_nobody(struct cli *cli, const struct members *members, const char *what)
{
    char text[CALL_ANSWER_BYTES];

    CHECK(members->answered == 0);
    if (members->count == 0) {
        return cli_fail(cli, CLI_USAGE, NULL, "--endpoints holds no address: \"%s\"",
                        cli->endpoints);
    }
    if (members->answers[0].status == RPC_PERMISSION_DENIED ||
        call_is_about_tls(members->answers[0].err.text))
        return cli_fail(cli, CLI_AUTH, "--ca, --cert and --key; ckptctl tls show FILE",
                        "cannot %s: none of %zu members lets us in; %s", what, members->count,
                        call_answer_text(&members->answers[0], text));
    return cli_fail(cli, CLI_NO_LEADER,
                    "systemctl status ckptd on the members, or correct --endpoints",
                    "cannot %s: none of %zu members answers; %s", what, members->count,
                    call_answer_text(&members->answers[0], text));
}
