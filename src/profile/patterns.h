/* Patterns of file names below the folder where a job runs, as `--checkpoint-files` and a profile's
 * `files` have them.
 *
 * Shapes   as a shell has them, with blanks between; each at most PATTERN_BYTES - 1 bytes.
 * Errors   patterns_check: ERR_INVALID; the text reads on behind the name of the list.
 */
#ifndef CKPT_PROFILE_PATTERNS_H
#define CKPT_PROFILE_PATTERNS_H

#include "src/base/err.h"

enum { PATTERN_BYTES = 256 };

/* The next pattern of a list that was checked; "": there is none. Returns the place behind it. */
const char *patterns_next(const char *at, char ret_pattern[PATTERN_BYTES]);
/* Whether a list is one: not empty, and no pattern leaves the folder. */
int patterns_check(const char *patterns, struct err *err);

#endif
