/* Completion of bash: words for compgen. See completion.h. */
#include <string.h>

#include "src/cli/completion/completion.h"
#include "src/cli/option_tables.h"

static void print_option_words(FILE *stream, const struct option_spec *specs)
{
    for (; specs != NULL && specs->name != NULL; specs++)
        fprintf(stream, " --%s", specs->name);
}

static void print_first_words(FILE *stream, const struct command *table)
{
    int length;

    for (const struct command *c = table; c->name != NULL; c++)
        if (completion_first_word(table, c, &length))
            fprintf(stream, " %.*s", length, c->name);
}

static void print_argument(FILE *stream, const struct command *command)
{
    const char *plural = NULL;

    switch (completion_argument(command, &plural)) {
    case COMPLETION_NOTHING:
        return;
    case COMPLETION_FILES:
        fprintf(stream, "$(compgen -f -- \"$word\")");
        return;
    case COMPLETION_SHELLS:
        fprintf(stream, "%s", completion_shells());
        return;
    case COMPLETION_IDS:
        fprintf(stream, "$(ckptctl %s -o name -q 2>/dev/null)", plural);
        return;
    }
}

static void print_choices(FILE *stream, const struct option_spec *specs)
{
    for (; specs != NULL && specs->name != NULL; specs++) {
        if (!completion_has_words(specs))
            continue;
        fprintf(stream, "            --%s", specs->name);
        if (specs->letter != 0)
            fprintf(stream, "|-%c", specs->letter);
        fprintf(stream, ") words=\"");
        completion_print_words(stream, specs);
        fprintf(stream, "\" ;;\n");
    }
}

static void print_case(FILE *stream, const struct command *command)
{
    fprintf(stream, "    \"%s\")\n        case \"$previous\" in\n", command->name);
    print_choices(stream, command->options);
    print_choices(stream, global_options);
    fprintf(stream, "            *) case \"$word\" in\n                -*) words=\"");
    print_option_words(stream, command->options);
    print_option_words(stream, command->kind == COMMAND_CHANGES ? mutation_options : NULL);
    print_option_words(stream, global_options);
    fprintf(stream, "\" ;;\n                *) words=\"$words ");
    print_argument(stream, command);
    fprintf(stream, "\" ;;\n            esac ;;\n        esac ;;\n");
}

/* The second words are offered while the second one is typed, beside arguments of the first. */
static void print_second_words(FILE *stream, const struct command *table)
{
    for (const struct command *c = table; c->name != NULL; c++) {
        const char *space = strchr(c->name, ' ');

        if (space != NULL)
            fprintf(stream, "    \"%.*s \") words=\"$words %s\" ;;&\n", (int)(space - c->name),
                    c->name, space + 1);
    }
}

void completion_print_bash(FILE *stream, const struct command *table)
{
    fprintf(stream, "# bash completion of ckptctl %s\n_ckptctl() {\n", CKPT_VERSION);
    fprintf(stream, "    local word=\"${COMP_WORDS[COMP_CWORD]}\"\n"
                    "    local previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
                    "    local one=\"\" two=\"\" words=\"\" i\n"
                    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                    "        case \"${COMP_WORDS[i]}\" in\n        ");
    completion_print_valued(stream, "|");
    fprintf(stream, ") ((i++)); continue ;;\n        -*) continue ;;\n        esac\n"
                    "        if [[ -z $one ]]; then one=\"${COMP_WORDS[i]}\"\n"
                    "        elif [[ -z $two ]]; then two=\"${COMP_WORDS[i]}\"; fi\n"
                    "    done\n    local command=\"$one\"\n    case \"$one $two\" in\n");
    for (const struct command *c = table; c->name != NULL; c++)
        if (strchr(c->name, ' ') != NULL)
            fprintf(stream, "    \"%s\") command=\"%s\" ;;\n", c->name, c->name);
    fprintf(stream, "    esac\n    case \"$one $two\" in\n");
    print_second_words(stream, table);
    fprintf(stream, "    esac\n    case \"$command\" in\n"
                    "    \"\")\n        case \"$previous\" in\n");
    print_choices(stream, global_options);
    fprintf(stream, "            *) words=\"");
    print_first_words(stream, table);
    print_option_words(stream, global_options);
    fprintf(stream, "\" ;;\n        esac ;;\n");
    for (const struct command *c = table; c->name != NULL; c++)
        print_case(stream, c);
    fprintf(stream, "    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n"
                    "complete -F _ckptctl ckptctl\n");
}
