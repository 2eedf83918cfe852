/* gRPC in the world: src/rpc/server.h and client.h over simulated connections, in the place of src/rpc's own files at link time.
 *
 * Flow     code of the broker, the agent and the client library is compiled unmodified against src/rpc/{server,client,follow}.h and
 *          linked with sim_rpc_server.c and sim_rpc_client.c. The loop that it passes is a struct sim_loop's (sim_uv.h): it names
 *          the node. Addresses are texts "host:port"; a server hears what is dialled under exactly its text.
 * Shapes   one piece of a connection (sim_network.c) is one or more whole frames. Ends, keepalive, back-off, drain and deadlines are
 *          those of src/rpc; HTTP/2's windows are the bytes that have not arrived.
 * Faults   what the network does to connections: partitions, resets, half-open connections to stopped processes, delays; calls of
 *          several connections overtake each other.
 * Absent   metadata of requests, reflection, the limit of connections, idle time (longer than a run).
 */
#ifndef CKPT_TESTS_SIM_SIM_RPC_H
#define CKPT_TESTS_SIM_SIM_RPC_H

#include "src/rpc/client.h"
#include "src/rpc/server.h"
#include "tests/sim/sim_uv.h"

/* The process of the server has crashed: its calls are told by on_cancel, what they answer goes nowhere, everything is freed at once.
 * (A process that crashes and has channels frees them by rpc_channel_free, which frees at once here.) NULL: nothing. */
void sim_rpc_server_crash(struct rpc_server *server);
/* The process that dials: who is called sees a local peer. */
void sim_rpc_channel_claim(struct rpc_channel *channel, pid_t pid);
/* What grpc.health.v1 would answer for the service. */
bool sim_rpc_serving(const struct rpc_server *server, const char *service);

/* ---- between sim_rpc_server.c and sim_rpc_client.c ---- */

enum sim_frame_type {
    SIM_FRAME_OPEN =
        1,             /* number: timeout in ms, 0 none; a: path; b: the caller's pid, or nothing */
    SIM_FRAME_MESSAGE, /* a: bytes */
    SIM_FRAME_HALF_CLOSE, /* from the client */
    SIM_FRAME_RESET,      /* from the client: the call is cancelled */
    SIM_FRAME_END, /* from the server; number: status; a: message; b: trailers, name NUL value NUL ... */
    SIM_FRAME_PING,
    SIM_FRAME_PONG,
    SIM_FRAME_GOAWAY
};
struct sim_frame {
    enum sim_frame_type type;
    uint32_t call; /* 0: of the connection */
    uint64_t number;
    const uint8_t *a, *b;
    size_t a_bytes, b_bytes;
};
struct buf;
void sim_frame_append(struct buf *buf, const struct sim_frame *frame);
/* Returns the bytes used. */
size_t sim_frame_take(const uint8_t *bytes, size_t length, struct sim_frame *ret_frame);

#endif
