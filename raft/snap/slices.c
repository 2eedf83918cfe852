/* See slices.h. */
#include "raft/snap/slices.h"

#include <string.h>

#include "src/base/check.h"

static struct slices *slices_of(struct disk_job *job)
{
    return (struct slices *)(void *)((char *)job - offsetof(struct slices, job));
}

/* ---- off the loop ---- */

static int file_write(void *context, const void *bytes, size_t length, struct err *err)
{
    struct slices *slices = context;

    if (slices->disk->write(slices->file, slices->file_bytes, bytes, length, err) != 0)
        return -1;
    slices->file_bytes += length;
    return 0;
}

static void slice_work(struct disk_job *job)
{
    struct slices *slices = slices_of(job);
    const struct consensus_writer file = {slices, file_write};

    if (slices->status == 0 && slices->file == NULL)
        slices->status = slices->disk->open(slices->disk->context, slices->path, DISK_OPEN_CREATE,
                                            &slices->file, &slices->err);
    if (slices->status == 0)
        slices->status = slices->source.write(slices->source.context, &slices->slice, slices->last,
                                              &file, &slices->err);
    /* The file goes at once, and not when the loop hears of it: it may be what fills the disk. */
    if (slices->status != 0 && slices->file != NULL) {
        slices->disk->close(slices->file);
        slices->file = NULL;
        (void)slices->disk->unlink(slices->disk->context, slices->path, NULL);
    }
}

/* ---- on the loop ---- */

static void slice_begin(struct slices *slices)
{
    buf_clear(&slices->slice);
    slices->slice_count++;
    slices->status =
        slices->source.fill(slices->source.context, &slices->slice, &slices->last, &slices->err);
    /* A failure also takes the way of the job: nobody is told from inside. */
    slices->disk->submit(slices->disk->context, &slices->job);
}

/* The next slice is filled only now, so that a slow disk slows the source down and memory holds one
 * slice. */
static void slice_done(struct disk_job *job)
{
    struct slices *slices = slices_of(job);

    CHECK(slices->running);
    if (slices->cancelled && slices->status == 0)
        slices->status = err_set(&slices->err, ERR_UNAVAILABLE, "cancelled");
    if (slices->status == 0 && !slices->last) {
        slice_begin(slices);
        return;
    }
    slices_close(slices);
    slices->finished(slices->context, slices->status, slices->status == 0 ? NULL : &slices->err);
}

void slices_begin(struct slices *slices, const struct disk_ops *disk, const char *path,
                  const struct slices_source *source,
                  void (*finished)(void *context, int status, const struct err *err), void *context)
{
    CHECK(disk != NULL);
    CHECK(path != NULL);
    CHECK(source != NULL);
    CHECK(!slices->running);
    *slices = (struct slices){.disk = disk,
                              .source = *source,
                              .path = path,
                              .job = {.work = slice_work, .done = slice_done},
                              .running = true,
                              .finished = finished,
                              .context = context};
    buf_init(&slices->slice);
    slice_begin(slices);
}

void slices_cancel(struct slices *slices)
{
    CHECK(slices != NULL);
    slices->cancelled = true;
}

/* The source is released before finished() is called, so that finished() may begin the next file of
 * the same source. */
void slices_close(struct slices *slices)
{
    if (!slices->running)
        return;
    slices->running = false;
    slices->disk->close(slices->file);
    slices->file = NULL;
    buf_close(&slices->slice);
    slices->source.release(slices->source.context);
}
