/* The reports of the small agent: kept until acknowledged, sent once, twice, late or out of order.
 * See agent_model.c. */
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/agent_model.h"
#include "tests/sim/agent_store.h"
#include "tests/sim/agent_world.h"

enum { REPORTS_MAX = 4096 };

void model_reports_drop(struct model *model, uint64_t upto)
{
    size_t count = 0;

    while (count < model->report_count && model->reports[count].sequence <= upto)
        free(model->reports[count++].bytes);
    model->report_count -= count;
    if (model->report_count > 0)
        memmove(model->reports, model->reports + count,
                model->report_count * sizeof(*model->reports));
}

void model_report_add(struct model *model, struct world *world, unsigned number,
                      Ckpt__V1__AgentReport *report)
{
    Ckpt__V1__AgentUp up = CKPT__V1__AGENT_UP__INIT;
    struct report *kept;

    CHECK(model->report_count < REPORTS_MAX);
    report->sequence = ++model->sequence;
    report->at_ms = sim_wall_ms(world->sim, WORLD_AGENT_NODE + number);
    up.body_case = CKPT__V1__AGENT_UP__BODY_REPORT;
    up.report = report;
    model->reports =
        check_realloc(model->reports, model->report_count + 1, sizeof(*model->reports));
    kept = &model->reports[model->report_count++];
    kept->sequence = report->sequence;
    kept->length = ckpt__v1__agent_up__get_packed_size(&up);
    kept->bytes = check_alloc(kept->length);
    ckpt__v1__agent_up__pack(&up, kept->bytes);
}

/* As src/agent/durable/ledger.h: the node was removed, and the state counts its reports from the
 * first one again. */
void model_reports_align(struct model *model, uint64_t acknowledged)
{
    uint64_t sequence = acknowledged;

    if (acknowledged <= model->sequence)
        model_reports_drop(model, acknowledged);
    if (model->report_count == 0 ? model->sequence == acknowledged
                                 : model->reports[0].sequence == acknowledged + 1)
        return;
    for (size_t i = 0; i < model->report_count; i++) {
        struct report *kept = &model->reports[i];
        Ckpt__V1__AgentUp *up = ckpt__v1__agent_up__unpack(NULL, kept->length, kept->bytes);

        CHECK(up != NULL);
        up->report->sequence = kept->sequence = ++sequence;
        kept->length = ckpt__v1__agent_up__get_packed_size(up);
        kept->bytes = check_realloc(kept->bytes, kept->length, 1);
        ckpt__v1__agent_up__pack(up, kept->bytes);
        ckpt__v1__agent_up__free_unpacked(up, NULL);
    }
    for (unsigned job = 0; job < WORLD_JOBS_MAX; job++) /* which of them the state knows of */
        model->parts[job].began_sequence = UINT64_MAX;
    model->sequence = sequence;
}

void model_report(struct process *process, Ckpt__V1__ReportKind kind, unsigned job,
                  Ckpt__V1__Reason reason)
{
    struct model_part *part = &process->model->parts[job];
    Ckpt__V1__AgentReport message = CKPT__V1__AGENT_REPORT__INIT;

    message.kind = kind;
    message.allocation_id = process->world->jobs[job].id;
    message.reason = reason;
    message.run = kind == REPORT(TERMINATED) ? part->stop_run : part->run;
    if (kind == REPORT(STARTED) || kind == REPORT(SHARD_VERIFIED) ||
        kind == REPORT(CHECKPOINT_FAILED) || kind == REPORT(STOPPED_WRITING) ||
        kind == REPORT(RESPONSIVE) || kind == REPORT(DEFERRED) || kind == REPORT(BARRIER)) {
        message.checkpoint_id = part->checkpoint_id;
        message.attempt = part->attempt;
        message.run = part->attempt_run;
    }
    message.deferral_ms = kind == REPORT(DEFERRED) ? part->deferral_ms : 0;
    message.barrier = kind == REPORT(STARTED) && part->barrier;
    message.step = kind == REPORT(BARRIER) ? part->step : 0;
    if (kind == REPORT(SHARD_VERIFIED)) {
        message.size_bytes = 1 + sim_random(process->world->sim, 1000000000);
        message.ranks = world_ranks_of(&process->world->jobs[job]) - part->gone;
        message.rank_print = 0;
        for (uint32_t number = 0; number < message.ranks; number++)
            message.rank_print += rank_print(number);
        message.ranks_all = process->world->jobs[job].ranks; /* a launcher on each node */
        message.label = part->label;
        message.manifest_sha256 = part->manifest;
        message.write_ms = 1 + sim_random(process->world->sim, 1000);
    }
    model_report_add(process->model, process->world, process->number, &message);
}

/* At once, without a worker; now and then it fails, or does again what it has done. */
void model_collect(struct process *process, const Ckpt__V1__Order *order)
{
    struct world *world = process->world;
    struct model *model = process->model;
    Ckpt__V1__AgentReport message = CKPT__V1__AGENT_REPORT__INIT;
    const struct world_target *target = world_target_of_path(world, order->path);
    bool fails;

    for (size_t i = 0; i < ARRAY_COUNT(model->collects); i++)
        if (model->collects[i].id == order->checkpoint_id &&
            model->collects[i].attempt == order->attempt && !model_mischief(process))
            return;
    model->collects[model->collect_count % ARRAY_COUNT(model->collects)].id = order->checkpoint_id;
    model->collects[model->collect_count++ % ARRAY_COUNT(model->collects)].attempt = order->attempt;
    fails = target == NULL || target->state == WORLD_STORAGE_DOWN ||
            target->state == WORLD_STORAGE_HANGING || model_mischief(process) ||
            world_keeps(world, order->path, true);
    if (!fails) {
        world_collected(world, order->path);
        if (world_shipping_store() != NULL)
            agent_store_remove(world_shipping_store(), order->path);
        orphans_collected(world, order->path);
    }
    message.kind = fails ? REPORT(COLLECT_FAILED) : REPORT(COLLECTED);
    message.allocation_id = order->allocation_id;
    message.checkpoint_id = order->checkpoint_id;
    message.attempt = order->attempt;
    message.size_bytes = fails ? 0 : sim_random(world->sim, 1000000);
    model_report_add(model, world, process->number, &message);
}

/* At once, without a worker; now and then it cannot, or reads again what it has read. */
void model_verify(struct process *process, const Ckpt__V1__Order *order)
{
    struct world *world = process->world;
    struct model *model = process->model;
    Ckpt__V1__AgentReport message = CKPT__V1__AGENT_REPORT__INIT;
    const struct world_target *target = world_target_of_path(world, order->path);
    char part[PART_NAME_BYTES];

    for (size_t i = 0; i < ARRAY_COUNT(model->reads); i++)
        if (model->reads[i].id == order->checkpoint_id &&
            model->reads[i].attempt == order->attempt && !model_mischief(process))
            return;
    model->reads[model->read_count % ARRAY_COUNT(model->reads)].id = order->checkpoint_id;
    model->reads[model->read_count++ % ARRAY_COUNT(model->reads)].attempt = order->attempt;
    if (target == NULL || target->state == WORLD_STORAGE_DOWN ||
        target->state == WORLD_STORAGE_HANGING || model_mischief(process))
        message.kind = REPORT(VERIFY_FAILED);
    else if (world_shipping_store() == NULL ||
             agent_store_verifies(world_shipping_store(), order->path,
                                  part_name_format(order->part, part), order->manifest_sha256))
        message.kind = REPORT(VERIFIED);
    else
        message.kind = REPORT(VERIFY_DAMAGED);
    message.allocation_id = order->allocation_id;
    message.checkpoint_id = order->checkpoint_id;
    message.attempt = order->attempt;
    message.part = order->part;
    model_report_add(model, world, process->number, &message);
}

void model_reports_send(struct process *process)
{
    struct model *model = process->model;

    for (size_t i = 0; i < model->report_count && process->call != NULL; i++) {
        const struct report *kept = &model->reports[i];
        if (kept->sequence <= process->sent)
            continue;
        if (model_mischief(process)) {
            if (sim_chance(process->world->sim, 2))
                return; /* later */
            if (i > 0)  /* one that was sent before */
                (void)rpc_client_call_send(process->call, model->reports[i - 1].bytes,
                                           model->reports[i - 1].length);
            else if (model->report_count > 1) { /* out of order */
                (void)rpc_client_call_send(process->call, model->reports[1].bytes,
                                           model->reports[1].length);
            }
        }
        (void)rpc_client_call_send(process->call, kept->bytes, kept->length);
        process->sent = kept->sequence;
    }
}
