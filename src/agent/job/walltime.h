/* The agent's own walltime: a monotonic timer per allocation that no checkpoint and no broker
 * outage extends.
 *
 * Flow     walltime_set() with each part that an order set or a restart point names, also of one
 *          without a walltime; walltime_start() after a restart of the agent; when it fires:
 *          process_stop(walltime).
 * Shapes   the deadline is kept in the journal. While an application runs, and before that within
 *          the life that it is to be started for, it only moves earlier, except when the scheduler
 *          registered another walltime (AllocationPart.walltime_ms differs from the one kept): then
 *          it moves by the difference, since the life began when it did. What is told late, and
 *          counted from when it came, is no later end.
 * Source   S1-090, F-012, F-019; invariant I33.
 */
#ifndef CKPT_AGENT_WALLTIME_H
#define CKPT_AGENT_WALLTIME_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/v1/agent.pb-c.h"
#include "src/agent/durable/ledger.h"

struct allocation;

void walltime_init(struct allocation *allocation);
void walltime_close(struct allocation *allocation);
/* Of an order set or a restart point, which may overtake each other: what is derived from a state
 * before the one that was told of last changes nothing. */
struct walltime_word {
    uint64_t epoch, index; /* of that state */
    uint64_t came_us;      /* what remains is counted from then */
    uint64_t life;         /* whose walltime it is */
};
bool walltime_stale(const struct ledger_entry *entry, const struct walltime_word *word);
void walltime_set(struct allocation *allocation, const Ckpt__V1__AllocationPart *part,
                  const struct walltime_word *word);
void walltime_start(struct allocation *allocation);

/* The rule alone: which deadline is to be kept, given the one that is (0: none), whether that
 * holds, and a new estimate. */
uint64_t walltime_choose(uint64_t kept_us, uint64_t estimate_us, bool holds);
/* The deadline of the same life with another walltime. 0: none. */
uint64_t walltime_moved(uint64_t kept_us, uint64_t from_ms, uint64_t to_ms);

#endif
