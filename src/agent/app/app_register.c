/* AppService.Register on the agent's unix socket. See app_register.h. */
#include "src/agent/app/app_register.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/job/allocation.h"
#include "src/ask/ask.h"
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

/* Its application runs, and is of the caller's user. */
static bool caller_right(const struct allocation *allocation, const struct rpc_peer *peer,
                         enum rpc_status *ret_status, char *ret_text)
{
    if (allocation == NULL || allocation->process.state == PROCESS_ABSENT ||
        allocation->process.gone_us != 0)
        return refuse(ret_status, RPC_FAILED_PRECONDITION, ret_text,
                      "no application of the allocation runs on this node; start it by ckpt-run");
    if (!peer->local || peer->uid != allocation->entry.uid)
        return refuse(ret_status, RPC_PERMISSION_DENIED, ret_text,
                      "the allocation's application runs as user %" PRIu32 ", the caller as %u",
                      allocation->entry.uid, (unsigned)peer->uid);
    return true;
}

static bool register_right(const struct allocation *allocation, const struct rpc_peer *peer,
                           const char *endpoint, enum rpc_status *ret_status, char *ret_text)
{
    const char *wrong = app_register_endpoint_wrong(endpoint);
    char profiles[ASK_PROFILES_BYTES];

    if (!caller_right(allocation, peer, ret_status, ret_text))
        return false;
    if (!ask_find(allocation->entry.profile)->registers && way_is_settled(&allocation->entry))
        return refuse(ret_status, RPC_FAILED_PRECONDITION, ret_text,
                      "the application is asked by profile %s; register it with --profile %s, or "
                      "without one and start it without one or with ckpt-run --profile %s",
                      allocation->entry.profile, ask_profiles_registering(profiles), profiles);
    if (wrong != NULL)
        return refuse(ret_status, RPC_INVALID_ARGUMENT, ret_text, "%s", wrong);
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

/* A registration: first its caller is looked at, whether it is one of the job's processes, then its
 * socket. */
struct registering {
    struct agent *agent;
    struct rpc_call *call;
    Ckpt__V1__RegisterRequest *request;
    struct job_process_look *caller;
    struct path_open *socket;
};

static void registering_free(struct registering *registering)
{
    if (registering->request != NULL)
        ckpt__v1__register_request__free_unpacked(registering->request, NULL);
    free(registering);
}

static void register_refused(struct registering *registering, enum rpc_status status,
                             const char *text)
{
    log_warning("register_refused", "pid=%d text=\"%s\"",
                (int)rpc_call_peer(registering->call)->pid, text);
    rpc_call_set_data(registering->call, NULL);
    rpc_call_finish(registering->call, status, text);
    registering_free(registering);
}

static bool still_right(const struct registering *registering, enum rpc_status *ret_status,
                        char *ret_text)
{
    const Ckpt__V1__RegisterRequest *request = registering->request;
    const struct agent *agent = registering->agent;

    if (request == NULL) {
        *ret_status = RPC_INVALID_ARGUMENT;
        snprintf(ret_text, TEXT_BYTES, "the request is no ckpt.v1.RegisterRequest");
        return false;
    }
    return register_right(
        id_valid(request->allocation_id) ? agent_find(agent, request->allocation_id) : NULL,
        rpc_call_peer(registering->call), request->endpoint, ret_status, ret_text);
}

/* The application may have ended meanwhile. */
static void socket_looked(void *data, struct opened *take, const char *why)
{
    struct registering *registering = data;
    const struct machine_ops *machine = &registering->agent->machine;
    bool there = take != NULL;
    enum rpc_status status;
    char text[TEXT_BYTES];

    registering->socket = NULL;
    machine->opened_close(take); /* each attempt opens what is there then */
    if (!still_right(registering, &status, text)) {
        register_refused(registering, status, text);
        return;
    }
    if (!there) {
        snprintf(text, sizeof(text), "%.300s; listen first, then register", why);
        register_refused(registering, RPC_FAILED_PRECONDITION, text);
        return;
    }
    take_endpoint(agent_find(registering->agent, registering->request->allocation_id),
                  registering->request->endpoint);
    rpc_call_set_data(registering->call, NULL);
    rpc_call_reply(registering->call, NULL, 0); /* RegisterReply is empty */
    registering_free(registering);
}

static bool caller_belongs(const struct registering *registering, enum process_verdict verdict,
                           enum rpc_status *ret_status, char *ret_text)
{
    const char *job = registering->request->allocation_id;
    const int pid = (int)rpc_call_peer(registering->call)->pid;

    if (verdict == VERDICT_STRANGER)
        return refuse(ret_status, RPC_PERMISSION_DENIED, ret_text,
                      "process %d is none of allocation %.128s; only what its ckpt-run has started "
                      "can register for it",
                      pid, job);
    if (verdict == VERDICT_UNREAD)
        return refuse(ret_status, RPC_UNAVAILABLE, ret_text,
                      "process %d cannot be read just now; register again", pid);
    if (verdict == VERDICT_ENDED)
        return refuse(ret_status, RPC_PERMISSION_DENIED, ret_text, "process %d has ended", pid);
    return still_right(registering, ret_status, ret_text);
}

static void caller_looked(void *data, enum process_verdict verdict, uint64_t start_ticks)
{
    struct registering *registering = data;
    const struct machine_ops *machine = &registering->agent->machine;
    enum rpc_status status;
    char text[TEXT_BYTES];

    (void)start_ticks;
    registering->caller = NULL;
    if (!caller_belongs(registering, verdict, &status, text)) {
        register_refused(registering, status, text);
        return;
    }
    registering->socket = machine->path_open(
        machine->context, OPENED_SOCKET, registering->request->endpoint + strlen("unix:"),
        rpc_call_peer(registering->call)->uid, socket_looked, registering);
}

static void on_register(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct registering *registering = check_calloc(1, sizeof(*registering));
    struct agent *agent = data;
    enum rpc_status status;
    struct job_identity job;
    char text[TEXT_BYTES];

    *registering =
        (struct registering){.agent = agent,
                             .call = call,
                             .request = ckpt__v1__register_request__unpack(NULL, length, bytes)};
    rpc_call_set_data(call, registering);
    if (!still_right(registering, &status, text)) {
        register_refused(registering, status, text);
        return;
    }
    allocation_identity(&agent_find(agent, registering->request->allocation_id)->entry, &job);
    registering->caller = agent->machine.job_process_look(
        agent->machine.context, &job, rpc_call_peer(call)->pid, caller_looked, registering);
}

static void on_cancel(struct rpc_call *call, void *data)
{
    struct registering *registering = rpc_call_data(call);
    struct agent *agent = data;

    if (registering == NULL)
        return;
    agent->machine.process_detach(registering->caller);
    agent->machine.path_open_detach(registering->socket);
    registering_free(registering);
}

void app_register_serve(struct rpc_server *server, struct agent *agent)
{
    static const struct rpc_handlers handlers = {.on_message = on_register, .on_cancel = on_cancel};

    rpc_server_add_method(server, REGISTER_METHOD, false, false, &handlers, agent);
}
