/* Large pages of memory. See large_page.h. */
#include "src/base/large_page.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "src/base/check.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* of Linux 6.1; the C library's headers are older */
#endif

/* Each takes some 0.3 ms, of which the program's own faults wait a part. */
enum { REST_MS = 2 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    void *pages[LARGE_PAGES_WAITING]; /* a ring */
    size_t first, count;
    enum { THREAD_NOT_TRIED, THREAD_RUNS, THREAD_IMPOSSIBLE } thread;
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

static void *next_page(void)
{
    void *page;

    CHECK(pthread_mutex_lock(&waiting.lock) == 0);
    while (waiting.count == 0)
        CHECK(pthread_cond_wait(&waiting.filled, &waiting.lock) == 0);
    page = waiting.pages[waiting.first];
    waiting.first = (waiting.first + 1) % LARGE_PAGES_WAITING;
    waiting.count--;
    CHECK(pthread_mutex_unlock(&waiting.lock) == 0);
    return page;
}

/* One that fails, for lack of memory in one piece, is left to the system's own thread. */
static void *collapse_pages(void *unused)
{
    const struct timespec rest = {0, REST_MS * 1000000};

    for (;;) {
        (void)madvise(next_page(), LARGE_PAGE_BYTES, MADV_COLLAPSE);
        (void)nanosleep(&rest, NULL);
    }
    return unused;
}

/* Signals are the loop's. */
static bool thread_begin(void)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    bool began;

    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    began = pthread_create(&thread, &attributes, collapse_pages, NULL) == 0;
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    CHECK(pthread_attr_destroy(&attributes) == 0);
    return began;
}

void *large_page_alloc(void)
{
    void *page = aligned_alloc(LARGE_PAGE_BYTES, LARGE_PAGE_BYTES);

    CHECK(page != NULL);
    return page;
}

void large_page_filled(void *page)
{
    CHECK((uintptr_t)page % LARGE_PAGE_BYTES == 0);
    (void)madvise(page, LARGE_PAGE_BYTES, MADV_HUGEPAGE); /* a kernel without them refuses */
    if (waiting.thread == THREAD_NOT_TRIED)
        waiting.thread = thread_begin() ? THREAD_RUNS : THREAD_IMPOSSIBLE;
    if (waiting.thread == THREAD_IMPOSSIBLE)
        return;
    CHECK(pthread_mutex_lock(&waiting.lock) == 0);
    if (waiting.count < LARGE_PAGES_WAITING) {
        waiting.pages[(waiting.first + waiting.count) % LARGE_PAGES_WAITING] = page;
        waiting.count++;
        CHECK(pthread_cond_signal(&waiting.filled) == 0);
    }
    CHECK(pthread_mutex_unlock(&waiting.lock) == 0);
}

static size_t bytes_rounded(size_t bytes)
{
    return (bytes + LARGE_PAGE_BYTES - 1) & ~(size_t)(LARGE_PAGE_BYTES - 1);
}

/* The system places a mapping anywhere: one that is larger by a page holds a boundary, and what
 * lies before and behind goes back. */
void *large_pages_zeroed(size_t bytes)
{
    size_t wanted = bytes_rounded(bytes), mapped = wanted + LARGE_PAGE_BYTES, before;
    char *at;

    CHECK(bytes > 0);
    CHECK(mapped > bytes);
    at = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    before = bytes_rounded((uintptr_t)at) - (uintptr_t)at;
    if (before > 0)
        CHECK(munmap(at, before) == 0);
    if (before < LARGE_PAGE_BYTES)
        CHECK(munmap(at + before + wanted, LARGE_PAGE_BYTES - before) == 0);
    (void)madvise(at + before, wanted, MADV_HUGEPAGE); /* a kernel without them refuses */
    return at + before;
}

void large_pages_free(void *pages, size_t bytes)
{
    CHECK((uintptr_t)pages % LARGE_PAGE_BYTES == 0);
    CHECK(munmap(pages, bytes_rounded(bytes)) == 0);
}
