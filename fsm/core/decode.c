/* From a log entry's bytes to commands. See decode.h.
 *
 * Flow     the outer message is walked by hand, so that each command's own bytes are known: its
 *          body's hash tells a retry from another request under the same id. The inner message is
 *          unpack.c's business.
 */
#include "fsm/core/decode.h"
#include "fsm/core/unpack.h"
#include "fsm/core/wire.h"
#include "src/base/bytes.h"

enum { FIELD_NOW_MS = 1, FIELD_REQUEST_ID = 2, FIELD_CALLER = 5, FIELD_COMMANDS = 1 };
enum { TAG_CHECKED_INDEX = 2 << 3 | WIRE_64, TAG_CHECKED_HASH = 3 << 3 | WIRE_64 };

/* Of the body's bytes alone: a retry comes at another instant and from another address, and another
 * request under the same id must not be taken for it. */
static bool decode_content_hash(const uint8_t *bytes, size_t length, uint64_t *ret_hash)
{
    struct wire_reader reader = {bytes, bytes + length};
    struct wire_field field;
    uint64_t hash = 0;

    while (wire_next(&reader, &field))
        if (field.number != FIELD_NOW_MS && field.number != FIELD_REQUEST_ID &&
            field.number != FIELD_CALLER)
            hash = fsm_hash_bytes(hash, field.start, field.length);
    *ret_hash = hash;
    return wire_whole(&reader);
}

/* The outer message has one field that repeats, and the check behind it; anything else is not an
 * Entry. */
static bool decode_next(struct wire_reader *reader, const uint8_t **ret_bytes, uint64_t *ret_length)
{
    uint64_t tag;

    CHECK(reader->at <= reader->end);
    if (!wire_read_varint(reader, &tag) || tag != (FIELD_COMMANDS << 3 | WIRE_BYTES) ||
        !wire_read_varint(reader, ret_length))
        return false;
    if (*ret_length > (uint64_t)(reader->end - reader->at))
        return false;
    *ret_bytes = reader->at;
    reader->at += *ret_length;
    return true;
}

/* Leaves the reader behind the last command. Counted before anything is decoded, so that one array
 * holds them all; the check at the end has a fixed size and place. */
static bool decode_count(struct wire_reader *reader, size_t *ret_count)
{
    const uint8_t *command;
    uint64_t command_length;

    CHECK(reader->at <= reader->end);
    for (*ret_count = 0; reader->at < reader->end && *reader->at != TAG_CHECKED_INDEX;
         (*ret_count)++)
        if (!decode_next(reader, &command, &command_length))
            return false;
    return reader->at == reader->end ||
           (reader->end - reader->at == FSM_ENTRY_CHECK_BYTES && reader->at[9] == TAG_CHECKED_HASH);
}

void fsm_entry_check_put(uint8_t bytes[FSM_ENTRY_CHECK_BYTES], uint64_t index, uint64_t hash)
{
    bytes[0] = TAG_CHECKED_INDEX;
    bytes_put(bytes + 1, index, 8);
    bytes[9] = TAG_CHECKED_HASH;
    bytes_put(bytes + 10, hash, 8);
}

/* Without decoding the commands: a member reads it before it applies the entry. */
bool fsm_entry_check(const uint8_t *bytes, size_t length, uint64_t *ret_index, uint64_t *ret_hash)
{
    struct wire_reader reader = {bytes, bytes + length};
    size_t count;

    CHECK(ret_index != NULL);
    CHECK(ret_hash != NULL);
    if (!decode_count(&reader, &count) || reader.at == reader.end)
        return false;
    *ret_index = bytes_get(reader.at + 1, 8);
    *ret_hash = bytes_get(reader.at + 10, 8);
    return true;
}

/* Everything or nothing: a command that does not decode takes the whole entry with it, on every
 * member. */
bool fsm_decode_entry(struct fsm *fsm, const uint8_t *bytes, size_t length,
                      struct decoded **ret_commands, size_t *ret_count)
{
    ProtobufCAllocator allocator = fsm_arena_allocator(&fsm->arena);
    struct wire_reader reader = {bytes, bytes + length}, counting = reader;
    struct decoded *commands;
    size_t count;

    if (!decode_count(&counting, &count))
        return false;
    commands = fsm_arena_take(&fsm->arena, (count + 1) * sizeof(*commands));
    for (size_t i = 0; i < count; i++) {
        const uint8_t *command;
        uint64_t command_length;
        struct request *request = &commands[i].request;

        if (!decode_next(&reader, &command, &command_length) ||
            !decode_content_hash(command, command_length, &request->content_hash))
            return false;
        commands[i].command = (fsm_command *)(void *)fsm_unpack(
            &ckpt__log__v1__command__descriptor, &allocator, command_length, command);
        if (commands[i].command == NULL)
            return false;
        commands[i].packed = command;
        commands[i].packed_bytes = command_length;
        request->id = commands[i].command->request_id;
        request->fields = NULL;
        request->hash = fsm_hash_text(request->id);
        fsm_look_aim(&commands[i]);
    }
    *ret_commands = commands;
    *ret_count = count;
    return true;
}
