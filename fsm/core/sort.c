/* Heap sort by (high descending, low ascending): in place, no recursion, the order depends on the keys alone. */
#include "fsm/core/state.h"

static bool sort_after(const struct sort_item *a, const struct sort_item *b)
{
    return a->high != b->high ? a->high < b->high : a->low > b->low;
}

static void sort_sift(struct sort_item *items, size_t i, size_t count)
{
    struct sort_item item = items[i];

    for (size_t child = 2 * i + 1; child < count; child = 2 * i + 1) {
        if (child + 1 < count && sort_after(&items[child + 1], &items[child]))
            child++;
        if (!sort_after(&items[child], &item))
            break;
        items[i] = items[child];
        i = child;
    }
    items[i] = item;
}

void fsm_sort(struct sort_item *items, size_t count)
{
    for (size_t i = count / 2; i > 0; i--)
        sort_sift(items, i - 1, count);
    for (size_t end = count; end > 1; end--) {
        struct sort_item last = items[end - 1];

        items[end - 1] = items[0];
        items[0] = last;
        sort_sift(items, 0, end - 1);
    }
}
