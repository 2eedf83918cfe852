/* A growing byte buffer. See buf.h. */
#include "src/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

enum { BUF_MINIMUM_BYTES = 256 };

void buf_init(struct buf *buf)
{
    memset(buf, 0, sizeof(*buf));
}

void buf_close(struct buf *buf)
{
    free(buf->bytes);
    buf_init(buf);
}

void buf_clear(struct buf *buf)
{
    buf->length = 0;
}

uint8_t *buf_extend(struct buf *buf, size_t length)
{
    size_t needed;

    CHECK(length <= SIZE_MAX / 2 - buf->length);
    needed = buf->length + length;
    if (needed > buf->capacity) {
        size_t capacity = buf->capacity < BUF_MINIMUM_BYTES ? BUF_MINIMUM_BYTES : buf->capacity;
        while (capacity < needed)
            capacity *= 2;
        buf->bytes = check_realloc(buf->bytes, capacity, 1);
        buf->capacity = capacity;
    }
    buf->length = needed;
    return buf->bytes + needed - length;
}

void buf_append(struct buf *buf, const void *bytes, size_t length)
{
    if (length > 0)
        memcpy(buf_extend(buf, length), bytes, length);
}

void buf_consume(struct buf *buf, size_t length)
{
    CHECK(length <= buf->length);
    buf->length -= length;
    if (buf->length > 0)
        memmove(buf->bytes, buf->bytes + length, buf->length);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    va_list arguments;
    int wanted;

    va_start(arguments, format);
    wanted = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    CHECK(wanted >= 0);
    buf_extend(buf, (size_t)wanted + 1);
    va_start(arguments, format);
    vsnprintf((char *)buf->bytes + buf->length - (size_t)wanted - 1, (size_t)wanted + 1, format,
              arguments);
    va_end(arguments);
    buf->length--; /* the terminator is there but not counted */
}

uint8_t *buf_take(struct buf *buf, size_t *ret_length)
{
    uint8_t *bytes = buf->bytes;

    if (ret_length != NULL)
        *ret_length = buf->length;
    buf_init(buf);
    return bytes;
}
