/* Asks who listens at an address, before a membership change counts on it, or an election on a
 * leader's death.
 *
 * Flow     probe_start() dials, says a hello that asks only, and takes the reply: done() once,
 *          later, from the loop.
 * Shapes   one question at a time; PROBE_TIMEOUT_MS for all of it.
 * Errors   ERR_UNAVAILABLE nobody answers; ERR_MISMATCH another cluster or member; ERR_REFUSED it
 *          holds data of its own.
 * Absent   any effect on either side, but that both remember another incarnation
 *          (transport_incarnation()).
 */
#ifndef CKPT_RAFT_PROBE_H
#define CKPT_RAFT_PROBE_H

#include "raft/net/transport.h"

enum { PROBE_TIMEOUT_MS = 3000 };

/* failed NULL: this very member waits there with an empty folder. Else why not, with the next
 * step. */
typedef void probe_done_fn(void *data, const struct err *failed);

/* The storage is the caller's; all zero is one that asks nothing. */
struct probe {
    struct transport *transport;
    struct consensus_member member;
    struct network_stream *stream; /* NULL: nothing is asked */
    struct buf buf;
    uint64_t begun_us;
    /* For done(). A certificate that is refused, and silence, are neither. */
    bool nobody;  /* the address refuses */
    bool hung_up; /* a process that dies has done so, or somebody in between */
    probe_done_fn *done;
    void *data;
};

/* Asks; not while probe_active(). done() comes once, from the loop or probe_tick(), unless it is
 * cancelled. The member is copied, the transport must outlive the question. */
void probe_start(struct probe *probe, struct transport *transport,
                 const struct consensus_member *member, probe_done_fn *done, void *data);
/* A question is under way. */
bool probe_active(const struct probe *probe);
/* Ends a question that takes too long; several times per PROBE_TIMEOUT_MS. */
void probe_tick(struct probe *probe);
/* Hangs up without done(); with nothing under way too. */
void probe_cancel(struct probe *probe);

#endif
