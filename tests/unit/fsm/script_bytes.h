/* A snapshot in memory: what fsm_snapshot_write() writes to and fsm_snapshot_read() reads from. The
 * caller frees bytes. */
#ifndef CKPT_TESTS_FSM_SCRIPT_BYTES_H
#define CKPT_TESTS_FSM_SCRIPT_BYTES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct script_bytes {
    uint8_t *bytes;
    size_t length, capacity, at;
};

static inline int script_write(void *context, const void *bytes, size_t length)
{
    struct script_bytes *sink = context;

    if (sink->length + length > sink->capacity) {
        sink->capacity = (sink->length + length) * 2;
        sink->bytes = realloc(sink->bytes, sink->capacity);
    }
    memcpy(sink->bytes + sink->length, bytes, length);
    sink->length += length;
    return 0;
}

static inline int script_read(void *context, void *bytes, size_t length)
{
    struct script_bytes *source = context;

    if (length > source->length - source->at)
        return -1;
    memcpy(bytes, source->bytes + source->at, length);
    source->at += length;
    return 0;
}

#endif
