/* The options of a run: drawn from the seed, set by name, printed so that the run can be
 * repeated. */
#ifndef CKPT_TESTS_SIM_WORLD_OPTIONS_H
#define CKPT_TESTS_SIM_WORLD_OPTIONS_H

#include <stdio.h>

#include "tests/sim/world.h"

/* "name=value". NULL: it is taken; otherwise what is wrong with it and what is possible. */
const char *world_options_set(struct world_options *options, const char *assignment);
/* The line that repeats the run, and every option. */
void world_options_print(FILE *stream, const struct world_options *options);

#endif
