/* Lines of a worker's output, key=value: what may stand in one. Names and errors come from
 * destinations, where anybody may have chosen their bytes. */
#ifndef CKPT_DEST_LINE_H
#define CKPT_DEST_LINE_H

#include <stdbool.h>
#include <stdio.h>

/* Graphic characters of ASCII alone: it may stand among others in a line. */
bool line_is_word(const char *text);
/* A text for people: what would end the line, or is no text, becomes a question mark. */
void line_print(FILE *out, const char *key, const char *text);

#endif
