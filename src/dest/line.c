/* See line.h. */
#include "src/dest/line.h"

bool line_is_word(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= ' ' || (unsigned char)*text > '~')
            return false;
    return true;
}

void line_print(FILE *out, const char *key, const char *text)
{
    fprintf(out, "%s=", key);
    for (; *text != '\0'; text++)
        fputc((unsigned char)*text < ' ' || *text == 127 ? '?' : *text, out);
    fputc('\n', out);
}
