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
 * Errors   ERR_LOCKED; ERR_MISMATCH another member's or cluster's folder; ERR_CORRUPT identity
 *          damaged.
 */
#ifndef CKPT_RAFT_FOLDER_H
#define CKPT_RAFT_FOLDER_H

#include <stdatomic.h>

#include "raft/io_ops.h"
#include "src/base/id.h"

#define FOLDER_REMOVED_FILE  "removed"  /* for ever */
#define FOLDER_FOUNDING_FILE "founding" /* founding.h */

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
    bool accepts_writes;
    uint64_t free_bytes; /* at the last check */
    uint64_t reserve_bytes;
    uint64_t segment_bytes;      /* of log files; 0: WAL_SEGMENT_BYTES */
    atomic_bool reserve_present; /* cleared by jobs */
    bool reserve_in_work;
    struct disk_job reserve_job;
};

/* The path of a file of the folder; text is returned. */
char *folder_path(const struct folder *folder, const char *name, char text[FOLDER_PATH_BYTES]);

/* Whose folder it is. */
struct folder_owner {
    const char *cluster_id;
    uint64_t member_id; /* 0: whoever's it is */
};
int folder_open(struct folder *folder, const struct disk_ops *disk, const char *path,
                const struct folder_owner *owner, bool create, struct err *err);
void folder_close(struct folder *folder);
/* Writes the identity with incarnation and epoch_min as they are set. */
int folder_claim(struct folder *folder, struct err *err);
/* The incarnation of a member that joined, as its first peer told it; durable when it returns 0. */
int folder_adopt(struct folder *folder, uint64_t incarnation, struct err *err);

/* Makes the reserve when there is room for it; at open. */
void folder_set_reserve(struct folder *folder, uint64_t bytes);
/* Updates free_bytes and accepts_writes, and restores a spent reserve when there is room again. */
void folder_check_space(struct folder *folder);
/* In a job: true when space was freed and the write may be tried again. */
/* A disk that does not read says nothing of what it holds. */
int folder_holds(const struct folder *folder, const char *name, bool *ret_holds, struct err *err);
bool folder_spend_reserve(struct folder *folder);
bool folder_busy(const struct folder *folder);

/* What a new file begins with; durable when it returns 0. The error says path and offset. */
int folder_fill(const struct folder *folder, struct disk_file *file, const char *path,
                const void *bytes, size_t length, struct err *err);
/* Replaces name by bytes: temporary file, sync, rename, sync of the folder. */
int folder_write_file(const struct folder *folder, const char *name, const void *bytes,
                      size_t length, struct err *err);

/* Durable when it returns 0; nothing of that name is fine. */
int folder_remove(const struct folder *folder, const char *name, struct err *err);

#endif
