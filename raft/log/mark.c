/* See mark.h. */
#include "raft/log/mark.h"

#include <string.h>

#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

enum { SLOT_COUNT = 2, SLOT_STRIDE = 4096, SLOT_BYTES = 28 };

static const char slot_magic[8] = "CKPTSYNC";

static void slot_encode(const struct mark *mark, uint8_t bytes[SLOT_BYTES])
{
    memcpy(bytes, slot_magic, 8);
    bytes_put(bytes + 8, mark->counter, 8);
    bytes_put(bytes + 16, mark->index, 8);
    bytes_put(bytes + 24, crc32c(0, bytes, 24), 4);
}

/* A slot that does not fit is passed over, for a crash may have torn the one that was being raised.
 * A disk that cannot be read is another matter: a bound that is taken for 0 would hide a loss. */
static int slots_read(struct mark *mark, struct err *err)
{
    for (int i = 0; i < SLOT_COUNT; i++) {
        uint8_t bytes[SLOT_BYTES];
        size_t length;
        if (mark->folder->disk->read(mark->file, (uint64_t)i * SLOT_STRIDE, bytes, SLOT_BYTES,
                                     &length, err) != 0)
            return err_wrap(err, "%s/synced offset %d", mark->folder->path, i * SLOT_STRIDE);
        if (length != SLOT_BYTES || memcmp(bytes, slot_magic, 8) != 0 ||
            bytes_get(bytes + 24, 4) != crc32c(0, bytes, 24) ||
            bytes_get(bytes + 8, 8) < mark->counter)
            continue;
        mark->counter = bytes_get(bytes + 8, 8);
        mark->index = bytes_get(bytes + 16, 8);
    }
    return 0;
}

static int mark_create(struct mark *mark, const char *path, struct err *err)
{
    const struct disk_ops *disk = mark->folder->disk;

    if (disk->open(disk->context, path, DISK_OPEN_CREATE, &mark->file, err) != 0)
        return -1;
    /* All the room it will ever need: raising it must not allocate, for it happens beside the
     * log. */
    if (mark_lower(mark, 0, err) != 0 ||
        disk->sync_dir(disk->context, mark->folder->path, err) != 0) {
        mark_close(mark);
        return -1;
    }
    return 0;
}

int mark_open(struct mark *mark, const struct folder *folder, struct err *err)
{
    const struct disk_ops *disk = folder->disk;
    char path[FOLDER_PATH_BYTES];
    struct err why;

    CHECK(mark != NULL);
    memset(mark, 0, sizeof(*mark));
    mark->folder = folder;
    folder_path(folder, "synced", path);
    if (disk->open(disk->context, path, DISK_OPEN_WRITE, &mark->file, &why) == 0) {
        /* Once more, for what was lowered may be in memory only, and the log is cut after it
         * (wal_recover.c, tail_rewrite()). */
        if (slots_read(mark, err) == 0 && mark_lower(mark, mark->index, err) == 0)
            return 0;
        mark_close(mark);
        return -1;
    }
    if (why.code != ERR_NOT_FOUND)
        return err_set(err, why.code, "%s", why.text);
    return mark_create(mark, path, err);
}

/* Only the slot that is older is written: a torn write leaves the other one, whose bound is lower
 * and still true. */
void mark_raise(struct mark *mark, uint64_t index)
{
    uint8_t bytes[SLOT_BYTES];

    CHECK(mark != NULL);
    if (index <= mark->index || mark->file == NULL)
        return;
    mark->counter++;
    mark->index = index;
    slot_encode(mark, bytes);
    (void)mark->folder->disk->write(mark->file, mark->counter % SLOT_COUNT * SLOT_STRIDE, bytes,
                                    SLOT_BYTES, NULL);
}

/* Both slots are written: one with a higher bound that stayed would be taken for a loss if the
 * other rots. */
int mark_lower(struct mark *mark, uint64_t index, struct err *err)
{
    const struct disk_ops *disk = mark->folder->disk;
    uint8_t bytes[SLOT_BYTES];

    CHECK(index <= mark->index);
    mark->counter++;
    mark->index = index;
    slot_encode(mark, bytes);
    for (int i = 0; i < SLOT_COUNT; i++)
        if (disk->write(mark->file, (uint64_t)i * SLOT_STRIDE, bytes, SLOT_BYTES, err) != 0)
            return err_wrap(err, "%s/synced offset %d", mark->folder->path, i * SLOT_STRIDE);
    if (disk->sync(mark->file, err) != 0)
        return err_wrap(err, "%s/synced up to offset %d", mark->folder->path,
                        (SLOT_COUNT - 1) * SLOT_STRIDE + SLOT_BYTES);
    return 0;
}

void mark_close(struct mark *mark)
{
    CHECK(mark != NULL);
    if (mark->file != NULL)
        mark->folder->disk->close(mark->file);
    mark->file = NULL;
}
