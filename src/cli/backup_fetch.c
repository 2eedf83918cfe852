/* See backup_fetch.h. */
#include "src/cli/backup_fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/client/client.h"
#include "src/dest/sha256.h"

struct fetch {
    struct cli *cli;
    int fd;
    const char *path;
    bool stale;
    uv_loop_t loop;
    uv_timer_t retry;
    uv_timer_t limit; /* until the first byte; afterwards against a stall */
    struct rpc_follow *follow;
    struct rpc_client_call *call; /* NULL between two streams */
    struct sha256 sha256;
    uint64_t received_bytes;
    bool whole; /* the last message has come and agrees */
    bool ended;
    char last_text[256];
    enum cli_exit code;
};

static void end_fetch(struct fetch *fetch, enum cli_exit code)
{
    if (fetch->ended)
        return;
    fetch->ended = true;
    fetch->code = code;
    uv_stop(&fetch->loop);
}

static int write_all(int fd, const uint8_t *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, bytes, length);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        bytes += n;
        length -= (size_t)n;
    }
    return 0;
}

static void take_chunk(struct fetch *fetch, const Ckpt__V1__BackupChunk *chunk)
{
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_HEX_BYTES];

    if (write_all(fetch->fd, chunk->data.data, chunk->data.len) != 0) {
        end_fetch(fetch, cli_fail(fetch->cli, CLI_FAILED,
                                  "the same command with a FILE where there is room",
                                  "cannot write %s: %s", fetch->path, strerror(errno)));
        return;
    }
    sha256_update(&fetch->sha256, chunk->data.data, chunk->data.len);
    fetch->received_bytes += chunk->data.len;
    uv_timer_start(&fetch->limit, fetch->limit.timer_cb, BACKUP_FETCH_STALL_MS, 0);
    if (chunk->sha256[0] == '\0')
        return;
    sha256_finish(&fetch->sha256, digest);
    fetch->whole = strcmp(sha256_format(digest, text), chunk->sha256) == 0;
    if (!fetch->whole)
        end_fetch(fetch, cli_fail(fetch->cli, CLI_FAILED, "the same command again",
                                  "the backup was damaged on its way: SHA-256 %s, the member "
                                  "sent %s",
                                  text, chunk->sha256));
}

static void on_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                       size_t length)
{
    struct fetch *fetch = data;
    Ckpt__V1__BackupChunk *chunk = ckpt__v1__backup_chunk__unpack(NULL, length, bytes);

    (void)call;
    if (chunk == NULL)
        end_fetch(fetch, cli_fail(fetch->cli, CLI_FAILED, "the same version of ckptctl as of ckptd",
                                  "a part of the backup cannot be read (%zu bytes)", length));
    else if (!fetch->ended)
        take_chunk(fetch, chunk);
    if (chunk != NULL)
        ckpt__v1__backup_chunk__free_unpacked(chunk, NULL);
}

static void open_stream(uv_timer_t *timer);

static void on_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct fetch *fetch = data;
    uint64_t delay_ms = 0;

    (void)call;
    fetch->call = NULL;
    if (fetch->ended)
        return;
    if (end->status == RPC_OK && fetch->whole) {
        end_fetch(fetch, CLI_OK);
        return;
    }
    snprintf(fetch->last_text, sizeof(fetch->last_text), "%s",
             end->status == RPC_OK ? "the stream ended early" : end->message);
    if (end->status != RPC_OK && !rpc_follow_result(fetch->follow, end, &delay_ms)) {
        end_fetch(fetch,
                  call_failed(fetch->cli, "save a backup", end->status, end->message, false));
        return;
    }
    if (fetch->received_bytes > 0)
        cli_note(fetch->cli, "remark: the stream broke (%s); beginning again", fetch->last_text);
    uv_timer_start(&fetch->retry, open_stream, delay_ms, 0);
}

static void open_stream(uv_timer_t *timer)
{
    static const struct rpc_client_handlers handlers = {.on_message = on_message, .on_end = on_end};
    struct fetch *fetch = timer->data;
    Ckpt__V1__BackupRequest request = CKPT__V1__BACKUP_REQUEST__INIT;
    uint8_t bytes[16];
    size_t length;

    CHECK(fetch->call == NULL);
    if (lseek(fetch->fd, 0, SEEK_SET) != 0 || ftruncate(fetch->fd, 0) != 0) {
        end_fetch(fetch, cli_fail(fetch->cli, CLI_FAILED, "a regular file as FILE",
                                  "cannot begin %s again: %s", fetch->path, strerror(errno)));
        return;
    }
    sha256_start(&fetch->sha256);
    fetch->received_bytes = 0;
    fetch->whole = false;
    request.linearizable = !fetch->stale;
    length = ckpt__v1__backup_request__pack(&request, bytes);
    fetch->call = rpc_channel_open(rpc_follow_channel(fetch->follow),
                                   "/ckpt.v1.OperatorService/Backup", 0, false, &handlers, fetch);
    if (fetch->call != NULL) {
        rpc_client_call_send(fetch->call, bytes, length);
        rpc_client_call_half_close(fetch->call);
    }
}

static void on_limit(uv_timer_t *timer)
{
    struct fetch *fetch = timer->data;

    end_fetch(fetch, call_failed(fetch->cli, "save a backup", RPC_DEADLINE_EXCEEDED,
                                 fetch->last_text[0] != '\0' ? fetch->last_text
                                                             : "no part of it came in time",
                                 false));
}

static void close_all(struct fetch *fetch)
{
    if (fetch->call != NULL)
        rpc_client_call_cancel(fetch->call);
    if (fetch->follow != NULL)
        rpc_follow_free(fetch->follow);
    uv_close((uv_handle_t *)&fetch->retry, NULL);
    uv_close((uv_handle_t *)&fetch->limit, NULL);
    uv_run(&fetch->loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&fetch->loop) == 0);
    sha256_close(&fetch->sha256);
}

enum cli_exit backup_fetch(struct cli *cli, bool stale, int fd, const char *path)
{
    struct fetch fetch = {.cli = cli, .fd = fd, .path = path, .stale = stale};
    const struct rpc_channel_config config = {.tls = cli->tls};
    struct err err;

    sha256_init(&fetch.sha256);
    CHECK(uv_loop_init(&fetch.loop) == 0);
    CHECK(uv_timer_init(&fetch.loop, &fetch.retry) == 0);
    CHECK(uv_timer_init(&fetch.loop, &fetch.limit) == 0);
    fetch.retry.data = &fetch;
    fetch.limit.data = &fetch;
    if (rpc_follow_new(&fetch.loop, cli->endpoints, &config, &fetch.follow, &err) != 0) {
        fetch.follow = NULL;
        end_fetch(&fetch, cli_fail(cli, CLI_USAGE, NULL, "--endpoints: %s", err.text));
    } else {
        uv_timer_start(&fetch.retry, open_stream, 0, 0);
        uv_timer_start(&fetch.limit, on_limit, cli->timeout_ms, 0);
        uv_run(&fetch.loop, UV_RUN_DEFAULT);
    }
    close_all(&fetch);
    return fetch.code;
}
