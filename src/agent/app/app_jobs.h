/* AppService.ListOwnJobs on the agent's unix socket: what an owner sees of the own jobs on this
 * node. */
#ifndef CKPT_AGENT_APP_JOBS_H
#define CKPT_AGENT_APP_JOBS_H

#include <stdbool.h>
#include <sys/types.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/daemon/agent.h"
#include "src/agent/job/attempt_step.h"
#include "src/rpc/server.h"

void app_jobs_serve(struct rpc_server *server, struct agent *agent);

/* The parts of it. Root sees all; others what belongs to them here, or runs as them while nobody is
 * known to own it. */
bool app_jobs_seen(const struct allocation *allocation, uid_t uid);
Ckpt__V1__OwnJobState app_jobs_state(const struct allocation *allocation);
const char *app_jobs_asked_state(
    const struct attempt *attempt); /* of what is asked for, in words */

#endif
