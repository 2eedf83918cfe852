/* One checkpoint attempt of a job as a pure state machine, from the order to its one report.
 *
 *   NONE --order--> WAITING --handler is there--> ASKING --asked--> ASKED --sentinel--> PUTTING
 *    ^                 |  '--> STAGING --> STAGED --^  its time       |  ^                 |
 *    |<--refused, told-'                            '---- DEFERRED <--|  |                 |
 *    |                                                    not yet     |  |                 |
 *    |   NONE --agent restarts, files are being moved aside--> REMOVING
 *    |   NONE --agent restarts--> RESUMING --folder is open, not lost-|--'                 |
 *    |                                BROKEN <--its call broke--------'                    |
 *    |                                  '--sentinel--> PUTTING                             |
 *    |                                                             given up                |
 *    '--all gone, told-- REMOVING <--- ABANDONING <--- HALTING <---------------------------|
 *                            ^              ^-- failed, something may be at the destination|
 *                            '-- failed before; verified, told at once --------------------'
 *
 *   WAITING      for the application, and for its handler
 *   STAGING      the journal has it; a worker makes the folder that the application is to write
 *                into, at the destination or in the node's memory. Killed, it goes by HALTING
 *   STAGED       the same as WAITING, with that folder, which goes by ABANDONING or REMOVING
 *   ASKING       the journal has it; the request is being written and the signal sent, or the call
 *                made
 *   ASKED        the application writes; its sentinel, or that of each of its ranks (ranks_step.h),
 *                is looked for
 *   BROKEN       its call ended without an answer: a moment for the end of the application to be
 *                seen, which explains it
 *   DEFERRED     the application wants to be asked again later
 *   RESUMING     of an agent that restarted while it was ASKED or being put, until the work folder
 *                is open, or cannot be
 *   FREEZING     all is written, and its application is to end when the checkpoint is complete: it
 *                is made to stand still, so that it computes nothing that nobody has
 *   PUTTING      the worker copies what was written and verifies it
 *   STILL        told as verified: the application stands still until the cluster ends it, or takes
 *                the order back, since the checkpoint failed elsewhere; then it goes on
 *   HALTING      the worker was killed, and is waited for
 *   ABANDONING   the worker removes what is half-written at the destination
 *   REMOVING     what was written on this node is removed, or moved aside as the node's own copy
 *                (copies.h); a failure is told after that
 *
 * Flow     attempt_step() takes an event and what was seen just before it, changes the attempt and
 *          the entry, and says what is to be done. The signal of a given (id, attempt) is sent at
 *          most once, ever: the journal is written first.
 * Errors   every end is a report: SHARD_VERIFIED, CHECKPOINT_FAILED with its reason, or
 *          STOPPED_WRITING for a withdrawn one. attempt_check() holds after each move.
 * Absent   I/O, clocks, logs: the lint holds this file to what fsm/ may call.
 * Source   S1-031..S1-042, P-040, P-043, decision 14; invariants I22, I27, I34.
 */
#ifndef CKPT_AGENT_ATTEMPT_STEP_H
#define CKPT_AGENT_ATTEMPT_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/v1/agent.pb-c.h"
#include "src/agent/durable/ledger.h"
#include "src/agent/job/job_effect.h"
#include "src/agent/job/ranks_step.h"
#include "src/ask/sentinel.h"

/* For a handler, after the start of the application and after the order. */
enum { ATTEMPT_HANDLER_WAIT_US = 5000000 };

#define ATTEMPT_TOLD_MAX_MS UINT64_C(604800000) /* 7 days, the longest timeout of a policy */

#define ATTEMPT_STATES(X)                                                                          \
    X(NONE)                                                                                        \
    X(WAITING)                                                                                     \
    X(STAGING)                                                                                     \
    X(STAGED)                                                                                      \
    X(ASKING)                                                                                      \
    X(ASKED)                                                                                       \
    X(BROKEN)                                                                                      \
    X(DEFERRED)                                                                                    \
    X(RESUMING) X(FREEZING) X(PUTTING) X(STILL) X(HALTING) X(ABANDONING) X(REMOVING)
enum attempt_state {
#define X(name) ATTEMPT_##name,
    ATTEMPT_STATES(X)
#undef X
        ATTEMPT_STATE_COUNT
};

struct attempt_outcome {
    Ckpt__V1__ReportKind kind;
    Ckpt__V1__Reason reason;
    char detail[JOB_DETAIL_BYTES];
};

/* How a put ended. */
struct attempt_put {
    bool verified;
    Ckpt__V1__Reason reason; /* else */
    char detail[JOB_DETAIL_BYTES];
    uint64_t size_bytes;
    uint64_t written_bytes; /* the rest of them is shared with an earlier checkpoint */
    uint64_t write_ms;
    char manifest_sha256[JOB_MANIFEST_BYTES];
    bool manifest_left; /* beside the files: they can be kept as a copy */
};

/* The part that no journal keeps: an agent that restarts begins with RESUMING, DEFERRED or NONE. */
struct attempt {
    enum attempt_state state;
    uint64_t checkpoint_id;
    uint32_t attempt;
    uint32_t part; /* the place of this node among those of the checkpoint */
    uint64_t run;  /* that was ordered to */
    Ckpt__V1__AfterCheckpoint after;
    uint64_t timeout_ms;
    uint64_t longest_deferral_ms; /* of any node, as far as timeout_ms has it */
    uint64_t max_deferral_ms;
    uint64_t granted_bytes_per_s;
    Ckpt__V1__ReadBack read_back;      /* as the target has it */
    uint32_t generations;              /* likewise */
    Ckpt__V1__Compression compression; /* as the target has it */
    Ckpt__V1__Staging staging; /* as ordered; from STAGING or ASKING on, as it is done here */
    uint64_t cluster_mark;     /* left beside what is written */
    bool wipe;                 /* as ordered: its job is sensitive */
    bool extended;
    Ckpt__V1__BarrierPhase barrier; /* as ordered last */
    uint64_t agreed_step;           /* 0: not agreed */
    char target_prefix[LEDGER_PREFIX_BYTES];
    char path[LEDGER_PATH_BYTES]; /* of the checkpoint, without this node's folder */
    char hint[HINT_TEXT_BYTES];
    char directory[LEDGER_PATH_BYTES + LEDGER_STAGED_BYTES]; /* that the application writes into */
    uint64_t seen_at_us;                                     /* of the order */
    uint64_t done_at_us;    /* of the sentinel; 0: it has not come */
    uint64_t stall_ms;      /* from the question to the sentinel; 0: it came when nobody looked */
    bool stall_told;        /* by the application, whose word it is: it knows when it computed */
    uint64_t saved_at_ms;   /* of the state, as told; 0: that of the question */
    uint64_t alive_us;      /* of the last sign of life on the call; 0: none */
    uint64_t told_write_ms; /* as reported, what it expects from the question on; 0: not told */
    uint32_t told_count;    /* of these reports */
    uint64_t unfinished_us; /* since when a sentinel is there that lacks something; 0: none is */
    uint64_t told_bytes;    /* in it, or by all ranks: at least these must arrive */
    char label[LABEL_MAX_BYTES + 1]; /* what was saved, as all of them say; "": none told */
    uint64_t said_us;                /* of its standing still, last, or since then it does */
    uint64_t progress;               /* of the application's files in the middle of the timeout */
    bool progress_taken;
    bool answer_told;               /* to the state, in time, that the application has answered */
    bool put_started;               /* there may be something of it at the destination */
    struct attempt_outcome outcome; /* of a failure: told after REMOVING; BROKEN: how */
};

/* What the ranks with streams have said to the open question. */
struct barrier_facts {
    bool takes_part;      /* one of them meets the others at a step */
    bool aware;           /* all that do have said at which step they are... */
    char awaited[80];     /* ... else who has not, by number */
    uint64_t step;        /* ... and this is the first that all of them can meet */
    bool missed;          /* one was beyond the agreed step already: */
    uint32_t rank;        /* this one, */
    uint64_t missed_step; /* at this step */
};

/* What was seen just before the step. What is not looked for in a state is 0: see sight.h. */
struct attempt_facts {
    uint64_t now_us;
    uint64_t wall_ms;
    /* of the process; job_step() fills these */
    bool runs;
    bool stopping;
    Ckpt__V1__Reason stop_reason;
    uint64_t started_us;
    /* seen */
    bool other_run;    /* what runs is of another run than the orders' */
    bool attached;     /* a ckpt-run is */
    bool takes_direct; /* WAITING: applications can write to the destination by themselves */
    /* WAITING: the user's folder in the node's memory ("": it has none for checkpoints), and how
     * many bytes nobody else is to write there */
    char memory[LEDGER_WORK_DIR_BYTES];
    uint64_t memory_room;
    bool folder_opening;    /* the work folder is being opened */
    bool looking;           /* whether it can be asked is being looked at */
    bool opening;           /* it cannot, and will say when it can */
    Ckpt__V1__Reason ready; /* NONE: it can be asked now; else why not, as a failure names it */
    enum ask_answer answer;
    struct sentinel sentinel;
    bool by_command; /* with `answer`: its status is a whole sentence, on a command of the owner */
    char text[JOB_DETAIL_BYTES];     /* of `ready` or `answer` */
    const struct ranks_table *ranks; /* with `ready` NONE: who is to be asked; NULL: the group */
    const struct rank_fact *answers; /* of each rank, instead of `answer`; NULL: it has none */
    struct barrier_facts barrier;    /* RESUMING, ASKING, ASKED */
    bool prepared;                   /* its request is there */
    const char *lost;        /* what is asked cannot be heard any more, and why; NULL: it can */
    uint64_t growth;         /* changes as the application writes */
    uint64_t copy_max_bytes; /* of what was written and is kept here; 0: nothing is */
};

enum attempt_event_kind {
    ATTEMPT_START,   /* by an order */
    ATTEMPT_RESUME,  /* the agent has restarted, and the journal has it */
    ATTEMPT_CANCEL,  /* the order was withdrawn */
    ATTEMPT_EXTEND,  /* the order has more time */
    ATTEMPT_HURRY,   /* DEFERRED: its application is asked again now, and must begin */
    ATTEMPT_AFTER,   /* with its order: its application is to end with it, which it was not */
    ATTEMPT_TICK,    /* its timer */
    ATTEMPT_BARRIER, /* a rank has said at which step it is; with an order: its barrier has moved */
    ATTEMPT_CHANGED, /* the work folder, or the call says that there is an answer */
    ATTEMPT_LOOKED,  /* at the work folder or the socket: open, or not */
    ATTEMPT_STAGE_ENDED, /* STAGING: text is the folder's name at the destination; with a reason:
                            why there is none */
    ATTEMPT_FIRED,       /* the application was asked */
    ATTEMPT_UNASKED,     /* it could not be: reason and text */
    ATTEMPT_ALIVE,       /* a sign of life on the call */
    ATTEMPT_ESTIMATE,    /* likewise: it expects to write for estimate_ms more,
                          * 1 to ATTEMPT_TOLD_MAX_MS */
    ATTEMPT_DEFER,       /* it asks for defer_ms */
    ATTEMPT_BROKE,       /* the call, without an answer: reason and text */
    ATTEMPT_FROZEN,      /* the whole job stands still */
    ATTEMPT_UNFROZEN,    /* it could not be made to: text; what of it does is to be thawed */
    ATTEMPT_THAWED,
    ATTEMPT_PUT_ENDED,
    ATTEMPT_ABANDONED,
    ATTEMPT_REMOVED,
    ATTEMPT_GONE,   /* the application: what is not with the worker yet is lost */
    ATTEMPT_GIVE_UP /* no more time: also what is with the worker is; reason */
};

struct attempt_event {
    enum attempt_event_kind kind;
    const Ckpt__V1__Order *order; /* START, EXTEND, HURRY, AFTER */
    Ckpt__V1__Reason reason;
    uint64_t defer_ms, estimate_ms;
    union {
        char text[JOB_DETAIL_BYTES];
        struct attempt_put put;
    };
};

void attempt_step(struct attempt *attempt, struct ledger_entry *entry,
                  const struct attempt_event *event, const struct attempt_facts *facts,
                  struct job_effects *ret_effects);
/* What holds in its state; anything else is a bug. */
void attempt_check(const struct attempt *attempt, const struct ledger_entry *entry);

const char *attempt_state_name(enum attempt_state state);
bool attempt_move_allowed(enum attempt_state from, enum attempt_state to);
/* HALTING, ABANDONING, REMOVING: it is on its way out */
bool attempt_state_cleans(enum attempt_state state);
bool attempt_busy(const struct attempt *attempt);
/* WAITING, STAGED: its application is to be asked as soon as it can be */
bool attempt_awaits(const struct attempt *attempt);
/* Its application does not write into the work folder. */
bool attempt_elsewhere(const struct ledger_entry *entry);
/* Files of the attempt are being written, copied or removed: the work folder is in use. */
bool attempt_writes(const struct attempt *attempt);
/* As attempt_step() asks for the one extension (P-040). */
bool attempt_may_be_extended(const struct attempt *attempt, const struct ledger_entry *entry);
bool attempt_told_progress(const struct attempt *attempt, const struct ledger_entry *entry);
bool attempt_near_the_end(const struct attempt *attempt, const struct ledger_entry *entry,
                          uint64_t now_us);
bool attempt_second_half(const struct attempt *attempt, const struct ledger_entry *entry,
                         uint64_t now_us);
/* The step will compare how much the application has written. */
bool attempt_wants_growth(const struct attempt *attempt, const struct ledger_entry *entry,
                          uint64_t now_us);
/* How its put is to write: as the order says, kept in the journal for an agent that restarts. */
void attempt_order_put(struct attempt *attempt, const Ckpt__V1__Order *order);
void attempt_keep_put(const struct attempt *attempt, struct ledger_entry *entry);
void attempt_resume_put(struct attempt *attempt, const struct ledger_entry *entry);
/* When the application was told to begin, as far as it did not put it off. */
uint64_t attempt_begun_us(const struct ledger_entry *entry);
/* The application stood still until its sentinel came, which is now. 0: not measured, since an
 * agent that has restarted finds the sentinel without knowing when it came: the time without an
 * agent is no stall. */
uint64_t attempt_stall_ms(const struct attempt *attempt, const struct ledger_entry *entry,
                          uint64_t now_us);

/* Of what was asked for; `used` of `max` are. Not below a 32nd of max and a second: each is a
 * report that is replicated. */
uint64_t deferral_granted(uint64_t asked_ms, uint64_t used_ms, uint64_t max_ms);
/* Nodes put an attempt off side by side: a timeout that has the longest deferral so far, and one
 * more. */
void deferral_count(uint64_t *timeout_ms, uint64_t *longest_ms, uint64_t deferred_ms);

#endif
