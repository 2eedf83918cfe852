/* What the API tells of a record, and a snapshot holds of it: the rows of the tables copied. Texts
 * are borrowed from the state. What follows from other fields is the caller's
 * (src/broker/explain/translate.c), where it wants it. */
#include "fsm/core/state.h"

void fsm_spec_to_message(const struct fsm_allocation *from, Ckpt__V1__AllocationSpec *to)
{
    CHECK(from->id != NULL);
    CHECK(to != NULL);
    ckpt__v1__allocation_spec__init(to);
    to->allocation_id = record_text(from->id);
    RECORD_COPY(FSM_ALLOCATION_SPEC, from, to);
}

void fsm_spec_from_message(struct fsm *fsm, const Ckpt__V1__AllocationSpec *from,
                           struct fsm_allocation *to)
{
    CHECK(from != NULL);
    CHECK(to->id != NULL);
    RECORD_TAKE(FSM_ALLOCATION_SPEC, fsm, from, to);
}

void fsm_allocation_to_message(const struct fsm_allocation *from, Ckpt__V1__Allocation *to)
{
    CHECK(from->id != NULL);
    CHECK(to != NULL);
    ckpt__v1__allocation__init(to);
    RECORD_COPY(FSM_ALLOCATION_STATUS, from, to);
}

void fsm_checkpoint_to_message(const struct fsm_checkpoint *from, Ckpt__V1__Checkpoint *to)
{
    union {
        const Ckpt__V1__DecisionTerms *constant;
        Ckpt__V1__DecisionTerms *changing;
    } terms = {from->terms};

    CHECK(from->id != 0);
    CHECK(to != NULL);
    ckpt__v1__checkpoint__init(to);
    to->checkpoint_id = from->id;
    to->detail = record_text(from->detail);
    to->terms = terms.changing;
    RECORD_COPY(FSM_CHECKPOINT_STATUS, from, to);
}

void fsm_target_spec_to_message(const struct fsm_target *from, Ckpt__V1__TargetSpec *to)
{
    CHECK(from->id != NULL);
    CHECK(to != NULL);
    ckpt__v1__target_spec__init(to);
    to->target_id = record_text(from->id);
    to->is_default = from->is_default;
    RECORD_COPY(FSM_TARGET_SPEC, from, to);
}

void fsm_tenant_spec_to_message(const char *tenant, const struct fsm_quota *quota,
                                Ckpt__V1__TenantSpec *ret_message)
{
    CHECK(tenant != NULL);
    ckpt__v1__tenant_spec__init(ret_message);
    ret_message->tenant = record_text(tenant);
    RECORD_COPY(FSM_TENANT_SPEC, quota, ret_message);
}

void fsm_account_to_message(const struct fsm_account *account, Ckpt__V1__GpuAccount *ret_message)
{
    CHECK(ret_message != NULL);
    CHECK(account != NULL);
    ckpt__v1__gpu_account__init(ret_message);
    ret_message->held_gpu_ms = account->held_gpu_ms;
    ret_message->useful_gpu_ms = account->useful_gpu_ms;
    ret_message->pending_gpu_ms = account->pending_gpu_ms;
#define X(upper, lower) ret_message->lost_##lower##_gpu_ms = account->lost_gpu_ms[FSM_LOSS_##upper];
    FSM_LOSSES(X)
#undef X
}

void fsm_account_from_message(const Ckpt__V1__GpuAccount *message, struct fsm_account *ret_account)
{
    CHECK(message != NULL);
    ret_account->held_gpu_ms = message->held_gpu_ms;
    ret_account->useful_gpu_ms = message->useful_gpu_ms;
    ret_account->pending_gpu_ms = message->pending_gpu_ms;
#define X(upper, lower) ret_account->lost_gpu_ms[FSM_LOSS_##upper] = message->lost_##lower##_gpu_ms;
    FSM_LOSSES(X)
#undef X
}

void fsm_pause_to_message(const struct fsm_pause *pause, Ckpt__V1__ClusterPause *ret_message)
{
    CHECK(pause != NULL);
    ckpt__v1__cluster_pause__init(ret_message);
    ret_message->since_ms = pause->since_ms;
    ret_message->until_ms = pause->until_ms;
    ret_message->by = record_text(pause->by);
    ret_message->reason = record_text(pause->reason);
}
