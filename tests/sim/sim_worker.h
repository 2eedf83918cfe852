/* Blocking work of the world: src/dest/worker.h without processes. What a piece of work does is the
 * world's (struct sim_work_ops).
 *
 * Flow     worker_start() asks begin() how long it takes; then end() has the effect and fills the
 *          result, unless the deadline or worker_cancel() comes first, or its daemon crashes: then
 *          the work has its effect at once or not at all.
 * Faults   a hanging worker passes its deadline and cannot be killed: it is reported `unkillable` a
 *          second later and ends when the world says so (sim_worker_release).
 */
#ifndef CKPT_TESTS_SIM_SIM_WORKER_H
#define CKPT_TESTS_SIM_SIM_WORKER_H

#include "src/dest/worker.h"
#include "tests/sim/sim.h"

enum { SIM_WORK_HANGS = -1 }; /* what begin() returns for work that never ends by itself */

struct sim_work {
    unsigned node;
    const char *const *arguments; /* verb first, NULL-terminated */
};
struct sim_work_end {
    int exit_code; /* enum worker_exit */
    char error[256];
    char output[1024]; /* lines of key=value */
};
struct sim_work_ops {
    void *context;
    /* Microseconds, or SIM_WORK_HANGS. */
    int64_t (*begin)(void *context, const struct sim_work *work);
    void (*end)(void *context, const struct sim_work *work, struct sim_work_end *ret_end);
};
/* One table per world, kept by reference. */
void sim_worker_set_ops(struct sim *sim, const struct sim_work_ops *ops);
/* All workers that hang end now. */
void sim_worker_release(struct sim *sim);
/* The node's process has crashed and its parts are freed: it is told of its workers' end, to free
 * the rest. The work itself is done now or not at all, by chance; what hangs in the kernel may
 * still do it when it is released. */
void sim_worker_crash(struct sim *sim, unsigned node);
/* The value that follows an argument, for example "--prefix"; NULL: not given. */
const char *sim_work_argument(const struct sim_work *work, const char *name);

#endif
