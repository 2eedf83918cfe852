/* How far apart two words are, for "the nearest known key is ...".
 *
 * Shapes   words of at most TEXT_DISTANCE_MAX_BYTES; nothing a person meant to type is longer.
 */
#ifndef CKPT_BASE_TEXT_H
#define CKPT_BASE_TEXT_H

#include <stddef.h>

enum { TEXT_DISTANCE_MAX_BYTES = 64 };

/* Levenshtein's distance: inserted, removed and replaced bytes; capital letters equal small ones. SIZE_MAX
 * when either is longer than TEXT_DISTANCE_MAX_BYTES. */
size_t text_distance(const char *a, const char *b);

#endif
