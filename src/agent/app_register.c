/* AppService.Register on the agent's unix socket. See app_register.h. */
#include "src/agent/app_register.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/allocation.h"
#include "src/agent/ask.h"
#include "src/base/check.h"
#include "src/base/log.h"

#define REGISTER_METHOD "/ckpt.v1.AppService/Register"

enum { TEXT_BYTES = 400, PATH_MAX_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path) - 1 };

_Static_assert(PATH_MAX_BYTES + sizeof("unix:") <= LEDGER_ENDPOINT_BYTES, "every path fits");

const char *app_register_endpoint_wrong(const char *endpoint)
{
    const char *path = endpoint + strlen("unix:");

    if (strncmp(endpoint, "unix:", strlen("unix:")) != 0 || path[0] != '/')
        return "the endpoint must be unix:PATH with an absolute path";
    if (strlen(path) > PATH_MAX_BYTES)
        return "the endpoint's path is longer than a unix socket's address";
    for (const char *at = strstr(path, "/.."); at != NULL; at = strstr(at + 1, "/..")) {
        if (at[3] == '/' || at[3] == '\0')
            return "the endpoint's path has \"..\" in it";
    }
    for (const char *at = path; *at != '\0'; at++) {
        if (*at <= ' ' || *at > '~')
            return "the endpoint's path has characters that are not printable ASCII";
    }
    return NULL;
}

__attribute__((format(printf, 4, 5))) static bool refuse(enum rpc_status *ret_status,
                                                         enum rpc_status status, char *ret_text,
                                                         const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(ret_text, TEXT_BYTES, format, arguments);
    va_end(arguments);
    *ret_status = status;
    return false;
}

/* The caller belongs to the application that runs. */
static bool caller_right(const struct agent *agent, const struct allocation *allocation,
                         const struct rpc_peer *peer, enum rpc_status *ret_status, char *ret_text)
{
    struct proc_stat stat;

    if (allocation == NULL || allocation->process.state == PROCESS_ABSENT ||
        allocation->process.gone_us != 0)
        return refuse(ret_status, RPC_FAILED_PRECONDITION, ret_text,
                      "no application of the allocation runs on this node; start it by ckpt-run");
    if (!peer->local || peer->uid != allocation->entry.uid)
        return refuse(ret_status, RPC_PERMISSION_DENIED, ret_text,
                      "the allocation's application runs as user %" PRIu32 ", the caller as %u",
                      allocation->entry.uid, (unsigned)peer->uid);
    if (agent->machine.process_read(agent->machine.context, peer->pid, &stat, NULL) != 0 ||
        stat.group != (pid_t)allocation->entry.pid)
        return refuse(ret_status, RPC_PERMISSION_DENIED, ret_text,
                      "pid %d is not of the allocation's process group %" PRIu32, (int)peer->pid,
                      allocation->entry.pid);
    return true;
}

static bool register_right(const struct agent *agent, const struct allocation *allocation,
                           const struct rpc_peer *peer, const char *endpoint,
                           enum rpc_status *ret_status, char *ret_text)
{
    const char *wrong = app_register_endpoint_wrong(endpoint);

    if (!caller_right(agent, allocation, peer, ret_status, ret_text))
        return false;
    if (!ask_find(allocation->entry.profile)->calls)
        return refuse(ret_status, RPC_FAILED_PRECONDITION, ret_text,
                      "the application is asked by profile %s; start it with ckpt-run --profile "
                      "grpc",
                      allocation->entry.profile);
    if (wrong != NULL)
        return refuse(ret_status, RPC_INVALID_ARGUMENT, ret_text, "%s", wrong);
    if (!agent->machine.socket_owned(agent->machine.context, endpoint + strlen("unix:"),
                                     (uid_t)allocation->entry.uid))
        return refuse(ret_status, RPC_FAILED_PRECONDITION, ret_text,
                      "%s is no unix socket of user %" PRIu32 "; listen first, then register",
                      endpoint, allocation->entry.uid);
    return true;
}

static void take_endpoint(struct allocation *allocation, const char *endpoint)
{
    struct ledger_entry *entry = &allocation->entry;

    if (strcmp(entry->endpoint, endpoint) == 0)
        return;
    snprintf(entry->endpoint, sizeof(entry->endpoint), "%s", endpoint);
    allocation_commit(allocation, NULL, 0);
    log_info("registered", "allocation=%s endpoint=%s", entry->allocation_id, endpoint);
}

static void on_register(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct agent *agent = data;
    Ckpt__V1__RegisterRequest *request = ckpt__v1__register_request__unpack(NULL, length, bytes);
    struct allocation *allocation = NULL;
    enum rpc_status status = RPC_INVALID_ARGUMENT;
    char text[TEXT_BYTES] = "the request is no ckpt.v1.RegisterRequest";

    if (request != NULL && id_valid(request->allocation_id))
        allocation = agent_find(agent, request->allocation_id);
    if (request != NULL &&
        register_right(agent, allocation, rpc_call_peer(call), request->endpoint, &status, text)) {
        take_endpoint(allocation, request->endpoint);
        rpc_call_reply(call, NULL, 0); /* RegisterReply is empty */
    } else {
        log_warning("register_refused", "pid=%d text=\"%s\"", (int)rpc_call_peer(call)->pid, text);
        rpc_call_finish(call, status, text);
    }
    if (request != NULL)
        ckpt__v1__register_request__free_unpacked(request, NULL);
}

void app_register_serve(struct rpc_server *server, struct agent *agent)
{
    static const struct rpc_handlers handlers = {.on_message = on_register};

    rpc_server_add_method(server, REGISTER_METHOD, false, false, &handlers, agent);
}
