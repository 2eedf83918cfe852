/* The members' methods at a real member: every refusal has its name, its reason and the next
 * step. */
#include "tests/unit/broker/service_fixture.h"

struct answer {
    bool ended;
    int status;
    char message[1024];
    bool repeated;
};

static void take_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                         size_t length)
{
    struct answer *answer = data;
    Ckpt__V1__MutationReply *reply = ckpt__v1__mutation_reply__unpack(NULL, length, bytes);

    (void)call;
    assert_non_null(reply);
    answer->repeated = reply->repeated;
    ckpt__v1__mutation_reply__free_unpacked(reply, NULL);
}

static void take_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct answer *answer = data;

    (void)call;
    answer->ended = true;
    answer->status = end->status;
    snprintf(answer->message, sizeof(answer->message), "%s", end->message);
}

static struct answer ask(const char *method, uint64_t id, const char *name, const char *raft,
                         const char *api)
{
    static const struct rpc_client_handlers handlers = {.on_message = take_message,
                                                        .on_end = take_end};
    static struct answer answer;
    Ckpt__V1__MemberRequest request = CKPT__V1__MEMBER_REQUEST__INIT;
    char path[64];
    uint8_t bytes[1024];

    request.request_id = (char *)(uintptr_t) "r";
    request.member_id = id;
    request.name = (char *)(uintptr_t)name;
    request.raft_address = (char *)(uintptr_t)raft;
    request.api_address = (char *)(uintptr_t)api;
    snprintf(path, sizeof(path), "/ckpt.v1.OperatorService/%s", method);
    memset(&answer, 0, sizeof(answer));
    assert_non_null(rpc_channel_unary(
        fixture->channel,
        &(struct rpc_request){.path = path,
                              .bytes = bytes,
                              .length = ckpt__v1__member_request__pack(&request, bytes),
                              .timeout_ms = 5000,
                              .wait_for_ready = true},
        &handlers, &answer));
    run_until(&answer.ended);
    return answer;
}

static void expect(struct answer answer, int status, const char *text)
{
    if (answer.status != status || strstr(answer.message, text) == NULL)
        fail_msg("%s '%s', expected %s '%s'", rpc_status_name(answer.status), answer.message,
                 rpc_status_name(status), text);
}

static void what_cannot_be_added_is_refused_by_name(void **state)
{
    char nobody[32];

    (void)state;
    expect(ask("AddMember", 7, "n7", "", ""), RPC_INVALID_ARGUMENT,
           "INVALID_ARGUMENT: a new member needs a Raft address and an API address");
    expect(ask("AddMember", 7, "n7", "no-port", "h:1"), RPC_INVALID_ARGUMENT, "host:port");
    expect(ask("AddMember", 7, "77", "127.0.0.1:1", "127.0.0.1:2"), RPC_INVALID_ARGUMENT,
           "INVALID_ARGUMENT: the name 77 reads as a member's id");
    expect(ask("AddMember", 7, "n/7", "127.0.0.1:1", "127.0.0.1:2"), RPC_INVALID_ARGUMENT,
           "INVALID_ARGUMENT");
    expect(ask("AddMember", 1, "n7", "127.0.0.1:1", "127.0.0.1:2"), RPC_FAILED_PRECONDITION,
           "MEMBER_REFUSED: id 1 ");
    expect(ask("AddMember", 7, "n7", fixture->config->self->raft, "127.0.0.1:2"),
           RPC_FAILED_PRECONDITION, "is in use by member n1");
    snprintf(nobody, sizeof(nobody), "127.0.0.1:%d", free_port());
    expect(ask("AddMember", 7, "n7", nobody, "127.0.0.1:2"), RPC_FAILED_PRECONDITION,
           "MEMBER_UNREACHABLE: member 7 does not answer at 127.0.0.1:");
    expect(ask("AddMember", 0, "n7", fixture->config->self->api, "127.0.0.1:2"),
           RPC_FAILED_PRECONDITION, "MEMBER_"); /* something listens there, but no member */
}

static void the_last_voter_stays_and_unknown_ones_are_not_found(void **state)
{
    struct answer again;

    (void)state;
    expect(ask("RemoveMember", 1, "", "", ""), RPC_FAILED_PRECONDITION,
           "MEMBER_REFUSED: n1 is the last voter");
    expect(ask("RemoveMember", 0, "nobody", "", ""), RPC_NOT_FOUND,
           "MEMBER_NOT_FOUND: there is no member nobody");
    expect(ask("PromoteMember", 9, "", "", ""), RPC_NOT_FOUND, "there is no member with id 9");
    expect(ask("TransferLeadership", 9, "", "", ""), RPC_NOT_FOUND, "MEMBER_NOT_FOUND");
    again = ask("PromoteMember", 1, "", "", "");
    expect(again, RPC_OK, "");
    assert_true(again.repeated); /* a voter already */
    expect(ask("TransferLeadership", 0, "n1", "", ""), RPC_OK, "");
}

static void a_name_that_is_another_members_now_is_not_taken_for_the_id(void **state)
{
    static const char *const methods[] = {"PromoteMember", "RemoveMember", "TransferLeadership"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(methods); i++)
        expect(ask(methods[i], 9, "n1", "", ""), RPC_NOT_FOUND,
               "MEMBER_NOT_FOUND: there is no member n1 with id 9");
    expect(ask("TransferLeadership", 1, "n1", "", ""), RPC_OK, "");
}

static void without_a_leader_nobody_changes_the_members(void **state)
{
    static const char *const methods[] = {"AddMember", "PromoteMember", "RemoveMember",
                                          "TransferLeadership"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(methods); i++)
        expect(ask(methods[i], 2, "n2", "127.0.0.1:1", "127.0.0.1:2"), RPC_UNAVAILABLE,
               "NOT_LEADER");
}

#define WITH(open, test) cmocka_unit_test_setup_teardown(test, open, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(open_one, what_cannot_be_added_is_refused_by_name),
        WITH(open_one, the_last_voter_stays_and_unknown_ones_are_not_found),
        WITH(open_one, a_name_that_is_another_members_now_is_not_taken_for_the_id),
        WITH(open_lonely, without_a_leader_nobody_changes_the_members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
