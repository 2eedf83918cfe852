/* See sim_worker.h. */
#include "tests/sim/sim_worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/list.h"
#include "tests/sim/sim_uv.h"

enum { UNKILLABLE_AFTER_US = 1000000 };

struct worker {
    struct list node;
    struct sim *sim;
    unsigned owner;
    uint64_t epoch; /* of the owner: a crash ends what its daemon knows of it */
    char *arguments[WORKER_ARGUMENTS_MAX + 1];
    worker_done_fn *done; /* NULL: told already */
    void *data;
    uint64_t started_us;
    uint64_t id;
    bool hangs;
    bool over;  /* told, or its daemon is gone */
    bool ended; /* the process is gone */
    bool timed_out, cancelled;
    unsigned events; /* that point here */
};

/* One world at a time per process. */
static struct {
    struct sim *sim;
    const struct sim_work_ops *ops;
    struct list workers;
    uint64_t id_last;
} all;

static void worker_free(struct worker *worker)
{
    list_remove(&worker->node);
    for (size_t i = 0; worker->arguments[i] != NULL; i++)
        free(worker->arguments[i]);
    free(worker);
}

/* Of a world that is over. */
static void workers_forget(void)
{
    while (!list_empty(&all.workers))
        worker_free(LIST_ITEM(all.workers.next, struct worker, node));
}

void sim_worker_set_ops(struct sim *sim, const struct sim_work_ops *ops)
{
    if (all.sim != NULL)
        workers_forget();
    all.sim = sim;
    all.ops = ops;
    list_init(&all.workers);
}

const char *sim_work_argument(const struct sim_work *work, const char *name)
{
    for (size_t i = 0; work->arguments[i] != NULL; i++)
        if (strcmp(work->arguments[i], name) == 0)
            return work->arguments[i + 1];
    return NULL;
}

static struct sim_work work_of(struct worker *worker)
{
    return (struct sim_work){worker->owner, (const char *const *)worker->arguments};
}

static void worker_release(struct worker *worker)
{
    if (!worker->ended || worker->events > 0)
        return;
    worker_free(worker);
}

static bool daemon_lives(const struct worker *worker)
{
    return sim_node_epoch(worker->sim, worker->owner) == worker->epoch;
}

static void worker_tell(struct worker *worker, struct worker_result *result)
{
    worker_done_fn *done = worker->done;
    unsigned before;

    if (worker->over)
        return;
    worker->over = true;
    if (!daemon_lives(worker))
        return;
    result->duration_ms = (sim_now_us(worker->sim) - worker->started_us) / 1000;
    before = sim_enter(worker->sim, worker->owner);
    done(worker->data, result);
    sim_leave(worker->sim, before);
}

static void worker_schedule(struct worker *worker, uint64_t delay_us, void (*fire)(void *))
{
    worker->events++;
    (void)sim_schedule(worker->sim, SIM_NODES_MAX, delay_us, fire, worker);
}

/* SIGKILL waits while the kernel holds a worker, and the call that hung may still have its effect.
 * A restore hangs where it reads, at the destination: it writes nothing here any more. */
static bool dies_without_effect(const struct worker *worker)
{
    return (worker->cancelled || worker->timed_out) && strcmp(worker->arguments[0], "restore") == 0;
}

/* It has run to its end. A killed one may have had its effect before. */
static void worker_ends(void *data)
{
    struct worker *worker = data;
    struct sim_work work = work_of(worker);
    struct sim_work_end end = {.exit_code = WORKER_EXIT_OK};
    struct worker_result result = {.output = end.output};
    uint64_t wait = daemon_lives(worker) ? sim_pause_left_us(worker->sim, worker->owner) : 0;

    worker->events--;
    if (worker->ended) {
        worker_release(worker);
        return;
    }
    if (wait > 0) {
        worker_schedule(worker, wait, worker_ends);
        return;
    }
    worker->ended = true;
    if (dies_without_effect(worker)) {
        worker_tell(worker, &(struct worker_result){.exit_code = -1,
                                                    .timed_out = worker->timed_out,
                                                    .cancelled = worker->cancelled,
                                                    .output = ""});
    } else if (daemon_lives(worker) || sim_chance(worker->sim, 2)) { /* it hung in the kernel */
        all.ops->end(all.ops->context, &work, &end);
        result.exit_code = end.exit_code;
        snprintf(result.error, sizeof(result.error), "%s", end.error);
        worker_tell(worker, &result);
    }
    worker_release(worker);
}

static void worker_killed(void *data)
{
    struct worker *worker = data;
    struct worker_result result = {.exit_code = -1,
                                   .timed_out = worker->timed_out,
                                   .cancelled = worker->cancelled,
                                   .unkillable = worker->hangs,
                                   .hang_id = worker->hangs ? worker->id : 0,
                                   .output = ""};

    worker->events--;
    if (!worker->ended && !worker->over) {
        snprintf(result.error, sizeof(result.error), "%s",
                 worker->hangs ? "hangs in the kernel" : "killed");
        if (!worker->hangs)
            worker->ended = true;
        worker_tell(worker, &result);
    }
    worker_release(worker);
}

static void worker_kill(struct worker *worker)
{
    worker_schedule(worker, worker->hangs ? UNKILLABLE_AFTER_US : 100, worker_killed);
}

static void worker_deadline(void *data)
{
    struct worker *worker = data;

    worker->events--;
    if (!worker->ended && !worker->cancelled && !worker->over) {
        worker->timed_out = true;
        worker_kill(worker);
        return;
    }
    worker_release(worker);
}

void sim_worker_release(struct sim *sim)
{
    CHECK(sim == all.sim);
    for (struct list *at = all.workers.next; at != &all.workers; at = at->next) {
        struct worker *worker = LIST_ITEM(at, struct worker, node);
        if (worker->hangs && !worker->ended) {
            worker->hangs = false;
            worker_schedule(worker, 1000, worker_ends);
        }
    }
}

/* It dies with its daemon (PR_SET_PDEATHSIG): had it its effect by then? What comes later is not
 * touched by it any more. */
static void worker_dies(struct worker *worker)
{
    struct sim_work work = work_of(worker);
    struct sim_work_end ignored = {.exit_code = WORKER_EXIT_OK};

    worker->ended = true;
    if (sim_chance(worker->sim, 2))
        all.ops->end(all.ops->context, &work, &ignored);
}

void sim_worker_crash(struct sim *sim, unsigned node)
{
    const struct worker_result result = {.exit_code = -1, .cancelled = true, .output = ""};

    CHECK(sim == all.sim);
    for (struct list *at = all.workers.next; at != &all.workers; at = at->next) {
        struct worker *worker = LIST_ITEM(at, struct worker, node);
        if (worker->owner != node || worker->over || !daemon_lives(worker))
            continue;
        worker->over = true;
        worker->done(worker->data, &result);
        if (!worker->hangs && !worker->ended)
            worker_dies(worker);
    }
}

/* ---- src/dest/worker.h ---- */

void worker_set_program(const char *path)
{
    (void)path;
}

int worker_start(uv_loop_t *loop, const struct worker_task *task, struct worker **ret_worker,
                 struct err *err)
{
    struct sim_loop *own = sim_loop_of(loop);
    struct worker *worker = check_calloc(1, sizeof(*worker));
    struct sim_work work;
    int64_t us;

    (void)err;
    CHECK(own->sim == all.sim);
    worker->sim = own->sim;
    worker->owner = own->node;
    worker->epoch = sim_node_epoch(own->sim, own->node);
    worker->done = task->done;
    worker->data = task->data;
    worker->started_us = sim_now_us(own->sim);
    for (size_t i = 0; task->arguments[i] != NULL; i++) {
        CHECK(i < WORKER_ARGUMENTS_MAX);
        worker->arguments[i] = check_strdup(task->arguments[i]);
    }
    worker->id = ++all.id_last;
    list_push_back(&all.workers, &worker->node);
    work = work_of(worker);
    us = all.ops->begin(all.ops->context, &work);
    worker->hangs = us < 0;
    if (!worker->hangs)
        worker_schedule(worker, (uint64_t)us, worker_ends);
    worker_schedule(worker, task->deadline_ms * 1000, worker_deadline);
    *ret_worker = worker;
    return 0;
}

void worker_cancel(struct worker *worker)
{
    if (worker->ended || worker->cancelled)
        return;
    worker->cancelled = true;
    worker_kill(worker);
}

bool worker_hangs(uint64_t hang_id)
{
    for (struct list *at = all.workers.next; at != &all.workers; at = at->next) {
        const struct worker *worker = LIST_ITEM(at, struct worker, node);
        if (worker->id == hang_id)
            return !worker->ended && daemon_lives(worker);
    }
    return false;
}

int worker_output_get(const char *output, const char *key, char *ret_value, size_t size)
{
    size_t key_length = strlen(key);

    for (const char *line = output; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, key, key_length) == 0 && line[key_length] == '=') {
            if (length - key_length - 1 >= size)
                return -1;
            memcpy(ret_value, line + key_length + 1, length - key_length - 1);
            ret_value[length - key_length - 1] = '\0';
            return 0;
        }
        line += length + (line[length] == '\n');
    }
    return -1;
}
