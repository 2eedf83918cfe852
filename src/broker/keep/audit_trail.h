/* The audit trail as files: each member writes all records of its state into its own folder, so
 * that they outlive the state's ring as often as there are members.
 *
 * Flow     after each applied entry records that the files lack wait in the ring; a thread of the
 *          system's pool appends them, a batch at a time. The leader tells the state how far its
 *          files are (AuditShipped), so that what lies there leaves the state. A member with a key
 *          signs the head behind each batch, and at least once an hour.
 * Shapes   files: audit_file.h. A state of a later epoch than the files was restored: all that its
 *          ring holds is written again, since the numbers may go on from an earlier one.
 * Errors   of the disk are logged once, and it is tried again after AUDIT_AGAIN_MS. A member that
 *          missed records, since a snapshot took the place of its state, says so in the log; the
 *          other members have them (ckptctl audit verify takes files of all).
 * Source   F-018, N-004, V-016.
 */
#ifndef CKPT_BROKER_AUDIT_TRAIL_H
#define CKPT_BROKER_AUDIT_TRAIL_H

#include "src/broker/broker.h"

enum {
    AUDIT_BATCH_BYTES = 2 << 20, /* the loop copies no more in one turn */
    AUDIT_EVERY_MS = 5000, /* at most so often to the disk, which Raft writes to as well ... */
    AUDIT_MANY = 2048,     /* ... but for so many, where the state's ring is half full */
    AUDIT_AGAIN_MS = 10000,
    AUDIT_SIGN_MS = 3600000,  /* also where nothing changes: a signature shows when it was made */
    AUDIT_SHIP_RECORDS = 4096 /* the state is told when so many more lie in files */
};

struct audit_trail_counts {
    uint64_t written, missed; /* records */
    bool failing;
    bool changed; /* the files did not end with what this member has written when it started */
};

/* folder: where the files go; it is made. */
struct audit_trail *audit_trail_new(struct broker *broker, const char *folder);
void audit_trail_free(struct audit_trail *trail);
/* The key is another one. */
void audit_trail_sign(struct audit_trail *trail);
/* Those that were freed while a thread was at the disk, which hangs perhaps, and not since. */
size_t audit_trail_active(void);
struct audit_trail_counts audit_trail_counts(const struct audit_trail *trail);

#endif
