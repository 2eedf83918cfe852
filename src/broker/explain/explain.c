/* See explain.h. */
#include "src/broker/explain/explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/broker/broker.h"
#include "src/broker/decide/decision_inputs.h"
#include "src/broker/decide/evaluator.h"
#include "src/broker/decide/evaluator_view.h"

#define SOURCE(name) CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_##name
#define MATCH(name)  CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_##name

static void explained_open(struct explained *explained, const struct broker *broker,
                           const struct fsm_allocation *allocation)
{
    *explained = (struct explained){.broker = broker, .allocation = allocation};
    eval_view_alloc(&explained->view, 1);
    eval_result_alloc(&explained->result, 1);
    explained->view.count = 1;
}

static void explained_close(struct explained *explained)
{
    eval_view_free(&explained->view);
    eval_result_free(&explained->result);
}

static void of_this_leader(struct explained *explained)
{
    struct consensus_status status;

    replica_get_status(explained->broker->replica, &status);
    explained->leader_id = status.member_id;
    explained->term = status.term;
}

/* ---- this leader's evaluations ---- */

static void explain_live(struct explained *explained, const struct evaluator_row *last)
{
    const struct evaluator_row row = *last;

    eval_view_copy_row(&row.view, 0, &explained->view);
    explained->policy = *row.policy;
    eval_score(&explained->policy, &explained->view, &explained->result);
    explained->verdict = (enum eval_verdict)row.result.verdict[0];
    explained->evaluated_at_ms = row.evaluated_at_ms;
    explained->source = SOURCE(LAST);
    explained->has_inputs = true;
    of_this_leader(explained);
    sources_age(replica_fsm(explained->broker->replica), explained->broker->nodes,
                explained->allocation, explained->evaluated_at_ms, explained->ages_ms);
    for (size_t i = 0; i < SOURCE_COUNT; i++)
        explained->aged[i] = true;
}

/* ---- decisions of the log ---- */

/* Of the log: made again from what is beside the decision, and compared. What differs is named, so
 * that nobody believes a number that cannot be computed any more. */
static void of_the_log(struct explained *explained, const struct fsm_inputs *inputs)
{
    const struct decision_place place = {&explained->policy, &explained->view, &explained->result};
    enum decision_match match =
        decision_recompute(inputs, explained->checkpoint->terms, &place, explained->match_detail,
                           sizeof(explained->match_detail));

    explained->has_inputs = match != DECISION_OTHER_VERSION;
    explained->match = match == DECISION_SAME      ? MATCH(SAME)
                       : match == DECISION_DIFFERS ? MATCH(DIFFERS)
                                                   : MATCH(OTHER_VERSION);
    if (explained->has_inputs) {
        explained->verdict = (enum eval_verdict)explained->result.verdict[0];
        explained->has_payoffs = decision_situation(inputs, &explained->situation);
    }
    if (explained->has_payoffs) {
        eval_payoffs(&explained->situation, &explained->payoffs);
        explained->verdict = EVAL_CHECKPOINT_MOVE;
    }
    explained->evaluated_at_ms = inputs->evaluated_at_ms;
    explained->leader_id = inputs->basis->member_id;
    explained->term = inputs->term;
    explained->index = inputs->index;
    for (uint32_t i = 0; i < SOURCE_COUNT; i++) {
        explained->aged[i] = i < inputs->source_count;
        explained->ages_ms[i] = explained->aged[i] ? inputs->source_age_ms[i] : 0;
    }
}

/* A decision without inputs is told with its terms alone. */
static void explain_logged(struct explained *explained, const struct fsm_checkpoint *checkpoint)
{
    explained->checkpoint = checkpoint;
    explained->source = SOURCE(LOG);
    explained->evaluated_at_ms = checkpoint->created_at_ms;
    explained->match = MATCH(NO_INPUTS);
    if (checkpoint->inputs != NULL)
        of_the_log(explained, checkpoint->inputs);
}

/* The last decision of the evaluator at that instant or before. */
static const struct fsm_checkpoint *decision_at(const struct fsm *fsm,
                                                const struct fsm_allocation *allocation,
                                                uint64_t at_ms)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_next_of(fsm, allocation->slot, 0);
    const struct fsm_checkpoint *last = NULL;

    for (; checkpoint != NULL;
         checkpoint = fsm_checkpoint_next_of(fsm, allocation->slot, checkpoint->id))
        if (checkpoint->terms != NULL && checkpoint->created_at_ms <= at_ms)
            last = checkpoint;
    return last;
}

/* A move was chosen by payoffs: what was weighed is in the log only. What the state refused is
 * told as it was evaluated. */
static void prefer_move(struct explained *explained)
{
    const struct fsm *fsm = replica_fsm(explained->broker->replica);
    uint32_t slot = explained->allocation->slot;
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_next_of(fsm, slot, 0);

    if (explained->verdict != EVAL_CHECKPOINT_MOVE)
        return;
    while (checkpoint != NULL &&
           (checkpoint->inputs == NULL ||
            checkpoint->inputs->evaluated_at_ms != explained->evaluated_at_ms))
        checkpoint = fsm_checkpoint_next_of(fsm, slot, checkpoint->id);
    if (checkpoint == NULL)
        return;
    explain_logged(explained, checkpoint);
}

/* ---- requests ---- */

/* The first decision of the evaluator. */
static const struct fsm_checkpoint *first_decision(const struct fsm *fsm,
                                                   const struct fsm_allocation *allocation)
{
    const struct fsm_checkpoint *first = fsm_checkpoint_next_of(fsm, allocation->slot, 0);

    while (first != NULL && first->terms == NULL)
        first = fsm_checkpoint_next_of(fsm, allocation->slot, first->id);
    return first;
}

/* In force at an instant is the last evaluation, or else the last decision before it: of
 * evaluations only the last one is kept. */
static enum explain_found find_explained(struct explained *explained, uint64_t at_ms,
                                         uint64_t *ret_oldest_ms)
{
    const struct fsm *fsm = replica_fsm(explained->broker->replica);
    uint64_t until_ms = at_ms == 0 ? UINT64_MAX : at_ms;
    const struct fsm_checkpoint *checkpoint;
    struct evaluator_row row;
    bool live;

    if (at_ms > replica_state_ms(explained->broker->replica))
        return EXPLAIN_FUTURE;
    if (at_ms == 0 && fsm_hung(explained->allocation))
        return EXPLAIN_HUNG;
    live = evaluator_last(explained->broker->evaluator, explained->allocation, &row);
    if (live)
        *ret_oldest_ms = row.evaluated_at_ms;
    checkpoint = first_decision(fsm, explained->allocation);
    if (checkpoint != NULL && (!live || checkpoint->created_at_ms < *ret_oldest_ms))
        *ret_oldest_ms = checkpoint->created_at_ms;
    if (live && row.evaluated_at_ms <= until_ms) {
        explain_live(explained, &row);
        prefer_move(explained);
        return EXPLAIN_FOUND;
    }
    checkpoint = decision_at(fsm, explained->allocation, until_ms);
    if (checkpoint != NULL) {
        explain_logged(explained, checkpoint);
        return EXPLAIN_FOUND;
    }
    return *ret_oldest_ms == 0 ? EXPLAIN_NOT_EVALUATED : EXPLAIN_TOO_OLD;
}

/* A checkpoint is named, or an allocation with an instant: 0 means now. */
enum explain_found explain_request(const struct broker *broker,
                                   const Ckpt__V1__ExplainRequest *request, explain_use *use,
                                   void *context, uint64_t *ret_oldest_ms)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    const struct fsm_checkpoint *checkpoint = NULL;
    const struct fsm_allocation *allocation;
    enum explain_found found = EXPLAIN_FOUND;
    struct explained explained;

    *ret_oldest_ms = 0;
    if (request->checkpoint_id != 0) {
        checkpoint = fsm_checkpoint_find(fsm, request->checkpoint_id);
        if (checkpoint == NULL)
            return EXPLAIN_NO_CHECKPOINT;
        if (checkpoint->terms == NULL)
            return EXPLAIN_NO_DECISION;
        allocation = fsm_allocation_at(fsm, checkpoint->allocation_slot);
    } else {
        allocation = fsm_allocation_find(fsm, request->allocation_id);
    }
    if (allocation == NULL)
        return EXPLAIN_NO_JOB;
    explained_open(&explained, broker, allocation);
    if (checkpoint != NULL)
        explain_logged(&explained, checkpoint);
    else
        found = find_explained(&explained, request->at_ms, ret_oldest_ms);
    if (found == EXPLAIN_FOUND)
        explain_reply(&explained, *ret_oldest_ms, use, context);
    explained_close(&explained);
    return found;
}

/* Instants as people write them; a number where the calendar ends. */
static const char *format_utc(uint64_t at_ms, char text[32])
{
    time_t at_s = (time_t)(at_ms / 1000);
    struct tm tm;

    if (gmtime_r(&at_s, &tm) == NULL || strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(text, 32, "%" PRIu64 " ms", at_ms);
    return text;
}

/* Each says what is known and what to ask instead. */
const char *explain_refusal(enum explain_found found, const Ckpt__V1__ExplainRequest *request,
                            const char *state, uint64_t oldest_ms, char *text, size_t size)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], at[32], oldest[32];

    switch (found) {
    case EXPLAIN_NO_JOB:
    case EXPLAIN_FOUND:
        CHECK_UNREACHABLE("has words of its own");
    case EXPLAIN_NO_CHECKPOINT:
        snprintf(text, size, "CHECKPOINT_NOT_FOUND: there is no checkpoint %s (any more)",
                 checkpoint_id_format(request->checkpoint_id, id));
        break;
    case EXPLAIN_NO_DECISION:
        snprintf(text, size,
                 "NO_DECISION: checkpoint %s was asked for by somebody, not decided by the model; "
                 "its purpose says for what",
                 checkpoint_id_format(request->checkpoint_id, id));
        break;
    case EXPLAIN_NOT_EVALUATED:
        snprintf(
            text, size,
            "NOT_EVALUATED: this leader has not evaluated the allocation yet, which is %s; only "
            "RUNNING ones are, once per evaluation interval: ask again after it",
            state);
        break;
    case EXPLAIN_HUNG:
        snprintf(text, size,
                 "HUNG: no rank of the job steps any more, and none could answer, so nothing is "
                 "asked of it before one does: %s; --at explains an earlier instant",
                 state);
        break;
    case EXPLAIN_TOO_OLD:
        snprintf(text, size,
                 "TOO_OLD: nothing is known of the allocation at %s; the oldest instant that can "
                 "be explained is %s (of evaluations the leader keeps the last one, decisions stay "
                 "in the log)",
                 format_utc(request->at_ms, at), format_utc(oldest_ms, oldest));
        break;
    case EXPLAIN_FUTURE:
        snprintf(text, size, "INVALID_ARGUMENT: %s is in the future",
                 format_utc(request->at_ms, at));
        break;
    }
    return text;
}
