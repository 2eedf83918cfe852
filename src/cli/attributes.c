/* Attributes of a registration as words of a command line. See attributes.h. */
#include "src/cli/attributes.h"

#include <string.h>

#include "src/base/buf.h"
#include "src/base/check.h"

char *attributes_join(char *const *words, size_t count)
{
    struct buf text;
    char *joined;

    if (count == 0)
        return NULL;
    buf_init(&text);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_append(&text, strchr(words[i], '=') != NULL ? "\n" : ",", 1);
        buf_append(&text, words[i], strlen(words[i]));
    }
    buf_append(&text, "", 1);
    joined = check_strdup((const char *)text.bytes);
    buf_close(&text);
    return joined;
}
