/* How the ranks of the small agent come to one step, and what they call it. See agent_model.c.
 *
 * Flow     model_ranks_asked() at the beginning of an attempt; model_ranks_tick() says that all
 *          know of it, then which step they can meet, and saves at the one that was agreed.
 * Shapes   all nodes count steps alike, by the world's time; MODEL_STEP_US each.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tests/sim/agent_model.h"

enum {
    MODEL_STEP_US = 10000,
    LEAD_STEPS = 150,  /* that they promise to be behind the one they name, at most */
    SLOW_US = 3000000, /* that one may take until it hears of the attempt */
    WRONG_IN = 15,     /* one label in so many is another one than the others' */
    SILENT_IN = 15,    /* one in so many never says a step */
    GONE_IN = 40       /* in one attempt of so many a rank of the node has died unnoticed */
};

enum { TOLD_NOTHING, TOLD_AWARE, TOLD_STEP, TOLD_ALL };

static uint64_t step_now(const struct process *process)
{
    return sim_now_us(process->world->sim) / MODEL_STEP_US;
}

static void name_label(const struct process *process, struct model_part *part, uint64_t step)
{
    bool wrong = !process->model->calm && sim_chance(process->world->sim, WRONG_IN);

    snprintf(part->label, sizeof(part->label), "%" PRIu64, step + wrong);
}

void model_ranks_asked(struct process *process, unsigned job)
{
    const struct world_job *own = &process->world->jobs[job];
    struct model_part *part = &process->model->parts[job];
    struct sim *sim = process->world->sim;

    part->barrier = own->labels == LABELS_AGREED;
    part->told = TOLD_NOTHING;
    part->gone = own->ranks > 1 && !process->model->calm && sim_chance(sim, GONE_IN);
    part->label[0] = '\0';
    if (own->labels == LABELS_NONE)
        snprintf(part->label, sizeof(part->label), "unordered");
    if (own->labels == LABELS_NAMED) /* something that all count alike: the checkpoint itself */
        name_label(process, part, part->checkpoint_id & UINT32_MAX);
    if (!part->barrier)
        return;
    part->aware_us = sim_now_us(sim) + sim_random(sim, sim_chance(sim, 12) ? SLOW_US : 300000);
    part->done_us = UINT64_MAX;
}

static const Ckpt__V1__Order *order_of(const struct process *process, unsigned job,
                                       const struct model_part *part)
{
    for (size_t i = 0; process->orders != NULL && i < process->orders->n_orders; i++) {
        const Ckpt__V1__Order *order = process->orders->orders[i];
        if (order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_CHECKPOINT &&
            strcmp(order->allocation_id, process->world->jobs[job].id) == 0 &&
            order->checkpoint_id == part->checkpoint_id && order->attempt == part->attempt)
            return order;
    }
    return NULL;
}

static void agreed(struct process *process, unsigned job, uint64_t step)
{
    struct model_part *part = &process->model->parts[job];
    struct sim *sim = process->world->sim;

    part->told = TOLD_ALL;
    if (step <= step_now(process)) {
        part->busy = false;
        model_report(process, REPORT(CHECKPOINT_FAILED), job, CKPT__V1__REASON__REASON_STEP_MISSED);
        return;
    }
    part->done_us = step * MODEL_STEP_US + 20000 + sim_random(sim, 1200000);
    name_label(process, part, step);
}

void model_ranks_tick(struct process *process, unsigned job, uint64_t now)
{
    struct model_part *part = &process->model->parts[job];
    const Ckpt__V1__Order *order = order_of(process, job, part);
    struct sim *sim = process->world->sim;

    if (!part->busy || !part->barrier || part->cancelled || order == NULL)
        return;
    if (part->told == TOLD_NOTHING && now >= part->aware_us) {
        part->told = TOLD_AWARE;
        part->step = 0;
        model_report(process, REPORT(BARRIER), job, CKPT__V1__REASON__REASON_NONE);
    } else if (part->told == TOLD_AWARE &&
               order->barrier == CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_STEPPING) {
        part->told = !process->model->calm && sim_chance(sim, SILENT_IN) ? TOLD_ALL : TOLD_STEP;
        if (part->told == TOLD_ALL)
            return;
        part->step = step_now(process) + 30 + sim_random(sim, LEAD_STEPS);
        model_report(process, REPORT(BARRIER), job, CKPT__V1__REASON__REASON_NONE);
    } else if (part->told == TOLD_STEP &&
               order->barrier == CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_AGREED) {
        agreed(process, job, order->agreed_step);
    }
}
