/* Memory for chunks on their way: kept for the next one, and given back when others need it.
 *
 * Flow     buffers_take() ... buffers_give(), then buffers_close().
 * Shapes   one thread. What is not in use is kept as long as all together has no more than
 *          idle_max_bytes; what is in use is the caller's to bound. Sizes are whole MiB, or whole
 *          16 MiB, so that one buffer serves many files.
 */
#ifndef CKPT_DEST_S3_BUFFERS_H
#define CKPT_DEST_S3_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

enum { BUFFERS_IDLE_MAX = 16 };

struct buffer {
    uint8_t *bytes; /* NULL: none */
    size_t capacity;
};

struct buffers {
    struct buffer idle[BUFFERS_IDLE_MAX];
    size_t idle_count;
    size_t all_bytes;      /* in use or not */
    size_t idle_max_bytes; /* of all, beyond which nothing idle is kept */
};

/* For at least so many bytes; never none. */
struct buffer buffers_take(struct buffers *buffers, size_t length);
/* One that was taken, or none. */
void buffers_give(struct buffers *buffers, struct buffer *buffer);
/* All were given. */
void buffers_close(struct buffers *buffers);

#endif
