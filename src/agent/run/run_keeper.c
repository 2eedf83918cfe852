/* The keeper of an application. See run_keeper.h. */
#include "src/agent/run/run_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/agent/alone/alone_program.h"
#include "src/agent/durable/end_note.h"
#include "src/agent/node/proc.h"
#include "src/base/check.h"
#include "src/base/start.h"

enum { ANSWER_WITHIN_S = 2, OWN_FD_FIRST = 3, LOOK_MS = 100, CLIENT_WAIT_MS = 2000 };
enum { GRACE_MAX_MS = 24 * 3600 * 1000 };

/* Request and command, as one message. The members from `grace_ms` on came later: a ckpt-run or a
 * keeper of the release before sends or takes what is above. */
struct keeper_question {
    enum keeper_request request;
    char allocation_id[ID_MAX_BYTES + 1];
    size_t command_bytes; /* true length, also when not all of it is here */
    char command[KEEPER_COMMAND_BYTES];
    uint64_t grace_ms;
    char folder[PATH_MAX]; /* "": it is not told */
    struct input_mark input;
};
enum {
    QUESTION_BYTES_MIN = offsetof(struct keeper_question, grace_ms),
    REPLY_BYTES_MIN = offsetof(struct keeper_reply, folder)
};

static struct keeper {
    const struct keeper_start *start;
    struct keeper_card card;
    int client;    /* its ckpt-run; -1: it has gone */
    int listening; /* -1: the work folder does not take a socket */
    int signals;
    int folder;
    bool confirmed, told, ended, done;
    int wait_status;
    int stop_status;     /* of one that is stopped; 0: it is not */
    uint64_t alone_ms;   /* the application has ended, and no ckpt-run is there since; 0: not so */
    uint64_t kill_at_ms; /* it was told to end, and its grace is over then; 0: not so */
} keeper;

/* ---- commands ---- */

static void put_line(const struct keeper_line *line, struct keeper_question *question)
{
    char *const *command = line->command;
    size_t used = 0;

    snprintf(question->allocation_id, sizeof(question->allocation_id), "%s", line->allocation_id);
    question->input = line->input;
    memset(question->folder, 0, sizeof(question->folder));
    snprintf(question->folder, sizeof(question->folder), "%s", line->folder);
    memset(question->command, 0, sizeof(question->command));
    for (size_t i = 0; command[i] != NULL; i++) {
        size_t length = strlen(command[i]) + 1;

        if (used + length <= sizeof(question->command))
            memcpy(question->command + used, command[i], length);
        used += length;
    }
    question->command_bytes = used;
}

static bool same_line(const struct keeper_question *question)
{
    static struct keeper_question own;

    put_line(&keeper.start->line, &own);
    return strcmp(own.allocation_id, question->allocation_id) == 0 &&
           own.command_bytes == question->command_bytes &&
           memcmp(own.command, question->command, sizeof(own.command)) == 0;
}

static bool same_folder(const struct keeper_question *question)
{
    return question->folder[0] == '\0' || strcmp(keeper.start->line.folder, question->folder) == 0;
}

void run_keeper_folder(char ret_folder[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/cwd", ret_folder, PATH_MAX - 1);

    ret_folder[length > 0 ? length : 0] = '\0';
}

static void make_printable(char *text)
{
    for (char *at = text; *at != '\0'; at++)
        *at = *at >= ' ' && *at <= '~' ? *at : '?';
}

static void show_command(char *const *command, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; command[i] != NULL && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "" : " ", command[i]);
    make_printable(text);
}

/* ---- the socket in the work folder ---- */

static void socket_address(int folder, struct sockaddr_un *ret_address)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "/proc/self/fd/%d/%s", folder,
             KEEPER_SOCKET_NAME);
}

static int listen_here(int folder)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    socket_address(folder, &address);
    (void)unlinkat(folder, KEEPER_SOCKET_NAME, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        listen(fd, 8) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static void limit_waits(int fd)
{
    const struct timeval limit = {.tv_sec = ANSWER_WITHIN_S};

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* True: the keeper has answered. The members that an elder one does not know are zero. */
static bool ask_keeper(int fd, const struct keeper_question *question,
                       struct keeper_reply *ret_reply)
{
    memset(ret_reply, 0, sizeof(*ret_reply));
    return send(fd, question, sizeof(*question), MSG_NOSIGNAL) == (ssize_t)sizeof(*question) &&
           recv(fd, ret_reply, sizeof(*ret_reply), 0) >= (ssize_t)REPLY_BYTES_MIN;
}

/* Others may listen in a folder that they can write to, and would have this ckpt-run take any
 * process for its application. Root ends the applications of all users. */
static bool may_believe(int fd, enum keeper_request request)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || (request == KEEPER_END && geteuid() == 0));
}

/* By the kernel's word on who listens there. */
static bool is_unseen(int fd)
{
    struct proc_status own, its;
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        proc_read_status(getpid(), &own) != 0 || own.nested == 0)
        return false; /* nobody tells */
    return peer.pid <= 0 || (proc_read_status(peer.pid, &its) == 0 && own.nested != its.nested);
}

int run_keeper_call(const char *work_dir, const struct keeper_call *call,
                    struct keeper_reply *ret_reply)
{
    static struct keeper_question question;
    struct sockaddr_un address;
    int folder = open(work_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool answered;

    socket_address(folder, &address);
    question.request = call->request;
    question.grace_ms = call->grace_ms;
    if (call->request == KEEPER_ATTACH)
        put_line(&call->line, &question);
    limit_waits(fd);
    answered = folder >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
               may_believe(fd, call->request);
    if (answered && call->request == KEEPER_ATTACH && is_unseen(fd))
        *ret_reply = (struct keeper_reply){.answer = KEEPER_UNSEEN};
    else
        answered = answered && ask_keeper(fd, &question, ret_reply);
    close(folder);
    if (answered && call->request == KEEPER_ATTACH && ret_reply->answer == KEEPER_YES)
        return fd;
    close(fd);
    return answered ? 0 : -1;
}

/* ---- its ckpt-run ---- */

static void reap_application(void);

static void tell_news(enum keeper_news_kind kind, int value)
{
    const struct keeper_news news = {kind, value};

    if (keeper.client >= 0)
        (void)send(keeper.client, &news, sizeof(news), MSG_NOSIGNAL);
}

static void note_path(char path[PATH_MAX], const char *suffix)
{
    snprintf(path, PATH_MAX, "/proc/self/fd/%d/" END_NOTE_NAME "%s", keeper.folder, suffix);
}

/* Of this start: its ckpt-run left it before it went. */
static bool note_is_there(void)
{
    char path[PATH_MAX], text[END_NOTE_BYTES] = "";
    struct end_note note;
    ssize_t length;
    int fd;

    note_path(path, "");
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    return length > 0 && end_note_read(text, &note) && note.pid == keeper.card.pid &&
           note.start_ticks == keeper.card.start_ticks;
}

static void leave_note(void)
{
    const struct end_note note = {.pid = keeper.card.pid,
                                  .start_ticks = keeper.card.start_ticks,
                                  .run = keeper.card.run,
                                  .wait_status = keeper.wait_status,
                                  .told_to_end = keeper.told};
    char path[PATH_MAX], fresh[PATH_MAX], text[END_NOTE_BYTES];
    size_t length = end_note_format(&note, text);
    int fd;

    note_path(path, "");
    note_path(fresh, ".new");
    fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && write(fd, text, length) == (ssize_t)length)
        (void)rename(fresh, path);
    if (fd >= 0)
        close(fd);
}

static void client_gone(void)
{
    close(keeper.client);
    keeper.client = -1;
}

static void take_word(char word)
{
    keeper.confirmed = keeper.confirmed || word == KEEPER_CONFIRM;
    keeper.told = keeper.told || word == KEEPER_TELL;
    keeper.done = keeper.done || word == KEEPER_DONE;
    if (word == KEEPER_NOTED && keeper.ended)
        reap_application();
}

/* All that have come, and the end behind them: a caller who comes after it finds none attended. */
static void take_words(void)
{
    while (keeper.client >= 0) {
        char word;
        ssize_t got = recv(keeper.client, &word, 1, MSG_DONTWAIT);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got != 1)
            client_gone();
        else
            take_word(word);
    }
}

/* ---- others that ask ---- */

static bool may_ask(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static uint64_t monotonic_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A second word may shorten the grace, and never lengthens it. */
static void end_application(uint64_t grace_ms)
{
    uint64_t kill_at_ms = monotonic_ms() + (grace_ms < GRACE_MAX_MS ? grace_ms : GRACE_MAX_MS);

    keeper.told = true;
    tell_news(KEEPER_TOLD, 0);
    if (keeper.ended)
        return;
    if (keeper.kill_at_ms == 0 || kill_at_ms < keeper.kill_at_ms)
        keeper.kill_at_ms = kill_at_ms;
    if (grace_ms > 0) {
        kill(-(pid_t)keeper.card.pid, SIGTERM);
        kill(-(pid_t)keeper.card.pid, SIGCONT);
    }
}

/* Not reaped yet, the application has its number. */
static void kill_in_time(void)
{
    if (keeper.kill_at_ms == 0 || keeper.ended || monotonic_ms() < keeper.kill_at_ms)
        return;
    keeper.kill_at_ms = 0;
    CHECK(keeper.card.pid > 1); /* -1 is everybody */
    kill(-(pid_t)keeper.card.pid, SIGKILL);
    kill((pid_t)keeper.card.pid, SIGKILL); /* wherever it has gone */
}

static enum keeper_answer answer_to(const struct keeper_question *question)
{
    if (question->request != KEEPER_ATTACH)
        return KEEPER_YES;
    if (keeper.client >= 0)
        return KEEPER_ATTENDED;
    if (!same_line(question))
        return KEEPER_OTHER;
    return same_folder(question) ? KEEPER_YES : KEEPER_ELSEWHERE;
}

static bool take_question(int fd, struct keeper_question *ret_question)
{
    memset(ret_question, 0, sizeof(*ret_question));
    ret_question->grace_ms = GRACE_MAX_MS;
    if (recv(fd, ret_question, sizeof(*ret_question), 0) < (ssize_t)QUESTION_BYTES_MIN)
        return false;
    ret_question->folder[sizeof(ret_question->folder) - 1] = '\0';
    ret_question->allocation_id[sizeof(ret_question->allocation_id) - 1] = '\0';
    return true;
}

static void answer_caller(int fd)
{
    static struct keeper_question question;
    struct keeper_reply reply = {.card = keeper.card};

    limit_waits(fd);
    if (!may_ask(fd) || !keeper.confirmed || !take_question(fd, &question)) {
        close(fd);
        return;
    }
    snprintf(reply.allocation_id, sizeof(reply.allocation_id), "%s",
             keeper.start->line.allocation_id);
    show_command(keeper.start->line.command, reply.command, sizeof(reply.command));
    snprintf(reply.folder, sizeof(reply.folder), "%s", keeper.start->line.folder);
    make_printable(reply.folder);
    reply.answer = answer_to(&question);
    reply.other_input = !input_mark_same(&keeper.start->line.input, &question.input);
    if (question.request == KEEPER_END)
        end_application(question.grace_ms);
    if (send(fd, &reply, sizeof(reply), MSG_NOSIGNAL) != (ssize_t)sizeof(reply) ||
        question.request != KEEPER_ATTACH || reply.answer != KEEPER_YES) {
        close(fd);
        return;
    }
    keeper.client = fd;
    keeper.alone_ms = 0;
    if (keeper.ended)
        tell_news(KEEPER_ENDED, keeper.wait_status);
    else if (keeper.stop_status != 0)
        tell_news(KEEPER_CHANGED, keeper.stop_status);
}

/* ---- the application ---- */

/* Its ckpt-run may have been killed with it, and is perhaps being started again: that one then
 * decides whether the application is. */
static bool waited_for_client(void)
{
    if (keeper.alone_ms == 0)
        keeper.alone_ms = monotonic_ms();
    return monotonic_ms() - keeper.alone_ms >= CLIENT_WAIT_MS;
}

static int wait_status_of(const siginfo_t *info)
{
    if (info->si_code == CLD_EXITED)
        return W_EXITCODE(info->si_status, 0);
    return W_EXITCODE(0, info->si_status) | (info->si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

static void take_change(void)
{
    int status;

    if (waitpid((pid_t)keeper.card.pid, &status, WNOHANG | WUNTRACED | WCONTINUED) !=
        (pid_t)keeper.card.pid)
        return;
    keeper.stop_status = WIFSTOPPED(status) ? status : 0;
    tell_news(KEEPER_CHANGED, status);
}

/* Its entry in /proc stays: before the agent knows the application, and until the end is noted. The
 * agent waits for the note while it is there, also of a ckpt-run that stands still. */
static void take_statuses(void)
{
    siginfo_t info;

    while (!keeper.ended) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)keeper.card.pid, &info,
                   WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0)
            return;
        if (info.si_code == CLD_STOPPED || info.si_code == CLD_CONTINUED ||
            info.si_code == CLD_TRAPPED) {
            take_change();
            continue;
        }
        if (!keeper.confirmed && keeper.client >= 0)
            return;
        keeper.ended = true;
        keeper.wait_status = wait_status_of(&info);
        tell_news(KEEPER_ENDED, keeper.wait_status);
    }
}

static void reap_application(void)
{
    CHECK(keeper.ended);
    (void)waitpid((pid_t)keeper.card.pid, NULL, WNOHANG);
}

/* The agent may look at the application before it runs: a handler of ckpt-run would be taken for
 * one of the application, which would be asked by a signal, and die. */
static void start_application(void (*application)(void *data), void *data)
{
    struct proc_stat stat;
    pid_t pid;

    start_forget();
    pid = fork();
    if (pid == 0)
        application(data);
    if (pid > 0)
        setpgid(pid, pid);
    keeper.card = keeper.start->card;
    keeper.card.pid = pid < 0 ? 0 : (uint32_t)pid;
    if (pid > 0 && proc_read_stat(pid, &stat) == 0)
        keeper.card.start_ticks = stat.start_ticks;
    if (pid < 0) {
        tell_news(KEEPER_STARTED, -errno);
        _exit(EXIT_FAILURE);
    }
}

/* Descriptors of ckpt-run and of its caller are held by those that use them, and by nobody else. */
static void keeper_settle(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t all;

    CHECK(null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2);
    CHECK(dup2(keeper.client, OWN_FD_FIRST) == OWN_FD_FIRST);
    keeper.client = OWN_FD_FIRST;
    CHECK(syscall(SYS_close_range, OWN_FD_FIRST + 1, UINT_MAX, 0) == 0);
    setpgid(0, 0);
    (void)prctl(PR_SET_NAME, "ckpt-keeper");
    CHECK(chdir("/") == 0); /* it must not be in the way of an unmount */
    sigfillset(&all);
    keeper.signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    CHECK(keeper.signals >= 0);
    keeper.folder = open(keeper.start->work_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    keeper.listening = keeper.folder < 0 ? -1 : listen_here(keeper.folder);
    if (keeper.start->held_folder != NULL)
        (void)alone_program_hold(keeper.start->held_folder); /* as long as this process lives */
}

static int wait_ms(void)
{
    uint64_t now_ms;

    if (keeper.alone_ms != 0)
        return LOOK_MS;
    if (keeper.kill_at_ms == 0 || keeper.ended)
        return -1;
    now_ms = monotonic_ms();
    return keeper.kill_at_ms > now_ms ? (int)(keeper.kill_at_ms - now_ms) : 0;
}

static void keeper_step(void)
{
    struct pollfd fds[] = {
        {keeper.signals, POLLIN, 0}, {keeper.client, POLLIN, 0}, {keeper.listening, POLLIN, 0}};
    struct signalfd_siginfo signal;

    (void)poll(fds, ARRAY_COUNT(fds), wait_ms());
    while (read(keeper.signals, &signal, sizeof(signal)) == (ssize_t)sizeof(signal))
        ;
    if (fds[1].revents != 0)
        take_words();
    if (fds[2].revents != 0) {
        int fd = accept4(keeper.listening, NULL, NULL, SOCK_CLOEXEC);

        take_words();
        if (fd >= 0)
            answer_caller(fd);
    }
    take_statuses();
    kill_in_time();
}

static bool is_over(void)
{
    if (!keeper.ended || keeper.done)
        return keeper.ended;
    return keeper.client < 0 && (keeper.wait_status == 0 || note_is_there() || waited_for_client());
}

/* As of a command that was brought into a container: criu saves no process of such a session. A
 * terminal is kept, which belongs to its session. */
static void leave_unseen_session(void)
{
    int terminal;

    if (getsid(0) != 0)
        return;
    terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (terminal >= 0)
        close(terminal);
    else
        CHECK(setsid() > 0); /* a fresh child leads no group */
}

void run_keeper_main(const struct keeper_start *start, int socket, void (*application)(void *data),
                     void *data)
{
    keeper.start = start;
    keeper.client = socket;
    leave_unseen_session();
    start_application(application, data);
    keeper_settle();
    tell_news(KEEPER_STARTED, (int)keeper.card.pid); /* from here on others can ask */
    while (!is_over())
        keeper_step();
    if (keeper.folder >= 0 && !keeper.done && keeper.confirmed && !note_is_there())
        leave_note();
    reap_application();
    if (keeper.listening >= 0)
        (void)unlinkat(keeper.folder, KEEPER_SOCKET_NAME, 0);
    _exit(EXIT_SUCCESS);
}
