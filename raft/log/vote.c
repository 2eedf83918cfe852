/* The two-slot store of term and vote. See vote.h.
 *
 * Source   slot, little endian, 44 bytes: "CKPTVOTE", version u32, counter u64, term u64, voted_for
 *          u64, zero u32, crc32c u32 of all before it.
 */
#include "raft/log/vote.h"

#include <string.h>

#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

enum { SLOT_COUNT = 2, SLOT_STRIDE = 4096, SLOT_BYTES = 44, SLOT_VERSION = 1 };

static const char slot_magic[8] = "CKPTVOTE";

static void slot_encode(const struct vote_store *store, uint8_t bytes[SLOT_BYTES])
{
    memcpy(bytes, slot_magic, 8);
    bytes_put(bytes + 8, SLOT_VERSION, 4);
    bytes_put(bytes + 12, store->counter, 8);
    bytes_put(bytes + 20, store->term, 8);
    bytes_put(bytes + 28, store->voted_for, 8);
    bytes_put(bytes + 36, 0, 4);
    bytes_put(bytes + 40, crc32c(0, bytes, 40), 4);
}

static bool slot_valid(const uint8_t bytes[SLOT_BYTES])
{
    return memcmp(bytes, slot_magic, 8) == 0 && bytes_get(bytes + 8, 4) == SLOT_VERSION &&
           bytes_get(bytes + 40, 4) == crc32c(0, bytes, 40);
}

/* The higher counter is what was saved last. A crash between the two writes leaves the older vote
 * in the second slot: whichever is read, nothing was acted upon before vote_save() returned. */
static int slots_read(struct vote_store *store, struct err *err)
{
    bool found = false;

    for (int i = 0; i < SLOT_COUNT; i++) {
        uint8_t bytes[SLOT_BYTES] = {0};
        size_t length;
        if (store->folder->disk->read(store->file, (uint64_t)i * SLOT_STRIDE, bytes, SLOT_BYTES,
                                      &length, err) != 0)
            return err_wrap(err, "%s/vote offset %d", store->folder->path, i * SLOT_STRIDE);
        if (length != SLOT_BYTES || !slot_valid(bytes))
            continue;
        if (found && bytes_get(bytes + 12, 8) <= store->counter)
            continue;
        found = true;
        store->counter = bytes_get(bytes + 12, 8);
        store->term = bytes_get(bytes + 20, 8);
        store->voted_for = bytes_get(bytes + 28, 8);
    }
    if (!found)
        return err_set(err, ERR_CORRUPT,
                       "%s/vote offset 0 and 4096: both copies are damaged, the member could vote "
                       "twice in a term; remove "
                       "the member from the cluster and add it under a new id with an empty folder",
                       store->folder->path);
    /* What is acted upon from here on must not hang on one copy, nor on bytes that a failed sync
     * left in memory only. */
    return vote_save(store, store->term, store->voted_for, err);
}

int vote_open(struct vote_store *store, const struct folder *folder, bool create, struct err *err)
{
    const struct disk_ops *disk = folder->disk;
    char path[FOLDER_PATH_BYTES];
    struct err why;
    int status;

    CHECK(store != NULL);
    memset(store, 0, sizeof(*store));
    store->folder = folder;
    if (disk->open(disk->context, folder_path(folder, "vote", path),
                   create ? DISK_OPEN_CREATE : DISK_OPEN_WRITE, &store->file, &why) != 0)
        return why.code == ERR_NOT_FOUND
                   ? err_set(err, ERR_CORRUPT,
                             "%s is missing, the member could vote twice in a term; remove the "
                             "member from the cluster and add it under a new id with an empty "
                             "folder",
                             path)
                   : err_set(err, why.code, "%s", why.text);
    if (create)
        status = disk->sync_dir(disk->context, folder->path, err) == 0 ? vote_save(store, 0, 0, err)
                                                                       : -1;
    else
        status = slots_read(store, err);
    if (status != 0)
        vote_close(store);
    return status;
}

/* The second slot is written when the first is durable: a crash tears one of them at most. */
int vote_save(struct vote_store *store, uint64_t term, uint64_t voted_for, struct err *err)
{
    const struct disk_ops *disk = store->folder->disk;
    uint8_t bytes[SLOT_BYTES];

    CHECK(term >= store->term);
    CHECK(term > store->term || store->voted_for == 0 || store->voted_for == voted_for);
    store->counter++;
    store->term = term;
    store->voted_for = voted_for;
    slot_encode(store, bytes);
    for (int i = 0; i < SLOT_COUNT; i++)
        if (disk->write(store->file, (uint64_t)i * SLOT_STRIDE, bytes, SLOT_BYTES, err) != 0 ||
            disk->sync(store->file, err) != 0)
            return err_wrap(err, "%s/vote offset %d", store->folder->path, i * SLOT_STRIDE);
    return 0;
}

void vote_close(struct vote_store *store)
{
    CHECK(store != NULL);
    if (store->file != NULL)
        store->folder->disk->close(store->file);
    store->file = NULL;
}
