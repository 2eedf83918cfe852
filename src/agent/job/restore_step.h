/* The restart point of an application as a pure state machine: the leader names a checkpoint, and
 * the files that this part needs of it are brought here, verified.
 *
 *   PAUSED --timer--> ASKING --the leader's answer, or none--> one of these, or PAUSED again
 *     ^                  |
 *     |<-----wake--------|- HELD ------timer---> ASKING
 *     |<-----looked up---|- NAMING
 *     |<-----looked at---|- PREPARING --may not write--> OVER; no worker--> ASKING, answered
 *     |<-----gone--------|- SWEEPING
 *     |<--away, no place-|- READING --all is here--> OVER, or HELD until all parts have said so
 *     |                  |     |  '---not what was recorded--> HELD
 *     |<-----ended-------|- DROPPING <--wake: the state has given up what is read
 *                        '- OVER
 *
 *   PAUSED     the leader is asked again after a while, or at once
 *   ASKING     the leader is asked for the restart point
 *   HELD       nothing may begin here yet: it asks again when the state has changed
 *   NAMING     a worker looks up which user of this node the registered owner is
 *   PREPARING  a worker makes the folder of the job's next checkpoints and tries to write there
 *   SWEEPING   files that were brought before are not those that begin: they are removed first
 *   READING    workers bring or verify one part after the other
 *   DROPPING   the worker was told to end, since its files count no more, and is waited for
 *   OVER       the caller has its answer
 *
 * Flow     restore_step() takes an event and the facts seen just before it, changes the restore and
 *          says the effects. restorer.h sees, and carries them out. A shard that does not verify or
 *          is not there is told as damaged: the state chooses another checkpoint for all parts.
 * Shapes   caller's structs; nothing is allocated. The restore copies fields of the
 *          leader's answer that it needs later; the caller holds the answer while parts are read.
 * Units    *_us monotonic, *_ms durations or wall time.
 * Errors   none: restore_check() holds after each step; else it is a bug. Each way in which it ends
 *          is an enum restore_over, for which restorer_end.c has the words.
 * Absent   I/O, clocks, logs, words for people: the lint holds these files to what fsm/ may call.
 *          The journal: nothing of a restore survives its ckpt-run, or the agent. Its results
 *          enter the job as events of the walltime and as reports.
 * Source   I27, S1-091.
 */
#ifndef CKPT_AGENT_RESTORE_STEP_H
#define CKPT_AGENT_RESTORE_STEP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ckpt/v1/agent.pb-c.h"
#include "ckpt/v1/app.pb-c.h"
#include "ckpt/v1/broker.pb-c.h"
#include "src/agent/durable/ledger.h"
#include "src/base/id.h"

enum { RESTORE_TEXT_BYTES = 512, RESTORE_EFFECTS_MAX = 12, RESTORE_ALL_PARTS_MAX = 256 };

#define RESTORE_STATES(X)                                                                          \
    X(PAUSED)                                                                                      \
    X(ASKING) X(HELD) X(NAMING) X(PREPARING) X(SWEEPING) X(READING) X(DROPPING) X(OVER)
enum restore_state {
#define X(name) RESTORE_##name,
    RESTORE_STATES(X)
#undef X
        RESTORE_STATE_COUNT
};

enum restore_what {
    RESTORE_FILES,
    RESTORE_NOTHING, /* a start from scratch: for which run it is */
    RESTORE_OWNER    /* of an application that runs already: whether it is the user's */
};

/* The request of its ckpt-run. */
struct restore_asked {
    enum restore_what what;
    Ckpt__V1__AttachWait wait;      /* while nothing may begin here */
    uint64_t finished_run;          /* its part has, and does not begin again in it; 0: none */
    Ckpt__V1__RestoreMode override; /* UNSPECIFIED: as registered */
    uid_t uid;                      /* of the user */
    char allocation_id[ID_MAX_BYTES + 1];
    char work_dir[LEDGER_WORK_DIR_BYTES];
    char profile[ID_MAX_BYTES + 1]; /* "": as registered */
};

/* The owner of the allocation on this node. */
struct restore_owning {
    char name[ID_MAX_BYTES + 1]; /* as registered, looked up on this node; "": none was */
    bool named;                  /* it is of the user uid */
    bool first;                  /* without such a name, uid came first */
    uid_t uid;
};

enum restore_have { RESTORE_LACKS, RESTORE_HAS, RESTORE_DAMAGED };

/* The checkpoint that is, or was last, brought here. */
struct restore_brought {
    uint64_t checkpoint_id; /* 0: none was */
    enum restore_have have;
    Ckpt__V1__RestoreMode mode;
    uint32_t place, places; /* for which, of how many, it was brought */
    uint32_t own_shard;     /* restore own: which one of all, + 1 */
    uint32_t parts;         /* of which the checkpoint consists */
    uint64_t snapshot_at_ms;
    size_t part_count, part_next; /* shards to be brought, or verified */
    uint64_t size_bytes;          /* of these */
    bool by_copy;                 /* the worker reads the node's own copy alone */
    bool copy_unusable;           /* it did, in vain */
    bool from_copy;               /* the last shard came from the copy */
    char folder[PATH_MAX];        /* into which; "": none, or it has gone */
    char target_prefix[LEDGER_PREFIX_BYTES];
    char path[LEDGER_PATH_BYTES];
    char lies_at[LEDGER_PATH_BYTES + PART_NAME_BYTES]; /* the restored files */
    char label[LABEL_MAX_BYTES + 1];
    char damage[RESTORE_TEXT_BYTES]; /* DAMAGED: of which shard, and what */
};

/* Its turn to read from the target. */
struct restore_turn {
    Ckpt__V1__ReadState read;  /* as was told last */
    uint64_t reads_id;         /* as said to be read from the target; 0: none */
    bool heard;                /* the state had applied that when the leader was asked last */
    uint64_t rate_bytes_per_s; /* at most, from there; 0: no limit */
};

/* The consequences of a target that is away. */
struct restore_outage {
    uint64_t discarded_ms, at_ms, max_ms; /* as in RestartPoint; discarded_ms 0: it is there */
};

/* The newer checkpoint that was passed over last, and why. */
struct restore_passed {
    uint64_t checkpoint_id; /* 0: none was */
    bool given_up;          /* its target is away; else a shard of it is damaged */
    uint64_t repeated_ms, max_ms;
};

/* Why something could not be done at a destination. */
struct restore_why {
    Ckpt__V1__Reason reason; /* NONE: it could be */
    char text[RESTORE_TEXT_BYTES];
    bool no_room; /* where the files are to go: the destination is well */
};

struct restore {
    enum restore_state state;
    struct restore_asked asked;
    struct restore_owning owner;
    struct restore_brought brought;
    struct restore_turn turn;
    struct restore_outage outage; /* as was told last */
    struct restore_passed passed;
    bool left_away;               /* a checkpoint was given up, since its target was away */
    struct restore_why away;      /* why the destination could not be read last */
    struct restore_why unwritten; /* why its next checkpoint cannot be written now */
    uint64_t began_us;
    uint64_t since_ms; /* wall time from which the part is read, or cannot be; 0: neither */
    uint64_t run;      /* as was told last */
    uint32_t place;    /* of this node among the allocation's */
    Ckpt__V1__BeginState begin; /* as was told last */
    bool prepares;              /* the folder of its next checkpoints has still to be looked at */
    bool awaits;                /* a run that is to come, and nothing before */
    bool unheard;               /* it was HELD for long, and nothing woke it */
    unsigned refusals, worker_refusals;
    unsigned away_count; /* tries in a row in which it could not be read */
};

/* The facts, seen just before the step. */
struct restore_facts {
    uint64_t now_us, wall_ms;
    const char *node_id;
    const Ckpt__V1__OrderSet *orders;    /* NULL: none has come */
    const struct ledger_entry *entry;    /* of the allocation; NULL: it is not known here */
    const Ckpt__V1__RestartPoint *point; /* the leader's last answer; NULL: none came */
    bool heard;          /* TIMER: the leader has all that was reported when it asked to read */
    bool profile_known;  /* POINT: an agent can ask as the registered profile says */
    const char *profile; /* the first one: it stands for none */
    uint64_t outage_run; /* UNANSWERED: for which a start from scratch is now; 0: none */
};

enum restore_event_kind {
    RESTORE_TIMER,      /* of PAUSED and HELD */
    RESTORE_WAKE,       /* the state may say something else now */
    RESTORE_POINT,      /* the leader's answer is in the facts */
    RESTORE_UNANSWERED, /* there is none: silence, delay_ms */
    RESTORE_STARTED,    /* READING: the worker was */
    RESTORE_UNSTARTED,  /* it could not be: why */
    RESTORE_NAMED,      /* NAMING: its worker has ended: end, uid, why */
    RESTORE_PREPARED,   /* PREPARING: likewise: end, why */
    RESTORE_READ,       /* READING, DROPPING: likewise: end, why, copy */
    RESTORE_LOOK,       /* READING, DROPPING: its timer */
    RESTORE_LOOKED,     /* ... the leader's word on the target now: look */
    RESTORE_SWEPT,      /* the folder has gone */
    RESTORE_EVENT_COUNT
};

enum restore_silence {
    RESTORE_LEADERLESS,   /* no leader answers: why */
    RESTORE_UNREGISTERED, /* the leader does not know the allocation */
    RESTORE_GARBLED
};

/* The end of a worker. */
enum restore_end {
    RESTORE_WELL,
    RESTORE_MISSING,
    RESTORE_CORRUPT,
    RESTORE_REFUSED,
    RESTORE_FAILED
};

/* The use that a worker made of the node's own copy. */
enum restore_copy { RESTORE_COPY_NOT_GIVEN, RESTORE_COPY_USED, RESTORE_COPY_FAILED };

struct restore_event {
    enum restore_event_kind kind;
    enum restore_silence silence;
    uint64_t delay_ms;
    enum restore_end end;
    enum restore_copy copy;
    uid_t uid;
    const Ckpt__V1__RestartPoint *look; /* NULL: no answer */
    struct restore_why why;
};

/* Reasons why it takes so long. */
enum restore_saying {
    SAYS_REFUSAL,       /* nothing may begin here */
    SAYS_UNREGISTERED,  /* the leader does not know the allocation */
    SAYS_LEADERLESS,    /* no leader answers */
    SAYS_OWNER_UNKNOWN, /* the owner cannot be looked up */
    SAYS_BEGIN,         /* the state lets this part not begin yet */
    SAYS_ANOTHER,       /* another checkpoint is waited for */
    SAYS_OTHERS,        /* the other parts are waited for */
    SAYS_IN_LINE,
    SAYS_AWAY, /* the destination cannot be read */
    SAYS_READING
};

/* The ways in which it ends: well first. */
enum restore_over {
    OVER_RESTORED,
    OVER_SCRATCH, /* it begins from scratch; RESTORE_OWNER: it is the user's */
    OVER_JOINED,  /* a run that had begun: nothing is restored */
    OVER_ALONE,   /* from scratch, without an answer of a leader */
    OVER_FIRST_ERROR,
    OVER_REFUSED = OVER_FIRST_ERROR, /* nothing may begin here */
    OVER_RUN_ENDED,                  /* likewise, and it was only asked why */
    OVER_UNREGISTERED,
    OVER_NOBODYS,         /* the application is of no registered allocation */
    OVER_UNOWNED,         /* its owner is no user of this node */
    OVER_STRANGER,        /* the user is not the owner */
    OVER_PROFILE_UNKNOWN, /* the registered one is */
    OVER_PROFILE_OTHER,   /* than the registered one */
    OVER_BESIDE,          /* from nothing beside parts that begin from a checkpoint */
    OVER_BEGUN_GONE,      /* the checkpoint from which its run has begun is kept no more */
    OVER_MODE_OTHER,      /* another part has restored in another way */
    OVER_UNWRITABLE,      /* its user may not write its checkpoints */
    OVER_UNREADABLE,      /* the files there are not those that the broker wrote */
    OVER_INCOMPLETE,      /* the leader does not say where they lie, or what they are */
    OVER_NO_SHARD,        /* none is for this part */
    OVER_TOO_MANY         /* parts for one node */
};

enum restore_effect_kind {
    RESTORE_DO_WAIT,        /* TIMER after delay_ms */
    RESTORE_DO_ASK,         /* the leader; POINT or UNANSWERED follows */
    RESTORE_DO_NAME,        /* a worker looks the owner up; NAMED or UNSTARTED follows */
    RESTORE_DO_PREPARE,     /* likewise; PREPARED or UNSTARTED follows */
    RESTORE_DO_READ,        /* likewise, of the next part; STARTED and READ, or UNSTARTED */
    RESTORE_DO_DROP,        /* the worker ends soon */
    RESTORE_DO_LOOK_LATER,  /* LOOK after a while */
    RESTORE_DO_LOOK,        /* the leader is asked about the target; LOOKED follows */
    RESTORE_DO_LOOK_END,    /* it is asked no more */
    RESTORE_DO_SWEEP,       /* the folder; SWEPT follows */
    RESTORE_DO_HURRY,       /* the leader hears soon whether a run is awaited */
    RESTORE_DO_COUNT_COPY,  /* a part came from the copy */
    RESTORE_DO_COPY_FAILED, /* the copy of part `number` could not be used */
    RESTORE_DO_WARN,        /* a part could not be read */
    /* to the caller */
    RESTORE_DO_TELL,       /* the answer's word on a start, for run `number` */
    RESTORE_DO_TELL_ALONE, /* likewise, without an answer */
    RESTORE_DO_SAY,        /* `says` */
    RESTORE_DO_SAY_AWAITS, /* it is kept for a run that is to come, and why */
    RESTORE_DO_FOUND,      /* to the state: it is restored, or damaged */
    RESTORE_DO_WANT,       /* likewise: checkpoint `number` has to be read from the target */
    RESTORE_DO_LEAVE,      /* likewise: it is read no more */
    RESTORE_DO_OVER        /* `over`; the last one */
};

struct restore_effect {
    enum restore_effect_kind kind;
    uint64_t delay_ms, number;
    enum restore_saying says;
    enum restore_over over;
};

struct restore_effects {
    size_t count;
    struct restore_effect effects[RESTORE_EFFECTS_MAX];
};

void restore_step(struct restore *restore, const struct restore_event *event,
                  const struct restore_facts *facts, struct restore_effects *ret_effects);
/* The combinations of fields that are legal in its state; anything else is a bug. */
void restore_check(const struct restore *restore);

const char *restore_state_name(enum restore_state state);
bool restore_move_allowed(enum restore_state from, enum restore_state to);
/* The state takes this event; any other one is a bug. */
bool restore_event_allowed(enum restore_state state, enum restore_event_kind kind);
/* NAMING, PREPARING, READING, DROPPING: a worker runs, or is being started. */
bool restore_state_works(enum restore_state state);
/* A start from scratch has waited for a leader for so long that it may go without one. */
bool restore_may_go_alone(const struct restore *restore, uint64_t now_us);
/* UNREGISTERED is the last answer that it asks for. */
bool restore_ends_unregistered(const struct restore *restore);
/* It waits for a run that is to come, and for nothing else: the leader may name this node. Not so
 * for a user of whom nobody has said that the job is his (owner rule FIRST). */
bool restore_awaits(const struct restore *restore);
/* Somebody is known to own it here. */
bool restore_owner_known(const struct restore *restore);
/* The registration names a profile, by a word of its own or since it is not the first one. */
bool restore_profile_registered(const struct restore_facts *facts);
/* The allocation has a run, on whichever nodes. */
bool restore_point_runs(const Ckpt__V1__RestartPoint *point);
/* The restart that was waited for takes other nodes, and none of it runs yet. */
bool restore_starts_elsewhere(const struct restore *restore, const Ckpt__V1__RestartPoint *point);
/* The way in which it restores. */
Ckpt__V1__RestoreMode restore_mode(const struct restore *restore,
                                   const Ckpt__V1__RestartPoint *point);
/* READING: a part of what is brought. */
const Ckpt__V1__ShardInfo *restore_shard(const struct restore *restore,
                                         const Ckpt__V1__RestartPoint *point, size_t index);
/* The node's own copy of it, for as long as it is of use; NULL: there is none. */
const struct ledger_copy *restore_copy_of(const struct restore *restore,
                                          const struct ledger_entry *entry,
                                          const Ckpt__V1__ShardInfo *shard);
/* Of exactly this shard, for this user; NULL: there is none. */
const struct ledger_copy *restore_copy_find(const struct ledger_entry *entry,
                                            uint64_t checkpoint_id, uint32_t part,
                                            const char *manifest_sha256, uid_t uid);

#endif
