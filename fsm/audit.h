/* The audit trail, as others read it: who changed what from where, with the old and the new value.
 *
 * Flow     each command of a client that changes something adds a record when it is applied. So do
 *          all moves of a sensitive job and of its checkpoints, before an order follows from them.
 *          The leader adds calls that were denied. Each member writes the records into files
 *          (src/broker/keep/audit_trail.h); the leader says how far its own are, and these records
 *          leave the state.
 * Shapes   a record holds the command itself, as it came, and what was before. The records of a log
 *          entry are a link: a packed AuditLink, which holds the BLAKE2b-256 of the link before it,
 *          so that a changed, missing or added one is found with the head alone. Texts are made
 *          when somebody reads a link (fsm_audit_lines), never when it is added. At most
 *          FSM_AUDIT_MAX links and FSM_AUDIT_STATE_BYTES are kept; then the oldest leaves, shipped
 *          or not.
 * Signed   not here: a state machine has no secret, and all members apply the same. A member signs
 *          the head when it has written records, and when it answers ListAudit
 *          (src/broker/keep/audit_key.h). A signature proves that a member with this key had these
 *          records at this time. A file that was edited or cut is found with the public key alone,
 *          and one that is missing at the end when the time is said. It proves nothing against
 *          whoever ruled the member itself, since the key lies there. Then other members' heads
 *          differ, and one that was copied elsewhere in time proves all before it.
 * When     from feature level 2 on.
 * Source   F-017, F-018, N-002, V-016, I31, I41.
 */
#ifndef CKPT_FSM_AUDIT_H
#define CKPT_FSM_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/blake2b.h"

struct fsm;

enum {
    FSM_AUDIT_MAX = 1 << 16,          /* links that the state keeps ... */
    FSM_AUDIT_STATE_BYTES = 16 << 20, /* ... and their bytes */
    FSM_AUDIT_KEPT = 4096,            /* of the shipped ones the newest stay, to be looked at ... */
    FSM_AUDIT_KEPT_BYTES = 2 << 20,   /* ... as far as they have no more bytes */
    FSM_AUDIT_RECORD_BYTES = 8192,    /* no record is longer, and no line */
    FSM_AUDIT_LINK_BYTES = 1 << 16,   /* the next record begins another link, also of one entry */
    FSM_AUDIT_LINK_MAX_BYTES = FSM_AUDIT_LINK_BYTES + FSM_AUDIT_RECORD_BYTES,
    FSM_AUDIT_LENGTH_BYTES = 4 /* little-endian, before each link of a file */
};

struct fsm_audit {
    uint64_t sequence;           /* of the newest record; 0: there was none */
    uint64_t oldest;             /* kept one; sequence + 1: there is none */
    uint64_t shipped;            /* up to here they lie in files */
    uint64_t lost;               /* left before they were shipped, where somebody ships; ever */
    uint64_t links, bytes;       /* kept ones */
    uint8_t hash[BLAKE2B_BYTES]; /* of the newest link */
};
void fsm_get_audit(const struct fsm *fsm, struct fsm_audit *ret_audit); /* a copy */

struct fsm_audit_link {
    uint64_t index;       /* of the log */
    uint64_t first, last; /* records */
    const uint8_t *bytes;
    size_t length;
};
/* Links are numbered from 1. False: it is not kept. */
bool fsm_audit_link(const struct fsm *fsm, uint64_t number, struct fsm_audit_link *ret_link);
/* The first kept link that has this record or later ones; that is of the log entry or of a later
 * one. 0: none. */
uint64_t fsm_audit_link_of(const struct fsm *fsm, uint64_t sequence);
uint64_t fsm_audit_link_from_index(const struct fsm *fsm, uint64_t index);

/* ---- of a link's bytes, wherever they come from ---- */

struct fsm_audit_place {
    uint64_t first, last; /* records */
    uint64_t index, at_ms, epoch;
    uint8_t previous[BLAKE2B_BYTES];
};
/* False: these bytes are no link. */
bool fsm_audit_place(const uint8_t *bytes, size_t length, struct fsm_audit_place *ret_place);
/* Each record as a line of JSON, with a terminator; the line is the caller's until it returns.
 * False: these bytes are no link, or not from some record on. */
typedef void fsm_audit_line_fn(void *context, const char *line, size_t length);
bool fsm_audit_lines(const uint8_t *bytes, size_t length, fsm_audit_line_fn *on_line,
                     void *context);

#endif
