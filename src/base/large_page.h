/* Large pages of memory, which the processor finds with fewer steps: for what is looked up in no
 * order among a million.
 *
 * Flow     a large page begins as small ones; large_page_filled() hands a full one to a thread that
 *          asks the system to make it one page (MADV_COLLAPSE, Linux 6.1), one after the other with
 *          rests between. Asked for at the beginning, the system would clear, and perhaps first
 *          make room for, the whole page in the middle of the caller's work: where a host gives
 *          fresh memory slowly, that made registrations a fifth slower.
 * Shapes   at most LARGE_PAGES_WAITING wait for the thread; those beyond, and all of a system that
 *          cannot, are left to Linux' own thread, which takes minutes to an hour. The thread begins
 *          with the first large page that is full and lives as long as the program.
 * Units    bytes.
 * Errors   none: advice changes no byte. What is freed while it waits is advised in vain.
 *          An array that is made at once (large_pages_zeroed(): tables of map.h) is asked for in
 *          large pages at the beginning: it is a thirtieth of what it leads to, is touched in no
 *          order from its first use on, and as small pages would be faulted in one by one.
 */
#ifndef CKPT_BASE_LARGE_PAGE_H
#define CKPT_BASE_LARGE_PAGE_H

#include <stddef.h>

enum { LARGE_PAGE_BYTES = 1 << 21, LARGE_PAGES_WAITING = 4096 };

/* Undefined bytes, on a boundary of LARGE_PAGE_BYTES; free() gives it back. */
void *large_page_alloc(void);
/* Of large_page_alloc(), when all of it is in use. From one thread at a time. Never waits. */
void large_page_filled(void *page);

/* Zeros, on a boundary of LARGE_PAGE_BYTES, which become memory as they are touched: for arrays of
 * several large pages. Never NULL: running out of memory stops the program. */
void *large_pages_zeroed(size_t bytes);
/* Of large_pages_zeroed(), of as many bytes. */
void large_pages_free(void *pages, size_t bytes);

#endif
