/* Completion of fish: one line per word, with the condition under which it is offered. See
 * completion.h. */
#include <string.h>

#include "src/cli/completion/completion.h"
#include "src/cli/option_tables.h"

/* The beginning of a line for what belongs to a command; NULL: to all. */
static void print_line(FILE *stream, const char *command)
{
    fprintf(stream, "complete -c ckptctl");
    if (command != NULL)
        fprintf(stream, " -n '__ckptctl_is \"%s\"'", command);
}

static void print_help(FILE *stream, const char *help)
{
    fprintf(stream, " -d '");
    completion_print_escaped(stream, help, "'\\");
    fprintf(stream, "'\n");
}

static void print_options(FILE *stream, const char *command, const struct option_spec *specs)
{
    for (; specs != NULL && specs->name != NULL; specs++) {
        print_line(stream, command);
        fprintf(stream, " -l %s", specs->name);
        if (specs->letter != 0)
            fprintf(stream, " -s %c", specs->letter);
        if (completion_has_words(specs)) {
            fprintf(stream, " -x -a '");
            completion_print_words(stream, specs);
            fprintf(stream, "'");
        } else if (specs->kind != OPTION_FLAG) {
            fprintf(stream, strstr(specs->value, "FILE") != NULL || strcmp(specs->value, "DIR") == 0
                                ? " -r -F"
                                : " -x");
        }
        print_help(stream, specs->help);
    }
}

static void print_argument(FILE *stream, const struct command *command)
{
    const char *plural = NULL;
    const enum completion_argument kind = completion_argument(command, &plural);

    if (kind == COMPLETION_NOTHING)
        return;
    print_line(stream, command->name);
    if (kind == COMPLETION_FILES)
        fprintf(stream, " -F\n");
    else if (kind == COMPLETION_SHELLS)
        fprintf(stream, " -a '%s'\n", completion_shells());
    else
        fprintf(stream, " -a '(ckptctl %s -o name -q 2>/dev/null)'\n", plural);
}

static void print_functions(FILE *stream, const struct command *table)
{
    fprintf(stream, "function __ckptctl_is\n    set -l names\n    set -l value 0\n"
                    "    for word in (commandline -opc)[2..-1]\n"
                    "        if test $value = 1\n            set value 0\n            continue\n"
                    "        end\n        switch $word\n            case ");
    completion_print_valued(stream, " ");
    fprintf(stream, "\n                set value 1\n            case '-*'\n            case '*'\n"
                    "                set -a names $word\n        end\n    end\n"
                    "    set -l command $names[1]\n    switch \"$names[1] $names[2]\"\n"
                    "        case");
    for (const struct command *c = table; c->name != NULL; c++)
        if (strchr(c->name, ' ') != NULL)
            fprintf(stream, " '%s'", c->name);
    fprintf(stream, "\n            set command \"$names[1] $names[2]\"\n    end\n"
                    "    test \"$command\" = \"$argv[1]\"\nend\n");
}

void completion_print_fish(FILE *stream, const struct command *table)
{
    int length;

    fprintf(stream, "# fish completion of ckptctl %s\n", CKPT_VERSION);
    print_functions(stream, table);
    fprintf(stream, "complete -c ckptctl -f\n");
    print_options(stream, NULL, global_options);
    for (const struct command *c = table; c->name != NULL; c++) {
        const char *space = strchr(c->name, ' ');

        if (completion_first_word(table, c, &length)) {
            print_line(stream, "");
            fprintf(stream, " -a %.*s", length, c->name);
            print_help(stream, c->help);
        }
        if (space != NULL) {
            fprintf(stream, "complete -c ckptctl -n '__ckptctl_is \"%.*s\"' -a %s",
                    (int)(space - c->name), c->name, space + 1);
            print_help(stream, c->help);
        }
        print_options(stream, c->name, c->options);
        if (c->kind == COMMAND_CHANGES)
            print_options(stream, c->name, mutation_options);
        print_argument(stream, c);
    }
}
