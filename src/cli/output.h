/* What a command prints on stdout: one item or a list, as a table, JSON, JSON lines, YAML or names.
 *
 * Flow     output_list_begin, output_list_add per item, output_list_end; or output_one for a single
 *          message.
 * Shapes   JSON: {"version":1,"jobs":[{...}]} for a list, {"version":1,"job":{...}} for one item
 *          and for each line of jsonl. Keys YAML is the same tree, a document each time. Keys
 *          and units of the items are the .proto's (reflect.h). The version grows only when a key
 *          is renamed or removed. Of a stale read there is a third key:
 *          "stale":{"age_ms":42000,"applied_index":17}; an age that nobody knows is null.
 * Errors   a full disk or a closed pipe is found once, when cli_run flushes stdout.
 */
#ifndef CKPT_CLI_OUTPUT_H
#define CKPT_CLI_OUTPUT_H

#include <jansson.h>
#include <libsmartcols/libsmartcols.h>

#include "src/cli/cli.h"

enum { OUTPUT_SCHEMA_VERSION = 1 };
enum output_column_flags { OUTPUT_LEFT = 0, OUTPUT_RIGHT = 1, OUTPUT_ONLY_WIDE = 2 };

struct output_column {
    const char *name;
    unsigned flags;
};

/* A table that is being filled; cells go into the columns in order, those of hidden columns are
 * dropped. With the format NAME only the first column is shown: it says which row it is. */
struct output_table {
    struct cli *cli;
    const struct output_column *columns;
    size_t column_count;
    struct libscols_table *table;
    struct libscols_line *line;
    size_t next_column;
    size_t next_shown;
};

void output_table_init(struct output_table *table, struct cli *cli,
                       const struct output_column *columns, size_t column_count);
void output_row(struct output_table *table);
__attribute__((format(printf, 2, 3))) void output_cell(struct output_table *table,
                                                       const char *format, ...);
/* Coloured on a terminal by what the word means: good, bad or waiting. */
void output_state(struct output_table *table, const char *word);
void output_table_print(struct output_table *table); /* also frees it */
void output_table_drop(struct output_table *table);  /* frees it unprinted */

/* How one kind of item is shown. */
struct output_kind {
    const char *plural;
    const char *singular;
    const struct output_column *columns;
    size_t column_count;
    void (*row)(struct output_table *table, const ProtobufCMessage *item);
    const char *(*name)(const ProtobufCMessage *item,
                        char text[64]); /* may return a field of item */
};

struct output_list {
    struct cli *cli;
    const struct output_kind *kind;
    struct output_table table;
    json_t *items;
    size_t count;
};
void output_list_begin(struct output_list *list, struct cli *cli, const struct output_kind *kind);
void output_list_add(struct output_list *list, const ProtobufCMessage *item);
/* complete false: a page failed; what was gathered is dropped, except that lines and names are out
 * already. */
void output_list_end(struct output_list *list, bool complete);

/* {"version":1,"KEY":json}; takes json. On one line for jsonl, a document of its own for YAML. */
void output_json(struct cli *cli, const char *key, json_t *json);
/* The same of a list: a line {"version":1,"SINGULAR":item} for each item for jsonl. Takes items, an
 * array. */
void output_json_list(struct cli *cli, const char *plural, const char *singular, json_t *items);
/* Prints the message when the format is JSON; false: the caller prints for people. */
bool output_json_message(struct cli *cli, const char *key, const ProtobufCMessage *message);

/* Prints the name of what a command is about, on a line, when the format is NAME; false: the caller
 * prints for people. */
bool output_name(struct cli *cli, const char *name);

/* Writes text with control characters replaced. */
void output_safe(FILE *stream, const char *text);

#endif
