/* Little-endian numbers in byte arrays, and a reader that cannot run over the end.
 *
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

struct bytes_reader {
    const uint8_t *at;
    size_t left;
    bool failed;
};

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

static inline uint64_t reader_get(struct bytes_reader *reader, size_t width)
{
    const uint8_t *at = reader_take(reader, width);

    return at == NULL ? 0 : bytes_get(at, width);
}

#endif
