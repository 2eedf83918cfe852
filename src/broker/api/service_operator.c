/* The methods of OperatorService, but for Status and DebugCheck (status.c) and the members
 * (service_members.c). See methods.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/broker/api/access.h"
#include "src/broker/api/measures.h"
#include "src/broker/api/methods.h"
#include "src/broker/api/scope.h"
#include "src/broker/api/service_nodes.h"
#include "src/broker/api/target_kinds.h"
#include "src/broker/health/storage_watch.h"

/* ---- mutations whose command is not the request itself ---- */

/* The kind is settled here, at the edge: behind it a target has one that this version can write. */
static enum fsm_status fill_put_target(const ProtobufCMessage *message,
                                       Ckpt__Log__V1__Command *command, union method_body *body,
                                       struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__PutTargetRequest *asked = (const void *)message;
    enum fsm_status status;

    if (asked->spec == NULL)
        return FSM_INVALID_ARGUMENT;
    status = target_kind_settle(asked->spec, ret_outcome);
    if (status != FSM_OK)
        return status;
    ckpt__log__v1__put_target__init(&body->put_target);
    body->put_target.spec = asked->spec;
    body->put_target.zeros = asked->zeros;
    body->put_target.direct_kinds = target_kinds_direct();
    body->put_target.compressing_kinds = target_kinds_compressing();
    command->put_target = &body->put_target;
    return FSM_OK;
}

static enum fsm_status fill_drain_target(const ProtobufCMessage *message,
                                         Ckpt__Log__V1__Command *command, union method_body *body,
                                         struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__DrainTargetRequest *asked = (const void *)message;

    (void)ret_outcome;
    ckpt__log__v1__drain_target__init(&body->drain_target);
    body->drain_target.target_id = asked->target_id;
    body->drain_target.undo = asked->undo;
    command->drain_target = &body->drain_target;
    return FSM_OK;
}

static enum fsm_status fill_remove_target(const ProtobufCMessage *message,
                                          Ckpt__Log__V1__Command *command, union method_body *body,
                                          struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__RemoveTargetRequest *asked = (const void *)message;

    (void)ret_outcome;
    ckpt__log__v1__remove_target__init(&body->remove_target);
    body->remove_target.target_id = asked->target_id;
    command->remove_target = &body->remove_target;
    return FSM_OK;
}

/* A policy is replaced as a whole. */
static enum fsm_status fill_set_policy(const ProtobufCMessage *message,
                                       Ckpt__Log__V1__Command *command, union method_body *body,
                                       struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__SetPolicyRequest *asked = (const void *)message;

    (void)ret_outcome;
    if (asked->policy == NULL)
        return FSM_INVALID_ARGUMENT;
    ckpt__log__v1__set_policy__init(&body->set_policy);
    body->set_policy.policy = asked->policy;
    command->set_policy = &body->set_policy;
    return FSM_OK;
}

static enum fsm_status fill_drain_node(const ProtobufCMessage *message,
                                       Ckpt__Log__V1__Command *command, union method_body *body,
                                       struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__DrainNodeRequest *asked = (const void *)message;

    (void)ret_outcome;
    ckpt__log__v1__drain_node__init(&body->drain_node);
    body->drain_node.node_id = asked->node_id;
    body->drain_node.urgent = asked->urgent;
    body->drain_node.undo = asked->undo;
    body->drain_node.disable = asked->disable;
    body->drain_node.move = asked->move;
    body->drain_node.at_next_checkpoint = asked->at_next_checkpoint;
    body->drain_node.deadline_ms = asked->deadline_ms;
    command->drain_node = &body->drain_node;
    return FSM_OK;
}

static enum fsm_status fill_remove_node(const ProtobufCMessage *message,
                                        Ckpt__Log__V1__Command *command, union method_body *body,
                                        struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__RemoveNodeRequest *asked = (const void *)message;

    (void)ret_outcome;
    ckpt__log__v1__remove_node__init(&body->remove_node);
    body->remove_node.node_id = asked->node_id;
    command->remove_node = &body->remove_node;
    return FSM_OK;
}

static enum fsm_status fill_node_off(const ProtobufCMessage *message,
                                     Ckpt__Log__V1__Command *command, union method_body *body,
                                     struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__MarkNodeOffRequest *asked = (const void *)message;

    (void)ret_outcome;
    ckpt__log__v1__node_off__init(&body->node_off);
    body->node_off.node_id = asked->node_id;
    body->node_off.witness = asked->witness;
    body->node_off.evidence = asked->evidence;
    command->node_off = &body->node_off;
    return FSM_OK;
}

static enum fsm_status fill_pin(const ProtobufCMessage *message, Ckpt__Log__V1__Command *command,
                                union method_body *body, struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__PinRequest *asked = (const void *)message;

    (void)ret_outcome;
    ckpt__log__v1__pin_checkpoint__init(&body->pin_checkpoint);
    body->pin_checkpoint.checkpoint_id = asked->checkpoint_id;
    body->pin_checkpoint.unpin = asked->unpin;
    body->pin_checkpoint.reject = asked->reject;
    command->pin_checkpoint = &body->pin_checkpoint;
    return FSM_OK;
}

static enum fsm_status fill_gc(const ProtobufCMessage *message, Ckpt__Log__V1__Command *command,
                               union method_body *body, struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__RunGcRequest *asked = (const void *)message;

    (void)ret_outcome;
    ckpt__log__v1__expire_checkpoints__init(&body->expire_checkpoints);
    body->expire_checkpoints.n_checkpoint_ids = asked->n_checkpoint_ids;
    body->expire_checkpoints.checkpoint_ids = asked->checkpoint_ids;
    command->expire_checkpoints = &body->expire_checkpoints;
    return FSM_OK;
}

static enum fsm_status fill_verify(const ProtobufCMessage *message, Ckpt__Log__V1__Command *command,
                                   union method_body *body, struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__VerifyRequest *asked = (const void *)message;

    (void)ret_outcome;
    ckpt__log__v1__verify_checkpoints__init(&body->verify_checkpoints);
    body->verify_checkpoints.n_checkpoint_ids = asked->n_checkpoint_ids;
    body->verify_checkpoints.checkpoint_ids = asked->checkpoint_ids;
    command->verify_checkpoints = &body->verify_checkpoints;
    return FSM_OK;
}

static enum fsm_status fill_remove_orphans(const ProtobufCMessage *message,
                                           Ckpt__Log__V1__Command *command, union method_body *body,
                                           struct fsm_outcome *ret_outcome)
{
    const Ckpt__V1__RemoveOrphansRequest *asked = (const void *)message;

    (void)ret_outcome;
    ckpt__log__v1__remove_orphans__init(&body->remove_orphans);
    body->remove_orphans.n_orphans = asked->n_orphans;
    body->remove_orphans.orphans = asked->orphans;
    command->remove_orphans = &body->remove_orphans;
    return FSM_OK;
}

static enum fsm_status fill_adopt_cluster(const ProtobufCMessage *message,
                                          Ckpt__Log__V1__Command *command, union method_body *body,
                                          struct fsm_outcome *ret_outcome)
{
    (void)message, (void)ret_outcome;
    ckpt__log__v1__adopt_cluster__init(&body->adopt_cluster);
    command->adopt_cluster = &body->adopt_cluster;
    return FSM_OK;
}

/* ---- reads ---- */

/* By id, as ListCheckpoints has them; each page looks at so many records at most. */
static void plan_gc(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__GcRequest *asked = (const void *)request->message;
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    const struct fsm_allocation *job = NULL;
    const struct fsm_checkpoint *at = NULL;
    Ckpt__V1__GcReply reply = CKPT__V1__GC_REPLY__INIT;
    uint64_t after = asked->after_checkpoint_id;
    size_t bytes = 0;
    uint32_t size;

    if (!request_page_size(request, asked->page_size, &size))
        return;
    if (asked->allocation_id[0] != '\0') {
        job = fsm_allocation_find(fsm, asked->allocation_id);
        if (job == NULL) {
            request_refuse(request, FSM_ALLOCATION_NOT_FOUND, 0, 0);
            return;
        }
    }
    reply.checkpoints = scratch_take(scratch, size, sizeof(reply.checkpoints[0]));
    for (uint32_t scanned = 0;
         scanned < METHOD_SCAN_MAX && reply.n_checkpoints < size && bytes < METHOD_PAGE_BYTES;
         scanned++) {
        Ckpt__V1__Checkpoint *item;

        at = job == NULL ? fsm_checkpoint_next(fsm, after)
                         : fsm_checkpoint_next_of(fsm, job->slot, after);
        if (at == NULL)
            break;
        after = at->id;
        if (!fsm_may_expire(fsm, at))
            continue;
        item = scratch_take(scratch, 1, sizeof(*item));
        translate_checkpoint(fsm, at, scratch, item);
        if (measures_hidden(request, fsm_allocation_find_slot(fsm, at->allocation_slot)))
            measures_clear_checkpoint(item);
        bytes += ckpt__v1__checkpoint__get_packed_size(item);
        reply.size_bytes += at->size_bytes;
        reply.checkpoints[reply.n_checkpoints++] = item;
    }
    reply.next_after_checkpoint_id = at == NULL ? 0 : after;
    answer_reply(request->call, &reply.base);
}

static void get_policy(struct request *request, struct scratch *scratch)
{
    Ckpt__V1__GetPolicyReply reply = CKPT__V1__GET_POLICY_REPLY__INIT;

    (void)scratch;
    reply.policy = (Ckpt__V1__Policy *)(uintptr_t)fsm_policy(replica_fsm(request->broker->replica));
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    answer_reply(request->call, &reply.base);
}

/* As in Status, but confirmed. */
static void list_targets(struct request *request, struct scratch *scratch)
{
    Ckpt__V1__ListTargetsReply reply = CKPT__V1__LIST_TARGETS_REPLY__INIT;

    reply.n_targets = status_targets(request->broker, scratch, &reply.targets);
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    answer_reply(request->call, &reply.base);
}

/* The state's nodes, with what this member knows of each: whether its agent is connected here, and
 * how it is. */
static void list_nodes(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__ListNodesRequest *asked = (const void *)request->message;
    const struct broker *broker = request->broker;
    const struct fsm *fsm = replica_fsm(broker->replica);
    const uint32_t slots = fsm_node_slots(fsm);
    Ckpt__V1__ListNodesReply reply = CKPT__V1__LIST_NODES_REPLY__INIT;
    size_t bytes = 0;
    uint32_t size;
    uint32_t slot;

    if (!request_page_size(request, asked->page_size, &size) ||
        !request_slot_token(request, asked->page_token, &slot))
        return;
    reply.nodes = scratch_take(scratch, size, sizeof(reply.nodes[0]));
    for (; slot < slots && reply.n_nodes < size && bytes < METHOD_PAGE_BYTES; slot++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, slot);
        Ckpt__V1__NodeStatus *item;

        if (node == NULL)
            continue;
        item = scratch_take(scratch, 1, sizeof(*item));
        nodes_fill(broker, node, scratch, item);
        if (scope_asks(rpc_call_peer(request->call)))
            nodes_narrow(request, node, scratch, item);
        bytes += ckpt__v1__node_status__get_packed_size(item);
        reply.nodes[reply.n_nodes++] = item;
    }
    if (slot < slots)
        reply.next_page_token = scratch_printf(scratch, "%" PRIu32, slot);
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    answer_reply(request->call, &reply.base);
}

/* ---- the table ---- */

#define METHOD(of_kind, method, may, message, function, ...)                                       \
    METHOD_ROW("OperatorService", method, may, of_kind, message, .answer = function, __VA_ARGS__)
#define MUTATION(method, may, message, body, function, ...)                                        \
    METHOD_ROW("OperatorService", method, may, METHOD_MUTATION, message,                           \
               .body_case = CKPT__LOG__V1__COMMAND__BODY_##body, .fill = function, __VA_ARGS__)
#define OWN(...) .own = OWN_FIELDS(__VA_ARGS__)

/* clang-format off */
const struct method service_operator_methods[] = {
    METHOD(METHOD_LOCAL, "Status", ROLE_REPLICA | ROLE_READER, status_request, status_answer),
    METHOD(METHOD_READ, "ListAudit", ROLE_OPERATOR | ROLE_AUDITOR, list_audit_request,
           audit_answer),
    METHOD(METHOD_LOCAL, "DebugCheck", ROLE_OPERATOR | ROLE_AUDITOR, debug_check_request,
           status_debug_check),
    METHOD(METHOD_READ, "GetPolicy", ROLE_READER, get_policy_request, get_policy,
           .scope = SCOPE_OPEN),
    METHOD(METHOD_READ, "ListTargets", ROLE_READER, list_targets_request, list_targets,
           .scope = SCOPE_OPEN),
    METHOD(METHOD_READ, "GetLosses", ROLE_READER | ROLE_OWNER, get_losses_request, losses_answer,
           OWN("allocation_id", "stale"), .scope = SCOPE_ACCOUNT),
    METHOD(METHOD_READ, "GetCalibration", ROLE_READER, get_calibration_request, calibration_answer),
    METHOD(METHOD_READ, "ListNodes", ROLE_READER, list_nodes_request, list_nodes,
           .scope = SCOPE_OPEN),
    METHOD(METHOD_READ, "GetNode", ROLE_READER, get_node_request, nodes_answer),
    MUTATION("SetPolicy", ROLE_OPERATOR, set_policy_request, SET_POLICY, fill_set_policy),
    MUTATION("PutTarget", ROLE_OPERATOR, put_target_request, PUT_TARGET, fill_put_target),
    MUTATION("DrainTarget", ROLE_OPERATOR, drain_target_request, DRAIN_TARGET, fill_drain_target),
    MUTATION("RemoveTarget", ROLE_OPERATOR, remove_target_request, REMOVE_TARGET,
             fill_remove_target),
    MUTATION("DrainNode", ROLE_OPERATOR, drain_node_request, DRAIN_NODE, fill_drain_node),
    MUTATION("RemoveNode", ROLE_OPERATOR, remove_node_request, REMOVE_NODE, fill_remove_node),
    METHOD_ROW("OperatorService", "MarkNodeOff", ROLE_CLIENT, METHOD_MUTATION,
               mark_node_off_request, .body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_OFF,
               .fill = fill_node_off, .allowed = access_node_off),
    METHOD(METHOD_READ, "PlanGc", ROLE_OPERATOR | ROLE_AUDITOR, gc_request, plan_gc),
    MUTATION("RunGc", ROLE_OPERATOR, run_gc_request, EXPIRE_CHECKPOINTS, fill_gc),
    MUTATION("VerifyCheckpoints", ROLE_OPERATOR, verify_request, VERIFY_CHECKPOINTS, fill_verify),
    METHOD(METHOD_READ, "ListOrphans", ROLE_OPERATOR | ROLE_AUDITOR, list_orphans_request,
           orphans_answer),
    MUTATION("AdoptCluster", ROLE_OPERATOR, adopt_cluster_request, ADOPT_CLUSTER,
             fill_adopt_cluster),
    METHOD_ROW("OperatorService", "PauseCluster", ROLE_OPERATOR, METHOD_MUTATION,
               pause_cluster_request, .body_case = CKPT__LOG__V1__COMMAND__BODY_PAUSE_CLUSTER,
               .fill = pause_fill, .sign = pause_sign),
    MUTATION("RemoveOrphans", ROLE_OPERATOR, remove_orphans_request, REMOVE_ORPHANS,
             fill_remove_orphans),
    MUTATION("PinCheckpoint", ROLE_OPERATOR | ROLE_OWNER, pin_request, PIN_CHECKPOINT, fill_pin,
             OWN("request_id", "checkpoint_id", "unpin")),
    METHOD(METHOD_READ, "ListTenants", ROLE_READER, list_tenants_request, tenants_answer),
    MUTATION("PutTenant", ROLE_OPERATOR, put_tenant_request, PUT_TENANT, tenants_fill_put),
    METHOD(METHOD_READ, "ListRevoked", ROLE_OPERATOR | ROLE_AUDITOR, list_revoked_request,
           revoked_answer),
    MUTATION("RevokeCertificate", ROLE_OPERATOR, revoke_certificate_request, REVOKE_CERTIFICATE,
             revoked_fill),
};
/* clang-format on */
const size_t service_operator_method_count = ARRAY_COUNT(service_operator_methods);
