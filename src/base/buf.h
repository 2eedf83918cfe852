/* A growing byte buffer.
 *
 * Shapes   caller's storage, heap bytes; buf_init/buf_close. A closed buffer is empty and may be
 *          used again.
 * Errors   none: out of memory stops the program (check.h). Callers bound what they append.
 */
#ifndef CKPT_BASE_BUF_H
#define CKPT_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

/* Readable as it is; written by the functions alone. bytes is NULL while nothing was appended. */
struct buf {
    uint8_t *bytes;
    size_t length;
    size_t capacity;
};

void buf_init(struct buf *buf);  /* the same as all zeros */
void buf_close(struct buf *buf); /* frees the bytes; again: harmless */
void buf_clear(struct buf *buf); /* keeps the capacity */
void buf_append(struct buf *buf, const void *bytes, size_t length);
/* Room for `length` more bytes at the end, counted as used; returns where they begin. The pointer
 * is good until the next call that may grow the buffer. */
uint8_t *buf_extend(struct buf *buf, size_t length);
/* Drops bytes from the front (moves the rest). */
void buf_consume(struct buf *buf, size_t length);
/* Appends text; its terminator is not counted. */
__attribute__((format(printf, 2, 3))) void buf_printf(struct buf *buf, const char *format, ...);
/* Gives the bytes away; the caller frees them. NULL when nothing was ever appended. ret_length may
 * be NULL. The buffer is empty afterwards. */
uint8_t *buf_take(struct buf *buf, size_t *ret_length);

#endif
