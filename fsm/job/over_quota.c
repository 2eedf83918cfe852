/* Which checkpoints of a tenant go before their time, when it has more bytes than it may.
 *
 * Flow     the leader walks the records of such a tenant and names what would expire first; here
 *          each one is judged again. The two newest complete ones of a job that may be started
 *          again stay, or the newest where it keeps one; pinned ones stay.
 */
#include <stdlib.h>

#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/quota.h"

#define COMPLETE CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE

/* What is kept whatever its age has no instant: it goes behind all that have one. */
static uint64_t expires_at_ms(const struct checkpoint *checkpoint)
{
    CHECK(!checkpoint->expired);
    return checkpoint->collect_at_ms == 0 ? UINT64_MAX : checkpoint->collect_at_ms;
}

/* An insertion: few are kept, and the walk meets most of them in their order. */
static void scan_add(struct fsm_quota_scan *scan, const struct checkpoint *checkpoint)
{
    uint64_t at_ms = expires_at_ms(checkpoint);
    size_t at = scan->count;

    CHECK(scan->count <= FSM_QUOTA_BATCH_MAX);
    if (scan->count == FSM_QUOTA_BATCH_MAX) {
        if (scan->first[--at].expires_at_ms <= at_ms)
            return;
    } else {
        scan->count++;
    }
    for (; at > 0 && scan->first[at - 1].expires_at_ms > at_ms; at--)
        scan->first[at] = scan->first[at - 1];
    scan->first[at].expires_at_ms = at_ms;
    scan->first[at].id = checkpoint->view.id;
    scan->first[at].bytes = checkpoint->view.size_bytes;
}

/* Ids grow with time, so that of equal instants the older one is in front. */
bool fsm_quota_step(const struct fsm *fsm, struct fsm_quota_scan *scan, size_t visits_max)
{
    const struct checkpoint *at;

    CHECK(visits_max > 0);
    while (visits_max-- > 0) {
        at = fsm_registry_next(fsm, scan->after_id);
        if (at == NULL)
            return true;
        scan->after_id = at->view.id;
        if (allocation_at(fsm, at->view.allocation_slot)->tenant_slot == scan->tenant &&
            fsm_retention_may_leave_early(fsm, at))
            scan_add(scan, at);
    }
    return false;
}

/* outcome: current let go of limit named. Each one is asked for as long as the ones before it did
 * not suffice. */
enum fsm_status fsm_apply_expire_over_quota(struct fsm *fsm, const fsm_command *command,
                                            struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__ExpireOverQuota *named = command->expire_over_quota;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_EXPIRE_OVER_QUOTA);
    outcome->limit = named->n_checkpoint_ids;
    for (size_t i = 0; i < named->n_checkpoint_ids; i++) {
        struct checkpoint *checkpoint =
            checkpoint_edit(fsm, checkpoint_find(fsm, named->checkpoint_ids[i]));
        const struct allocation *job;

        if (checkpoint == NULL)
            continue;
        job = allocation_at(fsm, checkpoint->view.allocation_slot);
        if (fsm_quota_excess(&fsm->tenants[job->tenant_slot]->quota, fsm->now_ms) == 0 ||
            !fsm_retention_leave_early(fsm, checkpoint))
            continue;
        outcome->current++;
        fsm_quota_event(
            fsm, job->tenant_slot,
            &(struct fsm_event){.allocation_id = job->view.id,
                                .checkpoint_id = checkpoint->view.id,
                                .new_state = CKPT__V1__QUOTA_CHANGE__QUOTA_CHANGE_EXPIRED,
                                .number = checkpoint->view.size_bytes});
    }
    return FSM_OK;
}

/* The sums again, from the records. */
bool fsm_quota_counted(const struct fsm *fsm)
{
    struct fsm_quota *sums = check_calloc(fsm->tenant_count + 1, sizeof(*sums));
    bool equal = true;

    for (size_t i = 0; i < fsm->checkpoint_refs; i++) {
        const struct checkpoint *at = fsm->checkpoints[i].checkpoint;
        struct fsm_quota *sum;

        if (at == NULL)
            continue;
        sum = &sums[allocation_at(fsm, at->view.allocation_slot)->tenant_slot];
        if (fsm_checkpoint_state_active(at->view.state))
            sum->running_bytes += at->expected_bytes;
        if (at->view.state != COMPLETE)
            continue;
        sum->stored_bytes += at->view.size_bytes;
        sum->leaving_bytes += at->expired ? at->view.size_bytes : 0;
    }
    for (uint32_t i = 0; i < fsm->tenant_count; i++) {
        const struct fsm_quota *quota = &fsm->tenants[i]->quota;

        equal = equal && quota->stored_bytes == sums[i].stored_bytes &&
                quota->leaving_bytes == sums[i].leaving_bytes &&
                quota->running_bytes == sums[i].running_bytes;
    }
    free(sums);
    return equal;
}
