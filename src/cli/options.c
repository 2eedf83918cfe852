/* Words of the command line -> struct cli. */
#include "src/cli/options.h"
#include "fsm/names.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/text.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/option_tables.h"
#include "src/cli/other_words.h"
#include "src/client/client.h"
#include "src/tls/watch.h"

static enum cli_exit unknown_option(struct cli *cli, const char *word)
{
    struct option_tables tables = option_tables_of(cli->command);
    const char *dashless = word + strspn(word, "-");
    const char *near = text_nearest(dashless, option_tables_name, &tables);
    char shown[HUMAN_BYTES], next[128];

    human_safe(word, shown, sizeof(shown));
    if (near != NULL) {
        snprintf(next, sizeof(next), "--%s", near);
    } else if (cli->command != NULL && cli->command->run == command_try) {
        snprintf(next, sizeof(next),
                 "ckpt-run try, which takes --ask-signal and all else that "
                 "ckpt-run takes");
    } else {
        snprintf(next, sizeof(next), "ckptctl help%s%s", cli->command == NULL ? "" : " ",
                 cli->command == NULL ? "" : cli->command->name);
    }
    return cli_fail(cli, CLI_USAGE, next, "unknown option %s", shown);
}

static int choose_word(const char *const *words, const char *text, struct option_value *value)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            value->number = i;
            return 0;
        }
    }
    return -1;
}

static enum cli_exit set_choice(struct cli *cli, const struct option_spec *spec, const char *text,
                                struct option_value *value)
{
    char shown[HUMAN_BYTES], known[512];
    int number;

    if (spec->words != NULL && choose_word(spec->words, text, value) == 0)
        return CLI_OK;
    if (spec->choices != NULL && fsm_enum_parse(spec->choices, text, &number)) {
        value->number = (uint64_t)number;
        return CLI_OK;
    }
    human_safe(text, shown, sizeof(shown));
    option_tables_choices(spec, known, sizeof(known));
    return cli_fail(cli, CLI_USAGE, NULL, "--%s: \"%s\" is not one of %s", spec->name, shown,
                    known);
}

/* Splits at commas in place of argv: the words stay the caller's. Empty words are refused. */
static enum cli_exit add_items(struct cli *cli, const struct option_spec *spec, char *text,
                               struct option_value *value)
{
    char *rest = text;
    char *item;

    while ((item = strsep(&rest, ",")) != NULL) {
        if (*item == '\0')
            return cli_fail(cli, CLI_USAGE, NULL, "--%s: an item is empty", spec->name);
        value->items = check_realloc(value->items, value->item_count + 1, sizeof(*value->items));
        value->items[value->item_count++] = item;
    }
    return CLI_OK;
}

static enum cli_exit set_value(struct cli *cli, const struct option_spec *spec, char *text,
                               struct option_value *value)
{
    struct err err;

    if (value->set && spec->kind != OPTION_LIST && spec->kind != OPTION_FLAG)
        return cli_fail(cli, CLI_USAGE, NULL, "--%s is given twice", spec->name);
    value->set = true;
    value->text = text;
    switch (spec->kind) {
    case OPTION_FLAG:
        return CLI_OK;
    case OPTION_TEXT:
        return *text != '\0'
                   ? CLI_OK
                   : cli_fail(cli, CLI_USAGE, NULL, "--%s: the value is empty", spec->name);
    case OPTION_NUMBER:
        return number_parse(spec->number, text, spec->range, &value->number, &err) == 0
                   ? CLI_OK
                   : cli_fail(cli, CLI_USAGE, NULL, "--%s: %s", spec->name, err.text);
    case OPTION_CHOICE:
        return set_choice(cli, spec, text, value);
    case OPTION_LIST:
        return add_items(cli, spec, text, value);
    }
    CHECK_UNREACHABLE("option kind");
}

/* One option at argv[*i]; *i moves onto its value when that is a word of its own. */
static enum cli_exit parse_option(struct cli *cli, int argc, char **argv, int *i)
{
    char *word = argv[*i];
    bool is_long = word[1] == '-';
    char *equals = is_long ? strchr(word, '=') : NULL;
    char *attached = equals != NULL ? equals + 1 : NULL;
    const struct option_spec *spec;
    size_t table, position;

    if (is_long) {
        size_t length = equals != NULL ? (size_t)(equals - word - 2) : strlen(word + 2);
        spec = option_tables_find(cli->command, word + 2, length, 0, &table, &position);
    } else {
        spec = option_tables_find(cli->command, NULL, 0, word[1], &table, &position);
        attached = word[2] != '\0' ? word + 2 : NULL;
    }
    if (spec == NULL || (spec->kind == OPTION_FLAG && attached != NULL))
        return unknown_option(cli, word);
    if (spec->kind != OPTION_FLAG && attached == NULL) {
        if (*i + 1 >= argc) {
            return cli_fail(cli, CLI_USAGE, NULL, "--%s needs a value: %s", spec->name,
                            spec->value);
        }
        attached = argv[++*i];
    }
    return set_value(cli, spec, attached, &cli->values[table][position]);
}

static const char *next_command(const void *context, size_t i)
{
    (void)context;
    return commands[i].name;
}

/* First words of two-word commands ("policy") list what they hold. */
static enum cli_exit unknown_command(struct cli *cli, const char *const words[2])
{
    char shown[HUMAN_BYTES], next[256] = "ckptctl help", joined[64];
    const char *near, *line = other_words_line(words);
    size_t used = 0;

    human_safe(words[0], shown, sizeof(shown));
    if (line != NULL)
        return cli_fail(cli, CLI_USAGE, line, "unknown command \"%s\"", shown);
    for (const struct command *c = commands; c->name != NULL; c++) {
        if (command_is_of(c, words[0])) {
            used += (size_t)snprintf(next + used, sizeof(next) - used, "%sckptctl %s",
                                     used == 0 ? "" : "   or: ", c->name);
        }
    }
    if (used != 0)
        return cli_fail(cli, CLI_USAGE, next, "%s needs a second word", shown);
    near = text_nearest(words[0], next_command, NULL);
    if (near == NULL && words[1] != NULL &&
        strlen(words[0]) + strlen(words[1]) < sizeof(joined) - 2) {
        snprintf(joined, sizeof(joined), "%.30s %.30s", words[0], words[1]);
        near = text_nearest(joined, next_command, NULL);
    }
    if (near != NULL)
        snprintf(next, sizeof(next), "ckptctl %s", near);
    return cli_fail(cli, CLI_USAGE, next, "unknown command \"%s\"", shown);
}

static enum cli_exit take_word(struct cli *cli, int argc, char **argv, int *i)
{
    const char *words[2] = {argv[*i], *i + 1 < argc ? argv[*i + 1] : NULL};
    size_t taken;

    if (cli->command == NULL && cli->group == NULL && command_is_group(words[0]) &&
        (words[1] == NULL || words[1][0] == '-')) {
        cli->group = words[0];
        return CLI_OK;
    }
    if (cli->command == NULL) {
        if (cli->group != NULL) {
            words[1] = words[0];
            words[0] = cli->group;
        }
        cli->command = command_find(words, &taken);
        if (cli->command == NULL)
            return unknown_command(cli, words);
        *i += cli->group != NULL ? 0 : (int)taken - 1;
        return CLI_OK;
    }
    if (cli->argument_count == CLI_ARGUMENTS_MAX)
        return cli_fail(cli, CLI_USAGE, NULL, "more than %d arguments", CLI_ARGUMENTS_MAX);
    cli->arguments[cli->argument_count++] = argv[*i];
    return CLI_OK;
}

static enum cli_exit apply_tls(struct cli *cli)
{
    struct err err;

    if (cli->owner != NULL) /* the agent's socket */
        return CLI_OK;
    const struct tls_files given = {
        .ca = cli_text(cli, "ca"), .cert = cli_text(cli, "cert"), .key = cli_text(cli, "key")};

    if (cli->command->kind == COMMAND_LOCAL || client_tls(&given, &cli->tls, &err) == 0)
        return CLI_OK;
    if (err.code == ERR_EMPTY)
        return cli_fail(cli, CLI_USAGE,
                        "--ca, --cert and --key, or CKPT_CA, CKPT_CERT and CKPT_KEY", "%s",
                        err.text);
    return cli_fail(cli, CLI_AUTH, "ckptctl tls show FILE", "%s", err.text);
}

/* What changes something or writes a file is asked once, and what stays on this machine does not
 * change by being looked at. */
static enum cli_exit apply_watch(struct cli *cli)
{
    cli->repeat_ms = 0;
    if (cli->owner != NULL)
        return CLI_OK;
    if (!cli_flag(cli, "watch"))
        return cli_option(cli, "every")->set
                   ? cli_fail(cli, CLI_USAGE, "--watch --every 5s", "--every goes with --watch")
                   : CLI_OK;
    if (cli->command->kind != COMMAND_READS)
        return cli_fail(cli, CLI_USAGE, NULL, "--watch goes with commands that read, not with %s",
                        cli->command->name);
    cli->repeat_ms = cli_number(cli, "every", 2000);
    return CLI_OK;
}

static enum cli_exit apply_globals(struct cli *cli)
{
    const char *from_environment = getenv("CKPT_ENDPOINTS");
    const char *request_id;
    struct err err = {0};

    cli->endpoints = cli_text(cli, cli->owner != NULL ? "socket" : "endpoints");
    if (cli->endpoints == NULL && cli->owner == NULL) {
        cli->endpoints = from_environment != NULL && *from_environment != '\0' ? from_environment
                                                                               : "127.0.0.1:7443";
    }
    cli->format = (enum output_format)cli_number(cli, "output", OUTPUT_TABLE);
    cli->headers = !cli_flag(cli, "no-headers");
    cli->quiet = cli_flag(cli, "quiet");
    cli->timeout_set = cli_option(cli, "timeout")->set;
    cli->timeout_ms = cli_number(cli, "timeout", 5000);
    if (cli->command->kind == COMMAND_CHANGES) {
        request_id = cli_text(cli, "request-id");
        if (request_id == NULL)
            return CLI_OK;
        if (id_check("--request-id", request_id, &err) != 0)
            return cli_fail(cli, CLI_USAGE, NULL, "%s", err.text);
        snprintf(cli->request_id, sizeof(cli->request_id), "%s", request_id);
    }
    return CLI_OK;
}

static enum cli_exit check_arguments(struct cli *cli)
{
    const struct command *command = cli->command;
    char next[128];

    snprintf(next, sizeof(next), "ckptctl help %.100s", command->name);
    if (cli->argument_count < command->arguments_min)
        return cli_fail(cli, CLI_USAGE, next, "%s needs %s", command->name, command->arguments);
    if (cli->argument_count > command->arguments_max) {
        char shown[HUMAN_BYTES];

        human_safe(cli->arguments[command->arguments_max], shown, sizeof(shown));
        return cli_fail(cli, CLI_USAGE, next, "%s takes no further argument: \"%s\"", command->name,
                        shown);
    }
    return CLI_OK;
}

enum cli_exit options_parse(struct cli *cli, int argc, char **argv)
{
    enum cli_exit code = CLI_OK;
    bool only_words = false;

    for (int i = 1; i < argc && code == CLI_OK; i++) {
        bool is_option = !only_words && argv[i][0] == '-' && argv[i][1] != '\0';

        if (is_option && strcmp(argv[i], "--") == 0)
            only_words = true;
        else if (is_option)
            code = parse_option(cli, argc, argv, &i);
        else
            code = take_word(cli, argc, argv, &i);
    }
    if (code != CLI_OK || cli_flag(cli, "help"))
        return code;
    if (cli->command == NULL && cli->group != NULL)
        return unknown_command(cli, (const char *const[]){cli->group, NULL});
    if (cli->command == NULL && cli_flag(cli, "version"))
        cli->command = command_find((const char *const[]){"version", NULL}, &(size_t){0});
    if (cli->command == NULL) {
        help_print(cli->error, NULL, NULL);
        return CLI_USAGE;
    }
    code = apply_globals(cli);
    if (code == CLI_OK)
        code = apply_watch(cli);
    if (code == CLI_OK)
        code = check_arguments(cli);
    return code == CLI_OK ? apply_tls(cli) : code;
}

void options_close(struct cli *cli)
{
    tls_context_free(cli->tls);
    cli->tls = NULL;
    for (size_t t = 0; t < OPTION_TABLES; t++)
        for (size_t i = 0; i < CLI_OPTIONS_MAX; i++)
            free(cli->values[t][i].items);
}
