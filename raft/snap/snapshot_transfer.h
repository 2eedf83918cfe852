/* Sending a snapshot to a member that is too far behind, and receiving one: the file in
 * acknowledged chunks between other frames.
 *
 * Flow     transfer_send() opens the file and streams it, TRANSFER_WINDOW_BYTES ahead of the
 *          acknowledgements, so that heartbeats pass; sent() tells how it ended. The receiver
 *          writes tmp-snapshot-install, synced in parts, verifies every byte, then received();
 *          while its disk is at a piece for long, it says so.
 * Shapes   one outgoing stream per peer, one incoming stream in all; a second sender is refused and
 *          tries again later.
 * Units    bytes, microseconds.
 * Errors   sent(-1): connection lost, refused, or no acknowledgement for TRANSFER_STALL_MS. A
 *          receiver that cannot write its disk refuses the stream; its log will tell of the disk
 *          soon enough.
 */
#ifndef CKPT_RAFT_SNAPSHOT_TRANSFER_H
#define CKPT_RAFT_SNAPSHOT_TRANSFER_H

#include "raft/net/transport.h"
#include "raft/snap/snapshot.h"

enum {
    /* So much is on its way unacknowledged: heartbeats wait behind it on the same connection, and
     * must not wait for long. */
    TRANSFER_WINDOW_BYTES = 4 * FRAME_SNAPSHOT_CHUNK_BYTES,
    /* Pieces that a receiver queues for its disk. A sender that keeps to the window never fills the
     * queue; any other sender is refused. */
    TRANSFER_CHUNKS_MAX = 8,
    /* The receiver syncs so often: else the last piece would wait for the disk to write all of the
     * file, and its acknowledgement would come too late. */
    TRANSFER_SYNC_BYTES = 16 * FRAME_SNAPSHOT_CHUNK_BYTES,
    /* Either side gives a stream up when nothing of it has moved for so long. */
    TRANSFER_STALL_MS = 30000,
    /* A receiver whose disk is at one piece for long acknowledges the same bytes again, for at most
     * so long: a disk that hangs for ever must not keep the sender's file open. */
    TRANSFER_WORK_MS = 600000,
};
#define TRANSFER_FILE "tmp-snapshot-install"

struct transfer;

/* One stream to a peer. While `reading` is set, file, chunk and crc belong to the job. */
struct transfer_out {
    struct transfer *transfer;
    struct disk_job job;
    bool active;
    bool reading;
    bool ended; /* while reading: finish when the job is back */
    int ended_status;
    uint64_t peer;
    uint64_t stream, term, index, snapshot_term;
    struct disk_file *file;
    uint64_t size_bytes, sent_bytes, acknowledged_bytes;
    uint64_t content_begin, content_end; /* of the file */
    uint32_t crc, crc_expected;          /* of the content, as far as it was read */
    uint64_t progress_us;
    uint8_t *chunk;
    size_t chunk_length;
    int job_status;
    struct err job_err;
    void (*sent)(void *data, int status);
    void *data;
};

struct transfer_chunk {
    uint8_t *bytes;
    size_t length;
};

/* The stream that comes in. While `working` is set, file, the first chunk, synced_bytes, meta and
 * job_status belong to the job. */
struct transfer_in {
    struct disk_job job;
    bool active;
    bool working;
    bool verified;
    uint64_t from;
    uint64_t stream, term;
    /* Of the whole file: its size, what has arrived, and what the job has written. */
    uint64_t size_bytes, queued_bytes, written_bytes;
    uint64_t synced_bytes;                             /* of the job while working */
    struct transfer_chunk chunks[TRANSFER_CHUNKS_MAX]; /* [0] is being written */
    size_t chunk_count;
    struct disk_file *file; /* of the job while working */
    struct snapshot_meta meta;
    int job_status;
    uint64_t progress_us;
    uint64_t work_us; /* when the job was given to the disk */
};

/* All streams of one member. The storage is the caller's. */
struct transfer {
    const struct folder *folder;
    struct transport *transport;
    const struct clock_ops *clock;
    /* A whole, verified snapshot lies in TRANSFER_FILE until the next call of
     * transfer_in_release(). Takes meta. */
    void (*received)(void *context, uint64_t from, uint64_t term, struct snapshot_meta *take_meta);
    void *context;
    struct transfer_out out[CONSENSUS_MEMBERS_MAX];
    struct transfer_in in;
    bool in_held; /* received() was called, the file is still needed */
    /* Numbers the streams of this process, so that a late chunk or acknowledgement of a stream that
     * was given up is told from one of its successor. */
    uint64_t stream_last;
    /* our newest snapshot could not be read: it fills nobody, another one is due */
    bool unreadable;
    uint64_t unreadable_total;
    struct err unreadable_err; /* of the last time */
};

/* received() comes on the loop for each snapshot that has arrived whole. folder, transport and
 * clock must live until transfer_close(). */
void transfer_init(struct transfer *transfer, const struct folder *folder,
                   struct transport *transport, const struct clock_ops *clock,
                   void (*received)(void *context, uint64_t from, uint64_t term,
                                    struct snapshot_meta *take_meta),
                   void *context);
/* Streams that snapshot to the peer; term is the leader's, and goes along. 0: sent() comes exactly
 * once, later. -1: it cannot begin (no connection, an older stream to it that is not over, an
 * unreadable file) and sent() is not called. A stream of an older term to this peer is ended first,
 * and its sent() may run inside this call. */
int transfer_send(struct transfer *transfer, uint64_t peer, const struct snapshot_name *snapshot,
                  uint64_t term, void (*sent)(void *data, int status), void *data);
/* One of the three FRAME_SNAPSHOT_* frames has come from a peer. Whatever does not fit the streams
 * that are on is dropped, or refused with a failed acknowledgement. */
void transfer_message(struct transfer *transfer, uint64_t from, enum frame_type type,
                      const struct frame_snapshot *frame);
/* The connection to the peer is gone, or its own one was made anew: a stream to it cannot go on. */
void transfer_outbound_lost(struct transfer *transfer, uint64_t peer);
/* The connection from the peer is gone, by which its acknowledgements and its chunks come: streams
 * of both directions end. */
void transfer_inbound_lost(struct transfer *transfer, uint64_t peer);
/* Gives up what stalls; several times in TRANSFER_STALL_MS. */
void transfer_tick(struct transfer *transfer);
/* TRANSFER_FILE is not needed any more: the next stream may overwrite it. Until then each one is
 * refused. */
void transfer_in_release(struct transfer *transfer);
/* Our newest snapshot could not be read: `unreadable` is set until another one is kept, and the
 * status tells err. */
void transfer_unreadable(struct transfer *transfer, const struct err *err);
/* A stream to this peer is on. */
bool transfer_sending_to(const struct transfer *transfer, uint64_t peer);
bool transfer_busy(const struct transfer *transfer); /* a job is in flight */
/* Ends outgoing streams with sent(-1) and forgets the incoming one. Not while transfer_busy(),
 * unless jobs never come back (a simulated crash). */
void transfer_close(struct transfer *transfer);

#endif
