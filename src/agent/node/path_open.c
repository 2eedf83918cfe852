/* Opening a user's path in a process of its own. See opened.h.
 *
 * States   QUEUED --its turn--> RUNNING | REFUSED (no process could be started; done() hears it from the loop)
 * Flow     spawn `ckpt-worker look` with a socket as its output -> one message: what the path is,
 *          with its descriptor -> done. Its end without a message is an error; past the deadline it
 *          is killed, and done() comes at once: the kernel may keep it.
 * Shapes   one object per process, freed when that is reaped and its handles are closed.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/node/network_fs.h"
#include "src/agent/node/opened.h"
#include "src/base/check.h"
#include "src/base/list.h"
#include "src/dest/spawn.h"
#include "src/dest/worker.h"

enum { MESSAGE_BYTES = 512 };

enum look_state { LOOK_QUEUED, LOOK_RUNNING, LOOK_REFUSED };

struct path_open {
    struct list node;
    enum look_state state;
    enum opened_kind kind;
    char *path;
    uid_t uid;
    pid_t pid; /* of RUNNING, and the three below it */
    int pidfd, message_fd;
    uint64_t began_ms;
    uv_poll_t message, ended;
    uv_timer_t timer;
    unsigned handles;
    opened_done_fn *done; /* NULL: told, or detached */
    void *data;
    char refusal[OPENED_WHY_BYTES]; /* of REFUSED: why */
};

static struct list lookers = {&lookers, &lookers};

struct turn {
    size_t running;
    uint64_t newest_ms;     /* when the last of those began */
    struct path_open *next; /* NULL: nobody waits */
};

static struct turn turn_of(uid_t uid)
{
    struct turn turn = {0};

    for (struct list *at = lookers.next; at != &lookers; at = at->next) {
        struct path_open *open = LIST_ITEM(at, struct path_open, node);
        if (open->uid != uid)
            continue;
        if (open->state == LOOK_RUNNING) {
            turn.running++;
            if (open->began_ms > turn.newest_ms)
                turn.newest_ms = open->began_ms;
        } else if (open->state == LOOK_QUEUED && turn.next == NULL) {
            turn.next = open;
        }
    }
    return turn;
}

static void take_turn(uid_t uid);

/* ---- the end ---- */

static void handle_closed(uv_handle_t *handle)
{
    struct path_open *open = handle->data;

    CHECK(open->handles > 0);
    if (--open->handles > 0)
        return;
    free(open->path);
    free(open);
}

static void path_open_free(struct path_open *open)
{
    list_remove(&open->node);
    uv_close((uv_handle_t *)&open->timer, handle_closed);
    if (open->state != LOOK_RUNNING)
        return;
    uv_close((uv_handle_t *)&open->message, handle_closed);
    uv_close((uv_handle_t *)&open->ended, handle_closed);
    close(open->message_fd);
    close(open->pidfd);
    take_turn(open->uid);
}

static void tell(struct path_open *open, struct opened *take, const char *why)
{
    opened_done_fn *done = open->done;

    open->done = NULL;
    if (done != NULL)
        done(open->data, take, why);
    else
        opened_close(take);
}

__attribute__((format(printf, 2, 3))) static void tell_why(struct path_open *open,
                                                           const char *format, ...)
{
    char why[OPENED_WHY_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    tell(open, NULL, why);
}

/* ---- what the process says ---- */

static bool kind_right(const struct path_open *open, mode_t mode)
{
    return open->kind == OPENED_FOLDER ? S_ISDIR(mode) : S_ISSOCK(mode);
}

static void take_answer(struct path_open *open, const char *text, int fd)
{
    unsigned mode, uid, type;
    const char *network;
    struct opened *opened;

    if (fd < 0 || sscanf(text, "mode=%o uid=%u type=%x", &mode, &uid, &type) != 3) {
        tell_why(open, "%.200s: %.150s", open->path, text);
        return;
    }
    network = open->kind == OPENED_FOLDER ? network_fs_name(type) : NULL;
    if (!kind_right(open, (mode_t)mode) || uid != (unsigned)open->uid)
        tell_why(open, "%.200s is not a %s of user %u", open->path,
                 open->kind == OPENED_FOLDER ? "folder" : "socket", (unsigned)open->uid);
    else if (network != NULL)
        tell_why(open,
                 "a work folder on %s can hold up the agent, and with it all jobs of the node; "
                 "choose one on a local disk by --work-dir, not %.200s",
                 network, open->path);
    else {
        opened = check_calloc(1, sizeof(*opened));
        opened->fd = fd;
        tell(open, opened, "");
        return;
    }
    close(fd);
}

/* False: nothing is there yet, or ever will be. */
static bool receive(struct path_open *open)
{
    char text[MESSAGE_BYTES];
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {text, sizeof(text) - 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t length = recvmsg(open->message_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *head = length > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    int fd = -1;

    if (length <= 0)
        return false;
    text[length] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(head), sizeof(fd));
    if (fd < 0 && (message.msg_flags & MSG_CTRUNC) != 0)
        snprintf(text, sizeof(text),
                 "the agent has too many files open (ulimit -n, or LimitNOFILE in its unit)");
    take_answer(open, text, fd);
    return true;
}

static void on_message(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    uv_poll_stop(poll);
    (void)receive(poll->data);
}

static void on_ended(uv_poll_t *poll, int status, int events)
{
    struct path_open *open = poll->data;
    int wait_status;

    (void)status;
    (void)events;
    if (!spawn_ended(open->pid, &wait_status))
        return;
    if (open->done != NULL && !receive(open))
        tell_why(open, "%.200s could not be looked at: ckpt-worker ended with status %d",
                 open->path, wait_status);
    path_open_free(open);
}

static void on_time(uv_timer_t *timer);

/* The lookers of one user go on as long as one of them has just begun. */
static void queue_time(struct path_open *open)
{
    const struct turn turn = turn_of(open->uid);

    if (uv_now(open->timer.loop) - turn.newest_ms < PATH_OPEN_DEADLINE_MS) {
        CHECK(uv_timer_start(&open->timer, on_time, PATH_OPEN_DEADLINE_MS, 0) == 0);
        return;
    }
    tell_why(open,
             "%.200s: %d paths of user %u are being looked at already and do not answer; something "
             "that this user has mounted hangs",
             open->path, PATH_OPENS_PER_USER, (unsigned)open->uid);
    path_open_free(open);
}

static void on_time(uv_timer_t *timer)
{
    struct path_open *open = timer->data;

    switch (open->state) {
    case LOOK_QUEUED:
        queue_time(open);
        return;
    case LOOK_REFUSED:
        tell(open, NULL, open->refusal);
        path_open_free(open);
        return;
    case LOOK_RUNNING:
        (void)kill(-open->pid, SIGKILL);
        tell_why(open,
                 "%.200s does not answer: whatever is mounted there stood still for %d s; choose a "
                 "folder on a local disk by --work-dir",
                 open->path, PATH_OPEN_DEADLINE_MS / 1000);
    }
}

/* ---- the beginning ---- */

static int spawn_looker(struct path_open *open, int output_fd, struct err *err)
{
    char program[PATH_MAX], verb[] = "look", option[] = "--path";
    char parent[sizeof(WORKER_PARENT) + 16];
    char *arguments[] = {program, verb, option, open->path, NULL};
    char *environment[] = {parent, NULL};
    const struct spawn spawn = {.file = program,
                                .arguments = arguments,
                                .environment = environment,
                                .output_fd = output_fd,
                                .errors_fd = output_fd};
    int result;

    snprintf(parent, sizeof(parent), WORKER_PARENT "=%d", (int)getpid());
    if (worker_program(program, err) != 0)
        return -1;
    result = spawn_start(&spawn, &open->pid, &open->pidfd);
    return result == 0 ? 0 : err_set(err, ERR_IO, "start %s: %s", program, strerror(-result));
}

static void watch(struct path_open *open, uv_loop_t *loop, uv_poll_t *poll, int fd,
                  uv_poll_cb ready)
{
    CHECK(uv_poll_init(loop, poll, fd) == 0);
    poll->data = open;
    open->handles++;
    CHECK(uv_poll_start(poll, UV_READABLE, ready) == 0);
}

/* -1: no process was started, and why is in err. */
static int look(struct path_open *open, uv_loop_t *loop, struct err *err)
{
    int ends[2];
    int result;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return err_set(err, ERR_IO, "socketpair: %s", strerror(errno));
    result = spawn_looker(open, ends[1], err);
    close(ends[1]);
    if (result != 0) {
        close(ends[0]);
        return -1;
    }
    open->message_fd = ends[0];
    watch(open, loop, &open->message, open->message_fd, on_message);
    watch(open, loop, &open->ended, open->pidfd, on_ended);
    return 0;
}

static void begin(struct path_open *open)
{
    uv_loop_t *loop = open->timer.loop;
    uint64_t delay_ms = PATH_OPEN_DEADLINE_MS;
    struct err err = {0};

    CHECK(open->state == LOOK_QUEUED);
    if (look(open, loop, &err) == 0) {
        open->state = LOOK_RUNNING;
        open->began_ms = uv_now(loop);
    } else {
        open->state = LOOK_REFUSED;
        snprintf(open->refusal, sizeof(open->refusal), "%.200s: %.190s", open->path, err.text);
        delay_ms = 0;
    }
    CHECK(uv_timer_start(&open->timer, on_time, delay_ms, 0) == 0);
}

/* A process of the user has ended. */
static void take_turn(uid_t uid)
{
    struct turn turn = turn_of(uid);

    while (turn.next != NULL && turn.running < PATH_OPENS_PER_USER) {
        begin(turn.next);
        turn = turn_of(uid);
    }
}

struct path_open *path_open_start(uv_loop_t *loop, enum opened_kind kind, const char *path,
                                  uid_t uid, opened_done_fn *done, void *data)
{
    struct path_open *open = check_calloc(1, sizeof(*open));

    *open = (struct path_open){.state = LOOK_QUEUED,
                               .kind = kind,
                               .path = check_strdup(path),
                               .uid = uid,
                               .done = done,
                               .data = data};
    CHECK(uv_timer_init(loop, &open->timer) == 0);
    open->timer.data = open;
    open->handles++;
    list_push_back(&lookers, &open->node);
    CHECK(uv_timer_start(&open->timer, on_time, PATH_OPEN_DEADLINE_MS, 0) == 0);
    take_turn(uid);
    return open;
}

void path_open_detach(struct path_open *open)
{
    if (open == NULL)
        return;
    open->done = NULL;
    if (open->state == LOOK_RUNNING)
        (void)kill(-open->pid, SIGKILL);
    else if (open->state == LOOK_QUEUED)
        path_open_free(open);
}
