/* A process that restores a backup in memory. See backup_verifier.h. */
#include "src/broker/keep/backup_verifier.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

#define OWN_PROGRAM "/proc/self/exe"

struct backup_verifier {
    uv_loop_t *loop;
    backup_verifier_done_fn *done; /* NULL: it was freed */
    void *data;
    uv_process_t process;
    uv_pipe_t errors;
    uv_timer_t deadline;
    unsigned open; /* handles of a process; 0: none runs */
    bool ended, overdue;
    int64_t status;
    int signal_number;
    char said[BACKUP_VERIFIER_TEXT_BYTES]; /* the beginning of its stderr */
    size_t said_bytes;
    char chunk[BACKUP_VERIFIER_TEXT_BYTES];
};

struct backup_verifier *backup_verifier_new(uv_loop_t *loop, backup_verifier_done_fn *done,
                                            void *data)
{
    struct backup_verifier *verify = check_calloc(1, sizeof(*verify));

    CHECK(done != NULL);
    verify->loop = loop;
    verify->done = done;
    verify->data = data;
    return verify;
}

static void tell_result(struct backup_verifier *verify)
{
    char failure[BACKUP_VERIFIER_TEXT_BYTES];

    verify->said[strcspn(verify->said, "\n")] = '\0';
    if (verify->status == 0 && verify->signal_number == 0) {
        verify->done(verify->data, NULL);
        return;
    }
    if (verify->overdue)
        snprintf(failure, sizeof(failure), "it did not end within %d minutes",
                 BACKUP_VERIFIER_DEADLINE_MS / 60000);
    else if (verify->said[0] != '\0')
        snprintf(failure, sizeof(failure), "%s", verify->said);
    else
        snprintf(failure, sizeof(failure), "status %d, signal %d", (int)verify->status,
                 verify->signal_number);
    verify->done(verify->data, failure);
}

/* The last of the three handles frees what was freed meanwhile, or tells the result. */
static void on_closed(uv_handle_t *handle)
{
    struct backup_verifier *verify = handle->data;

    CHECK(verify->open > 0);
    if (--verify->open > 0)
        return;
    if (verify->done == NULL)
        free(verify);
    else
        tell_result(verify);
}

static void on_ended(uv_process_t *process, int64_t status, int signal_number)
{
    struct backup_verifier *verify = process->data;

    verify->ended = true;
    verify->status = status;
    verify->signal_number = signal_number;
    uv_close((uv_handle_t *)&verify->deadline, on_closed);
    uv_close((uv_handle_t *)&verify->process, on_closed);
}

static void on_overdue(uv_timer_t *timer)
{
    struct backup_verifier *verify = timer->data;

    verify->overdue = true;
    (void)uv_process_kill(&verify->process, SIGKILL);
}

static void give_chunk(uv_handle_t *handle, size_t wanted, uv_buf_t *ret_buf)
{
    struct backup_verifier *verify = handle->data;

    (void)wanted;
    *ret_buf = uv_buf_init(verify->chunk, sizeof(verify->chunk));
}

static void on_said(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct backup_verifier *verify = stream->data;
    size_t room = sizeof(verify->said) - 1 - verify->said_bytes;

    if (count < 0) {
        uv_close((uv_handle_t *)&verify->errors, on_closed);
        return;
    }
    if (room > (size_t)count)
        room = (size_t)count;
    memcpy(verify->said + verify->said_bytes, buf->base, room);
    verify->said_bytes += room;
    verify->said[verify->said_bytes] = '\0';
}

static void open_handles(struct backup_verifier *verify)
{
    CHECK(uv_pipe_init(verify->loop, &verify->errors, 0) == 0);
    CHECK(uv_timer_init(verify->loop, &verify->deadline) == 0);
    verify->process.data = verify->errors.data = verify->deadline.data = verify;
    verify->open = 3;
    verify->ended = verify->overdue = false;
    verify->status = verify->signal_number = 0;
    verify->said_bytes = 0;
    verify->said[0] = '\0';
}

bool backup_verifier_start(struct backup_verifier *verify, const char *path)
{
    char *arguments[] = {(char *)(uintptr_t) "ckptd", (char *)(uintptr_t) "--verify-backup",
                         (char *)(uintptr_t)path, NULL};
    uv_stdio_container_t streams[3] = {
        {.flags = UV_IGNORE}, {.flags = UV_IGNORE}, {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE}};
    uv_process_options_t options = {.file = OWN_PROGRAM,
                                    .args = arguments,
                                    .exit_cb = on_ended,
                                    .stdio_count = 3,
                                    .stdio = streams};
    int result;

    if (verify->open > 0)
        return false;
    open_handles(verify);
    streams[2].data.stream = (uv_stream_t *)&verify->errors;
    result = uv_spawn(verify->loop, &verify->process, &options);
    if (result != 0) {
        snprintf(verify->said, sizeof(verify->said), "it cannot be started: %s",
                 uv_strerror(result));
        uv_close((uv_handle_t *)&verify->errors, on_closed);
        on_ended(&verify->process, EXIT_FAILURE, 0);
        return true;
    }
    CHECK(uv_read_start((uv_stream_t *)&verify->errors, give_chunk, on_said) == 0);
    CHECK(uv_timer_start(&verify->deadline, on_overdue, BACKUP_VERIFIER_DEADLINE_MS, 0) == 0);
    return true;
}

void backup_verifier_free(struct backup_verifier *verify)
{
    if (verify == NULL)
        return;
    verify->done = NULL;
    if (verify->open == 0)
        free(verify);
    else if (!verify->ended)
        (void)uv_process_kill(&verify->process, SIGKILL);
}
