/* The first message of an agent's stream, before anybody believes it. */
#include <string.h>

#include "fsm/fsm.h"
#include "src/broker/dispatch/dispatcher_internal.h"

static int text_check(const char *field, const char *text, struct err *err)
{
    if (strlen(text) < DISPATCHER_TEXT_BYTES)
        return 0;
    return err_set(err, ERR_INVALID, "%s: it has %zu bytes, at most %d are taken", field,
                   strlen(text), DISPATCHER_TEXT_BYTES - 1);
}

static int platform_check(const char *field, const char *text, struct err *err)
{
    if (fsm_platform_valid(text))
        return 0;
    return err_set(err, ERR_INVALID,
                   "%s: it must be at most %d printable characters of ASCII (it has %zu bytes)",
                   field, FSM_PLATFORM_BYTES - 1, strlen(text));
}

int dispatcher_hello_check(const Ckpt__V1__AgentHello *hello, struct err *err)
{
    if (id_check("node_id", hello->node_id, err) != 0 ||
        text_check("boot_id", hello->boot_id, err) != 0 ||
        text_check("version", hello->version, err) != 0 ||
        platform_check("machine", hello->machine, err) != 0 ||
        platform_check("os", hello->os, err) != 0)
        return -1;
    return hello->domain[0] == '\0' ? 0 : id_check("domain", hello->domain, err);
}
