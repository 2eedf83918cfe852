/* Asking members. */
#include "src/cli/call.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/operator.pb-c.h"
#include "fsm/status.h"
#include "src/base/check.h"
#include "src/cli/human.h"
#include "src/cli/members.h"
#include "src/cli/output.h"
#include "src/cli/reflect.h"
#include "src/client/client.h"

/* The catalogue's entry whose name begins the text ("STORAGE_UNAVAILABLE: ..."); -1 when none
 * does. */
static int catalogue_status(const char *text)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {
#define X(number, name, grpc, sentence, next) {number, #name},
        FSM_STATUSES(X)
#undef X
    };

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        size_t length = strlen(names[i].name);

        if (strncmp(text, names[i].name, length) == 0 &&
            (text[length] == ':' || text[length] == '\0' || text[length] == ' '))
            return names[i].number;
    }
    return -1;
}

static const char *next_of(int number)
{
    static const struct {
        int number;
        const char *next;
    } nexts[] = {
#define X(number, name, grpc, sentence, next) {number, next},
        FSM_STATUSES(X)
#undef X
    };

    for (size_t i = 0; i < ARRAY_COUNT(nexts); i++)
        if (nexts[i].number == number && nexts[i].next[0] != '\0')
            return nexts[i].next;
    return NULL;
}

/* Members begin each refusal with a name: "NOT_EVALUATED: ...". Other texts come from the
 * transport. */
static bool begins_with_name(const char *text)
{
    size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");

    return length >= 4 && text[length] == ':';
}

static enum cli_exit exit_of(int status, int catalogue)
{
    if (catalogue == FSM_OUTCOME_UNKNOWN)
        return CLI_TIMEOUT;
    switch (status) {
    case RPC_OK:
        return CLI_OK;
    case RPC_INVALID_ARGUMENT:
    case RPC_OUT_OF_RANGE:
        return CLI_USAGE;
    case RPC_NOT_FOUND:
        return CLI_NOT_FOUND;
    case RPC_FAILED_PRECONDITION:
    case RPC_ALREADY_EXISTS:
    case RPC_ABORTED:
    case RPC_RESOURCE_EXHAUSTED:
        return CLI_REFUSED;
    case RPC_UNAVAILABLE:
        return CLI_NO_LEADER;
    case RPC_DEADLINE_EXCEEDED:
    case RPC_CANCELLED:
        return CLI_TIMEOUT;
    case RPC_PERMISSION_DENIED:
    case RPC_UNAUTHENTICATED:
        return CLI_AUTH;
    default:
        return CLI_FAILED;
    }
}

struct count {
    size_t asked, answered;
    bool quorum;  /* one of them has a quorum and a leader */
    bool reaches; /* one of them reaches a majority: it is about to elect */
};

static struct count count_members(struct cli *cli)
{
    struct call_answer answers[CALL_ENDPOINTS_MAX];
    Ckpt__V1__StatusRequest request = CKPT__V1__STATUS_REQUEST__INIT;
    struct count count = {.asked = call_endpoints(cli, answers)};

    call_each(cli,
              &(struct client_request){.method = "OperatorService/Status",
                                       .message = &request.base,
                                       .reply_type = &ckpt__v1__status_reply__descriptor},
              CALL_QUICK, answers, count.asked);
    for (size_t i = 0; i < count.asked; i++) {
        const Ckpt__V1__StatusReply *reply = (const Ckpt__V1__StatusReply *)answers[i].reply;

        if (reply == NULL)
            continue;
        count.answered++;
        count.quorum |= reply->quorum && reply->leader_id != 0;
        count.reaches |= reply->reachable_count > reply->voter_count / 2;
    }
    call_each_free(answers, count.asked);
    return count;
}

/* What may be read all the same. */
static const char *stale_or_status(const struct cli *cli)
{
    return cli_option_exists(cli, "stale")
               ? "ckptctl status, or the same command with --stale: any member answers"
               : "ckptctl status";
}

static enum cli_exit fail_no_leader(struct cli *cli, const char *what, const char *text)
{
    const struct count count = count_members(cli);

    if (count.answered == 0 && call_is_about_tls(text)) {
        return cli_fail(cli, CLI_AUTH, "--ca, --cert and --key; ckptctl tls show FILE",
                        "cannot %s: no member at %s lets us in: %s", what, cli->endpoints, text);
    }
    if (count.answered == 0) {
        return cli_fail(cli, CLI_NO_LEADER,
                        "systemctl status ckptd on the members, or correct --endpoints",
                        "cannot %s: none of %zu members at %s answers (%s)", what, count.asked,
                        cli->endpoints, text);
    }
    return cli_fail(cli, CLI_NO_LEADER, count.quorum ? "ckptctl status" : stale_or_status(cli),
                    "cannot %s: %s (%zu of %zu members answer): %s", what,
                    count.quorum    ? "the leader did not take the request"
                    : count.reaches ? "no leader, an election is under way"
                                    : "no leader, no quorum",
                    count.answered, count.asked, text);
}

/* Where a member knows of one, the others may only be far away or busy. */
static bool has_majority(const struct members *members)
{
    return members->best == NULL || members->best->quorum ||
           members->answered > members->best->voter_count / 2;
}

bool call_without_quorum(struct cli *cli, const char *what, char ret_leader[CALL_ENDPOINT_BYTES])
{
    struct members members;
    bool too_few;

    members_ask(cli, CALL_QUICK, &members);
    too_few = !has_majority(&members);
    ret_leader[0] = '\0';
    if (members.best != NULL && strlen(members.best->leader_api_address) < CALL_ENDPOINT_BYTES - 1)
        snprintf(ret_leader, CALL_ENDPOINT_BYTES, "%s", members.best->leader_api_address);
    if (too_few)
        (void)cli_fail(cli, CLI_NO_LEADER, stale_or_status(cli),
                       "cannot %s: no quorum, %zu of %u members answer", what, members.answered,
                       members.best->voter_count);
    members_free(&members);
    return too_few;
}

static enum cli_exit fail_timeout(struct cli *cli, const char *what, const char *text,
                                  bool mutation)
{
    char duration[HUMAN_BYTES], next[400];

    if (call_is_about_tls(text) && count_members(cli).answered == 0)
        return fail_no_leader(cli, what, text);
    human_duration(cli->timeout_ms, duration);
    if (mutation) {
        if (cli->again[0] != '\0')
            snprintf(next, sizeof(next), "%s", cli->again);
        else
            snprintf(next, sizeof(next),
                     "the same command with --request-id %s   or: ckptctl request %s",
                     cli->request_id, cli->request_id);
        return cli_fail(
            cli, CLI_TIMEOUT, next,
            "cannot tell whether to %s took effect: no answer in %s (%s); request id %s", what,
            duration, text, cli->request_id);
    }
    if (!count_members(cli).quorum)
        return fail_no_leader(cli, what, text);
    return cli_fail(cli, CLI_TIMEOUT, "a longer --timeout, or ckptctl status",
                    "cannot %s: no answer in %s (%s)", what, duration, text);
}

/* Members end a refusal with "; NEXT"; here that goes on a line of its own. */
static size_t length_before(const char *text, const char *next)
{
    size_t length = strlen(text);
    size_t next_length = next == NULL ? 0 : strlen(next) + 2;

    if (next != NULL && length > next_length &&
        strcmp(text + length - next_length + 2, next) == 0 &&
        strncmp(text + length - next_length, "; ", 2) == 0)
        return length - next_length;
    return length;
}

enum cli_exit call_failed(struct cli *cli, const char *what, int status, const char *text,
                          bool mutation)
{
    int catalogue = catalogue_status(text);
    enum cli_exit code = exit_of(status, catalogue);
    const char *next = next_of(catalogue);
    bool named = catalogue >= 0 || begins_with_name(text);

    CHECK(status != RPC_OK);
    if (cli->owner != NULL && (code == CLI_NO_LEADER || code == CLI_TIMEOUT))
        return cli_fail(cli, code,
                        mutation && code == CLI_TIMEOUT ? "the same line with --request-id, see -o "
                                                          "json, or look what came of it"
                                                        : "the same again in a moment",
                        "cannot %s: %s", what, text);
    if (code == CLI_NO_LEADER)
        return fail_no_leader(cli, what, text);
    if (code == CLI_TIMEOUT)
        return fail_timeout(cli, what, text, mutation);
    return cli_fail(cli, code, next, "cannot %s: %s%s%.*s", what,
                    named ? "" : rpc_status_name(status), named ? "" : ": ",
                    (int)length_before(text, next), text);
}

static int ask_leader(struct cli *cli, const char *endpoints, const struct client_request *request,
                      ProtobufCMessage **ret_reply, struct err *err)
{
    struct client_config config = {.endpoints = endpoints,
                                   .attempt_ms = cli->attempt_ms,
                                   .timeout_ms = request->timeout_ms,
                                   .tls = cli->tls};
    struct client *client;
    int status;

    if (cli->transport != NULL) {
        return cli->transport(cli->transport_context, NULL, request, ret_reply, err);
    }
    if (client_new(NULL, &config, &client, err) != 0)
        return RPC_INVALID_ARGUMENT;
    status = client_call_wait(client, NULL, request, ret_reply, err);
    client_free(client);
    return status;
}

/* mutation: its outcome may be unknown. */
static enum cli_exit call_leader(struct cli *cli, const char *what,
                                 const struct client_request *request, bool mutation,
                                 ProtobufCMessage **ret_reply)
{
    struct err err = {0};
    int status = ask_leader(cli, cli->endpoints, request, ret_reply, &err);

    return status == RPC_OK ? CLI_OK : call_failed(cli, what, status, err.text, mutation);
}

char *call_leader_first(const struct cli *cli, const char *leader)
{
    size_t size = strlen(cli->endpoints) + strlen(leader) + 2;
    char *endpoints = check_alloc(size);

    snprintf(endpoints, size, "%s%s%s", leader, leader[0] != '\0' ? "," : "", cli->endpoints);
    return endpoints;
}

/* What does not come at once may come from nobody: the members are asked how they are, all at a
 * time, before it is waited for. */
static enum cli_exit call_reader(struct cli *cli, const char *what, const char *method,
                                 const ProtobufCMessage *request,
                                 const ProtobufCMessageDescriptor *reply_type,
                                 ProtobufCMessage **ret_reply)
{
    uint64_t first_ms = cli->timeout_ms < CALL_FIRST_MS ? cli->timeout_ms : CALL_FIRST_MS;
    struct client_request asked = {.method = method,
                                   .message = request,
                                   .reply_type = reply_type,
                                   .timeout_ms = cli->timeout_ms};
    char leader[CALL_ENDPOINT_BYTES], *endpoints;
    struct err err = {0};
    int status;

    if (cli->timeout_set || cli->owner != NULL)
        return call_leader(cli, what, &asked, false, ret_reply);
    asked.timeout_ms = first_ms;
    status = ask_leader(cli, cli->endpoints, &asked, ret_reply, &err);
    if (status == RPC_OK)
        return CLI_OK;
    if (status != RPC_UNAVAILABLE && status != RPC_DEADLINE_EXCEEDED)
        return call_failed(cli, what, status, err.text, false);
    if (call_without_quorum(cli, what, leader))
        return CLI_NO_LEADER;
    endpoints = call_leader_first(cli, leader);
    asked.timeout_ms = cli->timeout_ms;
    status = ask_leader(cli, endpoints, &asked, ret_reply, &err);
    free(endpoints);
    return status == RPC_OK ? CLI_OK : call_failed(cli, what, status, err.text, false);
}

/* Remembers how old the answer to a stale read may be: told beside what is printed (run.c,
 * output.c). */
static void note_age(struct cli *cli, const ProtobufCMessage *request,
                     const ProtobufCMessage *reply)
{
    const uint64_t *age_ms = reflect_uint64_field(reply, "data_age_ms");
    const uint64_t *index = reflect_uint64_field(reply, "applied_index");

    if (!reflect_flag(request, "stale") || age_ms == NULL)
        return;
    if (!cli->stale.asked || *age_ms >= cli->stale.age_ms) {
        cli->stale.age_ms = *age_ms;
        if (index != NULL)
            cli->stale.applied_index = *index;
    }
    cli->stale.asked = true;
}

enum cli_exit call_read(struct cli *cli, const char *what, const char *method,
                        const ProtobufCMessage *request,
                        const ProtobufCMessageDescriptor *reply_type, ProtobufCMessage **ret_reply)
{
    enum cli_exit code = call_reader(cli, what, method, request, reply_type, ret_reply);

    if (code == CLI_OK)
        note_age(cli, request, *ret_reply);
    return code;
}

enum cli_exit call_read_pages(struct cli *cli, const char *what, const char *method,
                              ProtobufCMessage *request,
                              const ProtobufCMessageDescriptor *reply_type,
                              const struct call_taker *taker)
{
    char **asked = reflect_text_field(request, "page_token");
    char *before = *asked;
    char *token = NULL;
    enum cli_exit code;

    do {
        ProtobufCMessage *page;

        code = call_read(cli, what, method, request, reply_type, &page);
        if (code != CLI_OK)
            break;
        taker->take(taker->context, page);
        free(token);
        token = check_strdup(*reflect_text_field(page, "next_page_token"));
        *asked = token;
        call_free(page);
    } while (*token != '\0');
    *asked = before;
    free(token);
    return code;
}

enum cli_exit call_policy(struct cli *cli, bool stale, const Ckpt__V1__Policy **ret_policy,
                          ProtobufCMessage **ret_reply)
{
    static const Ckpt__V1__Policy none = CKPT__V1__POLICY__INIT;
    Ckpt__V1__GetPolicyRequest request = CKPT__V1__GET_POLICY_REQUEST__INIT;
    enum cli_exit code;

    request.stale = stale;
    code = call_read(cli, "get the policy", "OperatorService/GetPolicy", &request.base,
                     &ckpt__v1__get_policy_reply__descriptor, ret_reply);
    if (code != CLI_OK)
        return code;
    *ret_policy = ((const Ckpt__V1__GetPolicyReply *)*ret_reply)->policy;
    if (*ret_policy == NULL)
        *ret_policy = &none;
    return CLI_OK;
}

enum cli_exit call_mutate(struct cli *cli, const char *what, const char *method,
                          ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply_type,
                          ProtobufCMessage **ret_reply)
{
    char **request_id = reflect_text_field(request, "request_id");
    enum cli_exit code;
    char made[33];
    char *before;

    CHECK(request_id != NULL && cli->command->kind == COMMAND_CHANGES);
    if (cli->request_id[0] == '\0')
        snprintf(cli->request_id, sizeof(cli->request_id), "%s", client_request_id(made));
    before = *request_id;
    *request_id = cli->request_id;
    *ret_reply = NULL;
    if (cli_flag(cli, "dry-run")) {
        json_t *shown = json_object();

        json_object_set_new(shown, "method", json_sprintf("ckpt.v1.%s", method));
        json_object_set_new(shown, "request", reflect_to_json(request));
        output_json(cli, "dry_run", shown);
        code = CLI_OK;
    } else {
        code = call_leader(cli, what,
                           &(struct client_request){.method = method,
                                                    .message = request,
                                                    .reply_type = reply_type,
                                                    .timeout_ms = cli->timeout_ms},
                           true, ret_reply);
    }
    *request_id = before;
    return code;
}

static void print_reply(struct cli *cli, const char *what, const ProtobufCMessage *message,
                        call_told_fn *told)
{
    const Ckpt__V1__MutationReply *reply = (const Ckpt__V1__MutationReply *)message;
    char checkpoint[HUMAN_BYTES];

    human_checkpoint(reply->checkpoint_id, checkpoint);
    if (output_json_message(cli, "reply", message)) {
        /* printed */
    } else if (cli->format == OUTPUT_NAME) {
        cli_out(cli, "%s\n", checkpoint);
    } else if (told != NULL) {
        told(cli, what, reply);
    } else if (reply->index == 0) {
        cli_out(cli, "done: %s\n", what); /* nothing entered the log */
    } else {
        cli_out(cli, "done: %s (index %" PRIu64 "%s%s%s)\n", what, reply->index,
                reply->checkpoint_id != 0 ? ", checkpoint " : "",
                reply->checkpoint_id != 0 ? checkpoint : "",
                reply->repeated ? ", the outcome of the first request" : "");
    }
}

enum cli_exit call_mutate_told(struct cli *cli, const char *what, const char *method,
                               ProtobufCMessage *request, call_told_fn *told)
{
    ProtobufCMessage *message;
    enum cli_exit code =
        call_mutate(cli, what, method, request, &ckpt__v1__mutation_reply__descriptor, &message);

    if (code != CLI_OK || message == NULL)
        return code;
    print_reply(cli, what, message, told);
    call_free(message);
    return CLI_OK;
}

enum cli_exit call_mutate_simple(struct cli *cli, const char *what, const char *method,
                                 ProtobufCMessage *request)
{
    return call_mutate_told(cli, what, method, request, NULL);
}

enum cli_exit call_confirm(struct cli *cli, const char *plan)
{
    char answer[16] = "";

    if (cli_flag(cli, "yes") || cli_flag(cli, "dry-run")) {
        cli_note(cli, "%s", plan);
        return CLI_OK;
    }
    fprintf(cli->error, "%s\n", plan);
    if (!cli->interactive) {
        return cli_fail(cli, CLI_USAGE, "the same command with --yes, or with --dry-run",
                        "%s needs --yes when stdin is not a terminal", cli->command->name);
    }
    fprintf(cli->error, "go on? type yes: ");
    fflush(cli->error);
    if (fgets(answer, sizeof(answer), cli->in) == NULL || strcmp(answer, "yes\n") != 0)
        return cli_fail(cli, CLI_REFUSED, NULL, "not done: the answer was not yes");
    return CLI_OK;
}
