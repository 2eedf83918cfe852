/* The section `htcondor` of the agent's configuration: what HTCondor's machines say of their
 * checkpoint server. See src/serve/htcondor.h.
 *
 * Flow     CKPT_SERVER_HOST, and CkptServer that the machine's ad has of it, become the node's
 *          domain: the machines that use one server are its domain. What is of the server or of the
 *          supervisor has no effect here, and the operator is told where ours is.
 */
#ifndef CKPT_AGENT_CONFIG_HTCONDOR_H
#define CKPT_AGENT_CONFIG_HTCONDOR_H

#include <stdio.h>

struct agent_config;
struct err;

/* 0; or -1 with the name, the line and what to write instead. */
int agent_config_take_htcondor(struct agent_config *config, struct err *err);
/* A line on each name that is given and has no effect here. */
void agent_config_warn_htcondor(const struct agent_config *config, FILE *to);

#endif
