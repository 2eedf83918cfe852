/* Whether all ranks of a job have said that they are done, each in one part.
 *
 * Flow     asked when all shards are verified, before the checkpoint is complete. A node knows the
 *          ranks that were there when it asked; one that had died before is missed by the count of
 *          all that its launcher told each of the others.
 * Shapes   a shard has how many ranks it has, the sum of their numbers, which differ and begin with
 *          0, and the count of all; 0: nobody told it. A part that has all of a launcher's ranks is
 *          whole by itself: each node may have a launcher of its own. What nobody counts is a rank
 *          of the others where they lack it: some launchers number and do not count.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#include <inttypes.h>
#include <stdio.h>

struct ranks_sum {
    uint64_t all; /* as a launcher counts them; 0: none does */
    uint64_t ranks;
    uint64_t numbers; /* their sum */
};

static uint64_t ranks_numbers(uint64_t count)
{
    CHECK(count <= UINT32_MAX);
    return count == 0 ? 0 : count * (count - 1) / 2;
}

static bool ranks_all_there(const struct ranks_sum *sum)
{
    CHECK(sum->all > 0);
    return sum->ranks == sum->all && sum->numbers == ranks_numbers(sum->all);
}

static bool shard_is_whole(const struct fsm_shard *shard)
{
    CHECK(shard->ranks <= FSM_RANKS_PER_NODE_MAX);
    return shard->ranks == shard->ranks_all && shard->rank_sum == ranks_numbers(shard->ranks_all);
}

/* The first whose launcher counts more than are there; NULL: none. */
static const struct fsm_shard *ranks_first_counted(const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++)
        if (checkpoint->shards[i].ranks_all != 0 && !shard_is_whole(&checkpoint->shards[i]))
            return &checkpoint->shards[i];
    return NULL;
}

static struct ranks_sum ranks_add(const struct checkpoint *checkpoint, uint64_t all, bool uncounted)
{
    struct ranks_sum sum = {.all = all};

    CHECK(all > 0);
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++) {
        const struct fsm_shard *shard = &checkpoint->shards[i];

        if (shard->ranks_all == 0 ? !uncounted : shard_is_whole(shard))
            continue;
        sum.ranks += shard->ranks;
        sum.numbers = fsm_add(sum.numbers, shard->rank_sum);
    }
    return sum;
}

static void ranks_say(const struct ranks_sum *sum, char detail[FSM_DETAIL_BYTES])
{
    const uint64_t wanted = ranks_numbers(sum->all);
    const uint64_t missing = wanted - fsm_min(wanted, sum->numbers);
    int length = snprintf(detail, FSM_DETAIL_BYTES, "%" PRIu64 " of %" PRIu64 " ranks said so",
                          sum->ranks, sum->all);

    CHECK(length > 0 && length < FSM_DETAIL_BYTES);
    detail += length;
    if (sum->ranks + 1 == sum->all && missing < sum->all)
        snprintf(detail, (size_t)(FSM_DETAIL_BYTES - length), ": rank %" PRIu64 " is in no part",
                 missing);
    else if (sum->ranks == sum->all)
        snprintf(detail, (size_t)(FSM_DETAIL_BYTES - length),
                 ", but not each number below %" PRIu64 " once", sum->all);
}

bool fsm_ranks_whole(const struct checkpoint *checkpoint, char detail[FSM_DETAIL_BYTES])
{
    const struct fsm_shard *first = ranks_first_counted(checkpoint);
    struct ranks_sum sum, more;
    char unwanted[FSM_DETAIL_BYTES];

    if (first == NULL)
        return true;
    if (detail == NULL)
        detail = unwanted;
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++) {
        const struct fsm_shard *shard = &checkpoint->shards[i];

        if (shard->ranks_all == 0 || shard->ranks_all == first->ranks_all || shard_is_whole(shard))
            continue;
        snprintf(detail, FSM_DETAIL_BYTES,
                 "part %td is of %" PRIu32 " ranks, part %" PRIu32 " of %" PRIu32,
                 first - checkpoint->shards, first->ranks_all, i, shard->ranks_all);
        return false;
    }
    sum = ranks_add(checkpoint, first->ranks_all, false);
    more = ranks_add(checkpoint, first->ranks_all, true);
    if (ranks_all_there(&sum) || ranks_all_there(&more))
        return true;
    ranks_say(more.ranks < more.all ? &more : &sum, detail);
    return false;
}
