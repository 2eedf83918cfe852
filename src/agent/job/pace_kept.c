/* A job's pace in the journal. See pace_kept.h. */
#include "src/agent/job/pace_kept.h"

#include <stdlib.h>
#include <string.h>

#include "src/agent/job/allocation.h"
#include "src/agent/job/ranks_stream.h"
#include "src/base/check.h"

static int compare_numbers(const void *left, const void *right)
{
    const struct rank_pace *a = left, *b = right;

    return (a->number > b->number) - (a->number < b->number);
}

static struct ledger_pace kept_of(const struct rank_pace *rank)
{
    CHECK(rank->pace->told);
    return (struct ledger_pace){.number = rank->number,
                                .pid = (uint32_t)rank->pid,
                                .gap_p99_ms = pace_gap_p99_ms(rank->pace),
                                .start_ticks = rank->start_ticks,
                                .step = rank->pace->step,
                                .ns_per_step = rank->pace->ns_per_step};
}

/* Of the journal's words of the same ranks: *ret_stepped: some have other steps. */
static bool paces_differ(const struct ledger_entry *entry, const struct ledger_pace *paces,
                         uint32_t count, bool *ret_stepped)
{
    bool differ = entry->pace_count != count;

    *ret_stepped = false;
    for (uint32_t i = 0; i < count && !differ; i++) {
        const struct ledger_pace *kept = &entry->paces[i];

        differ = kept->number != paces[i].number || kept->pid != paces[i].pid ||
                 kept->start_ticks != paces[i].start_ticks ||
                 paces[i].gap_p99_ms > 2 * (uint64_t)kept->gap_p99_ms;
        *ret_stepped |= kept->step != paces[i].step;
    }
    return differ;
}

void pace_keep(struct allocation *allocation)
{
    struct ledger_entry *entry = &allocation->entry;
    struct pace *pace = ranks_pace(allocation);
    const uint64_t now_us = agent_now_us(allocation->agent);
    struct rank_pace ranks[LEDGER_RANKS_MAX];
    struct ledger_pace paces[LEDGER_RANKS_MAX];
    uint32_t count = 0, gap_ms = 0;
    bool differ, stepped, due;

    if (pace == NULL || !pace->told)
        return;
    count = (uint32_t)ranks_paces(allocation, ranks);
    CHECK(count <= LEDGER_RANKS_MAX);
    qsort(ranks, count, sizeof(*ranks), compare_numbers);
    for (uint32_t i = 0; i < count; i++) {
        paces[i] = kept_of(&ranks[i]);
        if (paces[i].gap_p99_ms > gap_ms)
            gap_ms = paces[i].gap_p99_ms;
    }
    differ = paces_differ(entry, paces, count, &stepped);
    due = pace_stuck(pace, gap_ms) || now_us - pace->kept_us > PACE_KEPT_US;
    if (!differ && !(stepped && due))
        return;
    memcpy(entry->paces, paces, count * sizeof(*paces));
    entry->pace_count = count;
    pace->kept_us = now_us;
    allocation_commit(allocation, NULL, 0);
}

/* The gap with the restart in it is none of its pace. */
void pace_resume(struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;

    CHECK(entry->pace_count <= LEDGER_RANKS_MAX);
    for (uint32_t i = 0; entry->pid != 0 && i < entry->pace_count; i++) {
        const struct ledger_pace *kept = &entry->paces[i];
        const struct rank_pace rank = {
            .number = kept->number, .pid = (pid_t)kept->pid, .start_ticks = kept->start_ticks};
        struct pace_rank *pace;

        if (!machine_alive(allocation_machine(allocation), rank.pid, rank.start_ticks))
            continue;
        pace = check_calloc(1, sizeof(*pace));
        *pace = (struct pace_rank){.told = true,
                                   .cut = true,
                                   .step = kept->step,
                                   .step_us = agent_now_us(allocation->agent),
                                   .ns_per_step = kept->ns_per_step,
                                   .gap_count = kept->gap_p99_ms != 0,
                                   .gap_next = kept->gap_p99_ms != 0,
                                   .gaps_ms = {kept->gap_p99_ms}};
        ranks_recall(allocation, &rank, pace);
    }
}
