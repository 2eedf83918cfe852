/* How a storage target is shown: in its own list and in the status. */
#ifndef CKPT_CLI_TARGETS_H
#define CKPT_CLI_TARGETS_H

#include "src/cli/output.h"

extern const struct output_kind targets_kind;

#endif
