/* Finds texts with a NUL byte in a packed message.
 *
 * Flow     protobuf-c hands out a text as a C string and forgets its length: "a\0b" would be taken
 *          as "a". So a request is looked at before it is decoded.
 * Shapes   descends into messages of its type as deep as the types do (none is recursive).
 * Errors   bytes that do not decode are not its business: it stops and says no.
 */
#ifndef CKPT_BROKER_TEXTS_H
#define CKPT_BROKER_TEXTS_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

enum { TEXTS_DEPTH_MAX = 8 };

/* Whether any text in the packed message has a byte 0. Called for every request before it is
 * decoded; costs one memchr() where there is none. */
bool texts_hold_nul(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t length);

#endif
