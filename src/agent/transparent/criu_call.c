/* The conversation with criu by its RPC. See criu_call.h. */
#include "src/agent/transparent/criu_call.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/transparent/program.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/text.h"

enum {
    MESSAGE_BYTES = 65536,
    STEPS_MAX = 64,
    LOG_TAIL_BYTES = 16384,
    REASON_BYTES = 200,
    NUMBER_BYTES = 16,
    LOG_LEVEL = 2,
    STANDSTILL_S = 30,            /* until all processes stand still */
    GHOST_MAX_BYTES = 1024 << 20, /* a file without a name, which the checkpoint holds whole */
    CGROUPS_LEFT = 0
};

int criu_find(char *ret_path, size_t size, struct err *err)
{
    if (program_find("criu", ret_path, size) == 0)
        return 0;
    return err_set(err, ERR_NOT_FOUND,
                   "there is no criu on this node: install it (Debian: the package criu, release "
                   "4.0 or later)");
}

int criu_start(struct criu_process *ret_criu, struct err *err)
{
    char path[PATH_MAX], number[NUMBER_BYTES];
    int ends[2];
    pid_t pid;

    if (criu_find(path, sizeof(path), err) != 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return err_set(err, ERR_IO, "a socket for criu cannot be made: %s", strerror(errno));
    snprintf(number, sizeof(number), "%d", ends[1]);
    pid = _Fork(); /* libuv's handlers would close numbers that are others' by now */
    if (pid == 0) {
        (void)fcntl(ends[1], F_SETFD, 0);
        execl(path, path, "swrk", number, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return err_set(err, ERR_IO, "criu cannot be started: %s", strerror(errno));
    }
    *ret_criu = (struct criu_process){.pid = pid, .fd = ends[0]};
    return 0;
}

void criu_end(struct criu_process *criu)
{
    int wait_status;

    CHECK(criu->pid > 0);
    close(criu->fd);
    while (waitpid(criu->pid, &wait_status, 0) < 0 && errno == EINTR)
        ;
    criu->pid = 0;
}

/* ---- its reason ---- */

/* "(00.012345) Error (criu/file.c:12): Can't ..." without what stands before the sentence. */
static const char *reason_of(const char *line)
{
    const char *error = strstr(line, "Error ("),
               *text = error == NULL ? NULL : strstr(error, "): ");

    return text == NULL ? NULL : text + strlen("): ");
}

/* Each function that gives up on the way out says so. */
static bool is_consequence(const char *line)
{
    static const char *const words[] = {" failed with ", " failed when ", "FAILED", "Failed to ",
                                        "Could not initialize"};

    for (size_t i = 0; i < ARRAY_COUNT(words); i++)
        if (strstr(line, words[i]) != NULL)
            return true;
    return false;
}

void criu_reason(char *log, char *ret_reason, size_t size)
{
    char *rest = log, *line;

    ret_reason[0] = '\0';
    while ((line = strsep(&rest, "\n")) != NULL)
        if (reason_of(line) != NULL && !is_consequence(line))
            (void)text_shown(reason_of(line), ret_reason, size);
}

static void read_reason(int work_fd, char ret_reason[REASON_BYTES])
{
    int fd = work_fd < 0 ? -1 : openat(work_fd, CRIU_LOG_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char *text = check_calloc(1, LOG_TAIL_BYTES);
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);

    if (fd >= 0 && pread(fd, text, LOG_TAIL_BYTES - 1,
                         size > LOG_TAIL_BYTES - 1 ? size - (LOG_TAIL_BYTES - 1) : 0) < 0)
        text[0] = '\0';
    criu_reason(text, ret_reason, REASON_BYTES);
    if (fd >= 0)
        close(fd);
    free(text);
}

static int set_reason(const struct criu_request *request, const Criu__Response *response,
                      struct err *err)
{
    char reason[REASON_BYTES], own[REASON_BYTES];

    read_reason(request->work_fd, reason);
    if (reason[0] != '\0')
        return err_set(err, ERR_REFUSED, "criu: %s", reason);
    if (response->cr_errmsg != NULL && response->cr_errmsg[0] != '\0')
        return err_set(err, ERR_REFUSED, "criu: %s",
                       text_shown(response->cr_errmsg, own, sizeof(own)));
    if (response->has_cr_errno && response->cr_errno != 0)
        return err_set(err, ERR_REFUSED, "criu: %s", strerror(response->cr_errno));
    return err_set(err, ERR_REFUSED, "criu refuses without a reason");
}

/* ---- messages ---- */

static int send_request(int fd, const Criu__Request *message, struct err *err)
{
    size_t length = criu__request__get_packed_size(message);
    uint8_t *bytes = check_alloc(length);
    ssize_t sent;

    criu__request__pack(message, bytes);
    do {
        sent = send(fd, bytes, length, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    free(bytes);
    return sent == (ssize_t)length
               ? 0
               : err_set(err, ERR_UNAVAILABLE, "criu has ended: %s", strerror(errno));
}

static int send_first(int fd, const struct criu_request *request, struct err *err)
{
    Criu__Request message = CRIU__REQUEST__INIT;
    Criu__Options options = CRIU__OPTIONS__INIT;
    Criu__Inherited rows[CRIU_INHERITED_MAX], *inherited[CRIU_INHERITED_MAX];
    char log[] = CRIU_LOG_NAME;

    CHECK(request->inherited_count <= CRIU_INHERITED_MAX);
    message.type = request->kind;
    if (request->images_fd >= 0)
        message.opts = &options;
    options.images_dir_fd = request->images_fd;
    options.has_work_dir_fd = request->work_fd >= 0;
    options.work_dir_fd = request->work_fd;
    options.has_pid = request->kind == CRIU__KIND__KIND_DUMP;
    options.pid = request->pid;
    options.has_leave_running = options.has_pid && !request->stops;
    options.has_leave_stopped = options.has_pid && request->stops;
    options.leave_running = options.leave_stopped = true;
    options.has_rst_sibling = options.rst_sibling = request->kind == CRIU__KIND__KIND_RESTORE;
    options.has_shell_job = options.shell_job = true;
    options.has_file_locks = options.file_locks = true;
    options.has_notify_scripts = options.notify_scripts = true;
    options.has_log_level = true;
    options.log_level = LOG_LEVEL;
    options.log_file = log;
    options.has_manage_cgroups_mode = true;
    options.manage_cgroups_mode = CGROUPS_LEFT;
    options.has_ghost_limit = options.has_timeout = true;
    options.ghost_limit = GHOST_MAX_BYTES;
    options.timeout = STANDSTILL_S;
    options.has_unprivileged = options.unprivileged = geteuid() != 0;
    for (size_t i = 0; i < request->inherited_count; i++) {
        criu__inherited__init(&rows[i]);
        rows[i].key = text_message(request->inherited[i].key);
        rows[i].fd = request->inherited[i].fd;
        inherited[i] = &rows[i];
    }
    options.n_inherit_fd = request->inherited_count;
    options.inherit_fd = inherited;
    return send_request(fd, &message, err);
}

static Criu__Response *receive_response(int fd, struct err *err)
{
    uint8_t *bytes = check_alloc(MESSAGE_BYTES);
    Criu__Response *response = NULL;
    ssize_t got;

    do {
        got = recv(fd, bytes, MESSAGE_BYTES, MSG_TRUNC);
    } while (got < 0 && errno == EINTR);
    if (got <= 0)
        (void)err_set(err, ERR_UNAVAILABLE, "criu ended without an answer");
    else if (got <= MESSAGE_BYTES)
        response = criu__response__unpack(NULL, (size_t)got, bytes);
    if (got > 0 && response == NULL)
        (void)err_set(err, ERR_CORRUPT, "criu's answer does not decode");
    free(bytes);
    return response;
}

/* The step's own reason stays: criu's answer to a veto says nothing of it. */
static int answer_step(int fd, const struct criu_request *request, const Criu__Response *response,
                       bool *vetoed, struct err *err)
{
    Criu__Request message = CRIU__REQUEST__INIT;
    const char *name = response->notify == NULL || response->notify->script == NULL
                           ? ""
                           : response->notify->script;

    if (!*vetoed && request->step != NULL)
        *vetoed = request->step(request->data, name, err) != 0;
    message.type = CRIU__KIND__KIND_NOTIFY;
    message.has_notify_success = true;
    message.notify_success = !*vetoed;
    return send_request(fd, &message, *vetoed ? NULL : err);
}

static int take_answer(const struct criu_request *request, const Criu__Response *response,
                       struct criu_answer *ret_answer, struct err *err)
{
    *ret_answer = (struct criu_answer){.pid = 0};
    if (response->type != request->kind)
        return err_set(err, ERR_CORRUPT, "criu answers a request that nobody made");
    if (!response->success)
        return set_reason(request, response, err);
    if (response->restore != NULL)
        ret_answer->pid = response->restore->pid;
    if (response->version != NULL)
        ret_answer->version = (uint32_t)response->version->major_number * 10000 +
                              (uint32_t)response->version->minor_number * 100 +
                              (uint32_t)response->version->sublevel;
    if (request->kind == CRIU__KIND__KIND_RESTORE && ret_answer->pid <= 1)
        return err_set(err, ERR_CORRUPT, "criu says pid %d of what it has restored",
                       (int)ret_answer->pid);
    return 0;
}

int criu_ask(const struct criu_process *criu, const struct criu_request *request,
             struct criu_answer *ret_answer, struct err *err)
{
    bool vetoed = false;

    if (send_first(criu->fd, request, err) != 0)
        return -1;
    for (int i = 0; i < STEPS_MAX; i++) {
        Criu__Response *response = receive_response(criu->fd, vetoed ? NULL : err);
        bool step = response != NULL && response->type == CRIU__KIND__KIND_NOTIFY;
        int result = -1;

        if (step)
            result = answer_step(criu->fd, request, response, &vetoed, err);
        else if (response != NULL)
            result = take_answer(request, response, ret_answer, vetoed ? NULL : err);
        if (response != NULL)
            criu__response__free_unpacked(response, NULL);
        if (!step || result != 0)
            return vetoed ? -1 : result;
    }
    return err_set(err, ERR_CORRUPT, "criu told of more than %d steps", STEPS_MAX);
}

int criu_call(const struct criu_request *request, struct criu_answer *ret_answer, struct err *err)
{
    struct criu_process criu;
    int result;

    if (criu_start(&criu, err) != 0)
        return -1;
    result = criu_ask(&criu, request, ret_answer, err);
    criu_end(&criu);
    return result;
}
