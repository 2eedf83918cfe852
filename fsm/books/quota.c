/* Bytes of each tenant's checkpoints, and its limits. See fsm/quota.h. */
#include "fsm/quota.h"
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#define CHANGE(name) CKPT__V1__QUOTA_CHANGE__QUOTA_CHANGE_##name

enum { KEEP_COMPLETE = 3, MAX_BYTES = 2, RETENTION = 4 }; /* fields of TenantSpec */

/* A tenant stays for good, so its place is its number; the texts of those beyond the limit are not
 * kept. */
struct tenant *fsm_tenant_create(struct fsm *fsm, const char *id)
{
    struct tenant *tenant = check_calloc(1, sizeof(*tenant));

    CHECK(id != NULL);
    CHECK(fsm->tenant_count < FSM_TENANTS_MAX);
    tenant->id = fsm_intern(fsm, id);
    tenant->at_ms = fsm->now_ms;
    fsm->tenants[fsm->tenant_count++] = tenant;
    return tenant;
}

static struct tenant *quota_tenant(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    uint32_t slot = allocation_at(fsm, checkpoint->view.allocation_slot)->tenant_slot;

    CHECK(slot < fsm->tenant_count);
    return fsm->tenants[slot];
}

/* Sums wrap: a part that was added is taken out as it was. */
static void quota_move(uint64_t *sum, uint64_t bytes, bool in)
{
    *sum = in ? *sum + bytes : *sum - bytes;
}

/* By its state: what is active counts with what it was expected to have when it was asked for, so
 * that what is learned meanwhile changes no sum. */
void fsm_quota_count(struct fsm *fsm, const struct checkpoint *checkpoint, bool active, bool in)
{
    struct fsm_quota *quota = &quota_tenant(fsm, checkpoint)->quota;

    CHECK(checkpoint->view.id != 0);
    if (active)
        quota_move(&quota->running_bytes, checkpoint->expected_bytes, in);
    if (checkpoint->view.state != CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE)
        return;
    quota_move(&quota->stored_bytes, checkpoint->view.size_bytes, in);
    if (checkpoint->expired)
        quota_move(&quota->leaving_bytes, checkpoint->view.size_bytes, in);
}

/* Called once, when it expires: its folder is there until the collector has removed it. */
void fsm_quota_leaves(struct fsm *fsm, const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->expired);
    if (checkpoint->view.state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE)
        quota_move(&quota_tenant(fsm, checkpoint)->quota.leaving_bytes, checkpoint->view.size_bytes,
                   true);
}

const char *fsm_tenant_quota(const struct fsm *fsm, uint32_t i, struct fsm_quota *ret_quota)
{
    CHECK(ret_quota != NULL);
    if (i >= fsm->tenant_count)
        return NULL;
    *ret_quota = fsm->tenants[i]->quota;
    return fsm->tenants[i]->id;
}

uint64_t fsm_quota_wanted(const struct fsm_quota *quota, uint64_t now_ms)
{
    CHECK(quota != NULL);
    return quota->refused_at_ms == 0 || now_ms >= quota->refused_at_ms + FSM_QUOTA_WANTED_MS
               ? 0
               : quota->wanted_bytes;
}

/* What leaves is not asked for again: its room comes by itself. */
uint64_t fsm_quota_excess(const struct fsm_quota *quota, uint64_t now_ms)
{
    uint64_t bytes = quota->stored_bytes - quota->leaving_bytes;

    CHECK(quota->keep_complete <= FSM_COMPLETE_KEPT_MAX);
    bytes = fsm_add(fsm_add(bytes, quota->running_bytes), fsm_quota_wanted(quota, now_ms));
    return quota->max_bytes == 0 || bytes <= quota->max_bytes ? 0 : bytes - quota->max_bytes;
}

/* What is about to be deleted takes its room until it is gone. */
static uint64_t quota_with(const struct fsm_quota *quota, const struct fsm_allocation *allocation)
{
    CHECK(allocation->id != NULL);
    return fsm_add(fsm_add(quota->stored_bytes, quota->running_bytes),
                   allocation->size_estimate_bytes);
}

bool fsm_quota_refuses(const struct fsm *fsm, const struct fsm_allocation *allocation,
                       struct fsm_quota *ret_quota)
{
    const struct fsm_quota *quota =
        &fsm->tenants[allocation_at(fsm, allocation->slot)->tenant_slot]->quota;

    CHECK(allocation->id != NULL);
    if (ret_quota != NULL)
        *ret_quota = *quota;
    return quota->max_bytes != 0 && quota_with(quota, allocation) > quota->max_bytes;
}

/* Only what a job writes for itself, and goes on after, can wait. */
bool fsm_quota_concerns(Ckpt__V1__Purpose purpose)
{
    CHECK(purpose != CKPT__V1__PURPOSE__PURPOSE_UNSPECIFIED);
    return purpose == CKPT__V1__PURPOSE__PURPOSE_PERIODIC ||
           purpose == CKPT__V1__PURPOSE__PURPOSE_PROACTIVE ||
           purpose == CKPT__V1__PURPOSE__PURPOSE_MANUAL;
}

void fsm_quota_event(struct fsm *fsm, uint32_t tenant_slot, const struct fsm_event *of)
{
    struct fsm_event event = *of;

    CHECK(tenant_slot < fsm->tenant_count);
    event.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_QUOTA;
    event.subject = fsm->tenants[tenant_slot]->id;
    fsm_event_emit(fsm, &event);
}

/* What room is made for. One that is larger than all that the tenant may have would not fit if
 * everything else went: nothing goes for it. */
static uint64_t quota_room(const struct fsm_quota *quota, const struct fsm_allocation *allocation)
{
    CHECK(quota->max_bytes != 0);
    return allocation->size_estimate_bytes > quota->max_bytes
               ? 1
               : fsm_max(allocation->size_estimate_bytes, 1);
}

/* Told once until none was refused for a while: each job of the tenant asks again and again. */
void fsm_quota_refused(struct fsm *fsm, const struct allocation *allocation,
                       struct fsm_outcome *outcome)
{
    struct fsm_quota *quota = &fsm->tenants[allocation->tenant_slot]->quota;
    uint64_t wanted = fsm_quota_wanted(quota, fsm->now_ms);

    CHECK(quota->max_bytes != 0);
    outcome->current = quota_with(quota, &allocation->view);
    outcome->limit = quota->max_bytes;
    if (wanted == 0)
        fsm_quota_event(fsm, allocation->tenant_slot,
                        &(struct fsm_event){.allocation_id = allocation->view.id,
                                            .new_state = CHANGE(REFUSED),
                                            .number = outcome->current});
    quota->wanted_bytes = fsm_max(wanted, quota_room(quota, &allocation->view));
    quota->refused_at_ms = fsm->now_ms;
    fsm_moved(fsm, FSM_RECORD_TENANT, allocation->tenant_slot);
}

/* NULL: there is no place for one more. The last place is that of all others. */
static struct tenant *quota_named(struct fsm *fsm, const char *id, uint32_t *ret_slot)
{
    uint32_t i = 0;

    while (i < fsm->tenant_count && strcmp(fsm->tenants[i]->id, id) != 0)
        i++;
    *ret_slot = i;
    if (i >= FSM_TENANTS_MAX - 1)
        return NULL;
    return i < fsm->tenant_count ? fsm->tenants[i] : fsm_tenant_create(fsm, id);
}

/* What is not said stays. Jobs follow a changed retention at their next review. */
enum fsm_status fsm_apply_put_tenant(struct fsm *fsm, const fsm_command *command,
                                     struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__PutTenant *put = command->put_tenant;
    uint64_t retention_ms;
    uint32_t slot;
    struct tenant *tenant = quota_named(fsm, put->spec->tenant, &slot);

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_PUT_TENANT);
    if (tenant == NULL) {
        outcome->current = fsm->tenant_count;
        outcome->limit = FSM_TENANTS_MAX - 1;
        return FSM_TENANTS_FULL;
    }
    retention_ms = tenant->quota.retention_ms;
    if (put->spec->max_bytes != 0 || (put->zeros >> MAX_BYTES & 1) != 0)
        tenant->quota.max_bytes = put->spec->max_bytes;
    if (put->spec->keep_complete != 0 || (put->zeros >> KEEP_COMPLETE & 1) != 0)
        tenant->quota.keep_complete = put->spec->keep_complete;
    if (put->spec->retention_ms != 0 || (put->zeros >> RETENTION & 1) != 0)
        tenant->quota.retention_ms = put->spec->retention_ms;
    if (tenant->quota.retention_ms != retention_ms)
        fsm_retention_changed(fsm);
    tenant->quota.refused_at_ms = 0;
    tenant->quota.wanted_bytes = 0;
    fsm_moved(fsm, FSM_RECORD_TENANT, slot);
    fsm_quota_event(
        fsm, slot,
        &(struct fsm_event){.new_state = CHANGE(SET), .number = tenant->quota.max_bytes});
    return FSM_OK;
}

/* What a job was registered with comes before what its tenant has, and that before the policy. An
 * earlier build let them be one. */
uint32_t fsm_keep_complete(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct fsm_quota *quota = &fsm->tenants[allocation->tenant_slot]->quota;
    uint32_t keep = allocation->view.keep_complete;

    CHECK(allocation->view.id != NULL);
    if (keep == 0)
        keep = quota->keep_complete != 0 ? quota->keep_complete : fsm->policy.keep_complete;
    return (uint32_t)fsm_max(keep, FSM_COMPLETE_KEPT_MIN);
}

uint64_t fsm_retention_ms(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct fsm_quota *quota = &fsm->tenants[allocation->tenant_slot]->quota;

    CHECK(allocation->view.id != NULL);
    if (allocation->view.retention_ms != 0)
        return allocation->view.retention_ms;
    return quota->retention_ms != 0 ? quota->retention_ms : fsm->policy.retention_ms;
}

/* An instant before the adoption of a cluster from a backup moves by the time that nobody was
 * there. */
uint64_t fsm_kept_until_ms(const struct fsm *fsm, const struct allocation *allocation,
                           uint64_t since_ms)
{
    CHECK(allocation->view.id != NULL);
    return fsm_add(fsm_add(since_ms, fsm_retention_ms(fsm, allocation)),
                   since_ms < fsm->adopted_at_ms ? fsm->adopted_shift_ms : 0);
}

void fsm_retention_changed(struct fsm *fsm)
{
    if (fsm_level(fsm) >= 2)
        fsm->retention_review = 1;
}
