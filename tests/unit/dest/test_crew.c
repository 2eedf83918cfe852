/* Threads beside a loop: every task comes back to it once. */
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/dest/crew.h"
#include "src/dest/pool.h"
#include "tests/support/test.h"

enum { TASKS = 1000 };

/* What the tasks of a test leave. */
struct loop {
    pthread_t thread;
    struct crew *crew;
    int wakes; /* eventfd */
    unsigned done;
};

struct job {
    struct crew_task task;
    struct loop *loop;
    unsigned worked, came_back;
    bool gives_another;
};

static void wake(void *data)
{
    struct loop *loop = data;
    const uint64_t one = 1;

    assert_int_equal(write(loop->wakes, &one, sizeof(one)), sizeof(one));
}

static void work(struct crew_task *task)
{
    struct job *job = LIST_ITEM(task, struct job, task);

    usleep(20);
    job->worked++;
}

static void done(struct crew_task *task)
{
    struct job *job = LIST_ITEM(task, struct job, task);

    assert_true(pthread_equal(pthread_self(), job->loop->thread));
    job->came_back++;
    assert_uint_equal(job->worked, job->came_back);
    job->loop->done++;
    if (job->gives_another) {
        job->gives_another = false;
        crew_give(job->loop->crew, &job->task, work, done);
    }
}

/* Waits for nothing but the wake: one that did not come is a failure. */
static void wait_for(struct loop *loop, unsigned count)
{
    struct pollfd wakes = {loop->wakes, POLLIN, 0};
    uint64_t times;

    crew_reap(loop->crew);
    while (loop->done < count) {
        assert_int_equal(poll(&wakes, 1, 10000), 1);
        assert_int_equal(read(loop->wakes, &times, sizeof(times)), sizeof(times));
        crew_reap(loop->crew);
    }
}

static void every_task_is_worked_at_and_comes_back_to_the_loop(void **state)
{
    static const unsigned threads[] = {0, 1, POOL_THREADS_MAX};
    static struct job jobs[TASKS];

    (void)state;
    for (size_t k = 0; k < sizeof(threads) / sizeof(threads[0]); k++) {
        struct loop loop = {.thread = pthread_self(), .wakes = eventfd(0, EFD_CLOEXEC)};

        loop.crew = crew_open(threads[k], wake, &loop);
        for (size_t i = 0; i < TASKS; i++) {
            jobs[i] = (struct job){.loop = &loop, .gives_another = i % 2 == 0};
            crew_give(loop.crew, &jobs[i].task, work, done);
        }
        wait_for(&loop, TASKS + TASKS / 2);
        for (size_t i = 0; i < TASKS; i++)
            assert_uint_equal(jobs[i].came_back, i % 2 == 0 ? 2 : 1);
        crew_close(loop.crew);
        close(loop.wakes);
    }
    crew_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_is_worked_at_and_comes_back_to_the_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
