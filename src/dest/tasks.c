/* See tasks.h.
 *
 * Flow     the kernel is asked to kill this process when its daemon dies, so that no put outlives
 *          the one who counts on it; then verbs_main(), once or more often.
 */
#include "src/dest/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/destination.h"
#include "src/dest/parent.h"
#include "src/dest/spawn.h"
#include "src/dest/verbs.h"

static const char program_name[] = "ckpt-worker";

/* ---- another program's ---- */

/* Returns only when that cannot be started. */
static int hand_over(const char *program, char **argv)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    char *slash;

    path[length < 0 ? 0 : length] = '\0';
    slash = strrchr(path, '/');
    if (slash == NULL || snprintf(slash + 1, sizeof(path) - (size_t)(slash + 1 - path), "%s",
                                  program) >= (int)(sizeof(path) - (size_t)(slash + 1 - path)))
        errno = ENAMETOOLONG;
    else
        execv(path, argv);
    fprintf(stderr, "%s: start %s for this kind of destination: %s; install it beside %s\n",
            program_name, path, strerror(errno), program_name);
    return WORKER_EXIT_UNAVAILABLE;
}

/* NULL: this program does it. */
static const char *other_program(int argc, char **argv)
{
    const struct destination_ops *kind =
        argc > 2 ? destination_asked((const char *const *)(argv + 1)) : NULL;

    return kind == NULL ? NULL : kind->program;
}

/* ---- what lists of processes show ---- */

/* The memory of the arguments and the environment behind them. */
struct title {
    char *text;
    size_t size;
};

/* Texts in that memory that are wanted later are copied; arguments are not. */
static struct title take_title(int argc, char **argv)
{
    char *end = argv[argc - 1] + strlen(argv[argc - 1]) + 1;

    for (char **word = environ; *word != NULL; word++) {
        if (*word == end)
            end += strlen(*word) + 1;
        *word = check_strdup(*word);
    }
    return (struct title){argv[0], (size_t)(end - argv[0])};
}

/* As much of it as there is room for, as one text: the kernel shows it also where it reaches beyond
 * the arguments. */
static void show_title(const struct title *title, int argc, const char *const *argv)
{
    size_t used = 0;

    memset(title->text, '\0', title->size);
    for (int i = 0; i < argc && used + 1 < title->size; i++) {
        size_t length = strlen(argv[i]), room = title->size - 1 - used;

        if (i > 0)
            title->text[used - 1] = ' ';
        memcpy(title->text + used, argv[i], length < room ? length : room);
        used += length + 1;
    }
}

/* ---- one task after another ---- */

/* Each task begins with the same, whatever the one before did. */
static void begin_task(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file over the limit of its user is an error with a name */
    umask(077);
}

/* One that failed leaves maybe more than what can be seen from here. */
static bool ended_well(int exit_code)
{
    return exit_code == WORKER_EXIT_OK || exit_code == WORKER_EXIT_NOT_FOUND ||
           exit_code == TASKS_ANEW;
}

/* Its daemon sees the task's output closed; what it has left open otherwise is closed with it. */
static bool end_task(void)
{
    bool written = fflush(stdout) == 0 && fflush(stderr) == 0;
    int rest = open("/dev/null", O_RDWR | O_CLOEXEC);

    clearerr(stdout);
    clearerr(stderr);
    return written && dup2(rest, STDOUT_FILENO) >= 0 && dup2(rest, STDERR_FILENO) >= 0 &&
           syscall(SYS_close_range, SPAWN_SOCKET_FD + 1, UINT_MAX, 0) == 0;
}

static bool send_answer(int exit_code)
{
    const struct tasks_answer text = {exit_code};

    return send(SPAWN_SOCKET_FD, &text, sizeof(text), MSG_NOSIGNAL) == (ssize_t)sizeof(text);
}

/* A message without both descriptors is none. */
static bool take_descriptors(const struct msghdr *message)
{
    const struct cmsghdr *head = CMSG_FIRSTHDR(message);
    int fds[2];

    if (head == NULL || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
        head->cmsg_len != CMSG_LEN(sizeof(fds)))
        return false;
    memcpy(fds, CMSG_DATA(head), sizeof(fds));
    return dup2(fds[0], STDOUT_FILENO) >= 0 && dup2(fds[1], STDERR_FILENO) >= 0 &&
           close(fds[0]) == 0 && close(fds[1]) == 0;
}

/* How many arguments there are; 0: no more tasks. */
static int next_task(char text[TASKS_MESSAGE_BYTES], char *argv[WORKER_ARGUMENTS_MAX + 2])
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {text, TASKS_MESSAGE_BYTES};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t length;
    int argc = 1;

    do
        length = recvmsg(SPAWN_SOCKET_FD, &message, MSG_CMSG_CLOEXEC);
    while (length < 0 && errno == EINTR);
    if (length <= 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
        text[length - 1] != '\0' || !take_descriptors(&message))
        return 0;
    for (const char *at = text; at < text + length; at += strlen(at) + 1) {
        if (argc > WORKER_ARGUMENTS_MAX)
            return 0;
        argv[argc++] = (char *)(uintptr_t)at;
    }
    argv[argc] = NULL;
    return argc;
}

/* The user of all tasks, as the first one names it. A copy, since lists of processes show others in
 * its place later. */
static char *user_of(int argc, char **argv)
{
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--as") == 0)
            return check_strdup(argv[i + 1]);
    }
    return check_strdup("");
}

/* Answers for the task before each time. A process that ends by itself has not answered: then its
 * exit tells, so one that wants a task to be done anew waits to be ended. */
static int stay_for_tasks(const struct title *title, const char *user, int exit_code)
{
    static char text[TASKS_MESSAGE_BYTES];
    static char name[] = "ckpt-worker";
    static const char *const idle[] = {name, "idle"};
    char *argv[WORKER_ARGUMENTS_MAX + 2] = {name};
    int argc;

    while (ended_well(exit_code) && end_task()) {
        show_title(title, ARRAY_COUNT(idle), idle);
        if (!send_answer(exit_code))
            break;
        (void)malloc_trim(0);
        argc = next_task(text, argv);
        if (argc == 0)
            return WORKER_EXIT_OK;
        show_title(title, argc, (const char *const *)argv);
        begin_task();
        exit_code = verbs_again(argc, argv, user, stdout, stderr);
    }
    return exit_code == TASKS_ANEW ? WORKER_EXIT_UNAVAILABLE : exit_code;
}

int tasks_main(int argc, char **argv)
{
    struct title title;
    const char *tasks = getenv(TASKS_SOCKET), *other = other_program(argc, argv);
    struct err err;
    char *user;
    int exit_code;

    if (other != NULL)
        return hand_over(other, argv);
    if (parent_bind(&err) != 0) {
        fprintf(stderr, "%s: %s\n", program_name, err.text);
        return WORKER_EXIT_UNAVAILABLE;
    }
    begin_task();
    if (tasks == NULL || chdir("/") != 0) /* it must not be in the way of an unmount */
        return verbs_main(argc, argv, stdout, stderr);
    user = user_of(argc, argv);
    exit_code = verbs_main(argc, argv, stdout, stderr);
    title = take_title(argc, argv);
    exit_code = stay_for_tasks(&title, user, exit_code);
    free(user);
    return exit_code;
}
