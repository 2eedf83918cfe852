/* What a command of an entry will look up is asked of the memory while the commands before it are applied.
 *
 * With a million request ids and allocations the tables are far larger than the caches, and nearly every look-up waits for memory: two
 * fifths of the time were that. Nothing is decided here, and nothing read but where a table would look first.
 */
#include "fsm/decode.h"

/* The allocation that the command is about; NULL: none, or one that is found through a checkpoint or a node. */
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
    default:
        return NULL;
    }
}

void fsm_look_aim(struct decoded *decoded)
{
    const char *allocation = command_allocation(decoded->command);

    decoded->allocation_hash = allocation == NULL ? 0 : fsm_hash_text(allocation);
}

/* One right behind the other: the processor then finds the pages of several at a time. */
void fsm_look_ahead(const struct fsm *fsm, const struct decoded *commands, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (commands[i].request.id[0] != '\0')
            fsm_map_prefetch(&fsm->session_map, commands[i].request.hash);
        if (commands[i].allocation_hash != 0)
            fsm_map_prefetch(&fsm->allocation_map, commands[i].allocation_hash);
    }
}
