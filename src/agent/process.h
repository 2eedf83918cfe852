/* The application's process group: watched by pidfd, ended by SIGTERM, grace, SIGKILL.
 *
 *            ABSENT --attached--> RUNNING --stop--> TERMINATING --grace over--> KILLING
 *               ^                    |                   |                         |
 *               '------- exited -----'------ group gone -'-------------------------'
 *
 * Flow     process_attached() from ckpt-run's message; process_exited() from its message, or by the pidfd when ckpt-run is gone;
 *          process_stop() by an order or by walltime. The end of a stop is one report: TERMINATED or WALLTIME_KILLED.
 * Shapes   one per allocation, inside it. The pid with its start time names the process; signals go to the group.
 * Errors   a process that does not die after SIGKILL (D state) is logged and waited for: its nodes are not released before.
 * Source   S1-090..S1-093, P-041, F-012, F-013, F-019, F-025; invariants I30, I33.
 */
#ifndef CKPT_AGENT_PROCESS_H
#define CKPT_AGENT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ckpt/v1/common.pb-c.h"

struct allocation;
struct pid_watch;

#define PROCESS_STATES(X) X(ABSENT) X(RUNNING) X(TERMINATING) X(KILLING)
enum process_state {
#define X(name) PROCESS_##name,
    PROCESS_STATES(X)
#undef X
        PROCESS_STATE_COUNT
};

struct process {
    enum process_state state;
    struct pid_watch *watch;
    struct clock_timer *timer;
    uint64_t started_us; /* when it was attached here */
    uint64_t gone_us;    /* the leader was seen dead; 0: not yet */
    uint64_t kill_at_us; /* end of the grace */
    uint64_t killed_us;
    bool walltime;     /* the stop is walltime's, not an order's */
    bool status_known; /* ckpt-run told the wait status */
    int32_t wait_status;
    bool will_restart;
    bool exit_waits; /* the exit is reported after the attempt that still writes */
    uint64_t
        alone_us; /* ABSENT: ckpt-run was to start it again and is away since; 0: nothing is awaited */
};

struct process_identity {
    pid_t pid;
    uint64_t start_ticks;
    uid_t uid;
    gid_t gid;
};

enum { PROCESS_STATUS_UNKNOWN = -1 };

void process_init(struct allocation *allocation);
void process_close(struct allocation *allocation);
/* The application that ckpt-run has just started. */
void process_attached(struct allocation *allocation, const struct process_identity *identity,
                      uint64_t restored_checkpoint_id, bool report);
/* It was to be started again in place, and will not be: the allocation has ended. Nothing when no restart is awaited. */
void process_restart_failed(struct allocation *allocation, const char *why);
/* After the agent's own restart: the one in the journal. */
void process_resume(struct allocation *allocation);
void process_exited(struct allocation *allocation, int32_t wait_status, bool will_restart);
/* walltime: report WALLTIME_KILLED, else TERMINATED. A second stop may shorten the grace, never lengthen it. */
void process_stop(struct allocation *allocation, bool walltime, Ckpt__V1__Reason reason,
                  uint64_t grace_ms);
/* The attempt ended: a report or a stop may have waited for it. */
void process_attempt_ended(struct allocation *allocation);
const char *process_state_name(enum process_state state);
bool process_move_allowed(enum process_state from, enum process_state to);

#endif
