/* See raw.h. Source: RFC 9113 section 4, RFC 7541 section 6.2.2. */
#include "tests/unit/rpc/raw.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "src/base/check.h"
#include "src/rpc/wire.h"

void raw_u32(uint8_t bytes[4], uint32_t value)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> (24 - 8 * i));
}

void raw_frame(struct buf *out, uint8_t type, uint8_t flags, uint32_t stream, const void *payload,
               size_t length)
{
    uint8_t head[9] = {(uint8_t)(length >> 16), (uint8_t)(length >> 8), (uint8_t)length, type,
                       flags};

    raw_u32(head + 5, stream);
    buf_append(out, head, sizeof(head));
    buf_append(out, payload, length);
}

void raw_preface(struct buf *out)
{
    static const char magic[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    buf_append(out, magic, sizeof(magic) - 1);
    raw_frame(out, RAW_SETTINGS, 0, 0, NULL, 0);
}

static void put_string(struct buf *block, const char *text)
{
    size_t length = strlen(text);
    uint8_t byte;

    if (length < 127) {
        byte = (uint8_t)length;
        buf_append(block, &byte, 1);
    } else {
        byte = 127;
        buf_append(block, &byte, 1);
        for (length -= 127; length >= 128; length /= 128) {
            byte = (uint8_t)(length % 128 + 128);
            buf_append(block, &byte, 1);
        }
        byte = (uint8_t)length;
        buf_append(block, &byte, 1);
    }
    buf_append(block, text, strlen(text));
}

void raw_header(struct buf *block, const char *name, const char *value)
{
    buf_append(block, "", 1); /* literal, not indexed, new name */
    put_string(block, name);
    put_string(block, value);
}

void raw_request(struct buf *out, uint32_t stream, const char *path, uint8_t flags,
                 const char *name, const char *value)
{
    struct buf block;

    buf_init(&block);
    raw_header(&block, ":method", "POST");
    raw_header(&block, ":scheme", "http");
    raw_header(&block, ":path", path);
    raw_header(&block, ":authority", "test");
    raw_header(&block, "content-type", "application/grpc");
    raw_header(&block, "te", "trailers");
    if (name != NULL)
        raw_header(&block, name, value);
    CHECK(block.length <= 16384);
    raw_frame(out, RAW_HEADERS, (uint8_t)(RAW_END_HEADERS | flags), stream, block.bytes,
              block.length);
    buf_close(&block);
}

void raw_message(struct buf *out, uint32_t stream, uint8_t flags, const char *text)
{
    struct buf message;

    buf_init(&message);
    rpc_prefix_write(buf_extend(&message, RPC_PREFIX_BYTES), strlen(text));
    buf_append(&message, text, strlen(text));
    raw_frame(out, RAW_DATA, flags, stream, message.bytes, message.length);
    buf_close(&message);
}

bool raw_send(int fd, struct buf *out)
{
    size_t at = 0;

    while (at < out->length) {
        ssize_t sent = send(fd, out->bytes + at, out->length - at, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            break;
        at += (size_t)sent;
    }
    bool all = at == out->length;
    buf_clear(out);
    return all;
}
