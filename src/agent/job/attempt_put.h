/* The part of an attempt that works on the destination: the worker `put`, and after a failure the
 * worker `abandon`.
 *
 * Flow     attempt_put() -> worker -> attempt_verified() | attempt_finish(); attempt_clean() -> worker `abandon` -> local cleaning.
 * Shapes   one worker per attempt at a time. A cancelled put is waited for before anything of it is
 *          removed.
 */
#ifndef CKPT_AGENT_ATTEMPT_PUT_H
#define CKPT_AGENT_ATTEMPT_PUT_H

#include <stdint.h>

#include "ckpt/v1/agent.pb-c.h"

struct allocation;

struct attempt_shard {
    uint64_t size_bytes;
    uint64_t write_ms;
    char manifest_sha256[72];
};

void attempt_put(struct allocation *allocation);
/* Kills the put, if one runs. */
void attempt_put_cancel(struct allocation *allocation);
/* The agent ends: a worker that still runs is killed and tells nobody; the next start of the agent
 * puts again. */
void attempt_put_detach(struct allocation *allocation);
/* In CLEANING: removes what is at the destination, then what is local. Waits for a cancelled
 * put. */
void attempt_clean(struct allocation *allocation);

/* attempt.c's, called back from here. */
void attempt_verified(struct allocation *allocation, const struct attempt_shard *shard);
void attempt_finish(struct allocation *allocation, Ckpt__V1__ReportKind kind,
                    Ckpt__V1__Reason reason, const char *detail);
void attempt_clean_local(struct allocation *allocation);

#endif
