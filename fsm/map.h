/* A hash table of pointers: open addressing, linear probing, the hash kept beside the pointer so that growing reads no items.
 * Shapes: items are the caller's. Load at most 3/4. Absent: iteration (its order would depend on history). */
#ifndef CKPT_FSM_MAP_H
#define CKPT_FSM_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct map_entry {
    void *item; /* NULL: free */
    uint32_t hash;
};

struct map {
    struct map_entry *entries;
    uint32_t capacity; /* 0 or a power of two */
    uint32_t count;
};

typedef bool fsm_map_equal(const void *item, const char *key);

void *fsm_map_find(const struct map *map, uint32_t hash, fsm_map_equal *equal, const char *key);
void fsm_map_add(struct map *map, uint32_t hash, void *item);          /* not present yet */
void fsm_map_remove(struct map *map, uint32_t hash, const void *item); /* present */
void fsm_map_free(struct map *map);

#endif
