/* Says when the disk of this member gets full, hangs, or is well again, and hands leadership over
 * while it is not. Says also when a snapshot could not be written, or not be read for a member that
 * needs it.
 *
 * Flow     every DISK_WATCH_MS one look at the replica's status; a change is logged. A leader with
 *          a full disk refuses all writes, and one whose disk neither ends nor fails a write
 *          commits nothing, so it asks the other members to take over, again every
 *          DISK_WATCH_HANDOVER_MS while it lasts. It hangs when a write takes longer than an
 *          election.
 * Units    milliseconds.
 * Absent   the judgement what is full (raft/log/folder.c); knowledge of the other members' disks:
 *          when all are full, leadership goes round, and reads are served all the same.
 */
#ifndef CKPT_BROKER_DISK_WATCH_H
#define CKPT_BROKER_DISK_WATCH_H

struct broker;
struct disk_watch;

enum {
    DISK_WATCH_MS = 500,
    DISK_WATCH_HANDOVER_MS = 10000,
    DISK_WATCH_READS_MS = 60000 /* between two lines about snapshots that cannot be read */
};

/* On every member, after the replica was opened; looks from then on. Freed after it was closed. */
struct disk_watch *disk_watch_new(struct broker *broker);
void disk_watch_free(struct disk_watch *watch);

#endif
