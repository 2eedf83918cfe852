/* The replicated policy: defaults of a new cluster, and changes where a field at zero stays as it is. */
#include "fsm/state.h"

void fsm_policy_defaults(Ckpt__V1__Policy *policy)
{
    ckpt__v1__policy__init(policy);
    policy->evaluation_interval_ms = 30000;
    policy->min_interval_ms = 300000;
    policy->max_interval_ms = 21600000;
    policy->checkpoint_timeout_ms = 600000;
    policy->grace_ms = 30000;
    policy->max_deferral_ms = 300000;
    policy->max_victims = 3;
    policy->near_completion_ms = 300000;
    policy->retention_ms = 604800000;
    policy->keep_complete = 2;
    policy->max_attempts = 3;
    policy->retry_backoff_ms = 5000;
    policy->node_degraded_after_ms = 30000;
    policy->node_down_after_ms = 90000;
    policy->node_failures_per_1000_node_days_milli = 6500;
    policy->quiesce_ms = 2000;
    policy->stall_fraction_ppm = 1000000;
    policy->restart_cost_ms = 180000;
    policy->micro_usd_per_gpu_hour = 2000000;
    policy->default_write_bytes_per_s = 2000000000;
    policy->max_requeue = 3;
    policy->session_ttl_ms = 86400000;
    policy->sensitive_min_interval_ms = 600000;
    policy->sensitive_max_interval_ms = 3600000;
    policy->sensitive_timeout_ms = 900000;
    policy->queue_max_age_ms = 300000;
    policy->learned_interval_ms = 300000;
    policy->hazard_forget_ms = 2592000000;
    policy->demand_forget_ms = 21600000;
}

/* By the descriptor, so that a new field of the policy needs no line here. */
void fsm_policy_merge(Ckpt__V1__Policy *policy, const Ckpt__V1__Policy *changes)
{
    const ProtobufCMessageDescriptor *descriptor = &ckpt__v1__policy__descriptor;

    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        size_t size = field->type == PROTOBUF_C_TYPE_UINT32 ? sizeof(uint32_t) : sizeof(uint64_t);
        uint64_t value = 0;

        CHECK(field->type == PROTOBUF_C_TYPE_UINT32 || field->type == PROTOBUF_C_TYPE_UINT64);
        memcpy(&value, (const char *)changes + field->offset, size);
        if (value != 0)
            memcpy((char *)policy + field->offset, &value, size);
    }
}
