/* The data folder: one process at a time, one member of one cluster, and a reserve for the day the disk is full.
 *
 * Flow     folder_open() locks and reads the identity; folder_claim() writes it as the last step of a bootstrap, so that its
 *          presence means the bootstrap is whole. folder_check_space() is called about once a second; a job that meets a full
 *          disk calls folder_spend_reserve() once and tries again.
 * Shapes   files: lock, identity, reserve; vote (vote.h), wal-* (wal.h), snapshot-* (snapshot.h), tmp-* (removed at open).
 * Errors   ERR_LOCKED; ERR_MISMATCH another member's or cluster's folder; ERR_CORRUPT identity damaged.
 */
#ifndef CKPT_RAFT_FOLDER_H
#define CKPT_RAFT_FOLDER_H

#include <stdatomic.h>

#include "raft/io_ops.h"

enum { FOLDER_PATH_BYTES = 512, FOLDER_NAME_BYTES = 64 };

struct folder {
    const struct disk_ops *disk;
    char path[FOLDER_PATH_BYTES - FOLDER_NAME_BYTES];
    struct disk_lock *lock;
    bool claimed; /* the identity is there and ours */
    bool accepts_writes;
    uint64_t free_bytes; /* at the last check */
    uint64_t reserve_bytes;
    atomic_bool reserve_present; /* cleared by jobs */
    bool reserve_in_work;
    struct disk_job reserve_job;
};

/* The path of a file of the folder; text is returned. */
char *folder_path(const struct folder *folder, const char *name, char text[FOLDER_PATH_BYTES]);

int folder_open(struct folder *folder, const struct disk_ops *disk, const char *path,
                const char *cluster_id, uint64_t member_id, bool create, struct err *err);
void folder_close(struct folder *folder);
int folder_claim(struct folder *folder, const char *cluster_id, uint64_t member_id,
                 struct err *err);

/* Makes the reserve when there is room for it; at open. */
void folder_set_reserve(struct folder *folder, uint64_t bytes);
/* Updates free_bytes and accepts_writes, and restores a spent reserve when there is room again. */
void folder_check_space(struct folder *folder);
/* In a job: true when space was freed and the write may be tried again. */
bool folder_spend_reserve(struct folder *folder);
bool folder_busy(const struct folder *folder);

/* Replaces name by bytes: temporary file, sync, rename, sync of the folder. */
int folder_write_file(const struct folder *folder, const char *name, const void *bytes,
                      size_t length, struct err *err);

#endif
