/* A hash table of pointers. See map.h. */
#include "fsm/core/map.h"

#include <malloc.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/large_page.h"

/* A table of C slots is full again after 3/4 C additions: more than 4/3 slots an addition have to
 * move to be done by then. */
enum { MAP_CAPACITY_MIN = 16, MAP_MOVED_PER_ADDITION = 8, MAP_LIKELY_TRIES = 8 };

_Static_assert(MAP_MOVED_PER_ADDITION * 3 > 4, "moving ends before the next table is full");

static size_t table_bytes(uint32_t capacity)
{
    return capacity * sizeof(struct map_entry);
}

/* A large one is looked into in no order: each look would be one at the tables of pages as well. */
static struct map_entry *entries_alloc(uint32_t capacity)
{
    return table_bytes(capacity) < LARGE_PAGE_BYTES
               ? check_calloc(capacity, sizeof(struct map_entry))
               : large_pages_zeroed(table_bytes(capacity));
}

static void table_free(struct map_table *table)
{
    if (table_bytes(table->capacity) < LARGE_PAGE_BYTES)
        free(table->entries);
    else
        large_pages_free(table->entries, table_bytes(table->capacity));
    memset(table, 0, sizeof(*table));
}

/* The slot after i; behind the last one comes the first that may still hold something. */
static uint32_t slot_next(const struct map_table *table, uint32_t i)
{
    return i + 1 < table->capacity ? i + 1 : table->moved;
}

/* Where probing for the hash begins. What belongs further down and is still here lies in the run
 * that begins at `moved`. */
static uint32_t slot_first(const struct map_table *table, uint32_t hash)
{
    uint32_t home = hash & (table->capacity - 1);

    return home < table->moved ? table->moved : home;
}

/* `left` ends the search in a table that is full, which the old one may be while it is moved. */
static void *table_find(const struct map_table *table, uint32_t hash, fsm_map_equal *equal,
                        const char *key)
{
    uint32_t i = slot_first(table, hash);

    for (uint32_t left = table->capacity - table->moved; left > 0; left--) {
        const struct map_entry *entry = &table->entries[i];

        if (entry->item == NULL)
            return NULL;
        if (entry->hash == hash && equal(entry->item, key))
            return entry->item;
        i = slot_next(table, i);
    }
    return NULL;
}

/* Both tables are asked while entries move: an item is in one of them. */
static void table_prefetch(const struct map_table *table, uint32_t hash)
{
    if (table->capacity > 0)
        fsm_prefetch(&table->entries[slot_first(table, hash)]);
}

void fsm_map_prefetch(const struct map *map, uint32_t hash)
{
    table_prefetch(&map->now, hash);
    table_prefetch(&map->old, hash);
}

/* Compares hashes alone: the item is what is not in the caches yet. A wrong guess costs one line of
 * them. */
const void *fsm_map_likely(const struct map *map, uint32_t hash)
{
    const struct map_table *table = &map->now;
    uint32_t i = table->capacity == 0 ? 0 : slot_first(table, hash);

    for (unsigned tries = 0; table->capacity > 0 && tries < MAP_LIKELY_TRIES; tries++) {
        const struct map_entry *entry = &table->entries[i];

        if (entry->item == NULL || entry->hash == hash)
            return entry->item;
        i = slot_next(table, i);
    }
    return NULL;
}

/* An item is in one of the two tables; most of the time there is no old one. */
void *fsm_map_find(const struct map *map, uint32_t hash, fsm_map_equal *equal, const char *key)
{
    CHECK(map != NULL);
    CHECK(equal != NULL);
    CHECK(key != NULL);
    void *item = table_find(&map->now, hash, equal, key);

    return item != NULL ? item : table_find(&map->old, hash, equal, key);
}

/* Nothing is added to a table that is being moved out of. */
static void table_put(struct map_table *table, uint32_t hash, void *item)
{
    uint32_t i = hash & (table->capacity - 1);

    CHECK(table->moved == 0);
    while (table->entries[i].item != NULL)
        i = slot_next(table, i);
    table->entries[i].item = item;
    table->entries[i].hash = hash;
}

/* Slots are emptied in order, so `moved` says it all: what lies below is in the new table. */
static void map_move(struct map *map, uint32_t slots)
{
    struct map_table *old = &map->old;

    for (; slots > 0 && old->moved < old->capacity; slots--, old->moved++) {
        const struct map_entry *entry = &old->entries[old->moved];

        if (entry->item != NULL)
            table_put(&map->now, entry->hash, entry->item);
    }
    if (old->capacity > 0 && old->moved == old->capacity) {
        table_free(old);
    }
}

/* The old table must have been emptied by now: MAP_MOVED_PER_ADDITION sees to it. */
static void map_grow(struct map *map)
{
    struct map_table grown = {.capacity = map->now.capacity == 0 ? MAP_CAPACITY_MIN
                                                                 : map->now.capacity * 2};

    CHECK(map->old.capacity == 0);
    CHECK(grown.capacity > map->now.capacity);
    grown.entries = entries_alloc(grown.capacity);
    map->old = map->now;
    map->now = grown;
}

void fsm_map_add(struct map *map, uint32_t hash, void *item)
{
    CHECK(map != NULL);
    CHECK(item != NULL);
    if ((uint64_t)(map->count + 1) * 4 > (uint64_t)map->now.capacity * 3)
        map_grow(map);
    table_put(&map->now, hash, item);
    map->count++;
    map_move(map, MAP_MOVED_PER_ADDITION);
}

/* Moves later entries of the run back, so that no marks of removed ones remain. */
static void table_close_hole(struct map_table *table, uint32_t hole)
{
    uint32_t mask = table->capacity - 1;

    for (uint32_t i = slot_next(table, hole); i != hole && table->entries[i].item != NULL;
         i = slot_next(table, i)) {
        uint32_t home = slot_first(table, table->entries[i].hash);

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            table->entries[hole] = table->entries[i];
            hole = i;
        }
    }
    table->entries[hole].item = NULL;
}

static bool table_remove(struct map_table *table, uint32_t hash, const void *item)
{
    uint32_t i = slot_first(table, hash);

    for (uint32_t left = table->capacity - table->moved; left > 0; left--) {
        if (table->entries[i].item == NULL)
            return false;
        if (table->entries[i].item == item) {
            table_close_hole(table, i);
            return true;
        }
        i = slot_next(table, i);
    }
    return false;
}

/* Not there: the caller's record and its index have parted, which is a bug. */
void fsm_map_remove(struct map *map, uint32_t hash, const void *item)
{
    bool removed = table_remove(&map->now, hash, item) || table_remove(&map->old, hash, item);

    CHECK(removed);
    CHECK(map->count > 0);
    map->count--;
}

void fsm_map_free(struct map *map)
{
    CHECK(map != NULL);
    table_free(&map->now);
    table_free(&map->old);
    memset(map, 0, sizeof(*map));
}
