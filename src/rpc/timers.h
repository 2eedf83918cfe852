/* Many one-shot timers on one libuv timer: deadlines of calls, back-off, keepalive.
 *
 * Flow     rpc_timer_start puts a timer into a heap ordered by due time; the one libuv timer is set
 *          for the earliest.
 * Shapes   timers are embedded in their owners and must be stopped before these go; the heap grows
 *          to the most there ever were.
 * Units    milliseconds of the loop's clock (uv_now), absolute.
 */
#ifndef CKPT_RPC_TIMERS_H
#define CKPT_RPC_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* One-shot; may be started again, also in its own fire(). LIST_ITEM() leads to its owner. */
struct rpc_timer {
    uint64_t due_ms;
    size_t position; /* in the heap, from 1; 0: not started */
    void (*fire)(struct rpc_timer *timer);
};

/* A server or a channel has one. Starting and stopping takes a logarithm of how many are
 * started. */
struct rpc_timers {
    uv_timer_t uv;
    struct rpc_timer **heap; /* the earliest first */
    size_t count;
    size_t capacity;
    uint64_t armed_ms; /* when the libuv timer fires; UINT64_MAX: not started */
    void (*closed)(void *data);
    void *closed_data;
};

/* None is started. Timers that are due together fire one after the other, in no order. */
void rpc_timers_init(struct rpc_timers *timers, uv_loop_t *loop);
/* Forgets all timers, so that none fires any more; closed(data) from the loop, after which the
 * memory may go. */
void rpc_timers_close(struct rpc_timers *timers, void (*closed)(void *data), void *data);

/* Not started. */
void rpc_timer_init(struct rpc_timer *timer, void (*fire)(struct rpc_timer *timer));
void rpc_timer_start(struct rpc_timers *timers, struct rpc_timer *timer,
                     uint64_t due_ms); /* replaces a pending start */
void rpc_timer_stop(struct rpc_timers *timers,
                    struct rpc_timer *timer); /* harmless when not started */

#endif
