/* Feature levels of the members, and what is refused for their sake. See replica_internal.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/build.h"
#include "src/broker/replica/replica_internal.h"

void level_own(struct consensus_build *ret_build)
{
    ret_build->level = FSM_LEVEL_NEWEST;
    snprintf(ret_build->text, sizeof(ret_build->text), "%s", build_text);
}

bool replica_member_build(const struct replica *replica, uint64_t member_id,
                          struct consensus_build *ret_build)
{
    return consensus_member_build(replica->consensus, member_id, ret_build);
}

/* Of Raft's configuration, this member among them. A name costs 129 bytes at most: so many are
 * named as there is room. */
static uint32_t lowest_level(const struct replica *replica, uint32_t wanted, char *ret_behind,
                             size_t size)
{
    struct consensus_status raft;
    struct consensus_build build;
    uint32_t lowest = FSM_LEVEL_NEWEST;
    size_t used = 0;

    consensus_get_status(replica->consensus, &raft);
    ret_behind[0] = '\0';
    for (size_t i = 0; i < raft.peer_count; i++) {
        const struct consensus_peer_status *peer = &raft.peers[i];
        bool told = replica_member_build(replica, peer->id, &build);

        if (build.level < lowest)
            lowest = build.level;
        if (build.level >= wanted || used >= size)
            continue;
        used += (size_t)snprintf(ret_behind + used, size - used, "%s%s, %s", used == 0 ? "" : "; ",
                                 peer->name,
                                 !told                   ? "which was not heard yet"
                                 : build.text[0] == '\0' ? "whose build is from before levels"
                                                         : build.text);
    }
    return lowest;
}

uint32_t level_of_all(const struct replica *replica)
{
    char ignored[REPLICA_LEVEL_TEXT_BYTES];

    return lowest_level(replica, 0, ignored, sizeof(ignored));
}

enum fsm_status level_check(struct replica *replica, const Ckpt__Log__V1__Command *command,
                            struct fsm_outcome *outcome)
{
    uint32_t level = fsm_level(replica->fsm), asked = fsm_level_asked(command), needed = asked;
    enum fsm_status status = fsm_validate_level(replica->fsm, command, outcome);
    char behind[REPLICA_LEVEL_TEXT_BYTES / 2];

    if (status != FSM_OK && status != FSM_FEATURE_LEVEL)
        return status;
    if (status == FSM_OK && asked <= level)
        return FSM_OK;
    if (status == FSM_FEATURE_LEVEL)
        needed = (uint32_t)outcome->current;
    if (lowest_level(replica, needed, behind, sizeof(behind)) >= needed && status == FSM_OK)
        return FSM_OK;
    snprintf(replica->level_text, sizeof(replica->level_text), "%s%s%s%s",
             status == FSM_OK ? "feature_level" : outcome->subject,
             behind[0] == '\0' ? "" : " (behind: ", behind, behind[0] == '\0' ? "" : ")");
    outcome->subject = replica->level_text;
    outcome->current = needed;
    outcome->limit = level;
    return FSM_FEATURE_LEVEL;
}

/* The build that is needed is one that somebody runs already. */
static int newer_than_own(const struct replica *replica, struct err *err, const char *what)
{
    struct consensus_build newest = {.level = 0}, build;
    struct consensus_status raft;
    const char *name = "";

    consensus_get_status(replica->consensus, &raft);
    for (size_t i = 0; i < raft.peer_count; i++) {
        if (!replica_member_build(replica, raft.peers[i].id, &build) || build.level <= newest.level)
            continue;
        newest = build;
        name = raft.peers[i].name;
    }
    if (newest.level > FSM_LEVEL_NEWEST)
        return err_set(err, ERR_NEWER,
                       "%s holds what this build (%s, feature level %d) does not know: start this "
                       "member with the build of %s (%s, feature level %" PRIu32 "), or a later "
                       "one; its data is whole",
                       what, build_text, FSM_LEVEL_NEWEST, name, newest.text, newest.level);
    return err_set(err, ERR_NEWER,
                   "%s holds what this build (%s, feature level %d) does not know: start this "
                   "member with the build of the others (ckptctl status shows it), or a later "
                   "one; its data is whole",
                   what, build_text, FSM_LEVEL_NEWEST);
}

void level_newer_entry(struct replica *replica)
{
    char what[64];
    struct err err;

    snprintf(what, sizeof(what), "log entry %" PRIu64, fsm_newer_index(replica->fsm));
    newer_than_own(replica, &err, what);
    replica->fatal(replica->fatal_context, &err);
}

/* Off the loop: nothing of the replica is touched. */
int level_newer_snapshot(struct err *err, const char *text)
{
    return err_set(err, ERR_NEWER,
                   "a snapshot of the state holds what this build (%s, feature level %d) does not "
                   "know (%.200s): start this member with the build of the others (ckptctl status "
                   "shows it), or a later one; its data is whole",
                   build_text, FSM_LEVEL_NEWEST, text);
}
