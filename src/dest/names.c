/* See names.h. */
#include "src/dest/names.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

void names_add(struct names *names, const char *name)
{
    if (names->count == names->capacity) {
        names->capacity = names->capacity == 0 ? 64 : 2 * names->capacity;
        names->items = check_realloc(names->items, names->capacity, sizeof(*names->items));
    }
    names->items[names->count++] = check_strdup(name);
}

/* For qsort(3). */
static int compare_names(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

void names_sort(struct names *names)
{
    if (names->count > 0)
        qsort(names->items, names->count, sizeof(*names->items), compare_names);
}

void names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (struct names){0};
}
