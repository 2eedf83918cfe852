/* The hash table against a plain array, with hashes that cluster and wrap around, while its entries
 * move to a larger table. */
#include "tests/support/test.h"

#include "fsm/core/map.h"
#include "src/base/large_page.h"

enum { ITEMS = 6000 };

struct item {
    char key[16];
    uint32_t hash;
    bool present;
};

static bool item_equal(const void *item, const char *key)
{
    return strcmp(((const struct item *)item)->key, key) == 0;
}

/* Few distinct homes, many of them at either end of the table. */
static uint32_t clustered(uint64_t *seed)
{
    uint32_t value = (uint32_t)test_random(seed);

    switch (value >> 30) {
    case 0:
        return UINT32_MAX - (value & 7);
    case 1:
        return value & 7;
    case 2:
        return value & 0xff;
    default:
        return value;
    }
}

static void every_item_is_found(struct map *map, struct item *items, size_t count)
{
    uint32_t present = 0;

    for (size_t i = 0; i < count; i++) {
        void *found = fsm_map_find(map, items[i].hash, item_equal, items[i].key);
        assert_ptr_equal(found, items[i].present ? &items[i] : NULL);
        present += items[i].present;
    }
    assert_uint_equal(map->count, present);
}

static void additions_and_removals_agree_with_a_plain_array(void **state)
{
    static struct item items[ITEMS];
    uint64_t seed = test_seed();
    struct map map = {0};
    bool seen_moving = false;

    (void)state;
    for (int i = 0; i < ITEMS; i++) {
        snprintf(items[i].key, sizeof(items[i].key), "key-%d", i);
        items[i].hash = clustered(&seed);
        items[i].present = false;
    }
    for (int step = 0; step < 30000; step++) {
        struct item *item = &items[test_random(&seed) % (uint64_t)(1 + step % ITEMS)];

        if (!item->present)
            fsm_map_add(&map, item->hash, item);
        else if (test_random(&seed) % 3 != 0)
            fsm_map_remove(&map, item->hash, item);
        else
            continue;
        item->present = !item->present;
        if (map.old.moved > 0 && !seen_moving) {
            seen_moving = true;
            every_item_is_found(&map, items, ITEMS);
        }
        if (step % 997 == 0)
            every_item_is_found(&map, items, ITEMS);
    }
    assert_true(seen_moving);
    every_item_is_found(&map, items, ITEMS);
    fsm_map_free(&map);
}

/* The point of moving a few at a time: right after growing, most entries are still in the old
 * table. */
static void an_addition_moves_few_entries(void **state)
{
    static struct item items[2000];
    struct map map = {0};
    uint32_t grown = 0;

    (void)state;
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t moved = map.old.moved;
        snprintf(items[i].key, sizeof(items[i].key), "%u", i);
        items[i].hash = i * 2654435761u;
        items[i].present = true;
        fsm_map_add(&map, items[i].hash, &items[i]);
        if (map.old.capacity > 0)
            assert_true(map.old.moved <= moved + 8);
        grown += map.old.capacity > 0 && map.old.moved == 8;
        if (i % 100 == 0)
            every_item_is_found(&map, items, i + 1);
    }
    assert_true(grown >= 5);
    fsm_map_free(&map);
}

/* Tables of several large pages of memory come from the system itself: the last small one is moved
 * out of, and so is the first large one. */
static void large_tables_hold_the_same(void **state)
{
    static struct item items[400000]; /* a large page holds 131072 entries, three quarters used */
    const uint32_t count = sizeof(items) / sizeof(items[0]);
    struct map map = {0};

    (void)state;
    for (uint32_t i = 0; i < count; i++) {
        snprintf(items[i].key, sizeof(items[i].key), "%u", i);
        items[i].hash = i * 2654435761u;
        items[i].present = true;
        fsm_map_add(&map, items[i].hash, &items[i]);
    }
    assert_true(map.now.capacity * sizeof(struct map_entry) > LARGE_PAGE_BYTES);
    assert_uint_equal((uintptr_t)map.now.entries % LARGE_PAGE_BYTES, 0);
    for (uint32_t i = 0; i < count; i += 3) {
        fsm_map_remove(&map, items[i].hash, &items[i]);
        items[i].present = false;
    }
    every_item_is_found(&map, items, count);
    fsm_map_free(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(additions_and_removals_agree_with_a_plain_array),
        cmocka_unit_test(an_addition_moves_few_entries),
        cmocka_unit_test(large_tables_hold_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
