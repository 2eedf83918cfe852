/* One ckpt-run's stream on the agent's socket: what app_server.c (its life) and app_hello.c (who
 * may attach) share.
 *
 * Flow     app_server.c: GREETING --hello--> app_hello.c --admitted--> WAITING or RUNNING.
 * Shapes   a stream belongs to its call; its allocation points back to it while it is the one that
 *          is attached.
 */
#ifndef CKPT_AGENT_APP_STREAM_H
#define CKPT_AGENT_APP_STREAM_H

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/app/app_server.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/restorer.h"
#include "src/rpc/server.h"

enum { STREAM_POLL_US = 200000, STREAM_ERROR_BYTES = 640, STREAM_NOTICE_BYTES = 3072 };

enum stream_state {
    STREAM_GREETING,
    STREAM_LOOKING,
    STREAM_PARKED,
    STREAM_ASKING,
    STREAM_WAITING,
    STREAM_SWEEPING,
    STREAM_RESTORING,
    STREAM_READY,
    STREAM_RUNNING,
    STREAM_OVER
};

struct app_stream {
    struct agent *agent;
    struct rpc_call *call;
    struct allocation *allocation; /* NULL before the hello is taken and once orphaned */
    enum stream_state state;
    Ckpt__V1__AttachHello *hello;
    uint32_t taken_over_pid; /* of the application that had to end for this one; 0: none */
    bool want_restore;
    bool may_come;              /* with a refusal: the allocation may be restarted here */
    uint32_t cause_wait_status; /* with a refusal: as in AttachReady */
    bool must_end;      /* with a refusal: what the caller runs is a second one of the allocation */
    bool first;         /* of this ckpt-run: not a restart in place */
    bool told;          /* for which run */
    char *attributes;   /* ... and the registered attributes; NULL: no broker has told them */
    bool comes_back;    /* ... and that the broker restarts the allocation, should it stop */
    bool named;         /* ASKING: a broker has answered... */
    uint64_t named_run; /* ... that this run is here; 0: none */
    bool over;          /* ... which has ended here */
    uint64_t parked_us; /* since when it is PARKED */
    uint64_t said_us;   /* why it waits; 0: not yet */
    bool absent_seen;   /* WAITING: nothing of the run before is alive */
    /* a restart waits until these are taken: the restart point may depend on them */
    uint64_t reports_until;
    struct clock_timer *timer;
    struct restorer *restorer;
    struct path_open *look; /* LOOKING; NULL else */
    struct opened *folder;  /* the work folder, until the allocation has it; NULL: it is not open */
};

/* ---- answers ---- */
void app_stream_ready(struct app_stream *stream, const struct restore_result *result);
/* The stream is gone after any of these three. */
void app_stream_finish(struct app_stream *stream);
void app_stream_start_over(struct app_stream *stream);
__attribute__((format(printf, 2, 3))) void app_stream_refuse(struct app_stream *stream,
                                                             const char *format, ...);
/* Says why nothing has begun yet: at once, and again now and then. data: the stream. */
void app_stream_waits(void *data, const char *why);
void app_stream_send_end(struct app_stream *stream, Ckpt__V1__Reason reason);

/* ---- what is known of the allocation ---- */
/* The run before is over: what is known of the allocation is the caller's from here on. */
void app_stream_take_identity(struct app_stream *stream);
/* registered: "": no broker has told it. */
void app_stream_take_profile(struct app_stream *stream, const struct restore_word *word);
/* NULL: nobody could tell. In an outage who attaches owns it while something of it is here. */
void app_stream_take_owner(struct allocation *allocation, const struct restore_owner *owner);
/* It may run again here. */
void app_stream_clear_end(struct allocation *allocation);
/* The identity that ckpt-run gives, checked: the caller's user, its own process group. */
bool app_stream_identity(const struct app_stream *stream, uint32_t pid, uint64_t start_ticks,
                         struct process_identity *ret_identity, const char **ret_why);

/* ---- steps ---- */
/* Asks a broker; told() and done() get the stream. */
void app_stream_ask(struct app_stream *stream, enum restore_what what,
                    const struct restore_caller *caller);
/* Goes on when nothing of the run before is in the way any more. */
void app_stream_wait(struct app_stream *stream);
/* The hello has come: who may attach does; others are refused, or wait for their turn. */
void app_stream_greet(struct app_stream *stream);
/* PARKED: perhaps it is its turn. */
void app_stream_take_hello(struct app_stream *stream);

#endif
