/* One chunk as an LZ4 frame: what `lz4 -dc` reads, also of several frames that follow each other.
 *
 * Flow     writing: frame_make(). Reading: frame_open(), then frame_next() until the frame's end.
 * Shapes   a header of 7 bytes that is always the same; blocks of 256 KiB that know nothing of each
 *          other, each with its length before it; an end mark of 4 bytes. A block that would not
 *          shrink by a tenth stands there as it is, so that reading it costs nothing. There are no
 *          checksums, since the manifest has better ones. The reader takes exactly what the writer
 *          writes.
 * Errors   reading: false for anything else; what a frame says of itself is never trusted.
 * Source   "LZ4 Frame Format Description" 1.6.4 of the lz4 project.
 */
#ifndef CKPT_DEST_FRAME_H
#define CKPT_DEST_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_BLOCK_BYTES = 256 << 10, /* of a chunk, before it is compressed */
    FRAME_HEADER_BYTES = 7,
    FRAME_LENGTH_BYTES = 4, /* before each block; the end mark is a length of 0 */
    FRAME_SAMPLE_BYTES = 64 << 10
};

/* The most that a chunk can become. */
size_t frame_bound(size_t chunk_bytes);
/* Writes the frame of a chunk to `to`, which has room for frame_bound(length), and returns its
 * length. */
size_t frame_make(uint8_t *to, const uint8_t *chunk, size_t length);
/* What is left of a sample of at most FRAME_SAMPLE_BYTES; as many bytes as it has where that is not
 * a tenth less. */
size_t frame_try(const uint8_t *sample, size_t length);

/* Where reading stands; of a frame in memory, which outlives it. */
struct frame {
    const uint8_t *at, *end;
};

bool frame_open(struct frame *frame, const uint8_t *bytes, size_t length);
/* The next block to `to`, which has room for FRAME_BLOCK_BYTES. Its length is 0 at the end of the
 * frame, where no byte may follow. */
bool frame_next(struct frame *frame, uint8_t *to, size_t *ret_length);

#endif
