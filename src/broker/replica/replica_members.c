/* Changes of Raft's members and of who leads, through the replica. See replica.h. Raft answers with
 * a status and an error, callers of the replica expect a replica_done_fn: struct replica_change
 * stands between the two. What is allowed is decided in raft/core/consensus_member.c; nothing is
 * checked here. */
#include <stdlib.h>

#include "src/base/check.h"
#include "src/broker/replica/replica.h"

/* A change on its way: freed when it is answered. */
struct replica_change {
    replica_done_fn *done;
    void *data;
};

/* The change is freed before the caller is told, which may begin another one. */
static void change_done(void *data, int status, const struct err *err)
{
    struct replica_change change = *(struct replica_change *)data;

    free(data);
    change.done(change.data, status == 0 ? NULL : err, NULL);
}

static struct replica_change *change_new(replica_done_fn *done, void *data)
{
    struct replica_change *change = check_alloc(sizeof(*change));

    CHECK(done != NULL);
    *change = (struct replica_change){done, data};
    return change;
}

void replica_member_probe(struct replica *replica, const struct consensus_member *member,
                          replica_done_fn *done, void *data)
{
    consensus_member_probe(replica_consensus(replica), member, change_done, change_new(done, data));
}

void replica_member_add(struct replica *replica, const struct consensus_member *member,
                        replica_done_fn *done, void *data)
{
    consensus_member_add(replica_consensus(replica), member, change_done, change_new(done, data));
}

void replica_member_promote(struct replica *replica, uint64_t member_id, replica_done_fn *done,
                            void *data)
{
    consensus_member_promote(replica_consensus(replica), member_id, change_done,
                             change_new(done, data));
}

void replica_member_remove(struct replica *replica, uint64_t member_id, replica_done_fn *done,
                           void *data)
{
    consensus_member_remove(replica_consensus(replica), member_id, change_done,
                            change_new(done, data));
}

const char *replica_member_contact(struct replica *replica, uint64_t member_id)
{
    return consensus_member_contact(replica_consensus(replica), member_id);
}

void replica_member_put(struct replica *replica, const struct consensus_member *member)
{
    consensus_member_put(replica_consensus(replica), member);
}

void replica_set_reluctant(struct replica *replica, bool reluctant)
{
    consensus_set_reluctant(replica_consensus(replica), reluctant);
}

int replica_yield(struct replica *replica, struct err *err)
{
    return consensus_transfer(replica_consensus(replica), 0, err);
}

int replica_step_down(struct replica *replica, struct err *err)
{
    return consensus_step_down(replica_consensus(replica), err);
}
