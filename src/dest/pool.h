/* A bounded number of threads that do the items of one piece of work.
 *
 * Flow     pool_run() hands the items 0, 1, 2 ... out in their order, to as many threads as the
 *          pool has; the caller's own is one of them. It returns when all have ended. One thread
 *          means that no other is made.
 * Shapes   items know nothing of each other. Each thread has a copier: a buffer and a digest of its
 *          own, and the pace that all share.
 * Errors   after the first failure no item is begun; of those that failed the one with the lowest
 *          number is told.
 * Absent   a queue: all work is known before it begins.
 */
#ifndef CKPT_DEST_POOL_H
#define CKPT_DEST_POOL_H

#include <stddef.h>

#include "src/base/err.h"
#include "src/dest/copy.h"
#include "src/dest/pace.h"

enum { POOL_THREADS_MAX = 8 };

/* What outlives one piece of work: how many threads do it, and the rate that holds for several
 * pieces in a row. The threads themselves are made and ended by each pool_run(). */
struct pool {
    unsigned threads;
    struct pace pace;
};

/* One item; 0, or -1 with err. Called by several threads at a time, each with its own copier. */
typedef int pool_item_fn(void *context, size_t item, struct copier *copier, struct err *err);

/* How many this process may use, 1 to POOL_THREADS_MAX. */
unsigned pool_processors(void);
/* threads 0: two for each of these, at most POOL_THREADS_MAX: one waits while another hashes. */
void pool_init(struct pool *pool, unsigned threads, uint64_t rate_bytes_per_s);
void pool_close(struct pool *pool);
int pool_run(struct pool *pool, size_t count, pool_item_fn *item, void *context, struct err *err);

#endif
