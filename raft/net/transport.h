/* Connections between members: one per direction, kept warm, dialled again when lost.
 *
 * Flow     each member dials every other one and sends on the connection it dialled; it receives on
 *          those it accepted. The first frame of a dialled connection says who it is and where it
 *          listens; one reply comes back and says whether it is welcome. A lost inbound connection
 *          is told at once: then a follower asks whether its leader is gone (S11).
 * Shapes   one struct peer per other member, at most TRANSPORT_PEERS_MAX: known ones
 *          (transport_put) and strangers, which said hello before this member learnt of them (Raft
 *          answers them, 4.1) and are forgotten TRANSPORT_STRANGER_MS after their connection. At
 *          most TRANSPORT_GREETING_MAX accepted connections without a hello, for
 *          TRANSPORT_GREETING_MS (one more ends the oldest). A peer's queue is bounded by
 *          TRANSPORT_QUEUE_MAX_BYTES: one frame more is refused, and Raft sends it again later. A
 *          receive buffer holds one frame. Two addresses of a peer are tried in turn: the newest
 *          word (its own hello, or the replicated book), and the address in this member's
 *          configuration file. So a file that was corrected everywhere works too. A member that has
 *          joined and holds nothing yet takes entries and snapshots only of those that have
 *          welcomed it, and gives no votes: who knows it for a voter does not welcome it (I11). Of
 *          two connections of one peer the one that was accepted last counts, whichever's hello is
 *          read last.
 * Units    microseconds of the monotonic clock, bytes.
 * Errors   a frame that is not right ends its connection. A hello may be of another cluster, of
 *          another incarnation of this cluster (after a recovery or restore without one of the two
 *          members), for another member, or of a removed one. The answer says so, and the
 *          connection leads nowhere. Where the network proves who a peer is
 *          (src/net/tls_network.h), it must be the member that was dialled, or that hello names.
 * Absent   TLS (a wrapper of the network table).
 */
#ifndef CKPT_RAFT_TRANSPORT_H
#define CKPT_RAFT_TRANSPORT_H

#include "raft/core/consensus.h"
#include "raft/net/frame.h"
#include "src/base/list.h"
#include "src/net/network.h"

enum {
    TRANSPORT_QUEUE_MAX_BYTES = 32 << 20,
    TRANSPORT_HIGH_WATER_BYTES = 4 << 20, /* entries are not sent above it */
    TRANSPORT_GREETING_MAX = 64,
    TRANSPORT_GREETING_MS = 2000,
    TRANSPORT_DIAL_TIMEOUT_MS = NETWORK_DIAL_MS,
    TRANSPORT_FOREIGN_MS = 30000,     /* so long after its last word it is still told of */
    TRANSPORT_DIAL_PATIENCE_MS = 100, /* ... with a peer that is heard meanwhile */
    TRANSPORT_BACKOFF_MIN_MS = 20,
    TRANSPORT_BACKOFF_MAX_MS = 1000,
    TRANSPORT_PEERS_MAX = 2 * CONSENSUS_MEMBERS_MAX,
    TRANSPORT_STRANGER_MS = 10000,
    TRANSPORT_FAREWELL_MS = 500, /* a removed one is told; then its connections end */
    TRANSPORT_REPLIES_BYTES = 4096,
};

/* The owner's callbacks. All run on the loop. */
struct transport_events {
    void *context;
    /* The receiver owns the message and closes it. */
    void (*message)(void *context, uint64_t from, struct frame_message *message);
    /* Fills the reply to a hello; may call transport_put(). */
    void (*hello)(void *context, const struct frame_hello *hello,
                  struct frame_hello_reply *ret_reply);
    /* Fills the reply to a hello of which one side is no member yet (founding.h). */
    void (*founder)(void *context, const struct frame_hello *hello,
                    struct frame_hello_reply *ret_reply);
    /* The peer answered our hello with anything but FRAME_WELCOME. */
    void (*refused)(void *context, uint64_t peer, const struct frame_hello_reply *reply);
    void (*greeted)(void *context, uint64_t peer);      /* it has dialled us */
    void (*inbound_lost)(void *context, uint64_t peer); /* and that connection is gone */
    void (*outbound_lost)(void *context, uint64_t peer);
    /* Of the own log, for the hello. */
    uint64_t (*last_index)(void *context);
    /* A member without an incarnation was greeted by one that has it. -1: it cannot be kept. */
    int (*adopt)(void *context, uint64_t incarnation);
};

struct inbound;

/* One other member, or stranger, and the two connections with it. Outside of transport.c it is only
 * read. */
struct peer {
    struct transport *transport;
    struct consensus_member member;                  /* address: the newest word */
    char address_in_config[CONSENSUS_ADDRESS_BYTES]; /* "": none */
    bool dials_config;                               /* the next dial goes there */
    bool reached, reached_config;                    /* a dial has succeeded; the last one there */
    char contact[CONSENSUS_ADDRESS_BYTES];           /* as its last hello said; "": none yet */
    /* as it said last, whatever the purpose; level 0: it has not spoken */
    struct consensus_build build;
    bool stranger;
    uint64_t drop_us; /* 0: stays */
    struct network_stream *out;
    bool out_ready;
    struct buf replies; /* received on out */
    uint64_t dialled_us;
    /* Not before this moment, and after each failure twice as much later. */
    uint64_t next_dial_us;
    uint32_t backoff_ms;
    bool welcomed; /* our hello on out was answered so */
    struct inbound *in;
    uint64_t in_number; /* of the last one that it said hello on */
    bool heard;         /* last_heard_us means something */
    uint64_t last_heard_us;
};

/* Holds another history under the id of a member. A place is free when it was not heard for
 * TRANSPORT_FOREIGN_MS. */
struct foreign {
    struct consensus_foreign who; /* id 0: nobody */
    uint64_t seen_us;
};

/* The storage is the caller's. incarnation, founding and unfilled are set by the owner as it learns
 * them; events.adopt() tells it of an incarnation that was taken from a peer. */
struct transport {
    const struct network_ops *network;
    const struct clock_ops *clock;
    struct transport_events events;
    struct network_listener *listener;
    char cluster_id[FRAME_CLUSTER_BYTES];
    struct consensus_member self;
    struct consensus_build build; /* of this member */
    uint64_t incarnation;         /* set before the first dial; 0: not known yet (folder.h) */
    uint64_t founding;            /* number of this folder, which is no member yet; else 0 */
    bool unfilled;                /* this member has joined and holds nothing yet */
    uint64_t accepted_count;
    const struct consensus_member *in_config; /* the configuration file's; the caller's */
    size_t in_config_count;
    struct peer *peers[TRANSPORT_PEERS_MAX];
    size_t peer_count;
    struct foreign foreign[CONSENSUS_MEMBERS_MAX];
    struct list greeting; /* of struct inbound */
    size_t greeting_count;
};

/* Knows the members of config, and has no connection yet; config.members must live as long. No
 * event comes before transport_listen(). */
void transport_init(struct transport *transport, const struct consensus_config *config,
                    const struct transport_events *events);
/* Accepts connections at this address and dials every peer. The error says the address; the
 * transport can be closed then. */
int transport_listen(struct transport *transport, const char *address, struct err *err);
/* Ends all connections and forgets all peers, without any event. Also when nothing was opened, and
 * twice. */
void transport_close(struct transport *transport);
/* Dials, gives up slow dials and silent newcomers. Several times per heartbeat. */
void transport_tick(struct transport *transport);

/* Adds a peer, or takes its name and newest address, and makes a member of a stranger. This member
 * itself is passed over. False: no place. */
bool transport_put(struct transport *transport, const struct consensus_member *member);
/* Peers that are not in the configuration become strangers, and go TRANSPORT_STRANGER_MS after
 * their own connection: one that was removed may still need an answer. */
void transport_keep(struct transport *transport, const struct raft_configuration *configuration);
/* Tells the peer that it was removed at `index`, and forgets it a little later. */
void transport_dismiss(struct transport *transport, uint64_t id, uint64_t index);
/* Ends the connection that the peer has made: it says hello again on another one. */
void transport_hang_up(struct transport *transport, uint64_t id);

/* Dials the peer at once when it is not dialled now: something is to be asked, or told. */
void transport_hurry(struct transport *transport, uint64_t id);
/* The same for one that has no connection yet; what was asked before is not answered any more. */
void transport_ask_anew(struct transport *transport, uint64_t id);
/* With S10 switched off: something is to be sent and there is no connection, dial now. Else
 * nothing. */
void transport_dial_cold(struct transport *transport, uint64_t to);
/* Encodes and sends at once. False: not connected, or the queue is full, and nothing was sent. True
 * says only that it is on its way: a connection that ends loses what is unread. */
bool transport_send(struct transport *transport, uint64_t to, const struct frame_message *message);
/* Bytes that may be sent below the high water mark; 0 also when not connected. */
size_t transport_room(const struct transport *transport, uint64_t to);
/* A connection to it is open; whether it answers there is another matter (last_heard_us). */
bool transport_connected(const struct transport *transport, uint64_t to);
/* Takes a process's word about its incarnation (0: not known). Another incarnation than ours is
 * remembered; ours makes the transport forget the process. */
void transport_incarnation(struct transport *transport, const struct consensus_foreign *said);
/* Whether it was heard lately. */
bool transport_foreign_alive(const struct transport *transport, const struct foreign *foreign);
/* NULL: unknown. */
const struct peer *transport_peer(const struct transport *transport, uint64_t id);

#endif
