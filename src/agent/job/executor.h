/* Carries out what a job's steps decide (job_step.h). What happens to an allocation is an event:
 * the facts are seen, the step is taken, the entry and the report are in the journal, and only then
 * are the effects carried out: signals, questions, workers, timers, words to ckpt-run.
 *
 * Flow     job_post() with each event. One that comes about while another is carried out waits
 *          until that is done. The end of a process is seen by the pidfd, by process_woken() and by
 *          looking now and then; how it ended stands in the note that ckpt-run leaves (end_note.h).
 * Shapes   one per allocation, inside it. The pid with its start time names the process; signals go
 *          to the group. One question and one worker per attempt at a time.
 * Errors   a process that does not die after SIGKILL (D state) is logged and waited for: its nodes
 *          are not released before.
 * Source   S1-090..S1-093, P-041, F-012, F-013, F-019, F-025; invariants I22, I30, I33.
 */
#ifndef CKPT_AGENT_EXECUTOR_H
#define CKPT_AGENT_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/agent/job/job_step.h"
#include "src/agent/node/asked.h"
#include "src/agent/node/machine.h"

struct allocation;
struct ask_call;
struct put_job;
struct rank_places;

enum { JOB_EVENTS_MAX = 16 };

/* What the ranks' streams want of the attempt. */
struct rank_hearing {
    void (*said)(struct allocation *allocation, enum attempt_event_kind kind, uint64_t defer_ms);
    /* The question that is open, as of now. */
    void (*question)(struct allocation *allocation, struct ask_request *ret_request);
};

struct executor {
    bool stepping;
    size_t waiting;
    struct job_event events[JOB_EVENTS_MAX];
    struct clock_timer *walltime_timer;
    /* the process */
    struct pid_watch *watch;
    struct clock_timer *timer;
    struct stragglers_look *look; /* for stragglers; NULL: none is under way */
    bool look_kills;
    struct job_still *ending; /* asks all of it to end, or kills it; NULL: neither is under way */
    enum still_way ending_way;
    /* the checkpoint attempt */
    const struct ask_ops *ask;
    struct ranks_look *ranks_look;    /* NULL: none is under way */
    void (*ranks_looked)(void *data); /* at the processes of the job; gets the allocation */
    bool ranks_fresh;                 /* `seen` is of now, and nobody has used it */
    uint64_t ranks_seen_us;           /* when it came */
    struct ranks_seen *seen;          /* NULL: nobody has looked yet */
    struct ranks_table *ranks;        /* who is to be asked, as seen; NULL: likewise */
    struct rank_fact *answers;        /* NULL: none was looked for yet */
    uint64_t way_said_run;            /* its way was named in the job's output */
    uint64_t said_run;                /* whose ranks were named in the job's output ... */
    uint32_t said_ranks;              /* ... and how many they were; 0: none were yet */
    struct asked asked;               /* whom `ask` has before it, as it was last */
    struct ask_call *call;            /* NULL: none is open */
    const struct rank_hearing *hearing;
    struct rank_places *places; /* of ranks that have registered; NULL: none ever has */
    struct folder_watch *heard; /* the work folder, for its sentinel */
    uint64_t heard_us;          /* the looks for it so far have used the time up until then */
    struct clock_timer *attempt_timer;
    struct job_still *still; /* freezes it or lets it go on; NULL: neither is under way */
    enum still_way still_way;
    struct worker *worker;
    struct put_job *put_job; /* what the worker calls back with */
    struct cleanup *cleanup;
    struct cleanup *copy_sweep; /* of a copy that goes; NULL: none is under way */
};

struct process_identity {
    pid_t pid;
    uint64_t start_ticks;
    struct machine_user user;
};

void executor_init(struct allocation *allocation);
/* The agent ends, or forgets the allocation: nothing comes back any more. A worker that still runs
 * is killed and tells nobody; the next start of the agent puts again. */
void executor_close(struct allocation *allocation);

void job_post(struct allocation *allocation, const struct job_event *event);

/* The application that ckpt-run has just started. */
void process_attached(struct allocation *allocation, const struct process_identity *identity,
                      uint64_t restored_checkpoint_id, bool report);
/* It was to be started again in place, and will not be: the allocation has ended. Nothing when no
 * restart is awaited, unless this ckpt-run was told to start it before (granted). */
void process_restart_failed(struct allocation *allocation, const char *why, bool granted);
/* ckpt-run says that it has left its note (end_note.h), or that it could not: then it is `note`,
 * else "". The application has ended, or could not be started; or its end had to be told before
 * without its status, and it turns out that the work was done. */
void process_woken(struct allocation *allocation, const char *note);
/* The allocation ends, by an order. A second stop may shorten the grace, never lengthen it. */
void process_stop(struct allocation *allocation, const struct process_stop_ask *ask);
/* PROCESS_RESUMED, PROCESS_UNATTENDED, PROCESS_TAKE_OVER: what needs no more words. */
void process_post(struct allocation *allocation, enum process_event_kind kind);
/* order: of those that carry one, else NULL. */
void attempt_post(struct allocation *allocation, enum attempt_event_kind kind,
                  const Ckpt__V1__Order *order);
void walltime_post(struct allocation *allocation, enum walltime_event_kind kind,
                   const struct walltime_word *word);

/* attempt_do.c's, of the effects of an attempt. False: it is none of those. */
extern const struct rank_hearing attempt_hearing;
bool attempt_carry_out(struct allocation *allocation, const struct job_effects *effects,
                       const struct job_effect *effect);
void attempt_detach(struct allocation *allocation);

#endif
