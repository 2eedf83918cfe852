/* The texts and prefixes of gRPC over HTTP/2, as pure functions.
 *
 * Flow     server and client connections call these on header values and message bytes; tests and
 *          fuzzers call them directly.
 * Units    timeouts in milliseconds, rounded up so that a client never gives up after the server
 *          did.
 * Errors   -1 or false for text from outside that is not well formed; nothing is guessed.
 * Source   gRPC over HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md).
 */
#ifndef CKPT_RPC_WIRE_H
#define CKPT_RPC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/err.h"

enum { RPC_PREFIX_BYTES = 5, RPC_TIMEOUT_TEXT_BYTES = 12 };

/* The value of a "grpc-timeout" header: "1 to 8 digits, then H M S m u n". 0, or -1: not that. */
int rpc_timeout_parse(const char *text, size_t length, uint64_t *ret_ms);
/* Writes milliseconds in the finest unit that fits into 8 digits and returns text. */
char *rpc_timeout_format(uint64_t ms, char text[RPC_TIMEOUT_TEXT_BYTES]);

/* The value of a "grpc-message" trailer: appends text with everything but printable ASCII, and '%',
 * as %XX. No NUL is appended. */
void rpc_percent_encode(struct buf *buf, const char *text);
/* Appends the decoded text; a '%' that begins no %XX stays as it is, NUL and line breaks become
 * blanks. */
void rpc_percent_decode(struct buf *buf, const char *text, size_t length);

/* The five bytes before each message: not compressed, and its length, big-endian. Reading one gives
 * the length that it announces, which nobody has checked yet. */
void rpc_prefix_write(uint8_t prefix[RPC_PREFIX_BYTES], size_t length);
uint32_t rpc_prefix_length(const uint8_t prefix[RPC_PREFIX_BYTES]);

/* Incoming bytes of one call between two messages; all zeros is an empty one, buf_close() its
 * end. */
struct rpc_inbox {
    struct buf bytes; /* an incomplete message with its prefix */
};
enum rpc_inbox_result {
    RPC_INBOX_OK,         /* all bytes are taken */
    RPC_INBOX_STOPPED,    /* the callback returned false */
    RPC_INBOX_COMPRESSED, /* a message says so; none here is taken */
    RPC_INBOX_TOO_LARGE /* a prefix announces more than message_max_bytes; found out before them */
};
/* Hands every complete message to message(); keeps the rest, at most one message with its prefix.
 * The bytes are valid during the callback only. message() returns false when its call has ended:
 * the rest of the input is then dropped. After anything but RPC_INBOX_OK the inbox is of no use. */
enum rpc_inbox_result rpc_inbox_feed(
    struct rpc_inbox *inbox, const uint8_t *bytes, size_t length, size_t message_max_bytes,
    bool (*message)(void *data, const uint8_t *bytes, size_t length), void *data);

#endif
