/* A whole job is made to stand still, to go on, or is signalled, whatever processes it has and
 * starts meanwhile.
 *
 *   STILL_FREEZE  its control group is frozen; what of it is outside is stopped by SIGSTOP, in
 *                 rounds over its processes, until a round finds all of them stopped and none that
 *                 the round before had not found stopped: who was stopped all the time between has
 *                 started nobody
 *   STILL_THAW    the group goes on; outside of it SIGCONT, children before their parents and the
 *                 main process last, until none is stopped
 *   STILL_END     SIGCONT and SIGTERM, once to each process; while a rank lives (ranks.h) not to
 *                 launchers, which would cut their ranks' time short, nor to who was started since,
 *                 which saves something for a rank
 *   STILL_KILL    SIGKILL to the group as a whole and to each process, again until none lives
 *
 * Flow     still_start(), done() once. still_change() turns what is under way into another, so that
 *          no two of them work on one job: a freeze that is given up is thawed by it.
 * Shapes   one object for a job; it frees itself after done(). Rounds are made off the loop, timers
 *          between them are the loop's.
 * Units    STILL_LIMIT_MS from the start or the last change; STILL_END has none, it lasts as long
 *          as the ranks take: who started it ends it.
 * Errors   `whole` false: at the limit there was a process that did not stop, go on or end; it is
 *          named, and what was done with the others stays: a freeze that failed is to be thawed.
 *          pid 0: what there is cannot be read. A group that cannot be written to is none: its
 *          processes are signalled like others.
 * Absent   processes in a wait of the kernel that no signal ends (state D: a dead file server) do
 *          not stop; one that waits for the program it starts (vfork) counts as stopped with it.
 *          What the user had stopped goes on as well.
 * Source   SIGSTOP and SIGKILL cannot be caught, blocked or ignored: signal(7).
 */
#ifndef CKPT_AGENT_STILL_H
#define CKPT_AGENT_STILL_H

#include <uv.h>

#include "src/agent/node/job_processes.h"

enum { STILL_LIMIT_MS = 5000 };

#define STILL_WAYS(X) X(FREEZE) X(THAW) X(END) X(KILL)
enum still_way {
#define X(name) STILL_##name,
    STILL_WAYS(X)
#undef X
        STILL_WAY_COUNT
};
const char *still_way_name(enum still_way way); /* "FREEZE" */

struct still_result {
    bool whole;
    bool by_cgroup; /* its group did it; what is outside of that was signalled */
    pid_t stuck;    /* unless whole */
    char stuck_name[64];
    size_t count; /* of processes that the last round was about; none when the group did it all */
    uint32_t rounds;
    uint64_t took_us;
    const struct job_identity *job; /* with who of it was found by descent alone; during done() */
};

typedef void still_done_fn(void *data, const struct still_result *result);
struct job_still;
struct job_still *still_start(uv_loop_t *loop, const struct job_identity *job, enum still_way way,
                              still_done_fn *done, void *data);
/* From the next round on; done() says how that ended. */
void still_change(struct job_still *still, enum still_way way);
/* done() does not come. A thaw and a kill go on to their end, the others end with their round; NULL
 * allowed. */
void still_detach(struct job_still *still);

#endif
