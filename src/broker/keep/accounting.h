/* Accounting records: each complete checkpoint once, in files that other programs follow. Every
 * member writes them, from the events of the state; nothing waits for the disk or for a reader.
 *
 * Flow     a thread of the system's pool opens the files (accounting_file.h), so that it is known
 *          which events are new. After each applied entry these are looked through; records wait in
 *          memory until the thread has appended them, a batch at a time. While the memory is full
 *          nothing more is looked at: the ring of events keeps it, for as long as it reaches.
 * Shapes   a record is a line, an object of JSON:
 *              {"epoch": N, "sequence": N, "event": "allocation.checkpointed", "at_ms": ...,
 *               "allocation": ..., "tenant": ..., "project": ..., "vcluster": ..., "owner": ...,
 *               "checkpoint": "1-42", "target": ..., "size_bytes": ..., "duration_ms": ...,
 *               "storage_micro_usd_per_month": ...}
 *          epoch is the cluster's when the line was made, sequence the event's. What the state has
 *          forgotten since is null. Where the ring has dropped events that were not looked at, a
 *          line tells of it: "event": "accounting.lost".
 *          A state of a later epoch than the files was restored or recovered: all that its ring
 *          holds is written, also what stands there with the epoch before; `checkpoint` tells.
 * Errors   of the disk are logged once, and it is tried again after ACCOUNTING_AGAIN_MS.
 * Source   D-007.
 */
#ifndef CKPT_BROKER_ACCOUNTING_H
#define CKPT_BROKER_ACCOUNTING_H

#include "src/broker/broker.h"
#include "src/broker/keep/accounting_file.h"

enum {
    ACCOUNTING_WAITING_MAX = ACCOUNTING_BATCH_RECORDS,
    ACCOUNTING_MANY = ACCOUNTING_WAITING_MAX / 10, /* no rest while so many wait */
    ACCOUNTING_EVERY_MS = 1000, /* at most so often to the disk, which Raft writes to as well */
    ACCOUNTING_AGAIN_MS = 10000,
    ACCOUNTING_TURN_EVENTS = 4096
};

struct accounting_counts {
    uint64_t written, lost, removed; /* records; removed: with files that made room for others */
    uint64_t gaps;                   /* in the ring; how many were lost in one may not be known */
    uint64_t waiting;
    bool failing;
};

/* folder: where the files go; it is made. A disk that fails is no failure of this. */
struct accounting *accounting_new(struct broker *broker, const char *folder);
/* What waits is not written: the next start finds it in the state. */
void accounting_free(struct accounting *accounting);
/* Those that were freed while a thread was at the disk, which hangs perhaps, and not since. */
size_t accounting_active(void);
struct accounting_counts accounting_counts(const struct accounting *accounting);

#endif
