/* What the owner of a job is told of it later: how its application ended, its last checkpoint, the
 * last one that failed.
 *
 * Flow     the attempt and a restore say what has happened; it is in the entry, and durable with
 *          its next commit. app_jobs.c tells it.
 * Shapes   fields last_* and failed_* of struct ledger_entry. Nothing is decided by them. The
 *          checkpoint is the attempt that the entry has.
 */
#ifndef CKPT_AGENT_KEPT_H
#define CKPT_AGENT_KEPT_H

#include <stdint.h>

#include "ckpt/v1/common.pb-c.h"
#include "src/agent/durable/ledger.h"

/* This node's part of the checkpoint, of the instant at_ms (0: not known), is at its
 * destination. */
void kept_verified(struct ledger_entry *entry, uint64_t size_bytes, uint64_t at_ms);
void kept_failed(struct ledger_entry *entry, Ckpt__V1__Reason reason, const char *detail,
                 uint64_t now_ms);
/* path: of what was restored; NULL: not known. Nothing when it is from scratch. */
void kept_restored(struct ledger_entry *entry, uint64_t checkpoint_id, const char *path,
                   uint64_t at_ms);

/* Of the node's copies of what the job wrote (enum copy_state). begin: of the entry's attempt,
 * whose part has been verified with this manifest; nothing when there is no room in the entry. */
void kept_copy_begin(struct ledger_entry *entry, uint64_t size_bytes, const char *manifest_sha256);
/* NULL: there is none. */
struct ledger_copy *kept_copy_making(struct ledger_entry *entry);
struct ledger_copy *kept_copy_find(struct ledger_entry *entry, uint64_t checkpoint_id,
                                   uint32_t part);
void kept_copy_remove(struct ledger_entry *entry, struct ledger_copy *copy);

#endif
