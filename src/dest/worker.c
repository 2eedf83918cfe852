/* ckpt-worker processes and their deadlines, on a libuv loop. See worker.h. (Links libuv; nothing
 * else of this layer does.)
 *
 * Flow     start: spawn (spawn.h) in a process group of its own with two pipes -> exit, and both
 *          pipes at their end -> done. Deadline or cancel -> SIGKILL to the group -> no exit within
 *          a second -> done with `unkillable`; the process handle stays until the kernel lets the
 *          process go, then everything is freed.
 *          Exit but a pipe still open (held by a stray grandchild): what is there is taken, the
 *          pipes are closed.
 * Shapes   one heap object per worker with four handles (a poll of the process, timer, two pipes),
 *          freed when the last one is closed.
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
#include "src/dest/spawn.h"
#include "src/dest/worker_serve.h"

enum { WORKER_KILL_WAIT_MS = 1000, WORKER_DRAIN_MS = 200, WORKER_ERRORS_MAX_BYTES = 4096 };

/*  RUNNING ──deadline, cancel──► KILLED ──no exit──► UNKILLABLE (done was called)
 *     └──────────── exit ──────────┴─► DRAINING ──both pipes ended, or time──► closed */
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
    pid_t pid;
    int pidfd;
    uv_poll_t exit; /* of pidfd; only when there is a process */
    uv_timer_t timer;
    struct worker_pipe out;
    struct worker_pipe errors;
    struct serving *serving; /* NULL: its kind of destination needs none */
    unsigned open_handles;
    uint64_t started_ms;
    struct worker_result result;
    worker_done_fn *done;
    void *data;
};

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

int worker_program(char ret_path[PATH_MAX], struct err *err)
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
    if (snprintf(ret_path, PATH_MAX, "%s/ckpt-worker", self) >= PATH_MAX)
        return err_set(err, ERR_IO, "the path of ckpt-worker is too long");
    return 0;
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
    free(worker);
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, handle_closed);
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
    if (worker->pidfd >= 0) {
        close_handle((uv_handle_t *)&worker->exit);
        close(worker->pidfd);
    }
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

/* done() was called already when the worker had been given up as unkillable. */
static void finish_drained(struct worker *worker)
{
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
        if (worker->state == WORKER_DRAINING && worker->out.ended && worker->errors.ended)
            finish_drained(worker);
    }
}

static void drain_timed_out(uv_timer_t *timer)
{
    finish_drained(timer->data);
}

/* The process is gone; what it printed may still lie in the pipes. */
static void process_exited(uv_poll_t *poll, int poll_status, int events)
{
    struct worker *worker = poll->data;
    struct worker_result *result = &worker->result;
    int status = 0;

    (void)poll_status;
    (void)events;
    if (waitpid(worker->pid, &status, WNOHANG) != worker->pid)
        return; /* not yet */
    uv_poll_stop(poll);
    if (worker->state == WORKER_UNKILLABLE) {
        close_all(worker);
        return;
    }
    result->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (WIFSIGNALED(status) && worker->state == WORKER_RUNNING)
        snprintf(result->error, sizeof(result->error), "ckpt-worker was ended by signal %d",
                 WTERMSIG(status));
    worker->state = WORKER_DRAINING;
    uv_timer_stop(&worker->timer);
    if (worker->out.ended && worker->errors.ended)
        finish_drained(worker);
    else
        CHECK(uv_timer_start(&worker->timer, drain_timed_out, WORKER_DRAIN_MS, 0) == 0);
}

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
             (int)worker->pid);
    uv_read_stop((uv_stream_t *)&worker->out.handle);
    uv_read_stop((uv_stream_t *)&worker->errors.handle);
    report_result(worker);
}

static void kill_worker(struct worker *worker)
{
    CHECK(worker->state == WORKER_RUNNING);
    worker->state = WORKER_KILLED;
    (void)kill(-worker->pid,
               SIGKILL); /* whether it worked is seen by the exit, or by its absence */
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

/* What a worker gets beside the daemon's environment. */
struct worker_words {
    char parent[sizeof(WORKER_PARENT) + 16];
    char socket[64]; /* "": none */
};

/* Keys of the daemon, and what workers of other tasks were told. */
static bool stays_behind(const char *word)
{
    return strncmp(word, WORKER_SECRETS, strlen(WORKER_SECRETS)) == 0 ||
           strncmp(word, WORKER_WORDS, strlen(WORKER_WORDS)) == 0;
}

/* The caller frees the list; the texts are the words' and the daemon's own. */
static char **worker_environment(struct worker_words *words)
{
    size_t count = 0, kept = 0;
    char **list;

    snprintf(words->parent, sizeof(words->parent), WORKER_PARENT "=%d", (int)getpid());
    while (environ[count] != NULL)
        count++;
    list = check_calloc(count + 3, sizeof(*list));
    for (size_t i = 0; i < count; i++) {
        if (!stays_behind(environ[i]))
            list[kept++] = environ[i];
    }
    list[kept++] = words->parent;
    if (words->socket[0] != '\0')
        list[kept] = words->socket;
    return list;
}

/* Of the row of the task's destination; NULL: none, or the task has no destination. */
static const struct destination_serve *find_serve(const char *const *arguments)
{
    const char *location = NULL;
    const struct destination_ops *kind;

    for (size_t i = 1; arguments[i] != NULL && arguments[i + 1] != NULL; i += 2) {
        if (strcmp(arguments[i], "--prefix") == 0)
            location = arguments[i + 1];
        else if (strcmp(arguments[i], "--path") == 0 && location == NULL)
            location = arguments[i + 1];
    }
    kind = location != NULL ? destination_of(location, NULL) : NULL;
    return kind != NULL ? kind->serve : NULL;
}

/* 0: no socket, and nothing of it is in the words. */
static int open_serving(struct worker *worker, uv_loop_t *loop, const char *const *arguments,
                        struct worker_words *words, struct err *err)
{
    const struct destination_serve *serve = find_serve(arguments);
    int worker_end = 0;

    if (serve == NULL)
        return 0;
    if (serving_open(loop, serve, arguments, &worker->serving, &worker_end, err) != 0)
        return -1;
    CHECK(snprintf(words->socket, sizeof(words->socket), "%s=%d", serve->variable,
                   SPAWN_SOCKET_FD) < (int)sizeof(words->socket));
    return worker_end;
}

static void close_ends(int fds[2])
{
    close(fds[0]);
    close(fds[1]);
}

/* The reading ends become the pipes' own. */
static int open_pipes(struct worker *worker, int out[2], int errors[2])
{
    int status = 0;

    if (pipe2(out, O_CLOEXEC) != 0)
        return -errno;
    if (pipe2(errors, O_CLOEXEC) != 0) {
        status = -errno;
        close_ends(out);
        return status;
    }
    CHECK(uv_pipe_open(&worker->out.handle, out[0]) == 0);
    CHECK(uv_pipe_open(&worker->errors.handle, errors[0]) == 0);
    return 0;
}

/* A negative errno of whatever step failed. socket_fd, if there is one, stays the caller's. */
static int start_process(struct worker *worker, uv_loop_t *loop, char **argv, int socket_fd,
                         struct worker_words *words)
{
    int out[2], errors[2];
    struct spawn spawn = {.file = argv[0], .arguments = argv, .socket_fd = socket_fd};
    char **environment;
    int status = open_pipes(worker, out, errors);

    if (status != 0)
        return status;
    environment = worker_environment(words);
    spawn.environment = environment;
    spawn.output_fd = out[1];
    spawn.errors_fd = errors[1];
    status = spawn_start(&spawn, &worker->pid, &worker->pidfd);
    free(environment);
    close(out[1]);
    close(errors[1]);
    if (status != 0)
        return status;
    if (worker->serving != NULL)
        serving_begin(worker->serving);
    CHECK(uv_poll_init(loop, &worker->exit, worker->pidfd) == 0);
    worker->exit.data = worker;
    worker->open_handles++;
    CHECK(uv_poll_start(&worker->exit, UV_READABLE, process_exited) == 0);
    return 0;
}

/* Everything that closing needs is there before anything can fail. */
static struct worker *worker_new(uv_loop_t *loop, worker_done_fn *done, void *data)
{
    struct worker *worker = check_calloc(1, sizeof(*worker));

    list_init(&worker->node);
    worker->done = done;
    worker->data = data;
    worker->pidfd = -1;
    worker->open_handles = 1; /* the timer */
    CHECK(uv_timer_init(loop, &worker->timer) == 0);
    worker->timer.data = worker;
    pipe_init(worker, &worker->out, loop, WORKER_OUTPUT_MAX_BYTES);
    pipe_init(worker, &worker->errors, loop, WORKER_ERRORS_MAX_BYTES);
    active_count++;
    return worker;
}

int worker_start(uv_loop_t *loop, const struct worker_task *task, struct worker **ret_worker,
                 struct err *err)
{
    char program[PATH_MAX];
    char *argv[WORKER_ARGUMENTS_MAX + 2] = {program};
    struct worker_words words = {.socket = ""};
    struct worker *worker;
    size_t count;
    int status, socket_fd;

    for (count = 0; task->arguments[count] != NULL; count++) {
        CHECK(count < WORKER_ARGUMENTS_MAX);
        argv[count + 1] =
            (char *)(uintptr_t)task->arguments[count]; /* exec's own prototype lacks the const */
    }
    CHECK(count > 0 && task->done != NULL);
    if (worker_program(program, err) != 0)
        return -1;
    worker = worker_new(loop, task->done, task->data);
    socket_fd = open_serving(worker, loop, task->arguments, &words, err);
    if (socket_fd < 0) {
        close_all(worker);
        return -1;
    }
    status = start_process(worker, loop, argv, socket_fd, &words);
    if (socket_fd > 0)
        close(socket_fd);
    if (status != 0) {
        close_all(worker);
        return err_set(err, ERR_IO, "start %s: %s; install it beside the program", program,
                       strerror(-status));
    }
    uv_update_time(loop);
    worker->started_ms = uv_now(loop);
    CHECK(uv_timer_start(&worker->timer, deadline_passed, task->deadline_ms, 0) == 0);
    CHECK(uv_read_start((uv_stream_t *)&worker->out.handle, pipe_allocate, pipe_read) == 0);
    CHECK(uv_read_start((uv_stream_t *)&worker->errors.handle, pipe_allocate, pipe_read) == 0);
    *ret_worker = worker;
    return 0;
}
