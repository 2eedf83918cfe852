/* Tasks of ckpt-worker and their deadlines, on a libuv loop. See worker.h. (Links libuv, as the
 * other files of these names do; nothing else of this layer does.)
 *
 * Flow     start: a process (worker_process.h) with two pipes -> its answer or its exit, and both
 *          pipes at their end -> done. Deadline or cancel -> SIGKILL to its group -> no exit within
 *          a second -> done with `unkillable`; the worker stays until the kernel lets the process
 *          go, then everything is freed.
 *          A pipe is still open (held by a stray grandchild): what is there is taken, the pipes are
 *          closed, and the process does no other task.
 * Shapes   one heap object per task with three handles (timer, two pipes), freed when the last one
 *          is closed.
 */
#include "src/dest/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/list.h"
#include "src/dest/destination.h"
#include "src/dest/tasks.h"
#include "src/dest/worker_process.h"
#include "src/dest/worker_serve.h"

enum { WORKER_KILL_WAIT_MS = 1000, WORKER_DRAIN_MS = 200, WORKER_ERRORS_MAX_BYTES = 4096 };

/*  RUNNING ──deadline, cancel──► KILLED ──no exit──► UNKILLABLE (done was called)
 *     └──── answer or exit ────────┴─► DRAINING ──both pipes ended, or time──► closed */
enum worker_state { WORKER_RUNNING, WORKER_KILLED, WORKER_UNKILLABLE, WORKER_DRAINING };

struct worker_pipe {
    uv_pipe_t handle;
    struct buf text;
    size_t max_bytes;
    bool ended;
};

struct worker {
    struct list node; /* in hanging, when unkillable */
    enum worker_state state;
    struct process *process; /* NULL: it has ended, or there was none */
    uv_timer_t timer;
    struct worker_pipe out;
    struct worker_pipe errors;
    int held[2]; /* the pipes' other ends, as long as a process may refuse the task; -1 */
    struct serving *serving; /* NULL: its kind of destination needs none */
    char *argv[WORKER_ARGUMENTS_MAX + 2];
    char *user, *claim; /* of its process_scope */
    unsigned open_handles;
    uint64_t started_ms;
    struct worker_result result;
    worker_done_fn *done;
    void *data;
};

static const char worker_name[] = "ckpt-worker";
static char program_path[PATH_MAX];
static size_t active_count;
static struct list hanging = {&hanging, &hanging};
static uint64_t hang_id_last;

void worker_set_program(const char *path)
{
    int length = snprintf(program_path, sizeof(program_path), "%s", path);

    CHECK(length >= 0 && (size_t)length < sizeof(program_path));
}

size_t worker_active(void)
{
    return active_count;
}

bool worker_hangs(uint64_t hang_id)
{
    for (struct list *node = hanging.next; node != &hanging; node = node->next) {
        if (LIST_ITEM(node, struct worker, node)->result.hang_id == hang_id)
            return true;
    }
    return false;
}

/* Beside the running program. */
static int find_program(const char *name, char ret_path[PATH_MAX], struct err *err)
{
    char self[PATH_MAX];
    size_t size = sizeof(self);
    char *slash;

    if (program_path[0] != '\0') {
        snprintf(ret_path, PATH_MAX, "%s", program_path);
        return 0;
    }
    if (uv_exepath(self, &size) != 0 || (slash = strrchr(self, '/')) == NULL)
        return err_set(err, ERR_IO, "the running program's folder is unknown; is /proc mounted?");
    *slash = '\0';
    if (snprintf(ret_path, PATH_MAX, "%s/%s", self, name) >= PATH_MAX)
        return err_set(err, ERR_IO, "the path of %s is too long", name);
    return 0;
}

int worker_program(char ret_path[PATH_MAX], struct err *err)
{
    return find_program(worker_name, ret_path, err);
}

/* ---- the end ---- */

static void handle_closed(uv_handle_t *handle)
{
    struct worker *worker = handle->data;

    CHECK(worker->open_handles > 0);
    if (--worker->open_handles > 0)
        return;
    buf_close(&worker->out.text);
    buf_close(&worker->errors.text);
    for (size_t i = 0; worker->argv[i] != NULL; i++)
        free(worker->argv[i]);
    free(worker->user);
    free(worker->claim);
    free(worker);
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, handle_closed);
}

static void let_go_of_pipes(struct worker *worker)
{
    for (size_t i = 0; i < ARRAY_COUNT(worker->held); i++) {
        if (worker->held[i] >= 0)
            close(worker->held[i]);
        worker->held[i] = -1;
    }
}

static void close_all(struct worker *worker)
{
    CHECK(active_count > 0);
    active_count--;
    list_remove(&worker->node);
    close_handle((uv_handle_t *)&worker->out.handle);
    close_handle((uv_handle_t *)&worker->errors.handle);
    close_handle((uv_handle_t *)&worker->timer);
    serving_close(worker->serving);
    worker->serving = NULL;
    let_go_of_pipes(worker);
}

/* One line for people: what was decided here (deadline, cancel) stands above what the worker
 * said. */
static void describe_end(struct worker *worker)
{
    struct worker_result *result = &worker->result;
    const char *line = (const char *)worker->errors.text.bytes;
    size_t length = strcspn(line, "\n");

    if (result->error[0] != '\0')
        return;
    if (length > 0)
        snprintf(result->error, sizeof(result->error), "%.*s", (int)(length > 511 ? 511 : length),
                 line);
    else if (result->exit_code != 0)
        snprintf(result->error, sizeof(result->error),
                 "ckpt-worker ended with status %d and no word", result->exit_code);
}

/* One that did not end says nothing of it. */
static void name_cause(struct worker_result *result)
{
    if (result->timed_out || result->unkillable)
        snprintf(result->cause, sizeof(result->cause), "storage_hangs");
    else if (worker_output_get(result->output, "cause", result->cause, sizeof(result->cause)) != 0)
        result->cause[0] = '\0';
}

/* The one place that calls done. */
static void report_result(struct worker *worker)
{
    worker_done_fn *done = worker->done;

    CHECK(done != NULL);
    worker->done = NULL;
    buf_append(&worker->out.text, "", 1);
    buf_append(&worker->errors.text, "", 1);
    worker->result.output = (const char *)worker->out.text.bytes;
    worker->result.duration_ms = uv_now(worker->timer.loop) - worker->started_ms;
    describe_end(worker);
    name_cause(&worker->result);
    done(worker->data, &worker->result);
}

static bool pipes_ended(const struct worker *worker)
{
    return worker->out.ended && worker->errors.ended;
}

/* A process whose task is done is there for the next one, which done() may start. done() was called
 * already when the worker had been given up as unkillable. */
static void finish_drained(struct worker *worker)
{
    if (worker->process != NULL && pipes_ended(worker))
        process_release(worker->process);
    else if (worker->process != NULL)
        process_drop(worker->process);
    worker->process = NULL;
    if (worker->done != NULL)
        report_result(worker);
    close_all(worker);
}

/* ---- events ---- */

static void pipe_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    static char
        bytes[WORKER_OUTPUT_MAX_BYTES]; /* used up at once by pipe_read, on the one loop thread */

    (void)handle;
    (void)suggested;
    *ret_buf = uv_buf_init(bytes, sizeof(bytes));
}

static void pipe_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct worker *worker = stream->data;
    struct worker_pipe *pipe =
        stream == (uv_stream_t *)&worker->out.handle ? &worker->out : &worker->errors;

    if (got > 0) {
        size_t room = pipe->max_bytes - pipe->text.length;
        buf_append(&pipe->text, buf->base,
                   (size_t)got < room ? (size_t)got : room); /* the rest is dropped */
    } else if (got < 0) {
        pipe->ended = true;
        uv_read_stop(stream);
        if (worker->state == WORKER_DRAINING && pipes_ended(worker))
            finish_drained(worker);
    }
}

static void drain_has_ended(uv_timer_t *timer)
{
    finish_drained(timer->data);
}

/* A loop that is late itself looks at the pipes once more. */
static void drain_timed_out(uv_timer_t *timer)
{
    CHECK(uv_timer_start(timer, drain_has_ended, 1, 0) == 0);
}

/* Printed bytes may still lie in the pipes. */
static void begin_drain(struct worker *worker)
{
    worker->state = WORKER_DRAINING;
    uv_timer_stop(&worker->timer);
    let_go_of_pipes(worker);
    if (pipes_ended(worker))
        finish_drained(worker);
    else
        CHECK(uv_timer_start(&worker->timer, drain_timed_out, WORKER_DRAIN_MS, 0) == 0);
}

static void process_ended(void *data, int status)
{
    struct worker *worker = data;
    struct worker_result *result = &worker->result;

    process_close(worker->process);
    worker->process = NULL;
    if (worker->state == WORKER_DRAINING) /* it had answered */
        return;
    if (worker->state == WORKER_UNKILLABLE) {
        close_all(worker);
        return;
    }
    result->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (WIFSIGNALED(status) && worker->state == WORKER_RUNNING)
        snprintf(result->error, sizeof(result->error), "ckpt-worker was ended by signal %d",
                 WTERMSIG(status));
    begin_drain(worker);
}

static void start_anew(struct worker *worker);

/* Of one that was killed meanwhile the exit counts. */
static void process_answered(void *data, int exit_code)
{
    struct worker *worker = data;

    if (worker->state != WORKER_RUNNING)
        return;
    if (exit_code == TASKS_ANEW && worker->held[0] >= 0) {
        start_anew(worker);
        return;
    }
    worker->result.exit_code = exit_code;
    begin_drain(worker);
}

static const struct process_events events_of_process = {process_answered, process_ended};

/* A process in the D state dies when its system call returns, which on a dead NFS server is never.
 * The daemon goes on without it, and remembers that it is there. */
static void kill_had_no_effect(uv_timer_t *timer)
{
    struct worker *worker = timer->data;

    CHECK(worker->state == WORKER_KILLED);
    worker->state = WORKER_UNKILLABLE;
    worker->result.unkillable = true;
    worker->result.hang_id = ++hang_id_last;
    list_push_back(&hanging, &worker->node);
    worker->result.exit_code = -1;
    snprintf(worker->result.error, sizeof(worker->result.error),
             "ckpt-worker (pid %d) cannot be killed: it hangs in the kernel; check the mount",
             (int)process_pid(worker->process));
    uv_read_stop((uv_stream_t *)&worker->out.handle);
    uv_read_stop((uv_stream_t *)&worker->errors.handle);
    report_result(worker);
}

static void kill_worker(struct worker *worker)
{
    CHECK(worker->state == WORKER_RUNNING);
    worker->state = WORKER_KILLED;
    process_kill(worker->process);
    CHECK(uv_timer_start(&worker->timer, kill_had_no_effect, WORKER_KILL_WAIT_MS, 0) == 0);
}

static void deadline_passed(uv_timer_t *timer)
{
    struct worker *worker = timer->data;

    worker->result.timed_out = true;
    snprintf(
        worker->result.error, sizeof(worker->result.error),
        "ckpt-worker did not end within %llu ms and was killed; the destination hangs or is slow",
        (unsigned long long)(uv_now(timer->loop) - worker->started_ms));
    kill_worker(worker);
}

void worker_cancel(struct worker *worker)
{
    if (worker->state != WORKER_RUNNING)
        return;
    worker->result.cancelled = true;
    snprintf(worker->result.error, sizeof(worker->result.error), "cancelled");
    kill_worker(worker);
}

/* ---- the beginning ---- */

static void pipe_init(struct worker *worker, struct worker_pipe *pipe, uv_loop_t *loop,
                      size_t max_bytes)
{
    CHECK(uv_pipe_init(loop, &pipe->handle, 0) == 0);
    pipe->handle.data = worker;
    pipe->max_bytes = max_bytes;
    buf_init(&pipe->text);
    worker->open_handles++;
}

/* 0: no socket. */
static int open_serving(struct worker *worker, uv_loop_t *loop,
                        const struct destination_serve *serve, const char *const *arguments,
                        struct err *err)
{
    int worker_end = 0;

    if (serve == NULL)
        return 0;
    if (serving_open(loop, serve, arguments, &worker->serving, &worker_end, err) != 0)
        return -1;
    return worker_end;
}

static void close_ends(int fds[2])
{
    close(fds[0]);
    close(fds[1]);
}

/* The reading ends become the pipes' own, the others are held. */
static int open_pipes(struct worker *worker)
{
    int status = 0, out[2], errors[2];

    if (pipe2(out, O_CLOEXEC) != 0)
        return -errno;
    if (pipe2(errors, O_CLOEXEC) != 0) {
        status = -errno;
        close_ends(out);
        return status;
    }
    CHECK(uv_pipe_open(&worker->out.handle, out[0]) == 0);
    CHECK(uv_pipe_open(&worker->errors.handle, errors[0]) == 0);
    worker->held[0] = out[1];
    worker->held[1] = errors[1];
    return 0;
}

static struct process_task task_of(struct worker *worker)
{
    return (struct process_task){.argv = worker->argv,
                                 .output_fd = worker->held[0],
                                 .errors_fd = worker->held[1],
                                 .scope = {worker->user, worker->claim},
                                 .events = &events_of_process,
                                 .data = worker};
}

/* A process that was idle may refuse the task, so the pipes are held for the next one. */
static bool take_process(struct worker *worker)
{
    const struct process_task task = task_of(worker);

    worker->process = process_take(&task);
    return worker->process != NULL;
}

/* A negative errno of whatever step failed. socket_fd, if there is one, stays the caller's. */
static int start_process(struct worker *worker, uv_loop_t *loop, int socket_fd,
                         const struct destination_serve *serve)
{
    struct process_task task = task_of(worker);
    int status;

    task.socket_fd = socket_fd;
    task.variable = serve == NULL ? NULL : serve->variable;
    if (serve != NULL)
        task.scope = (struct process_scope){0}; /* its services are one task's */
    status = process_start(loop, &task, &worker->process);
    let_go_of_pipes(worker);
    if (status == 0 && worker->serving != NULL)
        serving_begin(worker->serving);
    return status;
}

/* The one that was idle does nothing any more. */
static void start_anew(struct worker *worker)
{
    int status;

    process_drop(worker->process);
    worker->process = NULL;
    status = start_process(worker, worker->timer.loop, 0, NULL);
    if (status == 0)
        return;
    worker->result.exit_code = -1;
    snprintf(worker->result.error, sizeof(worker->result.error), "start %s: %s", worker->argv[0],
             strerror(-status));
    begin_drain(worker);
}

/* Everything that closing needs is there before anything can fail. */
static struct worker *worker_new(uv_loop_t *loop, const struct worker_task *task,
                                 const char *program)
{
    struct worker *worker = check_calloc(1, sizeof(*worker));

    list_init(&worker->node);
    worker->done = task->done;
    worker->data = task->data;
    worker->held[0] = worker->held[1] = -1;
    worker->open_handles = 1; /* the timer */
    CHECK(uv_timer_init(loop, &worker->timer) == 0);
    worker->timer.data = worker;
    pipe_init(worker, &worker->out, loop, WORKER_OUTPUT_MAX_BYTES);
    pipe_init(worker, &worker->errors, loop, WORKER_ERRORS_MAX_BYTES);
    worker->argv[0] = check_strdup(program);
    for (size_t i = 0; task->arguments[i] != NULL; i++) {
        CHECK(i < WORKER_ARGUMENTS_MAX);
        worker->argv[i + 1] = check_strdup(task->arguments[i]);
    }
    CHECK(worker->argv[1] != NULL && worker->done != NULL);
    worker->user = task->user == NULL ? NULL : check_strdup(task->user);
    worker->claim = task->claim == NULL ? NULL : check_strdup(task->claim);
    active_count++;
    return worker;
}

/* -1 with err: nothing was started. */
static int begin_task(struct worker *worker, uv_loop_t *loop, const struct worker_task *task,
                      const struct destination_serve *serve, struct err *err)
{
    int socket_fd, status = open_pipes(worker);

    if (status == 0 && serve == NULL && take_process(worker))
        return 0;
    socket_fd = open_serving(worker, loop, serve, task->arguments, err);
    if (socket_fd < 0)
        return -1;
    if (status == 0)
        status = start_process(worker, loop, socket_fd, serve);
    if (socket_fd > 0)
        close(socket_fd);
    if (status == 0)
        return 0;
    return err_set(err, ERR_IO, "start %s: %s; install it beside the program", worker->argv[0],
                   strerror(-status));
}

int worker_start(uv_loop_t *loop, const struct worker_task *task, struct worker **ret_worker,
                 struct err *err)
{
    const struct destination_ops *kind = destination_asked(task->arguments);
    char program[PATH_MAX];
    struct worker *worker;

    if (find_program(kind != NULL && kind->program != NULL ? kind->program : worker_name, program,
                     err) != 0)
        return -1;
    worker = worker_new(loop, task, program);
    if (begin_task(worker, loop, task, kind == NULL ? NULL : kind->serve, err) != 0) {
        close_all(worker);
        return -1;
    }
    uv_update_time(loop);
    worker->started_ms = uv_now(loop);
    CHECK(uv_timer_start(&worker->timer, deadline_passed, task->deadline_ms, 0) == 0);
    CHECK(uv_read_start((uv_stream_t *)&worker->out.handle, pipe_allocate, pipe_read) == 0);
    CHECK(uv_read_start((uv_stream_t *)&worker->errors.handle, pipe_allocate, pipe_read) == 0);
    *ret_worker = worker;
    return 0;
}
