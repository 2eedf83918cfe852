/* The inside of the audit trail. See fsm/audit.h.
 *
 * Flow     fsm_audit_begin() notes what a command is about as it is, fsm_audit_end() adds the
 *          record with the difference (change.c). A move of something sensitive adds its record by
 *          itself (action.c).
 * Shapes   the ring belongs to the state; texts of a command that is applied lie in the arena.
 */
#ifndef CKPT_FSM_AUDIT_AUDIT_H
#define CKPT_FSM_AUDIT_AUDIT_H

#include "ckpt/log/v1/snapshot.pb-c.h"
#include "fsm/audit.h"
#include "fsm/core/state.h"

enum {
    AUDIT_LEVEL = 2,
    AUDIT_LOOKED = 64,          /* links whose chain is checked beside all else */
    AUDIT_COMMAND_BYTES = 2048, /* of longer ones the record has the texts */
    AUDIT_VALUE_BYTES = 768,
    AUDIT_SUBJECT_BYTES = 320,
    AUDIT_HEAD_BYTES = 79, /* of a link, before its records */
    AUDIT_RING_BYTES = FSM_AUDIT_STATE_BYTES + FSM_AUDIT_LINK_MAX_BYTES
};

struct audit_place {
    uint64_t index, first; /* of the log; record */
    uint32_t records;
    uint32_t at, length; /* in the ring */
};

/* Each link lies in one piece; what is left at the end of the ring is less than one. */
struct audit {
    uint64_t sequence;     /* of the newest record */
    uint64_t link;         /* of the newest closed link */
    uint64_t count, bytes; /* of the kept ones */
    uint64_t shipped, lost;
    uint8_t hash[BLAKE2B_BYTES];
    uint8_t *ring;              /* AUDIT_RING_BYTES; heap */
    uint32_t end;               /* in it, of the newest */
    struct audit_place *places; /* FSM_AUDIT_MAX; heap */
    /* of the entry that is applied; nothing is open between two entries */
    uint32_t open_records, open_length;
    uint8_t *open; /* FSM_AUDIT_LINK_MAX_BYTES; heap */
};
/* A kept one. */
static inline const struct audit_place *audit_at(const struct audit *audit, uint64_t link)
{
    CHECK(audit->link - link < audit->count);
    return &audit->places[link % FSM_AUDIT_MAX];
}

static inline uint64_t audit_oldest(const struct audit *audit)
{
    CHECK(audit->count <= audit->link);
    return audit->link + 1 - audit->count;
}
static inline uint64_t audit_last(const struct audit_place *place)
{
    CHECK(place->records > 0);
    return place->first + place->records - 1;
}

/* text.c. A text with an end that is seen when it was cut. */
#define AUDIT_CUT_MARK "..."
struct audit_text {
    size_t used;
    char text[AUDIT_VALUE_BYTES];
};
/* Digits up to the end of text; returns the first. */
enum { AUDIT_DIGITS_BYTES = 21 };
char *audit_digits(uint64_t number, char text[AUDIT_DIGITS_BYTES]);
void audit_text_start(struct audit_text *text);
void audit_text_add(struct audit_text *text, const char *more);
void audit_text_number(struct audit_text *text, uint64_t number);
void audit_text_checkpoint(struct audit_text *text, uint64_t checkpoint_id);
/* The name of a value, and "=", behind a comma where it is not the first. */
void audit_text_name(struct audit_text *text, const char *name);

/* subject.c: what a command is about. */
enum audit_kind {
    AUDIT_NOTHING,
    AUDIT_POLICY,
    AUDIT_JOB,
    AUDIT_CHECKPOINT,
    AUDIT_NODE,
    AUDIT_TARGET,
    AUDIT_TENANT,
    AUDIT_QUEUE,
    AUDIT_CLUSTER,
    AUDIT_CERTIFICATE
};
struct audit_subject {
    enum audit_kind kind;
    const char *id;         /* NULL: it has a number, or none */
    uint64_t checkpoint_id; /* of CHECKPOINT */
};
struct audit_subject audit_subject_of(const fsm_command *command);
/* Of the outcome, where it is about nothing that a command names. */
void audit_subject_text(const struct audit_subject *subject, uint64_t preemption_id,
                        struct audit_text *text);

/* asked.c: texts that the command alone tells. */
void audit_asked_text(const fsm_command *command, struct audit_text *text);
/* Of what is new: the values that were asked for. */
void audit_new_text(const fsm_command *command, struct audit_text *text);
const ProtobufCMessage *audit_body_of(const fsm_command *command);

/* view.c: its values. */
enum { AUDIT_MESSAGES_MAX = 2 };
struct audit_view {
    bool is_there;
    bool is_first;                                  /* before the command */
    ProtobufCMessage *messages[AUDIT_MESSAGES_MAX]; /* NULL: no more */
    const char *nodes;                              /* of a job, their names */
};
/* keep: its texts outlive the record. */
void audit_view_take(struct fsm *fsm, const struct audit_subject *subject, bool keep,
                     struct audit_view *ret_view);
/* The values that differ. */
void audit_view_compare(const struct audit_view *was, const struct audit_view *is,
                        struct audit_text *old, struct audit_text *fresh);
/* The values of a message that are not zero, but for its request id. */
void audit_view_asked(const ProtobufCMessage *message, struct audit_text *text);

/* chain.c */
struct audit_entry {
    Ckpt__Log__V1__AuditKind kind;
    const struct fsm_packed_command *packed; /* NULL: the caller and the texts stand for it */
    bool is_new;                             /* of a packed one: its subject was not there before */
    const Ckpt__Log__V1__Caller *caller;
    const char *command, *request_id;
    const char *subject, *asked, *was, *is; /* NULL: empty */
    uint64_t count;                         /* of calls; 0: it is one */
};
void audit_add(struct fsm *fsm, const struct audit_entry *entry);
void audit_ship(struct fsm *fsm, uint64_t sequence);
bool audit_restore(struct fsm *fsm, const Ckpt__Log__V1__AuditKept *kept);
bool audit_restore_head(struct fsm *fsm, const Ckpt__Log__V1__AuditHead *head);
/* The newest `most` links that are kept lead to the head (I41). */
bool audit_whole(const struct fsm *fsm, uint64_t most);
/* record.c. Returns the length. */
size_t audit_record(const struct audit_entry *entry, uint8_t record[FSM_AUDIT_RECORD_BYTES]);
void audit_link_head(const struct fsm *fsm, uint8_t head[AUDIT_HEAD_BYTES]);
/* Behind the link's bytes so far: the tag and the length of a record. Returns their length. */
size_t audit_link_field(size_t record, uint8_t *ret_bytes);

#endif
