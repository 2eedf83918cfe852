/* What the model learns about nodes. See fleet.h.
 *
 * Flow     an event is counted at once in `failures`, `kills` and `demands`, and noted by
 *          fleet_advance(), as the broker counts what the log says until its next learning.
 * Shapes   bin_nodes and job_bins are kept up to date as nodes grow older, so that a row of the
 *          view costs the number of bins, not of nodes.
 */
#include "src/whatif/fleet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

#define DAY_S 86400.0

static void queue_append(struct fleet_queue *queue, uint32_t node, double at_s)
{
    if (queue->count == queue->capacity) {
        queue->capacity = queue->capacity == 0 ? 1024 : queue->capacity * 2;
        queue->nodes = check_realloc(queue->nodes, queue->capacity, sizeof(*queue->nodes));
        queue->at_s = check_realloc(queue->at_s, queue->capacity, sizeof(*queue->at_s));
    }
    queue->nodes[queue->count] = node;
    queue->at_s[queue->count++] = at_s;
}

/* The next node whose instant was before that; latest_s: of each node. */
static bool queue_take(struct fleet_queue *queue, const double *latest_s, double before_s,
                       uint32_t *ret_node)
{
    while (queue->head < queue->count && queue->at_s[queue->head] <= before_s) {
        double at_s = queue->at_s[queue->head];

        *ret_node = queue->nodes[queue->head++];
        if (at_s >= latest_s[*ret_node])
            return true;
    }
    return false;
}

static void queue_free(struct fleet_queue *queue)
{
    free(queue->nodes);
    free(queue->at_s);
}

static void enter_bin(struct fleet *fleet, uint32_t node, int bin)
{
    queue_append(&fleet->queues[bin], node, fleet->failed_at_s[node]);
    fleet->bin[node] = (uint8_t)bin;
    fleet->bin_nodes[bin] += 1;
    fleet->job_bins[fleet->world->job_of_node[node]][bin] += 1;
}

static void leave_bin(struct fleet *fleet, uint32_t node)
{
    int bin = fleet->bin[node];

    fleet->bin_nodes[bin] -= 1;
    fleet->job_bins[fleet->world->job_of_node[node]][bin] -= 1;
}

/* What the policy and the configuration say before anything was seen. */
static struct eval_fleet_prior prior_of(const struct whatif_scenario *scenario)
{
    return (struct eval_fleet_prior){.node_failures_per_s =
                                         scenario->prior_per_1000_node_days / 1000 / DAY_S,
                                     .hazard_forget_s = scenario->hazard_forget_s,
                                     .demand_forget_s = scenario->demand_forget_s,
                                     .alarms = {.recall = scenario->prior_recall,
                                                .precision = scenario->prior_precision,
                                                .lead_s = scenario->prior_lead_s}};
}

void fleet_init(struct fleet *fleet, const struct world *world)
{
    struct eval_fleet_prior prior = prior_of(&world->scenario);

    memset(fleet, 0, sizeof(*fleet));
    fleet->world = world;
    eval_fleet_init(&fleet->learned, &prior);
    eval_fleet_rates(&fleet->learned, &fleet->rates);
    fleet->failed_at_s = check_calloc(world->node_count, sizeof(*fleet->failed_at_s));
    fleet->bin = check_calloc(world->node_count, sizeof(*fleet->bin));
    fleet->alarmed_at_s = check_calloc(world->node_count, sizeof(*fleet->alarmed_at_s));
    fleet->episodes = check_calloc(world->node_count, sizeof(*fleet->episodes));
    fleet->job_bins = check_calloc(world->job_count, sizeof(*fleet->job_bins));
    for (uint32_t node = 0; node < world->node_count; node++)
        enter_bin(fleet, node, 0);
}

void fleet_free(struct fleet *fleet)
{
    for (int bin = 0; bin < EVAL_AGE_BINS; bin++)
        queue_free(&fleet->queues[bin]);
    queue_free(&fleet->alarms);
    free(fleet->alarmed_at_s);
    free(fleet->failed_at_s);
    free(fleet->bin);
    free(fleet->episodes);
    free(fleet->job_bins);
    memset(fleet, 0, sizeof(*fleet));
}

/* Those who were in a bin for as long as it lasts. */
static void grow_older(struct fleet *fleet, double now_s)
{
    uint32_t node;

    for (int bin = 0; bin + 1 < EVAL_AGE_BINS; bin++) {
        while (queue_take(&fleet->queues[bin], fleet->failed_at_s,
                          now_s - eval_hazard_bin_end_s(bin), &node)) {
            leave_bin(fleet, node);
            enter_bin(fleet, node, bin + 1);
        }
    }
}

static void node_see(struct fleet *fleet, uint32_t node, const struct eval_sight *sight)
{
    eval_episode_see(&fleet->episodes[node], sight, &fleet->learned.alarms);
}

void fleet_failed(struct fleet *fleet, uint32_t node, double now_s)
{
    fleet->failures[eval_hazard_bin(now_s - fleet->failed_at_s[node])]++;
    node_see(fleet, node,
             &(struct eval_sight){
                 .now_s = now_s, .failed = true, .watched = fleet->world->scenario.recall > 0});
    leave_bin(fleet, node);
    fleet->failed_at_s[node] = now_s;
    enter_bin(fleet, node, 0);
}

void fleet_alarmed(struct fleet *fleet, uint32_t node, double now_s)
{
    node_see(fleet, node, &(struct eval_sight){.now_s = now_s, .alarm = true, .watched = true});
    fleet->alarmed_at_s[node] = now_s;
    queue_append(&fleet->alarms, node, now_s);
}

/* Whose alarm was long ago, and nothing came. */
static void calm_down(struct fleet *fleet, double now_s)
{
    double over_s = FLEET_ALARM_LEADS * fleet->learned.prior.alarms.lead_s;
    uint32_t node;

    while (queue_take(&fleet->alarms, fleet->alarmed_at_s, now_s - over_s, &node))
        node_see(fleet, node, &(struct eval_sight){.now_s = now_s, .watched = true});
}

void fleet_demanded(struct fleet *fleet, uint32_t group, bool kills)
{
    CHECK(group < EVAL_GROUPS);
    fleet->demands[group]++;
    fleet->kills[group] += kills;
}

void fleet_advance(struct fleet *fleet, const uint32_t running[EVAL_GROUPS], double now_s)
{
    struct eval_fleet_rates fresh;

    eval_fleet_advance(&fleet->learned, fleet->bin_nodes, running, now_s - fleet->at_s);
    fleet->at_s = now_s;
    grow_older(fleet, now_s);
    calm_down(fleet, now_s);
    for (int bin = 0; bin < EVAL_AGE_BINS; bin++) {
        double age_s = bin == 0 ? 0 : eval_hazard_bin_end_s(bin - 1);

        for (; fleet->failures[bin] > 0; fleet->failures[bin]--)
            eval_hazard_note_failure(&fleet->learned.hazard, age_s);
    }
    for (int i = 0; i < EVAL_GROUPS; i++) {
        for (; fleet->kills[i] > 0; fleet->kills[i]--)
            eval_rate_note(&fleet->learned.kills[i]);
        for (; fleet->demands[i] > 0; fleet->demands[i]--)
            eval_rate_note(&fleet->learned.demands[i]);
    }
    eval_fleet_rates(&fleet->learned, &fresh);
    eval_fleet_hold(&fleet->rates, &fresh);
}

double fleet_factor(const struct fleet *fleet, size_t job)
{
    double sum = 0;

    for (int bin = 0; bin < EVAL_AGE_BINS; bin++)
        sum += fleet->job_bins[job][bin] * fleet->rates.age_factors[bin];
    return sum / fleet->world->jobs[job].nodes;
}
