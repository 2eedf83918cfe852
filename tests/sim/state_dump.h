/* One number for every field of a living state, so that members can be compared without the
 * product's own word.
 *
 * Flow     fields are mixed one by one as the state has them, whether it applied all entries or was
 *          restored.
 * Absent   what each member makes for itself: places in lists and heaps, marks, what is at work; of
 *          a node set that waits (view.next) the lives, which nobody reads: its parts get theirs
 *          when it is in place.
 */
#ifndef CKPT_TESTS_SIM_STATE_DUMP_H
#define CKPT_TESTS_SIM_STATE_DUMP_H

#include <stdint.h>

#include "fsm/fsm.h"

uint64_t state_dump(const struct fsm *fsm); /* never 0 */
/* What answers a repeated request, and what a watch is told: past requests and events. */
uint64_t state_dump_past(const struct fsm *fsm);

#endif
