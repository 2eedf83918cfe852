/* A bounded number of threads. See pool.h. */
#include "src/dest/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "src/base/check.h"

/* One pool_run(). The lock covers what is below it. */
struct run {
    pool_item_fn *item;
    void *context;
    struct pool *pool;
    size_t count;
    pthread_mutex_t lock;
    size_t next;
    bool failed;
    size_t failed_item;
    struct err why;
};

/* As the scheduler would place them: a job's cgroup or taskset may leave fewer than there are. */
unsigned pool_processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

    return count < 1 ? 1 : count > POOL_THREADS_MAX ? POOL_THREADS_MAX : (unsigned)count;
}

/* One hashes while another one waits for storage. */
static unsigned default_threads(void)
{
    unsigned processors = pool_processors();

    return 2 * processors > POOL_THREADS_MAX ? POOL_THREADS_MAX : 2 * processors;
}

void pool_init(struct pool *pool, unsigned threads, uint64_t rate_bytes_per_s)
{
    CHECK(threads <= POOL_THREADS_MAX);
    pool->threads = threads == 0 ? default_threads() : threads;
    pace_init(&pool->pace, rate_bytes_per_s);
}

void pool_close(struct pool *pool)
{
    pace_close(&pool->pace);
}

/* Items are taken in their order, so that files that follow each other are at work together. */
static bool run_take(struct run *run, size_t *ret_item)
{
    bool taken;

    CHECK(pthread_mutex_lock(&run->lock) == 0);
    taken = !run->failed && run->next < run->count;
    if (taken)
        *ret_item = run->next++;
    CHECK(pthread_mutex_unlock(&run->lock) == 0);
    return taken;
}

static void run_fail(struct run *run, size_t item, const struct err *why)
{
    CHECK(pthread_mutex_lock(&run->lock) == 0);
    if (!run->failed || item < run->failed_item) {
        run->failed = true;
        run->failed_item = item;
        run->why = *why;
    }
    CHECK(pthread_mutex_unlock(&run->lock) == 0);
}

/* What each thread does, the caller's among them. */
static void *run_items(void *data)
{
    struct run *run = data;
    struct copier copier;
    size_t item;

    copier_init(&copier, &run->pool->pace);
    while (run_take(run, &item)) {
        struct err why = {0};
        if (run->item(run->context, item, &copier, &why) != 0)
            run_fail(run, item, &why);
    }
    copier_close(&copier);
    return NULL;
}

/* A thread that cannot be made is done without. */
int pool_run(struct pool *pool, size_t count, pool_item_fn *item, void *context, struct err *err)
{
    struct run run = {.item = item, .context = context, .pool = pool, .count = count};
    pthread_t threads[POOL_THREADS_MAX];
    unsigned started = 0;

    CHECK(pool->threads >= 1 && pool->threads <= POOL_THREADS_MAX);
    CHECK(pthread_mutex_init(&run.lock, NULL) == 0);
    while (started + 1 < pool->threads && started + 1 < count &&
           pthread_create(&threads[started], NULL, run_items, &run) == 0)
        started++;
    (void)run_items(&run);
    for (unsigned i = 0; i < started; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(pthread_mutex_destroy(&run.lock) == 0);
    return run.failed ? err_set(err, run.why.code, "%s", run.why.text) : 0;
}
