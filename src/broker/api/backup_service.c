/* OperatorService/Backup: one file as a stream of messages. See backup.h.
 *
 * Flow     request -> backup_take() -> read a piece off the loop -> send it -> when the client has
 *          room, the next -> the digest.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "ckpt/v1/operator.pb-c.h"
#include "raft/snap/export.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/api/answer.h"
#include "src/broker/keep/backup.h"
#include "src/dest/sha256.h"

struct backup {
    struct broker *broker;
    size_t call_count;
    uint64_t failed_ms;       /* monotonic, of the last line about a failure; 0: none */
    uint64_t failures_unsaid; /* since then */
};

/* One backup on its way to a client. It is freed before its call is ended, so that a client which
 * asks again at once finds room. */
struct backup_call {
    struct backup *backup;
    struct rpc_call *call;
    struct backup_take *take; /* until it is taken */
    struct export_call *file; /* from then on */
    struct sha256 sha256;
    uint64_t size_bytes, sent_bytes;
};

/* Ends what is under way: taking, or reading the file, which is removed when it is closed. */
static void call_free(struct backup_call *call)
{
    CHECK(call->backup->call_count > 0);
    call->backup->call_count--;
    if (call->take != NULL)
        backup_take_cancel(call->take);
    export_close(call->file);
    sha256_close(&call->sha256);
    free(call);
}

/* A piece of the file, or with sha256 the last message. False: the buffer is full. */
static bool send_chunk(struct backup_call *call, const uint8_t *bytes, size_t length,
                       const char *sha256)
{
    Ckpt__V1__BackupChunk chunk = CKPT__V1__BACKUP_CHUNK__INIT;
    size_t size;
    uint8_t *packed;
    bool more;

    chunk.data.data = (uint8_t *)(uintptr_t)bytes;
    chunk.data.len = length;
    if (sha256 != NULL)
        chunk.sha256 = (char *)(uintptr_t)sha256;
    size = ckpt__v1__backup_chunk__get_packed_size(&chunk);
    packed = check_alloc(size);
    ckpt__v1__backup_chunk__pack(&chunk, packed);
    more = rpc_call_send(call->call, packed, size);
    free(packed);
    return more;
}

/* The digest goes last: it is of what was really sent. */
static void call_finish(struct backup_call *call)
{
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_HEX_BYTES];
    struct rpc_call *rpc = call->call;

    sha256_finish(&call->sha256, digest);
    send_chunk(call, NULL, 0, sha256_format(digest, text));
    log_info("backup_sent", "bytes=%" PRIu64 " sha256=%s", call->sent_bytes, text);
    call_free(call);
    rpc_call_finish(rpc, RPC_OK, NULL);
}

/* Clients try again, and that soon. */
static void failure_tell(struct backup *backup, const struct err *err)
{
    uint64_t now_ms = broker_monotonic_ms(backup->broker);

    if (backup->failed_ms != 0 && now_ms - backup->failed_ms < BACKUP_FAILURE_LOG_MS) {
        backup->failures_unsaid++;
        return;
    }
    log_warning("backup_failed", "code=%s left_out=%" PRIu64 " text=\"%s\"",
                err_code_name(err->code), backup->failures_unsaid, err->text);
    backup->failed_ms = now_ms;
    backup->failures_unsaid = 0;
}

/* ERR_FULL is another backup's turn or a full disk, ERR_EMPTY a member without a state; the client
 * may try elsewhere. */
static void call_fail(struct backup_call *call, const struct err *err)
{
    struct rpc_call *rpc = call->call;
    struct broker *broker = call->backup->broker;
    struct backup *backup = call->backup;
    char text[ANSWER_TEXT_BYTES];

    call_free(call);
    if (err->code == ERR_UNAVAILABLE) { /* nothing failed: it is the leader's to take */
        answer_not_leader(broker, rpc);
        return;
    }
    failure_tell(backup, err);
    snprintf(text, sizeof(text), "BACKUP_FAILED: %.500s", err->text);
    rpc_call_finish(rpc,
                    err->code == ERR_FULL    ? RPC_RESOURCE_EXHAUSTED
                    : err->code == ERR_EMPTY ? RPC_FAILED_PRECONDITION
                                             : RPC_INTERNAL,
                    text);
}

static void got_piece(void *context, int status, const uint8_t *bytes, size_t length,
                      const struct err *err);

/* One piece is read off the loop at a time, and the next when the client has room: a slow client
 * holds a piece, not the file. */
static void next_piece(struct backup_call *call)
{
    if (call->sent_bytes == call->size_bytes)
        call_finish(call);
    else
        export_read(call->file, call->sent_bytes, BACKUP_PIECE_BYTES, got_piece, call);
}

static void got_piece(void *context, int status, const uint8_t *bytes, size_t length,
                      const struct err *err)
{
    struct backup_call *call = context;
    struct err cut;

    if (status != 0 || length == 0) {
        err_set(&cut, ERR_IO, "the file is shorter than it was written");
        call_fail(call, status != 0 ? err : &cut);
        return;
    }
    sha256_update(&call->sha256, bytes, length);
    call->sent_bytes += length;
    if (send_chunk(call, bytes, length, NULL))
        next_piece(call);
}

/* The file is complete on this member's disk. */
static void file_taken(void *context, struct export_call *file, uint64_t size_bytes,
                       const struct err *err)
{
    struct backup_call *call = context;

    call->take = NULL;
    call->file = file;
    call->size_bytes = size_bytes;
    if (file == NULL)
        call_fail(call, err);
    else
        next_piece(call);
}

/* ---- from the server ---- */

static void on_message(struct rpc_call *rpc, void *data, const uint8_t *bytes, size_t length)
{
    struct backup *backup = data;
    Ckpt__V1__BackupRequest *asked;
    struct backup_call *call;

    if (rpc_call_data(rpc) != NULL)
        return; /* the server takes one request for a call that does not stream requests */
    asked = ckpt__v1__backup_request__unpack(NULL, length, bytes);
    if (asked == NULL) {
        rpc_call_finish(rpc, RPC_INVALID_ARGUMENT,
                        "UNDECODABLE: the request is no ckpt.v1.BackupRequest");
        return;
    }
    if (backup->call_count >= BACKUP_CALLS_MAX) {
        rpc_call_finish(rpc, RPC_RESOURCE_EXHAUSTED,
                        "FULL: 4 backups are under way on this member, no more at a time; wait, or "
                        "ask another member");
    } else {
        call = check_calloc(1, sizeof(*call));
        call->backup = backup;
        call->call = rpc;
        sha256_init(&call->sha256);
        sha256_start(&call->sha256);
        backup->call_count++;
        rpc_call_set_data(rpc, call);
        call->take = backup_take(backup->broker, asked->linearizable != 0, file_taken, call);
    }
    ckpt__v1__backup_request__free_unpacked(asked, NULL);
}
_Static_assert(BACKUP_CALLS_MAX == 4, "the refusal names it");

/* Before the file is there the buffer is empty anyway. */
static void on_writable(struct rpc_call *rpc, void *data)
{
    struct backup_call *call = rpc_call_data(rpc);

    (void)data;
    if (call != NULL && call->file != NULL)
        next_piece(call);
}

static void on_cancel(struct rpc_call *rpc, void *data)
{
    struct backup_call *call = rpc_call_data(rpc);

    (void)data;
    if (call != NULL)
        call_free(call);
}

struct backup *backup_new(struct broker *broker)
{
    static const struct rpc_handlers handlers = {
        .on_message = on_message, .on_writable = on_writable, .on_cancel = on_cancel};
    struct backup *backup = check_calloc(1, sizeof(*backup));

    CHECK(broker->rpc != NULL);
    backup->broker = broker;
    rpc_server_add_method(broker->rpc, "/ckpt.v1.OperatorService/Backup", false, true, &handlers,
                          backup);
    return backup;
}

void backup_free(struct backup *backup)
{
    if (backup == NULL)
        return;
    CHECK(backup->call_count == 0);
    free(backup);
}
