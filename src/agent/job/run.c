/* An allocation begins and ends on this node, and for which run something of it may run here, as
 * order sets and restart points say. See allocation.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/job/allocation.h"
#include "src/base/check.h"

struct allocation *allocation_new(struct agent *agent, const char *allocation_id,
                                  const struct ledger_entry *entry)
{
    struct allocation *allocation = check_calloc(1, sizeof(*allocation));

    CHECK(entry == NULL || strcmp(entry->allocation_id, allocation_id) == 0);
    CHECK(id_valid(allocation_id));
    allocation->agent = agent;
    if (entry != NULL)
        allocation->entry = *entry;
    else
        snprintf(allocation->entry.allocation_id, sizeof(allocation->entry.allocation_id), "%s",
                 allocation_id);
    executor_init(allocation);
    list_init(&allocation->node);
    return allocation;
}

void allocation_free(struct allocation *allocation)
{
    CHECK(!allocation->executor.stepping);
    if (allocation->stream != NULL)
        allocation->agent->callers->orphan(allocation->stream);
    allocation_machine(allocation)->remove_detach(allocation->sweep);
    executor_close(allocation);
    list_remove(&allocation->node);
    free(allocation);
}

/* ---- which life ---- */

/* Of a run before the one here, or of the next one while an application of this one runs. */
static bool part_of_other(const struct allocation *allocation, const Ckpt__V1__AllocationPart *part)
{
    uint64_t own = allocation->entry.run;

    CHECK(strcmp(part->allocation_id, allocation->entry.allocation_id) == 0);
    return reconcile_late(allocation->agent->orders, part->run, own) ||
           (allocation->process.state != PROCESS_ABSENT && own != 0 && part->run > own);
}

void allocation_take_part(struct allocation *allocation, const Ckpt__V1__AllocationPart *part,
                          const struct walltime_word *from)
{
    struct walltime_word word = *from;

    word.remaining_ms = part->remaining_ms;
    word.grace_ms = part->grace_ms;
    word.walltime_ms = part->walltime_ms;
    word.restart = part->restart_checkpoint_id;
    walltime_post(allocation, WALLTIME_TOLD, &word);
}

void allocation_take_orders(struct allocation *allocation)
{
    const struct agent *agent = allocation->agent;
    const Ckpt__V1__OrderSet *orders = agent->orders;
    const Ckpt__V1__AllocationPart *part;
    struct walltime_word word;

    if (orders == NULL)
        return;
    part = reconcile_part(orders, allocation->entry.allocation_id);
    word = (struct walltime_word){.epoch = orders->epoch,
                                  .index = orders->index,
                                  .came_us = agent->orders_taken_us,
                                  .run = part == NULL ? 0 : part->run};
    if (part == NULL && reconcile_judges(orders, allocation->entry.named_run))
        walltime_post(allocation, WALLTIME_UNNAMED, &word);
    else if (part != NULL && !part_of_other(allocation, part))
        allocation_take_part(allocation, part, &word);
}

bool allocation_set_run(struct allocation *allocation, uint64_t epoch, uint64_t run)
{
    bool other = job_run_new(&allocation->entry, run);

    if (job_run_over(&allocation->entry, epoch, run))
        return false;
    CHECK(allocation->process.state == PROCESS_ABSENT);
    walltime_post(allocation, WALLTIME_RUN, &(struct walltime_word){.run = run});
    if (other)
        allocation_take_orders(allocation);
    return true;
}

uint64_t allocation_outage_run(struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;

    allocation_take_orders(
        allocation); /* while one of another run ran, that one's walltime counted */
    if (entry->named_run <= entry->ended_run ||
        (entry->walltime_ms != 0 && entry->deadline_us == 0) ||
        (entry->parts != 1 && entry->named_restart != 0)) /* the other parts begin from that */
        return 0;
    return entry->named_run;
}
