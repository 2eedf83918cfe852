/* grpc.health.v1.Health: Check and Watch over a table of service names.
 *
 * Flow     rpc_server_set_health changes a name's status and tells its watchers; a watcher that
 *          does not read gets only the latest status once it does.
 * Shapes   at most HEALTH_SERVICES_MAX names, HEALTH_WATCHERS_MAX watchers; the name "" speaks for
 *          the server and is SERVING from the start.
 * Source   grpc/doc/health-checking.md.
 */
#include <stdlib.h>
#include <string.h>

#include "grpc/health/v1/health.pb-c.h"
#include "src/base/check.h"
#include "src/rpc/server_internal.h"

enum { HEALTH_SERVICES_MAX = 32, HEALTH_WATCHERS_MAX = 4096, HEALTH_NAME_BYTES = 129 };

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus
    health_status; /* a generated name too long to repeat */

struct health_watcher {
    struct list node;
    struct rpc_health *health;
    struct rpc_call *call;
    char name[HEALTH_NAME_BYTES];
    int told; /* -1: nothing yet */
    bool full;
};

struct rpc_health {
    struct {
        char name[HEALTH_NAME_BYTES];
        bool serving;
    } services[HEALTH_SERVICES_MAX];
    size_t services_count;
    struct list watchers;
    size_t watchers_count;
};

static health_status health_find(const struct rpc_health *health, const char *name)
{
    for (size_t i = 0; i < health->services_count; i++)
        if (strcmp(health->services[i].name, name) == 0)
            return health->services[i].serving
                       ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                       : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
    return GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN;
}

static size_t health_pack(health_status status, uint8_t bytes[16])
{
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    response.status = status;
    CHECK(protobuf_c_message_get_packed_size(&response.base) <= 16);
    return protobuf_c_message_pack(&response.base, bytes);
}

/* False: the call is answered with an error. */
static bool health_name(struct rpc_call *call, const uint8_t *bytes, size_t length,
                        char ret_name[HEALTH_NAME_BYTES])
{
    Grpc__Health__V1__HealthCheckRequest *request =
        grpc__health__v1__health_check_request__unpack(NULL, length, bytes);
    bool fits = request != NULL && strlen(request->service) < HEALTH_NAME_BYTES;

    if (fits)
        memcpy(ret_name, request->service, strlen(request->service) + 1);
    else if (request == NULL)
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "not a HealthCheckRequest");
    else
        rpc_call_finish(call, RPC_NOT_FOUND, "service name is longer than 128 bytes");
    grpc__health__v1__health_check_request__free_unpacked(request, NULL);
    return fits;
}

static void check_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct rpc_health *health = data;
    char name[HEALTH_NAME_BYTES];
    uint8_t packed[16];
    health_status status;

    if (!health_name(call, bytes, length, name))
        return;
    status = health_find(health, name);
    if (status == GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN)
        rpc_call_finish(call, RPC_NOT_FOUND, "unknown service");
    else
        rpc_call_reply(call, packed, health_pack(status, packed));
}

static void watcher_tell(struct health_watcher *watcher)
{
    health_status status = health_find(watcher->health, watcher->name);
    uint8_t packed[16];

    if (watcher->full || watcher->told == (int)status)
        return;
    watcher->told = (int)status;
    watcher->full = !rpc_call_send(watcher->call, packed, health_pack(status, packed));
}

static void watch_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct rpc_health *health = data;
    struct health_watcher *watcher;
    char name[HEALTH_NAME_BYTES];

    if (!health_name(call, bytes, length, name))
        return;
    if (health->watchers_count == HEALTH_WATCHERS_MAX) {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "too many health watchers");
        return;
    }
    watcher = check_calloc(1, sizeof(*watcher));
    watcher->health = health;
    watcher->call = call;
    watcher->told = -1;
    memcpy(watcher->name, name, sizeof(name));
    list_push_back(&health->watchers, &watcher->node);
    health->watchers_count++;
    rpc_call_set_data(call, watcher);
    watcher_tell(watcher);
}

static void watch_writable(struct rpc_call *call, void *data)
{
    struct health_watcher *watcher = rpc_call_data(call);

    (void)data;
    watcher->full = false;
    watcher_tell(watcher);
}

static void watch_cancel(struct rpc_call *call, void *data)
{
    struct health_watcher *watcher = rpc_call_data(call);
    struct rpc_health *health = data;

    if (watcher == NULL)
        return; /* its request never came */
    list_remove(&watcher->node);
    health->watchers_count--;
    free(watcher);
}

void rpc_server_add_health(struct rpc_server *server)
{
    const struct rpc_handlers check = {.on_message = check_message};
    const struct rpc_handlers watch = {
        .on_message = watch_message, .on_writable = watch_writable, .on_cancel = watch_cancel};

    CHECK(server->health == NULL);
    server->health = check_calloc(1, sizeof(*server->health));
    list_init(&server->health->watchers);
    rpc_server_add_method(server, "/grpc.health.v1.Health/Check", false, false, &check,
                          server->health);
    rpc_server_add_method(server, "/grpc.health.v1.Health/Watch", false, true, &watch,
                          server->health);
    rpc_server_set_health(server, "", true);
}

void rpc_server_set_health(struct rpc_server *server, const char *service, bool serving)
{
    struct rpc_health *health = server->health;
    size_t i = 0;

    CHECK(health != NULL);
    CHECK(strlen(service) < HEALTH_NAME_BYTES);
    while (i < health->services_count && strcmp(health->services[i].name, service) != 0)
        i++;
    if (i == health->services_count) {
        CHECK(i < HEALTH_SERVICES_MAX);
        memcpy(health->services[i].name, service, strlen(service) + 1);
        health->services_count++;
    }
    health->services[i].serving = serving;
    for (struct list *node = health->watchers.next; node != &health->watchers; node = node->next)
        watcher_tell(LIST_ITEM(node, struct health_watcher, node));
}

void rpc_health_drain(struct rpc_health *health)
{
    while (health != NULL && !list_empty(&health->watchers)) {
        struct health_watcher *watcher =
            LIST_ITEM(health->watchers.next, struct health_watcher, node);
        struct rpc_call *call = watcher->call;

        watch_cancel(call, health);
        rpc_call_finish(call, RPC_UNAVAILABLE, "server is shutting down");
    }
}

void rpc_health_free(struct rpc_health *health)
{
    CHECK(health == NULL || list_empty(&health->watchers));
    free(health);
}
