/* What the model knows about its nodes when it learns: when each failed last, and the hazard of their ages.
 *
 * Flow     fleet_failed() on every failure, fleet_advance() about once an hour, fleet_factor() when a job's row is filled.
 * Shapes   one number per node and bin counts per job; everything else is eval_hazard (src/eval/learn.h).
 */
#ifndef CKPT_WHATIF_FLEET_H
#define CKPT_WHATIF_FLEET_H

#include "src/eval/learn.h"
#include "src/whatif/world.h"

struct fleet {
    const struct world *world;
    struct eval_hazard hazard;
    double at_s;
    double *failed_at_s; /* minus infinity: not yet */
    uint8_t *bin;
    double bin_nodes[EVAL_AGE_BINS];
    double (*job_bins)[EVAL_AGE_BINS];
};

void fleet_init(struct fleet *fleet, const struct world *world,
                const struct eval_hazard_prior *prior);
void fleet_free(struct fleet *fleet);
void fleet_advance(struct fleet *fleet, double now_s);
void fleet_failed(struct fleet *fleet, uint32_t node, double now_s);
/* Mean over the job's nodes of hazard now over the prior. */
double fleet_factor(const struct fleet *fleet, size_t job);

#endif
