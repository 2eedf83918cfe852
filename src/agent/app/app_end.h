/* The last word to a ckpt-run, when its allocation is over on this node. */
#ifndef CKPT_AGENT_APP_END_H
#define CKPT_AGENT_APP_END_H

#include "ckpt/v1/common.pb-c.h"
#include "src/agent/job/allocation.h"

enum { APP_END_BYTES = 256 };

/* The reason in words and, where it may go on elsewhere, the checkpoint that holds its work.
 * Returns text. */
const char *app_end_text(const struct allocation *allocation, Ckpt__V1__Reason reason,
                         char text[APP_END_BYTES]);

#endif
