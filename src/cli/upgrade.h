/* Builds and feature levels of members and agents, as upgrades look at them.
 *
 * Flow     upgrade_look() asks each member and the leader for the agents; upgrade_free().
 * Order    rows are in the order in which members are restarted: learners and followers by id, the
 *          leader last.
 * Units    a level of 0 is not known; a member of a build from before levels has level 1.
 * Shapes   struct upgrade is the caller's; texts of it live in the answers that it holds.
 */
#ifndef CKPT_CLI_UPGRADE_H
#define CKPT_CLI_UPGRADE_H

#include "src/cli/human.h"
#include "src/cli/members.h"

enum {
    UPGRADE_BUILD_BYTES = 128,
    UPGRADE_AGENT_BUILDS_MAX = 16, /* more are counted together */
    UPGRADE_NAMED_NODES = 4,
    UPGRADE_LAG_MAX = 100 /* entries; a member that is less behind has caught up */
};

struct upgrade_member {
    const Ckpt__V1__MemberStatus *status; /* as the best answer has it */
    const Ckpt__V1__StatusReply *own;     /* NULL: it gave no answer */
    const char *build;                    /* "": not known */
    uint32_t level;
    uint64_t lag; /* entries behind the leader */
    bool leads;
};

/* Nodes whose agents are of one build. */
struct upgrade_agents {
    char build[UPGRADE_BUILD_BYTES]; /* "": of more builds than are told apart */
    uint32_t level;
    size_t count;
    char nodes[UPGRADE_NAMED_NODES][HUMAN_BYTES * 2]; /* the first ones */
};

struct upgrade {
    struct members members;
    struct upgrade_member rows[CALL_ENDPOINTS_MAX];
    size_t count;
    struct upgrade_agents agents[UPGRADE_AGENT_BUILDS_MAX];
    size_t agent_builds;
    bool agents_known;      /* the leader told of them */
    uint32_t cluster_level; /* nothing of a higher one is taken, decided or kept */
    uint32_t newest_level;  /* the highest of a member */
    const char *target;     /* the newest build of a member or of this program */
    uint32_t target_level;
};

/* The print of a failure begins with "cannot WHAT". */
enum cli_exit upgrade_look(struct cli *cli, const char *what, struct upgrade *upgrade);
/* The members alone. */
enum cli_exit upgrade_look_at_members(struct cli *cli, const char *what, struct upgrade *upgrade);
void upgrade_free(struct upgrade *upgrade);

/* NULL: no member has that name or, of digits alone, that id. */
const struct upgrade_member *upgrade_find(const struct upgrade *upgrade, const char *word);
/* Of another build than the target. */
bool upgrade_behind(const struct upgrade *upgrade, const char *build);
/* Below 0: a is older. By version, then by the date of the commit. */
int upgrade_compare(const char *a, const char *b);
bool upgrade_caught_up(const struct upgrade_member *member);

/* The news of the levels after `from`, up to `to`, by the options of the .proto files: one text for
 * each kind, as "policy: orphan_rule, min_progress". */
struct upgrade_news {
    char texts[4][512];
    size_t count;
};
void upgrade_news(uint32_t from, uint32_t to, struct upgrade_news *ret_news);

#endif
