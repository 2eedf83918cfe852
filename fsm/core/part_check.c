/* What one node's part of an allocation must look like after its own change, one condition each. It
 * stands alone because those who change parts call it at once: a command may change thousands. */
#include "fsm/job/job.h"

/* It stands here, below all who ask it: who changes a part has it checked. */
bool fsm_part_unended(const struct assignment *part)
{
    CHECK(part->allocation != NULL);
    return !part->allocation->assigned && (part->away || !(part->terminated || part->exited));
}

/* The counters are of all parts together: of one part it is only known that its own is above 0. */
void fsm_part_check(const struct allocation *allocation, const struct assignment *part)
{
    CHECK(part->allocation == allocation);
    CHECK(part->share < allocation->view.node_count);
    CHECK(part == &allocation->assignments[part->share]);
    CHECK(list_empty(&part->in_node) != (allocation->assigned || fsm_part_unended(part)));
    CHECK(!part->away || part->terminated || !allocation->assigned);
    CHECK(!part->exited || allocation->exited_count > 0);
    CHECK(!part->starting || allocation->starting_count > 0);
    CHECK(!part->terminated || allocation->terminated_count > 0);
    CHECK(!part->leaving || allocation->view.next_count > 0);
}
