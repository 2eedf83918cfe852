/* Large pages of memory. The processor finds them with fewer steps: they hold a million records
 * that are looked up in no order.
 *
 * Flow     a large page begins as small ones; large_page_filled() hands a full one to a thread that
 *          asks the system to make it one page (MADV_COLLAPSE, Linux 6.1), one after the other with
 *          rests between. If a page were asked for as a large one from the beginning, the system
 *          would clear all of it, and perhaps first make room, in the middle of the caller's work.
 *          On a host that gives fresh memory slowly this made registrations a fifth slower.
 * Shapes   at most LARGE_PAGES_WAITING wait for the thread; further ones, and all on a system
 *          without MADV_COLLAPSE, are left to Linux' own thread, which takes minutes to an hour.
 *          The thread begins with the first large page that is full and lives as long as the
 *          program.
 * Units    bytes.
 * Errors   none: advice changes no byte. The advice for a page that is freed while it waits does
 *          nothing. An array of several pages (large_pages_zeroed(): tables of map.h) is asked for
 *          in large pages from the beginning. It is a thirtieth of the records that it leads to,
 *          and is touched in no order from its first use on: small pages would be faulted in one by
 *          one.
 */
#ifndef CKPT_BASE_LARGE_PAGE_H
#define CKPT_BASE_LARGE_PAGE_H

#include <stddef.h>

enum { LARGE_PAGE_BYTES = 1 << 21, LARGE_PAGES_WAITING = 4096 };

/* Undefined bytes, on a boundary of LARGE_PAGE_BYTES; free() gives it back. */
void *large_page_alloc(void);
/* For a page of large_page_alloc(), when all of it is in use. From one thread at a time. Never
 * waits. */
void large_page_filled(void *page);

/* Zeros on a boundary of LARGE_PAGE_BYTES, for arrays of several large pages. They become memory as
 * they are touched. Never NULL: running out of memory stops the program. */
void *large_pages_zeroed(size_t bytes);
/* Frees pages of large_pages_zeroed(), with the same count of bytes. */
void large_pages_free(void *pages, size_t bytes);

#endif
