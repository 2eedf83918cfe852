/* The application's process group as a pure state machine: what is decided when something of it is
 * seen, told or ordered.
 *
 *   ABSENT --started--> RUNNING --seen dead--> ENDED --known how, or nobody tells--> CLEARING --all gone--> HELD --told--> ABSENT
 *                          '<---seen alive-------'
 *   any of these four --stop--> TERMINATING --grace over--> KILLING --all gone--> LEAVING --told--> ABSENT
 *                                    '------------all gone-----------------------------^
 *
 *   ABSENT       nothing of it runs; the entry says whether a start is to come (start_granted,
 *                restart_awaited)
 *   RUNNING      its main process, the one that ckpt-run started, lives
 *   ENDED        its main process is dead, and how it ended is not known: the note of its
 *                ckpt-run is looked for (end_note.h)
 *   CLEARING     what it has left behind is killed: it must not write beside the next run, nor stay
 *                on a node that is given to others
 *   HELD         all of it is gone; its end is told after the checkpoint that is still being
 *                copied, which the restart needs
 *   TERMINATING  SIGTERM was sent, its grace goes on; none for a job that stands still for the
 *                checkpoint with which it ends (attempt_step.h)
 *   KILLING      SIGKILL was sent
 *   LEAVING      stopped, all of it is gone; its note or the end of its checkpoint attempt is
 *                awaited
 *
 * Flow     process_step() takes an event and what was seen just before it (the facts), changes the
 *          process and its entry, and says what is to be done (job_step.h).
 * Units    *_us monotonic.
 * Errors   none: process_check() states which combinations are legal, and holds after each step;
 *          else it is a bug.
 * Absent   I/O, clocks, logs, processes: the lint holds this file to what fsm/ may call.
 * Source   S1-090..S1-093, P-041, F-012, F-013, F-019, F-021, F-025; invariants I30, I33.
 */
#ifndef CKPT_AGENT_PROCESS_STEP_H
#define CKPT_AGENT_PROCESS_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/v1/agent.pb-c.h"
#include "src/agent/durable/end_note.h"
#include "src/agent/durable/ledger.h"
#include "src/agent/job/job_effect.h"

#define PROCESS_STATES(X)                                                                          \
    X(ABSENT) X(RUNNING) X(ENDED) X(CLEARING) X(HELD) X(TERMINATING) X(KILLING) X(LEAVING)
enum process_state {
#define X(name) PROCESS_##name,
    PROCESS_STATES(X)
#undef X
        PROCESS_STATE_COUNT
};

/* Why it is being stopped. A later cause overrules a takeover, nothing overrules the others. */
#define PROCESS_STOP_CAUSES(X) X(ORDER) X(WALLTIME) X(TAKEOVER)
enum process_stop_cause {
#define X(name) STOP_BY_##name,
    PROCESS_STOP_CAUSES(X)
#undef X
        STOP_CAUSE_COUNT
};

/* Stragglers: what it started and what has left its process group. */
enum process_stragglers { STRAGGLERS_UNKNOWN, STRAGGLERS_LOOKED_FOR, STRAGGLERS_GONE };

/* How it ended. */
enum process_end {
    END_UNTOLD,   /* nobody has told, or could */
    END_STATUS,   /* wait_status */
    END_ON_SIGNAL /* status 0 after a signal that ckpt-run passed on: that says nothing of its work, so its status counts as unknown */
};

enum { PROCESS_STATUS_UNKNOWN = -1 };

/* The part that no journal keeps: an agent that restarts begins with RUNNING, or ABSENT. */
struct process {
    enum process_state state;
    enum process_stragglers stragglers;
    enum process_end end;
    int32_t wait_status;          /* PROCESS_STATUS_UNKNOWN but for END_STATUS */
    char why[END_NOTE_WHY_BYTES]; /* END_STATUS: what its ckpt-run says beside that; "": nothing */
    bool will_restart;            /* it is started again in place */
    bool end_asked;               /* somebody had asked its ckpt-run to end it */
    bool note_told;               /* its ckpt-run has said that the note lies in the work folder */
    uint64_t started_us;          /* when it was attached here */
    uint64_t gone_us;             /* its main process was seen dead, or LEAVING began; 0: not yet */
    uint64_t killed_us;           /* of the first SIGKILL; 0: none was sent */
    uint64_t warned_us;           /* that something takes long was logged last */
    uint64_t unattended_us;       /* no ckpt-run is attached since; it may come back */
    uint64_t alone_us;            /* ABSENT: a start is to come and its ckpt-run is away since */
    /* TERMINATING, KILLING, LEAVING */
    enum process_stop_cause cause;
    uint64_t stop_run;   /* of the order */
    uint64_t stop_epoch; /* the latest epoch of such orders; a restarted agent answers once more */
    bool ended_before;   /* its main process had ended by itself when the stop began */
};

struct process_stop_ask {
    enum process_stop_cause cause;
    Ckpt__V1__Reason reason;
    uint64_t grace_ms;
    uint64_t kill_at_us; /* of a stop that goes on; 0: the grace begins now */
    uint64_t run;        /* it and all before end */
    uint64_t epoch;      /* of the order; 0: none */
};

/* What was seen just before the step. What is not looked for in a state is false: see sight.h. */
struct process_facts {
    uint64_t now_us;
    uint64_t wall_ms;
    bool main_alive;
    /* dead, and its parent, which lives, has not taken its status: init would have done so */
    bool unreaped;
    bool group_alive;
    bool attached;       /* a ckpt-run is; and of that one: */
    bool tells;          /* it is the one of the application, and will tell how it ended */
    bool waits;          /* it has none, and waits to start one */
    bool folder_opening; /* the work folder is being opened: the note may be in it */
    bool note_found;     /* of the run that is known here */
    struct end_note note;
    bool attempt_busy; /* this and the next two: job_step() fills them */
    bool stands_still; /* all of it, for a checkpoint with which it is to end */
    bool freezing;     /* ... not all of it yet */
    bool attempt_puts; /* the worker copies the checkpoint of its attempt */
};

enum process_event_kind {
    PROCESS_STARTED, /* ckpt-run has started it; not reported: ...before, unknown to the journal */
    /* the agent has restarted: the one of the entry, or the start that was to come */
    PROCESS_RESUMED,
    PROCESS_LOOK,  /* the timer, or the pidfd, or another step wants to know how it is */
    PROCESS_WOKEN, /* its ckpt-run says that the note is there */
    PROCESS_STRAGGLERS_LOOKED, /* `count` stragglers were found, and killed */
    PROCESS_ATTEMPT_ENDED,     /* a report or a stop may have waited for it */
    PROCESS_UNATTENDED,        /* its ckpt-run has just gone, perhaps to come back */
    PROCESS_STOP,              /* by an order or by walltime: `ask` */
    PROCESS_TAKE_OVER,         /* another ckpt-run has come in the place of one that is gone */
    PROCESS_RESTART_FAILED     /* the start that is awaited, or granted, will not come: `why` */
};

struct process_event {
    enum process_event_kind kind;
    uint32_t pid;                    /* STARTED */
    uint64_t start_ticks;            /* STARTED */
    bool report;                     /* STARTED: the start is told */
    uint64_t restored_checkpoint_id; /* STARTED */
    size_t count;
    struct process_stop_ask ask;
    bool granted;    /* RESTART_FAILED: of the ckpt-run that was told to start it */
    const char *why; /* WOKEN: the note, where it came with the wake, else "" */
};

void process_step(struct process *process, struct ledger_entry *entry,
                  const struct process_event *event, const struct process_facts *facts,
                  struct job_effects *ret_effects);
/* Which combinations of fields are legal; anything else is a bug. */
void process_check(const struct process *process, const struct ledger_entry *entry);

const char *process_state_name(enum process_state state);
const char *process_stop_cause_name(enum process_stop_cause cause); /* "ORDER" */
bool process_move_allowed(enum process_state from, enum process_state to);
/* For the checkpoint attempt that a stop ends. */
Ckpt__V1__Reason process_stop_why(const struct process *process, const struct ledger_entry *entry);
/* For reports: whether somebody had asked for its end, or saw it; the same for people. */
Ckpt__V1__ApplicationEnd process_end(const struct process *process);
const char *process_end_detail(const struct process *process);
/* TERMINATING, KILLING, LEAVING */
bool process_state_stops(enum process_state state);
/* RUNNING, ENDED, CLEARING, HELD: nobody has stopped it */
bool process_state_unstopped(enum process_state state);
uint64_t process_grace_ms(const struct ledger_entry *entry); /* where no order tells it */

#endif
