/* What ckptd does about itself as a process: limits, the lag of its loop, a dump of its state.
 *
 * Errors   none of these fails the program, but process_owns().
 * When     process_prepare() and process_owns() before anything is opened; the lag from the moment
 *          at which the loop runs until it is closed.
 * Units    milliseconds, and nanoseconds where a clock is read.
 */
#ifndef CKPT_BROKER_PROCESS_H
#define CKPT_BROKER_PROCESS_H

#include "src/broker/broker.h"

enum {
    PROCESS_LAG_LOG_MS = 10000,
    PROCESS_LAG_STORY_MS = 600000 /* a lag is told of for so long after the last one */
};

/* Ignores SIGPIPE; lifts the soft limit of open files to the hard one. */
void process_prepare(void);
/* That the folder, when it is there, belongs to the user of this process: what another one writes
 * into it (root, for example, who inspects it) the service could not read, and would not start.
 * ERR_INVALID says who has to do it. */
int process_owns(const char *data_dir, struct err *err);
/* One line per part of the state in the log. */
void process_dump(const struct broker *broker);

/* Notices when the loop comes late, with no wake of its own. A turn is late from when the first
 * timer was due, or the loop had served what came, until all due timers have run. Writes
 * counters->loop_lag_* and warns. Late by its own work and late because it waited for a processor
 * or the disk are told apart by the processor time of the loop's thread. */
struct process_lag {
    uv_prepare_t before; /* each wait of the loop */
    uv_check_t after;
    struct broker_counters *counters;
    uint64_t due_ns;            /* from then on the loop is late; UINT64_MAX: nothing is due */
    uint64_t cpu_ns;            /* that the loop's thread had used when due_ns was set */
    uint64_t warned_ms;         /* at most one line per PROCESS_LAG_LOG_MS */
    uint64_t replay_last_index; /* of the log as it was at the start */
};
/* A member that starts applies its whole log in one turn of the loop, before anyone is served:
 * applying up to this index is no stall. */
void process_lag_excuse_replay(struct process_lag *lag, uint64_t last_index);
/* The longest lag worth a warning at this instant of uv_hrtime(); 0: there was none for
 * PROCESS_LAG_STORY_MS. */
uint64_t process_loop_lag_ms(const struct broker_counters *counters, uint64_t now_ms);
/* To be called after each applied entry. */
void process_lag_applied(struct process_lag *lag, uint64_t applied_index);
void process_lag_start(struct process_lag *lag, uv_loop_t *loop, struct broker_counters *counters);
void process_lag_stop(struct process_lag *lag);

#endif
