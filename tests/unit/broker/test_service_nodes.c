/* What operators do about nodes, by a real replica of one member. */
#include "tests/unit/broker/service_calls.h"

static char *constant(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* A job that was registered on a mistyped node, and has ended. */
static void a_node_that_is_gone_is_removed(void **state)
{
    static struct answer answer;
    Ckpt__V1__RemoveNodeRequest remove = CKPT__V1__REMOVE_NODE_REQUEST__INIT;
    Ckpt__V1__EndAllocationRequest end = CKPT__V1__END_ALLOCATION_REQUEST__INIT;

    Ckpt__V1__GetAllocationRequest get = CKPT__V1__GET_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__Allocation *allocation;

    (void)state;
    get.allocation_id = constant("job");
    ckpt__v1__mutation_reply__free_unpacked(register_allocation("register-1", "job"), NULL);
    remove.node_id = constant("nowhere");
    call(OPERATOR("RemoveNode"), &remove.base, &answer);
    expect(&answer, RPC_INVALID_ARGUMENT, "REQUEST_ID_MISSING: ");
    remove.request_id = constant("remove-1");
    call(OPERATOR("RemoveNode"), &remove.base, &answer);
    expect(&answer, RPC_NOT_FOUND, "NODE_NOT_FOUND: ");
    remove.request_id = constant("remove-2");
    remove.node_id = constant("node-1");
    call(OPERATOR("RemoveNode"), &remove.base, &answer);
    expect(&answer, RPC_FAILED_PRECONDITION,
           "NODE_HAS_JOBS: 1 jobs that have not ended name the node; ");
    end.request_id = constant("end-1");
    end.allocation_id = constant("job");
    call(BROKER("EndAllocation"), &end.base, &answer);
    expect(&answer, RPC_OK, "");
    for (int i = 0; i < 2; i++) {
        remove.request_id = constant("remove-3");
        call(OPERATOR("RemoveNode"), &remove.base, &answer);
        expect(&answer, RPC_OK, "");
    }
    call(BROKER("GetAllocation"), &get.base, &answer);
    expect(&answer, RPC_OK, "");
    allocation = ckpt__v1__allocation__unpack(NULL, answer.length, answer.bytes);
    assert_string_equal(allocation->spec->nodes[0]->node_id, "node-1"); /* it keeps the name */
    ckpt__v1__allocation__free_unpacked(allocation, NULL);
}

/* The word counts for a node that is silent alone. */
static void a_node_that_is_heard_is_not_off(void **state)
{
    static struct answer answer;
    Ckpt__V1__MarkNodeOffRequest off = CKPT__V1__MARK_NODE_OFF_REQUEST__INIT;

    (void)state;
    ckpt__v1__mutation_reply__free_unpacked(register_allocation("register-2", "job-2"), NULL);
    off.request_id = constant("off-1");
    off.node_id = constant("nowhere");
    call(OPERATOR("MarkNodeOff"), &off.base, &answer);
    expect(&answer, RPC_NOT_FOUND, "NODE_NOT_FOUND: ");
    off.request_id = constant("off-2");
    off.node_id = constant("node-1");
    call(OPERATOR("MarkNodeOff"), &off.base, &answer);
    expect(&answer, RPC_FAILED_PRECONDITION, "NODE_NOT_DOWN: ");
}

/* A node with a job: what would be lost with it, and lists of jobs by it and by their owner. A
 * filter that names no node is a mistake, not an empty list. L-003 */
static void a_node_tells_what_would_be_lost_with_it(void **state)
{
    static struct answer answer;
    Ckpt__V1__GetNodeRequest get = CKPT__V1__GET_NODE_REQUEST__INIT;
    Ckpt__V1__ListAllocationsRequest list = CKPT__V1__LIST_ALLOCATIONS_REQUEST__INIT;
    static const struct {
        const char *node, *owner;
        size_t found;
    } cases[] = {{"node-1", "", 1}, {"", "nobody", 0}, {"node-1", "nobody", 0}, {"", "", 1}};
    Ckpt__V1__GetNodeReply *reply;
    Ckpt__V1__ListAllocationsReply *jobs;

    (void)state;
    ckpt__v1__mutation_reply__free_unpacked(register_allocation("register-3", "job-3"), NULL);
    get.node_id = constant("nowhere");
    call(OPERATOR("GetNode"), &get.base, &answer);
    expect(&answer, RPC_NOT_FOUND, "NODE_NOT_FOUND: ");
    get.node_id = constant("node-1");
    call(OPERATOR("GetNode"), &get.base, &answer);
    expect(&answer, RPC_OK, "");
    reply = ckpt__v1__get_node_reply__unpack(NULL, answer.length, answer.bytes);
    assert_string_equal(reply->node->node_id, "node-1");
    assert_string_equal(reply->node->state, "unknown");
    assert_int_equal(reply->job_count, 1);
    assert_int_equal(reply->n_jobs, 1);
    assert_string_equal(reply->jobs[0]->allocation_id, "job-3");
    assert_true(reply->jobs[0]->unsaved_gpu_ms == reply->unsaved_gpu_ms);
    assert_int_equal(reply->jobs[0]->successors, 0); /* no other node is ready */
    ckpt__v1__get_node_reply__free_unpacked(reply, NULL);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        list.node_id = constant(cases[i].node);
        list.owner = constant(cases[i].owner);
        call(BROKER("ListAllocations"), &list.base, &answer);
        expect(&answer, RPC_OK, "");
        jobs = ckpt__v1__list_allocations_reply__unpack(NULL, answer.length, answer.bytes);
        assert_int_equal(jobs->n_allocations, cases[i].found);
        ckpt__v1__list_allocations_reply__free_unpacked(jobs, NULL);
    }
    list.owner = constant("");
    list.node_id = constant("nowhere");
    call(BROKER("ListAllocations"), &list.base, &answer);
    expect(&answer, RPC_NOT_FOUND, "NODE_NOT_FOUND: ");
}

static void drain(const char *node, const char *request_id)
{
    static struct answer answer;
    Ckpt__V1__DrainNodeRequest request = CKPT__V1__DRAIN_NODE_REQUEST__INIT;

    request.node_id = constant(node);
    request.request_id = constant(request_id);
    call(OPERATOR("DrainNode"), &request.base, &answer);
    expect(&answer, RPC_OK, "");
}

/* The status counts nodes by their state and names them. L-001, L-002 */
static void the_status_tells_who_takes_nothing_new(void **state)
{
    static struct answer answer;
    Ckpt__V1__StatusRequest ask = CKPT__V1__STATUS_REQUEST__INIT;
    Ckpt__V1__StatusReply *status;

    (void)state;
    ckpt__v1__mutation_reply__free_unpacked(register_allocation("register-4", "job-4"), NULL);
    for (int i = 0; i < 2; i++) {
        call(OPERATOR("Status"), &ask.base, &answer);
        expect(&answer, RPC_OK, "");
        status = ckpt__v1__status_reply__unpack(NULL, answer.length, answer.bytes);
        assert_int_equal(status->n_node_states, 1);
        assert_string_equal(status->node_states[0]->state, i == 0 ? "unknown" : "draining");
        assert_int_equal(status->node_states[0]->count, 1);
        assert_int_equal(status->node_states[0]->n_node_ids, 1);
        assert_string_equal(status->node_states[0]->node_ids[0], "node-1");
        ckpt__v1__status_reply__free_unpacked(status, NULL);
        drain("node-1", i == 0 ? "drain-1" : "drain-2");
    }
}

#define WITH(open, test) cmocka_unit_test_setup_teardown(test, open, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(open_one, a_node_that_is_gone_is_removed),
        WITH(open_one, a_node_that_is_heard_is_not_off),
        WITH(open_one, a_node_tells_what_would_be_lost_with_it),
        WITH(open_one, the_status_tells_who_takes_nothing_new),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
