/* Worlds from scenarios. See world.h.
 *
 * Flow     jobs, their nodes, failures node by node; sorted; then alarms, which look at the
 *          failures, demands queue by queue, outages; sorted again.
 * Shapes   each kind of event has streams of its own (random.h), so that a scenario with demands
 *          has the same failures as the one without.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/whatif/random.h"
#include "src/whatif/world.h"

enum { QUEUES = 20 };
#define DAY_S 86400.0
/* Sizes and their weights: 16.2 nodes on the average, 57 of an average node's job. */
static const uint32_t job_nodes[] = {1, 2, 4, 8, 16, 32, 64, 96};
#define JOB_WEIGHT_RATIO 0.82

/* Mean times between failures before the beginning. A node that was new at second 0 would fail more
 * often at first (shape below 1), all of them together: clusters are not switched on like that. */
#define WEIBULL_BURN_IN 20.0

void world_init(struct world *world, const struct whatif_scenario *scenario, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    world->scenario = *scenario;
    world->seed = seed;
    world->end_s = scenario->days * DAY_S;
    world->node_failures_per_s = scenario->failures_per_1000_node_days / 1000 / DAY_S;
}

void world_free(struct world *world)
{
    free(world->jobs);
    free(world->job_of_node);
    free(world->events);
    memset(world, 0, sizeof(*world));
}

void world_add(struct world *world, const struct world_event *event)
{
    if (world->event_count == world->event_capacity) {
        world->event_capacity = world->event_capacity == 0 ? 1024 : world->event_capacity * 2;
        world->events = check_realloc(world->events, world->event_capacity, sizeof(*world->events));
    }
    world->events[world->event_count++] = *event;
}

static int by_time(const void *left, const void *right)
{
    const struct world_event *a = left, *b = right;

    if (a->at_s != b->at_s)
        return a->at_s < b->at_s ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->job != b->job)
        return a->job < b->job ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

void world_sort(struct world *world)
{
    if (world->event_count > 0)
        qsort(world->events, world->event_count, sizeof(*world->events), by_time);
}

/* ---- jobs ---- */

static uint32_t size_at(double share)
{
    size_t last = ARRAY_COUNT(job_nodes) - 1, i = 0;
    double weight = 1, sum = (1 - pow(JOB_WEIGHT_RATIO, (double)last + 1)) / (1 - JOB_WEIGHT_RATIO);

    share *= sum;
    while (i < last && share >= weight) {
        share -= weight;
        weight *= JOB_WEIGHT_RATIO;
        i++;
    }
    return job_nodes[i];
}

static void fill_job(struct world *world, struct world_job *job, uint32_t nodes, double fill)
{
    const struct whatif_scenario *scenario = &world->scenario;

    job->to_s = INFINITY;
    job->nodes = nodes;
    job->first_node = world->node_count;
    job->queue = (uint32_t)(world->job_count % QUEUES);
    job->gpus = nodes * scenario->gpus_per_node;
    job->size_bytes = job->gpus * scenario->bytes_per_gpu * fill;
    job->injection_bytes_per_s = nodes * scenario->node_bytes_per_s;
    world->node_count += nodes;
    world->job_count++;
}

void world_index_nodes(struct world *world)
{
    world->job_of_node = check_calloc(world->node_count, sizeof(*world->job_of_node));
    for (size_t i = 0; i < world->job_count; i++) {
        for (uint32_t k = 0; k < world->jobs[i].nodes; k++)
            world->job_of_node[world->jobs[i].first_node + k] = (uint32_t)i;
    }
}

/* Sizes are the same for every seed (stratified), so that seeds differ in what happens, not in what
 * there is. With nodes_max jobs are drawn until the nodes are taken. */
void world_draw_jobs(struct world *world, uint32_t nodes_max)
{
    const struct whatif_scenario *scenario = &world->scenario;
    size_t wanted = nodes_max > 0 ? nodes_max : (size_t)scenario->jobs;
    struct random_stream stream = random_stream(world->seed, RANDOM_JOBS, 0);

    world->jobs = check_calloc(wanted, sizeof(*world->jobs));
    for (size_t i = 0; i < wanted && (nodes_max == 0 || world->node_count < nodes_max); i++) {
        double share = nodes_max > 0 ? random_uniform(&stream) : ((double)i + 0.5) / (double)wanted;
        uint32_t nodes = size_at(share);
        double fill = random_between(&stream, scenario->fill_min, scenario->fill_max);

        if (nodes_max > 0 && nodes > nodes_max - world->node_count)
            nodes = nodes_max - world->node_count;
        fill_job(world, &world->jobs[i], nodes, fill);
    }
    world_index_nodes(world);
}

/* ---- events ---- */

/* With shape 1 the past says nothing, so none is drawn. */
static void add_failures(struct world *world, uint32_t node)
{
    double shape = world->scenario.weibull_shape, mean_s = 1 / world->node_failures_per_s;
    struct random_stream stream = random_stream(world->seed, RANDOM_FAILURES, node);
    double at_s = shape == 1 ? 0 : -WEIBULL_BURN_IN * mean_s * random_uniform(&stream);

    if (shape != 1)
        at_s -= WEIBULL_BURN_IN * mean_s / 2;
    for (;;) {
        at_s += shape == 1 ? random_exponential(&stream, mean_s)
                           : random_weibull(&stream, shape, mean_s);
        if (at_s >= world->end_s)
            return;
        if (at_s >= 0)
            world_add(world, &(struct world_event){.at_s = at_s,
                                                   .kind = EVENT_FAILURE,
                                                   .job = world->job_of_node[node],
                                                   .node = node});
    }
}

/* An alarm before some of the failures, and false ones at random. */
static void add_alarms(struct world *world)
{
    const struct whatif_scenario *scenario = &world->scenario;
    struct random_stream stream = random_stream(world->seed, RANDOM_ALARMS, 0);
    struct random_stream other = random_stream(world->seed, RANDOM_FALSE_ALARMS, 0);
    size_t failures = world->event_count, announced = 0;
    double false_count;

    for (size_t i = 0; i < failures; i++) {
        double draw = random_uniform(&stream),
               lead_s = random_exponential(&stream, scenario->lead_s);
        struct world_event alarm = world->events[i];
        if (alarm.kind != EVENT_FAILURE || draw >= scenario->recall || lead_s > alarm.at_s)
            continue;
        alarm.kind = EVENT_ALARM;
        alarm.at_s -= lead_s;
        alarm.alarm = ++world->alarm_count;
        world->events[i].alarm = alarm.alarm;
        announced++;
        world_add(world, &alarm);
    }
    false_count = (double)announced * (1 - scenario->precision) / scenario->precision;
    for (size_t i = 0; (double)i + 0.5 < false_count; i++) {
        uint32_t node = (uint32_t)random_between(&other, 0, world->node_count);
        world_add(world, &(struct world_event){.at_s = random_between(&other, 0, world->end_s),
                                               .kind = EVENT_ALARM,
                                               .job = world->job_of_node[node],
                                               .node = node,
                                               .alarm = ++world->alarm_count});
    }
}

double world_mean_demand_per_s(const struct whatif_scenario *scenario)
{
    return scenario->demand_per_hour / 3600 * scenario->busy_share;
}

/* Told of before, and as often of one that does not come as the precision says. */
static void announce_failure(struct world *world, struct random_stream *stream, uint32_t job,
                             double at_s, double from_s, double to_s)
{
    const struct whatif_scenario *scenario = &world->scenario;
    double false_count = (1 - scenario->announce_precision) / scenario->announce_precision;
    struct world_event event = {.kind = EVENT_ANNOUNCEMENT, .job = job};

    if (random_uniform(stream) >= scenario->announce_share)
        return;
    event.at_s = at_s - random_exponential(stream, scenario->announce_lead_s);
    if (event.at_s >= 0)
        world_add(world, &event);
    for (false_count += random_uniform(stream); false_count >= 1; false_count -= 1) {
        event.at_s = random_between(stream, from_s, to_s);
        world_add(world, &event);
    }
}

/* Announcements have a copy of the stream, turned into another one: whether there are any changes
 * no demand. */
static void add_demands_between(struct world *world, struct random_stream *stream, uint32_t job,
                                double from_s, double to_s, double per_s)
{
    const struct whatif_scenario *scenario = &world->scenario;
    struct random_stream told = *stream;
    double at_s = from_s;

    told.state ^= UINT64_C(0x5851f42d4c957f2d);
    while (per_s > 0) {
        at_s += random_exponential(stream, 1 / per_s);
        if (at_s >= to_s)
            return;
        announce_failure(world, &told, job, at_s, from_s, to_s);
        world_add(world, &(struct world_event){
                             .at_s = at_s,
                             .kind = EVENT_DEMAND,
                             .job = job,
                             .on = random_uniform(stream) < scenario->kill_share,
                             .urgency = random_between(stream, 0, 2 * scenario->urgency)});
    }
}

/* A queue is busy and calm by turns, each for an exponential time; demands come to any of its jobs
 * in busy times only. */
static void add_regimes_of_queue(struct world *world, uint32_t queue)
{
    const struct whatif_scenario *scenario = &world->scenario;
    struct random_stream stream = random_stream(world->seed, RANDOM_REGIMES, queue);
    double calm_s = scenario->busy_s * (1 / fmax(scenario->busy_share, 1e-6) - 1);
    double busy_per_s = scenario->demand_per_hour / 3600, at_s = 0;
    bool busy = random_uniform(&stream) < scenario->busy_share;

    while (at_s < world->end_s) {
        double length_s = random_exponential(&stream, busy ? scenario->busy_s : calm_s);
        double to_s = fmin(at_s + length_s, world->end_s);
        world_add(world, &(struct world_event){
                             .at_s = at_s, .kind = EVENT_REGIME, .job = queue, .on = busy});
        for (uint32_t job = queue; busy && job < world->job_count; job += QUEUES) {
            uint64_t entity = (uint64_t)job * 1000003 + (uint64_t)(at_s * 8);
            struct random_stream demands = random_stream(world->seed, RANDOM_DEMANDS, entity);
            add_demands_between(world, &demands, job, at_s, to_s, busy_per_s);
        }
        at_s = to_s;
        busy = !busy;
    }
}

static void add_outages(struct world *world)
{
    struct random_stream stream = random_stream(world->seed, RANDOM_OUTAGES, 0);
    double at_s = 0;

    for (;;) {
        at_s += random_exponential(&stream, world->scenario.outage_every_s);
        if (at_s >= world->end_s)
            return;
        world_add(world, &(struct world_event){.at_s = at_s, .kind = EVENT_OUTAGE, .on = true});
        at_s += random_exponential(&stream, world->scenario.outage_s);
        world_add(world, &(struct world_event){.at_s = at_s, .kind = EVENT_OUTAGE, .on = false});
    }
}

void world_add_surroundings(struct world *world)
{
    const struct whatif_scenario *scenario = &world->scenario;

    world_sort(world);
    if (scenario->recall > 0)
        add_alarms(world);
    for (uint32_t queue = 0; scenario->demand_per_hour > 0 && queue < QUEUES; queue++)
        add_regimes_of_queue(world, queue);
    if (scenario->outage_every_s > 0)
        add_outages(world);
    world_sort(world);
}

void world_generate(struct world *world, const struct whatif_scenario *scenario, uint64_t seed)
{
    world_init(world, scenario, seed);
    world_draw_jobs(world, 0);
    for (uint32_t node = 0; world->node_failures_per_s > 0 && node < world->node_count; node++)
        add_failures(world, node);
    world_add_surroundings(world);
}

double world_walltime_s(const struct world *world, size_t job, uint32_t allocation)
{
    struct random_stream stream =
        random_stream(world->seed, RANDOM_WALLTIMES, (uint64_t)job * 1000003 + allocation);

    if (world->scenario.walltime_max_s <= 0)
        return INFINITY;
    return random_between(&stream, world->scenario.walltime_min_s, world->scenario.walltime_max_s);
}
