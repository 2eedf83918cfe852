/* The network table over a libuv loop: TCP and unix sockets.
 *
 * Flow     a name may have several addresses: the next one is dialled when one refuses, or has not
 *          answered in its part of NETWORK_DIAL_MS, the look-up of the name included. At most
 *          NETWORK_ADDRESSES_MAX, in the resolver's order.
 * Shapes   the context of each table is the loop; nothing to free. Streams live until libuv has
 *          closed them, so run the loop once more after closing. SIGPIPE is ignored from the first
 *          stream on, unless the program has a handler of its own.
 * Limits   a listener accepts NETWORK_ACCEPTS_ROUND connections in one round of the loop. Without a
 *          free descriptor libuv's reserve, then the listener's, is spent to accept and close, so
 *          that it neither spins nor stops.
 */
#ifndef CKPT_NET_UV_NETWORK_H
#define CKPT_NET_UV_NETWORK_H

#include <uv.h>

#include "src/net/network.h"

enum { NETWORK_ADDRESSES_MAX = 4, NETWORK_ACCEPTS_ROUND = 64, NETWORK_USER_TIMEOUT_MS = 5000 };

/* Writes the table. For the API: its own PINGs find out who is gone, and a reader may stand still.
 * A name that is dialled is looked up in libuv's pool, so that the loop goes on; one that is
 * listened on is looked up in the call, which is made before anybody is served. The file of a unix
 * socket on which nobody listens any more is removed by the next who does. */
void network_uv_ops(uv_loop_t *loop, struct network_ops *ret_ops);
/* The same for members among each other, whose connections are few and must not hang for the
 * minutes that TCP would. A host that is gone is noticed: TCP keepalive, and
 * NETWORK_USER_TIMEOUT_MS for bytes that nobody acknowledges. For those who read what they are
 * sent, since a reader that stands still is taken for one that is gone. */
void network_uv_watchful_ops(uv_loop_t *loop, struct network_ops *ret_ops);

#endif
