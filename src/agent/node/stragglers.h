/* What an application has started and what has left its process group since, in a session or a
 * group of its own: it must not outlive the application either. It is known by the environment that
 * it inherited.
 *
 * Flow     stragglers_kill() looks through /proc once and kills what it finds; stragglers_start()
 *          does that off the loop. Who finds some looks again until there are none: one that was
 *          just killed may have started another.
 * Shapes   one look for each end of an application, and one more for each that found some. It reads
 *          the environment only of living processes of the application's user that were started no
 *          earlier than the application.
 * Errors   what cannot be read just now counts as found.
 * Absent   processes without the variables of ckpt-run: who empties its environment and leaves the
 *          group is not found.
 * Source   I30.
 */
#ifndef CKPT_AGENT_STRAGGLERS_H
#define CKPT_AGENT_STRAGGLERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "src/agent/durable/ledger.h"

struct stragglers {
    char allocation_id[ID_MAX_BYTES + 1];
    char work_dir[LEDGER_WORK_DIR_BYTES];
    uint64_t run;
    uint64_t start_ticks; /* of the application */
    uid_t uid;
};

/* How many there were. */
size_t stragglers_kill(const struct stragglers *stragglers);

struct stragglers_look;
struct stragglers_look *stragglers_start(uv_loop_t *loop, const struct stragglers *stragglers,
                                         void (*done)(void *data, size_t count), void *data);
void stragglers_detach(struct stragglers_look *look); /* NULL allowed; done() does not come */

#endif
