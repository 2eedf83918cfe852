/* A server with small services, raw sockets and a client in one loop.
 *
 * Flow     fixture_open → fixture_channel / fixture_raw → fixture_run until a condition →
 *          fixture_close, which checks that nothing is left in the loop.
 */
#ifndef CKPT_TESTS_UNIT_RPC_FIXTURE_H
#define CKPT_TESTS_UNIT_RPC_FIXTURE_H

#include "src/rpc/client.h"
#include "src/rpc/server.h"
#include "tests/support/test.h"

enum { FIXTURE_RUN_MS = 60000 };

/* What the server's handlers saw. */
struct fixture {
    uv_loop_t loop;
    struct rpc_server *server;
    struct rpc_channel *channel;
    char address[160];
    int port;
    char directory[64]; /* of the unix socket; "" without */
    size_t requests, messages, half_closes, cancels, writables;
    struct rpc_call *held; /* of /test.T/Hold */
    size_t flood_left;     /* messages that /test.T/Flood still has to send */
    size_t flood_sent;
    size_t buffered_max;  /* of one flooded call */
    size_t unwritten_max; /* of all calls, after an echo */
    struct rpc_peer peer;
    bool freed;
    bool drained;
};

/* Methods: /test.T/Echo (unary), /test.T/Fail (unary: "code text" → status), /test.T/Hold (unary,
 * not answered), /test.T/Chat (both stream: echoes), /test.T/Flood (server streams `flood_left`
 * messages of 1 KiB), /test.T/Sum (client streams: replies the count). */
void fixture_open(struct fixture *fixture, const struct rpc_server_config *config);
void fixture_open_unix(struct fixture *fixture, const struct rpc_server_config *config);
struct rpc_channel *fixture_channel(struct fixture *fixture,
                                    const struct rpc_channel_config *config);
void fixture_close(struct fixture *fixture);
/* Runs the loop until *condition is true or FIXTURE_RUN_MS passed; false then. */
bool fixture_run(struct fixture *fixture, const bool *condition);
void fixture_run_ms(struct fixture *fixture, uint64_t ms);
void fixture_free_server(struct fixture *fixture);
void fixture_drained(void *data);

/* What a call of the client saw. */
struct seen {
    bool done;
    int status;
    bool sent;
    char text[512];
    bool redirected;
    char redirect[128];
    bool pushback;
    uint64_t pushback_ms;
    size_t messages;
    size_t bytes;
    size_t writables;
    char last[256];
    struct rpc_client_call *call;
};
extern const struct rpc_client_handlers seen_handlers;
void seen_unary(struct fixture *fixture, struct seen *seen, const char *path, const char *request,
                uint64_t timeout_ms);

/* An echo through a channel of its own, when there is none yet. */
void fixture_still_answers(struct fixture *fixture);

/* A blocking socket to the server, non-blocking to read: bytes as they are. */
int fixture_raw(struct fixture *fixture);
int fixture_raw_from(struct fixture *fixture, unsigned host); /* 127.0.0.`host` */
int fixture_raw_unix(struct fixture *fixture);
/* Runs the loop until the peer closed the socket; returns how many bytes came before, -1 when it
 * stays open. */
ssize_t fixture_raw_closed(struct fixture *fixture, int fd);

#endif
