/* Victims whose complete checkpoint another node reads before their nodes are given away: I53.
 *
 * Flow     after each entry the orders to read that somebody waits for are compared with those of
 *          the entry before: a checkpoint is held from the first one on, until there is none.
 * Shapes   a row per checkpoint that was ever held.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "tests/sim/world_internal.h"

struct held {
    uint64_t id;
    uint64_t since_index, until_index; /* until_index 0: it is held now */
    uint64_t seen_index;
};

struct release_checks {
    struct held *items;
    size_t count, capacity;
};

void releases_init(struct world *world)
{
    world->releases = check_calloc(1, sizeof(*world->releases));
}

void releases_close(struct world *world)
{
    free(world->releases->items);
    free(world->releases);
}

static struct held *held_find(const struct release_checks *checks, uint64_t id)
{
    for (size_t i = 0; i < checks->count; i++)
        if (checks->items[i].id == id)
            return &checks->items[i];
    return NULL;
}

static struct held *held_add(struct release_checks *checks, uint64_t id, uint64_t index)
{
    if (checks->count == checks->capacity) {
        checks->capacity = 2 * checks->capacity + 8;
        checks->items = check_realloc(checks->items, checks->capacity, sizeof(*checks->items));
    }
    checks->items[checks->count] = (struct held){.id = id, .since_index = index};
    return &checks->items[checks->count++];
}

/* A victim's last one, that is complete; nobody reads what it wrote itself. */
static void held_check(struct world *world, const struct fsm *fsm, uint32_t node_slot,
                       const struct fsm_verification *read)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, read->checkpoint_id);
    const struct fsm_allocation *job = fsm_allocation_at(fsm, checkpoint->allocation_slot);

    if (checkpoint->state != CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE ||
        (checkpoint->purpose != CKPT__V1__PURPOSE__PURPOSE_PREEMPT &&
         (job->next_count == 0 || job->leaving)) ||
        job->terminating || job->last_complete_id != checkpoint->id ||
        checkpoint->shards[read->part].node_slot == node_slot)
        world_violation(world, "I53", "%s is to read part %u of %" PRIx64 ", for which %s waits",
                        fsm_node_name(fsm, node_slot), read->part, read->checkpoint_id, job->id);
}

void releases_applied(struct world *world, const struct fsm *fsm, uint64_t index)
{
    struct release_checks *checks = world->releases;

    for (uint32_t slot = 0; slot < fsm_node_slots(fsm); slot++) {
        const struct fsm_verification *reads[FSM_VERIFICATIONS_PER_NODE_MAX];
        size_t count = fsm_verifications_on_node(fsm, slot, reads, FSM_VERIFICATIONS_PER_NODE_MAX);

        for (size_t i = 0; i < count; i++) {
            struct held *held = held_find(checks, reads[i]->checkpoint_id);

            if (!reads[i]->holds)
                continue;
            if (held == NULL)
                held = held_add(checks, reads[i]->checkpoint_id, index);
            held->seen_index = index;
            held_check(world, fsm, slot, reads[i]);
        }
    }
    for (size_t i = 0; i < checks->count; i++)
        if (checks->items[i].until_index == 0 && checks->items[i].seen_index != index) {
            checks->items[i].until_index = index;
            world->counts.held++;
        }
}

bool releases_held_at(const struct world *world, uint64_t checkpoint_id, uint64_t index)
{
    const struct held *held = held_find(world->releases, checkpoint_id);

    return held != NULL && index >= held->since_index &&
           (held->until_index == 0 || index <= held->until_index);
}

bool releases_ended_at(const struct world *world, uint64_t checkpoint_id, uint64_t index)
{
    const struct held *held = held_find(world->releases, checkpoint_id);

    return held != NULL && held->until_index == index;
}
