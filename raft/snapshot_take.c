/* Own snapshots in slices. See snapshot_take.h. */
#include "raft/snapshot_take.h"

#include <string.h>

#include "src/base/check.h"

static struct snapshot_take *take_of(struct disk_job *job)
{
    return (struct snapshot_take *)(void *)((char *)job - offsetof(struct snapshot_take, job));
}

/* ---- off the loop ---- */

static int file_write(void *context, const void *bytes, size_t length, struct err *err)
{
    struct snapshot_take *take = context;

    if (take->folder->disk->write(take->file, take->file_bytes, bytes, length, err) != 0)
        return -1;
    take->file_bytes += length;
    return 0;
}

static int slice_write(struct snapshot_take *take)
{
    const struct disk_ops *disk = take->folder->disk;
    const struct consensus_writer raw = {take, file_write};

    if (take->encoder == NULL &&
        (disk->open(disk->context, take->path, DISK_OPEN_CREATE, &take->file, NULL) != 0 ||
         snapshot_encoder_new(&raw, take->meta, &take->encoder, NULL) != 0))
        return -1;
    if (snapshot_encoder_put(take->encoder, take->slice.bytes, take->slice.length, NULL) != 0)
        return -1;
    return take->last ? snapshot_encoder_finish(take->encoder, NULL) : 0;
}

static void slice_work(struct disk_job *job)
{
    struct snapshot_take *take = take_of(job);

    take->job_status = slice_write(take);
}

/* ---- on the loop ---- */

static int slice_append(void *context, const void *bytes, size_t length, struct err *err)
{
    (void)err;
    buf_append(context, bytes, length);
    return 0;
}

static void slice_begin(struct snapshot_take *take)
{
    const struct consensus_writer writer = {&take->slice, slice_append};

    take->slice.length = 0;
    take->slice_count++;
    /* Nothing can fail: the writer does not. */
    CHECK(take->hooks->snapshot_next(take->hooks->context, TAKE_SLICE_BYTES, &writer, &take->last,
                                     NULL) == 0);
    take->folder->disk->submit(take->folder->disk->context, &take->job);
}

static void slice_done(struct disk_job *job)
{
    struct snapshot_take *take = take_of(job);
    bool ends = take->job_status != 0 || take->last || take->cancelled;
    bool good = take->job_status == 0 && take->last && !take->cancelled;

    CHECK(take->running);
    if (!ends) {
        slice_begin(take);
        return;
    }
    take_close(take);
    take->finished(take->context, good ? 0 : -1);
}

void take_init(struct snapshot_take *take, const struct folder *folder,
               const struct consensus_hooks *hooks, void (*finished)(void *context, int status),
               void *context)
{
    memset(take, 0, sizeof(*take));
    take->folder = folder;
    take->hooks = hooks;
    take->finished = finished;
    take->context = context;
    take->job.work = slice_work;
    take->job.done = slice_done;
    buf_init(&take->slice);
}

void take_begin(struct snapshot_take *take, const char *name, const struct snapshot_meta *meta)
{
    CHECK(!take->running);
    take->running = true;
    take->cancelled = false;
    take->meta = meta;
    take->file_bytes = 0;
    take->slice_count = 0;
    folder_path(take->folder, name, take->path);
    take->hooks->snapshot_begin(take->hooks->context);
    slice_begin(take);
}

void take_cancel(struct snapshot_take *take)
{
    take->cancelled = true;
}

void take_close(struct snapshot_take *take)
{
    if (!take->running)
        return;
    take->running = false;
    take->hooks->snapshot_end(take->hooks->context);
    snapshot_encoder_free(take->encoder);
    take->encoder = NULL;
    take->folder->disk->close(take->file);
    take->file = NULL;
    buf_close(&take->slice);
    buf_init(&take->slice);
}
