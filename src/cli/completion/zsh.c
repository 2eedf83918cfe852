/* Completion of zsh: words with what they are. See completion.h. */
#include <string.h>

#include "src/cli/completion/completion.h"
#include "src/cli/option_tables.h"

/* In single quotes a quote ends them; a colon ends the word of _describe. */
static void print_item(FILE *stream, const char *dashes, const char *word, size_t length,
                       const char *help)
{
    fprintf(stream, " '%s%.*s:", dashes, (int)length, word);
    for (const char *at = help; *at != '\0'; at++)
        fprintf(stream, *at == '\'' ? "'\\''" : "%c", *at);
    fprintf(stream, "'");
}

static void print_option_items(FILE *stream, const struct option_spec *specs)
{
    for (; specs != NULL && specs->name != NULL; specs++)
        print_item(stream, "--", specs->name, strlen(specs->name), specs->help);
}

static void print_choices(FILE *stream, const struct option_spec *specs)
{
    for (; specs != NULL && specs->name != NULL; specs++) {
        if (!completion_has_words(specs))
            continue;
        fprintf(stream, "        --%s", specs->name);
        if (specs->letter != 0)
            fprintf(stream, "|-%c", specs->letter);
        fprintf(stream, ") compadd -- ");
        completion_print_words(stream, specs);
        fprintf(stream, "; return ;;\n");
    }
}

static void print_argument(FILE *stream, const struct command *command)
{
    const char *plural = NULL;

    switch (completion_argument(command, &plural)) {
    case COMPLETION_NOTHING:
        return;
    case COMPLETION_FILES:
        fprintf(stream, "        _files\n");
        return;
    case COMPLETION_SHELLS:
        fprintf(stream, "        compadd -- %s\n", completion_shells());
        return;
    case COMPLETION_IDS:
        fprintf(stream, "        compadd -- ${(f)\"$(ckptctl %s -o name -q 2>/dev/null)\"}\n",
                plural);
        return;
    }
}

static void print_case(FILE *stream, const struct command *command)
{
    fprintf(stream, "    '%s')\n        case \"$previous\" in\n", command->name);
    print_choices(stream, command->options);
    print_choices(stream, global_options);
    fprintf(stream, "        esac\n        if [[ $word == -* ]]; then list=(");
    print_option_items(stream, command->options);
    print_option_items(stream, command->kind == COMMAND_CHANGES ? mutation_options : NULL);
    print_option_items(stream, global_options);
    fprintf(stream, "); _describe -o option list; return; fi\n");
    print_argument(stream, command);
    fprintf(stream, "        ;;\n");
}

static void print_second_words(FILE *stream, const struct command *table)
{
    for (const struct command *c = table; c->name != NULL; c++) {
        const char *space = strchr(c->name, ' ');

        if (space == NULL)
            continue;
        fprintf(stream, "    [[ \"$one $two\" == '%.*s ' ]] && list+=(", (int)(space - c->name),
                c->name);
        print_item(stream, "", space + 1, strlen(space + 1), c->help);
        fprintf(stream, " )\n");
    }
    fprintf(stream, "    (( ${#list} )) && _describe command list\n");
}

static void print_first_words(FILE *stream, const struct command *table)
{
    int length;

    for (const struct command *c = table; c->name != NULL; c++)
        if (completion_first_word(table, c, &length))
            print_item(stream, "", c->name, (size_t)length, c->help);
}

void completion_print_zsh(FILE *stream, const struct command *table)
{
    fprintf(stream, "#compdef ckptctl\n# zsh completion of ckptctl %s\n_ckptctl() {\n",
            CKPT_VERSION);
    fprintf(stream, "    local one=\"\" two=\"\" command i\n    local -a list\n"
                    "    local word=\"${words[CURRENT]}\" previous=\"${words[CURRENT-1]}\"\n"
                    "    for ((i = 2; i < CURRENT; i++)); do\n"
                    "        case \"${words[i]}\" in\n        ");
    completion_print_valued(stream, "|");
    fprintf(stream, ") ((i++)); continue ;;\n        -*) continue ;;\n        esac\n"
                    "        if [[ -z $one ]]; then one=\"${words[i]}\"\n"
                    "        elif [[ -z $two ]]; then two=\"${words[i]}\"; fi\n"
                    "    done\n    command=\"$one\"\n    case \"$one $two\" in\n");
    for (const struct command *c = table; c->name != NULL; c++)
        if (strchr(c->name, ' ') != NULL)
            fprintf(stream, "    '%s') command='%s' ;;\n", c->name, c->name);
    fprintf(stream, "    esac\n    [[ $word == -* ]] || {\n");
    print_second_words(stream, table);
    fprintf(stream, "    }\n    case \"$command\" in\n    '')\n        case \"$previous\" in\n");
    print_choices(stream, global_options);
    fprintf(stream, "        esac\n        if [[ $word == -* ]]; then list=(");
    print_option_items(stream, global_options);
    fprintf(stream, "); _describe -o option list\n        else list=(");
    print_first_words(stream, table);
    fprintf(stream, "); _describe command list; fi\n        ;;\n");
    for (const struct command *c = table; c->name != NULL; c++)
        print_case(stream, c);
    fprintf(stream, "    esac\n}\n"
                    "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _ckptctl \"$@\"\n"
                    "else compdef _ckptctl ckptctl; fi\n");
}
