/* `ckpt-run status`: the caller's jobs on this node, as the agent knows them. */
#ifndef CKPT_AGENT_RUN_STATUS_H
#define CKPT_AGENT_RUN_STATUS_H

/* argv[0] is the verb. Prints, and returns the exit code. */
int run_status(int argc, char **argv);

#endif
