/* Where GPU time goes: an account per allocation and per tenant.
 *
 * Flow     while an allocation holds nodes its account grows at what it weighs: into `pending`
 *          while it computes, into `restart` while it is to start again. Checkpoints, deaths and
 *          ends then move what is pending to where it belongs. Its tenant's account grows at the
 *          sum of the rates and gets each move too, so it needs no sum over allocations, and keeps
 *          what has left. Each move goes into the state's hash: members whose accounts differ find
 *          out.
 * Shapes   an account is as of an instant: settle() brings it to the state's clock, before anything
 *          is moved and before a rate changes. At most FSM_TENANTS_MAX tenants; the last one stands
 *          for all that came later.
 * Units    GPU-milliseconds. At UINT64_MAX an account stops growing; its parts still add up.
 * Absent   what an application does while nobody reports: a pause that no agent measured is
 *          computing time here.
 * Source   the list of causes in fsm/RULES.md.
 */
#include <malloc.h>

#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#define ENDS(name)   CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define REASON(name) CKPT__V1__REASON__REASON_##name

static const char others[] = "(others)"; /* no id */

const char *fsm_loss_name(enum fsm_loss cause)
{
    static const char *const names[] = {
#define X(upper, lower) #lower,
        FSM_LOSSES(X)
#undef X
    };

    CHECK((unsigned)cause < ARRAY_COUNT(names));
    return names[cause];
}

/* ---- one account ---- */

/* Saturated, as held is: at the end of the numbers the two still agree. */
static uint64_t account_sum(const struct fsm_account *account)
{
    uint64_t sum = fsm_add(account->useful_gpu_ms, account->pending_gpu_ms);

    for (size_t i = 0; i < FSM_LOSS_COUNT; i++)
        sum = fsm_add(sum, account->lost_gpu_ms[i]);
    return sum;
}

bool fsm_account_balanced(const struct fsm_account *account)
{
    CHECK(account != NULL);
    return account_sum(account) == account->held_gpu_ms;
}

/* A victim's and a walltime's losses are computed again as those of a failure are. */
uint64_t fsm_account_repeated(const struct fsm_account *account)
{
    uint64_t sum = account->lost_gpu_ms[FSM_LOSS_FAILURE];

    sum = fsm_add(sum, account->lost_gpu_ms[FSM_LOSS_PREEMPTION]);
    sum = fsm_add(sum, account->lost_gpu_ms[FSM_LOSS_WALLTIME]);
    return fsm_add(sum, account->lost_gpu_ms[FSM_LOSS_STOP]);
}

/* held stops at UINT64_MAX, and the part with it: a sum that wraps would break the balance for
 * ever. */
static void account_grow(struct fsm_account *account, uint64_t *part, uint64_t gpu_ms)
{
    gpu_ms = fsm_min(gpu_ms, UINT64_MAX - account->held_gpu_ms);
    account->held_gpu_ms += gpu_ms;
    *part += gpu_ms;
}

/* Never more than there is: reports may say more than was booked. */
static void account_move(uint64_t *from, uint64_t *to, uint64_t gpu_ms)
{
    gpu_ms = fsm_min(gpu_ms, *from);
    *from -= gpu_ms;
    *to += gpu_ms;
}

/* ---- tenants ---- */

/* Equal texts are one pointer, so a thousand comparisons of pointers find it, once in a job's
 * life. */
static uint16_t tenant_of(struct fsm *fsm, const struct allocation *allocation)
{
    const char *id = allocation->view.tenant;
    uint32_t i = 0;

    CHECK(allocation->view.id != NULL);
    while (i < fsm->tenant_count && fsm->tenants[i]->id != id)
        i++;
    if (i == fsm->tenant_count && i < FSM_TENANTS_MAX)
        fsm_tenant_create(fsm, i + 1 < FSM_TENANTS_MAX ? id : others);
    return (uint16_t)fsm_min(i, FSM_TENANTS_MAX - 1);
}

static struct tenant *account_tenant(const struct fsm *fsm, const struct allocation *allocation)
{
    CHECK(allocation->tenant_slot < fsm->tenant_count);
    return fsm->tenants[allocation->tenant_slot];
}

/* The rates are sums over the tenant's jobs, so one step is what a step of each of them would
 * be. */
static void tenant_settle(struct tenant *tenant, uint64_t now_ms)
{
    struct fsm_account *account = &tenant->account;
    uint64_t passed_ms = now_ms > tenant->at_ms ? now_ms - tenant->at_ms : 0;

    CHECK(tenant->id != NULL);
    account_grow(account, &account->pending_gpu_ms,
                 fsm_multiply(tenant->computing_gpus, passed_ms));
    account_grow(account, &account->lost_gpu_ms[FSM_LOSS_RESTART],
                 fsm_multiply(tenant->restarting_gpus, passed_ms));
    tenant->at_ms = now_ms;
}

/* ---- both ---- */

/* What is held while a part is to start is the restart's loss at once; all else is open until a
 * checkpoint or an end decides it. */
static uint64_t *part_growing(struct fsm_account *account, bool restarting)
{
    return restarting ? &account->lost_gpu_ms[FSM_LOSS_RESTART] : &account->pending_gpu_ms;
}

static void allocation_settle(const struct allocation *allocation, uint64_t now_ms,
                              struct fsm_account *account)
{
    uint64_t passed_ms =
        now_ms > allocation->account_at_ms ? now_ms - allocation->account_at_ms : 0;

    CHECK(allocation->view.id != NULL);
    account_grow(account, part_growing(account, allocation->account_restarting),
                 fsm_multiply(allocation->account_gpus, passed_ms));
}

/* Before anything is moved, and before a rate changes: both count from one instant. */
static void account_settle(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    tenant_settle(account_tenant(fsm, allocation), fsm->now_ms);
    allocation_settle(allocation, fsm->now_ms, &allocation->account);
    allocation->account_at_ms = fsm->now_ms;
}

/* Moves what is pending to a cause, in the job's account and its tenant's alike. The amount goes
 * into the state's hash, by which members whose accounts part find out. */
static void account_lose(struct fsm *fsm, struct allocation *allocation, enum fsm_loss cause,
                         uint64_t gpu_ms)
{
    struct fsm_account *account = &allocation->account;
    struct fsm_account *tenant = &account_tenant(fsm, allocation)->account;

    CHECK((unsigned)cause < FSM_LOSS_COUNT);
    CHECK(allocation->view.id != NULL);
    gpu_ms = fsm_min(gpu_ms, account->pending_gpu_ms);
    fsm->state_hash = fsm_hash_mix(fsm->state_hash ^ cause, gpu_ms);
    account_move(&account->pending_gpu_ms, &account->lost_gpu_ms[cause], gpu_ms);
    account_move(&tenant->pending_gpu_ms, &tenant->lost_gpu_ms[cause], gpu_ms);
}

/* Moves what is pending to what is useful: it is saved, or the job is complete. */
static void account_keep(struct fsm *fsm, struct allocation *allocation, uint64_t gpu_ms)
{
    struct fsm_account *account = &allocation->account;
    struct fsm_account *tenant = &account_tenant(fsm, allocation)->account;

    CHECK(allocation->view.id != NULL);
    gpu_ms = fsm_min(gpu_ms, account->pending_gpu_ms);
    fsm->state_hash = fsm_hash_mix(fsm->state_hash ^ FSM_LOSS_COUNT, gpu_ms);
    account_move(&account->pending_gpu_ms, &account->useful_gpu_ms, gpu_ms);
    account_move(&tenant->pending_gpu_ms, &tenant->useful_gpu_ms, gpu_ms);
}

/* It went on from an older checkpoint than its last one: what the younger ones held is computed
 * again. */
static void account_take_back(struct fsm *fsm, struct allocation *allocation,
                              uint64_t useful_gpu_ms)
{
    struct fsm_account *account = &allocation->account;
    struct fsm_account *tenant = &account_tenant(fsm, allocation)->account;
    uint64_t gpu_ms;

    CHECK(allocation->view.id != NULL);
    if (account->useful_gpu_ms <= useful_gpu_ms)
        return;
    gpu_ms = account->useful_gpu_ms - useful_gpu_ms;
    fsm->state_hash = fsm_hash_mix(fsm->state_hash, gpu_ms);
    account_move(&account->useful_gpu_ms, &account->lost_gpu_ms[FSM_LOSS_FAILURE], gpu_ms);
    account_move(&tenant->useful_gpu_ms, &tenant->lost_gpu_ms[FSM_LOSS_FAILURE], gpu_ms);
}

/* The job's part of its tenant's rates: taken out as it was and put in as it is now, so the sums
 * need no walk over jobs. The hazard counts for the same span. */
static void account_rate(struct fsm *fsm, struct allocation *allocation)
{
    struct tenant *tenant = account_tenant(fsm, allocation);
    uint64_t *old =
        allocation->account_restarting ? &tenant->restarting_gpus : &tenant->computing_gpus;

    CHECK(allocation->view.id != NULL);
    CHECK(*old >= allocation->account_gpus);
    *old -= allocation->account_gpus;
    allocation->account_gpus = allocation->assigned ? fsm_account_gpus(&allocation->view) : 0;
    allocation->account_restarting = allocation->starting_count > 0;
    if (allocation->account_restarting)
        tenant->restarting_gpus += allocation->account_gpus;
    else
        tenant->computing_gpus += allocation->account_gpus;
    fsm_calibrate_rate(fsm, allocation);
}

/* Called after whatever changes who computes: the time until now still counts at the old rate. The
 * policy is taken over here, and not at once when it changes: that would be work in proportion to
 * the jobs. */
void fsm_account_update(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    account_settle(fsm, allocation);
    fsm_calibrate_settle(fsm);
    allocation->view.node_gpus = fsm_node_gpus(fsm);
    account_rate(fsm, allocation);
    fsm_moved(fsm, FSM_RECORD_TENANT, allocation->tenant_slot);
}

/* One that began before it was registered has computed since. */
void fsm_account_open(struct fsm *fsm, struct allocation *allocation)
{
    struct tenant *tenant;
    uint64_t before_gpu_ms;

    CHECK(allocation->view.id != NULL);
    allocation->tenant_slot = tenant_of(fsm, allocation);
    tenant = account_tenant(fsm, allocation);
    allocation->account_at_ms = fsm->now_ms;
    fsm_account_update(fsm, allocation);
    before_gpu_ms = fsm_multiply(fsm_since(fsm, allocation->view.started_at_ms),
                                 fsm_account_gpus(&allocation->view));
    account_grow(&allocation->account, &allocation->account.pending_gpu_ms, before_gpu_ms);
    account_grow(&tenant->account, &tenant->account.pending_gpu_ms, before_gpu_ms);
}

/* false: the account does not add up or is ahead of the state's clock; the snapshot is refused. The
 * tenant's own account was read, so only its rates are added to. */
bool fsm_account_adopt(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    if (!fsm_account_balanced(&allocation->account) || allocation->account_at_ms > fsm->now_ms)
        return false;
    allocation->tenant_slot = tenant_of(fsm, allocation);
    account_rate(fsm, allocation);
    return true;
}

/* ---- what happens ---- */

/* By the reason of the end, which people see in the job's history; only a timeout may be a
 * preemption's or not, by whether somebody had asked for the nodes. */
static enum fsm_loss loss_of(const struct allocation *allocation, Ckpt__V1__Reason reason)
{
    CHECK(allocation->view.id != NULL);
    switch (reason) {
    case REASON(PREEMPTED):
    case REASON(PREEMPTED_WITHOUT_CHECKPOINT):
        return FSM_LOSS_PREEMPTION;
    case REASON(CHECKPOINT_TIMEOUT): /* a victim that did not answer */
        return allocation->preemptor_class != 0 ? FSM_LOSS_PREEMPTION : FSM_LOSS_STOP;
    case REASON(WALLTIME_EXCEEDED):
        return FSM_LOSS_WALLTIME;
    case REASON(NONE):
    case REASON(MIGRATED):
        return FSM_LOSS_STOP;
    default: /* the catalogue of reasons grows: what is not known to be meant is a failure */
        return FSM_LOSS_FAILURE;
    }
}

/* A job that completed has used all that it computed, with a last checkpoint or without one. */
void fsm_account_end(struct fsm *fsm, struct allocation *allocation,
                     Ckpt__V1__AllocationState state, Ckpt__V1__Reason reason)
{
    CHECK((unsigned)state < FSM_STATES_ALLOCATION);
    CHECK(allocation->view.id != NULL);
    account_settle(fsm, allocation);
    if (state == ENDS(COMPLETED))
        account_keep(fsm, allocation, UINT64_MAX);
    else
        account_lose(fsm, allocation, loss_of(allocation, reason), UINT64_MAX);
    if (state != ENDS(COMPLETED) && allocation->assigned)
        fsm_calibrate_lost(fsm, allocation, loss_of(allocation, reason), reason);
}

/* Nodes leave, and what was computed on them since the last checkpoint with them. A job that weighs
 * no less afterwards loses nothing. */
void fsm_account_left(struct fsm *fsm, struct allocation *allocation, uint32_t stays)
{
    uint64_t all = fsm_account_gpus(&allocation->view);
    uint64_t gpus = all - fsm_min(stays, all);

    CHECK(allocation->view.id != NULL);
    account_settle(fsm, allocation);
    if (all > 0)
        account_lose(fsm, allocation, FSM_LOSS_STOP,
                     (uint64_t)((__uint128_t)allocation->account.pending_gpu_ms * gpus / all));
}

/* One part's death loses the whole job's work since the last checkpoint: the parts compute
 * together. */
void fsm_account_part_died(struct fsm *fsm, struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    account_settle(fsm, allocation);
    account_lose(fsm, allocation, FSM_LOSS_FAILURE, UINT64_MAX);
    fsm_calibrate_lost(fsm, allocation, FSM_LOSS_FAILURE, REASON(APPLICATION_EXITED));
}

/* restored 0: from nothing. A part that was not expected to start has died unseen, unless it is its
 * first start: its death is booked now. What a younger checkpoint had saved is taken back when the
 * application went on from an older one (damaged, or not found), since it is computed again. */
void fsm_account_part_started(struct fsm *fsm, struct allocation *allocation,
                              const struct assignment *part, uint64_t restored_checkpoint_id)
{
    const struct checkpoint *restored = checkpoint_find(fsm, restored_checkpoint_id);
    bool expected = part->starting;

    CHECK(part->allocation != NULL);
    CHECK(allocation->view.id != NULL);
    if (!expected && allocation->view.restart_count == 0 && restored_checkpoint_id == 0)
        return;
    account_settle(fsm, allocation);
    if (!expected && allocation->starting_count == 0)
        account_lose(fsm, allocation, FSM_LOSS_FAILURE, UINT64_MAX);
    if (restored_checkpoint_id == 0)
        account_take_back(fsm, allocation, 0);
    else if (restored != NULL && restored->view.allocation_slot == allocation->view.slot &&
             restored->view.completed_at_ms != 0)
        account_take_back(fsm, allocation,
                          restored->view.useful_gpu_ms -
                              fsm_min(allocation->inherited_gpu_ms, restored->view.useful_gpu_ms));
}

/* The application stands still as long as its slowest part: parts wait for each other. Each report
 * may say a longer pause than the one before; only the difference is booked. No pause can be longer
 * than the time since the dispatch, whatever an agent says. */
void fsm_account_paused(struct fsm *fsm, struct checkpoint *checkpoint, uint64_t stall_ms)
{
    bool preempts = checkpoint->view.purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT;
    uint64_t old_ms = checkpoint->view.stall_ms;
    struct allocation *allocation;

    CHECK(checkpoint->view.id != 0);
    stall_ms = fsm_min(stall_ms, fsm_since(fsm, checkpoint->view.dispatched_at_ms));
    if (stall_ms <= old_ms)
        return;
    allocation = allocation_edit(fsm, allocation_at(fsm, checkpoint->view.allocation_slot));
    if (!fsm_allocation_runs(allocation))
        return;
    checkpoint->view.stall_ms = stall_ms;
    account_settle(fsm, allocation);
    account_lose(fsm, allocation, preempts ? FSM_LOSS_PREEMPTION : FSM_LOSS_CHECKPOINT,
                 fsm_multiply(stall_ms - old_ms, fsm_account_gpus(&allocation->view)));
}

/* What was computed before the application was asked is safe; what it computed since the pause is
 * pending. The sum is kept with the checkpoint: a restart from it later finds what younger ones had
 * held. A job that only computes takes a changed policy over here. */
void fsm_account_saved(struct fsm *fsm, struct allocation *allocation,
                       struct checkpoint *checkpoint)
{
    uint64_t since_ms = fsm_since(fsm, checkpoint->view.snapshot_at_ms);
    uint64_t pending_gpu_ms;

    CHECK(allocation->view.id != NULL);
    CHECK(checkpoint->view.id != 0);
    account_settle(fsm, allocation);
    since_ms -= fsm_min(since_ms, checkpoint->view.stall_ms);
    pending_gpu_ms = fsm_min(fsm_multiply(since_ms, fsm_account_gpus(&allocation->view)),
                             allocation->account.pending_gpu_ms);
    account_keep(fsm, allocation, allocation->account.pending_gpu_ms - pending_gpu_ms);
    checkpoint->view.useful_gpu_ms =
        fsm_add(allocation->inherited_gpu_ms, allocation->account.useful_gpu_ms);
    if (allocation->view.node_gpus != fsm_node_gpus(fsm))
        fsm_account_update(fsm, allocation);
}

/* ---- reading ---- */

/* A copy, grown to the reader's instant; the job's own grows when its rate changes. */
void fsm_allocation_account(const struct fsm *fsm, const struct fsm_allocation *allocation,
                            uint64_t at_ms, struct fsm_account *ret_account)
{
    const struct allocation *record = allocation_at(fsm, allocation->slot);

    CHECK(ret_account != NULL);
    CHECK(allocation->id != NULL);
    *ret_account = record->account;
    allocation_settle(record, fsm_max(at_ms, fsm->now_ms), ret_account);
}

uint32_t fsm_tenant_count(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->tenant_count;
}

const char *fsm_tenant_account(const struct fsm *fsm, uint32_t i, uint64_t at_ms,
                               struct fsm_account *ret_account)
{
    struct tenant tenant;

    CHECK(fsm != NULL);
    CHECK(ret_account != NULL);
    if (i >= fsm->tenant_count)
        return NULL;
    tenant = *fsm->tenants[i];
    tenant_settle(&tenant, fsm_max(at_ms, fsm->now_ms));
    *ret_account = tenant.account;
    return tenant.id;
}

/* The sum of the tenants, who keep what has left: nothing else is kept for it. */
void fsm_cluster_account(const struct fsm *fsm, uint64_t at_ms, struct fsm_account *ret_account)
{
    struct fsm_account one;

    CHECK(fsm != NULL);
    CHECK(ret_account != NULL);
    memset(ret_account, 0, sizeof(*ret_account));
    for (uint32_t i = 0; fsm_tenant_account(fsm, i, at_ms, &one) != NULL; i++) {
        account_grow(ret_account, &ret_account->useful_gpu_ms, one.useful_gpu_ms);
        account_grow(ret_account, &ret_account->pending_gpu_ms, one.pending_gpu_ms);
        for (size_t cause = 0; cause < FSM_LOSS_COUNT; cause++)
            account_grow(ret_account, &ret_account->lost_gpu_ms[cause], one.lost_gpu_ms[cause]);
    }
}
