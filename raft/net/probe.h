/* Asks who listens at an address, before a membership change counts on it.
 *
 * Flow     probe_start() dials, says a hello that asks only, and takes the reply: done() once,
 *          later, from the loop.
 * Shapes   one question at a time; PROBE_TIMEOUT_MS for all of it.
 * Errors   ERR_UNAVAILABLE nobody answers; ERR_MISMATCH another cluster or member; ERR_REFUSED it
 *          holds data of its own.
 */
#ifndef CKPT_RAFT_PROBE_H
#define CKPT_RAFT_PROBE_H

#include "raft/net/transport.h"

enum { PROBE_TIMEOUT_MS = 3000 };

typedef void probe_done_fn(void *data, const struct err *failed);

struct probe {
    struct transport *transport;
    struct consensus_member member;
    struct network_stream *stream; /* NULL: nothing is asked */
    struct buf buf;
    uint64_t begun_us;
    probe_done_fn *done;
    void *data;
};

void probe_start(struct probe *probe, struct transport *transport,
                 const struct consensus_member *member, probe_done_fn *done, void *data);
bool probe_active(const struct probe *probe);
void probe_tick(struct probe *probe);
void probe_cancel(struct probe *probe); /* done() is not called */

#endif
