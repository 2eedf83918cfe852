/* The section `htcondor` of the agent's configuration: what HTCondor's machines say of their
 * checkpoint server. See src/serve/htcondor.h.
 *
 * Flow     CKPT_SERVER_HOST, and CkptServer that the machine's ad has of it, become the node's
 *          domain: the machines that use one server are its domain. What is of the server, of each
 *          job or of the supervisor is refused with the name and the place that ours has.
 */
#ifndef CKPT_AGENT_CONFIG_HTCONDOR_H
#define CKPT_AGENT_CONFIG_HTCONDOR_H

struct agent_config;
struct err;

/* 0; or -1 with the name, the line and what to write instead. */
int agent_config_take_htcondor(struct agent_config *config, struct err *err);

#endif
