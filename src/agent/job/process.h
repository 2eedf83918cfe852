/* The application's process group: watched by pidfd, ended by SIGTERM, grace, SIGKILL.
 *
 *            ABSENT --attached--> RUNNING --stop--> TERMINATING --grace over--> KILLING
 *               ^                    |                   |                         |
 *               '------- exited -----'------ group gone -'-------------------------'
 *
 * Flow     process_attached() from ckpt-run's message. The end is seen by the pidfd, by process_woken() and by looking now and then; how it
 *          ended stands in the note that ckpt-run leaves (end_note.h): it is waited for while ckpt-run is attached, else for a
 *          moment, then nobody knows.
 *          process_stop() by an order, by walltime, or because another ckpt-run takes over. The end of a stop is one report:
 *          TERMINATED, WALLTIME_KILLED, or APPLICATION_EXITED: when it is started again, or had finished before the stop.
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
#include "src/agent/node/machine.h"

struct allocation;
struct kin_look;
struct pid_watch;

#define PROCESS_STATES(X) X(ABSENT) X(RUNNING) X(TERMINATING) X(KILLING)
enum process_state {
#define X(name) PROCESS_##name,
    PROCESS_STATES(X)
#undef X
        PROCESS_STATE_COUNT
};

/* Why it is being stopped. A later cause overrules a takeover, nothing overrules the others. */
enum process_stop_cause { STOP_BY_ORDER, STOP_BY_WALLTIME, STOP_BY_TAKEOVER };

struct process {
    enum process_state state;
    struct pid_watch *watch;
    struct clock_timer *timer;
    uint64_t started_us; /* when it was attached here */
    uint64_t gone_us;    /* the leader was seen dead; 0: not yet */
    uint64_t killed_us;
    enum process_stop_cause cause; /* TERMINATING, KILLING */
    uint64_t stop_life;            /* of the order */
    uint64_t stop_epoch; /* the latest epoch of such orders; a restarted agent answers once more */
    bool ended_before;   /* the leader had ended by itself when the stop began */
    bool status_known;   /* ckpt-run told the wait status */
    int32_t wait_status;
    bool
        told_to_end; /* from outside, before it ended by itself with status 0: that says nothing of its work */
    bool will_restart;
    bool woken;             /* ckpt-run has said that the note is there */
    uint64_t untold_us;     /* since it is logged that how it ended was not told yet */
    bool remains;           /* the leader has ended, what it left behind is being killed */
    bool kin_gone;          /* its group has gone, and nothing that left it is there */
    struct kin_look *look;  /* for such */
    bool exit_waits;        /* the exit is reported after the attempt that still writes */
    uint64_t unattended_us; /* no ckpt-run is attached since; it may come back */
    uint64_t alone_us;      /* the entry's restart is awaited, and its ckpt-run away, since */
};

struct process_stop_ask {
    enum process_stop_cause cause;
    Ckpt__V1__Reason reason;
    uint64_t grace_ms;
    uint64_t kill_at_us; /* of a stop that goes on; 0: the grace begins now */
    uint64_t life;       /* it and all before end */
    uint64_t epoch;      /* of the order; 0: none */
};

struct process_identity {
    pid_t pid;
    uint64_t start_ticks;
    struct machine_user user;
};

enum { PROCESS_STATUS_UNKNOWN = -1 };

void process_init(struct allocation *allocation);
void process_close(struct allocation *allocation);
/* The application that ckpt-run has just started. */
void process_attached(struct allocation *allocation, const struct process_identity *identity,
                      uint64_t restored_checkpoint_id, bool report);
/* It was to be started again in place, and will not be: the allocation has ended. Nothing when no restart is awaited. */
void process_restart_failed(struct allocation *allocation, const char *why);
/* After the agent's own restart: the one in the journal, or the start that was awaited. */
void process_resume(struct allocation *allocation);
/* ckpt-run says that it has left its note (end_note.h), or that it could not: then it is `note`, else "". The application has ended, or could
 * not be started; or its end had to be told before without its status, and it turns out that the work was done. */
void process_woken(struct allocation *allocation, const char *note);
/* The allocation ends, by an order or by walltime. A second stop may shorten the grace, never lengthen it. */
void process_stop(struct allocation *allocation, const struct process_stop_ask *ask);
/* Where nobody tells another one. */
uint64_t process_own_grace_ms(const struct allocation *allocation);
/* ckpt-run is gone for good and another one has come: this life of the application ends, the allocation goes on.
 * False when it is being stopped already. */
bool process_take_over(struct allocation *allocation);
/* Its ckpt-run has just gone, perhaps to come back. */
void process_unattended(struct allocation *allocation);
/* It runs, and its ckpt-run has not come back in the time that one needs for it. */
bool process_abandoned(const struct allocation *allocation);
bool process_stopping(const struct allocation *allocation);
/* For an attempt that the stop ends. */
Ckpt__V1__Reason process_stop_reason(const struct allocation *allocation);
/* The attempt ended: a report or a stop may have waited for it. */
void process_attempt_ended(struct allocation *allocation);
const char *process_state_name(enum process_state state);
bool process_move_allowed(enum process_state from, enum process_state to);

#endif
