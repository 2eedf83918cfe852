/* What decisions were made from: the policy of their cycle, held once for all that share it, and
 * each one's own inputs.
 *
 * Flow     apply_checkpoint.c gives a new checkpoint its inputs; they leave when the checkpoint has
 *          ended and has no folder.
 * Shapes   numbers are opaque: bits that only the model reads. A basis is never changed, it comes
 *          and goes.
 */
#include <malloc.h>

#include "fsm/core/registry.h"
#include "fsm/core/state.h"

/* Over all fields: two policies that differ in one number are two. */
static uint32_t basis_hash(const Ckpt__Log__V1__DecisionBasis *message)
{
    uint64_t hash = fsm_hash_mix(message->revision, message->member_id);

    for (size_t i = 0; i < message->n_policy; i++)
        hash = fsm_hash_mix(hash, message->policy[i]);
    hash = fsm_hash_mix(hash, fsm_hash_text(message->names));
    return (uint32_t)(hash ^ hash >> 32);
}

/* key is the message. */
static bool basis_equal(const void *item, const char *key)
{
    const struct fsm_basis *view = &((const struct basis *)item)->view;
    const Ckpt__Log__V1__DecisionBasis *message = (const void *)key;

    return view->revision == message->revision && view->member_id == message->member_id &&
           view->policy_count == message->n_policy &&
           memcmp(view->policy, message->policy, message->n_policy * sizeof(uint64_t)) == 0 &&
           strcmp(view->names, message->names) == 0;
}

/* In this free slot, with no reference yet. A restore counts them as it reads the checkpoints. */
struct basis *fsm_basis_create(struct fsm *fsm, uint32_t slot,
                               const Ckpt__Log__V1__DecisionBasis *message)
{
    struct basis *basis = fsm_pool_take(&fsm->bases, slot);
    uint64_t *policy = check_alloc((message->n_policy + 1) * sizeof(*policy));

    CHECK(fsm->bases.used <= FSM_BASES_MAX);
    CHECK(message->n_policy <= FSM_INPUT_NUMBERS_MAX);
    basis->view.slot = slot;
    basis->view.revision = message->revision;
    basis->view.member_id = message->member_id;
    basis->view.names = fsm_intern(fsm, message->names);
    basis->view.policy_count = (uint32_t)message->n_policy;
    basis->view.policy = policy;
    for (size_t i = 0; i < message->n_policy; i++)
        policy[i] = message->policy[i];
    basis->hash = basis_hash(message);
    fsm_map_add(&fsm->basis_map, basis->hash, basis);
    return basis;
}

struct basis *fsm_basis_find(const struct fsm *fsm, const Ckpt__Log__V1__DecisionBasis *message)
{
    CHECK(message != NULL);
    return fsm_map_find(&fsm->basis_map, basis_hash(message), basis_equal,
                        (const char *)(const void *)message);
}

/* When there is no place for another one the decision is taken without its inputs: it is worth more
 * than its explanation. */
struct basis *fsm_basis_of(struct fsm *fsm, const Ckpt__Log__V1__DecisionBasis *message)
{
    struct basis *basis = fsm_basis_find(fsm, message);
    uint32_t slot;

    if (basis == NULL && fsm->bases.used == FSM_BASES_MAX)
        return NULL;
    if (basis == NULL) {
        slot = fsm_pool_free_slot(&fsm->bases);
        fsm_save_empty_basis(fsm, slot);
        basis = fsm_basis_create(fsm, slot, message);
    }
    basis->reference_count++;
    fsm_moved(fsm, FSM_RECORD_BASIS, basis->view.slot);
    return basis;
}

/* The numbers are handed out as constants and were allocated as what they are. */
static void basis_free(struct fsm *fsm, struct basis *basis)
{
    union {
        const uint64_t *constant;
        uint64_t *changing;
    } policy = {basis->view.policy};

    CHECK(basis->view.names != NULL);
    fsm_map_remove(&fsm->basis_map, basis->hash, basis);
    fsm_intern_release(fsm, basis->view.names);
    free(policy.changing);
    fsm_pool_give(&fsm->bases, basis->view.slot);
}

/* A snapshot at work takes it before it goes. */
void fsm_basis_release(struct fsm *fsm, struct basis *basis)
{
    CHECK(basis->reference_count > 0);
    if (--basis->reference_count > 0)
        return;
    fsm_save_basis(fsm, basis);
    basis_free(fsm, basis);
}

/* Bases that a broken snapshot named and no checkpoint took have no reference that could free
 * them. */
void fsm_bases_free(struct fsm *fsm)
{
    for (uint32_t slot = 0; slot < fsm->bases.slot_end; slot++) {
        struct basis *basis = basis_edit(fsm, basis_find_slot(fsm, slot));

        CHECK(basis == NULL || basis->reference_count == 0);
        if (basis != NULL)
            basis_free(fsm, basis);
    }
}

/* One block of memory for all of them: they come and go together. */
void fsm_checkpoint_set_inputs(struct checkpoint *checkpoint, struct basis *basis, uint64_t index,
                               uint64_t term, const Ckpt__Log__V1__DecisionInputs *message)
{
    size_t columns_bytes = message->n_columns * sizeof(uint64_t);
    size_t ages_bytes = message->n_source_age_ms * sizeof(uint32_t);
    struct inputs *inputs = check_alloc(sizeof(*inputs) + columns_bytes + ages_bytes);
    uint32_t *ages = (uint32_t *)(void *)(inputs->numbers + message->n_columns);

    CHECK(basis != NULL);
    CHECK(checkpoint->inputs == NULL);
    CHECK(message->n_columns <= FSM_INPUT_NUMBERS_MAX);
    for (size_t i = 0; i < message->n_columns; i++)
        inputs->numbers[i] = message->columns[i];
    for (size_t i = 0; i < message->n_source_age_ms; i++)
        ages[i] = message->source_age_ms[i];
    inputs->basis = basis;
    inputs->view = (struct fsm_inputs){.basis = &basis->view,
                                       .index = index,
                                       .term = term,
                                       .evaluated_at_ms = message->evaluated_at_ms,
                                       .result_digest = message->result_digest,
                                       .flags = message->flags,
                                       .column_count = (uint32_t)message->n_columns,
                                       .source_count = (uint32_t)message->n_source_age_ms,
                                       .columns = inputs->numbers,
                                       .source_age_ms = ages};
    checkpoint->inputs = inputs;
    checkpoint->view.inputs = &inputs->view;
}

/* They leave when nobody can ask any more why the checkpoint was made: it is over and has no
 * folder. */
void fsm_checkpoint_drop_inputs(struct fsm *fsm, struct checkpoint *checkpoint)
{
    struct inputs *inputs = checkpoint->inputs;

    CHECK(checkpoint->view.id != 0);
    if (inputs == NULL)
        return;
    fsm_hold_checkpoint(fsm, checkpoint);
    checkpoint->inputs = NULL;
    checkpoint->view.inputs = NULL;
    fsm_basis_release(fsm, inputs->basis);
    free(inputs);
}

/* A checkpoint that goes on under another id was decided from the same numbers. */
void fsm_checkpoint_move_inputs(struct checkpoint *from, struct checkpoint *to)
{
    CHECK(to->inputs == NULL);
    to->inputs = from->inputs;
    to->view.inputs = from->view.inputs;
    from->inputs = NULL;
    from->view.inputs = NULL;
}
