/* The first message of an agent's stream, before anybody believes it. */
#include <stdio.h>
#include <string.h>

#include "fsm/fsm.h"
#include "src/base/log.h"
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

void dispatcher_refusal(const struct rpc_peer *peer, const char *node_id, char *text, size_t size)
{
    log_warning("agent_refused", "peer=%s identity=%s node=%s text=\"not its own node\"",
                peer->address, peer->identity, node_id);
    snprintf(text, size,
             "PERMISSION_DENIED: %s may not speak for node %s; start the agent with the --name of "
             "its certificate, or issue one: ckptctl tls issue agent %s",
             peer->identity, node_id, node_id);
}

/* Agents keep what they obeyed: one that obeyed a later reign than this cluster remembers will obey
 * this one no more (I25). */
void dispatcher_note_fence(struct broker *broker, const Ckpt__V1__AgentHello *hello)
{
    struct broker_counters *counters = &broker->counters;

    if (hello->highest_epoch < counters->fence_epoch ||
        (hello->highest_epoch == counters->fence_epoch &&
         hello->highest_term <= counters->fence_term))
        return;
    counters->fence_epoch = hello->highest_epoch;
    counters->fence_term = hello->highest_term;
}
