/* Help and completion, written from the table of commands. */
#include <string.h>

#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/option_tables.h"

enum { LEFT_BYTES = 38, LINE_BYTES = 100 };

/* Behind the option, broken at blanks. */
static void print_wrapped(FILE *stream, const char *text)
{
    const size_t room = LINE_BYTES - LEFT_BYTES - 3;

    while (strlen(text) > room) {
        size_t length = room;

        while (length > 0 && text[length] != ' ')
            length--;
        if (length == 0)
            break;
        fprintf(stream, "%.*s\n%*s", (int)length, text, LEFT_BYTES + 3, "");
        text += length + 1;
    }
    fprintf(stream, "%s\n", text);
}

static void print_option(FILE *stream, const struct option_spec *spec)
{
    char left[80];
    char letter[8] = "";

    if (spec->letter != 0)
        snprintf(letter, sizeof(letter), "-%c, ", spec->letter);
    snprintf(left, sizeof(left), "%s--%s%s%s", letter, spec->name, spec->value != NULL ? " " : "",
             spec->value != NULL ? spec->value : "");
    fprintf(stream, "  %-*s ", LEFT_BYTES, left);
    if (strlen(left) > LEFT_BYTES)
        fprintf(stream, "\n%*s", LEFT_BYTES + 3, "");
    print_wrapped(stream, spec->help);
}

static void print_options(FILE *stream, const char *title, const struct option_spec *specs)
{
    if (specs == NULL || specs[0].name == NULL)
        return;
    fprintf(stream, "\n%s:\n", title);
    for (; specs->name != NULL; specs++)
        print_option(stream, specs);
}

static void print_command(FILE *stream, const struct command *command)
{
    const bool owner = option_tables_of(command).specs[0] != global_options;

    fprintf(stream, "usage: %s %s%s%s [options]\n\n%s\n", owner ? "ckpt-run" : "ckptctl",
            command->name, command->arguments[0] != '\0' ? " " : "", command->arguments,
            command->help);
    print_options(stream, "options", command->options);
    if (command->kind == COMMAND_CHANGES)
        print_options(stream, "options of every change", mutation_options);
    print_options(stream, owner ? "options of every verb" : "global options",
                  option_tables_of(command).specs[0]);
    if (owner)
        fputs("\nThe exit code is 0, 1 when the awaited checkpoint failed, 3 when no such job or\n"
              "checkpoint is yours, 4 when it was refused, 6 when no answer came and it may have\n"
              "taken effect, 125 when the words are wrong, or the agent or a leader cannot be "
              "asked.\n",
              stream);
}

void help_print(FILE *stream, const struct command *command, const char *group)
{
    if (command != NULL) {
        print_command(stream, command);
        return;
    }
    fprintf(stream, "usage: ckptctl [options] %s [arguments]\n\ncommands:\n",
            group == NULL ? "COMMAND" : group);
    for (const struct command *c = commands; c->name != NULL; c++) {
        char left[64];

        if (group != NULL && !command_is_of(c, group))
            continue;
        snprintf(left, sizeof(left), "%s %s", c->name, c->arguments);
        fprintf(stream, "  %-26s %s\n", left, c->help);
    }
    print_options(stream, "options", global_options);
    fprintf(
        stream,
        "\nexit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 refused, 5 no leader or quorum,\n"
        "  6 timeout (outcome unknown; repeat with the request id), 7 not allowed, 8 partial\n");
}

enum cli_exit command_help(struct cli *cli)
{
    const char *words[2] = {cli_argument(cli, 0), cli_argument(cli, 1)};
    const struct command *command = NULL;
    size_t taken;

    if (words[0] != NULL) {
        command = command_find(words, &taken);
        if (command == NULL && (words[1] != NULL || !command_is_group(words[0]))) {
            char shown[HUMAN_BYTES];

            return cli_fail(cli, CLI_USAGE, "ckptctl help", "unknown command \"%s\"",
                            human_safe(words[0], shown, sizeof(shown)));
        }
    }
    help_print(cli->out, command, words[0]);
    return CLI_OK;
}

static void print_option_words(FILE *stream, const struct option_spec *specs)
{
    for (; specs != NULL && specs->name != NULL; specs++)
        fprintf(stream, " --%s", specs->name);
}

/* First words, each once: two-word commands follow one another in the table. */
static void print_first_words(FILE *stream)
{
    for (const struct command *c = commands; c->name != NULL; c++) {
        int length = (int)strcspn(c->name, " ");

        if (c == commands || strncmp(c[-1].name, c->name, (size_t)length) != 0 ||
            c[-1].name[length] != ' ')
            fprintf(stream, " %.*s", length, c->name);
    }
}

/* What the shell offers for a positional argument, by the word that the help shows. */
static const char *argument_source(const struct command *command)
{
    if (strstr(command->arguments, "JOB") != NULL)
        return "$(ckptctl jobs -o name -q 2>/dev/null)";
    if (strstr(command->arguments, "CHECKPOINT") != NULL)
        return "$(ckptctl checkpoints -o name -q 2>/dev/null)";
    if (strstr(command->arguments, "NODE") != NULL)
        return "$(ckptctl nodes -o name -q 2>/dev/null)";
    return strstr(command->arguments, "bash") != NULL ? "bash" : "";
}

static void print_choices(FILE *stream, const struct option_spec *specs)
{
    char word[HUMAN_BYTES];

    for (; specs != NULL && specs->name != NULL; specs++) {
        if (specs->kind != OPTION_CHOICE)
            continue;
        fprintf(stream, "            --%s", specs->name);
        if (specs->letter != 0)
            fprintf(stream, "|-%c", specs->letter);
        fprintf(stream, ") words=\"");
        for (size_t i = 0; specs->words != NULL && specs->words[i] != NULL; i++)
            fprintf(stream, "%s ", specs->words[i]);
        for (unsigned i = 0; specs->choices != NULL && i < specs->choices->n_values; i++) {
            human_enum(specs->choices, specs->choices->values[i].value, word);
            fprintf(stream, "%s ", strcmp(word, "UNSPECIFIED") == 0 ? "" : word);
        }
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
    fprintf(stream,
            "\" ;;\n                *) words=\"%s\" ;;\n            esac ;;\n        esac ;;\n",
            argument_source(command));
}

static void print_second_words(FILE *stream)
{
    for (const struct command *c = commands; c->name != NULL; c++) {
        const char *space = strchr(c->name, ' ');

        if (space != NULL) {
            fprintf(stream, "    %.*s) words=\"$words %s\" ;;&\n", (int)(space - c->name), c->name,
                    space + 1);
        }
    }
}

enum cli_exit command_completion(struct cli *cli)
{
    if (strcmp(cli_argument(cli, 0), "bash") != 0)
        return cli_fail(cli, CLI_USAGE, "ckptctl completion bash", "only bash is supported");
    fprintf(cli->out, "# bash completion of ckptctl %s\n_ckptctl() {\n", CKPT_VERSION);
    fprintf(
        cli->out,
        "    local word=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
        "    local one=\"\" two=\"\" words=\"\" i\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        [[ ${COMP_WORDS[i]} == -* ]] && continue\n"
        "        if [[ -z $one ]]; then one=\"${COMP_WORDS[i]}\"\n"
        "        elif [[ -z $two ]]; then two=\"${COMP_WORDS[i]}\"; fi\n"
        "    done\n    local command=\"$one\"\n    case \"$one $two\" in\n");
    for (const struct command *c = commands; c->name != NULL; c++)
        if (strchr(c->name, ' ') != NULL)
            fprintf(cli->out, "    \"%s\") command=\"%s\" ;;\n", c->name, c->name);
    fprintf(cli->out, "    esac\n    case \"$command\" in\n    \"\") words=\"");
    print_first_words(cli->out);
    print_option_words(cli->out, global_options);
    fprintf(cli->out, "\" ;;\n");
    print_second_words(cli->out);
    for (const struct command *c = commands; c->name != NULL; c++)
        print_case(cli->out, c);
    fprintf(cli->out, "    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n"
                      "complete -F _ckptctl ckptctl\n");
    return CLI_OK;
}
