/* CHECK: an assertion that stays on in release builds.
 *
 * Flow     a failed CHECK is a bug: it prints file, line and condition, runs the hook that a
 *          program may have set (flight recorder), and aborts. The supervisor restarts the program;
 *          Raft catches the member up.
 * Errors   input from outside is validated with struct err or an outcome, never with CHECK.
 * Absent   no macro here returns or jumps.
 */
#ifndef CKPT_BASE_CHECK_H
#define CKPT_BASE_CHECK_H

#include <stddef.h>
#include <stdint.h>

#define CHECK(condition)                                                                           \
    (__builtin_expect(!!(condition), 1) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

/* For branches that cannot be reached when the code is right, e.g. after a switch over all values
 * of an enum. */
#define CHECK_UNREACHABLE(what) check_failed(__FILE__, __LINE__, "unreachable: " what)

__attribute__((noreturn, cold)) void check_failed(const char *file, int line,
                                                  const char *condition);

/* Called once before abort(); must not allocate. NULL clears it. */
void check_set_hook(void (*hook)(void));

/* malloc, calloc, realloc, strdup that never return NULL: running out of memory stops the program
 * with a message, because a member that cannot allocate is restarted by its supervisor and catches
 * up. Sizes are checked for overflow. */
void *check_alloc(size_t size);
void *check_calloc(size_t count, size_t size);
void *check_realloc(void *pointer, size_t count, size_t size);
char *check_strdup(const char *text);

/* Of an array, never of a pointer. */
#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
