/* The tables of options. */
#include "src/cli/option_tables.h"

#include <string.h>

#include "src/base/check.h"
#include "src/cli/human.h"

const char *const option_format_words[] = {"table", "wide", "json", "jsonl", "yaml", "name", NULL};

const struct option_spec global_options[] = {
    {.name = "endpoints",
     .kind = OPTION_TEXT,
     .value = "HOST:PORT,...",
     .help = "members to ask (CKPT_ENDPOINTS; 127.0.0.1:7443)"},
    {.name = "ca",
     .kind = OPTION_TEXT,
     .value = "FILE",
     .help = "TLS: the CA of the members (CKPT_CA)"},
    {.name = "cert",
     .kind = OPTION_TEXT,
     .value = "FILE",
     .help = "TLS: own certificate, of an operator or scheduler (CKPT_CERT)"},
    {.name = "key",
     .kind = OPTION_TEXT,
     .value = "FILE",
     .help = "TLS: its key, readable by the owner only (CKPT_KEY)"},
    OPTION_ROWS_OF_OUTPUT,
    {.name = "timeout",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "for the whole request (5s; given, reads wait so long for a quorum)",
     .number = NUMBER_DURATION,
     .range = {10, 3600000}},
    {.name = "watch",
     .letter = 'w',
     .kind = OPTION_FLAG,
     .help = "read commands: again every --every, until interrupted"},
    {.name = "every",
     .kind = OPTION_NUMBER,
     .value = "DURATION",
     .help = "pause between two answers of --watch (2s)",
     .number = NUMBER_DURATION,
     .range = {100, 3600000}},
    {.name = "help", .letter = 'h', .kind = OPTION_FLAG, .help = "help on a command"},
    {.name = "version", .kind = OPTION_FLAG, .help = "version of this program"},
    {0}};

const struct option_spec mutation_options[] = {
    {.name = "request-id",
     .kind = OPTION_TEXT,
     .value = "ID",
     .help = "repeat a request safely: the first outcome is returned"},
    {.name = "dry-run", .kind = OPTION_FLAG, .help = "print the request, send nothing"},
    {.name = "yes", .kind = OPTION_FLAG, .help = "do not ask, where it would ask first"},
    {0}};

static size_t table_length(const struct option_spec *specs)
{
    size_t count = 0;

    while (specs != NULL && specs[count].name != NULL)
        count++;
    CHECK(count <= CLI_OPTIONS_MAX);
    return count;
}

static const struct option_spec *all_commands = global_options;

void option_tables_use(const struct option_spec *globals)
{
    all_commands = globals;
}

struct option_tables option_tables_of(const struct command *command)
{
    struct option_tables tables = {{all_commands, NULL, NULL}};

    if (command != NULL) {
        tables.specs[1] = command->kind == COMMAND_CHANGES ? mutation_options : NULL;
        tables.specs[2] = command->options;
    }
    return tables;
}

const struct option_spec *option_tables_find(const struct command *command, const char *name,
                                             size_t length, char letter, size_t *ret_table,
                                             size_t *ret_position)
{
    struct option_tables tables = option_tables_of(command);

    for (size_t t = 0; t < OPTION_TABLES; t++) {
        for (size_t i = 0; i < table_length(tables.specs[t]); i++) {
            const struct option_spec *spec = &tables.specs[t][i];
            bool found =
                letter != 0 ? spec->letter == letter
                            : strlen(spec->name) == length && memcmp(spec->name, name, length) == 0;

            if (found) {
                *ret_table = t;
                *ret_position = i;
                return spec;
            }
        }
    }
    return NULL;
}

const char *option_tables_name(const void *context, size_t i)
{
    const struct option_tables *tables = context;

    for (size_t t = 0; t < OPTION_TABLES; t++) {
        size_t count = table_length(tables->specs[t]);

        if (i < count)
            return tables->specs[t][i].name;
        i -= count;
    }
    return NULL;
}

void option_tables_choices(const struct option_spec *spec, char *text, size_t size)
{
    size_t used = 0;
    char word[HUMAN_BYTES];

    text[0] = '\0';
    for (size_t i = 0; spec->words != NULL && spec->words[i] != NULL && used < size; i++) {
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "" : ", ", spec->words[i]);
    }
    for (unsigned i = 0; spec->choices != NULL && i < spec->choices->n_values && used < size; i++) {
        human_enum(spec->choices, spec->choices->values[i].value, word);
        if (strcmp(word, "UNSPECIFIED") != 0)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ", ", word);
    }
}
