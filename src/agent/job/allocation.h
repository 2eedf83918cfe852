/* One allocation on this node: its process, its checkpoint attempt, its walltime, behind one
 * coordinator (F-027).
 *
 * Flow     orders, ckpt-run's messages, timers and process exits all arrive here, one at a time on
 *          the loop. While a stop is under way no new attempt starts; an attempt that was under way
 *          may still complete within the grace.
 * Shapes   `entry` is the durable part and is written by agent_commit before anything acts on it.
 */
#ifndef CKPT_AGENT_ALLOCATION_H
#define CKPT_AGENT_ALLOCATION_H

#include "src/agent/daemon/agent.h"
#include "src/agent/job/executor.h"
#include "src/agent/job/reconcile.h"
#include "src/agent/job/restorer.h"
#include "src/agent/node/user_path.h"
#include "src/ask/region.h"

struct app_stream;
struct cleanup;

/* What an allocation says to the ckpt-run that is attached to it, and asks of its stream. */
struct caller_ops {
    uid_t (*uid)(const struct app_stream *stream); /* as the kernel has it */
    /* It is the one of the application that is known: it will tell how that ended. */
    bool (*tells)(const struct app_stream *stream);
    /* It has no application, and waits to start one. */
    bool (*waits)(const struct app_stream *stream);
    /* The same, or what it is to start from is being brought. */
    bool (*starts)(const struct app_stream *stream);
    /* It is kept until the allocation is to run here. */
    bool (*awaits)(const struct app_stream *stream);
    /* The allocation is over: it must not start its application again. Not told to one that has yet
     * to hear for which run it would start one: that may be a later one. */
    void (*end)(struct app_stream *stream, Ckpt__V1__Reason reason);
    void (*say)(struct app_stream *stream, const char *text); /* to people */
    /* Something it may have waited for has happened: an attempt ended, reports were acknowledged,
     * orders changed. */
    void (*poll)(struct app_stream *stream);
    void (*orphan)(struct app_stream *stream); /* the allocation goes away */
};

struct allocation {
    struct list node;
    struct agent *agent;
    struct ledger_entry entry;
    struct process process;
    struct attempt attempt;
    struct executor executor;
    struct user_path folder;   /* the work folder */
    struct user_path socket;   /* that its application registered */
    struct app_stream *stream; /* ckpt-run's; NULL while none is connected */
    /* the ckpt-run that held what it was to start, and starts over: what is refused to it now is
     * that start */
    bool started_over;
    pid_t started_over_pid;
    bool requesting;       /* its application's own request is on its way to the leader */
    uint64_t requested_us; /* the last one; 0: none */
    struct cleanup *sweep; /* of out/ and restore/; goes on when its stream has ended. NULL: none */
};

struct allocation *allocation_new(struct agent *agent, const char *allocation_id,
                                  const struct ledger_entry *entry);
void allocation_free(struct allocation *allocation);
/* The entry as it is now, with an optional report. */
void allocation_commit(struct allocation *allocation, Ckpt__V1__AgentReport *report,
                       uint64_t since_us);
/* The job's user, and the table that does things as it. */
struct machine_user allocation_user(const struct allocation *allocation);
const struct machine_ops *allocation_machine(const struct allocation *allocation);
/* Whose processes are its. */
void allocation_identity(const struct ledger_entry *entry, struct job_identity *ret_job);
/* The application cannot change how it is asked by what it shows. */
bool way_is_settled(const struct ledger_entry *entry);
/* Where the memory lies that it shares with the agent, if it is asked so. False: it is not. */
bool allocation_region(const struct ledger_entry *entry, char ret_path[ASK_REGION_PATH_BYTES]);
/* The same, just before its ckpt-run is told to make it: its name is the job's user's from then
 * on. */
bool allocation_region_claim(const struct allocation *allocation,
                             char ret_path[ASK_REGION_PATH_BYTES]);
/* Who of it was found by descent alone is remembered. True: there is somebody new. */
bool allocation_remember(struct ledger_entry *entry, const struct job_identity *job);
/* What the orders in hand say of `run` is of another run than the application that runs here, or
 * ran last. */
bool allocation_other_run(const struct allocation *allocation, uint64_t run);
/* Whose it is here, as the journal knows; NULL: nobody has attached yet. */
const struct restore_owner *allocation_owner(const struct allocation *allocation,
                                             struct restore_owner *owner);
/* root may take anybody's. */
bool allocation_stranger(const struct allocation *allocation, uid_t uid);
/* Why `uid` may not attach. name "": the owner came first. */
enum { OWNER_TEXT_BYTES = 640 };
void allocation_owner_text(const char *allocation_id, const char *name, uid_t owner_uid, uid_t uid,
                           char text[OWNER_TEXT_BYTES]);
/* What the last order set says of it, as of when that set came. */
void allocation_take_orders(struct allocation *allocation);
/* The same of a part that a restart point names. from: what it is from, and whose. */
void allocation_take_part(struct allocation *allocation, const Ckpt__V1__AllocationPart *part,
                          const struct walltime_word *from);
/* It runs, and its ckpt-run has not come back in the time that one needs for it. */
bool allocation_abandoned(const struct allocation *allocation);
/* Its next application is for this run, as the broker has just said. False: that run is over here
 * already. */
bool allocation_set_run(struct allocation *allocation, uint64_t epoch, uint64_t run);
/* For which run an application may be started while no leader can be asked: the one that was named
 * for this node last. 0: a leader is needed, since none was, or that one is over here, or what is
 * left of its walltime is not known, or the other parts of it begin from a checkpoint. */
uint64_t allocation_outage_run(struct allocation *allocation);
/* A checkpoint with its barrier, or a stop: ranks do not step, and nothing is wrong. */
bool allocation_under_way(const struct allocation *allocation);
void allocation_hand(const struct allocation *allocation, struct hand *ret_hand);
/* Nothing is under way and nobody is connected: it may be forgotten when room is needed. */
bool allocation_idle(const struct allocation *allocation);
/* What its user has named is held open only while something of it is here: many allocations are
 * kept, few descriptors. */
void allocation_rest(struct allocation *allocation);

#endif
