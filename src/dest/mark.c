/* See mark.h. */
#include "src/dest/mark.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/dest/sha256.h"

/* One in 2^64 has no mark of its own: it takes the next number. */
uint64_t mark_of(const char *cluster_id)
{
    uint8_t digest[SHA256_BYTES];
    uint64_t mark = 0;

    sha256_of(cluster_id, strlen(cluster_id), digest);
    for (unsigned i = 0; i < sizeof(mark); i++)
        mark = mark << 8 | digest[i];
    return mark == 0 ? 1 : mark;
}

/* Always as many digits, so that names of a length can be told. */
char *mark_format(uint64_t mark, char text[MARK_BYTES])
{
    snprintf(text, MARK_BYTES, "%016" PRIx64, mark);
    return text;
}

bool mark_valid(const char *text)
{
    return strlen(text) == MARK_BYTES - 1 && strspn(text, "0123456789abcdef") == MARK_BYTES - 1 &&
           strspn(text, "0") != MARK_BYTES - 1;
}
