/* What a command of an entry will look up is asked of the memory while the commands before it are
 * applied.
 *
 * With a million request ids and allocations the tables are far larger than the caches, and nearly
 * every look-up waits for memory: two fifths of the time were that. Nothing is decided here, and
 * nothing read but where a table would look first, and what is there.
 */
#include "fsm/core/decode.h"

/* The allocation that the command is about; NULL or "": none, or one that is found otherwise. The
 * command may be malformed: nothing of it was validated yet. */
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
    case CKPT__LOG__V1__COMMAND__BODY_NODE_RUNNING:
        return command->node_running->node_id;
    default:
        return NULL;
    }
}

/* A text whose hash is 0 is not asked ahead, which costs only time. */
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
    const struct node *node = fsm_map_likely(&fsm->node_map, hash);

    if (node == NULL)
        return;
    fsm_prefetch(node);
    fsm_prefetch(&node->assignments);
}

/* Where tables would look first. */
static void look_at_slots(const struct fsm *fsm, const struct decoded *command)
{
    if (command->request.id[0] != '\0')
        fsm_map_prefetch(&fsm->past_request_map, command->request.hash);
    if (command->allocation_hash != 0)
        fsm_map_prefetch(&fsm->allocation_map, command->allocation_hash);
    if (command->node_hash != 0)
        look_at_node(fsm, command->node_hash);
}

/* The one that is meant, or one with the same hash. */
static const struct allocation *likely_allocation(const struct fsm *fsm,
                                                  const struct decoded *command)
{
    return command->allocation_hash == 0
               ? NULL
               : fsm_map_likely(&fsm->allocation_map, command->allocation_hash);
}

static void look_at_items(const struct fsm *fsm, const struct decoded *command)
{
    const char *at = (const char *)likely_allocation(fsm, command);

    for (size_t i = 0; at != NULL && i < sizeof(struct allocation); i += FSM_LINE_BYTES)
        fsm_prefetch(at + i);
}

/* And what it leads to. */
static void look_beyond(const struct fsm *fsm, const struct decoded *command)
{
    const struct allocation *allocation = likely_allocation(fsm, command);

    if (allocation == NULL)
        return;
    fsm_prefetch(allocation->view.id);
    fsm_prefetch(allocation->view.nodes);
    fsm_prefetch(allocation->assignments);
}

/* One right behind the other: the processor then finds the pages of several at a time. Each stage
 * needs what the one before asked for, so it comes some commands later. */
void fsm_look_ahead(const struct fsm *fsm, const struct decoded *commands, size_t count, size_t at)
{
    for (size_t i = at + 2 * FSM_LOOK_COMMANDS; i < at + 3 * FSM_LOOK_COMMANDS && i < count; i++)
        look_at_slots(fsm, &commands[i]);
    for (size_t i = at + FSM_LOOK_COMMANDS; i < at + 2 * FSM_LOOK_COMMANDS && i < count; i++)
        look_at_items(fsm, &commands[i]);
    for (size_t i = at; i < at + FSM_LOOK_COMMANDS && i < count; i++)
        look_beyond(fsm, &commands[i]);
}

/* The first commands have nobody before them: their slots and records are asked for at once. */
void fsm_look_first(const struct fsm *fsm, const struct decoded *commands, size_t count)
{
    for (size_t i = 0; i < 2 * FSM_LOOK_COMMANDS && i < count; i++)
        look_at_slots(fsm, &commands[i]);
    for (size_t i = 0; i < FSM_LOOK_COMMANDS && i < count; i++)
        look_at_items(fsm, &commands[i]);
}
