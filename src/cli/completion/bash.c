/* Completion of bash: words for compgen. See completion.h. */
#include "src/cli/completion/completion.h"

static const struct completion_choice choice = {"            ", "words=\"", "\""};

static void print_option(FILE *stream, const struct option_spec *spec)
{
    fprintf(stream, " --%s", spec->name);
}

static void print_first(FILE *stream, const struct command *command, const char *word,
                        size_t length)
{
    (void)command;
    fprintf(stream, " %.*s", (int)length, word);
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

static void print_case(FILE *stream, const struct command *command)
{
    fprintf(stream, "    \"%s\")\n        case \"$previous\" in\n", command->name);
    completion_choices(stream, command, &choice);
    fprintf(stream, "            *) case \"$word\" in\n                -*) words=\"");
    completion_options(stream, command, print_option);
    fprintf(stream, "\" ;;\n                *) words=\"$words ");
    print_argument(stream, command);
    fprintf(stream, "\" ;;\n            esac ;;\n        esac ;;\n");
}

/* Second words are offered while the second one is typed, beside arguments of the first. */
static void print_second(FILE *stream, const struct command *command, const char *word,
                         size_t length)
{
    fprintf(stream, "    \"%.*s\") words=\"$words %.*s\" ;;&\n", (int)(word - command->name),
            command->name, (int)length, word);
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
    completion_two_words(stream, table, '"');
    fprintf(stream, "    esac\n    case \"$one $two\" in\n");
    completion_second_words(stream, table, print_second);
    fprintf(stream, "    esac\n    case \"$command\" in\n"
                    "    \"\")\n        case \"$previous\" in\n");
    completion_choices(stream, NULL, &choice);
    fprintf(stream, "            *) words=\"");
    completion_first_words(stream, table, print_first);
    completion_options(stream, NULL, print_option);
    fprintf(stream, "\" ;;\n        esac ;;\n");
    for (const struct command *c = table; c->name != NULL; c++)
        print_case(stream, c);
    fprintf(stream, "    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n"
                    "complete -F _ckptctl ckptctl\n");
}
