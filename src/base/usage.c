/* Words of a command line that a program does not take. See usage.h. */
#include "src/base/usage.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/err.h"
#include "src/base/text.h"

enum { WORD_SHOWN_BYTES = 65 };

static const char *next_name(const void *context, size_t i)
{
    const struct option *table = context;

    return table[i].name;
}

/* The option that the word names in full or begins, with or without a value; NULL: none, or
 * several. */
static const struct option *find_long(const struct option *table, const char *name, size_t length)
{
    const struct option *found = NULL;

    for (const struct option *at = table; at->name != NULL; at++) {
        if (strncmp(at->name, name, length) != 0)
            continue;
        if (at->name[length] == '\0')
            return at;
        if (found != NULL)
            return NULL;
        found = at;
    }
    return found;
}

static int refuse_long(const struct option *table, const char *word, struct err *err)
{
    const size_t length = strcspn(word + 2, "=");
    const struct option *known = find_long(table, word + 2, length);
    char name[WORD_SHOWN_BYTES], shown[WORD_SHOWN_BYTES];
    const char *near;

    if (known != NULL)
        return err_set(err, ERR_INVALID, "--%s %s", known->name,
                       known->has_arg == no_argument ? "takes no value" : "needs a value");
    text_shown(word, shown, sizeof(shown));
    snprintf(name, sizeof(name), "%.*s", (int)(length < sizeof(name) ? length : sizeof(name) - 1),
             word + 2);
    near = text_nearest(name, next_name, table);
    if (near == NULL)
        return err_set(err, ERR_INVALID, "unknown option %s", shown);
    return err_set(err, ERR_INVALID, "unknown option %s; the nearest is --%s", shown, near);
}

/* Letters in one word are read one after the other: the word before them may be an option that was
 * right. */
static bool was_long(const struct option *table, const char *word)
{
    const struct option *known;

    if (strncmp(word, "--", 2) != 0)
        return false;
    known = find_long(table, word + 2, strcspn(word + 2, "="));
    return optopt == 0 || (known != NULL && known->val == optopt);
}

int usage_option(int argc, char **argv, const char *letters, const struct option *table,
                 struct err *err)
{
    int option;

    opterr = 0; /* its own line would stand beside this one */
    option = getopt_long(argc, argv, letters, table, NULL);
    if (option != '?')
        return option;
    CHECK(optind >= 1);
    if (was_long(table, argv[optind - 1]))
        (void)refuse_long(table, argv[optind - 1], err);
    else if (strchr(letters, optopt) != NULL)
        (void)err_set(err, ERR_INVALID, "-%c needs a value", optopt);
    else
        (void)err_set(err, ERR_INVALID, "unknown option -%c", optopt);
    return '?';
}

void usage_refuse(const char *program, const char *verb, const char *text)
{
    fprintf(stderr, "%s: %s\n  see: %s%s%s --help\n", program, text, program,
            verb[0] == '\0' ? "" : " ", verb);
}
