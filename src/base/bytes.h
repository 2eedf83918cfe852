/* Little-endian numbers in byte arrays, and a reader that cannot run over the end.
 *
 * Flow     writers: bytes_put() writes into an array, buf_put() at the end of a buffer. Readers: a
 *          struct bytes_reader over the bytes, then reader_get() and reader_take() in the order in
 *          which they were written.
 * Shapes   width is 1 to 8 bytes; higher bytes of a value are cut. A reader borrows the bytes.
 * Errors   a reader that was asked for more than there is fails for good and gives zeros; check
 *          `failed` once at the end.
 */
#ifndef CKPT_BASE_BYTES_H
#define CKPT_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "src/base/buf.h"

/* The `width` low bytes of value, the lowest first. */
static inline void bytes_put(uint8_t *at, uint64_t value, size_t width)
{
    for (size_t i = 0; i < width; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static inline uint64_t bytes_get(const uint8_t *at, size_t width)
{
    uint64_t value = 0;

    for (size_t i = 0; i < width; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static inline void buf_put(struct buf *buf, uint64_t value, size_t width)
{
    bytes_put(buf_extend(buf, width), value, width);
}

/* The bytes still to be read; {bytes, length} begins. */
struct bytes_reader {
    const uint8_t *at;
    size_t left;
    bool failed;
};

/* The next `length` bytes, in place; NULL when there are not so many. */
static inline const uint8_t *reader_take(struct bytes_reader *reader, size_t length)
{
    const uint8_t *at = reader->at;

    if (reader->failed || length > reader->left) {
        reader->failed = true;
        return NULL;
    }
    reader->at += length;
    reader->left -= length;
    return at;
}

/* The next number; 0 when there is none. */
static inline uint64_t reader_get(struct bytes_reader *reader, size_t width)
{
    const uint8_t *at = reader_take(reader, width);

    return at == NULL ? 0 : bytes_get(at, width);
}

#endif
