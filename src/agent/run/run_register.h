/* `ckpt-run register`: the node's agent registers a job of the caller with the cluster. */
#ifndef CKPT_AGENT_RUN_REGISTER_H
#define CKPT_AGENT_RUN_REGISTER_H

/* argv[0] is the verb. Prints, and returns the exit code. */
int run_register(int argc, char **argv);

#endif
