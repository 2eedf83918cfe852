/* One chunk as an LZ4 frame. See frame.h. */
#include "src/dest/frame.h"

#include <lz4.h>
#include <string.h>

#include "src/base/check.h"

/* Magic number; version 1 with blocks that stand alone; blocks of 256 KiB at most; the hash of the
 * two bytes before it. */
static const uint8_t header[FRAME_HEADER_BYTES] = {0x04, 0x22, 0x4d, 0x18, 0x60, 0x50, 0xfb};
/* In a block's length: it is not compressed. */
#define PLAIN_BLOCK UINT32_C(0x80000000)

static void put_length(uint8_t *to, uint32_t length)
{
    for (unsigned i = 0; i < FRAME_LENGTH_BYTES; i++)
        to[i] = (uint8_t)(length >> 8 * i);
}

static uint32_t get_length(const uint8_t *from)
{
    uint32_t length = 0;

    for (unsigned i = 0; i < FRAME_LENGTH_BYTES; i++)
        length |= (uint32_t)from[i] << 8 * i;
    return length;
}

size_t frame_bound(size_t chunk_bytes)
{
    size_t blocks = (chunk_bytes + FRAME_BLOCK_BYTES - 1) / FRAME_BLOCK_BYTES;

    return FRAME_HEADER_BYTES + chunk_bytes + (blocks + 1) * FRAME_LENGTH_BYTES;
}

/* 0: it does not shrink by a tenth. lz4 gives up as soon as there is no room for such a result. */
static size_t compress_block(uint8_t *to, const uint8_t *bytes, size_t length)
{
    int compressed;

    CHECK(length > 0 && length <= FRAME_BLOCK_BYTES);
    compressed = LZ4_compress_default((const char *)bytes, (char *)to, (int)length,
                                      (int)(length - length / 10));
    return compressed > 0 && (size_t)compressed < length ? (size_t)compressed : 0;
}

static size_t put_block(uint8_t *to, const uint8_t *bytes, size_t length)
{
    size_t compressed = compress_block(to + FRAME_LENGTH_BYTES, bytes, length);

    if (compressed > 0) {
        put_length(to, (uint32_t)compressed);
        return FRAME_LENGTH_BYTES + compressed;
    }
    put_length(to, (uint32_t)length | PLAIN_BLOCK);
    memcpy(to + FRAME_LENGTH_BYTES, bytes, length);
    return FRAME_LENGTH_BYTES + length;
}

size_t frame_make(uint8_t *to, const uint8_t *chunk, size_t length)
{
    size_t used = FRAME_HEADER_BYTES;

    memcpy(to, header, FRAME_HEADER_BYTES);
    for (size_t at = 0; at < length; at += FRAME_BLOCK_BYTES)
        used += put_block(to + used, chunk + at,
                          length - at < FRAME_BLOCK_BYTES ? length - at : FRAME_BLOCK_BYTES);
    put_length(to + used, 0);
    used += FRAME_LENGTH_BYTES;
    CHECK(used <= frame_bound(length));
    return used;
}

size_t frame_try(const uint8_t *sample, size_t length)
{
    uint8_t block[FRAME_SAMPLE_BYTES];
    size_t compressed;

    CHECK(length <= FRAME_SAMPLE_BYTES);
    compressed = length == 0 ? 0 : compress_block(block, sample, length);
    return compressed > 0 ? compressed : length;
}

bool frame_open(struct frame *frame, const uint8_t *bytes, size_t length)
{
    if (length < FRAME_HEADER_BYTES || memcmp(bytes, header, FRAME_HEADER_BYTES) != 0)
        return false;
    *frame = (struct frame){bytes + FRAME_HEADER_BYTES, bytes + length};
    return true;
}

bool frame_next(struct frame *frame, uint8_t *to, size_t *ret_length)
{
    size_t left = (size_t)(frame->end - frame->at), stored;
    uint32_t said;
    int length;

    if (left < FRAME_LENGTH_BYTES)
        return false;
    said = get_length(frame->at);
    stored = said & ~PLAIN_BLOCK;
    left -= FRAME_LENGTH_BYTES;
    frame->at += FRAME_LENGTH_BYTES;
    *ret_length = 0;
    if (said == 0)
        return left == 0;
    if (stored == 0 || stored > left || stored > FRAME_BLOCK_BYTES)
        return false;
    if ((said & PLAIN_BLOCK) != 0) {
        memcpy(to, frame->at, stored);
        length = (int)stored;
    } else {
        length = LZ4_decompress_safe((const char *)frame->at, (char *)to, (int)stored,
                                     FRAME_BLOCK_BYTES);
    }
    frame->at += stored;
    *ret_length = length > 0 ? (size_t)length : 0;
    return length > 0;
}
