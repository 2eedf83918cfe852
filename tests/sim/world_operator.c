/* The operator of a running cluster, through OperatorService as ckptctl does: policy, destinations,
 * drains, leadership, and every read that there is. The members are world_membership.c's, the
 * streams world_streams.c's.
 *
 * Flow     a timer draws the next call. A refusal is an answer like any other; what must not come
 *          back is INTERNAL, UNKNOWN or UNIMPLEMENTED. What a member says of itself (DebugCheck) is
 *          compared with what the checkers know.
 * Shapes   one call at a time. Values stay within what the bounds of convergence allow for.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/operator.pb-c.h"
#include "fsm/node_life.h"
#include "fsm/quota.h"
#include "src/base/check.h"
#include "src/broker/health/storage_watch.h"
#include "tests/sim/world_internal.h"

enum { GONE_LOOK_US = 300000, REMOVER_FIRST_REQUEST = 1000000, TIMEOUT_MS = 4000, ID_BYTES = 48 };

struct world_operator {
    struct world *world;
    struct client *client;
    const char *method; /* of the call under way; NULL: none */
    ProtobufCMessage *message;
    uint64_t requests;
    bool limited;   /* the tenant may have a limit */
    uint64_t known; /* index that was acknowledged when the call was made */
};

static void check_reply(struct world *world, const ProtobufCMessage *reply)
{
    const Ckpt__V1__DebugCheckReply *check = (const void *)reply;

    if (reply->descriptor != &ckpt__v1__debug_check_reply__descriptor)
        return;
    if (check->n_violations > 0)
        world_violation(world, "fsm_check", "member %" PRIu64 " says: %s", check->member_id,
                        check->violations[0]);
    CHECK(check->member_id > 0 && check->member_id <= world->member_count);
    for (size_t i = 0; i < check->n_history; i++)
        if (!flips_odd_at(&world->members[check->member_id - 1], check->history[i]->index) &&
            !state_checks_hash_is(world, check->history[i]->index, check->history[i]->hash))
            world_violation(world, "I5", "member %" PRIu64 " tells another hash of index %" PRIu64,
                            check->member_id, check->history[i]->index);
}

/* I7: of linearizable reads that say so, and of changes. A hand-over writes nothing. */
static void check_index(const struct world_operator *desk, const ProtobufCMessage *reply)
{
    static const ProtobufCMessageDescriptor *const reads[] = {
        &ckpt__v1__list_allocations_reply__descriptor,
        &ckpt__v1__list_checkpoints_reply__descriptor,
        &ckpt__v1__list_preemptions_reply__descriptor, &ckpt__v1__get_losses_reply__descriptor,
        &ckpt__v1__get_calibration_reply__descriptor};
    const Ckpt__V1__MutationReply *mutation = (const void *)reply;

    for (size_t i = 0; i < ARRAY_COUNT(reads); i++)
        if (reply->descriptor == reads[i]) {
            const ProtobufCFieldDescriptor *field =
                protobuf_c_message_descriptor_get_field_by_name(reads[i], "applied_index");
            CHECK(field != NULL);
            history_answered(desk->world, desk->known,
                             *(const uint64_t *)(const void *)((const char *)reply + field->offset),
                             false, desk->method);
        }
    if (reply->descriptor == &ckpt__v1__mutation_reply__descriptor &&
        strcmp(desk->method, "OperatorService/TransferLeadership") != 0)
        history_answered(desk->world, desk->known, mutation->index, true, desk->method);
}

static void on_done(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct world_operator *desk = data;
    struct world *world = desk->world;

    if (world->options.verbose)
        fprintf(stderr, "%12" PRIu64 " operator: %s %s %s\n", sim_now_us(world->sim), desk->method,
                rpc_status_name(status), status == RPC_OK ? "" : text);
    if (status == RPC_INTERNAL || status == RPC_UNKNOWN || status == RPC_UNIMPLEMENTED ||
        status == RPC_INVALID_ARGUMENT)
        world_violation(world, "API", "%s ends with %s: %s", desk->method, rpc_status_name(status),
                        text);
    if (status == RPC_OK)
        check_index(desk, reply);
    if (status == RPC_OK && reply->descriptor == &ckpt__v1__mutation_reply__descriptor)
        done_check(world, desk->method, desk->message, reply);
    if (status == RPC_OK)
        done_read(world, desk->method, desk->known, reply);
    desk->method = NULL;
    if (status != RPC_OK)
        return;
    if (desk->message->descriptor == &ckpt__v1__put_tenant_request__descriptor &&
        ((const Ckpt__V1__PutTenantRequest *)(const void *)desk->message)->spec->max_bytes == 0)
        desk->limited = false;
    world->counts.operated++;
    check_reply(world, reply);
}

static void message_keep(struct world_operator *desk, const ProtobufCMessage *message)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = check_alloc(length + 1);

    if (desk->message != NULL)
        protobuf_c_message_free_unpacked(desk->message, NULL);
    protobuf_c_message_pack(message, bytes);
    desk->message = protobuf_c_message_unpack(message->descriptor, NULL, length, bytes);
    CHECK(desk->message != NULL);
    free(bytes);
}

static void call(struct world_operator *desk, const char *method, const ProtobufCMessage *message,
                 const ProtobufCMessageDescriptor *reply)
{
    unsigned before = sim_enter(desk->world->sim, WORLD_SCHEDULER_NODE);

    message_keep(desk, message);
    desk->method = method;
    desk->known = history_acknowledged(desk->world);
    client_call(
        desk->client,
        &(struct client_request){
            .method = method, .message = message, .reply_type = reply, .timeout_ms = TIMEOUT_MS},
        on_done, desk);
    sim_leave(desk->world->sim, before);
}

static char *request_id(struct world_operator *desk, char id[ID_BYTES])
{
    snprintf(id, ID_BYTES, "operator-%" PRIu64, ++desk->requests);
    return id;
}

/* ---- changes ---- */

static void policy_draw(struct world *world, Ckpt__V1__Policy *policy)
{
    struct sim *sim = world->sim;

    switch (sim_random(sim, 9)) {
    case 0:
        policy->evaluation_interval_ms = 1000 + sim_random(sim, 4000);
        if (policy->evaluation_interval_ms > world->interval_ms)
            world->interval_ms = policy->evaluation_interval_ms;
        break;
    case 1:
        policy->min_interval_ms = 1000 + sim_random(sim, 3000);
        policy->max_interval_ms = 8000 + sim_random(sim, 20000);
        break;
    case 2:
        policy->checkpoint_timeout_ms = 2000 + sim_random(sim, 6000);
        policy->grace_ms = 200 + sim_random(sim, 600);
        break;
    case 3:
        policy->retention_ms = 2000 + sim_random(sim, 20000);
        policy->keep_complete = 2 + (uint32_t)sim_random(sim, 3);
        break;
    case 4:
        policy->max_attempts = 1 + (uint32_t)sim_random(sim, 4);
        policy->retry_backoff_ms = 50 + sim_random(sim, 500);
        break;
    case 5:
        policy->node_degraded_after_ms = 1500 + sim_random(sim, 1500);
        policy->node_down_after_ms = 4000 + sim_random(sim, 6000);
        break;
    case 6: /* what is learned enters the log at once, and is forgotten fast */
        policy->learned_interval_ms = 1000 + sim_random(sim, 4000);
        policy->demand_forget_ms = 60000 + sim_random(sim, 100000);
        policy->hazard_forget_ms = 3600000 + sim_random(sim, 3600000);
        break;
    case 7:
        policy->max_victims = 1 + (uint32_t)sim_random(sim, 4);
        policy->max_requeue = 1 + (uint32_t)sim_random(sim, 4);
        policy->near_completion_ms = 1 + sim_random(sim, 5000);
        policy->node_gpus = policy->max_victims;
        break;
    default:
        if (world->options.domains > 0 && sim_chance(sim, 2)) {
            policy->node_chooses_target = sim_chance(sim, 2);
            policy->zeros = policy->node_chooses_target == 0 ? UINT64_C(1) << 23 : 0;
        }
        policy->sensitive_min_interval_ms = 1000 + sim_random(sim, 3000);
        policy->sensitive_max_interval_ms = 5000 + sim_random(sim, 10000);
        policy->sensitive_timeout_ms = 2000 + sim_random(sim, 6000);
        policy->queue_max_age_ms = 1000 + sim_random(sim, 10000);
    }
}

static void set_policy(struct world_operator *desk)
{
    Ckpt__V1__SetPolicyRequest message = CKPT__V1__SET_POLICY_REQUEST__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    char id[ID_BYTES];

    policy_draw(desk->world, &policy);
    message.request_id = request_id(desk, id);
    message.policy = &policy;
    call(desk, "OperatorService/SetPolicy", &message.base, &ckpt__v1__mutation_reply__descriptor);
}

/* A destination that no job names: it comes, stays as it is, goes. */
static void spare_target(struct world_operator *desk)
{
    static char name[] = WORLD_SPARE_TARGET, prefix[] = "/storage-0/spare";
    Ckpt__V1__PutTargetRequest put = CKPT__V1__PUT_TARGET_REQUEST__INIT;
    Ckpt__V1__RemoveTargetRequest remove = CKPT__V1__REMOVE_TARGET_REQUEST__INIT;
    Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;
    char id[ID_BYTES];

    put.request_id = remove.request_id = request_id(desk, id);
    put.spec = &spec;
    spec.target_id = remove.target_id = name;
    spec.prefix = prefix;
    spec.write_bytes_per_s = 1000000000;
    if (sim_chance(desk->world->sim, 2))
        call(desk, "OperatorService/PutTarget", &put.base, &ckpt__v1__mutation_reply__descriptor);
    else
        call(desk, "OperatorService/RemoveTarget", &remove.base,
             &ckpt__v1__mutation_reply__descriptor);
}

/* More or less bandwidth, also less than is granted; another default. */
static void put_target(struct world_operator *desk)
{
    struct sim *sim = desk->world->sim;
    unsigned number = (unsigned)sim_random(sim, desk->world->options.targets);
    Ckpt__V1__PutTargetRequest message = CKPT__V1__PUT_TARGET_REQUEST__INIT;
    Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;
    char id[ID_BYTES];

    message.request_id = request_id(desk, id);
    message.spec = &spec;
    spec.target_id = desk->world->targets[number].id;
    spec.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
    spec.prefix = desk->world->targets[number].prefix;
    spec.write_bytes_per_s = UINT64_C(1000000000) * (1 + sim_random(sim, 20));
    spec.staging_share_ppm = (uint32_t)sim_random(sim, 500001);
    spec.is_default = number == 0 || sim_chance(sim, 4);
    if (desk->world->options.readers > 0) {
        spec.max_restores = (uint32_t)sim_random(sim, 4);
        spec.read_bytes_per_s = spec.write_bytes_per_s / 8;
        spec.max_writes = (uint32_t)sim_random(sim, 6);
        message.zeros = 1 << 15 | 1 << 18;
    }
    if (desk->world->options.domains > 0 && sim_chance(sim, 3)) {
        spec.domain = (char *)(uintptr_t)world_domain_draw(desk->world);
        message.zeros |= spec.domain[0] == '\0' ? 1 << 8 : 0;
    }
    call(desk, "OperatorService/PutTarget", &message.base, &ckpt__v1__mutation_reply__descriptor);
}

/* ---- tenants ---- */

/* Less than what is stored, or more; or none. */
static void put_tenant(struct world_operator *desk, bool lift)
{
    static char name[] = WORLD_TENANT;
    struct world *world = desk->world;
    const struct world_member *leader = members_leader(world);
    Ckpt__V1__PutTenantRequest message = CKPT__V1__PUT_TENANT_REQUEST__INIT;
    Ckpt__V1__TenantSpec spec = CKPT__V1__TENANT_SPEC__INIT;
    struct fsm_quota quota = {.stored_bytes = 0};
    char id[ID_BYTES];

    if (leader != NULL)
        fsm_tenant_quota(member_fsm(leader), 0, &quota);
    message.request_id = request_id(desk, id);
    message.spec = &spec;
    message.zeros = 1 << 2;
    spec.tenant = name;
    if (!lift)
        spec.max_bytes =
            1 + quota.stored_bytes / 2 + sim_random(world->sim, 1 + quota.stored_bytes);
    desk->limited |= !lift;
    call(desk, "OperatorService/PutTenant", &message.base, &ckpt__v1__mutation_reply__descriptor);
}

/* Limits would keep jobs from what they converge to. */
static void lift_limits(void *data)
{
    struct world_operator *desk = data;

    if (!desk->limited)
        return;
    if (desk->method == NULL)
        put_tenant(desk, true);
    sim_after(desk->world->sim, SIM_NODES_MAX, SECOND_US, lift_limits, desk);
}

/* ---- storage systems ---- */

static void fall_silent(void *data)
{
    struct world *world = data;

    for (unsigned i = 0; i < world->options.targets; i++) {
        world->targets[i].since_us =
            world->targets[i].told ? sim_now_us(world->sim) : world->targets[i].since_us;
        world->targets[i].told = false;
    }

    for (unsigned i = 0; i < WORLD_MEMBERS_MAX; i++) {
        struct world_member *member = &world->members[i];

        for (uint32_t slot = 0; member->up && slot < world->options.targets; slot++)
            storage_watch_untold(member->broker.storage_watch, slot);
    }
}

/* What src/broker/decide/headroom.c hands on of a VMS, which nobody simulates: what it leaves for
 * checkpoints, that it measures nothing any more, how it is. Words about its health are followed by
 * silence, so that probes alone decide in the end. */
static void tell_of_storage(struct world_operator *desk)
{
    struct sim *sim = desk->world->sim;
    struct world_member *leader = members_leader(desk->world);
    uint32_t slot = (uint32_t)sim_random(sim, desk->world->options.targets);
    unsigned what = (unsigned)sim_random(sim, 4), before;
    uint64_t bytes_per_s = UINT64_C(500000000) * (1 + sim_random(sim, 20));
    bool well = sim_chance(sim, 3);

    if (leader == NULL)
        return;
    before = sim_enter(sim, leader->number);
    for (int i = 0; what == 0 && i < 3; i++)
        storage_watch_told(leader->broker.storage_watch, slot, well ? "" : "told so");
    if (what != 0)
        storage_watch_measured(leader->broker.storage_watch, slot, what == 1 ? 0 : bytes_per_s);
    sim_leave(sim, before);
    desk->world->targets[slot].told |= what == 0;
    if (what == 0)
        sim_after(sim, SIM_NODES_MAX, SECOND_US + sim_random(sim, 3 * SECOND_US), fall_silent,
                  desk->world);
}

static void drain_node(struct world_operator *desk)
{
    struct world *world = desk->world;
    Ckpt__V1__DrainNodeRequest message = CKPT__V1__DRAIN_NODE_REQUEST__INIT;
    char id[ID_BYTES];

    message.request_id = request_id(desk, id);
    message.node_id = world->agents[sim_random(world->sim, world->options.agents)].name;
    message.urgent = sim_chance(world->sim, 2);
    call(desk, "OperatorService/DrainNode", &message.base, &ckpt__v1__mutation_reply__descriptor);
}

static const struct fsm_node *node_of(const struct world *world, unsigned agent)
{
    const struct world_member *leader = members_leader((struct world *)(uintptr_t)world);

    return leader == NULL ? NULL : fsm_node_find(member_fsm(leader), world->agents[agent].name);
}

/* An agent, of an empty node where there is one, is stopped for longer than a node is waited for.
 * What is found down and empty then is removed, before its agent is back or after. */
static void take_away(struct world_operator *desk)
{
    struct world *world = desk->world;
    unsigned agents = world->options.agents;
    unsigned agent = (unsigned)sim_random(world->sim, agents);

    for (unsigned i = 0; i < agents; i++, agent = agent + 1 < agents ? agent + 1 : 0) {
        const struct fsm_node *node = node_of(world, agent);

        if (node != NULL && node->allocation_count == 0)
            break;
    }
    agent_kill_for(world, agent, 8 * SECOND_US + sim_random(world->sim, 12 * SECOND_US));
}

static void remove_node(struct world_operator *desk, unsigned agent)
{
    Ckpt__V1__RemoveNodeRequest message = CKPT__V1__REMOVE_NODE_REQUEST__INIT;
    char id[ID_BYTES];

    message.request_id = request_id(desk, id);
    message.node_id = desk->world->agents[agent].name;
    call(desk, "OperatorService/RemoveNode", &message.base, &ckpt__v1__mutation_reply__descriptor);
}

/* The agent of the simulated machine is away, and its applications with it where the machine was
 * killed. Others are only silent: that word is not given for them. */
static void node_off(struct world_operator *desk, unsigned agent)
{
    Ckpt__V1__MarkNodeOffRequest message = CKPT__V1__MARK_NODE_OFF_REQUEST__INIT;
    char id[ID_BYTES];

    message.request_id = request_id(desk, id);
    message.node_id = desk->world->agents[agent].name;
    call(desk, "OperatorService/MarkNodeOff", &message.base, &ckpt__v1__mutation_reply__descriptor);
}

/* Nodes are down for a short time: what is down and empty is removed now and then, perhaps just
 * when its agent comes back. */
static void look_for_gone(void *data)
{
    struct world_operator *desk = data;
    struct world *world = desk->world;

    if (world->phase != WORLD_CHAOS)
        return;
    sim_after(world->sim, SIM_NODES_MAX, GONE_LOOK_US, look_for_gone, desk);
    for (unsigned agent = 0; agent < world->options.agents; agent++) {
        const struct fsm_node *node = node_of(world, agent);

        if (desk->method == NULL && node != NULL && node->allocation_count == 0 &&
            fsm_node_gone(node) && sim_chance(world->sim, 2))
            remove_node(desk, agent);
    }
}

static void transfer(struct world_operator *desk)
{
    Ckpt__V1__MemberRequest message = CKPT__V1__MEMBER_REQUEST__INIT;
    char id[ID_BYTES];

    message.request_id = request_id(desk, id);
    if (sim_chance(desk->world->sim, 2))
        message.member_id = 1 + sim_random(desk->world->sim, desk->world->options.replicas);
    call(desk, "OperatorService/TransferLeadership", &message.base,
         &ckpt__v1__mutation_reply__descriptor);
}

/* ---- reads ---- */

static void look(struct world_operator *desk)
{
    struct world *world = desk->world;
    union {
        ProtobufCMessage base;
        Ckpt__V1__ListAllocationsRequest allocations;
        Ckpt__V1__ListCheckpointsRequest checkpoints;
        Ckpt__V1__ListPreemptionsRequest preemptions;
        Ckpt__V1__ListUndeletedRequest undeleted;
        Ckpt__V1__ExplainRequest explain;
        Ckpt__V1__GetPlacementHintsRequest hints;
        Ckpt__V1__GetLossesRequest losses;
    } message;
    static char vcluster[] = "vc";
    static const struct {
        const char *method;
        const ProtobufCMessageDescriptor *request, *reply;
    } reads[] = {
#define READ(service, method, request, reply)                                                      \
    {#service "/" #method, &ckpt__v1__##request##__descriptor, &ckpt__v1__##reply##__descriptor}
        READ(OperatorService, DebugCheck, debug_check_request, debug_check_reply),
        READ(OperatorService, Status, status_request, status_reply),
        READ(OperatorService, GetPolicy, get_policy_request, get_policy_reply),
        READ(OperatorService, ListTargets, list_targets_request, list_targets_reply),
        READ(OperatorService, ListNodes, list_nodes_request, list_nodes_reply),
        READ(OperatorService, GetLosses, get_losses_request, get_losses_reply),
        READ(OperatorService, ListTenants, list_tenants_request, list_tenants_reply),
        READ(OperatorService, GetCalibration, get_calibration_request, get_calibration_reply),
        READ(BrokerService, ListAllocations, list_allocations_request, list_allocations_reply),
        READ(BrokerService, ListCheckpoints, list_checkpoints_request, list_checkpoints_reply),
        READ(BrokerService, ListPreemptions, list_preemptions_request, list_preemptions_reply),
        READ(BrokerService, ListUndeleted, list_undeleted_request, list_undeleted_reply),
        READ(BrokerService, GetPlacementHints, get_placement_hints_request,
             get_placement_hints_reply),
        READ(BrokerService, Explain, explain_request, explain_reply),
    };
    size_t i = sim_random(world->sim, ARRAY_COUNT(reads));

    protobuf_c_message_init(reads[i].request, &message);
    if (reads[i].request == &ckpt__v1__list_allocations_request__descriptor)
        message.allocations.page_size = 1 + (uint32_t)sim_random(world->sim, 5);
    else if (reads[i].request == &ckpt__v1__list_checkpoints_request__descriptor)
        message.checkpoints.page_size = 1 + (uint32_t)sim_random(world->sim, 5);
    else if (reads[i].request == &ckpt__v1__get_placement_hints_request__descriptor)
        message.hints.vcluster = vcluster;
    else if (reads[i].request == &ckpt__v1__explain_request__descriptor) {
        if (world->job_count == 0)
            return;
        message.explain.allocation_id = world->jobs[sim_random(world->sim, world->job_count)].id;
    }
    call(desk, reads[i].method, &message.base, reads[i].reply);
}

/* ---- all ---- */

static void on_timer(void *data)
{
    struct world_operator *desk = data;
    struct world *world = desk->world;
    uint64_t mean_us = (uint64_t)60 * SECOND_US / world->options.operator_calls;

    if (world->phase != WORLD_CHAOS) {
        lift_limits(desk);
        return;
    }
    sim_after(world->sim, SIM_NODES_MAX, 1 + sim_random(world->sim, 2 * mean_us), on_timer, desk);
    if (desk->method != NULL)
        return;
    switch (sim_random(world->sim, 10)) {
    case 0:
    case 1:
    case 2:
        set_policy(desk);
        break;
    case 3:
        if (world->options.quotas > 0 && sim_random(world->sim, 100) < world->options.quotas)
            put_tenant(desk, false);
        else if (sim_chance(world->sim, 3))
            spare_target(desk);
        else
            put_target(desk);
        break;
    case 6:
        tell_of_storage(desk);
        break;
    case 4:
        if (sim_chance(world->sim, 3))
            take_away(desk);
        else if (sim_chance(world->sim, 4))
            remove_node(desk, (unsigned)sim_random(world->sim, world->options.agents));
        else if (sim_chance(world->sim, 4))
            node_off(desk, (unsigned)sim_random(world->sim, world->options.agents));
        else
            drain_node(desk);
        break;
    case 5:
        transfer(desk);
        break;
    default:
        look(desk);
    }
}

static struct world_operator *desk_new(struct world *world, uint64_t first_request)
{
    const struct client_config config = {.endpoints = world->endpoints};
    struct world_operator *desk = check_calloc(1, sizeof(*desk));
    struct err err;

    desk->world = world;
    desk->requests = first_request;
    CHECK(client_new(&world->scheduler_loops[0].uv, &config, &desk->client, &err) == 0);
    return desk;
}

static void desk_free(struct world_operator *desk)
{
    if (desk == NULL)
        return;
    client_free(desk->client);
    if (desk->message != NULL)
        protobuf_c_message_free_unpacked(desk->message, NULL);
    free(desk);
}

/* Who removes nodes has a desk of its own: its calls are made just when a node is down, whatever
 * else is asked for. */
void operator_start(struct world *world)
{
    if (world->options.operator_calls == 0)
        return;
    world->desk = desk_new(world, 0);
    world->remover = desk_new(world, REMOVER_FIRST_REQUEST);
    sim_after(world->sim, SIM_NODES_MAX, SECOND_US, on_timer, world->desk);
    sim_after(world->sim, SIM_NODES_MAX, GONE_LOOK_US, look_for_gone, world->remover);
}

void operator_close(struct world *world)
{
    desk_free(world->desk);
    desk_free(world->remover);
}
