/* A hash table of pointers: open addressing, linear probing, the hash kept beside the pointer so
 * that growing reads no items.
 *
 * Flow     a table that is full at 3/4 is replaced by one of twice the size. Its entries move over
 *          a few at a time with each later addition, so no single addition takes milliseconds.
 * Order    a map that is all zero is empty and ready. To add what is there already is a bug that
 *          nothing here notices; to remove what is not there is one that stops the program.
 * Shapes   items are the caller's, and hold their key: the map keeps no copy of it. A table never
 *          shrinks.
 * Absent   iteration (its order would depend on history, and with it what a member does).
 */
#ifndef CKPT_FSM_MAP_H
#define CKPT_FSM_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct map_entry {
    void *item; /* NULL: free */
    uint32_t hash;
};

/* One array of entries. Free entries end a search; a removed one leaves no mark behind. */
struct map_table {
    struct map_entry *entries;
    uint32_t capacity; /* 0 or a power of two */
    uint32_t moved;    /* of the old table: slots below hold nothing any more */
};

struct map {
    struct map_table now;
    struct map_table old; /* capacity 0: nothing is left to move */
    uint32_t count;       /* of both */
};

/* gcc drops __builtin_prefetch() without a word where it may use general registers only, as in this
 * folder: that rules out SSE, which the instruction came with. */
enum { FSM_LINE_BYTES = 64 }; /* of the caches */
/* Asks the memory for a line of the caches and waits for nothing. gcc drops __builtin_prefetch()
 * without a word where it may use general registers only, as in this folder: that rules out SSE,
 * which the instruction came with. */
static inline void fsm_prefetch(const void *address)
{
#ifdef __x86_64__
    __asm__ volatile("prefetcht0 (%0)" : : "r"(address)); /* may be any address */
#else
    __builtin_prefetch(address);
#endif
}

/* Whether the item has this key. It is asked only of items whose hash is equal. */
typedef bool fsm_map_equal(const void *item, const char *key);

/* Asks the memory for where find() will look first. */
void fsm_map_prefetch(const struct map *map, uint32_t hash);
/* An item with this hash, which is hardly another one than find() would find; NULL: none is near
 * where that looks first. No item is read. */
const void *fsm_map_likely(const struct map *map, uint32_t hash);
/* NULL: there is none. hash is that of the key, the same for every call about the item. */
void *fsm_map_find(const struct map *map, uint32_t hash, fsm_map_equal *equal, const char *key);
void fsm_map_add(struct map *map, uint32_t hash, void *item);          /* not present yet */
void fsm_map_remove(struct map *map, uint32_t hash, const void *item); /* present */
void fsm_map_free(struct map *map);

#endif
