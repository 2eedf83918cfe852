/* Heap sort by (high descending, low ascending): in place, no recursion, the order depends on the
 * keys alone. */
#include "fsm/core/state.h"
#include "src/base/heap.h"

/* low is an id, a slot or a place: no two are equal, so the order is the same for everybody. */
static bool sort_after(const void *a, const void *b)
{
    const struct sort_item *x = a, *y = b;

    return x->high != y->high ? x->high < y->high : x->low > y->low;
}

static const struct heap_kind sort_heap = {sizeof(struct sort_item), sort_after, NULL};
_Static_assert(sizeof(struct sort_item) <= HEAP_ITEM_BYTES_MAX, "an item of a heap");

/* The heap's root is the last in the order; it goes to the end, and what is left is a heap
 * again. */
void fsm_sort(struct sort_item *items, size_t count)
{
    for (size_t i = count / 2; i > 0; i--)
        heap_down(&sort_heap, items, i - 1, count);
    for (size_t end = count; end > 1; end--) {
        struct sort_item last = items[end - 1];

        items[end - 1] = items[0];
        items[0] = last;
        heap_down(&sort_heap, items, 0, end - 1);
    }
}
