/* Garbage in a log segment: the scan never reads outside, and what it visits is contiguous and
 * inside the segment. */
#include <stdlib.h>
#include <string.h>

#include "raft/log/wal.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

static size_t put_record(uint8_t *at, uint64_t index, uint32_t ordinal, size_t length)
{
    memset(at, 0, WAL_RECORD_HEADER_BYTES + length + 8);
    bytes_put(at + 4, length, 4);
    bytes_put(at + 8, index, 8);
    bytes_put(at + 16, 3, 8);
    at[24] = RAFT_COMMAND;
    bytes_put(at + 28, ordinal, 4);
    memset(at + WAL_RECORD_HEADER_BYTES, 'p', length);
    bytes_put(at, crc32c(0, at + 4, WAL_RECORD_HEADER_BYTES - 4 + length), 4);
    return WAL_RECORD_HEADER_BYTES + (length + 7) / 8 * 8;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    size_t at = WAL_SEGMENT_HEADER_BYTES;

    if (i >= 4 || size < 2048)
        return 0;
    wal_segment_header_encode(bytes, 5);
    for (uint64_t n = 0; n < 5 + i; n++)
        at += put_record(bytes + at, 5 + n, (uint32_t)(n % (i + 1)), (size_t)n * 7 % 40);
    memset(bytes + at, 0, 256);
    return at + 256;
}

struct visited {
    const uint8_t *begin, *end;
    uint64_t last;
};

static int visit(void *data, const struct wal_record *record, struct err *err)
{
    struct visited *visited = data;

    (void)err;
    CHECK(visited->last == 0 || record->index == visited->last + 1);
    CHECK(record->payload >= visited->begin &&
          record->length <= (size_t)(visited->end - record->payload));
    visited->last = record->index;
    return 0;
}

static void scan(const uint8_t *bytes, size_t length, bool is_last)
{
    struct visited visited = {bytes, bytes + length, 0};
    struct wal_segment segment;
    bool torn;

    if (wal_segment_scan(&(struct wal_image){bytes, length, "fuzz", is_last},
                         &(struct wal_visitor){visit, &visited}, &segment, &torn, NULL) != 0)
        return;
    CHECK(segment.used_bytes <= length && segment.used_bytes % 8 == 0);
    CHECK(visited.last == 0 || segment.last_index == visited.last);
    CHECK(segment.last_index + 1 >= segment.first_index);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    uint8_t *own = check_alloc(length);

    memcpy(own, bytes, length);
    scan(own, length, true);
    scan(own, length, false);
    if (length >= WAL_SEGMENT_HEADER_BYTES) {
        wal_segment_header_encode(own, 5); /* past the header's checksum */
        scan(own, length, true);
    }
    free(own);
    return 0;
}
