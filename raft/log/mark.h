/* How far the log certainly reached: a lower bound that tells a log whose end was lost from one
 * that ended there.
 *
 * Flow     mark_raise() after each sync of the log: written, not synced, so it costs no wait; the
 *          page reaches the disk sooner or later, and survives the process in any case.
 *          mark_lower() before the log is cut on purpose: durable when it returns. At open the log
 *          must reach it.
 * Shapes   file "synced": slot 0 at offset 0, slot 1 at offset 4096; the higher counter wins;
 *          raised in turn, lowered both.
 * Units    log indexes.
 * Errors   raising never fails: a bound that could not be written is weaker, not wrong. Neither
 *          slot readable: nothing is known.
 * Absent   proof that nothing is missing: after a power cut the bound may be some seconds old.
 * Source   slot, little endian, 28 bytes: "CKPTSYNC", counter u64, index u64, crc32c u32 of all
 *          before it.
 */
#ifndef CKPT_RAFT_MARK_H
#define CKPT_RAFT_MARK_H

#include "raft/log/folder.h"

/* While a job of the log runs it belongs to that job. */
struct mark {
    const struct folder *folder;
    struct disk_file *file;
    uint64_t counter;
    uint64_t index; /* 0: nothing is known */
};

/* Opens the file, or makes it when there is none, and reads the bound into mark->index, which is
 * durable afterwards. -1: nothing is open. */
int mark_open(struct mark *mark, const struct folder *folder, struct err *err);
/* The log is synced up to index; a lower one than before says nothing. Never fails and never waits
 * for the disk. */
void mark_raise(struct mark *mark, uint64_t index);
/* The log is about to end at index, which is not above the bound. It must return 0 before anything
 * is cut. */
int mark_lower(struct mark *mark, uint64_t index, struct err *err);
/* Twice is fine. */
void mark_close(struct mark *mark);

#endif
