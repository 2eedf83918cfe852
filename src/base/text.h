/* Texts: copying one into a buffer, showing one of unknown origin, and how far apart two words are,
 * for "the nearest known key is ...".
 *
 * Shapes   words of at most TEXT_DISTANCE_MAX_BYTES; nothing a person meant to type is longer.
 */
#ifndef CKPT_BASE_TEXT_H
#define CKPT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

enum { TEXT_DISTANCE_MAX_BYTES = 64 };

/* Levenshtein's distance: inserted, removed and replaced bytes; capital letters equal small ones.
 * SIZE_MAX when either is longer than TEXT_DISTANCE_MAX_BYTES. */
size_t text_distance(const char *a, const char *b);

/* What fits of `from`, with a NUL; returns its length without that. Cheaper than snprintf("%s")
 * where it is done for every message. */
size_t text_copy(char *to, size_t size, const char *from);

/* Whether the path is the folder or lies in it, as texts; "/" and "s3://" hold all that begin
 * so. */
bool text_is_below(const char *folder, const char *path);

/* A text that a message of protobuf-c is to point to while it is packed: its fields are not
 * const. */
static inline char *text_message(const char *text)
{
    union {
        const char *in;
        char *out;
    } pointer = {.in = text};

    return pointer.out;
}

/* Text of unknown origin as it may be shown: control characters are '?', and what does not fit ends
 * in "...". size is 4 or more. Returns to. */
const char *text_shown(const char *from, char *to, size_t size);

#endif
