/* Messages out of bytes, as protobuf_c_message_unpack() does it, at a third of its cost for bytes
 * as everybody packs them.
 *
 * Flow     one pass over the fields in their order. Whatever is unusual (an unknown field, one that
 *          comes twice, another wire type, a number of more than 64 bits, nested deeper than
 *          UNPACK_DEPTH_MAX, bytes that are cut off) makes it begin again with
 *          protobuf_c_message_unpack(), which decides.
 * Shapes   the message and all below it are the allocator's; freed by
 *          protobuf_c_message_free_unpacked().
 * Errors   NULL as there.
 * Absent   groups and required fields: proto3 has none.
 */
#ifndef CKPT_FSM_UNPACK_H
#define CKPT_FSM_UNPACK_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

/* Deeper messages are left to protobuf_c_message_unpack(); a stack of this size replaces
 * recursion. */
enum { UNPACK_DEPTH_MAX = 8 };

/* Equal to protobuf_c_message_unpack() in what it returns and in what it refuses
 * (tests/unit/fsm/test_unpack.c holds the two side by side). Texts and bytes are copied out of
 * `bytes`. */
ProtobufCMessage *fsm_unpack(const ProtobufCMessageDescriptor *descriptor,
                             ProtobufCAllocator *allocator, size_t length, const uint8_t *bytes);

#endif
