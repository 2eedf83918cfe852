/* A hash table of pointers. See map.h. */
#include "fsm/map.h"

#include <malloc.h>
#include <string.h>

#include "src/base/check.h"

enum { MAP_CAPACITY_MIN = 16 };

void *fsm_map_find(const struct map *map, uint32_t hash, fsm_map_equal *equal, const char *key)
{
    if (map->count == 0)
        return NULL;
    for (uint32_t i = hash & (map->capacity - 1);; i = (i + 1) & (map->capacity - 1)) {
        const struct map_entry *entry = &map->entries[i];

        if (entry->item == NULL)
            return NULL;
        if (entry->hash == hash && equal(entry->item, key))
            return entry->item;
    }
}

static void map_put(struct map *map, uint32_t hash, void *item)
{
    uint32_t i = hash & (map->capacity - 1);

    while (map->entries[i].item != NULL)
        i = (i + 1) & (map->capacity - 1);
    map->entries[i].item = item;
    map->entries[i].hash = hash;
}

static void map_grow(struct map *map)
{
    struct map grown = {.capacity = map->capacity == 0 ? MAP_CAPACITY_MIN : map->capacity * 2};

    CHECK(grown.capacity > map->capacity);
    grown.entries = check_calloc(grown.capacity, sizeof(*grown.entries));
    for (uint32_t i = 0; i < map->capacity; i++)
        if (map->entries[i].item != NULL)
            map_put(&grown, map->entries[i].hash, map->entries[i].item);
    grown.count = map->count;
    free(map->entries);
    *map = grown;
}

void fsm_map_add(struct map *map, uint32_t hash, void *item)
{
    CHECK(item != NULL);
    if ((uint64_t)(map->count + 1) * 4 > (uint64_t)map->capacity * 3)
        map_grow(map);
    map_put(map, hash, item);
    map->count++;
}

/* Moves later entries of the run back, so that no marks of removed ones remain. */
void fsm_map_remove(struct map *map, uint32_t hash, const void *item)
{
    uint32_t mask = map->capacity - 1;
    uint32_t hole;

    CHECK(map->count > 0);
    for (hole = hash & mask; map->entries[hole].item != item; hole = (hole + 1) & mask)
        CHECK(map->entries[hole].item != NULL);
    for (uint32_t i = (hole + 1) & mask; map->entries[i].item != NULL; i = (i + 1) & mask) {
        uint32_t home = map->entries[i].hash & mask;

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->entries[hole] = map->entries[i];
            hole = i;
        }
    }
    map->entries[hole].item = NULL;
    map->count--;
}

void fsm_map_free(struct map *map)
{
    free(map->entries);
    memset(map, 0, sizeof(*map));
}
