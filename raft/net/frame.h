/* Frames between members: magic, type, length, checksum, body. Encoding never fails; decoding
 * trusts nothing.
 *
 * Flow     frame_parse() on a receive buffer: a whole frame, "more bytes needed", or an error that
 *          ends the connection. Then frame_decode() turns the body into a message.
 * Shapes   a frame is at most FRAME_BODY_MAX_BYTES + FRAME_HEADER_BYTES long. Received entries
 *          share one heap batch, as libraft wants it; frame_message_close() frees what libraft did
 *          not take.
 * Units    bytes; numbers are little endian.
 * Errors   ERR_CORRUPT: wrong magic, checksum, length or body. Encoding more than a frame holds is
 *          a bug of the caller (CHECK).
 * Absent   the order and the senders of frames: transport.h.
 * Source   header, 16 bytes: magic u32, type u8, version u8, zero u16, body length u32, crc32c u32
 *          of the 12 bytes before it and the body.
 */
#ifndef CKPT_RAFT_FRAME_H
#define CKPT_RAFT_FRAME_H

#include <raft.h>

#include "raft/core/consensus.h"
#include "src/base/bytes.h"

enum {
    FRAME_HEADER_BYTES = 16,
    /* The largest entry, or a piece of a snapshot, with what goes along. A length above it ends the
     * connection before any memory is taken for it. */
    FRAME_BODY_MAX_BYTES = CONSENSUS_ENTRY_MAX_BYTES + (1 << 17),
    /* An AppendEntries takes entries up to this, at least one. It is also what a probe costs, when
     * the receiver lacks what precedes it and refuses it. */
    FRAME_ENTRIES_TARGET_BYTES = 256 << 10,
    FRAME_SNAPSHOT_CHUNK_BYTES = 256 << 10,
    FRAME_CLUSTER_BYTES = 129,
};

/* Append only: a member of another version may listen. */
#define FRAME_TYPES(X)                                                                             \
    X(HELLO, 1)                                                                                    \
    X(APPEND, 2)                                                                                   \
    X(APPEND_RESULT, 3)                                                                            \
    X(VOTE, 4)                                                                                     \
    X(VOTE_RESULT, 5)                                                                              \
    X(SNAPSHOT_BEGIN, 6)                                                                           \
    X(SNAPSHOT_CHUNK, 7)                                                                           \
    X(SNAPSHOT_ACK, 8)                                                                             \
    X(READ_PING, 9)                                                                                \
    X(READ_PONG, 10)                                                                               \
    X(CAMPAIGN, 11)                                                                                \
    X(HELLO_REPLY, 12) /* the only one that goes back on an accepted connection */
enum frame_type {
#define X(name, number) FRAME_##name = number,
    FRAME_TYPES(X)
#undef X
        FRAME_TYPE_END
};
const char *frame_type_name(enum frame_type type);

/* The first frame on a dialled connection: who calls, and whom it means to call. */
struct frame_hello {
    char cluster_id[FRAME_CLUSTER_BYTES];
    uint64_t from;
    uint64_t to;
    uint64_t incarnation; /* folder.h; 0: not known to the sender */
    bool probe;           /* only asks who is there: no frame follows */
    char name[CONSENSUS_NAME_BYTES];
    char address[CONSENSUS_ADDRESS_BYTES]; /* where `from` listens */
    uint64_t last_index;                   /* of the sender's log */
    char contact[CONSENSUS_ADDRESS_BYTES]; /* of the sender */
    /* number of the sender's folder, which is no member yet (founding.h); else 0 */
    uint64_t founding;
    struct consensus_build build; /* of the sender; an earlier one says none */
};

/* Append only. */
enum frame_welcome {
    FRAME_WELCOME = 0,
    FRAME_WELCOME_REMOVED = 1,  /* the sender of the hello was removed from the cluster */
    FRAME_WELCOME_OTHER = 2,    /* another cluster or another member listens here */
    FRAME_WELCOME_FULL = 3,     /* no place for one more peer */
    FRAME_WELCOME_OLD = 4,      /* the sender's log ends before what it had acknowledged */
    FRAME_WELCOME_FOUNDER = 5,  /* one of the two is no member yet: the answer to a founder */
    FRAME_WELCOME_STRANGER = 6, /* the cluster was founded without the sender's folder */
    FRAME_WELCOME_END
};

/* The folders that an incarnation was drawn for. */
struct frame_founder {
    uint64_t id;
    uint64_t number;
};
struct frame_founders {
    struct frame_founder list[CONSENSUS_MEMBERS_MAX];
    size_t count;
};

/* The answer to a hello: who answers, and whether the caller is welcome. */
struct frame_hello_reply {
    enum frame_welcome welcome;
    char cluster_id[FRAME_CLUSTER_BYTES]; /* of who answers */
    uint64_t member_id;                   /* of who answers */
    bool joining;         /* the answering member has an empty folder and waits to be added */
    uint64_t last_index;  /* of its log */
    uint64_t index;       /* removed: since here; old: acknowledged up to here, 0: something */
    uint64_t incarnation; /* of who answers */
    char contact[CONSENSUS_ADDRESS_BYTES]; /* of who answers */
    /* In a founding (founding.h): */
    uint64_t founding;              /* number of the folder of who answers */
    uint64_t basis;                 /* the state that it begins, or began, with */
    struct frame_founders founders; /* of the incarnation; none: it is not agreed on */
    struct consensus_build build;   /* of who answers; an earlier one says none */
};

/* The three frames of a snapshot on its way (snapshot_transfer.h); each uses a part of the
 * fields. */
struct frame_snapshot {
    uint64_t stream; /* chosen by the sender, to tell late chunks from new ones */
    uint64_t term;   /* begin */
    uint64_t index;  /* begin: last index in the snapshot */
    /* begin: size of the file; chunk: of its first byte; acknowledgement: next byte wanted */
    uint64_t offset;
    bool failed;          /* acknowledgement: the receiver gives up */
    const uint8_t *bytes; /* chunk; points into the frame */
    size_t length;
};

/* A question to the other members and its answer: whether this term still stands
 * (consensus_read.c), or whether a hand-over is on (consensus_transfer.c). The round tells which
 * question an answer belongs to. */
struct frame_read {
    uint64_t term;
    uint64_t round;
};

/* The sender's note that goes along with entries, their answers and votes, also with empty ones. */
struct frame_note {
    bool told; /* else the rest is not in the frame: it was told lately */
    enum consensus_unfit unfit;
    bool others_fit; /* of a leader: so is a voter that it hears, beside it and the receiver */
    size_t length;
    uint8_t bytes[CONSENSUS_NOTE_MAX_BYTES]; /* hooks.note()'s */
};

/* One frame, decoded or to be encoded: type says which member of the union counts. */
struct frame_message {
    enum frame_type type;
    struct frame_note note; /* append, append result, vote, vote result */
    union {
        struct frame_hello hello;
        struct frame_hello_reply reply;
        /* append, append result, vote, vote result; server_id and address are the receiver's to
         * set */
        struct raft_message core;
        struct frame_snapshot snapshot;
        struct frame_read read; /* ping, pong, campaign */
    };
};

/* A frame that was found in a receive buffer, checked and not decoded; it points into the
 * buffer. */
struct frame {
    enum frame_type type;
    const uint8_t *body;
    size_t length;
    size_t frame_bytes; /* header and body */
};

/* Looks for one frame at the beginning of bytes. 1: ret_frame is whole and its checksum right; 0:
 * more bytes are needed; -1: err, and no frame can follow. A length that is not allowed is refused
 * before the body has arrived. */
int frame_parse(const uint8_t *bytes, size_t length, struct frame *ret_frame, struct err *err);
/* Turns a frame into a message that the caller closes when 0 is returned. Configurations in it are
 * safe for libraft to decode. Snapshot bytes point into the frame, everything else is copied. */
int frame_decode(const struct frame *frame, struct frame_message *ret_message, struct err *err);
/* Frees what decoding allocated; not when libraft took the entries. */
void frame_message_close(struct frame_message *message);
/* Frees the entries of a received AppendEntries and leaves it with none: for those that libraft is
 * not given. */
void frame_entries_free(struct raft_append_entries *append);

/* The frames of libraft itself, which go between members all the time, carry a note. */
static inline bool frame_has_note(enum frame_type type)
{
    return type >= FRAME_APPEND && type <= FRAME_VOTE_RESULT;
}

/* Appends one frame to buf; the message stays the caller's. For FRAME_APPEND all of the core
 * message's entries are written: the caller splits by frame_entries_that_fit(). */
void frame_encode(struct buf *buf, const struct frame_message *message);
/* How many of the entries from `first` on go into one frame: at least one when there are any. */
unsigned frame_entries_that_fit(const struct raft_append_entries *append, unsigned first);

#endif
