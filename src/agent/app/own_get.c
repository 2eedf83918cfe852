/* A checkpoint brought home. See own_get.h. */
#include "src/agent/app/own_get.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/v1/app.pb-c.h"
#include "ckpt/v1/broker.pb-c.h"
#include "src/agent/app/own_up.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/dest/worker.h"

#define GET_METHOD  "/ckpt.v1.AppService/GetOwnCheckpoint"
#define LIST_METHOD "/ckpt.v1.BrokerService/ListCheckpoints"

enum { GET_DEADLINE_MS = 24 * 3600 * 1000 /* of a part; a hung mount */ };

struct own_get {
    struct own_up up; /* the first member: own_up.h */
    Ckpt__V1__GetOwnCheckpointRequest *message;
    struct machine_user user;
    Ckpt__V1__ListCheckpointsReply *found; /* NULL: the leader has not answered */
    size_t part_next;
    uint64_t size_bytes, file_count; /* of the parts that are there */
};

static const Ckpt__V1__Checkpoint *checkpoint_of(const struct own_get *get)
{
    CHECK(get->found != NULL && get->found->n_checkpoints == 1);
    return get->found->checkpoints[0];
}

static void get_free(struct own_up *up)
{
    struct own_get *get = (struct own_get *)up;

    ckpt__v1__get_own_checkpoint_request__free_unpacked(get->message, NULL);
    if (get->found != NULL)
        ckpt__v1__list_checkpoints_reply__free_unpacked(get->found, NULL);
    free(get);
}

/* ---- the files ---- */

static void get_next(struct own_get *get);

static void get_reply(struct own_get *get)
{
    const Ckpt__V1__Checkpoint *checkpoint = checkpoint_of(get);
    Ckpt__V1__GetOwnCheckpointReply reply = CKPT__V1__GET_OWN_CHECKPOINT_REPLY__INIT;
    char id[CHECKPOINT_ID_TEXT_BYTES];
    struct buf bytes;

    log_info("own_got", "checkpoint=%s uid=%u parts=%zu size_bytes=%" PRIu64,
             checkpoint_id_format(checkpoint->checkpoint_id, id), (unsigned)get->up.uid,
             checkpoint->n_shards, get->size_bytes);
    reply.allocation_id = checkpoint->allocation_id;
    reply.size_bytes = get->size_bytes;
    reply.file_count = get->file_count;
    reply.parts = (uint32_t)checkpoint->n_shards;
    reply.snapshot_at_ms = checkpoint->snapshot_at_ms;
    reply.label = checkpoint->label;
    buf_init(&bytes);
    ckpt__v1__get_own_checkpoint_reply__pack(
        &reply, buf_extend(&bytes, ckpt__v1__get_own_checkpoint_reply__get_packed_size(&reply)));
    own_up_reply(&get->up, bytes.bytes, bytes.length);
    buf_close(&bytes);
}

static enum rpc_status status_of(int exit_code)
{
    return exit_code == WORKER_EXIT_CORRUPT || exit_code == WORKER_EXIT_NOT_FOUND ||
                   exit_code == WORKER_EXIT_REFUSED || exit_code == WORKER_EXIT_USAGE
               ? RPC_FAILED_PRECONDITION
               : RPC_UNAVAILABLE;
}

static uint64_t output_number(const char *output, const char *key)
{
    char text[24];

    return worker_output_get(output, key, text, sizeof(text)) == 0 ? strtoull(text, NULL, 10) : 0;
}

static void part_done(void *data, const struct worker_result *result)
{
    struct own_get *get = data;
    char text[OWN_UP_TEXT_BYTES], id[CHECKPOINT_ID_TEXT_BYTES], part[PART_NAME_BYTES];

    if (!own_up_worked(&get->up))
        return;
    if (result->exit_code == WORKER_EXIT_OK) {
        get->size_bytes += output_number(result->output, "size_bytes");
        get->file_count += output_number(result->output, "files");
        get->part_next++;
        get_next(get);
        return;
    }
    snprintf(text, sizeof(text), "checkpoint %s cannot be brought (%s): %.400s",
             checkpoint_id_format(checkpoint_of(get)->checkpoint_id, id),
             part_name_format(checkpoint_of(get)->shards[get->part_next]->part, part),
             result->error);
    own_up_refuse(&get->up, status_of(result->exit_code), text);
}

static void get_next(struct own_get *get)
{
    const Ckpt__V1__Checkpoint *checkpoint = checkpoint_of(get);
    const struct machine_ops *machine = &get->up.agent->machine;
    const Ckpt__V1__ShardInfo *shard;
    char part[PART_NAME_BYTES], to[PATH_MAX];
    struct err err = {0};

    if (get->part_next == checkpoint->n_shards) {
        get_reply(get);
        return;
    }
    shard = checkpoint->shards[get->part_next];
    part_name_format(shard->part, part);
    if (checkpoint->n_shards == 1)
        snprintf(to, sizeof(to), "%s", get->message->directory);
    else
        snprintf(to, sizeof(to), "%.*s/%s", (int)(sizeof(to) - sizeof(part) - 2),
                 get->message->directory, part);
    const char *const arguments[] = {"get",
                                     "--path",
                                     checkpoint->path,
                                     "--part",
                                     part,
                                     "--to",
                                     to,
                                     "--prefix",
                                     checkpoint->target_prefix,
                                     "--manifest-sha256",
                                     shard->manifest_sha256,
                                     NULL};
    if (machine->worker_start(machine->context, arguments, get->user, GET_DEADLINE_MS, part_done,
                              get, &get->up.worker, &err) == 0)
        return;
    get->up.worker = NULL;
    own_up_refuse(&get->up, RPC_UNAVAILABLE, err.text);
}

/* ---- which checkpoint ---- */

static enum rpc_status get_named(struct own_up *up, const char *groups,
                                 char text[OWN_UP_TEXT_BYTES])
{
    struct own_get *get = (struct own_get *)up;
    Ckpt__V1__ListCheckpointsRequest request = CKPT__V1__LIST_CHECKPOINTS_REQUEST__INIT;

    (void)groups, (void)text;
    request.checkpoint_id = get->message->checkpoint_id;
    ckpt__v1__list_checkpoints_request__pack(
        &request,
        buf_extend(&up->request, ckpt__v1__list_checkpoints_request__get_packed_size(&request)));
    return RPC_OK;
}

/* Of each shard, and there are some. */
static bool names_sums(const Ckpt__V1__Checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->n_shards; i++)
        if (checkpoint->shards[i]->manifest_sha256[0] == '\0')
            return false;
    return checkpoint->n_shards > 0;
}

/* Why it cannot be brought; NULL: it can. */
static const char *checkpoint_wrong(const Ckpt__V1__ListCheckpointsReply *found)
{
    const Ckpt__V1__Checkpoint *checkpoint;

    if (found == NULL || found->n_checkpoints != 1)
        return "the broker's answer is not one checkpoint";
    checkpoint = found->checkpoints[0];
    if (checkpoint->state != CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE)
        return "the checkpoint is not COMPLETE; ckpt-run checkpoints JOB lists those that are";
    if (checkpoint->damaged)
        return "the checkpoint is damaged at its destination; ckpt-run checkpoints JOB lists "
               "others";
    if (checkpoint->path[0] == '\0' || checkpoint->target_prefix[0] == '\0' ||
        !names_sums(checkpoint))
        return "the cluster does not say where the checkpoint lies, or the sums of its parts: its "
               "members are older than this agent, or its target was removed";
    return NULL;
}

static void get_answered(struct own_up *up, const uint8_t *bytes, size_t length)
{
    struct own_get *get = (struct own_get *)up;
    const char *wrong;

    CHECK(get->found == NULL);
    get->found = ckpt__v1__list_checkpoints_reply__unpack(NULL, length, bytes);
    wrong = checkpoint_wrong(get->found);
    if (wrong != NULL)
        own_up_refuse(up, RPC_FAILED_PRECONDITION, wrong);
    else
        get_next(get);
}

/* ---- the caller ---- */

/* The worker is given this user's rights. An agent that is not root gives its own, and serves
 * nobody else. */
static enum rpc_status caller_wrong(const struct agent *agent, const struct rpc_peer *peer,
                                    const Ckpt__V1__GetOwnCheckpointRequest *message,
                                    const char **ret_text)
{
    *ret_text = "the directory must be an absolute path of at most 4000 bytes";
    if (message->directory[0] != '/' || strlen(message->directory) > 4000)
        return RPC_INVALID_ARGUMENT;
    *ret_text = "checkpoint_id must be given";
    if (message->checkpoint_id == 0)
        return RPC_INVALID_ARGUMENT;
    *ret_text = "this agent does not run as root, and brings files to its own user only";
    if (geteuid() != 0 && peer->uid != geteuid())
        return RPC_PERMISSION_DENIED;
    return own_up_wrong(agent, peer, ret_text);
}

static void on_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    static const struct own_up_ops ops = {
        .named = get_named, .answered = get_answered, .free = get_free, .says_owner = true};
    Ckpt__V1__GetOwnCheckpointRequest *message =
        ckpt__v1__get_own_checkpoint_request__unpack(NULL, length, bytes);
    struct agent *agent = data;
    struct own_get *get;
    const char *text = "the request is no ckpt.v1.GetOwnCheckpointRequest";
    enum rpc_status status = RPC_INVALID_ARGUMENT;

    if (message != NULL)
        status = caller_wrong(agent, rpc_call_peer(call), message, &text);
    if (status != RPC_OK) {
        rpc_call_finish(call, status, text);
        if (message != NULL)
            ckpt__v1__get_own_checkpoint_request__free_unpacked(message, NULL);
        return;
    }
    get = check_calloc(1, sizeof(*get));
    get->up.ops = &ops;
    get->up.path = LIST_METHOD;
    get->message = message;
    get->user = machine_peer_user(&agent->machine, rpc_call_peer(call)->pid,
                                  rpc_call_peer(call)->uid, rpc_call_peer(call)->gid);
    own_up_start(agent, call, &get->up);
}

static void on_cancel(struct rpc_call *call, void *data)
{
    (void)data;
    own_up_cancel(call);
}

void own_get_serve(struct rpc_server *server, struct agent *agent)
{
    static const struct rpc_handlers handlers = {.on_message = on_message, .on_cancel = on_cancel};

    rpc_server_add_method(server, GET_METHOD, false, false, &handlers, agent);
}
