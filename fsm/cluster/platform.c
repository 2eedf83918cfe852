/* The platform of a node: its architecture and operating system. A checkpoint has the platform of
 * the nodes that wrote it, and is restored on such nodes only (S3-045).
 *
 * Shapes   an empty text means "not known" and fits every platform: nothing is refused for a fact
 *          that nobody knows.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

static bool platform_alike(const char *a, const char *b)
{
    CHECK(a != NULL);
    CHECK(b != NULL);
    return a[0] == '\0' || b[0] == '\0' || strcmp(a, b) == 0;
}

bool fsm_platform_fits(const struct fsm_checkpoint *checkpoint, const struct fsm_node *node)
{
    CHECK(checkpoint->id != 0);
    CHECK(node->id != NULL);
    return platform_alike(checkpoint->machine, node->machine) &&
           platform_alike(checkpoint->os, node->os);
}

/* The architecture and operating system that nodes have in common. "": the nodes differ. Their job
 * has shown that it runs on either kind, so every node fits. */
struct platform {
    const char *machine, *os;
};

static void platform_meet(struct platform *common, const struct fsm_node *node)
{
    CHECK(node->id != NULL);
    CHECK((common->machine == NULL) == (common->os == NULL));
    if (common->machine == NULL)
        *common = (struct platform){node->machine, node->os};
    if (strcmp(common->machine, node->machine) != 0)
        common->machine = "";
    if (strcmp(common->os, node->os) != 0)
        common->os = "";
}

void fsm_platform_note(struct fsm *fsm, struct checkpoint *checkpoint)
{
    struct fsm_checkpoint *view = &checkpoint->view;
    struct platform common = {NULL, NULL};

    CHECK(view->shard_count > 0);
    for (uint32_t i = 0; i < view->shard_count; i++)
        platform_meet(&common, &node_at(fsm, checkpoint->shards[i].node_slot)->view);
    fsm_intern_set(fsm, &view->machine, common.machine);
    fsm_intern_set(fsm, &view->os, common.os);
}

/* Of the nodes that will write the checkpoint with which it goes. */
bool fsm_platform_may_move(const struct fsm *fsm, const struct fsm_allocation *allocation,
                           const struct fsm_node *node)
{
    struct platform common = {NULL, NULL};

    CHECK(allocation->node_count > 0);
    CHECK(node->id != NULL);
    for (uint32_t i = 0; i < allocation->node_count; i++)
        platform_meet(&common, &node_at(fsm, allocation->nodes[i].node_slot)->view);
    return platform_alike(common.machine, node->machine) && platform_alike(common.os, node->os);
}
