/* The tar of a bundle: POSIX ustar. See bundle.h. */
#include <inttypes.h>
#include <string.h>

#include "src/base/check.h"
#include "src/cli/bundle/bundle.h"

enum { BLOCK_BYTES = 512, END_BLOCKS = 2 };

/* Of ustar: every number is octal text. */
struct header {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char kind;
    char link[100];
    char magic[6];
    char version[2];
    char user[32];
    char group[32];
    char device[16];
    char prefix[155];
    char padding[12];
};
_Static_assert(sizeof(struct header) == BLOCK_BYTES, "a header is a block");

static void put_octal(char *field, size_t size, uint64_t value)
{
    CHECK(value >> (3 * (size - 1)) == 0);
    snprintf(field, size, "%0*" PRIo64, (int)size - 1, value);
}

static void put_checksum(struct header *header)
{
    const unsigned char *bytes = (const unsigned char *)header;
    unsigned sum = 0;

    memset(header->checksum, ' ', sizeof(header->checksum));
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        sum += bytes[i];
    snprintf(header->checksum, sizeof(header->checksum), "%06o", sum); /* a NUL, and a blank */
}

void bundle_add(FILE *stream, const char *name, const char *text, size_t length, uint64_t now_s)
{
    static const char zeros[BLOCK_BYTES];
    struct header header = {.kind = '0', .magic = "ustar", .version = {'0', '0'}};

    CHECK(snprintf(header.name, sizeof(header.name), "ckpt-bundle/%s", name) <
          (int)sizeof(header.name));
    put_octal(header.mode, sizeof(header.mode), 0600);
    put_octal(header.uid, sizeof(header.uid), 0);
    put_octal(header.gid, sizeof(header.gid), 0);
    put_octal(header.size, sizeof(header.size), length);
    put_octal(header.mtime, sizeof(header.mtime), now_s);
    put_checksum(&header);
    fwrite(&header, 1, BLOCK_BYTES, stream);
    fwrite(text, 1, length, stream);
    fwrite(zeros, 1, (BLOCK_BYTES - length % BLOCK_BYTES) % BLOCK_BYTES, stream);
}

void bundle_end(FILE *stream)
{
    static const char zeros[END_BLOCKS * BLOCK_BYTES];

    fwrite(zeros, 1, sizeof(zeros), stream);
}
