/* The part of libuv that code in the world uses, over the simulated clock: loops that only name
 * their node, and timers.
 *
 * Flow     sim_loop_init() makes a loop for one process; uv_timer_*, uv_idle_*, uv_close, uv_now,
 *          uv_update_time and uv_hrtime of this file take the place of libuv's at link time, and
 *          network_uv_ops that of src/net, so that src/rpc and src/client run unmodified.
 *          getrandom(2) draws from the world as well; clock_gettime(2) tells its time, for nghttp2.
 * Shapes   a loop holds nothing. Handles are closed from the loop; when their process crashes,
 *          their close callbacks are told at once, because they free memory.
 * Absent   everything else of libuv. Nothing takes time here, so no round of a loop is ever over
 *          because of it; some come late.
 */
#ifndef CKPT_TESTS_SIM_SIM_UV_H
#define CKPT_TESTS_SIM_SIM_UV_H

#include <uv.h>

#include "src/base/ops.h"
#include "tests/sim/sim.h"

/* What loop->data points at. */
struct sim_loop {
    uv_loop_t uv;
    struct sim *sim;
    unsigned node;
    struct clock_ops clock;
};

void sim_loop_init(struct sim_loop *loop, struct sim *sim, unsigned node);
struct sim_loop *sim_loop_of(const uv_loop_t *loop);

#endif
