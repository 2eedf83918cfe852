/* I5, I12 without the product's own word: its state hash is of the log, the outcomes and the
 * events, and comes with a snapshot; the bytes that are compared at the end come from the code that
 * writes snapshots.
 *
 * Flow     at each DUMP_EVERY-th index every member's living state is hashed (state_dump.h),
 *          whether it applied all or was restored before; at the end with past requests and events.
 * Shapes   one hash per such index.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/state_dump.h"
#include "tests/sim/world_internal.h"

enum { DUMP_EVERY = 64 };

struct state_dumps {
    uint64_t *hashes; /* by index / DUMP_EVERY; 0: not known */
    size_t count;
};

void dumps_init(struct world *world)
{
    world->dumps = check_calloc(1, sizeof(*world->dumps));
}

void dumps_close(struct world *world)
{
    free(world->dumps->hashes);
    free(world->dumps);
}

static void dumps_reserve(struct state_dumps *dumps, size_t place)
{
    size_t count = dumps->count == 0 ? 256 : dumps->count;

    if (place < dumps->count)
        return;
    while (count <= place)
        count *= 2;
    dumps->hashes = check_realloc(dumps->hashes, count, sizeof(*dumps->hashes));
    memset(dumps->hashes + dumps->count, 0, (count - dumps->count) * sizeof(*dumps->hashes));
    dumps->count = count;
}

void dumps_applied(struct world_member *member, uint64_t index)
{
    struct state_dumps *dumps = member->world->dumps;
    const struct fsm *fsm = member_fsm(member);
    size_t place = index / DUMP_EVERY;
    uint64_t hash;

    if (index % DUMP_EVERY != 0)
        return;
    dumps_reserve(dumps, place);
    hash = state_dump(fsm);
    if (dumps->hashes[place] == 0)
        dumps->hashes[place] = hash;
    if (dumps->hashes[place] != hash)
        world_violation(member->world, "I5",
                        "member %u differs from others in a field of its state at index %" PRIu64,
                        member->number + 1, index);
}

void dumps_compare(struct world_member *member, const struct world_member *other)
{
    const struct fsm *fsm = member_fsm(member), *others = member_fsm(other);

    if (state_dump(fsm) != state_dump(others) || state_dump_past(fsm) != state_dump_past(others))
        world_violation(member->world, "I5", "members %u and %u differ in a field of their state",
                        other->number + 1, member->number + 1);
}
