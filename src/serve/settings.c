/* The table of keys: look-ups, defaults, sources, complaints. See settings.h. */
#include "src/serve/settings.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/number.h"
#include "src/base/text.h"
#include "src/serve/settings_internal.h"

static const struct settings_section *section_at(const struct settings *settings, unsigned section)
{
    CHECK(section < settings->table->section_count);
    return &settings->table->sections[section];
}

static char *place_in(const struct settings *settings, size_t offset)
{
    return (char *)settings->values + offset;
}

size_t *settings_item_count(const struct settings *settings, unsigned section)
{
    const struct settings_section *list = section_at(settings, section);

    CHECK(list->items_max > 0);
    return (size_t *)(void *)place_in(settings, list->count_offset);
}

static size_t items_of(const struct settings *settings, unsigned section)
{
    return section_at(settings, section)->items_max == 0 ? 1
                                                         : *settings_item_count(settings, section);
}

static void *value_place(const struct settings *settings, size_t row, size_t item)
{
    const struct settings_row *r = &settings->table->rows[row];
    const struct settings_section *section = section_at(settings, r->section);

    return place_in(settings, section->items_offset + item * section->item_bytes + r->offset);
}

size_t settings_find(const struct settings *settings, unsigned section, const char *name)
{
    for (size_t i = 0; i < settings->table->row_count; i++) {
        const struct settings_row *row = &settings->table->rows[i];
        size_t stem;

        number_named(row->name, &stem);
        if (row->section == section &&
            (strcmp(row->name, name) == 0 ||
             (strlen(name) == stem && memcmp(row->name, name, stem) == 0)))
            return i;
    }
    return SIZE_MAX;
}

const char *settings_nearest(const struct settings *settings, unsigned section, const char *name)
{
    const struct settings_table *table = settings->table;
    const char *nearest = NULL;
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < table->row_count; i++) {
        size_t distance = text_distance(name, table->rows[i].name);

        if (table->rows[i].section == section && (nearest == NULL || distance < best)) {
            best = distance;
            nearest = table->rows[i].name;
        }
    }
    for (size_t i = 1; section == 0 && i < table->section_count; i++) {
        size_t distance = text_distance(name, table->sections[i].name);

        if (distance < best) {
            best = distance;
            nearest = table->sections[i].name;
        }
    }
    CHECK(nearest != NULL);
    return nearest;
}

struct settings_source *settings_source_of(const struct settings *settings, size_t row, size_t item)
{
    CHECK(row < settings->table->row_count && item < settings->items_max);
    return &settings->sources[row * settings->items_max + item];
}

char *settings_name(const struct settings *settings, size_t row, size_t item,
                    char text[SETTINGS_NAME_BYTES])
{
    const struct settings_row *r = &settings->table->rows[row];
    const struct settings_section *section = section_at(settings, r->section);

    if (section->items_max > 0)
        snprintf(text, SETTINGS_NAME_BYTES, "%s[%zu].%s", section->name, item, r->name);
    else
        snprintf(text, SETTINGS_NAME_BYTES, "%s%s%s", section->name, r->section == 0 ? "" : ".",
                 r->name);
    return text;
}

int settings_set(struct settings *settings, size_t row, size_t item, bool in_unit,
                 const char *value, struct err *err)
{
    const struct settings_row *r = &settings->table->rows[row];

    return r->kind->set(r, value_place(settings, row, item), in_unit, value, err);
}

/* The defaults of a section, of a list of one item. */
static void set_initial(struct settings *settings, unsigned section, size_t item)
{
    const struct settings_section *s = section_at(settings, section);
    struct err err;

    if (s->init != NULL)
        s->init(place_in(settings, s->items_offset + item * s->item_bytes));
    for (size_t i = 0; i < settings->table->row_count; i++) {
        const struct settings_row *row = &settings->table->rows[i];

        if (row->section == section && row->initial != NULL)
            CHECK(settings_set(settings, i, item, true, row->initial, &err) == 0);
    }
}

size_t settings_add_item(struct settings *settings, unsigned section)
{
    size_t *count = settings_item_count(settings, section);

    CHECK(*count < section_at(settings, section)->items_max);
    set_initial(settings, section, *count);
    return (*count)++;
}

int settings_set_flag(struct settings *settings, const char *name, const char *flag,
                      const char *value, struct err *err)
{
    size_t row = settings_find(settings, 0, name);
    struct err problem;

    CHECK(row != SIZE_MAX);
    if (value == NULL)
        return 0;
    if (settings_set(settings, row, 0, true, value, &problem) != 0)
        return err_set(err, ERR_INVALID, "%s %s", flag, problem.text);
    settings_source_of(settings, row, 0)->from = SETTINGS_FLAG;
    return 0;
}

bool settings_given(const struct settings *settings, unsigned section, const char *name)
{
    size_t row = settings_find(settings, section, name);

    CHECK(row != SIZE_MAX);
    return settings_source_of(settings, row, 0)->from != SETTINGS_DEFAULT;
}

int settings_complain(const struct settings *settings, unsigned section, const char *name,
                      size_t item, struct err *err, const char *text)
{
    size_t row = settings_find(settings, section, name);
    char path[SETTINGS_NAME_BYTES], value[512];
    unsigned line;

    CHECK(row != SIZE_MAX);
    line = settings_source_of(settings, row, item)->line;
    settings_name(settings, row, item, path);
    if (line == 0)
        return err_set(err, ERR_INVALID, "%s: %s %s", settings->path, path, text);
    if (section_at(settings, section)->secret)
        return err_set(err, ERR_INVALID, "%s, line %u: %s %s", settings->path, line, path, text);
    settings->table->rows[row].kind->show(value_place(settings, row, item), value, sizeof(value));
    return err_set(err, ERR_INVALID, "%s, line %u: %s '%.300s' %s", settings->path, line, path,
                   value, text);
}

void settings_print(const struct settings *settings, FILE *stream)
{
    static const char *const sources[] = {"default", "file", "flag"};

    for (size_t i = 0; i < settings->table->row_count; i++) {
        const struct settings_row *row = &settings->table->rows[i];

        for (size_t item = 0; item < items_of(settings, row->section); item++) {
            char path[SETTINGS_NAME_BYTES], value[2048];

            row->kind->show(value_place(settings, i, item), value, sizeof(value));
            fprintf(stream, "%s = %s (%s)\n", settings_name(settings, i, item, path), value,
                    sources[settings_source_of(settings, i, item)->from]);
        }
    }
}

static bool value_differs(const struct settings *before, const struct settings *after, size_t row,
                          size_t item)
{
    const struct settings_kind *kind = before->table->rows[row].kind;
    const unsigned section = before->table->rows[row].section;
    char was[2048], is[2048];

    if (item >= items_of(before, section) || item >= items_of(after, section))
        return true;
    kind->show(value_place(before, row, item), was, sizeof(was));
    kind->show(value_place(after, row, item), is, sizeof(is));
    return strcmp(was, is) != 0;
}

void settings_compare(const struct settings *before, const struct settings *after,
                      settings_changed_fn *changed, void *data)
{
    char path[SETTINGS_NAME_BYTES];

    CHECK(before->table == after->table);
    for (size_t i = 0; i < before->table->row_count; i++) {
        const struct settings_row *row = &before->table->rows[i];

        for (size_t item = 0;
             item < items_of(before, row->section) || item < items_of(after, row->section); item++)
            if (value_differs(before, after, i, item))
                changed(data, row->section, row->name, settings_name(before, i, item, path));
    }
}

void settings_init(struct settings *settings, const struct settings_table *table, void *values,
                   const char *path)
{
    CHECK(table->section_count <= SETTINGS_SECTIONS_MAX);
    *settings = (struct settings){
        .table = table, .values = values, .path = check_strdup(path), .items_max = 1};
    for (size_t i = 0; i < table->section_count; i++) {
        if (table->sections[i].items_max > settings->items_max)
            settings->items_max = table->sections[i].items_max;
    }
    settings->sources =
        check_calloc(table->row_count * settings->items_max, sizeof(*settings->sources));
    for (unsigned i = 0; i < table->section_count; i++) {
        if (table->sections[i].items_max == 0)
            set_initial(settings, i, 0);
    }
}

void settings_close(struct settings *settings)
{
    if (settings->table == NULL)
        return;
    for (size_t i = 0; i < settings->table->row_count; i++) {
        const struct settings_row *row = &settings->table->rows[i];

        for (size_t item = 0; row->kind->owned && item < items_of(settings, row->section); item++) {
            char **text = value_place(settings, i, item);

            free(*text);
            *text = NULL;
        }
    }
    free(settings->sources);
    free(settings->path);
    settings->table = NULL;
}
