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
    free(copy->names);
    free(copy->jobs);
    free(copy->events);
    memset(copy, 0, sizeof(*copy));
}

/* ---- jobs -------------------------------------------------------------------------------------------------------------- */

static double window_s(const struct whatif_history_copy *copy, uint64_t at_ms)
{
    return at_ms > copy->from_ms ? (double)(at_ms - copy->from_ms) / 1e3 : 0;
}

static bool holds_nodes(Ckpt__V1__AllocationState state)
{
    return state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING ||
           state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP;
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
        .size_bytes = (double)job->size_estimate_bytes,
        .bytes_per_s = (double)(per_node > 0 ? per_node : 1) * (double)spec->n_nodes};
    if (to->to_s < to->from_s)
        to->to_s = to->from_s;
    for (size_t i = 0; i < spec->n_nodes; i++)
        to->gpus += spec->nodes[i]->gpu_count;
    copy->names[history->job_count] = (struct whatif_name){
        .name = check_strdup(spec->allocation_id), .job = (uint32_t)history->job_count};
    history->job_count++;
    history->jobs = copy->jobs;
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

static enum cli_exit read_jobs(struct cli *cli, struct whatif_history_copy *copy,
                               uint64_t default_write_bytes_per_s)
{
    Ckpt__V1__ListAllocationsRequest request = CKPT__V1__LIST_ALLOCATIONS_REQUEST__INIT;
    char *token = NULL;
    enum cli_exit code;

    do {
        ProtobufCMessage *message;
        const Ckpt__V1__ListAllocationsReply *reply;

        request.page_token = token != NULL ? token : request.page_token;
        code = call_read(cli, "list jobs", "BrokerService/ListAllocations", &request.base,
                         &ckpt__v1__list_allocations_reply__descriptor, &message);
        if (code != CLI_OK)
            break;
        reply = (const Ckpt__V1__ListAllocationsReply *)message;
        for (size_t i = 0; i < reply->n_allocations; i++)
            whatif_history_add_job(copy, reply->allocations[i], default_write_bytes_per_s);
        free(token);
        token = check_strdup(reply->next_page_token);
        call_free(message);
    } while (*token != '\0');
    free(token);
    whatif_history_sort_names(copy);
    return code;
}

/* ---- events ------------------------------------------------------------------------------------------------------------ */

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

static bool find_job(const struct whatif_history_copy *copy, const char *name, uint32_t *ret_job)
{
    struct whatif_name key = {.name = (char *)(uintptr_t)name};
    const struct whatif_name *found =
        copy->history.job_count > 0
            ? bsearch(&key, copy->names, copy->history.job_count, sizeof(*copy->names), by_name)
            : NULL;

    if (found != NULL)
        *ret_job = found->job;
    return found != NULL;
}

void whatif_history_add_event(struct whatif_history_copy *copy, const Ckpt__V1__Event *event)
{
    struct whatif_history_event to = {0};

    copy->gap = copy->gap || (event->gap && event->at_ms > copy->from_ms);
    if (event->at_ms < copy->from_ms || event->at_ms > copy->to_ms)
        return;
    if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE &&
        event->new_state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE)
        copy->checkpoints++;
    if (!whatif_history_event_of(event, &to.what) ||
        (to.what <= WHATIF_YIELD && !find_job(copy, event->allocation_id, &to.job)))
        return;
    if (copy->history.event_count == copy->event_room) {
        copy->event_room = copy->event_room == 0 ? 256 : copy->event_room * 2;
        copy->events = check_realloc(copy->events, copy->event_room, sizeof(*copy->events));
    }
    to.at_s = window_s(copy, event->at_ms);
    copy->events[copy->history.event_count++] = to;
    copy->history.events = copy->events;
}

static bool on_event(struct cli *cli, void *data, const Ckpt__V1__Event *event)
{
    (void)cli;
    whatif_history_add_event(data, event);
    return true;
}

/* ---- all of it --------------------------------------------------------------------------------------------------------- */

static enum cli_exit read_policy(struct cli *cli, struct whatif_scenario *scenario,
                                 uint64_t *ret_write_bytes_per_s)
{
    Ckpt__V1__GetPolicyRequest request = CKPT__V1__GET_POLICY_REQUEST__INIT;
    ProtobufCMessage *message;
    enum cli_exit code =
        call_read(cli, "get the policy", "OperatorService/GetPolicy", &request.base,
                  &ckpt__v1__get_policy_reply__descriptor, &message);

    if (code != CLI_OK)
        return code;
    const Ckpt__V1__Policy *policy = ((const Ckpt__V1__GetPolicyReply *)message)->policy;

    if (policy != NULL) {
        scenario->cycle_s = policy->evaluation_interval_ms > 1000
                                ? (double)policy->evaluation_interval_ms / 1e3
                                : 1;
        scenario->stall_fraction = policy->stall_fraction_ppm / 1e6;
        scenario->restart_s = (double)policy->restart_cost_ms / 1e3;
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
    return code;
}
