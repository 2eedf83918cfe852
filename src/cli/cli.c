/* What a command gets from its words, and how it says what went wrong. */
#include "src/cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/cli/human.h"
#include "src/cli/option_tables.h"

bool cli_option_exists(const struct cli *cli, const char *name)
{
    size_t table, position;

    return option_tables_find(cli->command, name, strlen(name), 0, &table, &position) != NULL;
}

const struct option_value *cli_option(const struct cli *cli, const char *name)
{
    size_t table, position;

    CHECK(option_tables_find(cli->command, name, strlen(name), 0, &table, &position) != NULL);
    return &cli->values[table][position];
}

bool cli_flag(const struct cli *cli, const char *name)
{
    return cli_option(cli, name)->set;
}

uint64_t cli_number(const struct cli *cli, const char *name, uint64_t otherwise)
{
    const struct option_value *value = cli_option(cli, name);

    return value->set ? value->number : otherwise;
}

char *cli_text(const struct cli *cli, const char *name)
{
    const struct option_value *value = cli_option(cli, name);

    return value->set ? value->text : NULL;
}

void cli_set_text(const struct cli *cli, const char *name, char **field)
{
    char *text = cli_text(cli, name);

    if (text != NULL)
        *field = text;
}

char *cli_argument(const struct cli *cli, size_t i)
{
    return i < cli->argument_count ? cli->arguments[i] : NULL;
}

bool cli_is_json(const struct cli *cli)
{
    return cli->format == OUTPUT_JSON || cli->format == OUTPUT_JSONL || cli->format == OUTPUT_YAML;
}

/* A line on stderr, in the words of who reads it. */
static void cli_print(struct cli *cli, const char *text)
{
    if (cli->owner != NULL)
        cli->owner(cli->error, text);
    else
        fputs(text, cli->error);
    fputc('\n', cli->error);
}

enum cli_exit cli_fail(struct cli *cli, enum cli_exit code, const char *next, const char *format,
                       ...)
{
    char text[2048], safe[2048], help[128];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fflush(cli->out);
    fputs(cli->owner != NULL ? "ckpt-run: " : "error: ", cli->error);
    cli_print(cli, human_safe(text, safe, sizeof(safe)));
    if (next == NULL && code == CLI_USAGE) {
        snprintf(help, sizeof(help), "ckptctl help%s%s", cli->command == NULL ? "" : " ",
                 cli->command == NULL ? "" : cli->command->name);
        next = help;
    }
    if (next != NULL) {
        fputs("  try: ", cli->error);
        cli_print(cli, human_safe(next, safe, sizeof(safe)));
    }
    return code;
}

/* All but the ends of lines. */
static void text_disarm(char *text)
{
    for (; *text != '\0'; text++)
        if (((unsigned char)*text < 0x20 && *text != '\n') || *text == 0x7f)
            *text = '?';
}

void cli_out(const struct cli *cli, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;

    va_start(arguments, format);
    CHECK(vasprintf(&text, format, arguments) >= 0);
    va_end(arguments);
    text_disarm(text);
    fputs(text, cli->out);
    free(text);
}

void cli_note(struct cli *cli, const char *format, ...)
{
    va_list arguments;
    char text[2048];

    if (cli->quiet)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    text_disarm(text);
    cli_print(cli, text);
}
