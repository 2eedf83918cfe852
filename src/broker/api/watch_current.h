/* The present state as the first thing of a watch that asks for it, as events that did not happen.
 *
 * Flow     watch_current_begin(); then watch_current_next() while watch_current_left(). Targets
 *          come first, then nodes that are not READY, then jobs that have not ended with their
 *          active checkpoints (of one job: that one alone, ended or not). CURRENT_END comes last,
 *          with the last event before all this.
 *          The state goes on changing meanwhile, and each thing is told as it is at that moment.
 *          A client that takes the events behind CURRENT_END as well ends with the truth.
 * Shapes   a place in the tables per call; nothing of the state is kept.
 */
#ifndef CKPT_BROKER_WATCH_CURRENT_H
#define CKPT_BROKER_WATCH_CURRENT_H

#include "ckpt/v1/broker.pb-c.h"
#include "fsm/fsm.h"

enum { WATCH_PATH_BYTES = 4096 };

enum watch_stage {
    WATCH_NOTHING,
    WATCH_BEGINS,
    WATCH_TARGETS,
    WATCH_NODES,
    WATCH_JOBS,
    WATCH_CHECKPOINT
};

struct watch_current {
    enum watch_stage stage;
    uint32_t slot;     /* the next one of the table */
    uint64_t sequence; /* of the last event at the beginning */
};

/* With the texts that the event points to. */
struct watch_told {
    Ckpt__V1__Event event;
    char path[WATCH_PATH_BYTES];
};

void watch_current_begin(struct watch_current *current);
bool watch_current_left(const struct watch_current *current);
/* One step. False: there is nothing at that place. allocation_id: of that job alone; "": all. */
bool watch_current_next(struct watch_current *current, const struct fsm *fsm,
                        const char *allocation_id, struct watch_told *ret_told);
/* Of a checkpoint that is known; else "". Returns path. */
char *watch_path(const struct fsm *fsm, uint64_t checkpoint_id, char path[WATCH_PATH_BYTES]);

#endif
