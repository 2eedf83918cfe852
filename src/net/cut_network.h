/* A network table that can be cut: nothing goes through it until it is whole again, as if the
 * cable of this member were pulled out. Raft's network alone stands on it.
 *
 * Flow     cut_network_ops() wraps the table below. cut_network_set(true) ends all streams, which
 *          their users hear as closed(); streams that are dialled end when they open, accepted ones
 *          at once. cut_network_set(false): as before.
 * Shapes   the struct is the caller's and outlives the streams.
 */
#ifndef CKPT_NET_CUT_NETWORK_H
#define CKPT_NET_CUT_NETWORK_H

#include "src/base/list.h"
#include "src/net/network.h"

struct cut_network {
    struct network_ops below; /* copied */
    struct list streams;      /* all that are open or dialled */
    bool off;
};

/* ops: the table below, and in its place the one that can be cut. */
void cut_network_ops(struct cut_network *network, struct network_ops *ops);
/* Not inside of an event of a stream. */
void cut_network_set(struct cut_network *network, bool off);

#endif
