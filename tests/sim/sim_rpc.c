/* The frames of simulated calls. See sim_rpc.h. */
#include "tests/sim/sim_rpc.h"

#include <string.h>

#include "src/base/buf.h"
#include "src/base/check.h"

struct frame_header {
    uint32_t type;
    uint32_t call;
    uint64_t number;
    uint32_t a_bytes;
    uint32_t b_bytes;
};

void sim_frame_append(struct buf *buf, const struct sim_frame *frame)
{
    const struct frame_header header = {(uint32_t)frame->type, frame->call, frame->number,
                                        (uint32_t)frame->a_bytes, (uint32_t)frame->b_bytes};

    buf_append(buf, &header, sizeof(header));
    buf_append(buf, frame->a, frame->a_bytes);
    buf_append(buf, frame->b, frame->b_bytes);
}

size_t sim_frame_take(const uint8_t *bytes, size_t length, struct sim_frame *ret_frame)
{
    struct frame_header header;
    size_t used;

    CHECK(length >= sizeof(header));
    memcpy(&header, bytes, sizeof(header));
    used = sizeof(header) + header.a_bytes + header.b_bytes;
    CHECK(used <= length);
    *ret_frame = (struct sim_frame){.type = (enum sim_frame_type)header.type,
                                    .call = header.call,
                                    .number = header.number,
                                    .a = bytes + sizeof(header),
                                    .a_bytes = header.a_bytes,
                                    .b = bytes + sizeof(header) + header.a_bytes,
                                    .b_bytes = header.b_bytes};
    return used;
}
