/* What an agent decides of one allocation, as one pure state machine: its process, its checkpoint
 * attempt and its walltime. A step moves one part; what that means to another one is an effect,
 * which comes back as the next event.
 *
 *   event                         part      effects that are another part's events
 *   ---------------------------   -------   ----------------------------------------------------
 *   PROCESS_*  (process_step.h)   process   EFFECT_ATTEMPT_GONE, EFFECT_ATTEMPT_GIVE_UP:
 *                                           ATTEMPT_GONE, ATTEMPT_GIVE_UP; EFFECT_WALLTIME
 *   ATTEMPT_*  (attempt_step.h)   attempt   EFFECT_ATTEMPT_ENDED: PROCESS_ATTEMPT_ENDED
 *   WALLTIME_TOLD, _UNNAMED       walltime  EFFECT_WALLTIME
 *   WALLTIME_RUN, _WANTED        walltime  EFFECT_WALLTIME
 *   WALLTIME_OVER                 process   as of PROCESS_STOP
 *
 *   process ABSENT: the attempt is none of ASKING, ASKED, BROKEN, since who is asked runs, or has
 *   been seen to end, and the attempt was told before that is reported.
 *
 * Flow     executor.h sees the facts, calls job_step(), writes the entry and the report into the
 *          journal, and then carries the effects out, in this order.
 * Shapes   caller's structs; nothing is allocated. At most one report and JOB_EFFECTS_MAX effects
 *          per step.
 * Errors   none: job_check() holds after each step; else it is a bug.
 * Absent   I/O, clocks, logs, libuv: the lint holds these files to what fsm/ may call.
 */
#ifndef CKPT_AGENT_JOB_STEP_H
#define CKPT_AGENT_JOB_STEP_H

#include "src/agent/job/attempt_step.h"
#include "src/agent/job/process_step.h"
#include "src/agent/job/walltime_step.h"

/* The parts, where their owner keeps them. */
struct job {
    struct process *process;
    struct attempt *attempt;
    struct ledger_entry *entry;
};

enum job_part { JOB_PROCESS, JOB_ATTEMPT, JOB_WALLTIME };

enum walltime_event_kind {
    WALLTIME_TOLD,    /* by an order set or a restart point */
    WALLTIME_UNNAMED, /* an order set does not name the allocation */
    WALLTIME_RUN,     /* the next application is for word.run */
    WALLTIME_WANTED,  /* the timer is, perhaps again: the agent has restarted, or one is to start */
    WALLTIME_OVER     /* the timer */
};
struct walltime_event {
    enum walltime_event_kind kind;
    struct walltime_word word;
};

struct job_event {
    enum job_part part;
    union {
        struct process_event process;
        struct attempt_event attempt;
        struct walltime_event walltime;
    };
};

/* What the parts know of each other is filled by the step. */
struct job_facts {
    struct process_facts process;
    struct attempt_facts attempt;
};

void job_step(const struct job *job, const struct job_event *event, struct job_facts *facts,
              struct job_effects *ret_effects);
/* Which combinations are legal; anything else is a bug. */
void job_check(const struct job *job);

/* The run is over on this node: nothing may start for it. epoch: of the state that names it. */
bool job_run_over(const struct ledger_entry *entry, uint64_t epoch, uint64_t run);
/* Another run than the one whose walltime is kept. */
bool job_run_new(const struct ledger_entry *entry, uint64_t run);

#endif
