/* Whether all ranks of a job have said that they are done, each in one part.
 *
 * Flow     asked when all shards are verified, before the checkpoint is complete. A node knows the
 *          ranks that were there when it asked; one that had died before is missed by the count of
 *          all that its launcher told each of the others.
 * Shapes   a shard has how many ranks it has, the print of their numbers, which differ and begin
 *          with 0, and the count of all; 0: nobody told it. Prints add up to that of all numbers
 *          when each is in one part (rank_print(), id.h). A part that has all of a launcher's ranks
 *          is whole by itself: each node may have a launcher of its own. What nobody counts is a
 *          rank of the others where they lack it: some launchers number and do not count.
 * Absent   which ranks are missing when it is more than one, and which is in two parts: a print
 *          says whether a set is the right one, not what is in it.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#include <inttypes.h>
#include <stdio.h>

/* That can be in the parts. */
enum { RANKS_MAX = FSM_RANKS_PER_NODE_MAX * FSM_NODES_PER_ALLOCATION_MAX };

struct ranks_sum {
    uint64_t all; /* as a launcher counts them; 0: none does */
    uint64_t ranks;
    uint64_t print; /* of their numbers */
};

/* Of the numbers from 0 on. */
static uint64_t ranks_print_all(uint64_t count)
{
    uint64_t print = 0;

    CHECK(count <= RANKS_MAX);
    for (uint32_t number = 0; number < count; number++)
        print += rank_print(number);
    return print;
}

static bool ranks_all_there(const struct ranks_sum *sum)
{
    CHECK(sum->all > 0);
    return sum->ranks == sum->all && sum->print == ranks_print_all(sum->all);
}

/* False: more than one is missing, or others are there. */
static bool ranks_find_missing(const struct ranks_sum *sum, uint32_t *ret_number)
{
    uint64_t missing;

    if (sum->ranks + 1 != sum->all)
        return false;
    missing = ranks_print_all(sum->all) - sum->print;
    for (uint32_t number = 0; number < sum->all; number++)
        if (rank_print(number) == missing) {
            *ret_number = number;
            return true;
        }
    return false;
}

static bool shard_is_whole(const struct fsm_shard *shard)
{
    CHECK(shard->ranks <= FSM_RANKS_PER_NODE_MAX);
    return shard->ranks == shard->ranks_all &&
           shard->rank_print == ranks_print_all(shard->ranks_all);
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
        sum.print += shard->rank_print;
    }
    return sum;
}

static void ranks_say(const struct ranks_sum *sum, char detail[FSM_DETAIL_BYTES])
{
    uint32_t missing;
    int length = snprintf(detail, FSM_DETAIL_BYTES, "%" PRIu64 " of %" PRIu64 " ranks said so",
                          sum->ranks, sum->all);

    CHECK(length > 0 && length < FSM_DETAIL_BYTES);
    detail += length;
    if (ranks_find_missing(sum, &missing))
        snprintf(detail, (size_t)(FSM_DETAIL_BYTES - length), ": rank %" PRIu32 " is in no part",
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

/* I44: one label over all parts, the word of every rank, one step that all of them can meet. */
const char *fsm_ranks_broken(const struct checkpoint *checkpoint)
{
    const struct fsm_checkpoint *view = &checkpoint->view;
    bool complete = view->state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE;
    bool any_verified = false, all_said = true, all_meet = true;

    CHECK(view->id != 0);
    CHECK(view->label != NULL);
    for (uint32_t i = 0; i < view->shard_count; i++) {
        const struct fsm_shard *shard = &checkpoint->shards[i];

        any_verified |= shard->verified;
        all_said &= shard->verified == (shard->ranks > 0);
        all_meet &= !shard->barrier || shard->step <= view->agreed_step;
    }
    if (!all_said || (complete && !fsm_ranks_whole(checkpoint, NULL)))
        return "I44 a verified shard has ranks, COMPLETE all";
    if (!any_verified && view->label[0] != '\0')
        return "I44 the label is a verified shard's";
    return all_meet || view->agreed_step == 0 ? NULL : "I44 no rank is beyond the agreed step";
}
