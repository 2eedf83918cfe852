/* Timeouts, percent encoding, message prefixes and addresses. See wire.h. */
#include "src/rpc/wire.h"

#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

enum { TIMEOUT_DIGITS_MAX = 8 };

static const struct {
    char unit;
    uint64_t multiply; /* to nanoseconds */
} timeout_units[] = {{'n', 1},
                     {'u', 1000},
                     {'m', 1000000},
                     {'S', UINT64_C(1000000000)},
                     {'M', UINT64_C(60000000000)},
                     {'H', UINT64_C(3600000000000)}};

int rpc_timeout_parse(const char *text, size_t length, uint64_t *ret_ms)
{
    uint64_t value = 0;

    if (length < 2 || length > TIMEOUT_DIGITS_MAX + 1)
        return -1;
    for (size_t i = 0; i + 1 < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    for (size_t i = 0; i < ARRAY_COUNT(timeout_units); i++) {
        uint64_t multiply = timeout_units[i].multiply;

        if (timeout_units[i].unit != text[length - 1])
            continue;
        /* 99,999,999 hours in milliseconds fit; in nanoseconds they would not */
        *ret_ms = multiply >= 1000000 ? value * (multiply / 1000000)
                                      : (value * multiply + 999999) / 1000000;
        return 0;
    }
    return -1;
}

char *rpc_timeout_format(uint64_t ms, char text[RPC_TIMEOUT_TEXT_BYTES])
{
    const uint64_t limit = 99999999;

    if (ms <= limit)
        snprintf(text, RPC_TIMEOUT_TEXT_BYTES, "%um", (unsigned)ms);
    else if (ms / 1000 < limit)
        snprintf(text, RPC_TIMEOUT_TEXT_BYTES, "%uS", (unsigned)(ms / 1000 + 1));
    else
        snprintf(text, RPC_TIMEOUT_TEXT_BYTES, "%uH",
                 (unsigned)(ms / 3600000 < limit ? ms / 3600000 + 1 : limit));
    return text;
}

static size_t plain_length(const char *text)
{
    const char *at = text;

    while (*at >= 0x20 && *at <= 0x7e && *at != '%')
        at++;
    return (size_t)(at - text);
}

void rpc_percent_encode(struct buf *buf, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";

    for (;;) {
        size_t plain = plain_length(text);
        unsigned char byte = (unsigned char)text[plain];

        buf_append(buf, text, plain);
        if (byte == '\0')
            return;
        buf_append(buf, (const char[]){'%', digits[byte >> 4], digits[byte & 15]}, 3);
        text += plain + 1;
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

void rpc_percent_decode(struct buf *buf, const char *text, size_t length)
{
    uint8_t *begin = buf_extend(buf, length), *to = begin; /* it gets no longer */

    for (size_t i = 0; i < length; i++) {
        int high = i + 2 < length && text[i] == '%' ? hex_digit(text[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
        uint8_t byte = (uint8_t)text[i];

        if (low >= 0) {
            byte = (uint8_t)(high << 4 | low);
            i += 2;
        }
        if (byte == '\0' || byte == '\n' || byte == '\r')
            byte = ' ';
        *to++ = byte;
    }
    buf->length -= length - (size_t)(to - begin);
}

void rpc_prefix_write(uint8_t prefix[RPC_PREFIX_BYTES], size_t length)
{
    CHECK(length <= UINT32_MAX);
    prefix[0] = 0;
    for (int i = 0; i < 4; i++)
        prefix[1 + i] = (uint8_t)(length >> (24 - 8 * i));
}

uint32_t rpc_prefix_length(const uint8_t prefix[RPC_PREFIX_BYTES])
{
    return (uint32_t)prefix[1] << 24 | (uint32_t)prefix[2] << 16 | (uint32_t)prefix[3] << 8 |
           prefix[4];
}

/* What the prefix at `bytes` announces. */
static enum rpc_inbox_result prefix_check(const uint8_t *bytes, size_t message_max_bytes)
{
    if (bytes[0] != 0)
        return RPC_INBOX_COMPRESSED;
    return rpc_prefix_length(bytes) > message_max_bytes ? RPC_INBOX_TOO_LARGE : RPC_INBOX_OK;
}

/* Completes the message that an earlier call began. Returns how many bytes it took; 0 only when
 * there is none. */
static size_t inbox_top_up(struct rpc_inbox *inbox, const uint8_t *bytes, size_t length)
{
    size_t have = inbox->bytes.length;
    size_t want = have < RPC_PREFIX_BYTES
                      ? RPC_PREFIX_BYTES
                      : RPC_PREFIX_BYTES + (size_t)rpc_prefix_length(inbox->bytes.bytes);
    size_t taken = want - have < length ? want - have : length;

    buf_append(&inbox->bytes, bytes, taken);
    return taken;
}

static bool inbox_complete(const struct rpc_inbox *inbox)
{
    return inbox->bytes.length >= RPC_PREFIX_BYTES &&
           inbox->bytes.length == RPC_PREFIX_BYTES + (size_t)rpc_prefix_length(inbox->bytes.bytes);
}

enum rpc_inbox_result rpc_inbox_feed(
    struct rpc_inbox *inbox, const uint8_t *bytes, size_t length, size_t message_max_bytes,
    bool (*message)(void *data, const uint8_t *bytes, size_t length), void *data)
{
    enum rpc_inbox_result result = RPC_INBOX_OK;

    while (length > 0) {
        size_t taken;
        bool more = true;

        /* the usual case: a whole message in one piece, which is not copied */
        if (inbox->bytes.length == 0 && length >= RPC_PREFIX_BYTES &&
            (result = prefix_check(bytes, message_max_bytes)) == RPC_INBOX_OK &&
            length - RPC_PREFIX_BYTES >= rpc_prefix_length(bytes)) {
            taken = RPC_PREFIX_BYTES + (size_t)rpc_prefix_length(bytes);
            more = message(data, bytes + RPC_PREFIX_BYTES, taken - RPC_PREFIX_BYTES);
        } else {
            if (result != RPC_INBOX_OK)
                return result;
            taken = inbox_top_up(inbox, bytes, length);
            if (inbox->bytes.length >= RPC_PREFIX_BYTES)
                result = prefix_check(inbox->bytes.bytes, message_max_bytes);
            if (result == RPC_INBOX_OK && inbox_complete(inbox)) {
                more = message(data, inbox->bytes.bytes + RPC_PREFIX_BYTES,
                               inbox->bytes.length - RPC_PREFIX_BYTES);
                buf_clear(&inbox->bytes);
            }
        }
        if (result != RPC_INBOX_OK)
            return result;
        if (!more)
            return RPC_INBOX_STOPPED;
        bytes += taken;
        length -= taken;
    }
    return RPC_INBOX_OK;
}
