/* The measures of one sensitive job. See measures.h. */
#include "src/broker/api/measures.h"

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/broker/api/access.h"
#include "src/broker/api/methods.h"
#include "src/broker/api/own.h"

bool measures_hidden_from(const struct rpc_call *call, const struct fsm_allocation *allocation)
{
    return allocation != NULL && allocation->sensitive &&
           !access_is_kind(rpc_call_peer(call), TLS_SCHEDULER);
}

bool measures_hidden(const struct request *request, const struct fsm_allocation *allocation)
{
    CHECK(request->call != NULL);
    return !own_asks(request->method, request->call) &&
           measures_hidden_from(request->call, allocation);
}

void measures_clear_job(Ckpt__V1__Allocation *job)
{
    job->lost_gpu_ms = 0;
    job->size_estimate_bytes = 0;
    job->write_estimate_ms = 0;
    job->told_write_ms = 0;
    job->last_step_at_ms = 0;
    job->learned = NULL;
    job->hang_text = text_message("");
}

void measures_clear_checkpoint(Ckpt__V1__Checkpoint *checkpoint)
{
    checkpoint->size_bytes = 0;
    checkpoint->recompute_saved_gpu_ms = 0;
    checkpoint->deferred_ms = 0;
    checkpoint->told_write_ms = 0;
    checkpoint->told_end_at_ms = 0;
    checkpoint->agreed_step = 0;
    checkpoint->label = text_message("");
    checkpoint->terms = NULL;
    for (size_t i = 0; i < checkpoint->n_shards; i++) {
        checkpoint->shards[i]->size_bytes = 0;
        checkpoint->shards[i]->written_bytes = 0;
    }
}

void measures_clear_event(Ckpt__V1__Event *event)
{
    event->size_bytes = 0;
    event->duration_ms = 0;
    event->storage_micro_usd_per_month = 0;
}
