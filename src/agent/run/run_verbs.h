/* The verbs of ckpt-run, which run no application. */
#ifndef CKPT_AGENT_RUN_VERBS_H
#define CKPT_AGENT_RUN_VERBS_H

#include <stdbool.h>

/* False: the first argument is no verb. *ret_code: of the program. */
bool run_verb(int argc, char **argv, int *ret_code);

#endif
