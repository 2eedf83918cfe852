/* What a command of an entry will look up is asked of the memory while the commands before it are applied.
 *
 * With a million request ids and allocations the tables are far larger than the caches, and nearly every look-up waits for memory: two
 * fifths of the time were that. Nothing is decided here, and nothing read but where a table would look first, and a node there.
 */
#include "fsm/decode.h"

/* The allocation that the command is about; NULL or "": none, or one that is found otherwise. */
static const char *command_allocation(const fsm_command *command)
{
    switch ((uint32_t)command->body_case) {
    case CKPT__LOG__V1__COMMAND__BODY_REGISTER_ALLOCATION:
        return command->register_allocation->spec == NULL
                   ? NULL
                   : command->register_allocation->spec->allocation_id;
    case CKPT__LOG__V1__COMMAND__BODY_UPDATE_ALLOCATION:
        return command->update_allocation->allocation_id;
    case CKPT__LOG__V1__COMMAND__BODY_END_ALLOCATION:
        return command->end_allocation->allocation_id;
    case CKPT__LOG__V1__COMMAND__BODY_REQUEST_CHECKPOINT:
        return command->request_checkpoint->allocation_id;
    case CKPT__LOG__V1__COMMAND__BODY_REQUEST_MIGRATION:
        return command->request_migration->allocation_id;
    case CKPT__LOG__V1__COMMAND__BODY_RESTART_ALLOCATION:
        return command->restart_allocation->allocation_id;
    case CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT:
        return command->node_report->report == NULL ? NULL
                                                    : command->node_report->report->allocation_id;
    default:
        return NULL;
    }
}

/* The node that the command is about, or the first one. */
static const char *command_node(const fsm_command *command)
{
    const Ckpt__V1__AllocationSpec *spec;

    switch ((uint32_t)command->body_case) {
    case CKPT__LOG__V1__COMMAND__BODY_REGISTER_ALLOCATION:
        spec = command->register_allocation->spec;
        return spec == NULL || spec->n_nodes == 0 ? NULL : spec->nodes[0]->node_id;
    case CKPT__LOG__V1__COMMAND__BODY_NODE_REPORT:
        return command->node_report->node_id;
    case CKPT__LOG__V1__COMMAND__BODY_NODE_SEEN:
        return command->node_seen->node_id;
    default:
        return NULL;
    }
}

static uint32_t hash_or_none(const char *id)
{
    return id == NULL || id[0] == '\0' ? 0 : fsm_hash_text(id);
}

void fsm_look_aim(struct decoded *decoded)
{
    decoded->allocation_hash = hash_or_none(command_allocation(decoded->command));
    decoded->node_hash = hash_or_none(command_node(decoded->command));
}

/* Nodes are few: their table is near, they themselves are not. */
static void look_at_node(const struct fsm *fsm, uint32_t hash)
{
    const struct node *node = fsm_map_first(&fsm->node_map, hash);

    if (node == NULL)
        return;
    fsm_prefetch(node);
    fsm_prefetch(&node->assignments);
}

/* One right behind the other: the processor then finds the pages of several at a time. */
void fsm_look_ahead(const struct fsm *fsm, const struct decoded *commands, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (commands[i].request.id[0] != '\0')
            fsm_map_prefetch(&fsm->session_map, commands[i].request.hash);
        if (commands[i].allocation_hash != 0)
            fsm_map_prefetch(&fsm->allocation_map, commands[i].allocation_hash);
        if (commands[i].node_hash != 0)
            look_at_node(fsm, commands[i].node_hash);
    }
}
