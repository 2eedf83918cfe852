/* What the files of an attempt's step share: what a step works on, its moves, and its ends.
 *
 * Shapes   all of it is for attempt_step.c and its like alone.
 */
#ifndef CKPT_AGENT_ATTEMPT_END_STEP_H
#define CKPT_AGENT_ATTEMPT_END_STEP_H

#include "src/agent/job/attempt_step.h"

/* What a step works on. */
struct attempt_stepping {
    struct attempt *attempt;
    struct ledger_entry *entry;
    const struct attempt_facts *facts;
    struct job_effects *effects;
};

void attempt_move_to(const struct attempt_stepping *step, enum attempt_state to);
void attempt_add_effect(const struct attempt_stepping *step, enum job_effect_kind kind);
void attempt_add_timer(const struct attempt_stepping *step, uint64_t delay_us);
Ckpt__V1__AgentReport *attempt_begin_report(const struct attempt_stepping *step,
                                            Ckpt__V1__ReportKind kind);
/* With the report that ends it: the journal knows that it is over. */
void attempt_use_up(const struct attempt_stepping *step);
void attempt_tell_outcome(const struct attempt_stepping *step);
void attempt_end(const struct attempt_stepping *step);
void attempt_stop_asking(const struct attempt_stepping *step);
/* To a state that cleans. */
void attempt_clean_up(const struct attempt_stepping *step, enum attempt_state to);
/* What failed, or is withdrawn, is told when nothing of it is left. */
void attempt_finish(const struct attempt_stepping *step, const struct attempt_outcome *outcome,
                    bool worker_runs);
void attempt_fail(const struct attempt_stepping *step, Ckpt__V1__Reason reason, const char *detail);

/* ---- until it is asked: attempt_ask_step.c ---- */
enum { ASKED_POLL_US = 200000 };
extern const char attempt_exited[];
/* Where the application writes, as the entry has it. */
void attempt_set_directory(struct attempt *attempt, const struct ledger_entry *entry);
/* WAITING, STAGED: when it can be asked, and has a folder. */
void attempt_try_asking(const struct attempt_stepping *step);
/* DEFERRED: its time has come. */
void attempt_ask_again(const struct attempt_stepping *step);
void attempt_begin_asked(const struct attempt_stepping *step);
void attempt_take_unasked(const struct attempt_stepping *step, const struct attempt_event *event);
/* The worker that makes a folder has ended. */
void attempt_take_stage_ended(const struct attempt_stepping *step,
                              const struct attempt_event *event);

/* ---- standing still: attempt_still_step.c ---- */
/* All of it is written. */
void attempt_take_written(const struct attempt_stepping *step);
void attempt_begin_put(const struct attempt_stepping *step);
/* It is to end with what it was to go on after, and may have gone on since it was written. */
void attempt_take_after(const struct attempt_stepping *step, const Ckpt__V1__Order *order);
/* It waits for the next orders. */
void attempt_begin_still(const struct attempt_stepping *step);
/* With its timer: whoever looks at the job's output sees why nothing happens. */
void attempt_say_still(const struct attempt_stepping *step);
void attempt_take_frozen(const struct attempt_stepping *step);
void attempt_take_unfrozen(const struct attempt_stepping *step, const char *why);
void attempt_take_thawed(const struct attempt_stepping *step);
/* If it stands still, it goes on. */
void attempt_let_go(const struct attempt_stepping *step);
/* What is at the destination stays, and the application goes on. */
void attempt_leave_still(const struct attempt_stepping *step);
/* The worker has ended. */
void attempt_take_put(const struct attempt_stepping *step, const struct attempt_put *put);

/* ---- the barrier: attempt_barrier_step.c ---- */
/* ASKED: tells what its ranks have come to. True: there is a report, or the attempt has ended. */
bool attempt_step_barrier(const struct attempt_stepping *step);
/* order: it has moved; NULL: a rank has said something. */
void attempt_take_barrier(const struct attempt_stepping *step, const Ckpt__V1__Order *order);

#endif
