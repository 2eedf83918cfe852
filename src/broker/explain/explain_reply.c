/* One evaluation as a message. See explain.h. struct reply_space has room for all that a reply can
 * hold, so that nothing is counted before it is written; the reply is handed out while it
 * exists. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/broker.h"
#include "src/broker/decide/evaluator.h"
#include "src/broker/decide/evaluator_view.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/explain/explain.h"
#include "src/broker/explain/translate.h"
#include "src/eval/breakdown.h"
#include "src/eval/inputs.h"

enum {
    INPUTS = EVAL_COLUMN_COUNT + 1 + EVAL_POLICY_COUNT, /* and the flags */
    NUMBER_BYTES = 32,
    CHANGED_BYTES = 512
};

/* One message with everything it points to. */
struct reply_space {
    Ckpt__V1__ExplainReply reply;
    Ckpt__V1__DecisionTerms terms;
    Ckpt__V1__ExplainInput inputs[INPUTS], *input_pointers[INPUTS];
    char values[INPUTS][NUMBER_BYTES];
    char flags[EXPLAIN_TEXT_BYTES];
    char sources[SOURCE_COUNT][EXPLAIN_TEXT_BYTES];
    Ckpt__V1__ExplainPart parts[EVAL_PARTS_MAX], *part_pointers[EVAL_PARTS_MAX];
    char amounts[EVAL_PARTS_MAX][2][NUMBER_BYTES];
    char guards[EXPLAIN_GUARDS][EXPLAIN_TEXT_BYTES], *guard_pointers[EXPLAIN_GUARDS];
    char flips[EXPLAIN_TEXT_BYTES];
    struct explain_change change;
    Ckpt__V1__ExplainChange change_message;
    Ckpt__V1__ExplainGrant grant;
    char phi[NUMBER_BYTES];
    char weighed_by[WEIGHT_TEXT_BYTES];
};

/* ---- inputs and terms ---- */

/* Each input has its bits, so that a reader can compute with the very number. */
static void add_input(struct reply_space *space, const struct explained *explained,
                      const char *name, const char *value, uint64_t bits, bool of_policy)
{
    size_t i = space->reply.n_inputs++;
    Ckpt__V1__ExplainInput *input = &space->inputs[i];
    enum source source = source_of(name);

    CHECK(i < INPUTS);
    ckpt__v1__explain_input__init(input);
    input->name = translate_text(name);
    input->value = translate_text(value);
    input->bits = bits;
    input->heard = source == SOURCE_STATE || !explained->aged[source] ||
                   explained->ages_ms[source] != SOURCE_NOTHING;
    input->aged = source != SOURCE_STATE && explained->aged[source] && input->heard;
    input->age_ms = input->aged ? explained->ages_ms[source] : 0;
    input->source = of_policy && source == SOURCE_STATE ? translate_text("policy")
                    : input->heard                      ? space->sources[source]
                                                        : translate_text(source_prior(source));
    input->of_policy = of_policy;
    space->input_pointers[i] = input;
}

/* "queue reports: vcluster hpc". Of agents and queues the present ones are known only, so not of
 * the past. */
static void write_sources(struct reply_space *space, const struct explained *explained)
{
    const struct broker *broker = explained->broker;
    bool now = explained->source == CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_LAST;

    for (int i = 0; i < SOURCE_COUNT; i++) {
        enum source source = (enum source)i;
        char subject[SOURCE_SUBJECT_BYTES] = "";

        if (now || source == SOURCE_OWN || source == SOURCE_TARGET)
            sources_subject(replica_fsm(broker->replica), broker->nodes, explained->allocation,
                            explained->evaluated_at_ms, source, subject);
        snprintf(space->sources[i], sizeof(space->sources[i]), "%s%s%s", source_name(source),
                 subject[0] == '\0' ? "" : ": ", subject);
    }
}

/* Columns of the row, its flags, numbers of the policy: in the order of src/eval/inputs.h, in which
 * they are logged. */
static void write_inputs(struct reply_space *space, const struct explained *explained)
{
    uint64_t row[EVAL_COLUMN_COUNT], policy[EVAL_POLICY_COUNT];
    size_t at = 0;

    write_sources(space, explained);
    eval_row_take(&explained->view, 0, row);
    eval_policy_take(&explained->policy, policy);
#define X(column)                                                                                  \
    add_input(space, explained, #column,                                                           \
              explain_number(explained->view.column[0], space->values[at]), row[at], false);       \
    at++;
    EVAL_VIEW_COLUMNS(X)
#undef X
    add_input(space, explained, "flags",
              explain_flags(explained->view.flags[0], space->flags, sizeof(space->flags)),
              explained->view.flags[0], false);
#define X(number)                                                                                  \
    add_input(space, explained, #number,                                                           \
              explain_number(explained->policy.number, space->values[at]),                         \
              policy[at - EVAL_COLUMN_COUNT], true);                                               \
    at++;
    EVAL_POLICY_NUMBERS(X)
#undef X
    space->reply.inputs = space->input_pointers;
}

/* The terms taken apart: raw amount times weight, as src/eval/breakdown.c has them. */
static void write_parts(struct reply_space *space, const struct explained *explained)
{
    struct eval_part parts[EVAL_PARTS_MAX];
    size_t count = eval_breakdown(&explained->policy, &explained->view, 0, parts);

    for (size_t i = 0; i < count; i++) {
        Ckpt__V1__ExplainPart *part = &space->parts[i];
        bool nothing = parts[i].raw == 0 || parts[i].weight == 0;

        ckpt__v1__explain_part__init(part);
        part->term = translate_text(parts[i].term);
        part->what = translate_text(parts[i].what);
        part->raw = translate_text(explain_number(parts[i].raw, space->amounts[i][0]));
        part->raw_unit = translate_text(parts[i].raw_unit);
        part->weight = translate_text(explain_number(parts[i].weight, space->amounts[i][1]));
        part->weight_unit = translate_text(parts[i].weight_unit);
        part->gpu_ms = nothing ? 0 : saturate_int64(parts[i].raw * parts[i].weight * 1e3);
        space->part_pointers[i] = part;
    }
    space->reply.n_parts = count;
    space->reply.parts = space->part_pointers;
}

/* Guards in lines, and what would flip the verdict, as a sentence and as numbers. */
static void write_words(struct reply_space *space, const struct explained *explained)
{
    Ckpt__V1__ExplainChange *message = &space->change_message;

    explain_guards(explained, space->guards);
    for (int i = 0; i < EXPLAIN_GUARDS; i++)
        space->guard_pointers[i] = space->guards[i];
    space->reply.n_guards = EXPLAIN_GUARDS;
    space->reply.guards = space->guard_pointers;
    explain_flips(explained, space->flips, sizeof(space->flips));
    space->reply.flips_when = space->flips;
    if (!explain_change(explained, &space->change))
        return;
    ckpt__v1__explain_change__init(message);
    message->input = translate_text(space->change.input);
    message->from = space->change.from;
    message->to = space->change.to;
    message->cleared_flag = space->change.cleared_flag;
    message->cleared = space->change.cleared;
    message->relative_ppm = space->change.relative_ppm;
    space->reply.change = message;
}

/* ---- bandwidth ---- */

/* As the leader's last look at those that wait left it. */
static void write_place(Ckpt__V1__ExplainGrant *grant, const struct broker *broker,
                        const struct fsm_checkpoint *own)
{
    Ckpt__V1__Checkpoint place = CKPT__V1__CHECKPOINT__INIT;

    place.checkpoint_id = own->id;
    place.state = own->state;
    dispatcher_fill_place(broker->dispatcher, &place);
    grant->ahead_known = place.queue_position > 0;
    grant->ahead = grant->ahead_known ? place.queue_position - 1 : 0;
    grant->wave = place.wave;
    grant->expected_start_ms = place.expected_start_ms;
}

/* Where the bandwidth stands: of now, also when the past is explained. */
static void write_grant(struct reply_space *space, const struct explained *explained)
{
    const struct fsm *fsm = replica_fsm(explained->broker->replica);
    const struct fsm_allocation *allocation = explained->allocation;
    const struct fsm_target *target = fsm_destination(fsm, allocation);
    const struct fsm_checkpoint *active =
        fsm_checkpoint_find(fsm, allocation->active_checkpoint_id);
    Ckpt__V1__ExplainGrant *grant = &space->grant;

    ckpt__v1__explain_grant__init(grant);
    if (target != NULL) {
        grant->target_id = translate_text(target->id);
        grant->available = target->available;
        grant->outage = target->available ? CKPT__V1__REASON__REASON_NONE : target->reason;
        grant->budget_bytes_per_s = target->budget_bytes_per_s;
        grant->granted_bytes_per_s = target->granted_bytes_per_s;
        grant->parts_writing = target->writing_count;
        grant->max_writes = target->max_writes;
    }
    if (active != NULL) {
        grant->active_checkpoint_id = active->id;
        grant->state = active->state;
        grant->own_granted_bytes_per_s = active->granted_bytes_per_s;
    }
    if (active != NULL)
        write_place(grant, explained->broker, active);
    if (explained->has_inputs)
        grant->phi_gpu_s_per_gb =
            translate_text(explain_number(explained->policy.phi_gpu_s_per_byte * 1e9, space->phi));
    space->reply.grant = grant;
}

/* ---- all ---- */

/* A decision of the log is told with the terms that were logged, an evaluation with those of its
 * row. */
static void write_terms(struct reply_space *space, const struct explained *explained)
{
    union {
        const Ckpt__V1__DecisionTerms *constant;
        Ckpt__V1__DecisionTerms *changing;
    } logged = {explained->checkpoint != NULL ? explained->checkpoint->terms : NULL};

    space->reply.checkpoint = explained->checkpoint != NULL;
    space->reply.terms = logged.changing;
    if (logged.constant != NULL)
        return;
    decision_terms(&explained->view, &explained->result, 0,
                   decision_purpose(&explained->view, &explained->result, 0), &space->terms);
    decision_weighed(replica_fsm(explained->broker->replica), explained->allocation, &space->terms);
    space->terms.verdict = translate_text(eval_verdict_name(explained->verdict));
    space->reply.terms = &space->terms;
    space->reply.checkpoint = eval_verdict_fires(explained->verdict);
}

/* Borrowed texts are the state's: use() packs the reply before it returns. */
void explain_reply(const struct explained *explained, uint64_t oldest_ms, explain_use *use,
                   void *context)
{
    struct reply_space *space = check_calloc(1, sizeof(*space));
    Ckpt__V1__ExplainReply *reply = &space->reply;

    ckpt__v1__explain_reply__init(reply);
    reply->allocation_id = translate_text(explained->allocation->id);
    reply->evaluated_at_ms = explained->evaluated_at_ms;
    reply->asked_at_ms = replica_state_ms(explained->broker->replica);
    reply->leader_id = explained->leader_id;
    reply->term = explained->term;
    reply->source = explained->source;
    reply->checkpoint_id = explained->checkpoint != NULL ? explained->checkpoint->id : 0;
    reply->index = explained->index;
    reply->match = explained->match;
    reply->match_detail = translate_text(explained->match_detail);
    reply->oldest_ms = oldest_ms;
    write_terms(space, explained);
    reply->weighed_by = translate_text(
        translate_weight((struct fsm_weight){reply->terms->gpu_count, reply->terms->weighed_nodes},
                         space->weighed_by));
    write_grant(space, explained);
    if (explained->has_inputs) {
        write_inputs(space, explained);
        write_parts(space, explained);
        write_words(space, explained);
    }
    use(context, reply);
    free(space);
}
