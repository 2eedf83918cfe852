/* `ckpt-run get`: a complete checkpoint of a job of the caller's is brought into a folder. */
#ifndef CKPT_AGENT_RUN_GET_H
#define CKPT_AGENT_RUN_GET_H

#include <stdbool.h>

int run_get(int argc, char **argv);

/* Whether a folder of that name is one of its parts: "part-0000". */
bool run_get_is_part(const char *name);

#endif
