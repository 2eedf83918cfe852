/* TLS around a network table: the same streams, between members that have shown their certificates.
 *
 * Flow     dial or accept -> handshake -> the peer must be a replica of our cluster -> opened, received..., closed. peer_is()
 *          then says which one it is; the transport asks with the id that it dialled, or that a newcomer claims.
 * Shapes   the struct is the caller's and outlives the streams. A handshake has TLS_NETWORK_HANDSHAKE_MS. What waits to be sent
 *          is in the table below, encrypted; unsent_bytes() is its.
 * Errors   closed() says why; the reason of each refusal also goes to refused(), once per connection.
 *          network_tls_recheck(), after the CA file was changed, ends the streams of members whose certificates are not of it any more.
 * Absent   a look at dates after the handshake: a cluster whose certificates have all expired goes on until connections break. A farewell of TLS: frames say themselves whether they are whole.
 */
#ifndef CKPT_NET_TLS_NETWORK_H
#define CKPT_NET_TLS_NETWORK_H

#include "src/base/list.h"
#include "src/base/ops.h"
#include "src/net/network.h"
#include "src/tls/engine.h"

enum { TLS_NETWORK_HANDSHAKE_MS = 1500 };

struct tls_network {
    struct network_ops below;
    const struct clock_ops *clock;
    const struct tls_context *context;
    void (*refused)(void *data, const char *address, const char *text); /* NULL allowed */
    void *data;
    struct list streams; /* all that were made here and are not freed */
    uint64_t checks;     /* how often they were checked */
    uint8_t plain[TLS_PLAIN_BYTES];
};

void network_tls_ops(struct tls_network *network, struct network_ops *ret_ops);
/* Not from inside an event of a stream. */
void network_tls_recheck(struct tls_network *network);

#endif
