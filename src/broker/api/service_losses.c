/* GetLosses and GetCalibration: the accounts of the state, and what was predicted beside what came
 * (fsm/RULES.md, "Where GPU time goes", "Predicted and actual"). See methods.h. */
#include <string.h>

#include "src/base/check.h"
#include "src/broker/api/measures.h"
#include "src/broker/api/methods.h"

/* One row of the reply: a job, a tenant, or the cluster, which has no name. */
static void add_account(Ckpt__V1__GetLossesReply *reply, struct scratch *scratch, const char *name,
                        const struct fsm_account *account, uint64_t waited_ms)
{
    Ckpt__V1__Losses *item = scratch_take(scratch, 1, sizeof(*item));

    ckpt__v1__losses__init(item);
    item->name = translate_text(name);
    item->account = scratch_take(scratch, 1, sizeof(*item->account));
    fsm_account_to_message(account, item->account);
    item->waited_ms = waited_ms;
    reply->losses[reply->n_losses++] = item;
}

/* An account of one job, up to the moment of asking. */
static enum fsm_status add_allocation(const struct fsm *fsm, uint64_t at_ms, const char *id,
                                      struct scratch *scratch, Ckpt__V1__GetLossesReply *reply)
{
    const struct fsm_allocation *allocation = fsm_allocation_find(fsm, id);
    struct fsm_account account;

    if (allocation == NULL)
        return FSM_ALLOCATION_NOT_FOUND;
    fsm_allocation_account(fsm, allocation, at_ms, &account);
    add_account(reply, scratch, allocation->id, &account, allocation->waited_ms);
    return FSM_OK;
}

/* wanted NULL: the cluster, then all. A tenant that never held anything is no error. */
static void add_tenants(const struct fsm *fsm, uint64_t at_ms, const char *wanted,
                        struct scratch *scratch, Ckpt__V1__GetLossesReply *reply)
{
    struct fsm_account account;
    const char *tenant;

    if (wanted == NULL) {
        fsm_cluster_account(fsm, at_ms, &account);
        add_account(reply, scratch, "", &account, 0);
    }
    for (uint32_t i = 0; (tenant = fsm_tenant_account(fsm, i, at_ms, &account)) != NULL; i++) {
        if (wanted == NULL || strcmp(tenant, wanted) == 0)
            add_account(reply, scratch, tenant, &account, 0);
    }
}

/* One allocation, one tenant, or the cluster with all tenants. */
void losses_answer(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__GetLossesRequest *asked = (const void *)request->message;
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    Ckpt__V1__GetLossesReply reply = CKPT__V1__GET_LOSSES_REPLY__INIT;
    uint64_t at_ms = replica_state_ms(request->broker->replica);

    if (measures_hidden(request, fsm_allocation_find(fsm, asked->allocation_id))) {
        request_refuse(request, FSM_MEASURES_HIDDEN, 0, 0);
        return;
    }
    reply.losses = scratch_take(scratch, fsm_tenant_count(fsm) + 1, sizeof(reply.losses[0]));
    if (asked->allocation_id[0] == '\0') {
        add_tenants(fsm, at_ms, asked->tenant[0] != '\0' ? asked->tenant : NULL, scratch, &reply);
    } else if (add_allocation(fsm, at_ms, asked->allocation_id, scratch, &reply) != FSM_OK) {
        request_refuse(request, FSM_ALLOCATION_NOT_FOUND, 0, 0);
        return;
    }
    reply.at_ms = at_ms;
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    answer_reply(request->call, &reply.base);
}

/* With the bounds of the histogram, so that readers need no table of their own. */
void calibration_answer(struct request *request, struct scratch *scratch)
{
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    Ckpt__V1__GetCalibrationReply reply = CKPT__V1__GET_CALIBRATION_REPLY__INIT;
    Ckpt__V1__Calibration message;
    struct fsm_calibration calibration;
    uint64_t ends_ppm[FSM_RATIO_BINS];

    (void)scratch;
    reply.at_ms = replica_state_ms(request->broker->replica);
    fsm_get_calibration(fsm, reply.at_ms, &calibration);
    fsm_calibration_to_message(&calibration, &message);
    for (size_t bin = 0; bin < FSM_RATIO_BINS; bin++)
        ends_ppm[bin] = fsm_ratio_end_ppm(bin);
    reply.calibration = &message;
    reply.n_ratio_end_ppm = FSM_RATIO_BINS;
    reply.ratio_end_ppm = ends_ppm;
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    answer_reply(request->call, &reply.base);
}
