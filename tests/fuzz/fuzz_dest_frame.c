/* Frames of arbitrary bytes are read without leaving the memory, and end; a chunk of these bytes
 * comes back from its own frame.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/dest/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

/* The bytes that it holds up to the first that is none of a frame's. */
static size_t read_frame(const uint8_t *bytes, size_t length, const uint8_t *expected, size_t most)
{
    static uint8_t block[FRAME_BLOCK_BYTES];
    struct frame frame;
    size_t done = 0, got = 0;

    if (!frame_open(&frame, bytes, length))
        return 0;
    do {
        if (!frame_next(&frame, block, &got))
            return done;
        CHECK(got <= FRAME_BLOCK_BYTES);
        CHECK(frame.at <= frame.end);
        CHECK(expected == NULL || (got <= most - done && memcmp(block, expected + done, got) == 0));
        done += got;
    } while (got > 0);
    return done;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    uint8_t *copy = malloc(length + 1), *made = malloc(frame_bound(length));

    CHECK(copy != NULL && made != NULL);
    memcpy(copy, bytes, length); /* of exactly this length, so that the sanitizer sees its end */
    (void)read_frame(copy, length, NULL, 0);
    CHECK(read_frame(made, frame_make(made, bytes, length), bytes, length) == length);
    free(copy);
    free(made);
    return 0;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    uint8_t chunk[3000];

    if (i >= 3 || size < frame_bound(sizeof(chunk)))
        return 0;
    for (size_t k = 0; k < sizeof(chunk); k++)
        chunk[k] = (uint8_t)(i == 0 ? k * k * 31 >> 3 : k % (i * 7));
    return frame_make(bytes, chunk, sizeof(chunk));
}
