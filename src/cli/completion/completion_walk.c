/* The walks through the tables that shells share whose scripts are case statements. See
 * completion.h. */
#include <string.h>

#include "src/cli/completion/completion.h"
#include "src/cli/option_tables.h"

void completion_each_option(FILE *stream, const struct option_spec *specs,
                            completion_option_fn *print)
{
    for (; specs != NULL && specs->name != NULL; specs++)
        print(stream, specs);
}

void completion_options(FILE *stream, const struct command *command, completion_option_fn *print)
{
    if (command != NULL) {
        completion_each_option(stream, command->options, print);
        completion_each_option(stream, command->kind == COMMAND_CHANGES ? mutation_options : NULL,
                               print);
    }
    completion_each_option(stream, global_options, print);
}

static void print_choices_of(FILE *stream, const struct option_spec *specs,
                             const struct completion_choice *choice)
{
    for (; specs != NULL && specs->name != NULL; specs++) {
        if (!completion_has_words(specs))
            continue;
        fprintf(stream, "%s--%s", choice->indent, specs->name);
        if (specs->letter != 0)
            fprintf(stream, "|-%c", specs->letter);
        fprintf(stream, ") %s", choice->before);
        completion_print_words(stream, specs);
        fprintf(stream, "%s ;;\n", choice->behind);
    }
}

void completion_choices(FILE *stream, const struct command *command,
                        const struct completion_choice *choice)
{
    if (command != NULL)
        print_choices_of(stream, command->options, choice);
    print_choices_of(stream, global_options, choice);
}

void completion_first_words(FILE *stream, const struct command *table, completion_word_fn *print)
{
    int length;

    for (const struct command *c = table; c->name != NULL; c++)
        if (completion_first_word(table, c, &length))
            print(stream, c, c->name, (size_t)length);
}

void completion_second_words(FILE *stream, const struct command *table, completion_word_fn *print)
{
    for (const struct command *c = table; c->name != NULL; c++) {
        const char *space = strchr(c->name, ' ');

        if (space != NULL)
            print(stream, c, space + 1, strlen(space + 1));
    }
}

void completion_two_words(FILE *stream, const struct command *table, char quote)
{
    for (const struct command *c = table; c->name != NULL; c++)
        if (strchr(c->name, ' ') != NULL)
            fprintf(stream, "    %c%s%c) command=%c%s%c ;;\n", quote, c->name, quote, quote,
                    c->name, quote);
}
