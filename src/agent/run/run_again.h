/* The line of a ckpt-run that was started again while its application runs. */
#ifndef CKPT_AGENT_RUN_AGAIN_H
#define CKPT_AGENT_RUN_AGAIN_H

#include <stdbool.h>

#include "src/agent/run/run_keeper.h"
#include "src/agent/run/run_options.h"

/* False: refused, since another command runs in the work folder, or this one that was started
 * elsewhere; that is said. *ret_fd: for the news of the keeper; -1: nothing runs there without a
 * ckpt-run. */
bool run_again_find(const char *work_dir, const struct run_options *options,
                    struct keeper_card *ret_card, int *ret_fd);

#endif
