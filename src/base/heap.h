/* A binary heap in an array of the caller's: no item is before the first one.
 *
 * Flow     an item is put at the end and moved by heap_up(); the first is taken out by putting the
 *          last in its place, and heap_down(). heap_down() from the middle to the front makes a
 *          heap of any array.
 * Shapes   items of `size` bytes, at most HEAP_ITEM_BYTES_MAX; placed() is told of every place that
 *          an item gets.
 * Absent   memory, counts: the caller's.
 */
#ifndef CKPT_BASE_HEAP_H
#define CKPT_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { HEAP_ITEM_BYTES_MAX = 64 };

/* The kind of the items; constant, one per use. */
struct heap_kind {
    size_t size;
    bool (*before)(const void *a, const void *b);
    void (*placed)(void *item, size_t i); /* NULL: nobody asks where an item is */
};

/* For heap_up() and heap_down(): writes an item at its place and tells of it. */
static inline void heap_place(const struct heap_kind *kind, uint8_t *items, size_t i,
                              const void *item)
{
    memmove(items + i * kind->size, item, kind->size);
    if (kind->placed != NULL)
        kind->placed(items + i * kind->size, i);
}

/* Moves item i towards the front, as far as it belongs: after it was added or became earlier. */
static inline void heap_up(const struct heap_kind *kind, void *array, size_t i)
{
    uint8_t *items = array, item[HEAP_ITEM_BYTES_MAX];

    memcpy(item, items + i * kind->size, kind->size);
    for (; i > 0 && kind->before(item, items + (i - 1) / 2 * kind->size); i = (i - 1) / 2)
        heap_place(kind, items, i, items + (i - 1) / 2 * kind->size);
    heap_place(kind, items, i, item);
}

/* Moves item i towards the end, as far as it belongs: after it became later or took the place of
 * one that left. */
static inline void heap_down(const struct heap_kind *kind, void *array, size_t i, size_t count)
{
    uint8_t *items = array, item[HEAP_ITEM_BYTES_MAX];

    memcpy(item, items + i * kind->size, kind->size);
    for (size_t child = 2 * i + 1; child < count; child = 2 * i + 1) {
        if (child + 1 < count &&
            kind->before(items + (child + 1) * kind->size, items + child * kind->size))
            child++;
        if (!kind->before(items + child * kind->size, item))
            break;
        heap_place(kind, items, i, items + child * kind->size);
        i = child;
    }
    heap_place(kind, items, i, item);
}

#endif
