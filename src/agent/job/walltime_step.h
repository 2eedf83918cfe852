/* The agent's own walltime: a monotonic timer per allocation that no checkpoint and no broker
 * outage extends.
 *
 * Flow     walltime_take() with each part that an order set or a restart point names, also of one
 *          without a walltime. When the timer fires, job_step() stops the process.
 * Shapes   the deadline is kept in the journal. While an application runs, and before that within
 *          the run that it is to be started for, it only moves earlier, except when the scheduler
 *          registered another walltime (walltime_ms differs from the one kept): then it moves by
 *          the difference, since the run began when it did. What is told late, and counted from
 *          when it came, is no later end. Order sets and restart points may overtake each other:
 *          what is derived from a state before the one that was told of last changes nothing.
 * Source   S1-090, F-012, F-019; invariant I33.
 */
#ifndef CKPT_AGENT_WALLTIME_STEP_H
#define CKPT_AGENT_WALLTIME_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "src/agent/durable/ledger.h"

/* Of an order set or a restart point. */
struct walltime_word {
    uint64_t epoch, index; /* of the state from which it was derived */
    uint64_t came_us;      /* what remains is counted from then */
    uint64_t run;          /* whose walltime it is */
    uint64_t restart;      /* the checkpoint that it begins from; 0: from scratch */
    uint64_t remaining_ms;
    uint64_t grace_ms;
    uint64_t walltime_ms; /* 0: it has none */
};

bool walltime_stale(const struct ledger_entry *entry, const struct walltime_word *word);
/* True: the entry has changed. runs: an application does. */
bool walltime_take(struct ledger_entry *entry, bool runs, const struct walltime_word *word);
/* The set does not name the allocation. True: the entry has changed. */
bool walltime_unname(struct ledger_entry *entry, const struct walltime_word *word);

/* The rule alone: which deadline is to be kept, given the one that is (0: none), whether that
 * holds, and a new estimate. */
uint64_t walltime_choose(uint64_t kept_us, uint64_t estimate_us, bool holds);
/* The deadline of the same run with another walltime. 0: none. */
uint64_t walltime_moved(uint64_t kept_us, uint64_t from_ms, uint64_t to_ms);

#endif
