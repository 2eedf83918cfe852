/* The part of an attempt that asks: the question, and what is heard of it (src/ask/ask.h).
 *
 * Flow     attempt_fire() -> alive, answered (the sentinel is there), deferred, broken. Deferred: the journal has it together with the
 *          report, the state is DEFERRED, and when the time has passed attempt_fire() asks again; the last time it must begin.
 * Shapes   one call per attempt at a time. How often it may defer is bounded by deferral_granted().
 * Errors   a broken call fails the attempt a moment later, so that an application which has ended counts as ended.
 * Source   S1-038..S1-042, P-043; invariants I22, I34.
 */
#ifndef CKPT_AGENT_ATTEMPT_CALL_H
#define CKPT_AGENT_ATTEMPT_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/v1/agent.pb-c.h"
#include "src/ask/ask.h"

struct allocation;

int attempt_fire(struct allocation *allocation, struct err *err);
/* DEFERRED, its time has come. */
void attempt_ask_again(struct allocation *allocation);
/* What is left of it after the agent's restart. */
void attempt_resume_deferral(struct allocation *allocation);
/* Fails the attempt when its call broke a while ago; true: it did. */
bool attempt_call_broke(struct allocation *allocation);

/* Of what was asked for; `used` of `max` are. Not below a 32nd of max and a second: each is a report that is replicated. */
uint64_t deferral_granted(uint64_t asked_ms, uint64_t used_ms, uint64_t max_ms);
/* Nodes put an attempt off side by side: a timeout that has the longest deferral so far, and one more. */
void deferral_count(uint64_t *timeout_ms, uint64_t *longest_ms, uint64_t deferred_ms);

/* attempt.c's, called back from here. */
struct ask_target attempt_target(struct allocation *allocation);
void attempt_move(struct allocation *allocation, enum attempt_state to);
void attempt_fail(struct allocation *allocation, Ckpt__V1__Reason reason, const char *detail);
void attempt_report_prepare(const struct attempt *attempt, Ckpt__V1__AgentReport *report);
/* Looks again in a moment, or fails the attempt when the handler had time to come. */
/* NONE: it can be asked now; else why not, as a failure would name it. */
Ckpt__V1__Reason attempt_preflight(struct allocation *allocation, char *ret_detail, size_t size);
void attempt_await_handler(struct allocation *allocation, Ckpt__V1__Reason reason, const char *why);
void attempt_watch(struct allocation *allocation);
bool attempt_look_for_sentinel(struct allocation *allocation);

#endif
