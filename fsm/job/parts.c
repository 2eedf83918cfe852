/* Which node has which part. A part is a place in a job's list of nodes, and the same place in the
 * shards of its checkpoints.
 *
 * Flow     a new list of nodes is put in order before it becomes the job's: who has a place keeps
 *          it, who is new takes one that is free, in the order in which they are named.
 * Shapes   a stamp on each node of the old list tells its place there, so that no two lists are
 *          compared in pairs: they have up to 4,096 nodes.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#include <malloc.h>

/* Which of the shares was at a place, + 1; 0: none. New ones are found by next_new alone. */
struct places {
    uint32_t old_count, count;
    uint32_t *share_of;
    bool *known;
    uint32_t next_new;
};

/* The first that had no place, and is not taken yet. */
static uint32_t places_take_new(struct places *places)
{
    while (places->known[places->next_new])
        places->next_new++;
    CHECK(places->next_new < places->count);
    return places->next_new++;
}

/* With as many nodes as before the new ones take the places that are free; else there are none, and
 * they come last. */
static void places_order(struct places *places, struct fsm_node_share *shares)
{
    struct fsm_node_share *ordered = check_calloc(places->count, sizeof(*ordered));
    uint32_t filled = 0;

    for (uint32_t i = 0; i < places->old_count; i++) {
        if (places->share_of[i] != 0)
            ordered[filled++] = shares[places->share_of[i] - 1];
        else if (places->old_count == places->count)
            ordered[filled++] = shares[places_take_new(places)];
    }
    while (filled < places->count)
        ordered[filled++] = shares[places_take_new(places)];
    memcpy(shares, ordered, places->count * sizeof(*shares));
    free(ordered);
}

void fsm_parts_keep(struct fsm *fsm, struct fsm_node_share *shares, uint32_t count,
                    const uint32_t *old_slots, uint32_t old_count)
{
    struct places places = {.old_count = old_count, .count = count};
    uint64_t first = fsm->stamp + 1;

    CHECK(count > 0);
    CHECK(old_count > 0);
    places.share_of = check_calloc(old_count, sizeof(*places.share_of));
    places.known = check_calloc(count, sizeof(*places.known));
    for (uint32_t i = 0; i < old_count; i++)
        ((struct node *)fsm_pool_at(&fsm->nodes, old_slots[i]))->stamp = first + i;
    fsm->stamp += old_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct node *node = fsm_pool_at(&fsm->nodes, shares[i].node_slot);

        places.known[i] = node->stamp >= first;
        if (places.known[i])
            places.share_of[node->stamp - first] = i + 1;
    }
    places_order(&places, shares);
    free(places.known);
    free(places.share_of);
}

/* Another number of nodes has no place of a shard: the list stays as it was named. */
void fsm_parts_settle(struct fsm *fsm, struct fsm_node_share *shares, uint32_t count,
                      const struct fsm_checkpoint *point)
{
    uint32_t *slots;

    CHECK(point->shard_count > 0);
    if (count != point->shard_count)
        return;
    slots = check_calloc(count, sizeof(*slots));
    for (uint32_t i = 0; i < count; i++)
        slots[i] = point->shards[i].node_slot;
    fsm_parts_keep(fsm, shares, count, slots, count);
    free(slots);
}
