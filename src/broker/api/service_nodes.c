/* OperatorService about nodes. See service_nodes.h. */
#include "src/broker/api/service_nodes.h"

#include <inttypes.h>
#include <string.h>

#include "fsm/ends.h"
#include "fsm/node_life.h"
#include "fsm/restart.h"
#include "src/base/check.h"
#include "src/broker/api/answer.h"
#include "src/broker/api/measures.h"
#include "src/broker/api/scope.h"
#include "src/broker/broker.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/explain/translate.h"
#include "src/broker/health/node_probe.h"
#include "src/broker/health/nodes.h"
#include "src/broker/health/telemetry.h"

static const char *wanted_text(const struct fsm_node *node)
{
    switch (fsm_node_wanted(node)) {
    case CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_DRAIN:
        return "drain";
    case CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_DISABLE:
        return "disable";
    case CKPT__LOG__V1__NODE_WANTED__NODE_WANTED_UNSPECIFIED:
    case _CKPT__LOG__V1__NODE_WANTED_IS_INT_SIZE:
        break;
    }
    return "";
}

static void fill_tools(const struct broker *broker, uint32_t slot, struct scratch *scratch,
                       Ckpt__V1__NodeStatus *item)
{
    const char *tool;

    if (broker->nodes == NULL)
        return;
    item->tools = scratch_take(scratch, NODES_TOOLS_MAX, sizeof(*item->tools));
    while ((tool = nodes_tool(broker->nodes, slot, item->n_tools)) != NULL)
        item->tools[item->n_tools++] = translate_text(tool);
}

void nodes_fill(const struct broker *broker, const struct fsm_node *node, struct scratch *scratch,
                Ckpt__V1__NodeStatus *ret_item)
{
    uint64_t age_ms = UINT64_MAX;

    ckpt__v1__node_status__init(ret_item);
    ret_item->node_id = translate_text(node->id);
    ret_item->state = translate_text(translate_node_state(node));
    ret_item->allocation_count = node->allocation_count;
    ret_item->version = translate_text(node->version);
    ret_item->boot_id = translate_text(node->boot_id);
    ret_item->machine = translate_text(node->machine);
    ret_item->os = translate_text(node->os);
    ret_item->domain = translate_text(node->domain);
    ret_item->silent_since_ms = fsm_node_silent_since_ms(node);
    ret_item->off_at_ms = node->off_at_ms;
    ret_item->witness = node->witness;
    ret_item->evidence = translate_text(node->evidence);
    ret_item->probe = translate_text(node->probe);
    ret_item->probed = translate_text(node_probe_word(broker->node_probe, node));
    ret_item->wanted = translate_text(wanted_text(node));
    ret_item->drain_until_ms = node->drain_until_ms;
    ret_item->connected = broker->dispatcher != NULL &&
                          dispatcher_node_connected(broker->dispatcher, node->id, &age_ms);
    ret_item->last_heartbeat_age_ms = age_ms;
    fill_tools(broker, node->slot, scratch, ret_item);
    telemetry_fill_node(broker, node->slot, scratch, ret_item);
}

void nodes_narrow(const struct request *request, const struct fsm_node *node,
                  struct scratch *scratch, Ckpt__V1__NodeStatus *item)
{
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    uint32_t *slots = scratch_take(scratch, node->allocation_count + 1, sizeof(*slots));
    size_t count = fsm_allocations_on_node(fsm, node->slot, slots, node->allocation_count);

    item->allocation_count = 0;
    for (size_t i = 0; i < count; i++)
        item->allocation_count +=
            scope_sees(rpc_call_peer(request->call), fsm_allocation_at(fsm, slots[i]));
    item->evidence = translate_text("");
}

/* READY, empty, and fit for the part by platform and domain. */
static void fill_successors(const struct fsm *fsm, const struct fsm_allocation *job,
                            uint64_t now_ms, Ckpt__V1__NodeJob *item)
{
    for (uint32_t slot = 0; slot < fsm_node_slots(fsm) && item->successors < NODES_SUCCESSORS_MAX;
         slot++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, slot);

        if (node == NULL || node->allocation_count > 0 ||
            node->state != CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY ||
            fsm_restart_node_status(fsm, job, node, now_ms) != FSM_OK)
            continue;
        if (item->successors++ == 0)
            item->successor = translate_text(node->id);
    }
}

static uint64_t unsaved_gpu_ms(const struct fsm *fsm, const struct fsm_allocation *job)
{
    struct fsm_account account;

    fsm_allocation_account(fsm, job, 0, &account);
    return account.pending_gpu_ms;
}

static void fill_job(const struct fsm *fsm, const struct fsm_allocation *job,
                     Ckpt__V1__NodeJob *ret_item)
{
    ckpt__v1__node_job__init(ret_item);
    ret_item->allocation_id = translate_text(job->id);
    ret_item->owner = translate_text(job->owner);
    ret_item->tenant = translate_text(job->tenant);
    ret_item->state = job->state;
    ret_item->node_count = job->node_count;
    ret_item->gpu_count = job->gpu_count;
    ret_item->unsaved_gpu_ms = unsaved_gpu_ms(fsm, job);
    ret_item->last_complete_checkpoint_id = job->last_complete_id;
    ret_item->restarts = fsm_restart_is_auto(fsm, job);
}

static void fill_jobs(const struct request *request, const struct fsm_node *node,
                      struct scratch *scratch, Ckpt__V1__GetNodeReply *reply)
{
    const struct broker *broker = request->broker;
    const struct fsm *fsm = replica_fsm(broker->replica);
    uint32_t *slots = scratch_take(scratch, node->allocation_count + 1, sizeof(*slots));
    size_t count = fsm_allocations_on_node(fsm, node->slot, slots, node->allocation_count);

    struct fsm_copy *copies = scratch_take(scratch, NODES_COPIES_MAX, sizeof(*copies));
    size_t copy_count = fsm_copies_on_node(fsm, node->slot, copies, NODES_COPIES_MAX);

    reply->jobs = scratch_take(scratch, NODES_JOBS_MAX, sizeof(*reply->jobs));
    reply->job_count = (uint32_t)count;
    reply->copy_count = (uint32_t)copy_count;
    for (size_t i = 0; i < count; i++) {
        const struct fsm_allocation *job = fsm_allocation_at(fsm, slots[i]);
        Ckpt__V1__NodeJob *item;

        reply->unsaved_gpu_ms += unsaved_gpu_ms(fsm, job);
        if (reply->n_jobs == NODES_JOBS_MAX)
            continue;
        item = scratch_take(scratch, 1, sizeof(*item));
        fill_job(fsm, job, item);
        if (measures_hidden(request, job))
            item->unsaved_gpu_ms = 0;
        for (size_t k = 0; k < copy_count && k < NODES_COPIES_MAX; k++)
            item->copy |= strcmp(copies[k].allocation_id, job->id) == 0 &&
                          copies[k].checkpoint_id == job->last_complete_id;
        if (reply->n_jobs < NODES_SUCCESSORS_JOBS)
            fill_successors(fsm, job, replica_state_ms(broker->replica), item);
        reply->jobs[reply->n_jobs++] = item;
    }
}

/* Those that have stopped are not in the node's list; a silent node has none that run. */
static void fill_held(const struct fsm *fsm, const struct fsm_node *node, struct scratch *scratch,
                      Ckpt__V1__GetNodeReply *reply)
{
    uint32_t slots = fsm_allocation_slots(fsm);

    reply->held_jobs = scratch_take(scratch, NODES_HELD_MAX, sizeof(*reply->held_jobs));
    if (fsm_node_silent_since_ms(node) == 0 || node->off_at_ms != 0)
        return;
    for (uint32_t slot = 0;
         slot < slots && slot < NODES_LOOKED_MAX && reply->n_held_jobs < NODES_HELD_MAX; slot++) {
        const struct fsm_allocation *job = fsm_allocation_find_slot(fsm, slot);

        if (job != NULL && fsm_restart_awaited(fsm, job) && fsm_allocation_silent(fsm, job) == node)
            reply->held_jobs[reply->n_held_jobs++] = translate_text(job->id);
    }
}

void nodes_answer(struct request *request, struct scratch *scratch)
{
    const Ckpt__V1__GetNodeRequest *asked = (const void *)request->message;
    const struct fsm *fsm = replica_fsm(request->broker->replica);
    const struct fsm_node *node = fsm_node_find(fsm, asked->node_id);
    Ckpt__V1__GetNodeReply reply = CKPT__V1__GET_NODE_REPLY__INIT;

    if (node == NULL) {
        request_refuse(request, FSM_NODE_NOT_FOUND, 0, 0);
        return;
    }
    reply.node = scratch_take(scratch, 1, sizeof(*reply.node));
    nodes_fill(request->broker, node, scratch, reply.node);
    fill_jobs(request, node, scratch, &reply);
    fill_held(fsm, node, scratch, &reply);
    reply.applied_index = request_applied_index(request);
    reply.data_age_ms = request_data_age_ms(request);
    answer_reply(request->call, &reply.base);
}

char *nodes_hung_warning(uint32_t count, struct scratch *scratch)
{
    return scratch_printf(scratch,
                          "%" PRIu32 " jobs are HUNG, no rank of them steps any more: ckptctl "
                          "jobs, and ckptctl job JOB says why",
                          count);
}

/* A draining node without a job is called drained at level 1 as well, so words are counted. */
static Ckpt__V1__NodesInState *state_item(const char *word, struct scratch *scratch,
                                          Ckpt__V1__StatusReply *reply)
{
    Ckpt__V1__NodesInState *item;

    for (size_t i = 0; i < reply->n_node_states; i++)
        if (strcmp(reply->node_states[i]->state, word) == 0)
            return reply->node_states[i];
    CHECK(reply->n_node_states < FSM_STATES_NODE);
    item = scratch_take(scratch, 1, sizeof(*item));
    ckpt__v1__nodes_in_state__init(item);
    item->state = translate_text(word);
    item->node_ids = scratch_take(scratch, NODES_NAMED_MAX, sizeof(*item->node_ids));
    reply->node_states[reply->n_node_states++] = item;
    return item;
}

/* Those that are ready come first: most are. */
static void fill_states(const struct fsm *fsm, struct scratch *scratch,
                        Ckpt__V1__StatusReply *reply)
{
    reply->node_states = scratch_take(scratch, FSM_STATES_NODE, sizeof(*reply->node_states));
    for (uint32_t slot = 0; slot < fsm_node_slots(fsm); slot++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, slot);
        Ckpt__V1__NodesInState *item;

        if (node == NULL)
            continue;
        item = state_item(translate_node_state(node), scratch, reply);
        if (item->n_node_ids < NODES_NAMED_MAX)
            item->node_ids[item->n_node_ids++] = translate_text(node->id);
        item->count++;
    }
    for (size_t i = 1; i < reply->n_node_states; i++) {
        Ckpt__V1__NodesInState *item = reply->node_states[i];

        if (strcmp(item->state, "ready") != 0)
            continue;
        reply->node_states[i] = reply->node_states[0];
        reply->node_states[0] = item;
    }
}

static char *silence_warning(const struct broker *broker, struct scratch *scratch)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    uint64_t now_ms = replica_state_ms(broker->replica), since_ms;
    const struct fsm_node *first = NULL;
    uint32_t count = 0, held = 0, slots = fsm_allocation_slots(fsm);

    for (uint32_t slot = 0; slot < fsm_node_slots(fsm); slot++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, slot);

        if (node == NULL || !fsm_node_gone(node) || node->off_at_ms != 0)
            continue;
        first = first == NULL ? node : first;
        count++;
    }
    if (count == 0)
        return NULL;
    for (uint32_t slot = 0; slot < slots && slot < NODES_LOOKED_MAX; slot++) {
        const struct fsm_allocation *job = fsm_allocation_find_slot(fsm, slot);

        held +=
            job != NULL && fsm_restart_awaited(fsm, job) && fsm_allocation_silent(fsm, job) != NULL;
    }
    since_ms = fsm_node_silent_since_ms(first);
    return scratch_printf(
        scratch,
        "the agents of %" PRIu32 " nodes are silent, and no second witness says that the nodes are "
        "off (the first: %s, for %" PRIu64 " s); %" PRIu32 " stopped jobs are not restarted "
        "elsewhere because of that: start the agents, or, when a machine is off, ckptctl node down "
        "NODE --is-off",
        count, first->id, now_ms > since_ms ? (now_ms - since_ms) / 1000 : 0, held);
}

char *nodes_status(const struct broker *broker, struct scratch *scratch,
                   Ckpt__V1__StatusReply *reply)
{
    fill_states(replica_fsm(broker->replica), scratch, reply);
    if (broker->dispatcher != NULL)
        reply->connected_agents = dispatcher_connected_count(broker->dispatcher);
    return silence_warning(broker, scratch);
}
