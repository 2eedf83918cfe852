/* The options that a command takes: those of every command, those of every change, its own.
 *
 * Shapes   a command's own table is a column of its row in commands.c; it ends with name NULL.
 */
#ifndef CKPT_CLI_OPTION_TABLES_H
#define CKPT_CLI_OPTION_TABLES_H

#include "src/cli/cli.h"

extern const char *const option_format_words[]; /* enum output_format */
/* Rows of ckptctl's commands and of the owner's verbs alike. */
#define OPTION_ROWS_OF_OUTPUT                                                                      \
    {.name = "output",                                                                             \
     .letter = 'o',                                                                                \
     .kind = OPTION_CHOICE,                                                                        \
     .value = "FORMAT",                                                                            \
     .help = "table, wide, json, jsonl, yaml or name",                                             \
     .words = option_format_words},                                                                \
        {.name = "no-headers", .kind = OPTION_FLAG, .help = "tables without their first line"},    \
    {                                                                                              \
        .name = "quiet", .letter = 'q', .kind = OPTION_FLAG, .help = "no remarks on stderr"        \
    }
extern const struct option_spec global_options[];
extern const struct option_spec mutation_options[]; /* of every command that changes state */

/* In place of global_options, for the rest of the process or until they are put back. */
void option_tables_use(const struct option_spec *globals);

/* In the order in which they are searched: global, of changes, the command's own. NULL: empty. */
struct option_tables {
    const struct option_spec *specs[OPTION_TABLES];
};
struct option_tables option_tables_of(
    const struct command *command); /* NULL: before one is known */

/* An option by its letter, or by its name when the letter is 0; NULL: the command has none such.
 * Its value is at cli->values[*ret_table][*ret_position]. */
const struct option_spec *option_tables_find(const struct command *command, const char *name,
                                             size_t length, char letter, size_t *ret_table,
                                             size_t *ret_position);
/* The name of the option at position i of all tables of a struct option_tables, NULL behind the
 * last one: what text_nearest() looks through. */
const char *option_tables_name(const void *tables, size_t i);

/* The words that an OPTION_CHOICE takes: "AUTO, MANUAL, NONE"; cut when too long. */
void option_tables_choices(const struct option_spec *spec, char *text, size_t size);

#endif
