/* Places of what is written: noted on their way, compared when all is durable. See
 * transfer_internal.h. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/posix/transfer_internal.h"
#include "src/dest/tree.h"

/* The largest pages of a page cache: of one that is asked to be forgotten in part all stays. */
enum { PAGE_MAX_BYTES = 2 << 20 };

static size_t number_of(const struct transfer *transfer, const struct manifest_entry *entry)
{
    CHECK(entry >= transfer->manifest->entries);
    return (size_t)(entry - transfer->manifest->entries);
}

static bool notes_spots(const struct transfer *transfer, const struct manifest_entry *entry)
{
    return transfer->spots != NULL && transfer->purpose == TRANSFER_TAKE && entry->chunk_count > 0;
}

void transfer_note_spots(const struct transfer *transfer, struct copier *copier,
                         const struct manifest_entry *entry, size_t chunk, struct copy_range stored)
{
    const struct spot_chunk of = {number_of(transfer, entry), chunk, stored};
    struct copy_range places[COPY_PLACES_MAX];

    if (notes_spots(transfer, entry))
        copy_want_places(copier, places, spots_places(transfer->spots, &of, places));
}

void transfer_keep_spots(const struct transfer *transfer, struct copier *copier,
                         const struct manifest_entry *entry, size_t chunk)
{
    if (notes_spots(transfer, entry))
        copy_take_places(copier, spots_keep(transfer->spots, number_of(transfer, entry), chunk));
}

void transfer_forget_spots(const struct transfer *transfer, const struct manifest_entry *entry)
{
    if (notes_spots(transfer, entry))
        spots_forget(transfer->spots, number_of(transfer, entry));
}

bool transfer_checks_spots(const struct transfer *transfer, const struct manifest_entry *entry,
                           size_t chunk)
{
    return transfer->spots != NULL && transfer->purpose == TRANSFER_CHECK &&
           spots_known(transfer->spots, number_of(transfer, entry), chunk);
}

/* ---- read back ---- */

struct places {
    struct copy_range at[COPY_PLACES_MAX];
    size_t count;
    uint8_t digests[COPY_PLACES_MAX][SHA256_BYTES]; /* of what storage gives for them */
};

/* -1: they are read in the usual way. */
static int open_past_cache(const struct transfer *transfer, const struct manifest_entry *entry)
{
    char stored[MANIFEST_PATH_MAX_BYTES];

    return tree_bypasses(transfer->from.folder)
               ? tree_open_beneath(transfer->from.folder, manifest_stored_path(entry, stored),
                                   O_RDONLY | O_DIRECT | O_NONBLOCK, 0)
               : -1;
}

/* To have the page cache forget 16 MiB takes longer than to read the places of them. */
static bool hash_past_cache(const struct transfer *transfer, struct copier *copier,
                            const struct manifest_entry *entry, struct places *places)
{
    int from = open_past_cache(transfer, entry);
    bool hashed = from >= 0;

    for (size_t i = 0; hashed && i < places->count; i++)
        hashed = copy_hash_blocks(copier, from, places->at[i], places->digests[i]);
    if (from >= 0)
        close(from);
    return hashed;
}

/* Storage begins to read all of them. */
static void ask_for_places(int from, struct copy_range stored, const struct places *places)
{
    uint64_t begin = stored.offset / PAGE_MAX_BYTES * PAGE_MAX_BYTES;
    uint64_t end =
        (stored.offset + stored.length + PAGE_MAX_BYTES - 1) / PAGE_MAX_BYTES * PAGE_MAX_BYTES;

    (void)posix_fadvise(from, (off_t)begin, (off_t)(end - begin), POSIX_FADV_DONTNEED);
    for (size_t i = 0; i < places->count; i++)
        (void)posix_fadvise(from, (off_t)places->at[i].offset, (off_t)places->at[i].length,
                            POSIX_FADV_WILLNEED);
}

/* As storage in the usual way gives them; it also says why it does not. */
static int hash_forgotten(struct copier *copier, struct copy_end from, struct copy_range stored,
                          struct places *places, struct err *err)
{
    ask_for_places(from.fd, stored, places);
    for (size_t i = 0; i < places->count; i++) {
        if (copy_range(copier, from, (struct copy_end){-1, NULL}, places->at[i], places->digests[i],
                       err) != 0)
            return -1;
    }
    return 0;
}

int transfer_check_spots(const struct transfer *transfer, struct copier *copier,
                         const struct manifest_entry *entry, size_t chunk, int from,
                         struct err *err)
{
    const struct spot_chunk of = {
        number_of(transfer, entry),
        chunk,
        {manifest_stored_at(entry, chunk), manifest_stored_length(entry, chunk)}};
    const uint64_t *sums = spots_sums(transfer->spots, of.file, chunk);
    struct places places;

    places.count = spots_places(transfer->spots, &of, places.at);
    if (!hash_past_cache(transfer, copier, entry, &places) &&
        hash_forgotten(copier, (struct copy_end){from, entry->path}, of.stored, &places, err) != 0)
        return -1;
    for (size_t i = 0; i < places.count; i++) {
        if (memcmp(places.digests[i], &sums[i], sizeof(sums[i])) != 0)
            return err_set(err, ERR_CORRUPT,
                           "%s/%s is not what was written: the %" PRIu64 " bytes at %" PRIu64
                           " do not match the SHA-256 that was taken as they were",
                           transfer->from.label, entry->path, places.at[i].length,
                           places.at[i].offset);
    }
    return 0;
}
