/* One allocation on this node. See allocation.h. */
#include "src/agent/job/allocation.h"

#include <stdio.h>
#include <string.h>

#include "src/agent/job/memory.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"

enum { ATTACH_AGAIN_WAIT_US = 3000000 }; /* a living ckpt-run connects again within a few tries */

void allocation_commit(struct allocation *allocation, Ckpt__V1__AgentReport *report,
                       uint64_t since_us)
{
    CHECK(report == NULL || report->kind != CKPT__V1__REPORT_KIND__REPORT_KIND_UNSPECIFIED);
    if (report != NULL)
        report->allocation_id = allocation->entry.allocation_id;
    agent_commit(allocation->agent, &allocation->entry, report, since_us);
}

struct machine_user allocation_user(const struct allocation *allocation)
{
    struct machine_user user = {.uid = allocation->entry.uid, .gid = allocation->entry.gid};

    snprintf(user.groups, sizeof(user.groups), "%s", allocation->entry.groups);
    return user;
}

const struct restore_owner *allocation_owner(const struct allocation *allocation,
                                             struct restore_owner *owner)
{
    const struct ledger_entry *entry = &allocation->entry;

    *owner = (struct restore_owner){entry->owner, entry->owner_uid};
    return entry->owned ? owner : NULL;
}

bool allocation_stranger(const struct allocation *allocation, uid_t uid)
{
    const struct ledger_entry *entry = &allocation->entry;

    return entry->owned && uid != 0 && uid != entry->owner_uid;
}

void allocation_owner_text(const char *allocation_id, const char *name, uid_t owner_uid, uid_t uid,
                           char text[OWNER_TEXT_BYTES])
{
    CHECK(uid != 0);
    CHECK(uid != owner_uid);
    if (name[0] != '\0')
        snprintf(text, OWNER_TEXT_BYTES,
                 "allocation %s is registered for user %s (uid %u), and you are uid %u; %s must "
                 "start it, or register an allocation of your own",
                 allocation_id, name, (unsigned)owner_uid, (unsigned)uid, name);
    else
        snprintf(text, OWNER_TEXT_BYTES,
                 "allocation %s belongs to uid %u on this node, who came first, and you are uid "
                 "%u; register an allocation of your own",
                 allocation_id, (unsigned)owner_uid, (unsigned)uid);
}

const struct machine_ops *allocation_machine(const struct allocation *allocation)
{
    return &allocation->agent->machine;
}

void allocation_identity(const struct ledger_entry *entry, struct job_identity *ret_job)
{
    *ret_job = (struct job_identity){
        .stragglers = {.run = entry->run, .start_ticks = entry->start_ticks, .uid = entry->uid},
        .group = (pid_t)entry->pid,
        .ranks_declared = entry->ranks_declared,
        .asks_group = entry->asks_group,
        .asks_started = entry->asks_started};
    memcpy(ret_job->stragglers.allocation_id, entry->allocation_id,
           sizeof(ret_job->stragglers.allocation_id));
    memcpy(ret_job->stragglers.work_dir, entry->work_dir, sizeof(ret_job->stragglers.work_dir));
    text_copy(ret_job->cgroup, sizeof(ret_job->cgroup), entry->cgroup);
    for (uint32_t i = 0; i < entry->rank_count; i++)
        if (entry->ranks[i].pid != 0 && entry->ranks[i].start_ticks >= entry->start_ticks)
            ret_job->known[ret_job->known_count++] =
                (struct process_id){(pid_t)entry->ranks[i].pid, entry->ranks[i].start_ticks};
    for (uint32_t i = 0; i < entry->stray_count; i++)
        ret_job->known[ret_job->known_count++] =
            (struct process_id){(pid_t)entry->strays[i].pid, entry->strays[i].start_ticks};
}

static bool is_remembered(const struct ledger_entry *entry, const struct process_id *known)
{
    for (uint32_t i = 0; i < entry->rank_count; i++)
        if (entry->ranks[i].pid == (uint32_t)known->pid &&
            entry->ranks[i].start_ticks == known->start_ticks)
            return true;
    for (uint32_t i = 0; i < entry->stray_count; i++)
        if (entry->strays[i].pid == (uint32_t)known->pid &&
            entry->strays[i].start_ticks == known->start_ticks)
            return true;
    return false;
}

bool allocation_remember(struct ledger_entry *entry, const struct job_identity *job)
{
    const uint32_t before = entry->stray_count;

    CHECK(job->known_count <= JOB_PROCESSES_KNOWN_MAX);
    CHECK(entry->stray_count <= LEDGER_STRAYS_MAX);
    for (uint32_t i = 0; i < job->known_count && entry->stray_count < LEDGER_STRAYS_MAX; i++)
        if (!is_remembered(entry, &job->known[i]))
            entry->strays[entry->stray_count++] =
                (struct ledger_stray){(uint32_t)job->known[i].pid, job->known[i].start_ticks};
    return entry->stray_count > before;
}

bool allocation_other_run(const struct allocation *allocation, uint64_t run)
{
    const Ckpt__V1__OrderSet *orders = allocation->agent->orders;
    uint64_t own = allocation->entry.run;

    if (orders == NULL || own == 0)
        return false;
    return run > own || reconcile_late(orders, run, own);
}

bool allocation_under_way(const struct allocation *allocation)
{
    CHECK(allocation->agent != NULL);
    return allocation->process.state != PROCESS_RUNNING ||
           allocation->entry.still != STANDING_NOT || attempt_busy(&allocation->attempt);
}

void allocation_hand(const struct allocation *allocation, struct hand *ret_hand)
{
    const struct attempt *attempt = &allocation->attempt;
    const struct ledger_entry *entry = &allocation->entry;
    bool busy = attempt_busy(attempt);

    CHECK((allocation->process.state == PROCESS_ABSENT) == (entry->pid == 0));
    CHECK(!busy || attempt->checkpoint_id >= entry->checkpoint_id);
    *ret_hand = (struct hand){
        .allocation_id = entry->allocation_id,
        .checkpoint_id = busy ? attempt->checkpoint_id : entry->checkpoint_id,
        .attempt = busy ? attempt->attempt : entry->attempt,
        .busy = busy,
        .cancelling = attempt_state_cleans(attempt->state),
        .still = attempt->state == ATTEMPT_STILL,
        .put_off = attempt->state == ATTEMPT_DEFERRED,
        .timeout_ms = attempt->timeout_ms,
        .after = attempt->after,
        .barrier = attempt->barrier,
        .agreed_step = attempt->agreed_step,
        .runs = allocation->process.state != PROCESS_ABSENT,
        .stopping = process_state_stops(allocation->process.state) &&
                    allocation->process.cause != STOP_BY_TAKEOVER,
        .ended = entry->ended,
        .terminated = entry->terminated,
        .run = entry->run,
        .ended_run = entry->ended_run,
        .ended_epoch = allocation->process.stop_epoch,
    };
}

bool allocation_idle(const struct allocation *allocation)
{
    return allocation->process.state == PROCESS_ABSENT && !allocation->entry.restart_awaited &&
           allocation->stream == NULL && allocation->sweep == NULL &&
           !attempt_busy(&allocation->attempt) && allocation->entry.copy_count == 0;
}

bool way_is_settled(const struct ledger_entry *entry)
{
    CHECK(entry->way_open <= WAY_OUTSIDE);
    return entry->way_open != WAY_OPEN && entry->way_open != WAY_SOUGHT;
}

bool allocation_region(const struct ledger_entry *entry, char ret_path[ASK_REGION_PATH_BYTES])
{
    const struct ask_ops *ask = ask_find(entry->profile);

    if (ask == NULL || entry->work_dir[0] == '\0' ||
        (!ask->region && entry->way_open != WAY_SOUGHT))
        return false;
    ask_region_path(entry->uid, entry->allocation_id, entry->work_dir, ret_path);
    return true;
}

bool allocation_region_claim(const struct allocation *allocation,
                             char ret_path[ASK_REGION_PATH_BYTES])
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct machine_region region = {ret_path, allocation_user(allocation)};
    struct err err = {0};

    if (!allocation_region(&allocation->entry, ret_path))
        return false;
    if (machine->region_claim(machine->context, &region, &err) != 0)
        log_warning("region_unclaimed", "allocation=%s text=\"%s\"",
                    allocation->entry.allocation_id, err.text);
    return true;
}

static void remove_region(const struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    char path[ASK_REGION_PATH_BYTES];
    const struct machine_region region = {path, allocation_user(allocation)};

    CHECK(allocation->process.state == PROCESS_ABSENT);
    CHECK(allocation->stream == NULL);
    if (allocation_region(&allocation->entry, path))
        machine->region_remove(machine->context, &region);
}

void allocation_rest(struct allocation *allocation)
{
    if (allocation->process.state != PROCESS_ABSENT || allocation->stream != NULL ||
        attempt_busy(&allocation->attempt))
        return;
    CHECK(allocation->executor.worker == NULL);
    CHECK(allocation->executor.call == NULL);
    user_path_close(&allocation->folder);
    user_path_close(&allocation->socket);
    memory_close(allocation);
    remove_region(allocation);
}

bool allocation_abandoned(const struct allocation *allocation)
{
    const struct process *process = &allocation->process;

    return process->state != PROCESS_ABSENT && allocation->stream == NULL &&
           agent_now_us(allocation->agent) - process->unattended_us >= ATTACH_AGAIN_WAIT_US;
}
