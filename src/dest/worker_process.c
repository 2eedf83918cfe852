/* See worker_process.h.
 *
 *  BUSY ──answered, released──► IDLE ──taken──► BUSY
 *    │                            └──time, one too many, retired──► DROPPED
 *    ├── dropped ──► DROPPED ──gone──► closed
 *    └── gone ──► ended(), then process_close()
 *
 * Shapes   one heap object per process with four handles, freed when the last one is closed. The
 *          process is reaped here and nowhere else.
 */
#include "src/dest/worker_process.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/list.h"
#include "src/dest/spawn.h"
#include "src/dest/tasks.h"

enum process_state { PROCESS_BUSY, PROCESS_IDLE, PROCESS_DROPPED };

struct process {
    struct list node; /* in idle */
    enum process_state state;
    pid_t pid;
    int pidfd;
    int socket; /* to give it more tasks by; -1: none */
    char *user, *claim;
    uv_poll_t exit;    /* of pidfd */
    uv_poll_t answers; /* of socket, when there is one */
    uv_timer_t rest;   /* while it is idle */
    unsigned open_handles;
    const struct process_events *events;
    void *data;
};

static struct list idle = {&idle, &idle}; /* the last one that worked is the last one here */
static size_t idle_count;
static uint64_t idle_ms = WORKER_IDLE_MS;

void worker_set_idle(uint64_t ms)
{
    idle_ms = ms;
}

pid_t process_pid(const struct process *process)
{
    return process->pid;
}

/* ---- the end ---- */

static void handle_closed(uv_handle_t *handle)
{
    struct process *process = handle->data;

    CHECK(process->open_handles > 0);
    if (--process->open_handles > 0)
        return;
    free(process->user);
    free(process->claim);
    free(process);
}

void process_close(struct process *process)
{
    CHECK(process->state != PROCESS_IDLE);
    uv_close((uv_handle_t *)&process->exit, handle_closed);
    uv_close((uv_handle_t *)&process->rest, handle_closed);
    if (process->socket >= 0) {
        uv_close((uv_handle_t *)&process->answers, handle_closed);
        close(process->socket);
    }
    close(process->pidfd);
}

/* Whether it worked is seen by the exit, or by its absence. */
void process_kill(struct process *process)
{
    (void)kill(-process->pid, SIGKILL);
}

static void stop_being_idle(struct process *process)
{
    CHECK(process->state == PROCESS_IDLE);
    CHECK(idle_count > 0);
    list_remove(&process->node);
    idle_count--;
    uv_timer_stop(&process->rest);
    uv_ref((uv_handle_t *)&process->exit);
}

/* An idle one has nothing to lose. */
void process_drop(struct process *process)
{
    if (process->state == PROCESS_IDLE)
        stop_being_idle(process);
    process->state = PROCESS_DROPPED;
    process_kill(process);
}

void worker_retire_idle(void)
{
    while (idle_count > 0)
        process_drop(LIST_ITEM(idle.next, struct process, node));
}

/* ---- events ---- */

/* It may have been killed right behind its answer. */
static void read_last_answer(const struct process *process, int *status)
{
    struct tasks_answer answer;

    if (process->socket >= 0 &&
        recv(process->socket, &answer, sizeof(answer), MSG_DONTWAIT) == (ssize_t)sizeof(answer) &&
        answer.exit_code >= 0)
        *status = W_EXITCODE(answer.exit_code, 0);
}

static void process_gone(uv_poll_t *poll, int poll_status, int events)
{
    struct process *process = poll->data;
    int status = 0;

    (void)poll_status;
    (void)events;
    if (!spawn_ended(process->pid, &status))
        return; /* not yet */
    uv_poll_stop(poll);
    if (process->state == PROCESS_BUSY) {
        read_last_answer(process, &status);
        process->events->ended(process->data, status);
        return;
    }
    if (process->state == PROCESS_IDLE)
        stop_being_idle(process);
    process->state = PROCESS_DROPPED;
    process_close(process);
}

/* A worker that ends closes its end first: its exit tells how. One that answers unasked is none of
 * ours any more. */
static void process_answers(uv_poll_t *poll, int poll_status, int events)
{
    struct process *process = poll->data;
    struct tasks_answer answer;
    ssize_t got = recv(process->socket, &answer, sizeof(answer), MSG_DONTWAIT | MSG_TRUNC);

    (void)poll_status;
    (void)events;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    uv_poll_stop(poll);
    if (got == 0 && process->state != PROCESS_IDLE)
        return;
    if (got != (ssize_t)sizeof(answer) || process->state != PROCESS_BUSY)
        process_kill(process);
    else
        process->events->answered(process->data, answer.exit_code);
}

static void rest_is_over(uv_timer_t *timer)
{
    process_drop(timer->data);
}

/* Only its end is of interest until it is taken again. */
void process_release(struct process *process)
{
    CHECK(process->state == PROCESS_BUSY && process->socket >= 0);
    process->state = PROCESS_IDLE;
    process->events = NULL;
    process->data = NULL;
    list_push_back(&idle, &process->node);
    idle_count++;
    uv_unref((uv_handle_t *)&process->exit);
    CHECK(uv_timer_start(&process->rest, rest_is_over, idle_ms, 0) == 0);
    uv_unref((uv_handle_t *)&process->rest);
    if (idle_ms == 0)
        process_drop(process);
    else if (idle_count > WORKER_IDLE_MAX)
        process_drop(LIST_ITEM(idle.next, struct process, node));
}

/* ---- a process that is there ---- */

static bool same_text(const char *one, const char *other)
{
    return one == NULL || other == NULL ? one == other : strcmp(one, other) == 0;
}

/* The one that worked last has most of it in memory. */
static struct process *find_idle(const struct process_scope *scope)
{
    for (struct list *at = idle.previous; at != &idle; at = at->previous) {
        struct process *process = LIST_ITEM(at, struct process, node);

        if (strcmp(process->user, scope->user) == 0 &&
            (scope->claim == NULL || same_text(process->claim, scope->claim)))
            return process;
    }
    return NULL;
}

/* 0: they are too long. */
static size_t pack_arguments(char *const *argv, char text[TASKS_MESSAGE_BYTES])
{
    size_t used = 0;

    for (size_t i = 1; argv[i] != NULL; i++) {
        size_t length = strlen(argv[i]) + 1;

        if (length > TASKS_MESSAGE_BYTES - used)
            return 0;
        memcpy(text + used, argv[i], length);
        used += length;
    }
    return used;
}

static bool send_task(const struct process *process, const struct process_task *task)
{
    static char text[TASKS_MESSAGE_BYTES]; /* on the one loop thread */
    const int fds[2] = {task->output_fd, task->errors_fd};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(fds))];
    } control = {.bytes = {0}};
    struct iovec part = {text, pack_arguments(task->argv, text)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(head), fds, sizeof(fds));
    return part.iov_len > 0 &&
           sendmsg(process->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)part.iov_len;
}

struct process *process_take(const struct process_task *task)
{
    struct process *process = task->scope.user == NULL ? NULL : find_idle(&task->scope);

    if (process == NULL)
        return NULL;
    if (!send_task(process, task)) {
        process_drop(process);
        return NULL;
    }
    stop_being_idle(process);
    process->state = PROCESS_BUSY;
    process->events = task->events;
    process->data = task->data;
    CHECK(uv_poll_start(&process->answers, UV_READABLE, process_answers) == 0);
    return process;
}

/* ---- a new one ---- */

/* Keys of the daemon, and what workers of other tasks were told. */
static bool stays_behind(const char *word)
{
    return strncmp(word, WORKER_SECRETS, strlen(WORKER_SECRETS)) == 0 ||
           strncmp(word, WORKER_WORDS, strlen(WORKER_WORDS)) == 0;
}

/* A worker's variables beside the daemon's environment. */
struct process_words {
    char parent[sizeof(WORKER_PARENT) + 16];
    char socket[64]; /* "": none */
};

/* The caller frees the list; the texts are the words' and the daemon's own. */
static char **make_environment(struct process_words *words)
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

static void watch_fd(struct process *process, uv_loop_t *loop, uv_poll_t *poll, int fd,
                     uv_poll_cb ready)
{
    CHECK(uv_poll_init(loop, poll, fd) == 0);
    poll->data = process;
    process->open_handles++;
    CHECK(uv_poll_start(poll, UV_READABLE, ready) == 0);
}

static struct process *process_new(uv_loop_t *loop, const struct process_task *task, pid_t pid,
                                   int pidfd, int socket)
{
    struct process *process = check_calloc(1, sizeof(*process));

    process->pid = pid;
    process->pidfd = pidfd;
    process->socket = socket;
    process->events = task->events;
    process->data = task->data;
    process->open_handles = 1; /* the timer */
    if (task->scope.user != NULL)
        process->user = check_strdup(task->scope.user);
    if (task->scope.claim != NULL)
        process->claim = check_strdup(task->scope.claim);
    CHECK(uv_timer_init(loop, &process->rest) == 0);
    process->rest.data = process;
    watch_fd(process, loop, &process->exit, pidfd, process_gone);
    if (socket < 0)
        return process;
    watch_fd(process, loop, &process->answers, socket, process_answers);
    uv_unref((uv_handle_t *)&process->answers); /* the end is that of its exit */
    return process;
}

static int spawn_process(const struct process_task *task, int socket_fd, const char *variable,
                         pid_t *ret_pid, int *ret_pidfd)
{
    struct process_words words = {.socket = ""};
    char **environment;
    struct spawn spawn = {.file = task->argv[0],
                          .arguments = task->argv,
                          .output_fd = task->output_fd,
                          .errors_fd = task->errors_fd,
                          .socket_fd = socket_fd};
    int status;

    if (socket_fd > 0)
        CHECK(snprintf(words.socket, sizeof(words.socket), "%s=%d", variable, SPAWN_SOCKET_FD) <
              (int)sizeof(words.socket));
    environment = make_environment(&words);
    spawn.environment = environment;
    status = spawn_start(&spawn, ret_pid, ret_pidfd);
    free(environment);
    return status;
}

int process_start(uv_loop_t *loop, const struct process_task *task, struct process **ret_process)
{
    int ends[2] = {-1, task->socket_fd}, status, pidfd;
    bool stays = task->scope.user != NULL && idle_ms > 0;
    pid_t pid;

    CHECK(!stays || task->socket_fd == 0); /* there is one descriptor for either */
    if (stays && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return -errno;
    status = spawn_process(task, ends[1], stays ? TASKS_SOCKET : task->variable, &pid, &pidfd);
    if (stays)
        close(ends[1]);
    if (status != 0) {
        if (stays)
            close(ends[0]);
        return status;
    }
    *ret_process = process_new(loop, task, pid, pidfd, stays ? ends[0] : -1);
    return 0;
}
