/* Small places of what is written. See spots.h. */
#include "src/dest/spots.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "src/base/check.h"
#include "src/dest/manifest.h"
#include "src/dest/sample.h"

_Static_assert(SPOT_QUARTERS + 2 <= COPY_PLACES_MAX, "a copier takes the sums of a chunk's places");
_Static_assert(SPOT_WHOLE_BYTES / SPOT_QUARTERS >= 3 * COPY_BLOCK_BYTES,
               "a quarter has room for a place beside the file's first or last block");

struct chunk_sums {
    uint64_t sums[COPY_PLACES_MAX];
    bool known;
};

struct spot_file {
    struct chunk_sums *chunks; /* NULL: the file has none */
    size_t count;
};

void spots_draw(struct spots *spots, const struct manifest *manifest)
{
    CHECK(spots->files == NULL);
    CHECK(getrandom(&spots->seed, sizeof(spots->seed), 0) == (ssize_t)sizeof(spots->seed));
    for (size_t i = 0; i < manifest->count; i++) {
        size_t chunks = manifest->entries[i].chunk_count;

        if (chunks == 0)
            continue;
        if (spots->files == NULL)
            spots->files = check_calloc(manifest->count, sizeof(*spots->files));
        spots->files[i].chunks = check_calloc(chunks, sizeof(*spots->files[i].chunks));
        spots->files[i].count = chunks;
    }
    spots->count = manifest->count;
}

void spots_close(struct spots *spots)
{
    for (size_t i = 0; spots->files != NULL && i < spots->count; i++)
        free(spots->files[i].chunks);
    free(spots->files);
    *spots = (struct spots){.files = NULL};
}

/* Whole blocks, or all of the room: every byte of a quarter is in a place of some draw. */
static uint64_t draw_offset(const struct spots *spots, const struct spot_chunk *chunk,
                            uint64_t quarter, uint64_t room)
{
    const uint64_t block = COPY_BLOCK_BYTES;
    uint64_t drawn = sample_mix(sample_mix(spots->seed ^ chunk->file) ^ chunk->chunk);
    uint64_t offset = sample_mix(drawn ^ quarter) % ((room + block - 1) / block + 1) * block;

    return offset < room ? offset : room;
}

static uint64_t place_bytes(uint64_t quarter)
{
    uint64_t length = quarter / SPOT_ONE_OF / COPY_BLOCK_BYTES * COPY_BLOCK_BYTES;

    return length == 0 ? COPY_BLOCK_BYTES : length;
}

static bool is_last_chunk(const struct spots *spots, const struct spot_chunk *chunk)
{
    CHECK(spots->files != NULL && chunk->file < spots->count);
    CHECK(chunk->chunk < spots->files[chunk->file].count);
    return chunk->chunk + 1 == spots->files[chunk->file].count;
}

size_t spots_places(const struct spots *spots, const struct spot_chunk *chunk,
                    struct copy_range ret_places[COPY_PLACES_MAX])
{
    const struct copy_range stored = chunk->stored;
    const uint64_t end = stored.offset + stored.length;
    const uint64_t quarter = stored.length / SPOT_QUARTERS / COPY_BLOCK_BYTES * COPY_BLOCK_BYTES;
    const uint64_t head = chunk->chunk == 0 ? COPY_BLOCK_BYTES : 0;
    const uint64_t tail = is_last_chunk(spots, chunk) ? COPY_BLOCK_BYTES : 0;
    size_t count = 0;

    CHECK(stored.length > 0);
    if (stored.length <= SPOT_WHOLE_BYTES) {
        ret_places[0] = stored;
        return 1;
    }
    if (head > 0)
        ret_places[count++] = (struct copy_range){stored.offset, head};
    for (uint64_t i = 0; i < SPOT_QUARTERS; i++) {
        uint64_t begin = stored.offset + i * quarter + (i == 0 ? head : 0);
        uint64_t until = i + 1 < SPOT_QUARTERS ? stored.offset + (i + 1) * quarter : end - tail;
        uint64_t length = place_bytes(quarter);

        ret_places[count++] = (struct copy_range){
            begin + draw_offset(spots, chunk, i, until - begin - length), length};
    }
    if (tail > 0)
        ret_places[count++] = (struct copy_range){end - tail, tail};
    return count;
}

static struct chunk_sums *sums_of(const struct spots *spots, size_t file, size_t chunk)
{
    CHECK(file < spots->count && spots->files != NULL);
    CHECK(chunk < spots->files[file].count);
    return &spots->files[file].chunks[chunk];
}

uint64_t *spots_keep(struct spots *spots, size_t file, size_t chunk)
{
    struct chunk_sums *sums = sums_of(spots, file, chunk);

    sums->known = true;
    return sums->sums;
}

void spots_forget(struct spots *spots, size_t file)
{
    CHECK(file < spots->count);
    for (size_t i = 0; spots->files != NULL && i < spots->files[file].count; i++)
        spots->files[file].chunks[i].known = false;
}

bool spots_known(const struct spots *spots, size_t file, size_t chunk)
{
    CHECK(file < spots->count);
    return spots->files != NULL && chunk < spots->files[file].count &&
           spots->files[file].chunks[chunk].known;
}

const uint64_t *spots_sums(const struct spots *spots, size_t file, size_t chunk)
{
    CHECK(spots_known(spots, file, chunk));
    return sums_of(spots, file, chunk)->sums;
}
