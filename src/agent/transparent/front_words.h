/* The line of the fronts, and how they end. A front is ckpt-run again, in the place of a
 * command: /proc/self/exe, a verb, words of its own, and then the command.
 *
 * Flow     front_words_make() in ckpt-run, for each start; front_words_are() in the front;
 *          front_end_as() when what it ran has ended.
 * Shapes   `line` is the caller's, NULL at first: the line before is freed, with its own words.
 */
#ifndef CKPT_AGENT_FRONT_WORDS_H
#define CKPT_AGENT_FRONT_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#define FRONT_SELF "/proc/self/exe"
enum { FRONT_WORDS_MAX = 6 };

/* own: the verb first; FRONT_WORDS_MAX with FRONT_SELF before. */
char *const *front_words_make(const char *const *own, size_t own_count, char *const *command,
                              char ***line);
bool front_words_are(char *const *line, const char *verb);
/* As that one ended: with its status, or by its signal, but without a core. */
__attribute__((noreturn)) void front_end_as(int wait_status);

#endif
