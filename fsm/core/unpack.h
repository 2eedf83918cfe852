/* Unpacks messages as protobuf_c_message_unpack() does, at a third of its cost for bytes that are
 * packed in the usual way.
 *
 * Flow     one pass over the fields in their order. Unusual bytes go to
 *          protobuf_c_message_unpack(), from the beginning. These are an unknown field, a field
 *          that comes twice, another wire type, a number of more than 64 bits, a message deeper
 *          than UNPACK_DEPTH_MAX, and bytes that are cut off.
 * Shapes   the allocator gives all memory of the message; protobuf_c_message_free_unpacked() frees
 *          it.
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

/* Returns and refuses the same as protobuf_c_message_unpack() (tests/unit/fsm/test_unpack.c
 * compares the two). Texts and bytes are copied out of `bytes`. */
ProtobufCMessage *fsm_unpack(const ProtobufCMessageDescriptor *descriptor,
                             ProtobufCAllocator *allocator, size_t length, const uint8_t *bytes);

#endif
