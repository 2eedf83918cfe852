/* `ckpt-run end`: ends a job of the caller on this node, with or without its ckpt-run. */
#ifndef CKPT_AGENT_RUN_END_H
#define CKPT_AGENT_RUN_END_H

/* argv[0] is the verb. Prints, and returns the exit code. */
int run_end(int argc, char **argv);

#endif
