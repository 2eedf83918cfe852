/* `ckpt-run try`: a trial of a command before it is a job: can it be checkpointed, and how. */
#ifndef CKPT_AGENT_RUN_TRY_H
#define CKPT_AGENT_RUN_TRY_H

/* Without a cluster: argv[0] is the verb. Returns the exit code. */
int run_try(int argc, char **argv);

#endif
