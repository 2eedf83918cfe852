/* What the files of a restore share: restart_points.c (asks the leader, life), restore_owner.c
 * (whose it is), restore_prepare.c (where its checkpoints go), restore_line.c (waits to read),
 * restore_parts.c (brings the files), restore_end.c (how it goes on). */
#ifndef CKPT_AGENT_RESTORE_INTERNAL_H
#define CKPT_AGENT_RESTORE_INTERNAL_H

#include <limits.h>

#include "ckpt/v1/app.pb-c.h"
#include "ckpt/v1/broker.pb-c.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/restart_points.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/dest/worker.h"
#include "src/rpc/follow.h"

enum {
    RESTORE_RETRY_MS = 500,
    RESTORE_STORAGE_RETRY_MS = 2000,
    RESTORE_READING_MS = 10000,
    RESTORE_TEXT_BYTES = 512
};

/* What the state makes of a target that is away. */
struct restore_outage {
    uint64_t discarded_ms, at_ms, max_ms; /* as in RestartPoint; discarded_ms 0: it is there */
};

struct restore_part {
    char name[PART_NAME_BYTES];
    char node_id[ID_MAX_BYTES + 1]; /* that wrote it */
    char manifest_sha256[72];
    char to[PATH_MAX]; /* "": it is verified where it lies */
};

struct restart_points {
    struct agent *agent;
    struct rpc_follow *follow;
};

struct restore {
    struct agent *agent;
    struct restart_points *points; /* may be gone when a cancelled worker ends */
    char allocation_id[ID_MAX_BYTES + 1];
    char work_dir[LEDGER_WORK_DIR_BYTES];
    const struct opened *opened; /* the work folder, until it is cancelled */
    char folder[PATH_MAX];
    char target_prefix[LEDGER_PREFIX_BYTES];
    char path[LEDGER_PATH_BYTES];
    char lies_at[LEDGER_PATH_BYTES + PART_NAME_BYTES]; /* what was restored of it */
    struct restore_part *parts;                        /* what comes here, or is verified */
    size_t part_count, part_next;
    Ckpt__V1__RestoreMode mode;     /* of this start */
    Ckpt__V1__RestoreMode override; /* that ckpt-run asks for; UNSPECIFIED: as registered */
    char profile[ID_MAX_BYTES + 1]; /* likewise; "": as registered */
    uint32_t checkpoint_parts;
    char uri[LEDGER_PATH_BYTES + 8];  /* restore path */
    char damage[RESTORE_TEXT_BYTES];  /* damaged: of which shard, and what */
    char label[LABEL_MAX_BYTES + 1];  /* of the checkpoint */
    char notice[ATTACH_NOTICE_BYTES]; /* which newer checkpoint was passed over last, and why */
    struct machine_user user;
    char owner_name[ID_MAX_BYTES + 1]; /* registered, that was looked up; "": none was */
    bool owner_named;                  /* it is of the user owner_uid */
    bool owner_first;                  /* without such a name, owner_uid came first */
    uid_t owner_uid;
    uint32_t place;                         /* of this node among the allocation's */
    uint32_t brought_place, brought_places; /* for which, of how many, it was brought */
    uint32_t brought_shard;                 /* restore own: which one of all, + 1 */
    uint64_t run;                           /* that was told last */
    uint64_t checkpoint_id;                 /* that is, or was last, brought here */
    bool from_copy;                         /* the last shard came from the node's own copy */
    bool by_copy;                           /* its worker reads that copy alone */
    bool copy_unusable;                     /* it did, in vain */
    uint64_t reads_id;                      /* what it said it reads from the target; 0: nothing */
    uint64_t said_sequence;                 /* of the report that said so */
    bool heard;                   /* the state had applied that when the leader was asked last */
    uint64_t rate_bytes_per_s;    /* at most, from there; 0: no limit */
    Ckpt__V1__ReadState read;     /* as was told last */
    unsigned away_count;          /* tries in a row in which it could not be read */
    struct restore_outage outage; /* as was told last */
    uint64_t passed_id;           /* what the notice is about */
    bool given_up;                /* ... that its target is away */
    bool superseded;              /* its worker brings what counts no more */
    bool have, damaged;           /* ... it is here; a shard of it is damaged */
    Ckpt__V1__BeginState begin;   /* as was told last */
    bool held;                    /* it waits for another word */
    bool unheard;                 /* ... and for long */
    bool sweeping;                /* what was brought before goes */
    bool awaits;                  /* a run that is to come, and nothing before */
    uint64_t finished_run;        /* ... after this one, in which its part has finished; 0: any */
    Ckpt__V1__AttachWait wait;
    void (*awaited)(void *data, const char *why, uint64_t restart_wait_ms,
                    uint32_t cause_wait_status);
    bool prepares; /* where its next checkpoint goes has still to be looked at */
    /* why none can be written there now; "": nothing is known against it */
    char unwritten[RESTORE_TEXT_BYTES];
    enum restore_what what;
    uint64_t (*outage_run)(void *data);
    uint64_t began_us;
    unsigned refusals, worker_refusals;
    struct clock_timer *timer;
    struct clock_timer
        *reading; /* while a worker brings a part: whoever waits is told now and then */
    char away[RESTORE_TEXT_BYTES / 2]; /* why the destination could not be read last; "": it was */
    uint64_t since_ms; /* wall time from which the part is read, or cannot be; 0: neither */
    struct rpc_client_call *call;
    struct rpc_client_call *look; /* while a worker reads: whether the target is away */
    struct worker *worker;
    bool cancelled; /* the worker still runs; freed when it ends */
    void (*told)(void *data, const struct restore_word *word);
    void (*waits)(void *data, const char *why);
    void (*found)(void *data, const struct restore_found *found);
    void (*reads)(void *data, uint64_t checkpoint_id, bool wanted);
    void (*sweep)(void *data, const char *folder);
    uint64_t snapshot_at_ms;
    restore_done_fn *done;
    void *data;
};

#define WAIT(name)  CKPT__V1__ATTACH_WAIT__ATTACH_WAIT_##name
#define BEGIN(name) CKPT__V1__BEGIN_STATE__BEGIN_STATE_##name

/* restore_end.c. free: what has neither call nor worker. finish: it is over, and freed. again:
 * the leader is asked anew. hold: when the state has changed. sweep: when what was brought before
 * has gone. waits: whoever waits is told why. end_look: nothing is read any more. */
void restore_free(struct restore *restore);
void restore_finish(struct restore *restore, const struct restore_result *outcome);
void restore_error(struct restore *restore, const char *text);
void restore_again(struct restore *restore, uint64_t delay_ms);
void restore_hold(struct restore *restore);
void restore_sweep(struct restore *restore);
void restore_end_look(struct restore *restore);
__attribute__((format(printf, 2, 3))) void restore_waits(struct restore *restore,
                                                         const char *format, ...);

/* restore_owner.c. Only who may attach is told more. True: the owner is not known yet, or the
 * caller is another one. */
bool restore_owner_refuses(struct restore *restore, const Ckpt__V1__RestartPoint *point);

/* restore_refusal.c. runs: the allocation has a run, on whichever nodes. starts_elsewhere: the
 * restart that was waited for takes other nodes, and none of it runs yet. text: why nothing may
 * begin here. */
bool restore_point_runs(const Ckpt__V1__RestartPoint *point);
bool restore_starts_elsewhere(const struct restore *restore, const Ckpt__V1__RestartPoint *point);
void restore_refusal_text(const struct restore *restore, const Ckpt__V1__RestartPoint *point,
                          char ret_text[RESTORE_TEXT_BYTES]);

/* restore_prepare.c. True: a worker looks where the job's checkpoints go, and the leader is asked
 * again when it has ended. */
bool restore_prepares(struct restore *restore, const Ckpt__V1__RestartPoint *point);

/* restore_line.c. may_read: it needs nothing of the target, or was let in; else it says so and
 * waits. lacks_place: the node's copy of the part has gone since. note_heard: before the leader is
 * asked. leave: it reads no more. outage_text: what an outage leads to; "": nothing is known. */
bool restore_may_read(struct restore *restore, const Ckpt__V1__RestartPoint *point);
bool restore_lacks_place(const struct restore *restore, const struct restore_part *part);
void restore_note_heard(struct restore *restore);
void restore_leave_line(struct restore *restore);
const char *restore_outage_text(const struct restore *restore, char text[RESTORE_TEXT_BYTES / 2]);
/* The node's own copy of a part, for as long as it is of use; NULL: there is none. */
const struct ledger_copy *restore_copy_of(const struct restore *restore,
                                          const struct restore_part *part);

/* restart_points.c. How it restores. */
Ckpt__V1__RestoreMode restore_mode(const struct restore *restore,
                                   const Ckpt__V1__RestartPoint *point);

/* restore_parts.c. is_of: what was brought last is what the point wants here. bring: what this part
 * needs of the checkpoint, and says so. say_found: what became of that. ready: it begins. */
bool restore_is_of(const struct restore *restore, const Ckpt__V1__RestartPoint *point);
void restore_say_reading(struct restore *restore); /* and looks again after a while */
void restore_bring(struct restore *restore, const Ckpt__V1__RestartPoint *point);
void restore_say_found(struct restore *restore);
void restore_ready(struct restore *restore);

#endif
