/* What a step of a job wants done: the one report and the effects, which the executor carries out
 * after the entry is in the journal (executor.h).
 *
 * Shapes   caller's struct, at most JOB_EFFECTS_MAX effects and one report per step. The report's
 *          texts are in it: it is not copied.
 */
#ifndef CKPT_AGENT_JOB_EFFECT_H
#define CKPT_AGENT_JOB_EFFECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/v1/agent.pb-c.h"
#include "src/base/id.h"

enum { JOB_DETAIL_BYTES = 200, JOB_MANIFEST_BYTES = 72, JOB_EFFECTS_MAX = 16 };

enum job_effect_kind {
    /* the process */
    EFFECT_WATCH, /* its end, by pidfd */
    EFFECT_TIMER, /* PROCESS_LOOK after delay_us */
    EFFECT_TIMER_STOP,
    EFFECT_LOOK_AGAIN,          /* PROCESS_LOOK, with what is seen then */
    EFFECT_SIGNAL,              /* to all of it: SIGTERM, SIGKILL */
    EFFECT_LOOK_FOR_STRAGGLERS, /* with SIGKILL kills them; PROCESS_STRAGGLERS_LOOKED follows */
    EFFECT_ATTEMPT_GONE,        /* to the checkpoint attempt: the application is no more */
    EFFECT_ATTEMPT_GIVE_UP,     /* ... its time is over */
    EFFECT_END_STREAM,          /* to ckpt-run: the allocation is over */
    EFFECT_FORGET,              /* what is held of it */
    EFFECT_LOG_STOP,            /* what is left of its grace: delay_us */
    EFFECT_LOG_NOTE,
    EFFECT_WARN_UNTOLD,
    EFFECT_WARN_UNKILLABLE,
    EFFECT_WARN_TAKE_OVER,
    /* the checkpoint attempt */
    EFFECT_ATTEMPT_TIMER, /* ATTEMPT_TICK after delay_us */
    EFFECT_ATTEMPT_TIMER_STOP,
    EFFECT_ATTEMPT_LOOK, /* ATTEMPT_TICK, with what is seen then */
    EFFECT_ASK,          /* the application, with a request where it has none; ATTEMPT_FIRED or
                         ATTEMPT_UNASKED follows */
    EFFECT_UNWATCH,      /* the work folder, for its sentinel */
    EFFECT_HANG_UP,      /* the call */
    EFFECT_WITHDRAW,     /* the question to the ranks that have streams: the journal has its end */
    EFFECT_TELL_STEP,    /* the agreed one, to these */
    EFFECT_HEAR_AGAIN,   /* after the agent's restart */
    EFFECT_CLEAR,        /* the request */
    EFFECT_FREEZE,       /* the whole job; ATTEMPT_FROZEN or ATTEMPT_UNFROZEN follows */
    EFFECT_THAW,         /* ... and whatever of it stands still; ATTEMPT_THAWED follows */
    EFFECT_STAGE,        /* the worker makes a folder; ATTEMPT_STAGE_ENDED follows */
    EFFECT_PUT,          /* the worker copies; ATTEMPT_PUT_ENDED follows */
    EFFECT_PUT_KILL,     /* ... soon */
    EFFECT_ABANDON,      /* what is at the destination goes; ATTEMPT_ABANDONED follows */
    EFFECT_REMOVE,       /* what is in the work folder goes; ATTEMPT_REMOVED follows */
    EFFECT_SWEEP,        /* the same, and nobody waits */
    EFFECT_SAY_LOCAL,    /* why it writes to the node's disk: detail; reason: what a worker found */
    EFFECT_SAY_FAILED,
    EFFECT_SAY_VERIFIED,
    EFFECT_SAY_STILL,     /* unless a leader is there, who will soon let it go on or end it */
    EFFECT_ATTEMPT_ENDED, /* to the process, and to whoever waits to start one */
    /* both */
    EFFECT_FOLDER_OPEN,
    EFFECT_FOLDER_ANEW, /* the work folder is opened again: another one may have its name */
    EFFECT_FOLDER_CLOSE,
    EFFECT_SOCKET_CLOSE,
    EFFECT_WALLTIME, /* its timer is set to the deadline of the entry */
    EFFECT_RECONCILE /* orders may be carried out that were not */
};

struct job_effect {
    enum job_effect_kind kind;
    int signal;
    uint64_t delay_us;
    Ckpt__V1__Reason reason;
};

struct job_effects {
    bool commit;    /* the entry, before anything else */
    bool reporting; /* ... together with the report */
    Ckpt__V1__AgentReport report;
    char detail[JOB_DETAIL_BYTES];
    char manifest[JOB_MANIFEST_BYTES];
    char label[LABEL_MAX_BYTES + 1];
    uint64_t since_us; /* as agent_commit() takes it */
    size_t count;
    struct job_effect effects[JOB_EFFECTS_MAX];
};

void job_effects_begin(struct job_effects *effects);
struct job_effect *job_effect_add(struct job_effects *effects, enum job_effect_kind kind);
/* Its detail is "", which job_effects_detail() fills. */
Ckpt__V1__AgentReport *job_report_begin(struct job_effects *effects, Ckpt__V1__ReportKind kind,
                                        uint64_t run);
void job_report_detail(struct job_effects *effects, const char *text);

#endif
