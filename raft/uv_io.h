/* The disk table of raft/io_ops.h over a libuv loop.
 *
 * Flow     disk jobs run in libuv's thread pool, which few others use.
 * Shapes   the table's context is the loop; nothing to free.
 */
#ifndef CKPT_RAFT_UV_IO_H
#define CKPT_RAFT_UV_IO_H

#include <uv.h>

#include "raft/io_ops.h"

void disk_uv_ops(uv_loop_t *loop, struct disk_ops *ret_ops);

#endif
