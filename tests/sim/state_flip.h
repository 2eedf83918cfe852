/* One number of a living state changes, as when a bit of memory flips (I10). See world_flips.c. */
#ifndef CKPT_TESTS_SIM_STATE_FLIP_H
#define CKPT_TESTS_SIM_STATE_FLIP_H

#include "fsm/fsm.h"

void state_flip_hash(const struct fsm *fsm, unsigned bit);    /* each index from the next one on */
void state_flip_ids(const struct fsm *fsm, uint64_t skipped); /* the next checkpoint tells it */
bool state_is_written(const struct fsm *fsm); /* a snapshot or a backup is at work */

#endif
