/* Where an application starts from: asks the leader for the newest complete checkpoint and brings
 * what its part needs here, verified.
 *
 * Flow     restore_start() -> BrokerService/GetRestartPoint (repeated until a leader answers) ->
 *          a worker makes the folder of the job's checkpoints and tries to write there -> workers
 *          restore or verify what this part needs of the checkpoint that the state chose for all
 *          parts -> found() -> when all parts have said so, done(). A shard that does not verify or
 *          is not there is found() damaged: the state chooses another one for all. What was brought
 *          for a choice, or a place, that counts no more is swept first.
 * Shapes   one restore per attached ckpt-run; restore_cancel() when it goes away. One channel pair
 *          for all restores.
 *          Whoever needs bytes of the target says so, and waits in its line until it is let in;
 *          what the node kept itself is read without.
 * Errors   no leader, storage away: tried again for as long as ckpt-run waits, never "from
 *          scratch". (Whoever asked for that, and may, goes without an answer after a few seconds,
 *          in the run that was named last.) An allocation that the broker does not know, that has
 *          ended or that is not of this node is told by `error`, after a few seconds of patience.
 *          Restore own brings the shard of this part, all those of all parts, each in a folder of
 *          its own; path verifies a share of them where they lie. Who joined a run that had begun
 *          restores nothing. Who is neither the owner nor root is told by `error` at once. The
 *          owner is the user of this node that the registered name stands for. With a name that
 *          stands for none, or none, it is root alone who may start it, or, where the policy says
 *          so, who came first. A ckpt-run that names another profile than the registered one is
 *          told by `error` too: none is registered where it is the first one.
 * Source   I27, S1-091.
 */
#ifndef CKPT_AGENT_RESTART_POINTS_H
#define CKPT_AGENT_RESTART_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/daemon/agent.h"

enum { ATTACH_NOTICE_BYTES = 1024 };

struct restart_points;
struct restore;

struct restore_result {
    uint64_t checkpoint_id;     /* 0: there is none, start from scratch */
    const char *folder;         /* "" then */
    const char *notice;         /* which newer checkpoints were passed over, and why; "": none */
    const char *error;          /* "": none */
    bool may_come;              /* with it: the allocation may be restarted here */
    uint32_t cause_wait_status; /* with it: of the application that ended first; 0: none did */
    const char *path;           /* of what was restored, on the destination; NULL: none */
    uint64_t snapshot_at_ms;    /* the instant to which it goes back; 0: not known */
    Ckpt__V1__RestoreMode mode; /* how it was restored */
    const char *uri;            /* restore path: where it lies; NULL, "": not so */
    const char *label;          /* of the checkpoint; NULL, "": none */
    uint32_t parts;             /* of which it consists; 0: not known */
    bool from_copy;             /* it came from the node's own copy */
    const char *scratch;        /* with checkpoint_id 0: why; NULL, "": as was asked for */
    const char *unwritten;      /* why its next checkpoint cannot be written now; "": it can be */
};
typedef void restore_done_fn(void *data, const struct restore_result *result);

/* Whose the allocation is on this node. */
struct restore_owner {
    const char *name; /* as registered; "": not by its name, but by having come first */
    uid_t uid;
};

/* What an answer of a broker says of a start. */
struct restore_word {
    uint64_t epoch, index; /* of its state; 0: no broker answered */
    uint64_t run; /* for which it would be started; RESTORE_OWNER: that is named here, 0: none */
    const Ckpt__V1__AllocationPart *part; /* its walltime, now; NULL: no broker answered */
    uint32_t place, places;               /* of this node among the parts; places 0: not known */
    /* NULL: no broker answered, or it is nobody's on this node */
    const struct restore_owner *owner;
    Ckpt__V1__OwnerRule owner_rule; /* UNSPECIFIED: no broker answered */
    bool comes_back;                /* the broker restarts the allocation, should it stop */
    const char *profile;            /* as registered; "": no broker told it */
};

/* What became of the run's restart point here, for the state to hear: it is restored, or a shard of
 * it is damaged. */
struct restore_found {
    uint64_t checkpoint_id;
    bool damaged;
    Ckpt__V1__RestoreMode mode; /* restored: how */
    const char *detail;
};

enum restore_what {
    RESTORE_FILES,
    RESTORE_NOTHING, /* a start from scratch: for which run it is */
    RESTORE_OWNER    /* what runs already: whether it is the user's */
};

/* Texts are copied. */
struct restore_ask {
    const char *allocation_id;
    const char *work_dir;
    const struct opened *folder; /* the same, open for as long as the restore lasts */
    struct machine_user user;
    enum restore_what what;
    Ckpt__V1__AttachWait wait;      /* while nothing may begin here */
    uint64_t finished_run;          /* its part has, and does not begin again in it; 0: none */
    bool prepares;                  /* the folder of its checkpoints is made and looked at before */
    Ckpt__V1__RestoreMode override; /* UNSPECIFIED: as registered */
    const char *profile;            /* as ckpt-run says; "": as registered */
    const struct restore_owner *owner; /* that is known already; NULL: none */
    /* For which run a start from scratch is now that no broker answers; 0: one is waited for. Each
     * time anew, since the last orders say so. NULL: never. */
    uint64_t (*outage_run)(void *data);
    /* Comes with each answer of a broker, so perhaps again. The restore must not be cancelled from
     * within. */
    void (*told)(void *data, const struct restore_word *word);
    /* Why it takes so long, each time that it is found out; NULL: nobody wants to know. */
    void (*waits)(void *data, const char *why);
    /* It is kept for a run that is to come, and why nothing may begin now. restart_wait_ms: the
     * cluster restarts the allocation, and so long is worth waiting; 0: somebody has to, which is
     * said again and again. cause_wait_status: as in AttachNotice. NULL: waits() is called. */
    void (*awaited)(void *data, const char *why, uint64_t restart_wait_ms,
                    uint32_t cause_wait_status);
    /* The state goes on by it; the restore waits until it does. */
    void (*found)(void *data, const struct restore_found *found);
    /* It has to read the checkpoint from its target, which the state has to hear first; or it reads
     * it no more. The restore waits until the state lets it in. */
    void (*reads)(void *data, uint64_t checkpoint_id, bool wanted);
    /* What was brought for an earlier choice has to go before anything else comes: the restore
     * waits for restore_swept(). */
    void (*sweep)(void *data, const char *folder);
    restore_done_fn *done;
    void *data;
};

int restart_points_new(struct agent *agent, const char *brokers, struct restart_points **ret_points,
                       struct err *err);
void restart_points_free(struct restart_points *points);

struct restore *restore_start(struct restart_points *points, const struct restore_ask *ask);
/* The state may say something else now. NULL allowed. */
void restore_wake(struct restore *restore);
/* The checkpoint that it said it reads, and has not said that it does no more; 0: none. NULL
 * allowed. */
uint64_t restore_reading(const struct restore *restore);
/* That folder has gone. NULL allowed, and one that waits for no such thing. */
void restore_swept(struct restore *restore);
/* It waits for a run that is to come, and for nothing else: the leader may name this node. Not so
 * for a user of whom nobody has said that the job is his (owner rule FIRST). NULL allowed. */
bool restore_awaiting(const struct restore *restore);
void restore_cancel(struct restore *restore); /* NULL allowed; done does not come any more */

#endif
