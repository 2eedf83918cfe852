/* Connections between members: one per direction, kept warm, dialled again when lost.
 *
 * Flow     each member dials every other one and sends on the connection it dialled; it receives on those it accepted. The
 *          first frame of a dialled connection says who it is. A lost inbound connection is told at once: that is how the death
 *          of a leader is noticed in a millisecond (S11).
 * Shapes   one struct peer per other member, at most CONSENSUS_MEMBERS_MAX; at most TRANSPORT_GREETING_MAX accepted connections
 *          without a hello, for TRANSPORT_GREETING_MS. A peer's queue is bounded by TRANSPORT_QUEUE_MAX_BYTES: one frame more
 *          is refused, and Raft sends it again later. A receive buffer holds one frame.
 * Errors   a frame that is not right ends its connection. A hello of another cluster, of another incarnation of this cluster
 *          (after a recovery or restore that this or the other member was no part of), or for another member, likewise.
 *          Where the network proves who a peer is (tls_network.h), it must be the member that was dialled, or that hello names.
 * Absent   TLS (a wrapper of the network table).
 */
#ifndef CKPT_RAFT_TRANSPORT_H
#define CKPT_RAFT_TRANSPORT_H

#include "raft/consensus.h"
#include "raft/frame.h"
#include "raft/io_ops.h"
#include "src/base/list.h"

enum {
    TRANSPORT_QUEUE_MAX_BYTES = 32 << 20,
    TRANSPORT_HIGH_WATER_BYTES = 4 << 20, /* entries are not sent above it */
    TRANSPORT_GREETING_MAX = 64,
    TRANSPORT_GREETING_MS = 2000,
    TRANSPORT_DIAL_TIMEOUT_MS = 2000,
    TRANSPORT_BACKOFF_MIN_MS = 20,
    TRANSPORT_BACKOFF_MAX_MS = 1000,
};

struct transport_events {
    void *context;
    /* The receiver owns the message and closes it. */
    void (*message)(void *context, uint64_t from, struct frame_message *message);
    void (*greeted)(void *context, uint64_t peer);      /* it has dialled us */
    void (*inbound_lost)(void *context, uint64_t peer); /* and that connection is gone */
    void (*outbound_lost)(void *context, uint64_t peer);
    /* A member without an incarnation was greeted by one that has it. -1: it cannot be kept. */
    int (*adopt)(void *context, uint64_t incarnation);
};

struct inbound;

struct peer {
    struct transport *transport;
    struct consensus_member member;
    struct network_stream *out;
    bool out_ready;
    uint64_t dialled_us;
    uint64_t next_dial_us;
    uint32_t backoff_ms;
    struct inbound *in;
    bool heard; /* last_heard_us means something */
    uint64_t last_heard_us;
    uint64_t foreign_incarnation; /* of its last refused hello; 0: it belongs to us */
};

struct transport {
    const struct network_ops *network;
    const struct clock_ops *clock;
    struct transport_events events;
    struct network_listener *listener;
    char cluster_id[FRAME_CLUSTER_BYTES];
    uint64_t member_id;
    uint64_t incarnation; /* set before the first dial; 0: not known yet (folder.h) */
    struct peer peers[CONSENSUS_MEMBERS_MAX];
    size_t peer_count;
    struct list greeting; /* of struct inbound */
    size_t greeting_count;
};

void transport_init(struct transport *transport, const struct consensus_config *config,
                    const struct transport_events *events);
int transport_listen(struct transport *transport, const char *address, struct err *err);
void transport_close(struct transport *transport);
/* Dials, gives up slow dials and silent newcomers. Several times per heartbeat. */
void transport_tick(struct transport *transport);

/* False: not connected, or the queue is full. */
bool transport_send(struct transport *transport, uint64_t to, const struct frame_message *message);
/* Bytes that may be sent below the high water mark; 0 also when not connected. */
size_t transport_room(const struct transport *transport, uint64_t to);
bool transport_connected(const struct transport *transport, uint64_t to);
const struct peer *transport_peer(const struct transport *transport, uint64_t id);

#endif
