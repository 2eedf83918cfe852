/* Completion of zsh: words with what they are. See completion.h. */
#include <string.h>

#include "src/cli/completion/completion.h"

/* In single quotes a quote ends them; a colon ends the word of _describe. */
static void print_item(FILE *stream, const char *dashes, const char *word, size_t length,
                       const char *help)
{
    fprintf(stream, " '%s%.*s:", dashes, (int)length, word);
    for (const char *at = help; *at != '\0'; at++)
        fprintf(stream, *at == '\'' ? "'\\''" : "%c", *at);
    fprintf(stream, "'");
}

static const struct completion_choice choice = {"        ", "compadd -- ", "; return"};

static void print_option(FILE *stream, const struct option_spec *spec)
{
    print_item(stream, "--", spec->name, strlen(spec->name), spec->help);
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
    completion_choices(stream, command, &choice);
    fprintf(stream, "        esac\n        if [[ $word == -* ]]; then list=(");
    completion_options(stream, command, print_option);
    fprintf(stream, "); _describe -o option list; return; fi\n");
    print_argument(stream, command);
    fprintf(stream, "        ;;\n");
}

static void print_second(FILE *stream, const struct command *command, const char *word,
                         size_t length)
{
    fprintf(stream, "    [[ \"$one $two\" == '%.*s' ]] && list+=(", (int)(word - command->name),
            command->name);
    print_item(stream, "", word, length, command->help);
    fprintf(stream, " )\n");
}

static void print_first(FILE *stream, const struct command *command, const char *word,
                        size_t length)
{
    print_item(stream, "", word, length, command->help);
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
    completion_two_words(stream, table, '\'');
    fprintf(stream, "    esac\n    [[ $word == -* ]] || {\n");
    completion_second_words(stream, table, print_second);
    fprintf(stream, "    (( ${#list} )) && _describe command list\n    }\n    case \"$command\" "
                    "in\n    '')\n        case \"$previous\" in\n");
    completion_choices(stream, NULL, &choice);
    fprintf(stream, "        esac\n        if [[ $word == -* ]]; then list=(");
    completion_options(stream, NULL, print_option);
    fprintf(stream, "); _describe -o option list\n        else list=(");
    completion_first_words(stream, table, print_first);
    fprintf(stream, "); _describe command list; fi\n        ;;\n");
    for (const struct command *c = table; c->name != NULL; c++)
        print_case(stream, c);
    fprintf(stream, "    esac\n}\n"
                    "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _ckptctl \"$@\"\n"
                    "else compdef _ckptctl ckptctl; fi\n");
}
