/* What a command prints on stdout. */
#include "src/cli/output.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/cli/document.h"
#include "src/cli/human.h"
#include "src/cli/reflect.h"

static bool column_shown(const struct output_table *table, size_t i)
{
    if (table->cli->format == OUTPUT_NAME)
        return i == 0; /* the first column says which row it is */
    return table->cli->format == OUTPUT_WIDE || !(table->columns[i].flags & OUTPUT_ONLY_WIDE);
}

void output_table_init(struct output_table *table, struct cli *cli,
                       const struct output_column *columns, size_t column_count)
{
    *table = (struct output_table){.cli = cli, .columns = columns, .column_count = column_count};
    table->table = scols_new_table();
    CHECK(table->table != NULL);
    scols_table_set_stream(table->table, cli->out);
    scols_table_enable_noheadings(table->table, !cli->headers || cli->format == OUTPUT_NAME);
    scols_table_enable_colors(table->table, cli->colour);
    scols_table_set_termforce(table->table, SCOLS_TERMFORCE_NEVER);
    scols_table_set_column_separator(table->table, "  ");
    for (size_t i = 0; i < column_count; i++) {
        if (column_shown(table, i)) {
            int flags = columns[i].flags & OUTPUT_RIGHT ? SCOLS_FL_RIGHT : 0;

            CHECK(scols_table_new_column(table->table, columns[i].name, 0, flags) != NULL);
        }
    }
}

void output_row(struct output_table *table)
{
    table->line = scols_table_new_line(table->table, NULL);
    CHECK(table->line != NULL);
    table->next_column = 0;
    table->next_shown = 0;
}

/* The cell to fill now, NULL when its column is hidden. */
static struct libscols_cell *next_cell(struct output_table *table)
{
    CHECK(table->line != NULL);
    CHECK(table->next_column < table->column_count);
    if (!column_shown(table, table->next_column++))
        return NULL;
    return scols_line_get_cell(table->line, table->next_shown++);
}

void output_cell(struct output_table *table, const char *format, ...)
{
    struct libscols_cell *cell = next_cell(table);
    char text[1024], safe[1024];
    va_list arguments;

    if (cell == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    human_safe(text, safe, sizeof(safe));
    CHECK(scols_cell_set_data(cell, safe[0] == '\0' ? "-" : safe) == 0);
}

static bool is_among(const char *word, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcmp(word, *words) == 0)
            return true;
    return false;
}

void output_state(struct output_table *table, const char *word)
{
    static const char *const bad[] = {"FAILED",      "TIMED_OUT", "down",     "unavailable",
                                      "unreachable", "no answer", "MISMATCH", "DAMAGED",
                                      "agent_lost",  "disabled",  NULL};
    static const char *const waiting[] = {"PAUSED",   "REQUESTED", "STARTING",  "SUSPENDED",
                                          "REQUEUED", "degraded",  "candidate", "draining",
                                          "founding", NULL};
    static const char *const good[] = {"COMPLETE", "RUNNING",   "COMPLETED", "leader",
                                       "ready",    "available", "ok",        NULL};
    struct libscols_cell *cell = next_cell(table);
    const char *colour = is_among(word, bad)       ? "red"
                         : is_among(word, waiting) ? "yellow"
                         : is_among(word, good)    ? "green"
                                                   : NULL;

    if (cell == NULL)
        return;
    CHECK(scols_cell_set_data(cell, word) == 0);
    if (colour != NULL)
        CHECK(scols_cell_set_color(cell, colour) == 0);
}

void output_table_print(struct output_table *table)
{
    if (scols_table_get_nlines(table->table) > 0)
        scols_print_table(table->table);
    output_table_drop(table);
}

void output_table_drop(struct output_table *table)
{
    scols_unref_table(table->table);
    table->table = NULL;
}

void output_list_begin(struct output_list *list, struct cli *cli, const struct output_kind *kind)
{
    *list = (struct output_list){.cli = cli, .kind = kind};
    if (cli->format == OUTPUT_JSON || cli->format == OUTPUT_YAML)
        list->items = json_array();
    else if (cli->format == OUTPUT_TABLE || cli->format == OUTPUT_WIDE)
        output_table_init(&list->table, cli, kind->columns, kind->column_count);
}

void output_list_add(struct output_list *list, const ProtobufCMessage *item)
{
    char name[64];

    list->count++;
    switch (list->cli->format) {
    case OUTPUT_JSON:
    case OUTPUT_YAML:
        json_array_append_new(list->items, reflect_to_json(item));
        return;
    case OUTPUT_JSONL:
        output_json(list->cli, list->kind->singular, reflect_to_json(item));
        return;
    case OUTPUT_NAME:
        output_name(list->cli, list->kind->name(item, name));
        return;
    case OUTPUT_TABLE:
    case OUTPUT_WIDE:
        output_row(&list->table);
        list->kind->row(&list->table, item);
        return;
    }
}

void output_list_end(struct output_list *list, bool complete)
{
    if (!complete) {
        json_decref(list->items);
        output_table_drop(&list->table);
        return;
    }
    if (list->items != NULL)
        output_json(list->cli, list->kind->plural, list->items);
    else if (list->table.table != NULL)
        output_table_print(&list->table);
    if (list->count == 0)
        cli_note(list->cli, "no %s", list->kind->plural);
}

/* Both null when they are not told. */
static json_t *stale_to_json(const struct cli *cli)
{
    json_t *stale = json_object();

    json_object_set_new(
        stale, "age_ms",
        cli->stale.age_ms > INT64_MAX ? json_null() : json_integer((json_int_t)cli->stale.age_ms));
    json_object_set_new(stale, "applied_index",
                        cli->stale.applied_index == 0
                            ? json_null()
                            : json_integer((json_int_t)cli->stale.applied_index));
    return stale;
}

void output_json(struct cli *cli, const char *key, json_t *json)
{
    json_t *envelope = json_object();
    size_t flags = cli->format == OUTPUT_JSONL ? JSON_COMPACT : JSON_INDENT(2);

    json_object_set_new(envelope, "version", json_integer(OUTPUT_SCHEMA_VERSION));
    if (cli->stale.asked)
        json_object_set_new(envelope, "stale", stale_to_json(cli));
    json_object_set_new(envelope, key, json);
    if (cli->format == OUTPUT_YAML) {
        document_write(cli->out, envelope);
    } else {
        json_dumpf(envelope, cli->out, flags);
        fputc('\n', cli->out);
    }
    json_decref(envelope);
}

void output_json_list(struct cli *cli, const char *plural, const char *singular, json_t *items)
{
    json_t *item;
    size_t i;

    if (cli->format != OUTPUT_JSONL) {
        output_json(cli, plural, items);
        return;
    }
    json_array_foreach(items, i, item) output_json(cli, singular, json_incref(item));
    json_decref(items);
}

bool output_json_message(struct cli *cli, const char *key, const ProtobufCMessage *message)
{
    if (!cli_is_json(cli))
        return false;
    output_json(cli, key, reflect_to_json(message));
    return true;
}

bool output_name(struct cli *cli, const char *name)
{
    if (cli->format != OUTPUT_NAME)
        return false;
    output_safe(cli->out, name);
    fputc('\n', cli->out);
    return true;
}

void output_safe(FILE *stream, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        fputc(c < 0x20 || c == 0x7f ? '?' : c, stream);
    }
}
