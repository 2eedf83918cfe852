/* What a member knows about itself and the others. See consensus.h. */
#include "raft/core/consensus_internal.h"
#include "src/base/check.h"
#include "src/base/text.h"

static uint64_t age_ms(const struct consensus *consensus, const struct peer *peer)
{
    return peer != NULL && peer->heard ? (core_now_us(consensus) - peer->last_heard_us) / 1000
                                       : UINT64_MAX;
}

static enum consensus_member_role member_role(const struct consensus *consensus, uint64_t id)
{
    const struct raft_server *server = membership_find(&consensus->raft.configuration, id);

    if (server == NULL)
        return CONSENSUS_NO_MEMBER;
    if (server->role == RAFT_VOTER)
        return CONSENSUS_VOTER;
    return server->role == RAFT_STANDBY ? CONSENSUS_LEARNER : CONSENSUS_JOINING;
}

uint64_t core_contact_age_ms(const struct consensus *consensus, uint64_t id)
{
    CHECK(consensus != NULL);
    return age_ms(consensus, transport_peer(&consensus->transport, id));
}

/* An open connection is not enough: a process that stands still keeps its connections. */
bool core_reachable(const struct consensus *consensus, uint64_t id)
{
    const struct peer *peer = transport_peer(&consensus->transport, id);

    if (id == consensus->config.member_id)
        return true;
    return peer != NULL && peer->out_ready &&
           age_ms(consensus, peer) <
               (uint64_t)CONSENSUS_SILENT_ELECTIONS * consensus->config.election_timeout_ms;
}

static void peer_status(const struct consensus *consensus, uint64_t id,
                        struct consensus_status *status)
{
    const struct peer *peer = transport_peer(&consensus->transport, id);
    struct consensus_peer_status *out = &status->peers[status->peer_count++];
    unsigned place = core_server_place(consensus, id);

    out->id = id;
    text_copy(out->name, sizeof(out->name), core_member_name(consensus, id));
    text_copy(out->address, sizeof(out->address), core_peer_address(consensus, id));
    out->role = member_role(consensus, id);
    out->voter = out->role == CONSENSUS_VOTER;
    out->connected = peer != NULL && peer->out_ready;
    if (place < consensus->raft.configuration.n && core_is_leader(consensus))
        out->match_index = consensus->raft.leader_state.progress[place].match_index;
    out->last_contact_age_ms = age_ms(consensus, peer);
    out->unfit = core_unfit(consensus, id);
    if (id == status->leader_id)
        status->leader_contact_age_ms = core_now_ms(consensus) - consensus->safety.leader_heard_ms;
}

/* The one that answers in its place is most likely the one that calls, too. */
static bool answers_too(const struct transport *transport, const struct foreign *foreign)
{
    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++) {
        const struct foreign *other = &transport->foreign[i];
        if (other->who.id == foreign->who.id && other->who.answers && !foreign->who.answers &&
            other->who.incarnation == foreign->who.incarnation &&
            transport_foreign_alive(transport, other))
            return true;
    }
    return false;
}

static void foreign_status(const struct consensus *consensus, struct consensus_status *status)
{
    const struct transport *transport = &consensus->transport;

    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++) {
        const struct foreign *foreign = &transport->foreign[i];
        if (transport_foreign_alive(transport, foreign) && !answers_too(transport, foreign))
            status->foreign[status->foreign_count++] = foreign->who;
    }
}

static void peers_status(const struct consensus *consensus, struct consensus_status *status)
{
    const struct raft_configuration *configuration = &consensus->raft.configuration;
    size_t in_contact = 0;

    for (unsigned i = 0; i < configuration->n; i++) {
        uint64_t id = configuration->servers[i].id;
        bool self = id == consensus->config.member_id;
        if (!self && status->peer_count < CONSENSUS_MEMBERS_MAX)
            peer_status(consensus, id, status);
        if (configuration->servers[i].role != RAFT_VOTER)
            continue;
        status->voter_count++;
        in_contact += self || age_ms(consensus, transport_peer(&consensus->transport, id)) <
                                  consensus->config.election_timeout_ms;
    }
    status->learner_count = configuration->n - status->voter_count;
    if (configuration->n == 0)
        for (size_t i = 0;
             i < consensus->transport.peer_count && status->peer_count < CONSENSUS_MEMBERS_MAX; i++)
            peer_status(consensus, consensus->transport.peers[i]->member.id, status);
    if (core_is_leader(consensus))
        status->quorum = in_contact > status->voter_count / 2;
    else
        status->quorum = status->leader_id != 0 &&
                         status->leader_contact_age_ms < consensus->config.election_timeout_ms;
}

/* The age at which a majority, this member included, had been heard. */
uint64_t core_quorum_age_ms(const struct consensus *consensus)
{
    const struct raft_configuration *configuration = &consensus->raft.configuration;
    uint64_t ages[CONSENSUS_MEMBERS_MAX];
    size_t count = 0, at;

    for (unsigned i = 0; i < configuration->n && count < CONSENSUS_MEMBERS_MAX; i++) {
        uint64_t id = configuration->servers[i].id, age = 0;
        if (configuration->servers[i].role != RAFT_VOTER)
            continue;
        if (id != consensus->config.member_id)
            age = age_ms(consensus, transport_peer(&consensus->transport, id));
        for (at = count++; at > 0 && ages[at - 1] > age; at--)
            ages[at] = ages[at - 1];
        ages[at] = age;
    }
    return count == 0 ? UINT64_MAX : ages[count / 2];
}

/* A leader of that term has applied an entry of its own, and with it all that was before. */
bool core_applied_own(const struct consensus *consensus, uint64_t term)
{
    return safety_term_of(&consensus->raft, consensus->raft.last_applied) == term;
}

/* The settling of a level changes no more than what is remembered of it. */
static uint64_t state_age_ms(const struct consensus *consensus)
{
    struct safety *safety = (struct safety *)(uintptr_t)&consensus->safety;
    uint64_t level_ms;

    if (core_is_leader(consensus) && core_applied_own(consensus, consensus->raft.current_term))
        return core_quorum_age_ms(consensus);
    level_ms = safety_level_ms(safety);
    return level_ms == 0 ? UINT64_MAX : core_now_ms(consensus) - level_ms;
}

void consensus_get_status(const struct consensus *consensus, struct consensus_status *ret_status)
{
    const struct wal *wal = &consensus->wal;
    const struct raft *raft = &consensus->raft;

    CHECK(ret_status != NULL);
    *ret_status = (struct consensus_status){
        .member_id = consensus->config.member_id,
        .role = consensus->role,
        .member_role = member_role(consensus, consensus->config.member_id),
        .term = raft->current_term,
        .leader_id = consensus->role_leader,
        .commit_index = raft->commit_index,
        .applied_index = raft->last_applied,
        .last_index = raft_last_index((struct raft *)(uintptr_t)raft),
        .snapshot_index = consensus->snapshot.index,
        .log_bytes = wal->log_bytes,
        .disk_free_bytes = consensus->folder.free_bytes,
        .disk_total_bytes = consensus->folder.total_bytes,
        .snapshot_bytes = consensus->snapshot_bytes,
        .accepts_writes = consensus->folder.accepts_writes,
        .proposals_in_flight = consensus->proposal_count,
        .leader_changes_total = consensus->leader_changes_total,
        .fsync_count = wal->sync_count,
        .fsync_us_total = wal->sync_us_total,
        .fsync_us_max = wal->sync_us_max,
        .log_write_ms = wal_busy_us(wal) / 1000,
        .snapshot_count = consensus->snapshot_count,
        .snapshot_ms_last = consensus->snapshot_ms_last,
        .snapshot_failures_total = consensus->snapshot_failures_total,
        .snapshot_error = consensus->snapshot_err.text,
        .snapshot_unreadable_total = consensus->transfer.unreadable_total,
        .snapshot_unreadable_error = consensus->transfer.unreadable_err.text,
        .incarnation = consensus->folder.incarnation,
        .epoch_min = consensus->folder.epoch_min,
        .configuration_index = consensus->safety.membership.committed_index,
        .change_index = raft->configuration_uncommitted_index,
        .change_under_way = consensus->change.kind != CHANGE_NONE,
    };
    ret_status->leader_contact_age_ms =
        ret_status->leader_id == consensus->config.member_id ? 0 : UINT64_MAX;
    ret_status->leader_heard_age_ms = UINT64_MAX;
    if (ret_status->leader_id == consensus->config.member_id)
        ret_status->leader_heard_age_ms = 0;
    else if (consensus->safety.leader_heard_ms != 0)
        ret_status->leader_heard_age_ms =
            core_now_ms(consensus) - consensus->safety.leader_heard_ms;
    text_copy(ret_status->founding, sizeof(ret_status->founding), consensus->founding.text);
    foreign_status(consensus, ret_status);
    ret_status->state_age_ms = state_age_ms(consensus);
    peers_status(consensus, ret_status);
}
