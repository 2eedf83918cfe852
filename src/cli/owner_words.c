/* Texts about jobs in the words of their owners. See owner.h. */
#include <string.h>

#include "src/base/check.h"
#include "src/cli/owner.h"

static const char program[] = "ckptctl ";

/* Before the verbs of the same name: the longest one that fits. */
static const struct {
    const char *from, *to; /* behind the program's name, and all of it */
} sayings[] = {
    {"jobs lists them", "ckpt-run status lists yours of a node"},
    {"jobs", "ckpt-run status"},
    {"job ", "ckpt-run status --alloc "},
    {"checkpoint pin ", "ckpt-run pin "},
    {"checkpoint unpin ", "ckpt-run unpin "},
    {"checkpoints lists them", "ckpt-run checkpoints JOB lists them"},
    {"end ", "ckpt-run end "},
    {"end,", "ckpt-run end,"},
    {"register ", "ckpt-run register "},
    {"profile ", "ckptctl profile "}, /* it asks no member */
};

static size_t word_length(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyz-");
}

/* A verb that an owner has as well, with what an owner may say: nodes are the operator's. */
static bool is_owners(const char *text)
{
    char verb[32];
    size_t length = word_length(text);

    if (length == 0 || length >= sizeof(verb))
        return false;
    memcpy(verb, text, length);
    verb[length] = '\0';
    return owner_verb(verb) != NULL && strstr(text, " --node ") == NULL;
}

/* Returns how much of `text`, which stood behind the program's name, is said. */
static size_t say_instead(FILE *out, const char *text)
{
    size_t length;

    for (size_t i = 0; i < ARRAY_COUNT(sayings); i++) {
        length = strlen(sayings[i].from);
        if (strncmp(text, sayings[i].from, length) == 0) {
            fputs(sayings[i].to, out);
            return length;
        }
    }
    if (strncmp(text, "help ", 5) == 0) {
        length = word_length(text + 5);
        fprintf(out, "ckpt-run %.*s --help", (int)length, text + 5);
        return length + 5;
    }
    fputs(is_owners(text) ? "ckpt-run " : "an operator's ckptctl ", out);
    return 0;
}

void owner_words(FILE *out, const char *text)
{
    const char *at;

    while ((at = strstr(text, program)) != NULL) {
        fwrite(text, 1, (size_t)(at - text), out);
        text = at + sizeof(program) - 1;
        text += say_instead(out, text);
    }
    fputs(text, out);
}
