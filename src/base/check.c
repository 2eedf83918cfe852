/* Assertions that stay on, and allocation that does not fail. See check.h. */
#include "src/base/check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_BYTES = 1032 }; /* the largest that glibc caches per thread */

static void (*check_hook)(void);

void check_set_hook(void (*hook)(void))
{
    check_hook = hook;
}

void check_failed(const char *file, int line, const char *condition)
{
    static int entered;

    fprintf(stderr, "event=bug file=%s line=%d condition=\"%s\"\n", file, line, condition);
    fflush(stderr);
    if (!entered && check_hook != NULL) {
        entered = 1;
        check_hook();
    }
    abort();
}

void *check_alloc(size_t size)
{
    void *pointer = malloc(size == 0 ? 1 : size);
    CHECK(pointer != NULL);
    return pointer;
}

/* glibc's calloc (2.36) passes by the cache of small chunks that each thread has, which malloc and
 * free use. */
void *check_calloc(size_t count, size_t size)
{
    size_t bytes;
    void *pointer;

    if (!__builtin_mul_overflow(count, size, &bytes) && bytes <= SMALL_BYTES)
        return memset(check_alloc(bytes), 0, bytes);
    pointer = calloc(count, size);
    CHECK(pointer != NULL);
    return pointer;
}

void *check_realloc(void *pointer, size_t count, size_t size)
{
    void *grown;

    CHECK(size == 0 || count <= SIZE_MAX / size);
    grown = realloc(pointer, count * size == 0 ? 1 : count * size);
    CHECK(grown != NULL);
    return grown;
}

char *check_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(check_alloc(size), text, size);
}
