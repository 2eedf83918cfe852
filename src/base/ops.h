/* Operation tables for time and randomness, so that the same code runs on a real loop and in the
 * simulator. (The table for the network is src/net/network.h, that for the disk raft/io_ops.h.)
 *
 * Flow     real: src/rpc/uv_clock.c over libuv; tests and the simulator bring their own.
 * Units    microseconds for monotonic time and delays, milliseconds since the epoch for wall time.
 * Shapes   timers are heap objects of the implementation: one shot, fired on the loop thread,
 *          restart allowed in the callback.
 */
#ifndef CKPT_BASE_OPS_H
#define CKPT_BASE_OPS_H

#include <stddef.h>
#include <stdint.h>

struct clock_timer;

/* Time as a part of the program sees it; context goes into each call. Monotonic time never jumps
 * and means nothing to another process; wall time may jump and is what people read. */
struct clock_ops {
    void *context;
    uint64_t (*monotonic_us)(void *context);
    uint64_t (*wall_ms)(void *context);
    struct clock_timer *(*timer_new)(void *context, void (*fire)(void *data), void *data);
    void (*timer_start)(struct clock_timer *timer,
                        uint64_t delay_us); /* replaces a pending start */
    void (*timer_stop)(struct clock_timer *timer);
    void (*timer_free)(struct clock_timer *timer); /* NULL allowed; never fires afterwards */
};

/* Bytes that nobody can guess; in the simulator those of the seed. Never fails. */
struct random_ops {
    void *context;
    void (*fill)(void *context, void *bytes, size_t length);
};

#endif
