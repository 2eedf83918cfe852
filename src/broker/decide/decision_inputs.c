/* What a decision was made from, for the log and back. See decision_inputs.h. The columns of a row,
 * its flags and the policy are logged as the bits of their doubles; the digest is of all terms of
 * the result, so that a difference in any bit shows. */
#include "src/broker/decide/decision_inputs.h"

#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/decide/evaluator_view.h"
#include "src/broker/explain/translate.h"

/* The pointers of the message lead into ret_inputs, which must live until it is packed. */
void decision_inputs(const struct eval_view *view, const struct eval_result *result, size_t row,
                     uint64_t now_ms, struct decision_inputs *ret_inputs)
{
    Ckpt__Log__V1__DecisionInputs *message = &ret_inputs->message;

    ckpt__log__v1__decision_inputs__init(message);
    eval_row_take(view, row, ret_inputs->columns);
    message->evaluated_at_ms = now_ms;
    message->n_columns = EVAL_COLUMN_COUNT;
    message->columns = ret_inputs->columns;
    message->flags = view->flags[row];
    message->result_digest = eval_result_digest(result, row);
    message->n_source_age_ms = SOURCE_COUNT;
    message->source_age_ms = ret_inputs->ages_ms;
}

/* The numbers of the situation follow those of the row in the same array, and the digest goes on
 * over the payoffs that it makes. */
void decision_payoffs(const struct eval_situation *situation, struct decision_inputs *inputs)
{
    struct eval_payoffs payoffs;

    CHECK(inputs->message.n_columns == EVAL_COLUMN_COUNT);
    eval_situation_take(situation, inputs->columns + EVAL_COLUMN_COUNT);
    inputs->message.n_columns = EVAL_COLUMN_COUNT + EVAL_SITUATION_COUNT;
    eval_payoffs(situation, &payoffs);
    inputs->message.result_digest = eval_payoffs_digest(inputs->message.result_digest, &payoffs);
}

bool decision_situation(const struct fsm_inputs *inputs, struct eval_situation *ret_situation)
{
    if (inputs->column_count != EVAL_COLUMN_COUNT + EVAL_SITUATION_COUNT)
        return false;
    eval_situation_give(inputs->columns + EVAL_COLUMN_COUNT, ret_situation);
    return true;
}

void decision_basis(const struct eval_policy *policy, uint64_t member_id,
                    struct decision_basis *ret_basis)
{
    Ckpt__Log__V1__DecisionBasis *message = &ret_basis->message;

    ckpt__log__v1__decision_basis__init(message);
    eval_policy_take(policy, ret_basis->policy);
    message->revision = EVAL_MODEL_REVISION;
    message->names = translate_text(eval_input_names());
    message->n_policy = EVAL_POLICY_COUNT;
    message->policy = ret_basis->policy;
    message->member_id = member_id;
}

/* Another revision of the model, or other inputs than this program's, cannot be computed again: the
 * text says which. */
static bool same_version(const struct fsm_inputs *inputs, char *ret_what, size_t size)
{
    if (inputs->basis->revision != EVAL_MODEL_REVISION)
        snprintf(ret_what, size, "revision %u of the model, this version has %d",
                 inputs->basis->revision, EVAL_MODEL_REVISION);
    else if (strcmp(inputs->basis->names, eval_input_names()) != 0 ||
             (inputs->column_count != EVAL_COLUMN_COUNT &&
              inputs->column_count != EVAL_COLUMN_COUNT + EVAL_SITUATION_COUNT) ||
             inputs->basis->policy_count != EVAL_POLICY_COUNT)
        snprintf(ret_what, size,
                 "%u inputs and %u numbers of the policy, this version has %d and %d"
                 " or names them otherwise",
                 inputs->column_count, inputs->basis->policy_count, EVAL_COLUMN_COUNT,
                 EVAL_POLICY_COUNT);
    else
        return true;
    return false;
}

/* Fields of two messages of the terms; what a rule beside the model decides is not compared. */
static bool field_equal(const ProtobufCFieldDescriptor *field, const void *left, const void *right)
{
    const char *a = (const char *)left + field->offset, *b = (const char *)right + field->offset;

    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return memcmp(a, b, sizeof(uint64_t)) == 0;
    case PROTOBUF_C_TYPE_STRING:
        return strcmp(*(const char *const *)(const void *)a,
                      *(const char *const *)(const void *)b) == 0;
    case PROTOBUF_C_TYPE_UINT32:
        return memcmp(a, b, sizeof(uint32_t)) == 0;
    case PROTOBUF_C_TYPE_ENUM: /* purpose: a rule beside the model may have asked */
    default:
        return true;
    }
}

/* NULL: none. */
static const char *first_difference(const Ckpt__V1__DecisionTerms *logged,
                                    const Ckpt__V1__DecisionTerms *again)
{
    const ProtobufCMessageDescriptor *descriptor = &ckpt__v1__decision_terms__descriptor;

    for (unsigned i = 0; i < descriptor->n_fields; i++)
        if (!field_equal(&descriptor->fields[i], logged, again))
            return descriptor->fields[i].name;
    return NULL;
}

/* Makes the row from its bits, scores it, and compares terms and digest. A move is computed again
 * by payoffs, from what was weighed. */
enum decision_match decision_recompute(const struct fsm_inputs *inputs,
                                       const Ckpt__V1__DecisionTerms *terms,
                                       const struct decision_place *place, char *ret_what,
                                       size_t size)
{
    struct eval_view *view = place->view;
    struct eval_result *result = place->result;
    Ckpt__V1__DecisionTerms again;
    struct eval_situation situation;
    struct eval_payoffs payoffs;
    const char *difference;
    uint64_t digest;

    CHECK(size > 0);
    CHECK(view->capacity >= 1);
    ret_what[0] = '\0';
    if (!same_version(inputs, ret_what, size))
        return DECISION_OTHER_VERSION;
    eval_policy_give(inputs->basis->policy, place->policy);
    eval_row_give(inputs->columns, view, 0);
    view->flags[0] = inputs->flags;
    view->count = 1;
    eval_score(place->policy, view, result);
    decision_terms(view, result, 0, decision_purpose(view, result, 0), &again);
    again.weighed_nodes = terms->weighed_nodes; /* the row has the weight alone */
    digest = eval_result_digest(result, 0);
    if (decision_situation(inputs, &situation)) {
        eval_payoffs(&situation, &payoffs);
        digest = eval_payoffs_digest(digest, &payoffs);
        again.verdict = translate_text(eval_action_name(payoffs.best));
    }
    difference = first_difference(terms, &again);
    if (difference == NULL && digest == inputs->result_digest)
        return DECISION_SAME;
    snprintf(ret_what, size, "%s",
             difference != NULL ? difference : "a term, by less than a GPU-millisecond");
    return DECISION_DIFFERS;
}
