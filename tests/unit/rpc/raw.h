/* HTTP/2 frames by hand, for peers that do what no library does. Blocking writes into a test's raw
 * socket. */
#ifndef CKPT_TESTS_UNIT_RPC_RAW_H
#define CKPT_TESTS_UNIT_RPC_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"

enum {
    RAW_DATA = 0,
    RAW_HEADERS = 1,
    RAW_PRIORITY = 2,
    RAW_RST = 3,
    RAW_SETTINGS = 4,
    RAW_PING = 6,
    RAW_GOAWAY = 7,
    RAW_WINDOW = 8,
    RAW_CONTINUATION = 9,
    RAW_PRIORITY_UPDATE = 16,
    RAW_UNKNOWN = 0xfa
};
enum { RAW_END_STREAM = 1, RAW_ACK = 1, RAW_END_HEADERS = 4 };

void raw_frame(struct buf *out, uint8_t type, uint8_t flags, uint32_t stream, const void *payload,
               size_t length);
void raw_preface(struct buf *out); /* with an empty SETTINGS */
/* A gRPC request's headers; extra "name\0value" pairs may be NULL. Literals without indexing: no
 * compression state. */
void raw_request(struct buf *out, uint32_t stream, const char *path, uint8_t flags,
                 const char *name, const char *value);
void raw_header(struct buf *block, const char *name, const char *value);
void raw_message(struct buf *out, uint32_t stream, uint8_t flags, const char *text);
void raw_u32(uint8_t bytes[4], uint32_t value);
/* Writes all and empties the buffer; false: the peer has closed. */
bool raw_send(int fd, struct buf *out);

#endif
