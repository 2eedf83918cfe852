/* A job's pace in heartbeats. See pace.h. */
#include "src/agent/job/pace.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/agent/job/allocation.h"
#include "src/agent/job/ranks_stream.h"
#include "src/base/check.h"

enum { STATE_BYTES = 112 };

/* A message with what it points to. */
struct told {
    Ckpt__V1__StepsWord word; /* the first: its address is the whole's */
    Ckpt__V1__BehindRank ranks[PACE_BEHIND_MAX], *list[PACE_BEHIND_MAX];
    char states[PACE_BEHIND_MAX][STATE_BYTES];
};

/* For people. A process that somebody has stopped waits nowhere of its own will. */
static void describe_process(const struct allocation *allocation, pid_t pid, char text[STATE_BYTES])
{
    const struct machine_ops *machine = allocation_machine(allocation);
    char where[MACHINE_WAITS_BYTES] = "";
    struct proc_stat stat;

    CHECK(pid > 0);
    if (machine->process_read(machine->context, pid, &stat, NULL) != 0) {
        snprintf(text, STATE_BYTES, "cannot be read");
        return;
    }
    machine->process_waits(machine->context, pid, where);
    if (stat.state == 'T' || stat.state == 't')
        snprintf(text, STATE_BYTES, "is stopped by a signal (T)");
    else if (where[0] != '\0')
        snprintf(text, STATE_BYTES, "waits in %s (%c)", where, stat.state);
    else
        snprintf(text, STATE_BYTES, "%s (%c)", stat.state == 'R' ? "computes" : "waits",
                 stat.state);
}

static int compare_steps(const void *left, const void *right)
{
    const struct rank_pace *a = left, *b = right;

    CHECK(a->pace->told && b->pace->told);
    if (a->pace->step != b->pace->step)
        return a->pace->step < b->pace->step ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* The leader knows the other nodes' ranks, and which of these are behind. */
static void tell_lowest(const struct allocation *allocation, struct rank_pace *paces, size_t count,
                        struct told *told)
{
    CHECK(count > 0 && count <= LEDGER_RANKS_MAX);
    CHECK(told->word.n_behind == 0);
    qsort(paces, count, sizeof(*paces), compare_steps);
    for (size_t i = 0; i < count && i < PACE_BEHIND_MAX; i++) {
        Ckpt__V1__BehindRank *rank = &told->ranks[i];

        ckpt__v1__behind_rank__init(rank);
        rank->number = paces[i].number;
        rank->pid = (uint32_t)paces[i].pid;
        rank->step = paces[i].pace->step;
        rank->step_most = pace_step_most(paces[i].pace);
        describe_process(allocation, paces[i].pid, told->states[i]);
        rank->state = told->states[i];
        told->list[told->word.n_behind++] = rank;
    }
    told->word.behind = told->list;
}

static void tell_paces(const struct rank_pace *paces, size_t count, Ckpt__V1__StepsWord *word)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t gap_ms = pace_gap_p99_ms(paces[i].pace);

        if (gap_ms > word->gap_p99_ms)
            word->gap_p99_ms = gap_ms;
        if (paces[i].pace->step > word->highest_step)
            word->highest_step = paces[i].pace->step;
    }
    CHECK(word->highest_step >= paces[0].pace->step);
    word->rank_count = (uint32_t)count;
}

void pace_turns(struct allocation *allocation)
{
    struct pace *pace = ranks_pace(allocation);

    CHECK(allocation->agent != NULL);
    CHECK(pace == NULL || pace->turn_us <= agent_now_us(allocation->agent));
    if (pace != NULL)
        pace_turn(pace, agent_now_us(allocation->agent), allocation_under_way(allocation));
}

Ckpt__V1__StepsWord *pace_word_new(struct allocation *allocation)
{
    const uint64_t now_us = agent_now_us(allocation->agent);
    struct pace *pace = ranks_pace(allocation);
    struct rank_pace paces[LEDGER_RANKS_MAX];
    size_t count = pace == NULL || !pace->told ? 0 : ranks_paces(allocation, paces);
    struct told *told;

    if (count == 0)
        return NULL;
    CHECK(pace->step_us <= now_us);
    told = check_calloc(1, sizeof(*told));
    ckpt__v1__steps_word__init(&told->word);
    told->word.under_way = allocation_under_way(allocation);
    tell_paces(paces, count, &told->word);
    told->word.quiet_ms = pace->quiet_us / 1000;
    told->word.stepped_ms = (now_us - pace->step_us) / 1000 + 1;
    if (pace_stuck(pace, (uint32_t)told->word.gap_p99_ms))
        tell_lowest(allocation, paces, count, told);
    return &told->word;
}

void pace_word_free(Ckpt__V1__StepsWord *word)
{
    free(word);
}
