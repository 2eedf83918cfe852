/* Accounting records: each complete checkpoint once, in files that other programs follow. Every
 * member writes them, from the events of the state; nothing waits for the disk or for a reader.
 *
 * Flow     after applied entries the new events are looked through; records wait in memory until a
 *          thread of the system's pool has appended them (accounting_file.h), a batch at a time. A
 *          start goes on behind the last record that is there.
 * Shapes   a record is a line, an object of JSON:
 *              {"sequence": N, "event": "allocation.checkpointed", "at_ms": ..., "allocation": ...,
 *               "tenant": ..., "project": ..., "vcluster": ..., "owner": ..., "checkpoint": "1-42",
 *               "target": ..., "size_bytes": ..., "duration_ms": ...,
 *               "storage_micro_usd_per_month": ...}
 *          sequence is the event's and grows; a checkpoint's id is in one record only, but after a
 *          restore from a backup, which begins with the events of that. What was forgotten between
 *          is null. What was lost is told in its place:
 *              {"sequence": N, "event": "accounting.lost", "records": how many, or null}
 *          At most ACCOUNTING_WAITING_MAX records wait: more, while the disk takes none, are lost
 *          and counted. Events that the state dropped before they were looked at (a member that was
 *          away for longer than its ring of events reaches) are lost as well, how many is not
 *          known.
 * Errors   of the disk are logged once, and tried again after ACCOUNTING_AGAIN_MS.
 * Source   D-007.
 */
#ifndef CKPT_BROKER_ACCOUNTING_H
#define CKPT_BROKER_ACCOUNTING_H

#include "src/broker/broker.h"
#include "src/broker/keep/accounting_file.h"

enum {
    ACCOUNTING_WAITING_MAX = ACCOUNTING_BATCH_RECORDS,
    ACCOUNTING_EVERY_MS = 1000, /* at most so often to the disk, which Raft writes to as well */
    ACCOUNTING_AGAIN_MS = 10000,
    ACCOUNTING_TURN_EVENTS = 4096
};

struct accounting_counts {
    uint64_t written, lost, removed; /* records; removed: with files that made room for others */
    uint64_t waiting;
    bool failing;
};

/* folder: where the files go; it is made. A disk that fails is no failure of this. */
struct accounting *accounting_new(struct broker *broker, const char *folder);
/* What waits is not written: the next start finds it in the state. */
void accounting_free(struct accounting *accounting);
struct accounting_counts accounting_counts(const struct accounting *accounting);

#endif
