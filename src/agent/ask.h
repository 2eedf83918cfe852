/* Ways of asking an application for a checkpoint: one table of operations per way, one file each.
 *
 * Flow     ask_find(profile); preflight; prepare (folder and request); fire; then poll until the application is done; clear.
 * Shapes   operations keep no state: everything is in the job's work folder, so an agent that restarts just polls again.
 *          File operations run with the job's user and group when the agent is root.
 * Errors   preflight refusals carry one line for people; prepare and fire fail with struct err.
 * Absent   shm, grpc, exec, criu, dmtcp: attaching with such a profile is refused by name.
 */
#ifndef CKPT_AGENT_ASK_H
#define CKPT_AGENT_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/agent/machine.h"
#include "src/agent/sentinel.h"
#include "src/base/err.h"

struct ask_target {
    const struct machine_ops *machine;
    pid_t group;
    struct machine_user user;
    const char *work_dir;
};

enum ask_ready { ASK_READY, ASK_NO_HANDLER };
enum ask_answer { ASK_NOTHING_YET, ASK_DONE };

struct ask_ops {
    const char *profile;
    int signal;
    enum ask_ready (*preflight)(const struct ask_ops *ops, const struct ask_target *target,
                                char *ret_detail, size_t size);
    int (*prepare)(const struct ask_target *target, const char *hint, const char *directory,
                   uint64_t deadline_ms, struct err *err);
    /* The one signal. */
    int (*fire)(const struct ask_ops *ops, const struct ask_target *target, struct err *err);
    /* Was the request of this hint left behind? */
    bool (*prepared)(const struct ask_target *target, const char *hint);
    enum ask_answer (*poll)(const struct ask_target *target, const char *hint,
                            struct sentinel *ret_sentinel);
    /* Of what the application writes into the folder. */
    struct machine_growth (*growth)(const struct ask_target *target, const char *directory);
    void (*clear)(const struct ask_target *target);
};

/* "" is "signal". NULL: unknown or not in this version. */
const struct ask_ops *ask_find(const char *profile);
/* Names of all profiles, for messages. */
const char *ask_profiles(void);

#endif
