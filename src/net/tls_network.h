/* TLS around a network table: the same streams, between ends that have shown their certificates.
 * Streams of members and of the API get TLS only here.
 *
 * Flow     dial or accept -> handshake -> opened (accepted streams too), received..., closed. With
 *          `replicas_only` the peer must be a replica of our cluster, and peer_is() compares its
 *          member id. Else peer() has the identity. A handshake takes much computing. With `wake`
 *          the handshakes of accepted streams take turns, so that thousands of new clients do not
 *          hold the loop. The owner calls network_tls_run() in each round, as long as it has work.
 *          A handshake that has begun goes before all that have not: its peer waits with a limit of
 *          its own, and what was computed for it would be lost. So the first of a crowd are through
 *          while the last still wait.
 *          The user's reading by turns (network.h) reaches the table below. During the handshake
 *          this file reads, at most TLS_NETWORK_EARLY_BYTES ahead.
 * Shapes   the struct is the caller's and outlives the streams; network_tls_close() ends its use.
 *          The table below holds the encrypted bytes that wait to be sent; unsent_bytes() asks it.
 * Errors   closed() has the reason; a refusal's reason also goes to refused(), once per connection.
 *          A refused peer is sent the reason, and has TLS_NETWORK_LINGER_MS to read it. If its
 *          stream were closed at once, bytes that the peer has sent meanwhile would make the alert
 *          get lost. network_tls_recheck() and network_tls_passes() look at the certificates of
 *          open streams again, and end streams whose certificate is no longer good.
 * Absent   a closing alert of TLS: frames show by themselves whether they are whole.
 */
#ifndef CKPT_NET_TLS_NETWORK_H
#define CKPT_NET_TLS_NETWORK_H

#include "src/base/list.h"
#include "src/base/ops.h"
#include "src/net/network.h"
#include "src/tls/engine.h"

enum {
    TLS_NETWORK_EARLY_BYTES = 1 << 16, /* of a handshake that waits for its turn */
    TLS_NETWORK_ROUND_US = 3000,       /* handshakes in one round of the loop */
    TLS_NETWORK_BEGUN_ROW = 16,        /* turns of begun ones before a new one has its first */
    TLS_NETWORK_LINGER_MS = 500,
    TLS_NETWORK_LINGER_MAX = 64, /* streams that linger at once; others are closed */
    TLS_NETWORK_MEMBERS_MS = 1500
};
/* the members' protocol: an API client that dials a member fails at once */
#define TLS_NETWORK_MEMBERS "ckpt-raft"

/* One network with TLS. The caller sets the first fields before network_tls_ops(); the fields from
 * `streams` on are this file's. */
struct tls_network {
    struct network_ops below;          /* the table below; copied */
    const struct clock_ops *clock;     /* outlives it; times handshakes */
    const struct tls_context *context; /* outlives it; may be reloaded while it is in use */
    const char *protocol;              /* ALPN; static storage */
    /* of a whole handshake, without its waiting for turns; 0: the owner has a timer */
    uint64_t handshake_ms;
    /* limit of unsent bytes, 0: none; a peer above it makes TLS answer and does not read */
    size_t unsent_max;
    bool replicas_only;       /* other certificates of the CA are refused */
    bool dates;               /* a recheck looks at the dates of certificates too */
    void (*wake)(void *data); /* NULL: handshakes take no turns */
    void *wake_data;
    /* for the log: a peer was refused or ended later, with the reason; NULL allowed */
    void (*refused)(void *data, const char *address, const char *text);
    void *data;
    struct list streams; /* all streams that are not freed */
    /* streams whose handshakes wait for their turns, in the order in which they came: those that
     * have had one, and those that have had none yet */
    struct list begun, waiting;
    unsigned in_a_row;              /* turns of begun ones since the last first one */
    size_t lingering;               /* refused streams whose peers may still read the reason */
    uint64_t checks;                /* rechecks so far */
    uint8_t plain[TLS_PLAIN_BYTES]; /* of the record that is being handed over */
};

/* Writes the table of the network, with `network` as its context. `network` and the table below
 * must stay where they are. */
void network_tls_ops(struct tls_network *network, struct network_ops *ret_ops);
/* Forgets lingering streams; all others must be closed already. */
void network_tls_close(struct tls_network *network);

/* A round's turns of handshakes: as many as fit into TLS_NETWORK_ROUND_US, one at least. */
void network_tls_run(struct tls_network *network);
/* True: handshakes wait for another round. */
bool network_tls_has_work(const struct tls_network *network);

/* True: the stream's handshake waits for its turn, not for the peer. */
bool network_tls_waits(const struct network_stream *stream);
/* Checks a stream's certificate by the present files. False: the stream was ended, and closed() has
 * come. */
bool network_tls_passes(struct network_stream *stream);
/* Checks all streams in turn: after a reload, and now and then for dates that pass. Not from inside
 * an event of a stream. */
void network_tls_recheck(struct tls_network *network);

#endif
