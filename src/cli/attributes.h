/* Attributes of a registration as words of a command line (fsm/attributes.h). */
#ifndef CKPT_CLI_ATTRIBUTES_H
#define CKPT_CLI_ATTRIBUTES_H

#include <stddef.h>

/* One text of NAME=VALUE words: a line each; a word without "=" goes on with the list of the word
 * before, as commas have parted it. On the heap; NULL: there are none. */
char *attributes_join(char *const *words, size_t count);

#endif
