/* What the parts of a member must look like whenever no call into libraft is under way: which of
 * their flags may stand together, one condition each.
 *
 * Flow     core_leave() runs core_check() when the outermost call has been settled. After a failure
 *          nothing is claimed: the member is about to be closed.
 * Absent   what the rules of libraft itself promise (safety.c); walks over the log or the lists.
 */
#include "raft/core/consensus_internal.h"

#include "src/base/check.h"

static void core_check_run(const struct consensus *consensus)
{
    CHECK(consensus->wal_opened || !consensus->core_started || consensus->closing);
    CHECK(!consensus->closed_core || consensus->closing);
    CHECK(!consensus->founding.under_way || !consensus->core_started);
}

static void core_check_role(const struct consensus *consensus)
{
    const struct raft *raft = &consensus->raft;

    if (!consensus->core_started || consensus->closed_core)
        return;
    CHECK(raft->current_term >= consensus->role_term);
    CHECK(raft->last_applied <= raft->commit_index);
    CHECK(consensus->transfer_term <= raft->current_term);
    CHECK(consensus->proposed_term <= raft->current_term);
    CHECK(consensus->told_committed == 0 || consensus->told_committed <= raft->commit_index);
    CHECK(list_empty(&consensus->noted)); /* handed over when the call was settled */
    CHECK(list_empty(&consensus->deferred));
    CHECK(list_empty(&consensus->dropped));
    CHECK(consensus->proposal_count > 0 || list_empty(&consensus->proposals));
}

static void core_check_snapshots(const struct consensus *consensus)
{
    CHECK(consensus->snapshot_previous_index == 0 ||
          consensus->snapshot_previous_index < consensus->snapshot.index);
    CHECK(consensus->put == NULL || consensus->put_done != NULL);
    CHECK(!consensus->received_waiting || consensus->received.index != 0);
    CHECK(consensus->snapshot_begun_us != 0 || !take_running(&consensus->take));
}

static void core_check_change(const struct consensus *consensus)
{
    const struct change *change = &consensus->change;

    CHECK(change->kind <= CHANGE_REMOVE);
    CHECK(change->stage <= CHANGE_OVER);
    if (change->kind == CHANGE_NONE)
        return;
    CHECK(change->member.id != 0);
    CHECK(change->stage != CHANGE_PROBING || change->done != NULL);
    CHECK(change->err.code == ERR_NONE || change->stage == CHANGE_OVER);
}

void core_check(const struct consensus *consensus)
{
    CHECK(consensus->depth == 1);
    if (consensus->failed)
        return;
    core_check_run(consensus);
    core_check_role(consensus);
    core_check_snapshots(consensus);
    core_check_change(consensus);
}
