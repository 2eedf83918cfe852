/* Starts the application in a process group of its own. See run_child.h. */
#include "src/agent/run/run_child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/run/run_stand_in.h"
#include "src/base/check.h"
#include "src/base/id.h"

enum { EXIT_NEVER_RELEASED = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/* What an outer ckpt-run had is not this one's. */
static void set_or_unset(const char *name, const char *value)
{
    if (value != NULL && value[0] != '\0')
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void set_number(const char *name, uint32_t number, bool known)
{
    char text[16];

    snprintf(text, sizeof(text), "%" PRIu32, number);
    set_or_unset(name, known ? text : "");
}

void run_environment_take(struct run_environment *environment, const Ckpt__V1__AttachReady *ready,
                          const char *shm)
{
    environment->node_id = ready->node_id;
    environment->restore_dir = ready->restore_dir;
    environment->app_socket = ready->app_socket;
    environment->app_requests = ready->app_requests;
    environment->shm = shm;
    environment->restore_uri = ready->restore_uri;
    environment->restore_label = ready->restore_label;
    environment->restored_id = ready->checkpoint_id;
    environment->begins_without = environment->begins_without || ready->begins_without;
    environment->restore_parts = ready->checkpoint_parts;
    environment->part = ready->part;
    environment->parts = ready->parts;
}

static void child_environment(const struct run_environment *environment)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    set_or_unset(STAND_IN_RESTORED, environment->restored_id != 0
                                        ? checkpoint_id_format(environment->restored_id, id)
                                    : environment->begins_without ? STAND_IN_NONE
                                                                  : "");
    setenv("CKPT_ALLOCATION_ID", environment->allocation_id, 1);
    setenv("CKPT_NODE_ID", environment->node_id, 1);
    setenv("CKPT_DIR", environment->work_dir, 1);
    set_number("CKPT_RESTART_COUNT", environment->restart_count, true);
    setenv("CKPT_RUN", environment->run, 1);
    setenv("CKPT_AGENT_SOCKET", environment->socket, 1);
    set_or_unset("CKPT_APP_SOCKET", environment->app_socket);
    set_or_unset("CKPT_APP_TAKES", environment->app_requests ? "request" : "");
    set_or_unset("CKPT_SHM", environment->shm);
    set_or_unset("CKPT_RESTORE_DIR", environment->restore_dir);
    set_or_unset("CKPT_RESTORE_URI", environment->restore_uri);
    set_or_unset("CKPT_RESTORE_LABEL", environment->restore_label);
    set_number("CKPT_RESTORE_PARTS", environment->restore_parts, environment->restore_parts > 0);
    set_number("CKPT_PART", environment->part, environment->parts > 0);
    set_number("CKPT_PARTS", environment->parts, environment->parts > 0);
}

static void child_signals(const struct start_signals *found)
{
    static const int own[] = {SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD};
    sigset_t open;

    sigemptyset(&open);
    for (size_t i = 0; i < ARRAY_COUNT(own); i++)
        sigaddset(&open, own[i]);
    start_restore(found, &open);
}

struct gate {
    int held[2];    /* a byte from ckpt-run opens it; its end closes it for good */
    int failure[2]; /* errno of execve; closed without one by its success */
};

static void gate_close(struct gate *gate)
{
    close(gate->held[0]);
    close(gate->held[1]);
    close(gate->failure[0]);
    close(gate->failure[1]);
}

static ssize_t read_whole(int fd, void *bytes, size_t length)
{
    ssize_t got;

    do {
        got = read(fd, bytes, length);
    } while (got < 0 && errno == EINTR);
    return got;
}

__attribute__((noreturn)) static void child_run(char *const *command,
                                                const struct run_environment *environment,
                                                const struct gate *gate)
{
    char opened;
    int failure;

    setpgid(0, 0);
    child_environment(environment);
    child_signals(environment->signals);
    close(gate->held[1]); /* else it would hold itself */
    if (read_whole(gate->held[0], &opened, 1) != 1)
        _exit(EXIT_NEVER_RELEASED);
    execvp(command[0], command);
    failure = errno;
    if (write(gate->failure[1], &failure, sizeof(failure)) != sizeof(failure))
        _exit(EXIT_NOT_EXECUTABLE);
    _exit(failure == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

/* The child takes no signal before child_signals(): a handler of ckpt-run that ran there would tell
 * ckpt-run of it, since both have the loop's descriptors, and the child would be spared. */
static pid_t fork_quietly(void)
{
    sigset_t all, before;
    int failure;
    pid_t pid;

    sigfillset(&all);
    CHECK(sigprocmask(SIG_SETMASK, &all, &before) == 0);
    pid = fork();
    failure = errno;
    if (pid != 0)
        CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    errno = failure;
    return pid;
}

struct application {
    char *const *command;
    const struct run_environment *environment;
    const struct gate *gate;
    int keeper; /* its end of the socket */
};

__attribute__((noreturn)) static void become_application(void *data)
{
    const struct application *application = data;

    close(application->keeper);
    child_run(application->command, application->environment, application->gate);
}

static int gate_open(struct gate *gate)
{
    int failure;

    if (pipe2(gate->held, O_CLOEXEC) != 0)
        return errno;
    if (pipe2(gate->failure, O_CLOEXEC) == 0)
        return 0;
    failure = errno;
    close(gate->held[0]);
    close(gate->held[1]);
    return failure;
}

/* errno of what failed. */
static int await_started(int socket, pid_t *ret_pid)
{
    struct keeper_news news;

    if (recv(socket, &news, sizeof(news), 0) != (ssize_t)sizeof(news) ||
        news.kind != KEEPER_STARTED)
        return EAGAIN;
    if (news.value < 0)
        return -news.value;
    *ret_pid = news.value;
    return 0;
}

static int start_keeper(const struct keeper_start *start, struct application *application,
                        struct run_child *ret_child)
{
    int ends[2], failure;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return errno;
    fflush(NULL);
    application->keeper = ends[1];
    ret_child->keeper_fd = ends[0];
    ret_child->keeper = fork_quietly();
    if (ret_child->keeper == 0)
        run_keeper_main(start, ends[1], become_application, application);
    failure = ret_child->keeper < 0 ? errno : 0;
    close(ends[1]);
    if (failure == 0)
        failure = await_started(ends[0], &ret_child->pid);
    if (failure != 0)
        close(ends[0]);
    return failure;
}

int run_child_start(const struct keeper_start *start, const struct run_environment *environment,
                    char *const *command, struct run_child *ret_child)
{
    struct gate gate;
    struct application application = {command, environment, &gate, -1};
    int failure = gate_open(&gate);

    if (failure != 0)
        return failure;
    failure = start_keeper(start, &application, ret_child);
    if (failure != 0) {
        gate_close(&gate);
        return failure;
    }
    close(gate.held[0]);
    close(gate.failure[1]);
    ret_child->gate_fd = gate.held[1];
    ret_child->failure_fd = gate.failure[0];
    return 0;
}

int run_child_release(struct run_child *child)
{
    int failure = 0;
    bool released = write(child->gate_fd, "", 1) == 1; /* EPIPE: a signal ended it before */

    close(child->gate_fd);
    if (!released || read_whole(child->failure_fd, &failure, sizeof(failure)) != sizeof(failure))
        failure = 0;
    close(child->failure_fd);
    child->gate_fd = -1;
    child->failure_fd = -1;
    return failure;
}

void run_child_drop(struct run_child *child)
{
    close(child->gate_fd);
    close(child->failure_fd);
    child->gate_fd = -1;
    child->failure_fd = -1;
    kill(child->pid, SIGKILL);
    run_child_tell(child, KEEPER_CONFIRM);
    run_child_done(child);
}

void run_child_tell(const struct run_child *child, enum keeper_word word)
{
    const char byte = (char)word;

    if (child->keeper_fd >= 0)
        (void)send(child->keeper_fd, &byte, 1, MSG_NOSIGNAL);
}

/* Until it has gone, it has the name of the next one's socket. */
void run_child_done(struct run_child *child)
{
    struct keeper_news news;

    if (child->keeper_fd < 0)
        return;
    run_child_tell(child, KEEPER_DONE);
    while (recv(child->keeper_fd, &news, sizeof(news), 0) > 0)
        ;
    close(child->keeper_fd);
    child->keeper_fd = -1;
    if (child->keeper > 0)
        (void)waitpid(child->keeper, NULL, 0);
    child->keeper = 0;
}

/* ---- the command ---- */

static int executable(const char *path)
{
    struct stat stat_of;

    if (stat(path, &stat_of) != 0)
        return errno;
    if (S_ISDIR(stat_of.st_mode))
        return EISDIR;
    return access(path, X_OK) == 0 ? 0 : errno;
}

int run_child_find(const char *command)
{
    const char *folders = getenv("PATH");
    char path[PATH_MAX];
    int result = ENOENT;

    if (strchr(command, '/') != NULL)
        return executable(command);
    if (folders == NULL)
        return 0; /* execvp has its own list then */
    while (*folders != '\0') {
        size_t length = strcspn(folders, ":");
        int found;

        snprintf(path, sizeof(path), "%.*s%s%s", (int)length, folders, length > 0 ? "/" : "",
                 command);
        found = executable(path);
        if (found == 0)
            return 0;
        if (found == EACCES)
            result = EACCES;
        folders += length + (folders[length] == ':');
    }
    return result;
}
