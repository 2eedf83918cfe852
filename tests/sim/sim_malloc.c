/* malloc(3) for one thread: blocks from lists of their size, without a look around; the simulator
 * does little else than allocate.
 *
 * Flow     a block of at most KEPT_BYTES comes from a stretch of its class, and goes back to the
 *          front of its class's list; everything larger is glibc's. Whose a block is says its
 *          address.
 * Shapes   classes of 16 bytes up to SMALL_BYTES, then four for each doubling. Stretches of whole
 *          spans, in one reserved stretch of addresses; what a class once had it keeps.
 * Absent   threads, and builds with sanitizers: they want their own.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    UNIT_BYTES = 16,
    SMALL_BYTES = 1024,
    SMALL_CLASSES = SMALL_BYTES / UNIT_BYTES + 1,
    STEPS = 4, /* for each doubling */
    DOUBLINGS = 10,
    CLASSES = SMALL_CLASSES + STEPS * DOUBLINGS
};
#define KEPT_BYTES  ((size_t)SMALL_BYTES << DOUBLINGS)
#define SPAN_BYTES  (UINT64_C(1) << 16)
#define ARENA_BYTES (UINT64_C(1) << 36)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void __libc_free(void *pointer);

struct block {
    struct block *next;
};

static struct {
    uint8_t *begin, *next; /* spans from `next` on are nobody's */
    struct block *spare[CLASSES];
    struct {
        uint8_t *at, *end;
    } fresh[CLASSES]; /* of the class's last stretch: never given out, zeros */
    uint8_t class_of_span[ARENA_BYTES / SPAN_BYTES];
} arena;

static size_t class_of(size_t size)
{
    size_t doubling;

    if (size <= SMALL_BYTES)
        return size == 0 ? 1 : (size + UNIT_BYTES - 1) / UNIT_BYTES;
    doubling = (size_t)(__builtin_clzl(SMALL_BYTES) - __builtin_clzl(size - 1));
    return SMALL_CLASSES + STEPS * doubling +
           (size - 1 - (SMALL_BYTES << doubling)) / ((SMALL_BYTES / STEPS) << doubling);
}

static size_t class_bytes(size_t class)
{
    size_t above = class - SMALL_CLASSES;

    return class < SMALL_CLASSES
               ? class * UNIT_BYTES
               : (size_t)(SMALL_BYTES / STEPS) * (STEPS + 1 + above % STEPS) << above / STEPS;
}

static bool is_kept(const void *pointer)
{
    return (uintptr_t)pointer - (uintptr_t)arena.begin < ARENA_BYTES && arena.begin != NULL;
}

static size_t kept_class(const void *pointer)
{
    return arena.class_of_span[(size_t)((const uint8_t *)pointer - arena.begin) / SPAN_BYTES];
}

static bool arena_reserve(void)
{
    void *begin = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (begin == MAP_FAILED)
        return false;
    arena.begin = arena.next = begin;
    return true;
}

/* One block of a new stretch. NULL: no addresses are left. */
static __attribute__((noinline)) void *stretch_new(size_t class)
{
    size_t bytes = class_bytes(class), spans = (bytes + SPAN_BYTES - 1) / SPAN_BYTES;
    uint8_t *begin;

    if (arena.begin == NULL && !arena_reserve())
        return NULL;
    if ((uint64_t)(arena.begin + ARENA_BYTES - arena.next) < spans * SPAN_BYTES)
        return NULL;
    begin = arena.next;
    arena.next += spans * SPAN_BYTES;
    memset(arena.class_of_span + (size_t)(begin - arena.begin) / SPAN_BYTES, (int)class, spans);
    arena.fresh[class].at = begin + bytes;
    arena.fresh[class].end = begin + spans * SPAN_BYTES - spans * SPAN_BYTES % bytes;
    return begin;
}

static void *fresh_take(size_t class)
{
    void *at = arena.fresh[class].at;

    if (arena.fresh[class].at >= arena.fresh[class].end)
        return stretch_new(class);
    arena.fresh[class].at += class_bytes(class);
    return at;
}

static void *spare_take(size_t class)
{
    struct block *block = arena.spare[class];

    if (block != NULL)
        arena.spare[class] = block->next;
    return block;
}

void *malloc(size_t size)
{
    void *block = NULL;

    if (size <= KEPT_BYTES) {
        size_t class = class_of(size);
        block = spare_take(class);
        if (block == NULL)
            block = fresh_take(class);
    }
    return block != NULL ? block : __libc_malloc(size);
}

void free(void *pointer)
{
    struct block *block = pointer;
    size_t class;

    if (!is_kept(pointer)) {
        __libc_free(pointer);
        return;
    }
    class = kept_class(pointer);
    block->next = arena.spare[class];
    arena.spare[class] = block;
}

void *calloc(size_t count, size_t size)
{
    size_t bytes, class;
    void *block;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > KEPT_BYTES)
        return __libc_calloc(count, size);
    class = class_of(bytes);
    block = spare_take(class);
    if (block != NULL)
        return memset(block, 0, bytes); /* of malloc and memset the compiler would make calloc */
    block = fresh_take(class);
    return block == NULL ? __libc_calloc(count, size) : block;
}

void *realloc(void *pointer, size_t size)
{
    size_t held;
    void *block;

    if (pointer == NULL)
        return malloc(size);
    if (!is_kept(pointer))
        return __libc_realloc(pointer, size);
    held = class_bytes(kept_class(pointer));
    if (size <= held && size > 0)
        return pointer;
    block = malloc(size);
    if (block != NULL) {
        memcpy(block, pointer, held < size ? held : size);
        free(pointer);
    }
    return block;
}

#endif
