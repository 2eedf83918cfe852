/* Any bytes as a request: the search for NUL bytes stays inside them, and finds one that stands in
 * front of anything. */
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/base/check.h"
#include "src/broker/api/texts.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    const ProtobufCMessageDescriptor *type = &ckpt__v1__register_allocation_request__descriptor;
    bool found = texts_hold_nul(type, bytes, length);
    ProtobufCMessage *message = protobuf_c_message_unpack(type, NULL, length, bytes);

    CHECK(!found || memchr(bytes, 0, length) != NULL);
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, NULL);
    /* the same bytes with a text that ends in NUL in front: always found */
    if (length < 4096) {
        uint8_t bad[4096 + 4] = {0x0a, 0x02, 'r', 0};
        memcpy(bad + 4, bytes, length);
        CHECK(texts_hold_nul(type, bad, length + 4));
    }
    return 0;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    static const uint8_t seed[] = "\x0a\x01r\x12\x0c\x0a\x01"
                                  "a\x30\x05\x52\x05\x0a\x01n\x10\x01";

    if (i > 0 || sizeof(seed) - 1 > size)
        return 0;
    memcpy(bytes, seed, sizeof(seed) - 1);
    return sizeof(seed) - 1;
}
