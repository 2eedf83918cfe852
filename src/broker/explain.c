/* See explain.h. */
#include "src/broker/explain.h"

#include <stdio.h>

#include "src/base/id.h"
#include "src/broker/broker.h"
#include "src/broker/evaluator.h"
#include "src/broker/evaluator_view.h"
#include "src/broker/translate.h"

enum { EXPLAIN_GUARDS = 5, EXPLAIN_GUARD_BYTES = 160, EXPLAIN_FLIP_BYTES = 256 };

static const char *ok_or_blocks(bool ok)
{
    return ok ? "ok" : "blocks";
}

static void write_guards(const struct evaluator_row *row, const struct fsm_allocation *allocation,
                         char texts[EXPLAIN_GUARDS][EXPLAIN_GUARD_BYTES])
{
    const struct eval_view *view = &row->view;
    const struct eval_policy *policy = row->policy;
    uint32_t flags = view->flags[0];
    bool near = view->walltime_left_s[0] < policy->near_completion_s;
    bool too_soon =
        row->result.verdict[0] == EVAL_SKIP_MIN_INTERVAL || view->age_s[0] < policy->min_interval_s;
    char id[CHECKPOINT_ID_TEXT_BYTES];
    const char *active = (flags & EVAL_FLAG_ACTIVE) == 0 ? "none" : "ended since";

    if ((flags & EVAL_FLAG_ACTIVE) != 0 && allocation->active_checkpoint_id != 0)
        active = checkpoint_id_format(allocation->active_checkpoint_id, id);
    snprintf(texts[0], EXPLAIN_GUARD_BYTES,
             "min_interval: %s (%.1f s of progress at stake, at least %.1f s between two)",
             ok_or_blocks(!too_soon), view->age_s[0], policy->min_interval_s);
    snprintf(texts[1], EXPLAIN_GUARD_BYTES, "one_active: %s (%s)",
             ok_or_blocks((flags & EVAL_FLAG_ACTIVE) == 0), active);
    snprintf(texts[2], EXPLAIN_GUARD_BYTES, "storage: %s (%.0f bytes/s usable)",
             ok_or_blocks((flags & EVAL_FLAG_STORAGE_DOWN) == 0), view->bandwidth_bytes_per_s[0]);
    snprintf(texts[3], EXPLAIN_GUARD_BYTES, "strategy: %s",
             flags & EVAL_FLAG_NOT_AUTO ? "blocks (not auto)" : "ok (auto)");
    if (allocation->walltime_ms == 0)
        snprintf(texts[4], EXPLAIN_GUARD_BYTES, "near_completion: ok (no walltime)");
    else
        snprintf(texts[4], EXPLAIN_GUARD_BYTES,
                 "near_completion: %s (%.0f s left, protected below %.0f s)", ok_or_blocks(!near),
                 view->walltime_left_s[0], policy->near_completion_s);
}

bool explain_last(const struct broker *broker, const char *allocation_id,
                  void (*use)(void *context, const Ckpt__V1__ExplainReply *reply), void *context)
{
    const struct fsm_allocation *allocation =
        fsm_allocation_find(replica_fsm(broker->replica), allocation_id);
    Ckpt__V1__ExplainReply reply = CKPT__V1__EXPLAIN_REPLY__INIT;
    Ckpt__V1__DecisionTerms terms;
    struct consensus_status status;
    struct evaluator_row row;
    char flip[EXPLAIN_FLIP_BYTES] = "";
    char guards[EXPLAIN_GUARDS][EXPLAIN_GUARD_BYTES];
    char *guard_pointers[EXPLAIN_GUARDS];

    if (!evaluator_last(broker->evaluator, allocation, &row))
        return false;
    replica_get_status(broker->replica, &status);
    decision_terms(&row.view, &row.result, 0, decision_purpose(&row.view, &row.result, 0), &terms);
    eval_flip_text(row.policy, &row.view, 0, &row.result, flip, sizeof(flip));
    write_guards(&row, allocation, guards);
    for (int i = 0; i < EXPLAIN_GUARDS; i++)
        guard_pointers[i] = guards[i];
    reply.allocation_id = translate_text(allocation->id);
    reply.evaluated_at_ms = row.evaluated_at_ms;
    reply.checkpoint = eval_verdict_fires((enum eval_verdict)row.result.verdict[0]);
    reply.terms = &terms;
    reply.flips_when = flip;
    reply.leader_id = status.leader_id;
    reply.term = status.term;
    reply.n_guards = EXPLAIN_GUARDS;
    reply.guards = guard_pointers;
    use(context, &reply);
    return true;
}
