/* AppService.ListOwnJobs on the agent's unix socket. See app_jobs.h. */
#include "src/agent/app/app_jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/daemon/session.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/pace.h"
#include "src/agent/job/ranks.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/text.h"

#define LIST_OWN_JOBS_METHOD "/ckpt.v1.AppService/ListOwnJobs"

enum { JOBS_MAX = 200, NOT_FOUND_BYTES = 400 };

bool app_jobs_seen(const struct allocation *allocation, uid_t uid)
{
    const struct ledger_entry *entry = &allocation->entry;

    if (uid == 0)
        return true;
    if (entry->owned)
        return entry->owner_uid == uid;
    return entry->uid == uid && (entry->pid != 0 || allocation->stream != NULL);
}

/* A ckpt-run of this user waits for a job of which nothing has ever been here: as a spare does. */
static bool waits_here(const struct allocation *allocation, uid_t uid)
{
    const struct ledger_entry *entry = &allocation->entry;

    return !entry->owned && entry->pid == 0 && entry->started_at_ms == 0 &&
           allocation->stream != NULL && allocation->agent->callers->uid(allocation->stream) == uid;
}

static bool is_listed(const struct allocation *allocation, uid_t uid)
{
    return app_jobs_seen(allocation, uid) || waits_here(allocation, uid);
}

/* Its ckpt-run is about to start it. One that waits for a restart of what has run here is not: that
 * run has ended, and the cluster says whether another one comes. */
static bool is_starting(const struct allocation *allocation)
{
    const struct caller_ops *callers = allocation->agent->callers;

    if (allocation->entry.restart_awaited)
        return true;
    return allocation->stream != NULL && callers->starts(allocation->stream) &&
           (allocation->entry.started_at_ms == 0 || !callers->awaits(allocation->stream));
}

Ckpt__V1__OwnJobState app_jobs_state(const struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;

    if (allocation->process.state != PROCESS_ABSENT) {
        if (process_state_stops(allocation->process.state))
            return CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_BEING_ENDED;
        return attempt_busy(&allocation->attempt)
                   ? CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_BEING_CHECKPOINTED
                   : CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_RUNNING;
    }
    if (is_starting(allocation))
        return CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_STARTING;
    return entry->started_at_ms == 0 && !entry->ended
               ? CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_NOT_STARTED
               : CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_ENDED;
}

/* A message with what its texts point to. */
struct told {
    Ckpt__V1__OwnJob job;
    struct ledger_entry entry;
    Ckpt__V1__OwnRank *ranks, **rank_list;
};

static void told_free(struct told *told, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(told[i].ranks);
        free(told[i].rank_list);
        pace_word_free(told[i].job.steps);
    }
    free(told);
}

static void tell_ranks(const struct allocation *allocation, struct told *told)
{
    struct rank_word words[LEDGER_RANKS_MAX];
    size_t count = ranks_told(allocation, words);

    told->ranks = check_calloc(count + 1, sizeof(*told->ranks));
    told->rank_list = check_calloc(count + 1, sizeof(*told->rank_list));
    for (size_t i = 0; i < count; i++) {
        ckpt__v1__own_rank__init(&told->ranks[i]);
        told->ranks[i].number = words[i].number;
        told->ranks[i].pid = words[i].pid;
        told->ranks[i].state = text_message(words[i].state);
        told->ranks[i].step = words[i].step;
        told->rank_list[i] = &told->ranks[i];
    }
    told->job.n_ranks = count;
    told->job.ranks = told->rank_list;
}

/* Files do not go because of a failure alone: also a verified checkpoint leaves some here. */
static const char *cleaning_text(const struct attempt *attempt)
{
    switch (attempt->outcome.kind) {
    case CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED:
        return "it has failed, and what was written is removed";
    case CKPT__V1__REPORT_KIND__REPORT_KIND_STOPPED_WRITING:
        return "it is withdrawn, and what was written is removed";
    default:
        return "it is written and verified, and the files that it leaves on this node are removed";
    }
}

const char *app_jobs_asked_state(const struct attempt *attempt)
{
    switch (attempt->state) {
    case ATTEMPT_WAITING:
    case ATTEMPT_STAGING:
    case ATTEMPT_STAGED:
        return "it cannot be asked yet";
    case ATTEMPT_ASKING:
    case ATTEMPT_ASKED:
    case ATTEMPT_RESUMING:
        return "it is asked";
    case ATTEMPT_DEFERRED:
        return "it has put it off";
    case ATTEMPT_FREEZING:
    case ATTEMPT_PUTTING:
        return "it is being copied";
    case ATTEMPT_STILL:
        return "it is written, and the job stands still until it is ended";
    case ATTEMPT_BROKEN:
        return "the call that asks it has ended without an answer";
    case ATTEMPT_HALTING:
    case ATTEMPT_ABANDONING:
    case ATTEMPT_REMOVING:
        return cleaning_text(attempt);
    case ATTEMPT_NONE:
    case ATTEMPT_STATE_COUNT:
        break;
    }
    return "";
}

/* What is asked of it now. */
static void tell_asked(const struct allocation *allocation, Ckpt__V1__OwnJob *job)
{
    const struct attempt *attempt = &allocation->attempt;
    const struct ledger_entry *entry = &allocation->entry;
    uint64_t now_us = agent_now_us(allocation->agent);
    bool asked = !attempt_awaits(attempt) && attempt->state != ATTEMPT_STAGING &&
                 entry->asked_at_us != 0 && entry->asked_at_us <= now_us;

    job->asked_checkpoint_id = attempt->checkpoint_id;
    job->asked_state = text_message(app_jobs_asked_state(attempt));
    job->agreed_step = attempt->agreed_step;
    if (!asked)
        return;
    job->asked_ms = (now_us - entry->asked_at_us) / 1000 + 1;
    if (attempt->timeout_ms > job->asked_ms)
        job->left_ms = attempt->timeout_ms - job->asked_ms;
}

static void tell_last(struct told *told)
{
    const struct ledger_entry *entry = &told->entry;

    told->job.checkpoint_id = entry->last_checkpoint;
    told->job.checkpoint_at_ms = entry->last_at_ms;
    told->job.checkpoint_bytes = entry->last_bytes;
    told->job.checkpoint_path = told->entry.last_path;
    told->job.failed_checkpoint_id = entry->failed_checkpoint;
    told->job.failed_attempt = entry->failed_attempt;
    told->job.failed_at_ms = entry->failed_at_ms;
    told->job.failed_text = told->entry.failed_text;
}

/* Not by this agent. */
static bool is_stopped(const struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct ledger_entry *entry = &allocation->entry;
    struct proc_stat stat;

    return entry->still == STANDING_NOT &&
           machine->process_read(machine->context, (pid_t)entry->pid, &stat, NULL) == 0 &&
           stat.start_ticks == entry->start_ticks && stat.state == 'T';
}

static void tell(struct allocation *allocation, struct told *told)
{
    Ckpt__V1__OwnJob *job = &told->job;
    const struct ledger_entry *entry = &told->entry;
    bool over;

    ckpt__v1__own_job__init(job);
    told->entry = allocation->entry;
    job->allocation_id = told->entry.allocation_id;
    job->state = app_jobs_state(allocation);
    over = job->state == CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_ENDED;
    job->pid = allocation->process.state == PROCESS_ABSENT ? 0 : entry->pid;
    job->since_ms = job->pid != 0 ? entry->started_at_ms : over ? entry->ended_at_ms : 0;
    if (entry->ended || process_state_stops(allocation->process.state))
        job->end_reason = (Ckpt__V1__Reason)entry->end_reason;
    job->exit_known = over && entry->ended_at_ms != 0 && entry->ended_status != UINT32_MAX;
    job->imported = over && entry->imported;
    job->exit_status = job->exit_known ? (int32_t)entry->ended_status : 0;
    if (job->state == CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_BEING_CHECKPOINTED)
        tell_asked(allocation, job);
    job->stopped =
        job->state == CKPT__V1__OWN_JOB_STATE__OWN_JOB_STATE_RUNNING && is_stopped(allocation);
    job->grace_ms = job->pid != 0 ? process_grace_ms(entry) : 0;
    job->part = entry->part;
    job->parts = entry->parts;
    if (job->pid != 0)
        tell_ranks(allocation, told);
    job->steps = pace_word_new(allocation);
    tell_last(told);
}

/* Those that came last, when there are too many: *ret_left_out counts the others. */
static size_t collect(const struct agent *agent, uid_t uid, const char *only, struct told *told,
                      uint32_t *ret_left_out)
{
    struct list *at = agent->allocations.next;
    size_t all = 0, count = 0, left_out;

    for (; at != &agent->allocations; at = at->next)
        all += is_listed(LIST_ITEM(at, struct allocation, node), uid);
    left_out = only[0] == '\0' && all > JOBS_MAX ? all - JOBS_MAX : 0;
    *ret_left_out = (uint32_t)left_out;
    for (at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, node);

        if (!is_listed(allocation, uid) ||
            (only[0] != '\0' && strcmp(only, allocation->entry.allocation_id) != 0))
            continue;
        if (left_out > 0)
            left_out--;
        else
            tell(allocation, &told[count++]);
    }
    return count;
}

static void answer(const struct agent *agent, struct rpc_call *call, const char *only)
{
    Ckpt__V1__ListOwnJobsReply reply = CKPT__V1__LIST_OWN_JOBS_REPLY__INIT;
    struct told *told = check_calloc(JOBS_MAX, sizeof(*told));
    Ckpt__V1__OwnJob *jobs[JOBS_MAX];
    char node[ID_MAX_BYTES + 1], leader[64] = "", text[NOT_FOUND_BYTES];
    struct buf bytes;

    text_copy(node, sizeof(node), agent->node_id);
    reply.node_id = node;
    reply.n_jobs = collect(agent, rpc_call_peer(call)->uid, only, told, &reply.left_out);
    for (size_t i = 0; i < reply.n_jobs; i++)
        jobs[i] = &told[i].job;
    reply.jobs = jobs;
    reply.leader = agent->session != NULL && session_open(agent->session);
    if (reply.leader)
        text_copy(leader, sizeof(leader), session_address(agent->session));
    reply.leader_address = leader;
    reply.now_ms = agent->clock.wall_ms(agent->clock.context);
    if (only[0] != '\0' && reply.n_jobs == 0) {
        snprintf(text, sizeof(text),
                 "job %s is not yours (user %u), or not there, as node %s knows; it may run on "
                 "another node",
                 only, (unsigned)rpc_call_peer(call)->uid, node);
        rpc_call_finish(call, RPC_NOT_FOUND, text);
    } else {
        buf_init(&bytes);
        ckpt__v1__list_own_jobs_reply__pack(
            &reply, buf_extend(&bytes, ckpt__v1__list_own_jobs_reply__get_packed_size(&reply)));
        rpc_call_reply(call, bytes.bytes, bytes.length);
        buf_close(&bytes);
    }
    told_free(told, JOBS_MAX);
}

static void on_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    Ckpt__V1__ListOwnJobsRequest *request =
        ckpt__v1__list_own_jobs_request__unpack(NULL, length, bytes);
    struct err err = {0};

    if (request == NULL)
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "the request is no ckpt.v1.ListOwnJobsRequest");
    else if (!rpc_call_peer(call)->local)
        rpc_call_finish(call, RPC_PERMISSION_DENIED, "the kernel does not tell who asks");
    else if (request->allocation_id[0] != '\0' &&
             id_check("allocation_id", request->allocation_id, &err) != 0)
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, err.text);
    else
        answer(data, call, request->allocation_id);
    if (request != NULL)
        ckpt__v1__list_own_jobs_request__free_unpacked(request, NULL);
}

void app_jobs_serve(struct rpc_server *server, struct agent *agent)
{
    static const struct rpc_handlers handlers = {.on_message = on_message};

    rpc_server_add_method(server, LIST_OWN_JOBS_METHOD, false, false, &handlers, agent);
}
