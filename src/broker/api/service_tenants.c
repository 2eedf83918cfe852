/* ListTenants and PutTenant: the bytes of each tenant's checkpoints, and its limits (fsm/quota.h).
 * See methods.h. */
#include "fsm/quota.h"
#include "src/base/check.h"
#include "src/broker/api/methods.h"

void tenants_answer(struct request *request, struct scratch *scratch)
{
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    uint64_t now_ms = replica_state_ms(request->broker->replica);
    Ckpt__V1__ListTenantsReply reply = CKPT__V1__LIST_TENANTS_REPLY__INIT;
    struct fsm_quota quota;
    const char *tenant;

    reply.tenants = scratch_take(scratch, fsm_tenant_count(fsm) + 1, sizeof(reply.tenants[0]));
    for (uint32_t i = 0; (tenant = fsm_tenant_quota(fsm, i, &quota)) != NULL; i++) {
        Ckpt__V1__TenantStatus *item = scratch_take(scratch, 1, sizeof(*item));

        ckpt__v1__tenant_status__init(item);
        item->spec = scratch_take(scratch, 1, sizeof(*item->spec));
        fsm_tenant_spec_to_message(tenant, &quota, item->spec);
        item->stored_bytes = quota.stored_bytes;
        item->leaving_bytes = quota.leaving_bytes;
        item->running_bytes = quota.running_bytes;
        item->wanted_bytes = fsm_quota_wanted(&quota, now_ms);
        item->refused_at_ms = quota.refused_at_ms;
        reply.tenants[reply.n_tenants++] = item;
    }
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    answer_reply(request->call, &reply.base);
}

enum fsm_status tenants_fill_put(const ProtobufCMessage *message, Ckpt__Log__V1__Command *command,
                                 union method_body *body, struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__PutTenantRequest *asked = (const void *)message;

    (void)ret_outcome;
    if (asked->spec == NULL)
        return FSM_INVALID_ARGUMENT;
    ckpt__log__v1__put_tenant__init(&body->put_tenant);
    body->put_tenant.spec = asked->spec;
    body->put_tenant.zeros = asked->zeros;
    command->put_tenant = &body->put_tenant;
    return FSM_OK;
}
