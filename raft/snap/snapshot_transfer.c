/* Snapshot streams in both directions. See snapshot_transfer.h. */
#include "raft/snap/snapshot_transfer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "raft/snap/snapshot_format.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

static uint64_t now_us(const struct transfer *transfer)
{
    return transfer->clock->monotonic_us(transfer->clock->context);
}

/* ---- sending ---- */

static void out_read_done(struct disk_job *job);

static struct transfer_out *out_of(struct disk_job *job)
{
    return (struct transfer_out *)(void *)((char *)job - offsetof(struct transfer_out, job));
}

/* A job that reads has file and chunk: they are freed when it is back, and sent() waits for
 * that. */
static void out_end(struct transfer_out *out, int status)
{
    void (*sent)(void *data, int status) = out->sent;
    void *data = out->data;

    if (out->reading) {
        out->ended = true;
        out->ended_status = status;
        return;
    }
    out->transfer->folder->disk->close(out->file);
    free(out->chunk);
    out->file = NULL;
    out->chunk = NULL;
    out->active = false;
    sent(data, status);
}

void transfer_unreadable(struct transfer *transfer, const struct err *err)
{
    CHECK(transfer != NULL);
    transfer->unreadable = true;
    transfer->unreadable_total++;
    transfer->unreadable_err = *err;
}

/* What the chunk has of the content, checked as it goes: its receiver would refuse a damaged one
 * again and again. */
static int out_chunk_check(struct transfer_out *out)
{
    uint64_t begin = out->sent_bytes, end = begin + out->chunk_length;
    uint64_t from = begin > out->content_begin ? begin : out->content_begin;
    uint64_t until = end < out->content_end ? end : out->content_end;

    if (from < until)
        out->crc = crc32c(out->crc, out->chunk + (from - begin), until - from);
    return end < out->size_bytes || out->crc == out->crc_expected ? 0 : -1;
}

static void out_read_work(struct disk_job *job)
{
    struct transfer_out *out = out_of(job);
    const struct folder *folder = out->transfer->folder;
    struct snapshot_bytes into = {out->chunk, 0};
    struct snapshot_source source = {folder->disk, out->file, NULL};
    char path[FOLDER_PATH_BYTES];
    uint64_t left = out->size_bytes - out->sent_bytes;
    size_t want = left < FRAME_SNAPSHOT_CHUNK_BYTES ? left : FRAME_SNAPSHOT_CHUNK_BYTES;

    into.length = want;
    source.path = snapshot_path(folder, out->index, out->snapshot_term, path);
    out->job_status =
        snapshot_read_at(&source, out->sent_bytes, into, &out->chunk_length, &out->job_err);
    if (out->job_status == 0 && (out->chunk_length != want || out_chunk_check(out) != 0))
        out->job_status =
            err_set(&out->job_err, ERR_CORRUPT,
                    "%s offset %" PRIu64 ": it is cut short, or its content is damaged up to there",
                    path, out->sent_bytes + out->chunk_length);
}

/* One piece is read at a time, into the one chunk, and only as far as the window allows: a receiver
 * with a slow disk would else have to hold the rest in memory. */
static void out_continue(struct transfer_out *out)
{
    if (out->reading || out->sent_bytes == out->size_bytes ||
        out->sent_bytes - out->acknowledged_bytes >= TRANSFER_WINDOW_BYTES)
        return;
    out->reading = true;
    out->job.work = out_read_work;
    out->job.done = out_read_done;
    out->transfer->folder->disk->submit(out->transfer->folder->disk->context, &out->job);
}

static void out_read_done(struct disk_job *job)
{
    struct transfer_out *out = out_of(job);
    struct frame_message message = {.type = FRAME_SNAPSHOT_CHUNK};

    out->reading = false;
    if (out->job_status != 0)
        transfer_unreadable(out->transfer, &out->job_err);
    if (out->ended || out->job_status != 0) {
        out_end(out, out->ended ? out->ended_status : -1);
        return;
    }
    message.snapshot.stream = out->stream;
    message.snapshot.offset = out->sent_bytes;
    message.snapshot.bytes = out->chunk;
    message.snapshot.length = out->chunk_length;
    if (!transport_send(out->transfer->transport, out->peer, &message)) {
        out_end(out, -1);
        return;
    }
    out->sent_bytes += out->chunk_length;
    out_continue(out);
}

/* The stream to the peer; active false: a free place, whichever the peer. */
static struct transfer_out *out_find(struct transfer *transfer, uint64_t peer, bool active)
{
    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++)
        if (transfer->out[i].active == active && (!active || transfer->out[i].peer == peer))
            return &transfer->out[i];
    return NULL;
}

int transfer_send(struct transfer *transfer, uint64_t peer, const struct snapshot_name *snapshot,
                  uint64_t term, void (*sent)(void *data, int status), void *data)
{
    const struct disk_ops *disk = transfer->folder->disk;
    struct frame_message begin = {.type = FRAME_SNAPSHOT_BEGIN};
    struct transfer_out *out, *before = out_find(transfer, peer, true);
    char path[FOLDER_PATH_BYTES];
    struct snapshot_opened opened;
    uint64_t size;
    struct err err;

    CHECK(snapshot != NULL);
    /* Begun in an older term: meanwhile the peer may have given it up for another leader's, without
     * a word to us. Not as a failure: libraft would take that for one of the stream that begins
     * here. */
    if (before != NULL && before->term < term && !before->ended)
        out_end(before, 0);
    out = out_find(transfer, 0, false);
    if (out == NULL || out_find(transfer, peer, true) != NULL)
        return -1;
    snapshot_path(transfer->folder, snapshot->index, snapshot->term, path);
    if (snapshot_open(transfer->folder, path, &opened, &err) != 0) {
        transfer_unreadable(transfer, &err);
        return -1;
    }
    snapshot_meta_close(&opened.meta);
    size = opened.begin + opened.bytes + SNAPSHOT_TRAILER_BYTES;
    begin.snapshot.stream = ++transfer->stream_last;
    begin.snapshot.offset = size;
    begin.snapshot.term = term;
    begin.snapshot.index = snapshot->index;
    if (!transport_send(transfer->transport, peer, &begin)) {
        disk->close(opened.file);
        return -1;
    }
    *out = (struct transfer_out){.transfer = transfer,
                                 .active = true,
                                 .peer = peer,
                                 .stream = begin.snapshot.stream,
                                 .term = term,
                                 .index = snapshot->index,
                                 .snapshot_term = snapshot->term,
                                 .file = opened.file,
                                 .size_bytes = size,
                                 .content_begin = opened.begin,
                                 .content_end = opened.begin + opened.bytes,
                                 .crc_expected = opened.crc,
                                 .progress_us = now_us(transfer),
                                 .chunk = check_alloc(FRAME_SNAPSHOT_CHUNK_BYTES),
                                 .sent = sent,
                                 .data = data};
    out_continue(out);
    return 0;
}

/* The same offset may come again, from a receiver whose disk is slow (in_tick()): that is progress.
 * One that was never sent, or lies before what was acknowledged, is of a receiver that has lost
 * track: the stream is begun anew by whoever leads. */
static void out_acknowledged(struct transfer *transfer, uint64_t from,
                             const struct frame_snapshot *frame)
{
    struct transfer_out *out = out_find(transfer, from, true);

    if (out == NULL || out->stream != frame->stream || out->ended)
        return;
    if (frame->failed || frame->offset > out->sent_bytes ||
        frame->offset < out->acknowledged_bytes) {
        out_end(out, -1);
        return;
    }
    out->acknowledged_bytes = frame->offset;
    out->progress_us = now_us(transfer);
    if (out->acknowledged_bytes == out->size_bytes)
        out_end(out, 0);
    else
        out_continue(out);
}

void transfer_outbound_lost(struct transfer *transfer, uint64_t peer)
{
    struct transfer_out *out = out_find(transfer, peer, true);

    if (out != NULL && !out->ended)
        out_end(out, -1);
}

bool transfer_sending_to(const struct transfer *transfer, uint64_t peer)
{
    CHECK(transfer != NULL);
    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++)
        if (transfer->out[i].active && transfer->out[i].peer == peer)
            return true;
    return false;
}

/* ---- receiving ---- */

static void in_acknowledge(struct transfer *transfer, uint64_t to, uint64_t stream, uint64_t offset,
                           bool failed)
{
    struct frame_message message = {.type = FRAME_SNAPSHOT_ACK};

    message.snapshot.stream = stream;
    message.snapshot.offset = offset;
    message.snapshot.failed = failed;
    /* Lost: the sender notices that its connection or ours is gone, or that nothing moves. */
    (void)transport_send(transfer->transport, to, &message);
}

static struct transfer *in_of(struct disk_job *job)
{
    return (struct transfer *)(void *)((char *)job - offsetof(struct transfer, in.job));
}

static void in_reset(struct transfer_in *in, const struct disk_ops *disk)
{
    for (size_t i = 0; i < in->chunk_count; i++)
        free(in->chunks[i].bytes);
    disk->close(in->file);
    if (in->verified)
        snapshot_meta_close(&in->meta);
    memset(in, 0, sizeof(*in));
}

/* The sender hears at once, and need not wait for its timeout. The job has the file: what it works
 * on is freed when it is back. */
static void in_fail(struct transfer *transfer)
{
    struct transfer_in *in = &transfer->in;

    in_acknowledge(transfer, in->from, in->stream, in->written_bytes, true);
    if (in->working)
        in->active = false; /* reset when the job is back */
    else
        in_reset(in, transfer->folder->disk);
}

/* The last piece is followed by a check of every byte: what a peer sent is only believed after
 * that. */
static int in_write(struct transfer *transfer, struct err *err)
{
    struct transfer_in *in = &transfer->in;
    const struct disk_ops *disk = transfer->folder->disk;
    uint64_t end = in->written_bytes + in->chunks[0].length;
    char path[FOLDER_PATH_BYTES];

    folder_path(transfer->folder, TRANSFER_FILE, path);
    if (in->file == NULL && disk->open(disk->context, path, DISK_OPEN_CREATE, &in->file, err) != 0)
        return -1;
    if (disk->write(in->file, in->written_bytes, in->chunks[0].bytes, in->chunks[0].length, err) !=
        0)
        return -1;
    if (end == in->size_bytes || end - in->synced_bytes >= TRANSFER_SYNC_BYTES) {
        if (disk->sync(in->file, err) != 0)
            return -1;
        in->synced_bytes = end;
    }
    if (end < in->size_bytes)
        return 0;
    if (snapshot_verify(transfer->folder, path, &in->meta, err) != 0)
        return -1;
    in->verified = true;
    return 0;
}

/* It may be what fills the disk. */
static void in_remove(struct transfer *transfer)
{
    const struct disk_ops *disk = transfer->folder->disk;
    char path[FOLDER_PATH_BYTES];

    disk->close(transfer->in.file);
    transfer->in.file = NULL;
    (void)disk->unlink(disk->context, folder_path(transfer->folder, TRANSFER_FILE, path), NULL);
}

/* The reason of a failure is not kept: a disk that cannot be written will say so when the log
 * is. */
static void in_work(struct disk_job *job)
{
    struct transfer *transfer = in_of(job);

    transfer->in.job_status = in_write(transfer, NULL);
    if (transfer->in.job_status != 0)
        in_remove(transfer);
}

static void in_continue(struct transfer *transfer);

static void in_done(struct disk_job *job)
{
    struct transfer *transfer = in_of(job);
    struct transfer_in *in = &transfer->in;
    struct snapshot_meta meta;
    uint64_t from = in->from, term = in->term;

    in->working = false;
    if (!in->active) {
        in_reset(in, transfer->folder->disk);
        return;
    }
    if (in->job_status != 0) {
        in_fail(transfer);
        return;
    }
    /* Only what was written is acknowledged, and the last acknowledgement goes before received():
     * the sender ends its stream while this member installs. */
    in->written_bytes += in->chunks[0].length;
    free(in->chunks[0].bytes);
    in->chunk_count--;
    memmove(in->chunks, in->chunks + 1, in->chunk_count * sizeof(in->chunks[0]));
    in->progress_us = now_us(transfer);
    in_acknowledge(transfer, from, in->stream, in->written_bytes, false);
    if (!in->verified) {
        in_continue(transfer);
        return;
    }
    meta = in->meta;
    in->verified = false; /* meta moves on */
    in_reset(in, transfer->folder->disk);
    transfer->in_held = true;
    transfer->received(transfer->context, from, term, &meta);
}

static void in_continue(struct transfer *transfer)
{
    struct transfer_in *in = &transfer->in;

    if (in->working || in->chunk_count == 0)
        return;
    in->working = true;
    in->work_us = now_us(transfer);
    in->job.work = in_work;
    in->job.done = in_done;
    transfer->folder->disk->submit(transfer->folder->disk->context, &in->job);
}

static void in_begin(struct transfer *transfer, uint64_t from, const struct frame_snapshot *frame)
{
    struct transfer_in *in = &transfer->in;

    /* A newer term ends what the leader before it began: its connection may be silent for long
     * before it is lost. The same peer replaces its own stream at any time. */
    bool another = in->active && in->from != from && frame->term <= in->term;

    /* A job, or an installation, still has the file: the sender tries again later. */
    if (in->working || transfer->in_held || another || frame->offset == 0) {
        in_acknowledge(transfer, from, frame->stream, 0, true);
        return;
    }
    in_reset(in, transfer->folder->disk);
    in->active = true;
    in->from = from;
    in->stream = frame->stream;
    in->term = frame->term;
    in->size_bytes = frame->offset;
    in->progress_us = now_us(transfer);
}

static void in_chunk(struct transfer *transfer, uint64_t from, const struct frame_snapshot *frame)
{
    struct transfer_in *in = &transfer->in;

    if (!in->active || in->from != from || in->stream != frame->stream)
        return; /* of a stream that was given up */
    if (frame->offset != in->queued_bytes || in->chunk_count == TRANSFER_CHUNKS_MAX ||
        frame->length > in->size_bytes - in->queued_bytes) {
        in_fail(transfer);
        return;
    }
    in->chunks[in->chunk_count].bytes = check_alloc(frame->length);
    memcpy(in->chunks[in->chunk_count].bytes, frame->bytes, frame->length);
    in->chunks[in->chunk_count].length = frame->length;
    in->chunk_count++;
    in->queued_bytes += frame->length;
    in_continue(transfer);
}

/* What the peer acknowledged may be lost with the connection that it came by. */
void transfer_inbound_lost(struct transfer *transfer, uint64_t peer)
{
    CHECK(transfer != NULL);
    transfer_outbound_lost(transfer, peer);
    if (transfer->in.active && transfer->in.from == peer)
        in_fail(transfer);
}

void transfer_in_release(struct transfer *transfer)
{
    CHECK(transfer != NULL);
    transfer->in_held = false;
}

/* A disk that takes long is no reason to throw away what it is at, and the sender, who would begin
 * again, hears so in time. One that hangs must not keep the sender's file open and its next
 * snapshot waiting. */
static void in_tick(struct transfer *transfer, uint64_t now, uint64_t limit)
{
    struct transfer_in *in = &transfer->in;

    if (!in->active)
        return;
    if (!in->working && now - in->progress_us > limit) {
        in_fail(transfer);
    } else if (in->working && now - in->progress_us > limit / 3 &&
               now - in->work_us < UINT64_C(1000) * TRANSFER_WORK_MS) {
        in->progress_us = now;
        in_acknowledge(transfer, in->from, in->stream, in->written_bytes, false);
    }
}

/* ---- both ---- */

void transfer_message(struct transfer *transfer, uint64_t from, enum frame_type type,
                      const struct frame_snapshot *frame)
{
    CHECK(transfer != NULL);
    CHECK(frame != NULL);
    if (type == FRAME_SNAPSHOT_BEGIN)
        in_begin(transfer, from, frame);
    else if (type == FRAME_SNAPSHOT_CHUNK)
        in_chunk(transfer, from, frame);
    else if (type == FRAME_SNAPSHOT_ACK)
        out_acknowledged(transfer, from, frame);
    else
        CHECK_UNREACHABLE("snapshot frame");
}

void transfer_tick(struct transfer *transfer)
{
    uint64_t now = now_us(transfer), limit = UINT64_C(1000) * TRANSFER_STALL_MS;

    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++) {
        struct transfer_out *out = &transfer->out[i];
        if (out->active && !out->ended && now - out->progress_us > limit)
            out_end(out, -1);
    }
    in_tick(transfer, now, limit);
}

bool transfer_busy(const struct transfer *transfer)
{
    CHECK(transfer != NULL);
    if (transfer->in.working)
        return true;
    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++)
        if (transfer->out[i].reading)
            return true;
    return false;
}

/* No job comes back any more, so the streams that wait for one end here. */
void transfer_close(struct transfer *transfer)
{
    CHECK(transfer != NULL);
    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++) {
        transfer->out[i].reading = false;
        if (transfer->out[i].active)
            out_end(&transfer->out[i], -1);
    }
    in_reset(&transfer->in, transfer->folder->disk);
}

void transfer_init(struct transfer *transfer, const struct folder *folder,
                   struct transport *transport, const struct clock_ops *clock,
                   void (*received)(void *context, uint64_t from, uint64_t term,
                                    struct snapshot_meta *take_meta),
                   void *context)
{
    CHECK(transfer != NULL);
    CHECK(folder != NULL);
    CHECK(transport != NULL);
    CHECK(clock != NULL);
    memset(transfer, 0, sizeof(*transfer));
    transfer->folder = folder;
    transfer->transport = transport;
    transfer->clock = clock;
    transfer->received = received;
    transfer->context = context;
}
