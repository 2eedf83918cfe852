/* Help, and the choice of a completion script; both are written from the table of commands. */
#include <string.h>

#include "src/cli/commands.h"
#include "src/cli/completion/completion.h"
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

    if (cli->format == OUTPUT_NAME && words[0] == NULL) {
        for (const struct command *c = commands; c->name != NULL; c++)
            cli_out(cli, "%s\n", c->name);
        return CLI_OK;
    }
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

enum cli_exit command_completion(struct cli *cli)
{
    const char *shell = cli_argument(cli, 0);
    char shown[HUMAN_BYTES];

    if (completion_print(cli->out, shell, commands))
        return CLI_OK;
    return cli_fail(cli, CLI_USAGE, "ckptctl completion bash", "\"%s\" is not one of %s",
                    human_safe(shell, shown, sizeof(shown)), completion_shells());
}
