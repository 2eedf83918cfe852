/* Decisions are computed again from what the log has of them: I37. And what they were made from
 * were numbers: I38.
 *
 * Flow     when a member is the first to apply a decision that asked for a checkpoint, and at the
 *          end by one of them, whose state is that of all, for all that it still has, through the
 *          way of ckptctl explain --checkpoint. The bits of every term and of the verdict must be
 *          the logged ones.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/explain/explain.h"
#include "src/eval/inputs.h"
#include "tests/sim/world_internal.h"

struct asked {
    struct world_member *member;
    const struct fsm_checkpoint *checkpoint;
};

/* With the folder, also of a failed one, go the inputs; one that ended before it was dispatched has
 * none. */
static bool inputs_left(const struct fsm_checkpoint *checkpoint)
{
    return !fsm_checkpoint_state_active(checkpoint->state) &&
           checkpoint->state != CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE;
}

static void on_reply(void *context, const Ckpt__V1__ExplainReply *reply)
{
    const struct asked *asked = context;
    struct world *world = asked->member->world;

    world->counts.recomputed += reply->match == CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_SAME;
    if (inputs_left(asked->checkpoint) &&
        reply->match == CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_NO_INPUTS)
        return;
    if (reply->match != CKPT__V1__EXPLAIN_MATCH__EXPLAIN_MATCH_SAME || !reply->checkpoint)
        world_violation(world, "I37",
                        "member %u computes the decision that asked for checkpoint %" PRIx64
                        " again, match %d, verdict %d: %s",
                        asked->member->number + 1, asked->checkpoint->id, (int)reply->match,
                        reply->checkpoint, reply->match_detail);
}

/* ---- I38 ---- */

static double number_of(uint64_t bits)
{
    double number;

    memcpy(&number, &bits, sizeof(number));
    return number;
}

/* The n-th word of the names that the decision itself has. */
static const char *name_of(const char *names, size_t n, char *name, size_t size)
{
    size_t length;

    for (;; names += length + strspn(names + length, " ")) {
        length = strcspn(names, " ");
        if (length == 0 || (*names != '|' && n-- == 0))
            break;
    }
    snprintf(name, size, "%.*s", (int)length, names);
    return name;
}

static bool may_be_infinite(const char *name)
{
    return strcmp(name, "walltime_left_s") == 0 || strcmp(name, "cost_gpu_s") == 0;
}

/* Read here, not with the code that decides: none is negative but what a move of the job weighs. */
static void check_numbers(struct world_member *member, const struct fsm_checkpoint *checkpoint,
                          const uint64_t *bits, size_t count, size_t first)
{
    char name[64];

    for (size_t i = 0; i < count; i++) {
        double number = number_of(bits[i]);
        bool weighed = first == 0 && i >= EVAL_COLUMN_COUNT; /* behind the policy's names */

        if (isfinite(number) && (number >= 0 || weighed))
            continue;
        (void)name_of(checkpoint->inputs->basis->names, weighed ? i + EVAL_POLICY_COUNT : first + i,
                      name, sizeof(name));
        if (!isnan(number) && number > 0 && may_be_infinite(name))
            continue;
        world_violation(member->world, "I38", "checkpoint %" PRIx64 " was decided when %s was %g",
                        checkpoint->id, name, number);
    }
}

static void check_decision(struct world_member *member, const struct fsm_checkpoint *checkpoint)
{
    const struct fsm_inputs *inputs = checkpoint->inputs;

    if (inputs == NULL)
        return;
    CHECK(inputs->column_count == EVAL_COLUMN_COUNT ||
          inputs->column_count == EVAL_COLUMN_COUNT + EVAL_SITUATION_COUNT);
    check_numbers(member, checkpoint, inputs->columns, inputs->column_count, 0);
    check_numbers(member, checkpoint, inputs->basis->policy, inputs->basis->policy_count,
                  EVAL_COLUMN_COUNT);
}

/* One that somebody asked for was not decided. */
static void recompute(struct world_member *member, const struct fsm_checkpoint *checkpoint)
{
    struct asked asked = {member, checkpoint};
    Ckpt__V1__ExplainRequest request = CKPT__V1__EXPLAIN_REQUEST__INIT;
    uint64_t oldest_ms;

    if (checkpoint->terms != NULL)
        check_decision(member, checkpoint);
    request.checkpoint_id = checkpoint->id;
    if (checkpoint->terms != NULL)
        (void)explain_request(&member->broker, &request, on_reply, &asked, &oldest_ms);
}

void decisions_check(struct world_member *member, uint64_t checkpoint_id)
{
    const struct fsm_checkpoint *checkpoint =
        fsm_checkpoint_find(member_fsm(member), checkpoint_id);

    if (member->broker.evaluator != NULL && checkpoint != NULL) /* while it starts it is not */
        recompute(member, checkpoint);
}

void decisions_check_all(struct world_member *member)
{
    const struct fsm *fsm = member_fsm(member);
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_next(fsm, 0);

    for (; checkpoint != NULL; checkpoint = fsm_checkpoint_next(fsm, checkpoint->id))
        recompute(member, checkpoint);
}
