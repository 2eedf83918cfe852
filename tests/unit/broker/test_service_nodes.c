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

#define WITH(open, test) cmocka_unit_test_setup_teardown(test, open, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(open_one, a_node_that_is_gone_is_removed),
        WITH(open_one, a_node_that_is_heard_is_not_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
