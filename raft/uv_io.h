/* The disk and network tables of raft/io_ops.h over a libuv loop.
 *
 * Flow     disk jobs run in libuv's thread pool; nothing else does.
 *          Streams are TCP with TCP_NODELAY, keepalive and a user timeout of 5 s.
 * Shapes   the context of each table is the loop; nothing to free. Streams live until libuv has closed them, so run the loop
 *          once more after closing.
 * Absent   TLS: tls_network.h, around the network table.
 */
#ifndef CKPT_RAFT_UV_IO_H
#define CKPT_RAFT_UV_IO_H

#include <uv.h>

#include "raft/io_ops.h"

void disk_uv_ops(uv_loop_t *loop, struct disk_ops *ret_ops);
void network_uv_ops(uv_loop_t *loop, struct network_ops *ret_ops);

#endif
