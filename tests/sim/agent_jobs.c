/* The part of a scheduler that keeps jobs going. See agent_jobs.h. */
#include "tests/sim/agent_jobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/base/check.h"
#include "tests/sim/world_internal.h"

#define STATE(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name

enum {
    LOOK_US = 120000,
    TIMEOUT_MS = 3000,
    MISSING_US = 4000000,
    FINISHED_US = 10000000,
    PERSON_IN = 12, /* one look in so many at a job that the broker restarts */
    SPARE_IN = 8,   /* likewise, while it runs */
    SPARES_MAX = 2  /* of a job */
};

struct kept_job {
    bool asked;                      /* an answer is awaited */
    uint32_t finished;               /* ranks of this run of the allocation, by agent */
    uint64_t runs[WORLD_AGENTS_MAX]; /* of those, which finished */
    uint64_t finished_us;            /* when the last of them did */
    uint32_t missing;                /* ranks without a ckpt-run when it was looked at last */
    uint64_t missing_us;
    unsigned spares;
    uint64_t since_ms; /* of the state as last heard: another run has another one */
};

struct agent_jobs {
    struct world *world;
    unsigned node;
    struct agent_jobs_ops ops;
    struct sim_loop loop;
    struct clock_timer *timer;
    struct client *client;
    struct kept_job jobs[WORLD_JOBS_MAX];
    unsigned next;
    uint64_t requests;
    bool calm;
    char unsettled[160];
};

struct question {
    struct agent_jobs *jobs;
    unsigned job;
    uint32_t ranks; /* to be launched */
    uint64_t known; /* index that was acknowledged when it was asked */
};

static uint32_t shipping_ranks(const struct agent_jobs *jobs, unsigned job)
{
    return jobs->world->jobs[job].node_mask &
           ((UINT32_C(1) << jobs->world->options.shipping_agents) - 1);
}

static struct question *question_new(struct agent_jobs *jobs, unsigned job)
{
    struct question *question = check_calloc(1, sizeof(*question));

    *question = (struct question){jobs, job, 0, history_acknowledged(jobs->world)};
    jobs->jobs[job].asked = true;
    return question;
}

/* ---- what is done about a job ---- */

static void launch(struct agent_jobs *jobs, unsigned job, uint32_t ranks,
                   enum agent_jobs_launch how)
{
    for (unsigned agent = 0; agent < WORLD_AGENTS_MAX; agent++)
        if ((ranks >> agent & 1) != 0)
            jobs->ops.launch(jobs->ops.data, agent, jobs->world->jobs[job].id, how);
}

/* What finished in an earlier run of its part has yet to run in this one. */
static void forget_earlier_runs(struct kept_job *kept, const Ckpt__V1__RestartPoint *point)
{
    for (size_t i = 0; i < point->n_runs; i++) {
        int agent = world_agent_number(point->node_ids[i]);
        CHECK(agent >= 0);
        if (kept->runs[agent] < point->runs[i])
            kept->finished &= ~(UINT32_C(1) << agent);
    }
}

/* What its agent finds out by itself is from where each begins. */
static void point_known(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct question question = *(struct question *)data;
    struct agent_jobs *jobs = question.jobs;
    const Ckpt__V1__RestartPoint *point = (const void *)reply;

    (void)text;
    free(data);
    jobs->jobs[question.job].asked = false;
    if (status != RPC_OK)
        return;
    history_answered(jobs->world, question.known, point->index, false, "GetRestartPoint");
    forget_earlier_runs(&jobs->jobs[question.job], point);
    launch(jobs, question.job, question.ranks, AGENT_JOBS_AGAIN);
}

static void ask_for_point(struct agent_jobs *jobs, unsigned job, uint32_t ranks)
{
    Ckpt__V1__GetRestartPointRequest request = CKPT__V1__GET_RESTART_POINT_REQUEST__INIT;
    struct question *question = question_new(jobs, job);

    question->ranks = ranks;
    request.allocation_id = jobs->world->jobs[job].id;
    client_call(jobs->client,
                &(struct client_request){.method = "BrokerService/GetRestartPoint",
                                         .message = &request.base,
                                         .reply_type = &ckpt__v1__restart_point__descriptor,
                                         .timeout_ms = TIMEOUT_MS},
                point_known, question);
}

static void launch_missing(struct agent_jobs *jobs, unsigned job)
{
    struct kept_job *kept = &jobs->jobs[job];
    const char *id = jobs->world->jobs[job].id;
    uint32_t ranks = shipping_ranks(jobs, job) & ~kept->finished, missing = 0;
    uint64_t now_us = sim_now_us(jobs->world->sim);

    for (unsigned agent = 0; agent < WORLD_AGENTS_MAX; agent++)
        if ((ranks >> agent & 1) != 0 && !jobs->ops.runs(jobs->ops.data, agent, id))
            missing |= UINT32_C(1) << agent;
    /* All have finished, and yet it runs: in these runs? A part came back, or the end of the run
     * before was heard after its restart. */
    if (ranks == 0 && kept->finished != 0 &&
        (jobs->world->jobs[job].scaled || now_us - kept->finished_us > FINISHED_US))
        ask_for_point(jobs, job, 0);
    if (missing == 0 || missing != kept->missing)
        kept->missing_us = now_us;
    kept->missing = missing;
    if (missing == 0 || now_us - kept->missing_us < MISSING_US)
        return;
    kept->missing = 0;
    if (jobs->world->jobs[job].scaled)
        ask_for_point(jobs, job, missing);
    else
        launch(jobs, job, missing, AGENT_JOBS_AGAIN);
}

/* Somebody starts its line on a node that is none of its own. */
static void launch_spare(struct agent_jobs *jobs, unsigned job)
{
    struct kept_job *kept = &jobs->jobs[job];
    const struct world_job *own = &jobs->world->jobs[job];
    unsigned agent;

    if (jobs->world->options.shipping_agents == 0 || kept->spares == SPARES_MAX)
        return;
    agent = (unsigned)sim_random(jobs->world->sim, jobs->world->options.shipping_agents);
    if ((own->node_mask >> agent & 1) != 0 || jobs->ops.runs(jobs->ops.data, agent, own->id))
        return;
    kept->spares++;
    launch(jobs, job, UINT32_C(1) << agent, AGENT_JOBS_SPARE);
}

static void restarted(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct question question = *(struct question *)data;
    struct agent_jobs *jobs = question.jobs;
    const Ckpt__V1__MutationReply *mutation = (const void *)reply;
    struct world_job *job = &jobs->world->jobs[question.job];
    uint32_t ranks = shipping_ranks(jobs, question.job);

    (void)text;
    free(data);
    jobs->jobs[question.job].asked = false;
    if (status != RPC_OK)
        return;
    history_answered(jobs->world, question.known, mutation->index, true, "RestartAllocation");
    jobs->jobs[question.job].finished = 0;
    job->runs = true;
    places_start(jobs->world, job, job->node_mask & ~ranks);
    launch(jobs, question.job, ranks,
           sim_chance(jobs->world->sim, 2) ? AGENT_JOBS_ANEW : AGENT_JOBS_ANEW_FROM_SCRATCH);
}

/* What has no checkpoint is known to begin anew. */
static void restart(struct agent_jobs *jobs, unsigned job, bool from_scratch)
{
    Ckpt__V1__RestartAllocationRequest request = CKPT__V1__RESTART_ALLOCATION_REQUEST__INIT;
    char request_id[48];

    snprintf(request_id, sizeof(request_id), "keeper-%" PRIu64, ++jobs->requests);
    request.request_id = request_id;
    request.allocation_id = jobs->world->jobs[job].id;
    request.from_scratch = from_scratch;
    jobs->world->jobs[job].anew |= from_scratch;
    client_call(jobs->client,
                &(struct client_request){.method = "BrokerService/RestartAllocation",
                                         .message = &request.base,
                                         .reply_type = &ckpt__v1__mutation_reply__descriptor,
                                         .timeout_ms = TIMEOUT_MS},
                restarted, question_new(jobs, job));
}

static void looked(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct question question = *(struct question *)data;
    struct agent_jobs *jobs = question.jobs;
    const Ckpt__V1__Allocation *allocation = (const void *)reply;
    struct kept_job *kept = &jobs->jobs[question.job];

    (void)text;
    free(data);
    kept->asked = false;
    if (status != RPC_OK)
        return;
    history_answered(jobs->world, question.known, allocation->applied_index, false,
                     "GetAllocation");
    if (kept->since_ms != allocation->state_since_ms)
        kept->finished = 0;
    kept->since_ms = allocation->state_since_ms;
    places_known(jobs->world, &jobs->world->jobs[question.job], allocation);
    if (allocation->state == STATE(RUNNING) || allocation->state == STATE(STARTING)) {
        launch_missing(jobs, question.job);
        if (!jobs->calm && jobs->world->jobs[question.job].comes_back &&
            sim_chance(jobs->world->sim, SPARE_IN))
            launch_spare(jobs, question.job);
    } else if (allocation->restart_at_ms != 0 &&
               (jobs->calm || !sim_chance(jobs->world->sim, PERSON_IN)))
        launch_missing(jobs, question.job); /* the same line again, where none waits */
    else if (!jobs->calm && sim_chance(jobs->world->sim, 3) &&
             (allocation->state == STATE(FAILED) || allocation->state == STATE(REQUEUED) ||
              allocation->state == STATE(SUSPENDED)))
        restart(jobs, question.job, allocation->last_complete_checkpoint_id == 0);
}

static void look(void *data)
{
    struct agent_jobs *jobs = data;
    Ckpt__V1__GetAllocationRequest request = CKPT__V1__GET_ALLOCATION_REQUEST__INIT;
    unsigned job;

    jobs->loop.clock.timer_start(jobs->timer, 1 + sim_random(jobs->world->sim, LOOK_US));
    if (jobs->world->job_count == 0)
        return;
    job = jobs->next++ % jobs->world->job_count;
    if (jobs->jobs[job].asked || (shipping_ranks(jobs, job) == 0 && !jobs->world->jobs[job].scaled))
        return;
    request.allocation_id = jobs->world->jobs[job].id;
    client_call(jobs->client,
                &(struct client_request){.method = "BrokerService/GetAllocation",
                                         .message = &request.base,
                                         .reply_type = &ckpt__v1__allocation__descriptor,
                                         .timeout_ms = TIMEOUT_MS},
                looked, question_new(jobs, job));
}

/* ---- from outside ---- */

void agent_jobs_finished(struct agent_jobs *jobs, unsigned agent, const char *allocation_id,
                         uint64_t run)
{
    const struct world_job *job = job_find(jobs->world, allocation_id);
    struct kept_job *kept;

    CHECK(job != NULL);
    kept = &jobs->jobs[job - jobs->world->jobs];
    kept->finished |= UINT32_C(1) << agent;
    kept->runs[agent] = run;
    kept->finished_us = sim_now_us(jobs->world->sim);
}

void agent_jobs_begins(struct agent_jobs *jobs, unsigned agent, const char *allocation_id)
{
    const struct world_job *job = job_find(jobs->world, allocation_id);

    CHECK(job != NULL);
    jobs->jobs[job - jobs->world->jobs].finished &= ~(UINT32_C(1) << agent);
}

void agent_jobs_calm(struct agent_jobs *jobs)
{
    jobs->calm = true;
}

static const struct fsm_allocation *committed(const struct agent_jobs *jobs, const char *id)
{
    const struct world_member *leader = members_leader(jobs->world);

    return leader == NULL ? NULL : fsm_allocation_find(member_fsm(leader), id);
}

/* All of its nodes have shipping agents. */
static bool ships(const struct agent_jobs *jobs, const struct fsm_allocation *allocation)
{
    const struct fsm *fsm = member_fsm(members_leader(jobs->world));

    for (uint32_t i = 0; i < allocation->node_count; i++)
        if ((unsigned)world_agent_number(fsm_node_name(fsm, allocation->nodes[i].node_slot)) >=
            jobs->world->options.shipping_agents)
            return false;
    return true;
}

const char *agent_jobs_unsettled(struct agent_jobs *jobs)
{
    for (unsigned job = 0; job < jobs->world->job_count; job++) {
        const struct world_job *own = &jobs->world->jobs[job];
        const struct fsm_allocation *allocation = committed(jobs, own->id);
        if (allocation == NULL || !ships(jobs, allocation))
            continue;
        if ((allocation->state != STATE(STARTING) && allocation->state != STATE(RUNNING) &&
             allocation->state != STATE(CHECKPOINTING_TO_STOP)) ||
            jobs->ops.spoiled(jobs->ops.data, own->id))
            continue;
        snprintf(jobs->unsettled, sizeof(jobs->unsettled),
                 "%s has not ended (state %d, terminating %d; nodes %x, finished %x)", own->id,
                 (int)allocation->state, allocation->terminating, own->node_mask,
                 jobs->jobs[job].finished);
        return jobs->unsettled;
    }
    return "";
}

struct agent_jobs *agent_jobs_new(struct world *world, unsigned node,
                                  const struct agent_jobs_ops *ops)
{
    const struct client_config config = {.endpoints = world->endpoints};
    struct agent_jobs *jobs = check_calloc(1, sizeof(*jobs));
    struct err err;

    jobs->world = world;
    jobs->node = node;
    jobs->ops = *ops;
    sim_loop_init(&jobs->loop, world->sim, node);
    CHECK(client_new(&jobs->loop.uv, &config, &jobs->client, &err) == 0);
    jobs->timer = jobs->loop.clock.timer_new(jobs->loop.clock.context, look, jobs);
    jobs->loop.clock.timer_start(jobs->timer, LOOK_US);
    return jobs;
}

void agent_jobs_free(struct agent_jobs *jobs)
{
    if (jobs == NULL)
        return;
    client_free(jobs->client);
    jobs->loop.clock.timer_free(jobs->timer);
    free(jobs);
}
