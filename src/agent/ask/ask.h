/* Ways of asking an application for a checkpoint: one table of operations per way, one file each.
 *
 * Flow     ask_find(profile); preflight; prepare (folder and request); fire; then poll until the application is done; clear.
 *          A way that asks by a call gets one from fire, and is told what is heard on it by struct ask_events until it hangs up.
 * Shapes   operations keep no state beside the call: everything is in the job's work folder, an answer to a call too, so an agent that
 *          restarts just polls again. File operations run with the job's user and group when the agent is root.
 * Errors   preflight refusals carry one line for people; prepare and fire fail with struct err.
 * Absent   shm, exec, criu, dmtcp: attaching with such a profile is refused by name.
 */
#ifndef CKPT_AGENT_ASK_H
#define CKPT_AGENT_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "ckpt/v1/common.pb-c.h"
#include "src/agent/job/sentinel.h"
#include "src/agent/node/machine.h"
#include "src/base/err.h"

struct ask_call; /* an open question */

struct ask_target {
    const struct machine_ops *machine;
    uv_loop_t *loop;
    pid_t group;
    struct machine_user user;
    const struct opened *folder; /* the work folder; NULL: it is not open */
    const char *endpoint;        /* "unix:PATH"; "": none was registered */
    const struct opened *socket; /* ... and what lies there; NULL: it is not open */
};

struct ask_request {
    uint64_t checkpoint_id;
    uint32_t attempt;
    const char *hint; /* these two as text */
    const char *directory;
    uint64_t deadline_ms;     /* since the epoch */
    uint64_t max_deferral_ms; /* that it may still ask for; 0: it must begin */
};

/* What is heard on a call; from the loop, never from inside fire. deferred() and broken() are its last words, and after them, or in
 * them, it is hung up. */
struct ask_events {
    void (*alive)(void *data);    /* an estimate, some progress */
    void (*answered)(void *data); /* poll finds it */
    void (*deferred)(void *data, uint64_t defer_ms);
    void (*broken)(void *data, Ckpt__V1__Reason reason, const char *text);
};

enum ask_ready { ASK_READY, ASK_NO_HANDLER };
/* UNFINISHED: something is there and lacks something; WRONG: it can never become right. Both with a line that says what. */
enum ask_answer { ASK_NOTHING_YET, ASK_UNFINISHED, ASK_WRONG, ASK_DONE };

struct ask_ops {
    const char *profile;
    int signal;
    bool calls; /* an agent that restarts has lost the question, unless its answer is there */
    enum ask_ready (*preflight)(const struct ask_ops *ops, const struct ask_target *target,
                                char *ret_detail, size_t size);
    int (*prepare)(const struct ask_target *target, const struct ask_request *request,
                   struct err *err);
    /* The one signal, or the call. *ret_call: NULL unless the way calls. */
    int (*fire)(const struct ask_ops *ops, const struct ask_target *target,
                const struct ask_request *request, const struct ask_events *events, void *data,
                struct ask_call **ret_call, struct err *err);
    void (*hang_up)(struct ask_call *call); /* NULL allowed; nothing is heard afterwards */
    /* Was the request of this hint left behind? */
    bool (*prepared)(const struct ask_target *target, const char *hint);
    enum ask_answer (*poll)(const struct ask_target *target, const char *hint,
                            struct sentinel *ret_sentinel, struct err *err);
    /* Of what the application writes for this hint. */
    struct machine_growth (*growth)(const struct ask_target *target, const char *hint);
    void (*clear)(const struct ask_target *target);
};

extern const struct ask_ops ask_signal_usr1, ask_signal_usr2, ask_grpc;

/* "" is "signal". NULL: unknown or not in this version. */
const struct ask_ops *ask_find(const char *profile);
const char *ask_profile_at(size_t i); /* its name; NULL: no more */
/* Names of all profiles, for messages. */
const char *ask_profiles(void);

#endif
