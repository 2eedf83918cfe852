/* The audit trail of a member as files, for years: nothing here removes one.
 *
 * Flow     audit_file_open(): finds the newest file, and cuts off a link that a kill left
 *          unfinished; audit_file_append() for each batch, and audit_file_sign() behind it.
 * Shapes   {folder}/audit-EPOCH-SEQUENCE.audit: the epoch of the cluster when it was begun, and the
 *          first record in it, both with leading zeros, so that names sort. Each link stands
 *          behind its length (fsm/audit.h). After AUDIT_FILE_BYTES, or in another epoch, the next
 *          file begins. {file}.sig is the newest signed head of its file (src/tls/head.h), put in
 *          place of the one before as a whole. One thread at a time; calls block on the disk.
 * Errors   ERR_FULL and ERR_IO with what the system says; ERR_CORRUPT for what is no file of
 *          links. After one that failed the file is as before.
 */
#ifndef CKPT_BROKER_AUDIT_FILE_H
#define CKPT_BROKER_AUDIT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/base/err.h"
#include "src/tls/head.h"

enum { AUDIT_FILE_BYTES = 64 << 20, AUDIT_FILE_NAME_BYTES = 64 };

struct audit_file {
    int folder;                  /* of the system; -1: not open */
    uint64_t epoch;              /* of the newest file; 0: there is none */
    uint64_t first;              /* record in it */
    uint64_t sequence;           /* of the last record in it */
    uint8_t hash[BLAKE2B_BYTES]; /* of its last link */
    char name[AUDIT_FILE_NAME_BYTES];
    off_t size; /* of the newest file, whole links */
};

/* Links, each behind its length. */
struct audit_batch {
    const void *bytes;
    size_t length;
    uint64_t epoch, first, last; /* of the cluster now; records */
    uint8_t hash[BLAKE2B_BYTES]; /* of the last link */
};

/* Makes the folder (0700) where there is none. Closed also after a failure. */
int audit_file_open(const char *folder, struct audit_file *ret_file, struct err *err);
void audit_file_close(struct audit_file *file);
int audit_file_append(struct audit_file *file, const struct audit_batch *batch, struct err *err);
/* Beside the newest file, which has a record. like: the cluster, the member and the time. */
int audit_file_sign(const struct audit_file *file, const struct signed_head *like,
                    const struct sign_key *key, struct err *err);

#endif
