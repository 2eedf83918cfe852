/* The data folder: one process at a time, one member of one cluster, and a reserve for the day the
 * disk is full.
 *
 * Flow     folder_open() locks and reads the identity; folder_claim() writes it as the last step of
 *          a bootstrap, so that its presence means the bootstrap is whole. folder_check_space() is
 *          called about once a second; a job that meets a full disk calls folder_spend_reserve()
 *          once and tries again.
 *          An incarnation is a history that all members share. A recovery from lost quorum, or a
 *          restore from a backup, begins another one, under another number; members of different
 *          ones refuse each other (transport.h). So recovering two members separately, or starting
 *          old members beside a restored cluster, never mixes two histories. 0: a member that
 *          joined and was not greeted yet.
 * Shapes   files: lock, identity, reserve; founding (founding.h), vote (vote.h), wal-* (wal.h),
 *          snapshot-* (snapshot.h), tmp-* (removed at open).
 * Units    bytes.
 * Errors   ERR_LOCKED; ERR_MISMATCH another member's or cluster's folder; ERR_CORRUPT identity
 *          damaged; ERR_INVALID a path that is too long.
 * Absent   the meaning of a folder without identity: consensus.c and offline.c decide it.
 */
#ifndef CKPT_RAFT_FOLDER_H
#define CKPT_RAFT_FOLDER_H

#include <stdatomic.h>

#include "raft/io_ops.h"
#include "src/base/id.h"

#define FOLDER_REMOVED_FILE  "removed"  /* for ever */
#define FOLDER_FOUNDING_FILE "founding" /* founding.h */

/* With their zero: of a whole path, and of a name in the folder. The longest path of a folder
 * leaves room for the longest name, so that no path is ever cut. */
enum { FOLDER_PATH_BYTES = 512, FOLDER_NAME_BYTES = 64 };

struct folder {
    const struct disk_ops *disk;
    char path[FOLDER_PATH_BYTES - FOLDER_NAME_BYTES];
    struct disk_lock *lock;
    bool claimed; /* the identity is there and ours */
    uint64_t incarnation;
    /* the state must have at least this epoch before anything else is decided; 0: any */
    uint64_t epoch_min;
    char cluster_id[ID_MAX_BYTES + 1];
    uint64_t member_id;
    bool accepts_writes;  /* room for changes is left; see folder_check_space() */
    uint64_t free_bytes;  /* at the last check */
    uint64_t total_bytes; /* of its file system, then; 0: not known */
    /* Size of the reserve; 0: none was asked for, and room is not looked at. */
    uint64_t reserve_bytes;
    uint64_t segment_bytes;      /* of log files; 0: WAL_SEGMENT_BYTES */
    atomic_bool reserve_present; /* cleared by jobs */
    bool reserve_in_work;
    struct disk_job reserve_job;
};

/* Writes the path of a file of the folder into text and returns it. The name has less than
 * FOLDER_NAME_BYTES - 1 characters. */
char *folder_path(const struct folder *folder, const char *name, char text[FOLDER_PATH_BYTES]);

/* The owner that a folder with an identity must have. */
struct folder_owner {
    const char *cluster_id;
    uint64_t member_id; /* 0: whoever's it is */
};
/* Takes the folder: locks it, removes tmp-* and reads the identity, which sets `claimed`. create:
 * makes the folder when it is missing; else ERR_NOT_FOUND. On -1 nothing is held. disk must live
 * until folder_close(); path and owner are copied. */
int folder_open(struct folder *folder, const struct disk_ops *disk, const char *path,
                const struct folder_owner *owner, bool create, struct err *err);
/* Gives the lock back; also after a failed open, and twice. Not while folder_busy(). */
void folder_close(struct folder *folder);
/* Writes the identity with incarnation and epoch_min as they are set, and sets `claimed`. Durable
 * when it returns 0. In a bootstrap, a join and a restore it is the last write of all. */
int folder_claim(struct folder *folder, struct err *err);
/* The incarnation of a member that joined, as its first peer told it: once only. Durable when it
 * returns 0. */
int folder_adopt(struct folder *folder, uint64_t incarnation, struct err *err);

/* At open, once: the reserve of that size, found or made. Without room for it the member runs,
 * takes no changes, and makes it later. Never fails. */
void folder_set_reserve(struct folder *folder, uint64_t bytes);
/* On the loop: updates free_bytes and accepts_writes, and makes a spent reserve again, in a job,
 * when twice its size is free. */
void folder_check_space(struct folder *folder);
/* Whether a file of this name is there. -1: a disk that does not read says nothing of what it
 * holds. */
int folder_holds(const struct folder *folder, const char *name, bool *ret_holds, struct err *err);
/* In a job that met a full disk: true when the reserve was removed, and the write may be tried once
 * more. False: it is spent already. */
bool folder_spend_reserve(struct folder *folder);
/* A job of the folder is under way, which has this struct. */
bool folder_busy(const struct folder *folder);

/* Writes the first bytes of a file that was just opened, and syncs it. path is for the error, which
 * says it and the offset. The name is not made durable: sync_dir() does that. */
int folder_fill(const struct folder *folder, struct disk_file *file, const char *path,
                const void *bytes, size_t length, struct err *err);
/* Replaces the file `name` by bytes: temporary file, sync, rename, sync of the folder. Whenever the
 * member dies the file is the old one or the new one, whole. Durable when it returns 0. */
int folder_write_file(const struct folder *folder, const char *name, const void *bytes,
                      size_t length, struct err *err);

/* Removes the file; durable when it returns 0, also when nothing of that name was there. */
int folder_remove(const struct folder *folder, const char *name, struct err *err);

#endif
