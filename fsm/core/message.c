/* Messages that outlive the entry they came in: copied by packing and unpacking, once per kept
 * message. */
#include "fsm/core/state.h"

/* protobuf-c has no copy of its own. The packed bytes lie in the arena, the copy on the heap. */
ProtobufCMessage *fsm_message_copy(struct fsm *fsm, const ProtobufCMessage *message)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = fsm_arena_take(&fsm->arena, length);
    ProtobufCMessage *copy;

    CHECK(protobuf_c_message_pack(message, bytes) == length);
    copy = protobuf_c_message_unpack(message->descriptor, NULL, length, bytes);
    return copy;
}

void fsm_message_free(ProtobufCMessage *message)
{
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, NULL);
}
