/* Which node a source's names belong to, or which host speaks for which node: a file with lines
 * "NODE NAME [NAME ...]".
 *
 * Flow     map_load() once and at each reload; map_find() by name; map_row() for sources that are
 *          asked node by node, where the first NAME is the host.
 * Shapes   at most MAP_ROWS_MAX lines; "#" begins a comment; names sorted, found by halving.
 * Errors   ERR_INVALID with the line: a name that belongs to two nodes, a line without a name, a
 *          name that is none.
 */
#ifndef CKPT_TELEMETRY_MAP_H
#define CKPT_TELEMETRY_MAP_H

#include <stddef.h>

#include "src/base/err.h"

enum { MAP_ROWS_MAX = 100000, MAP_NAME_MAX = 253, MAP_FILE_MAX_BYTES = 32 << 20 };

/* A line. */
struct map_row {
    const char *node; /* as agents name it: an id */
    const char *name; /* the line's first */
};
/* Any of a line's names. */
struct map_name {
    const char *name, *node;
};
/* All zeros is an empty map, in which nothing is found. */
struct map {
    char *text; /* what the others point into */
    struct map_row *rows;
    size_t row_count, row_capacity;
    struct map_name *names; /* sorted */
    size_t name_count, name_capacity;
};

/* 0 and a map to be closed; or -1 with err and *ret_map as it was. Reads the whole file, at most
 * MAP_FILE_MAX_BYTES, in the caller's turn. */
int map_load(const char *path, struct map *ret_map, struct err *err);
/* The same from memory; path is used in messages only. */
int map_parse(const char *path, const char *text, size_t length, struct map *ret_map,
              struct err *err);
void map_close(struct map *map);
/* The node that a name belongs to; NULL: to none. Lives as long as the map. */
const char *map_find(const struct map *map, const char *name);

#endif
