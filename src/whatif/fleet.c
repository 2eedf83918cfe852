/* See fleet.h. */
#include "src/whatif/fleet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

void fleet_init(struct fleet *fleet, const struct world *world,
                const struct eval_hazard_prior *prior)
{
    memset(fleet, 0, sizeof(*fleet));
    fleet->world = world;
    eval_hazard_init(&fleet->hazard, prior);
    fleet->failed_at_s = check_calloc(world->node_count, sizeof(*fleet->failed_at_s));
    fleet->bin = check_calloc(world->node_count, sizeof(*fleet->bin));
    fleet->job_bins = check_calloc(world->job_count, sizeof(*fleet->job_bins));
    for (uint32_t node = 0; node < world->node_count; node++) {
        fleet->failed_at_s[node] = -INFINITY;
        fleet->bin[node] = EVAL_AGE_BINS - 1;
        fleet->job_bins[world->job_of_node[node]][EVAL_AGE_BINS - 1] += 1;
    }
    fleet->bin_nodes[EVAL_AGE_BINS - 1] = world->node_count;
}

void fleet_free(struct fleet *fleet)
{
    free(fleet->failed_at_s);
    free(fleet->bin);
    free(fleet->job_bins);
    memset(fleet, 0, sizeof(*fleet));
}

static void move_node(struct fleet *fleet, uint32_t node, int bin)
{
    double *job = fleet->job_bins[fleet->world->job_of_node[node]];
    int old = fleet->bin[node];

    job[old] -= 1;
    job[bin] += 1;
    fleet->bin_nodes[old] -= 1;
    fleet->bin_nodes[bin] += 1;
    fleet->bin[node] = (uint8_t)bin;
}

void fleet_advance(struct fleet *fleet, double now_s)
{
    eval_hazard_advance(&fleet->hazard, fleet->bin_nodes, now_s - fleet->at_s);
    fleet->at_s = now_s;
    for (uint32_t node = 0; node < fleet->world->node_count; node++) {
        int bin = fleet->bin[node];
        if (bin < EVAL_AGE_BINS - 1 &&
            now_s - fleet->failed_at_s[node] >= eval_hazard_bin_end_s(bin))
            move_node(fleet, node, eval_hazard_bin(now_s - fleet->failed_at_s[node]));
    }
}

void fleet_failed(struct fleet *fleet, uint32_t node, double now_s)
{
    eval_hazard_note_failure(&fleet->hazard, now_s - fleet->failed_at_s[node]);
    fleet->failed_at_s[node] = now_s;
    move_node(fleet, node, 0);
}

double fleet_factor(const struct fleet *fleet, size_t job)
{
    double sum = 0, prior = fleet->hazard.prior.failures_per_s;

    for (int bin = 0; bin < EVAL_AGE_BINS; bin++)
        sum += fleet->job_bins[job][bin] * eval_hazard_bin_factor(&fleet->hazard, bin);
    return sum / fleet->world->jobs[job].nodes * eval_hazard_fleet_per_s(&fleet->hazard) / prior;
}
