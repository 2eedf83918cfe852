/* The nodes that load.c puts its allocations on: number i on node i % LOAD_NODES. */
#ifndef CKPT_BENCH_LOAD_NODES_H
#define CKPT_BENCH_LOAD_NODES_H

#include <inttypes.h>

#define LOAD_NODE_FORMAT "node-%" PRIu64
enum { LOAD_NODES = 4096 };

#endif
