/* What others may look at of the replica. See replica.h. Nothing here changes anything: a part that
 * only looks at the state or at Raft's view calls no other file of the replica. */
#include "src/broker/replica/replica_internal.h"

bool replica_serving(const struct replica *replica)
{
    return replica->serving;
}

uint64_t replica_leader_id(const struct replica *replica)
{
    return replica->leader_id;
}

const struct fsm *replica_fsm(const struct replica *replica)
{
    return replica->fsm;
}

struct fsm *replica_fsm_mutable(struct replica *replica)
{
    return replica->fsm;
}

struct consensus *replica_consensus(const struct replica *replica)
{
    return replica->consensus;
}

void replica_get_status(const struct replica *replica, struct consensus_status *ret_status)
{
    consensus_get_status(replica->consensus, ret_status);
}

size_t replica_waiting(const struct replica *replica)
{
    return replica->waiting_count;
}

size_t replica_hashes(const struct replica *replica, struct replica_hash *ret_hashes, size_t max)
{
    size_t kept = replica->hash_count < REPLICA_HASHES ? replica->hash_count : REPLICA_HASHES;
    size_t count = kept < max ? kept : max;

    for (size_t i = 0; i < count; i++)
        ret_hashes[i] = replica->hashes[(replica->hash_count - count + i) % REPLICA_HASHES];
    return count;
}

void replica_get_stats(const struct replica *replica, struct replica_stats *ret_stats)
{
    *ret_stats = replica->stats;
    ret_stats->last_commit_age_ms = replica->applied_at_us == 0
                                        ? UINT64_MAX
                                        : (replica_now_us(replica) - replica->applied_at_us) / 1000;
}
