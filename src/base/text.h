/* Texts: copying one into a buffer, showing one of unknown origin, and how far apart two words are,
 * for "the nearest known key is ...".
 *
 * Shapes   words of at most TEXT_DISTANCE_MAX_BYTES: nobody means to type a longer one.
 */
#ifndef CKPT_BASE_TEXT_H
#define CKPT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

enum { TEXT_DISTANCE_MAX_BYTES = 64, TEXT_NEAREST_DISTANCE_MAX = 3 };

/* For tables of an enum's names: LIST(TEXT_OF_NAME), where LIST(X) has X(NAME) for each value. */
#define TEXT_OF_NAME(name) #name,

/* Levenshtein's distance: inserted, removed and replaced bytes; capital letters equal small ones.
 * SIZE_MAX when either is longer than TEXT_DISTANCE_MAX_BYTES. */
size_t text_distance(const char *a, const char *b);

/* The candidate nearest to a misspelt word, NULL when none is near. next(context, i) returns NULL
 * at the end. */
const char *text_nearest(const char *word, const char *(*next)(const void *context, size_t i),
                         const void *context);

/* Copies as much of `from` as fits, with a NUL; returns the length without the NUL. Cheaper than
 * snprintf("%s") for work that is done for every message. */
size_t text_copy(char *to, size_t size, const char *from);

/* True: as a text the path is the folder or lies in it; "/" and "s3://" hold every path that begins
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

/* Makes text of unknown origin fit to be shown: control characters become '?', and a text that does
 * not fit ends in "...". size is 4 or more. Returns to. */
const char *text_shown(const char *from, char *to, size_t size);

#endif
