/* How ckpt-run names, for people, what an agent lets it start. */
#ifndef CKPT_AGENT_RUN_NAMES_H
#define CKPT_AGENT_RUN_NAMES_H

#include <stdbool.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/base/id.h"

enum { RUN_NAME_BYTES = ID_MAX_BYTES + 64 };

/* Each returns text. " as part 1 of 2 on node b"; "", where it is not known, or the job has no
 * other part. */
const char *run_part_name(const Ckpt__V1__AttachReady *ready, char text[RUN_NAME_BYTES]);
/* "1-42, step 127", or whatever its ranks call it. */
const char *run_checkpoint_name(const Ckpt__V1__AttachReady *ready, char text[RUN_NAME_BYTES]);
/* Why its run is over here, as the agent says it; import: the run was that of `ckpt-run import`. */
enum { RUN_OVER_BYTES = 512 };
const char *run_over_name(const char *reason, bool import, char text[RUN_OVER_BYTES]);
/* How it has ended, which the agent is to hear, before another one starts or by a note. */
enum { RUN_END_BYTES = 256 };
const char *run_end_name(int wait_status, bool will_restart, bool noted, char text[RUN_END_BYTES]);

/* How long it tries again; moment: only for the last word. wait_for_ms 0: for ever. */
const char *run_again_for(bool moment, uint64_t wait_for_ms);

#endif
