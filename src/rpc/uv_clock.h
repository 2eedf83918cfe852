/* The clock and random tables of src/base/ops.h over a libuv loop and getrandom(2): what programs
 * run with. Tests and the simulator bring their own.
 *
 * Threads  the loop's; timers fire there.
 */
#ifndef CKPT_RPC_UV_CLOCK_H
#define CKPT_RPC_UV_CLOCK_H

#include <uv.h>

#include "src/base/ops.h"

/* Monotonic time is uv_hrtime(), wall time the system's. Writes a table whose context is the loop.
 * Timers are closed and freed by the loop. */
void uv_clock_ops(uv_loop_t *loop, struct clock_ops *ret_ops);
/* Has no context: every copy of the table is the same. */
void uv_random_ops(struct random_ops *ret_ops);

#endif
