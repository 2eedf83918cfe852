/* Carries out the steps of a restore (restore_step.h): an application gets its restart point. The
 * facts are seen, the step is taken, and its effects are carried out in their order: the leader is
 * asked, workers run, the caller is told.
 *
 * Flow     restorer_start() asks the leader, until one answers. A worker makes the folder of the
 *          job's checkpoints and tries to write there. Workers restore or verify the shards that
 *          this part needs of the checkpoint that the state chose for all parts. found() tells it;
 *          when all parts have said so, done() follows. A shard that does not verify or is not
 *          there is found() damaged: the state chooses another checkpoint for all. Files that were
 *          brought for a choice, or a place, that counts no more are swept first.
 * Shapes   one restorer per attached ckpt-run, not one per allocation as executor.h: it ends with
 *          its ckpt-run. restorer_cancel() when that goes away.
 *          A restore that needs bytes of the target says so, and waits in its line until it is let
 *          in; the node's own copies are read without.
 * Errors   no leader, storage away: tried again for as long as ckpt-run waits, never "from
 *          scratch". (A ckpt-run that asked for that, and may, goes without an answer after a few
 *          seconds, in the run that was named last.) `error` tells of an allocation that the broker
 *          does not know, that has ended or that is not of this node, after a few seconds of
 *          patience. It tells at once a user who is neither the owner nor root, and a ckpt-run that
 *          names another profile than the registered one; none is registered where it is the first
 *          one. The owner is the user of this node that the registered name stands for. With a name
 *          that stands for none, or none, root alone may start it, or the user who came first,
 *          where the policy says so. A node that joined a run that had begun restores nothing.
 * Source   I27, S1-091.
 */
#ifndef CKPT_AGENT_RESTORER_H
#define CKPT_AGENT_RESTORER_H

#include "src/agent/daemon/agent.h"
#include "src/agent/job/restart_points.h"
#include "src/agent/job/restore_step.h"

enum { ATTACH_NOTICE_BYTES = 1024 };

struct restorer;

struct restore_result {
    uint64_t checkpoint_id;     /* 0: there is none, start from scratch */
    const char *folder;         /* "" then */
    const char *notice;         /* the newer checkpoints that were passed over, and why; "": none */
    const char *error;          /* "": none */
    bool may_come;              /* with it: the allocation may be restarted here */
    uint32_t cause_wait_status; /* with it: of the application that ended first; 0: none did */
    const char *path;           /* of the restored files, on the destination; NULL: none */
    uint64_t snapshot_at_ms;    /* the instant to which it goes back; 0: not known */
    Ckpt__V1__RestoreMode mode; /* the way in which it was restored */
    const char *uri;            /* restore path: where it lies; NULL, "": not so */
    const char *label;          /* of the checkpoint; NULL, "": none */
    uint32_t parts;             /* in how many it lies; 0: not known */
    bool from_copy;             /* it came from the node's own copy */
    const char *scratch;        /* with checkpoint_id 0: why; NULL, "": as was asked for */
    bool begins_without;        /* ... one was wanted, and nobody has left it aside */
    const char *unwritten;      /* why its next checkpoint cannot be written now; "": it can be */
};

/* The owner of the allocation on this node. */
struct restore_owner {
    const char *name; /* as registered; "": not by its name, but by having come first */
    uid_t uid;
};

/* The word of a broker's answer on a start. */
struct restore_word {
    uint64_t epoch, index; /* of its state; 0: no broker answered */
    uint64_t run;          /* to be started; RESTORE_OWNER: the one that is named here, 0: none */
    const Ckpt__V1__AllocationPart *part; /* its walltime, now; NULL: no broker answered */
    uint32_t place, places;               /* of this node among the parts; places 0: not known */
    /* NULL: no broker answered, or it is nobody's on this node */
    const struct restore_owner *owner;
    Ckpt__V1__OwnerRule owner_rule; /* UNSPECIFIED: no broker answered */
    bool comes_back;                /* the broker restarts the allocation, should it stop */
    const char *profile;            /* as registered; "": no broker told it */
    const char *attributes;         /* likewise */
    bool profile_named;             /* ... by a word of its own */
    bool transparent;               /* the policy's */
};

/* The fate of the run's restart point here, for the state to hear: it is restored, or a shard of it
 * is damaged. */
struct restore_found {
    uint64_t checkpoint_id;
    bool damaged;
    Ckpt__V1__RestoreMode mode; /* restored: how */
    const char *detail;
};

/* The caller. The restore must not be cancelled from within any of these. */
struct restore_caller {
    /* Comes with each answer of a broker, so perhaps again. */
    void (*told)(void *data, const struct restore_word *word);
    /* Why it takes so long, each time that it is found out. */
    void (*waits)(void *data, const char *why);
    /* It is over, and freed when this returns. */
    void (*done)(void *data, const struct restore_result *result);

    /* ---- of a start; RESTORE_OWNER has none of these ---- */
    /* The run of a start from scratch now that no broker answers; 0: one is waited for. Each time
     * anew, since the last orders say so. */
    uint64_t (*outage_run)(void *data);
    /* It is kept for a run that is to come, and why nothing may begin now. restart_wait_ms: the
     * cluster restarts the allocation, and so long is worth waiting; 0: somebody has to, which is
     * said again and again. cause_wait_status: as in AttachNotice. */
    void (*awaited)(void *data, const char *why, uint64_t restart_wait_ms,
                    uint32_t cause_wait_status);
    /* The state goes on by it; the restore waits until it does. */
    void (*found)(void *data, const struct restore_found *found);
    /* It has to read the checkpoint from its target, which the state has to hear first; or it reads
     * it no more. The restore waits until the state lets it in. */
    void (*reads)(void *data, uint64_t checkpoint_id, bool wanted);
    /* Files that were brought for an earlier choice have to go before anything else comes: the
     * restore waits for restorer_swept(). */
    void (*sweep)(void *data, const char *folder);
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
    const struct restore_owner *owner; /* as is known already; NULL: none */
    const struct restore_caller *caller;
    void *data;
};

struct restorer *restorer_start(struct restart_points *points, const struct restore_ask *ask);
/* The state may say something else now. NULL allowed. */
void restorer_wake(struct restorer *restorer);
/* The checkpoint that it said it reads, and has not said that it does no more; 0: none. NULL
 * allowed. */
uint64_t restorer_reading(const struct restorer *restorer);
/* The folder has gone. NULL allowed, and a restore that waits for no such thing. */
void restorer_swept(struct restorer *restorer);
/* As restore_awaits(). NULL allowed. */
bool restorer_awaiting(const struct restorer *restorer);
void restorer_cancel(struct restorer *restorer); /* NULL allowed; done does not come any more */

#endif
