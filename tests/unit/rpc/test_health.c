/* The health service and reflection, asked by our client. */
#include "grpc/health/v1/health.pb-c.h"
#include "grpc/reflection/v1alpha/reflection.pb-c.h"
#include "src/base/check.h"
#include "src/rpc/descriptors.h"
#include "tests/unit/rpc/fixture.h"

extern const uint8_t ckpt_descriptors[];
extern const uint8_t ckpt_descriptors_end[];

static size_t descriptors_length(void)
{
    return (size_t)(ckpt_descriptors_end - ckpt_descriptors);
}

enum { SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 };

struct watched {
    size_t count;
    int last;
    bool done;
    int status;
};

static void watched_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                            size_t length)
{
    struct watched *watched = data;
    Grpc__Health__V1__HealthCheckResponse *response =
        grpc__health__v1__health_check_response__unpack(NULL, length, bytes);

    (void)call;
    assert_non_null(response);
    watched->count++;
    watched->last = (int)response->status;
    grpc__health__v1__health_check_response__free_unpacked(response, NULL);
}

static void watched_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct watched *watched = data;

    (void)call;
    watched->done = true;
    watched->status = end->status;
}

static const struct rpc_client_handlers watched_handlers = {.on_message = watched_message,
                                                            .on_end = watched_end};

static struct rpc_client_call *ask(struct fixture *fixture, const char *method, const char *service,
                                   struct watched *watched)
{
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    uint8_t bytes[256];
    char path[64];

    memset(watched, 0, sizeof(*watched));
    request.service = (char *)(uintptr_t)service;
    snprintf(path, sizeof(path), "/grpc.health.v1.Health/%s", method);
    return rpc_channel_unary(
        fixture->channel,
        &(struct rpc_request){.path = path,
                              .bytes = bytes,
                              .length =
                                  grpc__health__v1__health_check_request__pack(&request, bytes)},
        &watched_handlers, watched);
}

static void health_open(struct fixture *fixture)
{
    fixture_open(fixture, NULL);
    rpc_server_add_health(fixture->server);
    fixture_channel(fixture, NULL);
}

static void a_check_tells_the_status_of_a_named_service(void **state)
{
    struct fixture fixture;
    struct watched watched;

    (void)state;
    health_open(&fixture);
    rpc_server_set_health(fixture.server, "quis.RaftLeader", false);
    ask(&fixture, "Check", "", &watched);
    assert_true(fixture_run(&fixture, &watched.done));
    assert_int_equal(watched.last, SERVING);
    ask(&fixture, "Check", "quis.RaftLeader", &watched);
    assert_true(fixture_run(&fixture, &watched.done));
    assert_int_equal(watched.last, NOT_SERVING);
    ask(&fixture, "Check", "unheard.Of", &watched);
    assert_true(fixture_run(&fixture, &watched.done));
    assert_int_equal(watched.status, RPC_NOT_FOUND);
    fixture_close(&fixture);
}

static void a_watch_tells_every_change_and_no_repetition(void **state)
{
    struct fixture fixture;
    struct watched watched, other;
    struct rpc_client_call *call;

    (void)state;
    health_open(&fixture);
    call = ask(&fixture, "Watch", "quis.RaftLeader", &watched);
    ask(&fixture, "Watch", "", &other);
    fixture_run_ms(&fixture, 10);
    assert_uint_equal(watched.count, 1);
    assert_int_equal(watched.last, SERVICE_UNKNOWN);
    rpc_server_set_health(fixture.server, "quis.RaftLeader", true);
    rpc_server_set_health(fixture.server, "quis.RaftLeader", true);
    fixture_run_ms(&fixture, 10);
    assert_uint_equal(watched.count, 2);
    assert_int_equal(watched.last, SERVING);
    rpc_server_set_health(fixture.server, "quis.RaftLeader", false);
    fixture_run_ms(&fixture, 10);
    assert_int_equal(watched.last, NOT_SERVING);
    assert_uint_equal(other.count, 1);
    rpc_client_call_cancel(call);
    fixture_run_ms(&fixture, 10);
    rpc_server_set_health(fixture.server, "quis.RaftLeader", true);
    fixture_run_ms(&fixture, 10);
    assert_uint_equal(watched.count, 3);
    assert_false(watched.done);
    fixture_close(&fixture);
    assert_true(other.done);
}

static void a_drain_ends_the_watches(void **state)
{
    struct fixture fixture;
    struct watched watched;

    (void)state;
    health_open(&fixture);
    ask(&fixture, "Watch", "", &watched);
    fixture_run_ms(&fixture, 10);
    rpc_server_drain(fixture.server, 60000, fixture_drained, &fixture);
    assert_true(fixture_run(&fixture, &fixture.drained));
    assert_true(watched.done);
    assert_int_equal(watched.status, RPC_UNAVAILABLE);
    fixture_close(&fixture);
}

/* ---- reflection ---- */

struct reflected {
    size_t count;
    Grpc__Reflection__V1alpha__ServerReflectionResponse *last;
    bool done;
};

static void reflected_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                              size_t length)
{
    struct reflected *reflected = data;

    (void)call;
    if (reflected->last != NULL)
        grpc__reflection__v1alpha__server_reflection_response__free_unpacked(reflected->last, NULL);
    reflected->last =
        grpc__reflection__v1alpha__server_reflection_response__unpack(NULL, length, bytes);
    assert_non_null(reflected->last);
    reflected->count++;
}

static void reflected_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct reflected *reflected = data;

    (void)call;
    assert_int_equal(end->status, RPC_OK);
    reflected->done = true;
}

static void reflection_answers_in_order_on_one_stream(void **state)
{
    const struct rpc_client_handlers handlers = {.on_message = reflected_message,
                                                 .on_end = reflected_end};
    Grpc__Reflection__V1alpha__ServerReflectionRequest request =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__INIT;
    struct reflected reflected = {.count = 0};
    struct fixture fixture;
    struct rpc_client_call *call;
    uint8_t bytes[256];
    bool found = false;

    (void)state;
    fixture_open(&fixture, NULL);
    rpc_server_add_reflection(fixture.server, ckpt_descriptors, descriptors_length());
    fixture_channel(&fixture, NULL);
    call = rpc_channel_open(fixture.channel,
                            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", 0,
                            false, &handlers, &reflected);
    request.message_request_case =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES;
    request.list_services = (char *)(uintptr_t) "";
    rpc_client_call_send(
        call, bytes, grpc__reflection__v1alpha__server_reflection_request__pack(&request, bytes));
    while (reflected.count < 1)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    for (size_t i = 0; i < reflected.last->list_services_response->n_service; i++)
        found |= strcmp(reflected.last->list_services_response->service[i]->name,
                        "grpc.health.v1.Health") == 0;
    assert_true(found);
    request.message_request_case =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL;
    request.file_containing_symbol = (char *)(uintptr_t) "nobody.Knows";
    rpc_client_call_send(
        call, bytes, grpc__reflection__v1alpha__server_reflection_request__pack(&request, bytes));
    while (reflected.count < 2)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    assert_int_equal(reflected.last->error_response->error_code, RPC_NOT_FOUND);
    rpc_client_call_half_close(call);
    assert_true(fixture_run(&fixture, &reflected.done));
    grpc__reflection__v1alpha__server_reflection_response__free_unpacked(reflected.last, NULL);
    fixture_close(&fixture);
}

static void symbols_are_found_in_their_files(void **state)
{
    static const struct {
        const char *symbol;
        const char *file;
    } rows[] = {
        {"grpc.health.v1.Health", "grpc/health/v1/health.proto"},
        {".grpc.health.v1.Health", "grpc/health/v1/health.proto"},
        {"grpc.health.v1.Health.Watch", "grpc/health/v1/health.proto"},
        {"grpc.health.v1.Health.Missing", NULL},
        {"grpc.health.v1.HealthCheckRequest.service", "grpc/health/v1/health.proto"},
        {"grpc.health.v1.HealthCheckResponse.ServingStatus", "grpc/health/v1/health.proto"},
        {"grpc.health.v1.HealthCheckResponse.ServingStatus.SERVING", "grpc/health/v1/health.proto"},
        {"grpc.health.v1.HealthCheckResponse.ServingStatus.NONE", NULL},
        {"grpc.health.v1", NULL},
        {"grpc.health.v1.", NULL},
        {"", NULL},
        {"ckpt.v1.AllocationState", "ckpt/v1/common.proto"}};
    struct rpc_descriptors descriptors;

    (void)state;
    assert_int_equal(rpc_descriptors_open(&descriptors, ckpt_descriptors, descriptors_length()), 0);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        int file = rpc_descriptors_find_symbol(&descriptors, rows[i].symbol);
        int expected = rows[i].file == NULL ? -1
                                            : rpc_descriptors_find_file(&descriptors, rows[i].file,
                                                                        strlen(rows[i].file));

        assert_true(rows[i].file == NULL || expected >= 0);
        assert_int_equal(file, expected);
    }
}

static void cut_descriptors_are_refused(void **state)
{
    struct rpc_descriptors descriptors;

    (void)state;
    assert_int_equal(rpc_descriptors_open(&descriptors, ckpt_descriptors, descriptors_length() - 1),
                     -1);
    assert_int_equal(rpc_descriptors_open(&descriptors,
                                          (const uint8_t *)"\x0a\xff\xff\xff\xff\xff"
                                                           "\xff\xff\xff\xff\xff",
                                          11),
                     -1);
    assert_int_equal(rpc_descriptors_open(&descriptors, NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_check_tells_the_status_of_a_named_service),
        cmocka_unit_test(a_watch_tells_every_change_and_no_repetition),
        cmocka_unit_test(a_drain_ends_the_watches),
        cmocka_unit_test(reflection_answers_in_order_on_one_stream),
        cmocka_unit_test(symbols_are_found_in_their_files),
        cmocka_unit_test(cut_descriptors_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
