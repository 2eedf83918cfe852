/* Asking members: reads and mutations at the leader, questions to each member; statuses become
 * messages and exit codes.
 *
 * Flow     call_read and call_mutate follow the leader; call_each asks every endpoint at the same
 *          time.
 * Errors   printed here, in the form: what was tried, the server's name and numbers, the next
 *          command.
 */
#ifndef CKPT_CLI_CALL_H
#define CKPT_CLI_CALL_H

#include "ckpt/v1/broker.pb-c.h"
#include "src/cli/cli.h"
#include "src/client/client.h"

enum {
    CALL_ENDPOINTS_MAX = 16,
    CALL_ENDPOINT_BYTES = 256,
    CALL_EACH_TIMEOUT_MS = 1000,
    CALL_QUICK_MS = 150,
    CALL_FIRST_MS = 200 /* of a read, until it is looked who answers at all */
};

/* what: "show job a-1", after "cannot ". The caller frees *ret_reply. */
/* Without a quorum it does not wait for one, unless --timeout says how long. */
enum cli_exit call_read(struct cli *cli, const char *what, const char *method,
                        const ProtobufCMessage *request,
                        const ProtobufCMessageDescriptor *reply_type, ProtobufCMessage **ret_reply);
struct call_taker {
    void (*take)(void *context, const ProtobufCMessage *page);
    void *context;
};
/* All pages of a method whose request has a page_token and whose reply a next_page_token: the taker
 * gets each. */
enum cli_exit call_read_pages(struct cli *cli, const char *what, const char *method,
                              ProtobufCMessage *request,
                              const ProtobufCMessageDescriptor *reply_type,
                              const struct call_taker *taker);
/* The policy, with `stale` of any member; the caller frees *ret_reply, which holds it. */
enum cli_exit call_policy(struct cli *cli, bool stale, const Ckpt__V1__Policy **ret_policy,
                          ProtobufCMessage **ret_reply);
/* Fills the request's request_id. With --dry-run it prints the request and sets *ret_reply to
 * NULL. */
enum cli_exit call_mutate(struct cli *cli, const char *what, const char *method,
                          ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply_type,
                          ProtobufCMessage **ret_reply);
/* call_mutate for a MutationReply, printed as "done: WHAT (index N, checkpoint E-S)". */
enum cli_exit call_mutate_simple(struct cli *cli, const char *what, const char *method,
                                 ProtobufCMessage *request);
/* The same, where people read what told() prints. */
typedef void call_told_fn(struct cli *cli, const char *what, const Ckpt__V1__MutationReply *reply);
enum cli_exit call_mutate_told(struct cli *cli, const char *what, const char *method,
                               ProtobufCMessage *request, call_told_fn *told);
void call_free(ProtobufCMessage *message); /* NULL allowed */

struct call_answer {
    char endpoint[CALL_ENDPOINT_BYTES];
    int status; /* gRPC */
    struct err err;
    ProtobufCMessage *reply; /* NULL unless status is OK */
};
/* The endpoints of the options, each once. */
size_t call_endpoints(struct cli *cli, struct call_answer answers[CALL_ENDPOINTS_MAX]);
/* QUICK: the others have CALL_QUICK_MS after the first answer, so that a hung member costs people
 * no second. */
enum call_patience { CALL_QUICK, CALL_PATIENT };
/* Asks the endpoints that answers[0..count) name. */
void call_each(struct cli *cli, const struct client_request *request, enum call_patience patience,
               struct call_answer *answers, size_t count);
enum { CALL_ANSWER_BYTES = CALL_ENDPOINT_BYTES + ERR_TEXT_BYTES + 2 };
/* "host:port: why it did not answer". */
const char *call_answer_text(const struct call_answer *answer, char text[CALL_ANSWER_BYTES]);
void call_each_free(struct call_answer *answers, size_t count);

/* True, with the message printed: so few members answer that there is no quorum. Else *ret_leader
 * says where the leader is: "": not known. */
bool call_without_quorum(struct cli *cli, const char *what, char ret_leader[CALL_ENDPOINT_BYTES]);
/* The endpoints of the options behind that one; the caller frees it. */
char *call_leader_first(const struct cli *cli, const char *leader);
/* Prints the failure of a call and gives its exit code. mutation: its outcome may be unknown. */
enum cli_exit call_failed(struct cli *cli, const char *what, int status, const char *text,
                          bool mutation);

/* Transports say what TLS refused in certain words (src/tls/engine.c, src/rpc/h2.c). */
bool call_is_about_tls(const char *text);

/* Asks whether to go on with what the plan on stderr says. CLI_OK: yes. */
enum cli_exit call_confirm(struct cli *cli, const char *plan);

#endif
