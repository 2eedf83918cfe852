/* TLS around a network table: the same streams, between ends that have shown their certificates.
 * The one place where TLS is wrapped around streams, of members and of the API.
 *
 * Flow     dial or accept -> handshake -> opened (accepted streams too), received..., closed. With
 *          `replicas_only` the peer must be a replica of our cluster; peer_is() then says which one
 *          it is; peer() has the identity of whom else it may be. A handshake takes much computing.
 *          With `wake` those of accepted streams take turns, so that thousands of clients that come
 *          at once do not hold the loop: the owner calls network_tls_run() in the next round, as
 *          long as it has work. Reading by turns (network.h) goes through; during the handshake
 *          this file reads, at most TLS_NETWORK_EARLY_BYTES ahead.
 * Shapes   the struct is the caller's and outlives the streams; network_tls_close() before it goes.
 *          What waits to be sent is in the table below, encrypted; unsent_bytes() is its.
 * Errors   closed() says why; the reason of each refusal also goes to refused(), once per
 *          connection. A peer that is refused is sent the reason, and has TLS_NETWORK_LINGER_MS to
 *          read it: were its stream closed at once, bytes that it has sent meanwhile would take the
 *          alert from it. Certificates of open streams are looked at again by network_tls_recheck()
 *          and network_tls_passes(), which end those that are no longer good.
 * Absent   a farewell of TLS: frames say themselves whether they are whole.
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
    TLS_NETWORK_LINGER_MS = 500,
    TLS_NETWORK_LINGER_MAX = 64, /* streams that linger at once; others are closed */
    TLS_NETWORK_MEMBERS_MS = 1500
};
#define TLS_NETWORK_MEMBERS                                                                        \
    "ckpt-raft" /* what members agree on: an API client that calls one learns so at once */

/* One network with TLS. The first fields say how and are the caller's to set before
 * network_tls_ops(); those from `streams` on are this file's. */
struct tls_network {
    struct network_ops below;          /* what streams are wrapped around; copied */
    const struct clock_ops *clock;     /* outlives it; times handshakes */
    const struct tls_context *context; /* outlives it; may be reloaded while it is in use */
    const char *protocol;              /* ALPN; static storage */
    uint64_t handshake_ms; /* all of it, without its waiting for turns; 0: the owner has a timer */
    /* 0: none; a peer for whom more waits asks for answers of TLS and does not read them */
    size_t unsent_max;
    bool replicas_only;       /* who else has a certificate of the CA is refused */
    bool dates;               /* of certificates count when they are looked at again */
    void (*wake)(void *data); /* NULL: handshakes take no turns */
    void *wake_data;
    /* for the log: who was refused, or ended later, and why; NULL allowed */
    void (*refused)(void *data, const char *address, const char *text);
    void *data;
    struct list streams; /* all that were made here and are not freed */
    /* those whose handshakes wait for their turns, in the order in which they came */
    struct list waiting;
    size_t lingering; /* streams that were refused and whose peers may still read why */
    uint64_t checks;  /* how often they were checked */
    uint8_t plain[TLS_PLAIN_BYTES]; /* of the record that is being handed over */
};

/* Writes the table of the network, whose context it is; both `network` and the table below must
 * stay where they are. */
void network_tls_ops(struct tls_network *network, struct network_ops *ret_ops);
/* Forgets those that linger; all others are closed. */
void network_tls_close(struct tls_network *network);

/* A round's turns of handshakes: as many as fit into TLS_NETWORK_ROUND_US, one at least. */
void network_tls_run(struct tls_network *network);
/* Whether handshakes wait for another round. */
bool network_tls_has_work(const struct tls_network *network);

/* Of one of its streams: whether its handshake waits for its turn, not for the peer. */
bool network_tls_waits(const struct network_stream *stream);
/* By the files as they are now. False: it was ended, and closed() has told. */
bool network_tls_passes(struct network_stream *stream);
/* All of them, in turn: after a reload, and now and then for dates that pass. Not from inside an
 * event of a stream. */
void network_tls_recheck(struct tls_network *network);

#endif
