/* Tries of node_probe.h over libuv.
 *
 * Shapes   one socket and one timer per try, closed and freed by themselves.
 * Units    milliseconds.
 */
#ifndef CKPT_BROKER_NODE_PROBE_UV_H
#define CKPT_BROKER_NODE_PROBE_UV_H

#include <uv.h>

#include "src/broker/health/node_probe.h"

struct probe_ops node_probe_uv(uv_loop_t *loop);

#endif
