/* What the owner of a job is told of it later: how its application ended, its last checkpoint, the
 * last one that failed.
 *
 * Flow     the attempt, the process and a restore say what has happened; it is in the entry, and
 *          durable with its next commit. app_jobs.c tells it.
 * Shapes   fields last_* and failed_* of struct ledger_entry. Nothing is decided by them.
 */
#ifndef CKPT_AGENT_KEPT_H
#define CKPT_AGENT_KEPT_H

#include <stdint.h>

struct allocation;
struct restore_result;

/* This node's part of the attempt's checkpoint, of the instant asked_at_us, is at its
 * destination. */
void kept_verified(struct allocation *allocation, uint64_t asked_at_us, uint64_t size_bytes);
/* The attempt's outcome is a failure. */
void kept_failed(struct allocation *allocation);
/* Nothing when it is from scratch. */
void kept_restored(struct allocation *allocation, const struct restore_result *result);

#endif
