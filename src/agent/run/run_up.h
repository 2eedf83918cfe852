/* The words of ckpt-run to the agent on its stream (proto/ckpt/v1/app.proto, AttachUp).
 *
 * Flow     a hello comes first on each stream, then that an application was started, and that it
 *          has ended. Nothing follows on a stream after that.
 */
#ifndef CKPT_AGENT_RUN_UP_H
#define CKPT_AGENT_RUN_UP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/run/run_options.h"
#include "src/rpc/client.h"

/* The facts of a hello that the options do not tell. */
struct run_up_hello {
    const char *work_dir;
    pid_t pid; /* 0: nothing runs */
    uint64_t start_ticks;
    uint64_t run_number; /* 0: of none */
    uint32_t restart_count;
    bool running;
    bool held; /* it has not begun yet */
    bool want_restore;
    Ckpt__V1__AttachWait wait;
};

void run_up_hello(struct rpc_client_call *call, const struct run_options *options,
                  const struct run_up_hello *facts);
void run_up_started(struct rpc_client_call *call, pid_t pid, uint64_t start_ticks,
                    uint64_t restored_id);
/* The agent is to look for the note, which goes with it when it is nowhere else. */
void run_up_ended(struct rpc_client_call *call, const char *note);

#endif
