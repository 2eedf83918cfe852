/* Small places of what is written, whose sums a put keeps in memory until it has read them back.
 *
 * Flow     spots_draw() before a byte is written. For each chunk of a large file: spots_places(),
 *          their sums while its bytes are on their way (copy.h), spots_keep(). Once all is durable,
 *          for each spots_known(): spots_places() once more, and the bytes that storage gives for
 *          them are compared with spots_sums().
 * Shapes   a place in each quarter of a chunk as it is stored: one of SPOT_ONE_OF of its bytes in
 *          whole blocks, at an offset that is drawn for it. The first and the last block of a file
 *          are places as well. A chunk of up to SPOT_WHOLE_BYTES is one place. Of each sum 8 bytes
 *          are kept, some 56 for a chunk.
 * Absent   files without chunks: their sums are in the manifest, and sample.h says which of them
 *          are read. Threads: each chunk is kept by one of them.
 */
#ifndef CKPT_DEST_SPOTS_H
#define CKPT_DEST_SPOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/dest/copy.h"

enum { SPOT_QUARTERS = 4, SPOT_ONE_OF = 16, SPOT_WHOLE_BYTES = 16 * COPY_BLOCK_BYTES };

struct manifest;
struct spot_file;

/* Of the files of one manifest, until spots_close(). All zero: none are kept. */
struct spots {
    uint64_t seed;
    struct spot_file *files; /* one for each entry; NULL: no file has chunks */
    size_t count;
};

/* A chunk of a file, by its number in the manifest, and its bytes in the stored file. */
struct spot_chunk {
    size_t file;
    size_t chunk;
    struct copy_range stored;
};

void spots_draw(struct spots *spots, const struct manifest *manifest);
void spots_close(struct spots *spots);
/* Ascending and apart; returns how many there are, at least one. */
size_t spots_places(const struct spots *spots, const struct spot_chunk *chunk,
                    struct copy_range ret_places[COPY_PLACES_MAX]);
/* The sums of all of the chunk's places are to be written there, and are known from now on. */
uint64_t *spots_keep(struct spots *spots, size_t file, size_t chunk);
/* The stored bytes of the file are not those that passed here. */
void spots_forget(struct spots *spots, size_t file);
bool spots_known(const struct spots *spots, size_t file, size_t chunk);
const uint64_t *spots_sums(const struct spots *spots, size_t file, size_t chunk);

#endif
