/* Threads that work beside a loop: what would hold it up (hashing, reading and writing files) is
 * given to them, and comes back to the loop when it is done.
 *
 * Flow     crew_give() from the loop's thread -> a thread calls `work` -> `wake` is called from
 *          that thread -> the loop's thread calls crew_reap(), which calls `done` of all that
 *          ended. Tasks are begun in the order in which they were given, and may end in another.
 * Shapes   a task is a member of what it is about, and the crew's from crew_give() to `done`.
 *          Meanwhile the loop's thread leaves alone what `work` uses.
 * Errors   none of its own: a task keeps what came of it. A thread that cannot be made is done
 *          without; where there is none, crew_give() works itself.
 */
#ifndef CKPT_DEST_CREW_H
#define CKPT_DEST_CREW_H

#include "src/base/list.h"

struct crew;
struct crew_task;

/* `work` runs on any thread, `done` on that of the loop, where it may free the task and give
 * others. */
typedef void crew_fn(struct crew_task *task);
/* Called by any thread between crew_open() and crew_close(). */
typedef void crew_wake_fn(void *data);

struct crew_task {
    struct list node;
    crew_fn *work, *done;
};

/* threads 0: pool_processors(); at most POOL_THREADS_MAX. */
struct crew *crew_open(unsigned threads, crew_wake_fn *wake, void *data);
/* When nothing is left that was given and not reaped. NULL is allowed. */
void crew_close(struct crew *crew);
void crew_give(struct crew *crew, struct crew_task *task, crew_fn *work, crew_fn *done);
/* Never waits. */
void crew_reap(struct crew *crew);

#endif
