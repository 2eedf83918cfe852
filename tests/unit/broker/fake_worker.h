/* The worker processes of a part of the broker, without processes: the test says how each ends.
 *
 * Flow     fake_worker_begin(); what is tested starts one -> `worker` has its arguments;
 *          end_worker_with() ends it.
 * Shapes   one at a time, each with that deadline.
 */
#ifndef CKPT_TESTS_UNIT_BROKER_FAKE_WORKER_H
#define CKPT_TESTS_UNIT_BROKER_FAKE_WORKER_H

#include "src/dest/worker.h"
#include "tests/unit/broker/fake_replica.h"

struct worker {
    worker_done_fn *done;
    void *data;
    bool running, cancelled;
    char arguments[1024];
};
static struct worker worker;
static int started_count;
static uint64_t hanging; /* that a worker which could not be killed has; 0: none is there */
static uint64_t fake_worker_deadline_ms;

static void fake_worker_begin(uint64_t deadline_ms)
{
    worker = (struct worker){0};
    started_count = 0;
    hanging = 0;
    fake_worker_deadline_ms = deadline_ms;
}

int worker_start(uv_loop_t *loop, const struct worker_task *task, struct worker **ret_worker,
                 struct err *err)
{
    (void)loop;
    (void)err;
    assert_uint_equal(task->deadline_ms, fake_worker_deadline_ms);
    assert_false(worker.running); /* one at a time */
    worker = (struct worker){.done = task->done, .data = task->data, .running = true};
    for (int i = 0; task->arguments[i] != NULL; i++) {
        strcat(worker.arguments, task->arguments[i]);
        strcat(worker.arguments, " ");
    }
    started_count++;
    *ret_worker = &worker;
    return 0;
}

bool worker_hangs(uint64_t hang_id)
{
    return hang_id != 0 && hang_id == hanging;
}

void worker_cancel(struct worker *cancelled)
{
    cancelled->cancelled = true;
}

static void end_worker_with(struct fake *fake, struct worker_result result)
{
    result.cancelled = worker.cancelled;
    result.output = result.output == NULL ? "" : result.output;
    assert_true(worker.running);
    worker.running = false;
    worker.done(worker.data, &result);
    fake_settle(fake);
}

/* What was cancelled ends after the one who started it has gone. */
static void end_worker_left(void)
{
    if (worker.running)
        worker.done(worker.data, &(struct worker_result){.cancelled = true, .output = ""});
    worker.running = false;
}

#endif
