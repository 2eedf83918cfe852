/* What the agent must remember through its own death: fencing, each allocation's process, attempt
 * and walltime, and the reports that are not acknowledged yet.
 *
 * Flow     ledger_open() replays the journal; ledger_commit() stores an allocation's entry and a
 *          report in one record, so that an attempt never ends without its report. The session
 *          begins with ledger_align(), sends reports in order and drops them by
 *          ledger_acknowledge().
 * Shapes   the ledger owns its copies; pointers handed out live until the next change. Limits
 *          below.
 * Units    *_us on the machine's monotonic clock, which outlives the process but not the boot:
 *          ledger_open() forgets them when the boot id differs.
 * Errors   any failed change: the caller stops the program (the disk no longer tells the truth).
 * Source   invariants I22 (once per attempt), I25 (fencing), F-025 (re-attach); journal.h for the
 *          file, ledger_record.h for its records.
 */
#ifndef CKPT_AGENT_LEDGER_H
#define CKPT_AGENT_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"
#include "src/base/id.h"
#include "src/base/list.h"

enum {
    LEDGER_ENTRIES_MAX = 4096,
    LEDGER_REPORTS_MAX = 65536,
    LEDGER_REPORT_MAX_BYTES = 4096,
    LEDGER_TAKEN_MAX = 64, /* reports that the broker has taken and the file does not say so of */
    LEDGER_PATH_BYTES = 2048,
    LEDGER_PREFIX_BYTES = 1025,
    LEDGER_WORK_DIR_BYTES = 1024,
    LEDGER_GROUPS_BYTES = 1024,
    LEDGER_FAILED_BYTES = 272,
    LEDGER_RANKS_MAX = 256, /* of one job: as many as the broker takes of a node */
    LEDGER_STRAYS_MAX = 64, /* of one job: beyond these nobody is remembered */
    LEDGER_CGROUP_BYTES = 768,
    LEDGER_COPIES_MAX = 3, /* of one job: the last complete one, the next, one that goes */
    LEDGER_MANIFEST_BYTES = 72,
    LEDGER_STAGED_BYTES = 200,
    LEDGER_ENDPOINT_BYTES = 128 /* a unix socket's path has at most 107 */
};

enum attempt_phase {
    PHASE_NONE = 0,
    /* about to write the request and send the signal: after a crash it may or may not have
     * happened */
    PHASE_ASKING = 1,
    PHASE_ASKED = 2,
    PHASE_ENDED = 3,
    PHASE_DEFERRED = 4 /* the application wants to be asked again, at deferred_until_us */
};

/* How a rank became known. */
enum rank_by {
    RANK_BY_GROUP = 0,       /* nothing numbers any: the whole job is the one rank */
    RANK_BY_ENVIRONMENT = 1, /* its launcher's variable names it */
    RANK_BY_STREAM = 2       /* it said so itself, on its own stream */
};

/* Where a rank is, of the attempt that is journalled with it. */
enum rank_state {
    RANK_SEEN = 0,  /* it is to be asked */
    RANK_TOLD = 1,  /* it was asked */
    RANK_AWARE = 2, /* it said at which step it is */
    RANK_DUE = 3,   /* it has reached the agreed one: it saves */
    RANK_DONE = 4,
    RANK_GONE = 5,    /* its process ended before it was done */
    RANK_REFUSED = 6, /* it said why it cannot save */
    RANK_MISSED = 7   /* it was beyond the agreed step already */
};

/* What was reported of the attempt's barrier. */
enum barrier_told {
    BARRIER_UNTOLD = 0,
    BARRIER_TOLD_AWARE = 1, /* all its ranks know that they are asked */
    BARRIER_TOLD_STEP = 2   /* the first step that all of them can meet */
};

/* Of a job with a checkpoint that is to end it. */
enum standing {
    STANDING_NOT = 0,
    STANDING_STILL = 1,  /* it is, or is about to be, frozen, since its last rank was done */
    STANDING_LET_GO = 2, /* it goes on, or is about to: an agent that restarts lets it go again */
};

struct ledger_rank {
    uint32_t number; /* as its launcher numbers it, over all nodes */
    uint32_t pid;
    uint32_t by;    /* enum rank_by */
    uint32_t state; /* enum rank_state */
    bool barrier;   /* it meets the others at a step, also when its stream is away */
    uint64_t start_ticks;
    uint64_t bytes;                  /* DONE: that it wrote */
    char label[LABEL_MAX_BYTES + 1]; /* DONE: what it saved; "": it told none */
};

/* A process that belongs to the job, which neither its group nor its environment tells. */
struct ledger_stray {
    uint32_t pid;
    uint64_t start_ticks;
};

/* Of what the node keeps of a checkpoint that the job wrote here.
 *
 *   MAKING --moved aside--> HERE --not wanted, lost, no room--> GOING --removed--> no record
 *      '---------- it could not be -------------------------------^
 */
enum copy_state {
    COPY_MAKING = 1, /* its files are being moved out of the work folder, or were */
    COPY_HERE = 2,   /* reported as kept */
    COPY_GOING = 3   /* being removed; reported, where it was still wanted */
};

struct ledger_copy {
    uint64_t checkpoint_id;
    uint32_t part;
    uint32_t state; /* enum copy_state */
    uint32_t uid;   /* whose files they are: nobody else begins from them */
    uint32_t gid;
    uint64_t size_bytes;
    char manifest_sha256[LEDGER_MANIFEST_BYTES];
    /* they lie in copies/CHECKPOINT/PART below it: a work folder, or a user's in the memory */
    char work_dir[LEDGER_WORK_DIR_BYTES];
    uint64_t report_sequence; /* HERE: that told so */
};

/* The steps that a rank has said (src/agent/job/pace_kept.h). */
struct ledger_pace {
    uint32_t number, pid;
    uint32_t gap_p99_ms; /* 0: there was none yet */
    uint64_t start_ticks;
    uint64_t step; /* the least that it had come to */
    uint64_t ns_per_step;
};

/* start_ticks that no process has: of one that ran before the machine was booted. */
#define LEDGER_NEVER_STARTED UINT64_MAX

/* The way of asking was chosen by ... Kept in journals: append only. */
enum way_open {
    WAY_NAMED,  /* its registration, or ckpt-run */
    WAY_OPEN,   /* nobody: the application may by registering */
    WAY_SOUGHT, /* ... or by shared memory, which it is given (--profile auto) */
    WAY_OUTSIDE /* ... and it has shown none: it is saved from outside, as the policy allows */
};

struct ledger_entry {
    char allocation_id[ID_MAX_BYTES + 1];
    /* the application; pid 0: none */
    uint32_t pid;
    uint32_t uid;
    uint32_t gid;
    char groups[LEDGER_GROUPS_BYTES]; /* supplementary: "27,1001" */
    uint64_t start_ticks;             /* with pid 0: of one whose end nobody saw; 0: none */
    uint64_t started_at_ms;
    char profile[ID_MAX_BYTES + 1];
    uint32_t way_open;              /* enum way_open */
    char outside[ID_MAX_BYTES + 1]; /* the profile of WAY_OUTSIDE, where it may come to that; "" */
    char outside_endpoint[LEDGER_ENDPOINT_BYTES];
    bool imported; /* its last ckpt-run here has brought the files of an import */
    char work_dir[LEDGER_WORK_DIR_BYTES];
    /* the highest attempt ever started; checkpoint_id 0: none */
    uint64_t checkpoint_id;
    uint32_t attempt;
    uint32_t phase;
    uint64_t asked_at_us;
    uint64_t timeout_ms;
    uint64_t granted_bytes_per_s;
    uint32_t read_back; /* of the order: a ReadBack */
    uint32_t generations;
    uint32_t staging;     /* of the attempt: a Staging, as it is done here */
    uint32_t compression; /* of the order: a Compression */
    /* DIRECT: the hidden folder in `path` that its application writes into; "": none yet */
    char staged[LEDGER_STAGED_BYTES];
    /* MEMORY: the user's folder there, out/HINT below which its application writes into; "": it
     * does not write there */
    char memory[LEDGER_WORK_DIR_BYTES];
    uint64_t cluster_mark;
    bool wipe; /* of the order: its job is sensitive */
    bool extended;
    bool responsive_reported;
    char target_prefix[LEDGER_PREFIX_BYTES];
    char path[LEDGER_PATH_BYTES];
    /* The run that may run here, as a leader named it last (0: none is to), with its walltime;
     * deadline_us 0: none */
    uint64_t named_run;
    uint64_t told_epoch; /* of the state from which that was told */
    uint64_t told_index; /* likewise */
    uint64_t deadline_us;
    uint64_t walltime_ms;
    uint64_t grace_ms;
    /* the allocation is over on this node: its application must not be started again */
    bool ended;
    bool terminated; /* the order to terminate was reported as carried out */
    uint32_t end_reason;
    /* src/base/id.h */
    uint64_t run;       /* that its application is, or was last, started for; 0: none was */
    uint64_t ended_run; /* it and all before are over here; 0: none that is known */
    /* the gRPC way */
    /* "unix:PATH" that its application registered; "": none */
    char endpoint[LEDGER_ENDPOINT_BYTES];
    uint64_t max_deferral_ms;     /* of the attempt, as ordered */
    uint64_t deferred_ms;         /* of that used */
    uint64_t deferred_until_us;   /* when it is, or was last, asked again; 0: it did not defer */
    uint64_t longest_deferral_ms; /* of any node: as much of timeout_ms */
    /* ends */
    uint64_t kill_at_us; /* end of the grace of the stop that is under way; 0: none, or not known */
    bool start_granted;  /* a ckpt-run was told to start it, and nothing is heard of that yet */
    bool restart_awaited; /* its application's end was told with another start, which is to come */
    int32_t awaited_status; /* the wait status of that end */
    /* Whose it is on this node, until it is forgotten: of the user that the registration names,
     * else of who came first. */
    bool owned;
    uint32_t owner_uid;
    char owner[ID_MAX_BYTES + 1]; /* the registered name of that user; "": it came first */
    /* What the owner is told, wall clock. */
    uint64_t ended_at_ms;     /* of the application that ran last; 0: none has ended here */
    uint32_t ended_status;    /* its wait status; UINT32_MAX: not known */
    uint64_t last_checkpoint; /* that was written, or restored from, here; 0: none */
    uint64_t last_at_ms;      /* the instant that it holds */
    uint64_t last_bytes;      /* of this node's part; 0: not known */
    char last_path[LEDGER_PATH_BYTES]; /* of what of it was written or restored here */
    uint64_t failed_checkpoint;        /* the last that failed; 0: none has */
    uint32_t failed_attempt;
    uint64_t failed_at_ms;
    char failed_text[LEDGER_FAILED_BYTES];
    /* its place in the run */
    uint32_t part;
    uint32_t parts;                   /* 0: not known */
    char cgroup[LEDGER_CGROUP_BYTES]; /* the folder of its own; "": none */
    uint32_t owner_rule;              /* ckpt.v1.OwnerRule, as told last */
    uint64_t named_restart;           /* the checkpoint that named_run begins from; 0: scratch */
    /* of the attempt */
    uint32_t attempt_part;   /* its place in the checkpoint */
    uint32_t still;          /* enum standing */
    uint32_t after;          /* ckpt.v1.AfterCheckpoint */
    uint32_t barrier_told;   /* enum barrier_told */
    uint32_t ranks_all;      /* on all nodes, as the launcher of those here counts; 0: not told */
    uint32_t ranks_declared; /* that the user said there are on this node; 0: nothing said */
    bool asks_group;         /* it is asked as a whole, as its user said */
    bool asks_started;       /* ... or its main process alone, which saves for all */
    uint32_t ask_signal;     /* in the place of its profile's; 0: that one */
    uint32_t stray_count;    /* of those that were made to stand still */
    struct ledger_stray strays[LEDGER_STRAYS_MAX];
    uint32_t copy_count; /* in the order in which they were written */
    struct ledger_copy copies[LEDGER_COPIES_MAX];
    uint32_t rank_count; /* as they were asked, by rising number */
    struct ledger_rank ranks[LEDGER_RANKS_MAX];
    uint32_t pace_count; /* of ranks that say their steps, by rising number */
    struct ledger_pace paces[LEDGER_RANKS_MAX];
};

struct ledger_report {
    struct list node;
    uint64_t sequence;
    uint64_t since_us; /* what it tells of was asked, or started; 0: the report carries no age */
    size_t length;
    uint8_t bytes[]; /* packed ckpt.v1.AgentReport; its own sequence field is set when it is sent */
};

struct ledger;
struct disk_ops;

/* Refuses the folder of another node: its reports and its fence are not this one's. */
int ledger_open(const struct disk_ops *disk, const char *folder, const char *node_id,
                const char *boot_id, struct ledger **ret_ledger, struct err *err);
void ledger_close(struct ledger *ledger); /* NULL allowed */

/* ---- fencing ---- */
struct fence {
    uint64_t epoch;
    uint64_t term;
};
struct fence ledger_fence(const struct ledger *ledger);
bool ledger_fence_refuses(const struct ledger *ledger, struct fence fence);
/* Durable when it returns 0; nothing to do when the fence is not above the one kept. */
int ledger_raise_fence(struct ledger *ledger, struct fence fence, struct err *err);

/* ---- allocations ---- */
const struct ledger_entry *ledger_find(const struct ledger *ledger, const char *allocation_id);
void ledger_set_user(struct ledger_entry *entry, uint32_t uid, uint32_t gid, const char *groups);
/* In order of first appearance; NULL starts and ends. */
const struct ledger_entry *ledger_next(const struct ledger *ledger,
                                       const struct ledger_entry *after);
/* One record: the entry (or NULL) and a report (report_bytes NULL: none). */
int ledger_commit(struct ledger *ledger, const struct ledger_entry *entry,
                  const uint8_t *report_bytes, size_t report_length, uint64_t since_us,
                  struct err *err);
int ledger_forget(struct ledger *ledger, const char *allocation_id, struct err *err);
/* Into one that has no entries: all those of `found`, and after a crash in between none of them. */
int ledger_adopt(struct ledger *ledger, const struct ledger *found, struct err *err);

/* ---- reports ---- */
uint64_t ledger_last_sequence(const struct ledger *ledger);
size_t ledger_pending_count(const struct ledger *ledger);
/* The first kept report numbered above `sequence`, or NULL. */
const struct ledger_report *ledger_report_after(const struct ledger *ledger, uint64_t sequence);
/* Drops them. The file is told of LEDGER_TAKEN_MAX at once: nobody acts on it, and ledger_align()
 * drops those that come back with a restart before they are sent. */
int ledger_acknowledge(struct ledger *ledger, uint64_t sequence, struct err *err);
/* At the start of a session: the broker has taken reports up to `acknowledged`. Drops those; when
 * the numbering does not meet (a new state folder, a restored cluster), what is kept is numbered
 * again from acknowledged + 1. */
int ledger_align(struct ledger *ledger, uint64_t acknowledged, struct err *err);

/* Applies one journal record (ledger_record.h); for the fuzz target as well. */
int ledger_apply(struct ledger *ledger, const uint8_t *bytes, size_t length, struct err *err);
struct ledger *ledger_new(void); /* in memory only */
/* Appends the record that stores the entry; what ledger_apply() reads. */
struct buf;
void ledger_encode_entry(struct buf *record, const struct ledger_entry *entry);

#endif
