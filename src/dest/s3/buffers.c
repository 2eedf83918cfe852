/* See buffers.h. */
#include "src/dest/s3/buffers.h"

#include <stdlib.h>

#include "src/base/check.h"
#include "src/dest/copy.h"

enum { SMALL_BYTES = 1 << 20, STEP_BYTES = 16 << 20 };

static size_t capacity_of(size_t length)
{
    if (length <= SMALL_BYTES)
        return SMALL_BYTES;
    return (length + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
}

static void buffer_free(struct buffers *buffers, struct buffer *buffer)
{
    CHECK(buffers->all_bytes >= buffer->capacity);
    buffers->all_bytes -= buffer->capacity;
    free(buffer->bytes);
    *buffer = (struct buffer){NULL, 0};
}

static void remove_idle(struct buffers *buffers, size_t i)
{
    buffers->idle[i] = buffers->idle[--buffers->idle_count];
}

/* The smallest that is large enough; idle_count: none is. */
static size_t find_idle(const struct buffers *buffers, size_t capacity)
{
    size_t found = buffers->idle_count;

    for (size_t i = 0; i < buffers->idle_count; i++) {
        if (buffers->idle[i].capacity >= capacity &&
            (found == buffers->idle_count ||
             buffers->idle[i].capacity < buffers->idle[found].capacity))
            found = i;
    }
    return found;
}

struct buffer buffers_take(struct buffers *buffers, size_t length)
{
    size_t capacity = capacity_of(length), i = find_idle(buffers, capacity);
    struct buffer buffer;

    if (i < buffers->idle_count) {
        buffer = buffers->idle[i];
        remove_idle(buffers, i);
        return buffer;
    }
    while (buffers->idle_count > 0 && buffers->all_bytes + capacity > buffers->idle_max_bytes)
        buffer_free(buffers, &buffers->idle[--buffers->idle_count]);
    buffers->all_bytes += capacity;
    return (struct buffer){copy_alloc(capacity), capacity};
}

void buffers_give(struct buffers *buffers, struct buffer *buffer)
{
    if (buffer->bytes == NULL)
        return;
    if (buffers->idle_count == BUFFERS_IDLE_MAX || buffers->all_bytes > buffers->idle_max_bytes) {
        buffer_free(buffers, buffer);
        return;
    }
    buffers->idle[buffers->idle_count++] = *buffer;
    *buffer = (struct buffer){NULL, 0};
}

void buffers_close(struct buffers *buffers)
{
    while (buffers->idle_count > 0)
        buffer_free(buffers, &buffers->idle[--buffers->idle_count]);
    CHECK(buffers->all_bytes == 0);
}
