/* The first message of an agent's stream, before anybody believes it. */
#include <string.h>

#include "fsm/fsm.h"
#include "src/broker/dispatch/dispatcher_internal.h"

const char *dispatcher_hello_fault(const Ckpt__V1__AgentHello *hello)
{
    if (!id_valid(hello->node_id) || strlen(hello->boot_id) >= DISPATCHER_TEXT_BYTES ||
        strlen(hello->version) >= DISPATCHER_TEXT_BYTES)
        return "node_id must be 1 to 128 characters of A-Z a-z 0-9 . _ -";
    if (!fsm_platform_valid(hello->machine) || !fsm_platform_valid(hello->os))
        return "machine and os must be at most 64 printable characters each";
    if (hello->domain[0] != '\0' && !id_valid(hello->domain))
        return "domain must be 1 to 128 characters of A-Z a-z 0-9 . _ - or empty";
    return NULL;
}
