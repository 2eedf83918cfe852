/* The ranks of a job on this node. See ranks.h. */
#include "src/agent/job/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/job/allocation.h"
#include "src/agent/job/ranks_stream.h"
#include "src/base/check.h"
#include "src/base/text.h"

/* A look that nobody asked about for so long is not used: programs install and drop handlers. */
enum { LOOK_FRESH_US = 1000000 };

static void take_look(struct allocation *allocation)
{
    allocation->executor.ranks_fresh = true;
    allocation->executor.ranks_seen_us = agent_now_us(allocation->agent);
}

static void ranks_looked(void *data, const struct ranks_seen *seen)
{
    struct allocation *allocation = data;
    struct executor *executor = &allocation->executor;

    CHECK(executor->ranks_look != NULL);
    CHECK(executor->seen != NULL);
    CHECK(!executor->ranks_fresh);
    executor->ranks_look = NULL;
    *executor->seen = *seen;
    take_look(allocation);
    executor->ranks_looked(allocation);
}

/* By which it is asked; 0: by none. */
static int signal_of(const struct allocation *allocation)
{
    const int of_profile = allocation->executor.ask->signal;
    const uint32_t own = allocation->entry.ask_signal;

    return of_profile != 0 && own != 0 ? (int)own : of_profile;
}

static void look_at_job(struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct executor *executor = &allocation->executor;
    const int signal = signal_of(allocation);
    struct job_identity job;

    CHECK(executor->ranks_look == NULL);
    CHECK(executor->ask->ranks);
    CHECK((executor->seen == NULL) == (executor->ranks == NULL));
    if (executor->seen == NULL) {
        executor->seen = check_calloc(1, sizeof(*executor->seen));
        executor->ranks = check_calloc(1, sizeof(*executor->ranks));
    }
    allocation_identity(&allocation->entry, &job);
    executor->ranks_look =
        machine->ranks_look(machine->context, &job, signal, ranks_looked, allocation);
    if (executor->ranks_look != NULL)
        return;
    executor->seen->count = executor->seen->hearer_count = 0;
    executor->seen->asks_group = true;
    executor->seen->why[0] = '\0';
    executor->seen->main_name[0] = '\0';
    executor->seen->catches =
        signal == 0 ? PROC_NONE_CATCHES
                    : machine_group_catches(machine, job.group, signal, &executor->seen->group);
    take_look(allocation);
}

/* Those of the only node are all that there are. */
static void count_only_node(const struct ledger_entry *entry, struct ranks_seen *seen)
{
    for (size_t i = 0; i < seen->count && entry->parts == 1; i++) {
        if (seen->items[i].local_count == 0)
            seen->items[i].local_count = seen->items[i].all_count;
    }
}

/* Who was a script then may be a launcher now, which catches the signal to hand it on, or a rank:
 * without ranks a group is asked as what it was when it was looked at. */
bool ranks_executed_since(const struct allocation *allocation, char ret_why[JOB_DETAIL_BYTES])
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct ranks_seen *seen = allocation->executor.seen;
    const pid_t pid = (pid_t)allocation->entry.pid;
    struct proc_stat now;

    if (seen == NULL || seen->count > 0 || seen->main_name[0] == '\0' ||
        machine->process_read(machine->context, pid, &now, NULL) != 0 ||
        strcmp(now.name, seen->main_name) == 0)
        return false;
    snprintf(ret_why, JOB_DETAIL_BYTES, "pid %d was %s and has just executed %s", (int)pid,
             seen->main_name, now.name);
    return true;
}

bool ranks_see(struct allocation *allocation, const struct ranks_table **ret_table,
               char ret_why[JOB_DETAIL_BYTES])
{
    struct executor *executor = &allocation->executor;

    *ret_table = NULL;
    if (!executor->ask->ranks)
        return true; /* one is asked for all */
    if (executor->ranks_fresh &&
        agent_now_us(allocation->agent) - executor->ranks_seen_us > LOOK_FRESH_US)
        executor->ranks_fresh = false;
    if (!executor->ranks_fresh && executor->ranks_look == NULL)
        look_at_job(allocation);
    if (!executor->ranks_fresh) {
        text_copy(ret_why, JOB_DETAIL_BYTES, "the processes of the job are being looked at");
        return false;
    }
    CHECK(executor->seen != NULL);
    executor->ranks_fresh = false;
    ranks_lay_over(allocation, executor->seen);
    count_only_node(&allocation->entry, executor->seen);
    if (ranks_executed_since(allocation, ret_why) ||
        !ranks_ready(executor->seen, allocation->entry.ranks_declared, executor->ranks, ret_why))
        return false;
    *ret_table = executor->ranks;
    return true;
}

struct rank_fact *ranks_answers(struct allocation *allocation)
{
    struct executor *executor = &allocation->executor;

    CHECK(allocation->entry.rank_count > 0);
    CHECK(allocation->entry.rank_count <= LEDGER_RANKS_MAX);
    if (executor->answers == NULL)
        executor->answers = check_calloc(LEDGER_RANKS_MAX, sizeof(*executor->answers));
    return executor->answers;
}

void ranks_forget(struct allocation *allocation)
{
    struct executor *executor = &allocation->executor;

    allocation_machine(allocation)->ranks_detach(executor->ranks_look);
    executor->ranks_look = NULL;
    executor->ranks_fresh = false;
    free(executor->seen);
    free(executor->ranks);
    free(executor->answers);
    executor->seen = NULL;
    executor->ranks = NULL;
    executor->answers = NULL;
}
