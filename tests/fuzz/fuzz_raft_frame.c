/* Frames from a hostile peer: parse and decode never read outside, and what they accept encodes
 * back to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "raft/net/frame.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

enum { NO_BUILD_BYTES = 4 + 1 };

static struct raft_entry seed_entries[2] = {
    {.term = 3, .type = RAFT_COMMAND, .buf = {(void *)(uintptr_t) "first", 5}},
    {.term = 4, .type = RAFT_BARRIER, .buf = {(void *)(uintptr_t) "12345678", 8}},
};

static void seed_message(enum frame_type type, struct frame_message *message)
{
    *message = (struct frame_message){.type = type};
    if (frame_has_note(type))
        message->note =
            (struct frame_note){.told = true, .unfit = CONSENSUS_RELUCTANT, .length = 8};
    switch (type) {
    case FRAME_HELLO:
        strcpy(message->hello.cluster_id, "demo");
        strcpy(message->hello.name, "n1");
        strcpy(message->hello.address, "10.0.0.1:9000");
        message->hello.from = message->hello.to = 1;
        message->hello.founding = 7;
        message->hello.build = (struct consensus_build){.level = 2, .text = "0.2.0 (abc)"};
        break;
    case FRAME_HELLO_REPLY:
        strcpy(message->reply.cluster_id, "demo");
        message->reply.founders.count = 2;
        message->reply.build = (struct consensus_build){.level = 2, .text = "0.2.0 (abc)"};
        break;
    case FRAME_APPEND:
        message->core.append_entries = (struct raft_append_entries){.term = 4,
                                                                    .prev_log_index = 1,
                                                                    .prev_log_term = 1,
                                                                    .entries = seed_entries,
                                                                    .n_entries = 2};
        break;
    case FRAME_VOTE:
        message->core.request_vote.term = message->core.request_vote.candidate_id = 2;
        break;
    case FRAME_SNAPSHOT_CHUNK:
        message->snapshot.bytes = (const uint8_t *)"chunk";
        message->snapshot.length = 5;
        break;
    default:
        break;
    }
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    struct frame_message message;
    struct buf buf;
    size_t length;

    if (i + 1 >= FRAME_TYPE_END)
        return 0;
    seed_message((enum frame_type)(i + 1), &message);
    buf_init(&buf);
    frame_encode(&buf, &message);
    length = buf.length;
    CHECK(length <= size);
    memcpy(bytes, buf.bytes, length);
    buf_close(&buf);
    return length;
}

static void decode_and_compare(const struct frame *frame, const uint8_t *bytes)
{
    struct frame_message message;
    struct buf buf;

    if (frame_decode(frame, &message, NULL) != 0)
        return;
    buf_init(&buf);
    frame_encode(&buf, &message);
    /* A hello of a build from before levels gets the lowest one, and an empty text. */
    if (message.type == FRAME_HELLO || message.type == FRAME_HELLO_REPLY)
        CHECK(buf.length <= frame->frame_bytes + NO_BUILD_BYTES);
    else
        CHECK(buf.length == frame->frame_bytes);
    /* Flags are booleans on the wire: any value but 0 comes back as 1. */
    if (message.type != FRAME_VOTE && message.type != FRAME_VOTE_RESULT &&
        message.type != FRAME_SNAPSHOT_ACK && message.type != FRAME_HELLO &&
        message.type != FRAME_HELLO_REPLY)
        CHECK(memcmp(buf.bytes, bytes, buf.length) == 0);
    buf_close(&buf);
    frame_message_close(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    uint8_t *own = check_alloc(length); /* its own block, so that reading over the end is seen */
    struct frame frame;

    memcpy(own, bytes, length);
    if (frame_parse(own, length, &frame, NULL) == 1)
        decode_and_compare(&frame, own);
    /* Past the checksum, which random changes rarely pass. */
    if (length >= FRAME_HEADER_BYTES) {
        size_t body = length - FRAME_HEADER_BYTES;
        bytes_put(own, 0x46504b43, 4);
        own[5] = 1;
        bytes_put(own + 6, 0, 2);
        bytes_put(own + 8, body, 4);
        bytes_put(own + 12, crc32c(crc32c(0, own, 12), own + FRAME_HEADER_BYTES, body), 4);
        if (frame_parse(own, length, &frame, NULL) == 1)
            decode_and_compare(&frame, own);
    }
    free(own);
    return 0;
}
