/* The ranks' socket and the jobs. See app_ranks.h. */
#include "src/agent/app/app_ranks.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/agent/app/app_line_server.h"
#include "src/agent/app/app_request.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/ranks.h"
#include "src/base/check.h"

struct app_ranks {
    struct agent *agent;
    struct app_line_server *server;
};

static bool find_job(void *context, const char *allocation_id, struct app_line_job *ret_job)
{
    const struct app_ranks *ranks = context;
    struct allocation *allocation = agent_find(ranks->agent, allocation_id);
    const struct ledger_entry *entry;

    if (allocation == NULL || allocation->process.state == PROCESS_ABSENT)
        return false;
    entry = &allocation->entry;
    *ret_job = (struct app_line_job){
        .job = allocation,
        .uid = entry->uid,
        .run = entry->run,
        .node = ranks->agent->node_id,
        .part = entry->part,
        .parts = entry->parts > 0 ? entry->parts : 1, /* it was started by another agent */
    };
    return true;
}

static uint32_t number_told(uint64_t number)
{
    return number == APP_LINE_UNKNOWN ? UINT32_MAX : (uint32_t)number;
}

static const char *take_hello(void *job, const struct app_line *line, pid_t pid,
                              struct rank_stream *stream)
{
    const struct rank_hello hello = {.number = (uint32_t)line->rank,
                                     .local = number_told(line->local_rank),
                                     .ranks = number_told(line->ranks),
                                     .local_ranks = number_told(line->local_ranks),
                                     .way = line->way == APP_LINE_OPENED    ? RANK_OPENED
                                            : line->way == APP_LINE_BARRIER ? RANK_BARRIER
                                                                            : RANK_PLAIN,
                                     .pid = pid};

    return ranks_registered(job, &hello, stream);
}

static void take_at(void *job, uint32_t rank, const char *hint, uint64_t step, uint64_t ns_per_step)
{
    ranks_at(job, rank, hint, step, ns_per_step);
}

static void take_missed(void *job, uint32_t rank, const char *hint, uint64_t step)
{
    ranks_missed(job, rank, hint, step);
}

static void take_done(void *job, uint32_t rank, const char *hint)
{
    ranks_done(job, rank, hint);
}

static void take_defer(void *job, uint32_t rank, const char *hint, uint64_t defer_ms)
{
    ranks_defer(job, rank, hint, defer_ms);
}

static void take_alive(void *job, uint32_t rank, const char *hint, uint32_t ppm)
{
    (void)ppm;
    ranks_alive(job, rank, hint);
}

static void take_request(void *job, uint64_t step)
{
    app_request(job, step);
}

static void take_gone(void *job, struct rank_stream *stream)
{
    ranks_gone(job, stream);
}

static const struct rank_stream_ops stream_ops = {.take = rank_stream_take,
                                                  .ask = rank_stream_ask,
                                                  .step = rank_stream_step,
                                                  .withdrawn = rank_stream_withdrawn,
                                                  .close = rank_stream_close,
                                                  .refuse = rank_stream_refuse};

int app_ranks_new(struct agent *agent, const struct network_ops *network, const char *path,
                  struct app_ranks **ret_ranks, struct err *err)
{
    struct app_ranks *ranks = check_calloc(1, sizeof(*ranks));
    const struct app_line_events events = {.context = ranks,
                                           .find = find_job,
                                           .registered = take_hello,
                                           .at = take_at,
                                           .missed = take_missed,
                                           .done = take_done,
                                           .defer = take_defer,
                                           .alive = take_alive,
                                           .request = take_request,
                                           .gone = take_gone};
    char address[512];

    ranks->agent = agent;
    snprintf(address, sizeof(address), "unix:%s", path);
    if (app_line_server_new(network, &agent->clock, address, &events, &ranks->server, err) != 0) {
        free(ranks);
        return -1;
    }
    agent->rank_streams = &stream_ops;
    agent->app_socket = path;
    *ret_ranks = ranks;
    return 0;
}

void app_ranks_free(struct app_ranks *ranks)
{
    if (ranks == NULL)
        return;
    ranks->agent->rank_streams = NULL;
    ranks->agent->app_socket = "";
    app_line_server_free(ranks->server);
    free(ranks);
}
