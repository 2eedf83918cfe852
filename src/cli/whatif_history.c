/* See whatif_history.h. */
#include "src/cli/whatif_history.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/watch.h"

void whatif_history_free(struct whatif_history_copy *copy)
{
    for (size_t i = 0; i < copy->history.job_count; i++)
        free(copy->names[i].name);
    for (uint32_t i = 0; i < copy->queue_count; i++)
        free(copy->queues[i]);
    free(copy->names);
    free(copy->jobs);
    free(copy->events);
    memset(copy, 0, sizeof(*copy));
}

/* From there on a backlog may lead to preemption (src/eval). */
enum { BUSY_PRESSURE_PPM = 500000 };

enum { NODE_STATE_DOWN = 3, NODE_STATE_AGENT_LOST = 5 }; /* of the log */

/* ---- jobs ---- */

static double window_s(const struct whatif_history_copy *copy, uint64_t at_ms)
{
    return at_ms > copy->from_ms ? (double)(at_ms - copy->from_ms) / 1e3 : 0;
}

static bool holds_nodes(Ckpt__V1__AllocationState state)
{
    return state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING ||
           state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING ||
           state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP;
}

static uint32_t queue_of(struct whatif_history_copy *copy, const char *name)
{
    uint32_t i = 0;

    while (i < copy->queue_count && strcmp(copy->queues[i], name) != 0)
        i++;
    if (i == WHATIF_QUEUES_MAX)
        return i - 1;
    if (i == copy->queue_count)
        copy->queues[copy->queue_count++] = check_strdup(name);
    return i;
}

void whatif_history_add_job(struct whatif_history_copy *copy, const Ckpt__V1__Allocation *job,
                            uint64_t default_write_bytes_per_s)
{
    const Ckpt__V1__AllocationSpec *spec = job->spec;
    struct whatif_history *history = &copy->history;
    struct whatif_history_job *to;
    uint64_t per_node;

    if (spec == NULL || spec->n_nodes == 0 || spec->started_at_ms >= copy->to_ms ||
        (!holds_nodes(job->state) && job->state_since_ms <= copy->from_ms))
        return;
    if (history->job_count == copy->job_room) {
        copy->job_room = copy->job_room == 0 ? 256 : copy->job_room * 2;
        copy->jobs = check_realloc(copy->jobs, copy->job_room, sizeof(*copy->jobs));
        copy->names = check_realloc(copy->names, copy->job_room, sizeof(*copy->names));
    }
    per_node = spec->write_bytes_per_s > 0 ? spec->write_bytes_per_s : default_write_bytes_per_s;
    to = &copy->jobs[history->job_count];
    *to = (struct whatif_history_job){
        .from_s = window_s(copy, spec->started_at_ms),
        .to_s = holds_nodes(job->state) ? WHATIF_NEVER_S : window_s(copy, job->state_since_ms),
        .nodes = (uint32_t)spec->n_nodes,
        .queue = queue_of(copy, spec->vcluster),
        .size_bytes = (double)job->size_estimate_bytes,
        .bytes_per_s = (double)(per_node > 0 ? per_node : 1) * (double)spec->n_nodes};
    if (to->to_s < to->from_s)
        to->to_s = to->from_s;
    for (size_t i = 0; i < spec->n_nodes; i++)
        to->gpus += spec->nodes[i]->gpu_count;
    if (job->weight_gpus > 0) /* a member of an earlier build does not say it */
        to->gpus = job->weight_gpus;
    copy->names[history->job_count] = (struct whatif_name){
        .name = check_strdup(spec->allocation_id), .job = (uint32_t)history->job_count};
    history->job_count++;
    history->jobs = copy->jobs;
    copy->periods += spec->period_ms > 0;
    copy->walltimes += spec->walltime_ms > 0;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const struct whatif_name *)left)->name,
                  ((const struct whatif_name *)right)->name);
}

void whatif_history_sort_names(struct whatif_history_copy *copy)
{
    if (copy->history.job_count > 0)
        qsort(copy->names, copy->history.job_count, sizeof(*copy->names), by_name);
}

struct reading {
    struct whatif_history_copy *copy;
    uint64_t default_write_bytes_per_s;
};

static void read_page(void *context, const ProtobufCMessage *page)
{
    const Ckpt__V1__ListAllocationsReply *reply = (const Ckpt__V1__ListAllocationsReply *)page;
    const struct reading *reading = context;

    for (size_t i = 0; i < reply->n_allocations; i++)
        whatif_history_add_job(reading->copy, reply->allocations[i],
                               reading->default_write_bytes_per_s);
}

static enum cli_exit read_jobs(struct cli *cli, struct whatif_history_copy *copy,
                               uint64_t default_write_bytes_per_s)
{
    Ckpt__V1__ListAllocationsRequest request = CKPT__V1__LIST_ALLOCATIONS_REQUEST__INIT;
    struct reading reading = {copy, default_write_bytes_per_s};
    enum cli_exit code = call_read_pages(
        cli, "list jobs", "BrokerService/ListAllocations", &request.base,
        &ckpt__v1__list_allocations_reply__descriptor, &(struct call_taker){read_page, &reading});

    whatif_history_sort_names(copy);
    return code;
}

/* ---- events ---- */

static bool stopped_by_others(const Ckpt__V1__Event *event, enum whatif_happening *ret_what)
{
    if (event->reason == CKPT__V1__REASON__REASON_PREEMPTED) {
        *ret_what = WHATIF_YIELD;
        return true;
    }
    *ret_what = WHATIF_KILL;
    return event->reason == CKPT__V1__REASON__REASON_PREEMPTED_WITHOUT_CHECKPOINT ||
           event->reason == CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED;
}

bool whatif_history_event_of(const Ckpt__V1__Event *event, enum whatif_happening *ret_what)
{
    switch (event->kind) {
    case CKPT__V1__EVENT_KIND__EVENT_KIND_RESTARTED:
        *ret_what = WHATIF_FAILURE;
        return true;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_DOWN:
        *ret_what = WHATIF_STORAGE_DOWN;
        return true;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_UP:
        *ret_what = WHATIF_STORAGE_UP;
        return true;
    case CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_STATE:
        if (stopped_by_others(event, ret_what))
            return true;
        *ret_what = WHATIF_FAILURE;
        return event->reason == CKPT__V1__REASON__REASON_NODE_DOWN ||
               event->reason == CKPT__V1__REASON__REASON_APPLICATION_EXITED;
    default:
        return false;
    }
}

static struct whatif_name *find_job(const struct whatif_history_copy *copy, const char *name)
{
    struct whatif_name key = {.name = (char *)(uintptr_t)name};

    return copy->history.job_count > 0
               ? bsearch(&key, copy->names, copy->history.job_count, sizeof(*copy->names), by_name)
               : NULL;
}

/* Since when it held its nodes: it may have been stopped and started again, and says only its last
 * start. */
static void take_span(struct whatif_history_copy *copy, const Ckpt__V1__Event *event)
{
    struct whatif_name *name = find_job(copy, event->allocation_id);
    struct whatif_history_job *job;

    if (name == NULL || name->seen)
        return;
    name->seen = true;
    job = &copy->jobs[name->job];
    if (holds_nodes((Ckpt__V1__AllocationState)event->old_state))
        job->from_s = 0;
    else if (window_s(copy, event->at_ms) < job->from_s)
        job->from_s = window_s(copy, event->at_ms);
}

/* RESTARTED tells of every application that goes on from a checkpoint. Those of a job that was
 * stopped and started again are no failure; what failed was told by its stop, if it failed. In
 * place, by itself, an application is started again on a single node only. */
static bool restarted_in_place(const struct whatif_history_copy *copy, const Ckpt__V1__Event *event)
{
    struct whatif_name *name = find_job(copy, event->allocation_id);
    bool resumes;

    if (name == NULL)
        return false;
    resumes = name->resumes;
    if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_STATE &&
        !holds_nodes((Ckpt__V1__AllocationState)event->old_state) &&
        event->old_state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_UNSPECIFIED)
        name->resumes = holds_nodes((Ckpt__V1__AllocationState)event->new_state);
    if (event->kind != CKPT__V1__EVENT_KIND__EVENT_KIND_RESTARTED)
        return false;
    name->resumes = false;
    return !resumes && copy->jobs[name->job].nodes == 1;
}

static void keep_event(struct whatif_history_copy *copy, const Ckpt__V1__Event *event,
                       struct whatif_history_event to)
{
    if (copy->history.event_count == copy->event_room) {
        copy->event_room = copy->event_room == 0 ? 256 : copy->event_room * 2;
        copy->events = check_realloc(copy->events, copy->event_room, sizeof(*copy->events));
    }
    to.at_s = window_s(copy, event->at_ms);
    copy->events[copy->history.event_count++] = to;
    copy->history.events = copy->events;
}

/* Before the window only the last one counts: how the queue was when it began. */
static void take_queue(struct whatif_history_copy *copy, const Ckpt__V1__Event *event)
{
    struct whatif_history_event to = {.what = WHATIF_QUEUE_CALM,
                                      .job = queue_of(copy, event->subject)};

    if (event->number > BUSY_PRESSURE_PPM || event->new_state > 0)
        to.what = WHATIF_QUEUE_BUSY;
    for (size_t i = 0; event->at_ms <= copy->from_ms && i < copy->history.event_count; i++) {
        if (copy->events[i].what >= WHATIF_QUEUE_BUSY && copy->events[i].job == to.job) {
            copy->events[i].what = to.what;
            return;
        }
    }
    keep_event(copy, event, to);
}

void whatif_history_add_event(struct whatif_history_copy *copy, const Ckpt__V1__Event *event)
{
    struct whatif_history_event to = {0};
    struct whatif_name *name;
    bool in_place =
        restarted_in_place(copy, event); /* also before the window: how it was when it began */

    if (event->gap && event->at_ms > copy->from_ms && !copy->gap) {
        copy->gap = true;
        copy->reaches_ms = event->at_ms;
    }
    if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_QUEUE && event->at_ms <= copy->to_ms) {
        take_queue(copy, event); /* also before the window: as it was when it began */
        return;
    }
    if (event->at_ms < copy->from_ms || event->at_ms > copy->to_ms)
        return;
    if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_REGISTERED ||
        event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_STATE)
        take_span(copy, event);
    if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE &&
        event->new_state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE)
        copy->checkpoints++;
    if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_STATE &&
        (event->new_state == NODE_STATE_AGENT_LOST ||
         (event->new_state == NODE_STATE_DOWN && event->old_state != NODE_STATE_AGENT_LOST)))
        copy->nodes_down++;
    if (!whatif_history_event_of(event, &to.what) ||
        (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_RESTARTED && !in_place))
        return;
    if (to.what <= WHATIF_YIELD) {
        name = find_job(copy, event->allocation_id);
        if (name == NULL)
            return;
        to.job = name->job;
    }
    keep_event(copy, event, to);
}

static double later_s(double at_s, double by_s)
{
    if (at_s >= WHATIF_NEVER_S)
        return WHATIF_NEVER_S;
    return at_s > by_s ? at_s - by_s : 0;
}

void whatif_history_cut(struct whatif_history_copy *copy)
{
    double by_s = copy->gap ? window_s(copy, copy->reaches_ms) : 0;

    copy->history.from_ms = copy->from_ms + (uint64_t)(by_s * 1e3);
    if (by_s <= 0)
        return;
    copy->history.seconds -= by_s;
    for (size_t i = 0; i < copy->history.job_count; i++) {
        copy->jobs[i].from_s = later_s(copy->jobs[i].from_s, by_s);
        copy->jobs[i].to_s = later_s(copy->jobs[i].to_s, by_s);
    }
    for (size_t i = 0; i < copy->history.event_count; i++)
        copy->events[i].at_s = later_s(copy->events[i].at_s, by_s);
}

static bool on_event(struct cli *cli, void *data, const Ckpt__V1__Event *event)
{
    (void)cli;
    whatif_history_add_event(data, event);
    return true;
}

/* ---- all of it ---- */

static enum cli_exit read_policy(struct cli *cli, struct whatif_scenario *scenario,
                                 uint64_t *ret_write_bytes_per_s)
{
    const Ckpt__V1__Policy *policy;
    ProtobufCMessage *message;
    enum cli_exit code = call_policy(cli, false, &policy, &message);

    if (code != CLI_OK)
        return code;
    if (policy->evaluation_interval_ms > 0) { /* there is one */
        scenario->learn = 1;                  /* nothing is known in advance, as with traces */
        scenario->cycle_s = policy->evaluation_interval_ms > 1000
                                ? (double)policy->evaluation_interval_ms / 1e3
                                : 1;
        scenario->stall_fraction = policy->stall_fraction_ppm / 1e6;
        scenario->restart_s = (double)policy->restart_cost_ms / 1e3;
        scenario->quiesce_s = scenario->policy_quiesce_s = (double)policy->quiesce_ms / 1e3;
        scenario->policy_bytes_per_s = 0; /* what each job declares */
        scenario->near_completion_s = (double)policy->near_completion_ms / 1e3;
        scenario->grace_s = (double)policy->grace_ms / 1e3;
        scenario->prior_per_1000_node_days = policy->node_failures_per_1000_node_days_milli / 1e3;
        scenario->hazard_forget_s = (double)policy->hazard_forget_ms / 1e3;
        scenario->demand_forget_s = (double)policy->demand_forget_ms / 1e3;
        scenario->min_interval_s = (double)policy->min_interval_ms / 1e3;
        scenario->max_interval_s = (double)policy->max_interval_ms / 1e3;
        *ret_write_bytes_per_s = policy->default_write_bytes_per_s;
    }
    call_free(message);
    return CLI_OK;
}

enum cli_exit whatif_history_read(struct cli *cli, uint64_t since_ms,
                                  struct whatif_scenario *scenario,
                                  struct whatif_history_copy *copy)
{
    static char everything[] = "";
    struct watch_options options = {.allocation_id = everything};
    uint64_t write_bytes_per_s = 0;
    struct timespec now;
    enum cli_exit code;

    memset(copy, 0, sizeof(*copy));
    clock_gettime(CLOCK_REALTIME, &now);
    copy->to_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    copy->from_ms = copy->to_ms > since_ms ? copy->to_ms - since_ms : 0;
    copy->history.seconds = (double)(copy->to_ms - copy->from_ms) / 1e3;
    code = read_policy(cli, scenario, &write_bytes_per_s);
    if (code == CLI_OK)
        code = read_jobs(cli, copy, write_bytes_per_s);
    if (code == CLI_OK)
        code = watch_run(cli, &options, on_event, copy);
    whatif_history_cut(copy);
    whatif_history_rates(&copy->history, scenario);
    return code;
}
