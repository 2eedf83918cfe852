/* The way of a request through the table of methods. See service.h. A call begins in
 * service_on_message(): decoding, texts, rights. request_start() then takes the way of its kind.
 * All ways end in request_end(): at once (an answer that is made here), after the commit
 * (mutation_done), or after the turn of the call has come (request_answer). */
#include "src/broker/api/service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/core/unpack.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/spare.h"
#include "src/broker/api/caller.h"
#include "src/broker/api/hold.h"
#include "src/broker/api/methods.h"
#include "src/broker/api/own.h"
#include "src/broker/api/rate.h"
#include "src/broker/api/scope.h"
#include "src/broker/api/texts.h"
#include "src/broker/keep/denials.h"

/* What a method's entry in the table comes to when it is registered. */
struct service_method {
    struct service *service;
    const struct method *method;
    size_t request_id_offset; /* of the request's text; SIZE_MAX: none */
    size_t stale_offset;      /* of the request's flag; SIZE_MAX: none */
};

/* A mutation's message lives from its decoding to its packing, within one call: in here, as far as
 * it fits. */
enum { SERVICE_MESSAGE_BYTES = 8192, SERVICE_ALIGN_BYTES = 16 };
enum { SERVICE_CALLER_LEVEL = 2 };          /* from which a command names its caller */
enum { SERVICE_SPARE_MAX_BYTES = 1 << 20 }; /* of requests, kept for the next ones */
struct service_memory {
    size_t used;
    size_t outside; /* blocks of malloc()'s */
    _Alignas(SERVICE_ALIGN_BYTES) uint8_t bytes[SERVICE_MESSAGE_BYTES];
};

struct service {
    struct broker *broker;
    struct service_memory memory;
    struct spare requests;
    struct hold *hold;
    struct rate *rate; /* of users; NULL: no limit */
    struct replica_observer observer;
    struct service_method *methods;
    size_t method_count;
};

static const char *const service_leader_names[] = {"quis.RaftLeader", "ckpt.v1.BrokerService"};

/* ---- memory of a message ---- */

/* protobuf-c's allocator over the service's own block. What does not fit comes from the heap and is
 * counted, so that message_free() knows whether there is anything to free. */
static void *memory_take(void *data, size_t size)
{
    struct service_memory *memory = data;
    size_t taken = (size + SERVICE_ALIGN_BYTES - 1) & ~(size_t)(SERVICE_ALIGN_BYTES - 1);
    void *block = memory->bytes + memory->used;

    if (size > SERVICE_MESSAGE_BYTES || taken > SERVICE_MESSAGE_BYTES - memory->used) {
        memory->outside++;
        return check_alloc(size);
    }
    memory->used += taken;
    return block;
}

static void memory_give(void *data, void *block)
{
    struct service_memory *memory = data;

    if (block == NULL || ((uint8_t *)block >= memory->bytes &&
                          (uint8_t *)block < memory->bytes + SERVICE_MESSAGE_BYTES))
        return;
    memory->outside--;
    free(block);
}

/* The allocator is made for each use: it is three pointers. */
static ProtobufCAllocator memory_allocator(struct service_memory *memory)
{
    return (ProtobufCAllocator){memory_take, memory_give, memory};
}

/* Of methods that go on with their message later it is the heap's. */
static ProtobufCMessage *message_unpack(struct service_method *state, const uint8_t *bytes,
                                        size_t length)
{
    struct service_memory *memory = &state->service->memory;
    ProtobufCAllocator allocator = memory_allocator(memory);
    bool brief = state->method->kind == METHOD_MUTATION;

    CHECK(memory->outside == 0);
    memory->used = 0;
    return brief ? fsm_unpack(state->method->type, &allocator, length, bytes)
                 : protobuf_c_message_unpack(state->method->type, NULL, length, bytes);
}

/* A mutation's message that fits needs no freeing: the next one takes the block from the
 * beginning. */
static void message_free(struct service_method *state, ProtobufCMessage *message)
{
    struct service_memory *memory = &state->service->memory;
    ProtobufCAllocator allocator = memory_allocator(memory);

    if (state->method->kind != METHOD_MUTATION)
        protobuf_c_message_free_unpacked(message, NULL);
    else if (memory->outside > 0)
        protobuf_c_message_free_unpacked(message, &allocator);
}

/* ---- one request ---- */

/* The call knows its request, so that the server's callbacks find it. */
static struct request *request_new(struct service_method *state, struct rpc_call *call,
                                   ProtobufCMessage *message)
{
    struct request *request = spare_take_zeroed(&state->service->requests, 1, sizeof(*request));

    request->broker = state->service->broker;
    request->spare = &state->service->requests;
    request->method = state->method;
    request->of = state;
    request->call = call;
    request->message = message;
    rpc_call_set_data(call, request);
    return request;
}

/* Answers are made when their clients can take them, one after the other. */
static void request_stand_in_line(struct request *request)
{
    CHECK(request->state == REQUEST_BEGUN && request->call != NULL);
    request->state = REQUEST_IN_LINE;
    rpc_call_want_writable(request->call);
}

static const char *admins_of(const struct broker *broker)
{
    return broker->config->tenant_admins == NULL ? "" : broker->config->tenant_admins;
}

/* The turn of a read has come. A linearizable read was confirmed some turns ago: a member that has
 * lost its leadership since then refuses, since another one may have gone on. */
static void request_answer(struct request *request)
{
    const bool confirmed = !request->stale && request->method->kind == METHOD_READ;
    struct scratch scratch = {NULL};
    char text[ANSWER_TEXT_BYTES];

    CHECK(request->call != NULL && request->message != NULL);
    CHECK(request->state == REQUEST_IN_LINE);
    if (confirmed && !replica_serving(request->broker->replica))
        answer_not_leader(request->broker, request->call);
    else if (own_asks(request->method, request->call) &&
             !own_is_theirs(&(struct own_rule){request->method, admins_of(request->broker)},
                            replica_fsm(request->broker->replica), request->call, request->message,
                            text, sizeof(text)))
        rpc_call_finish(request->call, RPC_NOT_FOUND, text);
    else if (!scope_is_theirs(request->method, replica_fsm(request->broker->replica),
                              rpc_call_peer(request->call), request->message, text, sizeof(text)))
        rpc_call_finish(request->call, RPC_NOT_FOUND, text);
    else
        request->method->answer(request, &scratch);
    scratch_free(&scratch);
    request_end(request);
}

/* The call is in the audit trail, and is carried out now. */
static void call_audited(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct request *request = data;

    if (request->call == NULL) {
        request_end(request);
    } else if (failed != NULL) {
        answer_failed(request->broker, request->call, failed);
        request_end(request);
    } else if (outcome->status != FSM_OK) {
        answer_outcome(request->call, outcome);
        request_end(request);
    } else {
        request->method->start(request);
    }
}

/* Changes that are made beside the log have a record of their own, first (V-016). */
static void request_audit(struct request *request)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__AuditCalls calls = CKPT__LOG__V1__AUDIT_CALLS__INIT;
    Ckpt__Log__V1__AuditCall call = CKPT__LOG__V1__AUDIT_CALL__INIT, *items[] = {&call};
    char asked[CALLER_ASKED_BYTES];
    struct caller caller;

    caller_of_call(request->call, request->method->path, &caller);
    call.caller = &caller.message;
    call.asked = caller_asked(request->message, asked);
    calls.n_calls = 1;
    calls.calls = items;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_AUDIT_CALLS;
    command.audit_calls = &calls;
    replica_propose(request->broker->replica, &command, call_audited, request);
}

/* This member leads, and its state has all that was acknowledged before the request came. */
static void read_done(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct request *request = data;

    CHECK(outcome == NULL);
    if (request->call == NULL) {
        request_end(request);
    } else if (failed != NULL) {
        answer_failed(request->broker, request->call, failed);
        request_end(request);
    } else if (request->method->start != NULL &&
               fsm_level(replica_fsm(request->broker->replica)) >= SERVICE_CALLER_LEVEL) {
        request_audit(request);
    } else if (request->method->start != NULL) {
        request->method->start(request);
    } else {
        request_stand_in_line(request);
    }
}

/* The reply of every mutation that has none of its own. */
static void reply_mutation(struct rpc_call *call, const struct fsm_outcome *outcome)
{
    Ckpt__V1__MutationReply reply = CKPT__V1__MUTATION_REPLY__INIT;

    reply.index = outcome->index;
    reply.checkpoint_id = outcome->checkpoint_id;
    reply.repeated = outcome->repeated;
    answer_reply(call, &reply.base);
}

/* The outcome counts whether or not the client is still there: the command was applied. */
static void mutation_done(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct request *request = data;
    struct broker *broker = request->broker;

    if (outcome != NULL && (unsigned)outcome->status < BROKER_OUTCOMES_MAX)
        broker->counters.outcomes_total[outcome->status]++;
    if (request->call != NULL) {
        if (failed != NULL)
            answer_failed(broker, request->call, failed);
        else if (outcome->status != FSM_OK)
            answer_outcome(request->call, outcome);
        else if (request->method->reply != NULL)
            request->method->reply(request, outcome);
        else
            reply_mutation(request->call, outcome);
    }
    request_end(request);
}

/* The command's body is the request itself, or what fill() makes of it. A mutation without a
 * request id is refused, since nobody could ask for its outcome after a lost answer; unknown fields
 * are refused, since they would enter the log unread. */
static void request_mutate(struct service_method *state, struct request *request)
{
    const struct method *method = state->method;
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    ProtobufCMessage *message = request->message;
    union method_body body;
    struct fsm_outcome outcome;
    struct caller caller;

    CHECK(request->call != NULL);
    memset(&outcome, 0, offsetof(struct fsm_outcome, victims));
    command.request_id = *(char **)(void *)((char *)message + state->request_id_offset);
    command.body_case = method->body_case;
    caller_of_call(request->call, NULL, &caller); /* the body is the method's */
    if (fsm_level(replica_fsm(request->broker->replica)) >= SERVICE_CALLER_LEVEL)
        command.caller = &caller.message;
    /* Every member of the body's union is a pointer to a message. */
    command.cluster_init = (Ckpt__Log__V1__ClusterInit *)(void *)message;
    if (message->n_unknown_fields > 0)
        outcome.status = FSM_UNKNOWN_FIELD;
    else if (command.request_id[0] == '\0')
        outcome.status = FSM_REQUEST_ID_MISSING;
    else if (method->fill != NULL)
        outcome.status = method->fill(message, &command, &body, &outcome);
    if (method->sign != NULL && outcome.status == FSM_OK)
        method->sign(rpc_call_peer(request->call), &body);
    request->broker->counters.mutations_total++;
    request->message = NULL; /* packed before replica_propose returns */
    if (outcome.status != FSM_OK)
        mutation_done(request, NULL, &outcome);
    else
        replica_propose(request->broker->replica, &command, mutation_done, request);
    message_free(state, message);
}

/* A stale read needs no leader: it is answered in its turn from what this member has. */
static void request_read(struct service_method *state, struct request *request)
{
    request->stale = state->stale_offset != SIZE_MAX &&
                     *(protobuf_c_boolean *)((char *)request->message + state->stale_offset) != 0;
    if (request->stale) {
        request->broker->counters.stale_reads_total++;
        request_stand_in_line(request);
    } else {
        request->broker->counters.reads_total++;
        replica_read(request->broker->replica, read_done, request);
    }
}

/* A request that was held: its message was whole when it came. */
static void request_go_on(struct request *request, const uint8_t *bytes, size_t length)
{
    struct service_method *state = request->of;

    request->message = message_unpack(state, bytes, length);
    CHECK(request->message != NULL);
    request_mutate(state, request);
}

/* True: the state would refuse it now, and it waits. */
static bool request_held(struct service_method *state, struct request *request,
                         const uint8_t *bytes, size_t length)
{
    const struct method *method = state->method;
    struct replica *replica = request->broker->replica;
    ProtobufCMessage *message = request->message;

    if (method->waits == NULL || !replica_serving(replica) ||
        !method->waits(replica_fsm(replica), message) ||
        !hold_take(state->service->hold, request,
                   *(char **)(void *)((char *)message + state->request_id_offset), bytes, length))
        return false;
    request->message = NULL;
    message_free(state, message);
    return true;
}

/* One way for each kind of method (service.h). */
static void request_start(struct service_method *state, struct request *request,
                          const uint8_t *bytes, size_t length)
{
    switch (state->method->kind) {
    case METHOD_MUTATION:
        if (!request_held(state, request, bytes, length))
            request_mutate(state, request);
        return;
    case METHOD_READ:
        request_read(state, request);
        return;
    case METHOD_OWN:
        replica_read(request->broker->replica, read_done, request);
        return;
    case METHOD_LOCAL:
        request_stand_in_line(request);
        return;
    case METHOD_STREAM:
        break;
    }
    CHECK_UNREACHABLE("kind of method");
}

/* ---- from the server ---- */

/* False: the call is ended, and says when the user may ask again. */
static bool rate_takes(struct service *service, struct rpc_call *call)
{
    const char *user = rpc_call_metadata(call, OWN_NAME_METADATA);
    char text[ANSWER_TEXT_BYTES];
    uint64_t wait_ms;

    if (user == NULL || !id_valid(user) ||
        rate_allow(service->rate, user, broker_monotonic_ms(service->broker), &wait_ms))
        return true;
    service->broker->counters.rate_limited_total++;
    snprintf(text, sizeof(text), "%" PRIu64, wait_ms);
    rpc_call_trailer(call, "grpc-retry-pushback-ms", text);
    snprintf(text, sizeof(text),
             "RATE_LIMITED: %s asks more often than %" PRIu64
             " times a minute, which is the limit of each user (user_requests_per_minute of "
             "ckptd); ask again in %" PRIu64 " ms",
             user, rate_per_minute(service->rate), wait_ms);
    rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, text);
    return false;
}

/* Of what a user asks: whether it goes on; else the call is ended. A read looks at the job's owner
 * when it is answered. A change looks before it is proposed: an owner never changes, and the
 * leader's state has all that was acknowledged. */
static bool owner_may(const struct service_method *state, struct rpc_call *call,
                      const ProtobufCMessage *message)
{
    struct replica *replica = state->service->broker->replica;
    const struct method *method = state->method;
    const struct own_rule rule = {method, admins_of(state->service->broker)};
    char text[ANSWER_TEXT_BYTES];

    if (!own_may_ask(&rule, call, message, text, sizeof(text))) {
        denials_note(state->service->broker->denials, rpc_call_peer(call), method->path, NULL);
        rpc_call_finish(call, RPC_PERMISSION_DENIED, text);
        return false;
    }
    if (!rate_takes(state->service, call))
        return false;
    if (method->kind != METHOD_MUTATION)
        return true;
    if (!replica_serving(replica)) {
        answer_not_leader(state->service->broker, call);
        return false;
    }
    if (own_is_theirs(&rule, replica_fsm(replica), call, message, text, sizeof(text)))
        return true;
    rpc_call_finish(call, RPC_NOT_FOUND, text);
    return false;
}

/* Likewise of a scheduler of one tenant. */
static bool tenant_may(const struct service_method *state, struct rpc_call *call,
                       const ProtobufCMessage *message)
{
    struct replica *replica = state->service->broker->replica;
    const struct rpc_peer *peer = rpc_call_peer(call);
    const struct method *method = state->method;
    char text[ANSWER_TEXT_BYTES];

    if (!scope_may_ask(method, peer, message, text, sizeof(text))) {
        denials_note(state->service->broker->denials, peer, method->path, NULL);
        rpc_call_finish(call, RPC_PERMISSION_DENIED, text);
        return false;
    }
    if (method->kind != METHOD_MUTATION)
        return true;
    if (!replica_serving(replica)) {
        answer_not_leader(state->service->broker, call);
        return false;
    }
    if (scope_is_theirs(method, replica_fsm(replica), peer, message, text, sizeof(text)))
        return true;
    rpc_call_finish(call, RPC_NOT_FOUND, text);
    return false;
}

static void service_on_message(struct rpc_call *call, void *data, const uint8_t *bytes,
                               size_t length)
{
    struct service_method *state = data;
    const struct method *method = state->method;
    struct replica *replica = state->service->broker->replica;
    ProtobufCMessage *message;
    char text[ANSWER_TEXT_BYTES];

    message = message_unpack(state, bytes, length);
    if (message == NULL) {
        state->service->broker->counters.undecodable_total++;
        snprintf(text, sizeof(text),
                 "UNDECODABLE: the request is no %s; build the client from this version's .proto",
                 method->type->name);
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, text);
        return;
    }
    if (texts_hold_nul(method->type, bytes, length)) {
        message_free(state, message);
        snprintf(text, sizeof(text), "%s: a text of the request holds a NUL byte; %s",
                 fsm_status_name(FSM_INVALID_ID), fsm_status_next(FSM_INVALID_ID));
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, text);
        return;
    }
    if (method->allowed != NULL &&
        !method->allowed(rpc_call_peer(call),
                         replica_serving(replica) ? replica_fsm(replica) : NULL, message, text,
                         sizeof(text))) {
        message_free(state, message);
        denials_note(state->service->broker->denials, rpc_call_peer(call), method->path, NULL);
        rpc_call_finish(call, RPC_PERMISSION_DENIED, text);
        return;
    }
    if ((own_asks(method, call) && !owner_may(state, call, message)) ||
        (scope_asks(rpc_call_peer(call)) && !tenant_may(state, call, message))) {
        message_free(state, message);
        return;
    }
    request_start(state, request_new(state, call, message), bytes, length);
}

/* Only reads ask for it: it is the call's turn. */
static void service_on_writable(struct rpc_call *call, void *data)
{
    (void)data;
    request_answer(rpc_call_data(call));
}

/* A request that waits, in line or for its moment, belongs to its call alone. Any other one is the
 * replica's, and ends when that answers. */
static void service_on_cancel(struct rpc_call *call, void *data)
{
    struct request *request = rpc_call_data(call);

    (void)data;
    if (request == NULL)
        return;
    request->call = NULL;
    if (request->state == REQUEST_HELD)
        hold_drop(request->of->service->hold, request);
    if (request->state != REQUEST_BEGUN)
        request_end(request);
}

/* ---- life ---- */

/* Load balancers and clients ask the health of these names to find the leader. */
static void service_set_leader_health(struct service *service, bool serving)
{
    if (service->broker->rpc == NULL)
        return;
    for (size_t i = 0; i < ARRAY_COUNT(service_leader_names); i++)
        rpc_server_set_health(service->broker->rpc, service_leader_names[i], serving);
}

static void service_serving(void *context)
{
    service_set_leader_health(context, true);
}

static void service_not_serving(void *context)
{
    struct service *service = context;

    service_set_leader_health(service, false);
    hold_end(service->hold);
}

static void service_applied(void *context)
{
    struct service *service = context;

    hold_look(service->hold);
}

/* SIZE_MAX: requests of this type have no such field. */
static size_t service_field_offset(const ProtobufCMessageDescriptor *type, const char *name)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(type, name);

    return field == NULL ? SIZE_MAX : field->offset;
}

/* The checks find a row that lacks what its kind needs when the program starts, not when somebody
 * calls. */
static void service_add(struct service *service, const struct method *method)
{
    static const struct rpc_handlers handlers = {.on_message = service_on_message,
                                                 .on_writable = service_on_writable,
                                                 .on_cancel = service_on_cancel};
    struct service_method *state = &service->methods[service->method_count++];

    state->service = service;
    state->method = method;
    state->request_id_offset = service_field_offset(method->type, "request_id");
    state->stale_offset = service_field_offset(method->type, "stale");
    CHECK(method->kind != METHOD_MUTATION || state->request_id_offset != SIZE_MAX);
    CHECK((method->answer != NULL) ==
          (method->kind == METHOD_READ || method->kind == METHOD_LOCAL));
    CHECK((method->start != NULL) == (method->kind == METHOD_OWN));
    CHECK(method->own == NULL ||
          ((method->roles & ROLE_OWNER) != 0 && method->allowed == NULL &&
           (method->kind == METHOD_MUTATION || method->kind == METHOD_READ)));
    rpc_server_add_method(service->broker->rpc, method->path, false, false, &handlers, state);
}

/* What does not go the way of a request through this file. */
static const struct method stream_methods[] = {
    {.path = "/ckpt.v1.AgentService/Session", .roles = ROLE_AGENT, .kind = METHOD_STREAM},
    {.path = "/ckpt.v1.BrokerService/Watch",
     .roles = ROLE_READER,
     .kind = METHOD_STREAM,
     .scope = SCOPE_JOB},
    {.path = "/ckpt.v1.OperatorService/Backup",
     .roles = ROLE_OPERATOR | ROLE_AUDITOR,
     .kind = METHOD_STREAM},
    {.path = "/grpc.health.v1.Health/Check",
     .roles = ROLE_ANY,
     .kind = METHOD_STREAM,
     .scope = SCOPE_OPEN},
    {.path = "/grpc.health.v1.Health/Watch",
     .roles = ROLE_ANY,
     .kind = METHOD_STREAM,
     .scope = SCOPE_OPEN},
    {.path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     .roles = ROLE_ANY,
     .kind = METHOD_STREAM,
     .scope = SCOPE_OPEN},
};

static const struct {
    const struct method *methods;
    const size_t *count;
} tables[] = {{service_broker_methods, &service_broker_method_count},
              {service_operator_methods, &service_operator_method_count},
              {service_members_methods, &service_members_method_count},
              {service_upgrade_methods, &service_upgrade_method_count},
              {service_drills_methods, &service_drills_method_count}};

static const struct method *find_method(const char *path)
{
    for (size_t table = 0; table < ARRAY_COUNT(tables); table++) {
        for (size_t i = 0; i < *tables[table].count; i++) {
            if (strcmp(tables[table].methods[i].path, path) == 0)
                return &tables[table].methods[i];
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(stream_methods); i++) {
        if (strcmp(stream_methods[i].path, path) == 0)
            return &stream_methods[i];
    }
    return NULL;
}

unsigned service_roles(const char *path)
{
    const struct method *method = find_method(path);

    return method == NULL ? 0 : method->roles;
}

bool service_beyond_tenant(const char *path)
{
    const struct method *method = find_method(path);

    return method == NULL || method->scope == SCOPE_NOTHING;
}

struct service *service_new(struct broker *broker)
{
    struct service *service = check_calloc(1, sizeof(*service));
    size_t count = 0;

    CHECK(broker->rpc != NULL && broker->replica != NULL);
    service->broker = broker;
    service->hold = hold_new(broker, request_go_on);
    service->rate = rate_new(broker->config->user_requests_per_minute);
    spare_init(&service->requests, SERVICE_SPARE_MAX_BYTES);
    for (size_t table = 0; table < ARRAY_COUNT(tables); table++)
        count += *tables[table].count;
    service->methods = check_calloc(count, sizeof(*service->methods));
    for (size_t table = 0; table < ARRAY_COUNT(tables); table++) {
        for (size_t i = 0; i < *tables[table].count; i++)
            service_add(service, &tables[table].methods[i]);
    }
    rpc_server_add_health(broker->rpc);
    rpc_server_set_health(broker->rpc, "", true);
    rpc_server_set_health(broker->rpc, "ckpt.v1.OperatorService", true);
    service_set_leader_health(service, replica_serving(broker->replica));
    service->observer.context = service;
    service->observer.serving = service_serving;
    service->observer.not_serving = service_not_serving;
    service->observer.applied = service_applied;
    replica_observe(broker->replica, &service->observer);
    return service;
}

void service_free(struct service *service)
{
    if (service == NULL)
        return;
    hold_free(service->hold);
    rate_free(service->rate);
    spare_close(&service->requests);
    free(service->methods);
    free(service);
}
