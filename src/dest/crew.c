/* Threads beside a loop. See crew.h. */
#include "src/dest/crew.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "src/dest/pool.h"

/* The lock covers what is below it. */
struct crew {
    crew_wake_fn *wake;
    void *data;
    pthread_t threads[POOL_THREADS_MAX];
    unsigned thread_count;
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct list waiting, done;
    bool ends;
};

/* The first of a list; NULL: it is empty. */
static struct crew_task *take_first(struct list *head)
{
    struct crew_task *task;

    if (list_empty(head))
        return NULL;
    task = LIST_ITEM(head->next, struct crew_task, node);
    list_remove(&task->node);
    return task;
}

/* NULL: the crew ends. */
static struct crew_task *wait_task(struct crew *crew)
{
    struct crew_task *task;

    CHECK(pthread_mutex_lock(&crew->lock) == 0);
    while ((task = take_first(&crew->waiting)) == NULL && !crew->ends)
        CHECK(pthread_cond_wait(&crew->given, &crew->lock) == 0);
    CHECK(pthread_mutex_unlock(&crew->lock) == 0);
    return task;
}

static void do_task(struct crew *crew, struct crew_task *task)
{
    task->work(task);
    CHECK(pthread_mutex_lock(&crew->lock) == 0);
    list_push_back(&crew->done, &task->node);
    CHECK(pthread_mutex_unlock(&crew->lock) == 0);
    crew->wake(crew->data);
}

static void *run_thread(void *data)
{
    struct crew *crew = data;
    struct crew_task *task;

    while ((task = wait_task(crew)) != NULL)
        do_task(crew, task);
    return NULL;
}

struct crew *crew_open(unsigned threads, crew_wake_fn *wake, void *data)
{
    struct crew *crew = check_calloc(1, sizeof(*crew));

    CHECK(threads <= POOL_THREADS_MAX);
    crew->wake = wake;
    crew->data = data;
    list_init(&crew->waiting);
    list_init(&crew->done);
    CHECK(pthread_mutex_init(&crew->lock, NULL) == 0);
    CHECK(pthread_cond_init(&crew->given, NULL) == 0);
    if (threads == 0)
        threads = pool_processors();
    while (crew->thread_count < threads &&
           pthread_create(&crew->threads[crew->thread_count], NULL, run_thread, crew) == 0)
        crew->thread_count++;
    return crew;
}

void crew_close(struct crew *crew)
{
    if (crew == NULL)
        return;
    CHECK(pthread_mutex_lock(&crew->lock) == 0);
    CHECK(list_empty(&crew->waiting));
    crew->ends = true;
    CHECK(pthread_cond_broadcast(&crew->given) == 0);
    CHECK(pthread_mutex_unlock(&crew->lock) == 0);
    for (unsigned i = 0; i < crew->thread_count; i++)
        CHECK(pthread_join(crew->threads[i], NULL) == 0);
    CHECK(list_empty(&crew->done));
    CHECK(pthread_cond_destroy(&crew->given) == 0);
    CHECK(pthread_mutex_destroy(&crew->lock) == 0);
    free(crew);
}

void crew_give(struct crew *crew, struct crew_task *task, crew_fn *work, crew_fn *done)
{
    task->work = work;
    task->done = done;
    if (crew->thread_count == 0) {
        do_task(crew, task);
        return;
    }
    CHECK(pthread_mutex_lock(&crew->lock) == 0);
    list_push_back(&crew->waiting, &task->node);
    CHECK(pthread_cond_signal(&crew->given) == 0);
    CHECK(pthread_mutex_unlock(&crew->lock) == 0);
}

void crew_reap(struct crew *crew)
{
    struct crew_task *task;

    do {
        CHECK(pthread_mutex_lock(&crew->lock) == 0);
        task = take_first(&crew->done);
        CHECK(pthread_mutex_unlock(&crew->lock) == 0);
        if (task != NULL)
            task->done(task);
    } while (task != NULL);
}
