/* From YAML to keys, one scalar at a time. Each error carries the line of the key that it is about.
 * See settings.h. */
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "src/base/check.h"
#include "src/serve/settings_internal.h"

struct walk {
    yaml_parser_t parser;
    yaml_event_t event; /* the present one; deleted when the next is read */
    bool has_event;
    struct settings *settings;
    struct err *err;
};

static unsigned walk_line(const struct walk *walk)
{
    return (unsigned)walk->event.start_mark.line + 1;
}

static const char *walk_text(const struct walk *walk)
{
    CHECK(walk->event.type == YAML_SCALAR_EVENT);
    return (const char *)walk->event.data.scalar.value;
}

static int walk_next(struct walk *walk)
{
    if (walk->has_event)
        yaml_event_delete(&walk->event);
    walk->has_event = false;
    if (!yaml_parser_parse(&walk->parser, &walk->event))
        return err_set(walk->err, ERR_INVALID, "%s, line %zu: not valid YAML: %s",
                       walk->settings->path, walk->parser.problem_mark.line + 1,
                       walk->parser.problem);
    walk->has_event = true;
    if (walk->event.type == YAML_ALIAS_EVENT)
        return err_set(walk->err, ERR_INVALID,
                       "%s, line %u: aliases are not supported; repeat the value",
                       walk->settings->path, walk_line(walk));
    if (walk->event.type == YAML_SCALAR_EVENT &&
        strlen(walk_text(walk)) != walk->event.data.scalar.length)
        return err_set(walk->err, ERR_INVALID, "%s, line %u: a value holds a NUL byte",
                       walk->settings->path, walk_line(walk));
    return 0;
}

static int walk_expect(struct walk *walk, yaml_event_type_t type, const char *what)
{
    if (walk_next(walk) != 0)
        return -1;
    if (walk->event.type != type)
        return err_set(walk->err, ERR_INVALID, "%s, line %u: expected %s", walk->settings->path,
                       walk_line(walk), what);
    return 0;
}

static const char *section_name(const struct walk *walk, unsigned section)
{
    return walk->settings->table->sections[section].name;
}

static int walk_unknown(struct walk *walk, unsigned section)
{
    return err_set(walk->err, ERR_INVALID,
                   "%s, line %u: unknown key '%.64s'%s%s, perhaps of a newer release; the nearest "
                   "known key is '%s'",
                   walk->settings->path, walk_line(walk), walk_text(walk),
                   section == 0 ? "" : " in ", section_name(walk, section),
                   settings_nearest(walk->settings, section, walk_text(walk)));
}

/* The present event is the name of a scalar key; reads its value. */
static int walk_scalar(struct walk *walk, unsigned section, size_t item)
{
    size_t row = settings_find(walk->settings, section, walk_text(walk));
    struct settings_source *source;
    char path[SETTINGS_NAME_BYTES];
    unsigned line = walk_line(walk);
    struct err problem;
    bool in_unit;

    if (row == SIZE_MAX)
        return walk_unknown(walk, section);
    in_unit = strcmp(walk_text(walk), walk->settings->table->rows[row].name) == 0;
    settings_name(walk->settings, row, item, path);
    source = settings_source_of(walk->settings, row, item);
    if (source->from == SETTINGS_FILE)
        return err_set(walk->err, ERR_INVALID, "%s, line %u: %s is given twice, first in line %u",
                       walk->settings->path, line, path, source->line);
    if (walk_next(walk) != 0)
        return -1;
    if (walk->event.type != YAML_SCALAR_EVENT)
        return err_set(walk->err, ERR_INVALID, "%s, line %u: %s must be a single value",
                       walk->settings->path, line, path);
    source->from = SETTINGS_FILE;
    source->line = line;
    if (settings_set(walk->settings, row, item, in_unit, walk_text(walk), &problem) != 0)
        return err_set(walk->err, ERR_INVALID, "%s, line %u: %s %s", walk->settings->path, line,
                       path, problem.text);
    return 0;
}

/* After the mapping's start; until its end. */
static int walk_mapping(struct walk *walk, unsigned section, size_t item)
{
    unsigned line = walk_line(walk);
    char path[SETTINGS_NAME_BYTES];

    for (;;) {
        if (walk_next(walk) != 0)
            return -1;
        if (walk->event.type == YAML_MAPPING_END_EVENT)
            break;
        if (walk->event.type != YAML_SCALAR_EVENT)
            return err_set(walk->err, ERR_INVALID, "%s, line %u: a key must be a name",
                           walk->settings->path, walk_line(walk));
        if (walk_scalar(walk, section, item) != 0)
            return -1;
    }
    for (size_t i = 0; i < walk->settings->table->row_count; i++) {
        const struct settings_row *row = &walk->settings->table->rows[i];

        if (row->section == section && row->initial == NULL &&
            settings_source_of(walk->settings, i, item)->from == SETTINGS_DEFAULT)
            return err_set(walk->err, ERR_INVALID, "%s, line %u: %s is missing",
                           walk->settings->path, line,
                           settings_name(walk->settings, i, item, path));
    }
    return 0;
}

/* After the list's start; until its end. */
static int walk_list(struct walk *walk, unsigned section)
{
    struct settings *settings = walk->settings;
    size_t max = settings->table->sections[section].items_max;
    const size_t *count = settings_item_count(settings, section);

    for (;;) {
        if (walk_next(walk) != 0)
            return -1;
        if (walk->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        if (walk->event.type != YAML_MAPPING_START_EVENT)
            return err_set(walk->err, ERR_INVALID, "%s, line %u: each of %s must be a mapping",
                           settings->path, walk_line(walk), section_name(walk, section));
        if (*count == max)
            return err_set(walk->err, ERR_INVALID, "%s, line %u: %s has more than %zu entries",
                           settings->path, walk_line(walk), section_name(walk, section), max);
        if (walk_mapping(walk, section, settings_add_item(settings, section)) != 0)
            return -1;
    }
}

/* The present event is the name of a section. */
static int walk_section(struct walk *walk, unsigned section, bool *seen)
{
    bool is_list = walk->settings->table->sections[section].items_max > 0;

    if (*seen)
        return err_set(walk->err, ERR_INVALID, "%s, line %u: %s is given twice",
                       walk->settings->path, walk_line(walk), section_name(walk, section));
    *seen = true;
    if (walk_expect(walk, is_list ? YAML_SEQUENCE_START_EVENT : YAML_MAPPING_START_EVENT,
                    is_list ? "a list" : "a mapping") != 0)
        return -1;
    return is_list ? walk_list(walk, section) : walk_mapping(walk, section, 0);
}

static int walk_root(struct walk *walk)
{
    bool seen[SETTINGS_SECTIONS_MAX] = {false};
    const size_t section_count = walk->settings->table->section_count;

    for (;;) {
        unsigned section = 1;

        if (walk_next(walk) != 0)
            return -1;
        if (walk->event.type == YAML_MAPPING_END_EVENT)
            return 0;
        if (walk->event.type != YAML_SCALAR_EVENT)
            return err_set(walk->err, ERR_INVALID, "%s, line %u: a key must be a name",
                           walk->settings->path, walk_line(walk));
        while (section < section_count && strcmp(walk_text(walk), section_name(walk, section)) != 0)
            section++;
        if (section < section_count ? walk_section(walk, section, &seen[section]) != 0
                                    : walk_scalar(walk, 0, 0) != 0)
            return -1;
    }
}

static int walk_document(struct walk *walk)
{
    if (walk_expect(walk, YAML_STREAM_START_EVENT, "YAML") != 0 || walk_next(walk) != 0)
        return -1;
    if (walk->event.type == YAML_STREAM_END_EVENT && walk->settings->table->may_be_empty)
        return 0;
    if (walk->event.type != YAML_DOCUMENT_START_EVENT)
        return err_set(walk->err, ERR_INVALID, "%s, line %u: expected keys; the file is empty",
                       walk->settings->path, walk_line(walk));
    if (walk_expect(walk, YAML_MAPPING_START_EVENT, "keys such as 'log_level: info'") != 0 ||
        walk_root(walk) != 0 || walk_expect(walk, YAML_DOCUMENT_END_EVENT, "the end") != 0)
        return -1;
    return walk_expect(walk, YAML_STREAM_END_EVENT, "the end of the file, not another document");
}

int settings_parse(struct settings *settings, const char *text, size_t length, struct err *err)
{
    struct walk walk = {.settings = settings, .err = err};
    int status;

    CHECK(yaml_parser_initialize(&walk.parser));
    yaml_parser_set_input_string(&walk.parser, (const unsigned char *)text, length);
    status = walk_document(&walk);
    if (walk.has_event)
        yaml_event_delete(&walk.event);
    yaml_parser_delete(&walk.parser);
    return status;
}

int settings_load(struct settings *settings, struct err *err)
{
    const char *path = settings->path;
    FILE *file = fopen(path, "re");
    char *text;
    size_t length;
    int status = -1;

    if (file == NULL)
        return err_set(err, ERR_INVALID, "%s: cannot be opened: %m; give --config FILE", path);
    text = check_alloc(SETTINGS_FILE_MAX_BYTES + 1);
    length = fread(text, 1, SETTINGS_FILE_MAX_BYTES + 1, file);
    if (ferror(file))
        err_set(err, ERR_INVALID, "%s: cannot be read: %m", path);
    else if (length > SETTINGS_FILE_MAX_BYTES)
        err_set(err, ERR_INVALID, "%s: larger than %d bytes", path, SETTINGS_FILE_MAX_BYTES);
    else
        status = settings_parse(settings, text, length, err);
    fclose(file);
    free(text);
    return status;
}
