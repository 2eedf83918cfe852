/* A backup file back into a state machine, with every check that there is.
 *
 * Flow     the header; the content through fsm_snapshot_read(), which verifies all invariants; the
 *          rest of the file to its last byte; the state against the header.
 * Errors   ERR_CORRUPT with path and reason, ERR_MISMATCH another format; the state machine is
 *          unchanged then.
 */
#ifndef CKPT_BROKER_BACKUP_LOAD_H
#define CKPT_BROKER_BACKUP_LOAD_H

#include <stdio.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/err.h"

struct fsm;

/* What a file says of itself, and what loading it came to. */
struct backup_loaded {
    Ckpt__V1__BackupHeader *header; /* freed by backup_loaded_close() */
    uint8_t sha256[32]; /* of the file before its own digest: equal files, equal values */
    uint64_t file_bytes;
    uint64_t content_bytes;
    size_t invariants_checked;
};

/* Loads the file into an empty state machine. 0: all checks passed, and *ret_loaded is the caller's
 * to close. -1: err says which file, what is wrong, and the next step. */
int backup_load(const char *path, struct fsm *fsm, struct backup_loaded *ret_loaded,
                struct err *err);
void backup_loaded_close(struct backup_loaded *loaded);

/* ckptd --verify-backup: loads it and prints what was checked. */
int backup_verify(const char *path, FILE *out, struct err *err);

#endif
