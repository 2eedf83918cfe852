/* Copying and comparing texts. See text.h. */
#include "src/base/text.h"

#include <stdint.h>
#include <string.h>

#include "src/base/check.h"

static char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t least_of_three(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

size_t text_distance(const char *a, const char *b)
{
    size_t row[TEXT_DISTANCE_MAX_BYTES + 1]; /* to each beginning of b, from the part of a so far */
    size_t length = strlen(b);

    if (length > TEXT_DISTANCE_MAX_BYTES || strlen(a) > TEXT_DISTANCE_MAX_BYTES)
        return SIZE_MAX;
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i + 1;
        for (size_t j = 0; j < length; j++) {
            size_t above = row[j + 1];

            row[j + 1] = least_of_three(
                above + 1, row[j] + 1, diagonal + (ascii_lower(a[i]) == ascii_lower(b[j]) ? 0 : 1));
            diagonal = above;
        }
    }
    return row[length];
}

const char *text_nearest(const char *word, const char *(*next)(const void *context, size_t i),
                         const void *context)
{
    size_t best_distance = TEXT_NEAREST_DISTANCE_MAX + 1;
    const char *best = NULL;
    const char *candidate;

    for (size_t i = 0; (candidate = next(context, i)) != NULL; i++) {
        size_t d = text_distance(word, candidate);

        if (d < best_distance && d < strlen(candidate)) {
            best_distance = d;
            best = candidate;
        }
    }
    return best;
}

size_t text_copy(char *to, size_t size, const char *from)
{
    size_t length;

    CHECK(size > 0);
    length = strnlen(from, size - 1);
    memcpy(to, from, length);
    to[length] = '\0';
    return length;
}

const char *text_shown(const char *from, char *to, size_t size)
{
    size_t length = 0;

    CHECK(size >= 4);
    for (; from[length] != '\0' && length < size - 1; length++) {
        unsigned char c = (unsigned char)from[length];

        to[length] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    to[length] = '\0';
    if (from[length] != '\0')
        memcpy(to + length - 3, "...", 3);
    return to;
}

bool text_is_below(const char *folder, const char *path)
{
    size_t length = strlen(folder);

    if (length == 0 || strncmp(folder, path, length) != 0)
        return false;
    return path[length] == '\0' || path[length] == '/' || folder[length - 1] == '/';
}
