/* One checkpoint attempt of an allocation: from the order to its one report.
 *
 * Flow     attempt_start -> (application there? handler there?) -> journal -> request, signal or call -> STARTED -> sentinel -> worker `put`
 *          -> SHARD_VERIFIED; every end passes through CLEANING, which removes what was written on this node and, after a failure,
 *          what is half-written at the destination; a failure is reported after it.
 *
 *                                             DEFERRED
 *                                       call: later | ^ ...and asked again
 *                                                   v |
 *            NONE --start--> WAITING --asked----> ASKED --sentinel--> PUTTING
 *             ^                |                      |                    |
 *             |<--refused------'                      | failed             | verified (reported at once), failed
 *             |                                       v                    v
 *             '--- everything local removed ------- CLEANING <-------------'
 *
 *          An agent that restarts while an attempt is ASKED or was being put is RESUMING until the work folder is open, or cannot be:
 *          NONE -> RESUMING -> ASKED, or CLEANING when it is withdrawn meanwhile.
 *
 * Shapes   one per allocation, inside it. The signal of a given (id, attempt) is sent at most once, ever: the journal is written first.
 * Errors   every end is a report: SHARD_VERIFIED, CHECKPOINT_FAILED with its reason, or STOPPED_WRITING for a withdrawn one.
 * Source   S1-031..S1-033, P-040, decision 14; invariants I22, I27, I34.
 */
#ifndef CKPT_AGENT_ATTEMPT_H
#define CKPT_AGENT_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/v1/agent.pb-c.h"
#include "src/agent/durable/ledger.h"
#include "src/agent/node/asked.h"
#include "src/ask/sentinel.h"

struct allocation;
struct ask_call;
struct ask_ops;
struct folder_watch;
struct cleanup;
struct put_job;
struct worker;

#define ATTEMPT_STATES(X) X(NONE) X(WAITING) X(ASKED) X(DEFERRED) X(PUTTING) X(CLEANING) X(RESUMING)
enum attempt_state {
#define X(name) ATTEMPT_##name,
    ATTEMPT_STATES(X)
#undef X
        ATTEMPT_STATE_COUNT
};

enum { ATTEMPT_DETAIL_BYTES = 200 };

struct attempt_outcome {
    Ckpt__V1__ReportKind kind;
    Ckpt__V1__Reason reason;
    char detail[ATTEMPT_DETAIL_BYTES];
};

struct attempt {
    enum attempt_state state;
    uint64_t checkpoint_id;
    uint32_t attempt;
    uint64_t life; /* that was ordered to */
    uint64_t timeout_ms;
    uint64_t longest_deferral_ms; /* of any node, as far as timeout_ms has it */
    uint64_t max_deferral_ms;
    uint64_t granted_bytes_per_s;
    bool extended;
    char target_prefix[LEDGER_PREFIX_BYTES];
    char path[LEDGER_PATH_BYTES]; /* of the checkpoint, without this node's folder */
    char hint[HINT_TEXT_BYTES];
    char directory[LEDGER_WORK_DIR_BYTES + HINT_TEXT_BYTES + 8];
    const struct ask_ops *ask;
    struct asked asked;    /* whom `ask` has before it, as it was last */
    struct ask_call *call; /* NULL: none is open */
    bool broken;           /* it ended without an answer: `outcome` says how */
    uint64_t alive_us;     /* of the last sign of life on it; 0: none */
    struct folder_watch *watch;
    struct clock_timer *timer;
    uint64_t seen_at_us;    /* of the order */
    uint64_t done_at_us;    /* of the sentinel */
    uint64_t unfinished_us; /* since when a sentinel is there that lacks something; 0: none is */
    uint64_t told_bytes;    /* in it: at least these must arrive */
    uint64_t progress;      /* of the application's files in the middle of the timeout */
    bool progress_taken;
    struct worker *worker;
    struct put_job *put_job; /* what the worker calls back with */
    struct cleanup *cleanup;
    bool put_started;               /* there may be something of it at the destination */
    bool reported;                  /* CLEANING only removes what is left */
    struct attempt_outcome outcome; /* to be reported after CLEANING */
};

void attempt_init(struct allocation *allocation);
void attempt_close(struct allocation *allocation);
void attempt_start(struct allocation *allocation, const Ckpt__V1__Order *order);
/* The journal says that an attempt was in progress when the agent ended. */
void attempt_resume(struct allocation *allocation);
/* The order was withdrawn. */
void attempt_cancel(struct allocation *allocation);
void attempt_extend(struct allocation *allocation, const Ckpt__V1__Order *order);
/* DEFERRED: its application is asked again now, and must begin. */
void attempt_hurry(struct allocation *allocation);
/* The application ended, or its grace did: what is not with the worker yet is lost. */
void attempt_application_gone(struct allocation *allocation);
/* No more time: also what is with the worker is given up. */
void attempt_give_up(struct allocation *allocation, Ckpt__V1__Reason reason);
/* The work folder or the socket has been looked at: open, or not. */
void attempt_path_looked(struct allocation *allocation);
bool attempt_busy(const struct attempt *attempt);
/* Files of the attempt are being written, copied or removed: the work folder is in use. */
bool attempt_writes(const struct attempt *attempt);
const char *attempt_state_name(enum attempt_state state);
/* What holds in its state: asked after each move; anything else is a bug. */
void attempt_check(const struct attempt *attempt, const struct ledger_entry *entry);
bool attempt_move_allowed(enum attempt_state from, enum attempt_state to);

#endif
