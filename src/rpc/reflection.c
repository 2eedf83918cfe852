/* grpc.reflection.v1alpha.ServerReflection over the bytes that protoc wrote.
 *
 * Flow     each request of the stream gets one response, in order; a client that does not read is
 *          ended when 1 MiB waits.
 * Source   grpc/doc/server-reflection.md.
 */
#include <stdlib.h>
#include <string.h>

#include "grpc/reflection/v1alpha/reflection.pb-c.h"
#include "src/base/check.h"
#include "src/rpc/descriptors.h"
#include "src/rpc/server_internal.h"

/* The generated names are wider than a line. */
#define REPLY_OF(kind)                                                                             \
    GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##kind
#define REQUEST_FOR(kind)                                                                          \
    GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##kind

enum { REFLECTION_SERVICES_MAX = 64, REFLECTION_BUFFERED_MAX_BYTES = 1 << 20 };

typedef Grpc__Reflection__V1alpha__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1alpha__ServerReflectionResponse reflection_response;

struct rpc_reflection {
    struct rpc_descriptors descriptors;
    Grpc__Reflection__V1alpha__ServiceResponse services[REFLECTION_SERVICES_MAX];
    Grpc__Reflection__V1alpha__ServiceResponse *service_list[REFLECTION_SERVICES_MAX];
    size_t services_count;
};

static void reflection_respond(struct rpc_call *call, const reflection_response *response)
{
    size_t length = protobuf_c_message_get_packed_size(&response->base);
    uint8_t *bytes = check_alloc(length);

    protobuf_c_message_pack(&response->base, bytes);
    rpc_call_send(call, bytes, length);
    free(bytes);
}

static void reflection_error(struct rpc_call *call, reflection_response *response, int status,
                             const char *text)
{
    Grpc__Reflection__V1alpha__ErrorResponse error =
        GRPC__REFLECTION__V1ALPHA__ERROR_RESPONSE__INIT;

    error.error_code = status;
    error.error_message = (char *)(uintptr_t)text;
    response->message_response_case = REPLY_OF(ERROR_RESPONSE);
    response->error_response = &error;
    reflection_respond(call, response);
}

static void reflection_file(struct rpc_call *call, const struct rpc_reflection *reflection,
                            reflection_response *response, int file)
{
    Grpc__Reflection__V1alpha__FileDescriptorResponse files =
        GRPC__REFLECTION__V1ALPHA__FILE_DESCRIPTOR_RESPONSE__INIT;
    ProtobufCBinaryData bytes[RPC_DESCRIPTOR_FILES_MAX];
    int closure[RPC_DESCRIPTOR_FILES_MAX];

    if (file < 0) {
        reflection_error(call, response, RPC_NOT_FOUND, "no file has it");
        return;
    }
    files.n_file_descriptor_proto =
        rpc_descriptors_closure(&reflection->descriptors, file, closure);
    for (size_t i = 0; i < files.n_file_descriptor_proto; i++) {
        struct rpc_span span = reflection->descriptors.files[closure[i]];

        bytes[i].data = (uint8_t *)(uintptr_t)span.bytes;
        bytes[i].len = span.length;
    }
    files.file_descriptor_proto = bytes;
    response->message_response_case = REPLY_OF(FILE_DESCRIPTOR_RESPONSE);
    response->file_descriptor_response = &files;
    reflection_respond(call, response);
}

static void reflection_services(struct rpc_call *call, struct rpc_reflection *reflection,
                                reflection_response *response)
{
    Grpc__Reflection__V1alpha__ListServiceResponse services =
        GRPC__REFLECTION__V1ALPHA__LIST_SERVICE_RESPONSE__INIT;

    services.n_service = reflection->services_count;
    services.service = reflection->service_list;
    response->message_response_case = REPLY_OF(LIST_SERVICES_RESPONSE);
    response->list_services_response = &services;
    reflection_respond(call, response);
}

/* proto3 without extensions: the list is empty for every type that exists. */
static void reflection_extensions(struct rpc_call *call, const struct rpc_reflection *reflection,
                                  reflection_response *response, char *type)
{
    Grpc__Reflection__V1alpha__ExtensionNumberResponse numbers =
        GRPC__REFLECTION__V1ALPHA__EXTENSION_NUMBER_RESPONSE__INIT;

    if (rpc_descriptors_find_symbol(&reflection->descriptors, type) < 0) {
        reflection_error(call, response, RPC_NOT_FOUND, "unknown type");
        return;
    }
    numbers.base_type_name = type;
    response->message_response_case = REPLY_OF(ALL_EXTENSION_NUMBERS_RESPONSE);
    response->all_extension_numbers_response = &numbers;
    reflection_respond(call, response);
}

static void reflection_answer(struct rpc_call *call, struct rpc_reflection *reflection,
                              reflection_request *request)
{
    reflection_response response = GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__INIT;
    const struct rpc_descriptors *descriptors = &reflection->descriptors;

    response.valid_host = request->host;
    response.original_request = request;
    switch ((int)request->message_request_case) {
    case REQUEST_FOR(FILE_BY_FILENAME):
        reflection_file(call, reflection, &response,
                        rpc_descriptors_find_file(descriptors, request->file_by_filename,
                                                  strlen(request->file_by_filename)));
        break;
    case REQUEST_FOR(FILE_CONTAINING_SYMBOL):
        reflection_file(call, reflection, &response,
                        rpc_descriptors_find_symbol(descriptors, request->file_containing_symbol));
        break;
    case REQUEST_FOR(FILE_CONTAINING_EXTENSION):
        reflection_error(call, &response, RPC_NOT_FOUND, "there are no extensions");
        break;
    case REQUEST_FOR(ALL_EXTENSION_NUMBERS_OF_TYPE):
        reflection_extensions(call, reflection, &response, request->all_extension_numbers_of_type);
        break;
    case REQUEST_FOR(LIST_SERVICES):
        reflection_services(call, reflection, &response);
        break;
    default:
        reflection_error(call, &response, RPC_UNIMPLEMENTED, "unknown kind of request");
        break;
    }
}

static void reflection_message(struct rpc_call *call, void *data, const uint8_t *bytes,
                               size_t length)
{
    reflection_request *request =
        grpc__reflection__v1alpha__server_reflection_request__unpack(NULL, length, bytes);

    if (request == NULL)
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "not a ServerReflectionRequest");
    else if (rpc_call_buffered(call) > REFLECTION_BUFFERED_MAX_BYTES)
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "answers are not read");
    else
        reflection_answer(call, data, request);
    grpc__reflection__v1alpha__server_reflection_request__free_unpacked(request, NULL);
}

static void reflection_half_close(struct rpc_call *call, void *data)
{
    (void)data;
    rpc_call_finish(call, RPC_OK, NULL);
}

static void note_service(void *data, struct rpc_span package, struct rpc_span name)
{
    struct rpc_reflection *reflection = data;
    Grpc__Reflection__V1alpha__ServiceResponse *service;
    struct buf text;

    CHECK(reflection->services_count < REFLECTION_SERVICES_MAX);
    service = &reflection->services[reflection->services_count];
    grpc__reflection__v1alpha__service_response__init(service);
    buf_init(&text);
    buf_append(&text, package.bytes, package.length);
    if (package.length > 0)
        buf_append(&text, ".", 1);
    buf_append(&text, name.bytes, name.length);
    buf_append(&text, "", 1);
    service->name = (char *)buf_take(&text, NULL);
    reflection->service_list[reflection->services_count++] = service;
}

void rpc_server_add_reflection(struct rpc_server *server, const uint8_t *descriptors, size_t length)
{
    const struct rpc_handlers handlers = {.on_message = reflection_message,
                                          .on_half_close = reflection_half_close};
    struct rpc_reflection *reflection = check_calloc(1, sizeof(*reflection));

    CHECK(server->reflection == NULL);
    CHECK(rpc_descriptors_open(&reflection->descriptors, descriptors, length) == 0);
    rpc_descriptors_services(&reflection->descriptors, note_service, reflection);
    server->reflection = reflection;
    rpc_server_add_method(server, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                          true, true, &handlers, reflection);
}

void rpc_reflection_free(struct rpc_reflection *reflection)
{
    for (size_t i = 0; reflection != NULL && i < reflection->services_count; i++)
        free(reflection->services[i].name);
    free(reflection);
}
