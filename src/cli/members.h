/* What the members say about themselves, asked one by one: works without a leader and without a
 * quorum.
 *
 * Shapes   struct members is the caller's; at most CALL_ENDPOINTS_MAX members.
 */
#ifndef CKPT_CLI_MEMBERS_H
#define CKPT_CLI_MEMBERS_H

#include "ckpt/v1/operator.pb-c.h"
#include "src/cli/call.h"

struct members {
    struct call_answer answers[CALL_ENDPOINTS_MAX]; /* replies are StatusReply */
    size_t count;
    const Ckpt__V1__StatusReply *best; /* the leader's, else the newest; NULL when nobody answers */
    size_t answered;
};

/* Asks the endpoints of the options, then the members that the answers name beyond them. */
void members_ask(struct cli *cli, enum call_patience patience, struct members *members);
void members_free(struct members *members);
/* The member's own answer, NULL when it gave none. */
const Ckpt__V1__StatusReply *members_own(const struct members *members, uint64_t member_id);
/* Error message and exit code when nobody answered. */
enum cli_exit members_nobody(struct cli *cli, const struct members *members, const char *what);

#endif
