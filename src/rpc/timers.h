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

struct rpc_timer {
    uint64_t due_ms;
    size_t position; /* in the heap, from 1; 0: not started */
    void (*fire)(struct rpc_timer *timer);
};

struct rpc_timers {
    uv_timer_t uv;
    struct rpc_timer **heap;
    size_t count;
    size_t capacity;
    uint64_t armed_ms; /* when the libuv timer fires; UINT64_MAX: not started */
    void (*closed)(void *data);
    void *closed_data;
};

void rpc_timers_init(struct rpc_timers *timers, uv_loop_t *loop);
/* Forgets all timers; closed(data) from the loop. */
void rpc_timers_close(struct rpc_timers *timers, void (*closed)(void *data), void *data);

void rpc_timer_init(struct rpc_timer *timer, void (*fire)(struct rpc_timer *timer));
void rpc_timer_start(struct rpc_timers *timers, struct rpc_timer *timer,
                     uint64_t due_ms); /* replaces a pending start */
void rpc_timer_stop(struct rpc_timers *timers,
                    struct rpc_timer *timer); /* harmless when not started */

#endif
