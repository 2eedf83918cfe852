/* malloc(3) for one thread: small blocks from lists of their size, without a look around; the simulator does little else than allocate.
 *
 * Flow     a block of at most SMALL_BYTES comes from a span of its class, and goes back to the front of its class's list; everything
 *          larger is glibc's. Whose a block is says its address.
 * Shapes   spans of 64 KiB in one reserved stretch of addresses; what a class once had it keeps.
 * Absent   threads, and builds with sanitizers: they want their own.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { UNIT_BYTES = 16, SMALL_BYTES = 1024, CLASSES = SMALL_BYTES / UNIT_BYTES + 1 };
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
    } fresh[CLASSES]; /* of the class's last span: never given out */
    uint8_t class_of_span[ARENA_BYTES / SPAN_BYTES];
} arena;

static size_t class_of(size_t size)
{
    return size == 0 ? 1 : (size + UNIT_BYTES - 1) / UNIT_BYTES;
}

static bool is_small(const void *pointer)
{
    return (uintptr_t)pointer - (uintptr_t)arena.begin < ARENA_BYTES && arena.begin != NULL;
}

static size_t small_bytes(const void *pointer)
{
    size_t span = (size_t)((const uint8_t *)pointer - arena.begin) / SPAN_BYTES;

    return (size_t)arena.class_of_span[span] * UNIT_BYTES;
}

/* One block of a new span. NULL: no addresses are left. */
static void *span_new(size_t class)
{
    uint8_t *span;

    if (arena.begin == NULL) {
        void *begin = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (begin == MAP_FAILED)
            return NULL;
        arena.begin = arena.next = begin;
    }
    if (arena.next == arena.begin + ARENA_BYTES)
        return NULL;
    span = arena.next;
    arena.next += SPAN_BYTES;
    arena.class_of_span[(size_t)(span - arena.begin) / SPAN_BYTES] = (uint8_t) class;
    arena.fresh[class].at = span + class * UNIT_BYTES;
    arena.fresh[class].end = span + SPAN_BYTES - SPAN_BYTES % (class * UNIT_BYTES);
    return span;
}

static void *small_take(size_t class)
{
    struct block *block = arena.spare[class];

    if (block != NULL) {
        arena.spare[class] = block->next;
        return block;
    }
    if (arena.fresh[class].at < arena.fresh[class].end) {
        void *at = arena.fresh[class].at;
        arena.fresh[class].at += class * UNIT_BYTES;
        return at;
    }
    return span_new(class);
}

void *malloc(size_t size)
{
    void *block = size <= SMALL_BYTES ? small_take(class_of(size)) : NULL;

    return block != NULL ? block : __libc_malloc(size);
}

void free(void *pointer)
{
    struct block *block = pointer;
    size_t class;

    if (!is_small(pointer)) {
        __libc_free(pointer);
        return;
    }
    class = small_bytes(pointer) / UNIT_BYTES;
    block->next = arena.spare[class];
    arena.spare[class] = block;
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;
    void *block;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SMALL_BYTES)
        return __libc_calloc(count, size);
    block = small_take(class_of(bytes)); /* of malloc and memset the compiler would make calloc */
    return block == NULL ? __libc_calloc(count, size) : memset(block, 0, bytes);
}

void *realloc(void *pointer, size_t size)
{
    size_t held;
    void *block;

    if (pointer == NULL)
        return malloc(size);
    if (!is_small(pointer))
        return __libc_realloc(pointer, size);
    held = small_bytes(pointer);
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
