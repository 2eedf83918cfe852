/* `ckpt-run get`: a complete checkpoint of a job of the caller's is brought into a folder. */
#ifndef CKPT_AGENT_RUN_GET_H
#define CKPT_AGENT_RUN_GET_H

int run_get(int argc, char **argv);

#endif
