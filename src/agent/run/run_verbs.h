/* Lines of ckpt-run that run no application: its verbs, --help, --version, and wrong ones. */
#ifndef CKPT_AGENT_RUN_VERBS_H
#define CKPT_AGENT_RUN_VERBS_H

#include <stdbool.h>

#include "src/agent/run/run_options.h"

/* True: the line is answered, with *ret_code as the program's. False: an application is to be run
 * with *ret_options. */
bool run_answered(int argc, char **argv, struct run_options *ret_options, int *ret_code);

#endif
