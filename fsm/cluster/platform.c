/* What a node is: its architecture and operating system. A checkpoint is of those of the nodes that
 * wrote it, and is restored on such nodes only (S3-045).
 *
 * Shapes   an empty text is not known: it fits all, since nothing is refused that nobody knows of.
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

/* Nothing is noted where they differ: such a job has shown that it runs on either. */
void fsm_platform_note(struct fsm *fsm, struct checkpoint *checkpoint)
{
    struct fsm_checkpoint *view = &checkpoint->view;
    const struct fsm_node *first = &node_at(fsm, checkpoint->shards[0].node_slot)->view;
    bool machine = true;
    bool os = true;

    CHECK(view->shard_count > 0);
    for (uint32_t i = 1; i < view->shard_count; i++) {
        const struct fsm_node *node = &node_at(fsm, checkpoint->shards[i].node_slot)->view;

        machine = machine && strcmp(node->machine, first->machine) == 0;
        os = os && strcmp(node->os, first->os) == 0;
    }
    fsm_intern_set(fsm, &view->machine, machine ? first->machine : "");
    fsm_intern_set(fsm, &view->os, os ? first->os : "");
}
