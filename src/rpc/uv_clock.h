/* The clock and random tables of src/base/ops.h over a libuv loop and getrandom(2). */
#ifndef CKPT_RPC_UV_CLOCK_H
#define CKPT_RPC_UV_CLOCK_H

#include <uv.h>

#include "src/base/ops.h"

/* Writes a table whose context is the loop. Timers are closed and freed by the loop. */
void uv_clock_ops(uv_loop_t *loop, struct clock_ops *ret_ops);
void uv_random_ops(struct random_ops *ret_ops);

#endif
