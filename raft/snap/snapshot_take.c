/* Own snapshots. See snapshot_take.h. */
#include "raft/snap/snapshot_take.h"

#include "src/base/check.h"

static int slice_append(void *context, const void *bytes, size_t length, struct err *err)
{
    (void)err;
    buf_append(context, bytes, length);
    return 0;
}

/* content_bytes counts what the state wrote before compression: the next snapshot is due after as
 * much log (core_snapshot_after_bytes). */
static int take_fill(void *context, struct buf *slice, bool *ret_last, struct err *err)
{
    struct snapshot_take *take = context;
    const struct consensus_writer writer = {slice, slice_append};

    if (take->hooks->snapshot_next(take->hooks->context, take->state, SLICE_BYTES, &writer,
                                   ret_last, err) != 0)
        return -1;
    take->content_bytes += slice->length;
    return 0;
}

/* The encoder writes through the file it was made with: one that lives as long as this job only. */
static int take_write(void *context, const struct buf *slice, bool last,
                      const struct consensus_writer *file, struct err *err)
{
    struct snapshot_take *take = context;

    if (take->encoder == NULL && snapshot_encoder_new(file, take->meta, &take->encoder, err) != 0)
        return -1;
    snapshot_encoder_writer(take->encoder, file);
    if (snapshot_encoder_put(take->encoder, slice->bytes, slice->length, err) != 0)
        return -1;
    return last ? snapshot_encoder_finish(take->encoder, err) : 0;
}

/* A snapshot that ended well, one that failed and one that was given up all come by here: the state
 * stops holding back what the file lacks. */
static void take_release(void *context)
{
    struct snapshot_take *take = context;

    take->hooks->snapshot_end(take->hooks->context, take->state);
    snapshot_encoder_free(take->encoder);
    take->encoder = NULL;
}

void take_begin(struct snapshot_take *take, const struct folder *folder,
                const struct consensus_hooks *hooks, const struct snapshot_meta *meta,
                void (*finished)(void *context, int status, const struct err *err), void *context)
{
    const struct slices_source source = {take, take_fill, take_write, take_release};

    CHECK(take != NULL);
    CHECK(folder != NULL);
    CHECK(meta != NULL);
    CHECK(!take_running(take));
    take->hooks = hooks;
    take->meta = meta;
    take->content_bytes = 0;
    take->state = hooks->snapshot_begin(hooks->context);
    slices_begin(&take->slices, folder->disk, folder_path(folder, TAKE_FILE, take->path), &source,
                 finished, context);
}
