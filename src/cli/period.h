/* A period that the policy's minimal interval or the walltime passes over, said when it is
 * given. */
#ifndef CKPT_CLI_PERIOD_H
#define CKPT_CLI_PERIOD_H

#include <stdbool.h>
#include <stdint.h>

struct cli;

/* The least time between two checkpoints that the evaluator asks for; 0: the policy cannot be read,
 * or no period is given. Asked before the change, since what follows a change is its outcome. */
uint64_t period_floor_ms(struct cli *cli, uint64_t period_ms, bool sensitive);
/* walltime_ms 0: none, or not given with it. */
void period_note(struct cli *cli, uint64_t period_ms, uint64_t floor_ms, uint64_t walltime_ms);

#endif
