/* The node's side of an attempt's barrier (fsm/job/barrier.c has the whole of it). The node reports
 * when all of its ranks know that they are asked. It then reports the first step that all of its
 * ranks can meet. At last it tells its ranks the agreed step.
 */
#include <inttypes.h>
#include <stdio.h>

#include "src/agent/job/attempt_end_step.h"
#include "src/base/check.h"

static void report_barrier(const struct attempt_stepping *step, uint32_t told, uint64_t at_step)
{
    CHECK(told == step->entry->barrier_told + 1);
    attempt_begin_report(step, CKPT__V1__REPORT_KIND__REPORT_KIND_BARRIER)->step = at_step;
    step->entry->barrier_told = told;
}

/* Two rounds, since steps that were said while a slow rank was awaited are old. */
bool attempt_step_barrier(const struct attempt_stepping *step)
{
    const struct barrier_facts *barrier = &step->facts->barrier;
    const struct attempt *attempt = step->attempt;
    char detail[JOB_DETAIL_BYTES];

    CHECK(attempt->state == ATTEMPT_ASKED);
    if (barrier->missed) {
        if (attempt->agreed_step != 0)
            snprintf(detail, sizeof(detail),
                     "rank %" PRIu32 " is at step %" PRIu64 ", %" PRIu64 " was agreed",
                     barrier->rank, barrier->missed_step, attempt->agreed_step);
        else /* an agent that has restarted, or a rank that makes it up */
            snprintf(detail, sizeof(detail),
                     "rank %" PRIu32 " says that it is at step %" PRIu64 ", beyond the agreed one",
                     barrier->rank, barrier->missed_step);
        attempt_fail(step, CKPT__V1__REASON__REASON_STEP_MISSED, detail);
        return true;
    }
    if (!barrier->aware)
        return false;
    if (step->entry->barrier_told == BARRIER_UNTOLD) {
        report_barrier(step, BARRIER_TOLD_AWARE, 0);
        return true;
    }
    if (step->entry->barrier_told != BARRIER_TOLD_AWARE ||
        attempt->barrier != CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_STEPPING)
        return false;
    report_barrier(step, BARRIER_TOLD_STEP, barrier->step);
    return true;
}

/* Another part was put off, so that the step that was said here is not taken. An agent that has
 * restarted may have missed that: it says its step anew, which changes nothing where it was taken.
 */
static void begin_again(const struct attempt_stepping *step)
{
    CHECK(step->entry->barrier_told <= BARRIER_TOLD_STEP);
    if (step->entry->barrier_told != BARRIER_TOLD_STEP)
        return;
    step->entry->barrier_told = BARRIER_TOLD_AWARE;
    step->effects->commit = true;
}

void attempt_take_barrier(const struct attempt_stepping *step, const Ckpt__V1__Order *order)
{
    struct attempt *attempt = step->attempt;

    if (order != NULL) {
        if (order->barrier != attempt->barrier &&
            order->barrier <= CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_STEPPING)
            begin_again(step);
        attempt->barrier = order->barrier;
        attempt->agreed_step = order->agreed_step;
        attempt_add_effect(step, EFFECT_TELL_STEP);
    }
    if (attempt->state == ATTEMPT_ASKED)
        attempt_step_barrier(step);
}
