/* See map.h. */
#include "src/telemetry/map.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/telemetry/file.h"

static int by_name(const void *left, const void *right)
{
    return strcmp(((const struct map_name *)left)->name, ((const struct map_name *)right)->name);
}

/* Of a host, with or without port, or whatever a source calls a node; never a part of another
 * URL. */
static bool name_valid(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:[]";
    size_t length = strlen(name);

    return length > 0 && length <= MAP_NAME_MAX && strspn(name, allowed) == length;
}

static void add_name(struct map *map, const char *node, const char *name)
{
    if (map->name_count == map->name_capacity) {
        map->name_capacity = map->name_capacity == 0 ? 64 : map->name_capacity * 2;
        map->names = check_realloc(map->names, map->name_capacity, sizeof(*map->names));
    }
    map->names[map->name_count++] = (struct map_name){.name = name, .node = node};
}

static void add_row(struct map *map, const char *node, const char *name)
{
    if (map->row_count == map->row_capacity) {
        map->row_capacity = map->row_capacity == 0 ? 64 : map->row_capacity * 2;
        map->rows = check_realloc(map->rows, map->row_capacity, sizeof(*map->rows));
    }
    map->rows[map->row_count++] = (struct map_row){.node = node, .name = name};
}

static int take_line(struct map *map, const char *path, size_t number, char *line, struct err *err)
{
    char *comment = strchr(line, '#'), *word, *node = NULL;
    size_t names = 0;

    if (comment != NULL)
        *comment = '\0';
    while ((word = strsep(&line, " \t\r")) != NULL) {
        if (word[0] == '\0')
            continue;
        if (node == NULL ? !id_valid(word) : !name_valid(word))
            return err_set(err, ERR_INVALID, "%s, line %zu: '%.64s' cannot be a %s", path, number,
                           word, node == NULL ? "node" : "name or host");
        if (node == NULL) {
            node = word;
            continue;
        }
        if (names++ == 0)
            add_row(map, node, word);
        add_name(map, node, word);
    }
    if (node != NULL && names == 0)
        return err_set(err, ERR_INVALID, "%s, line %zu: node %.64s has no name behind it", path,
                       number, node);
    return 0;
}

static int take_lines(struct map *map, const char *path, struct err *err)
{
    char *rest = map->text, *line;

    for (size_t number = 1; (line = strsep(&rest, "\n")) != NULL; number++) {
        if (map->row_count == MAP_ROWS_MAX)
            return err_set(err, ERR_INVALID, "%s, line %zu: more than %d nodes", path, number,
                           MAP_ROWS_MAX);
        if (take_line(map, path, number, line, err) != 0)
            return -1;
    }
    if (map->name_count > 0)
        qsort(map->names, map->name_count, sizeof(*map->names), by_name);
    for (size_t i = 1; i < map->name_count; i++) {
        if (strcmp(map->names[i - 1].name, map->names[i].name) == 0 &&
            strcmp(map->names[i - 1].node, map->names[i].node) != 0)
            return err_set(err, ERR_INVALID, "%s: '%.64s' belongs to both %.64s and %.64s", path,
                           map->names[i].name, map->names[i - 1].node, map->names[i].node);
    }
    return 0;
}

int map_parse(const char *path, const char *text, size_t length, struct map *ret_map,
              struct err *err)
{
    struct map map = {.text = check_alloc(length + 1)};

    memcpy(map.text, text, length);
    map.text[length] = '\0';
    if (strlen(map.text) != length) {
        map_close(&map);
        return err_set(err, ERR_INVALID, "%s holds a NUL byte", path);
    }
    if (take_lines(&map, path, err) != 0) {
        map_close(&map);
        return -1;
    }
    *ret_map = map;
    return 0;
}

int map_load(const char *path, struct map *ret_map, struct err *err)
{
    struct buf text;
    int result;

    if (file_read(path, MAP_FILE_MAX_BYTES, FILE_ANY, &text, err) != 0)
        return -1;
    result = map_parse(path, (const char *)text.bytes, text.length, ret_map, err);
    buf_close(&text);
    return result;
}

void map_close(struct map *map)
{
    free(map->text);
    free(map->rows);
    free(map->names);
    memset(map, 0, sizeof(*map));
}

const char *map_find(const struct map *map, const char *name)
{
    struct map_name wanted = {.name = name};
    const struct map_name *found =
        map->name_count == 0
            ? NULL
            : bsearch(&wanted, map->names, map->name_count, sizeof(*map->names), by_name);

    return found != NULL ? found->node : NULL;
}
