/* One question of ckpt-run to the node's agent, for the verbs that run nothing.
 *
 * Flow     run_call() dials, asks, waits; run_call_fail() says what became of it and gives the exit
 *          code.
 * Errors   a struct rpc_end's status and words, kept in struct run_answer.
 */
#ifndef CKPT_AGENT_RUN_CALL_H
#define CKPT_AGENT_RUN_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/rpc/client.h"

enum { RUN_ANSWER_TEXT_BYTES = 1024, RUN_EXIT_NOT_KNOWN = 3, RUN_EXIT_REFUSED = 4 };

struct run_answer {
    int status; /* enum rpc_status */
    bool sent;  /* false: nobody was reached */
    char text[RUN_ANSWER_TEXT_BYTES];
    struct buf bytes; /* of the reply; the caller closes it */
};

/* A channel to the agent. Nothing is said to a socket of another user, which somebody may have
 * put in the agent's place: an agent runs as root, or as the user it serves. */
struct rpc_channel *run_channel_new(uv_loop_t *loop, const char *socket);
void run_call(const char *socket, const char *method, const struct buf *request,
              uint64_t timeout_ms, struct run_answer *ret_answer);
/* One line on stderr. The exit code: RUN_EXIT_NOT_KNOWN, RUN_EXIT_REFUSED, else RUN_EXIT_SELF. */
int run_call_fail(const char *socket, const struct run_answer *answer);
/* What to look at when nobody answers there. */
const char *run_unreachable_advice(const char *socket);

#endif
