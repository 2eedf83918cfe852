/* Words of other systems for what ckptctl does: where somebody types one, the command is named.
 *
 * Absent   they are no commands: one thing has one name (src/GLOSSARY.md).
 * Source   U4.
 */
#ifndef CKPT_CLI_OTHER_WORDS_H
#define CKPT_CLI_OTHER_WORDS_H

#include <stddef.h>

/* The line to type in their place, by the first two words; words[1] may be NULL. NULL: they are
 * none of another system. */
const char *other_words_line(const char *const words[2]);
/* The lines one after the other; NULL: there are no more. */
const char *other_words_at(size_t i);

#endif
